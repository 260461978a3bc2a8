//! Chooses the segments that cover a range: the roll-ups that are fine enough, and finer or coarser ones where those are
//! missing.

use super::seal::Segment;
use super::segment::Level;

/// A segment to read, and the segments of ticks that others cover.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub segment: Segment,
    /// Numbers from-to, inclusive.
    pub covered: Vec<(i64, i64)>,
}

/// The coarsest level with at least two rows for each point of this width.
pub fn level_for(width_ms: i64) -> Level {
    let does = |level: &Level| level.row_ms() * 2 <= width_ms;
    Level::ALL
        .into_iter()
        .rev()
        .find(does)
        .unwrap_or(Level::Ticks)
}

/// The segments to read at `level`, with each instant in one of them.
///
/// If a segment of the level does not exist yet, its sources are read. If those are deleted, a coarser segment is read,
/// without the rows that finer segments have. Segments are matched by number, since clocks jump.
pub fn plan(level: Level, segments: &[Segment]) -> Vec<Part> {
    let finer = Level::ALL.into_iter().filter(|other| *other <= level).rev();
    let coarser = Level::ALL.into_iter().filter(|other| *other > level);
    let mut parts: Vec<Part> = Vec::new();
    for level in finer.chain(coarser) {
        let read = numbers_of(&parts);
        for segment in segments.iter().filter(|segment| segment.level() == level) {
            let covered = overlapping(&read, segment.numbers());
            if !is_whole(covered, segment.numbers()) {
                parts.push(Part {
                    segment: segment.clone(),
                    covered: covered.to_vec(),
                });
            }
        }
    }
    parts.sort_by_key(|part| (part.segment.from_ms, part.segment.id));
    parts
}

/// The segments of ticks that the parts cover, as ascending ranges that neither overlap nor touch.
fn numbers_of(parts: &[Part]) -> Vec<(i64, i64)> {
    let mut ranges: Vec<(i64, i64)> = parts.iter().map(|part| part.segment.numbers()).collect();
    ranges.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

/// The ranges that overlap these numbers.
fn overlapping(ranges: &[(i64, i64)], (first, last): (i64, i64)) -> &[(i64, i64)] {
    let begin = ranges.partition_point(|range| range.1 < first);
    let end = ranges.partition_point(|range| range.0 <= last);
    &ranges[begin..end.max(begin)]
}

/// Whether the ranges include all of these numbers.
fn is_whole(covered: &[(i64, i64)], (first, last): (i64, i64)) -> bool {
    covered
        .first()
        .is_some_and(|range| range.0 <= first && last <= range.1)
}
