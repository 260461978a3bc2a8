//! Commands on jobs: marks, phases, notes, imports and deletions.
//!
//! The tracker alone decides, numbers and refuses. Each command carries the job as the database has it, if memory has
//! forgotten it.

use jiff::Timestamp;
use thiserror::Error;

use super::JobTracker;
use crate::job::follow::Silence;
use crate::job::{Job, JobKind, MOST_NOTES, Outcome, PhaseError};
use crate::source::{Mark, MarkedEnd, NoteCommand, PhaseCommand, ToldPhase};

/// A command that was carried out: the job as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct JobChange {
    pub job: Job,
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The command made the job.
    Created,
    Changed,
    /// The command was a repeat. Memory has the job and may be ahead of the database.
    Repeated,
    /// Memory has forgotten the job, so the database has it as it is.
    Stored,
}

/// Why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    #[error(
        "expected a job's name with a letter in it, but found `{0}`: a name of digits alone means a job's number"
    )]
    NameIsNumber(String),
    #[error(
        "a job called `{name}` has been running since {started_at}, with number {id}: end it first \
         (`cowbell job stop {id} --failed` if it came to nothing) or choose another name"
    )]
    NameRuns { id: i64, name: String, started_at: Timestamp },
    #[error("job {id} of this key has been running since {started_at}: choose another key for another run")]
    KeyRuns { id: i64, started_at: Timestamp },
    #[error("job {id} of this key, `{name}`, {}: choose another key for another run", ended(*ended_at))]
    KeyIsOver { id: i64, name: String, ended_at: Option<Timestamp> },
    #[error(transparent)]
    Phase(#[from] PhaseError),
    #[error("job {id} has {MOST_NOTES} notes and can have no more")]
    TooManyNotes { id: i64 },
    #[error("job {id} is running: delete it when it has ended")]
    Runs { id: i64 },
    #[error("the job has been deleted")]
    Deleted,
}

fn ended(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "is over".into(), |at| format!("ended at {at}"))
}

impl JobTracker {
    /// Begins or ends a job. The same mark may come twice. A job that was taken for abandoned goes on when it is heard
    /// of.
    pub fn mark(
        &mut self,
        mark: &Mark,
        stored: Option<Job>,
        at: Timestamp,
    ) -> Result<JobChange, CommandError> {
        let remembered = self.remembered(&mark.key).cloned();
        let unchanged = if remembered.is_some() { Effect::Repeated } else { Effect::Stored };
        let before = remembered.or(stored);
        match &before {
            Some(job) => check_goes_on(job, mark)?,
            None => self.check_begins(mark)?,
        }
        let mut job = before.clone().unwrap_or_else(|| {
            let mut job = Job::new(self.next_id(), mark.kind.into(), &mark.key, &mark.name, mark.started_at);
            job.setup.clone_from(&self.machine);
            job
        });
        job.label = mark.label.clone().or(job.label);
        if let Some(ended) = &mark.ended {
            job.exit_status = ended.status;
            job.end(ended.at, if ended.succeeded { Outcome::Succeeded } else { Outcome::Failed });
        } else if job.outcome == Some(Outcome::Abandoned) {
            (job.ended_at, job.outcome, job.partly_seen) = (None, None, true);
        }
        if job.kind == JobKind::Command && job.is_running() {
            self.silences.insert(job.key.clone(), Silence::since(at, &job));
        }
        if before.as_ref() == Some(&job) {
            return Ok(JobChange { job, effect: unchanged });
        }
        self.running.retain(|other| other.key != job.key);
        self.ended.retain(|other| other.key != job.key);
        self.running.push(job.clone());
        self.file_ended();
        Ok(JobChange { job, effect: if before.is_none() { Effect::Created } else { Effect::Changed } })
    }

