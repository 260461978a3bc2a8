//! Roll-ups are exact sums of the ticks that they are of, and what is smallest and largest is in them.

use proptest::prelude::*;

use super::cases;
use super::course::{CourseTick, Numbers, STREAMS, course, records};
use crate::quantity::{Extent, Observation, Quantity};
use crate::store::address::{Level, Position, Stream};
use crate::store::record::{Decoder, Encoder};
use crate::store::rollup::{RollUp, extent};

/// Eight binary digits.
const SLACK: f64 = 1.0 / 256.0;

/// A roll-up as it comes back from the database.
struct StoredRollUp {
    position: Position,
    decoder: Decoder,
    /// How many ticks it is of.
    ticks: usize,
    rolled: RollUp,
}

/// Rows of this length, made of ticks.
fn rolled(ticks: &[CourseTick], row_ms: i64) -> Vec<StoredRollUp> {
    let (mut found, mut rolled, mut count) = (Vec::new(), RollUp::default(), 0);
    let mut decoder = Decoder::new(Level::Ticks);
    for stored in records(ticks) {
        decoder.decode(stored.position, &stored.record).unwrap();
        if !rolled.includes(stored.position, row_ms) {
            found.push((std::mem::take(&mut rolled), std::mem::take(&mut count)));
        }
        rolled.add(stored.position, &decoder);
        count += 1;
    }
    found.push((rolled, count));
    let stored = |(rolled, ticks)| stored(rolled, ticks);
    found.into_iter().map(stored).collect()
}

fn stored(rolled: RollUp, ticks: usize) -> StoredRollUp {
    let mut copy = RollUp::default();
    copy.add_finer(&rolled);
    let (position, elapsed_us, rows) = rolled.finish().unwrap();
    let record = Encoder::new(Level::Minutes).encode(position, elapsed_us, &rows);
    let mut decoder = Decoder::new(Level::Minutes);
    decoder.decode(position, &record).unwrap();
    StoredRollUp {
        position,
        decoder,
        ticks,
        rolled: copy,
    }
}

/// What ticks say of a quantity, by adding them up: amount, over, the smallest value and the largest.
fn added(ticks: &[CourseTick], stream: Stream, quantity: Quantity) -> Option<(u64, u64, f64, f64)> {
    let seen = ticks.iter().filter_map(|tick| {
        let row = tick.rows.row(Level::Ticks, stream)?;
        quantity.observe(row, tick.elapsed_us)
    });
    let seen: Vec<Observation> = seen.collect();
    let values = || seen.iter().map(|seen| seen.value());
    (!seen.is_empty()).then(|| {
        (
            seen.iter().map(|seen| seen.amount).sum(),
            seen.iter().map(|seen| seen.over).sum(),
            values().fold(f64::INFINITY, f64::min),
            values().fold(0.0, f64::max),
        )
    })
}

fn told(row: &StoredRollUp, stream: Stream, quantity: Quantity) -> Option<Extent> {
    let columns = row.decoder.row(stream)?;
    let elapsed_us = row.decoder.elapsed_us();
    extent(Level::Minutes, stream, quantity, columns, elapsed_us)
}

fn check(
    ticks: &[CourseTick],
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

fn check_all(ticks: &[CourseTick], rows: &[StoredRollUp]) -> Result<(), TestCaseError> {
    let mut next = 0;
    for row in rows {
        let of_row = &ticks[next..next + row.ticks];
        next += row.ticks;
        prop_assert_eq!(row.position.at_ms, of_row[row.ticks - 1].at_ms);
        for stream in STREAMS {
            for quantity in stream.kind.quantities() {
                check(of_row, told(row, stream, *quantity), stream, *quantity)?;
            }
        }
    }
    prop_assert_eq!(next, ticks.len());
    Ok(())
}

/// Ten minutes, made of minutes.
fn ten_minutes(minutes: Vec<StoredRollUp>) -> Vec<StoredRollUp> {
    let (mut found, mut rolled, mut count) = (Vec::new(), RollUp::default(), 0);
    for minute in minutes {
        if !rolled.includes(minute.position, Level::TenMinutes.row_ms()) {
            found.push(stored(std::mem::take(&mut rolled), count));
            count = 0;
        }
        rolled.add_finer(&minute.rolled);
        count += minute.ticks;
    }
    found.push(stored(rolled, count));
    found
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn roll_ups_are_sums_of_their_ticks(ticks in course(Numbers::Usual, 120)) {
        check_all(&ticks, &rolled(&ticks, 10_000))?;
        let minutes = rolled(&ticks, 60_000);
        check_all(&ticks, &minutes)?;
        check_all(&ticks, &ten_minutes(minutes))?;
    }

    /// Sums that do not fit are as large as can be, and nothing ends the writer.
    #[test]
    fn any_numbers_can_be_rolled_up(ticks in course(Numbers::Any, 60)) {
        ten_minutes(rolled(&ticks, 60_000));
    }
}
