//! One job in sentences: what it was and when, how it ended, and whether what it left can be relied on.
//!
//! Page, API and command line say the same. What the job cost, and why, is `job::diagnosis`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::{Harm, Job, JobKind, Outcome, failed_run, tool};
use crate::units::took_text;

/// What is told of a job without a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// What ran, and when.
    pub heading: String,
    /// In one word; `running` while it does.
    pub outcome: String,
    /// What the outcome rests on; empty while it runs.
    pub basis: String,
    /// What nobody should overlook.
    pub warning: Option<String>,
    pub remarks: Vec<String>,
}

/// How times are written, and what is known of the machine besides.
pub struct Manner<'a> {
    /// A time without its zone, which is UTC.
    pub time: &'a dyn Fn(Timestamp) -> String,
    /// Whether LVM's dmeventd watches snapshots here, and unmounts those that die.
    pub is_monitored: bool,
}

impl Account {
    pub fn of(job: &Job, manner: &Manner) -> Self {
        let remarks = [labelled(job), made_by(job), mounted(job, manner), locked(job, manner)];
        Self {
            heading: heading(job, manner),
            outcome: job.outcome.map_or("running", Outcome::text).into(),
            basis: basis(job, manner),
            warning: warning(job, manner),
            remarks: remarks.into_iter().flatten().collect(),
        }
    }

    /// How it ended, and what that rests on.
    pub fn ended(&self) -> String {
        match &*self.basis {
            "" => self.outcome.clone(),
            basis => format!("{}, {basis}", self.outcome),
        }
    }
}

fn heading(job: &Job, manner: &Manner) -> String {
    let what = match (job.kind, &job.vg, &job.lv, &job.origin) {
        _ if job.made_no_snapshot() => without_snapshot(job),
        (JobKind::Snapshot, Some(vg), Some(lv), Some(origin)) => {
            format!("Snapshot {vg}/{lv} of {vg}/{origin}")
        }
        (JobKind::Snapshot, Some(vg), Some(lv), None) => format!("Snapshot {vg}/{lv}"),
        (JobKind::Mark, ..) => "Marked span".to_string(),
        _ => "Command".to_string(),
    };
    let until = job.ended_at.map_or_else(String::new, |at| format!(" to {}", (manner.time)(at)));
    let host = job.imported_from().map_or_else(String::new, |host| format!("From {host} · "));
    format!("{host}{what} · {}{until} UTC", (manner.time)(job.started_at))
}

fn without_snapshot(job: &Job) -> String {
    let named = |lv: &Option<String>| Some(format!("{}/{}", job.vg.as_ref()?, lv.as_ref()?));
    let lv = named(&job.lv).map_or_else(String::new, |lv| format!(" {lv}"));
    let of = named(&job.origin).map_or_else(String::new, |origin| format!(" of {origin}"));
    format!("Run of mylvmbackup that made no snapshot{lv}{of}")
}

fn basis(job: &Job, manner: &Manner) -> String {
    match job.outcome {
        None => String::new(),
        Some(Outcome::Unknown) => "nobody reported one".into(),
        Some(Outcome::Overflowed) => {
            job.died_at.map_or("seen by cowbell".into(), |at| format!("at {} UTC", (manner.time)(at)))
        }
        Some(Outcome::Untrustworthy) => "success was reported, but the snapshot was lost".into(),
        Some(Outcome::Abandoned) => "it never came to its end".into(),
        Some(Outcome::Failed) => match job.exit_status {
            Some(status) => format!("with status {status}"),
            None => "reported".into(),
        },
        Some(Outcome::Succeeded) => "reported".into(),
    }
}

fn warning(job: &Job, manner: &Manner) -> Option<String> {
    if job.made_no_snapshot() {
        return Some(failed_run::SENTENCE.into());
    }
    if let Some((harm, at)) = job.harm() {
        let lost = untrustworthy(harm, &(manner.time)(at));
        return Some(format!("{lost}{}", unmounted_by_its_death(job, manner)));
    }
    if let Some(died_at) = job.died_at {
        let died = died(job, &(manner.time)(died_at));
        let unmounted = unmounted_by_its_death(job, manner);
        return Some(format!("{died}: what read it then is lost, whatever it reported.{unmounted}"));
    }
    match job.outcome {
        Some(Outcome::Abandoned) => Some(abandoned(job)),
        _ => job.partly_seen.then(|| {
            "This job was seen in part only: it had begun, or went on, while cowbell did not run.".into()
        }),
    }
}

