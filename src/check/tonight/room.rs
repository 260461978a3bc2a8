//! Whether the backup fits into `backupdir`.

use super::super::CheckLine;
use super::{BackupFacts, named, quoted};
use crate::mylvmbackup::{BackupPlan, BackupType};
use crate::source::backup::Directory;
use crate::units::size_text;

/// The number of recent backups that predict the size of the next.
const LAST_BACKUPS: usize = 5;

/// Evaluates `backupdir`.
pub fn judge(plan: &BackupPlan, facts: &BackupFacts) -> Vec<CheckLine> {
    if plan.is_remote() {
        let sentence = "backups go to another machine, whose free space cannot be checked here";
        return vec![CheckLine::Good(sentence.into())];
    }
    if !plan.writes_here() {
        return Vec::new();
    }
    let place = format!("`backupdir` {}", quoted(&plan.backupdir));
    let folder = match &facts.backupdir {
        Err(why) => {
            return vec![CheckLine::missing(format!(
                "{why}: cannot tell whether there is room for the backup, and mylvmbackup may hang; check what `backupdir` lies on"
            ))];
        }
        Ok(None) => {
            return vec![CheckLine::missing(format!(
                "{place} does not exist: mylvmbackup would create it on the file system that is mounted there then; mount the \
                 backup disk, or run `mkdir -p` on it"
            ))];
        }
        Ok(Some(folder)) => folder,
    };
    let mut lines = Vec::new();
    if facts.backupdir_is_on_origin == Some(true) {
        let kind = if plan.is_thin {
            "the pool"
        } else {
            "its own snapshot"
        };
        lines.push(CheckLine::missing(format!(
            "{place} lies on {}, the volume to be backed up: the backup would fill {kind} while it reads it; choose a \
             directory on another volume",
            named(plan, &plan.origin)
        )));
    }
    lines.push(room_in_folder(plan, facts, folder));
    lines
}

/// Predicts the size from recent backups, or else from the origin's used space.
fn room_in_folder(plan: &BackupPlan, facts: &BackupFacts, folder: &Directory) -> CheckLine {
    let place = format!("`backupdir` {}", quoted(&plan.backupdir));
    let Some(free) = folder.free else {
        return CheckLine::missing(format!(
            "the free space of {place} is unknown: check with `df` that a backup fits"
        ));
    };
    let place = format!("{place} has {} free", size_text(free));
    if let Some((count, largest)) = last_backups(plan, folder) {
        let known = format!(
            "{place}, and the largest of the last {count} backups has {}",
            size_text(largest)
        );
        if free >= largest {
            return CheckLine::Good(known);
        }
        return CheckLine::missing(format!(
            "{known}: tonight's would not fit; remove old ones, or make room"
        ));
    }
    let why = match (&plan.backup_type, facts.origin_used) {
        (BackupType::Rsync | BackupType::Tar, Some(used)) => {
            return first_backup(plan, &place, free, used);
        }
        (BackupType::Rsync | BackupType::Tar, None) => {
            "there is no earlier one and the used space of the origin is unknown"
        }
        _ => "only changes are copied",
    };
    CheckLine::Good(format!(
        "{place}; the size of a backup is unknown, since {why}"
    ))
}

/// Without an earlier backup, the origin's used space is the most that is known.
fn first_backup(plan: &BackupPlan, place: &str, free: u64, used: u64) -> CheckLine {
    let origin = named(plan, &plan.origin);
    let known = format!("{place}, and {origin} holds {}", size_text(used));
    if free >= used {
        CheckLine::Good(known)
    } else if plan.is_compressed {
        CheckLine::missing(format!(
            "{known}: without an earlier backup it is unknown whether the compressed one fits; watch the first one, or make \
             room"
        ))
    } else {
        CheckLine::missing(format!(
            "{known}, uncompressed: the backup would not fit; make room"
        ))
    }
}

/// The number of recent backups whose size is known, and the largest of these sizes.
fn last_backups(plan: &BackupPlan, folder: &Directory) -> Option<(usize, u64)> {
    if plan.backup_type != BackupType::Tar {
        return None;
    }
    let start = format!("{}-", plan.prefix);
    let is_backup = |name: &str| name.starts_with(&start) && name.ends_with(&plan.archive_end);
    let mut backups: Vec<_> = folder
        .files
        .iter()
        .filter(|file| is_backup(&file.name) && file.size.is_some())
        .collect();
    backups.sort_by_key(|file| std::cmp::Reverse(file.changed_at));
    backups.truncate(LAST_BACKUPS);
    let largest = backups.iter().filter_map(|file| file.size).max()?;
    Some((backups.len(), largest))
}
