//! `mylvmbackup.conf`, parsed as Perl's `Config::IniFiles` does. Values include quotes and trailing comments. A key
//! that appears twice has both values, separated by a line break. A line that is not a comment, section or `key=value`
//! makes mylvmbackup exit. Invalid lines are not stored, since they may hold a password.

mod next;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use next::NextSnapshot;
pub use plan::{BackupPlan, BackupType, Tool};

/// The section with the password; its content is never shown.
const SECRET: &str = "mysql";
/// Longer keys are shown by line number only.
const LONGEST_KEY: usize = 30;

/// Sections of version 0.15 with their keys and defaults, which contain no blanks.
const SECTIONS: [(&str, &str); 8] = [
    (
        "mysql",
        "user=root password= host= port= socket= mysqld_safe=mysqld_safe mycnf=/etc/mysql/my.cnf",
    ),
    ("lvm", "vgname=mysql lvname=data lvsize=5G backuplv="),
    (
        "fs",
        "xfs=0 mountdir=/var/cache/mylvmbackup/mnt/ backupdir=/var/cache/mylvmbackup/backup/ relpath=",
    ),
    (
        "tools",
        "lvcreate=lvcreate lvremove=lvremove lvs=lvs mount=mount umount=umount tar=tar compress=gzip \
         rsync=rsync rsnap=rsnap",
    ),
    ("zbackup", "zbackup=zbackup zbackuparg=--non-encrypted"),
    (
        "misc",
        "backuptype=tar backupretention=0 prefix=backup suffix=_mysql tararg=cf tarsuffixarg= \
         tarfilesuffix=.tar.gz compressarg= rsyncarg= rsnaparg= rsnaprsyncarg= datefmt= innodb_recover=0 \
         recoveryopts= pidfile= skip_flush_tables=0 extra_flush_tables=0 skip_mycnf=0 \
         hooksdir=/usr/share/mylvmbackup skip_hooks=0 keep_snapshot=0 keep_mount=0 thin=0 quiet=0",
    ),
    (
        "logging",
        "log_method= syslog_socktype= syslog_facility= syslog_remotehost=",
    ),
    (
        "reporting",
        "mail_report_on= mail_from= mail_to= mail_subject=",
    ),
];

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
    /// What mylvmbackup will do; `None` if it exits at once.
    pub fn plan(&self) -> Option<BackupPlan> {
        let is_read = self.invalid_lines.is_empty() && !self.is_empty;
        is_read.then(|| BackupPlan::of(self))
    }

    /// The value of a key that mylvmbackup knows.
    fn value(&self, key: &str) -> &str {
        let Some((section, _, default)) = known(key) else {
            return "";
        };
        self.values
            .get(&(section.to_string(), key.to_string()))
            .map_or(default, String::as_str)
    }

    fn insert(&mut self, section: &str, key: &str, value: &str, line: usize) {
        let is_known = keys().any(|(of, name, _)| of == section && name == key);
        if !is_known && section != SECRET {
            self.ignored_keys.push(place_of(key, line));
        }
        let place = (section.to_string(), key.to_string());
        match self.values.get_mut(&place) {
            Some(before) => {
                before.extend(["\n", value]);
                if is_known && !self.duplicate_keys.iter().any(|other| other == key) {
                    self.duplicate_keys.push(key.to_string());
                }
            }
            None => {
                self.values.insert(place, value.to_string());
            }
        }
    }
}

/// Section, key and default of each key that mylvmbackup knows.
fn keys() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    SECTIONS.into_iter().flat_map(|(section, keys)| {
        let keys = keys.split(' ').filter_map(|key| key.split_once('='));
        keys.map(move |(key, default)| (section, key, default))
    })
}

fn known(key: &str) -> Option<(&'static str, &'static str, &'static str)> {
    keys().find(|(_, name, _)| *name == key)
}

/// Parses the file. Never fails: errors are part of the result.
///
/// Source: `Config::IniFiles` 3.000003.
pub fn parse(text: &str) -> Configuration {
    let mut found = Configuration {
        is_empty: true,
        ..Configuration::default()
    };
    let mut section = None;
    let mut lines = (1..).zip(lines(text));
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = section_name(line) {
            section = Some(name);
            found.is_empty = false;
            continue;
        }
        let Some((key, value)) = assignment(line) else {
            found.invalid_lines.push(number);
            continue;
        };
        let Some(section) = section else {
            // `Config::IniFiles` stops here.
            found.invalid_lines.push(number);
            break;
        };
        let Some(mark) = value.strip_prefix("<<") else {
            found.insert(section, key, value, number);
            continue;
        };
        let mut inside = Vec::new();
        let mut is_closed = false;
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
        found.insert(section, key, &inside.join("\n"), number);
    }
    found
}

/// Splits at the line ending that occurs first: `\r\n`, `\n` or `\r`.
fn lines(text: &str) -> Vec<&str> {
    let first = text.find(['\r', '\n']).map_or("", |at| &text[at..]);
    if first.starts_with("\r\n") {
        text.split("\r\n").collect()
    } else if first.starts_with('\r') {
        text.split('\r').collect()
    } else {
        let lines = text.split('\n');
        lines
            .map(|line| line.strip_suffix('\r').unwrap_or(line))
            .collect()
    }
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
    match known(key) {
        Some((section, ..)) => format!("`{key}` in line {line}, which belongs under [{section}]"),
        None if is_plain => format!("`{key}` in line {line}"),
        None => format!("line {line}"),
    }
}
