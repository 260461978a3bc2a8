//! `mylvmbackup.conf`: what mylvmbackup will do, as mylvmbackup itself reads it.
//!
//! Perl's `Config::IniFiles` decides what a line means: values are taken with their quotes and all that stands behind
//! them, a key that is written twice has both values with a line break between them, and one line that is no comment,
//! no section and no `key=value` makes mylvmbackup end at once. Nothing of a line is kept that was not understood, since
//! it may hold a password.

mod keys;
mod plan;
mod size;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use keys::is_known;
pub use plan::{Kind, Plan, Tool};
pub use size::size_bytes;

/// The section that holds the password; nothing of it is ever shown.
const SECRET: &str = "mysql";
/// Keys longer than this are shown by their line alone.
const LONGEST_KEY: usize = 30;

/// What is written in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    values: HashMap<(String, String), String>,
    /// The numbers of lines for which mylvmbackup ends at once.
    pub not_understood: Vec<usize>,
    /// Keys that are written more than once.
    pub twice: Vec<String>,
    /// Keys that mylvmbackup passes over, where they stand.
    pub passed_over: Vec<String>,
    /// No section at all, which mylvmbackup does not take either.
    pub is_empty: bool,
}

impl Configuration {
    /// The value of a key that mylvmbackup knows.
    fn value(&self, key: &str) -> &str {
        let Some((section, default)) = keys::known(key) else { return "" };
        self.values.get(&(section.to_string(), key.to_string())).map_or(default, String::as_str)
    }

    fn take(&mut self, section: &str, key: &str, value: &str, line: usize) {
        if !is_known(section, key) && section != SECRET {
            self.passed_over.push(place_of(key, line));
        }
        let place = (section.to_string(), key.to_string());
        match self.values.get_mut(&place) {
            Some(before) => {
                before.extend(["\n", value]);
                if is_known(section, key) && !self.twice.iter().any(|other| other == key) {
                    self.twice.push(key.to_string());
                }
            }
            None => {
                self.values.insert(place, value.to_string());
            }
        }
    }
}

/// Understands the file's text. Never fails: what is wrong with it is part of what it says.
///
/// Source: `Config::IniFiles` 3.000003.
pub fn parse(text: &str) -> Configuration {
    let mut found = Configuration::default();
    let (mut section, mut any_section) = (None, false);
    let lines = lines(text);
    let mut lines = (1..).zip(lines);
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = section_name(line) {
            (section, any_section) = (Some(name.to_string()), true);
            continue;
        }
        let Some((key, value)) = assignment(line) else {
            found.not_understood.push(number);
            continue;
        };
        let Some(section) = &section else {
            // Here it stops reading.
            found.not_understood.push(number);
            break;
        };
        let value = match value.strip_prefix("<<") {
            Some(mark) => {
                let inside: Vec<&str> =
                    lines.by_ref().map(|(_, line)| line).take_while(|line| *line != mark).collect();
                inside.join("\n")
            }
            None => value.to_string(),
        };
        found.take(section, key, &value, number);
    }
    found.is_empty = !any_section;
    found
}

/// Lines as they end for the first time: `\r\n`, `\n` or `\r`.
fn lines(text: &str) -> Vec<&str> {
    let end = match text.find(['\r', '\n']) {
        Some(at) if text[at..].starts_with("\r\n") => "\r\n",
        Some(at) if text[at..].starts_with('\r') => "\r",
        _ => "\n",
    };
    text.split(end)
        .map(|line| if end == "\n" { line.strip_suffix('\r').unwrap_or(line) } else { line })
        .collect()
}

fn section_name(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    Some(name).filter(|name| !name.is_empty() && !name.contains('\n'))
}

fn assignment(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim_start());
    (!key.is_empty() && !line.contains(['\n', '\r'])).then_some((key, value))
}

/// A key that is passed over, as it may be shown: a plain word with its line, all else by its line alone.
fn place_of(key: &str, line: usize) -> String {
    let is_plain = key.len() <= LONGEST_KEY && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    match keys::known(key) {
        Some((section, _)) => format!("`{key}` in line {line}, which belongs under [{section}]"),
        None if is_plain => format!("`{key}` in line {line}"),
        None => format!("line {line}"),
    }
}
