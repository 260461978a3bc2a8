//! `mylvmbackup.conf`: what mylvmbackup will do, as mylvmbackup itself reads it.
//!
//! Perl's `Config::IniFiles` decides what a line means: values are taken with their quotes and all that stands behind
//! them, a key that is written twice has both values with a line break between them, and one line that is no comment,
//! no section and no `key=value` makes mylvmbackup end at once. Nothing of a line is kept that was not understood, since
//! it may hold a password.

use std::collections::HashMap;

/// Sections, keys and what holds where a key is not written, as of version 0.15.
const KEYS: [(&str, &[(&str, &str)]); 8] = [
    (
        "mysql",
        &[
            ("user", "root"),
            ("password", ""),
            ("host", ""),
            ("port", ""),
            ("socket", ""),
            ("mysqld_safe", "mysqld_safe"),
            ("mycnf", "/etc/mysql/my.cnf"),
        ],
    ),
    ("lvm", &[("vgname", "mysql"), ("lvname", "data"), ("lvsize", "5G"), ("backuplv", "")]),
    (
        "fs",
        &[
            ("xfs", "0"),
            ("mountdir", "/var/cache/mylvmbackup/mnt/"),
            ("backupdir", "/var/cache/mylvmbackup/backup/"),
            ("relpath", ""),
        ],
    ),
    (
        "tools",
        &[
            ("lvcreate", "lvcreate"),
            ("lvremove", "lvremove"),
            ("lvs", "lvs"),
            ("mount", "mount"),
            ("umount", "umount"),
            ("tar", "tar"),
            ("compress", "gzip"),
            ("rsync", "rsync"),
            ("rsnap", "rsnap"),
        ],
    ),
    ("zbackup", &[("zbackup", "zbackup"), ("zbackuparg", "--non-encrypted")]),
    (
        "misc",
        &[
            ("backuptype", "tar"),
            ("backupretention", "0"),
            ("prefix", "backup"),
            ("suffix", "_mysql"),
            ("tararg", "cf"),
            ("tarsuffixarg", ""),
            ("tarfilesuffix", ".tar.gz"),
            ("compressarg", ""),
            ("rsyncarg", ""),
            ("rsnaparg", ""),
            ("rsnaprsyncarg", ""),
            ("datefmt", ""),
            ("innodb_recover", "0"),
            ("recoveryopts", ""),
            ("pidfile", ""),
            ("skip_flush_tables", "0"),
            ("extra_flush_tables", "0"),
            ("skip_mycnf", "0"),
            ("hooksdir", "/usr/share/mylvmbackup"),
            ("skip_hooks", "0"),
            ("keep_snapshot", "0"),
            ("keep_mount", "0"),
            ("thin", "0"),
            ("quiet", "0"),
        ],
    ),
    (
        "logging",
        &[("log_method", ""), ("syslog_socktype", ""), ("syslog_facility", ""), ("syslog_remotehost", "")],
    ),
    ("reporting", &[("mail_report_on", ""), ("mail_from", ""), ("mail_to", ""), ("mail_subject", "")]),
];

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

/// What mylvmbackup does with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Tar,
    Rsync,
    Rsnap,
    Zbackup,
    Nothing,
    /// A word that it does not know: it takes no backup and reports success.
    Unknown(String),
}

/// A program that this configuration uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The key that names it.
    pub key: &'static str,
    /// Its first word, as the shell takes it.
    pub program: String,
    /// Whether the word may be shown.
    pub is_secret: bool,
}

/// What mylvmbackup is to do, where its command line says nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub group: String,
    pub origin: String,
    /// Its name; codes such as `%Y` stand for the time of the backup.
    pub snapshot: String,
    /// As it is handed to lvcreate.
    pub size: String,
    pub is_thin: bool,
    /// The command that makes the snapshot, with its arguments.
    pub lvcreate: String,
    pub mountdir: String,
    pub backupdir: String,
    pub prefix: String,
    /// How the names of its archives end.
    pub archive_end: String,
    pub kind: Kind,
    pub is_compressed: bool,
    pub tools: Vec<Tool>,
    /// The file that has to be there, or the run ends.
    pub mycnf: Option<String>,
    pub hooksdir: String,
    pub skips_hooks: bool,
}

