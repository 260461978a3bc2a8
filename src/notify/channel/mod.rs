//! Delivers one message to a receiver: by webhook, command or e-mail.

mod command;
mod email;
mod heartbeat;
mod resolver;
mod webhook;

use std::time::Duration;

use jiff::Timestamp;

use super::message::{AlertState, Message};
use crate::alert::{Alert, Rule, Severity};
use crate::config::Channel as Settings;
use email::Email;
pub use heartbeat::Heartbeat;
use webhook::Webhook;

/// The time limit for delivering one message.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Characters of an answer or of a failure that are shown.
const LONGEST_ANSWER: usize = 200;

/// A failed delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// Whether the receiver certainly did not take it. After a time limit, it may have.
    pub is_refusal: bool,
    pub sentence: String,
}

/// A receiver, ready to send. What it needs of the disk is in memory, but for a command.
pub enum Channel {
    Webhook(Webhook),
    Command(Vec<String>),
    Email(Box<Email>),
}

impl Channel {
    /// Fails with a sentence if no message can be made with these settings.
    pub fn new(settings: &Settings, host: &str) -> Result<Self, String> {
        let channel = match settings {
            Settings::Webhook(webhook) => Self::Webhook(Webhook::new(webhook)?),
            Settings::Command(command) => Self::Command(command.clone()),
            Settings::Email(email) => Self::Email(Box::new(Email::new(email, host)?)),
        };
        if let Self::Webhook(webhook) = &channel {
            webhook.check(&test_message(host)).map_err(|error| format!("{error:#}"))?;
        }
        Ok(channel)
    }

    /// Delivers one message, within a time limit. Returns the receiver's answer.
    pub async fn deliver(&self, message: &Message) -> Result<String, Failed> {
        let send = async {
            match self {
                Self::Webhook(webhook) => webhook.send(message).await,
                Self::Command(command) => command::run(command, message).await,
                Self::Email(email) => email.send(message).await,
            }
        };
        match tokio::time::timeout(TIME_LIMIT, send).await {
            Ok(Ok(answer)) => Ok(shortened(&answer)),
            Ok(Err(error)) => Err(Failed { is_refusal: true, sentence: shortened(&format!("{error:#}")) }),
            Err(_) => Err(Failed {
                is_refusal: false,
                sentence: format!("it did not answer within {TIME_LIMIT:?}"),
            }),
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
        worst: Severity::Warning,
        worse_at: None,
        acknowledged: None,
        sentence: format!("This is a test of cowbell on {host}: no volume is concerned."),
    };
    Message { host: host.into(), first: AlertState::new(&alert), others: Vec::new() }
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_ANSWER) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
