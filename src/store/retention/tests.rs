//! Forty days of a host on which a backup ran on the second one.

use std::sync::Arc;

use super::*;
use crate::job::{Job, JobKind, Outcome};
use crate::store::Holds;
use crate::store::database::for_writing;
use crate::store::records::write_job;
use crate::store::rolling::roll_up;
use crate::store::seal::{Segment, seal};
use crate::store::stream::{Kind, Stream};
use crate::store::tick::{Layout, Tick};

const HOUR_MS: i64 = 3600 * 1000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// 2026-03-01T00:00:00Z
const BEGIN_MS: i64 = 1_772_323_200_000;
/// So many that a few segments make a page.
const DEVICES: u32 = 10;
const NOW_MS: i64 = BEGIN_MS + 40 * DAY_MS;

/// A segment of four minutes of ticks every twelve hours, and a job in the third one's time.
async fn forty_days(folder: &tempfile::TempDir) -> SqliteConnection {
    let path = folder.path().join("cowbell.db");
    let mut connection = for_writing(&path, Holds::ThisMachine).await.unwrap().connection;
    sqlx::query("PRAGMA synchronous = OFF").execute(&mut connection).await.unwrap();
    let streams = (1..=DEVICES).map(|row| Stream::new(Kind::Device, row)).collect();
    let layout = Arc::new(Layout { streams });
    for number in 1..=80 {
        let ticks: [Arc<Tick>; 240] = std::array::from_fn(|second| {
            let at_ms = BEGIN_MS + (number - 1) * 12 * HOUR_MS + 1000 * second as i64;
            let mut tick = Tick::new(at_ms, 1_000_000, Arc::clone(&layout));
            for place in 0..DEVICES {
                let [reads, sectors, ms] = chances(at_ms as u64 + u64::from(place));
                tick.push(place, Some(&[reads, sectors, ms, 0, 0, 0, 1, 1]));
            }
            Arc::new(tick)
        });
        seal(&mut connection, number, &ticks).await.unwrap();
    }
    roll_up(&mut connection).await.unwrap();
    let (started, ended) = (BEGIN_MS + 23 * HOUR_MS, BEGIN_MS + 25 * HOUR_MS);
    let at = |ms| jiff::Timestamp::from_millisecond(ms).unwrap();
    let mut job = Job::new(1, JobKind::Command, "nightly", "nightly", at(started));
    (job.ended_at, job.outcome) = (Some(at(ended)), Some(Outcome::Succeeded));
    write_job(&mut connection, &job).await.unwrap();
    connection
}

/// Numbers that hardly get smaller when they are packed.
fn chances(seed: u64) -> [u64; 3] {
    let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    [mixed >> 54, mixed >> 40 & 0x3fff, mixed >> 30 & 0x3ff]
}

async fn tidy(connection: &mut SqliteConnection, keep: config::Store) -> u32 {
    let mut retention = Retention::new(keep);
    let mut steps = 0;
    while retention.step(connection, NOW_MS).await.unwrap() {
        steps += 1;
        assert!(steps < 400, "it comes to an end");
    }
    steps
}

/// The days on which segments of a level begin.
async fn days(connection: &mut SqliteConnection, level: Level) -> Vec<i64> {
    let segments: Vec<Segment> =
        sqlx::query_as("SELECT id, from_ms, to_ms, first_source, last_source FROM segment ORDER BY id")
            .fetch_all(connection)
            .await
            .unwrap();
    let mut days: Vec<i64> = segments
        .iter()
        .filter(|segment| segment.level() == level)
        .map(|segment| (segment.from_ms - BEGIN_MS) / DAY_MS)
        .collect();
    days.dedup();
    days
}

#[tokio::test]
async fn ticks_go_after_thirty_days_but_those_of_a_job_and_the_roll_ups_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    let steps = tidy(&mut connection, config::Store::default()).await;
    assert!(steps > 0);
    let ticks = days(&mut connection, Level::Ticks).await;
    assert_eq!(ticks, std::iter::once(1).chain(10..40).collect::<Vec<_>>());
    let roll_ups = days(&mut connection, Level::TenSeconds).await;
    assert_eq!(roll_ups, (0..10).collect::<Vec<_>>(), "of what is that old, also of what a job holds");
    let roll_ups = days(&mut connection, Level::Minutes).await;
    assert_eq!(roll_ups, (0..40).collect::<Vec<_>>(), "all but what is not yet one");
    let chunks_without: i64 =
        sqlx::query_scalar("SELECT count(*) FROM chunk WHERE (id >> 24) NOT IN (SELECT id FROM segment)")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    assert_eq!(chunks_without, 0);
}

