//! The command line: one line of help and one call for each command.

mod common;
mod db;
mod demo;
mod export;
mod job;
mod listeners;
mod log;
mod memory;
mod misuse;
mod new_file;
mod printing;
mod progress;
mod record;
mod reload;
pub mod serve;
mod size;
mod support;
mod tar;
mod verify_archive;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::runtime;

use crate::check;
use crate::client::terminal::wrapped;
use crate::client::{self, Daemon, complain};
use crate::config::{self, Config, ConfigError, Listen, TickInterval};
use crate::source::files::Root;
use crate::source::recording::{Player, Speed};
use crate::store;
use crate::verdict::Grade;
use common::Common;
use printing::print;
use reload::Load;

/// The exit status for an invalid configuration or command line.
const MISUSE: u8 = 2;
/// Allocations from this size on are returned to the system when freed.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 512 * 1024;

/// Maximum columns of help.
const WIDTH: usize = 80;

/// Watches LVM snapshots, thin pools and the disks below them, and alerts before a snapshot or pool overflows.
#[derive(Parser)]
#[command(name = "cowbell", version, disable_help_subcommand = true, max_term_width = WIDTH)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Watch this machine and serve the pages; the default command
    Serve {
        /// Show a recording instead of this machine
        #[arg(long, value_name = "FILE")]
        replay: Option<PathBuf>,
        /// Recorded seconds per second, or `max`
        #[arg(long, default_value = "1", requires = "replay")]
        speed: Speed,
        /// Take readings from `cowbell reader` at this socket, so that this process needs no rights
        #[arg(long, value_name = "SOCKET", conflicts_with = "replay")]
        reader: Option<PathBuf>,
    },
    /// Read this machine for `cowbell serve --reader`; needs root, but no network
    Reader {
        /// The socket, unless systemd passes one
        #[arg(long, value_name = "PATH", default_value = "/run/cowbell/reader")]
        socket: PathBuf,
    },
    /// Run a command and record it as a job
    Run(client::run::Plan),
    /// Print usage, running jobs and alerts; exit status 0 to 3 like a Nagios plugin
    Status,
    /// List, show, compare, start and stop jobs
    #[command(subcommand, arg_required_else_help = false)]
    Job(job::Job),
    /// List, acknowledge and silence alerts, and test their receivers
    #[command(subcommand, arg_required_else_help = false)]
    Alert(client::alert::AlertCommand),
    /// Report what cowbell can read on this host, what it cannot, and how to fix that
    Check,
    /// Find out how large a snapshot of a volume has to be
    Size(size::Size),
    /// Create a region of statistics; started by `cowbell size`
    #[command(hide = true)]
    CreateRegion(size::creator::CreateRegion),
    /// Create the probes of a map; started by the service
    #[command(hide = true)]
    CreateProbes(size::probes::CreateProbes),
    /// Read the archive of a backup through; exit status 0 sound, 1 damaged, 2 unknown
    VerifyArchive(verify_archive::VerifyArchive),
    /// Write stored data as CSV, JSON lines, OpenMetrics or a plain SQLite file
    Export(export::Export),
    /// Verify, compact or copy the database
    #[command(subcommand, arg_required_else_help = false)]
    Db(db::Db),
    /// Write raw readings to a file, for `serve --replay`
    Record {
        /// The recording; it must not exist
        file: PathBuf,
        /// The duration, such as 10m [default: until interrupted]
        #[arg(long = "for", value_name = "LENGTH")]
        length: Option<jiff::SignedDuration>,
    },
    /// Pack a recording, the log, the configuration without secrets and more into one file for a bug report
    SupportBundle(support::SupportBundle),
    /// Show a recording of a snapshot that overflows during a backup
    Demo {
        /// Recorded seconds per second, or `max`
        #[arg(long, default_value = "60")]
        speed: Speed,
    },
}

/// The definition of the command line, from which man pages and completions are made.
pub fn definition() -> clap::Command {
    common::distributed(Cli::command())
}

