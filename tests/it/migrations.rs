//! Each migration runs over the data of the version before it, and nothing of that is lost.
//!
//! `samples/NNNN.sql` holds what a database may hold once migration NNNN has run; every migration brings its own.

use std::path::{Path, PathBuf};

use cowbell::series::Range;
use cowbell::store::{JobQuery, TickOrigin};
use jiff::Timestamp;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

const APPLICATION_ID: i64 = 1_131_378_498;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A database made by every migration in turn, each one's sample rows put in before the next runs.
async fn migrated(db: &Path) -> SqliteConnection {
    let migrator = Migrator::new(here("migrations")).await.unwrap();
    let options = SqliteConnectOptions::new()
        .filename(db)
        .create_if_missing(true)
        .foreign_keys(true);
    let mut connection = options.connect().await.unwrap();
    for migration in migrator.iter() {
        let rows_before = rows(&mut connection).await;
        migrator
            .run_to(migration.version, &mut connection)
            .await
            .unwrap();
        for (table, before) in rows_before {
            let now = count(&mut connection, &table).await;
            assert!(
                now >= before,
                "migration {} lost rows of {table}: {before}, now {now}",
                migration.version
            );
        }
        let sample = here(&format!("tests/it/samples/{:04}.sql", migration.version));
        let sample = std::fs::read_to_string(&sample).unwrap_or_else(|error| {
            panic!(
                "{error}: migration {} needs sample data in {}",
                migration.version,
                sample.display()
            )
        });
        sqlx::raw_sql(AssertSqlSafe(sample))
            .execute(&mut connection)
            .await
            .unwrap();
    }
    connection
}

async fn tables(connection: &mut SqliteConnection) -> Vec<String> {
    let question = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '\\_%' ESCAPE '\\'";
    sqlx::query_scalar(question)
        .fetch_all(connection)
        .await
        .unwrap()
}

async fn count(connection: &mut SqliteConnection, table: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(format!("SELECT count(*) FROM \"{table}\"")))
        .fetch_one(connection)
        .await
        .unwrap()
}

async fn rows(connection: &mut SqliteConnection) -> Vec<(String, i64)> {
    let mut rows = Vec::new();
    for table in tables(connection).await {
        rows.push((table.clone(), count(connection, &table).await));
    }
    rows
}

#[tokio::test]
async fn every_migration_keeps_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = migrated(&folder.path().join("cowbell.db")).await;
    let rows = rows(&mut connection).await;
    assert!(rows.len() >= 5, "{rows:?}");
    assert!(
        rows.iter().all(|(_, count)| *count > 0),
        "a table without sample data: {rows:?}"
    );
    let id: i64 = sqlx::query_scalar("PRAGMA application_id")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(id, APPLICATION_ID);
    let health: String = sqlx::query_scalar("PRAGMA integrity_check")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(health, "ok");
}

#[tokio::test]
async fn the_program_reads_what_the_samples_hold() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("cowbell.db");
    migrated(&db).await.close().await.unwrap();
    let (inlet, store) = cowbell::store::open(&db, TickOrigin::ThisMachine, Default::default())
        .await
        .unwrap();
    let range = Range {
        from: Timestamp::UNIX_EPOCH,
        to: "2100-01-01T00:00:00Z".parse().unwrap(),
    };
    let jobs = store.jobs(&JobQuery::of(range), 100).await.unwrap().jobs;
    let names: Vec<_> = jobs
        .iter()
        .map(|job| (job.name.as_str(), job.outcome.map(|outcome| outcome.text())))
        .collect();
    assert_eq!(
        names,
        [("data_snapshot", Some("untrustworthy")), ("nightly", None)]
    );
    let alerts = store.alerts(None, 100).await.unwrap();
    assert_eq!(
        alerts
            .iter()
            .map(|alert| alert.rule.text())
            .collect::<Vec<_>>(),
        ["snapshot fill"]
    );
    let state = store.start_state();
    assert_eq!(
        (state.last_job_id, state.last_alert_id, state.alerts.len()),
        (9, 1, 1)
    );
    inlet.close().await;
}

/// People query the views; the program itself reads neither.
#[tokio::test]
async fn the_views_show_jobs_and_alerts_as_plain_columns() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = migrated(&folder.path().join("cowbell.db")).await;
    let row: (String, String, Option<i64>, i64, String, i64) = sqlx::query_as(
        "SELECT kind, outcome, died_ms, locked_until_ms - locked_from_ms, reported, json_array_length(notes)
         FROM job WHERE lv = 'data_snapshot'",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    let expected = (
        "snapshot".into(),
        "untrustworthy".into(),
        Some(1_772_330_500_250),
        2_000,
        "succeeded".into(),
        1,
    );
    assert_eq!(row, expected);
    let phases: (i64, i64, i64, i64, i64) = sqlx::query_as(
        "SELECT flush_ms, snapshot_ms, mount_ms, backup_ms, cleanup_ms FROM job WHERE run = 4711",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    let at = |second: i64| 1_772_330_400_000 + 1000 * second;
    assert_eq!(phases, (at(1), at(2), at(3), at(4), at(9)));
    let rule: String = sqlx::query_scalar("SELECT rule FROM alert WHERE cleared_ms IS NULL")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(rule, "snapshot_fill");
}

#[tokio::test]
async fn the_tables_refuse_what_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = migrated(&folder.path().join("cowbell.db")).await;
    for nonsense in [
        "INSERT INTO tick (id, record) VALUES (1, 'text')",
        "INSERT INTO tick (id, record) VALUES (1, NULL)",
        "INSERT INTO minute (id, record) VALUES (1772330400000, x'01')",
        "INSERT INTO ten_minute (id, watched_ms, record) VALUES (7, -1, x'00')",
        "INSERT INTO identity (one, id) VALUES (2, 1)",
        "INSERT INTO gap (from_ms, to_ms, ticks, reason) VALUES (1, 1, 0, 'nothing')",
        "UPDATE job_record SET ended_ms = started_ms - 1",
        "UPDATE job_record SET body = 'thick'",
        "UPDATE alert_record SET cleared_ms = raised_ms - 1",
        "UPDATE volume SET uuid = ''",
        "UPDATE deleted_number SET job = 0",
        "INSERT INTO deleted_number (one, job) VALUES (2, 1)",
    ] {
        let done = sqlx::query(nonsense).execute(&mut connection).await;
        assert!(done.is_err(), "{nonsense}");
    }
}