#[tokio::test]
async fn ticks_of_a_wrong_clock_keep_no_others_from_going() {
    for wrong_ms in [4_070_908_800_000_i64, 0] {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = forty_days(&folder).await;
        for number in [1, 2, 9] {
            sqlx::query("UPDATE segment SET from_ms = ?1, to_ms = ?1 WHERE id = ?2")
                .bind(wrong_ms)
                .bind(number)
                .execute(&mut connection)
                .await
                .unwrap();
        }
        tidy(&mut connection, config::Store::default()).await;
        let mut ticks = days(&mut connection, Level::Ticks).await;
        ticks.retain(|day| (0..40).contains(day));
        assert_eq!(ticks, std::iter::once(1).chain(10..40).collect::<Vec<_>>(), "{wrong_ms}");
        let roll_ups = days(&mut connection, Level::TenSeconds).await;
        assert_eq!(roll_ups, (1..10).collect::<Vec<_>>(), "{wrong_ms}");
    }
}

/// Of eighty segments each is of four minutes, and the last is in no minutes yet: since the 49th two hours were seen.
#[tokio::test]
async fn ticks_stamped_far_ahead_go_when_as_much_was_seen_since_as_they_are_kept_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    for number in [1, 2, 10, 20, 48, 49, 50, 51, 60, 79] {
        sqlx::query("UPDATE segment SET from_ms = 4070908800000, to_ms = 4070908800000 WHERE id = ?")
            .bind(number)
            .execute(&mut connection)
            .await
            .unwrap();
    }
    let two_hours = config::Age(std::time::Duration::from_secs(7200));
    let keep = config::Store { ticks: two_hours, ..config::Store::default() };
    tidy(&mut connection, keep).await;
    let left: Vec<i64> = sqlx::query_scalar("SELECT id FROM segment WHERE id < 1 << 36 ORDER BY id")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(left, [3, 50, 51, 60, 79, 80], "with the job's, and the last, which is in no minutes yet");
}

#[tokio::test]
async fn a_jobs_ticks_go_when_jobs_are_that_old() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    let keep = config::Store { jobs: config::Age::days(35), ..config::Store::default() };
    tidy(&mut connection, keep).await;
    assert_eq!(days(&mut connection, Level::Ticks).await, (10..40).collect::<Vec<_>>());
    let jobs: i64 = sqlx::query_scalar("SELECT count(*) FROM job").fetch_one(&mut connection).await.unwrap();
    assert_eq!(jobs, 1, "its summary stays");
}

#[tokio::test]
async fn what_does_not_fit_goes_the_finest_and_oldest_first_but_a_day_of_each_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    let before = used_bytes(&mut connection).await.unwrap();
    let keep = config::Store { size: config::Size(1), ..config::Store::default() };
    tidy(&mut connection, keep).await;
    assert!(used_bytes(&mut connection).await.unwrap() < before);
    assert_eq!(days(&mut connection, Level::Ticks).await, [39]);
    let roll_ups = days(&mut connection, Level::Minutes).await;
    assert!(roll_ups.first().is_some_and(|first| *first >= 35), "{roll_ups:?}");
}

#[tokio::test]
async fn of_what_does_not_fit_the_ticks_of_jobs_go_last() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    // Just so much that the ticks without a job need not all go.
    let size = u64::try_from(used_bytes(&mut connection).await.unwrap()).unwrap() * 9 / 10;
    let keep =
        config::Store { size: config::Size(size), ticks: config::Age::days(90), ..config::Store::default() };
    tidy(&mut connection, keep).await;
    let ticks = days(&mut connection, Level::Ticks).await;
    assert!(ticks.contains(&1) && !ticks.contains(&0), "{ticks:?}");
}

#[tokio::test]
async fn space_is_given_back_to_the_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = forty_days(&folder).await;
    let keep = config::Store { size: config::Size(1), ..config::Store::default() };
    tidy(&mut connection, keep).await;
    let free: i64 = sqlx::query_scalar("PRAGMA freelist_count").fetch_one(&mut connection).await.unwrap();
    assert_eq!(free, 0);
}
