//! How the COW area of one snapshot grew, at a few ages: enough to know what the next one needs.

use cowbell_touched::curve::MOST_EXTRAPOLATED;
pub use cowbell_touched::{AGES_MIN, Growth};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::setup::SnapshotKind;
use super::{Job, Outcome, tool};
use crate::advice::DEFAULT_CHUNK;
use crate::interval::Work;
use crate::sample::diskstats::Counter;
use crate::sample::host::Invalidation;
use crate::units::Fill;

/// A snapshot that became invalid below this percentage did not overflow: the kernel also gives up after an I/O error.
const LEAST_FULL_PERCENT: f64 = 90.0;
const PERCENT: f64 = 100.0;

/// A finished snapshot of the origin.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedSnapshot {
    pub chunk: u64,
    pub growth: Growth,
    pub started_at: Timestamp,
    pub seconds: f64,
    /// The size with which it was made, if known.
    pub made_bytes: Option<u64>,
    /// It was full before its end, so later ages are not known.
    pub overflowed: bool,
    /// Whether a backup read it, and whether that ended as it should, as far as is known.
    pub is_backup: bool,
    pub is_good: bool,
    /// The program that made it, as far as is known.
    pub tool: Option<String>,
}

impl FinishedSnapshot {
    /// The bytes that the snapshot needed at an age; `None` beyond its end. From its overflow to its end it needed more than
    /// it had, taken to grow as before on average.
    pub fn need(&self, age_s: f64) -> Option<f64> {
        if let Some(bytes) = self.growth.at(age_s) {
            return Some(bytes);
        }
        let (age, bytes) = *self.growth.0.last().filter(|_| self.overflowed)?;
        let is_known = age > 0.0 && age_s <= self.seconds * MOST_EXTRAPOLATED;
        is_known.then(|| bytes * age_s / age)
    }

    /// The bytes that it was seen to need at an age, and whether it had overflowed, so that it needed more.
    pub fn seen_need(&self, age_s: f64) -> Option<(f64, bool)> {
        let (end_s, bytes) = *self.growth.0.last()?;
        if self.overflowed && age_s >= end_s {
            return self.need(age_s).map(|_| (bytes, true));
        }
        Some((self.growth.at(age_s)?, false))
    }
}

/// What a stored snapshot of the origin needed, however much of it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredNeed {
    pub chunk: u64,
    pub started_at: Timestamp,
    /// The most that was seen used or, if it overflowed, its size.
    pub used: u64,
    /// The most that it can have used besides, after it was last seen.
    pub unseen: u64,
    pub overflowed: bool,
    /// Whether it is of a backup that ended as it should, as far as is known.
    pub is_good_backup: bool,
}

impl StoredNeed {
    /// The least size that was certainly enough for it. What overflowed needed more than its size.
    pub fn least_size(&self) -> u64 {
        let more = if self.overflowed {
            self.chunk
        } else {
            self.unseen
        };
        self.used.saturating_add(more)
    }

    pub fn exceeds(&self, bytes: u64) -> bool {
        self.used > bytes || self.overflowed && self.used == bytes
    }
}

/// The used bytes of a thin snapshot's pool: when it was made, and the most since.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolUse {
    began: u64,
    peak: u64,
}

impl Job {
    /// Keeps the used bytes of a thick snapshot, or how much a thin one's pool has grown, at each age that it has reached.
    /// `fill` is that of the snapshot or the pool.
    pub(super) fn record_growth(&mut self, at: Timestamp, fill: Option<Fill>) {
        let Some(fill) = fill.filter(|fill| fill.unit > 0) else {
            return;
        };
        if self.partly_seen || self.died_at.is_some() {
            return;
        }
        let used = fill.used_bytes();
        let age_s = self.age_s(at);
        if self.setup.kind == Some(SnapshotKind::Thin) {
            // What the pool had grown before it was first seen is not known.
            if self.pool.is_none() && age_s < seconds_of(AGES_MIN[0]) {
                self.pool = Some(PoolUse {
                    began: used,
                    peak: 0,
                });
            }
            let Some(pool) = &mut self.pool else { return };
            pool.peak = pool.peak.max(used);
        }
        let reached = AGES_MIN.iter().filter(|age| seconds_of(**age) <= age_s);
        let reached = reached.count();
        // An age that was missed needed at most what is used now.
        if reached > self.growth.len() {
            let began = self.pool.map_or(0, |pool| pool.began);
            self.growth.resize(reached, used.saturating_sub(began));
        }
    }

