//! A command line that cannot be used: what is wrong with it, in one sentence, from what clap found.
//!
//! What was typed is repeated only where it is short and plain: it may be long, or full of control characters.

use std::num::ParseIntError;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::MISUSE;
use crate::client::complain;
use crate::source::check_letters;

/// What is longer was no slip of the finger, and is not repeated.
const LONGEST_SHOWN: usize = 40;

/// Options that every command takes, as clap's usage has them.
const EVERYWHERE: [&str; 5] =
    ["--config <FILE> ", "--listen <ADDR> ", "--interval <LENGTH> ", "--db <PATH> ", "--root <DIR> "];

/// Says it, and gives the status to exit with. Help and version are clap's to print.
pub fn misused(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        error.exit();
    }
    complain(&format!("cowbell: {}", sentence(error)));
    ExitCode::from(MISUSE)
}

fn sentence(error: &clap::Error) -> String {
    let argument = || words(error, ContextKind::InvalidArg).join(" and ");
    match error.kind() {
        ErrorKind::InvalidSubcommand => no_such(error, "command", ContextKind::InvalidSubcommand),
        ErrorKind::MissingSubcommand => format!(
            "expected a command after `{}`: {}; {}",
            command(error),
            words(error, ContextKind::ValidSubcommand).join(", "),
            more(error)
        ),
        ErrorKind::UnknownArgument if argument().starts_with('-') => {
            no_such(error, "option", ContextKind::InvalidArg)
        }
        ErrorKind::UnknownArgument => format!(
            "expected `{}`, but found {} as well; {}",
            usage(error),
            quoted(&argument(), "another word"),
            more(error)
        ),
        ErrorKind::MissingRequiredArgument => {
            let are = if words(error, ContextKind::InvalidArg).len() > 1 { "are" } else { "is" };
            format!("expected `{}`, but {} {are} missing; {}", usage(error), argument(), more(error))
        }
        ErrorKind::InvalidValue if words(error, ContextKind::InvalidValue).concat().is_empty() => {
            format!("{} needs a value, but none was given", argument())
        }
        ErrorKind::InvalidValue => {
            let valid = words(error, ContextKind::ValidValue).join(", ");
            format!("{} cannot be used: expected one of {valid}", argument())
        }
        ErrorKind::ValueValidation => format!("{} cannot be used: {}", argument(), why(error)),
        ErrorKind::TooManyValues => format!("{} takes no value; {}", argument(), more(error)),
        ErrorKind::ArgumentConflict => conflict(&argument(), &words(error, ContextKind::PriorArg)),
        ErrorKind::InvalidUtf8 => format!("a word of the command line is no UTF-8; {}", more(error)),
        _ => format!("the command line cannot be understood; {}", more(error)),
    }
}

/// There is none of that name, but maybe one that is nearly called so.
fn no_such(error: &clap::Error, what: &str, which: ContextKind) -> String {
    let named = quoted(&words(error, which).concat(), "of that name");
    let suggested =
        if what == "command" { ContextKind::SuggestedSubcommand } else { ContextKind::SuggestedArg };
    let meant = words(error, suggested);
    // The likeliest is the last.
    let meant = meant.last().map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    let between = if meant.is_empty() { ";" } else { "" };
    format!("there is no {what} {named}{meant}{between} `{} --help` lists all", command(error))
}

fn conflict(argument: &str, others: &[String]) -> String {
    match others {
        [] => format!("{argument} can be given once only"),
        others if others == [argument] => format!("{argument} can be given once only"),
        others => format!("expected one of {argument} and {}, but found both", others.join(" and ")),
    }
}

fn why(error: &clap::Error) -> String {
    match std::error::Error::source(error) {
        Some(why) if why.is::<ParseIntError>() => {
            let found = words(error, ContextKind::InvalidValue).concat();
            format!("expected a whole number, but found {}", quoted(&found, "something else"))
        }
        Some(why) => out_of_range(&why.to_string()).unwrap_or_else(|| why.to_string()),
        None => "expected something else".into(),
    }
}

/// clap says it in Rust: `0 is not in 1..=9`.
fn out_of_range(why: &str) -> Option<String> {
    let (found, range) = why.split_once(" is not in ")?;
    let (least, most) = range.split_once("..=")?;
    Some(format!("expected {least} to {most}, but found {found}"))
}

fn quoted(text: &str, otherwise: &str) -> String {
    match check_letters("", text, LONGEST_SHOWN) {
        Ok(()) => format!("`{text}`"),
        Err(_) => otherwise.into(),
    }
}

fn words(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(word)) => vec![word.clone()],
        Some(ContextValue::Strings(words)) => words.clone(),
        _ => Vec::new(),
    }
}

/// Such as `cowbell job show <ID>`. clap names what the environment sets as well.
fn usage(error: &clap::Error) -> String {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let usage = usage.trim().trim_start_matches("Usage:").trim();
    let usage = usage.lines().next().unwrap_or("cowbell").to_string();
    EVERYWHERE.iter().fold(usage, |usage, option| usage.replace(option, ""))
}

/// Such as `cowbell job show`: the usage up to its first option or place.
fn command(error: &clap::Error) -> String {
    let usage = usage(error);
    let names: Vec<&str> = usage.split(' ').take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
    if names.is_empty() { "cowbell".into() } else { names.join(" ") }
}

fn more(error: &clap::Error) -> String {
    format!("`{} --help` tells more", command(error))
}
