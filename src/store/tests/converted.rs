//! Ticks of a database of version 2 become segments; one that cannot be read costs no other.

use sqlx::{Connection, SqliteConnection};

use super::course::BEGIN_MS;
use crate::store::{Holds, convert, inventory, open};

/// Nothing is packed in it but an empty list of devices, one of volumes, and a host of which nothing is known.
const EMPTY: &[u8] = &[0; 6];
const DAMAGED: &[u8] = &[0xff];

async fn insert(connection: &mut SqliteConnection, at_ms: i64, packed: &[u8]) {
    sqlx::query("INSERT INTO tick (at_ms, elapsed_us, packed) VALUES (?, 1000000, ?)")
        .bind(at_ms)
        .bind(packed)
        .execute(connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn ten_minutes_of_damage_cost_no_other_tick() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cowbell.db");
    let mut connection = open::for_writing(&path, Holds::ThisMachine).await.unwrap().connection;
    for minute in 1..=60 {
        let packed = if (11..=30).contains(&minute) || minute == 45 { DAMAGED } else { EMPTY };
        insert(&mut connection, BEGIN_MS + minute * 60_000, packed).await;
    }
    convert::old_ticks(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let kept = inventory(&path).await.unwrap();
    let minutes = kept.ticks.iter().map(|(at, _)| (at.as_millisecond() - BEGIN_MS) / 60_000);
    assert!(minutes.eq((1..=10).chain(31..=44).chain(46..=60)));
    assert_eq!(kept.segments, 4);
    assert!(kept.damage.is_empty(), "{:?}", kept.damage);
}