    /// Keeps how much more its COW area can have used since it was last seen, now that it is gone or invalid: what was
    /// written to its origin in this tick, and the rest of each write's last chunk. Without counters, as it grew before.
    pub(super) fn record_unseen(&mut self, at: Timestamp, elapsed_us: u64, of_origin: Work) {
        if !self.setup.is_thick() || self.unseen_bytes.is_some() {
            return;
        }
        let chunk = self.setup.chunk_bytes.unwrap_or(DEFAULT_CHUNK);
        let written = of_origin.written_bytes().zip(of_origin[Counter::Writes]);
        let counted = written.map(|(bytes, writes)| bytes.saturating_add(writes * chunk));
        self.unseen_bytes = counted.or_else(|| {
            let elapsed_s = elapsed_us as f64 / 1e6;
            let seen_s = self.age_s(at) - elapsed_s;
            let used = self.setup.peak_bytes? as f64;
            (seen_s > 0.0).then(|| (used / seen_s * elapsed_s) as u64)
        });
    }

    /// Whether its snapshot became invalid for lack of space, as far as is known.
    fn has_overflowed(&self) -> bool {
        self.invalid_because() == Some(Invalidation::Overflow)
    }

    /// Whether its snapshot may have been full when it became invalid. A small one may fill between two ticks.
    pub(super) fn was_full(&self) -> bool {
        let can_have_used = self.setup.peak_bytes.unwrap_or_default() as f64
            + self.unseen_bytes.unwrap_or_default() as f64;
        let size = self
            .setup
            .cow_bytes
            .map_or(f64::INFINITY, |bytes| bytes as f64);
        let peak = self.peak_fill_percent.unwrap_or_default();
        peak.max(can_have_used / size * PERCENT) >= LEAST_FULL_PERCENT
    }

    /// What it needed, also if it still exists or was seen in part; `None` of a job without a snapshot, or of another host.
    pub fn stored_need(&self) -> Option<StoredNeed> {
        self.setup.kind.filter(|_| !self.is_imported())?;
        let overflowed = self.has_overflowed();
        let size = self.setup.cow_bytes;
        let full = size.filter(|_| overflowed);
        let used = full.or_else(|| self.grown_bytes())?;
        let room = size.map_or(0, |size| size.saturating_sub(used));
        let is_whole = self.ended_at.is_some() && !self.partly_seen && !overflowed;
        Some(StoredNeed {
            chunk: self.setup.chunk_bytes.unwrap_or(DEFAULT_CHUNK),
            started_at: self.started_at,
            used,
            unseen: self.unseen_bytes.unwrap_or_default().min(room),
            overflowed,
            is_good_backup: is_whole && self.is_backup() && self.is_not_bad(),
        })
    }

    fn is_not_bad(&self) -> bool {
        !self.outcome.is_some_and(Outcome::is_bad)
    }

    /// The time that has passed since it began, whatever the wall clock was set to.
    pub fn age_s(&self, at: Timestamp) -> f64 {
        self.age_before(at, self.clock_set_ms)
    }

    /// The same up to a time before which the clock was set by so much.
    fn age_before(&self, at: Timestamp, clock_set_ms: i64) -> f64 {
        let by_the_clock = at.as_millisecond() - self.started_at.as_millisecond();
        by_the_clock.saturating_sub(clock_set_ms).max(0) as f64 / 1000.0
    }

    /// The most that was used of the COW area, or by how much the pool has grown.
    pub fn grown_bytes(&self) -> Option<u64> {
        self.pool
            .map(|pool| pool.peak.saturating_sub(pool.began))
            .or(self.setup.peak_bytes)
    }

    /// What it tells of the next snapshot; `None` if it was not seen as a whole, or of a job without a snapshot.
    pub fn finished_snapshot(&self) -> Option<FinishedSnapshot> {
        let seconds = self.age_s(self.ended_at?);
        if self.setup.kind.is_none() || self.partly_seen || self.is_imported() {
            return None;
        }
        let overflowed = self.has_overflowed();
        let mut end_s = seconds;
        if let Some(at) = self.died_at {
            let set_ms = self.clock_set_before_death_ms.unwrap_or(self.clock_set_ms);
            end_s = self.age_before(at, set_ms);
        }
        let mut end_bytes = self.grown_bytes();
        if overflowed {
            end_bytes = self.setup.cow_bytes;
        }
        let mut growth: Vec<(f64, f64)> = Vec::new();
        for (age, bytes) in AGES_MIN.iter().zip(&self.growth) {
            if seconds_of(*age) < end_s {
                growth.push((seconds_of(*age), *bytes as f64));
            }
        }
        if let Some(bytes) = end_bytes.filter(|_| end_s > 0.0) {
            growth.push((end_s, bytes as f64));
        }
        Some(FinishedSnapshot {
            chunk: self.setup.chunk_bytes.unwrap_or(DEFAULT_CHUNK),
            growth: Growth(growth),
            started_at: self.started_at,
            seconds,
            made_bytes: self.setup.made_bytes.or(self.setup.cow_bytes),
            overflowed,
            is_backup: self.is_backup(),
            is_good: self.is_not_bad(),
            tool: tool::configured_by(self).map(String::from),
        })
    }
}

