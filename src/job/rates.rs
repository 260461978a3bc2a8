//! How fast each snapshot was read, and its COW area or pool filled, in the last minutes. The rates are in memory, so
//! they are known while the database does not answer.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::{Job, JobKind};
use crate::interval::Interval;
use crate::topology::{Volume, VolumeKind, VolumeState};

/// Older ticks are dropped.
const MOST_SECONDS: f64 = 600.0;
/// Ticks that are kept even if they are older.
const LEAST_TICKS: usize = 120;
/// Maximum number of snapshots, the latest first: each takes 20 KiB.
const MOST_SNAPSHOTS: usize = 100;
/// A tick shorter than this share of the interval is merged with the next.
const LEAST_PART: f64 = 0.9;

/// The rates of a tick, or of several short ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    pub read_bytes_per_s: f64,
    /// Of the COW area or the pool; `None` if its usage is unknown.
    pub growth_bytes_per_s: Option<f64>,
    pub seconds: f64,
}

/// The rates of each active snapshot, by its job's id.
#[derive(Clone, Debug, Default)]
pub struct RecentRates(HashMap<i64, JobRates>);

#[derive(Clone, Debug, Default)]
struct JobRates {
    rates: VecDeque<Rates>,
    /// Ticks that are too short to count alone.
    short: Option<Rates>,
    used_bytes: Option<u64>,
}

impl RecentRates {
    /// Adds a tick; `length` is the configured interval.
    pub fn advance(&mut self, interval: &Interval, running: &[Job], length: Duration) {
        let snapshots = running.iter().rev().filter(|job| job.kind == JobKind::Snapshot);
        let snapshots: Vec<&Job> = snapshots.take(MOST_SNAPSHOTS).collect();
        self.0.retain(|id, _| snapshots.iter().any(|job| job.id == *id));
        for job in snapshots {
            self.0.entry(job.id).or_default().advance(interval, &job.key, length);
        }
    }

    /// The rates of a job in order of time.
    pub fn of(&self, job: i64) -> Vec<Rates> {
        self.0.get(&job).map(|recent| recent.rates.iter().copied().collect()).unwrap_or_default()
    }
}

impl JobRates {
    fn advance(&mut self, interval: &Interval, uuid: &str, length: Duration) {
        let before = self.used_bytes.take();
        let Some((volume, _)) = interval.volumes().find(|(volume, _)| *volume.uuid == *uuid) else { return };
        let fill = overflows(interval, volume).and_then(|(_, state)| state.fill).filter(|fill| fill.unit > 0);
        self.used_bytes = fill.map(|fill| fill.used_bytes());
        let Some(work) = interval.device_of(volume).and_then(|device| device.work) else { return };
        let seconds = interval.elapsed_us as f64 / 1e6;
        if seconds > 0.0 {
            // Negative if usage shrinks, as in a pool that is trimmed.
            let growth = before.zip(self.used_bytes).map(|(before, now)| now as f64 - before as f64);
            let rates = Rates {
                read_bytes_per_s: work.sectors_read.bytes() as f64 / seconds,
                growth_bytes_per_s: growth.map(|bytes| bytes / seconds),
                seconds,
            };
            self.push(rates, length.as_secs_f64());
        }
    }

    fn push(&mut self, rates: Rates, length_s: f64) {
        let rates = self.short.take().map_or(rates, |short| short.with(rates));
        if rates.seconds < length_s * LEAST_PART {
            self.short = Some(rates);
            return;
        }
        self.rates.push_back(rates);
        let seconds: f64 = self.rates.iter().skip(1).map(|rates| rates.seconds).sum();
        if self.rates.len() > LEAST_TICKS && seconds >= MOST_SECONDS {
            self.rates.pop_front();
        }
    }
}

impl Rates {
    fn with(self, next: Self) -> Self {
        let seconds = self.seconds + next.seconds;
        let mean = |a: f64, b: f64| (a * self.seconds + b * next.seconds) / seconds;
        Self {
            read_bytes_per_s: mean(self.read_bytes_per_s, next.read_bytes_per_s),
            growth_bytes_per_s: self.growth_bytes_per_s.zip(next.growth_bytes_per_s).map(|(a, b)| mean(a, b)),
            seconds,
        }
    }
}

/// The volume that is full when a snapshot overflows: a thick snapshot itself, or the pool of a thin one.
pub fn overflows<'a>(interval: &'a Interval, snapshot: &'a Volume) -> Option<(&'a Volume, &'a VolumeState)> {
    let full = match snapshot.kind {
        VolumeKind::ThinSnapshot => interval.topology.pool_of(snapshot)?,
        _ => snapshot,
    };
    interval.volumes().find(|(volume, _)| volume.uuid == full.uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(read: f64, seconds: f64) -> Rates {
        Rates { read_bytes_per_s: read, growth_bytes_per_s: Some(read), seconds }
    }

    #[test]
    fn a_short_tick_is_merged_with_the_next() {
        let mut recent = JobRates::default();
        for tick in [rates(100.0, 0.25), rates(20.0, 0.75), rates(7.0, 1.0)] {
            recent.push(tick, 1.0);
        }
        assert_eq!(recent.rates, [rates(40.0, 1.0), rates(7.0, 1.0)]);
    }

    #[test]
    fn old_ticks_are_dropped() {
        for (length_s, kept) in [(1.0, 600), (60.0, 120)] {
            let mut recent = JobRates::default();
            for _ in 0..2_000 {
                recent.push(rates(1.0, length_s), length_s);
            }
            assert_eq!(recent.rates.len(), kept, "of {length_s} s");
        }
    }
}
