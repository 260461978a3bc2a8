//! `mylvmbackup.conf`, parsed as Perl's `Config::IniFiles` does. Values include quotes and trailing comments. A key
//! that appears twice has both values, separated by a line break. A line that is not a comment, section or `key=value`
//! makes mylvmbackup exit. Invalid lines are not stored, since they may hold a password.

mod keys;
mod next;
mod plan;
mod size;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use keys::is_known;
pub use next::NextSnapshot;
pub use plan::{BackupPlan, BackupType, Tool};
pub use size::size_bytes;

/// The section with the password; its content is never shown.
const SECRET: &str = "mysql";
/// Longer keys are shown by line number only.
const LONGEST_KEY: usize = 30;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    values: HashMap<(String, String), String>,
    /// Line numbers of syntax errors, which make mylvmbackup exit.
    pub invalid_lines: Vec<usize>,
    /// Keys that appear more than once.
    pub duplicate_keys: Vec<String>,
    /// Keys that mylvmbackup ignores, with their lines.
    pub ignored_keys: Vec<String>,
    /// A file without any section, which makes mylvmbackup exit.
    pub is_empty: bool,
}

impl Configuration {
    /// The value of a key that mylvmbackup knows.
    fn value(&self, key: &str) -> &str {
        let Some((section, default)) = keys::known(key) else {
            return "";
        };
        self.values
            .get(&(section.to_string(), key.to_string()))
            .map_or(default, String::as_str)
    }

    fn take(&mut self, section: &str, key: &str, value: &str, line: usize) {
        if !is_known(section, key) && section != SECRET {
            self.ignored_keys.push(place_of(key, line));
        }
        let place = (section.to_string(), key.to_string());
        match self.values.get_mut(&place) {
            Some(before) => {
                before.extend(["\n", value]);
                if is_known(section, key) && !self.duplicate_keys.iter().any(|other| other == key) {
                    self.duplicate_keys.push(key.to_string());
                }
            }
            None => {
                self.values.insert(place, value.to_string());
            }
        }
    }
}

/// Parses the file. Never fails: errors are part of the result.
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
            found.invalid_lines.push(number);
            continue;
        };
        let Some(section) = &section else {
            // `Config::IniFiles` stops here.
            found.invalid_lines.push(number);
            break;
        };
        let value = match value.strip_prefix("<<") {
            Some(mark) => {
                let (mut inside, mut is_closed) = (Vec::new(), false);
                for (_, line) in lines.by_ref() {
                    is_closed = line == mark;
                    if is_closed {
                        break;
                    }
                    inside.push(line);
                }
                if !is_closed {
                    found.invalid_lines.push(number);
                }
                inside.join("\n")
            }
            None => value.to_string(),
        };
        found.take(section, key, &value, number);
    }
    found.is_empty = !any_section;
    found
}

/// Splits at the line ending that occurs first: `\r\n`, `\n` or `\r`.
fn lines(text: &str) -> Vec<&str> {
    let end = match text.find(['\r', '\n']) {
        Some(at) if text[at..].starts_with("\r\n") => "\r\n",
        Some(at) if text[at..].starts_with('\r') => "\r",
        _ => "\n",
    };
    text.split(end)
        .map(|line| {
            if end == "\n" {
                line.strip_suffix('\r').unwrap_or(line)
            } else {
                line
            }
        })
        .collect()
}

/// Whether LVM takes this as a name of a volume or group.
pub fn is_lvm_name(name: &str) -> bool {
    let may_have = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(may_have)
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

/// Describes an ignored key: a plain word by name and line, others by line only.
fn place_of(key: &str, line: usize) -> String {
    let is_plain =
        key.len() <= LONGEST_KEY && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    match keys::known(key) {
        Some((section, _)) => format!("`{key}` in line {line}, which belongs under [{section}]"),
        None if is_plain => format!("`{key}` in line {line}"),
        None => format!("line {line}"),
    }
}
