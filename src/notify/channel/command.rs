//! Runs a program with a message on its standard input and in its environment, never through a shell.

use std::process::Stdio;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::super::message::Message;

/// Bytes of its standard error that are read.
const LONGEST_ERROR: u64 = 4_096;

pub async fn run(command: &[String], message: &Message) -> anyhow::Result<String> {
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .envs(environment(message))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start it")?;
    let group = Group(child.id());
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read its input may have closed it already.
            let _ = stdin.write_all(&serde_json::to_vec(message).unwrap_or_default()).await;
        }
    };
    let read = async {
        let mut said = Vec::new();
        if let Some(stderr) = stderr {
            let _ = stderr.take(LONGEST_ERROR).read_to_end(&mut said).await;
        }
        String::from_utf8_lossy(&said).trim().lines().last().unwrap_or_default().to_string()
    };
    // A program that it leaves behind may keep its standard error open.
    let status = async {
        let ((), status) = tokio::join!(write, child.wait());
        status
    };
    tokio::pin!(read);
    let (status, said) = tokio::select! {
        status = status => (status?, tokio::time::timeout(std::time::Duration::from_millis(100), read).await.unwrap_or_default()),
    };
    group.ended();
    if !status.success() {
        bail!("it ended with {status}{}{said}", if said.is_empty() { "" } else { ": " });
    }
    Ok(status.to_string())
}

/// The most important alert, for programs that read no JSON.
fn environment(message: &Message) -> Vec<(&'static str, String)> {
    let (state, alert) = (&message.first, &message.first.alert);
    vec![
        ("COWBELL_HOST", message.host.clone()),
        ("COWBELL_STATUS", state.status.text().into()),
        ("COWBELL_SEVERITY", alert.severity.text().into()),
        ("COWBELL_RULE", alert.rule.name().into()),
        ("COWBELL_VG", alert.vg.clone()),
        ("COWBELL_LV", alert.lv.clone()),
        ("COWBELL_ID", alert.id.to_string()),
        ("COWBELL_RAISED_AT", alert.raised_at.to_string()),
        ("COWBELL_SENTENCE", alert.sentence.clone()),
        ("COWBELL_ALERTS", message.alerts().count().to_string()),
    ]
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
