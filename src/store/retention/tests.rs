//! Forty days of a host on which a backup ran on the second one.

use std::sync::Arc;

use super::*;
use crate::alert::{Alert, Rule, Severity};
use crate::job::{Job, JobKind, Outcome};
use crate::notify::Delivery;
use crate::store::TickOrigin;
use crate::store::database::for_writing;
use crate::store::deliveries::write_delivery;
use crate::store::history::start_state;
use crate::store::records::{write_alert, write_imported, write_job};
use crate::store::rolling::roll_up;
use crate::store::seal::{Segment, seal};
use crate::store::stream::{Kind, Stream};
use crate::store::tick::Tick;

const HOUR_MS: i64 = 3600 * 1000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// 2026-03-01T00:00:00Z
const BEGIN_MS: i64 = 1_772_323_200_000;
/// So many that a few segments make a page.
const DEVICES: u32 = 10;

/// A segment of four minutes of ticks every twelve hours, which it counts for, and a job in the third one's time. Four
/// segments are in one of minutes, five of those in one of ten minutes.
async fn forty_days(folder: &tempfile::TempDir) -> SqliteConnection {
    let path = folder.path().join("cowbell.db");
    let mut connection = for_writing(&path, TickOrigin::ThisMachine)
        .await
        .unwrap()
        .connection;
    sqlx::query("PRAGMA synchronous = OFF")
        .execute(&mut connection)
        .await
        .unwrap();
    let streams = (1..=DEVICES)
        .map(|row| Stream::new(Kind::Device, row))
        .collect();
    let layout = Arc::new(streams);
    for number in 1..=80 {
        let ticks: [Arc<Tick>; 240] = std::array::from_fn(|second| {
            let at_ms = BEGIN_MS + (number - 1) * 12 * HOUR_MS + 1000 * second as i64;
            let mut tick = Tick::new(at_ms, 180_000_000, Arc::clone(&layout));
            for place in 0..DEVICES {
                let [reads, sectors, ms] = chances(at_ms as u64 + u64::from(place));
                tick.push(place, Some(&[reads, sectors, ms, 0, 0, 0, 1, 1, 0]));
            }
            Arc::new(tick)
        });
        seal(&mut connection, number, &ticks).await.unwrap();
    }
    roll_up(&mut connection, [4, 5]).await.unwrap();
    let mut job = job(1, "nightly", BEGIN_MS + 23 * HOUR_MS);
    job.ended_at = jiff::Timestamp::from_millisecond(BEGIN_MS + 25 * HOUR_MS).ok();
    job.outcome = Some(Outcome::Succeeded);
    write_job(&mut connection, &job).await.unwrap();
    connection
}

fn job(id: i64, key: &str, started_ms: i64) -> Job {
    let started_at = jiff::Timestamp::from_millisecond(started_ms).unwrap();
    Job::new(id, JobKind::Command, key, key, started_at)
}

/// Numbers that hardly get smaller when they are packed.
fn chances(seed: u64) -> [u64; 3] {
    let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    [mixed >> 54, mixed >> 40 & 0x3fff, mixed >> 30 & 0x3ff]
}

async fn tidy(connection: &mut SqliteConnection, keep: config::Store) {
    let mut retention = Retention::new(keep);
    let mut steps = 0;
    while retention.step(connection).await.unwrap() {
        steps += 1;
        assert!(steps < 400, "it comes to an end");
    }
    assert!(!retention.step(connection).await.unwrap());
}

