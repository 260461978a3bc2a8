//! Questions to the database: series over a range, jobs and alerts, and what was open when the program ended.

use std::collections::HashSet;

use anyhow::Context;
use jiff::Timestamp;
use serde::Deserialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

use super::Archive;
use super::packed::{More, Packed};
use crate::alert::{Alert, Rule, Severity};
use crate::interval::Work;
use crate::job::{Job, JobKind, Outcome};
use crate::series::quantity::{Quantity, named};
use crate::series::{Observation, Range, Series, Thinner};

/// Ticks that are read in one go: a reader never keeps the database from being tidied for long.
const TICKS_AT_ONCE: i64 = 5_000;
/// Ended jobs that are gone on with after a start, should their volumes come back.
const JOBS_TO_RESUME: i64 = 200;

/// What a series is of.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A device by identity, kernel name or label; of those that had the name, the one that had it last.
    Device(String),
    /// A volume by `vg/lv` or UUID; for what its device does, that device.
    Volume(String),
    /// All devices together in which each byte counts once.
    Total,
    Host,
}

/// One series that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub subject: Subject,
    pub quantity: Quantity,
}

/// What an earlier run of the program left open, and where its numbers ended.
#[derive(Debug, Default)]
pub struct Known {
    pub jobs: Vec<Job>,
    pub last_job_id: i64,
    pub alerts: Vec<Alert>,
    pub last_alert_id: i64,
    /// The last tick that was kept before the program ended.
    pub last_tick_at: Option<Timestamp>,
}

/// A subject's rows.
enum Found {
    Device(i64),
    Volume(i64),
    Total(HashSet<i64>),
    Host,
}

