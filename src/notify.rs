//! Delivers alerts to webhooks and commands: each in its own task behind a bounded queue, retried, never waited for.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use utoipa::ToSchema;

use crate::alert::{Alert, Rule, Severity};
use crate::config::Notify;

/// Messages that wait for one receiver; more than this and the oldest news is no news.
const QUEUE: usize = 256;
/// A receiver has this long for one message.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Pauses before the second and each further try of a message; after the last it is given up.
const PAUSES: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// An alert as the API lists it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct AlertBody {
    pub id: i64,
    pub rule: Rule,
    pub severity: Severity,
    pub vg: String,
    pub lv: String,
    pub value: Option<f64>,
    #[schema(value_type = String, format = DateTime)]
    pub raised_at: jiff::Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub cleared_at: Option<jiff::Timestamp>,
    pub sentence: String,
}

/// An alert as it is delivered: the same, with what happened to it and where.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// `raised` or `cleared`
    pub status: &'static str,
    pub host: String,
    #[serde(flatten)]
    pub alert: AlertBody,
}

impl From<&Alert> for AlertBody {
    fn from(alert: &Alert) -> Self {
        Self {
            id: alert.id,
            rule: alert.rule,
            severity: alert.severity,
            vg: alert.vg.clone(),
            lv: alert.lv.clone(),
            value: alert.value,
            raised_at: alert.raised_at,
            cleared_at: alert.cleared_at,
            sentence: alert.sentence.clone(),
        }
    }
}

impl Message {
    pub fn new(alert: &Alert, host: &str) -> Self {
        let status = if alert.cleared_at.is_some() { "cleared" } else { "raised" };
        Self { status, host: host.into(), alert: alert.into() }
    }
}

/// All who are told of alerts.
pub struct Notifier {
    host: String,
    receivers: Vec<(String, mpsc::Sender<Message>)>,
    /// Deliveries end with the notifier.
    _tasks: JoinSet<()>,
}

impl Notifier {
    pub fn start(settings: &[Notify], host: &str) -> anyhow::Result<Self> {
        let mut tasks = JoinSet::new();
        let mut receivers = Vec::new();
        for setting in settings {
            let receiver = Receiver::new(setting)?;
            let (sender, queue) = mpsc::channel(QUEUE);
            receivers.push((receiver.name(), sender));
            tasks.spawn(deliver_all(receiver, queue));
        }
        Ok(Self { host: host.into(), receivers, _tasks: tasks })
    }

    /// Hands the alert to every receiver's queue, without waiting.
    pub fn tell(&self, alert: &Alert) {
        let message = Message::new(alert, &self.host);
        for (name, queue) in &self.receivers {
            if queue.try_send(message.clone()).is_err() {
                tracing::error!("{name} is {QUEUE} messages behind: it is not told that {}", alert.sentence);
            }
        }
    }
}

enum Receiver {
    Webhook { url: String, client: reqwest::Client },
    Command { command: Vec<String> },
}

impl Receiver {
    fn new(setting: &Notify) -> anyhow::Result<Self> {
        Ok(match setting {
            Notify::Webhook { url } => {
                let client = reqwest::Client::builder().timeout(TIME_LIMIT).build();
                let client = client.with_context(|| format!("cannot prepare to post to {url}"))?;
                Self::Webhook { url: url.clone(), client }
            }
            Notify::Command { command } => Self::Command { command: command.clone() },
        })
    }

    /// For the log: without what an address may hold of secrets.
    fn name(&self) -> String {
        match self {
            Self::Webhook { url, .. } => {
                let host = url.parse::<reqwest::Url>().ok().and_then(|url| url.host_str().map(String::from));
                format!("the webhook at {}", host.unwrap_or_default())
            }
            Self::Command { command } => format!("the command {}", command[0]),
        }
    }

    async fn deliver(&self, message: &Message) -> anyhow::Result<()> {
        match self {
            Self::Webhook { url, client } => {
                let answer = client.post(url).json(message).send().await;
                answer.and_then(reqwest::Response::error_for_status).map_err(reqwest::Error::without_url)?;
                Ok(())
            }
            Self::Command { command } => {
                let run = run(command, serde_json::to_vec(message)?);
                tokio::time::timeout(TIME_LIMIT, run)
                    .await
                    .context("it did not end in time and was killed")?
            }
        }
    }
}

async fn deliver_all(receiver: Receiver, mut queue: mpsc::Receiver<Message>) {
    while let Some(message) = queue.recv().await {
        let name = receiver.name();
        let mut pauses = PAUSES.iter();
        while let Err(error) = receiver.deliver(&message).await {
            let Some(pause) = pauses.next() else {
                tracing::error!(
                    "{name} could not be told of alert {} and is not tried again: {error:#}",
                    message.alert.id
                );
                break;
            };
            tracing::warn!(
                "{name} could not be told of alert {}, next try in {pause:?}: {error:#}",
                message.alert.id
            );
            tokio::time::sleep(*pause).await;
        }
    }
}

/// Runs the program with `input` on its standard input; what it prints is not kept.
async fn run(command: &[String], input: Vec<u8>) -> anyhow::Result<()> {
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start it")?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input may have closed it already.
        let _ = stdin.write_all(&input).await;
    }
    let status = child.wait().await?;
    if !status.success() {
        bail!("it ended with {status}");
    }
    Ok(())
}
