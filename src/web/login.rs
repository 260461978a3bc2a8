//! The page that asks for the token, and the cookie that it sets.
//!
//! The cookie holds a hash of the token. So a stolen cookie reveals no token, and a new token ends all sessions.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::{Extension, Form};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::answer::{Problem, cookies, header_text};
use super::connections::Peer;
use super::{SharedSite, zone};
use crate::config::Token;

pub const PATH: &str = "/login";
/// As cowbell.js asks for the page when a button needs the token.
const BACK: &str = "/login?back=";

const NAME: &str = "cowbell";
/// A browser asks again after 30 days.
const LIFETIME_S: u32 = 30 * 24 * 3600;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    problem: Option<String>,
}

/// The page instead of what was requested, which the browser requests again with the cookie.
pub fn page(problem: Option<String>) -> Response {
    match (LoginPage { problem }).render() {
        Ok(page) => (StatusCode::UNAUTHORIZED, Html(zone::with_prefix(page))).into_response(),
        Err(error) => Problem::Inside(error.into()).into_response(),
    }
}

/// Whether a person requests a page: programs get JSON.
pub fn is_page(request: &Request) -> bool {
    *request.method() == Method::GET
        && header_text(request.headers(), header::ACCEPT).contains("text/html")
}

#[derive(Deserialize)]
pub struct Login {
    token: String,
}

/// The page, unless there is no token to ask for.
pub async fn ask(State(site): State<SharedSite>) -> Response {
    if site.access.borrow().tokens().next().is_none() {
        return Redirect::to(&zone::prefixed("/")).into_response();
    }
    page(None)
}

/// Sets the cookie, and leads back to the page that asked.
pub async fn login(
    State(site): State<SharedSite>,
    Extension(client): Extension<Peer>,
    headers: HeaderMap,
    Form(login): Form<Login>,
) -> Response {
    let access = Arc::clone(&site.access.borrow());
    if access.tokens().next().is_none() {
        return Redirect::to(&zone::prefixed("/")).into_response();
    }
    let offered = login.token.trim().as_bytes();
    let token = access.tokens().find(|token| token.is(offered));
    let token = match (
        access.check_guess(token.is_some(), Some(&client), &headers),
        token,
    ) {
        (Ok(()), Some(token)) => token,
        (Err(Problem::TooMany(sentence)), _) => return page(Some(sentence)),
        _ => return page(Some("This is not the token.".into())),
    };
    let is_https = site.has_tls && matches!(client, Peer::Host(_));
    let secure = if is_https || header_text(&headers, SCHEME) == "https" {
        "; Secure"
    } else {
        ""
    };
    // `/cowbell/` would not match the page at `/cowbell`.
    let path = if site.prefix.is_empty() {
        "/"
    } else {
        &site.prefix
    };
    let cookie = format!(
        "{}; Path={path}; Max-Age={LIFETIME_S}; HttpOnly; SameSite=Strict{secure}",
        cookie(token)
    );
    (
        [(header::SET_COOKIE, cookie)],
        Redirect::to(&zone::prefixed(&way_back(&headers, &site.prefix))),
    )
        .into_response()
}

/// A proxy's header.
const SCHEME: header::HeaderName = header::HeaderName::from_static("x-forwarded-proto");

/// The path of the page that asked, or to which `/login?back=` leads, without the prefix.
fn way_back(headers: &HeaderMap, prefix: &str) -> String {
    let asked = header_text(headers, header::REFERER)
        .split_once("://")
        .map_or("", |(_, rest)| rest);
    let path = asked.find('/').map_or("/", |start| &asked[start..]);
    let path = path.strip_prefix(prefix).unwrap_or(path);
    let back = path.strip_prefix(BACK);
    let back = back.map(|back| percent_decode_str(back).decode_utf8_lossy());
    let path = back.as_deref().unwrap_or(path);
    let path = path.strip_prefix(prefix).unwrap_or(path);
    // A second slash would begin the name of another host.
    let is_own = path.starts_with('/') && !path[1..].starts_with(['/', '\\']) && path != PATH;
    if is_own { path.into() } else { "/".into() }
}

/// The cookie's name and value.
pub fn cookie(token: &Token) -> String {
    format!("{NAME}={}", hash(token))
}

fn hash(token: &Token) -> String {
    let hash = Sha256::new_with_prefix("cowbell cookie ").chain_update(token.bytes());
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a cookie of this site is right; `None` without one.
pub fn has_cookie(headers: &HeaderMap, token: &Token) -> Option<bool> {
    let expected = hash(token);
    let own = cookies(headers).filter(|(name, _)| *name == NAME);
    own.map(|(_, value)| crate::config::is_equal(value.as_bytes(), expected.as_bytes()))
        .reduce(|one, other| one || other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_stays_on_this_site() {
        for (referer, expected) in [
            ("http://db1/cowbell/jobs/3?from=-1d", "/jobs/3?from=-1d"),
            ("http://db1/jobs/3", "/jobs/3"),
            ("http://db1/cowbell", "/"),
            ("http://db1", "/"),
            ("http://db1//evil.example", "/"),
            ("http://db1/\\evil.example", "/"),
            ("http://db1/cowbell//evil.example", "/"),
            ("http://db1/cowbell/login", "/"),
            (
                "http://db1/cowbell/login?back=%2Fcowbell%2Falerts%3Fbefore%3D3",
                "/alerts?before=3",
            ),
            ("http://db1/login?back=%2F%2Fevil.example", "/"),
            ("http://db1/login?back=https%3A%2F%2Fevil.example", "/"),
            ("nonsense", "/"),
        ] {
            let headers = HeaderMap::from_iter([(header::REFERER, referer.parse().unwrap())]);
            assert_eq!(way_back(&headers, "/cowbell"), expected, "{referer}");
        }
    }
}
