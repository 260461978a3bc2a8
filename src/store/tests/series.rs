//! Series as they are asked for are what the ticks say: from memory, the database, or both, at any number of points.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, RwLock};

use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::Index;
use sqlx::SqliteConnection;
use tokio::sync::watch;

use super::{BEGIN_MS, CourseTick, Numbers, STREAMS, block_on, cases, course, records};
use crate::quantity::{Observation, Quantity};
use crate::series::{Point, Range};
use crate::store::address::{Kind, Level, Position, Stream, TickWindow};
use crate::store::catalog::{Catalog, CatalogRows, DeviceRow, VolumeRow};
use crate::store::database::for_writing;
use crate::store::readers::Readers;
use crate::store::recent::RecentTicks;
use crate::store::record::Decoder;
use crate::store::rollup::roll_up;
use crate::store::scan::RangeScan;
use crate::store::stored::{last_tick, rolled_to, stretches, write_tick};
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
    Catalog::new(CatalogRows {
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
fn everything() -> Vec<(Stream, SeriesKey)> {
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

/// The ticks in a database at `path`. The last windows are in memory, half of them in the database as well.
async fn reader(
    path: &Path,
    ticks: &[CourseTick],
    in_memory: usize,
    deleted: &[Index],
) -> StoreReader {
    let mut connection = connect(path).await;
    // No test cuts the power.
    sqlx::query("PRAGMA synchronous = OFF")
        .execute(&mut connection)
        .await
        .unwrap();
    let records = records(ticks);
    let mut windows: Vec<TickWindow> = records.iter().map(|tick| tick.position.window()).collect();
    windows.dedup();
    let begin = |left: usize| {
        let window = windows.get(windows.len().saturating_sub(left));
        let first = records
            .iter()
            .position(|tick| Some(&tick.position.window()) == window);
        first.unwrap_or(records.len())
    };
    let (stored_to, recent_from) = (begin(in_memory / 2), begin(in_memory));
    for tick in &records[..stored_to] {
        write_tick(&mut connection, tick.position, &tick.record)
            .await
            .unwrap();
    }
    roll_up(&mut connection).await.unwrap();
    for index in deleted {
        delete(&mut connection, index).await;
    }
    let recent = RecentTicks::default();
    recent.clear(
        records[..recent_from]
            .iter()
            .map(|tick| tick.position.at_ms)
            .max(),
    );
    for tick in &records[recent_from..] {
        recent.put(tick.clone());
    }
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
        records: Arc::default(),
        health,
        catalog,
        recent: Arc::new(recent),
        start: Arc::default(),
        keep: Default::default(),
    }
}

async fn connect(path: &Path) -> SqliteConnection {
    let opened = for_writing(path, TickOrigin::ThisMachine, false).await;
    opened.unwrap().connection
}

/// As retention does it: ticks or minutes of a window that was rolled up.
async fn delete(connection: &mut SqliteConnection, index: &Index) {
    let windows: Vec<i64> = sqlx::query_scalar("SELECT id FROM ten_minute ORDER BY id")
        .fetch_all(&mut *connection)
        .await
        .unwrap();
    if windows.is_empty() {
        return;
    }
    let place = index.index(2 * windows.len());
    let delete = match place % 2 {
        0 => "DELETE FROM tick WHERE id BETWEEN ? AND ?",
        _ => "DELETE FROM minute WHERE id BETWEEN ? AND ?",
    };
    let window = Position::numbered(windows[place / 2]).window();
    sqlx::query(delete)
        .bind(window.numbers().0)
        .bind(window.numbers().1)
        .execute(connection)
        .await
        .unwrap();
}

fn seen(tick: &CourseTick, stream: Stream, quantity: Quantity) -> Option<Observation> {
    let row = tick.rows.row(Level::Ticks, stream)?;
    quantity.observe(row, tick.elapsed_us)
}

/// Ticks of one point.
fn point(ticks: &[&CourseTick], stream: Stream, quantity: Quantity) -> Point {
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
    ticks: &[CourseTick],
    range: Range,
    count: usize,
    stream: Stream,
    quantity: Quantity,
) -> Vec<Point> {
    let (from_ms, to_ms) = (range.from.as_millisecond(), range.to.as_millisecond());
    let mut points: BTreeMap<i64, Vec<&CourseTick>> = BTreeMap::new();
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

fn range(from_ms: i64, to_ms: i64) -> Range {
    let at = |ms| Timestamp::from_millisecond(ms).unwrap();
    Range {
        from: at(from_ms),
        to: at(to_ms),
    }
}

/// Every quantity over the range, in so many points.
fn check(
    reader: &StoreReader,
    ticks: &[CourseTick],
    range: Range,
    count: usize,
    slack: f64,
) -> Result<(), TestCaseError> {
    let (streams, wanted): (Vec<Stream>, Vec<SeriesKey>) = everything().into_iter().unzip();
    let found = block_on(reader.series(&wanted, range, count)).unwrap();
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

fn kept(
    ticks: &[CourseTick],
    in_memory: usize,
    deleted: &[Index],
) -> (tempfile::TempDir, StoreReader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cowbell.db");
    let reader = block_on(reader(&path, ticks, in_memory, deleted));
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

/// The sum of the lengths of all rows that a scan gives.
async fn scanned_us(path: &Path, wanted: Level, times: (i64, i64)) -> u64 {
    let mut connection = connect(path).await;
    let mut scan = RangeScan::new(&mut connection, wanted, times, None)
        .await
        .unwrap();
    let (mut decoder, mut sum) = (Decoder::new(wanted), 0);
    while let Some((level, rows)) = scan.next(&mut connection).await.unwrap() {
        if decoder.level() != level {
            decoder = Decoder::new(level);
        }
        for row in rows {
            decoder.decode(row.position, &row.record).unwrap();
            sum += decoder.elapsed_us();
        }
    }
    sum
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn each_tick_is_read_once_at_any_level_whatever_was_deleted(
        ticks in course(Numbers::Usual, 300),
        deleted in prop::collection::vec(any::<Index>(), 0..30),
    ) {
        let (folder, _) = kept(&ticks, 0, &deleted);
        let expected: u64 = ticks.iter().map(|tick| tick.elapsed_us).sum();
        let path = folder.path().join("cowbell.db");
        for level in Level::ALL {
            let scanned = block_on(scanned_us(&path, level, (0, Position::LATEST_MS)));
            prop_assert_eq!(scanned, expected, "{:?}", level);
        }
    }

    #[test]
    fn a_table_has_every_tick_from_memory_or_the_database(
        ticks in course(Numbers::Usual, 250),
        in_memory in 0..4_usize,
        middle in any::<Index>(),
    ) {
        let (_folder, reader) = kept(&ticks, in_memory, &[]);
        // What is longer than a day is not read tick by tick.
        let middle_ms = ticks[middle.index(ticks.len())].at_ms;
        let (from_ms, to_ms) = (middle_ms - 43_200_000, middle_ms + 43_200_000);
        let wanted: Vec<_> = everything().into_iter().map(|(_, wanted)| wanted).collect();
        let found = block_on(reader.tick_table(&wanted, range(from_ms, to_ms))).unwrap();
        let mut order: Vec<usize> = (0..found.ends_ms.len()).collect();
        order.sort_by_key(|row| (found.ends_ms[*row], found.elapsed_us[*row]));
        let is_told = |tick: &&CourseTick| tick.elapsed_us > 0 && (from_ms..=to_ms).contains(&tick.at_ms);
        let mut expected: Vec<&CourseTick> = ticks.iter().filter(is_told).collect();
        expected.sort_by_key(|tick| (tick.at_ms, tick.elapsed_us));
        prop_assert!(found.ends_ms.is_sorted());
        prop_assert_eq!(order.len(), expected.len());
        for ((stream, wanted), column) in everything().into_iter().zip(&found.columns) {
            for (row, tick) in order.iter().zip(&expected) {
                let value = seen(tick, stream, wanted.quantity).map(Observation::value);
                prop_assert_eq!(column.as_ref().unwrap()[*row], value.filter(|value| value.is_finite()));
            }
        }
    }
}

/// Numbers go on where only roll-ups are left, or new ticks would take the place of old roll-ups.
#[test]
fn numbers_are_not_used_again_when_all_ticks_were_deleted() {
    let tick = |minute: i64| CourseTick {
        at_ms: BEGIN_MS + minute * 60_000,
        elapsed_us: 1,
        rows: Default::default(),
    };
    let ticks: Vec<CourseTick> = (0..700).map(tick).collect();
    let (folder, _) = kept(&ticks, 0, &[]);
    block_on(async {
        let mut connection = connect(&folder.path().join("cowbell.db")).await;
        let rolled = rolled_to(&mut connection).await.unwrap();
        sqlx::query("DELETE FROM tick")
            .execute(&mut connection)
            .await
            .unwrap();
        // The last window is not complete.
        assert_eq!(rolled.unwrap().at_ms, BEGIN_MS + 690 * 60_000);
        assert_eq!(
            last_tick(&stretches(&mut connection).await.unwrap()),
            rolled
        );
    });
}
