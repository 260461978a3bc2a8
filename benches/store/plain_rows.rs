//! Plain SQLite rows of the same values, a commit a tick: what one would do first.

use std::path::Path;
use std::time::{Duration, Instant};

use cowbell::interval::Interval;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tempfile::TempDir;

use crate::machine::{Machine, columns};
use crate::meter::{Process, device_written, ms, process_time, size_of, thread_time, us};

/// Fills and the host's values are rows of one more table in each.
const TABLES: [(&str, &str); 2] = [
    (
        "rows with rowid, index (dev, ts)",
        "CREATE TABLE work (ts INTEGER, dev INTEGER, a INTEGER, b INTEGER, c INTEGER, d INTEGER, e INTEGER, f INTEGER,
             g INTEGER, h INTEGER);
         CREATE INDEX work_of ON work (dev, ts);
         CREATE TABLE gauge (ts INTEGER, gauge INTEGER, value INTEGER);
         CREATE INDEX gauge_of ON gauge (gauge, ts);",
    ),
    (
        "rows WITHOUT ROWID (ts, dev)",
        "CREATE TABLE work (ts INTEGER, dev INTEGER, a INTEGER, b INTEGER, c INTEGER, d INTEGER, e INTEGER, f INTEGER,
             g INTEGER, h INTEGER, PRIMARY KEY (ts, dev)) WITHOUT ROWID;
         CREATE TABLE gauge (ts INTEGER, gauge INTEGER, value INTEGER, PRIMARY KEY (ts, gauge)) WITHOUT ROWID;",
    ),
];

/// Prints a row for each kind of table.
pub async fn measure(ticks: u64, make: impl Fn() -> Machine) {
    for (named, schema) in TABLES {
        let folder = match std::env::var_os("FOLDER") {
            Some(named) => TempDir::new_in(named),
            None => TempDir::new(),
        };
        let folder = folder.expect("a folder for rows");
        let mut connection = open(folder.path(), schema).await.expect("SQLite opens");
        let mut machine = make();
        let (began, wrote) = (
            process_time(),
            (Process::own().written(), device_written(folder.path())),
        );
        let mut making = Duration::ZERO;
        for _ in 0..ticks {
            let started = thread_time();
            let interval = machine.tick();
            making += thread_time() - started;
            write(&mut connection, &interval, &machine.host)
                .await
                .expect("SQLite writes");
        }
        let storing = process_time() - began - making;
        let wrote_now = (Process::own().written(), device_written(folder.path()));
        let read = read(&mut connection).await.expect("SQLite reads");
        connection.close().await.expect("SQLite closes");
        println!(
            "| {named} | {:.2} | {} B | {} B | {:.0} µs | {:.1} ms |",
            size_of(folder.path()) as f64 / (ticks * machine.values()) as f64,
            (wrote_now.0 - wrote.0) / ticks,
            (wrote_now.1 - wrote.1) / ticks,
            us(storing) / ticks as f64,
            ms(read),
        );
    }
}

async fn open(folder: &Path, schema: &'static str) -> sqlx::Result<SqliteConnection> {
    let mut connection = SqliteConnectOptions::new()
        .filename(folder.join("rows.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .disable_statement_logging()
        .connect()
        .await?;
    sqlx::raw_sql(schema).execute(&mut connection).await?;
    Ok(connection)
}

async fn write(
    connection: &mut SqliteConnection,
    interval: &Interval,
    host: &[u64],
) -> sqlx::Result<()> {
    let ts = interval.at.as_millisecond();
    let mut transaction = connection.begin().await?;
    for (dev, work) in (0i64..).zip(interval.devices.iter().map(|device| device.work)) {
        let mut query = sqlx::query("INSERT INTO work VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
            .bind(ts)
            .bind(dev);
        for number in columns(&work) {
            query = query.bind(number.cast_signed());
        }
        query.execute(&mut *transaction).await?;
    }
    let used = interval
        .volumes
        .iter()
        .map(|volume| volume.fill.map_or(0, |fill| fill.used));
    for (gauge, value) in (0i64..).zip(used.chain(host.iter().copied())) {
        let query = sqlx::query("INSERT INTO gauge VALUES (?, ?, ?)");
        query
            .bind(ts)
            .bind(gauge)
            .bind(value.cast_signed())
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await
}

/// One device's whole span as rows, warm.
async fn read(connection: &mut SqliteConnection) -> sqlx::Result<Duration> {
    let mut took = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let query =
            sqlx::query_as::<_, (i64, i64)>("SELECT ts, b FROM work WHERE dev = 0 ORDER BY ts");
        query.fetch_all(&mut *connection).await?;
        took.push(started.elapsed());
    }
    took.sort_unstable();
    Ok(took[took.len() / 2])
}
