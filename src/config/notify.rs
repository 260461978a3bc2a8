//! `[[notify]]`: the receivers of alerts. The module `notify` delivers to them.

use serde::Deserialize;

/// A receiver of alerts.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "RawNotify")]
pub enum Notify {
    /// Receives each alert as JSON in a POST request.
    Webhook { url: String },
    /// A program that runs with the alert as JSON on its standard input.
    Command { command: Vec<String> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNotify {
    kind: String,
    url: Option<String>,
    command: Option<Vec<String>>,
}

impl TryFrom<RawNotify> for Notify {
    type Error = String;

    fn try_from(raw: RawNotify) -> Result<Self, String> {
        match (raw.kind.as_str(), raw.url, raw.command) {
            ("webhook", Some(url), None) => checked_url(url).map(|url| Self::Webhook { url }),
            ("command", None, Some(command)) if !command.is_empty() => Ok(Self::Command { command }),
            ("webhook", ..) => Err("expected a webhook to have `url` and nothing else".into()),
            ("command", ..) => {
                Err("expected a command to have `command = [\"/path\", \"argument\"]` and nothing else"
                    .into())
            }
            (kind, ..) => Err(format!("`kind`: expected \"webhook\" or \"command\", but found \"{kind}\"")),
        }
    }
}

fn checked_url(url: String) -> Result<String, String> {
    match url.parse::<reqwest::Url>() {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.has_host() => Ok(url),
        _ => Err(format!("`url`: expected an http:// or https:// address, but found \"{url}\"")),
    }
}
