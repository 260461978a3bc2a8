//! A database and its journal as they are at one moment, looked at from outside, also while a daemon writes them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use jiff::Timestamp;
use sqlx::{Connection, Row, SqliteConnection};

use super::catalog::Catalog;
use super::damage::unreadable;
use super::journal::{Journal, Replayed};
use super::open;
use super::record::ticks_of;
use super::rows;
use super::segment::Axis;
use super::tick::Tick;

/// Looks at a journal until no segment was begun meanwhile; one begins every ten minutes.
const MOST_LOOKS: usize = 5;

/// What was kept up to one moment.
pub struct ReadView {
    /// Within a transaction: what is sealed, rolled up or deleted later is not seen.
    pub(super) connection: SqliteConnection,
    pub(super) catalog: Catalog,
    /// What is in the journal alone, by segment, the oldest first.
    pub(super) journaled: Vec<JournalSegment>,
    /// A sentence for each file of the journal that cannot be used.
    pub(super) unusable: Vec<String>,
}

/// Ticks of a segment that is not in the database yet.
pub struct JournalSegment {
    pub number: i64,
    pub ticks: Vec<Arc<Tick>>,
}

impl ReadView {
    /// Nothing is made or changed. A database of another program or version is refused with a sentence.
    pub async fn of(path: &Path) -> anyhow::Result<Self> {
        Self::at(path).await.map_err(|error| unreadable(path, error))
    }

    async fn at(path: &Path) -> anyhow::Result<Self> {
        let named = || format!("cannot read the database {}", path.display());
        let mut connection = open::to_look_at(path).await?;
        refuse_unreadable(&mut connection).await.with_context(named)?;
        // In this order: what leaves the journal meanwhile is in the database by then.
        let (journaled, unusable) = journaled(&mut connection, path).await?;
        sqlx::query("BEGIN").execute(&mut connection).await.with_context(named)?;
        let sealed = rows::last_segment(&mut connection).await.with_context(named)?;
        let catalog = rows::catalog(&mut connection).await.with_context(named)?;
        Ok(Self { connection, catalog, journaled: behind(journaled, sealed), unusable })
    }

    /// Lets go of the moment, so that it holds nobody up who writes.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        Ok(self.connection.close().await?)
    }

    /// When the last tick ended; `None` where there is none.
    pub async fn last_tick_at(&mut self) -> anyhow::Result<Option<Timestamp>> {
        let kept = rows::last_instant(&mut self.connection).await?;
        let ticks = self.journaled.iter().flat_map(|segment| &segment.ticks);
        let last = ticks.map(|tick| tick.at_ms).chain(kept).max();
        Ok(last.and_then(|at_ms| Timestamp::from_millisecond(at_ms).ok()))
    }

    pub(super) async fn axis(&mut self, segment: i64) -> anyhow::Result<Axis> {
        let bytes: Vec<u8> = sqlx::query_scalar("SELECT axis FROM segment WHERE id = ?")
            .bind(segment)
            .fetch_one(&mut self.connection)
            .await?;
        Ok(Axis::decode(&bytes)?)
    }
}

/// What the journal holds of this database, sealed or not, the oldest segment first; and what of it cannot be used.
pub async fn journaled(
    connection: &mut SqliteConnection,
    path: &Path,
) -> anyhow::Result<(Vec<JournalSegment>, Vec<String>)> {
    let Some(identity) = rows::identity_of(connection).await? else { return Ok(Default::default()) };
    let found = all_at_once(|| Journal::look(path, identity, i64::MIN))?;
    let (mut journaled, mut said) = (Vec::new(), found.said);
    for segment in &found.segments {
        let (ticks, lost) = ticks_of(segment);
        said.extend(lost);
        journaled.push(JournalSegment { number: segment.number, ticks });
    }
    journaled.retain(|segment| !segment.ticks.is_empty());
    Ok((journaled, said))
}

/// Those that the database does not have yet.
pub fn behind(mut journaled: Vec<JournalSegment>, sealed: i64) -> Vec<JournalSegment> {
    journaled.retain(|segment| segment.number > sealed);
    journaled
}

/// The two files are not read in one instant: one that is begun between them would hide the end of the one before.
fn all_at_once(look: impl Fn() -> std::io::Result<Replayed>) -> std::io::Result<Replayed> {
    let numbers = |found: &Replayed| found.segments.iter().map(|segment| segment.number).collect::<Vec<_>>();
    let mut found = look()?;
    for _ in 0..MOST_LOOKS {
        let before = numbers(&found);
        found = look()?;
        if numbers(&found) == before {
            break;
        }
    }
    Ok(found)
}

/// A database that is not ours, or not of this version.
async fn refuse_unreadable(connection: &mut SqliteConnection) -> anyhow::Result<()> {
    let id: i64 = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut *connection).await?;
    if id != open::APPLICATION_ID {
        bail!("it is another program's database; name another file with --db");
    }
    let row = sqlx::query("SELECT max(version) FROM _sqlx_migrations").fetch_one(connection).await?;
    let (found, known) = (row.try_get::<Option<i64>, _>(0)?, open::newest_version());
    match found.cmp(&known) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => {
            bail!("it is of an older cowbell; start `cowbell serve` on it once, which brings it up to date")
        }
        std::cmp::Ordering::Greater => {
            bail!("it is of a newer cowbell; install that one, or name another file with --db")
        }
    }
}
