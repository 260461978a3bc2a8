//! The command line: one line of help and one call for each command.

mod db;
mod export;
mod job;
mod log;
mod misuse;
mod new_file;
mod printing;
mod progress;
mod run;
mod serve;
mod mark;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::check;
use crate::client::follow::follow;
use crate::client::status::Verdict;
use crate::client::{self, Daemon, complain};
use crate::config::{self, Config, ConfigError, Listen, TickInterval};
use crate::source::recording::{Header, Player, Recorder, Speed};
use crate::source::{Source, files::Root, live::Live};
use crate::store;
use new_file::NewFile;
use printing::print;

/// The exit status for a configuration or a command line that cannot be used.
const MISUSE: u8 = 2;
/// The loop has the main thread for itself, so that no page delays a tick; all else shares one.
const THREADS: usize = 1;
/// Commands that wait to be recorded with the next tick.
const COMMANDS: usize = 1_000;
/// Bytes from which on memory is taken from the system for itself.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 512 * 1024;
/// A real LVM host on which a snapshot fills under a writer while it is read.
static DEMO: &[u8] = include_bytes!("../../web/demo.cowbell");

/// Watches LVM snapshots, thin pools and the disks below them, and rings before one overflows.
#[derive(Parser)]
#[command(name = "cowbell", version, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<Command>,
}

/// In help, what every command takes stands below what is its own.
const EVERYWHERE: &str = "Options of every command";

#[derive(Args)]
struct Common {
    /// The configuration file [default: /etc/cowbell/cowbell.toml, which may be missing]
    #[arg(long, value_name = "FILE", env = "COWBELL_CONFIG", global = true, help_heading = EVERYWHERE)]
    config: Option<PathBuf>,
    /// Address and port of the pages [default: 127.0.0.1:2692]
    #[arg(long, value_name = "ADDR", env = "COWBELL_LISTEN", global = true, help_heading = EVERYWHERE)]
    listen: Option<String>,
    /// The length of a tick, from 100ms to 60s [default: 1s]
    #[arg(long, value_name = "LENGTH", env = "COWBELL_INTERVAL", global = true, help_heading = EVERYWHERE)]
    interval: Option<String>,
    /// The database [default: cowbell.db in the state directory]
    #[arg(long, value_name = "PATH", env = "COWBELL_DB", global = true, help_heading = EVERYWHERE)]
    db: Option<PathBuf>,
    /// Where /proc and /sys are found
    #[arg(long, value_name = "DIR", env = "COWBELL_ROOT", global = true, help_heading = EVERYWHERE, default_value = "/")]
    root: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Watch this machine and show it; what is done without a command
    Serve {
        /// Show a recording instead of this machine, with a database of its own
        #[arg(long, value_name = "FILE")]
        replay: Option<PathBuf>,
        /// How many recorded seconds pass in a second, or `max`
        #[arg(long, default_value = "1", requires = "replay")]
        speed: Speed,
    },
    /// Run a command and record it as a job
    Run(run::Run),
    /// Print fills, running jobs and alerts; exit status 0, 1, 2 or 3 as a Nagios plugin
    Status,
    /// List jobs, show what one cost, compare them, or tell of one
    #[command(subcommand, arg_required_else_help = false)]
    Job(job::Job),
    /// Say what can and cannot be seen here, and what to do about it
    Check,
    /// Write what was kept as CSV, JSON lines or a plain SQLite file
    Export(export::Export),
    /// Verify, compact or copy the database
    #[command(subcommand, arg_required_else_help = false)]
    Db(db::Db),
    /// Write raw readings to a file, to be played with `serve --replay`
    Record {
        /// The recording; it must not be there yet
        file: PathBuf,
        /// How long, such as 10m [default: until interrupted]
        #[arg(long = "for", value_name = "LENGTH")]
        length: Option<jiff::SignedDuration>,
    },
    /// Show a recording of a snapshot that fills while it is backed up
    Demo {
        /// How many recorded seconds pass in a second, or `max`
        #[arg(long, default_value = "2")]
        speed: Speed,
    },
}

/// Runs the command that was asked for, and prints the error if it fails.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misuse::misused(&error),
    };
    log::start();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            log::fatal(&error);
            ExitCode::from(if error.is::<ConfigError>() { MISUSE } else { 1 })
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let config = match (configuration(&cli.common), &cli.command) {
        (Ok(config), _) => config,
        // Tonight's backup runs, whatever somebody wrote into our configuration.
        (Err(error), Some(Command::Run(_))) => {
            complain(&format!("cowbell run: {error}; looking for the daemon at its usual address"));
            Config::default()
        }
        (Err(error), Some(Command::Status)) => {
            return Ok(judged(&format!("COWBELL UNKNOWN - {error}\n"), Verdict::Unknown));
        }
        (Err(error), _) => return Err(error.into()),
    };
    // Ours is the only provider; that one is there already cannot be.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A command that is run has the limit that it would have alone.
    if !matches!(cli.command, Some(Command::Run(_))) {
        raise_file_limit();
        give_memory_back();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .context("cannot start the program's threads")?;
    let code = runtime.block_on(dispatch(cli, config));
    // Nobody waits for threads that still read.
    runtime.shutdown_background();
    code
}

