//! `[[notify]]`: the receivers of alerts. The module `notify` delivers to them.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{ConfigError, secret};

/// Begins a `url` that is in a credential; the credential's name follows.
const CREDENTIAL: &str = "credential:";
/// Stands for a secret.
const HIDDEN: &str = "…";

/// A receiver of alerts.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Notify {
    /// Receives each alert as JSON in a POST request. The URL may be a secret.
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

impl Notify {
    /// The receiver with its URL, which is read from the credential if it names one.
    pub fn with_credential(self) -> Result<Self, ConfigError> {
        let Self::Webhook { url } = &self else { return Ok(self) };
        let Some(name) = url.strip_prefix(CREDENTIAL) else { return Ok(self) };
        let refuse = |why: String| ConfigError(format!("in the url \"{url}\" of [[notify]]: {why}"));
        let path = secret::credential(name);
        let way_out = format_args!("set `LoadCredential={name}:FILE` in cowbell.service");
        let text = secret::read(&path, way_out).map_err(refuse)?;
        match is_address(&text) {
            true => Ok(Self::Webhook { url: text }),
            false => Err(refuse(format!("{} holds no http:// or https:// address", path.display()))),
        }
    }

    /// A copy to show: of a URL its host, of a command its program.
    pub fn without_secrets(&self) -> Self {
        match self {
            Self::Webhook { url } if url.starts_with(CREDENTIAL) => self.clone(),
            Self::Webhook { url } => Self::Webhook { url: host_only(url) },
            Self::Command { command } => {
                let arguments = command.iter().skip(1).map(|_| HIDDEN.to_string());
                Self::Command { command: command.iter().take(1).cloned().chain(arguments).collect() }
            }
        }
    }
}

fn host_only(url: &str) -> String {
    let Ok(url) = url.parse::<reqwest::Url>() else { return HIDDEN.into() };
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{}{port}/{HIDDEN}", url.scheme(), url.host_str().unwrap_or_default())
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let url = String::deserialize(deserializer)?;
    match is_address(&url) || url.strip_prefix(CREDENTIAL).is_some_and(is_name) {
        true => Ok(url),
        false => Err(D::Error::custom(
            "`url`: expected an http:// or https:// address, or \"credential:NAME\" with a name of letters, digits and -_.",
        )),
    }
}

fn is_address(text: &str) -> bool {
    let url = text.parse::<reqwest::Url>();
    url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Whether systemd may have a credential of this name, which becomes a file name.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_allowed)
}

fn program<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let command = Vec::deserialize(deserializer)?;
    let expected = "`command`: expected a program and its arguments such as [\"/path\", \"argument\"]";
    if command.is_empty() { Err(D::Error::custom(expected)) } else { Ok(command) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(receiver: Notify) -> String {
        format!("{:?}", receiver.without_secrets())
    }

    #[test]
    fn a_receiver_is_shown_without_its_secrets() {
        for (url, expected) in [
            ("https://me:pass@hooks.example:8443/a/secret?key=secret#secret", "https://hooks.example:8443/…"),
            ("http://[::1]/", "http://[::1]/…"),
            ("credential:webhook", "credential:webhook"),
        ] {
            assert_eq!(
                shown(Notify::Webhook { url: url.into() }),
                format!("Webhook {{ url: \"{expected}\" }}")
            );
        }
        let command = ["/bin/tell", "--key", "secret"].map(String::from).to_vec();
        assert_eq!(shown(Notify::Command { command }), "Command { command: [\"/bin/tell\", \"…\", \"…\"] }");
    }

    #[test]
    fn a_name_of_a_credential_names_no_other_file() {
        for name in ["webhook", "on-call_2.url"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "../token", "a/b", "a b", "ä"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
