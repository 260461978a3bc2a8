//! What lasts beyond the ticks: names, jobs, alerts and gaps go straight into the database.
//!
//! How each of them is written is `rows`'s to know.

use sqlx::{Connection, SqliteConnection};

use super::Writer;
use crate::store::imported::write_imported;
use crate::store::load::{Queued, QueuedOp};
use crate::store::rows::{remove_job, write_alert, write_gap, write_job, write_note, write_rows};
use crate::store::words::in_words;

/// SQLite's primary code of what breaks a constraint.
const SQLITE_CONSTRAINT: i32 = 19;

impl Writer {
    /// What breaks a constraint would break it for ever: it is left out, and all else is kept.
    pub(super) async fn write_lasting(&mut self, batch: &mut [Queued]) -> anyhow::Result<()> {
        self.mend().await?;
        let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        let mut refused = Vec::new();
        for (index, queued) in batch.iter().enumerate().filter(|(_, queued)| !queued.is_tick()) {
            for op in queued.op.parts() {
                let mut part = transaction.begin().await?;
                match write_one(&mut part, &op).await {
                    Ok(()) => part.commit().await?,
                    Err(error) if breaks_a_constraint(&error) => {
                        part.rollback().await?;
                        refused.push((index, in_words(&error)));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        transaction.commit().await?;
        for (index, error) in &refused {
            tracing::error!("an entry is left out, since the database refuses what it says: {error}");
            batch[*index].report(Err(error.clone()));
        }
        batch.iter_mut().filter(|queued| !queued.is_tick()).for_each(|queued| queued.report(Ok(())));
        self.refused += refused.len() as u64;
        Ok(())
    }
}

async fn write_one(connection: &mut SqliteConnection, load: &QueuedOp) -> anyhow::Result<()> {
    match load {
        // The journal has them.
        QueuedOp::Tick(..) => Ok(()),
        QueuedOp::Rows(rows) => write_rows(connection, rows).await,
        QueuedOp::Gap(gap) => write_gap(connection, gap).await,
        QueuedOp::Job(job) => write_job(connection, job).await,
        QueuedOp::Alert(alert) => write_alert(connection, alert).await,
        QueuedOp::Note(noted) => write_note(connection, noted).await,
        QueuedOp::Remove(removed) => remove_job(connection, &removed.removed).await,
        QueuedOp::Import(job, file) => write_imported(connection, job, file).await,
    }
}

/// Whether no disk is to blame, but what was to be written.
fn breaks_a_constraint(error: &anyhow::Error) -> bool {
    let of_database = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref() {
        Some(sqlx::Error::Database(error)) => error.code()?.parse::<i32>().ok(),
        _ => None,
    };
    // The low byte of an extended code is the primary one.
    error.chain().find_map(of_database).is_some_and(|code| code & 0xff == SQLITE_CONSTRAINT)
}
