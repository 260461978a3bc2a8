//! Jobs: lists, one job, what it cost, and comparisons.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::commands::chosen_key;
use super::{ListPage, MOST_LISTED, checked, next_page, numbered};
use crate::commands::{ArchiveSummary, JobLabel, Note};
use crate::forecast::Outlook;
use crate::job::advice::Advice;
use crate::job::backup_run::BackupRun;
use crate::job::completeness::Completeness;
use crate::job::diagnosis::Explanation;
use crate::job::figures::Figures;
use crate::job::setup::Setup;
use crate::job::{Job, JobKind, Outcome, PhaseSpan, ReportedResult};
use crate::present::Present;
use crate::report::compare::Comparison;
use crate::report::job::JobSummary;
use crate::report::text::sentence;
use crate::series::Range;
use crate::series::when::{TimeQuery, including_latest};
use crate::sizing::SizeAdvice;
use crate::store::JobQuery;
use crate::verdict::Verdict;
use crate::web::SharedSite;
use crate::web::answer::{ParsedQuery, Problem, ProblemBody, QueryPairs, parsed_place};
use crate::web::compare::{Choice, ComparisonData};
use crate::web::costs::Cost;

/// The query of a list of jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// RFC 3339, or relative to the last tick such as `-1h`
    from: Option<String>,
    /// Likewise; `now` by default
    to: Option<String>,
    /// Jobs per page, from 1 to 1000; 1000 by default
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The place after which the page starts, from the link to the next page
    before: Option<String>,
}

/// Jobs, the latest first, in pages. `from` and `to` select jobs that ran at any time between them.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(JobsQuery),
    responses((status = 200, body = Vec<JobBody>, headers(("Link" = String, description = "The next page, as `<address>; rel=\"next\"` (RFC 8288); missing on the last page"), ("Cowbell-Missing" = String, description = "Why only jobs in memory are listed")))))]
pub async fn jobs(
    State(site): State<SharedSite>,
    ParsedQuery(asked): ParsedQuery<JobsQuery>,
) -> ListPage<JobBody> {
    let limit = checked("limit", asked.limit, MOST_LISTED, MOST_LISTED)?;
    let before = parsed_place(asked.before.as_deref())?;
    let span = TimeQuery {
        from: asked.from,
        to: asked.to,
    };
    let range = including_latest(
        &span,
        span.range(site.present()?.interval.at, "1970-01-01T00:00:00Z")?,
    );
    let query = JobQuery {
        before,
        ..JobQuery::of(range)
    };
    let listed = site.job_page(&query, limit).await?;
    let to = if range.to == Timestamp::MAX {
        String::new()
    } else {
        format!("&to={}", range.to)
    };
    let from = range.from;
    let next = listed.found.next.as_ref();
    let next = next.map(|next| format!("jobs?from={from}{to}&limit={limit}&before={next}"));
    let present = site.present()?;
    let body = |job: &Job| JobBody::new(job, &present);
    let listed = listed.map(|page| Json(page.jobs.iter().map(body).collect()));
    Ok((next_page(next), listed))
}

/// One job.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, body = JobBody), (status = 404, body = ProblemBody)))]
pub async fn job(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
) -> Result<Json<JobBody>, Problem> {
    Ok(Json(JobBody::new(
        &numbered(&site, &id).await?,
        &*site.present()?,
    )))
}

/// The cost of a job: figures, diagnosis, advice, and the size of the next COW area. For a running job it may be 10 s old.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/figures", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, body = FiguresBody), (status = 404, body = ProblemBody)))]
pub async fn figures(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
) -> Result<Json<FiguresBody>, Problem> {
    let job = numbered(&site, &id).await?;
    let cost = site.cost(&job).await?;
    let present = site.present()?;
    let summary = JobSummary::of(&job, present.is_monitored());
    Ok(Json(FiguresBody::new(&job, summary, &cost, &present)))
}

/// Whether a running backup will end before its snapshot overflows; `null` for other jobs. It needs no database.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/outlook", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, body = Option<Outlook>), (status = 404, body = ProblemBody)))]
pub async fn outlook(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
) -> Result<Json<Option<Outlook>>, Problem> {
    let job = numbered(&site, &id).await?;
    Ok(Json(site.present()?.outlook(&job)))
}

