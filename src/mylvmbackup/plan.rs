//! What mylvmbackup will do, by its configuration file and its defaults, interpreted as Perl and the shell do. `check`
//! verifies that programs and directories exist.

use super::Configuration;

/// mylvmbackup's `backuptype`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupType {
    Tar,
    Rsync,
    Rsnap,
    Zbackup,
    Nothing,
    /// An unknown type: mylvmbackup takes no backup and reports success.
    Unknown(String),
}

/// A program that mylvmbackup will run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The key that names it.
    pub key: &'static str,
    /// The first word of its command, as the shell parses it.
    pub program: String,
    /// Whether the program must not be shown.
    pub is_secret: bool,
}

/// What mylvmbackup will do without further options.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupPlan {
    pub group: String,
    pub origin: String,
    /// The snapshot's name; codes such as `%Y` stand for the time of the backup.
    pub snapshot: String,
    /// The argument of lvcreate's `--size`.
    pub size: String,
    pub is_thin: bool,
    /// The command that creates the snapshot, with arguments.
    pub lvcreate: String,
    pub mountdir: String,
    pub backupdir: String,
    pub prefix: String,
    /// The suffix of archive names.
    pub archive_end: String,
    pub backup_type: BackupType,
    pub is_compressed: bool,
    pub tools: Vec<Tool>,
    /// A file that must exist, or the run fails.
    pub mycnf: Option<String>,
    pub hooksdir: String,
    pub skips_hooks: bool,
}

impl BackupPlan {
    /// Combines the configuration with mylvmbackup's defaults.
    pub fn of(written: &Configuration) -> Self {
        let text = |key: &str| written.value(key).to_string();
        let backup_type = backup_type(written.value("backuptype"));
        let backuplv = text("backuplv");
        let is_compressed = backup_type == BackupType::Tar && !written.value("compress").is_empty();
        let end = if backup_type == BackupType::Tar {
            written.value("tarfilesuffix")
        } else {
            ""
        };
        Self {
            group: text("vgname"),
            origin: text("lvname"),
            snapshot: if backuplv.is_empty() {
                format!("{}_snapshot", text("lvname"))
            } else {
                backuplv
            },
            size: text("lvsize"),
            is_thin: is_on(written.value("thin")),
            lvcreate: text("lvcreate"),
            mountdir: folder(written.value("mountdir")),
            backupdir: folder(written.value("backupdir")),
            prefix: text("prefix"),
            archive_end: format!("{}{end}", written.value("suffix")),
            tools: tools(written, &backup_type),
            backup_type,
            is_compressed,
            mycnf: Some(text("mycnf")).filter(|_| number(written.value("skip_mycnf")) == 0),
            hooksdir: folder(written.value("hooksdir")),
            skips_hooks: is_on(written.value("skip_hooks")),
        }
    }

    /// The size of the snapshot; `None` for percentages and for what lvcreate does not take.
    pub fn size_bytes(&self) -> Option<u64> {
        size_bytes(&self.size)
    }

    /// Whether backups go to another machine, whose free space is unknown.
    pub fn is_remote(&self) -> bool {
        self.backup_type == BackupType::Rsync
            && !self.backupdir.starts_with('/')
            && self.backupdir.contains(':')
    }

    /// Whether backups go to a directory of this machine.
    pub fn writes_here(&self) -> bool {
        !self.is_remote()
            && !matches!(
                self.backup_type,
                BackupType::Nothing | BackupType::Unknown(_)
            )
    }

    /// Whether lvcreate's arguments activate the snapshot.
    pub fn activates_snapshot(&self) -> bool {
        let words: Vec<&str> = self.lvcreate.split_ascii_whitespace().collect();
        let after =
            |word: &str| words.iter().skip_while(|other| **other != word).nth(1) == Some(&"n");
        words
            .iter()
            .any(|word| matches!(*word, "-kn" | "--setactivationskip=n"))
            || after("-k")
            || after("--setactivationskip")
    }
}

/// The argument of lvcreate's `--size` in bytes: `5G`, `1.5t`, `512` (MiB). `None` for percentages.
pub(super) fn size_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let amount: f64 = text[..end].parse().ok().filter(|amount| *amount > 0.0)?;
    let unit = text[end..].to_ascii_lowercase();
    let power: u64 = match unit
        .strip_suffix("ib")
        .or(unit.strip_suffix('b'))
        .unwrap_or(&unit)
    {
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

fn backup_type(word: &str) -> BackupType {
    match word {
        "tar" => BackupType::Tar,
        "rsync" => BackupType::Rsync,
        "rsnap" => BackupType::Rsnap,
        "zbackup" => BackupType::Zbackup,
        "none" => BackupType::Nothing,
        other => BackupType::Unknown(other.to_string()),
    }
}

fn tools(written: &Configuration, backup_type: &BackupType) -> Vec<Tool> {
    let mut keys = vec!["lvcreate", "lvremove", "lvs", "mount", "umount"];
    keys.extend(match backup_type {
        BackupType::Tar => ["tar", "compress"].as_slice(),
        BackupType::Rsync => &["rsync"],
        BackupType::Rsnap => &["rsnap"],
        BackupType::Zbackup => &["tar", "zbackup"],
        BackupType::Nothing | BackupType::Unknown(_) => &[],
    });
    if number(written.value("innodb_recover")) == 1 {
        keys.push("mysqld_safe");
    }
    let tool = |key: &'static str| {
        let value = written.value(key);
        // mylvmbackup quotes tar only, so tar cannot have arguments.
        let program = if key == "tar" {
            Some(value)
        } else {
            first_word(value)
        }?;
        Some(Tool {
            key,
            program: program.to_string(),
            is_secret: key == "mysqld_safe",
        })
    };
    keys.into_iter()
        .filter(|key| *key != "compress" || !written.value(key).is_empty())
        .filter_map(tool)
        .collect()
}

/// The program of a command; `None` if only a shell can determine it.
fn first_word(command: &str) -> Option<&str> {
    let command = command.trim();
    let word = match command.strip_prefix(['"', '\'']) {
        Some(rest) => rest.split(['"', '\'']).next()?,
        None => command.split_ascii_whitespace().next().unwrap_or_default(),
    };
    (!word.contains([
        '$', '`', '(', '=', '{', '~', '*', '\\', ';', '|', '&', '<', '>',
    ]))
    .then_some(word)
}

/// Normalizes a directory name as mylvmbackup does.
fn folder(name: &str) -> String {
    let name = name.trim_start();
    let name = name.strip_suffix(char::is_whitespace).unwrap_or(name);
    match name.trim_end_matches('/') {
        "" if name.starts_with('/') => "/".into(),
        name => name.to_string(),
    }
}

/// Perl's truth of a string.
fn is_on(value: &str) -> bool {
    !matches!(value, "" | "0")
}

/// Perl's numeric value of a string.
fn number(value: &str) -> u64 {
    let value = value.trim_start();
    let digits = value
        .find(|c: char| !c.is_ascii_digit())
        .map_or(value, |end| &value[..end]);
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_match_lvcreate_of_lvm_2_03_16() {
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
}
