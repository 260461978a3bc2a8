//! States of volumes at one instant, from the device-mapper, or from LVM's report if that is newer.

use std::collections::HashMap;

use super::{State, Topology, Volume, VolumeState};
use crate::sample::diskstats::Number;
use crate::sample::{Sample, lvm};
use crate::units::{Fill, SECTOR};
use cowbell_device_mapper::status::{CowArea, DmDevice, Health, Pool, PoolMode, Status, Thin};

/// The sources of volume states.
pub struct StateSources<'a> {
    dm: Option<HashMap<Number, &'a DmDevice>>,
    /// Volumes in LVM's report by UUID; empty if the device-mapper answered or the report is old.
    reported: HashMap<&'a str, &'a lvm::ReportedVolume>,
}

impl<'a> StateSources<'a> {
    pub fn of(sample: &'a Sample) -> Self {
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
        Self {
            dm: dm.map(|devices| {
                devices
                    .iter()
                    .map(|device| (device.number, device))
                    .collect()
            }),
            reported: reported
                .map(|volume| (volume.uuid.as_str(), volume))
                .collect(),
        }
    }

    /// The state of a volume; unknown for an active one that neither source has.
    pub fn state_of(&self, topology: &Topology, volume: &Volume) -> VolumeState {
        let Some(device) = volume.device.map(|index| &topology.devices[index]) else {
            return VolumeState::only(State::Inactive);
        };
        let Some(dm_device) = self.dm.as_ref().and_then(|dm| dm.get(&device.number)) else {
            return self
                .reported
                .get(&*volume.uuid)
                .map_or(VolumeState::only(State::Unknown), |word| from_report(word));
        };
        let mut state = match self.status_of(topology, volume, dm_device) {
            Some(status) => self.state_from(topology, volume, status),
            None => VolumeState::only(State::Inactive),
        };
        if dm_device.is_suspended && !state.state.is_bad() {
            state.state = State::Suspended;
        }
        state
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
            Status::InSync {
                sync, is_degraded, ..
            } => {
                let state = if *is_degraded {
                    State::Degraded
                } else {
                    State::Ok
                };
                VolumeState {
                    sync: Some(*sync),
                    ..VolumeState::only(state)
                }
            }
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

fn from_cow_area(area: CowArea, working: State) -> VolumeState {
    match area {
        CowArea::Filled(fill) => VolumeState {
            fill: Some(fill),
            ..VolumeState::only(working)
        },
        CowArea::Invalid => VolumeState::only(State::Invalid),
        CowArea::MergeFailed => VolumeState::only(State::MergeFailed),
        CowArea::Unknown => VolumeState::only(State::Unknown),
    }
}

fn from_health(health: Health) -> State {
    match health {
        Health::Working => State::Ok,
        Health::ReadOnly => State::ReadOnly,
        Health::NeedsCheck => State::NeedsCheck,
        Health::Failed => State::Failed,
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
        state,
    }
}
