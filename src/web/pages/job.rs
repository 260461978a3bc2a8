//! `/jobs/ID`: one job, with fill and read speed in one chart.

use std::slice;

use askama::Template;
use axum::extract::Path;

use super::charts::{self, Charts, RangeTools, Sketch};
use super::jobs::{below_jobs, took};
use super::text::{self, moment, zone_name, zoned_moment};
use super::volumes::{full_in, volume_href};
use super::{Content, KeyFigure, Links, PageRequest, PageResult, Refresh, job_cost, shown};
use crate::config::{Rule, Thresholds};
use crate::forecast::Outlook;
use crate::job::phases::PhaseWork;
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::report::figure::OF_WHOLE_TICKS;
use crate::report::job::JobSummary;
use crate::sentence::Sentence;
use crate::series::{Range, saturating_add_seconds};
use crate::store::{Level, Subject};
use crate::table::{Column, Table};
use crate::topology::Volume;
use crate::units::{duration_text, size_text};
use crate::verdict::{Grade, Verdict, filled_by};
use crate::web::answer::{Partial, Problem};
use crate::web::{Site, escaped};

/// How much longer the axis of a running job becomes at once.
const GROWTH: f64 = 1.05;
/// The time before and after the job: a part of its length, and at least some seconds.
const MARGIN: f64 = 0.03;
const LEAST_MARGIN: f64 = 5.0;

#[derive(Template)]
#[template(path = "job.html")]
struct JobDetailPage {
    name: String,
    description: Sentence,
    verdict: Verdict,
    /// Where to accept the result of a backup.
    accept: Option<String>,
    /// Sentences with commands, a line each.
    hints: Vec<Sentence>,
    /// Further facts, a line each.
    remarks: Vec<Sentence>,
    key_figures: Vec<KeyFigure>,
    links: Links,
    /// `None` of an imported job: its measurements are in its file, not in the store.
    ranges: Option<RangeTools>,
    charts: Charts,
    phases: Table,
    phases_note: Option<&'static str>,
    notes: Table,
}

pub async fn page(Path(id): Path<String>, request: PageRequest) -> PageResult {
    let missing = |_| Problem::NotFound(format!("there is no job {id}"));
    let job = request.site.job(id.parse().map_err(missing)?).await?;
    let now = whole(&request, &job).await?;
    let PageRequest { present, view, .. } = &request;
    let refresh = if !view.is_default() {
        view.refresh(view.range(present)?)
    } else if job.is_running() {
        Refresh::of_range(around(&job, present))
    } else {
        Refresh::Once
    };
    Ok(below_jobs(Content {
        title: job.name,
        place: "/backups",
        refresh: Some(refresh),
        now,
        ..Content::default()
    }))
}

