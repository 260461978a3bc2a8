//! Describes one job in sentences, without figures: what it was and when, how it ended, and whether its result is
//! reliable. Page, API and command line show the same sentences. `job::diagnosis` explains the job's cost.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::{Harm, Job, JobKind, Outcome, tool};
use crate::units::{count_text, size_text, took_text};

/// The warning of a job without a snapshot.
const NO_SNAPSHOT: &str = "cowbell saw no snapshot, so nothing was backed up. See mylvmbackup's log. Often the volume \
                           group has no free space, or a snapshot of that name exists.";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// What ran, and when.
    pub heading: String,
    /// One word; `running` until it ends.
    pub outcome: String,
    /// How the outcome is known; empty while it runs.
    pub basis: String,
    pub warning: Option<String>,
    pub remarks: Vec<String>,
}

/// How to format times, and a property of the machine.
pub struct AccountStyle<'a> {
    /// Formats a time without its zone.
    pub time: &'a dyn Fn(Timestamp) -> String,
    /// The zone in a few letters.
    pub zone: &'a str,
    /// Whether LVM's dmeventd monitors snapshots here, and unmounts invalid ones.
    pub is_monitored: bool,
}

impl AccountStyle<'_> {
    fn zoned(&self, at: Timestamp) -> String {
        format!("{} {}", (self.time)(at), self.zone)
    }
}

impl Account {
    pub fn of(job: &Job, style: &AccountStyle) -> Self {
        let remarks = [
            labelled(job),
            made_by(job),
            read(job),
            kept(job),
            unmounted_at_its_death(job, style).or_else(|| mounted(job, style)),
            locked(job, style),
            archive(job, style),
        ];
        Self {
            heading: heading(job, style),
            outcome: job.outcome.map_or("running", Outcome::text).into(),
            basis: basis(job, style),
            warning: warning(job, style),
            remarks: remarks.into_iter().flatten().collect(),
        }
    }

    /// The outcome and its basis.
    pub fn ended(&self) -> String {
        match &*self.basis {
            "" => self.outcome.clone(),
            basis => format!("{}, {basis}", self.outcome),
        }
    }
}

fn heading(job: &Job, style: &AccountStyle) -> String {
    let what = match (job.kind, &job.vg, &job.lv, &job.origin) {
        _ if job.made_no_snapshot() => without_snapshot(job),
        (JobKind::Snapshot, Some(vg), Some(lv), Some(origin)) => {
            format!(
                "Snapshot {vg}/{lv} of {vg}/{origin}{}",
                if job.is_backup() { "" } else { ", no backup" }
            )
        }
        (JobKind::Snapshot, Some(vg), Some(lv), None) => format!("Snapshot {vg}/{lv}"),
        (JobKind::Snapshot, ..) => "Run of mylvmbackup whose snapshot was not seen".to_string(),
        (JobKind::Mark, ..) => "Marked span".to_string(),
        _ => "Command".to_string(),
    };
    let until = job
        .ended_at
        .map_or_else(String::new, |at| format!(" to {}", (style.time)(at)));
    let host = job
        .imported_from()
        .map_or_else(String::new, |host| format!("From {host} · "));
    format!(
        "{host}{what} · {}{until} {}",
        (style.time)(job.started_at),
        style.zone
    )
}

fn without_snapshot(job: &Job) -> String {
    let lv = job
        .volume_name()
        .map_or_else(String::new, |lv| format!(" {lv}"));
    let of = job
        .origin_name()
        .map_or_else(String::new, |origin| format!(" of {origin}"));
    format!("Run of mylvmbackup that made no snapshot{lv}{of}")
}

fn basis(job: &Job, style: &AccountStyle) -> String {
    let text = match (job.outcome, job.exit_status, job.died_at) {
        (None, ..) => "",
        (Some(Outcome::Unknown), ..) if job.report().is_some() => {
            "success was reported, but not confirmed"
        }
        (Some(Outcome::Unknown), ..) if !job.is_backup() => "no backup",
        (Some(Outcome::Unknown), ..) => "not reported",
        (Some(Outcome::Incomplete), ..) => "success was reported, but only a part was read",
        (Some(Outcome::Succeeded), ..) if job.accepted_at.is_some() => "accepted by a person",
        (Some(Outcome::Overflowed), _, Some(at)) => return format!("at {}", style.zoned(at)),
        (Some(Outcome::Overflowed), ..) => "observed by cowbell",
        (Some(Outcome::Untrustworthy), ..)
            if job.harm().is_none() && job.damaged_archive().is_some() =>
        {
            "its archive is damaged"
        }
        (Some(Outcome::Untrustworthy), ..) if matches!(job.harm(), Some((Harm::Reader, _))) => {
            "success was reported, but a process of the backup failed"
        }
        (Some(Outcome::Untrustworthy), ..) => "success was reported, but the snapshot was lost",
        (Some(Outcome::Abandoned), ..) => "its process ended without a report",
        (Some(Outcome::Failed), Some(status), _) => return format!("with status {status}"),
        (Some(Outcome::Failed | Outcome::Succeeded), ..) => "reported",
    };
    text.into()
}

