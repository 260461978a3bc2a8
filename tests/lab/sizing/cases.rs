//! The volumes that are measured and then have snapshots.

use crate::workload::Kind;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// A volume.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub size: u64,
    pub place: Place,
    /// The areas of its exact region in bytes, if it has one.
    pub exact: Option<u64>,
    /// Whether it has a map with probes.
    pub is_mapped: bool,
    /// The chunk sizes of its snapshots. A thin one has those of the pool.
    pub chunks: &'static [u64],
    pub is_steady: bool,
}

/// What writes there.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// To the volume, whose blocks are not kept.
    Raw(Kind),
    /// To a thin volume, alone in a pool with chunks of so many bytes.
    Thin(Kind, u64),
    /// To a file on XFS.
    File(Kind),
    /// A MariaDB on XFS.
    Database,
}

/// Each is counted exactly in areas of a chunk that the default memory allows for it.
const EXACT: [Case; 14] = [
    exact("uniform4", 4 * KIB, Kind::Uniform { each_minute: 60 }),
    exact(
        "zipf4",
        4 * KIB,
        Kind::Zipf {
            each_minute: 90,
            skew: 0.9,
        },
    ),
    exact(
        "hot4",
        4 * KIB,
        Kind::Hot {
            each_minute: 80,
            extents: 12,
            extent: MIB,
            share: 0.85,
        },
    ),
    exact(
        "innodb4",
        4 * KIB,
        Kind::InnoDb {
            pages: 12,
            redo: 16 * MIB,
            skew: 0.8,
        },
    ),
    exact("uniform64", 64 * KIB, Kind::Uniform { each_minute: 70 }),
    exact(
        "zipf64",
        64 * KIB,
        Kind::Zipf {
            each_minute: 100,
            skew: 1.1,
        },
    ),
    exact(
        "hot64",
        64 * KIB,
        Kind::Hot {
            each_minute: 90,
            extents: 20,
            extent: 8 * MIB,
            share: 0.9,
        },
    ),
    exact(
        "innodb64",
        64 * KIB,
        Kind::InnoDb {
            pages: 20,
            redo: 64 * MIB,
            skew: 0.7,
        },
    ),
    exact("uniform512", 512 * KIB, Kind::Uniform { each_minute: 50 }),
    exact(
        "zipf512",
        512 * KIB,
        Kind::Zipf {
            each_minute: 80,
            skew: 0.8,
        },
    ),
    exact(
        "hot512",
        512 * KIB,
        Kind::Hot {
            each_minute: 70,
            extents: 16,
            extent: 64 * MIB,
            share: 0.8,
        },
    ),
    exact(
        "innodb512",
        512 * KIB,
        Kind::InnoDb {
            pages: 20,
            redo: 128 * MIB,
            skew: 0.6,
        },
    ),
    Case {
        is_steady: false,
        ..exact(
            "bursts4",
            4 * KIB,
            Kind::Bursts {
                each_minute: 10,
                factor: 40,
            },
        )
    },
    Case {
        is_steady: false,
        ..exact(
            "bursts64",
            64 * KIB,
            Kind::Bursts {
                each_minute: 15,
                factor: 30,
            },
        )
    },
];

/// Too large to count each of their chunks.
const MAPPED: [Case; 9] = [
    mapped("m_uniform", 16 * GIB, Kind::Uniform { each_minute: 150 }),
    mapped(
        "m_zipf",
        16 * GIB,
        Kind::Zipf {
            each_minute: 250,
            skew: 1.0,
        },
    ),
    mapped(
        "m_hot",
        8 * GIB,
        Kind::Hot {
            each_minute: 200,
            extents: 24,
            extent: 4 * MIB,
            share: 0.8,
        },
    ),
    mapped(
        "m_innodb",
        8 * GIB,
        Kind::InnoDb {
            pages: 40,
            redo: 256 * MIB,
            skew: 0.8,
        },
    ),
    mapped("m_uniform2", 4 * GIB, Kind::Uniform { each_minute: 80 }),
    mapped(
        "m_zipf2",
        4 * GIB,
        Kind::Zipf {
            each_minute: 120,
            skew: 0.7,
        },
    ),
    mapped(
        "m_hot2",
        4 * GIB,
        Kind::Hot {
            each_minute: 150,
            extents: 10,
            extent: 2 * MIB,
            share: 0.6,
        },
    ),
    mapped(
        "m_innodb2",
        16 * GIB,
        Kind::InnoDb {
            pages: 60,
            redo: 512 * MIB,
            skew: 0.6,
        },
    ),
    Case {
        is_steady: false,
        ..mapped(
            "m_bursts",
            8 * GIB,
            Kind::Bursts {
                each_minute: 20,
                factor: 30,
            },
        )
    },
];

