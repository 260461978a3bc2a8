//! How a job goes or went: one word, one grade, how that is known, and what to do. Nothing else words an outcome: lists,
//! pages, alerts, API, command line and metrics show this. `outcome.rs` decides which outcome it is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Job, JobKind};
use crate::sample::host::Invalidation;
use crate::sentence;
use crate::sentence::{Sentence, command, volume};
use crate::units::size_text;

/// What udev and LVM read of a new volume, at most.
pub(super) const PROBED_BYTES: u64 = 4 << 20;

/// From best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    Ok,
    /// It is not seen.
    Unknown,
    Warning,
    Critical,
}

impl Grade {
    /// As in the API and as a CSS class, in the title of a page, and at the beginning of a sentence.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::Ok => ["ok", "", "OK"],
            Self::Unknown => ["unknown", "? ", "Unknown"],
            Self::Warning => ["warning", "▲ ", "Warning"],
            Self::Critical => ["critical", "✖ ", "Critical"],
        }
    }

    pub fn text(self) -> &'static str {
        self.words()[0]
    }

    /// Empty if all is well.
    pub fn sign(self) -> &'static str {
        self.words()[1]
    }

    pub fn word(self) -> &'static str {
        self.words()[2]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    Failed,
    /// Success was reported, but the snapshot was lost during the backup.
    Untrustworthy,
    /// Success was reported, but only a part was read.
    Incomplete,
    /// The snapshot overflowed.
    Overflowed,
    /// The job was killed, or the machine went down, so its end was not reported.
    Abandoned,
    /// No outcome was reported; or success was reported, but it is unclear whether all data was read.
    Unknown,
}

impl Outcome {
    /// In the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Succeeded,
        Self::Failed,
        Self::Untrustworthy,
        Self::Incomplete,
        Self::Overflowed,
        Self::Abandoned,
        Self::Unknown,
    ];

    /// As a command or a hook reports it.
    pub fn reported(succeeded: bool) -> Self {
        if succeeded {
            Self::Succeeded
        } else {
            Self::Failed
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Untrustworthy => "untrustworthy",
            Self::Incomplete => "incomplete",
            Self::Overflowed => "overflowed",
            Self::Abandoned => "abandoned",
            Self::Unknown => "unknown",
        }
    }

    /// Whether a backup with this outcome is unusable.
    pub fn is_bad(self) -> bool {
        !matches!(self, Self::Succeeded | Self::Unknown)
    }
}

/// How a backup can lose its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// The snapshot became invalid.
    Death,
    IoError,
    /// Another process removed it.
    Removal,
    /// A process that read it, such as `tar`, was killed or ended with an error.
    Reader,
}

impl Harm {
    /// What happened to the snapshot or its reader.
    fn text(self) -> &'static str {
        match self {
            Self::Death => "became invalid",
            Self::IoError => "returned I/O errors",
            Self::Removal => "was removed by another process",
            Self::Reader => "may not have been read to its end",
        }
    }
}

/// Why a snapshot became invalid, as an independent clause.
pub fn why_invalid(cause: Option<Invalidation>) -> &'static str {
    match cause {
        Some(Invalidation::Overflow) => "it overflowed",
        Some(Invalidation::IoError) => "its COW area had an I/O error",
        Some(Invalidation::Cut) => "its COW area was made smaller than what it held",
        None => "it overflowed, or its COW area had an I/O error",
    }
}

fn snapshots_text(count: u32) -> String {
    match count {
        1 => "1 snapshot".into(),
        count => format!("{count} snapshots"),
    }
}

/// The short word for an outcome: `running` until it is decided.
pub fn outcome_word(outcome: Option<Outcome>) -> &'static str {
    outcome.map_or("running", Outcome::text)
}

#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// `None` while it runs and nothing is decided.
    pub outcome: Option<Outcome>,
    pub grade: Grade,
    /// How the outcome is known: `accepted by a person`; empty while it runs.
    pub basis: Sentence,
    /// What is wrong, and what to do.
    pub warning: Option<Sentence>,
}

