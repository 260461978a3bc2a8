//! States of volumes at one instant, from the device-mapper, or from LVM's report if that is newer.

use std::collections::{HashMap, HashSet};

use super::{Device, State, Topology, Volume, VolumeKind, VolumeState, lvm_name};
use crate::sample::diskstats::Number;
use crate::sample::{Sample, lvm};
use crate::units::{Fill, SECTOR};
use cowbell_device_mapper::status::{CowArea, DmDevice, Health, Pool, PoolMode, Status, Thin};

/// The sources of volume states.
pub struct StateSources<'a> {
    dm: Option<HashMap<Number, &'a DmDevice>>,
    /// Volumes in LVM's report by UUID; empty if the device-mapper answered or the report is old.
    reported: HashMap<&'a str, &'a lvm::ReportedVolume>,
    /// Devices that affect the volumes above them, by index. On a healthy host there are none.
    troubles: HashMap<usize, State>,
}

/// LVM activates a volume whose PV is missing with such a layer in place of that part: `missing_0_0`.
const MISSING_LAYER: &str = "missing_";
/// What it reports of a RAID with a dead leg whose PV is there.
const REFRESH_NEEDED: &str = "refresh needed";

impl<'a> StateSources<'a> {
    pub fn of(topology: &Topology, sample: &'a Sample) -> Self {
        let dm = sample.dm.as_ref();
        let report = sample
            .slow
            .report
            .as_ref()
            .filter(|_| dm.is_none() && sample.report_has_current_fills);
        let reported = report
            .iter()
            .flat_map(|report| &report.groups)
            .flat_map(|group| &group.volumes);
        let dm: Option<HashMap<Number, &DmDevice>> = dm.map(|devices| {
            devices
                .iter()
                .map(|device| (device.number, device))
                .collect()
        });
        let mut troubles = HashMap::new();
        for (index, device) in topology.devices.iter().enumerate() {
            let dm_device = dm.as_ref().and_then(|dm| dm.get(&device.number));
            if let Some(trouble) = dm_device.and_then(|dm_device| trouble(device, dm_device)) {
                troubles.insert(index, trouble);
            }
        }
        Self {
            dm,
            troubles,
            reported: reported
                .map(|volume| (volume.uuid.as_str(), volume))
                .collect(),
        }
    }

    /// The state of a volume, or a worse one of what it lies on.
    pub fn state_of(&self, topology: &Topology, volume: &Volume) -> VolumeState {
        let mut state = self.worst_of(topology, volume);
        // LVM reports no ill health of it, unless another leg has failed.
        if state.state == State::Degraded && volume.health.is_none() && volume.split_leg.is_some() {
            state.state = State::LegSplit;
        }
        state
    }

    fn worst_of(&self, topology: &Topology, volume: &Volume) -> VolumeState {
        let mut state = self.own_state(topology, volume);
        if state.state == State::Degraded && volume.health.as_deref() == Some(REFRESH_NEEDED) {
            state.state = State::RefreshNeeded;
        }
        if volume.is_partial() && !is_partial_above(volume) {
            state.state = state.state.or_worse(match volume.kind {
                // Unless it is striped only, the other legs have all of it.
                VolumeKind::Raid | VolumeKind::Mirror if !volume.is_raid0() => State::Degraded,
                _ => State::Partial,
            });
        }
        let Some(top) = volume.device.filter(|_| !self.troubles.is_empty()) else {
            return state;
        };
        for (index, trouble) in self.troubles_below(topology, volume, top) {
            if state.state.or_worse(trouble) != state.state {
                state.state = trouble;
                state.below = Some(index);
            }
        }
        state
    }

