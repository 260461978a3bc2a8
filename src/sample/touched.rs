//! Regions of device-mapper statistics, and the areas of each that were written to since the previous reading.
//!
//! `source/live/written.rs` describes the text. An invalid line takes its region with it, and affects no other one.

use std::ops::Range;

use super::diskstats::Number;
use crate::source::dm::label::Role;
use crate::units::Sectors;

/// A region of statistics on a volume, and what was written there since the previous reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// The volume's device, as in `/proc/diskstats`.
    pub number: Number,
    /// The volume's device-mapper UUID, `LVM-` and the UUIDs of group and volume, which survives a new name or number.
    pub dm_uuid: String,
    /// The kernel's number of the region, which it uses again once the region is deleted.
    pub id: u64,
    pub start: Sectors,
    pub length: Sectors,
    /// The size of each area; the last one may be smaller.
    pub step: Sectors,
    pub role: Role,
    /// `None` at the region's first reading, when nothing is known.
    pub written: Option<Written>,
}

/// What was written since the previous reading, in ascending order of areas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The areas that were written to.
    Areas(Vec<Range<usize>>),
    /// Of a map: the writes to each area.
    Counts(Vec<AreaWrites>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaWrites {
    pub area: usize,
    pub writes: u64,
    pub sectors: Sectors,
}

impl Region {
    /// The number of areas.
    pub fn areas(&self) -> usize {
        usize::try_from(self.length.0.div_ceil(self.step.0)).unwrap_or(usize::MAX)
    }
}

/// Parses the regions; also returns invalid lines. An empty text means that there are no regions any more.
pub fn parse(text: &str) -> (Vec<Region>, Vec<String>) {
    let (mut regions, mut unparsed) = (Vec::new(), Vec::new());
    let mut lines = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .peekable();
    while let Some(line) = lines.next() {
        let areas = lines.next_if(|next| next.starts_with('\t') && !line.starts_with('\t'));
        match areas.and_then(|areas| region(line, areas)) {
            Some(region) => regions.push(region),
            None => unparsed.extend([Some(line), areas].into_iter().flatten().map(String::from)),
        }
    }
    (regions, unparsed)
}

fn region(line: &str, areas: &str) -> Option<Region> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [number, dm_uuid, region] = columns[..] else {
        return None;
    };
    let words: Vec<&str> = region.split(' ').collect();
    let (id, extent, step, role) = match words[..] {
        [id, extent, step] => (id, extent, step, Role::Whole),
        [id, extent, step, role] => (id, extent, step, Role::parse(role)),
        _ => return None,
    };
    let (start, length) = extent.split_once('+')?;
    let sectors = |text: &str| text.parse().ok().map(Sectors);
    let region = Region {
        number: number.parse().ok()?,
        dm_uuid: Some(dm_uuid).filter(|uuid| !uuid.is_empty())?.into(),
        id: id.parse().ok()?,
        start: sectors(start)?,
        length: sectors(length)?,
        step: sectors(step).filter(|step| step.0 > 0)?,
        role,
        written: None,
    };
    let words = areas.split_whitespace().filter(|word| *word != "none");
    let written = match (areas.trim_start(), role) {
        ("first", _) => None,
        (_, Role::Map { .. }) => Some(Written::Counts(counts(words, region.areas())?)),
        _ => Some(Written::Areas(written(words, region.areas())?)),
    };
    Some(Region { written, ..region })
}

/// `0:5:40 9:1:8` of so many areas.
fn counts<'a>(words: impl Iterator<Item = &'a str>, areas: usize) -> Option<Vec<AreaWrites>> {
    let mut end = 0;
    let count = |word: &str| {
        let numbers: Vec<&str> = word.split(':').collect();
        let [area, writes, sectors] = numbers[..] else {
            return None;
        };
        let area = area
            .parse()
            .ok()
            .filter(|area| (end..areas).contains(area))?;
        end = area + 1;
        Some(AreaWrites {
            area,
            writes: writes.parse().ok()?,
            sectors: Sectors(sectors.parse().ok()?),
        })
    };
    words.map(count).collect()
}

