//! The options that several commands share, and which command has which.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};

#[derive(Args, Clone)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// The configuration file [default: /etc/cowbell/cowbell.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "COWBELL_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address and port of the pages [default: 127.0.0.1:2692]
    #[arg(long, value_name = "ADDR", env = "COWBELL_LISTEN")]
    pub listen: Option<String>,
    /// The length of a tick, from 100ms to 60s [default: 1s]
    #[arg(long, value_name = "LENGTH", env = "COWBELL_INTERVAL")]
    pub interval: Option<String>,
    /// The database [default: cowbell.db in the state directory]
    #[arg(long, value_name = "PATH", env = "COWBELL_DB")]
    pub db: Option<PathBuf>,
    /// The directory with /proc and /sys
    #[arg(long, value_name = "DIR", env = "COWBELL_ROOT", default_value = "/")]
    pub root: PathBuf,
}

/// Adds to each command those of its parent's options that it uses. clap copies their values up to the parent.
pub fn distributed(parent: Command) -> Command {
    let options: Vec<Arg> = parent.get_arguments().cloned().collect();
    parent.mut_subcommands(|command| {
        let used = used_by(command.get_name());
        let is_used = |option: &&Arg| used.contains(&option.get_id().as_str());
        let added: Vec<Arg> = options
            .iter()
            .filter(is_used)
            .map(|option| option.clone().global(true))
            .collect();
        command.args(added)
    })
}

/// Refuses an option before a command that does not use it.
pub fn check(parent: &mut Command, matches: ArgMatches) -> Result<ArgMatches, clap::Error> {
    let Some(name) = matches.subcommand_name() else {
        return Ok(matches);
    };
    let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let is_unused = |id: &&str| is_given(id) && !used_by(name).contains(id);
    let unused = parent
        .get_arguments()
        .map(|option| option.get_id().as_str())
        .find(is_unused);
    match unused.map(|id| format!("the subcommand '{name}' has no option '--{id}'")) {
        None => Ok(matches),
        Some(sentence) => Err(parent.error(ErrorKind::ArgumentConflict, sentence)),
    }
}

fn used_by(command: &str) -> &'static [&'static str] {
    match command {
        "serve" | "support-bundle" => &["config", "listen", "interval", "db", "root"],
        "check" => &["config", "listen", "db", "root"],
        "record" => &["config", "listen", "interval", "root"],
        "reader" => &["config", "interval", "root"],
        "run" => &["config", "listen", "root"],
        "demo" => &["config", "listen", "db"],
        "export" | "db" => &["db"],
        _ => &["config", "listen"],
    }
}
