//! A job, and what its hooks told, as the API answers it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::phase::{BackupRun, LockTime, Report};
use crate::job::{Job, JobKind, Outcome, PhaseSpan};
use crate::source::{Label, Note};

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobBody {
    pub id: i64,
    pub kind: JobKind,
    /// By which it is told of; `null` for a snapshot's.
    pub key: Option<String>,
    pub name: String,
    pub vg: Option<String>,
    pub lv: Option<String>,
    pub origin: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// `null` while it runs; `unknown` where nobody said.
    pub outcome: Option<Outcome>,
    /// Of a command that ended by itself.
    pub exit_status: Option<i32>,
    /// What the run itself said by its hooks; `null` where it said nothing.
    pub reported: Option<Outcome>,
    /// What hooks told of the run, and what somebody told, in order.
    pub phases: Vec<PhaseBody>,
    /// The database's global read lock was held within this span, and for less than it; `null` where that is not known.
    pub locked_at_most: Option<SpanBody>,
    pub peak_fill_percent: Option<f64>,
    /// Of a snapshot: from it. Of a command: from all disks while it ran.
    pub bytes_read: Option<u64>,
    pub last_fill_percent: Option<f64>,
    /// When its snapshot was seen to be invalid; of a command, one that was made while it ran.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub died_at: Option<Timestamp>,
    /// When its snapshot was seen to answer nothing but I/O errors.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub io_error_at: Option<Timestamp>,
    /// The folder on which its snapshot is mounted, or was at last.
    pub mounted_on: Option<String>,
    /// When it was unmounted, if it was.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub unmounted_at: Option<Timestamp>,
    /// To which set of runs it belongs; `null` where nobody said.
    pub label: Option<Label>,
    /// What was noted of it, in the order of time.
    pub notes: Vec<Note>,
    /// Of a snapshot: the name of the program that made it; `null` where it was not seen.
    pub program: Option<String>,
    /// It had begun before cowbell looked, or went on while it did not.
    pub partly_seen: bool,
    /// The host that it was imported from; `null` of this host's own.
    pub imported_from: Option<String>,
}

impl From<&Job> for JobBody {
    fn from(job: &Job) -> Self {
        let heard = job.heard.as_ref();
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
            outcome: job.outcome,
            exit_status: job.exit_status,
            reported: heard.and_then(|heard| heard.reported).map(Report::outcome),
            phases: PhaseBody::all(job),
            locked_at_most: heard.and_then(BackupRun::locked_at_most).map(SpanBody::from),
            peak_fill_percent: job.peak_fill_percent,
            bytes_read: job.bytes_read,
            last_fill_percent: job.last_fill_percent,
            died_at: job.died_at,
            io_error_at: job.io_error_at,
            mounted_on: job.mounted_on.clone(),
            unmounted_at: job.unmounted_at,
            label: job.label.clone(),
            notes: job.notes.clone(),
            program: job.program.clone(),
            partly_seen: job.partly_seen,
            imported_from: job.imported_from().map(String::from),
        }
    }
}

/// A part of a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PhaseBody {
    /// `flush`, `snapshot`, `mount`, `backup` or `cleanup` where hooks told it; else as it was told.
    pub phase: String,
    #[schema(value_type = String, format = DateTime)]
    pub began_at: Timestamp,
    /// When the next one began, or the job ended; `null` while it goes on.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SpanBody {
    #[schema(value_type = String, format = DateTime)]
    pub from: Timestamp,
    #[schema(value_type = String, format = DateTime)]
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

impl From<LockTime> for SpanBody {
    fn from(span: LockTime) -> Self {
        Self { from: span.from, until: span.until }
    }
}
