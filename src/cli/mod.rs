//! The command line: one line of help and one call for each command.

mod alert;
mod db;
mod export;
mod guard;
mod job;
mod listeners;
mod log;
mod mark;
mod memory;
mod options;
mod output;
mod record;
mod reload;
mod run;
pub mod serve;
mod size;
mod status;
mod support;
mod verify_archive;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::runtime::{self, Handle};

use crate::check;
use crate::client::Daemon;
use crate::config::{Config, ConfigError};
use crate::source::files::Root;
use crate::source::recording::{Player, Speed};
use crate::store;
use crate::systemd;
use crate::verdict::Grade;
use options::CommonOptions;
use output::{complain, print, wrapped};

/// The exit status for an invalid configuration or command line.
const MISUSE: u8 = 2;
/// Threads of a start: for pages, the store, and slow reads.
const THREADS_AT_START: usize = 4;
/// Allocations from this size on are returned to the system when freed.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 512 * 1024;
/// Maximum columns of help.
const WIDTH: usize = 80;

/// Watches LVM snapshots, thin pools and the disks below them, and alerts before a snapshot or pool overflows.
#[derive(Parser)]
#[command(name = "cowbell", version, disable_help_subcommand = true, max_term_width = WIDTH)]
struct CowbellArguments {
    #[command(flatten)]
    options: CommonOptions,
    #[command(subcommand)]
    command: Option<CommandArguments>,
}

// A new command has a row in `options::used_by` too, if it uses other common options than most. (A doc comment would become
// the help of cowbell.)
#[derive(Subcommand)]
enum CommandArguments {
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
    /// Extend snapshots and pools before they are full, within limits; needs root
    Guard(guard::GuardArguments),
    /// Run a command and record it as a job
    Run(run::RunArguments),
    /// Print usage, running jobs and alerts; exit status 0 to 3 like a Nagios plugin
    Status(output::JsonFlag),
    /// Show the same in a terminal, again at each tick
    Watch,
    /// List, show, compare, start and stop jobs
    #[command(subcommand, arg_required_else_help = false)]
    Job(job::JobArguments),
    /// List, acknowledge and silence alerts, and test their receivers
    #[command(subcommand, arg_required_else_help = false)]
    Alert(alert::AlertArguments),
    /// Report what cowbell can read on this host, what it cannot, and how to fix that; or check a file: check --config FILE
    Check,
    /// Print the configuration in force as TOML, without secrets
    Config,
    /// Tell the daemon `MAINPID` to take its configuration, and fail if that is wrong; started by systemd
    #[command(hide = true)]
    Reload,
    /// Find out how large a snapshot of a volume has to be
    Size(size::SizeArguments),
    /// Create a region of statistics; started by `cowbell size`
    #[command(hide = true)]
    CreateRegion(size::creator::RegionArguments),
    /// Create the probes of a map; started by the service
    #[command(hide = true)]
    CreateProbes(size::creator::ProbesArguments),
    /// Read the archive of a backup through; exit status 0 sound, 1 damaged, 2 unknown
    VerifyArchive(verify_archive::ArchiveArguments),
    /// Write stored data as CSV, JSON lines or OpenMetrics
    Export(export::ExportArguments),
    /// Verify, compact, copy or restore the database
    #[command(subcommand, arg_required_else_help = false)]
    Db(db::DbArguments),
    /// Write raw readings to a file, for `serve --replay`
    Record {
        /// The recording; it must not exist
        file: PathBuf,
        /// The duration, such as 10m [default: until interrupted]
        #[arg(long = "for", value_name = "LENGTH", value_parser = record::duration)]
        length: Option<Duration>,
    },
    /// Pack a recording, the log, the configuration without secrets and more into one file for a bug report
    SupportBundle(support::BundleArguments),
    /// Show a recording of a snapshot that overflows during a backup
    Demo {
        /// Recorded seconds per second, or `max`
        #[arg(long, default_value = "60")]
        speed: Speed,
    },
}

/// The command line as man pages and completions show it: without hidden commands, which completions would list too.
pub fn documented() -> clap::Command {
    let all = definition();
    let shown = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    clap::Command::new("cowbell")
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(all.get_arguments())
        .subcommands(shown)
}

fn definition() -> clap::Command {
    options::distributed(CowbellArguments::command())
}

/// Runs the command, and prints its error.
pub fn main() -> ExitCode {
    let mut definition = definition();
    let matches = definition
        .try_get_matches_from_mut(std::env::args_os())
        .and_then(|matches| options::check(&mut definition, matches));
    let parsed = matches.and_then(|matches| {
        let mut line = CowbellArguments::from_arg_matches(&matches)?;
        line.options.note_source(&matches);
        let config = line.options.configuration(matches.subcommand_name());
        Ok((line, config))
    });
    let (line, config) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return options::misused(&error),
    };
    log::start();
    match run(line, config) {
        Ok(code) => code,
        Err(error) => {
            log::fatal(&error);
            if !error.is::<ConfigError>() {
                return ExitCode::FAILURE;
            }
            systemd::close_waiting(&systemd::take_sockets());
            ExitCode::from(MISUSE)
        }
    }
}

fn run(line: CowbellArguments, config: Result<Config, ConfigError>) -> anyhow::Result<ExitCode> {
    // Fails only if a provider was installed before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A command under `cowbell run` keeps the limits that it inherited.
    if !matches!(line.command, Some(CommandArguments::Run(_))) {
        raise_file_limit();
        give_memory_back();
    }
    check_threads()?;
    // The loop has the main thread and a runtime of its own: no page delays a tick, and no tick wakes the other thread.
    let main = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let web = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let code = main.block_on(dispatch(line, config, web.handle()));
    // Does not wait for blocked threads.
    main.shutdown_background();
    web.shutdown_background();
    code
}

