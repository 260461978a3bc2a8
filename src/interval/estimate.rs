//! How full thick snapshots are, estimated where nobody may ask: without root.
//!
//! What the copier read since the snapshot was made is what was copied into it. Where several snapshots share an
//! origin, the copier works for all of them, and each one's part lies between two bounds that follow from what was
//! written to its COW area: every copied chunk is written once, with at most one chunk of metadata after it. What
//! cannot be told from copying (what a sibling read that went, or a new one of its own header) makes the bounds wider.
//! Of a snapshot that was there before anybody looked nothing is known; one that comes and goes between two ticks
//! nobody sees, and what was copied for it is taken for its siblings'.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Interval;
use crate::sample::diskstats::Counters;
use crate::topology::{State, Volume, VolumeKind};
use crate::units::{Fill, SECTOR};

/// A chunk of metadata tells of so many chunks for each byte that a chunk has: 16 bytes for each.
const BYTES_OF_AN_EXCEPTION: u64 = 16;
/// LVM's own chunk, until more is known.
const DEFAULT_CHUNK: u64 = 4096;
/// Chunks that are written when a snapshot is made: its header and its first area.
const FIRST_CHUNKS: u64 = 2;

/// How full a snapshot probably is, at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    pub likely: Fill,
    pub low: Fill,
    pub high: Fill,
}

/// Follows every thick snapshot from the tick in which it appeared.
#[derive(Debug, Default)]
pub struct Estimator {
    courses: HashMap<Arc<str>, Course>,
    /// Thick snapshots of the tick before; `None` before the first. A volume that is being made into one is not yet one.
    known: Option<Vec<Known>>,
}

/// What happened since a snapshot was made, in bytes.
#[derive(Clone, Debug)]
struct Course {
    origin: Arc<str>,
    /// What the counters made of all that the copier ever read, less what it had read for others before.
    base: i64,
    /// By so much may more have been copied: what cannot be told from other reading.
    slack: u64,
    /// Read through siblings that are gone, and not from their COW areas.
    through_the_gone: i64,
    /// What siblings that are gone may have had of what was copied.
    by_the_gone: u64,
    /// Whether a sibling went since that was last known.
    lost_one: bool,
    /// Read by the copier for this snapshot and its siblings since it was made, when that was last known.
    copied: u64,
}

/// A thick snapshot when it was last seen; what is not known of it counts as nothing.
#[derive(Debug)]
struct Known {
    uuid: Arc<str>,
    origin: Option<Arc<str>>,
    /// Read through it and not from its COW area.
    through: i64,
    for_copies: u64,
}

/// What was written to a snapshot's COW area since it was made, in bytes.
#[derive(Clone, Copy, Debug)]
struct Cow {
    chunk: u64,
    /// For copies and metadata.
    for_copies: u64,
    /// Into the snapshot itself.
    into_it: u64,
    size: u64,
}

impl Estimator {
    /// Takes a tick, and says in it how full those snapshots probably are of which the kernel says nothing.
    pub fn advance(&mut self, interval: &mut Interval) {
        if !interval.saw_devices {
            return;
        }
        let is_snapshot = |volume: &&Volume| volume.kind == VolumeKind::Snapshot;
        let snapshots: Vec<&Volume> = interval.topology.volumes.iter().filter(is_snapshot).collect();
        let mut courses = self.go_on(&snapshots);
        for new in snapshots.iter().filter(|volume| self.is_new(volume)) {
            // When it was made its header was read of its COW area, and not through it.
            let header = read_ever(interval, new.cow).and_then(|bytes| u64::try_from(bytes).ok());
            let origin = interval.origin_of(new).map(|origin| &origin.uuid);
            for course in courses.values_mut().filter(|course| Some(&course.origin) == origin) {
                course.doubt(header.unwrap_or_default());
            }
        }
        // Nothing is followed where the kernel says it all.
        for volume in snapshots.iter().filter(|_| !interval.dm_answered) {
            if let Some(course) = self.begun(interval, volume) {
                courses.insert(Arc::clone(&volume.uuid), course);
            }
        }
        for (uuid, course) in &mut courses {
            if let Some(volume) = snapshots.iter().find(|volume| volume.uuid == *uuid) {
                course.see(interval, volume);
            }
        }
        self.courses = courses;
        self.known = Some(snapshots.iter().map(|volume| Known::of(interval, volume)).collect());
        if self.courses.is_empty() {
            return;
        }
        let estimates: Vec<Option<Estimate>> =
            interval.volumes().map(|(volume, state)| self.estimate(interval, volume, state.state)).collect();
        interval.estimates = estimates;
    }

