//! Each migration runs over the data of the version before it, and nothing of that is lost.
//!
//! `samples/NNNN.sql` holds what a database may hold once migration NNNN has run; every migration brings its own.

use std::path::{Path, PathBuf};

use cowbell::series::Range;
use cowbell::series::quantity::{Quantity, ShareQuantity};
use cowbell::store::{Holds, Subject, Wanted};
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
    let options = SqliteConnectOptions::new().filename(db).create_if_missing(true).foreign_keys(true);
    let mut connection = options.connect().await.unwrap();
    for migration in migrator.iter() {
        let rows_before = rows(&mut connection).await;
        migrator.run_to(migration.version, &mut connection).await.unwrap();
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
            panic!("{error}: migration {} needs sample data in {}", migration.version, sample.display())
        });
        sqlx::raw_sql(AssertSqlSafe(sample)).execute(&mut connection).await.unwrap();
    }
    connection
}

async fn tables(connection: &mut SqliteConnection) -> Vec<String> {
    let question = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '\\_%' ESCAPE '\\'";
    sqlx::query_scalar(question).fetch_all(connection).await.unwrap()
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
    assert!(rows.iter().all(|(_, count)| *count > 0), "a table without sample data: {rows:?}");
    let id: i64 = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut connection).await.unwrap();
    assert_eq!(id, APPLICATION_ID);
    let health: String =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await.unwrap();
    assert_eq!(health, "ok");
}

#[tokio::test]
async fn the_program_reads_what_the_samples_hold() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("cowbell.db");
    migrated(&db).await.close().await.unwrap();
    let (inlet, store) = cowbell::store::open(&db, Holds::ThisMachine, Default::default()).await.unwrap();
    let range = Range { from: Timestamp::UNIX_EPOCH, to: "2100-01-01T00:00:00Z".parse().unwrap() };
    let jobs = store.jobs(range, 100).await.unwrap();
    let names: Vec<_> =
        jobs.iter().map(|job| (job.name.as_str(), job.outcome.map(|outcome| outcome.text()))).collect();
    assert_eq!(
        names,
        [
            ("data_snapshot", Some("untrustworthy")),
            ("data_snapshot", Some("overflowed")),
            ("nightly", None),
            ("copy", Some("failed")),
            ("data_snapshot", Some("overflowed")),
            ("twin_snapshot", Some("succeeded"))
        ]
    );
    assert_eq!(
        (jobs[1].mounted_on.as_deref(), jobs[1].was_unmounted_with_its_death()),
        (Some("/mnt/snap"), true)
    );
    assert_eq!((jobs[4].peak_fill_percent, jobs[4].mounted_on.as_deref()), (Some(99.95), None));
    let heard = jobs[0].heard.as_ref().unwrap();
    let phases: Vec<_> = heard.phases.iter().map(|begun| begun.phase.text()).collect();
    assert_eq!(phases, ["flush", "snapshot", "mount", "backup", "cleanup"]);
    let span = heard.locked_at_most().unwrap();
    assert_eq!(span.until.as_millisecond() - span.from.as_millisecond(), 2_000);
    assert!(heard.reported.unwrap().succeeded && jobs[0].is_untrustworthy());
    assert_eq!((jobs[3].exit_status, jobs[3].heard.as_ref()), (Some(3), None));
    let told: Vec<_> = jobs[3].told_phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!((told, &jobs[1].told_phases[..]), (vec!["reading", "writing"], &[][..]));
    assert_eq!((jobs[1].setup.chunk_bytes, jobs[1].setup.processors), (Some(4096), None));
    let pv = Subject::Device("S1".into());
    let copied = Wanted { subject: pv, quantity: Quantity::Share(ShareQuantity::CopyWrittenBytes) };
    let copied = store.series(&[copied], range, 1).await.unwrap().pop().flatten().unwrap();
    assert_eq!(copied.points.iter().map(|point| point.avg).collect::<Vec<_>>(), [Some(3.0)]);
    let alerts = store.alerts(100).await.unwrap();
    assert_eq!(
        alerts.iter().map(|alert| alert.rule.name()).collect::<Vec<_>>(),
        ["pool_data", "snapshot_fill"]
    );
    let known = store.known().await.unwrap();
    assert_eq!((known.last_job_id, known.last_alert_id, known.alerts.len()), (9, 2, 1));
    let file = store.imported("imported:00").await.unwrap();
    assert_eq!((jobs[5].is_imported(), file), (true, Some(b"{\"cowbell_job\":1}".to_vec())));
    inlet.close().await;
}

#[tokio::test]
async fn the_table_refuses_what_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = migrated(&folder.path().join("cowbell.db")).await;
    for nonsense in [
        "INSERT INTO tick (at_ms, elapsed_us, packed) VALUES (1, -1, x'00')",
        "INSERT INTO tick (at_ms, elapsed_us, packed) VALUES ('soon', 1, x'00')",
        "INSERT INTO segment (id, from_ms, to_ms, rows, axis) VALUES (7, 2, 1, 1, x'00')",
        "INSERT INTO segment (id, from_ms, to_ms, rows, axis) VALUES (1 << 36, 1, 1, 1, x'00')",
        "INSERT INTO segment (id, from_ms, to_ms, rows, first_source, last_source, axis) VALUES (7, 1, 1, 1, 1, 1, x'00')",
        "INSERT INTO chunk (id, data) VALUES (1, 'text')",
        "INSERT INTO identity (one, id) VALUES (2, 1)",
        "INSERT INTO gap (from_ms, to_ms, ticks, reason) VALUES (1, 1, 0, 'nothing')",
        "UPDATE job SET outcome = NULL WHERE ended_ms IS NOT NULL",
        "UPDATE job SET ended_ms = started_ms - 1, outcome = 'failed'",
        "UPDATE alert SET cleared_ms = raised_ms - 1",
        "UPDATE volume SET uuid = ''",
        "UPDATE job SET mounted_on = NULL WHERE unmounted_ms IS NOT NULL",
        "UPDATE job SET run = 0",
        "UPDATE job SET locked_until_ms = locked_from_ms - 1 WHERE locked_from_ms IS NOT NULL",
        "UPDATE job SET reported = 'perhaps', reported_ms = 1",
        "UPDATE job SET reported_ms = NULL WHERE reported IS NOT NULL",
        "UPDATE job SET exit_status = 256",
        "UPDATE job SET setup = 'thick'",
        "UPDATE job SET phases = 'writing'",
        "UPDATE deleted_number SET job = 0",
        "INSERT INTO deleted_number (one, job) VALUES (2, 1)",
    ] {
        let done = sqlx::query(nonsense).execute(&mut connection).await;
        assert!(done.is_err(), "{nonsense}");
    }
}
