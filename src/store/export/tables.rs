//! Rows as tables of a new SQLite file, with devices, volumes, jobs, alerts and gaps beside them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, QueryBuilder, SqliteConnection};

use super::topics::{Columns, Topics, own_quantities};
use super::{ExportQuery, Line};
use crate::store::stream::{Kind, Stream};

/// Rows that one statement inserts; SQLite allows 32,766 values in one.
const ROWS_AT_ONCE: usize = 200;
/// Rows in one transaction: some megabytes.
const ROWS_A_TRANSACTION: usize = 50_000;
/// The tables: name, column that refers to the device or volume, and a stream of the kind in its rows.
const TABLES: [(&str, &str, Stream); 3] = [
    (
        "device_tick",
        ", device INTEGER NOT NULL REFERENCES devices (id)",
        Stream {
            kind: Kind::Device,
            row: 1,
        },
    ),
    (
        "volume_tick",
        ", volume INTEGER NOT NULL REFERENCES volumes (id)",
        Stream {
            kind: Kind::Volume,
            row: 1,
        },
    ),
    ("host_tick", "", Stream::HOST),
];
/// Devices, volumes, jobs, alerts and gaps.
const RECORDS: &str = include_str!("records.sql");

/// Writes rows as tables.
pub struct Tables {
    file: PathBuf,
    connection: SqliteConnection,
    /// In the order of [`TABLES`].
    tables: Vec<Table>,
    /// Rows in the transaction.
    rows: usize,
}

struct Table {
    name: &'static str,
    refers: bool,
    columns: Columns,
    /// Rows that are not in the file yet.
    waiting: Vec<Waiting>,
}

struct Waiting {
    time: String,
    /// The device or the volume.
    id: u32,
    seconds: f64,
    values: Vec<Option<f64>>,
}

impl Tables {
    /// In the empty file `file`; `stored` is the database that is exported.
    pub async fn new(file: &Path, stored: &Path) -> anyhow::Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .journal_mode(SqliteJournalMode::Memory)
            // An unfinished file is useless, so it is synced once, at the end.
            .synchronous(SqliteSynchronous::Off)
            .disable_statement_logging();
        let mut connection = options.connect().await?;
        sqlx::query("ATTACH ? AS stored")
            .bind(read_only(stored)?)
            .execute(&mut connection)
            .await?;
        Ok(Self {
            file: file.to_path_buf(),
            connection,
            tables: Vec::new(),
            rows: 0,
        })
    }

    pub(super) async fn begin(&mut self, topics: &Topics, ask: &ExportQuery) -> anyhow::Result<()> {
        sqlx::query(
            "CREATE TABLE export (from_ms INTEGER, to_ms INTEGER, resolution TEXT, cowbell TEXT) STRICT",
        )
        .execute(&mut self.connection)
        .await?;
        sqlx::query("INSERT INTO export VALUES (?, ?, ?, ?)")
            .bind(ask.range.from.as_millisecond())
            .bind(ask.range.to.as_millisecond())
            .bind(ask.resolution.word())
            .bind(env!("CARGO_PKG_VERSION"))
            .execute(&mut self.connection)
            .await?;
        sqlx::raw_sql(RECORDS).execute(&mut self.connection).await?;
        sqlx::query("DETACH stored")
            .execute(&mut self.connection)
            .await?;
        for (name, reference, stream) in TABLES {
            let used = topics.quantities(|topic| topic.kind == stream.kind);
            let quantities = if used.is_empty() {
                own_quantities(stream).collect()
            } else {
                used
            };
            let columns = Columns::of(quantities, ask.resolution);
            let reals: String = columns
                .names()
                .map(|column| format!(", {column} REAL"))
                .collect();
            let create = format!(
                "CREATE TABLE {name} (time TEXT NOT NULL{reference}, seconds REAL NOT NULL{reals}) STRICT"
            );
            sqlx::query(AssertSqlSafe(create))
                .execute(&mut self.connection)
                .await?;
            self.tables.push(Table {
                name,
                refers: !reference.is_empty(),
                columns,
                waiting: Vec::new(),
            });
        }
        sqlx::query("BEGIN").execute(&mut self.connection).await?;
        Ok(())
    }

    pub(super) async fn line(&mut self, line: &Line<'_>) -> anyhow::Result<()> {
        let Stream { kind, row } = line.topic.stream;
        let place = TABLES
            .iter()
            .position(|(.., stream)| stream.kind == kind)
            .unwrap_or_default();
        let table = &mut self.tables[place];
        let values = table.columns.cells(line).collect();
        table.waiting.push(Waiting {
            time: line.time.into(),
            id: row,
            seconds: line.seconds,
            values,
        });
        if table.waiting.len() == ROWS_AT_ONCE {
            self.insert(place).await?;
        }
        Ok(())
    }

    async fn insert(&mut self, place: usize) -> anyhow::Result<()> {
        let table = &mut self.tables[place];
        self.rows += table.waiting.len();
        let mut query = QueryBuilder::new(format!("INSERT INTO {} ", table.name));
        query.push_values(table.waiting.drain(..), |mut cells, row| {
            cells.push_bind(row.time);
            if table.refers {
                cells.push_bind(row.id);
            }
            cells.push_bind(row.seconds);
            for value in row.values {
                cells.push_bind(value);
            }
        });
        query.build().execute(&mut self.connection).await?;
        if self.rows >= ROWS_A_TRANSACTION {
            self.rows = 0;
            sqlx::raw_sql("COMMIT; BEGIN")
                .execute(&mut self.connection)
                .await?;
        }
        Ok(())
    }

    pub(super) async fn finish(&mut self) -> anyhow::Result<()> {
        for place in 0..self.tables.len() {
            if !self.tables[place].waiting.is_empty() {
                self.insert(place).await?;
            }
        }
        sqlx::query("COMMIT").execute(&mut self.connection).await?;
        let written = std::fs::File::open(&self.file).and_then(|file| file.sync_all());
        written.with_context(|| format!("cannot sync {}", self.file.display()))
    }
}

/// The address of a database that is only read.
fn read_only(path: &Path) -> anyhow::Result<String> {
    let path = path
        .to_str()
        .with_context(|| format!("the name {} is not UTF-8", path.display()))?;
    Ok(format!(
        "file:{}?mode=ro",
        path.replace('%', "%25")
            .replace('?', "%3f")
            .replace('#', "%23")
    ))
}