/// The whole page as HTML.
pub async fn whole(request: &PageRequest, job: &Job) -> Result<String, Problem> {
    let PageRequest { site, view, .. } = request;
    let present = &request.present;
    let now = present.interval.at;
    let range = if view.is_default() {
        around(job, present)
    } else {
        view.range(present)?
    };
    let previous = site.previous_run(job).await?;
    let mut ranges = view.ranges_of(job, range);
    let charts = if job.is_imported() {
        super::compare::alone(job, site.cost(job).await?, view.width()).into()
    } else {
        let mut sketches = sketches(job, present);
        if let Some(previous) = previous.as_ref().filter(|run| !run.is_imported()) {
            ranges.last = Some(view.with_previous());
            if view.previous.is_some() {
                add_previous(&mut sketches, job, previous, present);
            }
        }
        charts::draw(request, range, slice::from_ref(job), sketches).await?
    };
    let outlook = present.outlook(job);
    let work = work(site, job).await?;
    let summary = JobSummary::of(job, present.is_monitored());
    let verdict = Verdict::of_job(present, job);
    let told = |sentence: &Sentence| text::told(sentence, now);
    let mut hints = expected(outlook.as_ref(), &verdict);
    let is_said = |warning: &&Sentence| warning.to_string() == verdict.sentence.to_string();
    hints.extend(
        summary
            .warning
            .iter()
            .filter(|warning| !is_said(warning))
            .map(told),
    );
    let mut remarks: Vec<Sentence> = summary.remarks.iter().map(told).collect();
    remarks.extend(rolled_up(site, job, present).await?.map(Sentence::from));
    let mut links = Links::new();
    if !job.is_imported() {
        links = self::links(job);
        let mut jobs = present.jobs.iter();
        if let Some(command) = jobs.find(|other| job.command_key.as_ref() == Some(&other.key)) {
            links.push((
                format!("command {}", command.name),
                format!("/jobs/{}", command.id),
            ));
        }
    }
    links.extend(comparisons(job, previous.as_ref(), present));
    let page = shown(&JobDetailPage {
        name: job.name.clone(),
        description: told(&summary.heading),
        verdict,
        accept: job
            .can_be_accepted()
            .then(|| format!("/api/v1/jobs/{}/accept", job.id)),
        hints,
        remarks,
        key_figures: key_figures(job, &summary, present, outlook.as_ref()),
        links,
        ranges: (!job.is_imported()).then_some(ranges),
        charts,
        phases: job_cost::phases(job, &work, now),
        phases_note: (!work.is_empty()).then_some(OF_WHOLE_TICKS),
        notes: Table::of("Notes", &job.notes)
            .column(Column::text(format!("At ({})", zone_name(now))), |note| {
                moment(note.at, now)
            })
            .column(Column::text("Note").class("says"), |note| note.text.clone())
            .done(),
    })?;
    Ok(page + &job_cost::sections(site, job).await?)
}

/// The work of each phase; empty if the store does not answer: then the charts say why.
async fn work(site: &Site, job: &Job) -> Result<Vec<PhaseWork>, Problem> {
    if job.phases().is_empty() {
        return Ok(Vec::new());
    }
    match site.cost(job).await {
        Err(Problem::Unavailable(_)) => Ok(Vec::new()),
        cost => Ok(cost?.figures.phases.clone()),
    }
}

/// When the job will end, unless the verdict looks ahead, and the basis of this forecast.
fn expected(outlook: Option<&Outlook>, verdict: &Verdict) -> Vec<Sentence> {
    let Some(Outlook { text, left, .. }) = outlook else {
        return Vec::new();
    };
    let mut said = vec![Sentence::from(&*left.text)];
    let is_said = verdict.sentence.to_string().contains(&text.to_string());
    if verdict.grade == Grade::Ok && !is_said {
        said.insert(0, text.clone());
    }
    said
}

/// A sentence if some ticks of the job were rolled up.
async fn rolled_up(site: &Site, job: &Job, present: &Present) -> Result<Option<String>, Problem> {
    if job.is_imported() {
        return Ok(None);
    }
    let ran = Range::new(job.started_at, job.ended_at.unwrap_or(present.interval.at));
    // If the database does not answer, the charts say so.
    let finest = Partial::or_from_memory(site.store.finest(ran).await, || None, "")?;
    let length = match finest.found {
        None | Some(Level::Ticks) => return Ok(None),
        Some(Level::Minutes) => "a minute",
        Some(Level::TenMinutes) => "ten minutes",
    };
    Ok(Some(format!(
        "The ticks of this job were deleted. The charts show sums of {length}, with minimum and maximum."
    )))
}

/// A job's time with a margin. That of a running job grows in steps, so that its axis does not move at each tick.
pub fn around(job: &Job, present: &Present) -> Range {
    let mut seconds = job.seconds(present.interval.at).max(0.0);
    if job.is_running() && seconds > LEAST_MARGIN {
        seconds = LEAST_MARGIN * GROWTH.powf((seconds / LEAST_MARGIN).log(GROWTH).ceil());
    }
    let margin = (seconds * MARGIN).max(LEAST_MARGIN);
    let start = job.started_at;
    Range::new(
        saturating_add_seconds(start, -margin),
        saturating_add_seconds(start, seconds + margin),
    )
}

/// Of the fill of a job's snapshot.
fn thresholds(job: &Job, present: &Present) -> Option<Thresholds> {
    let [vg, lv] = [&job.vg, &job.lv].map(|name| name.as_deref().unwrap_or_default());
    present.thresholds.of(Rule::SnapshotFill, vg, lv)
}

