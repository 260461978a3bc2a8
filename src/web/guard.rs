//! Access control.
//!
//! | client | reads | changes |
//! |---|---|---|
//! | an operator at the control socket | yes | yes |
//! | another user at the control socket | yes | its own jobs |
//! | this machine over loopback, by one of this site's names | yes | with the token |
//! | all others, also through a proxy | with the token | with the token |
//!
//! The token comes as `Authorization: Bearer`, or as a cookie, see [`super::login`]. A page of another site can make its
//! name lead here (DNS rebinding), but cannot change the name that the browser sends.

use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::{Problem, header_text};
use super::peer::{Peer, Process};
use super::{Site, login};
use crate::config::{Config, ConfigError, Token};
use crate::source::rate::Rates;

const WRONG_TOKEN: &str =
    "wrong token: expected `Authorization: Bearer` with the content of the daemon's `token_file`";

/// Maximum number of characters to repeat of a foreign name.
const LONGEST_HOST: usize = 100;
/// What everybody may read: it shows nothing of this machine.
const PUBLIC: [&str; 2] = ["/healthz", login::PATH];
const PUBLIC_FOLDER: &str = "/assets/";
/// A proxy's header.
const CLIENTS: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Who may read and change.
#[derive(Debug, Default)]
pub struct Access {
    /// Further names of this site.
    pub hosts: Vec<String>,
    pub token: Option<Token>,
    /// Limits wrong tokens of an address.
    wrong_tokens: Mutex<Rates<IpAddr>>,
    /// Limits what a user who is no operator reports.
    users_jobs: Mutex<Rates<u32>>,
}

/// Passes permitted requests.
pub async fn check_access(State(site): State<Site>, request: Request, next: Next) -> Response {
    let access = Arc::clone(&site.access.borrow());
    match access.check(&request) {
        Ok(()) => next.run(request).await,
        Err(Problem::Unauthorized(_)) if login::is_page(&request) => login::page(None),
        Err(problem) => problem.into_response(),
    }
}

impl Access {
    /// As configured. Reads the token.
    pub fn of(config: &Config) -> Result<Self, ConfigError> {
        Ok(Self { hosts: config.hosts.clone(), token: config.changes.token()?, ..Self::default() })
    }

    fn check(&self, request: &Request) -> Result<(), Problem> {
        let path = request.uri().path();
        if PUBLIC.contains(&path) || path.starts_with(PUBLIC_FOLDER) {
            return Ok(());
        }
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let client = request.extensions().get::<Peer>();
        match client {
            Some(Peer::Process(process)) if reads || process.is_operator => {}
            Some(Peer::Process(Process { user, .. })) if is_put_of_job(request) => {
                if !lock(&self.users_jobs).allows(*user, Instant::now()) {
                    return Err(too_many("reports of jobs"));
                }
            }
            Some(Peer::Process(Process { user, .. })) => {
                return Err(Problem::Forbidden(format!(
                    "user {user} may record its own jobs with `cowbell run`, and nothing else: only root and the group \
                     cowbell may change jobs"
                )));
            }
            Some(host) if reads && host.is_loopback() => self.check_name(request)?,
            _ => self.check_token(request, reads)?,
        }
        if reads { Ok(()) } else { check_kind(request.headers()) }
    }

    /// A foreign name reads nothing without the token.
    fn check_name(&self, request: &Request) -> Result<(), Problem> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = hosts.next().map_or("", |host| host.to_str().unwrap_or_default());
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
        let Some(token) = &self.token else {
            return Err(Problem::Forbidden(
                "over HTTP this needs a token: set `token_file` in [changes], or use `cowbell` on that machine".into(),
            ));
        };
        let headers = request.headers();
        let is_right = match headers.contains_key(header::AUTHORIZATION) {
            true => Some(has_token(headers, token)),
            false => login::has_cookie(headers, token),
        };
        let Some(is_right) = is_right else {
            return Err(Problem::Unauthorized(
                "this needs the token: send `Authorization: Bearer` with the content of the daemon's `token_file`".into(),
            ));
        };
        self.check_guess(is_right, request.extensions().get(), headers)?;
        match reads || headers.contains_key(header::AUTHORIZATION) || is_from_own_page(headers) {
            true => Ok(()),
            false => Err(Problem::Forbidden("changes from pages of other sites are not accepted".into())),
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
        let (client, now) = (address(client, headers), Instant::now());
        let mut wrong_tokens = lock(&self.wrong_tokens);
        let may_guess = match is_right {
            true => wrong_tokens.would_allow(&client, now),
            false => wrong_tokens.allows(client, now),
        };
        match (may_guess, is_right) {
            (false, _) => Err(too_many("wrong tokens")),
            (true, false) => Err(Problem::Unauthorized(WRONG_TOKEN.into())),
            (true, true) => Ok(()),
        }
    }
}