impl Archive {
    /// Series of each of `wanted` over the range, in one pass, with at most `points` points each. A subject that was
    /// never seen has `None`.
    pub async fn series(
        &self,
        wanted: &[Wanted],
        range: Range,
        points: usize,
    ) -> anyhow::Result<Vec<Option<Series>>> {
        let mut found = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let rows = self.find(wanted).await?;
            found.push(rows.map(|rows| (rows, wanted.quantity, Thinner::new(range, points))));
        }
        if found.iter().any(Option::is_some) {
            self.read_ticks(range, &mut found).await?;
        }
        Ok(found.into_iter().map(|found| found.map(|(_, _, thinner)| thinner.finish())).collect())
    }

    async fn read_ticks(
        &self,
        range: Range,
        found: &mut [Option<(Found, Quantity, Thinner)>],
    ) -> anyhow::Result<()> {
        let mut after = range.from.as_millisecond() - 1;
        loop {
            let ticks: Vec<TickRow> = sqlx::query_as(
                "SELECT at_ms, elapsed_us, packed, more FROM tick WHERE at_ms > ? AND at_ms <= ? ORDER BY at_ms LIMIT ?",
            )
            .bind(after)
            .bind(range.to.as_millisecond())
            .bind(TICKS_AT_ONCE)
            .fetch_all(&self.readers)
            .await
            .context("cannot read ticks")?;
            let Some(last) = ticks.last() else { return Ok(()) };
            after = last.at_ms;
            for row in &ticks {
                let at = Timestamp::from_millisecond(row.at_ms)?;
                let tick = Tick::of(row).with_context(|| format!("cannot read the tick at {at}"))?;
                for (rows, quantity, thinner) in found.iter_mut().flatten() {
                    thinner.push(at, observe(rows, *quantity, &tick));
                }
            }
        }
    }

    async fn find(&self, wanted: &Wanted) -> anyhow::Result<Option<Found>> {
        Ok(match (&wanted.subject, wanted.quantity) {
            (Subject::Device(name), Quantity::Device(_) | Quantity::Share(_)) => {
                self.device_row(name).await?.map(Found::Device)
            }
            (Subject::Volume(name), Quantity::Device(_)) => {
                self.device_row_of_volume(name).await?.map(Found::Device)
            }
            (Subject::Volume(name), Quantity::Volume(_) | Quantity::Estimate(_)) => {
                self.volume_row(name).await?.map(Found::Volume)
            }
            (Subject::Total, Quantity::Device(_)) => Some(Found::Total(self.counted_rows().await?)),
            (Subject::Host, Quantity::Host(_)) => Some(Found::Host),
            _ => None,
        })
    }

    /// Whether anything of this subject was ever kept.
    pub async fn knows(&self, subject: &Subject) -> anyhow::Result<bool> {
        Ok(match subject {
            Subject::Device(name) => self.device_row(name).await?.is_some(),
            Subject::Volume(name) => self.volume_row(name).await?.is_some(),
            Subject::Total | Subject::Host => true,
        })
    }

    async fn device_row(&self, name: &str) -> anyhow::Result<Option<i64>> {
        Ok(sqlx::query_scalar(
            "SELECT id FROM device WHERE identity = ?1 OR name = ?1 OR label = ?1
             ORDER BY identity = ?1 DESC, last_seen_ms DESC, name = ?1 DESC LIMIT 1",
        )
        .bind(name)
        .fetch_optional(&self.readers)
        .await?)
    }

    async fn volume_row(&self, name: &str) -> anyhow::Result<Option<i64>> {
        Ok(sqlx::query_scalar(
            "SELECT id FROM volume WHERE uuid = ?1 OR vg || '/' || lv = ?1
             ORDER BY uuid = ?1 DESC, last_seen_ms DESC, id DESC LIMIT 1",
        )
        .bind(name)
        .fetch_optional(&self.readers)
        .await?)
    }

    async fn device_row_of_volume(&self, name: &str) -> anyhow::Result<Option<i64>> {
        let Some(volume) = self.volume_row(name).await? else { return Ok(None) };
        Ok(sqlx::query_scalar(
            "SELECT device.id FROM volume JOIN device ON device.identity = volume.device_identity WHERE volume.id = ?",
        )
        .bind(volume)
        .fetch_optional(&self.readers)
        .await?)
    }

    async fn counted_rows(&self) -> anyhow::Result<HashSet<i64>> {
        let ids: Vec<i64> =
            sqlx::query_scalar("SELECT id FROM device WHERE counts = 1").fetch_all(&self.readers).await?;
        Ok(ids.into_iter().collect())
    }

    /// Jobs that ran at any time in the range, the latest first.
    pub async fn jobs(&self, range: Range, most: usize) -> anyhow::Result<Vec<Job>> {
        let rows = sqlx::query(
            "SELECT * FROM job WHERE started_ms <= ?1 AND coalesce(ended_ms, ?1) >= ?2
             ORDER BY started_ms DESC, id DESC LIMIT ?3",
        )
        .bind(range.to.as_millisecond())
        .bind(range.from.as_millisecond())
        .bind(i64::try_from(most)?)
        .fetch_all(&self.readers)
        .await
        .context("cannot read jobs")?;
        rows.iter().map(|row| Ok(Job::from_row(row)?)).collect()
    }

    pub async fn job(&self, id: i64) -> anyhow::Result<Option<Job>> {
        let row =
            sqlx::query("SELECT * FROM job WHERE id = ?").bind(id).fetch_optional(&self.readers).await?;
        Ok(row.map(|row| Job::from_row(&row)).transpose()?)
    }

    /// Alerts, the latest first.
    pub async fn alerts(&self, most: usize) -> anyhow::Result<Vec<Alert>> {
        let rows = sqlx::query("SELECT * FROM alert ORDER BY raised_ms DESC, id DESC LIMIT ?")
            .bind(i64::try_from(most)?)
            .fetch_all(&self.readers)
            .await
            .context("cannot read alerts")?;
        rows.iter().map(|row| Ok(Alert::from_row(row)?)).collect()
    }

    /// What an earlier run left behind.
    pub async fn known(&self) -> anyhow::Result<Known> {
        let jobs = sqlx::query("SELECT * FROM job ORDER BY ended_ms IS NULL DESC, id DESC LIMIT ?")
            .bind(JOBS_TO_RESUME)
            .fetch_all(&self.readers)
            .await?;
        let alerts = sqlx::query("SELECT * FROM alert WHERE cleared_ms IS NULL ORDER BY id")
            .fetch_all(&self.readers)
            .await?;
        let (last_job_id, last_alert_id) = sqlx::query_as(
            "SELECT coalesce((SELECT max(id) FROM job), 0), coalesce((SELECT max(id) FROM alert), 0)",
        )
        .fetch_one(&self.readers)
        .await?;
        let last_tick_ms: Option<i64> =
            sqlx::query_scalar("SELECT max(at_ms) FROM tick").fetch_one(&self.readers).await?;
        let mut jobs = jobs.iter().map(Job::from_row).collect::<Result<Vec<_>, _>>()?;
        jobs.sort_by_key(|job| job.id);
        Ok(Known {
            jobs,
            last_job_id,
            alerts: alerts.iter().map(Alert::from_row).collect::<Result<_, _>>()?,
            last_alert_id,
            last_tick_at: last_tick_ms.and_then(|at_ms| Timestamp::from_millisecond(at_ms).ok()),
        })
    }
}

