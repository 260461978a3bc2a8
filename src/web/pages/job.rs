//! `/jobs/ID`: one job, with fill and read speed in one chart.

use axum::extract::{Path, State};

use super::charts::{self, RangeTools, Sketch, View};
use super::device::{KeyFigure, Subjects};
use super::phases;
use super::rows;
use super::text;
use super::{Answer, Content, Refresh, moment, shown, zone_name, zoned_moment};
use crate::config::{Rule, Thresholds};
use crate::forecast::{Eta, Outlook};
use crate::job::figures::PhaseWork;
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::report::summary::JobSummary;
use crate::sentence::Sentence;
use crate::series::Range;
use crate::store::{Level, Subject};
use crate::table::{Column, Table};
use crate::units::duration_text;
use crate::verdict::{Grade, Verdict};
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Partial, Problem};

/// How much longer the axis of a running job becomes at once.
const GROWTH: f64 = 1.05;
/// The time before and after the job: a part of its length, and at least some seconds.
const MARGIN: f64 = 0.03;
const LEAST_MARGIN: f64 = 5.0;

pub async fn page(
    State(site): State<Site>,
    Path(id): Path<String>,
    ParsedQuery(view): ParsedQuery<View>,
) -> Answer {
    let missing = |_| Problem::NotFound(format!("there is no job {id}"));
    let job = site.job(id.parse().map_err(missing)?).await?;
    let now = whole(&site, &job, &view).await?;
    let url = format!("/jobs/{}/now", job.id);
    let present = site.present()?;
    let refresh = match (&view.from, &view.to, job.ended_at) {
        (None, None, None) => Some(Refresh::of_range(url, around(&job, &present))),
        (None, None, Some(_)) => Some(Refresh::once(url)),
        _ => view.refresh(&url, view.range(&present)?),
    };
    Ok(Content {
        title: job.name,
        place: "/jobs",
        refresh,
        now,
        ..Content::default()
    })
}

