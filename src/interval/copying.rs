//! The cost of thick snapshots: bytes copied for them, and on which PVs.
//!
//! An origin and its snapshots lie on a device `-real`; each snapshot has a COW area, `-cow`. Reads of `-real` that came
//! neither from the origin nor through a snapshot are the kernel's copies. Source: `drivers/md/dm-snap.c`.
//!
//! Copies are attributed to a PV only if the volume lies on that PV alone, since the kernel does not count the I/O of
//! a volume for each PV.

use super::Interval;
use crate::topology::{Device, State, Volume};

/// The cost of one origin's thick snapshots in an interval, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copying {
    /// Written to the origin by its users.
    pub origin_written: u64,
    /// Written to the device below the origin.
    pub real_written: u64,
    /// Read for copies. Layers count a request at different instants, so this can be slightly negative in one interval and
    /// too high in the next.
    pub copied: i64,
    /// Written to all COW areas: copies, metadata, and writes to the snapshots.
    pub cow_written: u64,
    /// The part of `cow_written` that was written to the snapshots themselves: journal replay, recovery.
    pub into_snapshots: u64,
}

/// The part of a device's I/O that was copying for snapshots, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub read: u64,
    pub written: u64,
}

impl Copying {
    /// Bytes written to disks per byte written to the origin; `None` without writes to the origin.
    ///
    /// Excludes writes to the snapshots themselves.
    pub fn write_cost(&self) -> Option<f64> {
        let cost = self.real_written + self.cow_written.saturating_sub(self.into_snapshots);
        (self.origin_written > 0).then(|| cost as f64 / self.origin_written as f64)
    }

    pub fn copied_bytes(&self) -> u64 {
        u64::try_from(self.copied).unwrap_or_default()
    }
}

impl Interval {
    /// The cost of the thick snapshots of `volume` or its origin; `None` without snapshots or if unknown.
    pub fn copying(&self, volume: &Volume) -> Option<Copying> {
        let origin = self.copied_origin(volume)?;
        let work = |index: Option<usize>| Some(self.devices.get(index?)?.work);
        let (top, real) = (work(origin.device)?, work(origin.real)?);
        let mut copying = Copying {
            origin_written: top.written_bytes()?,
            real_written: real.written_bytes()?,
            copied: signed(real.read_bytes()?) - signed(top.read_bytes()?),
            ..Copying::default()
        };
        for snapshot in self.topology.thick_snapshots(origin) {
            let (top, cow) = (work(snapshot.device)?, work(snapshot.cow)?);
            // Reads through the snapshot that its origin's device served, and not its COW area.
            copying.copied -= signed(top.read_bytes()?) - signed(cow.read_bytes()?);
            copying.cow_written += cow.written_bytes()?;
            copying.into_snapshots += top.written_bytes()?;
        }
        Some(copying)
    }

    /// Whether this PV's group has a thick snapshot.
    pub fn may_copy(&self, pv: &Device) -> bool {
        let is_one =
            |volume: &Volume| volume.kind.is_thick_snapshot() && Some(&volume.vg) == pv.vg.as_ref();
        self.topology.volumes.iter().any(is_one)
    }

    /// The part of a PV's I/O that was copying. `None` if unknown: the kernel does not count how the I/O of an origin or COW
    /// area splits over several PVs.
    pub fn share(&self, pv: &Device) -> Option<Share> {
        let mut share = Share::default();
        let touches = |volume: &Volume| volume.pvs.iter().any(|name| **name == *pv.name);
        let written = |device: Option<usize>| self.devices.get(device?)?.work.written_bytes();
        let volumes = self.topology.volumes.iter();
        for origin in volumes.filter(|volume| volume.real.is_some()) {
            let snapshots: Vec<&Volume> = self.topology.thick_snapshots(origin).collect();
            let is_on_pv = touches(origin) || snapshots.iter().any(|snapshot| touches(snapshot));
            if snapshots.is_empty() || !is_on_pv {
                continue;
            }
            let copied = self.copying(origin)?.copied_bytes();
            share.read += bytes_on(origin, pv, copied)?;
            for snapshot in snapshots {
                let copied = written(snapshot.cow)?.saturating_sub(written(snapshot.device)?);
                share.written += bytes_on(snapshot, pv, copied)?;
            }
        }
        Some(share)
    }

    /// The origin that a volume is or that it is a thick snapshot of. Excludes origins of a merge, whose reads are the
    /// merge's.
    pub fn copied_origin<'a>(&'a self, volume: &'a Volume) -> Option<&'a Volume> {
        let origin = if volume.kind.is_thick_snapshot() {
            self.topology.origin_of(volume)?
        } else {
            volume
        };
        let is_merging = self
            .volume(&origin.uuid)
            .is_some_and(|(_, state)| state.state == State::Merging);
        let has_snapshots = self.topology.thick_snapshots(origin).next().is_some();
        (origin.real.is_some() && has_snapshots && !is_merging).then_some(origin)
    }
}

/// All bytes if the volume lies on this PV only, 0 if it does not lie on it; `None` if it also lies on others.
fn bytes_on(volume: &Volume, pv: &Device, bytes: u64) -> Option<u64> {
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
