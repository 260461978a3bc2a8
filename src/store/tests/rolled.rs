//! Roll-ups are exact sums of the ticks that they are of, and what is smallest and largest is in them.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::cases;
use super::course::{Numbers, STREAMS, course, segments};
use crate::quantity::Quantity;
use crate::quantity::{Extent, Observation};
use crate::store::codec::{Presence, Rows, decode, encode};
use crate::store::rollup;
use crate::store::segment::{Axis, Level, rows_of};
use crate::store::stream::{Stream, row_of};
use crate::store::tick::Tick;

/// Eight binary digits.
const SLACK: f64 = 1.0 / 256.0;

/// Ticks of several segments as one axis, as roll-ups are made of.
fn joined(segments: &[(i64, Vec<Arc<Tick>>)]) -> (Vec<Arc<Tick>>, Axis) {
    let ticks: Vec<Arc<Tick>> = segments
        .iter()
        .flat_map(|(_, ticks)| ticks.clone())
        .collect();
    let mut axis = Axis::of(0, &ticks);
    let numbers = segments
        .iter()
        .flat_map(|(number, ticks)| std::iter::repeat_n(*number, ticks.len()));
    axis.numbers = numbers.collect();
    (ticks, axis)
}

/// What ticks say of a quantity, by adding them up: amount, over, the smallest value and the largest.
fn added(ticks: &[Arc<Tick>], stream: Stream, quantity: Quantity) -> Option<(u64, u64, f64, f64)> {
    let zeros = vec![0; stream.kind.columns()];
    let seen = ticks.iter().filter_map(|tick| match tick.row(stream) {
        (Presence::Absent | Presence::Unknown, _) => None,
        (Presence::Known, []) => quantity.observe(&row_of(&zeros), tick.elapsed_us),
        (Presence::Known, row) => quantity.observe(&row_of(row), tick.elapsed_us),
    });
    let seen: Vec<Observation> = seen.collect();
    let values = || seen.iter().map(|seen| seen.value());
    (!seen.is_empty()).then(|| {
        let (amount, over) = seen
            .iter()
            .fold((0, 0), |sum, seen| (sum.0 + seen.amount, sum.1 + seen.over));
        (
            amount,
            over,
            values().fold(f64::INFINITY, f64::min),
            values().fold(0.0, f64::max),
        )
    })
}

fn told(rows: &Rows, row: usize, stream: Stream, quantity: Quantity) -> Option<Extent> {
    rollup::extent(Level::Minutes, stream.kind, quantity, rows, row, 0)
}

fn check(
    ticks: &[Arc<Tick>],
    told: Option<Extent>,
    stream: Stream,
    quantity: Quantity,
) -> Result<(), TestCaseError> {
    let Some((amount, over, min, max)) = added(ticks, stream, quantity) else {
        prop_assert_eq!(told, None);
        return Ok(());
    };
    let told = told.expect("something is known");
    prop_assert_eq!(
        (told.all.amount, told.all.over),
        (amount, over),
        "{:?}",
        quantity
    );
    prop_assert!(
        told.min <= min && min <= told.min * (1.0 + SLACK),
        "{} for {}",
        told.min,
        min
    );
    prop_assert!(
        told.max >= max && max >= told.max * (1.0 - SLACK),
        "{} for {}",
        told.max,
        max
    );
    Ok(())
}

/// Which ticks each row is of.
fn ticks_of(axis: &Axis) -> Vec<Range<usize>> {
    let mut next = 0;
    let ranges = axis.ticks.iter().map(|count| {
        next += *count as usize;
        next - *count as usize..next
    });
    ranges.collect()
}

fn check_level(
    ticks: &[Arc<Tick>],
    axis: &Axis,
    rows: &Rows,
    stream: Stream,
) -> Result<(), TestCaseError> {
    for (row, range) in ticks_of(axis).into_iter().enumerate() {
        prop_assert_eq!(axis.at_ms[row], ticks[range.end - 1].at_ms);
        for quantity in stream.kind.quantities() {
            check(
                &ticks[range.clone()],
                told(rows, row, stream, *quantity),
                stream,
                *quantity,
            )?;
        }
    }
    Ok(())
}

/// Rows of this length, made of those of a level.
fn rolled(from: Level, row_ms: i64, (axis, rows): (&Axis, &Rows), stream: Stream) -> (Axis, Rows) {
    let groups = rollup::groups(axis, row_ms);
    (
        rollup::rolled_axis(axis, &groups),
        rollup::rolled(stream.kind, from, axis, rows, &groups),
    )
}

fn check_rolled(
    ticks: &[Arc<Tick>],
    from: Level,
    row_ms: i64,
    source: (&Axis, &Rows),
    stream: Stream,
) -> Result<(Axis, Rows), TestCaseError> {
    let (axis, rows) = rolled(from, row_ms, source, stream);
    prop_assert_eq!(
        &decode(
            rollup::columns_at(Level::Minutes, stream.kind),
            &encode(&rows).unwrap()
        )
        .unwrap(),
        &rows
    );
    check_level(ticks, &axis, &rows, stream)?;
    Ok((axis, rows))
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn roll_ups_are_sums_of_their_ticks(ticks in course(Numbers::Usual, 120)) {
        let (ticks, axis) = joined(&segments(&ticks));
        for stream in STREAMS {
            let all = rows_of(&ticks, stream);
            check_rolled(&ticks, Level::Ticks, 10_000, (&axis, &all), stream)?;
            let (axis, rows) = check_rolled(&ticks, Level::Ticks, 60_000, (&axis, &all), stream)?;
            let (axis, _) = check_rolled(&ticks, Level::Minutes, 600_000, (&axis, &rows), stream)?;
            prop_assert_eq!(axis.ticks.iter().sum::<u64>() as usize, ticks.len());
        }
    }

    /// Sums that do not fit are as large as can be, and nothing ends the writer.
    #[test]
    fn any_numbers_can_be_rolled_up(ticks in course(Numbers::Any, 60)) {
        let (ticks, axis) = joined(&segments(&ticks));
        for stream in STREAMS {
            let (axis, rows) = rolled(Level::Ticks, 60_000, (&axis, &rows_of(&ticks, stream)), stream);
            prop_assert_eq!(&decode(rollup::columns_at(Level::Minutes, stream.kind), &encode(&rows).unwrap()).unwrap(), &rows);
            rolled(Level::Minutes, 600_000, (&axis, &rows), stream);
        }
    }
}
