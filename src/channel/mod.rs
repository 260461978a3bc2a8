//! Ways to reach a receiver: webhook, command and e-mail.
//!
//! A kind is a file with a struct: its fields are the keys in the configuration, and `ReceiverKind` says how it delivers.
//! It is also a variant of `Channel`, and nothing else knows of it. A channel gets a `Message` in words, and knows
//! nothing of alerts.

mod command;
mod email;
mod heartbeat;
pub mod http;
pub mod secret;
mod webhook;

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use command::Program;
pub use email::Email;
pub use heartbeat::Heartbeat;
use secret::{External, Secrets};
pub use webhook::Webhook;

/// The time limit for delivering one message.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Characters of an answer or of a failure that are shown.
const LONGEST_ANSWER: usize = 300;

/// The keys of a receiver. `kind` in the configuration names the variant.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    Webhook(Webhook),
    Command(Program),
    Email(Email),
}

impl Channel {
    pub fn kind(&self) -> &dyn ReceiverKind {
        match self {
            Self::Webhook(webhook) => webhook,
            Self::Command(program) => program,
            Self::Email(email) => email,
        }
    }

    fn kind_mut(&mut self) -> &mut dyn ReceiverKind {
        match self {
            Self::Webhook(webhook) => webhook,
            Self::Command(program) => program,
            Self::Email(email) => email,
        }
    }

    /// Reads the values that are in credentials and files.
    pub fn load(&mut self) -> Result<(), String> {
        for (key, value) in self.kind_mut().external() {
            value.load(key)?;
        }
        Ok(())
    }

    /// Prepares deliveries from this host. Fails with a sentence if there can be none with these keys.
    pub fn connect(&self, host: &str) -> Result<ReceiverConnection, String> {
        Ok(ReceiverConnection {
            delivery: self.kind().connect(host)?,
            secrets: self.secrets(),
        })
    }

    fn secrets(&self) -> Secrets {
        let mut keys = self.clone();
        let external = keys.kind_mut().external();
        Secrets::new(external.iter().flat_map(|(_, value)| value.secrets()))
    }
}

/// A kind of receiver, by its keys.
pub trait ReceiverKind {
    /// The name of a receiver without the key `name`. It holds no secret.
    fn usual_name(&self) -> String;

    /// Fails if some keys do not go together.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Whether each alert is a message of its own.
    fn is_split(&self) -> bool {
        false
    }

    /// The values that may be secrets or in files, with their keys.
    fn external(&mut self) -> Vec<(&str, &mut dyn External)>;

    fn connect(&self, host: &str) -> Result<Box<dyn Delivers>, String>;
}

/// A receiver that is ready: what it needs of the disk is in memory, but for a command.
pub trait Delivers: Send + Sync {
    /// Fails if this message, and so any, cannot be made.
    fn check(&self, _message: &Message) -> Result<(), String> {
        Ok(())
    }

    /// Returns the receiver's answer.
    fn deliver<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<String, Failure>>;
}

/// A receiver that is ready, of any kind.
pub struct ReceiverConnection {
    delivery: Box<dyn Delivers>,
    secrets: Secrets,
}

impl ReceiverConnection {
    /// Fails if this message, and so any, cannot be made.
    pub fn check(&self, message: &Message) -> Result<(), String> {
        let checked = self.delivery.check(message);
        checked.map_err(|why| self.secrets.hide(&why))
    }

    /// Delivers one message, within a time limit. Returns the receiver's answer. Neither has secrets.
    pub async fn deliver(&self, message: &Message) -> Result<String, Failure> {
        let delivery = self.delivery.deliver(message);
        let shown = |text: &str| shortened(&self.secrets.hide(text));
        match tokio::time::timeout(TIME_LIMIT, delivery).await {
            Ok(Ok(answer)) => Ok(shown(&answer)),
            Ok(Err(failure)) => Err(Failure {
                sentence: shown(&failure.sentence),
                ..failure
            }),
            Err(_) => Err(Failure::unsure(format!(
                "it did not answer within {TIME_LIMIT:?}"
            ))),
        }
    }
}

/// Why a message was not delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Whether the receiver certainly did not take it. After a time limit, it may have.
    pub is_refusal: bool,
    pub sentence: String,
}

impl Failure {
    pub fn refused(sentence: impl ToString) -> Self {
        Self {
            is_refusal: true,
            sentence: sentence.to_string(),
        }
    }

    pub fn unsure(sentence: impl ToString) -> Self {
        Self {
            is_refusal: false,
            sentence: sentence.to_string(),
        }
    }
}

