//! The curves of measured volumes, an hour apart.

use std::sync::Arc;

use anyhow::Context;
use sqlx::SqliteConnection;

use crate::sizing::{Curve, MeasuredVolumes, OLDEST_CURVE};

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
