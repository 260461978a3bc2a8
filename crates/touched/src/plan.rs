//! What can be counted with the memory, what it costs, and where the probes of a map are. Pure arithmetic but for random
//! numbers.
//!
//! For each area the kernel has counters for each processor that the machine could have, also for those that it lacks:
//! 120 + 104 bytes for each processor, measured with Linux 6.1 and as computed from `struct dm_stat_percpu`.

use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use cowbell_units::{SECTOR, size_text};

use crate::estimate::{Choice, PROBES, Writes, choose};
use crate::label::{Label, Probe, Role};
use crate::statistics::{MAX_AREAS, NewRegion, Place, RegionEntry};

/// Kernel memory without `--memory`.
const USUAL_MEMORY: ByteSize = ByteSize(64 << 20);
/// The chunk sizes of thick snapshots: powers of two in this range. The finest is LVM's default, and tells all others.
const FINEST: u64 = 4 << 10;
const COARSEST: u64 = 512 << 10;
/// Chunks of an area of a map: fewer than that are better counted in a larger area.
const LEAST_OF_AREA: u64 = 256;
/// Chunks of a probe. In a larger area it has only a part.
pub const MOST_OF_PROBE: u64 = 512;
/// Larger areas have places of all kinds, so that one part tells little of the rest.
const COARSEST_MAP: u64 = 64 << 20;
/// Bytes of an area without, and for each, processor.
const AREA: u64 = 120;
const AREA_PER_PROCESSOR: u64 = 104;
/// Bytes of a region without, and for each further, processor that the kernel was built for.
const REGION: u64 = 136;
const REGION_PER_PROCESSOR: u64 = 8;

/// A number of bytes, such as `64MiB`, `64M` or `512k`. All units are binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
            "k" | "kib" => Some(10),
            "m" | "mib" => Some(20),
            "g" | "gib" => Some(30),
            _ => None,
        };
        let bytes = shift.and_then(|shift| number.parse::<u64>().ok()?.checked_mul(1 << shift));
        bytes
            .filter(|bytes| *bytes > 0)
            .map(Self)
            .ok_or_else(|| "expected a size such as 64KiB or 64MiB".into())
    }
}

/// The processors that counters are kept for.
#[derive(Clone, Copy)]
pub struct Processors {
    pub possible: u64,
    /// The highest number of a processor that the kernel was built for.
    pub highest: u64,
}

impl Processors {
    /// From the texts of `possible` and `kernel_max` in `/sys/devices/system/cpu`.
    pub fn parse(possible: &str, highest: &str) -> anyhow::Result<Self> {
        Ok(Self {
            possible: count(possible.trim()).with_context(|| {
                format!("expected processors such as 0-7, but found {possible:?}")
            })?,
            highest: highest
                .trim()
                .parse()
                .with_context(|| format!("expected a number, but found {highest:?}"))?,
        })
    }
}

/// The number of processors in `0-3,8`.
fn count(list: &str) -> Option<u64> {
    let length = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u64>()
            .ok()?
            .checked_sub(first.parse().ok()?)?
            .checked_add(1)
    };
    list.split(',').map(length).sum()
}

/// The volume to measure.
#[derive(Clone, Debug, Default)]
pub struct MeasuredVolume {
    /// `vg0/mysql`
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// For a thin volume, the chunk size of its pool in bytes.
    pub pool_chunk: Option<u64>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The chunks of the whole volume.
    Whole(Grid),
    /// The writes to large areas of the whole volume, and the chunks of some of them.
    Mapped { map: Grid, probe: Grid },
}

/// Areas of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The size of an area in bytes.
    pub step: u64,
    pub areas: u64,
}

