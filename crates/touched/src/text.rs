//! The text about regions of statistics: what was written to each of their areas since the previous reading. One half
//! reads the counters and writes the text, the other parses it.
//!
//! For each region it has a line `MAJOR:MINOR<TAB>DM-UUID<TAB>ID START+LENGTH STEP ROLE` in sectors, without a role if the
//! region has the chunks of the whole volume. An indented line follows: `first` if nothing is known, `none`, or the areas
//! that were written to, such as `0-5 9`. A map has `AREA:WRITES:SECTORS` for each. An invalid line takes its region with it,
//! and affects no other one.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::ops::Range;

use cowbell_device_mapper::{Number, ioctl};
use cowbell_units::Sectors;
use rustix::io::Errno;

use crate::label::Role;
use crate::statistics::{AreaCounters, RegionEntry, StatsReader};

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

/// The regions at the previous reading, by the device's UUID and the region's number.
pub type Counters = HashMap<(String, u64), RegionCounters>;

/// A region at one reading.
pub struct RegionCounters {
    pub region: RegionEntry,
    pub areas: Vec<AreaCounters>,
}

/// Appends the lines of a region.
pub fn describe(
    device: u64,
    uuid: &str,
    now: &RegionCounters,
    before: Option<&RegionCounters>,
    text: &mut String,
) {
    let RegionEntry {
        id,
        start,
        length,
        step,
        label,
    } = &now.region;
    let number = Number::of_dev(device);
    let role = if label.role == Role::Whole {
        String::new()
    } else {
        format!(" {}", label.role)
    };
    let written = before
        .and_then(|before| written_text(before, now))
        .unwrap_or_else(|| "first".into());
    let _ = writeln!(
        text,
        "{number}\t{uuid}\t{id} {start}+{length} {step}{role}\n\t{written}"
    );
}

/// The areas with more writes than before; `None` if it is not the same region any more.
fn written_text(before: &RegionCounters, now: &RegionCounters) -> Option<String> {
    let pairs = || before.areas.iter().zip(&now.areas);
    let went_back = |(before, now): (&AreaCounters, &AreaCounters)| {
        now.writes < before.writes || now.sectors < before.sectors
    };
    if before.region != now.region || pairs().any(went_back) {
        return None;
    }
    let words = match now.region.label.role {
        Role::Map { .. } => count_words(pairs()),
        _ => range_words(
            &pairs()
                .map(|(before, now)| now.writes > before.writes)
                .collect::<Vec<_>>(),
        ),
    };
    Some(if words.is_empty() {
        "none".into()
    } else {
        words.join(" ")
    })
}

fn count_words<'a>(
    pairs: impl Iterator<Item = (&'a AreaCounters, &'a AreaCounters)>,
) -> Vec<String> {
    let grown = pairs
        .enumerate()
        .filter(|(_, (before, now))| now.writes > before.writes);
    let word = |(area, (before, now)): (usize, (&AreaCounters, &AreaCounters))| {
        format!(
            "{area}:{}:{}",
            now.writes - before.writes,
            now.sectors - before.sectors
        )
    };
    grown.map(word).collect()
}

fn range_words(grown: &[bool]) -> Vec<String> {
    let mut words = Vec::new();
    let mut first = 0;
    for areas in grown.chunk_by(|a, b| a == b) {
        let last = first + areas.len() - 1;
        if areas[0] && first == last {
            words.push(first.to_string());
        } else if areas[0] {
            words.push(format!("{first}-{last}"));
        }
        first = last + 1;
    }
    words
}

/// Reads all regions; returns the text, and the counters for the next reading. After an error these are the old ones.
pub fn read(before: Counters) -> (Result<String, String>, Counters) {
    match read_counters() {
        Ok(found) => {
            let mut text = String::new();
            for (device, uuid, now) in &found {
                describe(
                    *device,
                    uuid,
                    now,
                    before.get(&(uuid.clone(), now.region.id)),
                    &mut text,
                );
            }
            let counters = found
                .into_iter()
                .map(|(_, uuid, now)| ((uuid, now.region.id), now));
            (Ok(text), counters.collect())
        }
        Err(why) => (Err(why), before),
    }
}

