//! A job in the API.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::backup_run::BackupRun;
use crate::job::completeness::Completeness;
use crate::job::{Job, JobKind, Outcome, PhaseSpan, ReportedResult};
use crate::present::Present;
use crate::series::Range;
use crate::source::{ArchiveSummary, Label, Note};
use crate::verdict::Verdict;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobBody {
    pub id: i64,
    pub kind: JobKind,
    /// The key that its client chose; `null` for snapshots.
    pub key: Option<String>,
    pub name: String,
    pub vg: Option<String>,
    pub lv: Option<String>,
    pub origin: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// `null` while it runs, until it is certain: a snapshot that is invalid has `overflowed` at once. `unknown` if no outcome was
    /// reported.
    pub outcome: Option<Outcome>,
    /// The exit status of a command that was not killed.
    pub exit_status: Option<i32>,
    /// The outcome that hooks reported.
    pub reported: Option<Outcome>,
    /// Phases from hooks and from clients, in order.
    pub phases: Vec<PhaseBody>,
    /// The database's global read lock was held within this span, but not for all of it.
    pub locked_at_most: Option<SpanBody>,
    pub peak_fill_percent: Option<f64>,
    /// From the snapshot; for other jobs, from all disks.
    pub bytes_read: Option<u64>,
    pub last_fill_percent: Option<f64>,
    /// When its snapshot became invalid; for a command, a snapshot that was created while it ran.
    pub died_at: Option<Timestamp>,
    /// When a read of its snapshot first failed.
    pub io_error_at: Option<Timestamp>,
    /// The device with that error; `null` if the snapshot returned only errors.
    pub io_error_device: Option<String>,
    /// When its snapshot was last seen, if another process removed it while the backup ran.
    pub removed_at: Option<Timestamp>,
    /// Whether its snapshot still existed at its end.
    pub left_snapshot: bool,
    /// Whether it is a backup; a snapshot that a person created is not.
    pub is_backup: bool,
    /// What it read, compared with what it should have read; `null` while it runs, or if unknown.
    pub completeness: Option<Completeness>,
    /// When a person accepted its result.
    pub accepted_at: Option<Timestamp>,
    /// The last mount point of its snapshot.
    pub mounted_on: Option<String>,
    /// When its snapshot was unmounted.
    pub unmounted_at: Option<Timestamp>,
    /// The set of runs that it belongs to.
    pub label: Option<Label>,
    /// Notes in order of time.
    pub notes: Vec<Note>,
    /// The program that created the snapshot; `null` if the creation was not seen.
    pub program: Option<String>,
    /// Whether cowbell was not running during part of the job.
    pub partly_seen: bool,
    /// The host that it was imported from; `null` for jobs of this host.
    pub imported_from: Option<String>,
    /// What `cowbell verify-archive` found in its archive.
    pub certificate: Option<ArchiveSummary>,
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl JobBody {
    pub fn new(job: &Job, present: &Present) -> Self {
        let run = job.backup_run.as_ref();
        Self {
            id: job.id,
            kind: job.kind,
            key: super::super::commands::chosen_key(job).map(String::from),
            name: job.name.clone(),
            vg: job.vg.clone(),
            lv: job.lv.clone(),
            origin: job.origin.clone(),
            started_at: job.started_at,
            ended_at: job.ended_at,
            outcome: job.judgement().outcome,
            exit_status: job.exit_status,
            reported: job.report().map(ReportedResult::outcome),
            phases: PhaseBody::all(job),
            locked_at_most: run.and_then(BackupRun::lock_range).map(SpanBody::from),
            peak_fill_percent: job.peak_fill_percent,
            bytes_read: job.bytes_read,
            last_fill_percent: job.last_fill_percent,
            died_at: job.died_at,
            io_error_at: job.io_error_at,
            io_error_device: job.io_error_device.clone(),
            removed_at: job.removed_at,
            left_snapshot: job.left_snapshot,
            is_backup: job.is_backup(),
            completeness: job.completeness.clone(),
            accepted_at: job.accepted_at,
            mounted_on: job.mounted_on.clone(),
            unmounted_at: job.unmounted_at,
            label: job.label.clone(),
            notes: job.notes.clone(),
            program: job.program.clone(),
            partly_seen: job.partly_seen,
            imported_from: job.imported_from().map(String::from),
            certificate: job.certificate.clone(),
            verdict: Verdict::of_job(present, job),
        }
    }
}

/// A phase of a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PhaseBody {
    /// From hooks: `flush`, `snapshot`, `mount`, `backup` or `cleanup`.
    pub phase: String,
    pub began_at: Timestamp,
    /// The start of the next phase, or the end of the job; `null` for the current phase.
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SpanBody {
    pub from: Timestamp,
    pub until: Timestamp,
}

impl PhaseBody {
    fn all(job: &Job) -> Vec<Self> {
        let body = |phase: PhaseSpan| Self {
            phase: phase.name.into(),
            began_at: phase.began_at,
            ended_at: phase.ended_at,
        };
        job.phases().into_iter().map(body).collect()
    }
}

impl From<Range> for SpanBody {
    fn from(range: Range) -> Self {
        Self {
            from: range.from,
            until: range.to,
        }
    }
}