fn warning(job: &Job, style: &AccountStyle) -> Option<String> {
    if job.made_no_snapshot() {
        return Some(NO_SNAPSHOT.into());
    }
    let lost = match (job.harm(), job.died_at, job.outcome) {
        (Some((harm, at)), ..) => format!(
            "The backup reported success, but its snapshot {} at {}{}. The backup may be truncated or padded with \
             zeros. Do not rely on it.",
            harm.text(),
            style.zoned(at),
            job.harm_detail(harm)
        ),
        (None, Some(at), Some(Outcome::Succeeded)) => {
            format!(
                "{}, after the backup had finished.",
                died(job, &style.zoned(at))
            )
        }
        (None, Some(at), _) => {
            format!(
                "{}. A backup that was reading it is lost, whatever it reported.",
                died(job, &style.zoned(at))
            )
        }
        (None, None, _) if job.damaged_archive().is_some() => {
            return Some("Its archive is damaged. Do not rely on it.".into());
        }
        (None, None, Some(Outcome::Abandoned)) => return Some(abandoned(job)),
        (None, None, _) => {
            let text = "cowbell saw only a part of this job, because cowbell was not running all the time.";
            let partly = job.partly_seen.then(|| text.to_string());
            return unconfirmed(job).or_else(|| removed(job, style)).or(partly);
        }
    };
    Some(lost)
}

/// Why a reported success is not believed, and what to do.
fn unconfirmed(job: &Job) -> Option<String> {
    let Some(outcome @ (Outcome::Unknown | Outcome::Incomplete)) = job.outcome else {
        return None;
    };
    job.report().filter(|report| report.succeeded)?;
    let what = match outcome {
        Outcome::Incomplete => "Do not rely on it: a part of the data is missing",
        _ => "It is unclear whether the backup is complete",
    };
    Some(match job.kind {
        JobKind::Snapshot => format!("{what}: {}.{}", job.doubt(), job.way_to_accept()),
        _ => format!("{what}: see the job of its snapshot."),
    })
}

fn removed(job: &Job, style: &AccountStyle) -> Option<String> {
    let at = style.zoned(job.removed_at?);
    Some(format!(
        "Another process removed the snapshot at {at}, while the backup ran."
    ))
}

fn died(job: &Job, at: &str) -> String {
    match (job.kind, job.volume_name()) {
        (JobKind::Command | JobKind::Mark, Some(name)) => {
            format!("Snapshot {name}, which was made while it ran, became invalid at {at}")
        }
        _ => format!("The snapshot became invalid at {at}"),
    }
}

fn abandoned(job: &Job) -> String {
    match job.backup_run.as_ref().and_then(|run| run.phases.last()) {
        Some(last) => format!(
            "The backup did not finish: its last reported phase is {}. It was killed, or ended without a message.{}",
            last.phase.text(),
            left(job)
        ),
        None => "It reported no end: it was killed, or the machine went down. The end shown here is the last time at \
                 which it was seen running."
            .into(),
    }
}

/// The snapshot that a backup left behind, and how to remove it.
fn left(job: &Job) -> String {
    match job.volume_name().filter(|_| job.left_snapshot) {
        Some(name) => {
            format!(" It left its snapshot: unmount it, and remove it with `lvremove {name}`.")
        }
        None => String::new(),
    }
}

/// Explains why the directory was suddenly empty, which the backup's own log does not.
pub fn unmounted_at_its_death(job: &Job, style: &AccountStyle) -> Option<String> {
    let (at, folder) = job
        .unmounted_at
        .zip(job.mounted_on.as_ref())
        .filter(|_| job.was_unmounted_at_its_death())?;
    let by = if style.is_monitored {
        ", as LVM's dmeventd does with invalid snapshots"
    } else {
        ""
    };
    Some(format!(
        "The snapshot was unmounted from {folder} at {}{by}. A backup may then report missing files, or no error at all.",
        (style.time)(at)
    ))
}

fn labelled(job: &Job) -> Option<String> {
    let label = job.label.as_ref()?;
    let variant = label
        .variant
        .as_ref()
        .map_or_else(String::new, |variant| format!(", variant {variant}"));
    let repeat = label
        .repeat
        .map_or_else(String::new, |repeat| format!(", run {repeat}"));
    Some(format!("Set {}{variant}{repeat}.", label.set))
}