/// The device, its UUID and the counters of each region.
fn read_counters() -> Result<Vec<(u64, String, RegionCounters)>, String> {
    let control = ioctl::open()?;
    let mut reader = StatsReader::default();
    let mut found = Vec::new();
    for device in reader.devices(&control)? {
        found.extend(device_counters(&mut reader, &control, device.number)?);
    }
    Ok(found)
}

fn device_counters(
    reader: &mut StatsReader,
    control: &File,
    device: u64,
) -> Result<Vec<(u64, String, RegionCounters)>, String> {
    let found = match reader.regions(control, device) {
        Ok(found) if found.is_volume() => found,
        // Another device, or one that is gone, or a kernel without statistics.
        Ok(_) | Err(Errno::NXIO | Errno::INVAL) => return Ok(Vec::new()),
        Err(errno) => {
            return Err(format!(
                "cannot list the statistics of {}: {errno}",
                Number::of_dev(device)
            ));
        }
    };
    let counters = found.regions.into_iter().map(|region| {
        let areas = reader.counters(control, device, &region)?;
        Ok((device, found.uuid.clone(), RegionCounters { region, areas }))
    });
    counters.collect()
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
        (_, Role::Map { .. }) => Some(Written::Counts(parse_counts(words, region.areas())?)),
        _ => Some(Written::Areas(parse_ranges(words, region.areas())?)),
    };
    Some(Region { written, ..region })
}

/// `0:5:40 9:1:8` of so many areas.
fn parse_counts<'a>(words: impl Iterator<Item = &'a str>, areas: usize) -> Option<Vec<AreaWrites>> {
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
fn parse_ranges<'a>(
    words: impl Iterator<Item = &'a str>,
    areas: usize,
) -> Option<Vec<Range<usize>>> {
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
    use crate::label::Label;

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

    fn counted(label: &str, writes: &[u64]) -> RegionCounters {
        let length = writes.len() as u64 * 8;
        let region = RegionEntry {
            id: 2,
            start: 0,
            length,
            step: 8,
            label: Label::parse(label),
        };
        let areas = writes.iter().map(|writes| AreaCounters {
            writes: *writes,
            sectors: writes * 16,
        });
        RegionCounters {
            region,
            areas: areas.collect(),
        }
    }

    fn check_text(label: &str, before: &[u64], now: &[u64], expected: &str) {
        let mut text = String::new();
        describe(
            0xfd03,
            "LVM-x",
            &counted(label, now),
            Some(&counted(label, before)),
            &mut text,
        );
        let role = label
            .split_once('/')
            .map(|(_, role)| format!(" {role}"))
            .unwrap_or_default();
        assert_eq!(
            text,
            format!(
                "253:3\tLVM-x\t2 0+{} 8{role}\n\t{expected}\n",
                now.len() * 8
            )
        );
    }

    #[test]
    fn areas_with_more_writes_are_ranges() {
        check_text("1", &[0, 0, 0, 0], &[0, 0, 0, 0], "none");
        check_text("1", &[0, 1, 0, 0], &[5, 2, 0, 9], "0-1 3");
        check_text("1", &[0, 1, 0, 0], &[1, 2, 3, 4], "0-3");
        check_text("1/0/32/0.500000000", &[7, 1, 0, 0], &[7, 2, 1, 0], "1-2");
        // A counter went back, or the region's size changed.
        check_text("1", &[7, 1, 0, 0], &[6, 2, 1, 0], "first");
        check_text("1", &[7, 1, 0], &[7, 2, 1, 0], "first");
    }

    #[test]
    fn a_map_has_the_writes_to_each_area() {
        check_text("1/map/8", &[0, 1, 0, 0], &[5, 1, 0, 9], "0:5:80 3:9:144");
        check_text("1/map/8", &[0, 1, 0, 0], &[0, 1, 0, 0], "none");
    }

    #[test]
    fn a_new_region_with_an_old_number_is_read_for_the_first_time() {
        assert_eq!(written_text(&counted("1", &[1]), &counted("2", &[2])), None);
        assert_eq!(
            written_text(&counted("1", &[1]), &counted("1", &[2])).as_deref(),
            Some("0")
        );
    }
}
