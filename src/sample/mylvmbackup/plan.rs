//! What mylvmbackup is to do: what is written, with its own defaults for the rest, taken as it takes it.
//!
//! Perl says what is true and what a number is, and a shell what the program of a command is. Whether all of it is there
//! is `check`'s to find out.

use super::Configuration;

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
