//! Writes devices, volumes, jobs, alerts and gaps straight into the database, all of a batch in one transaction.

use sqlx::{Connection, SqliteConnection};

use super::Writer;
use crate::store::records::{remove_job, write_alert, write_imported, write_job, write_note};
use crate::store::rows::{write_gap, write_rows};
use crate::store::words::in_words;
use crate::store::write_op::{QueueEntry, WriteError, WriteOp};

/// SQLite's primary code of a constraint that is violated.
const SQLITE_CONSTRAINT: i32 = 19;

impl Writer<'_> {
    /// Writes everything but ticks. An entry that violates a constraint is dropped, since it would fail at every retry.
    pub(super) async fn write_records(&mut self, batch: &mut Vec<QueueEntry>) -> anyhow::Result<()> {
        self.mend().await?;
        let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        let mut refused = Vec::new();
        for (index, queued) in batch.iter().enumerate().filter(|(_, queued)| !queued.op.is_tick()) {
            for op in queued.op.parts() {
                let mut part = transaction.begin().await?;
                match write_one(&mut part, &op).await {
                    Ok(()) => part.commit().await?,
                    Err(error) if violates_a_constraint(&error) => {
                        part.rollback().await?;
                        refused.push((index, in_words(&error)));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        transaction.commit().await?;
        for (index, error) in &refused {
            tracing::error!("an entry is left out, since the database refuses it: {error}");
            batch[*index].report(Err(WriteError::Refused(error.clone())));
        }
        self.refused += refused.len() as u64;
        if batch.iter().any(|queued| matches!(queued.op, WriteOp::Import(..) | WriteOp::Remove(_))) {
            self.measure().await?;
        }
        batch.retain_mut(|queued| {
            let is_tick = queued.op.is_tick();
            if !is_tick {
                queued.report(Ok(()));
            }
            is_tick
        });
        Ok(())
    }
}

async fn write_one(connection: &mut SqliteConnection, op: &WriteOp) -> anyhow::Result<()> {
    match op {
        // The journal has them.
        WriteOp::Tick(..) => Ok(()),
        WriteOp::Catalog(rows) => write_rows(connection, rows).await,
        WriteOp::Gap(gap) => write_gap(connection, gap).await,
        WriteOp::Job(job) => write_job(connection, job).await,
        WriteOp::Alert(alert) => write_alert(connection, alert).await,
        WriteOp::Note(note) => write_note(connection, note).await,
        WriteOp::Remove(removed) => remove_job(connection, &removed.key).await,
        WriteOp::Import(job, file) => write_imported(connection, job, file).await,
    }
}

fn violates_a_constraint(error: &anyhow::Error) -> bool {
    let of_database = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref() {
        Some(sqlx::Error::Database(error)) => error.code()?.parse::<i32>().ok(),
        _ => None,
    };
    // The low byte of an extended code is the primary one.
    error.chain().find_map(of_database).is_some_and(|code| code & 0xff == SQLITE_CONSTRAINT)
}
