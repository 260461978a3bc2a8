//! Reads jobs and alerts, and the state in which an earlier process ended.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::{Display, Formatter};
use std::io::{Read, Write};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, FromRow, Row, Sqlite, SqliteConnection};

use super::StoreReader;
use super::deliveries;
use super::readers::ReadError;
use super::records::{readable, readable_records};
use super::stored::{last_tick, stretches};
use crate::alert::Alert;
use crate::job::{Job, JobKind};
use crate::notify::{Delivery, Silence, Unfinished};
use crate::series::Range;
use crate::sizing::MeasuredVolumes;

/// Ended jobs that may continue after a start, if their volumes reappear.
const JOBS_TO_RESUME: i64 = 200;

/// Maximum bytes to unpack. Import refuses longer files.
const LONGEST: u64 = 256 * 1024 * 1024;

/// Maximum answers that are cached, and jobs of one: two megabytes.
const MOST_ANSWERS: usize = 8;
const MOST_CACHED: usize = 200;
/// The range of an open page moves on with each tick, so its jobs and alerts are read for whole ten minutes.
const WIDER_MS: i64 = 600_000;

/// A query with its arguments.
type SqliteQuery = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

/// The state in which an earlier process ended.
#[derive(Clone, Debug, Default)]
pub struct StartState {
    /// Jobs that ran, and the last ones that ended, by their numbers.
    pub jobs: Vec<Job>,
    pub last_job_id: i64,
    /// Alerts that were open.
    pub alerts: Vec<Alert>,
    pub last_alert_id: i64,
    /// The deliveries of open alerts, and alerts whose end may be undelivered.
    pub unfinished: Unfinished,
    pub silences: Vec<Silence>,
    /// What was measured of volumes, by UUID.
    pub measured: MeasuredVolumes,
    /// The last tick that was stored.
    pub last_tick_at: Option<Timestamp>,
}

/// The selection of jobs.
#[derive(Clone, Debug)]
pub struct JobQuery {
    /// Selects jobs that ran at any time in it.
    pub range: Range,
    /// Selects jobs after this place in the list.
    pub before: Option<JobPlace>,
    pub kind: Option<JobKind>,
    pub name: Option<String>,
    /// Selects jobs of this volume group and origin.
    pub origin: Option<(String, String)>,
    pub set: Option<String>,
}

/// A page of the list, and where the next page begins.
#[derive(Clone, Debug, Default)]
pub struct JobPage {
    pub jobs: Vec<Job>,
    pub next: Option<JobPlace>,
}

/// Jobs, alerts and deliveries as they were read. An open page asks for the same ones at each tick.
#[derive(Debug, Default)]
pub struct RecordCache {
    /// Grows when one of them is written: what was read before is read anew.
    generation: AtomicU64,
    /// Each answer with the generation before it was read, by its query. The lock is held only for a look-up.
    answers: Mutex<HashMap<String, (u64, CachedAnswer)>>,
}

type CachedAnswer = Box<dyn Any + Send + Sync>;

impl RecordCache {
    /// For the writer, after a commit.
    pub fn forget(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The answer to the query of this name, which is always of the same type.
    async fn get_or_read<T: Clone + Send + Sync + 'static>(
        &self,
        name: String,
        read: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let generation = self.generation.load(Ordering::Acquire);
        if let Some((of, answer)) = self.lock().get(&name)
            && *of == generation
            && let Some(answer) = answer.downcast_ref::<T>()
        {
            return Ok(answer.clone());
        }
        let answer = read.await?;
        let mut answers = self.lock();
        if answers.len() >= MOST_ANSWERS {
            answers.clear();
        }
        answers.insert(name, (generation, Box::new(answer.clone())));
        Ok(answer)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (u64, CachedAnswer)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The range with all of its first and last ten minutes.
fn widened(range: Range) -> Range {
    let from_ms = range.from.as_millisecond().div_euclid(WIDER_MS) * WIDER_MS;
    let to_ms = (range.to.as_millisecond().div_euclid(WIDER_MS) + 1) * WIDER_MS;
    match (
        Timestamp::from_millisecond(from_ms),
        Timestamp::from_millisecond(to_ms),
    ) {
        (Ok(from), Ok(to)) => Range { from, to },
        _ => range,
    }
}

/// The place of a job in the list. It remains valid when the job is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobPlace {
    started_ms: i64,
    id: i64,
}

impl JobPlace {
    fn of_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            started_ms: row.try_get("started_ms")?,
            id: row.try_get("id")?,
        })
    }

    pub fn of(job: &Job) -> Self {
        Self {
            started_ms: job.started_at.as_millisecond(),
            id: job.id,
        }
    }
}

