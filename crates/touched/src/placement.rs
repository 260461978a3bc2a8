//! Where the probes of a map are: in areas chosen by the writes to them so far. Pure but for the random numbers.

use cowbell_units::SECTOR;

use crate::estimate::{Choice, PROBES, Writes, choose};
use crate::label::{Label, Probe, Role};
use crate::statistics::{NewRegion, Place, RegionEntry};

/// Chunks of a probe. In a larger area it has only a part.
pub const MOST_OF_PROBE: u64 = 512;

/// The regions to create, with areas of `chunk` sectors; none without writes. Random numbers are from 0 to 1.
pub fn place(
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
        let regions = place(&map, 8, &writes, 7, || 0.999);
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
        assert!(place(&map, 8, &[Writes::default(); 10], 7, || 0.5).is_empty());
    }
}
