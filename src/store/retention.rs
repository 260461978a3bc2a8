//! Deletes old data in small steps, so that the writer is not delayed, and returns the space to the file system.
//!
//! The age of ten minutes of ticks is the time watched since then: the sum of the lengths of later ticks. It does not depend
//! on the wall clock, so a wrong clock deletes nothing, and nothing ages while cowbell is stopped. Rows are deleted in
//! windows of ten minutes, after they were rolled up.

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::address::{Level, Position};
use super::stored::{earliest_ms, watched_ms};
use crate::config::{self, Age};

/// Maximum windows that one step deletes: some milliseconds of work.
const AT_ONCE: usize = 8;
/// Maximum windows that one step looks at.
const LOOK_AT: i64 = 500;
/// Maximum pages that one step returns to the file system.
const PAGES_AT_ONCE: i64 = 256;
/// This much of each level stays, whatever the size limit.
const LEAST_KEPT: Age = Age::days(1);

/// Deletes data that is too old or exceeds the size limit.
#[derive(Debug)]
pub struct Retention {
    keep: config::Store,
    /// The time watched when nothing was left to delete. Until more is stored, nothing will be.
    done_at_ms: Option<i64>,
    /// For each step of deletion, the number of the last window that it has dealt with.
    done_to: [i64; 3],
}

/// Ticks without a job go first, then ticks of jobs, then minutes. At last ten minutes, which have no finer level to wait
/// for.
const STEPS: [(Level, bool); 3] = [
    (Level::Ticks, false),
    (Level::Ticks, true),
    (Level::Minutes, true),
];

impl Retention {
    pub fn new(keep: config::Store) -> Self {
        Self {
            keep,
            done_at_ms: None,
            done_to: [-1; 3],
        }
    }

    /// Deletes one step's worth and frees pages. Returns whether the next step may find more.
    pub async fn step(&mut self, connection: &mut SqliteConnection) -> anyhow::Result<bool> {
        let now_ms = watched_ms(connection).await?;
        let found = self.done_at_ms != Some(now_ms) && self.delete(connection, now_ms).await?;
        if !found && self.done_at_ms != Some(now_ms) {
            forget_alerts_and_gaps(connection).await?;
            self.done_at_ms = Some(now_ms);
        }
        // A pragma takes no parameters.
        let vacuum = format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})");
        sqlx::query(AssertSqlSafe(vacuum))
            .execute(connection)
            .await?;
        Ok(found)
    }

    async fn delete(
        &mut self,
        connection: &mut SqliteConnection,
        now_ms: i64,
    ) -> anyhow::Result<bool> {
        let keep = self.keep;
        // All used pages without the jobs' share.
        let bytes = used_bytes(connection)
            .await?
            .saturating_sub(jobs_bytes(connection).await?);
        let is_crowded = bytes > keep.bytes_for_ticks();
        let until_ms = |age: Age| {
            let age = if is_crowded { LEAST_KEPT } else { age };
            now_ms.saturating_sub(age.ms())
        };
        let ages = [keep.ticks, keep.jobs, keep.minutes];
        for ((step, done_to), age) in STEPS.into_iter().zip(&mut self.done_to).zip(ages) {
            if delete_windows(connection, step, done_to, until_ms(age)).await? {
                return Ok(true);
            }
        }
        delete_ten_minutes(connection, until_ms(keep.minutes)).await
    }
}