impl Plan {
    /// All chunks if they fit the memory, otherwise the finest map that does.
    pub fn of(
        volume: &MeasuredVolume,
        memory: Option<ByteSize>,
        chunk: Option<ByteSize>,
        processors: Processors,
    ) -> anyhow::Result<Self> {
        let ByteSize(memory) = memory.unwrap_or(USUAL_MEMORY);
        let step = match chunk {
            Some(chunk) => checked(chunk, volume)?,
            None => volume.pool_chunk.unwrap_or(FINEST),
        };
        let whole = Self::Whole(Grid::covering(volume.size, step));
        let finest = step.saturating_mul(LEAST_OF_AREA);
        let coarsest = finest.max(COARSEST_MAP);
        let maps = std::iter::successors(Some(finest), |of_map| of_map.checked_mul(2));
        let maps = maps.take_while(|of_map| *of_map <= coarsest);
        let mapped = maps.map(|of_map| Self::mapped(volume.size, of_map, step));
        let plans: Vec<Self> = std::iter::once(whole)
            .chain(mapped)
            .filter(|plan| plan.areas() <= MAX_AREAS)
            .collect();
        let memories = || plans.iter().map(|plan| plan.memory(processors));
        if let Some((plan, _)) = plans
            .iter()
            .zip(memories())
            .find(|(_, needed)| *needed <= memory)
        {
            return Ok(*plan);
        }
        let Some(least) = memories().min() else {
            bail!(
                "cannot watch {}: it is too large; choose a larger --chunk",
                volume.name
            )
        };
        bail!(
            "cannot watch {}: the counters need at least {} of kernel memory, and --memory allows {}; to use that much, start \
             it with --memory {}",
            volume.name,
            size_text(least),
            size_text(memory),
            if least > 1 << 20 {
                format!("{}MiB", least.div_ceil(1 << 20))
            } else {
                format!("{}KiB", least.div_ceil(1 << 10))
            }
        )
    }

    fn mapped(size: u64, of_map: u64, step: u64) -> Self {
        let of_probe = of_map.min(step.saturating_mul(MOST_OF_PROBE));
        Self::Mapped {
            map: Grid::covering(size, of_map),
            probe: Grid::covering(of_probe, step),
        }
    }

    /// The areas of the region that has the whole volume.
    fn areas(&self) -> u64 {
        match self {
            Self::Whole(grid) | Self::Mapped { map: grid, .. } => grid.areas,
        }
    }

    /// What the kernel needs for it, in bytes.
    pub fn memory(&self, processors: Processors) -> u64 {
        let of_region = |grid: &Grid| {
            let area = AREA + AREA_PER_PROCESSOR * processors.possible;
            grid.areas.saturating_mul(area) + REGION + REGION_PER_PROCESSOR * processors.highest
        };
        match self {
            Self::Whole(grid) => of_region(grid),
            Self::Mapped { map, probe } => of_region(map) + of_region(probe) * PROBES as u64,
        }
    }

    /// Its regions, with those that are created later.
    pub fn regions(&self) -> usize {
        match self {
            Self::Whole(_) => 1,
            Self::Mapped { .. } => 1 + PROBES,
        }
    }

    /// The region to begin with.
    pub fn first_region(&self, now_ms: i64) -> NewRegion {
        let (grid, role) = match self {
            Self::Whole(grid) => (grid, Role::Whole),
            Self::Mapped { map, probe } => (
                map,
                Role::Map {
                    chunk: probe.step / SECTOR,
                },
            ),
        };
        NewRegion {
            place: Place::WholeDevice,
            step: grid.step / SECTOR,
            label: Label::new(now_ms, role),
        }
    }
}

impl Grid {
    fn covering(size: u64, step: u64) -> Self {
        Self {
            step,
            areas: size.div_ceil(step),
        }
    }
}

fn checked(chunk: ByteSize, volume: &MeasuredVolume) -> anyhow::Result<u64> {
    let ByteSize(step) = chunk;
    match volume.pool_chunk {
        Some(chunk) => ensure!(
            step.is_multiple_of(chunk),
            "expected a --chunk for {} that is a multiple of its pool's chunk, {}, but found {}",
            volume.name,
            size_text(chunk),
            size_text(step)
        ),
        None => ensure!(
            step.is_power_of_two() && (FINEST..=COARSEST).contains(&step),
            "expected a --chunk of 4, 8, 16, 32, 64, 128, 256 or 512 KiB, as snapshots have, but found {}",
            size_text(step)
        ),
    }
    Ok(step)
}

