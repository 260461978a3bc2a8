//! Sends messages as POST requests.

use anyhow::{Context, anyhow, bail};
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::super::message::Message;
use super::resolver::Resolver;
use crate::config::Webhook as Settings;

/// Prepared requests. The client keeps the certificates of the host in memory, since its disk may hang.
pub struct Webhook {
    client: Client,
    url: String,
    headers: HeaderMap,
    is_json: bool,
    template: Option<String>,
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
        Ok(Self {
            client: client(&settings.url)?,
            url: settings.url.clone(),
            headers,
            is_json: settings.content_type.starts_with("application/json"),
            template: settings.template.clone(),
        })
    }

    /// Redirects are failures: they could send a secret to another host.
    pub async fn send(&self, message: &Message) -> anyhow::Result<String> {
        let request = self.client.post(&self.url).headers(self.headers.clone()).body(self.body(message)?);
        let answer = request.send().await.map_err(reqwest::Error::without_url)?;
        let status = answer.status();
        if status.is_redirection() {
            bail!("it answers {status}, and redirects are not followed: set its final address");
        }
        if !status.is_success() {
            let text = answer.text().await.unwrap_or_default();
            bail!("it answers {status}{}{text}", if text.is_empty() { "" } else { ": " });
        }
        Ok(status.to_string())
    }

    /// Fails if this message, and so any, has no valid body.
    pub fn check(&self, message: &Message) -> anyhow::Result<()> {
        self.body(message)?;
        let Some(template) = &self.template else { return Ok(()) };
        let fields = fields(message)?;
        let names = Environment::new().template_from_str(template)?.undeclared_variables(false);
        // Optional fields such as `others` are missing here, so the error lists the usual ones.
        let unknown = names.iter().find(|name| fields.get(name).is_none() && *name != "others");
        match unknown {
            None => Ok(()),
            Some(name) => {
                let known: Vec<&String> =
                    fields.as_object().into_iter().flat_map(|fields| fields.keys()).collect();
                bail!("`template`: a message has no field {name:?}: expected one of {known:?}")
            }
        }
    }

    fn body(&self, message: &Message) -> anyhow::Result<String> {
        let Some(template) = &self.template else { return Ok(serde_json::to_string(message)?) };
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        let body = environment.render_str(template, minijinja::Value::from(Serde(fields(message)?)));
        let body = body.map_err(|error| anyhow!("`template`: {error}"))?;
        if self.is_json {
            let result = serde_json::from_str::<serde::de::IgnoredAny>(&body);
            result.context("`template` makes no valid JSON: use the filter `tojson` for every value")?;
        }
        Ok(body)
    }
}

/// The fields of a template: those of the message, and all alerts as a list.
fn fields(message: &Message) -> anyhow::Result<serde_json::Value> {
    let mut fields = serde_json::to_value(message)?;
    fields["alerts"] = serde_json::to_value(message.alerts().collect::<Vec<_>>())?;
    Ok(fields)
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
