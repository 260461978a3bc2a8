//! Commands on jobs: marks, phases, notes, imports and deletions. Only the tracker numbers jobs and rejects commands.
//! If a job is no longer in memory, the command carries the stored one.

use jiff::Timestamp;
use thiserror::Error;

use super::JobTracker;
use crate::commands::{ArchiveSummary, Mark, MarkEnd, MarkKind, Note, PhaseMark};
use crate::job::follow::CommandSilence;
use crate::job::{Job, JobKind, MOST_NOTES, Outcome, outcome_word, user};

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
        let unchanged = if remembered.is_some() {
            Effect::Repeated
        } else {
            Effect::Stored
        };
        let before = remembered.or(stored);
        match &before {
            Some(job) => check_continues(job, mark)?,
            None => self.check_begins(mark)?,
        }
        let mut job = before.clone().unwrap_or_else(|| {
            let job = Job::new(
                self.next_id(),
                mark.kind.into(),
                &mark.key,
                &mark.name,
                mark.started_at,
            );
            let backup_of = self
                .backed_up_before(mark)
                .filter(|_| mark.kind == MarkKind::Command);
            Job {
                setup: self.machine.clone(),
                process: mark.process,
                backup_of,
                ..job
            }
        });
        job.label = mark.label.clone().or(job.label);
        if let Some(end) = &mark.end {
            job.exit_status = end.status;
            job.end(
                end.at,
                if end.succeeded {
                    Outcome::Succeeded
                } else {
                    Outcome::Failed
                },
            );
        } else if job.outcome == Some(Outcome::Abandoned) {
            (job.ended_at, job.outcome, job.partly_seen) = (None, None, true);
        }
        if job.kind == JobKind::Command && job.is_running() {
            self.silences
                .insert(job.key.clone(), CommandSilence::since(at, &job));
        }
        if before.as_ref() == Some(&job) {
            return Ok(JobChange {
                job,
                effect: unchanged,
            });
        }
        self.running.retain(|other| other.key != job.key);
        self.ended.retain(|other| other.key != job.key);
        self.running.push(job.clone());
        self.file_ended();
        Ok(JobChange {
            job,
            effect: if before.is_none() {
                Effect::Created
            } else {
                Effect::Changed
            },
        })
    }

    /// Adds a note to a job. If only the database has the job, the store adds it.
    pub fn note(
        &mut self,
        key: &str,
        note: &Note,
        mut stored: Option<Job>,
    ) -> Result<JobChange, CommandError> {
        let (job, effect) = match self.remembered(key) {
            Some(job) => (job, Effect::Changed),
            None => (
                stored.as_mut().ok_or(CommandError::Deleted)?,
                Effect::Stored,
            ),
        };
        if !job.note(note) {
            let id = job.id;
            return Err(CommandError::Refused(format!(
                "job {id} has {MOST_NOTES} notes, which is the limit"
            )));
        }
        Ok(JobChange {
            job: job.clone(),
            effect,
        })
    }

    /// Stores what is known of a job's archive.
    pub fn certify(
        &mut self,
        key: &str,
        certificate: &ArchiveSummary,
        stored: Option<Job>,
    ) -> Result<JobChange, CommandError> {
        let mut job = self
            .remembered(key)
            .cloned()
            .or(stored)
            .ok_or(CommandError::Deleted)?;
        let before = job.clone();
        job.certify(certificate).map_err(CommandError::Refused)?;
        match self.remembered(key) {
            Some(remembered) => remembered.clone_from(&job),
            None => self.ended.push(std::sync::Arc::new(job.clone())),
        }
        self.file_ended();
        Ok(JobChange {
            effect: if job == before {
                Effect::Repeated
            } else {
                Effect::Changed
            },
            job,
        })
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
        let job = self
            .remembered(key)
            .or(stored.as_mut())
            .ok_or(CommandError::Deleted)?;
        let at = at.unwrap_or_else(|| job.next_phase_at(now));
        let name = name.into();
        job.begin_phase(PhaseMark { at, name })
            .map_err(CommandError::Refused)?;
        Ok(JobChange {
            job: job.clone(),
            effect: Effect::Changed,
        })
    }

    /// Adds a job of another host. Importing the same file again changes nothing.
    pub fn import(&mut self, job: Job, stored: Option<Job>) -> JobChange {
        if let Some(job) = self.remembered(&job.key) {
            return JobChange {
                job: job.clone(),
                effect: Effect::Repeated,
            };
        }
        if let Some(job) = stored {
            return JobChange {
                job,
                effect: Effect::Stored,
            };
        }
        let job = Job {
            id: self.next_id(),
            ..job
        };
        self.running.push(job.clone());
        self.file_ended();
        JobChange {
            job,
            effect: Effect::Created,
        }
    }

    /// Deletes an ended job.
    pub fn delete(&mut self, key: &str, stored: Option<Job>) -> Result<JobChange, CommandError> {
        let job = self
            .remembered(key)
            .cloned()
            .or(stored)
            .ok_or(CommandError::Deleted)?;
        if job.is_running() {
            return Err(CommandError::Runs { id: job.id });
        }
        self.ended.retain(|other| other.key != key);
        Ok(JobChange {
            job,
            effect: Effect::Changed,
        })
    }

    /// The volume that the last command of this name and user backed up.
    fn backed_up_before(&self, mark: &Mark) -> Option<String> {
        let is_it = |job: &&std::sync::Arc<Job>| {
            job.kind == JobKind::Command
                && job.name == mark.name
                && user(&job.key) == user(&mark.key)
        };
        self.ended().iter().rev().find(is_it)?.backup_of.clone()
    }

    /// Accepts the result of an ended backup.
    pub fn accept(
        &mut self,
        key: &str,
        mut stored: Option<Job>,
        at: Timestamp,
    ) -> Result<JobChange, CommandError> {
        let job = self
            .remembered(key)
            .or(stored.as_mut())
            .ok_or(CommandError::Deleted)?;
        if !job.accept(at) {
            let (id, outcome) = (job.id, outcome_word(job.outcome));
            return Err(CommandError::Refused(format!(
                "job {id} is {outcome}: only a backup that reported success, and ended as unknown or incomplete, can be accepted"
            )));
        }
        Ok(JobChange {
            job: job.clone(),
            effect: Effect::Changed,
        })
    }

    pub(super) fn remembered(&mut self, key: &str) -> Option<&mut Job> {
        match self.running.iter().position(|job| job.key == key) {
            Some(index) => self.running.get_mut(index),
            None => self
                .ended
                .iter_mut()
                .find(|job| job.key == key)
                .map(std::sync::Arc::make_mut),
        }
    }

    /// Whether a mark with a new key may create a job, which may be over already.
    fn check_begins(&self, mark: &Mark) -> Result<(), CommandError> {
        if mark.kind != MarkKind::Mark {
            return Ok(());
        }
        if mark.name.trim().bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(CommandError::NameIsNumber(mark.name.clone()));
        }
        let is_same =
            |job: &&Job| mark.end.is_none() && job.kind == JobKind::Mark && job.name == mark.name;
        match self.running.iter().find(is_same) {
            None => Ok(()),
            Some(Job {
                id,
                name,
                started_at,
                ..
            }) => Err(CommandError::Refused(format!(
                "a job called `{name}` has been running since {started_at}, with number {id}: end it first (`cowbell \
                 job stop {id} --failed` if it came to nothing) or choose another name"
            ))),
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
    let Job {
        id,
        name,
        started_at,
        ..
    } = job;
    let state = match (job.outcome, job.ended_at) {
        (Some(Outcome::Abandoned), _) => return Ok(()),
        _ if is_repeated => return Ok(()),
        (None, _) => format!(" has been running since {started_at}"),
        (_, Some(at)) => format!(", `{name}`, ended at {at}"),
        (_, None) => format!(", `{name}`, is over"),
    };
    Err(CommandError::Refused(format!(
        "job {id} of this key{state}: choose another key for another run"
    )))
}
