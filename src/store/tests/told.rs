//! Each instant is told once by the segments that are chosen, whatever was deleted and wherever clocks jumped.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;

use super::cases;
use super::course::{Numbers, course, segments};
use crate::store::plan::plan;
use crate::store::rollup;
use crate::store::seal::Segment;
use crate::store::segment::{Axis, Level};
use crate::store::tick::Tick;

/// Segments of all levels, each with its axis and with the ticks, by their place in the course, that each row is of.
#[derive(Debug, Default)]
struct Model {
    segments: Vec<Segment>,
    axes: HashMap<i64, Axis>,
    ticks: HashMap<i64, Vec<Vec<usize>>>,
}

impl Model {
    fn of(course: &[(i64, Vec<Arc<Tick>>)]) -> Self {
        let (mut model, mut next) = (Self::default(), 0);
        for (number, ticks) in course {
            let places = (next..next + ticks.len())
                .map(|place| vec![place])
                .collect();
            next += ticks.len();
            model.add(
                Level::Ticks.key(*number),
                None,
                Axis::of(*number, ticks),
                places,
            );
        }
        model.roll_up(Level::Minutes, 5);
        model.roll_up(Level::TenMinutes, 3);
        model
    }

    fn add(&mut self, id: i64, made_of: Option<(i64, i64)>, axis: Axis, ticks: Vec<Vec<usize>>) {
        let (from_ms, to_ms) = axis.range_ms();
        let (first_source, last_source) = made_of.unzip();
        self.segments.push(Segment {
            id,
            from_ms,
            to_ms,
            first_source,
            last_source,
        });
        self.axes.insert(id, axis);
        self.ticks.insert(id, ticks);
    }

    fn of_level(&self, level: Level) -> Vec<Segment> {
        self.segments
            .iter()
            .filter(|segment| segment.level() == level)
            .cloned()
            .collect()
    }

    fn roll_up(&mut self, level: Level, count: usize) {
        let finer = self.of_level(Level::ALL[level as usize - 1]);
        for sources in finer.chunks_exact(count) {
            let (mut axis, mut ticks) = (Axis::default(), Vec::new());
            for source in sources {
                let part = &self.axes[&source.id];
                axis.at_ms.extend(&part.at_ms);
                axis.elapsed_us.extend(&part.elapsed_us);
                axis.ticks.extend(&part.ticks);
                axis.numbers.extend(&part.numbers);
                ticks.extend(self.ticks[&source.id].clone());
            }
            let groups = rollup::groups(&axis, level.row_ms());
            let of_group = groups
                .iter()
                .map(|group| ticks[group.clone()].concat())
                .collect();
            let (first, last) = (
                sources[0].numbers().0,
                sources[sources.len() - 1].numbers().1,
            );
            self.add(
                level.key(first),
                Some((first, last)),
                rollup::rolled_axis(&axis, &groups),
                of_group,
            );
        }
    }

    fn rolled_until(&self, level: Level) -> i64 {
        self.of_level(level)
            .iter()
            .filter_map(|segment| segment.last_source)
            .max()
            .unwrap_or_default()
    }

    /// As retention does it: only what has gone into a level that is kept for longer.
    fn delete(&mut self, chosen: &[Index]) {
        let into = [Level::Minutes, Level::TenMinutes].map(|level| self.rolled_until(level));
        for index in chosen {
            let segment = self.segments[index.index(self.segments.len())].clone();
            let may_go = match segment.level() {
                Level::Ticks => segment.number() <= into[0],
                Level::Minutes => segment.number() <= into[1],
                Level::TenMinutes => false,
            };
            if may_go {
                self.segments.retain(|other| *other != segment);
            }
        }
    }

    /// The places of all ticks that are told of a range, each as often as it is told.
    fn told(&self, level: Level, (from_ms, to_ms): (i64, i64)) -> Vec<usize> {
        let in_range = |segment: &&Segment| segment.to_ms >= from_ms && segment.from_ms <= to_ms;
        let segments: Vec<Segment> = self.segments.iter().filter(in_range).cloned().collect();
        let mut told = Vec::new();
        for part in plan(level, &segments) {
            let axis = &self.axes[&part.segment.id];
            let is_covered = |number| {
                part.covered
                    .iter()
                    .any(|(first, last)| (*first..=*last).contains(&number))
            };
            let is_told = |row: &usize| {
                !is_covered(axis.numbers[*row]) && (from_ms..=to_ms).contains(&axis.at_ms[*row])
            };
            let rows = (0..axis.len()).filter(is_told);
            told.extend(rows.flat_map(|row| self.ticks[&part.segment.id][row].clone()));
        }
        told.sort_unstable();
        told
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn each_tick_is_told_once(
        ticks in course(Numbers::Usual, 300),
        deleted in prop::collection::vec(any::<Index>(), 0..30),
        ends in (any::<Index>(), any::<Index>()),
    ) {
        let mut model = Model::of(&segments(&ticks));
        model.delete(&deleted);
        for level in Level::ALL {
            let all: Vec<usize> = (0..ticks.len()).collect();
            prop_assert_eq!(model.told(level, (i64::MIN, i64::MAX)), all);
            let instants = (ticks[ends.0.index(ticks.len())].at_ms, ticks[ends.1.index(ticks.len())].at_ms);
            let range = (instants.0.min(instants.1), instants.0.max(instants.1));
            let told = model.told(level, range);
            let mut once = told.clone();
            once.dedup();
            prop_assert_eq!(&told, &once, "twice");
            // A row is told where it ends: only those across the ends of the range may differ.
            let slack = 600_000;
            let must = (0..ticks.len()).filter(|place| (range.0..=range.1 - slack).contains(&ticks[*place].at_ms));
            for place in must {
                prop_assert!(told.binary_search(&place).is_ok(), "tick {} is left out", place);
            }
        }
    }
}
