//! Access control.
//!
//! | client | reads | changes |
//! |---|---|---|
//! | an operator at the control socket | yes | yes |
//! | another user at the control socket | yes | its own jobs |
//! | this machine over loopback, by one of this site's names | yes | with the token |
//! | all others, also through a proxy | with the token, or the one that only reads | with the token |
//!
//! Each group of routes has a [`Right`]; [`super::routes`] says which.
//!
//! The token comes as `Authorization: Bearer`, or as a cookie, see [`super::login`]. A page of another site can make its
//! name lead here (DNS rebinding), but cannot change the name that the browser sends.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::{Problem, header_text};
use super::connections::{CountedClient, Peer, PeerProcess};
use super::{SharedSite, login};
use crate::config::{Config, ConfigError, Token};
use crate::source::rate::Rates;

const WRONG_TOKEN: &str =
    "wrong token: expected `Authorization: Bearer` with the content of the daemon's `token_file`";

/// Maximum number of characters to repeat of a foreign name.
const LONGEST_HOST: usize = 100;
/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Everybody: it shows nothing of this machine.
    Public,
    /// As in the table above.
    Usual,
    /// Users of the control socket too: each records its own jobs.
    OwnJobs,
    /// Who may read a demo may also play it again, from its own pages.
    PlayAgain,
}

/// Whether the buttons of a page work, which they say before the click.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeAccess {
    Allowed,
    NeedLogin,
    /// There is no token.
    Refused,
}

impl ChangeAccess {
    pub fn text(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::NeedLogin => "login",
            Self::Refused => "refused",
        }
    }
}

/// Who may read and change.
#[derive(Debug, Default)]
pub struct Access {
    /// Further names of this site.
    pub hosts: Vec<String>,
    pub token: Option<Token>,
    /// Reads, and changes nothing.
    pub read_token: Option<Token>,
    /// Limits wrong tokens.
    wrong_tokens: Rates<CountedClient>,
    /// Limits what a user who is no operator reports.
    users_jobs: Rates<u32>,
}

/// Passes permitted requests.
pub async fn check(
    State((site, right)): State<(SharedSite, Right)>,
    request: Request,
    next: Next,
) -> Response {
    let access = Arc::clone(&site.access.borrow());
    match access.check(right, &request) {
        Ok(()) => next.run(request).await,
        Err(Problem::Unauthorized(_)) if login::is_page(&request) => login::page(None),
        Err(problem) => problem.into_response(),
    }
}

impl Access {
    /// As configured. Reads the token.
    pub fn of(config: &Config) -> Result<Self, ConfigError> {
        Ok(Self {
            hosts: config.hosts.clone(),
            token: config.changes.token()?,
            read_token: config.changes.read_token()?,
            ..Self::default()
        })
    }