/// Its form in an address: the start in milliseconds, and the job's number.
impl Display for JobPlace {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.started_ms, self.id)
    }
}

impl FromStr for JobPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .rsplit_once('-')
            .map(|(started_ms, id)| (started_ms.parse(), id.parse()));
        match parts {
            Some((Ok(started_ms), Ok(id))) => Ok(Self { started_ms, id }),
            _ => Err(format!(
                "expected `before` as the link to the next page has it, but found `{text}`"
            )),
        }
    }
}

impl JobQuery {
    /// All jobs of the range.
    pub fn of(range: Range) -> Self {
        Self {
            range,
            before: None,
            kind: None,
            name: None,
            origin: None,
            set: None,
        }
    }

    /// The same for a job that is in memory.
    pub fn matches(&self, job: &Job) -> bool {
        let is_of = |(vg, origin): &(String, String)| {
            (job.vg.as_ref(), job.origin.as_ref()) == (Some(vg), Some(origin))
        };
        job.started_at <= self.range.to
            && job
                .ended_at
                .is_none_or(|ended_at| ended_at >= self.range.from)
            && self.before.is_none_or(|before| JobPlace::of(job) < before)
            && self.kind.is_none_or(|kind| job.kind == kind)
            && self.name.as_ref().is_none_or(|name| job.name == *name)
            && self.origin.as_ref().is_none_or(is_of)
            && self
                .set
                .as_ref()
                .is_none_or(|set| job.label.as_ref().is_some_and(|label| label.set == *set))
    }
}

impl StartState {
    /// For a database that cannot be read: numbers so high that they do not collide with any that it may have.
    pub(super) fn unknown() -> Self {
        let base = Timestamp::now().as_second();
        Self {
            last_job_id: base,
            last_alert_id: base,
            ..Self::default()
        }
    }
}

impl StoreReader {
    /// The state in which an earlier process ended.
    pub fn start_state(&self) -> &StartState {
        &self.start
    }

    pub async fn job(&self, id: i64) -> anyhow::Result<Option<Job>> {
        let query = sqlx::query("SELECT * FROM job_record WHERE id = ?").bind(id);
        self.record(query)
            .await
            .with_context(|| format!("cannot read job {id}"))
    }

    /// The job of this key.
    pub async fn job_of(&self, key: &str) -> anyhow::Result<Option<Job>> {
        let query = sqlx::query("SELECT * FROM job_record WHERE key = ?").bind(key.to_string());
        self.record(query)
            .await
            .with_context(|| format!("cannot read the job of the key {key}"))
    }

    /// The file of the imported job with this key, if any.
    pub async fn imported(&self, key: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let query = sqlx::query("SELECT file FROM imported WHERE key = ?").bind(key.to_string());
        let named = || format!("cannot read the file of the job {key}");
        let Some(row) = self.rows(query).await.with_context(named)?.pop() else {
            return Ok(None);
        };
        unpacked(row.try_get("file")?).map(Some).with_context(named)
    }

