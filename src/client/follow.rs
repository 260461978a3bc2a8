//! For `cowbell record`: receives the commands on jobs that a daemon carries out.

use std::time::Duration;

use anyhow::bail;
use tokio::sync::mpsc;

use super::Daemon;
use crate::source::Reading;

/// The pause before connecting again.
const PAUSE: Duration = Duration::from_secs(2);
/// The stream lasts as long as the recording.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Longer lines are invalid.
const LONGEST_LINE: usize = 64 * 1024;

/// Passes on commands as readings until the receiver is closed.
pub async fn follow(daemon: Daemon, readings: mpsc::Sender<Reading>) {
    while !readings.is_closed() {
        // Without a daemon there are no commands.
        let _ = follow_once(&daemon, &readings).await;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow_once(daemon: &Daemon, readings: &mpsc::Sender<Reading>) -> anyhow::Result<()> {
    let request = daemon
        .http()
        .await?
        .get(super::url("/api/v1/live"))
        .timeout(NEVER);
    let mut answer = request.send().await?.error_for_status()?;
    let mut text = Vec::new();
    while let Some(part) = answer.chunk().await? {
        text.extend_from_slice(&part);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            if let Some(reading) = command(&line) {
                readings.send(reading).await?;
            }
        }
        if text.len() > LONGEST_LINE {
            bail!("a line of the live stream is too long");
        }
    }
    Ok(())
}

/// The reading of a `command` event; `None` for other events.
fn command(line: &[u8]) -> Option<Reading> {
    serde_json::from_slice(line.strip_prefix(b"data: ")?).ok()
}
