//! An invalid command line: clap's message as one line.
//!
//! Typed arguments may be long or contain control characters, so the line is cleaned and shortened.

use std::process::ExitCode;

use clap::error::ErrorKind;

use super::MISUSE;
use crate::client::complain;

/// Maximum characters of a word and of the line.
const LONGEST_WORD: usize = 60;
const LONGEST_LINE: usize = 1_000;

/// Prints the message and returns the exit status. clap prints help and version itself.
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

fn sentence(error: &clap::Error) -> String {
    let text = error
        .to_string()
        .replace(|letter: char| letter.is_control() && letter != '\n', " ");
    let paragraphs = text.trim_start_matches("error: ").split("\n\n");
    let lines = paragraphs.map(|paragraph| {
        paragraph
            .split_whitespace()
            .map(shortened)
            .collect::<Vec<_>>()
            .join(" ")
    });
    let line = lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ");
    line.chars().take(LONGEST_LINE).collect()
}

fn shortened(word: &str) -> String {
    match word.char_indices().nth(LONGEST_WORD) {
        None => word.into(),
        Some((end, _)) => format!("{}…", &word[..end]),
    }
}
