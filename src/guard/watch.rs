//! From ticks to subjects: how fast each guarded volume fills, what its backup still needs, and why it is left alone.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::decision::{GroupRoom, GuardSubject, LvmRoom, RemainingNeed};
use super::ledger::Ledger;
use crate::advice::{Extensible, PoolPart, most_bytes, never_overflows};
use crate::alert::is_autoextended;
use crate::config::GuardSettings;
use crate::forecast::{
    OutlookVerdict, PastRuns, ReadPoint, ReadProgress, RemainingReads, Room, outlook,
};
use crate::interval::Interval;
use crate::job::progress::next_point;
use crate::sample::guard::GuardedPart;
use crate::topology::{State, Topology, Volume, VolumeState};
use crate::units::Fill;

/// The speed is that of the last seconds, or a part of the fastest seconds of the last minute, since a burst may come again.
const RECENT_US: u64 = 5_000_000;
const BURST_US: u64 = 2_000_000;
const MINUTE_US: u64 = 60_000_000;
const BURST_AGAIN: f64 = 0.6;
/// A snapshot is read no more after this pause, or if it is mounted or open after the second one.
const PAUSE_S: f64 = 45.0;
const MOUNTED_PAUSE_S: f64 = 120.0;
/// A reader that paused for longer before, as rsync does over a large file, may pause for so many times that, up to the limit.
const PAUSES: f64 = 2.0;
const MOST_PAUSE_S: f64 = 1800.0;
/// A mounted snapshot is about to be read for so long after it appeared.
const FIRST_READ_S: f64 = 30.0;
/// The forecast is renewed so often, and at every tick while the volume will be full sooner than this.
const FORECAST_PERIOD_US: u64 = 10_000_000;
const NEAR_S: f64 = 30.0;
/// What udev, LVM and a mount read.
const PROBED_BYTES: f64 = 4_194_304.0;

/// The fills of a volume over the last minute, and all that was read of it.
#[derive(Clone, Debug, Default)]
pub struct FillMeter {
    /// Time in microseconds and used bytes.
    points: VecDeque<(u64, u64)>,
    readings: usize,
    began_us: u64,
    reads: ReadProgress,
    read_bytes: f64,
    /// When it was last read.
    read_us: Option<u64>,
    /// The longest time without reads that ended.
    longest_pause_s: f64,
    /// The last forecast, and when it was made.
    need: Option<(u64, RemainingNeed)>,
}

impl FillMeter {
    pub fn push(&mut self, now_us: u64, used: u64) {
        if self.points.back().is_some_and(|(_, before)| *before > used) {
            // Thin volumes discarded something, which says nothing about how fast it fills.
            self.points.clear();
        }
        if self.readings == 0 {
            self.began_us = now_us;
        }
        self.readings += 1;
        self.points.push_back((now_us, used));
        while self.points.len() > 2 && now_us - self.points[0].0 > MINUTE_US {
            self.points.pop_front();
        }
    }

    pub fn seen_s(&self, now_us: u64) -> f64 {
        now_us.saturating_sub(self.began_us) as f64 / 1e6
    }

    /// Bytes a second.
    pub fn speed(&self) -> Option<f64> {
        let &(now_us, now) = self.points.back()?;
        let since = |age_us: u64| {
            let mut points = self.points.iter().rev().skip(1);
            points
                .find(|(at_us, _)| now_us - at_us >= age_us)
                .or(self.points.front())
        };
        let speed = |from: &(u64, u64), to: &(u64, u64)| {
            let seconds = (to.0 - from.0) as f64 / 1e6;
            (seconds > 0.0).then(|| (to.1 - from.1) as f64 / seconds)
        };
        let recent = speed(since(RECENT_US)?, &(now_us, now))?;
        let (mut fastest, mut to) = (0.0_f64, 0);
        for from in &self.points {
            let is_near = |to: usize| {
                let point = self.points.get(to);
                point.is_some_and(|point| point.0.saturating_sub(from.0) < BURST_US)
            };
            while is_near(to) {
                to += 1;
            }
            let Some(point) = self.points.get(to) else {
                break;
            };
            fastest = fastest.max(speed(from, point).unwrap_or_default());
        }
        Some(recent.max(BURST_AGAIN * fastest))
    }
}

/// All that the guard remembers of volumes.
#[derive(Default)]
pub struct Watch {
    meters: HashMap<(String, GuardedPart), FillMeter>,
}

