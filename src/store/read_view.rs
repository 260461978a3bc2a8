//! A consistent view of a database and its journal, read from another process, also while a daemon writes them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use sqlx::{Connection, Row, SqliteConnection};

use super::catalog::Catalog;
use super::damage::with_way_out;
use super::seal::{last_instant, last_segment};
use super::tick::{SegmentTicks, segments_of};
use super::{database, journal, paths, rows};

/// A journal that looks damaged is read again, at most this many times, and after this pause.
const MOST_LOOKS: usize = 3;
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The stored data at one moment.
pub struct ReadView {
    /// In a transaction, so that later changes are not seen.
    pub(super) connection: SqliteConnection,
    pub(super) catalog: Catalog,
    /// Ticks that only the journal has, by segment, the oldest first.
    pub(super) journaled: Vec<SegmentTicks>,
    /// A sentence for each damaged place of the journal.
    pub(super) damage: Vec<String>,
    pub(super) identity: u64,
    /// The last segment in the database.
    pub(super) sealed: i64,
}

impl ReadView {
    /// Opens the view without changing anything. An error if the database is another program's or version's.
    pub async fn of(path: &Path) -> anyhow::Result<Self> {
        Self::at(path)
            .await
            .map_err(|error| with_way_out(path, error))
    }

    async fn at(path: &Path) -> anyhow::Result<Self> {
        let named = || format!("cannot read the database {}", path.display());
        let mut connection = database::to_look_at(path).await?;
        refuse_unreadable(&mut connection)
            .await
            .with_context(named)?;
        // The journal comes first: ticks that leave it meanwhile are in the database by then.
        let identity = rows::identity_of(&mut connection)
            .await
            .with_context(named)?
            .unwrap_or_default();
        let bytes = journal::bytes(path)?;
        sqlx::query("BEGIN")
            .execute(&mut connection)
            .await
            .with_context(named)?;
        let sealed = last_segment(&mut connection).await.with_context(named)?;
        let catalog = Catalog::new(
            rows::catalog_rows(&mut connection)
                .await
                .with_context(named)?,
        );
        let decoded = |bytes: &[u8]| segments_of(journal::recover(bytes, identity, sealed));
        let (mut journaled, mut damage) = decoded(&bytes);
        for _ in 0..MOST_LOOKS {
            if damage.is_empty() {
                break;
            }
            // A daemon may have been writing a record. The transaction does not see a segment that was sealed since.
            tokio::time::sleep(LOOK_PAUSE).await;
            let (again, damage_again) = decoded(&journal::bytes(path)?);
            if again.first().map(|segment| segment.number)
                != journaled.first().map(|segment| segment.number)
            {
                break;
            }
            (journaled, damage) = (again, damage_again);
        }
        Ok(Self {
            connection,
            catalog,
            journaled,
            damage,
            identity,
            sealed,
        })
    }

    /// Closes the connection, so that it delays no writer.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        Ok(self.connection.close().await?)
    }

    /// When the last tick ended; `None` without ticks.
    pub async fn last_tick_at(&mut self) -> anyhow::Result<Option<Timestamp>> {
        let kept = last_instant(&mut self.connection).await?;
        let ticks = self.journaled.iter().flat_map(|segment| &segment.ticks);
        let last = ticks.map(|tick| tick.at_ms).chain(kept).max();
        Ok(last.and_then(|at_ms| Timestamp::from_millisecond(at_ms).ok()))
    }
}

/// Refuses a database that is not cowbell's, or not of this version.
async fn refuse_unreadable(connection: &mut SqliteConnection) -> anyhow::Result<()> {
    let id: i64 = sqlx::query_scalar("PRAGMA application_id")
        .fetch_one(&mut *connection)
        .await?;
    if id != paths::APPLICATION_ID {
        bail!("it is another program's database; name another file with --db");
    }
    let row = sqlx::query("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(connection)
        .await?;
    let (found, known) = (
        row.try_get::<Option<i64>, _>(0)?,
        database::newest_version(),
    );
    match found.cmp(&known) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => {
            bail!(
                "it is of an older cowbell; start `cowbell serve` on it once, which brings it up to date"
            )
        }
        std::cmp::Ordering::Greater => {
            bail!("it is of a newer cowbell; install that one, or name another file with --db")
        }
    }
}