async fn ids(connection: &mut SqliteConnection, level: Level) -> Vec<i64> {
    let segments: Vec<Segment> = sqlx::query_as(
        "SELECT id, from_ms, to_ms, first_source, last_source FROM segment ORDER BY id",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    segments
        .iter()
        .filter(|segment| segment.level() == level)
        .map(Segment::number)
        .collect()
}

/// The first segments of ticks that each of these is of.
fn every(count: usize, numbers: std::ops::RangeInclusive<i64>) -> Vec<i64> {
    numbers.step_by(count).collect()
}

fn small(size: u64) -> config::Store {
    config::Store {
        size: config::Size(size),
        ..config::Store::default()
    }
}

async fn count(connection: &mut SqliteConnection, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement)
        .fetch_one(connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn ticks_go_after_thirty_days_but_those_of_a_job_and_the_roll_ups_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    tidy(&mut connection, config::Store::default()).await;
    assert_eq!(
        ids(&mut connection, Level::Ticks).await,
        [vec![3], every(1, 21..=80)].concat()
    );
    assert_eq!(ids(&mut connection, Level::Minutes).await, every(4, 1..=77));
    assert_eq!(
        ids(&mut connection, Level::TenMinutes).await,
        every(20, 1..=61)
    );
    let stray = "SELECT count(*) FROM chunk WHERE (id >> 24) NOT IN (SELECT id FROM segment)";
    assert_eq!(count(&mut connection, stray).await, 0);
}

#[tokio::test]
async fn what_is_in_no_roll_up_yet_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    for statement in [
        "DELETE FROM segment WHERE id >= (1 << 36) + 9",
        "DELETE FROM job_record",
    ] {
        sqlx::query(statement)
            .execute(&mut connection)
            .await
            .unwrap();
    }
    tidy(&mut connection, config::Store::default()).await;
    assert_eq!(ids(&mut connection, Level::Ticks).await, every(1, 9..=80));
    let ages = config::Age::days(1);
    tidy(
        &mut connection,
        config::Store {
            ticks: ages,
            minutes: ages,
            ..config::Store::default()
        },
    )
    .await;
    assert_eq!(
        ids(&mut connection, Level::Minutes).await,
        [1, 5],
        "there are no ten minutes"
    );
}

/// Also where it is years ahead or behind, for all of the time or for some.
#[tokio::test]
async fn what_the_wall_clock_says_deletes_nothing_and_keeps_nothing() {
    for wrong_ms in [4_070_908_800_000_i64, 0] {
        for some in ["id IN (1, 2, 9, 20, 21, 40, 79, 80)", "id > 60", "id <> 3"] {
            let folder = tempfile::tempdir().unwrap();
            let mut connection = forty_days(&folder).await;
            let set = format!("UPDATE segment SET from_ms = ?1, to_ms = ?1 WHERE {some}");
            sqlx::query(AssertSqlSafe(set))
                .bind(wrong_ms)
                .execute(&mut connection)
                .await
                .unwrap();
            tidy(&mut connection, config::Store::default()).await;
            let left = ids(&mut connection, Level::Ticks).await;
            assert_eq!(
                left,
                [vec![3], every(1, 21..=80)].concat(),
                "{wrong_ms} where {some}"
            );
        }
    }
}

#[tokio::test]
async fn one_wrong_length_makes_nothing_old() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    let before = watched_ms(&mut connection).await.unwrap();
    assert_eq!(before, 40 * DAY_MS);
    let tick = Tick::new(BEGIN_MS + 41 * DAY_MS, u64::MAX, Arc::default());
    seal(&mut connection, 81, &[Arc::new(tick)]).await.unwrap();
    assert_eq!(watched_ms(&mut connection).await.unwrap(), 41 * DAY_MS);
}

#[tokio::test]
async fn time_is_counted_on_where_only_roll_ups_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    for level in [Level::Ticks, Level::Minutes] {
        sqlx::query("DELETE FROM segment WHERE id BETWEEN ? AND ?")
            .bind(level.keys().0)
            .bind(level.keys().1 - 1)
            .execute(&mut connection)
            .await
            .unwrap();
        assert_eq!(watched_ms(&mut connection).await.unwrap(), 40 * DAY_MS);
    }
}

#[tokio::test]
async fn a_jobs_ticks_go_when_jobs_are_that_old() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    tidy(
        &mut connection,
        config::Store {
            jobs: Age::days(35),
            ..config::Store::default()
        },
    )
    .await;
    assert_eq!(ids(&mut connection, Level::Ticks).await, every(1, 21..=80));
    assert_eq!(
        count(&mut connection, "SELECT count(*) FROM job").await,
        1,
        "its summary stays"
    );
}

#[tokio::test]
async fn a_job_of_another_host_keeps_no_ticks_of_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    let mut other = job(2, "imported:00", BEGIN_MS);
    other.ended_at = Some("2026-04-01T00:00:00Z".parse().unwrap());
    other.outcome = Some(Outcome::Succeeded);
    write_imported(&mut connection, &other, b"a file")
        .await
        .unwrap();
    tidy(&mut connection, config::Store::default()).await;
    assert_eq!(
        ids(&mut connection, Level::Ticks).await,
        [vec![3], every(1, 21..=80)].concat()
    );
}

#[tokio::test]
async fn what_does_not_fit_goes_the_finest_and_oldest_first_but_a_day_of_each_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    let before = used_bytes(&mut connection).await.unwrap();
    tidy(&mut connection, small(1)).await;
    assert!(used_bytes(&mut connection).await.unwrap() < before / 4);
    assert_eq!(ids(&mut connection, Level::Ticks).await, [79, 80]);
    assert_eq!(ids(&mut connection, Level::Minutes).await, [77]);
    assert_eq!(ids(&mut connection, Level::TenMinutes).await, [61]);
}

