//! Whether tonight's backup by mylvmbackup can work: evaluates its plan against facts about the machine.
//!
//! Reads nothing itself. Unknown facts are reported as unknown, never as good.

mod room;
mod snapshot;

use super::CheckLine;
use crate::mylvmbackup::{BackupPlan, BackupType, Configuration, Tool};
use crate::sample::lvm::{Policies, Report};
use crate::sentence::Sentence;
use crate::source::backup::{CONFIGURATION, Directory, ProgramState};

/// Quoted words are truncated to this length.
const MAX_QUOTED: usize = 60;
/// Ignored keys that are listed.
const MAX_IGNORED_KEYS: usize = 5;

/// A directory; `None` if it does not exist, or an error.
pub type DirectoryLookup = Result<Option<Directory>, String>;

/// BackupFacts about the machine.
pub struct BackupFacts {
    pub is_installed: bool,
    pub report: Option<Report>,
    /// Why LVM would refuse a snapshot in its group.
    pub refusal: Option<Sentence>,
    /// LVM's settings.
    pub policies: Policies,
    /// Whether LVM creates thin snapshots inactive; `None` if unknown.
    pub skips_activation: Option<bool>,
    /// Programs that cannot run.
    pub tools: Vec<(Tool, ProgramState)>,
    pub mountdir: DirectoryLookup,
    /// The directory in `mountdir` for the snapshot, which must be empty.
    pub mount_point: DirectoryLookup,
    pub backupdir: DirectoryLookup,
    /// Whether `backupdir` lies on the volume to be backed up; `None` if unknown.
    pub backupdir_is_on_origin: Option<bool>,
    /// Used bytes of the origin's file system, if mounted.
    pub origin_used: Option<u64>,
    pub has_mycnf: bool,
}

/// Evaluates the configuration file.
pub fn of_configuration(written: &Configuration) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    if let Some(first) = written.invalid_lines.first() {
        let more = match written.invalid_lines.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        lines.push(CheckLine::missing(format!(
            "line {first} of {CONFIGURATION}{more} is neither a comment nor [section] nor key=value: mylvmbackup exits at \
             once; fix or remove it"
        )));
    } else if written.is_empty {
        lines.push(CheckLine::missing(format!(
            "{CONFIGURATION} has no section: mylvmbackup exits at once; rewrite or remove it"
        )));
    }
    for key in &written.duplicate_keys {
        lines.push(CheckLine::missing(format!(
            "`{key}` appears more than once in {CONFIGURATION}: mylvmbackup joins the values with line breaks, which no command \
             accepts; keep one"
        )));
    }
    if !written.ignored_keys.is_empty() {
        let first = written.ignored_keys.len().min(MAX_IGNORED_KEYS);
        lines.push(CheckLine::missing(format!(
            "{CONFIGURATION} has keys that mylvmbackup ignores: {}; correct or remove them",
            written.ignored_keys[..first].join(", ")
        )));
    }
    lines
}

/// Evaluates the planned backup.
pub fn judge(plan: &BackupPlan, facts: &BackupFacts) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    if !facts.is_installed {
        lines.push(CheckLine::missing(format!(
            "{CONFIGURATION} exists, but mylvmbackup is not in root's PATH: nothing would be backed up; install it, or remove the \
             file"
        )));
    }
    if let BackupType::Unknown(word) = &plan.backup_type {
        lines.push(CheckLine::missing(format!(
            "`backuptype` is {}, which mylvmbackup does not know: it takes no backup but reports success; set it to tar, rsync, \
             rsnap, zbackup or none",
            quoted(word)
        )));
    }
    lines.extend(snapshot::judge(plan, facts));
    lines.extend(tools(plan, facts));
    lines.extend(mountdir(plan, facts));
    lines.extend(room::judge(plan, facts));
    if plan.mycnf.is_some() && !facts.has_mycnf {
        lines.push(CheckLine::missing(
            "the file that `mycnf` names does not exist: mylvmbackup exits at once; name the database's configuration, or set \
             `skip_mycnf=1`",
        ));
    }
    lines
}

/// The programs that cannot run, or all if each can.
fn tools(plan: &BackupPlan, facts: &BackupFacts) -> Vec<CheckLine> {
    if facts.tools.is_empty() {
        let programs: Vec<&str> = plan.tools.iter().map(program).collect();
        return vec![CheckLine::Good(format!(
            "mylvmbackup's programs are installed: {}",
            programs.join(", ")
        ))];
    }
    let mut lines = Vec::new();
    for (tool, state) in &facts.tools {
        let (wrong, remedy) = match (state, tool.key) {
            (ProgramState::NotExecutable, _) => {
                ("is not executable", "make it executable, or name another")
            }
            (_, "compress") => (
                "does not exist",
                "install it, name another, or leave it empty for no compression",
            ),
            _ => (
                "does not exist",
                "install it, or name it with its absolute path",
            ),
        };
        let program = if tool.is_secret {
            "its program".to_string()
        } else {
            quoted(&tool.program)
        };
        lines.push(CheckLine::missing(format!(
            "`{}`: {program} {wrong}, but mylvmbackup needs it; {remedy}",
            tool.key
        )));
    }
    lines
}

/// As configured; a program that must not be shown goes by its key.
fn program(tool: &Tool) -> &str {
    if tool.is_secret {
        tool.key
    } else {
        &tool.program
    }
}

fn mountdir(plan: &BackupPlan, facts: &BackupFacts) -> Option<CheckLine> {
    let sentence = match (&facts.mountdir, &facts.mount_point) {
        (Err(why), _) | (_, Err(why)) => format!(
            "{why}: cannot tell whether the snapshot can be mounted, and mylvmbackup may hang; check what `mountdir` lies on"
        ),
        (Ok(None), _) => format!(
            "`mountdir` {} does not exist: mylvmbackup would try to create it; check the name, and run `mkdir -p` on it",
            quoted(&plan.mountdir)
        ),
        (_, Ok(Some(folder))) if folder.files.iter().any(|file| !file.name.starts_with('.')) => {
            format!(
                "{} is not empty, so mylvmbackup would exit at once: an earlier run left it, unless a backup is running; `umount` it, \
             or empty it",
                quoted(&format!("{}/{}", plan.mountdir, plan.prefix))
            )
        }
        _ => return None,
    };
    Some(CheckLine::missing(sentence))
}

fn named(plan: &BackupPlan, volume: &str) -> String {
    format!("{}/{volume}", plan.group)
}

fn quoted(word: &str) -> String {
    let start: String = word.chars().take(MAX_QUOTED).collect();
    format!("{start:?}")
}

#[cfg(test)]
mod tests;