    /// The courses of those that are still there. What was copied for siblings that are gone is in their sums.
    fn go_on(&mut self, snapshots: &[&Volume]) -> HashMap<Arc<str>, Course> {
        let is_there = |uuid: &Arc<str>| snapshots.iter().any(|volume| volume.uuid == *uuid);
        let mut courses = std::mem::take(&mut self.courses);
        courses.retain(|uuid, _| is_there(uuid));
        for gone in self.known.iter().flatten().filter(|known| !is_there(&known.uuid)) {
            for course in courses.values_mut().filter(|course| Some(&course.origin) == gone.origin.as_ref()) {
                course.through_the_gone += gone.through;
                course.by_the_gone += gone.for_copies.min(course.copied);
                course.lost_one = true;
            }
        }
        courses
    }

    /// Whether it was not there in the tick before. One that was seen half made is still to begin.
    fn is_new(&self, volume: &Volume) -> bool {
        let is_it = |known: &Known| known.uuid == volume.uuid && known.origin.is_some();
        !self.known.iter().flatten().any(is_it)
    }

    /// The course of a snapshot that is new; `None` before anybody looked, and for one that was only activated: then
    /// nothing is written.
    fn begun(&self, interval: &Interval, volume: &Volume) -> Option<Course> {
        let cow = Cow::of(interval, volume)?;
        if self.known.is_none() || !self.is_new(volume) || cow.for_copies < FIRST_CHUNKS * cow.chunk {
            return None;
        }
        let origin = interval.origin_of(volume)?;
        let (least, most) = self.first_copies(interval, origin)?;
        let least = least.max(cow.least());
        Some(Course {
            origin: Arc::clone(&origin.uuid),
            base: copied_ever(interval, origin)? - i64::try_from(least).ok()?,
            slack: most.saturating_sub(least),
            through_the_gone: 0,
            by_the_gone: 0,
            lost_one: false,
            copied: least,
        })
    }

    /// What was copied for the snapshots of an origin, at least and at most, in a tick in which one of them is new.
    fn first_copies(&self, interval: &Interval, origin: &Volume) -> Option<(u64, u64)> {
        let snapshots = || interval.thick_snapshots(origin);
        let siblings =
            || self.known.iter().flatten().filter(|known| known.origin.as_ref() == Some(&origin.uuid));
        let lost_one = siblings().any(|known| !snapshots().any(|volume| volume.uuid == known.uuid));
        // With the first snapshot its `-real` is new: what the origin had read before was not read of that.
        let is_first = snapshots().all(|volume| self.is_new(volume));
        let (real, top) = (grown(interval, origin.real, is_first)?, grown(interval, origin.device, false)?);
        let by_the_origin = if is_first { 0 } else { top.0 };
        let (mut least, mut most) = (real.0 - top.1, real.1 - by_the_origin);
        for snapshot in snapshots() {
            let is_new = self.is_new(snapshot);
            let (through, cow) =
                (grown(interval, snapshot.device, is_new)?, grown(interval, snapshot.cow, is_new)?);
            // What a new one has read of its COW area may have been its header.
            least -= through.1 - if is_new { 0 } else { cow.0 };
            most -= through.0 - cow.1;
        }
        let (least, most) =
            (u64::try_from(least).unwrap_or_default(), u64::try_from(most).unwrap_or_default());
        if lost_one {
            return Some((0, most));
        }
        let written =
            snapshots().map(|volume| Some(Cow::of(interval, volume)?.most())).sum::<Option<u64>>()?;
        Some((least.min(written), most.min(written)))
    }

    fn estimate(&self, interval: &Interval, volume: &Volume, state: State) -> Option<Estimate> {
        if state != State::Unknown {
            return None;
        }
        let course = self.courses.get(&volume.uuid)?;
        let cow = Cow::of(interval, volume)?;
        let origin = interval.origin_of(volume)?;
        let siblings: Vec<Cow> = interval
            .thick_snapshots(origin)
            .filter(|other| other.uuid != volume.uuid)
            .map(|other| Cow::of(interval, other))
            .collect::<Option<_>>()?;
        let (low, likely, high) = cow.share_of(course, &siblings);
        Some(Estimate { likely: cow.fill(likely), low: cow.fill(low), high: cow.fill(high + cow.into_it) })
    }
}

impl Course {
    /// Where a counter is missing in this tick, what was seen last still holds.
    fn see(&mut self, interval: &Interval, volume: &Volume) {
        let Some(ever) = interval.origin_of(volume).and_then(|origin| copied_ever(interval, origin)) else {
            return;
        };
        let copied = |course: &Self| u64::try_from(ever - course.through_the_gone - course.base);
        if std::mem::take(&mut self.lost_one) {
            // What that one read at last cannot be told from what was copied.
            self.doubt(copied(self).unwrap_or_default().saturating_sub(self.copied));
        }
        self.copied = copied(self).unwrap_or_default();
    }

    /// So much that was read may have been copied, or not.
    fn doubt(&mut self, bytes: u64) {
        self.base = self.base.saturating_add_unsigned(bytes);
        self.slack = self.slack.saturating_add(bytes);
    }
}

