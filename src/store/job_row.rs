//! A job as a row: found again by its key, which one life has.

use anyhow::Context;
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row, SqliteConnection};

use super::lasting::{optional_time, optional_word, time, word};
use crate::job::phase::{BackupRun, Phase, PhaseStart, Report};
use crate::job::setup::Setup;
use crate::job::{Job, JobKind, MOST_NOTES, Outcome};
use crate::source::{Label, Note, NoteCommand, ToldPhase};

pub async fn write_job(connection: &mut SqliteConnection, job: &Job) -> anyhow::Result<()> {
    let ms = |at: Option<Timestamp>| at.map(|at| at.as_millisecond());
    let heard = job.heard.as_ref();
    let began = |phase: Phase| ms(heard.and_then(|heard| heard.began(phase)));
    let reported = heard.and_then(|heard| heard.reported);
    sqlx::query(
        "INSERT INTO job (id, kind, key, name, vg, lv, origin, started_ms, ended_ms, outcome, died_ms, partly_seen,
             last_fill_percent, peak_fill_percent, bytes_read, read_counter, mounted_on, unmounted_ms,
             run, flush_ms, snapshot_ms, mount_ms, backup_ms, cleanup_ms, locked_from_ms, locked_until_ms,
             reported, reported_ms, io_error_ms, exit_status, setup, set_name, variant, repeat, notes, program,
             phases)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
             ?, ?)
         -- A key that memory had forgotten has a new number.
         ON CONFLICT (key) DO UPDATE SET id = excluded.id, name = excluded.name, vg = excluded.vg, lv = excluded.lv,
             origin = excluded.origin, started_ms = excluded.started_ms, ended_ms = excluded.ended_ms,
             outcome = excluded.outcome, died_ms = excluded.died_ms, partly_seen = excluded.partly_seen,
             last_fill_percent = excluded.last_fill_percent, peak_fill_percent = excluded.peak_fill_percent,
             bytes_read = excluded.bytes_read, read_counter = excluded.read_counter,
             mounted_on = excluded.mounted_on, unmounted_ms = excluded.unmounted_ms,
             run = excluded.run, flush_ms = excluded.flush_ms, snapshot_ms = excluded.snapshot_ms,
             mount_ms = excluded.mount_ms, backup_ms = excluded.backup_ms, cleanup_ms = excluded.cleanup_ms,
             locked_from_ms = excluded.locked_from_ms, locked_until_ms = excluded.locked_until_ms,
             reported = excluded.reported, reported_ms = excluded.reported_ms,
             io_error_ms = excluded.io_error_ms, exit_status = excluded.exit_status, setup = excluded.setup,
             set_name = excluded.set_name, variant = excluded.variant, repeat = excluded.repeat,
             notes = excluded.notes, program = excluded.program, phases = excluded.phases",
    )
    .bind(job.id)
    .bind(job.kind.text())
    .bind(&job.key)
    .bind(&job.name)
    .bind(&job.vg)
    .bind(&job.lv)
    .bind(&job.origin)
    .bind(job.started_at.as_millisecond())
    .bind(ms(job.ended_at))
    .bind(job.outcome.map(|outcome| outcome.text()))
    .bind(ms(job.died_at))
    .bind(job.partly_seen)
    .bind(job.last_fill_percent)
    .bind(job.peak_fill_percent)
    .bind(job.bytes_read.and_then(|bytes| i64::try_from(bytes).ok()))
    .bind(job.read_counter.and_then(|bytes| i64::try_from(bytes).ok()))
    .bind(&job.mounted_on)
    .bind(ms(job.unmounted_at))
    .bind(heard.map(|heard| heard.run))
    .bind(began(Phase::Flush))
    .bind(began(Phase::Snapshot))
    .bind(began(Phase::Mount))
    .bind(began(Phase::Backup))
    .bind(began(Phase::Cleanup))
    .bind(ms(heard.and_then(|heard| heard.locked_from)))
    .bind(ms(heard.and_then(|heard| heard.locked_until)))
    .bind(reported.map(|report| report.outcome().text()))
    .bind(reported.map(|report| report.at.as_millisecond()))
    .bind(ms(job.io_error_at))
    .bind(job.exit_status)
    .bind((job.setup != Setup::default()).then(|| serde_json::to_string(&job.setup)).transpose()?)
    .bind(job.label.as_ref().map(|label| &label.set))
    .bind(job.label.as_ref().and_then(|label| label.variant.as_ref()))
    .bind(job.label.as_ref().and_then(|label| label.repeat))
    .bind((!job.notes.is_empty()).then(|| serde_json::to_string(&job.notes)).transpose()?)
    .bind(&job.program)
    .bind((!job.told_phases.is_empty()).then(|| serde_json::to_string(&job.told_phases)).transpose()?)
    .execute(&mut *connection)
    .await
    .with_context(|| format!("cannot keep job {}", job.id))?;
    Ok(())
}

