//! The time zone in which pages show times: that of the reader's browser, which a cookie names, or else UTC. And whether
//! that is on a telephone.
//!
//! It belongs to a request, as a locale does. API, exports, reports and stored sentences are in UTC.

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// As cowbell.js sets it.
const COOKIE: &str = "zone";

/// In the name of every browser on a telephone.
const TELEPHONE: &str = "Mobi";

tokio::task_local! {
    static READER: Reader;
}

#[derive(Clone)]
struct Reader {
    zone: TimeZone,
    is_on_telephone: bool,
}

/// Answers a request in the zone of its reader.
pub async fn enter(request: Request, next: Next) -> Response {
    let (zone, is_on_telephone) = reader_of(request.headers());
    let zone = zone
        .and_then(|name| TimeZone::get(name).ok())
        .unwrap_or(TimeZone::UTC);
    READER
        .scope(
            Reader {
                zone,
                is_on_telephone,
            },
            next.run(request),
        )
        .await
}

/// Keeps the reader of this request for what is answered later.
pub fn keep<F: Future>(later: F) -> impl Future<Output = F::Output> {
    READER.scope(
        Reader {
            zone: current(),
            is_on_telephone: is_on_telephone(),
        },
        later,
    )
}

/// Whether the request that is answered comes from a narrow screen, as far as its browser says so.
pub fn is_on_telephone() -> bool {
    READER
        .try_with(|reader| reader.is_on_telephone)
        .unwrap_or(false)
}

/// The name of the zone that a reader asks for, and whether it is on a telephone.
pub fn reader_of(headers: &HeaderMap) -> (Option<&str>, bool) {
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|agent| agent.to_str().ok());
    (
        asked(headers),
        agent.is_some_and(|agent| agent.contains(TELEPHONE)),
    )
}

fn asked(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|cookies| cookies.to_str().ok());
    let mut pairs = cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(name, value)| (name == COOKIE).then_some(value))
}

/// Of the request that is answered; UTC outside of one.
pub fn current() -> TimeZone {
    READER
        .try_with(|reader| reader.zone.clone())
        .unwrap_or(TimeZone::UTC)
}

/// Its name in the database of time zones.
pub fn name() -> String {
    current().iana_name().unwrap_or("UTC").into()
}

/// A time where the reader is.
pub fn local(at: Timestamp) -> Zoned {
    at.to_zoned(current())
}

/// As beside a time: `UTC`, `CET`, or `+03` where a zone has no letters.
pub fn abbreviation(zone: &TimeZone, at: Timestamp) -> String {
    zone.to_offset_info(at).abbreviation().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_names_the_zone_among_others() {
        let mut headers = HeaderMap::new();
        assert_eq!(asked(&headers), None);
        headers.append(
            header::COOKIE,
            "a=b; zone=Europe/Berlin; other=x".parse().unwrap(),
        );
        assert_eq!(asked(&headers), Some("Europe/Berlin"));
        for name in [
            "../../etc/passwd",
            "/etc/passwd",
            "",
            "Nowhere/At All",
            "zone",
        ] {
            assert!(TimeZone::get(name).is_err(), "{name}");
        }
    }
}