impl Watch {
    /// Takes a tick; returns the guarded volumes. `is_known`: whether LVM's report on a group holds at this moment.
    pub fn subjects(
        &mut self,
        interval: &Interval,
        settings: &GuardSettings,
        ledger: &Ledger,
        now_us: u64,
        is_known: impl Fn(&str) -> bool,
    ) -> Vec<GuardSubject> {
        let mut subjects = Vec::new();
        for (volume, state) in interval.volumes() {
            for (part, lv, fill) in parts(volume, state) {
                let Some((_, limits)) = settings.limits(&volume.vg, &lv) else {
                    continue;
                };
                let key = (volume.uuid.to_string(), part);
                let meter = self.meters.entry(key).or_default();
                let limits = limits.clone();
                let spent = ledger.spent(&volume.uuid, part, limits.name.as_str(), now_us);
                let mut subject = GuardSubject {
                    uuid: volume.uuid.to_string(),
                    part,
                    name: format!("{}/{lv}", volume.vg),
                    vg: volume.vg.clone(),
                    size: size_of(volume, &lv, part, &interval.topology).unwrap_or_default(),
                    used: 0,
                    readings: 0,
                    seen_s: 0.0,
                    bytes_per_s: None,
                    need: RemainingNeed::Unknown,
                    left_alone: None,
                    is_lost: state.state == State::Invalid,
                    lvm: is_known(&volume.vg).then(|| room_of(volume, &interval.topology, part)),
                    limits,
                    spent,
                    is_autoextended: interval
                        .policies
                        .is_some_and(|policies| is_autoextended(volume, &policies)),
                };
                subject.left_alone = why_alone(volume, state, subject.size);
                if let Some(fill) = fill.filter(|fill| fill.unit > 0) {
                    subject.used = fill.used_bytes();
                    meter.push(now_us, subject.used);
                    meter.follow_reads(interval, volume, now_us);
                    subject.readings = meter.readings;
                    subject.seen_s = meter.seen_s(now_us);
                    subject.bytes_per_s = meter.speed();
                    if part == GuardedPart::Snapshot && subject.left_alone.is_none() {
                        let is_read = meter.is_read(is_open(volume), now_us);
                        subject.left_alone = (!is_read).then(|| "it is not read".into());
                        let most = largest_use(volume, &interval.topology);
                        subject.need = if most.is_some_and(|most| most <= subject.size) {
                            RemainingNeed::CannotOverflow
                        } else {
                            let inputs = NeedInputs {
                                free_bytes: subject.size.saturating_sub(subject.used),
                                most_bytes: most.map(|most| most.saturating_sub(subject.used)),
                                file_system_bytes: interval.used_bytes_on(volume),
                                volume: Extensible::new(volume, &interval.topology, PoolPart::Data),
                            };
                            meter.need(inputs, now_us)
                        };
                    }
                }
                subjects.push(subject);
            }
        }
        self.meters.retain(|(uuid, part), _| {
            let mut all = subjects.iter();
            all.any(|subject| subject.uuid == *uuid && subject.part == *part)
        });
        subjects
    }
}

/// The rooms of all groups that the configuration names.
pub fn groups(
    interval: &Interval,
    settings: &GuardSettings,
    took_s: &BTreeMap<String, f64>,
) -> BTreeMap<String, GroupRoom> {
    let slowest_s = took_s.values().copied().fold(0.0, f64::max);
    let rooms = settings.vg.iter().map(|(name, limits)| {
        let group = interval.topology.group(name);
        let room = GroupRoom {
            free: group.and_then(|group| group.free),
            keep_free: limits.keep_free.0,
            spare: group.and_then(|group| group.spare).unwrap_or_default(),
            took_s: took_s.get(name).copied().unwrap_or(slowest_s),
        };
        (name.clone(), room)
    });
    rooms.collect()
}

impl FillMeter {
    fn follow_reads(&mut self, interval: &Interval, volume: &Volume, now_us: u64) {
        if let Some(point) = next_point(interval, &volume.uuid, self.reads.last()) {
            self.note_reads(point, now_us);
        }
    }

    pub fn note_reads(&mut self, point: ReadPoint, now_us: u64) {
        if point.read > self.read_bytes {
            // The wait before its reader began is no pause.
            if self.read_bytes > PROBED_BYTES {
                let pause_s = self.pause_s(now_us).unwrap_or_default();
                self.longest_pause_s = self.longest_pause_s.max(pause_s);
            }
            self.read_us = Some(now_us);
        }
        self.read_bytes = point.read;
        self.reads.push(point);
    }

    /// Whether a reader of the snapshot goes on, or is about to begin.
    pub fn is_read(&self, is_open: bool, now_us: u64) -> bool {
        let has_begun = self.read_bytes > PROBED_BYTES;
        if !has_begun && is_open && self.seen_s(now_us) <= FIRST_READ_S {
            return true;
        }
        let least_s = if is_open { MOUNTED_PAUSE_S } else { PAUSE_S };
        let longest_s = least_s.max((PAUSES * self.longest_pause_s).min(MOST_PAUSE_S));
        let pause_s = self.pause_s(now_us);
        (has_begun || is_open) && pause_s.is_some_and(|pause_s| pause_s <= longest_s)
    }

    fn pause_s(&self, now_us: u64) -> Option<f64> {
        Some(now_us.saturating_sub(self.read_us?) as f64 / 1e6)
    }

