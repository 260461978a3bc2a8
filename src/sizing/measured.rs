//! The curves of measured volumes: one is stored each hour, and the latest one is known each minute.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cowbell_touched::label::Role;
use cowbell_touched::text::{Region, Written};
use jiff::{SignedDuration, Timestamp};

use super::{Areas, Curve, MappedVolume};
use crate::interval::Interval;
use crate::sample::diskstats::Counter;
use crate::topology::Volume;
use crate::units::Sectors;

/// Older curves tell of other times: two weeks, about 300 kB of a volume.
pub const OLDEST_CURVE: SignedDuration = SignedDuration::from_hours(14 * 24);
/// Areas of a volume: two bytes each.
const MOST_AREAS: usize = 4 << 20;
const US_OF_A_MINUTE: u64 = 60_000_000;
const MINUTES_OF_A_CURVE: u32 = 60;

/// What is known of a volume from measuring.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// An hour apart, the oldest first.
    pub curves: VecDeque<Arc<Curve>>,
    /// While it is measured; `None` once that has ended.
    pub now: Option<Now>,
}

/// What is being measured.
#[derive(Clone, Debug)]
pub struct Now {
    pub since: Timestamp,
    /// What is measured of the volume, in bytes.
    pub covered: u64,
    /// Whether only a part of it is, and all of it estimated.
    pub is_estimated: bool,
    /// Of the last minute, or of the last hour if it is estimated.
    pub curve: Arc<Curve>,
}

/// What is known of measured volumes, by UUID.
pub type MeasuredVolumes = HashMap<Arc<str>, Measured>;

/// The areas of each volume that is being measured, by its UUID.
#[derive(Default)]
pub struct Tracker {
    volumes: HashMap<Arc<str>, Tracked>,
    /// The monotonic time since the first tick.
    now_us: u64,
}

struct Tracked {
    /// Number, length and step of the region: another one knows nothing of what was before.
    identity: (u64, Sectors, Sectors),
    counted: WrittenChunks,
    since: Timestamp,
    read_us: u64,
    minutes: u32,
    /// Whole hours, of which the curve was stored.
    stored_hours: u32,
    /// The volume's counter.
    discarded: Option<u64>,
    curve: Arc<Curve>,
}

/// What is known of the written chunks.
enum WrittenChunks {
    Whole(Areas),
    Estimated(MappedVolume),
}

impl Tracker {
    /// Takes a tick. If it read regions, updates what is known of their volumes; returns the curves to store.
    pub fn advance(
        &mut self,
        interval: &Interval,
        known: &mut Arc<MeasuredVolumes>,
    ) -> Vec<(Arc<str>, Arc<Curve>)> {
        self.now_us += interval.elapsed_us;
        let now_us = self.now_us;
        let Some(regions) = &interval.touched else {
            return Vec::new();
        };
        let known = Arc::make_mut(known);
        let mut due = Vec::new();
        let mut seen: Vec<Arc<str>> = Vec::new();
        for of_volume in regions.chunk_by(|a, b| a.dm_uuid == b.dm_uuid) {
            // Only one region of a volume counts, and a map's probes with it.
            let is_main = |region: &&Region| matches!(region.role, Role::Whole | Role::Map { .. });
            let Some(region) = of_volume.iter().find(is_main) else {
                continue;
            };
            let Some((volume, device)) = volume_of(region, interval) else {
                continue;
            };
            seen.push(Arc::clone(&volume.uuid));
            let counters = interval.devices.get(device).and_then(|it| it.counters);
            let discarded = counters.and_then(|counters| counters[Counter::SectorsDiscarded]);
            let tracked = self.tracked(volume, region, interval.at, discarded);
            let is_due = tracked.take(region, of_volume, (now_us, interval.at), discarded);
            let measured = known.entry(Arc::clone(&volume.uuid)).or_default();
            if is_due {
                measured.add(Arc::clone(&tracked.curve));
                due.push((Arc::clone(&volume.uuid), Arc::clone(&tracked.curve)));
            }
            measured.now = Some(tracked.now(region));
        }
        self.volumes.retain(|uuid, _| seen.contains(uuid));
        for (_, measured) in known.iter_mut().filter(|(uuid, _)| !seen.contains(uuid)) {
            measured.now = None;
        }
        due
    }

