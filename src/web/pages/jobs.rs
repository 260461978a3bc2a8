//! `/jobs`: all jobs of a range; and the table of jobs that other pages show too.

use askama::Template;
use jiff::Timestamp;

use super::charts::{RangeTools, View};
use super::text::{moment, zone_name};
use super::{Content, ListTools, PageRequest, PageResult, Refresh};
use crate::job::{Job, tool};
use crate::present::Present;
use crate::series::when::including_latest;
use crate::store::JobQuery;
use crate::table::{Cell, Column, Table};
use crate::units::{duration_text, percent_text, size_text, took_text};
use crate::verdict::{Grade, grade_of_job};
use crate::web::answer::{Partial, parsed_place};

/// Jobs per page.
const MOST_JOBS: usize = 200;
/// Of those that are no backups.
const MOST_OTHERS: usize = 20;
/// A week of nightly backups.
const DEFAULT_SPAN: &str = "-7d";

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    ranges: RangeTools,
    jobs: JobTable,
    is_filtered: bool,
    /// The address of the next page.
    older: Option<String>,
}

/// Jobs, with a sentence if the list is incomplete.
pub struct JobTable {
    pub table: Table,
    pub missing: Option<String>,
}

pub async fn page(request: PageRequest) -> PageResult {
    let present = &request.present;
    let view = request.view.or_from(DEFAULT_SPAN);
    let range = view.range(present)?;
    let query = JobQuery {
        before: parsed_place(view.before.as_deref())?,
        ..JobQuery::of(including_latest(&view.span(), range))
    };
    let listed = request.site.job_page(&query, MOST_JOBS).await?;
    let older = listed.found.next.as_ref().map(|next| View {
        before: Some(next.to_string()),
        ..view.clone()
    });
    let listed = listed.map(|page| page.jobs);
    let mut jobs = JobTable::of(&listed, present);
    let filter = view.filter.clone().unwrap_or_default();
    jobs.table = jobs.table.filtered(&filter);
    let page = JobsPage {
        ranges: view.ranges(range, &[]),
        jobs,
        is_filtered: !filter.is_empty(),
        older: older.map(|view| format!("/jobs?{}", view.query())),
    };
    let refresh = request.view.is_moving().then_some(Refresh::EACH_TICK);
    Content::new("Jobs", "/backups", refresh, &page)?.with_list_tools(ListTools {
        placeholder: JOB_FILTER,
        filter,
        hidden_fields: request.view.fields(),
        ..ListTools::default()
    })
}

/// What a filter of jobs may name.
pub const JOB_FILTER: &str = "name, origin, outcome";

/// Under Backups, then Jobs.
pub fn below_jobs(content: Content) -> Content {
    content.below(vec![("Jobs".into(), "/jobs".into())])
}

impl JobTable {
    pub fn of(jobs: &Partial<Vec<Job>>, present: &Present) -> Self {
        Self::named(jobs, present, "Jobs", |job| {
            Cell::link(&job.name, format!("/jobs/{}", job.id))
        })
    }

    /// Of these jobs, those that are no backups.
    pub fn of_others<'a>(jobs: impl Iterator<Item = &'a Job>, present: &Present) -> Self {
        let jobs: Vec<&Job> = jobs.collect();
        let is_of_command = |job: &Job| {
            let mut others = jobs.iter();
            others.any(|other| other.command_key.as_ref() == Some(&job.key))
        };
        let others = jobs
            .iter()
            .filter(|job| !job.is_own_backup() && !is_of_command(job));
        let others = others
            .take(MOST_OTHERS)
            .map(|job| Job::clone(job))
            .collect();
        let others = Partial {
            found: others,
            missing: None,
        };
        Self::named(&others, present, "Other jobs", |job| {
            Cell::link(&job.name, format!("/jobs/{}", job.id))
        })
    }

    /// Jobs with checkboxes.
    pub fn of_choices(jobs: &Partial<Vec<Job>>, present: &Present) -> Self {
        let mut choices = Self::named(jobs, present, "Single jobs, the latest first", |job| {
            let id = job.id.to_string();
            Cell::choice(&job.name, "id", id.clone()).small(id)
        });
        choices.table = choices.table.class("choose");
        choices
    }

    /// Whether there are certainly no jobs.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.missing.is_none()
    }

    fn named(
        jobs: &Partial<Vec<Job>>,
        present: &Present,
        caption: &'static str,
        name: impl Fn(&Job) -> Cell,
    ) -> Self {
        let now = present.interval.at;
        let started = format!("Started ({})", zone_name(now));
        let all = &jobs.found;
        // A command and its snapshot are one run, unless another snapshot of it is missing. Those of a set are compared with one
        // another.
        let rows = all.iter().filter(|job| {
            let is_its = |other: &Job| other.command_key.as_ref() == Some(&job.key);
            job.label.is_some() || job.lacks_snapshot() || !all.iter().any(is_its)
        });
        let table = Table::of(caption, rows)
            .column(Column::name("Job").class("named"), |job| {
                let label = job.label.as_ref();
                let label = label.map_or_else(String::new, |label| label.short_text(&job.name));
                name(job).small(label)
            })
            .column(Column::text("Outcome"), |job| {
                Cell::state(job.judgement().word(), job_class(present, job))
            })
            .column(Column::text(started).class("least"), |job| {
                moment(job.started_at, now)
            })
            .column(Column::number("Took"), |job| took(job, now))
            .column(Column::number("Read").class("least"), |job| {
                Cell::known(job.bytes_read.map(size_text))
            })
            .column(Column::number("Peak fill").class("least"), |job| {
                Cell::known(job.peak_fill_percent.map(percent_text))
            })
            .column(Column::text("Of").class("less"), |job| {
                let mut commands = all.iter();
                let is_its = |other: &&Job| job.command_key.as_ref() == Some(&other.key);
                subject(job, commands.find(is_its))
            })
            .done()
            .class("jobs");
        Self {
            table,
            missing: jobs.missing.clone(),
        }
    }
}

/// `mylvmbackup of vg0/data on db2`, or the command in place of the tool
fn subject(job: &Job, command: Option<&Job>) -> String {
    let tool = tool::above_lvcreate(job).unwrap_or("snapshot");
    let tool = command.map_or(tool, |command| &command.name);
    let mut subject = match job.origin_name() {
        Some(origin) => format!("{tool} of {origin}"),
        None => job.kind.text().into(),
    };
    if let Some(host) = job.imported_from() {
        subject += &format!(" on {host}");
    }
    subject
}

/// The duration so far, or in total.
pub fn took(job: &Job, now: Timestamp) -> String {
    let seconds = job.seconds(now);
    if job.is_running() {
        duration_text(seconds)
    } else {
        took_text(seconds)
    }
}

/// The CSS class of a job's grade.
pub fn job_class(present: &Present, job: &Job) -> &'static str {
    match grade_of_job(present, job) {
        Grade::Ok if job.is_running() => "running",
        grade => grade.text(),
    }
}
