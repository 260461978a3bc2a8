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

impl Part {
    /// Whether another part tells of the segment of ticks with this number.
    pub fn is_covered(&self, number: i64) -> bool {
        self.covered.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }
}

/// For each level, the number up to which segments of ticks have gone into it.
pub type RolledUntil = [i64; Level::ALL.len()];

/// The coarsest level that does for points of this width: at least two of its rows for each.
pub fn level_for(width_ms: i64) -> Level {
    let does = |level: &Level| level.row_ms() * 2 <= width_ms;
    Level::ALL.into_iter().rev().find(does).unwrap_or(Level::Ticks)
}

/// Which of these segments tell of their time at `level`, without telling anything twice.
///
/// A coarser segment is left out where all that it was made of is there, and else tells of what the finer ones do not. A
/// finer one is used while it has not gone into a segment of the level. Clocks have no part in it: they jump.
pub fn plan(level: Level, segments: &[Segment], rolled_until: &RolledUntil) -> Vec<Part> {
    let wanted = segments.iter().filter(|segment| is_of(segment, level, rolled_until));
    let mut parts: Vec<Part> =
        wanted.map(|segment| Part { segment: segment.clone(), covered: Vec::new() }).collect();
    for coarser in Level::ALL.into_iter().filter(|other| *other > level) {
        let told: Vec<(i64, i64)> = parts.iter().map(|part| part.segment.numbers()).collect();
        for segment in segments.iter().filter(|segment| segment.level() == coarser) {
            let covered = overlapping(&told, segment.numbers());
            if !is_whole(&covered, segment.numbers()) {
                parts.push(Part { segment: segment.clone(), covered });
            }
        }
    }
    parts.sort_by_key(|part| (part.segment.from_ms, part.segment.id));
    parts
}

/// Whether it is of this level, or finer and not yet part of one.
fn is_of(segment: &Segment, level: Level, rolled_until: &RolledUntil) -> bool {
    let at = segment.level();
    at == level || at < level && segment.number() > rolled_until[at as usize + 1]
}

/// Those of `told` that have numbers in common with these, ascending.
fn overlapping(told: &[(i64, i64)], (first, last): (i64, i64)) -> Vec<(i64, i64)> {
    let mut covered: Vec<_> = told.iter().copied().filter(|told| told.0 <= last && first <= told.1).collect();
    covered.sort_unstable();
    covered
}

/// Whether these, which are ascending, leave no number out.
fn is_whole(covered: &[(i64, i64)], (first, last): (i64, i64)) -> bool {
    let end =
        covered.iter().fold(first, |next, (from, to)| if *from <= next { next.max(to + 1) } else { next });
    end > last
}
