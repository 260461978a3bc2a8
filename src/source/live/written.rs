//! The text about regions of statistics: what was written to each of their areas since the previous reading.
//!
//! For each region it has a line `MAJOR:MINOR<TAB>DM-UUID<TAB>ID START+LENGTH STEP ROLE` in sectors, without a role if the
//! region has the chunks of the whole volume. An indented line follows: `first` if nothing is known, `none`, or the areas
//! that were written to, such as `0-5 9`. A map has `AREA:WRITES:SECTORS` for each.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::source::dm::call::major_minor;
use crate::source::dm::label::Role;
use crate::source::dm::stats::{AreaCounters, RegionEntry};

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
    let number = major_minor(device);
    let role = if label.role == Role::Whole {
        String::new()
    } else {
        format!(" {}", label.role)
    };
    let written = before
        .and_then(|before| written(before, now))
        .unwrap_or_else(|| "first".into());
    let _ = writeln!(
        text,
        "{number}\t{uuid}\t{id} {start}+{length} {step}{role}\n\t{written}"
    );
}

/// The areas with more writes than before; `None` if it is not the same region any more.
fn written(before: &RegionCounters, now: &RegionCounters) -> Option<String> {
    let pairs = || before.areas.iter().zip(&now.areas);
    let went_back = |(before, now): (&AreaCounters, &AreaCounters)| {
        now.writes < before.writes || now.sectors < before.sectors
    };
    if before.region != now.region || pairs().any(went_back) {
        return None;
    }
    let words = match now.region.label.role {
        Role::Map { .. } => counts(pairs()),
        _ => ranges(
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

fn counts<'a>(pairs: impl Iterator<Item = (&'a AreaCounters, &'a AreaCounters)>) -> Vec<String> {
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

fn ranges(grown: &[bool]) -> Vec<String> {
    let mut words = Vec::new();
    let mut first = 0;
    for areas in grown.chunk_by(|a, b| a == b) {
        let last = first + areas.len() - 1;
        match areas[0] {
            true if first == last => words.push(first.to_string()),
            true => words.push(format!("{first}-{last}")),
            false => {}
        }
        first = last + 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::dm::label::Label;

    fn region(label: &str, writes: &[u64]) -> RegionCounters {
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

    fn check(label: &str, before: &[u64], now: &[u64], expected: &str) {
        let mut text = String::new();
        describe(
            0xfd03,
            "LVM-x",
            &region(label, now),
            Some(&region(label, before)),
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
        check("1", &[0, 0, 0, 0], &[0, 0, 0, 0], "none");
        check("1", &[0, 1, 0, 0], &[5, 2, 0, 9], "0-1 3");
        check("1", &[0, 1, 0, 0], &[1, 2, 3, 4], "0-3");
        check("1/0/32/0.500000000", &[7, 1, 0, 0], &[7, 2, 1, 0], "1-2");
        // A counter went back, or the region's size changed.
        check("1", &[7, 1, 0, 0], &[6, 2, 1, 0], "first");
        check("1", &[7, 1, 0], &[7, 2, 1, 0], "first");
    }

    #[test]
    fn a_map_has_the_writes_to_each_area() {
        check("1/map/8", &[0, 1, 0, 0], &[5, 1, 0, 9], "0:5:80 3:9:144");
        check("1/map/8", &[0, 1, 0, 0], &[0, 1, 0, 0], "none");
    }

    #[test]
    fn a_new_region_with_an_old_number_is_read_for_the_first_time() {
        assert_eq!(written(&region("1", &[1]), &region("2", &[2])), None);
        assert_eq!(
            written(&region("1", &[1]), &region("1", &[2])).as_deref(),
            Some("0")
        );
    }
}
