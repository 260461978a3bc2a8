//! Rows as plain tables of a new SQLite file, with devices, volumes, jobs, alerts and gaps beside them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, SqliteConnection};

use super::text::{names, values};
use super::topics::{Sort, Topic, Topics};
use super::{Ask, Line, Resolution};

/// Rows that one statement inserts; SQLite allows 32,766 values in one.
const ROWS_AT_ONCE: usize = 200;
/// Rows of one transaction: some megabytes.
const ROWS_A_TRANSACTION: usize = 50_000;

/// Writes rows as tables.
pub struct Tables {
    file: PathBuf,
    connection: SqliteConnection,
    tables: [Table; 3],
    topics: Vec<Place>,
    /// Columns of a quantity: its mean alone, or the smallest and the largest tick too.
    width: usize,
    /// Rows of the transaction.
    rows: usize,
}

/// A table that rows are put in.
#[derive(Default)]
struct Table {
    name: &'static str,
    has_number: bool,
    columns: Vec<String>,
    /// Rows that are not in the file yet.
    waiting: Vec<Waiting>,
}

struct Waiting {
    time: String,
    number: i64,
    seconds: f64,
    values: Vec<Option<f64>>,
}

/// Where a topic's rows go.
struct Place {
    table: usize,
    number: i64,
    /// The first column of each of its quantities.
    columns: Vec<usize>,
}

const TABLES: [(&str, &str, &[Sort]); 3] = [
    ("device_tick", ", device INTEGER NOT NULL REFERENCES devices (id)", &[Sort::Device, Sort::Total]),
    ("volume_tick", ", volume INTEGER NOT NULL REFERENCES volumes (id)", &[Sort::Volume]),
    ("host_tick", "", &[Sort::Host]),
];

/// Devices, volumes, jobs, alerts and gaps.
const LASTING: &str = include_str!("lasting.sql");

impl Tables {
    /// In a file that is empty; `kept` is the database that is exported.
    pub async fn new(file: &Path, kept: &Path) -> anyhow::Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .journal_mode(SqliteJournalMode::Memory)
            // A file that was not finished is of no use: it is synced once, at the end.
            .synchronous(SqliteSynchronous::Off)
            .disable_statement_logging();
        let mut connection = options.connect().await?;
        sqlx::query("ATTACH ? AS kept").bind(read_only(kept)?).execute(&mut connection).await?;
        let tables = TABLES.map(|(name, number, _)| Table {
            name,
            has_number: !number.is_empty(),
            ..Table::default()
        });
        Ok(Self { file: file.to_path_buf(), connection, tables, topics: Vec::new(), width: 1, rows: 0 })
    }

    pub(super) async fn begin(&mut self, topics: &Topics, ask: &Ask) -> anyhow::Result<()> {
        self.width = if ask.resolution == Resolution::Tick { 1 } else { 3 };
        self.describe(ask).await?;
        sqlx::raw_sql(LASTING).execute(&mut self.connection).await?;
        sqlx::query("DETACH kept").execute(&mut self.connection).await?;
        for index in 0..TABLES.len() {
            self.create(index, topics).await?;
        }
        self.topics = topics.list.iter().map(|topic| self.place(topic)).collect();
        sqlx::query("BEGIN").execute(&mut self.connection).await?;
        Ok(())
    }

    /// What the file is of.
    async fn describe(&mut self, ask: &Ask) -> anyhow::Result<()> {
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
        Ok(())
    }

    /// Makes a table with a column for each quantity that a topic of it has, or all where there is no topic.
    async fn create(&mut self, index: usize, topics: &Topics) -> anyhow::Result<()> {
        let (name, number, sorts) = TABLES[index];
        let held = topics.quantities(sorts);
        let held = if held.is_empty() { sorts[0].quantities().collect() } else { held };
        let columns: Vec<String> =
            held.iter().flat_map(|quantity| names(*quantity).into_iter().take(self.width)).collect();
        let reals: String = columns.iter().map(|column| format!(", {column} REAL")).collect();
        let create =
            format!("CREATE TABLE {name} (time TEXT NOT NULL{number}, seconds REAL NOT NULL{reals}) STRICT");
        sqlx::query(AssertSqlSafe(create)).execute(&mut self.connection).await?;
        self.tables[index].columns = columns;
        Ok(())
    }

    fn place(&self, topic: &Topic) -> Place {
        let table = TABLES.iter().position(|(.., sorts)| sorts.contains(&topic.sort)).unwrap_or_default();
        let columns = topic.quantities.iter().map(|(_, quantity)| {
            let name = quantity.name();
            self.tables[table].columns.iter().position(|column| *column == name).unwrap_or_default()
        });
        Place { table, number: topic.row.into(), columns: columns.collect() }
    }

    pub(super) async fn line(&mut self, line: &Line<'_>) -> anyhow::Result<()> {
        let Place { table, number, columns } = &self.topics[line.topic];
        let (table, number) = (*table, *number);
        let mut row = vec![None; self.tables[table].columns.len()];
        for (column, extent) in columns.iter().zip(line.values) {
            let cells = row[*column..].iter_mut().take(self.width);
            cells.zip(values(extent.as_ref())).for_each(|(cell, value)| *cell = value);
        }
        let waiting = Waiting { time: line.time.into(), number, seconds: line.seconds, values: row };
        self.tables[table].waiting.push(waiting);
        if self.tables[table].waiting.len() == ROWS_AT_ONCE {
            self.insert(table).await?;
        }
        Ok(())
    }

    async fn insert(&mut self, table: usize) -> anyhow::Result<()> {
        let statement = self.tables[table].statement();
        let mut query = sqlx::query(AssertSqlSafe(statement));
        let table = &mut self.tables[table];
        self.rows += table.waiting.len();
        for row in table.waiting.drain(..) {
            query = query.bind(row.time);
            if table.has_number {
                query = query.bind(row.number);
            }
            query = query.bind(row.seconds);
            for value in row.values {
                query = query.bind(value);
            }
        }
        query.execute(&mut self.connection).await?;
        if self.rows >= ROWS_A_TRANSACTION {
            self.rows = 0;
            sqlx::raw_sql("COMMIT; BEGIN").execute(&mut self.connection).await?;
        }
        Ok(())
    }

    pub(super) async fn finish(&mut self) -> anyhow::Result<()> {
        for table in 0..TABLES.len() {
            if !self.tables[table].waiting.is_empty() {
                self.insert(table).await?;
            }
        }
        sqlx::query("COMMIT").execute(&mut self.connection).await?;
        let written = std::fs::File::open(&self.file).and_then(|file| file.sync_all());
        written.with_context(|| format!("cannot sync {}", self.file.display()))
    }
}

impl Table {
    /// Inserts all that waits.
    fn statement(&self) -> String {
        let cells = 2 + usize::from(self.has_number) + self.columns.len();
        let row = format!("({})", vec!["?"; cells].join(", "));
        format!("INSERT INTO {} VALUES {}", self.name, vec![row; self.waiting.len()].join(", "))
    }
}

/// The address of a database that is not to be changed.
fn read_only(path: &Path) -> anyhow::Result<String> {
    let path = path.to_str().with_context(|| format!("the name {} is no text", path.display()))?;
    Ok(format!("file:{}?mode=ro", path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")))
}
