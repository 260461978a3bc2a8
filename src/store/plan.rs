//! Which segments answer a question: the roll-ups that are fine enough, and beside them whatever has not become one yet,
//! or is all that is left.

use super::seal::Segment;
use super::segment::Level;

/// A segment to be read, and which segments of ticks others tell of.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub segment: Segment,
    /// Numbers from-to, inclusive.
    pub covered: Vec<(i64, i64)>,
}

/// The coarsest level that does for points of this width: at least two of its rows for each.
pub fn level_for(width_ms: i64) -> Level {
    let does = |level: &Level| level.row_ms() * 2 <= width_ms;
    Level::ALL.into_iter().rev().find(does).unwrap_or(Level::Ticks)
}

/// The segments that cover their time at `level`, with nothing in two of them.
///
/// Where a segment of the level is not made yet, what it will be made of takes its place. Where that is deleted, a coarser
/// one does, without the rows that finer segments have. Clocks have no part in it: they jump.
pub fn plan(level: Level, segments: &[Segment]) -> Vec<Part> {
    let finer = Level::ALL.into_iter().filter(|other| *other <= level).rev();
    let coarser = Level::ALL.into_iter().filter(|other| *other > level);
    let mut parts: Vec<Part> = Vec::new();
    for level in finer.chain(coarser) {
        let told = told(&parts);
        for segment in segments.iter().filter(|segment| segment.level() == level) {
            let covered = overlapping(&told, segment.numbers());
            if !is_whole(covered, segment.numbers()) {
                parts.push(Part { segment: segment.clone(), covered: covered.to_vec() });
            }
        }
    }
    parts.sort_by_key(|part| (part.segment.from_ms, part.segment.id));
    parts
}

/// The numbers of which these tell, as ranges that neither overlap nor touch, ascending.
fn told(parts: &[Part]) -> Vec<(i64, i64)> {
    let mut ranges: Vec<(i64, i64)> = parts.iter().map(|part| part.segment.numbers()).collect();
    ranges.sort_unstable();
    let mut told: Vec<(i64, i64)> = Vec::new();
    for (first, last) in ranges {
        match told.last_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => told.push((first, last)),
        }
    }
    told
}

/// Those of `told` that have numbers in common with these.
fn overlapping(told: &[(i64, i64)], (first, last): (i64, i64)) -> &[(i64, i64)] {
    let begin = told.partition_point(|range| range.1 < first);
    let end = told.partition_point(|range| range.0 <= last);
    &told[begin..end.max(begin)]
}

/// Whether these leave no number out.
fn is_whole(covered: &[(i64, i64)], (first, last): (i64, i64)) -> bool {
    covered.first().is_some_and(|range| range.0 <= first && last <= range.1)
}
