//! Whether the backup itself has room where it is written, as far as that can be known before.

use super::super::Finding;
use super::{Facts, bytes, missing, named, quoted};
use crate::sample::mylvmbackup::{BackupPlan, BackupType};
use crate::source::backup::Folder;

/// So many of the last backups tell how large the next will be.
const LAST_BACKUPS: usize = 5;

/// All that is to be said of the folder that backups go to.
pub fn judge(plan: &BackupPlan, facts: &Facts) -> Vec<Finding> {
    if plan.is_remote() {
        let sentence = "mylvmbackup's backups go to another machine: what room there is cannot be told here";
        return vec![Finding::Good(sentence.into())];
    }
    if !plan.writes_here() {
        return Vec::new();
    }
    let place = format!("`backupdir` {}", quoted(&plan.backupdir));
    let folder = match &facts.backupdir {
        Err(why) => {
            return vec![missing(format!(
                "{why}: whether there is room for the backup is not known, and mylvmbackup may hang there; see what \
                 `backupdir` lies on"
            ))];
        }
        Ok(None) => {
            return vec![missing(format!(
                "{place} is not there: mylvmbackup would make it on whatever is mounted there then; mount the \
                 disk for backups, or run `mkdir -p` with it"
            ))];
        }
        Ok(Some(folder)) => folder,
    };
    let mut findings = Vec::new();
    if facts.backupdir_is_on_origin == Some(true) {
        let kind = if plan.is_thin { "the pool" } else { "its own snapshot" };
        findings.push(missing(format!(
            "{place} lies on {}, the volume that is backed up: what the backup writes fills {kind} while it is \
             read; name a folder on another volume",
            named(plan, &plan.origin)
        )));
    }
    findings.push(room_in_folder(plan, facts, folder));
    findings
}

/// By the last backups; before there are any, by what the origin holds.
fn room_in_folder(plan: &BackupPlan, facts: &Facts, folder: &Folder) -> Finding {
    let place = format!("`backupdir` {}", quoted(&plan.backupdir));
    let Some(free) = folder.free else {
        return missing(format!("how much {place} has free is not known: see with `df` that a backup fits"));
    };
    if let Some((count, largest)) = last_backups(plan, folder) {
        let known = format!(
            "{place} has {} free, and the largest of the last {count} backups has {}",
            bytes(free),
            bytes(largest)
        );
        return match free < largest {
            true => missing(format!(
                "{known}: tonight's would not fit beside them; remove old ones, or make room"
            )),
            false => Finding::Good(known),
        };
    }
    let is_copy = plan.backup_type == BackupType::Rsync || plan.backup_type == BackupType::Tar;
    match facts.origin_used.filter(|_| is_copy) {
        Some(used) if free < used && plan.is_compressed => missing(format!(
            "{place} has {} free, and {} holds {}: whether that fits when it is compressed is not known, since no earlier \
             backup is there; watch the first one, or make room",
            bytes(free),
            named(plan, &plan.origin),
            bytes(used)
        )),
        Some(used) if free < used => missing(format!(
            "{place} has {} free, and {} holds {}, which is not compressed: the backup would not fit; make room",
            bytes(free),
            named(plan, &plan.origin),
            bytes(used)
        )),
        Some(used) => Finding::Good(format!(
            "{place} has {} free, and {} holds {}",
            bytes(free),
            named(plan, &plan.origin),
            bytes(used)
        )),
        None => Finding::Good(format!(
            "{place} has {} free; how large a backup will be is not known, since {}",
            bytes(free),
            if is_copy {
                "no earlier one is there and the origin is not mounted"
            } else {
                "only what changed is copied"
            }
        )),
    }
}

/// How many of the last backups are known, and the largest one's size.
fn last_backups(plan: &BackupPlan, folder: &Folder) -> Option<(usize, u64)> {
    if plan.backup_type != BackupType::Tar {
        return None;
    }
    let start = format!("{}-", plan.prefix);
    let is_backup = |name: &str| name.starts_with(&start) && name.ends_with(&plan.archive_end);
    let mut backups: Vec<_> =
        folder.files.iter().filter(|file| is_backup(&file.name) && file.size.is_some()).collect();
    backups.sort_by_key(|file| std::cmp::Reverse(file.changed_at));
    backups.truncate(LAST_BACKUPS);
    let largest = backups.iter().filter_map(|file| file.size).max()?;
    Some((backups.len(), largest))
}
