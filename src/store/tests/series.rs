//! Series as they are asked for are what the ticks say: from memory, the database, or both, at any number of points.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, RwLock};

use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::Index;
use sqlx::SqliteConnection;
use tokio::sync::watch;

use super::cases;
use super::course::{BEGIN_MS, Numbers, STREAMS, course, segments};
use crate::quantity::Observation;
use crate::quantity::Quantity;
use crate::series::{Point, Range};
use crate::store::catalog::{Catalog, DeviceRow, Rows, VolumeRow};
use crate::store::codec::Presence;
use crate::store::database::for_writing;
use crate::store::readers::Readers;
use crate::store::recent::RecentTicks;
use crate::store::rolling::roll_up;
use crate::store::seal::{last_instant, last_segment, rolled_until, seal};
use crate::store::segment::Level;
use crate::store::stream::{Kind, Stream, row_of};
use crate::store::tick::{SegmentTicks, Tick};
use crate::store::{Health, SeriesKey, StoreReader, Subject, TickOrigin, paths};

/// A roll-up's least and largest value have so many binary digits.
const SLACK: f64 = 1.0 / 256.0;

/// The devices and volumes of a course.
fn catalog() -> Catalog {
    let device = |id| DeviceRow {
        id,
        identity: format!("d{id}").into(),
        name: format!("d{id}"),
        label: format!("d{id}"),
        kind: "disk".into(),
        counts: true,
        last_seen_ms: 0,
    };
    let volume = |id| VolumeRow {
        id,
        uuid: format!("v{id}").into(),
        vg: "vg".into(),
        lv: format!("v{id}"),
        device_identity: None,
        last_seen_ms: 0,
    };
    Catalog::new(Rows {
        devices: vec![device(1), device(2)],
        volumes: vec![volume(1), volume(2)],
    })
}

fn subject(stream: Stream) -> Subject {
    match stream.kind {
        Kind::Host => Subject::Host,
        Kind::Device if stream == Stream::TOTAL => Subject::Total,
        Kind::Device | Kind::Copying => Subject::Device(format!("d{}", stream.row)),
        Kind::Volume => Subject::Volume(format!("v{}", stream.row)),
    }
}

/// Every quantity of every stream.
pub fn everything() -> Vec<(Stream, SeriesKey)> {
    let all = STREAMS.iter().flat_map(|stream| {
        let of = |quantity: &Quantity| SeriesKey {
            subject: subject(*stream),
            quantity: *quantity,
        };
        stream
            .kind
            .quantities()
            .iter()
            .map(move |quantity| (*stream, of(quantity)))
    });
    all.collect()
}

/// The ticks in a database at `path`. The last segments are in memory, half of them in the database as well.
async fn reader(
    path: &Path,
    ticks: &[Arc<Tick>],
    in_memory: usize,
    deleted: &[Index],
) -> StoreReader {
    let mut connection = for_writing(path, TickOrigin::ThisMachine)
        .await
        .unwrap()
        .connection;
    // Nobody cuts the power of a test.
    sqlx::query("PRAGMA synchronous = OFF")
        .execute(&mut connection)
        .await
        .unwrap();
    let all = segments(ticks);
    let (sealed, recent_from) = (
        all.len().saturating_sub(in_memory.div_ceil(2)),
        all.len().saturating_sub(in_memory),
    );
    for (number, ticks) in &all[..sealed] {
        seal(&mut connection, *number, ticks).await.unwrap();
    }
    roll_up(&mut connection, [5, 3]).await.unwrap();
    for index in deleted {
        delete(&mut connection, index).await;
    }
    let recent = RecentTicks::default();
    let last = last_instant(&mut connection).await.unwrap();
    let in_memory = all[recent_from..].iter();
    let in_memory = in_memory.map(|(number, ticks)| SegmentTicks {
        number: *number,
        ticks: ticks.clone(),
    });
    recent.replace(last, in_memory.collect());
    let (_, health) = watch::channel(Health {
        is_open: true,
        ..Health::default()
    });
    let (readers, catalog) = (
        Readers::new(paths::options(path).read_only(true), health.clone()),
        Arc::new(RwLock::new(catalog())),
    );
    StoreReader {
        readers,
        health,
        catalog,
        recent: Arc::new(recent),
        jobs: Arc::default(),
        alerts: Arc::default(),
        start: Arc::default(),
        keep: Default::default(),
    }
}

