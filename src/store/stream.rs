//! Streams: the values of a device, a volume or the host over time, each with a fixed number of integer columns.
//!
//! Converts a device's work, a volume's state and so on to columns and back, and lists the quantities of each kind.
//! Changing columns, quantities or their order needs a migration.

use serde::{Deserialize, Serialize};

use crate::interval::copying::Share;
use crate::interval::{CpuWork, Host, Work};
use crate::series::Observation;
use crate::series::quantity::{
    DeviceQuantity, HostQuantity, Quantity, ShareQuantity, VolumeQuantity,
};
use crate::topology::{State, VolumeState};
use crate::units::{Fill, Sectors};

/// Bits of a stream's number for its kind.
pub const KIND_BITS: u32 = 3;

/// The kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    Host,
    Device,
    /// The part of a PV's work that was copying for snapshots.
    Copying,
    Volume,
}

/// A device, a volume or the host over time, by the number of its row in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stream {
    pub kind: Kind,
    pub row: u32,
}

impl Stream {
    pub const HOST: Self = Self {
        kind: Kind::Host,
        row: 0,
    };
    /// The host's total, which counts each byte once.
    pub const TOTAL: Self = Self {
        kind: Kind::Device,
        row: 0,
    };
    /// Numbers of rows are below this.
    pub const MOST_ROWS: u32 = 1 << 21;

    pub fn new(kind: Kind, row: u32) -> Self {
        Self { kind, row }
    }

    /// Below 2²⁴.
    pub fn number(self) -> u32 {
        self.row << KIND_BITS | self.kind as u32
    }

    /// `None` if there is no such kind.
    pub fn numbered(number: u32) -> Option<Self> {
        let kind = Kind::ALL.get((number & ((1 << KIND_BITS) - 1)) as usize)?;
        Some(Self {
            kind: *kind,
            row: number >> KIND_BITS,
        })
    }
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Host, Self::Device, Self::Copying, Self::Volume];
    /// No kind has more columns.
    pub const MOST_COLUMNS: usize = 12;

    /// The number of columns in a tick's rows.
    pub fn columns(self) -> usize {
        match self {
            Self::Host => 12,
            Self::Device => 8,
            Self::Copying => 2,
            Self::Volume => 9,
        }
    }

    /// In the order of the columns in roll-ups.
    pub fn quantities(self) -> &'static [Quantity] {
        match self {
            Self::Host => &HOST,
            Self::Device => &DEVICE,
            Self::Copying => &COPYING,
            Self::Volume => &VOLUME,
        }
    }

    /// The value of a quantity in a tick with these columns.
    pub fn observe(self, quantity: Quantity, row: &[u64], elapsed_us: u64) -> Option<Observation> {
        match quantity {
            Quantity::Host(quantity) => quantity.observe(&host_of(row), elapsed_us),
            Quantity::Device(quantity) => quantity.observe(&work_of(row), elapsed_us),
            Quantity::Share(quantity) => quantity.observe(
                &Share {
                    read: row[0],
                    written: row[1],
                },
                elapsed_us,
            ),
            Quantity::Volume(quantity) => quantity.observe(&volume_of(row)),
        }
    }
}

const HOST: [Quantity; 7] = [
    Quantity::Host(HostQuantity::BiKibPerS),
    Quantity::Host(HostQuantity::BoKibPerS),
    Quantity::Host(HostQuantity::User),
    Quantity::Host(HostQuantity::System),
    Quantity::Host(HostQuantity::Iowait),
    Quantity::Host(HostQuantity::Blocked),
    Quantity::Host(HostQuantity::PressureIoSome),
];
const DEVICE: [Quantity; 10] = [
    Quantity::Device(DeviceQuantity::ReadBytes),
    Quantity::Device(DeviceQuantity::WrittenBytes),
    Quantity::Device(DeviceQuantity::Reads),
    Quantity::Device(DeviceQuantity::Writes),
    Quantity::Device(DeviceQuantity::ReadAwaitMs),
    Quantity::Device(DeviceQuantity::WriteAwaitMs),
    Quantity::Device(DeviceQuantity::ReadRequestBytes),
    Quantity::Device(DeviceQuantity::WriteRequestBytes),
    Quantity::Device(DeviceQuantity::QueueDepth),
    Quantity::Device(DeviceQuantity::Utilisation),
];
const COPYING: [Quantity; 2] = [
    Quantity::Share(ShareQuantity::CopyReadBytes),
    Quantity::Share(ShareQuantity::CopyWrittenBytes),
];
const VOLUME: [Quantity; 3] = [
    Quantity::Volume(VolumeQuantity::FillPercent),
    Quantity::Volume(VolumeQuantity::UsedBytes),
    Quantity::Volume(VolumeQuantity::MetadataPercent),
];

