//! `cowbell run`: runs a command and records it as a job.
//!
//! The command inherits terminal, input and output, and its exit status is returned. It also runs without a daemon.

mod caches;
mod child;
mod inherited;
mod reporter;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use jiff::SignedDuration;
use rustix::process::Signal;

use super::Daemon;
use super::arguments::{SetArguments, name};
use crate::commands::{LONGEST_NAME, MarkKind};
use crate::source::files::Root;
use crate::web::PutJob;
use child::Signals;
use reporter::Reporter;

/// Exit statuses as in a shell: the command was not found, or cannot be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;
/// Caches could not be dropped, and the command was not run.
const REFUSED: u8 = 2;

/// Maximum repeats.
const MOST_RUNS: i64 = 10_000;
/// The longest pause before a run.
const LONGEST_SETTLE: Duration = Duration::from_secs(24 * 3600);

// A command, its repeats, and the preparation of each run.
#[derive(Args)]
pub struct Plan {
    /// The name of the job [default: the command's name]
    #[arg(long, value_parser = name)]
    name: Option<String>,
    #[command(flatten)]
    set: SetArguments,
    /// Run the command K times, each as a job of its own; stop at the first failure
    #[arg(long, value_name = "K", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=MOST_RUNS))]
    repeat: u32,
    /// Wait before each run, such as 10s
    #[arg(long, value_name = "LENGTH", value_parser = settle)]
    settle: Option<Duration>,
    /// Write dirty pages and drop the kernel's caches before each run; refused beside a database server
    #[arg(long)]
    drop_caches: bool,
    /// Drop caches also beside a database server
    #[arg(long)]
    force_drop_caches: bool,
    /// The command, after `--`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// How a run ended.
enum RunEnd {
    Exited(ExitStatus),
    NotStarted(u8),
}

/// Runs the command as planned and reports each run to the daemon; returns the exit status.
pub async fn run(daemon: &Daemon, plan: &Plan, root: &Root) -> anyhow::Result<u8> {
    let mut signals = Signals::caught()?;
    let mut reporter = Reporter::to(daemon);
    let mut number = 1;
    loop {
        if let Some(status) = prepare(plan, number, root, &mut signals).await {
            return Ok(status);
        }
        let ended = once(&mut reporter, plan, number, &mut signals).await?;
        let stopped = stop_reason(&ended, signals.received);
        if number == plan.repeat || stopped.is_some() {
            if let Some(why) = stopped.filter(|_| plan.repeat > 1) {
                complain(&format!(
                    "{why} in run {number} of {}; no further run is started",
                    plan.repeat
                ));
            }
            return Ok(match ended {
                RunEnd::Exited(status) => child::exit_like(status),
                RunEnd::NotStarted(status) => status,
            });
        }
        number += 1;
    }
}

/// Prepares a run; returns an exit status if it must not start.
async fn prepare(plan: &Plan, number: u32, root: &Root, signals: &mut Signals) -> Option<u8> {
    let ended_by = |signal: Signal| {
        complain(&format!(
            "a signal arrived before run {number} of {}, which is not started",
            plan.repeat
        ));
        Some(child::end_by(signal.as_raw()))
    };
    let pause = plan.settle.unwrap_or_default();
    let is_first_at_once = number == 1 && pause.is_zero();
    if !is_first_at_once && let Some(signal) = signals.settle(pause).await {
        return ended_by(signal);
    }
    if plan.drop_caches || plan.force_drop_caches {
        let (root, is_forced) = (root.clone(), plan.force_drop_caches);
        // Writing dirty pages may take long.
        let dropping = tokio::task::spawn_blocking(move || caches::drop_caches(&root, is_forced));
        let dropped = tokio::select! {
            dropped = dropping => dropped.unwrap_or_else(|error| Err(error.to_string())),
            signal = signals.ending() => return ended_by(signal),
        };
        if let Err(sentence) = dropped {
            complain(&format!("{sentence}; the command is not run"));
            return Some(REFUSED);
        }
    }
    None
}

fn complain(sentence: &str) {
    super::complain(&format!("cowbell run: {sentence}"));
}

fn stop_reason(ended: &RunEnd, received: Option<Signal>) -> Option<&'static str> {
    match ended {
        RunEnd::NotStarted(_) => Some("the command could not be started"),
        RunEnd::Exited(status) if !status.success() => Some("the command failed"),
        RunEnd::Exited(_) => received.map(|_| "a signal arrived"),
    }
}

/// One run, which is one job.
async fn once(
    reporter: &mut Reporter,
    plan: &Plan,
    number: u32,
    signals: &mut Signals,
) -> anyhow::Result<RunEnd> {
    let program = plan.command[0].to_string_lossy();
    let start = plan.start(number);
    let started_at = start.started_at;
    let key = format!(
        "run-{}-{}-{number}",
        std::process::id(),
        started_at.as_millisecond()
    );
    let mut child = match child::start(&plan.command) {
        Ok(child) => child,
        Err(error) => {
            complain(&format!("cannot start `{program}`: {error}"));
            let failed = PutJob {
                ended_at: Some(started_at),
                succeeded: Some(false),
                ..start
            };
            reporter.end(&key, &failed, None, signals).await;
            let is_missing = error.kind() == std::io::ErrorKind::NotFound;
            return Ok(RunEnd::NotStarted(if is_missing {
                NOT_FOUND
            } else {
                NOT_STARTED
            }));
        }
    };
    let running = reporter.start(&key, &start);
    let status = signals
        .wait(&mut child)
        .await
        .with_context(|| format!("cannot wait for `{program}`"))?;
    let ended_at = crate::source::clock::now().max(started_at);
    let (succeeded, code) = (
        status.success(),
        status.code().and_then(|code| u8::try_from(code).ok()),
    );
    let ended = PutJob {
        ended_at: Some(ended_at),
        succeeded: Some(succeeded),
        status: code,
        ..start
    };
    reporter.end(&key, &ended, Some(running), signals).await;
    Ok(RunEnd::Exited(status))
}

impl Plan {
    /// The mark of a run that starts now.
    fn start(&self, number: u32) -> PutJob {
        let name = self.name.clone().unwrap_or_else(|| self.program());
        let is_repeated = self.repeat > 1;
        PutJob {
            set: self.set.set(&name, is_repeated),
            variant: self.set.variant.clone(),
            repeat: is_repeated.then_some(number),
            name,
            kind: MarkKind::Command,
            started_at: crate::source::clock::now(),
            process: Some(std::process::id()),
            ..PutJob::default()
        }
    }

    /// The name of the command, without characters that are not allowed.
    fn program(&self) -> String {
        let program = Path::new(&self.command[0])
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let fit = |letter: char| {
            if letter == ' ' || is_name(letter.encode_utf8(&mut [0; 4])) {
                letter
            } else {
                '_'
            }
        };
        let name: String = program.chars().map(fit).take(LONGEST_NAME).collect();
        let says_something = name.chars().any(|letter| letter != '_');
        if says_something && is_name(&name) {
            name
        } else {
            "command".into()
        }
    }
}

fn is_name(text: &str) -> bool {
    name(text).is_ok()
}

fn settle(text: &str) -> Result<Duration, String> {
    let length = text
        .parse::<SignedDuration>()
        .ok()
        .and_then(|length| Duration::try_from(length).ok());
    length
        .filter(|length| *length <= LONGEST_SETTLE)
        .ok_or_else(|| "expected a duration from 0s to 24h such as 10s".into())
}