/// Runs the command, and prints its error.
pub fn main() -> ExitCode {
    let mut command = definition();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let matches = matches.and_then(|matches| common::check(&mut command, matches));
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
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

fn run(mut cli: Cli) -> anyhow::Result<ExitCode> {
    let found = configuration(&cli.common, needs_configuration(cli.command.as_ref()));
    let config = match (found, &mut cli.command) {
        (Ok(config), _) => config,
        // These commands run even with an invalid configuration.
        (Err(error), Some(Command::Run(_))) => {
            complain(&format!(
                "cowbell run: {error}; using the default address of the daemon"
            ));
            Config::default()
        }
        (Err(_), Some(Command::Size(_) | Command::CreateRegion(_) | Command::CreateProbes(_))) => {
            Config::default()
        }
        (Err(error), Some(Command::SupportBundle(bundle))) => {
            bundle.problem = Some(error.to_string());
            Config::default()
        }
        (Err(error), Some(Command::Status)) => {
            return Ok(judged(
                &format!("COWBELL UNKNOWN - {error}\n"),
                Grade::Unknown,
            ));
        }
        (Err(error), _) => return Err(error.into()),
    };
    // Fails only if a provider was installed before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A command under `cowbell run` keeps the limits that it inherited.
    if !matches!(cli.command, Some(Command::Run(_))) {
        raise_file_limit();
        give_memory_back();
    }
    // The loop has the main thread and a runtime of its own: no page delays a tick, and no tick wakes the other thread.
    let main = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let web = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let web = web.context("cannot start threads")?;
    let is_loop = matches!(
        cli.command,
        None | Some(Command::Serve { .. } | Command::Demo { .. } | Command::Reader { .. })
    );
    let runtime = if is_loop { &main } else { &web };
    let code = runtime.block_on(dispatch(cli, config, web.handle()));
    // Does not wait for blocked threads.
    main.shutdown_background();
    web.shutdown_background();
    code
}

/// Raises the limit of open files, so that connections leave enough for sampling.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the default limit remains.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Returns large allocations to the system when freed. By default glibc keeps them after the first one.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: there are no other threads yet, and memory in use is not affected.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

async fn dispatch(cli: Cli, config: Config, web: &runtime::Handle) -> anyhow::Result<ExitCode> {
    let common = cli.common.clone();
    let load: Load = Box::new(move || Ok(configuration(&common, true)?));
    let Common {
        db, root, listen, ..
    } = cli.common;
    let daemon = Daemon::at(config.listen.0, listen.is_some());
    match cli.command.unwrap_or(Command::Serve {
        replay: None,
        speed: Speed::Times(1.0),
        reader: None,
    }) {
        Command::Serve {
            replay: None,
            reader,
            ..
        } => {
            serve::this_machine(config, load, db, Root(root), reader, web).await?;
        }
        Command::Reader { socket } => serve::reader(config, &socket, Root(root)).await?,
        Command::Serve {
            replay: Some(file),
            speed,
            ..
        } => {
            serve::recording(config, load, db, Player::open(&file, speed)?, web).await?;
        }
        Command::Demo { speed } => {
            complain("a recording of a backup that fails");
            demo::demo(config, db, speed, web).await?;
        }
        Command::Record { file, length } => {
            record::record(&config, daemon, Root(root), &file, length).await?
        }
        Command::SupportBundle(bundle) => {
            support::support_bundle(bundle, config, daemon, root, db).await?
        }
        Command::Export(export) => {
            return export::export(&store::existing_path(db.as_deref())?, export).await;
        }
        Command::Db(command) => {
            return db::db(&store::existing_path(db.as_deref())?, command).await;
        }
        Command::Run(run) => {
            return Ok(ExitCode::from(
                client::run::run(&daemon, &run, &Root(root)).await?,
            ));
        }
        Command::Status => {
            let (text, grade) = client::status::status(&daemon).await;
            return Ok(judged(&text, grade));
        }
        Command::Job(command) => print(&job::job(&daemon, command).await?)?,
        Command::Alert(command) => print(&client::alert::run(&daemon, command).await?)?,
        Command::Size(command) => {
            size::size(command, &daemon, config.lvm.source, &Root(root)).await?
        }
        Command::CreateRegion(command) => size::creator::run(&command)?,
        Command::CreateProbes(command) => size::probes::run(&command, &Root(root)).await?,
        Command::VerifyArchive(command) => {
            return Ok(verify_archive::verify_archive(&daemon, command).await);
        }
        Command::Check => {
            let (text, would_serve) = check::check(&config, &Root(root), db.as_deref()).await;
            print(&wrapped(&text))?;
            return Ok(ExitCode::from(u8::from(!would_serve)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the command needs more of the configuration than the daemon's address.
fn needs_configuration(command: Option<&Command>) -> bool {
    matches!(
        command,
        None | Some(
            Command::Serve { .. }
                | Command::Reader { .. }
                | Command::Record { .. }
                | Command::SupportBundle(_)
                | Command::Check
        )
    )
}

/// The configuration file, overridden by the command line and the environment.
fn configuration(common: &Common, needs_file: bool) -> Result<Config, ConfigError> {
    let is_hidden = !needs_file && common.config.is_none() && config::default_is_hidden();
    let mut config = if is_hidden {
        Config::default()
    } else {
        config::load(common.config.as_deref())?
    };
    if let Some(listen) = &common.listen {
        config.listen = Listen::try_from(listen.clone())
            .map_err(|error| ConfigError::option("--listen", &error))?;
    }
    if let Some(interval) = &common.interval {
        let length = TickInterval::try_from(interval.clone());
        config.interval = length.map_err(|error| ConfigError::option("--interval", &error))?;
    }
    Ok(config)
}

/// Prints the text of a plugin. If that fails, the status is never OK.
fn judged(text: &str, grade: Grade) -> ExitCode {
    let printed = print(text).inspect_err(log::fatal);
    let is_lost = printed.is_err() && grade == Grade::Ok;
    ExitCode::from(exit_status(if is_lost { Grade::Unknown } else { grade }))
}

/// Of a Nagios plugin.
fn exit_status(grade: Grade) -> u8 {
    match grade {
        Grade::Ok => 0,
        Grade::Warning => 1,
        Grade::Critical => 2,
        Grade::Unknown => 3,
    }
}
