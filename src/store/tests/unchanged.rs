//! Ticks come back from the journal and rows from chunks as they were, whatever they are.

use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use sqlx::Connection;

use super::cases;
use super::course::{Numbers, STREAMS, course, segments};
use crate::store::codec::{Presence, decode, encode};
use crate::store::journal::Journal;
use crate::store::segment::{Axis, rows_of, streams};
use crate::store::tick::{Tick, segments_of};
use crate::store::{TickOrigin, database};

/// What a tick says of a stream, as presence and columns.
fn said(tick: &Tick, stream: crate::store::stream::Stream) -> (Presence, Vec<u64>) {
    let zeros = vec![0; stream.kind.columns()];
    match tick.row(stream) {
        (presence, []) => (presence, zeros),
        (presence, row) => (presence, row.to_vec()),
    }
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn ticks_come_back_from_the_journal(ticks in course(Numbers::Any, 80)) {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("cowbell.db");
        let (mut journal, _) = Journal::open(&database, 7, 0).unwrap();
        let mut segments = segments(&ticks);
        // The last two are what a journal may hold that is not sealed.
        let last = segments.split_off(segments.len().saturating_sub(2));
        for (number, ticks) in &last {
            for tick in ticks {
                journal.append(*number, &tick.to_record()).unwrap();
            }
        }
        let (_, recovered) = Journal::open(&database, 7, segments.len() as i64).unwrap();
        let (found, damage) = segments_of(recovered);
        prop_assert_eq!(damage, Vec::<String>::new());
        let found = found.into_iter().map(|found| (found.number, found.ticks));
        prop_assert_eq!(found.collect::<Vec<_>>(), last);
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn rows_come_back_from_chunks(ticks in course(Numbers::Any, 60)) {
        let axis = Axis::of(5, &ticks);
        prop_assert_eq!(Axis::decode(&axis.encode().unwrap()).unwrap(), axis);
        let kept = streams(&ticks);
        for stream in STREAMS {
            let rows = rows_of(&ticks, stream);
            prop_assert_eq!(&decode(stream.kind.columns(), &encode(&rows).unwrap()).unwrap(), &rows);
            for (index, tick) in ticks.iter().enumerate() {
                let row: Vec<u64> = rows.columns.iter().map(|column| column[index]).collect();
                prop_assert_eq!((rows.presence[index], row), said(tick, stream));
            }
            let is_there = rows.presence.iter().any(|presence| *presence != Presence::Absent);
            prop_assert_eq!(kept.contains(&stream), is_there);
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_are_not_understood(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Tick::from_record(&bytes, None);
    }

    #[test]
    fn a_record_with_wrong_bytes_is_read_or_is_not_understood(
        ticks in course(Numbers::Any, 5),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for tick in &ticks {
            let mut record = tick.to_record();
            for (place, byte) in &wrong {
                let at = place.index(record.len());
                record[at] = *byte;
            }
            if let Ok(tick) = Tick::from_record(&record, None) {
                for stream in STREAMS {
                    said(&tick, stream);
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
    let mut connection = database::for_writing(&path, TickOrigin::ThisMachine)
        .await
        .unwrap()
        .connection;
    sqlx::query("INSERT INTO chunk VALUES (1, zeroblob(70 << 20))")
        .execute(&mut connection)
        .await
        .unwrap();
    let root: i64 = sqlx::query_scalar("SELECT rootpage FROM sqlite_schema WHERE name = 'segment'")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff; 64], (root.unsigned_abs() - 1) * 2_048)
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
fn whatever_links_lead_to_it_a_database_has_one_journal() {
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