/// tokio panics if a thread cannot start.
fn check_threads() -> anyhow::Result<()> {
    let mut held = Vec::new();
    for _ in 0..THREADS_AT_START {
        let (release, released) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().spawn(move || released.recv());
        thread.context("cannot start threads (`ulimit -u`, or TasksMax= of the service)")?;
        held.push(release);
    }
    Ok(())
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

/// Each command decides itself what an invalid configuration means to it; to most it is an error.
async fn dispatch(
    line: CowbellArguments,
    config: Result<Config, ConfigError>,
    web: &Handle,
) -> anyhow::Result<ExitCode> {
    let CowbellArguments { options, command } = line;
    let is_named = options.listen.is_some();
    let daemon = |config: &Config| Daemon::at(config.listen.0, is_named);
    let db = options.db.clone();
    let named_file = options.file_alone.clone();
    let root = Root(options.root.clone());
    let load = move || Ok(options.configuration(Some("serve"))?);
    let command = command.unwrap_or(CommandArguments::Serve {
        replay: None,
        speed: Speed::Times(1.0),
        reader: None,
    });
    match command {
        CommandArguments::Serve {
            replay: Some(file),
            speed,
            ..
        } => {
            let player = Player::open(&file, speed)?;
            serve::recording(config?, Box::new(load), db, player, web).await?;
        }
        CommandArguments::Serve { reader, .. } => {
            serve::this_machine(config?, Box::new(load), db, root, reader, web).await?;
        }
        CommandArguments::Demo { speed } => serve::demo(config?, db, speed, web).await?,
        CommandArguments::Reader { socket } => {
            serve::reader(config, Box::new(load), &socket, root).await?;
        }
        CommandArguments::Guard(arguments) => guard::run(&arguments, root).await?,
        CommandArguments::Config => print(&config?.shown())?,
        CommandArguments::Reload => reload::tell_daemon(config)?,
        CommandArguments::Record { file, length } => {
            let config = config?;
            record::record(&config, daemon(&config), root, &file, length).await?;
        }
        CommandArguments::SupportBundle(arguments) => {
            support::support_bundle(arguments, config, &daemon, root, db).await?;
        }
        CommandArguments::Export(arguments) => {
            let db = store::existing_path(db.as_deref())?;
            return export::export(&db, &arguments).await;
        }
        CommandArguments::Db(arguments) => {
            let db = store::existing_path(db.as_deref())?;
            return db::db(&db, arguments).await;
        }
        CommandArguments::Run(arguments) => {
            let config = config.unwrap_or_else(|error| {
                complain(&format!(
                    "cowbell run: {error}; using the default address of the daemon"
                ));
                Config::default()
            });
            let status = run::run(&daemon(&config), &arguments, &root).await?;
            return Ok(ExitCode::from(status));
        }
        CommandArguments::Watch => status::watch(&daemon(&config?)).await?,
        CommandArguments::Status(output::JsonFlag { json }) => {
            let (text, grade) = match config {
                Ok(config) => status::status(&daemon(&config), json).await,
                Err(error) => (status::unknown(&error.to_string(), json), Grade::Unknown),
            };
            return Ok(judged(&text, grade));
        }
        CommandArguments::Job(arguments) => {
            print(&job::run(&daemon(&config?), arguments).await?)?;
        }
        CommandArguments::Alert(arguments) => {
            print(&alert::run(&daemon(&config?), arguments).await?)?;
        }
        CommandArguments::Size(arguments) => {
            let config = config.unwrap_or_default();
            size::size(arguments, &daemon(&config), config.lvm.source, &root).await?;
        }
        CommandArguments::CreateRegion(arguments) => size::creator::create_region(&arguments)?,
        CommandArguments::CreateProbes(arguments) => {
            size::creator::create_probes(&arguments, &root).await?
        }
        CommandArguments::VerifyArchive(arguments) => {
            return Ok(verify_archive::verify_archive(&daemon(&config?), &arguments).await);
        }
        CommandArguments::Check if named_file.is_some() => {
            if let Err(error) = config.and_then(reload::check_elsewhere) {
                log::fatal(&error.into());
                return Ok(ExitCode::FAILURE);
            }
            let file = named_file.unwrap_or_default();
            print(&format!("{} is a valid configuration\n", file.display()))?;
        }
        CommandArguments::Check => {
            let (text, would_serve) = check::check(&config?, &root, db.as_deref()).await;
            print(&wrapped(&text))?;
            return Ok(ExitCode::from(u8::from(!would_serve)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the text of a Nagios plugin, whose exit status is its grade. If that fails, the status is never OK.
fn judged(text: &str, grade: Grade) -> ExitCode {
    let is_lost = print(text).inspect_err(log::fatal).is_err();
    ExitCode::from(match grade {
        Grade::Ok if is_lost => 3,
        Grade::Ok => 0,
        Grade::Warning => 1,
        Grade::Critical => 2,
        Grade::Unknown => 3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_commands_are_not_documented() {
        let documented = documented();
        let names: Vec<&str> = documented
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        assert!(names.contains(&"serve") && names.contains(&"demo"));
        assert!(!names.iter().any(|name| name.starts_with("create-")));
    }
}
