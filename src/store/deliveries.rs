//! What receivers of alerts and of remote write know, silences, and the curves of measured volumes.

use std::sync::Arc;

use anyhow::Context;
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row, SqliteConnection};

use super::StoreReader;
use super::address::{Position, Progress};
use super::records::readable_records;
use crate::alert::Alert;
use crate::notify::{Delivery, Silence, Unfinished};
use crate::sizing::{Curve, MeasuredVolumes, OLDEST_CURVE};

/// Receivers get the end of alerts that were cleared within this time before the start.
const UNFINISHED_MS: i64 = 7 * 24 * 3600 * 1000;

pub async fn write_delivery(
    connection: &mut SqliteConnection,
    delivery: &Delivery,
) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO delivery_record (alert, receiver, body) VALUES (?, ?, ?)
         ON CONFLICT (alert, receiver) DO UPDATE SET body = excluded.body",
    )
    .bind(delivery.alert)
    .bind(&delivery.receiver)
    .bind(serde_json::to_string(delivery)?)
    .execute(connection)
    .await
    .with_context(|| format!("cannot store a delivery of alert {}", delivery.alert))?;
    Ok(())
}

/// Stores a silence. It replaces one of the same volumes.
pub async fn write_silence(
    connection: &mut SqliteConnection,
    silence: &Silence,
) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO silence (volumes, until_ms, note) VALUES (?, ?, ?)
         ON CONFLICT (volumes) DO UPDATE SET until_ms = excluded.until_ms, note = excluded.note",
    )
    .bind(silence.volumes.as_str())
    .bind(silence.until.as_millisecond())
    .bind(&silence.note)
    .execute(connection)
    .await
    .with_context(|| format!("cannot store the silence of {}", silence.volumes.as_str()))?;
    Ok(())
}

/// Open alerts, those whose end a receiver may not know, and their deliveries.
pub async fn unfinished(
    connection: &mut SqliteConnection,
    open: &[Alert],
) -> anyhow::Result<Unfinished> {
    let rows = sqlx::query(
        "SELECT alert_record.* FROM alert_record WHERE cleared_ms > ? AND EXISTS (
             SELECT 1 FROM delivery_record WHERE alert = id AND (body ->> '$.known.status' = 'raised'
                 OR NOT body ->> 'is_delivered'))",
    )
    .bind(Timestamp::now().as_millisecond() - UNFINISHED_MS)
    .fetch_all(&mut *connection)
    .await?;
    let mut alerts: Vec<Alert> = readable_records(&rows);
    alerts.extend(open.iter().cloned());
    let ids: Vec<i64> = alerts.iter().map(|alert| alert.id).collect();
    let rows = sqlx::query(
        "SELECT * FROM delivery_record WHERE alert IN (SELECT value FROM json_each(?))",
    )
    .bind(serde_json::to_string(&ids)?)
    .fetch_all(connection)
    .await?;
    Ok(Unfinished {
        alerts,
        deliveries: readable_records(&rows),
    })
}

/// Silences that have not ended.
pub async fn silences(connection: &mut SqliteConnection) -> anyhow::Result<Vec<Silence>> {
    let rows = sqlx::query("SELECT * FROM silence WHERE until_ms > ? ORDER BY volumes")
        .bind(Timestamp::now().as_millisecond())
        .fetch_all(connection)
        .await?;
    Ok(readable_records(&rows))
}

impl FromRow<'_, SqliteRow> for Delivery {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let body: &str = row.try_get("body")?;
        serde_json::from_str(body).map_err(|error| sqlx::Error::Decode(error.into()))
    }
}

impl FromRow<'_, SqliteRow> for Silence {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let pattern: &str = row.try_get("volumes")?;
        Ok(Self {
            volumes: pattern
                .parse()
                .map_err(|error: String| sqlx::Error::Decode(error.into()))?,
            until: Timestamp::from_millisecond(row.try_get("until_ms")?)
                .map_err(|error| sqlx::Error::Decode(error.into()))?,
            note: row.try_get("note")?,
        })
    }
}

/// Stores a curve, and deletes those of all volumes that are too old.
pub async fn write_curve(
    connection: &mut SqliteConnection,
    uuid: &str,
    curve: &Curve,
) -> anyhow::Result<()> {
    sqlx::query("INSERT INTO size_curve (uuid, at_ms, body) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body")
        .bind(uuid)
        .bind(curve.at.as_millisecond())
        .bind(serde_json::to_string(curve)?)
        .execute(&mut *connection)
        .await
        .with_context(|| format!("cannot store the curve of volume {uuid}"))?;
    let oldest = curve.at.checked_sub(OLDEST_CURVE).unwrap_or(curve.at);
    sqlx::query("DELETE FROM size_curve WHERE at_ms < ?")
        .bind(oldest.as_millisecond())
        .execute(connection)
        .await?;
    Ok(())
}

/// All curves by volume. One that cannot be read is left out.
pub async fn curves(connection: &mut SqliteConnection) -> anyhow::Result<MeasuredVolumes> {
    let rows: Vec<(String, String)> =
        sqlx::query_as("SELECT uuid, body FROM size_curve ORDER BY uuid, at_ms")
            .fetch_all(connection)
            .await
            .context("cannot read the curves of volumes")?;
    let mut found = MeasuredVolumes::new();
    for (uuid, body) in rows {
        match serde_json::from_str(&body) {
            Ok(curve) => found.entry(uuid.into()).or_default().add(Arc::new(curve)),
            Err(error) => {
                tracing::warn!("a curve of volume {uuid} is damaged and left out: {error}")
            }
        }
    }
    Ok(found)
}

impl StoreReader {
    /// The progress that was written last; `None` if there is none. An error while the database is not open.
    pub async fn progress(&self) -> anyhow::Result<Option<Progress>> {
        self.check_open()?;
        let read = self.readers.read(async |connection| {
            let row: Option<(i64, String)> =
                sqlx::query_as("SELECT done, islands FROM remote_write")
                    .fetch_optional(connection)
                    .await?;
            let Some((done, islands)) = row else {
                return Ok(None);
            };
            let islands =
                serde_json::from_str(&islands).context("`islands` in remote_write is damaged")?;
            Ok(Some(Progress {
                done: Position::numbered(done),
                islands,
            }))
        });
        read.await.context("cannot read what was sent")
    }
}

pub async fn write_progress(
    connection: &mut SqliteConnection,
    progress: &Progress,
) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO remote_write (one, done, islands) VALUES (1, ?, ?)
         ON CONFLICT (one) DO UPDATE SET done = excluded.done, islands = excluded.islands",
    )
    .bind(progress.done.number())
    .bind(serde_json::to_string(&progress.islands)?)
    .execute(connection)
    .await
    .context("cannot store what was sent")?;
    Ok(())
}