impl Plan {
    /// What the configuration says; what it leaves out is as mylvmbackup's own defaults.
    pub fn of(written: &Configuration) -> Self {
        let text = |key: &str| written.value(key).to_string();
        let kind = kind(written.value("backuptype"));
        let backuplv = text("backuplv");
        let is_compressed = kind == Kind::Tar && !written.value("compress").is_empty();
        let end = if kind == Kind::Tar { written.value("tarfilesuffix") } else { "" };
        Self {
            group: text("vgname"),
            origin: text("lvname"),
            snapshot: if backuplv.is_empty() { format!("{}_snapshot", text("lvname")) } else { backuplv },
            size: text("lvsize"),
            is_thin: is_on(written.value("thin")),
            lvcreate: text("lvcreate"),
            mountdir: folder(written.value("mountdir")),
            backupdir: folder(written.value("backupdir")),
            prefix: text("prefix"),
            archive_end: format!("{}{end}", written.value("suffix")),
            tools: tools(written, &kind),
            kind,
            is_compressed,
            mycnf: Some(text("mycnf")).filter(|_| number(written.value("skip_mycnf")) == 0),
            hooksdir: folder(written.value("hooksdir")),
            skips_hooks: is_on(written.value("skip_hooks")),
        }
    }

    /// Whether its backups go to another machine, so that nothing of their room is known here.
    pub fn is_remote(&self) -> bool {
        self.kind == Kind::Rsync && !self.backupdir.starts_with('/') && self.backupdir.contains(':')
    }

    /// Whether its backups lie in a folder of this machine.
    pub fn writes_here(&self) -> bool {
        !self.is_remote() && !matches!(self.kind, Kind::Nothing | Kind::Unknown(_))
    }

    /// Whether lvcreate is told to make the snapshot so that it is active.
    pub fn asks_for_activation(&self) -> bool {
        let words: Vec<&str> = self.lvcreate.split_ascii_whitespace().collect();
        let after = |word: &str| words.iter().skip_while(|other| **other != word).nth(1) == Some(&"n");
        words.iter().any(|word| matches!(*word, "-kn" | "--setactivationskip=n"))
            || after("-k")
            || after("--setactivationskip")
    }
}

