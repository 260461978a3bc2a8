//! Ticks come back from records as they were, whatever they are; roll-ups are exact sums of them, with the smallest and
//! the largest; and damage never makes a wrong number.

use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use sqlx::Connection;

use super::{CourseTick, Numbers, STREAMS, cases, course, records};
use crate::quantity::{Extent, Observation, Quantity};
use crate::store::address::{Level, Position, Stream};
use crate::store::record::{Decoder, Encoder};
use crate::store::rollup::{RollUp, extent};
use crate::store::{TickOrigin, database};

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

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn ticks_come_back_from_records(ticks in course(Numbers::Any, 80)) {
        let mut decoder = Decoder::new(Level::Ticks);
        for (tick, stored) in ticks.iter().zip(records(&ticks)) {
            decoder.decode(stored.position, &stored.record).unwrap();
            prop_assert_eq!(decoder.elapsed_us(), tick.elapsed_us);
            for stream in STREAMS {
                prop_assert_eq!(decoder.row(stream), tick.rows.row(Level::Ticks, stream));
            }
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_are_not_understood(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let position = Position { stretch: 0, at_ms: 1 };
        let _ = Decoder::new(Level::Ticks).decode(position, &bytes);
    }

    /// Or one that is missing, or has the place of another.
    #[test]
    fn a_damaged_record_is_refused_with_those_that_depend_on_it(
        ticks in course(Numbers::Usual, 40),
        place in any::<prop::sample::Index>(),
        wrong in (any::<prop::sample::Index>(), 1..=u8::MAX),
        is_missing in any::<bool>(),
    ) {
        let mut stored = records(&ticks);
        let place = place.index(stored.len());
        if is_missing {
            stored.remove(place);
        } else {
            let mut bytes = stored[place].record.to_vec();
            let at = wrong.0.index(bytes.len());
            bytes[at] ^= wrong.1;
            stored[place].record = bytes.into();
        }
        let mut decoder = Decoder::new(Level::Ticks);
        for stored in stored {
            let is_readable = decoder.decode(stored.position, &stored.record).is_ok();
            let tick = ticks.iter().zip(records(&ticks)).find(|(_, other)| other.position == stored.position);
            let (tick, intact) = tick.unwrap();
            if is_readable {
                prop_assert_eq!(&stored.record, &intact.record);
                for stream in STREAMS {
                    prop_assert_eq!(decoder.row(stream), tick.rows.row(Level::Ticks, stream));
                }
            }
        }
    }
}

/// So large that not all of it is looked at when it is opened.
#[tokio::test]
async fn a_large_database_that_turns_out_to_be_damaged_is_set_aside_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cowbell.db");
    let mut connection = database::for_writing(&path, TickOrigin::ThisMachine, false)
        .await
        .unwrap()
        .connection;
    sqlx::query("INSERT INTO minute VALUES (1, zeroblob(70 << 20))")
        .execute(&mut connection)
        .await
        .unwrap();
    let root: i64 =
        sqlx::query_scalar("SELECT rootpage FROM sqlite_schema WHERE name = 'ten_minute'")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(
        &[0xff; 64],
        (root.unsigned_abs() - 1) * u64::from(database::PAGE),
    )
    .unwrap();
    let (inlet, _) = crate::store::open(&path, TickOrigin::ThisMachine, Default::default())
        .await
        .unwrap();
    let notes = inlet.health().0.notes;
    assert!(
        notes[0].contains("cowbell.db was damaged (") && notes[0].contains("began anew"),
        "{notes:?}"
    );
    inlet.close().await;
}

#[test]
fn whatever_links_lead_to_it_a_database_has_one_log() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (
        folder.path().join("cowbell.db"),
        folder.path().join("link.db"),
    );
    std::fs::write(&path, "").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(
        crate::store::path(Some(&link)).unwrap(),
        path.canonicalize().unwrap()
    );
}
