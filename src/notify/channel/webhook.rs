//! Sends messages as POST requests.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};

use super::super::message::Message;
use super::resolver::Resolver;
use super::template::Template;
use super::{Failed, reason};
use crate::config::Webhook as Settings;
use crate::source::clock;

/// A receiver may ask to be left alone for this long.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Bytes that are read of an error's text, and the time for it.
const LONGEST_TEXT: usize = 1_000;
const TEXT_TIMEOUT: Duration = Duration::from_secs(1);

/// Prepared requests. The client keeps the certificates of the host in memory, since its disk may hang.
pub struct Webhook {
    client: Client,
    url: Template,
    /// The origin of the URL: no other one gets a message.
    origin: Url,
    headers: HeaderMap,
    is_json: bool,
    template: Option<Template>,
    /// Until then, the receiver wants no message.
    paused_until: Mutex<Option<Instant>>,
}

impl Webhook {
    pub fn new(settings: &Settings) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let parts = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
            let (name, mut value) = parts.ok_or_else(|| format!("`headers`: {name} has no valid value"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let content_type = HeaderValue::try_from(&settings.content_type);
        headers.insert(CONTENT_TYPE, content_type.map_err(|_| "`content_type` is not valid".to_string())?);
        let template = |text: &String| Template::new("template", text, &settings.values);
        Ok(Self {
            client: client(&settings.url)?,
            url: Template::new("url", &settings.url, &settings.values),
            origin: settings.fixed_url().parse().map_err(|_| "`url` is no address".to_string())?,
            headers,
            is_json: is_json(&settings.content_type),
            template: settings.template.as_ref().map(template),
            paused_until: Mutex::default(),
        })
    }

    /// Fails if this message, and so any, has no valid address or body.
    pub fn check(&self, message: &Message) -> Result<(), String> {
        [Some(&self.url), self.template.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(|it| it.check(message))?;
        self.url(message)?;
        self.body(message).map(drop)
    }

    /// Redirects are failures: they could send a secret to another host.
    pub async fn send(&self, message: &Message) -> Result<String, Failed> {
        self.check_pause()?;
        let url = self.url(message).map_err(Failed::refused)?;
        let body = self.body(message).map_err(Failed::refused)?;
        let request = self.client.post(url).headers(self.headers.clone()).body(body);
        let answer = request.send().await.map_err(|error| broken(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(status.to_string());
        }
        if status.is_redirection() {
            return Err(Failed::refused(format!(
                "it answers {status}, and redirects are not followed: set its final address"
            )));
        }
        self.take_pause(&answer);
        let text = tokio::time::timeout(TEXT_TIMEOUT, text(answer)).await.unwrap_or_default();
        let sentence = format!("it answers {status}{}{text}", if text.is_empty() { "" } else { ": " });
        // After other errors of a server, it may have taken the message.
        let is_refusal = status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE;
        Err(Failed { is_refusal, sentence })
    }

    fn url(&self, message: &Message) -> Result<Url, String> {
        let url = self.url.render(message)?;
        let url =
            url.parse::<Url>().map_err(|error| format!("`url`: the template makes no address: {error}"))?;
        match url.origin() == self.origin.origin() {
            true => Ok(url),
            false => Err("`url`: the template makes an address of another host".into()),
        }
    }

    fn body(&self, message: &Message) -> Result<String, String> {
        let Some(template) = &self.template else {
            return serde_json::to_string(message).map_err(|error| error.to_string());
        };
        let body = template.render(message)?;
        if self.is_json {
            let parsed = serde_json::from_str::<serde::de::IgnoredAny>(&body);
            parsed.map_err(|error| {
                format!("`template` makes no valid JSON: use the filter `tojson` for every value: {error}")
            })?;
        }
        Ok(body)
    }

    fn check_pause(&self) -> Result<(), Failed> {
        let until = *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            None => Ok(()),
            Some(left) => {
                Err(Failed::refused(format!("it wants no message for {} s more", left.as_secs() + 1)))
            }
        }
    }

    /// Takes the time for which the receiver wants to be left alone.
    fn take_pause(&self, answer: &Response) {
        let pauses = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        let header = answer.headers().get(RETRY_AFTER).filter(|_| pauses.contains(&answer.status()));
        if let Some(pause) = header.and_then(|value| retry_after(value.to_str().ok()?, clock::now())) {
            let until = Instant::now() + pause.min(LONGEST_PAUSE);
            *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
    }
}

/// A number of seconds, or a date.
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::parse(value).ok()?.timestamp();
    Duration::try_from(at.duration_since(now)).ok()
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// A failed request. An error can name the URL, which may be a secret; the reason at its end does not.
pub fn broken(error: &reqwest::Error) -> Failed {
    match error.is_connect() {
        true => Failed::refused(format!("cannot connect: {}", reason::of(error))),
        false => Failed::unsure(format!("the connection broke: {}", reason::of(error))),
    }
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

/// A host without certificates can use `http` addresses.
pub fn client(url: &str) -> Result<Client, String> {
    let builder =
        || Client::builder().redirect(reqwest::redirect::Policy::none()).dns_resolver(Resolver::of(url));
    let without_certificates = || builder().tls_certs_only([]).build();
    let client = match url.starts_with("https:") {
        true => builder().build().or_else(|_| without_certificates()),
        false => without_certificates(),
    };
    client.map_err(|error| format!("cannot create an HTTP client: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::test_message;
    use super::*;
    use crate::config::{Channel, Receiver};

    #[test]
    fn a_receiver_may_ask_for_a_pause_in_seconds_or_until_a_date() {
        let now: Timestamp = "2026-11-23T07:00:00Z".parse().unwrap();
        for (value, expected) in [
            ("120", Some(120)),
            ("Mon, 23 Nov 2026 07:01:30 GMT", Some(90)),
            ("Mon, 23 Nov 2026 06:00:00 GMT", None),
            ("soon", None),
        ] {
            assert_eq!(retry_after(value, now), expected.map(Duration::from_secs), "{value}");
        }
    }

    /// A body that is no JSON would never be delivered.
    #[test]
    fn hostile_names_are_values_in_the_bodies_of_shipped_receivers() {
        // Another test may have done it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/receivers");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap().replace("credential:", "http://localhost/");
            let file: toml::Table = text.parse().unwrap();
            let receiver: Receiver = file["notify"][0].clone().try_into().unwrap();
            let Channel::Webhook(settings) = &receiver.channel else { panic!("{path:?}") };
            let webhook = Webhook::new(settings).unwrap();
            for name in
                ["\"}, {\"x\": \"", "{{ values }}", "\\", "\u{0}\r\n\u{2028}", "</script>&", "é\u{1F514}"]
            {
                let mut message = test_message("db1");
                for text in [
                    &mut message.first.alert.lv,
                    &mut message.first.alert.vg,
                    &mut message.first.alert.sentence,
                ] {
                    *text = name.into();
                }
                message.host = name.into();
                let body: serde_json::Value = serde_json::from_str(&webhook.body(&message).unwrap()).unwrap();
                assert!(
                    body.get("x").is_none() && body.get(1).is_none_or(|it| it.get("x").is_none()),
                    "{body}"
                );
                let url = webhook.url(&message).unwrap();
                assert_eq!(url.origin(), webhook.origin.origin(), "{path:?}");
            }
        }
    }

    #[test]
    fn kinds_of_json_are_known() {
        for (kind, expected) in [
            ("application/json", true),
            ("application/json; charset=utf-8", true),
            ("application/cloudevents+json", true),
            ("text/plain", false),
        ] {
            assert_eq!(is_json(kind), expected, "{kind}");
        }
    }
}