#[derive(FromRow)]
struct TickRow {
    at_ms: i64,
    elapsed_us: i64,
    packed: Vec<u8>,
    more: Option<Vec<u8>>,
}

/// A tick as it was kept.
struct Tick {
    packed: Packed,
    more: More,
    elapsed_us: u64,
}

impl Tick {
    fn of(row: &TickRow) -> anyhow::Result<Self> {
        Ok(Self {
            packed: Packed::of_bytes(&row.packed)?,
            more: More::of_bytes(row.more.as_deref())?,
            elapsed_us: row.elapsed_us.unsigned_abs(),
        })
    }
}

fn observe(rows: &Found, quantity: Quantity, tick: &Tick) -> Option<Observation> {
    let Tick { packed, more, elapsed_us } = tick;
    match (rows, quantity) {
        (Found::Device(id), Quantity::Device(quantity)) => {
            let (_, work) = packed.devices.iter().find(|(device, _)| device == id)?;
            quantity.observe(&Option::<Work>::from(*work)?, *elapsed_us)
        }
        (Found::Device(id), Quantity::Share(quantity)) => {
            let (_, share) = more.copying.iter().find(|(device, _)| device == id)?;
            quantity.observe(share, *elapsed_us)
        }
        (Found::Total(ids), Quantity::Device(quantity)) => {
            let devices = packed.devices.iter().filter(|(device, _)| ids.contains(device));
            quantity.observe(&Work::sum(devices.map(|(_, work)| (*work).into()))?, *elapsed_us)
        }
        (Found::Volume(id), Quantity::Volume(quantity)) => {
            let (_, state) = packed.volumes.iter().find(|(volume, _)| volume == id)?;
            quantity.observe(&(*state).into())
        }
        (Found::Volume(id), Quantity::Estimate(quantity)) => {
            let (_, estimate) = more.estimates.iter().find(|(volume, _)| volume == id)?;
            Some(quantity.observe(estimate))
        }
        (Found::Host, Quantity::Host(quantity)) => quantity.observe(&packed.host, *elapsed_us),
        _ => None,
    }
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
            mounted_on: row.try_get("mounted_on")?,
            unmounted_at: optional_time(row, "unmounted_ms")?,
            partly_seen: row.try_get("partly_seen")?,
            last_fill_percent: row.try_get("last_fill_percent")?,
            peak_fill_percent: row.try_get("peak_fill_percent")?,
            bytes_read: bytes("bytes_read")?,
            read_counter: bytes("read_counter")?,
        })
    }
}

impl FromRow<'_, SqliteRow> for Alert {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            rule: word::<Rule>(row, "rule")?,
            severity: word::<Severity>(row, "severity")?,
            worst: word::<Severity>(row, "severity")?,
            vg: row.try_get("vg")?,
            lv: row.try_get("lv")?,
            uuid: row.try_get("uuid")?,
            value: row.try_get("value")?,
            raised_at: time(row, "raised_ms")?,
            cleared_at: optional_time(row, "cleared_ms")?,
            sentence: row.try_get("sentence")?,
        })
    }
}

fn time(row: &SqliteRow, column: &str) -> sqlx::Result<Timestamp> {
    Timestamp::from_millisecond(row.try_get(column)?).map_err(|error| sqlx::Error::Decode(error.into()))
}

fn optional_time(row: &SqliteRow, column: &str) -> sqlx::Result<Option<Timestamp>> {
    match row.try_get::<Option<i64>, _>(column)? {
        Some(_) => time(row, column).map(Some),
        None => Ok(None),
    }
}

fn word<W: for<'a> Deserialize<'a>>(row: &SqliteRow, column: &str) -> sqlx::Result<W> {
    let text: String = row.try_get(column)?;
    named(&text).ok_or_else(|| sqlx::Error::Decode(format!("`{text}` is no word for {column}").into()))
}

fn optional_word<W: for<'a> Deserialize<'a>>(row: &SqliteRow, column: &str) -> sqlx::Result<Option<W>> {
    match row.try_get::<Option<String>, _>(column)? {
        Some(_) => word(row, column).map(Some),
        None => Ok(None),
    }
}
