//! Sends one message to a webhook or a command.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::Message;
use super::outbox::Failed;
use crate::config::Notify as Receiver;

/// The time limit for delivering one message.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// For the log: a URL without path, which may contain secrets.
pub fn name(receiver: &Receiver) -> String {
    match receiver {
        Receiver::Webhook { url } => {
            let host = url.parse::<reqwest::Url>().ok().and_then(|url| url.host_str().map(String::from));
            format!("the webhook at {}", host.unwrap_or_default())
        }
        Receiver::Command { command } => format!("the command {}", command[0]),
    }
}

/// Delivers one message, within a time limit. Returns the receiver's answer.
pub async fn deliver(receiver: &Receiver, message: &Message) -> Result<String, Failed> {
    let sent = tokio::time::timeout(TIME_LIMIT, send(receiver, message)).await;
    match sent {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Failed { is_refusal: true, sentence: format!("{error:#}") }),
        Err(_) => {
            Err(Failed { is_refusal: false, sentence: format!("it did not answer within {TIME_LIMIT:?}") })
        }
    }
}

async fn send(receiver: &Receiver, message: &Message) -> anyhow::Result<String> {
    match receiver {
        Receiver::Webhook { url } => {
            let answer = client()?.post(url).json(message).send().await;
            let answer =
                answer.and_then(reqwest::Response::error_for_status).map_err(reqwest::Error::without_url)?;
            Ok(answer.status().to_string())
        }
        Receiver::Command { command } => run(command, serde_json::to_vec(message)?).await,
    }
}

/// A client for one delivery. Deliveries are rare, and a client keeps all certificates of the host in memory. A host
/// without certificates can use `http` addresses.
fn client() -> reqwest::Result<reqwest::Client> {
    let builder = reqwest::Client::builder;
    builder().build().or_else(|_| builder().tls_certs_only([]).build())
}

/// Runs the program with `input` on its standard input; its output is discarded.
async fn run(command: &[String], input: Vec<u8>) -> anyhow::Result<String> {
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
    Ok(status.to_string())
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