fn lock<C: Eq + Hash>(rates: &Mutex<Rates<C>>) -> MutexGuard<'_, Rates<C>> {
    rates.lock().unwrap_or_else(PoisonError::into_inner)
}

fn too_many(what: &str) -> Problem {
    Problem::TooMany(format!("too many {what}: try again in a second"))
}

/// The address of a client, which a proxy adds last. One client has all IPv6 addresses of a network.
fn address(client: Option<&Peer>, headers: &HeaderMap) -> IpAddr {
    let forwarded = || {
        headers.get_all(CLIENTS).iter().next_back()?.to_str().ok()?.rsplit(',').next()?.trim().parse().ok()
    };
    let address = match client {
        Some(Peer::Host(address)) => Some(address.to_canonical()),
        _ => forwarded(),
    };
    match address {
        Some(IpAddr::V6(address)) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        Some(address) => address,
        None => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// Users who are no operators may start and end jobs; [`super::api`] keeps them to their own.
fn is_put_of_job(request: &Request) -> bool {
    let key = request.uri().path().strip_prefix("/api/v1/jobs/");
    *request.method() == Method::PUT && key.is_some_and(|key| !key.contains('/'))
}

/// Another site's page cannot send this kind without asking first.
fn check_kind(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = header_text(headers, header::CONTENT_TYPE);
    match kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            Err(Problem::Forbidden("changes must be JSON: send `Content-Type: application/json`".into()))
        }
    }
}

/// Whether a request with a cookie comes from a page of this site.
fn is_from_own_page(headers: &HeaderMap) -> bool {
    let origin = header_text(headers, header::ORIGIN);
    let origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    origin.is_some_and(|origin| origin == header_text(headers, header::HOST))
}

/// Whether there is exactly one `Authorization`, with the token.
fn has_token(headers: &HeaderMap, token: &Token) -> bool {
    let mut offered = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(offered), None) = (offered.next(), offered.next()) else { return false };
    let Some((scheme, offered)) = offered.as_bytes().split_at_checked(b"Bearer ".len()) else { return false };
    scheme.eq_ignore_ascii_case(b"Bearer ") && token.is(offered)
}

