//! Delivers one message to a receiver: by webhook, command or e-mail.

mod command;
mod email;
mod heartbeat;
pub mod http;
mod reason;
mod resolver;
mod secrets;
mod template;
mod webhook;

use std::time::Duration;

use jiff::Timestamp;

use super::message::{AlertState, Message};
use crate::alert::{Alert, AlertText, Rule, Severity};
use crate::config::Channel as Settings;
use email::Email;
pub use heartbeat::Heartbeat;
pub use secrets::Secrets;
use webhook::Webhook;

/// The time limit for delivering one message.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Characters of an answer or of a failure that are shown.
const LONGEST_ANSWER: usize = 300;

/// A failed delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// Whether the receiver certainly did not take it. After a time limit, it may have.
    pub is_refusal: bool,
    pub sentence: String,
}

impl Failed {
    pub fn refused(sentence: String) -> Self {
        Self {
            is_refusal: true,
            sentence,
        }
    }

    pub fn unsure(sentence: String) -> Self {
        Self {
            is_refusal: false,
            sentence,
        }
    }
}

/// A receiver, ready to send. What it needs of the disk is in memory, but for a command.
pub struct Channel {
    kind: Kind,
    secrets: Secrets,
}

enum Kind {
    Webhook(Box<Webhook>),
    Command(Vec<String>),
    Email(Box<Email>),
}

impl Channel {
    /// Fails with a sentence if no message can be made with these settings.
    pub fn new(settings: &Settings, host: &str) -> Result<Self, String> {
        let kind = match settings {
            Settings::Webhook(webhook) => Kind::Webhook(Box::new(Webhook::new(webhook)?)),
            Settings::Command(command) => Kind::Command(command.clone()),
            Settings::Email(email) => Kind::Email(Box::new(Email::new(email, host)?)),
        };
        let secrets = Secrets::of(settings);
        if let Kind::Webhook(webhook) = &kind {
            let check = |message: &Message| webhook.check(message);
            samples(host)
                .iter()
                .try_for_each(check)
                .map_err(|why| secrets.hide(&why))?;
        }
        Ok(Self { kind, secrets })
    }

    /// Delivers one message, within a time limit. Returns the receiver's answer. Neither has secrets.
    pub async fn deliver(&self, message: &Message) -> Result<String, Failed> {
        let send = async {
            match &self.kind {
                Kind::Webhook(webhook) => webhook.send(message).await,
                Kind::Command(command) => command::run(command, message).await,
                Kind::Email(email) => email.send(message).await,
            }
        };
        let shown = |text: &str| shortened(&self.secrets.hide(text));
        match tokio::time::timeout(TIME_LIMIT, send).await {
            Ok(Ok(answer)) => Ok(shown(&answer)),
            Ok(Err(failed)) => Err(Failed {
                sentence: shown(&failed.sentence),
                ..failed
            }),
            Err(_) => Err(Failed::unsure(format!(
                "it did not answer within {TIME_LIMIT:?}"
            ))),
        }
    }
}

/// A message that says that it is a test.
pub fn test_message(host: &str) -> Message {
    let alert = Alert {
        id: 0,
        rule: Rule::SnapshotFill,
        severity: Severity::Warning,
        vg: "vg0".into(),
        lv: "test".into(),
        uuid: "test".into(),
        value: Some(70.0),
        peak: None,
        job: None,
        raised_at: Timestamp::now(),
        cleared_at: None,
        recovered: false,
        worst: Severity::Warning,
        worse_at: None,
        acknowledged: None,
        text: AlertText::new(
            format!("This is a test of cowbell on {host}: no volume is concerned."),
            "",
        ),
    };
    Message {
        host: host.into(),
        first: AlertState::new(&alert),
        others: Vec::new(),
        is_test: true,
    }
}

/// Messages of all kinds, by which templates are checked: a test, and several alerts, raised and cleared.
fn samples(host: &str) -> Vec<Message> {
    let test = test_message(host);
    let raised = &test.first.alert;
    let own = Alert {
        vg: String::new(),
        lv: String::new(),
        value: None,
        ..raised.clone()
    };
    let cleared = Alert {
        cleared_at: Some(raised.raised_at),
        worst: Severity::Critical,
        ..raised.clone()
    };
    let critical = Alert {
        severity: Severity::Critical,
        worst: Severity::Critical,
        ..raised.clone()
    };
    let message = |alerts: &[&Alert]| {
        Message::of(
            host,
            alerts.iter().map(|alert| AlertState::new(alert)).collect(),
        )
    };
    let messages = [
        message(&[raised, &cleared, &own]),
        message(&[&critical]),
        message(&[&cleared]),
    ];
    messages.into_iter().flatten().chain([test]).collect()
}

/// One line of limited length.
pub fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_ANSWER) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
