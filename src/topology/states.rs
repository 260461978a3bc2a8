//! How volumes are at one instant: by the device-mapper's word, else by LVM's own where that is new.

use std::collections::HashMap;

use super::{State, Topology, Volume, VolumeKind, VolumeState};
use crate::sample::diskstats::Number;
use crate::sample::dm::{CowArea, DmDevice, Health, Pool, PoolMode, Status, Thin};
use crate::sample::{Sample, lvm};
use crate::units::{Fill, SECTOR};

/// Everything that tells how volumes are.
pub struct Words<'a> {
    dm: Option<HashMap<Number, &'a DmDevice>>,
    /// LVM's word by UUID, where it counts.
    reported: HashMap<&'a str, &'a lvm::Volume>,
}

impl<'a> Words<'a> {
    pub fn of(sample: &'a Sample) -> Self {
        let dm = sample.dm.as_ref();
        let report = sample.report.as_ref().filter(|_| dm.is_none() && sample.report_has_current_fills);
        let reported = report.iter().flat_map(|report| &report.groups).flat_map(|group| &group.volumes);
        Self {
            dm: dm.map(|devices| devices.iter().map(|device| (device.number, device)).collect()),
            reported: reported.map(|volume| (volume.uuid.as_str(), volume)).collect(),
        }
    }

    /// How a volume is. Where neither has a word, nothing is known of an active one.
    pub fn state_of(&self, topology: &Topology, volume: &Volume) -> VolumeState {
        let Some(device) = volume.device.map(|index| &topology.devices[index]) else {
            return VolumeState::only(State::Inactive);
        };
        let Some(dm_device) = self.dm.as_ref().and_then(|dm| dm.get(&device.number)) else {
            return self
                .reported
                .get(&*volume.uuid)
                .map_or(VolumeState::only(State::Unknown), |word| by_report(word));
        };
        let mut state = match self.status_of(topology, volume, dm_device) {
            Some(status) => self.by_status(topology, volume, status),
            None => VolumeState::only(State::Inactive),
        };
        if dm_device.is_suspended && !state.state.is_bad() {
            state.state = State::Suspended;
        }
        state
    }

    /// What the volume's own device says, or, of an origin of thick snapshots, the device below it: that is what it
    /// was before it had any.
    fn status_of(&self, topology: &Topology, volume: &Volume, own: &'a DmDevice) -> Option<&'a Status> {
        let own = &own.targets.first()?.status;
        let real =
            volume.real.filter(|_| own.kind() == "snapshot-origin").map(|index| &topology.devices[index]);
        let Some(real) = real else { return Some(own) };
        let below =
            self.dm.as_ref().and_then(|dm| dm.get(&real.number)).and_then(|device| device.targets.first());
        Some(below.map_or(own, |target| &target.status))
    }

    fn by_status(&self, topology: &Topology, volume: &Volume, status: &Status) -> VolumeState {
        match status {
            Status::Snapshot(area) => by_cow_area(*area, State::Ok),
            Status::SnapshotMerge(area) => by_cow_area(*area, State::Merging),
            Status::ThinPool(Pool::Failed) | Status::Thin(Thin::Failed) => VolumeState::only(State::Failed),
            Status::ThinPool(Pool::Working { data, metadata, mode, needs_check }) => {
                let state = match mode {
                    _ if *needs_check => State::NeedsCheck,
                    PoolMode::ReadWrite => State::Ok,
                    PoolMode::ReadOnly => State::ReadOnly,
                    PoolMode::OutOfDataSpace => State::OutOfData,
                };
                VolumeState { fill: Some(*data), metadata: Some(*metadata), ..VolumeState::only(state) }
            }
            Status::Thin(Thin::Mapped(mapped)) => {
                let fill = self.thin_fill(topology, volume, mapped.0);
                VolumeState { fill, ..VolumeState::only(State::Ok) }
            }
            Status::Filled { data, metadata, health, .. } => {
                VolumeState { fill: *data, metadata: *metadata, ..VolumeState::only(by_health(*health)) }
            }
            Status::InSync { sync, is_degraded, .. } => {
                let state = if *is_degraded { State::Degraded } else { State::Ok };
                VolumeState { sync: Some(*sync), ..VolumeState::only(state) }
            }
            Status::Unparsed(_) => VolumeState::only(State::Unknown),
            // One that is being made or removed is not what it was, or will be.
            Status::Other(_) if volume.kind.fills() => VolumeState::only(State::Unknown),
            Status::Other(_) => VolumeState::only(State::Ok),
        }
    }

    /// A thin volume's mapped part, of its size rounded up to whole chunks of its pool, as `lvs` has it.
    fn thin_fill(&self, topology: &Topology, volume: &Volume, mapped: u64) -> Option<Fill> {
        let size = volume.size? / SECTOR;
        let pool = topology.volumes.iter().find(|other| {
            other.kind == VolumeKind::ThinPool
                && other.vg == volume.vg
                && Some(&other.lv) == volume.pool.as_ref()
        })?;
        let device = &topology.devices[pool.device?];
        let status = &self.dm.as_ref()?.get(&device.number)?.targets.first()?.status;
        let Status::ThinPool(Pool::Working { data, .. }) = status else { return None };
        let chunk = (data.unit / SECTOR).max(1);
        let total = size.div_ceil(chunk) * chunk;
        Some(Fill { used: mapped.min(total), total, unit: SECTOR })
    }
}

fn by_cow_area(area: CowArea, working: State) -> VolumeState {
    match area {
        CowArea::Filled { fill, .. } => VolumeState { fill: Some(fill), ..VolumeState::only(working) },
        CowArea::Invalid => VolumeState::only(State::Invalid),
        CowArea::MergeFailed => VolumeState::only(State::MergeFailed),
        CowArea::Unknown => VolumeState::only(State::Unknown),
    }
}

fn by_health(health: Health) -> State {
    match health {
        Health::Working => State::Ok,
        Health::ReadOnly => State::ReadOnly,
        Health::NeedsCheck => State::NeedsCheck,
        Health::Failed => State::Failed,
    }
}

/// By the letters of `lv_attr`, see `lvs(8)`, and the percentages, which have two decimals.
fn by_report(word: &lvm::Volume) -> VolumeState {
    let (kind, state, health) = (word.letter(1), word.letter(5), word.letter(9));
    let state = match (kind, state, health) {
        (_, Some('I' | 'S'), _) => return VolumeState::only(State::Invalid),
        (_, Some('m' | 'M'), _) => State::MergeFailed,
        (_, _, Some('F' | 'E')) => State::Failed,
        (_, Some('c' | 'C'), _) => State::NeedsCheck,
        (_, _, Some('D')) => State::OutOfData,
        (_, _, Some('M')) => State::ReadOnly,
        (_, Some('X'), _) | (_, _, Some('X')) => State::Unknown,
        // A VDO pool is never active by its letters; while its device is there LVM knows how full it is.
        (Some('d'), Some('-'), _) if word.data.is_some() => State::Ok,
        (Some('d'), Some('-'), _) => State::Unknown,
        (_, Some('-' | 'i' | 'd'), _) => State::Inactive,
        (_, Some('s'), _) => State::Suspended,
        (Some('O' | 'S'), _, _) => State::Merging,
        (Some('r' | 'R'), _, Some('r')) => State::Degraded,
        (_, Some('a'), _) => State::Ok,
        _ => State::Unknown,
    };
    // What LVM calls copied is something else of a cache or a move.
    let sync = word.sync.filter(|_| matches!(kind, Some('m' | 'M' | 'r' | 'R')));
    VolumeState { fill: word.data, metadata: word.metadata, sync, state }
}
