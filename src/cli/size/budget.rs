//! The size of the areas that fits the memory, and what it costs. Pure arithmetic.
//!
//! For each area the kernel has counters for each processor that the machine could have, also for those that it lacks:
//! 120 + 104 bytes for each processor, measured with Linux 6.1 and as computed from `struct dm_stat_percpu`.

use std::str::FromStr;

use anyhow::{Context, bail, ensure};

use super::subject::Subject;
use crate::source::dm::stats::MAX_AREAS;
use crate::source::files::Root;
use crate::units::{SECTOR, size_text};

/// Kernel memory without `--memory`.
const USUAL_MEMORY: ByteSize = ByteSize(64 << 20);
/// Chunk sizes that a thick snapshot is usually made with, from the finest.
const STEPS: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10];
/// The chunk sizes of thick snapshots: powers of two in this range.
const FINEST: u64 = STEPS[0];
const COARSEST: u64 = STEPS[4];
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
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
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
    pub fn of(root: &Root) -> anyhow::Result<Self> {
        let read = |name: &str| {
            root.keep(&format!("sys/devices/system/cpu/{name}")).read().map_err(anyhow::Error::msg)
        };
        let possible = read("possible")?;
        let count = count(possible.trim())
            .with_context(|| format!("expected processors such as 0-7, but found {possible:?}"))?;
        let highest = read("kernel_max")?;
        let highest =
            highest.trim().parse().with_context(|| format!("expected a number, but found {highest:?}"))?;
        Ok(Self { possible: count, highest })
    }
}

/// The number of processors in `0-3,8`.
fn count(list: &str) -> Option<u64> {
    let length = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    list.split(',').map(length).sum()
}

/// Areas of one size, which cover the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The size of an area in bytes.
    pub step: u64,
    pub areas: u64,
    /// What the kernel needs for it, in bytes.
    pub memory: u64,
}

impl Plan {
    /// The finest areas that fit, or those of the chunk size that was asked for.
    pub fn of(
        subject: &Subject,
        memory: Option<ByteSize>,
        chunk: Option<ByteSize>,
        processors: Processors,
    ) -> anyhow::Result<Self> {
        let ByteSize(memory) = memory.unwrap_or(USUAL_MEMORY);
        let steps = match chunk {
            Some(chunk) => vec![checked(chunk, subject)?],
            None => steps(subject.pool_chunk),
        };
        let plans: Vec<Self> = steps.iter().map(|step| Self::with(*step, subject.size, processors)).collect();
        let fits = |plan: &&Self| plan.memory <= memory && plan.areas <= MAX_AREAS;
        if let Some(plan) = plans.iter().find(fits) {
            return Ok(*plan);
        }
        let Some(last) = plans.last() else { bail!("cannot watch {}: it has no chunk size", subject.name) };
        ensure!(
            last.areas <= MAX_AREAS,
            "cannot watch {}: it has {} parts of {}, expected at most {MAX_AREAS}; choose a larger --chunk",
            subject.name,
            last.areas,
            size_text(last.step)
        );
        bail!(
            "cannot watch {}: parts of {} need {} of kernel memory, and --memory allows {}; to use that much, start it with \
             --memory {}MiB",
            subject.name,
            size_text(last.step),
            size_text(last.memory),
            size_text(memory),
            last.memory.div_ceil(1 << 20)
        )
    }

    fn with(step: u64, size: u64, processors: Processors) -> Self {
        let areas = size.div_ceil(step);
        let area = AREA + AREA_PER_PROCESSOR * processors.possible;
        let memory = areas.saturating_mul(area) + REGION + REGION_PER_PROCESSOR * processors.highest;
        Self { step, areas, memory }
    }

    /// The size of an area in sectors.
    pub fn sectors(self) -> u64 {
        self.step / SECTOR
    }
}

/// The sizes to try, from the finest. A thin pool copies whole chunks of its own, so only these and multiples are of use.
fn steps(pool_chunk: Option<u64>) -> Vec<u64> {
    let Some(chunk) = pool_chunk else { return STEPS.into() };
    let doubled = std::iter::successors(Some(chunk), |step| step.checked_mul(2));
    doubled.take_while(|step| *step == chunk || *step <= COARSEST).collect()
}

