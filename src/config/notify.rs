//! `[[notify]]`: the receivers of alerts. The module `notify` delivers to them.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// A receiver of alerts.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Notify {
    /// Receives each alert as JSON in a POST request.
    Webhook {
        #[serde(deserialize_with = "address")]
        url: String,
    },
    /// A program that runs with the alert as JSON on its standard input.
    Command {
        #[serde(deserialize_with = "program")]
        command: Vec<String>,
    },
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let url = String::deserialize(deserializer)?;
    match url.parse::<reqwest::Url>() {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.has_host() => Ok(url),
        _ => Err(D::Error::custom(format!(
            "`url`: expected an http:// or https:// address, but found \"{url}\""
        ))),
    }
}

fn program<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let command = Vec::deserialize(deserializer)?;
    let expected = "`command`: expected a program and its arguments such as [\"/path\", \"argument\"]";
    if command.is_empty() { Err(D::Error::custom(expected)) } else { Ok(command) }
}
