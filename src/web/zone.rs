//! Whom a page is drawn for: the time zone of its times, the theme, whether the screen is narrow, and the prefix of its
//! links.
//!
//! The zone is that of the reader's browser, which a cookie names, or else UTC. It belongs to a request, as a locale does.
//! API, exports, reports and stored sentences are in UTC.
//!
//! A script could put `<time datetime>` into another zone, but not the axis of a chart: its lines stand at full hours and at
//! midnight, and those are other instants in Kathmandu (UTC+5:45) than in UTC. So the zone must be known when a chart is
//! drawn, and a page would show two zones until its script had run. That is why there is a cookie. All readers of one zone
//! share a drawing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::answer::{cookies, header_text};

/// Cookies, as cowbell.js sets them.
const ZONE: &str = "zone";
const THEME: &str = "theme";

/// In the name of every browser on a telephone.
const TELEPHONE: &str = "Mobi";

tokio::task_local! {
    static VIEWER: Viewer;
}

#[derive(Clone)]
struct Viewer {
    zone: TimeZone,
    theme: &'static str,
    is_on_telephone: bool,
    prefix: Arc<str>,
}

impl Default for Viewer {
    fn default() -> Self {
        Self {
            zone: TimeZone::UTC,
            theme: "",
            is_on_telephone: false,
            prefix: "".into(),
        }
    }
}

/// Answers a request for its viewer, under the prefix at which the request came.
pub async fn enter(State(prefix): State<Arc<str>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let zone = asked(headers, ZONE).and_then(|name| TimeZone::get(name).ok());
    let viewer = Viewer {
        zone: zone.unwrap_or(TimeZone::UTC),
        theme: match asked(headers, THEME) {
            Some("light") => "light",
            Some("dark") => "dark",
            _ => "",
        },
        is_on_telephone: header_text(headers, header::USER_AGENT).contains(TELEPHONE),
        prefix,
    };
    VIEWER.scope(viewer, next.run(request)).await
}

/// Keeps the viewer for what is answered later, or on another thread.
pub fn keep<F: Future>(later: F) -> impl Future<Output = F::Output> {
    VIEWER.scope(viewer(), later)
}

fn viewer() -> Viewer {
    VIEWER.try_with(Viewer::clone).unwrap_or_default()
}

/// Whether the request that is answered comes from a narrow screen, as far as its browser says so.
pub fn is_on_telephone() -> bool {
    viewer().is_on_telephone
}

/// `light` or `dark`; empty if it is that of the system.
pub fn theme() -> &'static str {
    viewer().theme
}

/// What distinguishes drawings of the same address.
pub fn distinction() -> String {
    let Viewer {
        zone,
        is_on_telephone,
        prefix,
        ..
    } = viewer();
    format!(
        "{prefix} {} {is_on_telephone}",
        zone.iana_name().unwrap_or_default()
    )
}

/// The path of a page of this site, such as `/jobs/3`, as the browser has to request it.
pub fn prefixed(path: &str) -> String {
    format!("{}{path}", viewer().prefix)
}

/// Adds the prefix to all links of a page. Pages are written for the root of a site, and `="/` begins a link: quotes in text
/// are escaped.
pub fn with_prefix(html: String) -> String {
    let prefix = viewer().prefix;
    if prefix.is_empty() {
        return html;
    }
    html.replace("=\"/", &format!("=\"{prefix}/"))
}

fn asked<'a>(headers: &'a HeaderMap, cookie: &str) -> Option<&'a str> {
    cookies(headers).find_map(|(name, value)| (name == cookie).then_some(value))
}

/// Of the request that is answered; UTC outside of one.
pub fn current() -> TimeZone {
    viewer().zone
}

/// Its name in the database of time zones.
pub fn name() -> String {
    current().iana_name().unwrap_or("UTC").into()
}

/// A time where the reader is.
pub fn local(at: Timestamp) -> Zoned {
    at.to_zoned(current())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_names_the_zone_among_others() {
        let mut headers = HeaderMap::new();
        assert_eq!(asked(&headers, ZONE), None);
        headers.append(
            header::COOKIE,
            "a=b; zone=Europe/Berlin; other=x".parse().unwrap(),
        );
        assert_eq!(asked(&headers, ZONE), Some("Europe/Berlin"));
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