    /// The forecast, which is made anew when the volume is nearly full, and now and then before: it takes half a millisecond.
    pub fn need(&mut self, room: NeedInputs, now_us: u64) -> RemainingNeed {
        let left_s = room.free_bytes as f64 / self.speed().unwrap_or_default();
        let age_us = self
            .need
            .as_ref()
            .map(|(at_us, _)| now_us.saturating_sub(*at_us));
        if age_us.is_none_or(|age_us| age_us >= FORECAST_PERIOD_US || left_s < NEAR_S) {
            self.need = Some((now_us, self.forecast(room)));
        }
        self.need
            .as_ref()
            .map(|(_, need)| need.clone())
            .unwrap_or_default()
    }

    fn forecast(&self, room: NeedInputs) -> RemainingNeed {
        let earlier = PastRuns::default();
        let read = Some(self.read_bytes as u64);
        let left = RemainingReads::of(read, room.file_system_bytes, &earlier);
        let room = Room {
            is_pool: false,
            free_bytes: room.free_bytes,
            most_bytes: room.most_bytes,
            volume: room.volume,
            guard: None,
        };
        let outlook = outlook(left, Some(room), &self.reads, &earlier);
        let done_s = outlook.done.and_then(|done| done.latest_s);
        match outlook.growth.and_then(|growth| growth.upper_bytes) {
            _ if outlook.verdict == OutlookVerdict::DoneFirst => {
                RemainingNeed::Until { growth: 0, done_s }
            }
            Some(growth) => RemainingNeed::Until { growth, done_s },
            None => RemainingNeed::Unknown,
        }
    }
}

/// What the forecast of a snapshot needs to know besides its meter.
pub struct NeedInputs {
    pub free_bytes: u64,
    /// By how much it can grow at most.
    pub most_bytes: Option<u64>,
    /// What its backup reads.
    pub file_system_bytes: Option<u64>,
    pub volume: Extensible,
}

/// What can be extended of a volume: the part, the name of its LV, and its fill.
fn parts(volume: &Volume, state: &VolumeState) -> Vec<(GuardedPart, String, Option<Fill>)> {
    if volume.kind.is_thick_snapshot() {
        return vec![(GuardedPart::Snapshot, volume.lv.clone(), state.fill)];
    }
    if !volume.kind.is_thin_pool() {
        return Vec::new();
    }
    vec![
        (
            GuardedPart::Metadata,
            format!("{}_tmeta", volume.lv),
            state.metadata,
        ),
        (GuardedPart::Pool, volume.lv.clone(), state.fill),
    ]
}

/// The size of the LV, in whole extents; of a pool, that of its hidden part.
fn size_of(volume: &Volume, lv: &str, part: GuardedPart, topology: &Topology) -> Option<u64> {
    let hidden = match part {
        GuardedPart::Snapshot => return volume.size,
        GuardedPart::Pool => format!("{lv}_tdata"),
        GuardedPart::Metadata => lv.into(),
    };
    let mut devices = topology.devices.iter();
    let device = devices.find(|device| {
        let lv = device.lv.as_ref();
        device.vg.as_ref() == Some(&volume.vg) && lv.is_some_and(|it| it.name == hidden)
    });
    device?.size.map(|size| size.bytes())
}

fn largest_use(volume: &Volume, topology: &Topology) -> Option<u64> {
    let by_report = most_bytes(volume, PoolPart::Data, topology);
    // Without LVM's report the size of its chunks is unknown; its default needs most.
    by_report.or_else(|| Some(never_overflows(topology.origin_of(volume)?.size?, None)))
}

fn room_of(volume: &Volume, topology: &Topology, part: GuardedPart) -> LvmRoom {
    let extensible = Extensible::new(volume, topology, pool_part(part));
    LvmRoom {
        step: extensible.step,
        step_cost: extensible.step_cost,
        free: extensible.free,
        refusal: extensible.refusal.map(|why| why.to_string()),
    }
}

/// As `advice` names it.
pub fn pool_part(part: GuardedPart) -> PoolPart {
    match part {
        GuardedPart::Metadata => PoolPart::Metadata,
        GuardedPart::Pool | GuardedPart::Snapshot => PoolPart::Data,
    }
}

/// Whether the snapshot is mounted, or a device above it is there; a mount that is unknown counts.
fn is_open(volume: &Volume) -> bool {
    volume.mounted_on.as_ref().is_none_or(|on| !on.is_empty()) || !volume.on_top.is_empty()
}

/// Why nothing is done for it in its state.
fn why_alone(volume: &Volume, state: &VolumeState, size: u64) -> Option<String> {
    let may_extend = match state.state {
        State::Ok => true,
        // These end by themselves, or by an extension.
        State::OutOfData => volume.kind.is_thin_pool(),
        _ => false,
    };
    if !may_extend {
        return Some(format!("it is {}", state.state.text()));
    }
    if volume.is_merging {
        return Some("it is merged into its origin".into());
    }
    (size == 0).then(|| "its size is unknown".into())
}
