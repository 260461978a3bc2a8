//! `cowbell record`, and the recording of a support bundle: raw readings, for `cowbell serve --replay`.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::StreamExt;
use jiff::SignedDuration;
use tokio::sync::mpsc;

use super::output::{NewFile, complain};
use super::serve::{hook_listener, signalled};
use crate::check;
use crate::client::Daemon;
use crate::config::Config;
use crate::source::files::Root;
use crate::source::hooks::HookListener;
use crate::source::live::Live;
use crate::source::recording::{Recorder, RecordingHeader};
use crate::source::{Reading, Source};

/// Maximum number of queued commands for the next tick of a recording.
const COMMANDS: usize = 1_000;
/// The pause before connecting to the daemon again.
const PAUSE: Duration = Duration::from_secs(2);
/// Longer lines of its live stream are invalid.
const LONGEST_LINE: usize = 64 * 1024;

/// What is recorded.
pub struct Recorded<'a> {
    pub config: &'a Config,
    /// Its commands are recorded too, if it runs.
    pub daemon: Daemon,
    pub root: Root,
    pub hooks: Option<HookListener>,
}

/// Records readings to a new file until the time is up or a signal arrives.
pub async fn record(
    config: &Config,
    daemon: Daemon,
    root: Root,
    file: &Path,
    length: Option<Duration>,
) -> anyhow::Result<()> {
    let (made, output) = NewFile::make(file)?;
    // An incomplete recording can be played too.
    made.keep();
    let (hooks, _) = hook_listener(check::hook_socket(config));
    let shutdown = signalled()?;
    complain(&format!(
        "recording to {}; end it with Ctrl-C",
        file.display()
    ));
    let over = async {
        // The time is up, or a signal arrived.
        let length = length.unwrap_or(Duration::MAX);
        let _ = tokio::time::timeout(length, shutdown.cancelled()).await;
    };
    let recorded = Recorded {
        config,
        daemon,
        root,
        hooks,
    };
    write(recorded, output, over)
        .await
        .with_context(|| format!("cannot write the recording {}", file.display()))
}

/// Parses the value of `--for`.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    let length: Option<SignedDuration> = text.parse().ok();
    length
        .and_then(|length| Duration::try_from(length).ok())
        .ok_or("expected a duration such as 10m")
}

/// Writes readings, and the commands that a daemon on the same host receives, until `over`.
pub async fn write(
    recorded: Recorded<'_>,
    output: File,
    over: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let Recorded {
        config,
        daemon,
        root,
        hooks,
    } = recorded;
    let interval = config.interval.0;
    let mut recorder = Recorder::new(output, &RecordingHeader::of_this_machine(interval))?;
    let mut live = Live::new(root, interval, config.lvm.source)?;
    live.hook_listener = hooks;
    let mut source = Source::Live(Box::new(live));
    let (sender, mut commands) = mpsc::channel(COMMANDS);
    tokio::spawn(follow(daemon, sender));
    tokio::pin!(over);
    loop {
        let reading = tokio::select! {
            () = &mut over => None,
            reading = source.next() => reading,
        };
        while let Ok(command) = commands.try_recv() {
            recorder.write(&command)?;
        }
        let Some(reading) = reading else {
            recorder.finish()?;
            return Ok(());
        };
        recorder.write(&reading)?;
    }
}

/// Passes on the commands on jobs that a daemon carries out, as readings, until the receiver is closed.
async fn follow(daemon: Daemon, readings: mpsc::Sender<Reading>) {
    while !readings.is_closed() {
        // Without a daemon there are no commands.
        let _ = follow_once(&daemon, &readings).await;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow_once(daemon: &Daemon, readings: &mpsc::Sender<Reading>) -> anyhow::Result<()> {
    let mut stream = daemon.stream("/api/v1/live").await?;
    let mut text = Vec::new();
    while let Some(part) = stream.next().await {
        text.extend_from_slice(&part?);
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