impl Judgement {
    pub fn word(&self) -> &'static str {
        outcome_word(self.outcome)
    }

    /// `failed, with status 3`
    pub fn text(&self) -> Sentence {
        let mut text: Sentence = self.word().into();
        if !self.basis.is_empty() {
            text.push(sentence![", ", self.basis.clone()]);
        }
        text
    }
}

/// A judgement of a known outcome.
struct Reasons {
    grade: Grade,
    basis: Sentence,
    warning: Option<Sentence>,
}

impl Reasons {
    fn new(grade: Grade, basis: impl Into<Sentence>, warning: Option<Sentence>) -> Self {
        Self {
            grade,
            basis: basis.into(),
            warning,
        }
    }
}

impl Job {
    pub fn judgement(&self) -> Judgement {
        let outcome = self.outcome.or_else(|| self.certain_outcome());
        let reasons = match outcome {
            None if self.stalled_since.is_some() => self.stalled(),
            None => Reasons::new(Grade::Ok, "", self.loss_beside_it()),
            Some(Outcome::Succeeded) => self.succeeded(),
            Some(Outcome::Failed) if !self.has_lost_snapshot() => self.failed(),
            Some(Outcome::Untrustworthy) => self.untrustworthy(),
            Some(Outcome::Incomplete) => self.incomplete(),
            Some(Outcome::Failed | Outcome::Overflowed) => self.lost(),
            Some(Outcome::Abandoned) => self.abandoned(),
            Some(Outcome::Unknown) => self.unknown(),
        };
        let warning = reasons.warning.or_else(|| self.removed());
        Judgement {
            outcome,
            grade: reasons.grade,
            basis: reasons.basis,
            warning: warning.or_else(|| self.partly_seen()),
        }
    }

    /// An outcome that is certain before the job ends.
    fn certain_outcome(&self) -> Option<Outcome> {
        if self.is_untrustworthy() || self.damaged_archive().is_some() {
            return Some(Outcome::Untrustworthy);
        }
        self.has_lost_snapshot().then(|| self.lost_outcome())
    }

    fn has_lost_snapshot(&self) -> bool {
        self.kind == JobKind::Snapshot && self.died_at.is_some()
    }

    /// Why its snapshot became invalid, if it did not simply overflow, and how to repeat the backup.
    fn cause(&self) -> (Option<String>, &'static str) {
        let cause = self.invalid_because();
        let why = format!(", since {}", why_invalid(cause));
        match cause {
            Some(Invalidation::Overflow) => (None, " with a larger snapshot"),
            Some(Invalidation::IoError) => (Some(why), ". See the kernel's log about its disk"),
            Some(Invalidation::Cut) => (Some(why), ""),
            None => (Some(why), ". If it overflowed, make the snapshot larger"),
        }
    }

    /// A running backup that reads nothing.
    fn stalled(&self) -> Reasons {
        let read = self
            .bytes_read
            .map(|bytes| format!(", after {}", size_text(bytes)));
        let since = self.stalled_since.map(|at| sentence![" since ", at]);
        let warning = sentence![
            self.subject(),
            " has read nothing",
            since,
            read,
            ". See whether its process hangs: its snapshot goes on filling."
        ];
        Reasons::new(Grade::Warning, "it reads nothing", Some(warning))
    }

    fn succeeded(&self) -> Reasons {
        let basis = match self.accepted_at {
            Some(_) => "accepted by a person",
            None if self.script_status().is_some() => "its script ended without an error",
            None => "reported",
        };
        let died = self.died_at.map(|at| {
            let snapshot = self.dead_snapshot();
            sentence![
                snapshot,
                " became invalid at ",
                at,
                ", after the backup had finished."
            ]
        });
        Reasons::new(Grade::Ok, basis, died)
    }

