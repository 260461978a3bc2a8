//! The HTTP client of webhooks, heartbeat and remote write, and what their answers mean.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response};

use super::resolver::Resolver;
use super::{Failed, reason};
use crate::source::clock;

/// A receiver may ask to be left alone for this long.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Bytes that are read of an error's text, and the time for it.
const LONGEST_TEXT: usize = 1_000;
const TEXT_TIMEOUT: Duration = Duration::from_secs(1);

/// A host without certificates can use `http` addresses.
pub fn client(url: &str) -> Result<Client, String> {
    let builder = || {
        Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(Resolver::of(url))
    };
    let without_certificates = || builder().tls_certs_only([]).build();
    let client = match url.starts_with("https:") {
        true => builder().build().or_else(|_| without_certificates()),
        false => without_certificates(),
    };
    client.map_err(|error| format!("cannot create an HTTP client: {error}"))
}

/// Headers whose values may be secrets.
pub fn headers(settings: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in settings {
        let parts = HeaderName::try_from(name)
            .ok()
            .zip(HeaderValue::try_from(value).ok());
        let (name, mut value) =
            parts.ok_or_else(|| format!("`headers`: {name} has no valid value"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// A failed request. An error can name the URL, which may be a secret; the reason at its end does not.
pub fn broken(error: &reqwest::Error) -> Failed {
    match error.is_connect() {
        true => Failed::refused(format!("cannot connect: {}", reason::of(error))),
        false => Failed::unsure(format!("the connection broke: {}", reason::of(error))),
    }
}

/// What an answer other than success says. Redirects are failures: they could send a secret to another host.
pub async fn refusal(answer: Response) -> String {
    let status = answer.status();
    if status.is_redirection() {
        return format!(
            "it answers {status}, and redirects are not followed: set its final address"
        );
    }
    let text = tokio::time::timeout(TEXT_TIMEOUT, text(answer))
        .await
        .unwrap_or_default();
    format!(
        "it answers {status}{}{text}",
        if text.is_empty() { "" } else { ": " }
    )
}

/// For how long the receiver wants to be left alone, five minutes at most.
pub fn pause(answer: &Response) -> Option<Duration> {
    let pause = retry_after(
        answer.headers().get(RETRY_AFTER)?.to_str().ok()?,
        clock::now(),
    )?;
    Some(pause.min(LONGEST_PAUSE))
}

/// A number of seconds, or a date.
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::parse(value).ok()?.timestamp();
    Duration::try_from(at.duration_since(now)).ok()
}

/// The beginning of an answer's text.
async fn text(mut answer: Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < LONGEST_TEXT
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        bytes.extend(chunk);
    }
    bytes.truncate(LONGEST_TEXT);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_may_ask_for_a_pause_in_seconds_or_until_a_date() {
        let now: Timestamp = "2026-11-23T07:00:00Z".parse().unwrap();
        for (value, expected) in [
            ("120", Some(120)),
            ("Mon, 23 Nov 2026 07:01:30 GMT", Some(90)),
            ("Mon, 23 Nov 2026 06:00:00 GMT", None),
            ("soon", None),
        ] {
            assert_eq!(
                retry_after(value, now),
                expected.map(Duration::from_secs),
                "{value}"
            );
        }
    }
}