    /// Begins anew where nothing is known of before.
    fn tracked(
        &mut self,
        volume: &Volume,
        region: &Region,
        at: Timestamp,
        discarded: Option<u64>,
    ) -> &mut Tracked {
        let identity = (region.id, region.length, region.step);
        let is_other = |tracked: &Tracked| tracked.identity != identity || region.written.is_none();
        if self.volumes.get(&volume.uuid).is_some_and(is_other) {
            self.volumes.remove(&volume.uuid);
        }
        let read_us = self.now_us;
        let begin = || {
            let counted = WrittenChunks::begin(region, volume.pool.is_some());
            let curve = Arc::new(counted.curve(at));
            Tracked {
                identity,
                counted,
                since: at,
                read_us,
                minutes: 0,
                stored_hours: 0,
                discarded,
                curve,
            }
        };
        self.volumes
            .entry(Arc::clone(&volume.uuid))
            .or_insert_with(begin)
    }
}

impl WrittenChunks {
    fn begin(region: &Region, is_thin: bool) -> Self {
        match region.role {
            Role::Map { .. } => {
                Self::Estimated(MappedVolume::new(region.step, region.length, is_thin))
            }
            _ => Self::Whole(Areas::new(
                region.areas().min(MOST_AREAS),
                region.step.bytes(),
                is_thin,
            )),
        }
    }

    fn advance(&mut self, region: &Region, of_volume: &[Region], minutes: u32, had_discards: bool) {
        match (self, &region.written) {
            (Self::Whole(areas), Some(Written::Areas(written))) => {
                areas.advance(minutes, written, had_discards)
            }
            (Self::Estimated(mapped), Some(Written::Counts(written))) => {
                mapped.advance(minutes, written, of_volume, had_discards);
            }
            _ => {}
        }
    }

    fn curve(&self, at: Timestamp) -> Curve {
        match self {
            Self::Whole(areas) => areas.curve(at),
            Self::Estimated(mapped) => mapped.curve(at),
        }
    }
}

impl Tracked {
    /// Takes a reading; returns whether the curve of an hour is to be stored.
    fn take(
        &mut self,
        region: &Region,
        of_volume: &[Region],
        (now_us, at): (u64, Timestamp),
        discarded: Option<u64>,
    ) -> bool {
        // Rounded, since readings are not a minute apart to the microsecond.
        let passed = (now_us.saturating_sub(self.read_us) + US_OF_A_MINUTE / 2) / US_OF_A_MINUTE;
        self.read_us += passed * US_OF_A_MINUTE;
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.minutes = self.minutes.saturating_add(passed);
        let both = discarded.zip(self.discarded);
        let had_discards = both.is_some_and(|(now, before)| now != before);
        self.discarded = discarded.or(self.discarded);
        // What was written before the beginning belongs to no window.
        if self.minutes > 0 {
            self.counted
                .advance(region, of_volume, passed, had_discards);
        }
        let is_due = self.minutes / MINUTES_OF_A_CURVE > self.stored_hours;
        self.stored_hours = self.minutes / MINUTES_OF_A_CURVE;
        // An estimate takes some ten milliseconds on a large volume.
        if is_due || matches!(self.counted, WrittenChunks::Whole(_)) {
            self.curve = Arc::new(self.counted.curve(at));
        }
        is_due && !self.curve.chunks.is_empty()
    }

    fn now(&self, region: &Region) -> Now {
        Now {
            since: self.since,
            covered: region.length.bytes(),
            is_estimated: matches!(self.counted, WrittenChunks::Estimated(_)),
            curve: Arc::clone(&self.curve),
        }
    }
}

/// The volume that a region is on, and the index of its device.
fn volume_of<'a>(region: &Region, interval: &'a Interval) -> Option<(&'a Volume, usize)> {
    let device = interval.topology.device_index(&region.dm_uuid)?;
    let mut volumes = interval.topology.volumes.iter();
    let volume = volumes.find(|volume| volume.device == Some(device))?;
    Some((volume, device))
}

impl Measured {
    /// Adds a curve, as the latest one.
    pub fn add(&mut self, curve: Arc<Curve>) {
        let is_old = |before: &Curve| curve.at.duration_since(before.at) > OLDEST_CURVE;
        while self.curves.front().is_some_and(|before| is_old(before)) {
            self.curves.pop_front();
        }
        self.curves.push_back(curve);
    }

    /// All curves, the latest last.
    pub fn all(&self) -> impl Iterator<Item = &Curve> {
        let now = self.now.iter().map(|now| &*now.curve);
        let last = self.curves.back().map(|curve| curve.at);
        // At the full hour both are the same.
        let now = now.filter(move |curve| Some(curve.at) != last);
        self.curves.iter().map(|curve| &**curve).chain(now)
    }
}