    /// Alerts with IDs below `before`, the latest first.
    pub async fn alerts(&self, before: Option<i64>, most: usize) -> anyhow::Result<Vec<Alert>> {
        let query = sqlx::query("SELECT * FROM alert_record WHERE id < ? ORDER BY id DESC LIMIT ?")
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::try_from(most)?);
        let name = format!("alerts before {before:?}, {most}");
        self.cached(name, query, "cannot read alerts").await
    }

    /// Alerts that were raised or cleared in the range, the latest first.
    pub async fn alerts_of(&self, range: Range, most: usize) -> anyhow::Result<Vec<Alert>> {
        let mut alerts: Vec<Alert> = Vec::new();
        for wider in [widened(range), range] {
            let query = sqlx::query(
                "SELECT * FROM alert_record WHERE raised_ms BETWEEN ?1 AND ?2 OR cleared_ms BETWEEN ?1 AND ?2
                 ORDER BY id DESC LIMIT ?3",
            );
            let query = query
                .bind(wider.from.as_millisecond())
                .bind(wider.to.as_millisecond())
                .bind(i64::try_from(most + 1)?);
            let name = format!("alerts of {wider:?}, {most}");
            let what = "cannot read the alerts of a time range";
            alerts = self.cached(name, query, what).await?;
            // With more, those of the range itself may be missing.
            if alerts.len() <= most {
                break;
            }
        }
        alerts.retain(|alert| {
            range.contains(alert.raised_at) || alert.cleared_at.is_some_and(|at| range.contains(at))
        });
        alerts.truncate(most);
        Ok(alerts)
    }

    /// The deliveries of these alerts.
    pub async fn deliveries(&self, alerts: &[i64]) -> anyhow::Result<Vec<Delivery>> {
        let query = sqlx::query(
            "SELECT * FROM delivery_record WHERE alert IN (SELECT value FROM json_each(?)) ORDER BY alert, receiver",
        );
        let query = query.bind(serde_json::to_string(alerts)?);
        let name = format!("deliveries of {alerts:?}");
        self.cached(name, query, "cannot read the deliveries of alerts")
            .await
    }

    /// The selected jobs, the latest first.
    pub async fn jobs(&self, query: &JobQuery, most: usize) -> anyhow::Result<JobPage> {
        self.check_open()?;
        if most > MOST_CACHED {
            return self.read_jobs(query, most).await;
        }
        let mut page = JobPage::default();
        for range in [widened(query.range), query.range] {
            let wider = JobQuery {
                range,
                ..query.clone()
            };
            let read = self.read_jobs(&wider, most);
            let name = format!("{most} of {wider:?}");
            page = self.records.get_or_read(name, read).await?;
            if page.next.is_none() {
                break;
            }
        }
        page.jobs.retain(|job| query.matches(job));
        Ok(page)
    }

    async fn read_jobs(&self, query: &JobQuery, most: usize) -> anyhow::Result<JobPage> {
        let body = |path: &str| format!("AND iif(json_valid(body), body ->> '{path}', NULL)");
        let conditions = [
            query
                .before
                .map(|_| "AND (started_ms, id) < (?3, ?4)".to_string()),
            query.kind.map(|_| body("kind") + " = ?5"),
            query.name.as_ref().map(|_| body("name") + " = ?6"),
            query.set.as_ref().map(|_| body("$.label.set") + " = ?7"),
            query.origin.as_ref().map(|_| "AND origin = ?8".to_string()),
        ];
        let conditions: Vec<String> = conditions.into_iter().flatten().collect();
        let sql = format!(
            "SELECT * FROM job_record WHERE started_ms <= ?1 AND coalesce(ended_ms, ?1) >= ?2 {}
             ORDER BY started_ms DESC, id DESC LIMIT ?9",
            conditions.join(" ")
        );
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(query.range.to.as_millisecond())
            .bind(query.range.from.as_millisecond())
            .bind(query.before.map(|before| before.started_ms))
            .bind(query.before.map(|before| before.id))
            .bind(query.kind.map(JobKind::text))
            .bind(query.name.clone())
            .bind(query.set.clone())
            .bind(
                query
                    .origin
                    .as_ref()
                    .map(|(vg, origin)| format!("{vg}/{origin}")),
            )
            // One more shows whether there is a next page.
            .bind(i64::try_from(most + 1)?);
        let mut rows = self.rows(rows).await.context("cannot read jobs")?;
        let has_more = rows.len() > most;
        rows.truncate(most);
        let next = rows
            .last()
            .filter(|_| has_more)
            .map(JobPlace::of_row)
            .transpose()?;
        Ok(JobPage {
            jobs: readable_records(&rows),
            next,
        })
    }

    /// The valid records of a query, which are cached under this name.
    async fn cached<T>(
        &self,
        name: String,
        query: SqliteQuery,
        what: &'static str,
    ) -> anyhow::Result<Vec<T>>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Clone + Send + Sync + 'static,
    {
        self.check_open()?;
        let read = async { Ok(readable_records(&self.rows(query).await.context(what)?)) };
        self.records.get_or_read(name, read).await
    }

    /// One record; an error if its row is damaged.
    async fn record<T>(&self, query: SqliteQuery) -> anyhow::Result<Option<T>>
    where
        T: for<'r> FromRow<'r, SqliteRow>,
    {
        let row = self.rows(query).await?.pop();
        Ok(row.map(|row| T::from_row(&row)).transpose()?)
    }

    pub(super) async fn rows(&self, query: SqliteQuery) -> anyhow::Result<Vec<SqliteRow>> {
        self.check_open()?;
        let read =
            async |connection: &mut SqliteConnection| Ok(query.fetch_all(connection).await?);
        self.readers.read(read).await
    }

    pub(super) fn check_open(&self) -> Result<(), ReadError> {
        let health = self.health.borrow();
        let why = || {
            health
                .error
                .clone()
                .unwrap_or_else(|| "it is not open yet".into())
        };
        if health.is_open {
            Ok(())
        } else {
            Err(ReadError::Failed(why()))
        }
    }
}