    /// Adds a note to a job. A job that only the database has is left to the store to change.
    pub fn note(
        &mut self,
        command: &NoteCommand,
        mut stored: Option<Job>,
    ) -> Result<JobChange, CommandError> {
        let (job, effect) = match self.remembered(&command.noted) {
            Some(job) => (job, Effect::Changed),
            None => (stored.as_mut().ok_or(CommandError::Deleted)?, Effect::Stored),
        };
        if !job.note(&command.note) {
            return Err(CommandError::TooManyNotes { id: job.id });
        }
        Ok(JobChange { job: job.clone(), effect })
    }

    /// Begins a phase of a job that runs, at `now` if the command names no time.
    pub fn enter(
        &mut self,
        command: &PhaseCommand,
        mut stored: Option<Job>,
        now: Timestamp,
    ) -> Result<JobChange, CommandError> {
        let job = self.remembered(&command.phased).or(stored.as_mut()).ok_or(CommandError::Deleted)?;
        let at = command.at.unwrap_or_else(|| job.next_phase_at(now));
        job.enter(ToldPhase { at, name: command.name.clone() })?;
        Ok(JobChange { job: job.clone(), effect: Effect::Changed })
    }

    /// Takes a job that ran on another host. The same file twice is one job.
    pub fn import(&mut self, job: Job, stored: Option<Job>) -> JobChange {
        if let Some(job) = self.remembered(&job.key) {
            return JobChange { job: job.clone(), effect: Effect::Repeated };
        }
        if let Some(job) = stored {
            return JobChange { job, effect: Effect::Stored };
        }
        let job = Job { id: self.next_id(), ..job };
        self.running.push(job.clone());
        self.file_ended();
        JobChange { job, effect: Effect::Created }
    }

    /// Forgets a job that is over.
    pub fn forget(&mut self, key: &str, stored: Option<Job>) -> Result<JobChange, CommandError> {
        let job = self.remembered(key).cloned().or(stored).ok_or(CommandError::Deleted)?;
        if job.is_running() {
            return Err(CommandError::Runs { id: job.id });
        }
        self.ended.retain(|other| other.key != key);
        Ok(JobChange { job, effect: Effect::Changed })
    }

    fn remembered(&mut self, key: &str) -> Option<&mut Job> {
        match self.running.iter().position(|job| job.key == key) {
            Some(index) => self.running.get_mut(index),
            None => self.ended.iter_mut().find(|job| job.key == key).map(std::sync::Arc::make_mut),
        }
    }

    /// Whether a mark of a new key may begin a job, or tell of one that is over already.
    fn check_begins(&self, mark: &Mark) -> Result<(), CommandError> {
        if JobKind::from(mark.kind) != JobKind::Mark {
            return Ok(());
        }
        if mark.name.trim().bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(CommandError::NameIsNumber(mark.name.clone()));
        }
        let is_same = |job: &&Job| job.kind == JobKind::Mark && job.name == mark.name;
        match self.running.iter().find(is_same).filter(|_| mark.ended.is_none()) {
            None => Ok(()),
            Some(job) => {
                Err(CommandError::NameRuns { id: job.id, name: job.name.clone(), started_at: job.started_at })
            }
        }
    }
}

/// A mark may repeat what is known, end what runs, or continue what was taken for abandoned.
fn check_goes_on(job: &Job, mark: &Mark) -> Result<(), CommandError> {
    // The database keeps milliseconds.
    let is_same_start = job.started_at.as_millisecond() == mark.started_at.as_millisecond();
    if job.is_running() {
        let refused = CommandError::KeyRuns { id: job.id, started_at: job.started_at };
        return if is_same_start { Ok(()) } else { Err(refused) };
    }
    let is_same_end = |end: &MarkedEnd| Some(end.at) == job.ended_at && end.status == job.exit_status;
    let is_repeated = is_same_start && mark.ended.as_ref().is_none_or(is_same_end);
    if is_repeated || job.outcome == Some(Outcome::Abandoned) {
        return Ok(());
    }
    Err(CommandError::KeyIsOver { id: job.id, name: job.name.clone(), ended_at: job.ended_at })
}
