//! Which ticks the receiver of remote write has: one row, so that a write of it is one page.

use anyhow::Context;
use sqlx::SqliteConnection;

use super::StoreReader;
use super::position::{Position, Progress};
use super::readers::Reader;

impl StoreReader {
    /// The progress that was written last; `None` if there is none. An error while the database is not open.
    pub async fn progress(&self) -> anyhow::Result<Option<Progress>> {
        self.check_open()?;
        let reading = |mut connection: Reader| async move {
            let row: Option<(i64, i64, String)> =
                sqlx::query_as("SELECT done_segment, done_ms, islands FROM remote_write")
                    .fetch_optional(&mut *connection)
                    .await?;
            let Some((segment, at_ms, islands)) = row else {
                return Ok(None);
            };
            let islands =
                serde_json::from_str(&islands).context("`islands` in remote_write is damaged")?;
            Ok(Some(Progress {
                done: Position { segment, at_ms },
                islands,
            }))
        };
        self.readers
            .read(reading)
            .await
            .context("cannot read what was sent")
    }
}

pub async fn write_progress(
    connection: &mut SqliteConnection,
    progress: &Progress,
) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO remote_write (one, done_segment, done_ms, islands) VALUES (1, ?, ?, ?)
         ON CONFLICT (one) DO UPDATE SET done_segment = excluded.done_segment, done_ms = excluded.done_ms,
             islands = excluded.islands",
    )
    .bind(progress.done.segment)
    .bind(progress.done.at_ms)
    .bind(serde_json::to_string(&progress.islands)?)
    .execute(connection)
    .await
    .context("cannot store what was sent")?;
    Ok(())
}
