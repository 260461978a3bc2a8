//! Lists of jobs, the latest first, a page at a time.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use anyhow::Context;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row};

use super::StoreReader;
use super::lasting::readable_records;
use crate::job::{Job, JobKind};
use crate::series::Range;

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

/// The place of a job in the list. It remains valid when the job is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobPlace {
    started_ms: i64,
    id: i64,
}

impl JobPlace {
    fn of_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self { started_ms: row.try_get("started_ms")?, id: row.try_get("id")? })
    }

    pub fn of(job: &Job) -> Self {
        Self { started_ms: job.started_at.as_millisecond(), id: job.id }
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
        let parts = text.rsplit_once('-').map(|(started_ms, id)| (started_ms.parse(), id.parse()));
        match parts {
            Some((Ok(started_ms), Ok(id))) => Ok(Self { started_ms, id }),
            _ => Err(format!("expected `before` as the link to the next page has it, but found `{text}`")),
        }
    }
}

impl JobQuery {
    /// All jobs of the range.
    pub fn of(range: Range) -> Self {
        Self { range, before: None, kind: None, name: None, origin: None, set: None }
    }

    /// The same for a job that is in memory.
    pub fn matches(&self, job: &Job) -> bool {
        let is_of = |(vg, origin): &(String, String)| {
            (job.vg.as_ref(), job.origin.as_ref()) == (Some(vg), Some(origin))
        };
        job.started_at <= self.range.to
            && job.ended_at.is_none_or(|ended_at| ended_at >= self.range.from)
            && self.before.is_none_or(|before| JobPlace::of(job) < before)
            && self.kind.is_none_or(|kind| job.kind == kind)
            && self.name.as_ref().is_none_or(|name| job.name == *name)
            && self.origin.as_ref().is_none_or(is_of)
            && self.set.as_ref().is_none_or(|set| job.label.as_ref().is_some_and(|label| label.set == *set))
    }
}

impl StoreReader {
    /// The selected jobs, the latest first.
    pub async fn jobs(&self, query: &JobQuery, most: usize) -> anyhow::Result<JobPage> {
        let body = |path: &str| format!("AND iif(json_valid(body), body ->> '{path}', NULL)");
        let conditions = [
            query.before.map(|_| "AND (started_ms, id) < (?3, ?4)".to_string()),
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
            .bind(query.origin.as_ref().map(|(vg, origin)| format!("{vg}/{origin}")))
            // One more shows whether there is a next page.
            .bind(i64::try_from(most + 1)?);
        let mut rows = self.rows(rows).await.context("cannot read jobs")?;
        let has_more = rows.len() > most;
        rows.truncate(most);
        let next = rows.last().filter(|_| has_more).map(JobPlace::of_row).transpose()?;
        Ok(JobPage { jobs: readable_records(&rows), next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        for place in [JobPlace { started_ms: 1_772_330_400_123, id: 7 }, JobPlace { started_ms: -5, id: 1 }] {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        for text in ["", "7", "x-7", "5-", "17-x"] {
            let expected = format!("but found `{text}`");
            assert!(text.parse::<JobPlace>().unwrap_err().ends_with(&expected));
        }
    }
}