fn seconds_of(minutes: u16) -> f64 {
    f64::from(minutes) * 60.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobKind;
    use crate::topology::{State, VolumeState};

    fn job(kind: SnapshotKind) -> Job {
        let mut job = Job::new(1, JobKind::Snapshot, "uuid", "snap", Timestamp::UNIX_EPOCH);
        job.setup.kind = Some(kind);
        job
    }

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(60 * minutes).unwrap()
    }

    fn used(chunks: u64) -> Option<Fill> {
        Some(Fill {
            used: chunks,
            total: 1000,
            unit: 65536,
        })
    }

    #[test]
    fn a_thin_snapshot_has_the_growth_of_its_pool() {
        let mut job = job(SnapshotKind::Thin);
        for (minutes, chunks) in [(0, 400), (1, 410), (2, 430), (3, 425)] {
            job.record_growth(at(minutes), used(chunks));
        }
        assert_eq!(job.grown_bytes(), Some(30 * 65536));
        job.ended_at = Some(at(4));
        let run = job.finished_snapshot().unwrap();
        let points = [(60.0, 10.0), (120.0, 30.0), (180.0, 25.0), (240.0, 30.0)];
        assert_eq!(
            run.growth.0,
            points.map(|(age, chunks)| (age, chunks * 65536.0))
        );
        let stored: Job = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
        assert_eq!(stored.finished_snapshot(), Some(run));
    }

    /// It had used 100 of 1000 chunks of 4 KiB, and was gone or invalid after a minute.
    #[test]
    fn what_was_copied_after_the_last_tick_is_at_most_what_was_written() {
        let idle = Work::IDLE;
        let wrote = |writes: u64, chunks: u64| {
            let work = idle.with(Counter::Writes, writes);
            work.with(Counter::SectorsWritten, chunks * 8)
        };
        for (work, is_invalid, expected) in [
            (idle, false, (100, false)),
            (wrote(10, 20), false, (130, false)),
            // No more than its size.
            (wrote(1000, 5000), false, (1000, false)),
            // In the 54 s before, it grew by 11 chunks in 6 s.
            (Work::default(), false, (111, false)),
            // It overflowed within a tick, or had an I/O error.
            (wrote(100, 800), true, (1001, true)),
            (wrote(1, 1), true, (102, false)),
        ] {
            let mut job = job(SnapshotKind::Thick);
            job.setup.chunk_bytes = Some(4096);
            job.setup.cow_bytes = Some(1000 * 4096);
            job.setup.peak_bytes = Some(100 * 4096);
            job.peak_fill_percent = Some(10.0);
            job.died_at = is_invalid.then(|| at(1));
            job.record_unseen(at(1), 6_000_000, work);
            let need = job.stored_need().unwrap();
            assert_eq!((need.least_size() / 4096, need.overflowed), expected);
        }
    }

    #[test]
    fn a_clock_that_is_set_makes_no_snapshot_older() {
        let mut job = job(SnapshotKind::Thick);
        job.record_growth(at(1), used(10));
        job.clock_set_ms = 60 * 60_000;
        job.record_growth(at(62), used(20));
        assert_eq!(job.growth.len(), 2);
        job.ended_at = Some(at(63));
        assert_eq!(job.finished_snapshot().unwrap().seconds, 180.0);
    }

    #[test]
    fn the_growth_of_a_pool_whose_fill_was_unknown_at_first_stays_unknown() {
        let mut job = job(SnapshotKind::Thin);
        job.record_growth(at(0), None);
        for (minutes, chunks) in [(10, 400), (11, 410)] {
            job.record_growth(at(minutes), used(chunks));
        }
        assert_eq!((job.growth.len(), job.grown_bytes()), (0, None));
        job.ended_at = Some(at(12));
        let run = job.finished_snapshot().unwrap();
        assert_eq!(
            (run.growth, run.seconds),
            (Growth::default(), 720.0),
            "its length is known"
        );
    }

    #[test]
    fn a_clock_that_is_set_after_an_overflow_leaves_the_growth_before_it() {
        let mut job = job(SnapshotKind::Thick);
        job.setup.cow_bytes = Some(1000 * 65536);
        job.record_growth(at(1), used(10));
        job.peak_fill_percent = Some(100.0);
        let invalid = VolumeState::only(State::Invalid);
        job.update_state(at(30), &invalid);
        job.clock_set_ms = 60 * 60_000;
        job.update_state(at(101), &invalid);
        job.ended_at = Some(at(120));
        let run = job.finished_snapshot().unwrap();
        assert_eq!((run.seconds, run.overflowed), (3600.0, true));
        assert_eq!(
            run.growth.0,
            [(60.0, 10.0 * 65536.0), (1800.0, 1000.0 * 65536.0)]
        );
    }
}