const THIN: [Case; 2] = [
    thin(
        "thin64",
        64 * KIB,
        Kind::Zipf {
            each_minute: 60,
            skew: 0.8,
        },
    ),
    thin("thin512", 512 * KIB, Kind::Uniform { each_minute: 40 }),
];

/// These are made by the scenario: `/mnt/NAME` is where their file systems are.
const FILE_SYSTEMS: [Case; 2] = [
    file_system(
        "xfs",
        Place::File(Kind::Zipf {
            each_minute: 40,
            skew: 0.9,
        }),
    ),
    file_system("mariadb", Place::Database),
];

/// The bytes of the file on XFS.
pub const FILE_BYTES: u64 = 128 * MIB;

pub fn all() -> impl Iterator<Item = Case> {
    EXACT
        .into_iter()
        .chain(MAPPED)
        .chain(THIN)
        .chain(FILE_SYSTEMS)
}

const fn exact(name: &'static str, step: u64, kind: Kind) -> Case {
    let (size, chunks): (u64, &[u64]) = match step {
        4_096 => (128 * MIB, &[4 * KIB, 64 * KIB]),
        65_536 => (2 * GIB, &[64 * KIB, 512 * KIB]),
        _ => (8 * GIB, &[512 * KIB]),
    };
    Case {
        name,
        size,
        place: Place::Raw(kind),
        exact: Some(step),
        is_mapped: false,
        chunks,
        is_steady: true,
    }
}

const fn mapped(name: &'static str, size: u64, kind: Kind) -> Case {
    let chunks = &[4 * KIB, 64 * KIB, 512 * KIB];
    Case {
        name,
        size,
        place: Place::Raw(kind),
        exact: None,
        is_mapped: true,
        chunks,
        is_steady: true,
    }
}

const fn thin(name: &'static str, chunk: u64, kind: Kind) -> Case {
    let place = Place::Thin(kind, chunk);
    let size = if chunk > 64 * KIB { 8 * GIB } else { 2 * GIB };
    Case {
        name,
        size,
        place,
        exact: Some(chunk),
        is_mapped: false,
        chunks: &[],
        is_steady: true,
    }
}

const fn file_system(name: &'static str, place: Place) -> Case {
    let chunks = &[4 * KIB, 64 * KIB, 512 * KIB];
    Case {
        name,
        size: 0,
        place,
        exact: Some(4 * KIB),
        is_mapped: true,
        chunks,
        is_steady: true,
    }
}

impl Case {
    pub fn device(&self) -> std::path::PathBuf {
        format!("/dev/vg0/{}", self.name).into()
    }

    /// As in the device-mapper.
    pub fn dm_name(&self) -> String {
        format!("vg0-{}", self.name)
    }

    /// The chunk sizes to compare.
    pub fn compared(&self) -> Vec<u64> {
        match self.place {
            Place::Thin(_, chunk) => vec![chunk],
            _ => self.chunks.to_vec(),
        }
    }

    /// Its snapshot with chunks of this size.
    pub fn snapshot(&self, chunk: u64) -> String {
        format!("snap_{}_{}", self.name, chunk / KIB)
    }

    pub fn is_thin(&self) -> bool {
        matches!(self.place, Place::Thin(..))
    }
}
