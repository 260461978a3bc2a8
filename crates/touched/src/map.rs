//! A volume that is measured by a map and its probes: the writes to each large area by the hour, and the chunks that were
//! written in a few of them.
//!
//! Of an age within an hour, the writes are taken in proportion. They only decide how much each probe weighs.

use std::collections::VecDeque;

use cowbell_units::Sectors;
use jiff::Timestamp;

use crate::curve::{AGES_MIN, Areas, ChunkCurve, Curve};
use crate::estimate::{BLOCK, Estimate, ProbeResult, Writes, estimate};
use crate::label::{Probe, Role, are_complete};
use crate::statistics::MAX_AREAS;
use crate::text::{AreaWrites, Region, Written};

/// Older hours are forgotten.
const HOURS: usize = AGES_MIN[AGES_MIN.len() - 1] as usize / 60;
const MINUTES: u32 = 60;
/// A log or a copied file writes each block of an area once, within two of the known hours, and then goes on elsewhere. No
/// probe waits there, and writes at random places would leave out a third of the blocks. Fewer hours do not show it.
const HOURS_OF_A_PASS: usize = 2;
const LEAST_HOURS: usize = 6;
const BLOCKS_OF_A_PASS: std::ops::RangeInclusive<f64> = 0.9..=1.1;
/// Areas of a probe: as many as `cowbell size` creates, and some.
const MOST_OF_PROBE: usize = 4096;

/// A volume that is measured by a map.
pub struct MappedVolume {
    map: WriteMap,
    /// Empty until all of them exist.
    probes: Vec<ProbeAreas>,
    is_thin: bool,
}

/// What the writes to the whole volume touch within an age, in chunks.
#[derive(Clone, Copy, Default)]
struct Expected {
    /// At random places, on average.
    at_random: f64,
    at_most: f64,
    /// In areas that something passed through from end to end. The others are in the two above.
    passed: f64,
}

/// A value for each of [`AGES_MIN`].
type ByAge<T> = [T; AGES_MIN.len()];

/// The writes to each area of a map. Two bytes an area and hour: more writes touch nearly every chunk of it.
struct WriteMap {
    /// The size of an area and of the volume in bytes.
    step: u64,
    length: u64,
    /// Since the beginning, for the mean size of a write.
    totals: Vec<(u32, u32)>,
    /// The current hour first.
    hours: VecDeque<Vec<u16>>,
    /// Of the current hour.
    minutes: u32,
}

/// A probe and its chunks.
struct ProbeAreas {
    /// The kernel's number of the region.
    id: u64,
    /// Its place in the volume, in bytes.
    start: u64,
    length: u64,
    probability: f64,
    areas: Areas,
}

impl MappedVolume {
    /// A map with areas of `step`, of a volume of `length`. Nothing is known before now.
    pub fn new(step: Sectors, length: Sectors, is_thin: bool) -> Self {
        Self {
            map: WriteMap::new(step.bytes(), length.bytes()),
            probes: Vec::new(),
            is_thin,
        }
    }

    /// So many minutes have passed, with these writes to the map, and these regions on the volume.
    pub fn advance(
        &mut self,
        minutes: u32,
        written: &[AreaWrites],
        regions: &[Region],
        had_discards: bool,
    ) {
        self.map.advance(minutes, written);
        let found: Vec<(&Region, Probe)> = regions
            .iter()
            .filter_map(|region| match region.role {
                Role::Probe(probe) => Some((region, probe)),
                _ => None,
            })
            .collect();
        let is_known = found.len() == self.probes.len()
            && found
                .iter()
                .zip(&self.probes)
                .all(|((region, _), known)| region.id == known.id)
            && found.iter().all(|(region, _)| region.written.is_some());
        if !is_known {
            self.begin(&found);
            return;
        }
        for ((region, _), probe) in found.iter().zip(&mut self.probes) {
            if let Some(Written::Areas(written)) = &region.written {
                probe.areas.advance(minutes, written, had_discards);
            }
        }
    }

    /// Begins with these probes, if they are all.
    fn begin(&mut self, found: &[(&Region, Probe)]) {
        let are_complete = are_complete(&found.iter().map(|(_, probe)| *probe).collect::<Vec<_>>());
        let probe = |(region, probe): &(&Region, Probe)| ProbeAreas {
            id: region.id,
            start: region.start.bytes(),
            length: region.length.bytes(),
            probability: probe.probability,
            areas: Areas::new(
                region.areas().min(MOST_OF_PROBE),
                region.step.bytes(),
                self.is_thin,
            ),
        };
        self.probes = found.iter().filter(|_| are_complete).map(probe).collect();
    }