    fn failed(&self) -> Reasons {
        let failed = self.script_status().filter(|status| !status.is_success());
        let process = match (failed, self.failed_reader()) {
            (Some(status), _) => Some(format!("its script {}", status.text())),
            (None, Some(reader)) => Some(reader.text()),
            (None, None) => self.hidden_failure.clone(),
        };
        let basis = match (&process, self.exit_status) {
            (Some(process), _) => process.clone().into(),
            (None, Some(0)) if self.lacks_snapshot() => "a snapshot is missing".into(),
            (None, Some(status)) => sentence!["with status {status}"],
            (None, None) => "reported".into(),
        };
        if !self.is_backup() {
            return Reasons::new(Grade::Critical, basis, self.loss_beside_it());
        }
        let mut why = Sentence::default();
        if let Some(status) = self.exit_status.filter(|status| *status != 0) {
            why.push(format!(" with status {status}"));
        }
        if let Some(process) = process {
            why.push(format!(": {process}"));
        }
        if self.made_no_snapshot() {
            why.push(
                ": no snapshot was made. Often the volume group has no free space, or a snapshot of that name exists",
            );
        } else if self.lacks_snapshot() {
            let made = match self.snapshots_made {
                0 => "no snapshot".into(),
                made => snapshots_text(made),
            };
            let usual = snapshots_text(self.snapshots_expected);
            why.push(format!(": it made {made}, and usually makes {usual}"));
        } else if self.removed_at.is_some() {
            why.push(": another process removed its snapshot");
        } else if let Some(at) = self.died_at {
            why.push(sentence![": its snapshot became invalid at ", at]);
        }
        let warning = sentence![
            self.subject(),
            " failed",
            self.when_it_ended(),
            why,
            ". See its log, and repeat it.",
            self.left_over(),
            self.way_to_accept()
        ];
        Reasons::new(Grade::Critical, basis, Some(warning))
    }

    fn untrustworthy(&self) -> Reasons {
        let harm = self.harm();
        if let (None, Some(archive)) = (&harm, self.damaged_archive()) {
            let finding = archive.finding.as_deref().unwrap_or("see its certificate.");
            let warning = sentence![
                self.subject(),
                " is damaged, as its archive ",
                archive.archive.clone(),
                " shows: {finding} So do not rely on it, keep the previous one, and repeat it."
            ];
            return Reasons::new(Grade::Critical, "its archive is damaged", Some(warning));
        }
        let basis = match harm {
            Some((Harm::Reader, _)) => "success was reported, but a process of the backup failed",
            None if self.kind == JobKind::Command => {
                "success was reported, but the backup of its snapshot is bad"
            }
            _ => "success was reported, but the snapshot was lost",
        };
        if !self.is_backup() {
            return Reasons::new(Grade::Critical, basis, self.loss_beside_it());
        }
        let harm = harm.or(self.died_at.map(|at| (Harm::Death, at)));
        let (what, remedy) = match harm {
            Some((harm @ Harm::Death, at)) => {
                let (why, again) = self.cause();
                (sentence![harm.text(), " at ", at, why], again)
            }
            Some((harm, at)) => (
                sentence![harm.text(), " at ", at, self.harm_detail(harm)],
                "",
            ),
            None => ("has a bad backup: see the job of the snapshot".into(), ""),
        };
        let warning = sentence![
            self.subject(),
            " reported success, but its snapshot ",
            what,
            ". The backup may be truncated or padded with zeros: do not rely on it, keep the previous one, and repeat \
             it{remedy}."
        ];
        Reasons::new(Grade::Critical, basis, Some(warning))
    }

    fn incomplete(&self) -> Reasons {
        let (mut basis, mut but) = (
            "only a part was read",
            sentence![" that ended", self.when_it_ended()],
        );
        if self.report().is_some() {
            basis = "success was reported, but only a part was read";
            but = sentence![" reported success", self.when_it_ended(), ", but"];
        }
        let warning = sentence![
            self.subject(),
            but,
            " is incomplete: ",
            self.doubt(),
            ". So do not rely on it, keep the previous one, and repeat it.",
            self.way_to_accept()
        ];
        Reasons::new(Grade::Critical, basis, Some(warning))
    }