/// As retention does it: only what has gone into a level that is kept for longer.
async fn delete(connection: &mut SqliteConnection, index: &Index) {
    let ids: Vec<i64> = sqlx::query_scalar("SELECT id FROM segment ORDER BY id")
        .fetch_all(&mut *connection)
        .await
        .unwrap();
    let Some(id) = (!ids.is_empty()).then(|| ids[index.index(ids.len())]) else {
        return;
    };
    let (level, number) = Level::of_key(id).unwrap();
    let until = match level {
        Level::Ticks => rolled_until(connection, Level::Minutes).await.unwrap(),
        Level::Minutes => rolled_until(connection, Level::TenMinutes).await.unwrap(),
        Level::TenMinutes => 0,
    };
    if number <= until {
        sqlx::query("DELETE FROM segment WHERE id = ?")
            .bind(id)
            .execute(&mut *connection)
            .await
            .unwrap();
        sqlx::query("DELETE FROM chunk WHERE id >> 24 = ?")
            .bind(id)
            .execute(connection)
            .await
            .unwrap();
    }
}

pub fn seen(tick: &Tick, stream: Stream, quantity: Quantity) -> Option<Observation> {
    let zeros = vec![0; stream.kind.columns()];
    match tick.row(stream) {
        (Presence::Absent | Presence::Unknown, _) => None,
        (Presence::Known, []) => quantity.observe(&row_of(&zeros), tick.elapsed_us),
        (Presence::Known, row) => quantity.observe(&row_of(row), tick.elapsed_us),
    }
}

/// Ticks of one point.
fn point(ticks: &[&Arc<Tick>], stream: Stream, quantity: Quantity) -> Point {
    let seen: Vec<_> = ticks
        .iter()
        .filter_map(|tick| seen(tick, stream, quantity))
        .collect();
    let sum = |part: fn(&Observation) -> u64| {
        seen.iter().map(|seen| u128::from(part(seen))).sum::<u128>() as f64
    };
    let values = || seen.iter().map(|seen| seen.value());
    let known = |value: f64| (!seen.is_empty()).then_some(value);
    let last_ms = ticks
        .iter()
        .map(|tick| tick.at_ms)
        .max()
        .unwrap_or_default();
    Point {
        t: Timestamp::from_millisecond(last_ms).unwrap(),
        min: known(values().fold(f64::INFINITY, f64::min)),
        avg: known(sum(|seen| seen.amount) / sum(|seen| seen.over) * quantity.scale()),
        max: known(values().fold(0.0, f64::max)),
    }
}

/// The ticks of the range, in points of equal width.
fn points(
    ticks: &[Arc<Tick>],
    range: Range,
    count: usize,
    stream: Stream,
    quantity: Quantity,
) -> Vec<Point> {
    let (from_ms, to_ms) = (range.from.as_millisecond(), range.to.as_millisecond());
    let mut points: BTreeMap<i64, Vec<&Arc<Tick>>> = BTreeMap::new();
    for tick in ticks
        .iter()
        .filter(|tick| (from_ms..=to_ms).contains(&tick.at_ms))
    {
        let number = (tick.at_ms - from_ms) * count as i64 / (to_ms - from_ms + 1);
        points.entry(number).or_default().push(tick);
    }
    points
        .values()
        .map(|ticks| point(ticks, stream, quantity))
        .collect()
}

fn is_near(found: Option<f64>, expected: Option<f64>, slack: f64) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() <= expected.abs() * slack,
        (found, expected) => found == expected,
    }
}

