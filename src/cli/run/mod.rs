//! `cowbell run`: runs a command and records it as a job.
//!
//! The command inherits terminal, input and output, and its exit status is returned. It also runs without a daemon.

mod child;
mod inherited;
mod reporter;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use rustix::process::Signal;

use super::mark::{SetArguments, name};
use super::output;
use super::record::duration;
use crate::client::Daemon;
use crate::commands::{LONGEST_NAME, MarkKind};
use crate::job::programs::{is_backup_tool, runs_backup_tool};
use crate::source::clock;
use crate::source::files::Root;
use crate::store::in_words;
use crate::web::PutJob;
use child::{Programs, Signals};
use reporter::RunReporter;

/// Exit statuses as in a shell: the command was not found, or cannot be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;
/// Caches could not be dropped, and the command was not run.
const REFUSED: u8 = 2;

/// Maximum repeats.
const MOST_RUNS: i64 = 10_000;
/// The longest pause before a run.
const LONGEST_SETTLE: Duration = Duration::from_secs(24 * 3600);

/// Servers that rely on the page cache, or whose disk would be busy while other programs fill the cache again.
const DATABASES: [&str; 19] = [
    "mysqld",
    "mariadbd",
    "postgres",
    "postmaster",
    "mongod",
    "redis-server",
    "valkey-server",
    "keydb-server",
    "clickhouse-serv",
    "db2sysc",
    "sqlservr",
    "firebird",
    "influxd",
    "cockroach",
    "etcd",
    "arangod",
    "ndbmtd",
    "ndbd",
    "memcached",
];
/// The prefix of Oracle's processes, such as `ora_pmon_NAME`.
const ORACLE: &str = "ora_";

// A command, its repeats, and the preparation of each run. (A doc comment would become the help of the command.)
#[derive(Args)]
pub struct RunArguments {
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
    /// The command is a backup: its failure raises an alert, as that of a known backup tool does
    #[arg(long)]
    backup: bool,
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
pub async fn run(daemon: &Daemon, plan: &RunArguments, root: &Root) -> anyhow::Result<u8> {
    let mut signals = Signals::caught()?;
    let mut reporter = RunReporter::to(daemon);
    let mut number = 1;
    loop {
        if let Some(status) = prepare(plan, number, root, &mut signals).await {
            return Ok(status);
        }
        // A backup tool knows which failures matter of what it runs.
        let hides_nothing = is_backup_tool(&plan.program());
        let programs = Programs::watch(root, !hides_nothing);
        let ended = once(&mut reporter, plan, number, &mut signals, programs).await?;
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
async fn prepare(
    plan: &RunArguments,
    number: u32,
    root: &Root,
    signals: &mut Signals,
) -> Option<u8> {
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
        let dropping = tokio::task::spawn_blocking(move || drop_caches(&root, is_forced));
        let dropped = tokio::select! {
            dropped = dropping => dropped.unwrap_or_else(|error| Err(error.into())),
            signal = signals.ending() => return ended_by(signal),
        };
        if let Err(error) = dropped {
            complain(&format!("{}; the command is not run", in_words(&error)));
            return Some(REFUSED);
        }
    }
    None
}

/// Writes dirty pages and drops all caches, so that all runs start with empty ones.
fn drop_caches(root: &Root, is_forced: bool) -> anyhow::Result<()> {
    let servers = root.process_names();
    let server = servers.iter().find(|name| is_database(name));
    if let Some(server) = server.filter(|_| !is_forced) {
        bail!(
            "caches are not dropped, since the database server `{server}` runs here and would have to read \
             everything from disk again: omit --drop-caches, or use --force-drop-caches"
        );
    }
    let path = root.0.join("proc/sys/vm/drop_caches");
    let cannot = |error: std::io::Error| {
        anyhow!(
            "cannot drop caches by writing to {}: {error}; run as root on the host itself, or omit --drop-caches",
            path.display()
        )
    };
    let mut file = OpenOptions::new().write(true).open(&path).map_err(cannot)?;
    rustix::fs::sync();
    file.write_all(b"3\n").map_err(cannot)
}

fn is_database(name: &str) -> bool {
    DATABASES.contains(&name) || name.starts_with(ORACLE)
}

fn complain(sentence: &str) {
    output::complain(&format!("cowbell run: {sentence}"));
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
    reporter: &mut RunReporter,
    plan: &RunArguments,
    number: u32,
    signals: &mut Signals,
    mut programs: Programs,
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
            return Ok(RunEnd::NotStarted(match error.kind() {
                std::io::ErrorKind::NotFound => NOT_FOUND,
                _ => NOT_STARTED,
            }));
        }
    };
    let running = reporter.start(&key, &start);
    let status = signals
        .wait(&mut child, &mut programs)
        .await
        .with_context(|| format!("cannot wait for `{program}`"))?;
    let ended = PutJob {
        ended_at: Some(clock::now().max(started_at)),
        succeeded: Some(status.success()),
        status: status.code().and_then(|code| u8::try_from(code).ok()),
        failure: programs.failure().filter(|_| status.success()),
        backup: start.backup || programs.had_backup_tool(),
        ..start
    };
    reporter.end(&key, &ended, Some(running), signals).await;
    Ok(RunEnd::Exited(status))
}

impl RunArguments {
    /// The mark of a run that starts now.
    fn start(&self, number: u32) -> PutJob {
        let name = self.name.clone().unwrap_or_else(|| self.program());
        let repeat = (self.repeat > 1).then_some(number);
        PutJob {
            process: Some(std::process::id()),
            backup: self.backup || self.is_known_backup(),
            ..self
                .set
                .start(name, MarkKind::Command, repeat, clock::now())
        }
    }

    fn is_known_backup(&self) -> bool {
        let words: Vec<_> = self
            .command
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        runs_backup_tool(&words[0], words[1..].iter().map(|word| &**word))
    }

    /// The name of the command, with `_` for characters that are not allowed.
    fn program(&self) -> String {
        let program = Path::new(&self.command[0]).file_name().unwrap_or_default();
        let mut fit = String::new();
        for letter in program.to_string_lossy().chars().take(LONGEST_NAME) {
            let is_fit = letter == ' ' || is_name(letter.encode_utf8(&mut [0; 4]));
            fit.push(if is_fit { letter } else { '_' });
        }
        let says_something = fit.chars().any(|letter| letter != '_');
        if says_something && is_name(&fit) {
            fit
        } else {
            "command".into()
        }
    }
}

fn is_name(text: &str) -> bool {
    name(text).is_ok()
}

fn settle(text: &str) -> Result<Duration, &'static str> {
    duration(text)
        .ok()
        .filter(|length| *length <= LONGEST_SETTLE)
        .ok_or("expected a duration from 0s to 24h such as 10s")
}