fn made_by(job: &Job) -> Option<String> {
    match (job.program.as_deref(), tool::above_lvcreate(job)) {
        (None, Some(tool)) if job.backup_run.is_none() => Some(format!(
            "Probably made by {tool}, judging by its name. The process that made it was not seen."
        )),
        (program, tool) => program.or(tool).map(|maker| format!("Made by {maker}.")),
    }
}

/// What a good backup read.
fn read(job: &Job) -> Option<String> {
    let completeness = job
        .completeness
        .as_ref()
        .filter(|_| job.outcome == Some(Outcome::Succeeded));
    let changes = job
        .is_incremental()
        .then_some("It copies only changes, so the amount that it read was not checked.");
    completeness
        .map(|found| format!("{}.", found.text()))
        .or(changes.map(String::from))
}

fn kept(job: &Job) -> Option<String> {
    let is_kept = job.left_snapshot && job.outcome == Some(Outcome::Succeeded);
    is_kept.then(|| "The snapshot was kept: it still existed when the backup ended.".into())
}

fn mounted(job: &Job, style: &AccountStyle) -> Option<String> {
    let folder = job.mounted_on.as_ref()?;
    Some(match job.unmounted_at {
        Some(at) => format!("Was mounted on {folder} until {}.", style.zoned(at)),
        None if job.is_running() => format!("Mounted on {folder}."),
        None => format!("Was mounted on {folder}."),
    })
}

/// The maximum time for which the database was locked.
fn locked(job: &Job, style: &AccountStyle) -> Option<String> {
    let range = job.backup_run.as_ref()?.lock_range()?;
    let seconds = range.seconds();
    // Rounds up, since this is a maximum.
    let most = if seconds < 9.0 {
        (seconds * 100.0).ceil() / 100.0
    } else {
        seconds.ceil()
    };
    Some(format!(
        "The database's global read lock was held for {} at most, from {} to {}.",
        took_text(most),
        (style.time)(range.from),
        style.zoned(range.to)
    ))
}

/// What was found when its archive was read through.
fn archive(job: &Job, style: &AccountStyle) -> Option<String> {
    let found = job.certificate.as_ref()?;
    let (path, at, verdict) = (
        &found.archive,
        style.zoned(found.checked_at),
        found.verdict.text(),
    );
    let (files, size) = (
        count_text(found.files, "file", "files"),
        size_text(found.bytes),
    );
    let finding = found
        .finding
        .as_ref()
        .map_or_else(String::new, |finding| format!(" {finding}"));
    let certificate = found
        .certificate
        .as_ref()
        .map_or_else(String::new, |path| format!(" Certificate: {path}"));
    Some(format!(
        "Archive {path} was read through at {at}: {verdict}, {files}, {size}.{finding}{certificate}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::backup_run::BackupRun;

    #[test]
    fn a_lock_of_parts_of_a_second_was_not_held_for_none() {
        let at = |ms: i64| Timestamp::from_millisecond(1_772_330_400_000 + ms).unwrap();
        let mut job = Job::new(1, JobKind::Snapshot, "key", "data_snapshot", at(0));
        let (from, until) = (Some(at(100)), Some(at(400)));
        job.backup_run = Some(BackupRun {
            locked_from: from,
            locked_until: until,
            ..BackupRun::new(7, at(0))
        });
        let style = AccountStyle {
            time: &|at| at.strftime("%T%.1f").to_string(),
            zone: "UTC",
            is_monitored: false,
        };
        let expected = "The database's global read lock was held for 0.30 s at most, from 02:00:00.1 to 02:00:00.4 UTC.";
        assert_eq!(locked(&job, &style).as_deref(), Some(expected));
    }

    #[test]
    fn a_remark_says_who_unmounted_an_invalid_snapshot() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut job = Job::new(7, JobKind::Snapshot, "uuid", "data_snapshot", at(100));
        (job.mounted_on, job.died_at) = (Some("/mnt/snap".into()), Some(at(160)));
        let remarks = |job: &Job| {
            let style = AccountStyle {
                time: &|at| at.as_second().to_string(),
                zone: "UTC",
                is_monitored: true,
            };
            Account::of(job, &style).remarks.concat()
        };
        assert_eq!(remarks(&job), "Mounted on /mnt/snap.");
        job.unmounted_at = Some(at(161));
        assert!(remarks(&job).starts_with(
            "The snapshot was unmounted from /mnt/snap at 161, as LVM's dmeventd does"
        ));
        job.unmounted_at = Some(at(3_000));
        assert_eq!(remarks(&job), "Was mounted on /mnt/snap until 3000 UTC.");
    }
}
