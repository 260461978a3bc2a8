//! The options that several commands share, which command uses which, and what an invalid command line is told.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};

use super::MISUSE;
use super::output::complain;
use crate::config::{self, Config, ConfigError, Listen, TickInterval};

/// Maximum characters of a word and of the line that an invalid command line is told.
const LONGEST_WORD: usize = 60;
const LONGEST_LINE: usize = 1_000;

#[derive(Args)]
#[command(next_help_heading = "Common options")]
pub struct CommonOptions {
    /// The configuration file [default: /etc/cowbell/cowbell.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "COWBELL_CONFIG")]
    config: Option<PathBuf>,
    /// The same, if it is the only common option on the command line.
    #[arg(skip)]
    pub file_alone: Option<PathBuf>,
    /// Address and port of the pages [default: 127.0.0.1:2692]
    #[arg(long, value_name = "ADDR", env = "COWBELL_LISTEN")]
    pub listen: Option<String>,
    /// The length of a tick, from 100ms to 60s [default: 1s]
    #[arg(long, value_name = "LENGTH", env = "COWBELL_INTERVAL")]
    interval: Option<String>,
    /// The database [default: cowbell.db in the state directory]
    #[arg(long, value_name = "PATH", env = "COWBELL_DB")]
    pub db: Option<PathBuf>,
    /// The directory with /proc and /sys
    #[arg(long, value_name = "DIR", env = "COWBELL_ROOT", default_value = "/")]
    pub root: PathBuf,
}

/// How much of the configuration a command uses.
#[derive(PartialEq)]
enum ConfigurationUse {
    Whole,
    /// The daemon's address: a file that this user may not read counts as missing.
    Address,
}

/// The common options of a command, and how much of the configuration it uses.
fn used_by(command: &str) -> (&'static [&'static str], ConfigurationUse) {
    use ConfigurationUse::{Address, Whole};
    match command {
        "serve" | "support-bundle" | "reload" => {
            (&["config", "listen", "interval", "db", "root"], Whole)
        }
        "check" => (&["config", "listen", "db", "root"], Whole),
        "config" => (&["config", "listen", "interval"], Whole),
        "record" => (&["config", "listen", "interval", "root"], Whole),
        "reader" => (&["config", "interval", "root"], Whole),
        "run" => (&["config", "listen", "root"], Address),
        "demo" => (&["config", "listen", "db"], Address),
        "export" | "db" => (&["db"], Address),
        "guard" => (&["root"], Address),
        _ => (&["config", "listen"], Address),
    }
}

/// Adds to each command those of its parent's options that it uses. clap copies their values up to the parent.
pub fn distributed(parent: Command) -> Command {
    let options: Vec<Arg> = parent.get_arguments().cloned().collect();
    parent.mut_subcommands(|command| {
        let (used, _) = used_by(command.get_name());
        let options = options.iter().cloned();
        let own = options.filter(|option| used.contains(&option.get_id().as_str()));
        command.args(own.map(|option| option.global(true)))
    })
}

/// Refuses an option before a command that does not use it.
pub fn check(parent: &mut Command, matches: ArgMatches) -> Result<ArgMatches, clap::Error> {
    let Some(name) = matches.subcommand_name() else {
        return Ok(matches);
    };
    let (used, _) = used_by(name);
    let unused = parent.get_arguments().find(|option| {
        let id = option.get_id().as_str();
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
        is_given && !used.contains(&id)
    });
    let Some(option) = unused else {
        return Ok(matches);
    };
    let sentence = format!(
        "the subcommand '{name}' has no option '--{}'",
        option.get_id()
    );
    Err(parent.error(ErrorKind::ArgumentConflict, sentence))
}

impl CommonOptions {
    pub fn note_source(&mut self, matches: &ArgMatches) {
        let is_typed = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        let is_alone = is_typed("config") && !["listen", "db", "root"].into_iter().any(is_typed);
        self.file_alone = self.config.clone().filter(|_| is_alone);
    }

    /// The configuration file as far as a command uses it, overridden by the command line and the environment.
    pub fn configuration(&self, command: Option<&str>) -> Result<Config, ConfigError> {
        let (_, needed) = used_by(command.unwrap_or("serve"));
        let is_hidden = needed == ConfigurationUse::Address
            && self.config.is_none()
            && config::default_is_hidden();
        let mut config = if is_hidden {
            Config::default()
        } else {
            config::load(self.config.as_deref())?
        };
        if let Some(listen) = &self.listen {
            config.listen = Listen::try_from(listen.clone())
                .map_err(|error| ConfigError::option("--listen", &error))?;
        }
        if let Some(interval) = &self.interval {
            config.interval = TickInterval::try_from(interval.clone())
                .map_err(|error| ConfigError::option("--interval", &error))?;
        }
        Ok(config)
    }
}

/// Prints what is wrong with a command line in one line. clap prints help and version itself.
pub fn misused(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        error.exit();
    }
    complain(&format!("cowbell: {}", sentence(error)));
    ExitCode::from(MISUSE)
}

/// clap's message as one line. Typed arguments may be long or contain control characters: they are cleaned and shortened.
fn sentence(error: &clap::Error) -> String {
    let text = error
        .to_string()
        .replace(|letter: char| letter.is_control() && letter != '\n', " ");
    let mut sentences = Vec::new();
    for paragraph in text.trim_start_matches("error: ").split("\n\n") {
        let words: Vec<String> = paragraph.split_whitespace().map(shortened).collect();
        if !words.is_empty() {
            sentences.push(words.join(" "));
        }
    }
    sentences.join("; ").chars().take(LONGEST_LINE).collect()
}

fn shortened(word: &str) -> String {
    match word.char_indices().nth(LONGEST_WORD) {
        None => word.into(),
        Some((end, _)) => format!("{}…", &word[..end]),
    }
}