/// Reads the state in which an earlier process ended. Omits damaged rows, and returns a sentence for each.
pub async fn start_state(
    connection: &mut SqliteConnection,
) -> anyhow::Result<(StartState, Vec<String>)> {
    // The last ones of each volume or command tell what is usual.
    let jobs = sqlx::query(
        "SELECT * FROM job_record ORDER BY ended_ms IS NULL DESC, row_number() OVER (
             PARTITION BY coalesce(origin, iif(json_valid(body), coalesce(body ->> 'backup_of', body ->> 'name'), NULL))
             ORDER BY id DESC), id DESC LIMIT ?",
    )
    .bind(JOBS_TO_RESUME)
    .fetch_all(&mut *connection)
    .await?;
    let alerts = sqlx::query("SELECT * FROM alert_record WHERE cleared_ms IS NULL ORDER BY id")
        .fetch_all(&mut *connection)
        .await?;
    let (last_job_id, last_alert_id) = sqlx::query_as(
        "SELECT max(coalesce((SELECT max(id) FROM job_record), 0), coalesce((SELECT job FROM deleted_number), 0)),
             max(coalesce((SELECT max(id) FROM alert_record), 0),
                 -- The program may have ended before it wrote the alert of a delivery.
                 coalesce((SELECT max(alert) FROM delivery_record), 0))",
    )
    .fetch_one(&mut *connection)
    .await?;
    let ((mut jobs, damaged_jobs), (alerts, damaged_alerts)) =
        (readable::<Job>(&jobs), readable(&alerts));
    jobs.sort_by_key(|job| job.id);
    let unfinished = deliveries::unfinished(connection, &alerts).await?;
    let silences = deliveries::silences(connection).await?;
    let last_tick = last_tick(&stretches(connection).await?);
    let last_tick_at = last_tick.and_then(|last| Timestamp::from_millisecond(last.at_ms).ok());
    let damage = damaged_jobs.into_iter().chain(damaged_alerts).collect();
    let measured = deliveries::curves(connection).await?;
    let state = StartState {
        jobs,
        last_job_id,
        alerts,
        last_alert_id,
        unfinished,
        silences,
        measured,
        last_tick_at,
    };
    Ok((state, damage))
}

/// A file as stored.
pub fn packed(file: &str) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(file.as_bytes())?;
    packer.finish()
}

fn unpacked(file: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    GzDecoder::new(file).take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        for place in [
            JobPlace {
                started_ms: 1_772_330_400_123,
                id: 7,
            },
            JobPlace {
                started_ms: -5,
                id: 1,
            },
        ] {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        for text in ["", "7", "x-7", "5-", "17-x"] {
            let expected = format!("but found `{text}`");
            assert!(text.parse::<JobPlace>().unwrap_err().ends_with(&expected));
        }
    }
}
