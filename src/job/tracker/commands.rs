//! Commands on jobs: marks, phases, notes, imports and deletions. Only the tracker numbers jobs and rejects commands.
//! If a job is no longer in memory, the command carries the stored one.

use std::sync::Arc;

use jiff::Timestamp;
use thiserror::Error;

use super::JobTracker;
use crate::commands::{ArchiveSummary, Mark, MarkEnd, MarkKind, Note, PhaseMark};
use crate::job::follow::CommandSilence;
use crate::job::{Job, JobKind, MOST_NOTES, Outcome, outcome_word, user};

/// The last runs of a command that tell how many snapshots it makes: a week of nights.
const RUNS_THAT_TELL: usize = 7;

/// The job after a command.
#[derive(Clone, Debug, PartialEq)]
pub struct JobChange {
    pub job: Job,
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The command created the job.
    Created,
    Changed,
    /// The command was a repeat. Memory has the job and may be ahead of the database.
    Repeated,
    /// The job is no longer in memory, so the stored one is current.
    Stored,
}

/// Why a command is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    #[error(
        "expected a job's name with a letter in it, but found `{0}`: a name of digits alone means a job's number"
    )]
    NameIsNumber(String),
    #[error("{0}")]
    Refused(String),
    #[error("job {id} is running: delete it when it has ended")]
    Runs { id: i64 },
    #[error("the job has been deleted")]
    Deleted,
}

impl JobTracker {
    /// Begins or ends a job. A mark may be repeated. A mark of an abandoned job continues it.
    pub fn mark(
        &mut self,
        mark: &Mark,
        stored: Option<Job>,
        at: Timestamp,
    ) -> Result<JobChange, CommandError> {
        let remembered = self.remembered(&mark.key).cloned();
        let is_remembered = remembered.is_some();
        let before = remembered.or(stored);
        let mut job = match &before {
            Some(job) => {
                check_continues(job, mark)?;
                job.clone()
            }
            None => {
                self.check_begins(mark)?;
                self.begin(mark)
            }
        };
        job.label = mark.label.clone().or(job.label);
        // What it runs may show only later that it is a backup.
        job.is_declared_backup |= mark.kind == MarkKind::Command && mark.is_backup;
        if let Some(end) = &mark.end {
            job.exit_status = end.status;
            job.hidden_failure.clone_from(&end.failure);
            job.snapshots_made = job.snapshots_made.max(self.snapshots_during(&job, end.at));
            job.end(end.at, Outcome::reported(end.succeeded));
        } else if job.outcome == Some(Outcome::Abandoned) {
            job.reopen();
        }
        if job.kind == JobKind::Command && job.is_running() {
            let silence = CommandSilence::since(at, &job);
            self.silences.insert(job.key.clone(), silence);
        }
        let effect = match &before {
            None => Effect::Created,
            Some(before) if *before != job => Effect::Changed,
            Some(_) if is_remembered => Effect::Repeated,
            Some(_) => Effect::Stored,
        };
        if matches!(effect, Effect::Created | Effect::Changed) {
            self.running.retain(|other| other.key != job.key);
            self.ended.retain(|other| other.key != job.key);
            self.running.push(job.clone());
            self.file_ended();
        }
        Ok(JobChange { job, effect })
    }

    /// Adds a note to a job. If only the database has the job, the store adds it.
    pub fn note(
        &mut self,
        key: &str,
        note: &Note,
        mut stored: Option<Job>,
    ) -> Result<JobChange, CommandError> {
        let is_remembered = self.remembered(key).is_some();
        let job = self.job_of(key, &mut stored)?;
        if !job.note(note) {
            let id = job.id;
            return Err(CommandError::Refused(format!(
                "job {id} has {MOST_NOTES} notes, which is the limit"
            )));
        }
        let mut change = JobChange::of(job);
        if !is_remembered {
            change.effect = Effect::Stored;
        }
        Ok(change)
    }

    /// Stores what is known of a job's archive.
    pub fn certify(
        &mut self,
        key: &str,
        certificate: &ArchiveSummary,
        mut stored: Option<Job>,
    ) -> Result<JobChange, CommandError> {
        let before = self.job_of(key, &mut stored)?.clone();
        let mut change = JobChange::of(&before);
        let certified = change.job.certify(certificate);
        certified.map_err(CommandError::Refused)?;
        if change.job == before {
            change.effect = Effect::Repeated;
        }
        match self.remembered(key) {
            Some(remembered) => remembered.clone_from(&change.job),
            None => self.ended.push(Arc::new(change.job.clone())),
        }
        self.file_ended();
        Ok(change)
    }

    /// Begins a phase of a running job, at `now` unless a time is given.
    pub fn begin_phase(
        &mut self,
        key: &str,
        name: &str,
        at: Option<Timestamp>,
        mut stored: Option<Job>,
        now: Timestamp,
    ) -> Result<JobChange, CommandError> {
        let job = self.job_of(key, &mut stored)?;
        let at = at.unwrap_or_else(|| job.next_phase_at(now));
        let name = name.into();
        let begun = job.begin_phase(PhaseMark { at, name });
        begun.map_err(CommandError::Refused)?;
        Ok(JobChange::of(job))
    }

    /// Adds a job of another host. Importing the same file again changes nothing.
    pub fn import(&mut self, mut job: Job, stored: Option<Job>) -> JobChange {
        if let Some(job) = self.remembered(&job.key).cloned() {
            let effect = Effect::Repeated;
            return JobChange { job, effect };
        }
        if let Some(job) = stored {
            let effect = Effect::Stored;
            return JobChange { job, effect };
        }
        job.id = self.next_id();
        self.running.push(job.clone());
        self.file_ended();
        let effect = Effect::Created;
        JobChange { job, effect }
    }

