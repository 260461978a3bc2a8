//! Ticks come back from records as they were, whatever they are, and damage never makes a wrong number.

use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use sqlx::Connection;

use super::cases;
use super::course::{Numbers, STREAMS, course, records};
use crate::store::address::{Level, Position};
use crate::store::record::Decoder;
use crate::store::{TickOrigin, database};

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
