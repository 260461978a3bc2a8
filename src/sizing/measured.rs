//! The curves of measured volumes: one is stored each hour, and the latest one is known each minute.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Areas, Curve};
use crate::interval::Interval;
use crate::sample::touched::Region;
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
    /// In bytes: what is measured of the volume, and the size of an area.
    pub covered: u64,
    pub step: u64,
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
    areas: Areas,
    since: Timestamp,
    read_us: u64,
    minutes: u32,
    stored_min: u32,
    /// The volume's counter.
    discarded: Option<Sectors>,
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
        let Some(regions) = &interval.touched else { return Vec::new() };
        let known = Arc::make_mut(known);
        let mut due = Vec::new();
        let mut seen: Vec<Arc<str>> = Vec::new();
        for region in regions {
            let Some((volume, device)) = volume_of(region, interval) else { continue };
            // Only the first region of a volume counts.
            if seen.contains(&volume.uuid) {
                continue;
            }
            seen.push(Arc::clone(&volume.uuid));
            let discarded = interval.devices.get(device).and_then(|device| device.counters);
            let discarded = discarded.map(|counters| counters.sectors_discarded);
            let tracked = self.tracked(volume, region, interval.at, discarded);
            let now = tracked.take(region, now_us, discarded, interval.at);
            let measured = known.entry(Arc::clone(&volume.uuid)).or_default();
            if tracked.is_due() {
                measured.add(Arc::clone(&now.curve));
                due.push((Arc::clone(&volume.uuid), Arc::clone(&now.curve)));
            }
            measured.now = Some(now);
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
        discarded: Option<Sectors>,
    ) -> &mut Tracked {
        let identity = (region.id, region.length, region.step);
        let is_other = |tracked: &Tracked| tracked.identity != identity || region.written.is_none();
        if self.volumes.get(&volume.uuid).is_some_and(is_other) {
            self.volumes.remove(&volume.uuid);
        }
        let read_us = self.now_us;
        let begin = || Tracked {
            identity,
            areas: Areas::new(region.areas().min(MOST_AREAS), region.step.bytes(), volume.pool.is_some()),
            since: at,
            read_us,
            minutes: 0,
            stored_min: 0,
            discarded,
        };
        self.volumes.entry(Arc::clone(&volume.uuid)).or_insert_with(begin)
    }
}

impl Tracked {
    fn take(&mut self, region: &Region, now_us: u64, discarded: Option<Sectors>, at: Timestamp) -> Now {
        // Rounded, since readings are not a minute apart to the microsecond.
        let passed = (now_us.saturating_sub(self.read_us) + US_OF_A_MINUTE / 2) / US_OF_A_MINUTE;
        self.read_us += passed * US_OF_A_MINUTE;
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.minutes = self.minutes.saturating_add(passed);
        let had_discards = discarded.zip(self.discarded).is_some_and(|(now, before)| now != before);
        self.discarded = discarded.or(self.discarded);
        // What was written before the beginning belongs to no window.
        let written = region.written.as_deref().filter(|_| self.minutes > 0).unwrap_or_default();
        self.areas.advance(passed, written, had_discards);
        Now {
            since: self.since,
            covered: region.length.bytes(),
            step: region.step.bytes(),
            curve: Arc::new(self.areas.curve(at)),
        }
    }

    /// Whether its curve is to be stored.
    fn is_due(&mut self) -> bool {
        let is_due = self.minutes - self.stored_min >= MINUTES_OF_A_CURVE;
        if is_due {
            self.stored_min = self.minutes;
        }
        is_due
    }
}

/// The volume that a region is on, and the index of its device.
fn volume_of<'a>(region: &Region, interval: &'a Interval) -> Option<(&'a Volume, usize)> {
    let devices = &interval.topology.devices;
    interval.topology.volumes.iter().find_map(|volume| {
        let device = volume.device?;
        (*devices.get(device)?.identity == *region.dm_uuid).then_some((volume, device))
    })
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
