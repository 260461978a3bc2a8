//! Delivers alerts to webhooks and commands: one task and bounded queue per receiver, with retries.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::alert::Alert;
use crate::config::Notify as Receiver;

/// Messages that may wait for one receiver; further ones are dropped.
const QUEUE: usize = 256;
/// The time limit for delivering one message.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Seconds before each retry of a message; after the last, it is dropped.
const PAUSES_S: [u64; 6] = [1, 2, 5, 10, 30, 60];

/// The time limit for deliveries in progress when the program stops.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

/// An alert as receivers get it, with its status and host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// `raised` or `cleared`
    pub status: &'static str,
    pub host: String,
    #[serde(flatten)]
    pub alert: Alert,
}

impl Message {
    pub fn new(alert: &Alert, host: &str) -> Self {
        let status = if alert.cleared_at.is_some() { "cleared" } else { "raised" };
        Self { status, host: host.into(), alert: alert.clone() }
    }
}

/// All receivers of alerts.
pub struct Notifier {
    host: String,
    receivers: Vec<(String, mpsc::Sender<Message>)>,
    /// IDs of queued alerts, once per receiver, and a channel of those that were delivered or dropped.
    in_flight: Vec<i64>,
    settled: mpsc::UnboundedReceiver<i64>,
    settle: mpsc::UnboundedSender<i64>,
    /// Aborts deliveries when the notifier is dropped.
    tasks: JoinSet<()>,
    runtime: Handle,
}

impl Notifier {
    /// Starts on the current runtime.
    pub fn start(settings: &[Receiver], host: &str) -> Self {
        let (settle, settled) = mpsc::unbounded_channel();
        let mut notifier = Self {
            host: host.into(),
            receivers: Vec::new(),
            in_flight: Vec::new(),
            settled,
            settle,
            tasks: JoinSet::new(),
            runtime: Handle::current(),
        };
        notifier.reload(settings);
        notifier
    }

    /// Takes new receivers. The old ones still get what is queued for them.
    pub fn reload(&mut self, settings: &[Receiver]) {
        self.receivers.clear();
        for receiver in settings {
            let (sender, queue) = mpsc::channel(QUEUE);
            self.receivers.push((name(receiver), sender));
            self.tasks.spawn_on(deliver_all(receiver.clone(), queue, self.settle.clone()), &self.runtime);
        }
    }

    /// Queues the alert for every receiver, without waiting.
    pub fn tell(&mut self, alert: &Alert) {
        while let Ok(id) = self.settled.try_recv() {
            self.settle(id);
        }
        let message = Message::new(alert, &self.host);
        for (name, queue) in &self.receivers {
            match queue.try_send(message.clone()) {
                Ok(()) => self.in_flight.push(alert.id),
                Err(_) => tracing::error!(
                    "dropped an alert for {name}, which has {QUEUE} queued: {}",
                    alert.sentence
                ),
            }
        }
    }

    /// Waits briefly for deliveries in progress; returns the IDs of undelivered alerts.
    pub async fn close(&mut self) -> Vec<i64> {
        let end = tokio::time::Instant::now() + CLOSE_TIMEOUT;
        while !self.in_flight.is_empty() {
            match tokio::time::timeout_at(end, self.settled.recv()).await {
                Ok(Some(id)) => self.settle(id),
                _ => break,
            }
        }
        std::mem::take(&mut self.in_flight)
    }

    fn settle(&mut self, id: i64) {
        if let Some(index) = self.in_flight.iter().position(|other| *other == id) {
            self.in_flight.swap_remove(index);
        }
    }
}

/// For the log: a URL without path, which may contain secrets.
fn name(receiver: &Receiver) -> String {
    match receiver {
        Receiver::Webhook { url } => {
            let host = url.parse::<reqwest::Url>().ok().and_then(|url| url.host_str().map(String::from));
            format!("the webhook at {}", host.unwrap_or_default())
        }
        Receiver::Command { command } => format!("the command {}", command[0]),
    }
}

async fn deliver(receiver: &Receiver, message: &Message) -> anyhow::Result<()> {
    match receiver {
        Receiver::Webhook { url } => {
            let answer = client()?.post(url).json(message).send().await;
            answer.and_then(reqwest::Response::error_for_status).map_err(reqwest::Error::without_url)?;
            Ok(())
        }
        Receiver::Command { command } => {
            let run = run(command, serde_json::to_vec(message)?);
            tokio::time::timeout(TIME_LIMIT, run).await.context("it timed out and was killed")?
        }
    }
}

/// A client for one delivery. Deliveries are rare, and a client keeps all certificates of the host in memory. A host
/// without certificates can use `http` addresses.
fn client() -> reqwest::Result<reqwest::Client> {
    let builder = || reqwest::Client::builder().timeout(TIME_LIMIT);
    builder().build().or_else(|_| builder().tls_certs_only([]).build())
}

async fn deliver_all(
    receiver: Receiver,
    mut queue: mpsc::Receiver<Message>,
    settle: mpsc::UnboundedSender<i64>,
) {
    while let Some(message) = queue.recv().await {
        let name = name(&receiver);
        let mut pauses = PAUSES_S.into_iter().map(Duration::from_secs);
        while let Err(error) = deliver(&receiver, &message).await {
            let Some(pause) = pauses.next() else {
                tracing::error!("cannot deliver alert {} to {name}, giving up: {error:#}", message.alert.id);
                break;
            };
            tracing::warn!(
                "cannot deliver alert {} to {name}, retrying in {pause:?}: {error:#}",
                message.alert.id
            );
            tokio::time::sleep(pause).await;
        }
        // The notifier may be gone while the program stops.
        let _ = settle.send(message.alert.id);
    }
}

/// Runs the program with `input` on its standard input; its output is discarded.
async fn run(command: &[String], input: Vec<u8>) -> anyhow::Result<()> {
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start it")?;
    let group = Group(child.id());
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input may have closed it already.
        let _ = stdin.write_all(&input).await;
    }
    let status = child.wait().await?;
    group.ended();
    if !status.success() {
        bail!("it ended with {status}");
    }
    Ok(())
}

/// A process group, which is killed when dropped.
struct Group(Option<u32>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended just now.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}
