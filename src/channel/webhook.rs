//! Webhooks: a message as a POST request, its body and address made by templates.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use futures_util::future::BoxFuture;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::secret::{Address, External, Headers, SecretText, open_regular};
use super::{Delivers, Failure, Message, MessageAlert, ReceiverKind, http};

/// Bytes of a template's file.
const LONGEST_TEMPLATE: u64 = 64 * 1024;

/// A POST request.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    url: Address,
    #[serde(default)]
    headers: Headers,
    /// Values for the templates.
    #[serde(default)]
    values: BTreeMap<String, SecretText>,
    #[serde(default = "json_type")]
    content_type: String,
    /// The body, with the message's fields; JSON of the message if `None`.
    template: Option<SecretText>,
    template_file: Option<TemplateFile>,
    /// Whether each alert has a request of its own.
    #[serde(default)]
    split: bool,
}

fn json_type() -> String {
    "application/json".into()
}

/// A body's template in a file.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "PathBuf")]
struct TemplateFile {
    path: PathBuf,
    text: SecretText,
}

impl TryFrom<PathBuf> for TemplateFile {
    type Error = &'static str;

    fn try_from(path: PathBuf) -> Result<Self, Self::Error> {
        if !path.is_absolute() {
            return Err("`template_file`: expected an absolute path");
        }
        let text = SecretText(String::new());
        Ok(Self { path, text })
    }
}

impl External for TemplateFile {
    fn load(&mut self, key: &str) -> Result<(), String> {
        let text = template(&self.path);
        self.text.0 = text.map_err(|why| format!("`{key}`: {} {why}", self.path.display()))?;
        Ok(())
    }

    /// Answers may quote it: it is made for them.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
}

