//! Whether tonight's backup by mylvmbackup can work: a plan and what was found on the machine, into sentences.
//!
//! Nothing is looked at here. What is not known is said as that, and never taken for well.

pub mod place;
mod room;
mod snapshot;

use super::Finding;
use crate::sample::lvm::Report;
use crate::sample::mylvmbackup::{BackupPlan, BackupType, Configuration, Tool};
use crate::source::backup::{CONFIGURATION, Folder, Standing};
use crate::units::{Prefix, bytes_text};

/// What is shown of a word that somebody wrote.
const LONGEST_WORD: usize = 60;

/// A folder, `None` where there is none, or why that is not known.
pub type Look = Result<Option<Folder>, String>;

/// What was found on the machine.
pub struct Facts {
    pub is_installed: bool,
    pub report: Option<Report>,
    /// Whether LVM leaves new thin snapshots inactive; `None` where it did not say.
    pub skips_activation: Option<bool>,
    /// Programs that cannot be run.
    pub tools: Vec<(Tool, Standing)>,
    pub mountdir: Look,
    /// The folder in it that the snapshot is mounted on, which has to be empty.
    pub mount_point: Look,
    pub backupdir: Look,
    /// Whether that lies on the volume that is backed up; `None` where it cannot be told.
    pub backupdir_is_on_origin: Option<bool>,
    /// What the file system of the origin holds, where that is mounted.
    pub origin_used: Option<u64>,
    pub has_mycnf: bool,
}

/// What the file itself says.
pub fn of_configuration(written: &Configuration) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(first) = written.invalid_lines.first() {
        let more = match written.invalid_lines.len() {
            1 => String::new(),
            count => format!(", nor are {} more", count - 1),
        };
        findings.push(missing(format!(
            "line {first} of {CONFIGURATION} is no comment, no [section] and no key=value{more}: mylvmbackup ends at once \
             because of that; mend or remove what is wrong"
        )));
    } else if written.is_empty {
        findings.push(missing(format!(
            "{CONFIGURATION} has no section: mylvmbackup ends at once because of that; write it anew, or remove it"
        )));
    }
    for key in &written.duplicate_keys {
        findings.push(missing(format!(
            "`{key}` is written more than once in {CONFIGURATION}: mylvmbackup takes all of them as one value with line \
             breaks in it, which no command understands; leave one"
        )));
    }
    if !written.ignored_keys.is_empty() {
        let places: Vec<&str> = written.ignored_keys.iter().take(5).map(String::as_str).collect();
        findings.push(missing(format!(
            "{CONFIGURATION} has keys that mylvmbackup passes over, so that they change nothing: {}; correct them, or \
             remove them",
            places.join(", ")
        )));
    }
    findings
}

/// Everything that would stop or spoil the backup, and what was found to be well.
pub fn judge(plan: &BackupPlan, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !facts.is_installed {
        findings.push(missing(format!(
            "{CONFIGURATION} is there, but the program mylvmbackup is not among root's commands: nothing would be backed \
             up; install it, or remove the file"
        )));
    }
    findings.extend(kind(plan));
    findings.extend(snapshot::judge(plan, facts));
    findings.extend(tools(plan, facts));
    findings.extend(mountdir(plan, facts));
    findings.extend(room::judge(plan, facts));
    if plan.mycnf.is_some() && !facts.has_mycnf {
        findings.push(missing(
            "the file that `mycnf` names is not there: mylvmbackup ends at once because of that; name the database's own \
             configuration, or set `skip_mycnf=1`",
        ));
    }
    findings
}

fn kind(plan: &BackupPlan) -> Option<Finding> {
    let BackupType::Unknown(word) = &plan.backup_type else { return None };
    Some(missing(format!(
        "`backuptype` is {}: mylvmbackup does not know it, takes no backup and still reports success; set it to tar, \
         rsync, rsnap, zbackup or none",
        quoted(word)
    )))
}

fn tools(plan: &BackupPlan, facts: &Facts) -> Vec<Finding> {
    let of_tool = |(tool, standing): &(Tool, Standing)| {
        let (key, wrong) = (
            tool.key,
            match standing {
                Standing::NotExecutable => "cannot be executed",
                _ => "is not there",
            },
        );
        let program = if tool.is_secret { "what it names".into() } else { quoted(&tool.program) };
        let mend = match (standing, key) {
            (Standing::NotExecutable, _) => "make it executable, or name another".into(),
            (_, "compress") => {
                "install it, or name another, or leave it empty for no compression".to_string()
            }
            _ => "install it, or name it with its whole path".into(),
        };
        missing(format!("`{key}`: {program} {wrong}, and mylvmbackup needs it; {mend}"))
    };
    let mut findings: Vec<Finding> = facts.tools.iter().map(of_tool).collect();
    if findings.is_empty() {
        let names: Vec<&str> = plan.tools.iter().map(|tool| tool.key).collect();
        findings.push(Finding::Good(format!("mylvmbackup's programs are there: {}", names.join(", "))));
    }
    findings
}

fn mountdir(plan: &BackupPlan, facts: &Facts) -> Option<Finding> {
    let sentence = match (&facts.mountdir, &facts.mount_point) {
        (Err(why), _) | (_, Err(why)) => format!(
            "{why}: whether the snapshot could be mounted is not known, and mylvmbackup may hang there; see what \
             `mountdir` lies on"
        ),
        (Ok(None), _) => format!(
            "`mountdir` {} is not there: mylvmbackup would make it if it can, so see that the name is right, and run \
             `mkdir -p` with it",
            quoted(&plan.mountdir)
        ),
        (_, Ok(Some(folder))) if folder.files.iter().any(|file| !file.name.starts_with('.')) => format!(
            "{} is not empty, as an earlier run left it unless a backup is under way: mylvmbackup ends at once because of \
             that; `umount` it, or empty it",
            quoted(&format!("{}/{}", plan.mountdir, plan.prefix))
        ),
        _ => return None,
    };
    Some(missing(sentence))
}

fn named(plan: &BackupPlan, volume: &str) -> String {
    format!("{}/{volume}", plan.group)
}

fn quoted(word: &str) -> String {
    let start: String = word.chars().take(LONGEST_WORD).collect();
    format!("{start:?}")
}

fn bytes(bytes: u64) -> String {
    bytes_text(bytes as f64, Prefix::default())
}

fn missing(sentence: impl Into<String>) -> Finding {
    Finding::Missing(sentence.into())
}

#[cfg(test)]
mod tests;