/// What a receiver gets: one or more alerts of this host, in words. As JSON it is the most important alert with its host,
/// and a list `others` if there are more.
#[derive(Clone, Debug, Serialize)]
pub struct Message {
    pub host: String,
    /// The most important one.
    #[serde(flatten)]
    pub first: MessageAlert,
    /// The others, the most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<MessageAlert>,
    /// Whether it is a test of the receiver, and no volume is concerned.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_test: bool,
    /// `db1: critical: snapshot fill of vg0/mysql_snapshot, and 2 more`
    #[serde(skip)]
    pub title: String,
    /// All alerts as plain text, a paragraph each.
    #[serde(skip)]
    pub text: String,
}

/// An alert of a message.
#[derive(Clone, Debug, Serialize)]
pub struct MessageAlert {
    /// As the API lists them.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
    /// `critical: snapshot fill of vg0/mysql_snapshot`
    #[serde(skip)]
    pub title: String,
    /// `vg0/mysql_snapshot`, or `cowbell` for an alert about cowbell itself
    #[serde(skip)]
    pub volume: String,
    /// The same in all messages about this alert, also after a restart.
    #[serde(skip)]
    pub key: String,
}

/// One line of limited length.
pub fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_ANSWER) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A message about a volume and a host of these names.
    pub fn message(host: &str, name: &str) -> Message {
        let title = format!("warning: snapshot fill of {name}");
        let fields = json!({
            "id": 3, "status": "raised", "severity": "warning", "worst": "warning", "rule": "snapshot_fill",
            "vg": name, "lv": name, "value": 70.5, "raised_at": "2026-11-23T07:00:00Z", "cleared_at": null,
            "sentence": name,
        });
        Message {
            host: host.into(),
            title: format!("{host}: {title}"),
            text: format!("{title}\n{name}\n"),
            first: MessageAlert {
                fields: fields.as_object().unwrap().clone(),
                title,
                volume: name.into(),
                key: format!("{host}-3-1"),
            },
            others: Vec::new(),
            is_test: false,
        }
    }

    fn channel(kind: &str, keys: &str) -> Channel {
        toml::from_str::<toml::Table>(&format!("[{kind}]\n{keys}"))
            .unwrap()
            .try_into()
            .unwrap()
    }

    #[test]
    fn a_channel_is_shown_without_its_secrets() {
        for (kind, keys, expected) in [
            (
                "webhook",
                "url = \"https://me:hunter2@hooks.example:8443/a/hunter2?key=hunter2#hunter2\"",
                "https://hooks.example:8443/…",
            ),
            (
                "webhook",
                "url = \"http://[::1]/hunter2\"",
                "http://[::1]/…",
            ),
            (
                "webhook",
                "url = \"https://x/hunter2{{ key }}\"",
                "https://x/…",
            ),
            (
                "webhook",
                "url = \"credential:webhook\"",
                "credential:webhook",
            ),
            (
                "webhook",
                "url = \"http://x\"\nheaders = { X-Key = \"Bearer hunter2\" }",
                "{\"X-Key\": …}",
            ),
            (
                "webhook",
                "url = \"http://x\"\nheaders = { X-Key = \"Bearer credential:key\" }",
                "Bearer credential:key",
            ),
            (
                "webhook",
                "url = \"http://x\"\nvalues = { key = \"hunter2\" }",
                "{\"key\": …}",
            ),
            (
                "webhook",
                "url = \"http://x\"\ntemplate = '{\"key\": \"hunter2\"}'",
                "template: Some(…)",
            ),
            (
                "command",
                "command = [\"/bin/tell\", \"--key\", \"hunter2\"]",
                "\"/bin/tell\", […, …]",
            ),
            (
                "email",
                "to = \"a@example.com\"\nuser = \"me\"\npassword = \"hunter2\"",
                "password: Some(…)",
            ),
        ] {
            let shown = format!("{:?}", channel(kind, keys));
            assert!(
                shown.contains(expected) && !shown.contains("hunter2"),
                "expected {expected} in {shown}"
            );
        }
    }

    #[test]
    fn an_answer_that_quotes_the_request_has_no_secret() {
        let webhook = channel(
            "webhook",
            "url = \"http://me:password@x/T00/hunter2?key=hunter3\"\n\
             headers = { Authorization = \"Bearer hunter4\" }\nvalues = { key = \"hunter5\" }\n",
        );
        let secrets = webhook.secrets();
        let quoted =
            "no /T00/hunter2 for hunter3 with Bearer hunter4 (hunter4) and hunter5 of me:password";
        assert_eq!(secrets.hide(quoted), "no … for … with … (…) and … of me:…");
    }
}