    /// The troubled devices that a volume lies on, and the volume's own.
    ///
    /// A suspended device holds up all that lies on it. Other troubles are those of the volume that the device is part of: a
    /// pool's are not told again for each of its volumes, nor a failed leg for the RAID above it. An origin's writes wait for
    /// the COW areas of its snapshots, unless these are lost.
    fn troubles_below(
        &self,
        topology: &Topology,
        volume: &Volume,
        top: usize,
    ) -> Vec<(usize, State)> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let snapshots = topology.thick_snapshots(volume);
        let live = snapshots.filter(|it| !self.own_state(topology, it).state.is_lost());
        let mut next: Vec<(usize, bool)> = live.filter_map(|it| Some((it.cow?, false))).collect();
        next.push((top, true));
        if volume.kind.is_pool() {
            // Nothing lies on the device that has the pool's name, but a killed command can leave it suspended.
            let named = topology.devices.iter().position(|device| {
                let lv = device.lv.as_ref();
                lv.is_some_and(|lv| lv.uuid == volume.uuid && lv.layer.as_deref() == Some("pool"))
            });
            next.extend(named.map(|index| (index, true)));
        }
        while let Some((index, is_part)) = next.pop() {
            if !seen.insert(index) {
                continue;
            }
            let device = &topology.devices[index];
            if let Some(trouble) = self.troubles.get(&index)
                && (is_part || *trouble == State::Suspended)
            {
                found.push((index, *trouble));
            }
            let dm_device = self.dm.as_ref().and_then(|dm| dm.get(&device.number));
            let has_legs = dm_device.is_some_and(|dm_device| {
                let first = dm_device.targets.first();
                first.is_some_and(|target| matches!(target.status, Status::InSync { .. }))
            });
            for below in device
                .slaves
                .iter()
                .filter_map(|name| topology.device_index(name))
            {
                let is_own = match &topology.devices[below].lv {
                    Some(lv) => lv.uuid == volume.uuid || lvm_name::is_hidden(&lv.name),
                    None => true,
                };
                next.push((below, is_part && is_own && !has_legs));
            }
        }
        found
    }

    /// The state of the volume itself; unknown for an active one that neither source has.
    fn own_state(&self, topology: &Topology, volume: &Volume) -> VolumeState {
        let Some(device) = volume.device.map(|index| &topology.devices[index]) else {
            return VolumeState::only(State::Inactive);
        };
        let Some(dm_device) = self.dm.as_ref().and_then(|dm| dm.get(&device.number)) else {
            return self
                .reported
                .get(&*volume.uuid)
                .map_or(VolumeState::only(State::Unknown), |word| from_report(word));
        };
        match self.status_of(topology, volume, dm_device) {
            Some(status) => self.state_from(topology, volume, status),
            None => VolumeState::only(State::Inactive),
        }
    }

    /// The status of the volume's device. For an origin of thick snapshots, the status of the `-real` device below it, which
    /// was the volume's own device before the first snapshot.
    fn status_of(
        &self,
        topology: &Topology,
        volume: &Volume,
        own: &'a DmDevice,
    ) -> Option<&'a Status> {
        let own = &own.targets.first()?.status;
        let real = volume
            .real
            .filter(|_| own.kind() == "snapshot-origin")
            .map(|index| &topology.devices[index]);
        let Some(real) = real else { return Some(own) };
        let below = self
            .dm
            .as_ref()
            .and_then(|dm| dm.get(&real.number))
            .and_then(|device| device.targets.first());
        Some(below.map_or(own, |target| &target.status))
    }

    fn state_from(&self, topology: &Topology, volume: &Volume, status: &Status) -> VolumeState {
        match status {
            Status::Snapshot(area) => from_cow_area(*area, State::Ok),
            Status::SnapshotMerge(area) => from_cow_area(*area, State::Merging),
            Status::ThinPool(Pool::Failed) | Status::Thin(Thin::Failed) => {
                VolumeState::only(State::Failed)
            }
            Status::ThinPool(Pool::Working {
                data,
                metadata,
                mode,
                needs_check,
            }) => {
                let state = match mode {
                    _ if *needs_check => State::NeedsCheck,
                    PoolMode::ReadWrite => State::Ok,
                    PoolMode::ReadOnly => State::ReadOnly,
                    PoolMode::OutOfDataSpace => State::OutOfData,
                };
                VolumeState {
                    fill: Some(*data),
                    metadata: Some(*metadata),
                    ..VolumeState::only(state)
                }
            }
            Status::Thin(Thin::Mapped(mapped)) => {
                let fill = self.thin_fill(topology, volume, mapped.0);
                VolumeState {
                    fill,
                    ..VolumeState::only(State::Ok)
                }
            }
            Status::Filled {
                data,
                metadata,
                health,
                ..
            } => VolumeState {
                fill: *data,
                metadata: *metadata,
                ..VolumeState::only(from_health(*health))
            },
            Status::InSync { sync, health, .. } => VolumeState {
                sync: Some(*sync),
                ..VolumeState::only(from_health(*health))
            },
            Status::Unparsed(_) => VolumeState::only(State::Unknown),
            // A volume that is being created or removed has a temporary target.
            Status::Other(_) if volume.kind.fills() => VolumeState::only(State::Unknown),
            Status::Other(_) => VolumeState::only(State::Ok),
        }
    }

    /// A thin volume's mapped part of its size, rounded up to whole chunks of its pool as in `lvs`.
    fn thin_fill(&self, topology: &Topology, volume: &Volume, mapped: u64) -> Option<Fill> {
        let size = volume.size? / SECTOR;
        let device = &topology.devices[topology.pool_of(volume)?.device?];
        let status = &self
            .dm
            .as_ref()?
            .get(&device.number)?
            .targets
            .first()?
            .status;
        let Status::ThinPool(Pool::Working { data, .. }) = status else {
            return None;
        };
        let chunk = (data.unit / SECTOR).max(1);
        let total = size.div_ceil(chunk) * chunk;
        Some(Fill {
            used: mapped.min(total),
            total,
            unit: SECTOR,
        })
    }
}