/// The probes of a map, in areas chosen by the writes to them so far: the regions to create, with areas of `chunk` sectors; none without writes. Random numbers are from 0 to 1.
pub fn place_probes(
    map: &RegionEntry,
    chunk: u64,
    writes: &[Writes],
    created_ms: i64,
    mut random: impl FnMut() -> f64,
) -> Vec<NewRegion> {
    let length_of = |area: usize| map.step.min(map.length - area as u64 * map.step);
    let expected = writes.iter().enumerate().map(|(area, writes)| {
        writes.expected_chunks(
            length_of(area).div_ceil(chunk) as f64,
            (chunk * SECTOR) as f64,
        )
    });
    let choices = choose(&expected.collect::<Vec<f64>>(), PROBES, random());
    let count = choices.len();
    let region = |(index, choice): (usize, &Choice)| {
        let of_area = length_of(choice.area);
        let length = of_area.min(chunk * MOST_OF_PROBE);
        // One of the parts of the area, all as large as the probe.
        let part = (random() * (of_area / length) as f64) as u64;
        let start = choice.area as u64 * map.step + part * length;
        let probe = Probe {
            index,
            count,
            probability: choice.probability,
        };
        let label = Label::new(created_ms, Role::Probe(probe));
        NewRegion {
            place: Place::Extent { start, length },
            step: chunk,
            label,
        }
    };
    choices.iter().enumerate().map(region).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn volume(size: u64, pool_chunk: Option<u64>) -> MeasuredVolume {
        MeasuredVolume {
            name: "vg0/data".into(),
            size,
            pool_chunk,
        }
    }

    const PROCESSORS: Processors = Processors {
        possible: 8,
        highest: 511,
    };
    /// Of an area and of a region, in bytes.
    const OF_AREA: u64 = 120 + 8 * 104;
    const OF_REGION: u64 = 136 + 8 * 511;

    fn plan(
        size: u64,
        pool_chunk: Option<u64>,
        memory: &str,
        chunk: Option<&str>,
    ) -> Result<Plan, String> {
        let bytes = |text: &str| text.parse::<ByteSize>().unwrap();
        let plan = Plan::of(
            &volume(size, pool_chunk),
            Some(bytes(memory)),
            chunk.map(bytes),
            PROCESSORS,
        );
        plan.map_err(|error| error.to_string())
    }

    #[test]
    fn all_chunks_are_counted_if_they_fit() {
        let check = |size, pool_chunk, chunk, step, areas: u64| {
            let found = plan(size, pool_chunk, "64MiB", chunk).unwrap();
            assert_eq!(found, Plan::Whole(Grid { step, areas }));
            assert_eq!(found.memory(PROCESSORS), areas * OF_AREA + OF_REGION);
        };
        check(GIB / 4, None, None, 4 * KIB, 65_536);
        check(GIB / 4 + 1, None, None, 4 * KIB, 65_537);
        check(4 * GIB, None, Some("64k"), 64 * KIB, 65_536);
        check(34 * GIB, None, Some("512k"), 512 * KIB, 69_632);
        check(GIB, None, Some("32k"), 32 * KIB, 32_768);
        check(4 * GIB, Some(64 * KIB), None, 64 * KIB, 65_536);
        check(8 * GIB, Some(192 * KIB), None, 192 * KIB, 43_691);
        check(8 * GIB, Some(64 * KIB), Some("128k"), 128 * KIB, 65_536);
    }

    #[test]
    fn larger_volumes_have_the_finest_map_that_fits() {
        let check = |size, pool_chunk, chunk, of_map: u64, probe: (u64, u64)| {
            let found = plan(size, pool_chunk, "64MiB", chunk).unwrap();
            let map = Grid {
                step: of_map,
                areas: size.div_ceil(of_map),
            };
            let probe = Grid {
                step: probe.0,
                areas: probe.1,
            };
            assert_eq!(found, Plan::Mapped { map, probe });
            let areas = map.areas + 32 * probe.areas;
            assert_eq!(found.memory(PROCESSORS), areas * OF_AREA + 33 * OF_REGION);
            assert!(found.memory(PROCESSORS) <= 64 * MIB);
        };
        check(GIB, None, None, MIB, (4 * KIB, 256));
        check(60 * GIB, None, None, MIB, (4 * KIB, 256));
        check(100 * GIB, None, None, 2 * MIB, (4 * KIB, 512));
        check(1024 * GIB, None, None, 32 * MIB, (4 * KIB, 512));
        check(100 * GIB, None, Some("64k"), 16 * MIB, (64 * KIB, 256));
        check(100 * GIB, Some(64 * KIB), None, 16 * MIB, (64 * KIB, 256));
        check(100 * GIB, None, Some("512k"), 128 * MIB, (512 * KIB, 256));
    }

    #[test]
    fn a_size_that_cannot_be_used_is_refused_with_the_way_out() {
        let check = |size, pool_chunk, memory, chunk, expected: &str| {
            assert_eq!(plan(size, pool_chunk, memory, chunk), Err(expected.into()));
        };
        check(
            10 * 1024 * GIB,
            None,
            "64MiB",
            None,
            "cannot watch vg0/data: the counters need at least 164 MiB of kernel memory, and --memory allows 64.0 MiB; to use \
             that much, start it with --memory 164MiB",
        );
        check(
            16 * MIB,
            None,
            "1k",
            None,
            "cannot watch vg0/data: the counters need at least 3.72 MiB of kernel memory, and --memory allows 1.00 KiB; to use \
             that much, start it with --memory 4MiB",
        );
        check(
            80 * 1024 * 1024 * GIB,
            None,
            "8GiB",
            None,
            "cannot watch vg0/data: it is too large; choose a larger --chunk",
        );
        check(
            GIB,
            None,
            "64MiB",
            Some("1M"),
            "expected a --chunk of 4, 8, 16, 32, 64, 128, 256 or 512 KiB, as snapshots have, but found 1.00 MiB",
        );
        check(
            GIB,
            Some(64 * KIB),
            "64MiB",
            Some("96k"),
            "expected a --chunk for vg0/data that is a multiple of its pool's chunk, 64.0 KiB, but found 96.0 KiB",
        );
    }

    #[test]
    fn sizes_have_binary_units() {
        for (text, expected) in [
            ("64MiB", Some(64 * MIB)),
            ("64m", Some(64 * MIB)),
            ("4k", Some(4096)),
            ("1 GiB", Some(GIB)),
        ] {
            assert_eq!(text.parse().ok(), expected.map(ByteSize), "{text}");
        }
        for text in ["", "64", "k", "0k", "-4k", "4.5k", "99999999999G", "4kb"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn processors_are_counted() {
        for (list, expected) in [
            ("0", Some(1)),
            ("0-7", Some(8)),
            ("0-3,8", Some(5)),
            ("", None),
            ("3-1", None),
        ] {
            assert_eq!(count(list), expected, "{list}");
        }
    }

    #[test]
    fn probes_are_in_the_areas_that_are_written_to() {
        // Areas of 4 MiB, the last one of 1 MiB; chunks of 4 KiB.
        let label = Label::parse("1/map/8");
        let map = RegionEntry {
            id: 0,
            start: 0,
            length: 8192 * 9 + 2048,
            step: 8192,
            label,
        };
        let mut writes = vec![Writes::default(); 10];
        writes[2] = Writes {
            count: 500.0,
            sectors: 4000.0,
        };
        writes[9] = Writes {
            count: 50.0,
            sectors: 400.0,
        };
        let regions = place_probes(&map, 8, &writes, 7, || 0.999);
        let has = |start, length| {
            regions
                .iter()
                .any(|region| region.place == Place::Extent { start, length })
        };
        assert!(
            has(8192 * 2 + 4096, 4096) && has(8192 * 9, 2048),
            "{regions:?}"
        );
        let is_one_of_all = |region: &NewRegion| match region.label.role {
            Role::Probe(probe) => probe.count == regions.len(),
            _ => false,
        };
        assert!(
            regions
                .iter()
                .all(|region| region.step == 8 && is_one_of_all(region))
        );
        assert!(place_probes(&map, 8, &[Writes::default(); 10], 7, || 0.5).is_empty());
    }
}