impl Configuration {
    /// The value of a key that mylvmbackup knows.
    fn value(&self, key: &str) -> &str {
        let known = KEYS.iter().find_map(|(section, keys)| {
            keys.iter().find(|(name, _)| *name == key).map(|(_, default)| (*section, *default))
        });
        let Some((section, default)) = known else { return "" };
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

fn is_known(section: &str, key: &str) -> bool {
    KEYS.iter().any(|(name, keys)| *name == section && keys.iter().any(|(name, _)| *name == key))
}

/// A key that is passed over, as it may be shown: a plain word with its line, all else by its line alone.
fn place_of(key: &str, line: usize) -> String {
    let is_plain = key.len() <= LONGEST_KEY && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    match KEYS.iter().find(|(_, keys)| keys.iter().any(|(name, _)| *name == key)) {
        Some((section, _)) => format!("`{key}` in line {line}, which belongs under [{section}]"),
        None if is_plain => format!("`{key}` in line {line}"),
        None => format!("line {line}"),
    }
}

fn kind(word: &str) -> Kind {
    match word {
        "tar" => Kind::Tar,
        "rsync" => Kind::Rsync,
        "rsnap" => Kind::Rsnap,
        "zbackup" => Kind::Zbackup,
        "none" => Kind::Nothing,
        other => Kind::Unknown(other.to_string()),
    }
}

fn tools(written: &Configuration, kind: &Kind) -> Vec<Tool> {
    let mut keys = vec!["lvcreate", "lvremove", "lvs", "mount", "umount"];
    keys.extend(match kind {
        Kind::Tar => ["tar", "compress"].as_slice(),
        Kind::Rsync => &["rsync"],
        Kind::Rsnap => &["rsnap"],
        Kind::Zbackup => &["tar", "zbackup"],
        Kind::Nothing | Kind::Unknown(_) => &[],
    });
    if number(written.value("innodb_recover")) == 1 {
        keys.push("mysqld_safe");
    }
    let tool = |key: &'static str| {
        let value = written.value(key);
        // tar alone is quoted, so that it cannot have arguments.
        let program = if key == "tar" { Some(value) } else { first_word(value) }?;
        Some(Tool { key, program: program.to_string(), is_secret: key == "mysqld_safe" })
    };
    keys.into_iter()
        .filter(|key| *key != "compress" || !written.value(key).is_empty())
        .filter_map(tool)
        .collect()
}

/// The program of a command; `None` where only a shell knows which it is.
fn first_word(command: &str) -> Option<&str> {
    let command = command.trim();
    let word = match command.strip_prefix(['"', '\'']) {
        Some(rest) => rest.split(['"', '\'']).next()?,
        None => command.split_ascii_whitespace().next().unwrap_or_default(),
    };
    (!word.contains(['$', '`', '(', '=', '{', '~', '*', '\\', ';', '|', '&', '<', '>'])).then_some(word)
}

/// As mylvmbackup cleans names of folders up.
fn folder(name: &str) -> String {
    let name = name.trim_start();
    let name = name.strip_suffix(char::is_whitespace).unwrap_or(name);
    match name.trim_end_matches('/') {
        "" if name.starts_with('/') => "/".into(),
        name => name.to_string(),
    }
}

/// What Perl takes for true.
fn is_on(value: &str) -> bool {
    !matches!(value, "" | "0")
}

/// What Perl takes for the number of a text.
fn number(value: &str) -> u64 {
    let value = value.trim_start();
    let digits = value.find(|c: char| !c.is_ascii_digit()).map_or(value, |end| &value[..end]);
    digits.parse().unwrap_or(0)
}

/// A size as lvcreate's `--size` takes it, in bytes: `5G`, `1.5t`, `512` (MiB); a percentage is none.
pub fn size_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let amount: f64 = text[..end].parse().ok().filter(|amount| *amount > 0.0)?;
    let unit = text[end..].to_ascii_lowercase();
    let power: u64 = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" if unit == "b" => 1,
        "" if unit.is_empty() => 1 << 20,
        "s" => 512,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        "p" => 1 << 50,
        "e" => 1 << 60,
        _ => return None,
    };
    Some((amount * power as f64) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACKAGED: &str = include_str!("../../tests/fixtures/mylvmbackup-0.15.conf");

    fn plan(text: &str) -> Plan {
        Plan::of(&parse(text))
    }

    #[test]
    fn the_packaged_file_says_what_holds_without_one() {
        let found = parse(PACKAGED);
        assert_eq!((&found.not_understood, &found.twice, &found.passed_over), (&vec![], &vec![], &vec![]));
        assert_eq!(Plan::of(&found), Plan::of(&Configuration::default()));
        let plan = Plan::of(&found);
        assert_eq!((&*plan.group, &*plan.snapshot, &*plan.size), ("mysql", "data_snapshot", "5G"));
        assert_eq!((&*plan.mountdir, plan.is_thin), ("/var/cache/mylvmbackup/mnt", false));
        let tools: Vec<&str> = plan.tools.iter().map(|tool| &*tool.program).collect();
        assert_eq!(tools, ["lvcreate", "lvremove", "lvs", "mount", "umount", "tar", "gzip"]);
        assert_eq!(plan.mycnf.as_deref(), Some("/etc/mysql/my.cnf"));
    }

    #[test]
    fn lines_end_as_the_first_one_does() {
        for text in [
            "[lvm]\r\nvgname=a\r\nlvname=b\r\n",
            "[lvm]\rvgname=a\rlvname=b",
            "[lvm]\nvgname=a\r\nlvname=b\n",
        ] {
            let plan = plan(text);
            assert_eq!((&*plan.group, &*plan.origin), ("a", "b"), "{text:?}");
        }
        assert_eq!(parse("[lvm]\r\nvgname=a\nlvname=b\r\n").not_understood, [2]);
    }

    #[test]
    fn a_line_that_ends_mylvmbackup_is_told_by_its_number_alone() {
        for (text, lines) in [
            ("\u{feff}[lvm]\nvgname=a\n", vec![1, 2]),
            ("[lvm]\nrubbish\nvgname=a\nmore rubbish", vec![2, 4]),
            ("vgname=a\n[lvm]\n", vec![1]),
            ("[lvm] # mine\nvgname=a\n", vec![1, 2]),
            ("[lvm]\n=a\n", vec![2]),
            ("\u{0}\u{1}\u{fffd}\n", vec![1]),
        ] {
            assert_eq!(parse(text).not_understood, lines, "{text:?}");
        }
        assert!(parse("# nothing\n").is_empty && !parse("[x]").is_empty);
    }

    #[test]
    fn values_are_taken_with_all_that_stands_behind_them() {
        let found =
            parse("[lvm]\nvgname = \"a\" \nlvsize=1G # small\nlvsize=2G\n[lvm]\nlvname=<<END\nb\nEND\n");
        let plan = Plan::of(&found);
        assert_eq!((&*plan.group, &*plan.size, &*plan.origin), ("\"a\" ", "1G # small\n2G", "b"));
        assert_eq!(found.twice, ["lvsize"]);
    }

    #[test]
    fn keys_that_are_passed_over_are_named_but_never_a_secret() {
        let found = parse("[mysql]\nhunter2=x\n[lvm]\nthin=1\nlvsise=2G\nmy secret=3\n[other]\nprefix=b\n");
        assert_eq!(
            found.passed_over,
            [
                "`thin` in line 4, which belongs under [misc]",
                "`lvsise` in line 5",
                "line 6",
                "`prefix` in line 8, which belongs under [misc]"
            ]
        );
        assert!(!Plan::of(&found).is_thin);
    }

    #[test]
    fn only_programs_that_the_backup_uses_are_named() {
        let programs = |text: &str| -> Vec<String> {
            plan(text).tools.into_iter().skip(5).map(|tool| tool.program).collect()
        };
        assert_eq!(programs("[tools]\ncompress=\n"), ["tar"]);
        assert_eq!(programs("[tools]\ncompress=nice -n 19 pigz\n"), ["tar", "nice"]);
        assert_eq!(programs("[tools]\ncompress=$HOME/bin/zip\n"), ["tar"]);
        assert_eq!(programs("[misc]\nbackuptype=rsync\ninnodb_recover=1\n"), ["rsync", "mysqld_safe"]);
        assert_eq!(programs("[misc]\nbackuptype=zbackup\n"), ["tar", "zbackup"]);
        assert_eq!(programs("[misc]\nbackuptype=Tar\n"), [""; 0]);
    }

    #[test]
    fn what_is_told_to_lvcreate_decides_whether_its_snapshot_is_active() {
        for (lvcreate, expected) in [
            ("lvcreate", false),
            ("lvcreate -kn", true),
            ("/sbin/lvcreate -k n", true),
            ("lvcreate --setactivationskip n", true),
            ("lvcreate --setactivationskip=n", true),
            ("lvcreate -ky", false),
        ] {
            assert_eq!(
                plan(&format!("[tools]\nlvcreate={lvcreate}\n")).asks_for_activation(),
                expected,
                "{lvcreate}"
            );
        }
    }

    #[test]
    fn another_machine_is_told_from_a_folder_of_this_one() {
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
    fn sizes_are_read_as_lvcreate_of_lvm_2_03_16_takes_them() {
        const MIB: u64 = 1 << 20;
        for (text, bytes) in [
            ("5G", Some(5120 * MIB)),
            ("5GiB", Some(5120 * MIB)),
            ("10mb", Some(10 * MIB)),
            ("10", Some(10 * MIB)),
            ("1.5g", Some(1536 * MIB)),
            (".5G", Some(512 * MIB)),
            ("+10M", Some(10 * MIB)),
            ("20480S", Some(10 * MIB)),
            ("10485760b", Some(10 * MIB)),
            ("20480K", Some(20 * MIB)),
            ("10%ORIGIN", None),
            ("100%FREE", None),
            ("-10M", None),
            ("0", None),
            ("", None),
            ("5x", None),
            ("10,5M", None),
            ("5G # small", None),
        ] {
            assert_eq!(size_bytes(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn a_megabyte_of_anything_is_read_in_no_time() {
        let text = "[lvm]\n".to_string() + &"key=value\n".repeat(100_000);
        assert_eq!(parse(&text).not_understood, [0; 0]);
        assert_eq!(parse(&"x".repeat(1 << 20)).not_understood, [1]);
    }

    proptest! {
        #[test]
        fn no_text_stops_the_program(text in "(\\PC|\r|\n|\\[|=|<<|#)*") {
            let found = parse(&text);
            Plan::of(&found);
            size_bytes(&text);
        }
    }
}
