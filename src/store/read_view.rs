//! A consistent view of a database, read from another process, also while a daemon writes it.

use std::path::Path;

use anyhow::{Context, bail};
use jiff::Timestamp;
use sqlx::{Connection, SqliteConnection};

use super::catalog::{Catalog, catalog_rows};
use super::damage::with_way_out;
use super::stored::{last_tick, stretches};
use super::{TickOrigin, database, paths};

/// The stored data at one moment.
pub struct ReadView {
    /// In a transaction, so that later changes are not seen.
    pub(super) connection: SqliteConnection,
    pub(super) catalog: Catalog,
    /// `None` if the program ended while it created the database.
    pub(super) identity: Option<i64>,
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
        refuse_unreadable(path, &mut connection)
            .await
            .with_context(named)?;
        Self::begin(connection).await.with_context(named)
    }

    async fn begin(mut connection: SqliteConnection) -> anyhow::Result<Self> {
        sqlx::query("BEGIN").execute(&mut connection).await?;
        let identity = sqlx::query_scalar("SELECT id FROM identity")
            .fetch_optional(&mut connection)
            .await?;
        let catalog = Catalog::new(catalog_rows(&mut connection).await?);
        Ok(Self {
            connection,
            catalog,
            identity,
        })
    }

    /// Closes the connection, so that it delays no writer.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        Ok(self.connection.close().await?)
    }

    /// When the last tick ended; `None` without ticks.
    pub async fn last_tick_at(&mut self) -> anyhow::Result<Option<Timestamp>> {
        let last = last_tick(&stretches(&mut self.connection).await?);
        Ok(last.and_then(|last| Timestamp::from_millisecond(last.at_ms).ok()))
    }

    /// The time to which relative times refer: now, or the end of the last tick of a recording. `None` without ticks.
    pub async fn now(&mut self) -> anyhow::Result<Option<Timestamp>> {
        let last = self.last_tick_at().await?;
        let holds: i64 = sqlx::query_scalar("PRAGMA user_version")
            .fetch_one(&mut self.connection)
            .await?;
        if holds == TickOrigin::Recording as i64 {
            return Ok(last);
        }
        Ok(last.map(|_| Timestamp::now()))
    }
}

/// Refuses a database that is not cowbell's, or not of this version.
async fn refuse_unreadable(path: &Path, connection: &mut SqliteConnection) -> anyhow::Result<()> {
    let id: i64 = sqlx::query_scalar("PRAGMA application_id")
        .fetch_one(&mut *connection)
        .await?;
    if id != paths::APPLICATION_ID {
        bail!("it is another program's database; name another file with --db");
    }
    let found = database::schema_of(connection).await?;
    database::refuse_newer(path, found)?;
    if found < database::newest_schema() {
        bail!(
            "it is of an older cowbell; start `cowbell serve` on it once, which brings it up to date"
        );
    }
    Ok(())
}
