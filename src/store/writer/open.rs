//! Opens the database with its journal, and brings memory and database together.
//!
//! Memory belongs to one database, which is recognised by its identity. If the same database is opened again, memory stays.
//! A new, empty database receives the content of memory. Any other replaces the catalog and the ticks in memory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Instant;

use sqlx::{AssertSqlSafe, SqliteConnection};

use super::{Context, End, Writer};
use crate::store::database::{self, OpenDatabase};
use crate::store::history::{StartState, start_state};
use crate::store::journal::{self, Journal};
use crate::store::read_view::ReadView;
use crate::store::retention::Retention;
use crate::store::rows::{catalog_rows, forget_unseen, identity, write_rows};
use crate::store::seal::{last_instant, last_segment};
use crate::store::tick::{SegmentTicks, segments_of};
use crate::store::{damage, paths};

/// Maximum wait for another program's lock on the database. The statement is then retried at the next tick.
const BUSY_MS: u32 = 200;

/// Device and inode of the database and of its journal.
pub type FileIds = [Option<(u64, u64)>; 2];

/// The files that have the names now.
fn file_ids(database: &Path) -> FileIds {
    let id = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    [id(database), id(&journal::path_of(database))]
}

impl<'a> Writer<'a> {
    /// Opens the database at the path, after the previous writer ended in this way. Our own database is moved aside if it is
    /// damaged, and a new one is created.
    pub async fn open(
        context: &'a Context,
        before: Option<End>,
    ) -> anyhow::Result<(Self, StartState)> {
        if before.is_some() || paths::is_default(&context.path) {
            // Opening the database reports any error.
            let _ = std::fs::create_dir_all(paths::folder_of(&context.path));
        }
        let mut notes = Vec::new();
        match before {
            Some(End::Damaged(damage)) => {
                notes.push(damage::set_aside(&context.path, &damage).await?)
            }
            Some(End::Lost(sentence)) => notes.push(sentence),
            Some(End::Closed) | None => {}
        }
        let opened = match Self::open_as_it_is(context, &mut notes).await {
            Err(error) if let Some(damage) = damage::said_by(&context.path, &error) => {
                notes.push(damage::set_aside(&context.path, &damage).await?);
                Self::open_as_it_is(context, &mut notes).await
            }
            opened => opened,
        }?;
        context.report.send_modify(|health| {
            (health.is_open, health.error) = (true, None);
            health.notes.extend(notes);
        });
        Ok(opened)
    }

    async fn open_as_it_is(
        context: &'a Context,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<(Self, StartState)> {
        let OpenDatabase {
            mut connection,
            notes: said,
            lock,
        } = database::for_writing(&context.path, context.holds).await?;
        notes.extend(said);
        forget_unseen(&mut connection, context.keep).await?;
        let mut connection = impatient(connection).await?;
        let (identity, sealed) = (
            identity(&mut connection).await?,
            last_segment(&mut connection).await?,
        );
        let (mut state, damage) = start_state(&mut connection).await?;
        let (journal, recovered) = Journal::open(&context.path, identity, sealed)?;
        let (windows, damage_of_journal) = segments_of(recovered);
        let before = notes.len();
        notes.extend(damage.into_iter().chain(damage_of_journal));
        notes[before..]
            .iter()
            .for_each(|sentence| tracing::warn!("{sentence}"));
        state.see_ticks(windows.iter().flat_map(|window| &window.ticks));
        let mut writer = Self {
            context,
            connection,
            is_broken: false,
            journal,
            window: None,
            complete: windows,
            sealing: None,
            tidying: None,
            unsynced: None,
            retention: Retention::new(context.keep),
            tidy_at: Instant::now(),
            files: file_ids(&context.path),
            refused: 0,
            _lock: lock,
        };
        writer.bring_together(identity, sealed).await?;
        writer.seal_when_complete().await;
        writer.measure().await?;
        Ok((writer, state))
    }

    async fn bring_together(&mut self, identity: u64, sealed: i64) -> anyhow::Result<()> {
        let (context, connection) = (self.context, &mut self.connection);
        let stored = catalog_rows(connection).await?;
        let is_new = sealed == 0 && stored.is_empty() && self.complete.is_empty();
        let last = last_instant(connection).await?;
        let (rows, ticks) = {
            let mut catalog = context
                .catalog
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            if catalog.identity == Some(identity) {
                // The current segment continues.
                let is_current = |window: &mut SegmentTicks| window.number == catalog.last_segment;
                self.window = self.complete.pop_if(is_current);
                return Ok(());
            }
            if !is_new {
                let next = self.complete.last().map_or(sealed, |window| window.number) + 1;
                catalog.replace(stored, identity, next);
                context.recent.replace(last, self.complete.clone());
                return Ok(());
            }
            catalog.identity = Some(identity);
            (catalog.rows(), context.recent.written())
        };
        write_rows(connection, &rows).await?;
        for (segment, tick) in ticks {
            self.keep(segment, &tick).await?;
        }
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

    /// A sentence, if the database's or the journal's name is that of another file or of none.
    pub(super) fn lost_files(&self) -> Option<String> {
        let path = self.context.path.display();
        (file_ids(&self.context.path) != self.files).then(|| {
            format!(
                "the database {path} or its journal was removed or replaced: storing began anew"
            )
        })
    }
}

/// Reads the start state from a database that cannot be written.
pub async fn without_writing(context: &Context) -> anyhow::Result<StartState> {
    if matches!(context.path.try_exists(), Ok(false)) {
        return Ok(StartState::default());
    }
    let mut view = ReadView::of(&context.path).await?;
    let (mut state, _) = start_state(&mut view.connection).await?;
    state.see_ticks(view.journaled.iter().flat_map(|segment| &segment.ticks));
    let last = last_instant(&mut view.connection).await?;
    let next = view
        .journaled
        .last()
        .map_or(view.sealed, |segment| segment.number)
        + 1;
    let mut catalog = context
        .catalog
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    catalog.replace(view.catalog.rows(), view.identity, next);
    context.recent.replace(last, Vec::new());
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