fn died(job: &Job, at: &str) -> String {
    match (job.kind, &job.vg, &job.lv) {
        (JobKind::Command | JobKind::Mark, Some(vg), Some(lv)) => {
            format!("Snapshot {vg}/{lv}, which was made while it ran, became invalid at {at} UTC")
        }
        _ => format!("The snapshot became invalid at {at} UTC"),
    }
}

fn untrustworthy(harm: Harm, at: &str) -> String {
    let what = match harm {
        Harm::Death => "became invalid",
        Harm::IoError => "answered with I/O errors",
        Harm::Unmount => "was unmounted by somebody else",
    };
    format!(
        "The backup reported success, but its snapshot {what} at {at} UTC: what it wrote may be cut short or filled up \
         with zeros. Do not rely on it."
    )
}

fn abandoned(job: &Job) -> String {
    let last = job.heard.as_ref().and_then(|heard| heard.phases.last());
    match last {
        Some(last) => format!(
            "The backup never came to its end: the last that its hooks told is the phase {}. It was killed, or ended \
             without a word.",
            last.phase.text()
        ),
        None => "Nobody told how it ended: it was killed, or the machine went down. It is closed at the time at which it \
                 was last known to run."
            .into(),
    }
}

/// What a backup's own log does not say: why its files were suddenly gone.
pub fn unmounted_by_its_death(job: &Job, manner: &Manner) -> String {
    let unmounted = job.unmounted_at.zip(job.mounted_on.as_ref());
    match unmounted.filter(|_| job.was_unmounted_with_its_death()) {
        Some((at, folder)) => {
            let who =
                if manner.is_monitored { ", as LVM's dmeventd does with an invalid snapshot" } else { "" };
            format!(
                " It was unmounted from {folder} at {}{who}: a backup may report missing files, or none at all, \
                 instead of an I/O error.",
                (manner.time)(at)
            )
        }
        None => String::new(),
    }
}

fn labelled(job: &Job) -> Option<String> {
    let label = job.label.as_ref()?;
    let variant = label.variant.as_ref().map_or_else(String::new, |variant| format!(", variant {variant}"));
    let repeat = label.repeat.map_or_else(String::new, |repeat| format!(", run {repeat}"));
    Some(format!("Of the set {}{variant}{repeat}.", label.set))
}

fn made_by(job: &Job) -> Option<String> {
    match (&job.program, tool::above_lvcreate(job)) {
        (Some(program), _) => Some(format!("Made by {program}.")),
        (None, Some(tool)) if job.heard.is_some() => Some(format!("Made by {tool}.")),
        (None, Some(tool)) => Some(format!("By its name it is of {tool}; who made it was not seen.")),
        (None, None) => None,
    }
}

fn mounted(job: &Job, manner: &Manner) -> Option<String> {
    let folder = job.mounted_on.as_ref()?;
    Some(match job.unmounted_at {
        Some(at) => format!("Was mounted on {folder} until {} UTC.", (manner.time)(at)),
        None if job.is_running() => format!("Mounted on {folder}."),
        None => format!("Was mounted on {folder}."),
    })
}

/// For how long the database may have been locked.
fn locked(job: &Job, manner: &Manner) -> Option<String> {
    let span = job.heard.as_ref()?.locked_at_most()?;
    let seconds = (span.until.as_millisecond() - span.from.as_millisecond()) as f64 / 1000.0;
    // "At most" is never less than it was.
    let most = if seconds < 9.0 { (seconds * 100.0).ceil() / 100.0 } else { seconds.ceil() };
    Some(format!(
        "The database's global read lock was held for {} at most, from {} to {} UTC.",
        took_text(most),
        (manner.time)(span.from),
        (manner.time)(span.until)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::phase::BackupRun;

    #[test]
    fn a_lock_of_parts_of_a_second_was_not_held_for_none() {
        let at = |ms: i64| Timestamp::from_millisecond(1_772_330_400_000 + ms).unwrap();
        let mut job = Job::new(1, JobKind::Snapshot, "key", "data_snapshot", at(0));
        let (from, until) = (Some(at(100)), Some(at(400)));
        job.heard = Some(BackupRun { locked_from: from, locked_until: until, ..BackupRun::new(7, at(0)) });
        let manner = Manner { time: &|at| at.strftime("%T%.1f").to_string(), is_monitored: false };
        let expected =
            "The database's global read lock was held for 0.30 s at most, from 02:00:00.1 to 02:00:00.4 UTC.";
        assert_eq!(locked(&job, &manner).as_deref(), Some(expected));
    }
}