    fn check(&self, right: Right, request: &Request) -> Result<(), Problem> {
        let is_read = matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        );
        match right {
            Right::Public => Ok(()),
            Right::PlayAgain => {
                self.check_client(right, request, true)?;
                if is_from_own_page(request.headers()) {
                    Ok(())
                } else {
                    Err(from_other_site())
                }
            }
            Right::Usual | Right::OwnJobs => {
                self.check_client(right, request, is_read)?;
                if is_read { Ok(()) } else { check_kind(request) }
            }
        }
    }

    fn check_client(&self, right: Right, request: &Request, reads: bool) -> Result<(), Problem> {
        match request.extensions().get::<Peer>() {
            Some(Peer::Process(process)) if reads || process.is_operator => Ok(()),
            Some(Peer::Process(PeerProcess { user, .. })) if right == Right::OwnJobs => {
                if self.users_jobs.allows(*user) {
                    Ok(())
                } else {
                    Err(too_many("reports of jobs"))
                }
            }
            Some(Peer::Process(PeerProcess { user, .. })) => Err(Problem::Forbidden(format!(
                "user {user} may record its own jobs with `cowbell run`, and nothing else: only root and the group \
                 cowbell may change jobs"
            ))),
            Some(host) if reads && host.is_loopback() => self.check_name(request),
            _ => self.check_token(request, reads),
        }
    }

    pub fn changes(&self, headers: &HeaderMap) -> ChangeAccess {
        match &self.token {
            None => ChangeAccess::Refused,
            Some(token) if is_right(headers, token) == Some(true) => ChangeAccess::Allowed,
            Some(_) => ChangeAccess::NeedLogin,
        }
    }

    /// Those that read.
    pub fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.token.iter().chain(&self.read_token)
    }

    /// A foreign name reads nothing without the token.
    fn check_name(&self, request: &Request) -> Result<(), Problem> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = hosts
            .next()
            .map_or("", |host| host.to_str().unwrap_or_default());
        if hosts.next().is_none() && is_own_name(host_name(host), &self.hosts) {
            return Ok(());
        }
        self.check_token(request, true).map_err(|_| {
            let shown: String = host.chars().take(LONGEST_HOST).collect();
            Problem::Forbidden(format!(
                "this site has no name {shown:?}: use its address or localhost, or add the name to `hosts` in the \
                 configuration"
            ))
        })
    }

    fn check_token(&self, request: &Request, reads: bool) -> Result<(), Problem> {
        let accepted: Vec<&Token> = if reads {
            self.tokens().collect()
        } else {
            self.token.iter().collect()
        };
        if accepted.is_empty() {
            return Err(Problem::Forbidden(
                "over HTTP this needs a token: set `token_file` in [changes], or use `cowbell` on that machine".into(),
            ));
        }
        let headers = request.headers();
        let has_header = headers.contains_key(header::AUTHORIZATION);
        let is_offered = |token: &Token| is_right(headers, token) == Some(true);
        let only_reads = self.read_token.as_ref().is_some_and(is_offered);
        if !reads && only_reads && !self.token.as_ref().is_some_and(is_offered) {
            return Err(Problem::Forbidden(
                "this token only reads: send the one of `token_file`".into(),
            ));
        }
        let offered = accepted.into_iter().map(|token| is_right(headers, token));
        let Some(is_right) = offered.reduce(|one, other| one.max(other)).flatten() else {
            return Err(Problem::Unauthorized(
                "this needs the token: send `Authorization: Bearer` with the content of the daemon's `token_file`".into(),
            ));
        };
        self.check_guess(is_right, request.extensions().get(), headers)?;
        if reads || has_header || is_from_own_page(headers) {
            Ok(())
        } else {
            Err(from_other_site())
        }
    }

    /// Refuses a wrong token, and after many of them for a while the right one too: otherwise a guesser would not have to
    /// wait.
    pub fn check_guess(
        &self,
        is_right: bool,
        client: Option<&Peer>,
        headers: &HeaderMap,
    ) -> Result<(), Problem> {
        let client = client.map(|peer| peer.client(headers));
        // Each request has its peer.
        let client = client.unwrap_or(CountedClient::User(u32::MAX));
        let may_guess = if is_right {
            self.wrong_tokens.would_allow(&client)
        } else {
            self.wrong_tokens.allows(client)
        };
        if !may_guess {
            return Err(too_many("wrong tokens"));
        }
        if !is_right {
            return Err(Problem::Unauthorized(WRONG_TOKEN.into()));
        }
        Ok(())
    }
}

fn from_other_site() -> Problem {
    Problem::Forbidden("changes from pages of other sites are not accepted".into())
}

fn too_many(what: &str) -> Problem {
    Problem::TooMany(format!("too many {what}: try again in a second"))
}

/// Another site's page cannot send JSON without asking first. A change without a body needs no kind: a form always has one.
fn check_kind(request: &Request) -> Result<(), Problem> {
    let kind = header_text(request.headers(), header::CONTENT_TYPE);
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let has_no_body = kind.is_empty() && request.body().is_end_stream();
    if has_no_body || kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Problem::Forbidden(
        "changes must be JSON: send `Content-Type: application/json`".into(),
    ))
}

/// Whether a browser sends a request from a page of this site.
fn is_from_own_page(headers: &HeaderMap) -> bool {
    let origin = header_text(headers, header::ORIGIN);
    let origin = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    origin.is_some_and(|origin| origin == header_text(headers, header::HOST))
}

/// Whether a request has the right token; `None` without one.
fn is_right(headers: &HeaderMap, token: &Token) -> Option<bool> {
    if headers.contains_key(header::AUTHORIZATION) {
        return Some(has_token(headers, token));
    }
    login::has_cookie(headers, token)
}

/// Whether there is exactly one `Authorization`, with the token.
fn has_token(headers: &HeaderMap, token: &Token) -> bool {
    let mut offered = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(offered), None) = (offered.next(), offered.next()) else {
        return false;
    };
    let Some((scheme, offered)) = offered.as_bytes().split_at_checked(b"Bearer ".len()) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ") && token.is(offered)
}

