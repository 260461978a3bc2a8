//! Checks an imported file: only values that cowbell can observe, and that the database, pages and terminals accept.
//! Includes every constraint of table `job` in `migrations/`.

use anyhow::{anyhow, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{FileColumns, ShortFloat};
use crate::commands::{LONGEST_NAME, check_letters};
use crate::job::backup_run::{BackupRun, Phase};
use crate::job::{Job, JobKind, MOST_NOTES, MOST_PHASES, Outcome};

/// Maximum characters of a path or a note.
const LONGEST_TEXT: usize = 1_000;
/// Maximum names in a list, such as PVs or disks.
const MOST_NAMES: usize = 1_000;
/// The largest number of a job: an EiB.
const MOST: f64 = (1_u64 << 60) as f64;
/// Tolerance for wrong clocks, hooks before the snapshot, and its death after the job.
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// Maximum PVs of a span.
const MOST_PVS: usize = 64;
/// More than the longest ticks, which are roll-ups of ten minutes.
const LONGEST_TICK_US: u64 = 3_600_000_000;
/// The longest time in the time series before and after the job.
const AROUND_MS: i64 = 600_000;

pub fn job(job: &Job, now: Timestamp) -> anyhow::Result<()> {
    let (Some(ended_at), Some(outcome)) = (job.ended_at, job.outcome) else {
        bail!("expected a job that is over, with its outcome, but found one that runs");
    };
    let started_at = job.started_at;
    ensure!(
        (Timestamp::UNIX_EPOCH..=ended_at).contains(&started_at)
            && ended_at.duration_since(now) <= DAY,
        "expected a job that began after 1970, ended after that and is over by now, but found one from {started_at} to \
         {ended_at}"
    );
    instants(job, ended_at, now)?;
    values("job", &serde_json::to_value(job)?)?;
    let phases = &job.phase_marks;
    ensure!(
        phases.len() <= MOST_PHASES,
        "expected {MOST_PHASES} phases at most, but found {}",
        phases.len()
    );
    ensure!(
        phases.is_sorted_by_key(|phase| phase.at),
        "expected phases in the order of time"
    );
    job.backup_run.as_ref().map_or(Ok(()), backup_run)?;
    let is_failed_run = job.kind == JobKind::Snapshot && outcome == Outcome::Failed;
    ensure!(
        is_failed_run || !job.made_no_snapshot(),
        "expected 1 of `snapshots` or more, but found 0 of a run that did not fail"
    );
    ensure!(
        job.unmounted_at.is_none() || job.mounted_on.is_some(),
        "expected `mounted_on` beside `unmounted_at`"
    );
    let percents = [job.last_fill_percent, job.peak_fill_percent];
    for percent in percents.into_iter().flatten() {
        ensure!(
            percent <= 100.0,
            "expected a fill of 100 percent at most, but found {percent}"
        );
    }
    let status = job.exit_status.unwrap_or_default();
    let has_succeeded = outcome == Outcome::Succeeded;
    let most = if has_succeeded { 0 } else { 255 };
    ensure!(
        status <= most,
        "expected an exit status of {most} at most of what {}, but found {status}",
        outcome.text()
    );
    let repeat = job.label.as_ref().and_then(|label| label.repeat);
    let from_1 = [
        ("repeat", repeat.map(u64::from)),
        ("chunk_bytes", job.setup.chunk_bytes),
        ("processors", job.setup.processors.map(u64::from)),
    ];
    for (name, number) in from_1 {
        ensure!(number != Some(0), "expected `{name}` from 1, but found 0");
    }
    Ok(())
}

/// Times must be within a day of the job.
fn instants(job: &Job, ended_at: Timestamp, now: Timestamp) -> anyhow::Result<()> {
    ensure!(
        job.notes.len() <= MOST_NOTES,
        "expected {MOST_NOTES} notes at most, but found {}",
        job.notes.len()
    );
    for at in job.notes.iter().map(|note| note.at) {
        let is_past = at >= Timestamp::UNIX_EPOCH && at.duration_since(now) <= DAY;
        ensure!(
            is_past,
            "expected notes from 1970 to now, but found one at {at}"
        );
    }
    let mut seen = vec![job.died_at, job.io_error_at, job.unmounted_at];
    seen.extend(job.phase_marks.iter().map(|phase| Some(phase.at)));
    if let Some(run) = &job.backup_run {
        seen.extend(run.phases.iter().map(|phase| Some(phase.at)));
        seen.extend([run.locked_from, run.locked_until]);
        seen.extend([run.report.map(|report| report.at)]);
        seen.extend([Some(run.first_at), Some(run.last_at)]);
    }
    for at in seen.into_iter().flatten() {
        let is_near =
            job.started_at.duration_since(at) <= DAY && at.duration_since(ended_at) <= DAY;
        ensure!(
            is_near,
            "expected what happened to the job within a day of it, but found {at}"
        );
    }
    Ok(())
}

fn backup_run(run: &BackupRun) -> anyhow::Result<()> {
    ensure!(
        run.run > 0,
        "expected the number of a run's process from 1, but found 0"
    );
    let is_lock = run
        .locked_from
        .zip(run.locked_until)
        .is_none_or(|(from, until)| from <= until);
    ensure!(is_lock, "expected a lock to be released after it was taken");
    let place = |phase: Phase| Phase::ALL.iter().position(|other| *other == phase);
    let follows = run
        .phases
        .is_sorted_by(|one, next| place(one.phase) < place(next.phase) && one.at <= next.at);
    ensure!(follows, "expected a run's phases in their order, each once");
    Ok(())
}

/// Checks all texts, lists and numbers below a field.
fn values(name: &str, value: &Value) -> anyhow::Result<()> {
    match value {
        Value::String(text) => {
            let most = if ["text", "mounted_on"].contains(&name) {
                LONGEST_TEXT
            } else {
                LONGEST_NAME
            };
            check_letters(&format!("`{name}`"), text, most).map_err(|sentence| anyhow!(sentence))
        }
        Value::Array(list) => {
            let found = list.len();
            ensure!(
                found <= MOST_NAMES,
                "expected {MOST_NAMES} of `{name}` at most, but found {found}"
            );
            list.iter().try_for_each(|value| values(name, value))
        }
        Value::Object(fields) => {
            let mut fields = fields.iter();
            fields.try_for_each(|(name, value)| values(name, value))
        }
        Value::Number(number) => {
            // A clock may have been set back.
            let least = if name.starts_with("clock_set") {
                -MOST
            } else {
                0.0
            };
            let found = number.as_f64();
            ensure!(
                found.is_some_and(|found| (least..=MOST).contains(&found)),
                "expected `{name}` from {least} to {MOST}, but found {number}"
            );
            Ok(())
        }
        Value::Bool(_) | Value::Null => Ok(()),
    }
}

/// `took_ms` is how long the job took.
pub fn span(span: &FileColumns, took_ms: i64) -> anyhow::Result<()> {
    for (end_ms, length_us) in &span.ticks {
        ensure!(
            (1..=LONGEST_TICK_US).contains(length_us),
            "expected ticks of an hour at most, each of some length, but found {length_us} µs"
        );
        let latest_ms = took_ms + AROUND_MS + (length_us / 1000) as i64 + 1;
        ensure!(
            (-AROUND_MS - 1..=latest_ms).contains(end_ms),
            "expected ticks of the job and of ten minutes around it, but found one that ends {end_ms} ms after its start, \
             of a job of {took_ms} ms"
        );
    }
    let is_later = span.ticks.is_sorted_by(|one, next| one.0 < next.0);
    ensure!(
        is_later,
        "expected ticks each of which ends after the one before"
    );
    ensure!(
        span.pvs.len() <= MOST_PVS,
        "expected {MOST_PVS} PVs at most, but found {}",
        span.pvs.len()
    );
    for name in span.pvs.keys() {
        check_letters("the name of a PV", name, LONGEST_NAME)
            .map_err(|sentence| anyhow!(sentence))?;
    }
    for (measure, column) in &span.columns {
        values_of(&format!("{measure:?}"), measure.most(), column)?;
    }
    for (measure, column) in span.pvs.values().flatten() {
        values_of(&format!("{measure:?}"), measure.most(), column)?;
    }
    Ok(())
}

fn values_of(name: &str, most: f64, column: &[Option<ShortFloat>]) -> anyhow::Result<()> {
    for ShortFloat(value) in column.iter().flatten() {
        let found = f64::from(*value);
        ensure!(
            (0.0..=most).contains(&found),
            "expected {name} from 0 to {most}, but found {found}"
        );
    }
    Ok(())
}
