//! How fast each snapshot was read, and its COW area or pool filled, in the last minutes.
//!
//! It is in memory, so it is known while the database does not answer. Copies share all blocks but the last.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{Job, JobKind};
use crate::interval::Interval;
use crate::topology::{Volume, VolumeKind, VolumeState};

/// Older ticks say less about what comes.
const LATELY_S: f64 = 600.0;
/// Long ticks are kept for longer, since fewer than this say too little.
const LEAST_KEPT: usize = 120;
/// Ticks that are copied for each reader.
const BLOCK: usize = 60;
/// Snapshots that are followed, the latest first: each takes 20 KiB.
const MOST_FOLLOWED: usize = 100;
/// A tick shorter than this share of the interval is merged with the next.
const LEAST_PART: f64 = 0.9;

/// The rates of a tick, or of some short ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    pub read_bytes_per_s: f64,
    /// Of the COW area or the pool; `None` if its usage is not known.
    pub growth_bytes_per_s: Option<f64>,
    pub seconds: f64,
}

/// The rates of each active snapshot, by its job's id.
#[derive(Clone, Debug, Default)]
pub struct RecentRates {
    jobs: HashMap<i64, JobRates>,
}

#[derive(Clone, Debug, Default)]
struct JobRates {
    blocks: VecDeque<Arc<Vec<Rates>>>,
    /// Ticks that are too short to count alone.
    short: Option<Rates>,
    used_bytes: Option<u64>,
}

impl RecentRates {
    /// Takes a tick; `length` is the configured interval.
    pub fn advance(&mut self, interval: &Interval, running: &[Job], length: Duration) {
        let followed = running.iter().rev().filter(|job| job.kind == JobKind::Snapshot).take(MOST_FOLLOWED);
        let followed: Vec<&Job> = followed.collect();
        self.jobs.retain(|id, _| followed.iter().any(|job| job.id == *id));
        for job in followed {
            self.jobs.entry(job.id).or_default().advance(interval, &job.key, length);
        }
    }

    /// The rates of a job, in the order of time.
    pub fn of(&self, job: i64) -> Vec<Rates> {
        self.jobs.get(&job).map(|recent| recent.rates().copied().collect()).unwrap_or_default()
    }
}

impl JobRates {
    fn rates(&self) -> impl Iterator<Item = &Rates> {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    fn advance(&mut self, interval: &Interval, uuid: &str, length: Duration) {
        let before = self.used_bytes.take();
        let Some((volume, _)) = interval.volumes().find(|(volume, _)| *volume.uuid == *uuid) else { return };
        let fill = overflows(interval, volume).and_then(|(_, state)| state.fill).filter(|fill| fill.unit > 0);
        self.used_bytes = fill.map(|fill| fill.used_bytes());
        let Some(work) = interval.device_of(volume).and_then(|device| device.work) else { return };
        let seconds = interval.elapsed_us as f64 / 1e6;
        if seconds > 0.0 {
            // Negative if it shrinks, such as a pool that is trimmed.
            let growth = before.zip(self.used_bytes).map(|(before, now)| now as f64 - before as f64);
            self.push(
                Rates {
                    read_bytes_per_s: work.sectors_read.bytes() as f64 / seconds,
                    growth_bytes_per_s: growth.map(|bytes| bytes / seconds),
                    seconds,
                },
                length.as_secs_f64(),
            );
        }
    }

    fn push(&mut self, rates: Rates, length_s: f64) {
        let rates = self.short.take().map_or(rates, |short| short.with(rates));
        if rates.seconds < length_s * LEAST_PART {
            self.short = Some(rates);
            return;
        }
        match self.blocks.back_mut().filter(|block| block.len() < BLOCK) {
            Some(block) => Arc::make_mut(block).push(rates),
            None => self.blocks.push_back(Arc::new(vec![rates])),
        }
        while self.first_is_old() {
            self.blocks.pop_front();
        }
    }

    fn first_is_old(&self) -> bool {
        let newer = || self.blocks.iter().skip(1).flat_map(|block| block.iter());
        newer().count() >= LEAST_KEPT && newer().map(|rates| rates.seconds).sum::<f64>() >= LATELY_S
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
    let is_it = |volume: &Volume| match snapshot.kind {
        VolumeKind::ThinSnapshot => {
            volume.kind == VolumeKind::ThinPool
                && volume.vg == snapshot.vg
                && Some(&volume.lv) == snapshot.pool.as_ref()
        }
        _ => volume.uuid == snapshot.uuid,
    };
    interval.volumes().find(|(volume, _)| is_it(volume))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(read: f64, seconds: f64) -> Rates {
        Rates { read_bytes_per_s: read, growth_bytes_per_s: Some(read), seconds }
    }

    #[test]
    fn short_ticks_are_one_with_the_next() {
        let mut recent = JobRates::default();
        for tick in [rates(100.0, 0.25), rates(20.0, 0.75), rates(7.0, 1.0)] {
            recent.push(tick, 1.0);
        }
        assert_eq!(recent.rates().copied().collect::<Vec<_>>(), [rates(40.0, 1.0), rates(7.0, 1.0)]);
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        for (length_s, kept) in [(1.0, 600..=660), (60.0, 120..=180)] {
            let mut recent = JobRates::default();
            for _ in 0..2_000 {
                recent.push(rates(1.0, length_s), length_s);
            }
            let found = recent.rates().count();
            assert!(kept.contains(&found), "{found} of {length_s} s");
        }
    }
}