fn template(path: &Path) -> Result<String, String> {
    let file = open_regular(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let mut text = String::new();
    file.take(LONGEST_TEMPLATE + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if text.len() as u64 > LONGEST_TEMPLATE {
        return Err(format!("has more than {} KiB", LONGEST_TEMPLATE / 1024));
    }
    Ok(text)
}

impl ReceiverKind for Webhook {
    fn usual_name(&self) -> String {
        format!("webhook {}", self.url.name())
    }

    fn check(&self) -> Result<(), String> {
        if self.template.is_some() && self.template_file.is_some() {
            return Err("`template` and `template_file`: expected one of them".into());
        }
        Ok(())
    }

    fn is_split(&self) -> bool {
        self.split
    }

    fn external(&mut self) -> Vec<(&str, &mut dyn External)> {
        let mut external: Vec<(&str, &mut dyn External)> =
            vec![("url", &mut self.url), ("headers", &mut self.headers)];
        for (name, value) in &mut self.values {
            external.push((name, value));
        }
        if let Some(file) = &mut self.template_file {
            external.push(("template_file", file));
        }
        external
    }

    fn connect(&self, _: &str) -> Result<Box<dyn Delivers>, String> {
        Ok(Box::new(WebhookClient::new(self)?))
    }
}

/// Prepared requests. The client keeps the certificates of the host in memory, since its disk may hang.
struct WebhookClient {
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

impl Delivers for WebhookClient {
    fn check(&self, message: &Message) -> Result<(), String> {
        self.url.check(message)?;
        if let Some(template) = &self.template {
            template.check(message)?;
        }
        self.url(message)?;
        self.body(message).map(drop)
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(self.send(message))
    }
}

impl WebhookClient {
    fn new(keys: &Webhook) -> Result<Self, String> {
        let mut headers = keys.headers.map()?;
        let content_type = HeaderValue::try_from(&keys.content_type);
        headers.insert(
            CONTENT_TYPE,
            content_type.map_err(|_| "`content_type` is not valid".to_string())?,
        );
        let in_file = keys.template_file.as_ref().map(|file| &file.text);
        let body = keys.template.as_ref().or(in_file);
        let values = keys.values.iter().map(|(name, value)| (name, &value.0));
        let values = json!(values.collect::<BTreeMap<_, _>>());
        let template = |key, text: &str| Template {
            key,
            text: text.into(),
            values: values.clone(),
        };
        Ok(Self {
            client: http::client(keys.url.as_str())?,
            url: template("url", keys.url.as_str()),
            origin: keys
                .url
                .fixed()
                .parse()
                .map_err(|_| "`url` is no address".to_string())?,
            headers,
            is_json: is_json(&keys.content_type),
            template: body.map(|text| template("template", &text.0)),
            paused_until: Mutex::default(),
        })
    }

    /// Redirects are failures: they could send a secret to another host.
    async fn send(&self, message: &Message) -> Result<String, Failure> {
        self.check_pause()?;
        let url = self.url(message).map_err(Failure::refused)?;
        let body = self.body(message).map_err(Failure::refused)?;
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
        Err(Failure {
            is_refusal,
            sentence,
        })
    }

    fn url(&self, message: &Message) -> Result<Url, String> {
        let url = self.url.render(message)?;
        let url = url
            .parse::<Url>()
            .map_err(|error| format!("`url`: the template makes no address: {error}"))?;
        if url.origin() != self.origin.origin() {
            return Err("`url`: the template makes an address of another host".into());
        }
        Ok(url)
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

    fn check_pause(&self) -> Result<(), Failure> {
        let until = self.paused_until.lock();
        if let Some(until) = *until.unwrap_or_else(PoisonError::into_inner)
            && let Some(left) = until.checked_duration_since(Instant::now())
        {
            return Err(Failure::refused(format!(
                "it wants no message for {} s more",
                left.as_secs() + 1
            )));
        }
        Ok(())
    }

    /// Takes the time for which the receiver wants to be left alone.
    fn take_pause(&self, answer: &Response) {
        let is_pause = matches!(
            answer.status(),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        if is_pause && let Some(pause) = http::pause(answer) {
            let until = self.paused_until.lock();
            *until.unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + pause);
        }
    }
}

/// A text with the fields of a message.
struct Template {
    /// Errors name this key of the configuration.
    key: &'static str,
    text: String,
    values: Value,
}

impl Template {
    fn render(&self, message: &Message) -> Result<String, String> {
        let mut environment = Environment::new();
        // A field that is missing is an error, except in a condition.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        let fields = minijinja::Value::from(Serde(self.fields(message)));
        let text = environment.render_str(&self.text, fields);
        text.map_err(|error| format!("`{}`: {error}", self.key))
    }

    /// Fails if it names a field that messages do not have.
    fn check(&self, message: &Message) -> Result<(), String> {
        let environment = Environment::new();
        let template = environment
            .template_from_str(&self.text)
            .map_err(|error| format!("`{}`: {error}", self.key))?;
        let fields = self.fields(message);
        let mut names: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        names.sort();
        for name in names {
            let is_function = environment.globals().any(|(function, _)| function == name);
            if fields.get(&name).is_none() && !is_function {
                let known = fields.as_object().map(|fields| fields.keys());
                let known: Vec<&String> = known.into_iter().flatten().collect();
                return Err(format!(
                    "`{}`: a message has no field {name:?}: expected one of {known:?}",
                    self.key
                ));
            }
        }
        Ok(())
    }

    /// The fields of the message and of its most important alert, all alerts as a list, and the values.
    fn fields(&self, message: &Message) -> Value {
        let others: Vec<Value> = message.others.iter().map(fields_of).collect();
        let first = fields_of(&message.first);
        let mut fields = first.clone();
        fields["host"] = json!(message.host);
        fields["title"] = json!(message.title);
        fields["text"] = json!(message.text);
        fields["is_test"] = json!(message.is_test);
        fields["alerts"] = json!([&[first], &*others].concat());
        fields["others"] = json!(others);
        fields["values"] = self.values.clone();
        fields
    }
}

fn fields_of(alert: &MessageAlert) -> Value {
    let mut fields = json!(alert.fields);
    fields["title"] = json!(alert.title);
    fields["volume"] = json!(alert.volume);
    fields["key"] = json!(alert.key);
    fields
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
    use super::super::tests::message;
    use super::*;

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
            let mut file: toml::Table = text.parse().unwrap();
            let mut keys = file.remove("notify").unwrap()[0].clone();
            let keys = keys.as_table_mut().unwrap();
            for key in ["kind", "name", "severity", "repeat"] {
                keys.remove(key);
            }
            let webhook: Webhook = keys.clone().try_into().unwrap();
            let client = WebhookClient::new(&webhook).unwrap();
            for name in [
                "\"}, {\"x\": \"",
                "{{ values }}",
                "\\",
                "\u{0}\r\n\u{2028}",
                "</script>&",
                "é\u{1F514}",
            ] {
                let message = message(name, name);
                let body: Value = serde_json::from_str(&client.body(&message).unwrap()).unwrap();
                assert!(
                    body.get("x").is_none() && body.get(1).is_none_or(|it| it.get("x").is_none()),
                    "{body}"
                );
                let url = client.url(&message).unwrap();
                assert_eq!(url.origin(), client.origin.origin(), "{path:?}");
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