impl From<Quantity> for Kind {
    fn from(quantity: Quantity) -> Self {
        match quantity {
            Quantity::Host(_) => Self::Host,
            Quantity::Device(_) => Self::Device,
            Quantity::Share(_) => Self::Copying,
            Quantity::Volume(_) => Self::Volume,
        }
    }
}

pub fn work_columns(work: &Work) -> [u64; 8] {
    [
        work.reads,
        work.sectors_read.0,
        work.read_ms.into(),
        work.writes,
        work.sectors_written.0,
        work.write_ms.into(),
        work.busy_ms.into(),
        work.queue_ms.into(),
    ]
}

fn work_of(row: &[u64]) -> Work {
    let ms = |column: usize| u32::try_from(row[column]).unwrap_or(u32::MAX);
    Work {
        reads: row[0],
        sectors_read: Sectors(row[1]),
        read_ms: ms(2),
        writes: row[3],
        sectors_written: Sectors(row[4]),
        write_ms: ms(5),
        busy_ms: ms(6),
        queue_ms: ms(7),
    }
}

/// A flag column says whether a value is known; unknown values are 0.
pub fn host_columns(host: &Host) -> [u64; 12] {
    let (paged_in, paged_out) = host.paged_kib.unwrap_or_default();
    let cpu = host.cpu.unwrap_or_default();
    [
        host.paged_kib.is_some().into(),
        paged_in,
        paged_out,
        host.cpu.is_some().into(),
        cpu.user,
        cpu.system,
        cpu.iowait,
        cpu.total,
        host.blocked.is_some().into(),
        host.blocked.unwrap_or_default().into(),
        host.pressure_us.is_some().into(),
        host.pressure_us.unwrap_or_default(),
    ]
}

fn host_of(row: &[u64]) -> Host {
    let known = |column: usize| row[column] != 0;
    Host {
        paged_kib: known(0).then(|| (row[1], row[2])),
        cpu: known(3).then(|| CpuWork {
            user: row[4],
            system: row[5],
            iowait: row[6],
            total: row[7],
        }),
        blocked: known(8).then(|| u32::try_from(row[9]).unwrap_or(u32::MAX)),
        pressure_us: known(10).then(|| row[11]),
    }
}

/// All but a mirror's sync progress.
pub fn volume_columns(volume: &VolumeState) -> [u64; 9] {
    let fill =
        |fill: Option<Fill>| fill.map_or([0; 4], |fill| [1, fill.used, fill.total, fill.unit]);
    let mut columns = [0; 9];
    columns[..4].copy_from_slice(&fill(volume.fill));
    columns[4..8].copy_from_slice(&fill(volume.metadata));
    columns[8] = volume.state as u64;
    columns
}

pub fn volume_of(row: &[u64]) -> VolumeState {
    let fill = |at: usize| {
        (row[at] != 0).then(|| Fill {
            used: row[at + 1],
            total: row[at + 2],
            unit: row[at + 3],
        })
    };
    let state = usize::try_from(row[8])
        .ok()
        .and_then(|number| State::ALL.get(number).copied());
    VolumeState {
        fill: fill(0),
        metadata: fill(4),
        sync: None,
        state: state.unwrap_or(State::Unknown),
    }
}