/// A comparison: figures with mean, standard deviation and ratio to the first set, outliers, and other differences. Jobs
/// of the same set and variant are repeats.
#[utoipa::path(get, path = "/api/v1/jobs/compare", tag = "jobs",
    params(("ids" = Option<String>, Query, description = "IDs of jobs, separated by commas, at most 64; the others are compared with the first"), ("group" = Option<String>, Query, description = "A named group of repeats such as `before:3,4`; can be repeated"), ("set" = Option<String>, Query, description = "All jobs of this set")),
    responses((status = 200, body = CompareBody), (status = 404, body = ProblemBody), (status = 409, description = "They have no figure in common", body = ProblemBody)))]
pub async fn compare(
    State(site): State<SharedSite>,
    ParsedQuery(query): ParsedQuery<QueryPairs>,
) -> Result<Json<CompareBody>, Problem> {
    let compared = site.compared(&Choice::of(&query)?).await?;
    Ok(Json(CompareBody::new(&compared, &*site.present()?)))
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobBody {
    pub id: i64,
    pub kind: JobKind,
    /// The key that its client chose; `null` for snapshots.
    pub key: Option<String>,
    pub name: String,
    pub vg: Option<String>,
    pub lv: Option<String>,
    pub origin: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// `null` while it runs, until it is certain: a snapshot that is invalid has `overflowed` at once. `unknown` if no outcome was
    /// reported.
    pub outcome: Option<Outcome>,
    /// The exit status of a command that was not killed.
    pub exit_status: Option<i32>,
    /// The outcome that hooks reported.
    pub reported: Option<Outcome>,
    /// Phases from hooks and from clients, in order.
    pub phases: Vec<PhaseBody>,
    /// The database's global read lock was held within this span, but not for all of it.
    pub locked_at_most: Option<SpanBody>,
    pub peak_fill_percent: Option<f64>,
    /// From the snapshot; for other jobs, from all disks.
    pub bytes_read: Option<u64>,
    pub last_fill_percent: Option<f64>,
    /// When its snapshot became invalid; for a command, a snapshot that was created while it ran.
    pub died_at: Option<Timestamp>,
    /// When a read of its snapshot first failed.
    pub io_error_at: Option<Timestamp>,
    /// The device with that error; `null` if the snapshot returned only errors.
    pub io_error_device: Option<String>,
    /// When its snapshot was last seen, if another process removed it while the backup ran.
    pub removed_at: Option<Timestamp>,
    /// Whether its snapshot still existed at its end.
    pub left_snapshot: bool,
    /// Whether it is a backup; a snapshot that a person created is not.
    pub is_backup: bool,
    /// What it read, compared with what it should have read; `null` while it runs, or if unknown.
    pub completeness: Option<Completeness>,
    /// When a person accepted its result.
    pub accepted_at: Option<Timestamp>,
    /// The last mount point of its snapshot.
    pub mounted_on: Option<String>,
    /// When its snapshot was unmounted.
    pub unmounted_at: Option<Timestamp>,
    /// The set of runs that it belongs to.
    pub label: Option<JobLabel>,
    /// Notes in order of time.
    pub notes: Vec<Note>,
    /// The program that created the snapshot; `null` if the creation was not seen.
    pub program: Option<String>,
    /// Whether cowbell was not running during part of the job.
    pub partly_seen: bool,
    /// The host that it was imported from; `null` for jobs of this host.
    pub imported_from: Option<String>,
    /// What `cowbell verify-archive` found in its archive.
    pub certificate: Option<ArchiveSummary>,
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl JobBody {
    pub fn new(job: &Job, present: &Present) -> Self {
        let run = job.backup_run.as_ref();
        Self {
            id: job.id,
            kind: job.kind,
            key: chosen_key(job).map(String::from),
            name: job.name.clone(),
            vg: job.vg.clone(),
            lv: job.lv.clone(),
            origin: job.origin.clone(),
            started_at: job.started_at,
            ended_at: job.ended_at,
            outcome: job.judgement().outcome,
            exit_status: job.exit_status,
            reported: job.report().map(ReportedResult::outcome),
            phases: PhaseBody::all(job),
            locked_at_most: run.and_then(BackupRun::lock_range).map(SpanBody::from),
            peak_fill_percent: job.peak_fill_percent,
            bytes_read: job.bytes_read,
            last_fill_percent: job.last_fill_percent,
            died_at: job.died_at,
            io_error_at: job.io_error_at,
            io_error_device: job.io_error_device.clone(),
            removed_at: job.removed_at,
            left_snapshot: job.left_snapshot,
            is_backup: job.is_backup(),
            completeness: job.completeness.clone(),
            accepted_at: job.accepted_at,
            mounted_on: job.mounted_on.clone(),
            unmounted_at: job.unmounted_at,
            label: job.label.clone(),
            notes: job.notes.clone(),
            program: job.program.clone(),
            partly_seen: job.partly_seen,
            imported_from: job.imported_from().map(String::from),
            certificate: job.certificate.clone(),
            verdict: Verdict::of_job(present, job),
        }
    }
}

/// A phase of a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PhaseBody {
    /// From hooks: `flush`, `snapshot`, `mount`, `backup` or `cleanup`.
    pub phase: String,
    pub began_at: Timestamp,
    /// The start of the next phase, or the end of the job; `null` for the current phase.
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SpanBody {
    pub from: Timestamp,
    pub until: Timestamp,
}

impl PhaseBody {
    fn all(job: &Job) -> Vec<Self> {
        let body = |phase: PhaseSpan| Self {
            phase: phase.name.into(),
            began_at: phase.began_at,
            ended_at: phase.ended_at,
        };
        job.phases().into_iter().map(body).collect()
    }
}

impl From<Range> for SpanBody {
    fn from(range: Range) -> Self {
        Self {
            from: range.from,
            until: range.to,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FiguresBody {
    pub id: i64,
    pub name: String,
    /// `null` while it runs; the figures are then those so far.
    pub ended_at: Option<Timestamp>,
    /// What the job was, how it ended, and whether its backup can be trusted.
    #[serde(rename = "account")]
    pub summary: JobSummary,
    pub notes: Vec<Note>,
    /// The snapshot, its origin and the machine.
    pub setup: Setup,
    pub figures: Figures,
    pub diagnosis: Vec<Explanation>,
    pub advice: Vec<Advice>,
    /// How large the next snapshot of the origin has to be; `null` if nothing is known of that.
    pub sizing: Option<SizeAdvice>,
    /// Whether it will end before its snapshot overflows; `null` for other jobs.
    pub outlook: Option<Outlook>,
    pub verdict: Verdict,
}

impl FiguresBody {
    pub fn new(job: &Job, summary: JobSummary, cost: &Cost, present: &Present) -> Self {
        let sizing = present.size_advice_for(job);
        Self {
            id: job.id,
            name: job.name.clone(),
            ended_at: job.ended_at,
            summary,
            notes: job.notes.clone(),
            setup: cost.setup.clone(),
            figures: cost.figures.clone(),
            diagnosis: cost.findings.clone(),
            advice: cost.advice_with(sizing.as_ref()),
            sizing,
            outlook: present.outlook(job),
            verdict: Verdict::of_job(present, job),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CompareBody {
    /// Set by set, in the order of repeats.
    pub jobs: Vec<ComparedJob>,
    /// Sets, figures, remarks, and other differences.
    pub comparison: Comparison,
    /// Sentences on the whole comparison, then the remarks.
    pub sentences: Vec<String>,
}

/// One job of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComparedJob {
    /// The index of its set, from 0.
    pub set: usize,
    #[serde(flatten)]
    pub job: JobBody,
}

impl CompareBody {
    pub fn new(compared: &ComparisonData, present: &Present) -> Self {
        let runs = compared.columns.iter().enumerate();
        let runs =
            runs.flat_map(|(set, column)| column.runs.iter().map(move |(job, _)| (set, job)));
        let jobs = runs.map(|(set, job)| ComparedJob {
            set,
            job: JobBody::new(job, present),
        });
        let comparison = compared.comparison.clone();
        let sentences = compared
            .of_all
            .iter()
            .cloned()
            .chain(comparison.remarks.iter().map(sentence))
            .collect();
        Self {
            jobs: jobs.collect(),
            comparison,
            sentences,
        }
    }
}