/// Deletes a level's rows of some of the oldest windows, up to `until_ms` of the time watched. Without `is_of_job`, windows
/// in which a job ran stay. Returns whether there may be more.
async fn delete_windows(
    connection: &mut SqliteConnection,
    (level, is_of_job): (Level, bool),
    done_to: &mut i64,
    until_ms: i64,
) -> anyhow::Result<bool> {
    let found: Vec<i64> = sqlx::query_scalar(
        "SELECT id FROM (SELECT id, watched_ms FROM ten_minute WHERE id > ? ORDER BY id LIMIT ?)
         WHERE watched_ms <= ?",
    )
    .bind(*done_to)
    .bind(LOOK_AT)
    .bind(until_ms)
    .fetch_all(&mut *connection)
    .await?;
    let has_more = !found.is_empty();
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut windows = 0;
    for last in found {
        let position = Position::numbered(last);
        let window = position.window();
        if is_of_job || !had_job(&mut transaction, window.begin_ms(), position.at_ms).await? {
            let delete = format!("DELETE FROM {} WHERE id BETWEEN ? AND ?", level.table());
            let deleted = sqlx::query(AssertSqlSafe(delete))
                .bind(window.numbers().0)
                .bind(last)
                .execute(&mut *transaction)
                .await?;
            windows += usize::from(deleted.rows_affected() > 0);
        }
        *done_to = last;
        if windows == AT_ONCE {
            break;
        }
    }
    transaction.commit().await?;
    Ok(has_more)
}

/// Whether a job of this machine ran in this time.
async fn had_job(
    connection: &mut SqliteConnection,
    from_ms: i64,
    to_ms: i64,
) -> anyhow::Result<bool> {
    let had_job = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM job_record WHERE started_ms <= ?2 AND coalesce(ended_ms, ?2) >= ?1
             AND key NOT IN (SELECT key FROM imported))",
    );
    Ok(had_job
        .bind(from_ms)
        .bind(to_ms)
        .fetch_one(connection)
        .await?)
}

/// Deletes rows of ten minutes. Those of a job whose ticks are kept for longer stay, since retention finds ticks by them.
async fn delete_ten_minutes(
    connection: &mut SqliteConnection,
    until_ms: i64,
) -> anyhow::Result<bool> {
    let deleted = sqlx::query(
        "DELETE FROM ten_minute WHERE id IN (SELECT id FROM ten_minute WHERE watched_ms <= ?
             AND NOT EXISTS (SELECT 1 FROM tick WHERE tick.id = ten_minute.id) ORDER BY id LIMIT ?)",
    )
    .bind(until_ms)
    .bind(LOOK_AT)
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected() > 0)
}