/// An address, `localhost`, or a configured name.
fn is_own_name(name: &str, hosts: &[String]) -> bool {
    let is_same = |own: &String| own.eq_ignore_ascii_case(name);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || hosts.iter().any(is_same)
}

/// A `Host` header without its port and brackets.
fn host_name(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    //! Who may read and change.

    use std::net::SocketAddr;

    use axum::body::Body;

    use super::*;
    use crate::web::connections::{FORWARDED_FOR, TcpPeer};

    const PROXY: Peer = Peer::Proxy {
        user: 33,
        is_known: true,
    };
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn access() -> Access {
        Access {
            hosts: vec!["db1.example.com".into()],
            token: Some(Token::parse(TOKEN).unwrap()),
            ..Access::default()
        }
    }

    fn check(
        access: &Access,
        peer: &Peer,
        request: &str,
        headers: &[(&str, &str)],
        expected: &str,
    ) {
        let (method, path) = request.split_once(' ').unwrap();
        let mut built = Request::builder()
            .method(method)
            .uri(path)
            .extension(peer.clone());
        for (name, value) in headers {
            built = built.header(*name, *value);
        }
        let right = match path {
            "/demo/again" => Right::PlayAgain,
            "/healthz" => Right::Public,
            _ if path.starts_with("/api/v1/marks/") => Right::OwnJobs,
            _ => Right::Usual,
        };
        let body = if headers.contains(&NO_JSON) {
            "a=b"
        } else {
            ""
        };
        let found = match access.check(right, &built.body(Body::from(body)).unwrap()) {
            Ok(()) => "ok".to_string(),
            Err(problem) => format!("{problem:?}"),
        };
        assert!(
            found.contains(expected),
            "{request} {peer:?} {headers:?}: expected {expected:?} in {found:?}"
        );
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
    const NO_JSON: (&str, &str) = ("content-type", "text/plain");
    const HOST: (&str, &str) = ("host", "127.0.0.1:2692");
    const BEARER: (&str, &str) = ("authorization", "bearer 0123456789abcdef0123456789abcdef");
    const WRONG: (&str, &str) = ("authorization", "Bearer 0123456789abcdee");

    fn at(address: &str) -> Peer {
        let address = SocketAddr::new(address.parse().unwrap(), 40_000);
        Peer::Host(TcpPeer::new(address, address))
    }

    #[test]
    fn only_own_names_are_served() {
        let own = |host: &str| is_own_name(host_name(host), &["db1.example.com".into()]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:2692",
            "[::1]:2692",
            "LOCALHOST:1",
            "10.0.0.5:2692",
            "DB1.example.com:80",
        ] {
            assert!(own(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:2692",
            "127.0.0.1.evil.example",
            "db1.example.com.evil",
        ] {
            assert!(!own(host), "{host}");
        }
    }

    #[test]
    fn reading_is_free_on_loopback_by_own_names() {
        let access = access();
        check(&access, &at("127.0.0.1"), "GET /jobs", &[HOST], "ok");
        check(
            &access,
            &at("::ffff:127.0.0.1"),
            "HEAD /",
            &[("host", "db1.example.com")],
            "ok",
        );
        check(
            &access,
            &at("127.0.0.1"),
            "GET /",
            &[("host", "evil.example")],
            "has no name",
        );
        check(
            &access,
            &at("127.0.0.1"),
            "GET /",
            &[("host", "evil.example"), BEARER],
            "ok",
        );
        check(
            &access,
            &at("127.0.0.1"),
            "GET /",
            &[("host", "")],
            "has no name",
        );
        check(
            &access,
            &at("127.0.0.1"),
            "GET /",
            &[HOST, ("host", "evil.example")],
            "has no name",
        );
        for peer in [at("10.0.0.5"), PROXY] {
            check(
                &access,
                &peer,
                "GET /",
                &[HOST],
                "Unauthorized(\"this needs the token",
            );
            check(
                &access,
                &peer,
                "GET /",
                &[HOST, WRONG],
                "Unauthorized(\"wrong token",
            );
            check(&access, &peer, "GET /", &[HOST, BEARER], "ok");
            check(
                &access,
                &peer,
                "GET /",
                &[HOST, BEARER, BEARER],
                "Unauthorized",
            );
            check(
                &access,
                &peer,
                "GET /healthz",
                &[("host", "evil.example")],
                "ok",
            );
        }
        check(
            &Access::default(),
            &PROXY,
            "GET /",
            &[HOST],
            "set `token_file`",
        );
    }

    #[test]
    fn changes_over_http_need_the_token_from_wherever() {
        let access = access();
        for peer in [at("127.0.0.1"), at("10.0.0.5"), PROXY] {
            for change in [
                "PUT /api/v1/marks/a",
                "DELETE /api/v1/jobs/1",
                "POST /api/v1/jobs/import",
            ] {
                check(
                    &access,
                    &peer,
                    change,
                    &[HOST, JSON],
                    "Unauthorized(\"this needs the token",
                );
                check(&access, &peer, change, &[HOST, JSON, BEARER], "ok");
                check(&access, &peer, change, &[HOST, BEARER], "ok");
                let form = [HOST, BEARER, NO_JSON];
                check(&access, &peer, change, &form, "must be JSON");
                check(
                    &Access::default(),
                    &peer,
                    change,
                    &[HOST, JSON],
                    "set `token_file`",
                );
            }
        }
    }

    #[test]
    fn a_cookie_changes_things_from_own_pages_only() {
        let access = access();
        let cookie = login::cookie(access.token.as_ref().unwrap());
        let cookie = ("cookie", &*cookie);
        check(&access, &PROXY, "GET /", &[HOST, cookie], "ok");
        let own = ("origin", "http://127.0.0.1:2692");
        check(
            &access,
            &PROXY,
            "POST /api/v1/jobs/1/accept",
            &[HOST, JSON, cookie, own],
            "ok",
        );
        for origin in [
            "http://evil.example",
            "null",
            "http://127.0.0.1:2692.evil.example",
        ] {
            let headers = [HOST, JSON, cookie, ("origin", origin)];
            check(
                &access,
                &PROXY,
                "POST /api/v1/jobs/1/accept",
                &headers,
                "of other sites",
            );
        }
        check(
            &access,
            &PROXY,
            "POST /api/v1/jobs/1/accept",
            &[HOST, JSON, cookie],
            "of other sites",
        );
        check(
            &access,
            &PROXY,
            "GET /",
            &[HOST, ("cookie", "cowbell=0123456789abcdef0123456789abcdef")],
            "Unauthorized",
        );
    }

    #[test]
    fn readers_of_a_demo_play_it_again_from_its_own_pages() {
        let access = access();
        let check = |peer: &Peer, headers: &[(&str, &str)], expected: &str| {
            check(&access, peer, "POST /demo/again", headers, expected);
        };
        let own = ("origin", "http://127.0.0.1:2692");
        check(&at("127.0.0.1"), &[HOST, own], "ok");
        check(&at("127.0.0.1"), &[HOST], "of other sites");
        check(
            &at("127.0.0.1"),
            &[HOST, ("origin", "http://evil.example")],
            "of other sites",
        );
        check(
            &at("127.0.0.1"),
            &[("host", "evil.example"), ("origin", "http://evil.example")],
            "has no name",
        );
        check(&at("10.0.0.5"), &[HOST, own], "Unauthorized");
        check(&at("10.0.0.5"), &[HOST, own, BEARER], "ok");
    }

    #[test]
    fn users_of_the_control_socket_may_put_jobs_only() {
        let process = |is_operator| {
            Peer::Process(PeerProcess {
                pid: 1,
                user: 1000,
                is_operator,
            })
        };
        let access = Access::default();
        for change in [
            "DELETE /api/v1/jobs/1",
            "POST /api/v1/jobs/import",
            "PUT /api/v1/jobs/1/certificate",
        ] {
            check(
                &access,
                &process(false),
                change,
                &[JSON],
                "user 1000 may record its own jobs",
            );
            check(&access, &process(true), change, &[JSON], "ok");
        }
        check(
            &access,
            &process(false),
            "PUT /api/v1/marks/run-1",
            &[JSON],
            "ok",
        );
        check(&access, &process(false), "GET /api/v1/status", &[], "ok");
    }

    #[test]
    fn a_guesser_has_to_wait_and_nobody_else() {
        let access = access();
        let guess = |client: &Peer, headers: &HeaderMap| {
            let is_compared = |_: &i32| {
                matches!(
                    access.check_guess(false, Some(client), headers),
                    Err(Problem::Unauthorized(_))
                )
            };
            let guesses = (0..1_000).filter(is_compared).count();
            assert!((100..200).contains(&guesses), "{guesses}");
        };
        guess(&at("10.0.0.5"), &HeaderMap::new());
        let cookie = login::cookie(access.token.as_ref().unwrap());
        for right in [BEARER, ("cookie", &*cookie)] {
            check(&access, &at("10.0.0.5"), "GET /", &[right], "TooMany");
            check(&access, &at("10.0.0.6"), "GET /", &[right], "ok");
            check(&access, &PROXY, "GET /", &[right], "ok");
        }
        let forwarded = ("x-forwarded-for", "8.8.8.8, 2001:db8::1");
        guess(
            &PROXY,
            &HeaderMap::from_iter([(FORWARDED_FOR, forwarded.1.parse().unwrap())]),
        );
        check(&access, &PROXY, "GET /", &[forwarded, BEARER], "TooMany");
        check(
            &access,
            &PROXY,
            "GET /",
            &[("x-forwarded-for", "2001:db8::2"), BEARER],
            "TooMany",
        );
        check(
            &access,
            &PROXY,
            "GET /",
            &[("x-forwarded-for", "8.8.8.8"), BEARER],
            "ok",
        );
    }

    #[test]
    fn the_second_token_reads_and_changes_nothing() {
        let second = "fedcba9876543210fedcba9876543210";
        let access = Access {
            read_token: Some(Token::parse(second).unwrap()),
            ..access()
        };
        let header = ("authorization", &*format!("Bearer {second}"));
        let cookie = login::cookie(access.read_token.as_ref().unwrap());
        let own = ("origin", "http://127.0.0.1:2692");
        for peer in [at("10.0.0.5"), PROXY] {
            for offered in [header, ("cookie", &*cookie)] {
                for path in ["GET /", "GET /metrics", "GET /api/v1/jobs"] {
                    check(&access, &peer, path, &[HOST, offered], "ok");
                }
                for change in ["DELETE /api/v1/jobs/1", "PUT /api/v1/marks/a"] {
                    let headers = [HOST, JSON, own, offered];
                    check(&access, &peer, change, &headers, "this token only reads");
                }
            }
            check(&access, &peer, "GET /", &[HOST, BEARER], "ok");
            let wrong = ("authorization", "Bearer 00000000000000000000000000000000");
            check(&access, &peer, "GET /", &[HOST, wrong], "Unauthorized");
            check(&access, &peer, "GET /", &[HOST], "Unauthorized");
        }
        let offered = HeaderMap::from_iter([(header::COOKIE, cookie.parse().unwrap())]);
        assert_eq!(access.changes(&offered), ChangeAccess::NeedLogin);
        // Where both files have the same token, it changes.
        let same = Access {
            read_token: Some(Token::parse(TOKEN).unwrap()),
            ..self::access()
        };
        let change = [HOST, JSON, BEARER];
        check(&same, &PROXY, "DELETE /api/v1/jobs/1", &change, "ok");
    }

    #[test]
    fn a_wrong_cookie_is_a_guess() {
        let access = access();
        for _ in 0..200 {
            let _ = access.check_token(
                &Request::builder()
                    .extension(PROXY)
                    .header("cookie", "cowbell=guess")
                    .body(Body::empty())
                    .unwrap(),
                true,
            );
        }
        check(&access, &PROXY, "GET /", &[BEARER], "TooMany");
        check(
            &access,
            &PROXY,
            "GET /",
            &[("cookie", "theme=dark")],
            "this needs the token",
        );
    }

    #[test]
    fn a_user_of_this_machine_cannot_pretend_to_be_many_hosts() {
        cannot_pretend(&Peer::Process(PeerProcess {
            pid: 1,
            user: 1000,
            is_operator: false,
        }));
        cannot_pretend(&Peer::Proxy {
            user: 1000,
            is_known: false,
        });
    }

    fn cannot_pretend(user: &Peer) {
        let access = access();
        let guess = |number: u32, is_right| {
            let address = format!("10.0.{}.{}", number / 256, number % 256);
            let forwarded = (
                super::super::connections::FORWARDED_FOR,
                address.parse().unwrap(),
            );
            access.check_guess(is_right, Some(user), &HeaderMap::from_iter([forwarded]))
        };
        let wrong = (0..300)
            .filter(|number| matches!(guess(*number, false), Err(Problem::Unauthorized(_))));
        assert!(wrong.count() <= 110);
        assert!(matches!(guess(300, true), Err(Problem::TooMany(_))));
        // Another host still may, also through the proxy.
        check(
            &access,
            &PROXY,
            "GET /",
            &[("x-forwarded-for", "10.0.0.1"), BEARER],
            "ok",
        );
        let other = at("10.0.0.1");
        assert!(
            access
                .check_guess(true, Some(&other), &HeaderMap::new())
                .is_ok()
        );
    }
}