#[tokio::test]
async fn of_what_does_not_fit_the_ticks_of_jobs_go_last() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    // Just so much that the ticks without a job need not all go.
    let used = used_bytes(&mut connection).await.unwrap();
    tidy(
        &mut connection,
        config::Store {
            ticks: Age::days(90),
            ..small(used * 9 / 10 / 3 * 4)
        },
    )
    .await;
    let ticks = ids(&mut connection, Level::Ticks).await;
    assert!(
        ticks[..2] != [1, 2] && ticks[0] == 3 && ticks.len() > 40,
        "{ticks:?}"
    );
    assert_eq!(ids(&mut connection, Level::Minutes).await, every(4, 1..=77));
}

#[tokio::test]
async fn imported_files_push_no_tick_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    let used = used_bytes(&mut connection).await.unwrap();
    let keep = config::Store {
        ticks: Age::days(90),
        ..small(used / 3 * 4 + 10_000)
    };
    let file = vec![7; usize::try_from(used).unwrap() / 2];
    for id in 2..6 {
        write_imported(
            &mut connection,
            &job(id, &format!("imported:{id}"), BEGIN_MS),
            &file,
        )
        .await
        .unwrap();
    }
    tidy(&mut connection, keep).await;
    assert_eq!(ids(&mut connection, Level::Ticks).await, every(1, 1..=80));
}

#[tokio::test]
async fn alerts_and_gaps_go_with_the_oldest_data() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    for day in [1, 35, 41] {
        for statement in [
            "INSERT INTO alert_record (raised_ms, cleared_ms, body, checksum) VALUES (?1, ?1, '{}', 0)",
            "INSERT INTO gap (from_ms, to_ms, ticks, reason) VALUES (?1, ?1, 1, 'a test')",
        ] {
            let at_ms = BEGIN_MS + day * DAY_MS;
            sqlx::query(statement)
                .bind(at_ms)
                .execute(&mut connection)
                .await
                .unwrap();
        }
    }
    let left = "SELECT min(rows) FROM (SELECT count(*) AS rows FROM alert_record UNION SELECT count(*) FROM gap)";
    tidy(&mut connection, config::Store::default()).await;
    assert_eq!(
        count(&mut connection, left).await,
        3,
        "there are ten minutes of their time"
    );
    tidy(&mut connection, small(1)).await;
    assert_eq!(
        count(&mut connection, left).await,
        2,
        "that of the first day"
    );
}

#[tokio::test]
async fn space_is_given_back_to_the_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    tidy(&mut connection, small(1)).await;
    assert_eq!(count(&mut connection, "PRAGMA freelist_count").await, 0);
}

fn alert(id: i64, raised_ms: i64) -> Alert {
    let at = jiff::Timestamp::from_millisecond(raised_ms).unwrap();
    Alert {
        vg: "vg0".into(),
        lv: "data".into(),
        cleared_at: Some(at),
        recovered: true,
        ..Alert::new(id, Rule::SnapshotFill, Severity::Warning, "u", at)
    }
}

fn delivery(alert: i64) -> Delivery {
    Delivery {
        alert,
        receiver: "mail".into(),
        known: None,
        is_delivered: true,
        tries: 1,
        tried_at: jiff::Timestamp::UNIX_EPOCH,
        answer: String::new(),
    }
}

#[tokio::test]
async fn the_number_of_a_deleted_alert_is_not_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    for id in 1..=3 {
        write_alert(&mut connection, &alert(id, BEGIN_MS - DAY_MS))
            .await
            .unwrap();
        write_delivery(&mut connection, &delivery(id))
            .await
            .unwrap();
    }
    tidy(&mut connection, config::Store::default()).await;
    assert_eq!(
        count(&mut connection, "SELECT count(*) FROM alert_record").await,
        1
    );
    assert_eq!(
        count(&mut connection, "SELECT count(*) FROM delivery_record").await,
        1
    );
    assert_eq!(
        start_state(&mut connection).await.unwrap().0.last_alert_id,
        3
    );
    // The program ended before it wrote the alert of this delivery.
    write_delivery(&mut connection, &delivery(4)).await.unwrap();
    tidy(&mut connection, config::Store::default()).await;
    assert_eq!(
        start_state(&mut connection).await.unwrap().0.last_alert_id,
        4
    );
}