    /// The curves of all chunk sizes that the probes tell; without probes there is none.
    pub fn curve(&self, at: Timestamp) -> Curve {
        let Self {
            map,
            probes,
            is_thin,
        } = self;
        let curves: Vec<Curve> = probes.iter().map(|probe| probe.areas.curve(at)).collect();
        let Some(first) = curves.first() else {
            return Curve {
                at,
                is_thin: *is_thin,
                measured_min: 0,
                discarded_min: None,
                chunks: Vec::new(),
            };
        };
        let fits = |of: &&ChunkCurve| probes.iter().all(|probe| of.bytes <= probe.length);
        let chunks = first
            .chunks
            .iter()
            .filter(fits)
            .map(|of| of_chunk(map, probes, &curves, of));
        Curve {
            chunks: chunks.collect(),
            ..first.clone()
        }
    }
}

impl WriteMap {
    fn new(step: u64, length: u64) -> Self {
        let count = length.div_ceil(step).min(MAX_AREAS) as usize;
        Self {
            step,
            length,
            totals: vec![(0, 0); count],
            hours: [vec![0; count]].into(),
            minutes: 0,
        }
    }

    /// So many minutes have passed, in which these writes were made.
    fn advance(&mut self, minutes: u32, written: &[AreaWrites]) {
        self.minutes += minutes.min(HOURS as u32 * MINUTES);
        while self.minutes > MINUTES {
            self.minutes -= MINUTES;
            self.hours.push_front(vec![0; self.totals.len()]);
            self.hours.truncate(HOURS + 1);
        }
        let Some(hour) = self.hours.front_mut() else {
            return;
        };
        for AreaWrites {
            area,
            writes,
            sectors,
        } in written
        {
            let (Some(total), Some(of_hour)) = (self.totals.get_mut(*area), hour.get_mut(*area))
            else {
                continue;
            };
            let bounded = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
            *total = match (
                total.0.checked_add(bounded(*writes)),
                total.1.checked_add(bounded(sectors.0)),
            ) {
                (Some(count), Some(of_sectors)) => (count, of_sectors),
                // Only the ratio of the two matters.
                _ => (total.0 / 2, total.1 / 2),
            };
            *of_hour = of_hour.saturating_add(u16::try_from(*writes).unwrap_or(u16::MAX));
        }
    }

    /// The writes to an area within each age, and at most.
    fn writes(&self, area: usize) -> ByAge<(Writes, Writes)> {
        let (count, sectors) = self.totals[area];
        let sectors_of_one = f64::from(sectors) / f64::from(count.max(1));
        let writes = |count: f64| Writes {
            count,
            sectors: count * sectors_of_one,
        };
        let mut hours = self
            .hours
            .iter()
            .zip(std::iter::once(self.minutes).chain(std::iter::repeat(MINUTES)));
        let mut hour = hours.next();
        // What was written in all hours within the age, and their minutes.
        let (mut before, mut begin) = (0.0, 0);
        AGES_MIN.map(u32::from).map(|age| {
            while let Some((counts, minutes)) = hour.filter(|(_, minutes)| age >= begin + minutes) {
                before += f64::from(counts[area]);
                begin += minutes;
                hour = hours.next();
            }
            let (of_hour, minutes) = hour.map_or((0.0, 1), |(counts, minutes)| {
                (f64::from(counts[area]), minutes)
            });
            let part = f64::from(age - begin) / f64::from(minutes.max(1));
            let at_most = if age > begin {
                before + of_hour
            } else {
                before
            };
            (writes(before + of_hour * part), writes(at_most))
        })
    }

    /// Of the area at this place, with its size; `None` if the map does not reach it.
    fn writes_at(&self, start: u64) -> Option<(ByAge<(Writes, Writes)>, u64)> {
        let area = self.area_at(start)?;
        Some((self.writes(area), self.bytes(area)))
    }

    fn area_at(&self, start: u64) -> Option<usize> {
        usize::try_from(start / self.step)
            .ok()
            .filter(|area| *area < self.totals.len())
    }

