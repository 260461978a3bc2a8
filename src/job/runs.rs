//! Runs of mylvmbackup of which hooks have told, but whose snapshot is not seen yet.
//!
//! A hook cannot say which snapshot its run makes. The run that was about to make one when one appeared made it.

use jiff::Timestamp;

use super::phase::{Course, Phase};
use super::{Job, JobKind};
use crate::sample::hooks::{Step, Told};

/// Runs that are remembered without a snapshot; the oldest is forgotten first.
const MOST: usize = 16;
/// A snapshot that appears so long after a run was last heard of is not that run's: it was killed, or LVM refused.
const LATEST_MS: i64 = 5 * 60_000;
/// LVM tells when a volume was made in whole seconds, and is asked a moment later.
const EARLIEST_MS: i64 = 2_000;
/// A run that is heard for the first time when its snapshot was made already, made it this long before at most.
const UNHEARD_MS: i64 = 60_000;

/// Runs that wait for their snapshot, the first to be heard of first.
#[derive(Debug, Default)]
pub struct Runs {
    waiting: Vec<Course>,
}

impl Runs {
    /// Takes a step of a run that no job is known for.
    pub fn hear(&mut self, told: &Told, at: Timestamp, listening_since: Timestamp) {
        self.forget_before(told);
        let index = self.waiting.iter().position(|course| course.run == told.run).unwrap_or_else(|| {
            self.waiting.push(Course::new(told.run, at));
            self.waiting.len() - 1
        });
        self.waiting[index].take(told.step, at, listening_since);
        if self.waiting[index].is_over() {
            tracing::warn!(
                "mylvmbackup (process {}) ended, and no snapshot of it was seen: did it make one? See its own log",
                told.run
            );
            self.waiting.remove(index);
        }
        let surplus = self.waiting.len().saturating_sub(MOST);
        self.waiting.drain(..surplus);
    }

    pub fn knows(&self, run: u32) -> bool {
        self.waiting.iter().any(|course| course.run == run)
    }

    /// The run whose snapshot this job is; it waits no longer.
    pub fn of(&mut self, job: &Job) -> Option<Course> {
        if job.kind != JobKind::Snapshot || job.course.is_some() {
            return None;
        }
        let fitting = self.waiting.iter().enumerate().filter(|(_, course)| made(course, job.started_at));
        // Of two that make one at the same time, the first to begin is the first to be done.
        let (index, _) = fitting.min_by_key(|(_, course)| course.began(Phase::Snapshot))?;
        Some(self.waiting.remove(index))
    }

    /// The number of a process that ended is used again: a run that begins is another than before.
    fn forget_before(&mut self, told: &Told) {
        if told.step == Step::Preconnect {
            self.waiting.retain(|course| course.run != told.run);
        }
    }
}

/// Whether a run may have made a snapshot that appeared at this time.
fn made(course: &Course, appeared_at: Timestamp) -> bool {
    let earliest = match course.began(Phase::Snapshot) {
        Some(at) => at.as_millisecond() - EARLIEST_MS,
        // It has not come to that yet.
        None if course.began(Phase::Flush).is_some() => return false,
        None => course.first_at.as_millisecond() - UNHEARD_MS,
    };
    (earliest..=course.last_at.as_millisecond() + LATEST_MS).contains(&appeared_at.as_millisecond())
}