pub fn range(from_ms: i64, to_ms: i64) -> Range {
    let at = |ms| Timestamp::from_millisecond(ms).unwrap();
    Range {
        from: at(from_ms),
        to: at(to_ms),
    }
}

/// Every quantity over the range, in so many points.
fn check(
    reader: &StoreReader,
    ticks: &[Arc<Tick>],
    range: Range,
    count: usize,
    slack: f64,
) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let (streams, wanted): (Vec<Stream>, Vec<SeriesKey>) = everything().into_iter().unzip();
    let found = runtime
        .block_on(reader.series(&wanted, range, count))
        .unwrap();
    for ((stream, wanted), found) in streams.into_iter().zip(wanted).zip(found) {
        let (found, expected) = (
            found.unwrap().points,
            points(ticks, range, count, stream, wanted.quantity),
        );
        prop_assert_eq!(found.len(), expected.len(), "{:?}", wanted);
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found.t, expected.t);
            let is_right = is_near(found.min, expected.min, slack)
                && is_near(found.avg, expected.avg, 1e-9)
                && is_near(found.max, expected.max, slack);
            prop_assert!(
                is_right,
                "{:?}: found {:?}, expected {:?}",
                wanted,
                found,
                expected
            );
        }
    }
    Ok(())
}

pub fn kept(
    ticks: &[Arc<Tick>],
    in_memory: usize,
    deleted: &[Index],
) -> (tempfile::TempDir, StoreReader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cowbell.db");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let reader = runtime.block_on(reader(&path, ticks, in_memory, deleted));
    (folder, reader)
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn ticks_are_told_at_any_width_below_that_of_a_roll_up(
        ticks in course(Numbers::Usual, 250),
        in_memory in 0..4_usize,
        middle in any::<Index>(),
        radius_ms in 1..3_600_000_i64,
        more in 1..100_usize,
    ) {
        let (_folder, reader) = kept(&ticks, in_memory, &[]);
        let middle_ms = ticks[middle.index(ticks.len())].at_ms;
        let range = range(middle_ms - radius_ms, middle_ms + radius_ms);
        let count = (radius_ms / 10_000) as usize + more;
        check(&reader, &ticks, range, count, 1e-9)?;
    }

    #[test]
    fn all_together_is_the_same_whatever_was_deleted(
        ticks in course(Numbers::Usual, 250),
        in_memory in 0..4_usize,
        deleted in prop::collection::vec(any::<Index>(), 0..12),
    ) {
        let (_folder, reader) = kept(&ticks, in_memory, &deleted);
        let instants = || ticks.iter().map(|tick| tick.at_ms);
        // Wide enough for the coarsest.
        let (from_ms, to_ms) = (instants().min().unwrap() - 300_000, instants().max().unwrap() + 300_000);
        check(&reader, &ticks, range(from_ms, to_ms), 1, SLACK)?;
    }
}

/// Numbers go on where only roll-ups are left, or new segments would take the place of old roll-ups.
#[test]
fn numbers_are_not_used_again_when_all_ticks_were_deleted() {
    let ticks: Vec<Arc<Tick>> = (0..700)
        .map(|index| Tick::new(BEGIN_MS + index * 60_000, 1, Arc::default()).into())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let last = runtime.block_on(async {
        let path = folder.path().join("cowbell.db");
        reader(&path, &ticks, 0, &[]).await;
        let mut connection = for_writing(&path, TickOrigin::ThisMachine)
            .await
            .unwrap()
            .connection;
        let rolled_up = rolled_until(&mut connection, Level::Minutes).await.unwrap();
        sqlx::query("DELETE FROM segment WHERE id < 1 << 36")
            .execute(&mut connection)
            .await
            .unwrap();
        assert_eq!(last_segment(&mut connection).await.unwrap(), rolled_up);
        rolled_up
    });
    // The first tick ends a window, so there are 71 segments.
    assert_eq!(last, 70);
}
