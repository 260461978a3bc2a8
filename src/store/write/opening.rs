//! How a writer begins: database and journal are opened, and the one gets what the other holds.
//!
//! A connection on which something failed is opened anew here too.

use std::sync::Arc;

use jiff::Timestamp;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::segments::Window;
use super::{Writer, Writing};
use crate::store::clock::Clock;
use crate::store::journal::Journal;
use crate::store::open::{self, Opened};
use crate::store::record::{Recorder, ticks_of};
use crate::store::retention::Retention;
use crate::store::rows::{catalog, day_before_last, forget_unseen, identity, last_instant, last_segment};
use crate::store::{OpeningState, convert, damage};

/// For somebody who holds the database is waited so long; then it is tried again with the next tick.
const BUSY_MS: u32 = 200;

impl Writer {
    /// Opens database and journal, and puts into the one what the other holds. Where the one turns out to be damaged, both
    /// are set aside, and it begins anew.
    pub async fn open(writing: &Writing) -> anyhow::Result<Self> {
        match Self::open_as_it_is(writing, None).await {
            Err(error) if let Some(damage) = damage::said_by(&writing.path, &error) => {
                let note = damage::set_aside(&writing.path, &damage).await?;
                Self::open_as_it_is(writing, Some(note)).await
            }
            opened => opened,
        }
    }

    async fn open_as_it_is(writing: &Writing, note: Option<String>) -> anyhow::Result<Self> {
        let Opened { mut connection, notes, lock } = open::for_writing(&writing.path, writing.holds).await?;
        forget_unseen(&mut connection, writing.keep).await?;
        let mut connection = impatient(connection).await?;
        convert::old_ticks(&mut connection).await?;
        let sealed = last_segment(&mut connection).await?;
        let kept_at =
            day_before_last(&mut connection).await?.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let (journal, replayed) = Journal::open(&writing.path, identity(&mut connection).await?, sealed)?;
        let (mut said, mut complete) = (replayed.said, Vec::new());
        for segment in &replayed.segments {
            let (ticks, lost) = ticks_of(segment);
            if let Some(lost) = lost {
                let copy = journal.copy_aside(segment.number)?;
                said.push(format!("{lost}; a copy of the file is {}", copy.display()));
            }
            complete.push(Window { number: segment.number, ticks });
        }
        said.iter().for_each(|note| tracing::warn!("{note}"));
        complete.retain(|window| !window.ticks.is_empty());
        for window in &complete {
            window.ticks.iter().for_each(|tick| writing.recent.put(window.number, Arc::clone(tick)));
        }
        let mut writer = Self {
            path: writing.path.clone(),
            connection,
            is_broken: false,
            journal,
            report: writing.report.clone(),
            recent: Arc::clone(&writing.recent),
            recorder: Recorder::default(),
            window: None,
            complete,
            next_segment: replayed.segments.last().map_or(sealed, |segment| segment.number) + 1,
            sealing: None,
            tidying: None,
            unsynced: None,
            holds: writing.holds,
            clock: Clock::new(kept_at),
            retention: Retention::new(writing.keep),
            tidy_at_ms: i64::MIN,
            refused: 0,
            _lock: lock,
        };
        writer.seal_when_complete().await;
        writer.measure().await?;
        let notes = note.into_iter().chain(notes).chain(said);
        writer.report.send_modify(|health| {
            health.is_open = true;
            health.error = None;
            health.notes.extend(notes);
        });
        Ok(writer)
    }

    /// What the database holds before anything is written.
    pub async fn begun(&mut self) -> anyhow::Result<OpeningState> {
        Ok(OpeningState {
            catalog: catalog(&mut self.connection).await?,
            last_instant_ms: last_instant(&mut self.connection).await?,
            next_segment: self.next_segment,
        })
    }

    /// Opens the connection anew where it is needed.
    pub(super) async fn mend(&mut self) -> anyhow::Result<()> {
        if self.is_broken {
            self.connection = impatient(open::to_rewrite(&self.path).await?).await?;
            self.is_broken = false;
        }
        Ok(())
    }
}

/// Ticks are not to wait for somebody who holds the database: what cannot be written now is tried again.
async fn impatient(mut connection: SqliteConnection) -> sqlx::Result<SqliteConnection> {
    // A pragma takes no parameters.
    let limit = format!("PRAGMA busy_timeout = {BUSY_MS}");
    sqlx::query(AssertSqlSafe(limit)).execute(&mut connection).await?;
    Ok(connection)
}