/// Its charts, the most telling first.
pub fn sketches(job: &Job, present: &Present) -> Vec<Sketch> {
    if job.kind != JobKind::Snapshot {
        return vec![charts::throughput_of_all(), charts::paging()];
    }
    let subject = Subject::Volume(job.key.clone());
    vec![
        charts::fill_and_read_speed(&subject, thresholds(job, present)),
        super::overview::disks(present),
        super::overview::copying(present, slice::from_ref(job)),
        charts::paging(),
    ]
}

/// Adds the first chart of the previous run to that of a job, as if both had started together.
fn add_previous(sketches: &mut [Sketch], job: &Job, previous: &Job, present: &Present) {
    let began = moment(previous.started_at, present.interval.at);
    let moved_s = Range::new(previous.started_at, job.started_at).seconds();
    let earlier = self::sketches(previous, present).into_iter().next();
    for (sketch, earlier) in sketches.iter_mut().zip(earlier) {
        sketch.add_earlier(earlier, &began, moved_s);
    }
}

fn key_figures(
    job: &Job,
    summary: &JobSummary,
    present: &Present,
    outlook: Option<&Outlook>,
) -> Vec<KeyFigure> {
    let now = present.interval.at;
    let seconds = job.seconds(now);
    let is_snapshot = job.kind == JobKind::Snapshot;
    let bytes = job.bytes_read.filter(|_| seconds > 0.0 && !job.partly_seen);
    let speed = text::rate(bytes.map(|bytes| bytes as f64 / seconds));
    let took_name = if job.is_running() { "So far" } else { "Took" };
    let read_from = if is_snapshot {
        "from the snapshot"
    } else {
        "from all disks, in whole ticks"
    };
    let basis = text::told(&summary.basis, now).to_string();
    let mut figures = vec![
        KeyFigure::new("Outcome", &*summary.outcome, basis),
        KeyFigure::new(took_name, took(job, now), ""),
        KeyFigure::new("Read", text::size(job.bytes_read), read_from),
        KeyFigure::new("Mean read speed", speed, "over the whole job"),
    ];
    if is_snapshot {
        let peak = text::percent(job.peak_fill_percent);
        figures.push(KeyFigure::new("Peak fill", peak, ""));
    }
    if let Some(done) = outlook.and_then(|outlook| outlook.done) {
        let likely = done.likely_s.map_or("not expected".into(), duration_text);
        figures.push(KeyFigure::new("Done in", likely, done.bounds_text()));
    }
    figures.extend(filled_by(present, job).and_then(|(volume, _)| full_figure(present, volume)));
    figures
}

/// When a volume that grows is full, also on the page of the job that fills it.
pub(super) fn full_figure(present: &Present, volume: &Volume) -> Option<KeyFigure> {
    let (full, why_not) = full_in(present, volume)?;
    let growth = present.paces.get(&volume.uuid)?.bytes_per_s * 60.0;
    let grows = format!("grows by {}/min", size_text(growth as u64));
    let why_not = (!why_not.is_empty()).then(|| why_not.into());
    let detail = text::joined([why_not, Some(grows)]);
    Some(KeyFigure::new("Full in", full, detail))
}

/// Links to comparisons with the previous run and with the set.
fn comparisons(job: &Job, previous: Option<&Job>, present: &Present) -> Links {
    let mut links = Links::new();
    if let Some(before) = previous {
        let began = zoned_moment(before.started_at, present.interval.at);
        let href = format!("/jobs/compare?ids={},{}", before.id, job.id);
        links.push((format!("compare with the previous run, {began}"), href));
    }
    if let Some(label) = &job.label {
        let href = format!("/jobs/compare?set={}", escaped(&label.set));
        links.push((format!("compare the runs of {}", label.set), href));
    }
    links
}

/// The volumes of a job.
pub fn links(job: &Job) -> Links {
    let mut links = Links::new();
    for (word, lv) in [("snapshot", &job.lv), ("origin", &job.origin)] {
        if let (Some(vg), Some(lv)) = (&job.vg, lv) {
            links.push((format!("{word} {vg}/{lv}"), volume_href(vg, lv)));
        }
    }
    links
}
