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
mod tests;