/// Deletes alerts and gaps that are older than all ticks. Jobs stay for comparison. The last alert stays, since its number
/// must not be given again.
async fn forget_alerts_and_gaps(connection: &mut SqliteConnection) -> anyhow::Result<()> {
    let Some(first_ms) = earliest_ms(connection).await? else {
        return Ok(());
    };
    for statement in [
        "DELETE FROM alert_record WHERE cleared_ms < ? AND id < (SELECT max(id) FROM alert_record)",
        "DELETE FROM silence WHERE until_ms < ?",
        "DELETE FROM gap WHERE to_ms < ?",
    ] {
        sqlx::query(statement)
            .bind(first_ms)
            .execute(&mut *connection)
            .await?;
    }
    // A higher one is of an alert that is not written yet.
    sqlx::query(
        "DELETE FROM delivery_record WHERE alert NOT IN (SELECT id FROM alert_record)
             AND alert < (SELECT max(id) FROM alert_record)",
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Size of jobs and imported files. Slightly overestimated, so that ticks never make room for them.
pub async fn jobs_bytes(connection: &mut SqliteConnection) -> anyhow::Result<u64> {
    let bytes: i64 = sqlx::query_scalar(
        "SELECT CAST(1.05 * (SELECT total(length(file)) FROM imported)
             + 1.05 * (SELECT total(300 + length(body)) FROM job_record) AS INTEGER)",
    )
    .fetch_one(connection)
    .await?;
    Ok(bytes.unsigned_abs())
}

/// Bytes of the database's pages that are in use.
pub async fn used_bytes(connection: &mut SqliteConnection) -> anyhow::Result<u64> {
    let bytes: i64 = sqlx::query_scalar(
        "SELECT (page_count - freelist_count) * page_size
         FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    )
    .fetch_one(connection)
    .await?;
    Ok(bytes.unsigned_abs())
}

#[cfg(test)]
mod tests {
    //! Forty days of a host on which a backup ran on the second one.

    use super::*;
    use crate::alert::{Alert, Rule, Severity};
    use crate::job::{Job, JobKind, Outcome};
    use crate::notify::Delivery;
    use crate::store::TickOrigin;
    use crate::store::address::{Kind, Stream};
    use crate::store::database::for_writing;
    use crate::store::deliveries::write_delivery;
    use crate::store::history::start_state;
    use crate::store::record::{Encoder, Rows};
    use crate::store::records::{write_alert, write_imported, write_job};
    use crate::store::rollup::roll_up;
    use crate::store::stored::write_tick;

    const HOUR_MS: i64 = 3600 * 1000;
    const DAY_MS: i64 = 24 * HOUR_MS;
    /// 2026-03-01T00:00:00Z
    const BEGIN_MS: i64 = 1_772_323_200_000;
    /// So many that a few segments make a page.
    const DEVICES: u32 = 10;

    /// Four minutes of ticks every twelve hours, for which they count, each in a window of its own. A job ran in the third one's
    /// time. `ahead_ms` is how wrong the clock is in a window. One more tick makes the last window complete.
    async fn eighty_windows(
        folder: &tempfile::TempDir,
        ahead_ms: fn(i64) -> i64,
    ) -> SqliteConnection {
        let path = folder.path().join("cowbell.db");
        let opened = for_writing(&path, TickOrigin::ThisMachine, false).await;
        let mut connection = opened.unwrap().connection;
        sqlx::query("PRAGMA synchronous = OFF")
            .execute(&mut connection)
            .await
            .unwrap();
        let (mut encoder, mut last) = (Encoder::new(Level::Ticks), None);
        for number in 1..=81 {
            let count = if number == 81 { 1 } else { 240 };
            for second in 1..=count {
                let at_ms = begin_ms(number) + ahead_ms(number) + 1000 * second;
                let position = Position::next(last, at_ms).unwrap();
                let rows = Rows::collect(Level::Ticks, |push| {
                    for row in 1..=DEVICES {
                        let mut columns = vec![Some(0); Kind::Device.columns()];
                        let chances = chances(at_ms as u64 + u64::from(row));
                        columns[..3].copy_from_slice(&chances.map(Some));
                        push(Stream::new(Kind::Device, row), &columns);
                    }
                });
                let record = encoder.encode(position, 180_000_000, &rows);
                write_tick(&mut connection, position, &record)
                    .await
                    .unwrap();
                last = Some(position);
            }
        }
        roll_up(&mut connection).await.unwrap();
        let mut job = job(1, "nightly", BEGIN_MS + 23 * HOUR_MS);
        job.ended_at = jiff::Timestamp::from_millisecond(BEGIN_MS + 25 * HOUR_MS).ok();
        job.outcome = Some(Outcome::Succeeded);
        write_job(&mut connection, &job).await.unwrap();
        connection
    }

    async fn forty_days(folder: &tempfile::TempDir) -> SqliteConnection {
        eighty_windows(folder, |_| 0).await
    }

    fn begin_ms(window: i64) -> i64 {
        BEGIN_MS + (window - 1) * 12 * HOUR_MS
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

    /// The windows that a level has rows of.
    async fn windows(connection: &mut SqliteConnection, level: Level) -> Vec<i64> {
        let ids = format!("SELECT id FROM {} ORDER BY id", level.table());
        let ids: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(ids))
            .fetch_all(connection)
            .await
            .unwrap();
        let window = |id: &i64| (Position::numbered(*id).at_ms - BEGIN_MS) / (12 * HOUR_MS) + 1;
        let mut windows: Vec<i64> = ids.iter().map(window).collect();
        windows.dedup();
        windows
    }

    /// The third window, in which a job ran, and these.
    fn with_the_job(others: std::ops::RangeInclusive<i64>) -> Vec<i64> {
        std::iter::once(3).chain(others).collect()
    }

    fn all(numbers: std::ops::RangeInclusive<i64>) -> Vec<i64> {
        numbers.collect()
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
            windows(&mut connection, Level::Ticks).await,
            with_the_job(21..=81)
        );
        for level in [Level::Minutes, Level::TenMinutes] {
            assert_eq!(windows(&mut connection, level).await, all(1..=80));
        }
    }

    #[tokio::test]
    async fn what_is_in_no_roll_up_yet_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = forty_days(&folder).await;
        sqlx::query("DELETE FROM ten_minute WHERE id > ?")
            .bind(begin_ms(9))
            .execute(&mut connection)
            .await
            .unwrap();
        tidy(&mut connection, config::Store::default()).await;
        assert_eq!(windows(&mut connection, Level::Ticks).await, all(1..=81));
        let ticks = config::Age::days(1);
        let keep = config::Store {
            ticks,
            ..config::Store::default()
        };
        tidy(&mut connection, keep).await;
        assert_eq!(
            windows(&mut connection, Level::Ticks).await,
            with_the_job(7..=81)
        );
    }

    /// Also where it is years ahead or behind, for all of the time or for some.
    #[tokio::test]
    async fn what_the_wall_clock_says_deletes_nothing_and_keeps_nothing() {
        let clocks: [fn(i64) -> i64; 3] = [
            |window| if window > 60 { 30_000 * DAY_MS } else { 0 },
            |window| if window > 60 { -10_000 * DAY_MS } else { 0 },
            |window| {
                if [1, 2, 9, 20, 21, 40, 79].contains(&window) {
                    9_000 * DAY_MS
                } else {
                    0
                }
            },
        ];
        for ahead_ms in clocks {
            let folder = tempfile::tempdir().unwrap();
            let mut connection = eighty_windows(&folder, ahead_ms).await;
            tidy(&mut connection, config::Store::default()).await;
            let left = windows(&mut connection, Level::Ticks).await;
            assert_eq!(left.len(), with_the_job(21..=81).len(), "{left:?}");
        }
    }

    #[tokio::test]
    async fn one_wrong_length_makes_nothing_old() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = forty_days(&folder).await;
        assert_eq!(watched_ms(&mut connection).await.unwrap(), 40 * DAY_MS);
        for (window, elapsed_us) in [(83, u64::MAX), (84, 0)] {
            let at_ms = begin_ms(window);
            let position = Position { stretch: 0, at_ms };
            let record = Encoder::new(Level::Ticks).encode(position, elapsed_us, &Rows::default());
            write_tick(&mut connection, position, &record)
                .await
                .unwrap();
        }
        roll_up(&mut connection).await.unwrap();
        // With the tick that made the last window complete.
        let expected = 41 * DAY_MS + 180_000;
        assert_eq!(watched_ms(&mut connection).await.unwrap(), expected);
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
        assert_eq!(windows(&mut connection, Level::Ticks).await, all(21..=81));
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
            windows(&mut connection, Level::Ticks).await,
            with_the_job(21..=81)
        );
    }

    #[tokio::test]
    async fn what_does_not_fit_goes_the_finest_and_oldest_first_but_a_day_of_each_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = forty_days(&folder).await;
        let before = used_bytes(&mut connection).await.unwrap();
        tidy(&mut connection, small(1)).await;
        assert!(used_bytes(&mut connection).await.unwrap() < before / 4);
        assert_eq!(windows(&mut connection, Level::Ticks).await, [79, 80, 81]);
        for level in [Level::Minutes, Level::TenMinutes] {
            assert_eq!(windows(&mut connection, level).await, [79, 80]);
        }
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
        let ticks = windows(&mut connection, Level::Ticks).await;
        assert!(
            ticks[..2] != [1, 2] && ticks[0] == 3 && ticks.len() > 40,
            "{ticks:?}"
        );
        assert_eq!(windows(&mut connection, Level::Minutes).await, all(1..=80));
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
        assert_eq!(windows(&mut connection, Level::Ticks).await, all(1..=81));
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
            1,
            "those of the first days"
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
}