impl Known {
    fn of(interval: &Interval, volume: &Volume) -> Self {
        Self {
            uuid: Arc::clone(&volume.uuid),
            origin: interval.origin_of(volume).map(|origin| Arc::clone(&origin.uuid)),
            through: through(interval, volume).unwrap_or_default(),
            for_copies: Cow::of(interval, volume).map_or(0, |cow| cow.for_copies),
        }
    }
}

/// What a device read in this tick, at least and at most. What is new has done all that its counters say.
fn grown(interval: &Interval, index: Option<usize>, is_new: bool) -> Option<(i64, i64)> {
    let ever = read_ever(interval, index)?;
    let work = interval.devices.get(index?)?.work.map(|work| work.sectors_read.bytes());
    match work.and_then(|bytes| i64::try_from(bytes).ok()) {
        _ if is_new => Some((ever, ever)),
        Some(work) => Some((work, work)),
        None => Some((0, ever)),
    }
}

/// What was read below the origin, less what was read by it and through the snapshots that are there: of all times,
/// so that only differences mean anything.
fn copied_ever(interval: &Interval, origin: &Volume) -> Option<i64> {
    let read = |index: Option<usize>| read_ever(interval, index);
    let mut copied = read(origin.real)? - read(origin.device)?;
    for snapshot in interval.thick_snapshots(origin) {
        copied -= through(interval, snapshot)?;
    }
    Some(copied)
}

/// Read through a snapshot, and not from its COW area, since it was made.
fn through(interval: &Interval, snapshot: &Volume) -> Option<i64> {
    Some(read_ever(interval, snapshot.device)? - read_ever(interval, snapshot.cow)?)
}

fn read_ever(interval: &Interval, index: Option<usize>) -> Option<i64> {
    i64::try_from(interval.devices.get(index?)?.counters?.sectors_read.bytes()).ok()
}

impl Cow {
    fn of(interval: &Interval, volume: &Volume) -> Option<Self> {
        let counters = |index: Option<usize>| interval.devices.get(index?)?.counters;
        let (top, cow) = (counters(volume.device)?, counters(volume.cow)?);
        let into_it = top.sectors_written.bytes();
        Some(Self {
            chunk: chunk(&top, &cow),
            for_copies: cow.sectors_written.bytes().saturating_sub(into_it),
            into_it,
            size: interval.topology.devices.get(volume.cow?)?.size?.bytes(),
        })
    }

    /// Chunks of data that a chunk of metadata tells of.
    fn area(&self) -> u64 {
        (self.chunk / BYTES_OF_AN_EXCEPTION).max(1)
    }

    /// What was copied at least: each copied chunk has at most one chunk of metadata after it, each area one that is
    /// cleared, and the header and the first area are written when the snapshot is made.
    fn least(&self) -> u64 {
        let chunks = self.for_copies.saturating_sub(FIRST_CHUNKS * self.chunk) / self.chunk;
        chunks * self.area() / (2 * self.area() + 1) * self.chunk
    }

    /// What was copied at most, where all copies share their metadata.
    fn most(&self) -> u64 {
        let chunks = self.for_copies.div_ceil(self.chunk).saturating_sub(FIRST_CHUNKS);
        (chunks - chunks / (self.area() + 1)) * self.chunk
    }

    /// At least, probably and at most, of all that was copied for this snapshot and its siblings.
    fn share_of(&self, course: &Course, siblings: &[Self]) -> (u64, u64, u64) {
        let (all, most) = (course.copied, course.copied + course.slack);
        let by_others = siblings.iter().map(|other| other.for_copies).sum::<u64>() + course.by_the_gone;
        let high = self.for_copies.min(most);
        let low = self.least().max(all.saturating_sub(by_others)).min(high);
        let all_written = u128::from(self.for_copies + by_others).max(1);
        let likely = u128::from(all.midpoint(most)) * u128::from(self.for_copies) / all_written;
        (low, u64::try_from(likely).unwrap_or(u64::MAX).clamp(low, high), high)
    }

    /// Whole chunks, with the metadata that tells of them; nothing copied is called empty, as `lvs` does.
    fn fill(&self, copied: u64) -> Fill {
        let chunks = copied.div_ceil(self.chunk);
        let metadata = if chunks == 0 { 0 } else { 2 + chunks / self.area() };
        let (used, total) = ((chunks + metadata) * self.chunk / SECTOR, self.size / SECTOR);
        Fill { used: used.min(total), total, unit: SECTOR }
    }
}

/// The length of a chunk by the length of the requests to the COW area: copies and metadata are a chunk each, and
/// some come with a request of no length, a flush. So their mean is above the half of a chunk.
fn chunk(snapshot: &Counters, cow: &Counters) -> u64 {
    let bytes = cow.sectors_written.bytes().saturating_sub(snapshot.sectors_written.bytes());
    match bytes.checked_div(cow.writes.saturating_sub(snapshot.writes)) {
        Some(mean) if mean > 0 => mean.next_power_of_two().max(DEFAULT_CHUNK),
        _ => DEFAULT_CHUNK,
    }
}
