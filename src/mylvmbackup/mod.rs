//! `mylvmbackup.conf`, parsed as Perl's `Config::IniFiles` does. Values include quotes and trailing comments. A key
//! that appears twice has both values, separated by a line break. A line that is not a comment, section or `key=value`
//! makes mylvmbackup exit. Invalid lines are not stored, since they may hold a password.

mod next;
mod plan;
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

#[cfg(test)]
mod tests {
    //! Configuration files and what mylvmbackup does with them.

    use proptest::prelude::*;

    use super::plan::{BackupPlan, size_bytes};
    use super::{Configuration, parse};

    const PACKAGED: &str = include_str!("../../tests/fixtures/mylvmbackup-0.15.conf");

    fn plan(text: &str) -> BackupPlan {
        BackupPlan::of(&parse(text))
    }

    #[test]
    fn the_packaged_file_has_the_default_values() {
        let found = parse(PACKAGED);
        assert_eq!(
            (
                &found.invalid_lines,
                &found.duplicate_keys,
                &found.ignored_keys
            ),
            (&vec![], &vec![], &vec![])
        );
        assert_eq!(
            BackupPlan::of(&found),
            BackupPlan::of(&Configuration::default())
        );
        let plan = BackupPlan::of(&found);
        assert_eq!(
            (&*plan.group, &*plan.snapshot, &*plan.size),
            ("mysql", "data_snapshot", "5G")
        );
        assert_eq!(
            (&*plan.mountdir, plan.is_thin),
            ("/var/cache/mylvmbackup/mnt", false)
        );
        let tools: Vec<&str> = plan.tools.iter().map(|tool| &*tool.program).collect();
        assert_eq!(
            tools,
            [
                "lvcreate", "lvremove", "lvs", "mount", "umount", "tar", "gzip"
            ]
        );
        assert_eq!(plan.mycnf.as_deref(), Some("/etc/mysql/my.cnf"));
    }

    #[test]
    fn the_first_line_ending_applies_to_the_file() {
        for text in [
            "[lvm]\r\nvgname=a\r\nlvname=b\r\n",
            "[lvm]\rvgname=a\rlvname=b",
            "[lvm]\nvgname=a\r\nlvname=b\n",
        ] {
            let plan = plan(text);
            assert_eq!((&*plan.group, &*plan.origin), ("a", "b"), "{text:?}");
        }
        assert_eq!(parse("[lvm]\r\nvgname=a\nlvname=b\r\n").invalid_lines, [2]);
    }

    #[test]
    fn a_syntax_error_is_reported_by_line_number_only() {
        for (text, lines) in [
            ("\u{feff}[lvm]\nvgname=a\n", vec![1, 2]),
            ("[lvm]\nrubbish\nvgname=a\nmore rubbish", vec![2, 4]),
            ("vgname=a\n[lvm]\n", vec![1]),
            ("[lvm] # mine\nvgname=a\n", vec![1, 2]),
            ("[lvm]\n=a\n", vec![2]),
            ("\u{0}\u{1}\u{fffd}\n", vec![1]),
        ] {
            assert_eq!(parse(text).invalid_lines, lines, "{text:?}");
        }
        assert!(parse("# nothing\n").is_empty && !parse("[x]").is_empty);
    }

    #[test]
    fn values_include_quotes_and_trailing_comments() {
        let found = parse(
            "[lvm]\nvgname = \"a\" \nlvsize=1G # small\nlvsize=2G\n[lvm]\nlvname=<<END\nb\nEND\n",
        );
        let plan = BackupPlan::of(&found);
        assert_eq!(
            (&*plan.group, &*plan.size, &*plan.origin),
            ("\"a\" ", "1G # small\n2G", "b")
        );
        assert_eq!(found.duplicate_keys, ["lvsize"]);
    }

    #[test]
    fn ignored_keys_are_named_but_secrets_are_not() {
        let found =
            parse("[mysql]\nhunter2=x\n[lvm]\nthin=1\nlvsise=2G\nmy secret=3\n[other]\nprefix=b\n");
        assert_eq!(
            found.ignored_keys,
            [
                "`thin` in line 4, which belongs under [misc]",
                "`lvsise` in line 5",
                "line 6",
                "`prefix` in line 8, which belongs under [misc]"
            ]
        );
        assert!(!BackupPlan::of(&found).is_thin);
    }

    #[test]
    fn only_programs_of_the_backup_type_are_listed() {
        let programs = |text: &str| -> Vec<String> {
            plan(text)
                .tools
                .into_iter()
                .skip(5)
                .map(|tool| tool.program)
                .collect()
        };
        assert_eq!(programs("[tools]\ncompress=\n"), ["tar"]);
        assert_eq!(
            programs("[tools]\ncompress=nice -n 19 pigz\n"),
            ["tar", "nice"]
        );
        assert_eq!(programs("[tools]\ncompress=$HOME/bin/zip\n"), ["tar"]);
        assert_eq!(
            programs("[misc]\nbackuptype=rsync\ninnodb_recover=1\n"),
            ["rsync", "mysqld_safe"]
        );
        assert_eq!(programs("[misc]\nbackuptype=zbackup\n"), ["tar", "zbackup"]);
        assert_eq!(programs("[misc]\nbackuptype=Tar\n"), [""; 0]);
    }

    #[test]
    fn lvcreate_arguments_decide_about_activation() {
        for (lvcreate, expected) in [
            ("lvcreate", false),
            ("lvcreate -kn", true),
            ("/sbin/lvcreate -k n", true),
            ("lvcreate --setactivationskip n", true),
            ("lvcreate --setactivationskip=n", true),
            ("lvcreate -ky", false),
        ] {
            assert_eq!(
                plan(&format!("[tools]\nlvcreate={lvcreate}\n")).activates_snapshot(),
                expected,
                "{lvcreate}"
            );
        }
    }

    #[test]
    fn remote_directories_are_distinguished_from_local_ones() {
        let is_remote = |kind: &str, dir: &str| {
            plan(&format!("[misc]\nbackuptype={kind}\n[fs]\nbackupdir={dir}")).is_remote()
        };
        assert!(
            is_remote("rsync", "nas:/backup")
                && !is_remote("rsync", "/mnt/a:b")
                && !is_remote("tar", "nas:/b")
        );
    }

    #[test]
    fn a_megabyte_parses_quickly() {
        let text = "[lvm]\n".to_string() + &"key=value\n".repeat(100_000);
        assert_eq!(parse(&text).invalid_lines, [0; 0]);
        assert_eq!(parse(&"x".repeat(1 << 20)).invalid_lines, [1]);
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\r|\n|\\[|=|<<|#)*") {
            let found = parse(&text);
            BackupPlan::of(&found);
            size_bytes(&text);
        }
    }
}