    /// The size of an area; the last one may be smaller.
    fn bytes(&self, area: usize) -> u64 {
        self.step.min(self.length - area as u64 * self.step)
    }

    /// Whether something passed through an area once, from end to end.
    fn is_passed(&self, area: usize) -> bool {
        let is_written = |counts: &Vec<u16>| counts[area] > 0;
        let (latest, earliest) = (
            self.hours.iter().position(is_written),
            self.hours.iter().rposition(is_written),
        );
        let is_short = latest
            .zip(earliest)
            .is_some_and(|(latest, earliest)| earliest - latest < HOURS_OF_A_PASS);
        let (_, all) = self.writes(area)[AGES_MIN.len() - 1];
        self.hours.len() >= LEAST_HOURS
            && is_short
            && BLOCKS_OF_A_PASS.contains(&(all.blocks() * BLOCK / self.bytes(area) as f64))
    }

    /// The chunks that the writes to the whole volume touch on average at random places, and at most.
    fn expected(&self, chunk: u64) -> ByAge<Expected> {
        let mut sums = [Expected::default(); AGES_MIN.len()];
        for area in (0..self.totals.len()).filter(|area| self.totals[*area].0 > 0) {
            let chunks = self.bytes(area).div_ceil(chunk) as f64;
            let writes = self.writes(area);
            if self.is_passed(area) {
                for (sum, (writes, _)) in sums.iter_mut().zip(writes) {
                    sum.passed += writes.most_chunks(chunks);
                }
                continue;
            }
            // The mean size of a write is the same at each age.
            let missed = writes[AGES_MIN.len() - 1]
                .0
                .missed_by_one(chunks, chunk as f64);
            for (sum, (writes, at_most)) in sums.iter_mut().zip(writes) {
                sum.at_random += chunks * (1.0 - missed.powf(writes.count));
                sum.at_most += at_most.most_chunks(chunks);
            }
        }
        sums
    }
}

fn of_chunk(
    map: &WriteMap,
    probes: &[ProbeAreas],
    curves: &[Curve],
    of: &ChunkCurve,
) -> ChunkCurve {
    let expected = map.expected(of.bytes);
    let areas: Vec<_> = probes
        .iter()
        .filter_map(|probe| map.writes_at(probe.start))
        .collect();
    let is_passed = |probe: &ProbeAreas| {
        map.area_at(probe.start)
            .is_some_and(|area| map.is_passed(area))
    };
    let is_passed: Vec<bool> = probes.iter().map(is_passed).collect();
    let counts = |curve: &Curve| {
        curve
            .chunks
            .iter()
            .find(|other| other.bytes == of.bytes)
            .map(|of| of.counts.clone())
    };
    let counts: Vec<Vec<u64>> = curves.iter().filter_map(counts).collect();
    let estimates: Vec<Estimate> =
        (0..of.counts.len())
            .map(|age| {
                let found = probes.iter().zip(&areas).zip(&counts).map(
                    |((probe, (writes, bytes)), counts)| ProbeResult {
                        chunks: counts[age] as f64 * *bytes as f64 / probe.length as f64,
                        expected: writes[age]
                            .0
                            .expected_chunks(bytes.div_ceil(of.bytes) as f64, of.bytes as f64),
                        probability: probe.probability,
                    },
                );
                let found = found
                    .zip(&is_passed)
                    .filter(|(_, is_passed)| !**is_passed)
                    .map(|(found, _)| found);
                let Expected {
                    at_random,
                    at_most,
                    passed,
                } = expected[age];
                let found = estimate(&found.collect::<Vec<_>>(), at_random, at_most);
                Estimate {
                    least: found.least + passed,
                    chunks: found.chunks + passed,
                    most: found.most + passed,
                }
            })
            .collect();
    // A longer window holds all chunks of a shorter one.
    let rising = |value: fn(&Estimate) -> f64| {
        let mut most = 0.0_f64;
        let mut rise = |estimate: &Estimate| {
            most = most.max(value(estimate));
            most.round() as u64
        };
        estimates.iter().map(&mut rise).collect::<Vec<u64>>()
    };
    ChunkCurve {
        bytes: of.bytes,
        least: rising(|estimate| estimate.least),
        counts: rising(|estimate| estimate.chunks),
        most: rising(|estimate| estimate.most),
    }
}