/// An address, `localhost`, or a configured name.
fn is_own_name(name: &str, hosts: &[String]) -> bool {
    let is_same = |own: &String| own.eq_ignore_ascii_case(name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok() || hosts.iter().any(is_same)
}

/// A `Host` header without its port and brackets.
fn host_name(host: &str) -> &str {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    name.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn access() -> Access {
        Access {
            hosts: vec!["db1.example.com".into()],
            token: Some(Token::parse(TOKEN).unwrap()),
            ..Access::default()
        }
    }

    fn check(access: &Access, peer: &Peer, request: &str, headers: &[(&str, &str)], expected: &str) {
        let (method, path) = request.split_once(' ').unwrap();
        let mut built = Request::builder().method(method).uri(path).extension(peer.clone());
        for (name, value) in headers {
            built = built.header(*name, *value);
        }
        let found = match access.check(&built.body(Body::empty()).unwrap()) {
            Ok(()) => "ok".to_string(),
            Err(problem) => format!("{problem:?}"),
        };
        assert!(
            found.contains(expected),
            "{request} {peer:?} {headers:?}: expected {expected:?} in {found:?}"
        );
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
    const HOST: (&str, &str) = ("host", "127.0.0.1:2692");
    const BEARER: (&str, &str) = ("authorization", "bearer 0123456789abcdef");
    const WRONG: (&str, &str) = ("authorization", "Bearer 0123456789abcdee");

    fn at(address: &str) -> Peer {
        Peer::Host(address.parse().unwrap())
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
        for host in
            ["evil.example", "localhost.evil.example:2692", "127.0.0.1.evil.example", "db1.example.com.evil"]
        {
            assert!(!own(host), "{host}");
        }
    }

    #[test]
    fn reading_is_free_on_loopback_by_own_names() {
        let access = access();
        check(&access, &at("127.0.0.1"), "GET /jobs", &[HOST], "ok");
        check(&access, &at("::ffff:127.0.0.1"), "HEAD /", &[("host", "db1.example.com")], "ok");
        check(&access, &at("127.0.0.1"), "GET /", &[("host", "evil.example")], "has no name");
        check(&access, &at("127.0.0.1"), "GET /", &[("host", "evil.example"), BEARER], "ok");
        check(&access, &at("127.0.0.1"), "GET /", &[("host", "")], "has no name");
        check(&access, &at("127.0.0.1"), "GET /", &[HOST, ("host", "evil.example")], "has no name");
        for peer in [at("10.0.0.5"), Peer::Proxy] {
            check(&access, &peer, "GET /", &[HOST], "Unauthorized(\"this needs the token");
            check(&access, &peer, "GET /", &[HOST, WRONG], "Unauthorized(\"wrong token");
            check(&access, &peer, "GET /", &[HOST, BEARER], "ok");
            check(&access, &peer, "GET /", &[HOST, BEARER, BEARER], "Unauthorized");
            for public in ["/healthz", "/assets/cowbell.css", "/login"] {
                check(&access, &peer, &format!("GET {public}"), &[("host", "evil.example")], "ok");
            }
        }
        check(&Access::default(), &Peer::Proxy, "GET /", &[HOST], "set `token_file`");
    }

    #[test]
    fn changes_over_http_need_the_token_from_wherever() {
        let access = access();
        for peer in [at("127.0.0.1"), at("10.0.0.5"), Peer::Proxy] {
            for change in ["PUT /api/v1/jobs/a", "DELETE /api/v1/jobs/1", "POST /api/v1/jobs/import"] {
                check(&access, &peer, change, &[HOST, JSON], "Unauthorized(\"this needs the token");
                check(&access, &peer, change, &[HOST, JSON, BEARER], "ok");
                check(&access, &peer, change, &[HOST, BEARER], "must be JSON");
                check(&Access::default(), &peer, change, &[HOST, JSON], "set `token_file`");
            }
        }
    }

    #[test]
    fn a_cookie_changes_things_from_own_pages_only() {
        let access = access();
        let cookie = login::cookie(access.token.as_ref().unwrap());
        let cookie = ("cookie", &*cookie);
        check(&access, &Peer::Proxy, "GET /", &[HOST, cookie], "ok");
        let own = ("origin", "http://127.0.0.1:2692");
        check(&access, &Peer::Proxy, "POST /api/v1/jobs/1/accept", &[HOST, JSON, cookie, own], "ok");
        for origin in ["http://evil.example", "null", "http://127.0.0.1:2692.evil.example"] {
            let headers = [HOST, JSON, cookie, ("origin", origin)];
            check(&access, &Peer::Proxy, "POST /api/v1/jobs/1/accept", &headers, "of other sites");
        }
        check(&access, &Peer::Proxy, "POST /api/v1/jobs/1/accept", &[HOST, JSON, cookie], "of other sites");
        check(
            &access,
            &Peer::Proxy,
            "GET /",
            &[HOST, ("cookie", "cowbell=0123456789abcdef")],
            "Unauthorized",
        );
    }

    #[test]
    fn users_of_the_control_socket_may_put_jobs_only() {
        let process = |is_operator| Peer::Process(Process { pid: 1, user: 1000, is_operator });
        let access = Access::default();
        for change in ["DELETE /api/v1/jobs/1", "POST /api/v1/jobs/import", "PUT /api/v1/jobs/1/certificate"]
        {
            check(&access, &process(false), change, &[JSON], "user 1000 may record its own jobs");
            check(&access, &process(true), change, &[JSON], "ok");
        }
        check(&access, &process(false), "PUT /api/v1/jobs/run-1", &[JSON], "ok");
        check(&access, &process(false), "GET /api/v1/status", &[], "ok");
    }

    #[test]
    fn a_guesser_has_to_wait_and_nobody_else() {
        let access = access();
        let guess = |client: &Peer, headers: &HeaderMap| {
            let is_compared = |_: &i32| {
                matches!(access.check_guess(false, Some(client), headers), Err(Problem::Unauthorized(_)))
            };
            let guesses = (0..1_000).filter(is_compared).count();
            assert!((100..200).contains(&guesses), "{guesses}");
        };
        guess(&at("10.0.0.5"), &HeaderMap::new());
        let cookie = login::cookie(access.token.as_ref().unwrap());
        for right in [BEARER, ("cookie", &*cookie)] {
            check(&access, &at("10.0.0.5"), "GET /", &[right], "TooMany");
            check(&access, &at("10.0.0.6"), "GET /", &[right], "ok");
            check(&access, &Peer::Proxy, "GET /", &[right], "ok");
        }
        let forwarded = ("x-forwarded-for", "8.8.8.8, 2001:db8::1");
        guess(&Peer::Proxy, &HeaderMap::from_iter([(CLIENTS, forwarded.1.parse().unwrap())]));
        check(&access, &Peer::Proxy, "GET /", &[forwarded, BEARER], "TooMany");
        check(&access, &Peer::Proxy, "GET /", &[("x-forwarded-for", "2001:db8::2"), BEARER], "TooMany");
        check(&access, &Peer::Proxy, "GET /", &[("x-forwarded-for", "8.8.8.8"), BEARER], "ok");
    }

    #[test]
    fn a_wrong_cookie_is_a_guess() {
        let access = access();
        for _ in 0..200 {
            let _ = access.check_token(
                &Request::builder().header("cookie", "cowbell=guess").body(Body::empty()).unwrap(),
                true,
            );
        }
        check(&access, &Peer::Proxy, "GET /", &[BEARER], "TooMany");
        check(&access, &Peer::Proxy, "GET /", &[("cookie", "theme=dark")], "this needs the token");
    }
}