/// The whole page as HTML.
pub async fn whole(site: &Site, job: &Job, view: &View) -> Result<String, Problem> {
    let present = site.present()?;
    let range = match (&view.from, &view.to) {
        (None, None) => around(job, &present),
        _ => view.range(&present)?,
    };
    let charts = match job.is_imported() {
        // Its measurements are in its file, not in the store.
        true => super::compare::alone(job, site.cost(job).await?, view.width()).into(),
        false => {
            charts::draw(
                site,
                &present,
                view,
                range,
                std::slice::from_ref(job),
                sketches(job, &present),
            )
            .await?
        }
    };
    let outlook = present.outlook(job);
    let work = work(site, job).await?;
    let summary = JobSummary::of(job, present.is_monitored());
    let told = |sentence: &Sentence| text::told(sentence, present.interval.at);
    let verdict = Verdict::of_job(&present, job);
    let page = shown(&Subjects {
        name: job.name.clone(),
        key_figures: key_figures(job, &summary, &present, outlook.as_ref()),
        description: told(&summary.heading),
        hints: expected(outlook.as_ref(), &verdict)
            .chain(
                summary
                    .warning
                    .iter()
                    .filter(|warning| warning.to_string() != verdict.sentence)
                    .map(told),
            )
            .collect(),
        remarks: summary
            .remarks
            .iter()
            .map(told)
            .chain(rolled_up(site, job, &present).await?)
            .collect(),
        verdict: Some(verdict),
        accept: job
            .can_be_accepted()
            .then(|| format!("/api/v1/jobs/{}/accept", job.id)),
        ranges: if job.is_imported() {
            RangeTools::default()
        } else {
            view.ranges_of(job, range)
        },
        charts,
        phases: phases::phases(job, &work, present.interval.at),
        tables: Some(notes(job, present.interval.at))
            .filter(|table| !table.is_empty())
            .into_iter()
            .collect(),
        links: links(job)
            .into_iter()
            .filter(|_| !job.is_imported())
            .chain(others(site, job, &present).await?)
            .collect(),
        ..Subjects::default()
    })?;
    Ok(page + &super::job_cost::sections(site, job).await?)
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

fn notes(job: &Job, now: jiff::Timestamp) -> Table {
    let rows = job
        .notes
        .iter()
        .map(|note| vec![moment(note.at, now).into(), note.text.clone().into()]);
    Table::new(
        "Notes",
        [
            Column::text(format!("At ({})", zone_name(now))),
            Column::text("Note").class("says"),
        ],
        rows,
    )
}

/// When the job will end, unless the verdict looks ahead, and the basis of this forecast.
fn expected(outlook: Option<&Outlook>, verdict: &Verdict) -> impl Iterator<Item = String> {
    let text = outlook.map(|outlook| outlook.text.clone());
    text.filter(|text| verdict.grade == Grade::Ok && !verdict.sentence.contains(text))
        .into_iter()
        .chain(outlook.map(|outlook| outlook.left.text.clone()))
}

/// A sentence if some ticks of the job were rolled up.
async fn rolled_up(site: &Site, job: &Job, present: &Present) -> Result<Option<String>, Problem> {
    if job.is_imported() {
        return Ok(None);
    }
    let ran = Range {
        from: job.started_at,
        to: job.ended_at.unwrap_or(present.interval.at),
    };
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
    let moved = |by: f64| {
        let at_ms = job
            .started_at
            .as_millisecond()
            .saturating_add((by * 1000.0) as i64);
        jiff::Timestamp::from_millisecond(at_ms).unwrap_or(job.started_at)
    };
    Range {
        from: moved(-margin),
        to: moved(seconds + margin),
    }
}

/// Of the fill of a job's snapshot.
fn thresholds(job: &Job, present: &Present) -> Option<Thresholds> {
    let (vg, lv) = (
        job.vg.as_deref().unwrap_or_default(),
        job.lv.as_deref().unwrap_or_default(),
    );
    present.thresholds.of(Rule::SnapshotFill, vg, lv)
}

fn sketches(job: &Job, present: &Present) -> Vec<Sketch> {
    match job.kind {
        JobKind::Snapshot => {
            let subject = Subject::Volume(job.key.clone());
            vec![
                charts::fill_and_read_speed(&subject, thresholds(job, present)),
                super::overview::disks(present),
                super::overview::copying(present, std::slice::from_ref(job)),
                charts::paging(),
            ]
        }
        JobKind::Command | JobKind::Mark => {
            vec![
                charts::throughput("Throughput of all disks, each byte once", &Subject::Total),
                charts::paging(),
            ]
        }
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
    let bytes = job.bytes_read.filter(|_| seconds > 0.0 && !job.partly_seen);
    let mean = bytes.map(|bytes| bytes as f64 / seconds);
    let of = if job.kind == JobKind::Snapshot {
        "from the snapshot"
    } else {
        "from all disks, in whole ticks"
    };
    let mut figures = vec![
        KeyFigure::new(
            "Outcome",
            summary.outcome.clone(),
            text::told(&summary.basis, now),
        ),
        KeyFigure::new(
            if job.is_running() { "So far" } else { "Took" },
            rows::took(job, now),
            "",
        ),
        KeyFigure::new("Read", text::size(job.bytes_read), of),
        KeyFigure::new("Mean read speed", text::rate(mean), "over the whole job"),
    ];
    if job.kind == JobKind::Snapshot {
        figures.push(KeyFigure::new(
            "Peak fill",
            text::percent(job.peak_fill_percent),
            "",
        ));
    }
    let in_time = |name, eta: Eta| {
        let likely = eta.likely_s.map_or("not expected".into(), duration_text);
        KeyFigure::new(name, likely, eta.bounds_text())
    };
    figures.extend(
        outlook
            .and_then(|outlook| outlook.done)
            .map(|done| in_time("Done in", done)),
    );
    figures.extend(
        outlook
            .and_then(|outlook| outlook.full)
            .map(|full| in_time("Full in", full)),
    );
    figures
}

/// Links to comparisons with the previous run and with the set.
async fn others(
    site: &Site,
    job: &Job,
    present: &Present,
) -> Result<Vec<(String, String)>, Problem> {
    let before = site.previous_run(job).await?.map(|before| {
        let began = zoned_moment(before.started_at, present.interval.at);
        let href = format!("/jobs/compare?ids={},{}", before.id, job.id);
        (format!("compare with the previous run, {began}"), href)
    });
    let set = job.label.as_ref().map(|label| {
        let href = format!("/jobs/compare?set={}", crate::web::escaped(&label.set));
        (format!("compare the runs of {}", label.set), href)
    });
    Ok(before.into_iter().chain(set).collect())
}

/// The volumes of a job.
pub fn links(job: &Job) -> Vec<(String, String)> {
    let named = |word: &str, lv: &Option<String>| {
        let (vg, lv) = (job.vg.as_ref()?, lv.as_ref()?);
        Some((format!("{word} {vg}/{lv}"), rows::volume_href(vg, lv)))
    };
    named("snapshot", &job.lv)
        .into_iter()
        .chain(named("origin", &job.origin))
        .collect()
}