/// As many open files as the system lets us have: visitors must not leave none for the watching.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it is refused, the usual number has to do.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// What is large goes back to the system when it is done with. By itself the C library learns from the first that is freed
/// to keep the next, up to 32 MiB each, and a file of a job has some of those.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it is called before there are other threads, and changes no memory that is in use.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

async fn dispatch(cli: Cli, config: Config) -> anyhow::Result<ExitCode> {
    let Common { db, root, .. } = cli.common;
    match cli.command.unwrap_or(Command::Serve { replay: None, speed: Speed::Times(1.0) }) {
        Command::Serve { replay: None, .. } => serve::this_machine(config, db, Root(root)).await?,
        Command::Serve { replay: Some(file), speed } => {
            serve::recording(config, db, Player::open(&file, speed)?).await?;
        }
        Command::Demo { speed } => {
            complain("two minutes of a database server whose backup is lost; start again to see them again");
            serve::recording(config, db, Player::of_bytes(DEMO, speed)?).await?;
        }
        Command::Record { file, length } => record(&config, Root(root), &file, length).await?,
        Command::Export(export) => return export::export(&store::path(db.as_deref())?, export).await,
        Command::Db(command) => return db::db(&store::path(db.as_deref())?, command).await,
        Command::Run(run) => {
            let daemon = Daemon::at(config.listen.0)?;
            return Ok(ExitCode::from(client::run::run(&daemon, &run.into(), &Root(root)).await?));
        }
        Command::Status => {
            let (text, verdict) = client::status::status(&Daemon::at(config.listen.0)?).await;
            return Ok(judged(&text, verdict));
        }
        Command::Job(command) => print(&job::job(&Daemon::at(config.listen.0)?, command).await?)?,
        Command::Check => {
            let (text, would_serve) = check::check(&config, &Root(root), db.as_deref()).await;
            print(&text)?;
            return Ok(ExitCode::from(u8::from(!would_serve)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The file's configuration, with what the command line or the environment says instead.
fn configuration(common: &Common) -> Result<Config, ConfigError> {
    let mut config = config::load(common.config.as_deref())?;
    if let Some(listen) = &common.listen {
        config.listen =
            Listen::try_from(listen.clone()).map_err(|error| ConfigError::option("--listen", &error))?;
    }
    if let Some(interval) = &common.interval {
        let length = TickInterval::try_from(interval.clone());
        config.interval = length.map_err(|error| ConfigError::option("--interval", &error))?;
    }
    Ok(config)
}

/// Writes readings until the time is up or the program is told to end; with the commands on jobs that a daemon beside it
/// carries out.
async fn record(
    config: &Config,
    root: Root,
    file: &std::path::Path,
    length: Option<jiff::SignedDuration>,
) -> anyhow::Result<()> {
    let interval = config.interval.0;
    let named = || format!("cannot write the recording {}", file.display());
    let (made, output) = NewFile::make(file)?;
    // However it ends, what was recorded by then can be played.
    made.keep();
    let mut recorder = Recorder::new(output, &Header::of_this_machine(interval)).with_context(named)?;
    let (hook_listener, _) = serve::hook_listener(config);
    let live = Live::new(root, interval, config.lvm.source)?.with_hooks(hook_listener);
    let mut source = Source::Live(Box::new(live));
    let shutdown = serve::signalled()?;
    let length = length.map_or(Some(Duration::MAX), |length| Duration::try_from(length).ok());
    let over = tokio::time::sleep(length.context("expected a length such as 10m for --for")?);
    tokio::pin!(over);
    complain(&format!("recording to {}; end it with Ctrl-C", file.display()));
    let (hand_on, mut commands) = tokio::sync::mpsc::channel(COMMANDS);
    tokio::spawn(follow(Daemon::at(config.listen.0)?, hand_on));
    loop {
        let reading = tokio::select! {
            () = shutdown.cancelled() => None,
            () = &mut over => None,
            reading = source.next() => reading,
        };
        while let Ok(command) = commands.try_recv() {
            recorder.write(&command).with_context(named)?;
        }
        match reading {
            Some(reading) => recorder.write(&reading).with_context(named)?,
            None => break,
        }
    }
    recorder.finish().with_context(named)?;
    Ok(())
}

/// Prints a plugin's word; one that cannot be printed never says that all is well.
fn judged(text: &str, verdict: Verdict) -> ExitCode {
    let printed = print(text).inspect_err(log::fatal);
    let is_unheard = printed.is_err() && verdict == Verdict::Ok;
    ExitCode::from(if is_unheard { Verdict::Unknown } else { verdict } as u8)
}