fn checked(chunk: ByteSize, subject: &Subject) -> anyhow::Result<u64> {
    let ByteSize(step) = chunk;
    match subject.pool_chunk {
        Some(chunk) => ensure!(
            step.is_multiple_of(chunk),
            "expected a --chunk for {} that is a multiple of its pool's chunk, {}, but found {}",
            subject.name,
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

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn subject(size: u64, pool_chunk: Option<u64>) -> Subject {
        Subject { name: "vg0/data".into(), size, pool_chunk, ..Subject::default() }
    }

    fn plan(
        size: u64,
        pool_chunk: Option<u64>,
        memory: &str,
        chunk: Option<&str>,
    ) -> Result<(u64, u64), String> {
        let processors = Processors { possible: 8, highest: 511 };
        let bytes = |text: &str| text.parse::<ByteSize>().unwrap();
        let plan = Plan::of(&subject(size, pool_chunk), Some(bytes(memory)), chunk.map(bytes), processors);
        plan.map(|plan| (plan.step, plan.memory)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_finest_areas_that_fit_are_chosen() {
        let check = |size, pool_chunk, memory, step, areas: u64| {
            assert_eq!(
                plan(size, pool_chunk, memory, None),
                Ok((step, areas * (120 + 8 * 104) + 136 + 8 * 511))
            );
        };
        check(GIB / 4, None, "64MiB", 4 * KIB, 65_536);
        check(GIB, None, "64MiB", 16 * KIB, 65_536);
        check(GIB + 1, None, "64MiB", 16 * KIB, 65_537);
        check(4 * GIB, None, "64MiB", 64 * KIB, 65_536);
        check(34 * GIB, None, "64MiB", 512 * KIB, 69_632);
        check(34 * GIB, None, "1GiB", 64 * KIB, 557_056);
        // A pool's chunk, and its multiples.
        check(4 * GIB, Some(64 * KIB), "64MiB", 64 * KIB, 65_536);
        check(8 * GIB, Some(64 * KIB), "64MiB", 128 * KIB, 65_536);
        check(8 * GIB, Some(192 * KIB), "64MiB", 192 * KIB, 43_691);
        check(GIB, Some(4 * MIB), "64MiB", 4 * MIB, 256);
    }

    #[test]
    fn a_size_that_cannot_be_used_is_refused_with_the_way_out() {
        let check = |size, pool_chunk, memory, chunk, expected: &str| {
            assert_eq!(plan(size, pool_chunk, memory, chunk), Err(expected.into()));
        };
        check(
            40 * GIB,
            None,
            "64MiB",
            None,
            "cannot watch vg0/data: parts of 512 KiB need 74.4 MiB of kernel memory, and --memory allows 64.0 MiB; to use \
             that much, start it with --memory 75MiB",
        );
        check(
            600 * GIB,
            None,
            "8GiB",
            None,
            "cannot watch vg0/data: it has 1228800 parts of 512 KiB, expected at most 1048576; choose a larger --chunk",
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
        assert_eq!(plan(GIB, None, "64MiB", Some("32k")).unwrap().0, 32 * KIB);
    }

    #[test]
    fn sizes_have_binary_units() {
        for (text, expected) in
            [("64MiB", Some(64 * MIB)), ("64m", Some(64 * MIB)), ("4k", Some(4096)), ("1 GiB", Some(GIB))]
        {
            assert_eq!(text.parse().ok(), expected.map(ByteSize), "{text}");
        }
        for text in ["", "64", "k", "0k", "-4k", "4.5k", "99999999999G", "4kb"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn processors_are_counted() {
        for (list, expected) in
            [("0", Some(1)), ("0-7", Some(8)), ("0-3,8", Some(5)), ("", None), ("3-1", None)]
        {
            assert_eq!(count(list), expected, "{list}");
        }
    }
}
