//! Access control: requests must name this site, and changes need the token, or must come from this machine.
//!
//! A foreign page can make a browser send requests, and DNS rebinding can make them look local. So changes without a
//! token must be JSON, arrive over loopback, address a loopback host, and have no foreign origin.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::Problem;
use crate::config::Token;

const WRONG_TOKEN: &str =
    "wrong token: expected `Authorization: Bearer` with the content of the daemon's `token_file`";

/// Maximum number of characters to repeat of a foreign name.
const LONGEST_HOST: usize = 100;
/// Headers of a proxy, whose clients are on other machines.
const PROXY_HEADERS: [&str; 5] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];

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

/// What requests are checked against.
#[derive(Clone)]
pub struct Access {
    /// Further names of this site.
    pub hosts: Arc<[String]>,
    pub token: Option<Arc<Token>>,
}

/// Passes reading requests for this site's own names, and permitted changes.
pub async fn check_access(State(access): State<Access>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let checked = match reads {
        true => access.check_name(&request),
        false => check(peer, request.headers(), access.token.as_deref()),
    };
    match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Access {
    /// A page of another site can make its name lead here (DNS rebinding), but cannot change the name that the browser sends.
    fn check_name(&self, request: &Request) -> Result<(), Problem> {
        let host = text(request.headers(), header::HOST);
        let is_ours = host.is_empty() || is_own_name(host_name(host), &self.hosts);
        let has_token = || self.token.as_deref().is_some_and(|token| has_token(request.headers(), token));
        if is_ours || request.uri().path() == "/healthz" || has_token() {
            return Ok(());
        }
        let shown: String = host.chars().take(LONGEST_HOST).collect();
        Err(Problem::Forbidden(format!(
            "this site has no name {shown:?}: use its address or localhost, or add the name to `hosts` in the configuration"
        )))
    }
}

/// An address, `localhost`, or a configured name.
fn check(peer: Option<IpAddr>, headers: &HeaderMap, token: Option<&Token>) -> Result<(), Problem> {
    let offers_token = headers.contains_key(header::AUTHORIZATION);
    if let Some(token) = token.filter(|_| offers_token) {
        if !has_token(headers, token) {
            return Err(Problem::Unauthorized(WRONG_TOKEN.into()));
        }
    } else if let Some(sentence) = refusal(peer, headers) {
        return Err(Problem::Forbidden(sentence.into()));
    }
    let kind = text(headers, header::CONTENT_TYPE);
    match kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            Err(Problem::Forbidden("changes must be JSON: send `Content-Type: application/json`".into()))
        }
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether there is exactly one `Authorization`, with the token.
fn has_token(headers: &HeaderMap, token: &Token) -> bool {
    let mut offered = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(offered), None) = (offered.next(), offered.next()) else { return false };
    let Some((scheme, offered)) = offered.as_bytes().split_at_checked(b"Bearer ".len()) else { return false };
    scheme.eq_ignore_ascii_case(b"Bearer ") && token.is(offered)
}

/// Why a change without a token is refused, if so.
fn refusal(peer: Option<IpAddr>, headers: &HeaderMap) -> Option<&'static str> {
    let (host, origin) = (text(headers, header::HOST), text(headers, header::ORIGIN));
    if !peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
        return Some(
            "changes without a token are accepted from this machine only: use 127.0.0.1 or `ssh -L`, or set \
             `token_file` in [changes]",
        );
    }
    if PROXY_HEADERS.iter().any(|name| headers.contains_key(*name)) {
        return Some("changes through a proxy need the token: set `token_file` in [changes], and send it");
    }
    if !is_loopback_name(host) {
        return Some("changes without a token are accepted for the hosts 127.0.0.1, ::1 and localhost only");
    }
    if headers.contains_key(header::ORIGIN) && origin != format!("http://{host}") {
        return Some("changes from pages of other sites are not accepted");
    }
    None
}

/// Whether a `Host` header is a loopback name, with any port, as a tunnel may have another.
fn is_loopback_name(host: &str) -> bool {
    let name = host_name(host);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(peer: &str, headers: &[(header::HeaderName, &str)], expected: Option<&str>) {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        match (super::check(peer.parse().ok(), &headers, None), expected) {
            (Ok(()), None) => {}
            (Err(Problem::Forbidden(found)), Some(part)) => assert!(found.contains(part), "{found:?}"),
            (found, _) => panic!("expected {expected:?}, but found {found:?}"),
        }
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
    fn changes_without_token_must_be_local_json() {
        let json = (header::CONTENT_TYPE, "application/json; charset=utf-8");
        let host = (header::HOST, "127.0.0.1:2692");
        check("127.0.0.1", &[json.clone(), host.clone()], None);
        check("::ffff:127.0.0.1", &[json.clone(), (header::HOST, "[::1]:80")], None);
        check(
            "::1",
            &[json.clone(), (header::HOST, "localhost:9999"), (header::ORIGIN, "http://localhost:9999")],
            None,
        );
        check("10.0.0.5", &[json.clone(), host.clone()], Some("from this machine only"));
        check("127.0.0.1", &[json.clone(), (header::HOST, "evil.example:2692")], Some("for the host"));
        check("127.0.0.1", &[json.clone(), (header::HOST, "127.0.0.1.evil.example")], Some("for the host"));
        check("127.0.0.1", std::slice::from_ref(&json), Some("for the host"));
        check(
            "127.0.0.1",
            &[json.clone(), host.clone(), (header::ORIGIN, "http://evil.example")],
            Some("of other sites"),
        );
        check("127.0.0.1", &[json.clone(), host.clone(), (header::ORIGIN, "null")], Some("of other sites"));
        for name in PROXY_HEADERS {
            let passed_on = (header::HeaderName::from_static(name), "127.0.0.1");
            check("127.0.0.1", &[json.clone(), host.clone(), passed_on], Some("through a proxy"));
        }
        check("127.0.0.1", &[(header::CONTENT_TYPE, "text/plain"), host], Some("must be JSON"));
    }
}
