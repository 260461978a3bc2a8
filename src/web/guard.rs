//! Who may change something: somebody on this machine, with a request that no foreign page can make.
//!
//! A page from elsewhere can make a browser send requests here, and a name that is pointed at this machine can make
//! them look like our own. So a change is JSON, comes over loopback, is meant for a loopback address, and any page that
//! it comes from is ours.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::Problem;

/// Lets reading through, and changes only from friends.
pub async fn only_friends_change_anything(request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    match refusal(peer, request.headers()) {
        None => next.run(request).await,
        Some(sentence) => Problem::Forbidden(sentence.into()).into_response(),
    }
}

fn refusal(peer: Option<IpAddr>, headers: &HeaderMap) -> Option<&'static str> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    if !peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
        return Some("changes are accepted from this machine alone: use 127.0.0.1, or `ssh -L`");
    }
    if !is_loopback_name(host) {
        return Some("changes are accepted for the host 127.0.0.1, ::1 or localhost alone");
    }
    if headers.contains_key(header::ORIGIN) && text(header::ORIGIN) != Some(&format!("http://{host}")) {
        return Some("changes are not accepted from another site's pages");
    }
    let is_json =
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    (!is_json).then_some("changes are accepted as JSON alone: send `Content-Type: application/json`")
}

/// Whether a `Host` header names this machine to itself, with any port: a tunnel may lead here from another.
fn is_loopback_name(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(peer: &str, headers: &[(header::HeaderName, &str)], expected: Option<&str>) {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        let found = refusal(peer.parse().ok(), &headers);
        match expected {
            None => assert_eq!(found, None),
            Some(part) => assert!(found.is_some_and(|found| found.contains(part)), "{found:?}"),
        }
    }

    #[test]
    fn only_json_over_loopback_for_loopback_from_our_own_pages_changes_anything() {
        let json = (header::CONTENT_TYPE, "application/json; charset=utf-8");
        let host = (header::HOST, "127.0.0.1:2692");
        check("127.0.0.1", &[json.clone(), host.clone()], None);
        check("::ffff:127.0.0.1", &[json.clone(), (header::HOST, "[::1]:80")], None);
        check(
            "::1",
            &[json.clone(), (header::HOST, "localhost:9999"), (header::ORIGIN, "http://localhost:9999")],
            None,
        );
        check("10.0.0.5", &[json.clone(), host.clone()], Some("from this machine alone"));
        check("127.0.0.1", &[json.clone(), (header::HOST, "evil.example:2692")], Some("for the host"));
        check("127.0.0.1", &[json.clone(), (header::HOST, "127.0.0.1.evil.example")], Some("for the host"));
        check("127.0.0.1", std::slice::from_ref(&json), Some("for the host"));
        check(
            "127.0.0.1",
            &[json.clone(), host.clone(), (header::ORIGIN, "http://evil.example")],
            Some("another site"),
        );
        check("127.0.0.1", &[json, host.clone(), (header::ORIGIN, "null")], Some("another site"));
        check("127.0.0.1", &[(header::CONTENT_TYPE, "text/plain"), host], Some("as JSON alone"));
    }
}
