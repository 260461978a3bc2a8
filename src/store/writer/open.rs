//! Opens the database, and brings memory and database together.
//!
//! Memory belongs to one database, which is recognised by its identity. If the same database is opened again, memory stays.
//! A new, empty database receives the content of memory. Any other replaces the catalog and the ticks in memory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Instant;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::{Context, Writer, WriterEnd};
use crate::store::catalog::{CatalogRows, catalog_rows, forget_unseen, identity, write_rows};
use crate::store::database::{self, OpenDatabase};
use crate::store::history::{StartState, start_state};
use crate::store::paths;
use crate::store::position::Position;
use crate::store::read_view::ReadView;
use crate::store::recent::TickRecord;
use crate::store::retention::Retention;
use crate::store::stored::{last_tick, latest_ms, write_tick};

/// Maximum wait for another program's lock on the database. The statement is then retried.
const BUSY_MS: u32 = 200;

/// Device and inode of the database.
pub type FileId = Option<(u64, u64)>;

/// The file that has the name now.
fn file_id(path: &Path) -> FileId {
    let file = path.metadata().ok()?;
    Some((file.dev(), file.ino()))
}

impl<'a> Writer<'a> {
    /// Opens the database at the path, after the previous writer ended in this way. Our own database is moved aside if it is
    /// damaged, and a new one is created.
    pub async fn open(
        context: &'a Context,
        before: Option<&WriterEnd>,
    ) -> anyhow::Result<(Self, StartState)> {
        if before.is_some() || paths::is_default(&context.path) {
            // Opening the database reports any error.
            let _ = std::fs::create_dir_all(paths::folder_of(&context.path));
        }
        let is_suspect = matches!(before, Some(WriterEnd::Damaged(_)));
        let OpenDatabase {
            connection,
            mut notes,
            lock,
        } = database::for_writing(&context.path, context.holds, is_suspect).await?;
        if let Some(WriterEnd::Lost(sentence)) = before {
            notes.insert(0, sentence.clone());
        }
        let mut connection = impatient(connection).await?;
        forget_unseen(&mut connection).await?;
        let (state, damage) = start_state(&mut connection).await?;
        for sentence in damage {
            tracing::warn!("{sentence}");
            notes.push(sentence);
        }
        let last = last_tick(&mut connection).await?;
        let mut writer = Self {
            context,
            connection,
            is_broken: false,
            window: last.map(Position::window),
            upkeep_error: None,
            retention: Retention::new(context.keep),
            retain_at: Instant::now(),
            file: file_id(&context.path),
            refused: 0,
            _lock: lock,
        };
        writer.bring_together(last).await?;
        writer.measure().await?;
        context.report.send_modify(|health| {
            (health.is_open, health.error) = (true, None);
            health.notes.extend(notes);
        });
        Ok((writer, state))
    }

    async fn bring_together(&mut self, last: Option<Position>) -> anyhow::Result<()> {
        let (context, connection) = (self.context, &mut self.connection);
        let identity = identity(connection).await?;
        let stored = catalog_rows(connection).await?;
        let latest_ms = latest_ms(connection).await?;
        let (rows, ticks) = {
            let mut catalog = context
                .catalog
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            if catalog.identity == Some(identity) {
                return Ok(());
            }
            if last.is_some() || !stored.is_empty() {
                catalog.replace(stored, Some(identity), last);
                context.recent.clear(latest_ms);
                return Ok(());
            }
            catalog.identity = Some(identity);
            (catalog.rows(), context.recent.all_committed())
        };
        write_memory(connection, &rows, &ticks).await?;
        self.window = ticks.last().map(|tick| tick.position.window());
        Ok(())
    }

    /// Opens the connection again if a statement failed.
    pub(super) async fn mend(&mut self) -> anyhow::Result<()> {
        if self.is_broken {
            self.connection = impatient(database::to_rewrite(&self.context.path).await?).await?;
            self.is_broken = false;
        }
        Ok(())
    }

    /// A sentence, if the database's name is that of another file or of none.
    pub(super) fn lost_file(&self) -> Option<String> {
        let path = self.context.path.display();
        (file_id(&self.context.path) != self.file)
            .then(|| format!("the database {path} was removed or replaced: storing began anew"))
    }
}

/// Writes what memory has into a new database.
async fn write_memory(
    connection: &mut SqliteConnection,
    rows: &CatalogRows,
    ticks: &[TickRecord],
) -> anyhow::Result<()> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    write_rows(&mut transaction, rows).await?;
    for tick in ticks {
        write_tick(&mut transaction, tick.position, &tick.record).await?;
    }
    Ok(transaction.commit().await?)
}

/// Reads the start state from a database that cannot be written.
pub async fn without_writing(context: &Context) -> anyhow::Result<StartState> {
    if matches!(context.path.try_exists(), Ok(false)) {
        return Ok(StartState::default());
    }
    let mut view = ReadView::of(&context.path).await?;
    let (state, _) = start_state(&mut view.connection).await?;
    let last = last_tick(&mut view.connection).await?;
    let latest_ms = latest_ms(&mut view.connection).await?;
    let mut catalog = context
        .catalog
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    catalog.replace(view.catalog.rows(), view.identity, last);
    context.recent.clear(latest_ms);
    Ok(state)
}

/// Limits the wait for locks, since ticks do not wait for another program.
async fn impatient(mut connection: SqliteConnection) -> sqlx::Result<SqliteConnection> {
    // A pragma takes no parameters.
    let limit = format!("PRAGMA busy_timeout = {BUSY_MS}");
    sqlx::query(AssertSqlSafe(limit))
        .execute(&mut connection)
        .await?;
    Ok(connection)
}
