//! What thick snapshots cost: how much was copied aside for them, and on which PVs.
//!
//! Everything follows from what the devices did. An origin lies on a device `-real`, and so do its snapshots; each
//! snapshot has its COW area, `-cow`. What was read of `-real`, but neither by the origin nor through a snapshot, the
//! kernel's copier read. Source: `drivers/md/dm-snap.c`.

use serde::{Deserialize, Serialize};

use super::{Interval, Work};
use crate::topology::{Device, State, Volume, VolumeKind};

/// What the thick snapshots of one origin cost in an interval, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copying {
    /// Written to the origin by whoever uses it.
    pub origin_written: u64,
    /// Written to the device below the origin.
    pub real_written: u64,
    /// Read by the copier. It may come out a little below zero in one interval and above in the next, since a request
    /// is not counted on all layers at the same instant.
    pub copied: i64,
    /// Written to all COW areas: copies, the snapshots' own metadata, and what was written into the snapshots.
    pub cow_written: u64,
    /// Of that, what was written into the snapshots themselves: journal replay, recovery.
    pub into_snapshots: u64,
}

/// The part of a device's work that was copying for snapshots, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub read: u64,
    pub written: u64,
}

impl Copying {
    /// Bytes written to disks for one byte written to the origin; `None` where nothing was written to it.
    ///
    /// What was written into the snapshots themselves is no cost of writing to the origin, and left out.
    pub fn write_cost(&self) -> Option<f64> {
        let cost = self.real_written + self.cow_written.saturating_sub(self.into_snapshots);
        (self.origin_written > 0).then(|| cost as f64 / self.origin_written as f64)
    }

    pub fn copied_bytes(&self) -> u64 {
        u64::try_from(self.copied).unwrap_or_default()
    }
}

impl Interval {
    /// What the thick snapshots of `volume`, or of its origin, cost; `None` where it has none, or it is not known.
    pub fn copying(&self, volume: &Volume) -> Option<Copying> {
        let origin = self.origin_of(volume)?;
        let work = |index: Option<usize>| self.devices.get(index?)?.work;
        let (top, real) = (work(origin.device)?, work(origin.real)?);
        let mut copying = Copying {
            origin_written: top.sectors_written.bytes(),
            real_written: real.sectors_written.bytes(),
            copied: signed(real.sectors_read.bytes()) - signed(top.sectors_read.bytes()),
            ..Copying::default()
        };
        for snapshot in self.thick_snapshots(origin) {
            let (top, cow) = (work(snapshot.device)?, work(snapshot.cow)?);
            copying.copied -= through_real(&top, &cow);
            copying.cow_written += cow.sectors_written.bytes();
            copying.into_snapshots += top.sectors_written.bytes();
        }
        Some(copying)
    }

    /// Whether there is a thick snapshot in the group of this PV.
    pub fn may_copy(&self, pv: &Device) -> bool {
        let is_one =
            |volume: &Volume| volume.kind == VolumeKind::Snapshot && Some(&volume.vg) == pv.vg.as_ref();
        self.topology.volumes.iter().any(is_one)
    }

    /// The part of a PV's work that was copying. `None` where it is not known: without snapshots it is nothing, but of
    /// an origin or a COW area that lies on several PVs nobody knows how much was on which.
    pub fn share(&self, pv: &Device) -> Option<Share> {
        let mut share = Share::default();
        let origins = self.topology.volumes.iter().filter(|volume| volume.real.is_some());
        for origin in origins.filter(|origin| self.thick_snapshots(origin).next().is_some()) {
            let snapshots = || self.thick_snapshots(origin);
            let touches = |volume: &Volume| volume.pvs.iter().any(|name| **name == *pv.name);
            if !touches(origin) && !snapshots().any(touches) {
                continue;
            }
            let copied = self.copying(origin)?.copied_bytes();
            share.read += on_this(origin, pv, copied)?;
            for snapshot in snapshots() {
                let cow = self.devices.get(snapshot.cow?)?.work?;
                let into_it = self.devices.get(snapshot.device?)?.work?.sectors_written.bytes();
                share.written += on_this(snapshot, pv, cow.sectors_written.bytes().saturating_sub(into_it))?;
            }
        }
        Some(share)
    }

    /// The origin that a volume is, or is a thick snapshot of. Not one that a snapshot is being merged into: what is
    /// read of it then is read for the merge.
    pub(super) fn origin_of<'a>(&'a self, volume: &'a Volume) -> Option<&'a Volume> {
        let origin = match volume.kind {
            VolumeKind::Snapshot => self.topology.volumes.iter().find(|other| {
                other.vg == volume.vg && Some(&other.lv) == volume.origin.as_ref() && other.real.is_some()
            }),
            _ => volume.real.map(|_| volume),
        }?;
        let state = self.volumes().find(|(other, _)| other.uuid == origin.uuid).map(|(_, state)| state.state);
        let has_snapshots = self.thick_snapshots(origin).next().is_some();
        (state != Some(State::Merging) && has_snapshots).then_some(origin)
    }

    pub(super) fn thick_snapshots<'a>(&'a self, origin: &'a Volume) -> impl Iterator<Item = &'a Volume> {
        self.topology.volumes.iter().filter(|other| {
            other.kind == VolumeKind::Snapshot
                && other.vg == origin.vg
                && other.origin.as_ref() == Some(&origin.lv)
        })
    }
}

/// What was read through a snapshot and not from its COW area was read of the origin's device.
fn through_real(snapshot: &Work, cow: &Work) -> i64 {
    signed(snapshot.sectors_read.bytes()) - signed(cow.sectors_read.bytes())
}

/// All of it where the volume lies on this PV alone, nothing where it does not lie on it or there is nothing.
fn on_this(volume: &Volume, pv: &Device, bytes: u64) -> Option<u64> {
    let touches = volume.pvs.iter().any(|name| **name == *pv.name);
    match volume.pvs.len() {
        _ if bytes == 0 || !touches => Some(0),
        1 => Some(bytes),
        _ => None,
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
