//! Opens the database with its journal, and brings memory and database together.
//!
//! Memory belongs to one database, known by its identity. The same database continues. A new, empty one gets what memory
//! holds; any other replaces the catalog and the ticks in memory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use sqlx::{AssertSqlSafe, SqliteConnection};

use super::{Context, End, Writer};
use crate::store::database::{self, Opened};
use crate::store::journal::{self, Journal};
use crate::store::lasting::{StartState, start_state};
use crate::store::retention::Retention;
use crate::store::rows::{catalog_rows, forget_unseen, identity, identity_of, write_rows};
use crate::store::seal::{last_instant, last_segment};
use crate::store::tick::{SegmentTicks, segments_of};
use crate::store::{damage, paths};

/// A program that holds the database is waited for this long; then the statement is tried again with the next tick.
const BUSY_MS: u32 = 200;

/// Device and inode of the database and of its journal.
#[derive(Debug, PartialEq, Eq)]
pub struct Files([Option<(u64, u64)>; 2]);

impl Files {
    /// Those that the names lead to now.
    pub fn of(database: &Path) -> Self {
        let id = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
        Self([id(database), id(&journal::path_of(database))])
    }
}

impl<'a> Writer<'a> {
    /// Opens the database at the path, after another writer ended in this way. A damaged database of ours is set aside,
    /// and a new one made.
    pub async fn open(context: &'a Context, before: Option<End>) -> anyhow::Result<(Self, StartState)> {
        if before.is_some() || paths::is_default(&context.path) {
            // An error shows when the database is opened.
            let _ = std::fs::create_dir_all(paths::folder_of(&context.path));
        }
        let mut notes = Vec::new();
        match before {
            Some(End::Damaged(damage)) => notes.push(damage::set_aside(&context.path, &damage).await?),
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
        let Opened { mut connection, notes: said, lock } =
            database::for_writing(&context.path, context.holds).await?;
        notes.extend(said);
        forget_unseen(&mut connection, context.keep).await?;
        let mut connection = impatient(connection).await?;
        let (identity, sealed) = (identity(&mut connection).await?, last_segment(&mut connection).await?);
        let (mut state, damage) = start_state(&mut connection).await?;
        let (journal, recovered) = Journal::open(&context.path, identity, sealed)?;
        let (windows, not_understood) = segments_of(&recovered.records);
        let damage: Vec<String> = damage.into_iter().chain(recovered.damage).chain(not_understood).collect();
        damage.iter().for_each(|sentence| tracing::warn!("{sentence}"));
        notes.extend(damage);
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
            files: Files::of(&context.path),
            look_at: Instant::now(),
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
        let memory = {
            let mut catalog = context.catalog.write().unwrap_or_else(PoisonError::into_inner);
            match catalog.identity {
                Some(known) if known == identity => {
                    // The segment that was written to goes on.
                    let is_current = |window: &mut SegmentTicks| window.number == catalog.last_segment;
                    self.window = self.complete.pop_if(is_current);
                    return Ok(());
                }
                _ if is_new => {
                    catalog.identity = Some(identity);
                    Some((catalog.rows(), context.recent.written()))
                }
                _ => {
                    let next = self.complete.last().map_or(sealed, |window| window.number) + 1;
                    catalog.replace(stored, identity, next);
                    None
                }
            }
        };
        match memory {
            Some((rows, ticks)) => {
                write_rows(connection, &rows).await?;
                for (segment, tick) in ticks {
                    self.keep(segment, &tick).await?;
                }
            }
            None => {
                let last = last_instant(connection).await?;
                let ticks = self
                    .complete
                    .iter()
                    .flat_map(|window| window.ticks.iter().map(|tick| (window.number, Arc::clone(tick))));
                context.recent.replace(last, ticks);
            }
        }
        Ok(())
    }

    /// Opens the connection again where a statement failed.
    pub(super) async fn mend(&mut self) -> anyhow::Result<()> {
        if self.is_broken {
            self.connection = impatient(database::to_rewrite(&self.context.path).await?).await?;
            self.is_broken = false;
        }
        Ok(())
    }

    /// The sentence that says so, where another file has the database's name or the journal's, or none has.
    pub(super) fn lost_files(&self) -> Option<String> {
        let path = self.context.path.display();
        (Files::of(&self.context.path) != self.files).then(|| {
            format!("the database {path} or its journal was removed or replaced: storing began anew")
        })
    }
}

/// Where an earlier run left off, read from a database that cannot be written. The error stays the one of the writing
/// where the database cannot be read either.
pub async fn without_writing(context: &Context, error: anyhow::Error) -> anyhow::Result<StartState> {
    read_only(context).await.map_err(|_| error)
}

async fn read_only(context: &Context) -> anyhow::Result<StartState> {
    if !context.path.try_exists()? {
        return Ok(StartState::default());
    }
    let mut connection = database::to_look_at(&context.path).await?;
    let (mut state, _) = start_state(&mut connection).await?;
    let rows = catalog_rows(&mut connection).await?;
    let (sealed, last) = (last_segment(&mut connection).await?, last_instant(&mut connection).await?);
    let Some(identity) = identity_of(&mut connection).await? else { return Ok(state) };
    let recovered = journal::recover(&journal::bytes(&context.path)?, identity, sealed);
    let (windows, _) = segments_of(&recovered.records);
    state.see_ticks(windows.iter().flat_map(|window| &window.ticks));
    let next = windows.last().map_or(sealed, |window| window.number) + 1;
    context.catalog.write().unwrap_or_else(PoisonError::into_inner).replace(rows, identity, next);
    context.recent.replace(last, std::iter::empty());
    Ok(state)
}

/// Ticks do not wait for a program that holds the database: a statement that fails is tried again.
async fn impatient(mut connection: SqliteConnection) -> sqlx::Result<SqliteConnection> {
    // A pragma takes no parameters.
    let limit = format!("PRAGMA busy_timeout = {BUSY_MS}");
    sqlx::query(AssertSqlSafe(limit)).execute(&mut connection).await?;
    Ok(connection)
}
