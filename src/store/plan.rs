//! Which segments answer a question: the roll-ups that are fine enough, and beside them whatever has not become one yet,
//! or is all that is left.

use super::seal::Segment;
use super::segment::Level;

/// A segment to be read, and the instants of which it tells: those in `covered` are told by finer ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub segment: Segment,
    /// Inclusive, in milliseconds.
    pub covered: Vec<(i64, i64)>,
}

/// For each level, the number up to which segments of the level below have gone into it.
pub type RolledUntil = [i64; Level::ALL.len()];

/// The coarsest level that does for points of this width: at least two of its rows for each.
pub fn level_for(width_ms: i64) -> Level {
    let does = |level: &Level| level.row_ms() * 2 <= width_ms;
    Level::ALL.into_iter().rev().find(does).unwrap_or(Level::Ticks)
}

/// Which of these segments tell of their time at `level`, without telling anything twice.
///
/// A coarser segment is left out where all that it was made of is there, and else tells of what the finer ones do not. A
/// finer one is used while it has not gone into a segment of the level.
pub fn plan(level: Level, segments: &[Segment], rolled_until: &RolledUntil) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for segment in segments.iter().filter(|segment| is_of(segment, level, rolled_until)) {
        parts.push(Part { segment: segment.clone(), covered: Vec::new() });
    }
    let coarser = Level::ALL.into_iter().filter(|other| *other > level);
    for segment in coarser.flat_map(|coarser| of(segments, coarser)) {
        if !is_told(segment, level, segments) {
            let covered = parts.iter().filter(|part| overlap(&part.segment, segment));
            let covered = covered.map(|part| (part.segment.from_ms, part.segment.to_ms)).collect();
            parts.push(Part { segment: segment.clone(), covered });
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

fn of(segments: &[Segment], level: Level) -> impl Iterator<Item = &Segment> {
    segments.iter().filter(move |segment| segment.level() == level)
}

fn overlap(one: &Segment, other: &Segment) -> bool {
    one.from_ms <= other.to_ms && other.from_ms <= one.to_ms
}

/// Whether all that this segment was made of is there, down to `level`.
fn is_told(segment: &Segment, level: Level, segments: &[Segment]) -> bool {
    if segment.level() <= level {
        return true;
    }
    let (Some(finer), Some(first), Some(last)) =
        (segment.level().finer(), segment.first_source, segment.last_source)
    else {
        return false;
    };
    let mut next = first;
    for source in of(segments, finer).filter(|source| (first..=last).contains(&source.number())) {
        if source.number() != next || !is_told(source, level, segments) {
            return false;
        }
        // A roll-up has the number of the first segment of ticks in it.
        next = end_of(source, segments);
    }
    next > last
}

/// The number of the segment that follows at the same level.
fn end_of(segment: &Segment, segments: &[Segment]) -> i64 {
    match (segment.level().finer(), segment.last_source) {
        (Some(Level::Ticks), Some(last)) => last + 1,
        (Some(finer), Some(last)) => of(segments, finer)
            .find(|source| source.number() == last)
            .map_or(last + 1, |source| end_of(source, segments)),
        _ => segment.number() + 1,
    }
}
