//! `cowbell record`, and the recording of a support bundle: raw readings, for `cowbell serve --replay`.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use jiff::SignedDuration;
use tokio::sync::mpsc;

use super::new_file::NewFile;
use super::serve::{hook_listener, signalled};
use crate::check;
use crate::client::follow::follow;
use crate::client::{Daemon, complain};
use crate::config::Config;
use crate::source::files::Root;
use crate::source::hooks::HookListener;
use crate::source::live::Live;
use crate::source::recording::{Recorder, RecordingHeader};
use crate::source::{Reading, Source};

/// Maximum number of queued commands for the next tick of a recording.
const COMMANDS: usize = 1_000;

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
    length: Option<SignedDuration>,
) -> anyhow::Result<()> {
    let length = length.map_or(Ok(Duration::MAX), limit)?;
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
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(length) => {}
        }
    };
    let written = write(
        Recorded {
            config,
            daemon,
            root,
            hooks,
        },
        output,
        over,
    )
    .await;
    written.with_context(|| format!("cannot write the recording {}", file.display()))
}

/// The value of `--for`.
pub fn limit(length: SignedDuration) -> anyhow::Result<Duration> {
    Duration::try_from(length)
        .ok()
        .context("expected a duration such as 10m for --for")
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
    let live = Live::new(root, interval, config.lvm.source)?.with_hooks(hooks);
    let mut source = Source::Live(Box::new(live));
    let (sender, mut commands) = mpsc::channel(COMMANDS);
    tokio::spawn(follow(daemon, sender));
    tokio::pin!(over);
    while let Some(reading) = next(&mut source, &mut over).await {
        write_commands(&mut recorder, &mut commands)?;
        recorder.write(&reading)?;
    }
    write_commands(&mut recorder, &mut commands)?;
    recorder.finish()?;
    Ok(())
}

async fn next(
    source: &mut Source,
    over: &mut (impl Future<Output = ()> + Unpin),
) -> Option<Reading> {
    tokio::select! {
        () = over => None,
        reading = source.next() => reading,
    }
}

fn write_commands(
    recorder: &mut Recorder<File>,
    commands: &mut mpsc::Receiver<Reading>,
) -> std::io::Result<()> {
    while let Ok(command) = commands.try_recv() {
        recorder.write(&command)?;
    }
    Ok(())
}
