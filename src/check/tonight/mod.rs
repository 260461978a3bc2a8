//! Whether tonight's backup by mylvmbackup can work: evaluates its plan against facts about the machine.
//!
//! Reads nothing itself. Unknown facts are reported as unknown, never as good.

pub mod place;
mod room;
mod snapshot;

use super::Finding;
use crate::mylvmbackup::{BackupPlan, BackupType, Configuration, Tool};
use crate::sample::lvm::Report;
use crate::source::backup::{CONFIGURATION, Directory, ProgramState};

/// Quoted words are truncated to this length.
const MAX_QUOTED: usize = 60;

/// A directory; `None` if it does not exist, or an error.
pub type DirectoryLookup = Result<Option<Directory>, String>;

/// Facts about the machine.
pub struct Facts {
    pub is_installed: bool,
    pub report: Option<Report>,
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
pub fn of_configuration(written: &Configuration) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(first) = written.invalid_lines.first() {
        let more = match written.invalid_lines.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        findings.push(missing(format!(
            "line {first} of {CONFIGURATION}{more} is neither a comment nor [section] nor key=value: mylvmbackup exits at \
             once; fix or remove it"
        )));
    } else if written.is_empty {
        findings.push(missing(format!(
            "{CONFIGURATION} has no section: mylvmbackup exits at once; rewrite or remove it"
        )));
    }
    for key in &written.duplicate_keys {
        findings.push(missing(format!(
            "`{key}` appears more than once in {CONFIGURATION}: mylvmbackup joins the values with line breaks, which no command \
             accepts; keep one"
        )));
    }
    if !written.ignored_keys.is_empty() {
        let places: Vec<&str> = written
            .ignored_keys
            .iter()
            .take(5)
            .map(String::as_str)
            .collect();
        findings.push(missing(format!(
            "{CONFIGURATION} has keys that mylvmbackup ignores: {}; correct or remove them",
            places.join(", ")
        )));
    }
    findings
}

/// Returns all findings on the planned backup.
pub fn judge(plan: &BackupPlan, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !facts.is_installed {
        findings.push(missing(format!(
            "{CONFIGURATION} exists, but mylvmbackup is not in root's PATH: nothing would be backed up; install it, or remove the \
             file"
        )));
    }
    findings.extend(kind(plan));
    findings.extend(snapshot::judge(plan, facts));
    findings.extend(tools(plan, facts));
    findings.extend(mountdir(plan, facts));
    findings.extend(room::judge(plan, facts));
    if plan.mycnf.is_some() && !facts.has_mycnf {
        findings.push(missing(
            "the file that `mycnf` names does not exist: mylvmbackup exits at once; name the database's configuration, or set \
             `skip_mycnf=1`",
        ));
    }
    findings
}

fn kind(plan: &BackupPlan) -> Option<Finding> {
    let BackupType::Unknown(word) = &plan.backup_type else {
        return None;
    };
    Some(missing(format!(
        "`backuptype` is {}, which mylvmbackup does not know: it takes no backup but reports success; set it to tar, rsync, \
         rsnap, zbackup or none",
        quoted(word)
    )))
}

fn tools(plan: &BackupPlan, facts: &Facts) -> Vec<Finding> {
    let of_tool = |(tool, state): &(Tool, ProgramState)| {
        let (key, is_there) = (tool.key, *state == ProgramState::NotExecutable);
        let wrong = if is_there {
            "is not executable"
        } else {
            "does not exist"
        };
        let program = if tool.is_secret {
            "its program".into()
        } else {
            quoted(&tool.program)
        };
        let remedy = match key {
            _ if is_there => "make it executable, or name another",
            "compress" => "install it, name another, or leave it empty for no compression",
            _ => "install it, or name it with its absolute path",
        };
        missing(format!(
            "`{key}`: {program} {wrong}, but mylvmbackup needs it; {remedy}"
        ))
    };
    let mut findings: Vec<Finding> = facts.tools.iter().map(of_tool).collect();
    if findings.is_empty() {
        let names: Vec<&str> = plan.tools.iter().map(|tool| tool.key).collect();
        findings.push(Finding::Good(format!(
            "mylvmbackup's programs are installed: {}",
            names.join(", ")
        )));
    }
    findings
}

fn mountdir(plan: &BackupPlan, facts: &Facts) -> Option<Finding> {
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
    Some(missing(sentence))
}

fn named(plan: &BackupPlan, volume: &str) -> String {
    format!("{}/{volume}", plan.group)
}

fn quoted(word: &str) -> String {
    let start: String = word.chars().take(MAX_QUOTED).collect();
    format!("{start:?}")
}

fn missing(sentence: impl Into<String>) -> Finding {
    Finding::Missing(sentence.into())
}

#[cfg(test)]
mod tests;