    fn lost(&self) -> Reasons {
        let basis = match self.died_at {
            Some(at) => sentence!["at ", at],
            None => "observed by cowbell".into(),
        };
        if !self.is_backup() {
            return Reasons::new(Grade::Critical, basis, self.loss_beside_it());
        }
        let (why, again) = self.cause();
        let at = self.died_at.map(|at| sentence![" at ", at, why]);
        // Without hooks, its name alone may suggest a backup; or its command made several, and read another.
        let read = self.bytes_read.filter(|bytes| *bytes <= PROBED_BYTES);
        if self.backup_run.is_none()
            && let Some(read) = read
        {
            let read = match read {
                0 => "Nothing was".into(),
                bytes => format!("Only {} were", size_text(bytes)),
            };
            let warning = sentence![
                self.dead_snapshot(),
                " became invalid",
                at,
                ". {read} read from it. If a backup was to read it, repeat it{again}."
            ];
            return Reasons::new(Grade::Warning, basis, Some(warning));
        }
        let warning = sentence![
            self.subject(),
            " is lost: its snapshot became invalid",
            at,
            ". Repeat it{again}."
        ];
        Reasons::new(Grade::Critical, basis, Some(warning))
    }

    fn abandoned(&self) -> Reasons {
        let basis = "its process ended without a report";
        if !self.is_backup() {
            let warning = "It reported no end: it was killed, or the machine went down. The end shown here is the last \
                           time at which it was seen running.";
            let warning = self.loss_beside_it().unwrap_or(warning.into());
            return Reasons::new(Grade::Warning, basis, Some(warning));
        }
        let last = self.backup_run.as_ref().and_then(|run| run.phases.last());
        let phase = last.map(|last| format!(" in phase {}", last.phase.text()));
        let warning = sentence![
            self.subject(),
            " did not finish: its process ended",
            self.when_it_ended(),
            phase,
            " without a report. Repeat it.",
            self.left_over()
        ];
        Reasons::new(Grade::Critical, basis, Some(warning))
    }

    /// A snapshot that was left behind.
    fn left_over(&self) -> Option<Sentence> {
        let name = self.volume_name().filter(|_| self.left_snapshot)?;
        Some(sentence![
            " It left its snapshot ",
            volume(&name),
            ": unmount and remove it, if it still exists."
        ])
    }

    fn unknown(&self) -> Reasons {
        if self.kind == JobKind::Snapshot && !self.is_backup() {
            return Reasons::new(Grade::Unknown, "no backup", None);
        }
        if self.report().is_some() {
            let warning = sentence![
                self.subject(),
                " reported success",
                self.when_it_ended(),
                ", but whether it is complete is unclear: ",
                self.doubt(),
                ".",
                self.way_to_accept()
            ];
            let basis = "success was reported, but not confirmed";
            return Reasons::new(Grade::Warning, basis, Some(warning));
        }
        if self.backup_run.is_some() {
            let warning = sentence![
                self.subject(),
                " may be bad: it ended",
                self.when_it_ended(),
                ", and cowbell did not receive its report. See mylvmbackup's log, and repeat it if that has no success."
            ];
            return Reasons::new(Grade::Warning, "not reported", Some(warning));
        }
        let basis = match self.script_has_ended() {
            Some(false) => "its script still runs",
            Some(true) => "the status of its script is not known",
            None => "not reported",
        };
        Reasons::new(Grade::Unknown, basis, None)
    }

    /// `The backup of vg0/data`
    fn subject(&self) -> Sentence {
        match self.backed_up() {
            (vg, name) if vg.is_empty() => sentence!["The backup of {name}"],
            (vg, lv) => sentence!["The backup of ", volume(format!("{vg}/{lv}"))],
        }
    }

    /// ` at 2026-03-01 02:00:00 UTC`: an alert lasts for days.
    fn when_it_ended(&self) -> Option<Sentence> {
        Some(sentence![" at ", self.ended_at?])
    }

    /// The snapshot that died, as a subject.
    fn dead_snapshot(&self) -> Sentence {
        match (self.kind, self.volume_name()) {
            (JobKind::Command | JobKind::Mark, Some(name)) => {
                sentence!["Snapshot ", volume(name), ", which was made while it ran,"]
            }
            (JobKind::Snapshot, Some(name)) => sentence!["Snapshot ", volume(name)],
            (_, None) => "The snapshot".into(),
        }
    }

    /// For a job that is not known to be a backup, but whose snapshot one may have read.
    fn loss_beside_it(&self) -> Option<Sentence> {
        let at = self.died_at?;
        Some(sentence![
            self.dead_snapshot(),
            " became invalid at ",
            at,
            ". A backup that was reading it is lost, whatever it reported."
        ])
    }