    /// Deletes an ended job.
    pub fn delete(
        &mut self,
        key: &str,
        mut stored: Option<Job>,
    ) -> Result<JobChange, CommandError> {
        let change = JobChange::of(self.job_of(key, &mut stored)?);
        if change.job.is_running() {
            return Err(CommandError::Runs { id: change.job.id });
        }
        self.ended.retain(|other| other.key != key);
        Ok(change)
    }

    /// Accepts the result of an ended backup.
    pub fn accept(
        &mut self,
        key: &str,
        mut stored: Option<Job>,
        at: Timestamp,
    ) -> Result<JobChange, CommandError> {
        let job = self.job_of(key, &mut stored)?;
        if !job.accept(at) {
            let (id, outcome) = (job.id, outcome_word(job.outcome));
            return Err(CommandError::Refused(format!(
                "job {id} is {outcome}: only a backup that reported success can be accepted, if it ended as unknown or \
                 incomplete, or lacks a snapshot"
            )));
        }
        Ok(JobChange::of(job))
    }

    /// The job of a command, in memory or else as stored.
    fn job_of<'a>(
        &'a mut self,
        key: &str,
        stored: &'a mut Option<Job>,
    ) -> Result<&'a mut Job, CommandError> {
        self.remembered(key)
            .or(stored.as_mut())
            .ok_or(CommandError::Deleted)
    }

    pub(super) fn remembered(&mut self, key: &str) -> Option<&mut Job> {
        let running = self.running.iter_mut().find(|job| job.key == key);
        if running.is_some() {
            return running;
        }
        let ended = self.ended.iter_mut().find(|job| job.key == key)?;
        Some(Arc::make_mut(ended))
    }

    /// The number of snapshots of a command's volume that began while it ran, whoever was seen to make them.
    fn snapshots_during(&self, command: &Job, end: Timestamp) -> u32 {
        let is_it = |job: &&Job| {
            job.kind == JobKind::Snapshot
                && command.backup_of.is_some()
                && job.origin_name() == command.backup_of
                && (command.started_at..=end).contains(&job.started_at)
        };
        let ended = self.ended.iter().map(|job| &**job);
        self.running.iter().chain(ended).filter(is_it).count() as u32
    }

    /// The job that a mark with a new key begins.
    fn begin(&mut self, mark: &Mark) -> Job {
        let id = self.next_id();
        let mut job = Job::new(id, mark.kind.into(), &mark.key, &mark.name, mark.started_at);
        job.setup = self.machine.clone();
        job.process = mark.process;
        if mark.kind == MarkKind::Command {
            job.partly_seen = self.is_before_first_tick(mark.started_at);
            job.take_from_last_runs(&self.ended);
        }
        job
    }

    /// Whether a mark with a new key may create a job, which may be over already.
    fn check_begins(&self, mark: &Mark) -> Result<(), CommandError> {
        if mark.kind != MarkKind::Mark {
            return Ok(());
        }
        if mark.name.trim().bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(CommandError::NameIsNumber(mark.name.clone()));
        }
        let mut marks = self.running.iter().filter(|job| job.kind == JobKind::Mark);
        if mark.end.is_none()
            && let Some(Job {
                id,
                name,
                started_at,
                ..
            }) = marks.find(|job| job.name == mark.name)
        {
            return Err(CommandError::Refused(format!(
                "a job called `{name}` has been running since {started_at}, with number {id}: end it first (`cowbell \
                 job stop {id} --failed` if it came to nothing) or choose another name"
            )));
        }
        Ok(())
    }
}

impl Job {
    /// A command is expected to back up what the last one of its name and user did, from as many snapshots as at least half
    /// of the last runs made. A run that lacked one says nothing, unless a person accepted that: then it says all.
    fn take_from_last_runs(&mut self, ended: &[Arc<Self>]) {
        let is_it = |job: &&Arc<Self>| {
            job.kind == JobKind::Command
                && job.name == self.name
                && user(&job.key) == user(&self.key)
        };
        let mut made = Vec::new();
        for job in ended.iter().rev().filter(is_it) {
            self.backup_of = self.backup_of.take().or_else(|| job.backup_of.clone());
            if job.lacks_snapshot() && job.accepted_at.is_none() {
                continue;
            }
            made.push(job.snapshots_made);
            if job.accepted_at.is_some() || made.len() == RUNS_THAT_TELL {
                break;
            }
        }
        made.sort_unstable();
        self.snapshots_expected = made.get(made.len() / 2).copied().unwrap_or_default();
    }
}

impl JobChange {
    /// A changed job.
    fn of(job: &Job) -> Self {
        Self {
            job: job.clone(),
            effect: Effect::Changed,
        }
    }
}

/// Whether a mark repeats a job's beginning or end, ends it, or continues an abandoned one.
fn check_continues(job: &Job, mark: &Mark) -> Result<(), CommandError> {
    // The database stores milliseconds.
    let is_same_start = job.started_at.as_millisecond() == mark.started_at.as_millisecond();
    let is_same_end = |end: &MarkEnd| Some(end.at) == job.ended_at && end.status == job.exit_status;
    let is_repeated =
        is_same_start && (job.is_running() || mark.end.as_ref().is_none_or(is_same_end));
    if is_repeated || job.outcome == Some(Outcome::Abandoned) {
        return Ok(());
    }
    let state = match job.ended_at {
        None => format!(" has been running since {}", job.started_at),
        Some(at) => format!(", `{}`, ended at {at}", job.name),
    };
    Err(CommandError::Refused(format!(
        "job {} of this key{state}: choose another key for another run",
        job.id
    )))
}