/// A note on a job that ended long ago; nothing where there is no such job, or it has its fill of notes.
pub async fn write_note(connection: &mut SqliteConnection, noted: &NoteCommand) -> anyhow::Result<()> {
    sqlx::query(
        "UPDATE job SET notes = json_insert(coalesce(notes, '[]'), '$[#]', json(?))
         WHERE key = ? AND coalesce(json_array_length(notes), 0) < ?",
    )
    .bind(serde_json::to_string(&noted.note)?)
    .bind(&noted.noted)
    .bind(i64::try_from(MOST_NOTES)?)
    .execute(connection)
    .await
    .with_context(|| format!("cannot keep a note on job {}", noted.noted))?;
    Ok(())
}

/// Forgets a job that has ended, but for its number, which no other job is to have.
pub async fn remove_job(connection: &mut SqliteConnection, key: &str) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO deleted_number (one, job) SELECT 1, id FROM job WHERE key = ? AND ended_ms IS NOT NULL
         ON CONFLICT (one) DO UPDATE SET job = max(job, excluded.job)",
    )
    .bind(key)
    .execute(&mut *connection)
    .await
    .with_context(|| format!("cannot keep the number of job {key}"))?;
    sqlx::query("DELETE FROM job WHERE key = ? AND ended_ms IS NOT NULL")
        .bind(key)
        .execute(connection)
        .await
        .with_context(|| format!("cannot delete job {key}"))?;
    Ok(())
}

impl FromRow<'_, SqliteRow> for Job {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let bytes =
            |column| Ok::<_, sqlx::Error>(row.try_get::<Option<i64>, _>(column)?.map(i64::unsigned_abs));
        Ok(Self {
            id: row.try_get("id")?,
            kind: word::<JobKind>(row, "kind")?,
            key: row.try_get("key")?,
            name: row.try_get("name")?,
            vg: row.try_get("vg")?,
            lv: row.try_get("lv")?,
            origin: row.try_get("origin")?,
            started_at: time(row, "started_ms")?,
            ended_at: optional_time(row, "ended_ms")?,
            outcome: optional_word::<Outcome>(row, "outcome")?,
            died_at: optional_time(row, "died_ms")?,
            io_error_at: optional_time(row, "io_error_ms")?,
            heard: heard(row)?,
            exit_status: row.try_get("exit_status")?,
            mounted_on: row.try_get("mounted_on")?,
            unmounted_at: optional_time(row, "unmounted_ms")?,
            partly_seen: row.try_get("partly_seen")?,
            last_fill_percent: row.try_get("last_fill_percent")?,
            peak_fill_percent: row.try_get("peak_fill_percent")?,
            bytes_read: bytes("bytes_read")?,
            read_counter: bytes("read_counter")?,
            setup: setup(row)?,
            label: label(row)?,
            notes: notes(row)?,
            told_phases: told_phases(row)?,
            program: row.try_get("program")?,
        })
    }
}

/// A run that was heard by another process of this program goes on where it was.
fn heard(row: &SqliteRow) -> sqlx::Result<Option<BackupRun>> {
    let Some(run) = row.try_get::<Option<u32>, _>("run")? else { return Ok(None) };
    let mut phases = Vec::new();
    for phase in Phase::ALL {
        let at = optional_time(row, &format!("{}_ms", phase.text()))?;
        phases.extend(at.map(|at| PhaseStart { phase, at }));
    }
    let succeeded = optional_word::<Outcome>(row, "reported")?.map(|word| word == Outcome::Succeeded);
    let reported_at = optional_time(row, "reported_ms")?;
    let reported = succeeded.zip(reported_at).map(|(succeeded, at)| Report { at, succeeded });
    let (locked_from, locked_until) =
        (optional_time(row, "locked_from_ms")?, optional_time(row, "locked_until_ms")?);
    let heard = phases.iter().map(|begun| begun.at).chain(locked_from).chain(locked_until).chain(reported_at);
    let started_at = time(row, "started_ms")?;
    let first_at = heard.clone().min().unwrap_or(started_at);
    let last_at = heard.max().unwrap_or(started_at);
    Ok(Some(BackupRun {
        run,
        phases,
        locked_from,
        locked_until,
        reported,
        first_at,
        last_at,
        is_unbroken: false,
    }))
}

fn label(row: &SqliteRow) -> sqlx::Result<Option<Label>> {
    let Some(set) = row.try_get("set_name")? else { return Ok(None) };
    Ok(Some(Label { set, variant: row.try_get("variant")?, repeat: row.try_get("repeat")? }))
}

/// Those on a job that was over are kept as they came.
fn notes(row: &SqliteRow) -> sqlx::Result<Vec<Note>> {
    let text: Option<String> = row.try_get("notes")?;
    let mut notes: Vec<Note> = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    notes.sort_by_key(|note| note.at);
    Ok(notes)
}

/// Those of hooks have columns of their own.
fn told_phases(row: &SqliteRow) -> sqlx::Result<Vec<ToldPhase>> {
    let text: Option<String> = row.try_get("phases")?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// What a newer program wrote into it and this one cannot read is not known.
fn setup(row: &SqliteRow) -> sqlx::Result<Setup> {
    let text: Option<String> = row.try_get("setup")?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}