/// What a device does to the volumes above it. A device that is about to be removed has an error target too.
fn trouble(device: &Device, dm_device: &DmDevice) -> Option<State> {
    let layer = device.lv.as_ref().and_then(|lv| lv.layer.as_deref());
    let mut targets = dm_device.targets.iter().map(|target| &target.status);
    let state = match targets.clone().next() {
        _ if dm_device.is_suspended => State::Suspended,
        _ if layer.is_some_and(|layer| layer.starts_with(MISSING_LAYER)) => State::Partial,
        Some(Status::Filled { health, .. } | Status::InSync { health, .. }) => from_health(*health),
        Some(_) if device.lv.is_none() && targets.all(|status| status.kind() == "error") => {
            State::Partial
        }
        _ => State::Ok,
    };
    (state != State::Ok).then_some(state)
}

fn from_cow_area(area: CowArea, working: State) -> VolumeState {
    match area {
        // Chunks beyond the end of the area cannot be read.
        CowArea::Filled(fill) if fill.used > fill.total => VolumeState::only(State::CutShort),
        CowArea::Filled(fill) => VolumeState {
            fill: Some(fill),
            ..VolumeState::only(working)
        },
        CowArea::Invalid => VolumeState::only(State::Invalid),
        CowArea::MergeFailed => VolumeState::only(State::MergeFailed),
        CowArea::Unknown => VolumeState::only(State::Unknown),
    }
}

/// Whether only a snapshot of it misses a PV: LVM reports its origin as partial too.
fn is_partial_above(volume: &Volume) -> bool {
    let segments = volume.layout.iter().flat_map(|layout| &layout.segments);
    let mut pvs = segments.flat_map(|segment| &segment.pv_extents).peekable();
    let is_known = volume.real.is_some() && pvs.peek().is_some();
    is_known && pvs.all(|(pv, _)| pv.starts_with('/'))
}

fn from_health(health: Health) -> State {
    match health {
        Health::Working => State::Ok,
        Health::ReadOnly => State::ReadOnly,
        Health::NeedsCheck => State::NeedsCheck,
        Health::Failed => State::Failed,
        Health::Rebuilding => State::Rebuilding,
        Health::Degraded => State::Degraded,
        Health::Mismatches => State::MismatchesExist,
    }
}

/// From the characters of `lv_attr`, see `lvs(8)`, and percentages with two decimals.
fn from_report(word: &lvm::ReportedVolume) -> VolumeState {
    let (kind, state, health) = (word.letter(1), word.letter(5), word.letter(9));
    let state = match (kind, state, health) {
        (_, Some('I' | 'S'), _) => return VolumeState::only(State::Invalid),
        (_, Some('m' | 'M'), _) => State::MergeFailed,
        (_, _, Some('F' | 'E')) => State::Failed,
        (_, Some('c' | 'C'), _) => State::NeedsCheck,
        (_, _, Some('D')) => State::OutOfData,
        (_, _, Some('M')) => State::ReadOnly,
        (_, Some('X'), _) | (_, _, Some('X')) => State::Unknown,
        // `lv_attr` never shows a VDO pool as active, but LVM reports usage only if its device exists.
        (Some('d'), Some('-'), _) if word.data.is_some() => State::Ok,
        (Some('d'), Some('-'), _) => State::Unknown,
        (_, Some('-' | 'i' | 'd'), _) => State::Inactive,
        (_, Some('s'), _) => State::Suspended,
        (Some('O' | 'S'), _, _) => State::Merging,
        (Some('r' | 'R'), _, Some('r')) => State::Degraded,
        (Some('r' | 'R'), _, Some('m')) => State::MismatchesExist,
        (_, Some('a'), _) => State::Ok,
        _ => State::Unknown,
    };
    // For caches and pvmove, LVM's copy_percent means something else.
    let sync = word
        .sync
        .filter(|_| matches!(kind, Some('m' | 'M' | 'r' | 'R')));
    VolumeState {
        fill: word.data,
        metadata: word.metadata,
        sync,
        ..VolumeState::only(state)
    }
}