    /// Who uses a snapshot that is no backup.
    pub fn in_use(&self) -> Option<Sentence> {
        let folder = self.in_use_on.as_ref().filter(|_| !self.is_backup())?;
        Some(sentence![
            "It is mounted on {folder} and written to: it is in use, and is no backup."
        ])
    }

    fn removed(&self) -> Option<Sentence> {
        let at = self.removed_at?;
        Some(sentence![
            "Another process removed the snapshot at ",
            at,
            ", while the backup ran."
        ])
    }

    fn partly_seen(&self) -> Option<Sentence> {
        let text =
            "cowbell saw only a part of this job, because cowbell was not running all the time.";
        self.partly_seen.then(|| text.into())
    }

    /// How a person confirms it.
    fn way_to_accept(&self) -> Option<Sentence> {
        let when = match self.reported_disk_error() {
            _ if self.kind == JobKind::Command => "it no longer has to make them all",
            Some(_) => "its archive is sound",
            None => "it leaves files out, or copies only what has changed",
        };
        let accept = command(format!("cowbell job accept {}", self.id));
        self.can_be_accepted()
            .then(|| sentence![" If {when}, accept it once with ", accept, "."])
    }

    /// Why its reported success is not confirmed: `47 MiB were read, and its file system uses 169 MiB`.
    fn doubt(&self) -> String {
        if self.kind != JobKind::Snapshot {
            return "see the job of its snapshot".into();
        }
        if let Some(error) = self.reported_disk_error()
            && self.outcome == Some(Outcome::Unknown)
        {
            return format!(
                "{}, a disk below its snapshot, had a read error",
                error.device
            );
        }
        let found = match (&self.completeness, self.bytes_read) {
            (Some(found), _) => found.text(),
            (None, Some(bytes)) => {
                let read = size_text(bytes);
                format!("{read} were read, and nothing says how much that should be")
            }
            (None, None) => "how much it read is unknown".into(),
        };
        match self.harm() {
            Some((harm, _)) => found + &self.harm_detail(harm),
            None => found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ReportedResult;
    use jiff::Timestamp;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A snapshot of vg0/data that mylvmbackup made.
    fn backup() -> Job {
        let mut job = Job::new(7, JobKind::Snapshot, "uuid", "snap", at(0));
        (job.vg, job.lv) = (Some("vg0".into()), Some("snap".into()));
        job.origin = Some("data".into());
        job.program = Some("mylvmbackup".into());
        job
    }

    fn ended(outcome: Outcome, change: impl Fn(&mut Job)) -> Job {
        let mut job = backup();
        (job.ended_at, job.outcome) = (Some(at(60)), Some(outcome));
        change(&mut job);
        job
    }

    #[track_caller]
    fn check(job: &Job, grade: Grade, basis: &str, warning: &str) {
        let found = job.judgement();
        let text = found
            .warning
            .as_ref()
            .map(Sentence::to_string)
            .unwrap_or_default();
        assert_eq!(
            (found.grade, &*found.basis.to_string(), &*text),
            (grade, basis, warning)
        );
    }

    fn overflow(job: &mut Job) {
        (job.died_at, job.invalidation) = (Some(at(30)), Some(Invalidation::Overflow));
    }

    #[test]
    fn every_outcome_has_one_grade_and_one_sentence() {
        let succeeded = ended(Outcome::Succeeded, |_| ());
        check(&succeeded, Grade::Ok, "reported", "");
        let failed = ended(Outcome::Failed, |job| job.exit_status = Some(3));
        let text = "The backup of vg0/data failed at 1970-01-01 00:01:00 UTC with status 3. See its log, and repeat it.";
        check(&failed, Grade::Critical, "with status 3", text);
        let lost = ended(Outcome::Overflowed, overflow);
        let text = "The backup of vg0/data is lost: its snapshot became invalid at 1970-01-01 00:00:30 UTC. Repeat it \
                    with a larger snapshot.";
        check(&lost, Grade::Critical, "at 1970-01-01 00:00:30 UTC", text);
        let killed = ended(Outcome::Abandoned, |job| job.left_snapshot = true);
        let text = "The backup of vg0/data did not finish: its process ended at 1970-01-01 00:01:00 UTC without a \
                    report. Repeat it. It left its snapshot vg0/snap: unmount and remove it, if it still exists.";
        check(
            &killed,
            Grade::Critical,
            "its process ended without a report",
            text,
        );
        let silent = ended(Outcome::Unknown, |job| job.program = None);
        check(&silent, Grade::Unknown, "no backup", "");
    }

    #[test]
    fn an_invalid_snapshot_has_overflowed_before_its_job_ends() {
        let mut job = backup();
        assert_eq!(job.judgement().word(), "running");
        job.died_at = Some(at(30));
        assert_eq!(job.judgement().word(), "overflowed");
    }

    #[test]
    fn a_snapshot_that_nothing_read_is_no_lost_backup() {
        let never_read = ended(Outcome::Overflowed, |job| {
            overflow(job);
            job.bytes_read = Some(0);
        });
        let text = "Snapshot vg0/snap became invalid at 1970-01-01 00:00:30 UTC. Nothing was read from it. If a backup \
                    was to read it, repeat it with a larger snapshot.";
        check(
            &never_read,
            Grade::Warning,
            "at 1970-01-01 00:00:30 UTC",
            text,
        );
    }

    #[test]
    fn a_cut_snapshot_needs_no_larger_one() {
        let mut job = backup();
        (job.died_at, job.bytes_read) = (Some(at(30)), Some(0));
        job.invalidation = Some(Invalidation::Cut);
        let text = "Snapshot vg0/snap became invalid at 1970-01-01 00:00:30 UTC, since its COW area was made smaller than what \
                    it held. Nothing was read from it. If a backup was to read it, repeat it.";
        check(&job, Grade::Warning, "at 1970-01-01 00:00:30 UTC", text);
    }

    #[test]
    fn the_cause_decides_what_helps() {
        for (invalidation, peak, word, text) in [
            (
                Some(Invalidation::IoError),
                3.0,
                "failed",
                "The backup of vg0/data is lost: its snapshot became invalid at 1970-01-01 00:00:30 UTC, since its COW area \
                 had an I/O error. Repeat it. See the kernel's log about its disk.",
            ),
            (
                Some(Invalidation::Cut),
                60.0,
                "failed",
                "The backup of vg0/data is lost: its snapshot became invalid at 1970-01-01 00:00:30 UTC, since its COW area \
                 was made smaller than what it held. Repeat it.",
            ),
            (
                None,
                3.0,
                "overflowed",
                "The backup of vg0/data is lost: its snapshot became invalid at 1970-01-01 00:00:30 UTC, since it overflowed, or \
                 its COW area had an I/O error. Repeat it. If it overflowed, make the snapshot larger.",
            ),
            (
                Some(Invalidation::Overflow),
                3.0,
                "overflowed",
                "The backup of vg0/data is lost: its snapshot became invalid at 1970-01-01 00:00:30 UTC. Repeat it with a \
                 larger snapshot.",
            ),
        ] {
            let mut job = backup();
            (job.died_at, job.bytes_read) = (Some(at(30)), Some(1 << 30));
            (job.invalidation, job.peak_fill_percent) = (invalidation, Some(peak));
            assert_eq!(job.judgement().word(), word);
            check(&job, Grade::Critical, "at 1970-01-01 00:00:30 UTC", text);
        }
    }

    #[test]
    fn a_reported_success_that_cannot_be_is_untrustworthy_at_once() {
        let mut job = backup();
        overflow(&mut job);
        job.command_report = Some(ReportedResult {
            at: at(50),
            succeeded: true,
        });
        let text = "The backup of vg0/data reported success, but its snapshot became invalid at 1970-01-01 00:00:30 \
                    UTC. The backup may be truncated or padded with zeros: do not rely on it, keep the previous one, \
                    and repeat it with a larger snapshot.";
        let basis = "success was reported, but the snapshot was lost";
        check(&job, Grade::Critical, basis, text);
    }
}