/// `0-5 9` of so many areas.
fn written<'a>(words: impl Iterator<Item = &'a str>, areas: usize) -> Option<Vec<Range<usize>>> {
    let mut end = 0;
    let range = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        let is_valid = end <= first && first <= last && last < areas;
        end = last.checked_add(1)?;
        is_valid.then_some(first..end)
    };
    words.map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "LVM-ItZNPisw1YqMR0M1uiKz8lnAXbZGUKiOYSAcT6J7pWWXJAvyngnkLAzEHyRzaUS5";

    fn found(role: &str, areas: &str) -> Option<Option<Written>> {
        let text = format!("253:3\t{UUID}\t2 0+100 8{role}\n\t{areas}\n");
        let (regions, unparsed) = parse(&text);
        assert_eq!(
            (regions.len(), unparsed.len()),
            if regions.is_empty() { (0, 2) } else { (1, 0) },
            "{areas}"
        );
        regions.into_iter().next().map(|region| region.written)
    }

    #[test]
    #[expect(
        clippy::single_range_in_vec_init,
        reason = "one range of areas is meant"
    )]
    fn written_areas_are_ranges() {
        let areas_of = |expected: Option<Vec<Range<usize>>>| Some(expected.map(Written::Areas));
        for (areas, expected) in [
            ("first", Some(None)),
            ("none", Some(Some(vec![]))),
            ("0-5 9 11-12", Some(Some(vec![0..6, 9..10, 11..13]))),
            ("12", Some(Some(vec![12..13]))),
            // The region has 13 areas.
            ("13", None),
            ("0-13", None),
            ("5-4", None),
            ("5 5", None),
            ("9 2", None),
            ("0-18446744073709551615", None),
            ("-1", None),
        ] {
            assert_eq!(
                found("", areas),
                expected.clone().and_then(areas_of),
                "{areas}"
            );
            assert_eq!(
                found(" 3/32/0.5", areas),
                expected.and_then(areas_of),
                "{areas}"
            );
        }
    }

    #[test]
    fn areas_of_a_map_have_their_writes() {
        let count = |area, writes, sectors| AreaWrites {
            area,
            writes,
            sectors: Sectors(sectors),
        };
        for (areas, expected) in [
            ("first", Some(None)),
            ("none", Some(Some(vec![]))),
            (
                "0:5:40 12:1:8",
                Some(Some(vec![count(0, 5, 40), count(12, 1, 8)])),
            ),
            ("13:1:8", None),
            ("5:1:8 5:1:8", None),
            ("0-5", None),
            ("1:2", None),
            ("1:2:3:4", None),
            ("1:-2:3", None),
        ] {
            assert_eq!(
                found(" map/8", areas),
                expected.map(|counts| counts.map(Written::Counts)),
                "{areas}"
            );
        }
    }

    #[test]
    fn an_invalid_line_takes_only_its_region_with_it() {
        let text = format!(
            "253:3\t{UUID}\t0 8+16 8\n\tfirst\nrubbish\n\t0-5\n253:4\tLVM-x\t1 0+8 0\n\tnone\n253:5\tLVM-y\t1 0+8 8\n253:6\tLVM-z\t7 0+8 8\n\t0\n\t1\n"
        );
        let (regions, unparsed) = parse(&text);
        let first = Region {
            number: Number {
                major: 253,
                minor: 3,
            },
            dm_uuid: UUID.into(),
            id: 0,
            start: Sectors(8),
            length: Sectors(16),
            step: Sectors(8),
            role: Role::Whole,
            written: None,
        };
        assert_eq!(regions[0], first);
        assert_eq!(
            regions[1..]
                .iter()
                .map(|region| region.id)
                .collect::<Vec<_>>(),
            [7]
        );
        assert_eq!(
            unparsed,
            [
                "rubbish",
                "\t0-5",
                "253:4\tLVM-x\t1 0+8 0",
                "\tnone",
                "253:5\tLVM-y\t1 0+8 8",
                "\t1"
            ]
        );
        assert_eq!(parse(""), (Vec::new(), Vec::new()));
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n|\t|253:0\tLVM-a\t0 0\\+80 8\n\t|[0-9]|-|none)*") {
            parse(&text);
        }
    }
}
