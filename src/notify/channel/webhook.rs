//! Sends messages as POST requests.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};

use super::super::message::Message;
use super::template::Template;
use super::{Failed, http};
use crate::config::Webhook as Settings;

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
        let mut headers = http::headers(&settings.headers)?;
        let content_type = HeaderValue::try_from(&settings.content_type);
        headers.insert(
            CONTENT_TYPE,
            content_type.map_err(|_| "`content_type` is not valid".to_string())?,
        );
        let template = |text: &String| Template::new("template", text, &settings.values);
        Ok(Self {
            client: http::client(&settings.url)?,
            url: Template::new("url", &settings.url, &settings.values),
            origin: settings
                .fixed_url()
                .parse()
                .map_err(|_| "`url` is no address".to_string())?,
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
        let request = self
            .client
            .post(url)
            .headers(self.headers.clone())
            .body(body);
        let answer = request.send().await.map_err(|error| http::broken(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(status.to_string());
        }
        self.take_pause(&answer);
        let sentence = http::refusal(answer).await;
        // After other errors of a server, it may have taken the message.
        let is_refusal = status.is_redirection()
            || status.is_client_error()
            || status == StatusCode::SERVICE_UNAVAILABLE;
        Err(Failed {
            is_refusal,
            sentence,
        })
    }

    fn url(&self, message: &Message) -> Result<Url, String> {
        let url = self.url.render(message)?;
        let url = url
            .parse::<Url>()
            .map_err(|error| format!("`url`: the template makes no address: {error}"))?;
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
        let until = *self
            .paused_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            None => Ok(()),
            Some(left) => Err(Failed::refused(format!(
                "it wants no message for {} s more",
                left.as_secs() + 1
            ))),
        }
    }

    /// Takes the time for which the receiver wants to be left alone.
    fn take_pause(&self, answer: &Response) {
        let pauses = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        if let Some(pause) = pauses
            .contains(&answer.status())
            .then(|| http::pause(answer))
            .flatten()
        {
            let until = Instant::now() + pause;
            *self
                .paused_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
    }
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::super::test_message;
    use super::*;
    use crate::alert::AlertText;
    use crate::config::{Channel, Receiver};

    /// A body that is no JSON would never be delivered.
    #[test]
    fn hostile_names_are_values_in_the_bodies_of_shipped_receivers() {
        // Another test may have done it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/receivers");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path)
                .unwrap()
                .replace("credential:", "http://localhost/");
            let file: toml::Table = text.parse().unwrap();
            let receiver: Receiver = file["notify"][0].clone().try_into().unwrap();
            let Channel::Webhook(settings) = &receiver.channel else {
                panic!("{path:?}")
            };
            let webhook = Webhook::new(settings).unwrap();
            for name in [
                "\"}, {\"x\": \"",
                "{{ values }}",
                "\\",
                "\u{0}\r\n\u{2028}",
                "</script>&",
                "é\u{1F514}",
            ] {
                let mut message = test_message("db1");
                message.first.alert.lv = name.into();
                message.first.alert.vg = name.into();
                message.first.alert.text = AlertText::new(name, "");
                message.host = name.into();
                let body: serde_json::Value =
                    serde_json::from_str(&webhook.body(&message).unwrap()).unwrap();
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
