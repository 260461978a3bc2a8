//! `/jobs/ID`: one job, with fill and read speed over its time on one chart.

use axum::extract::{Path, State};
use axum::response::Html;

use super::charts::{self, Sketch, View};
use super::device::{KeyFigure, NoteRow, Subjects};
use super::phases;
use super::rows::{self, JobTable};
use super::text::{self, Writing};
use super::{Answer, Content, Refresh, framed, moment, shown};
use crate::job::finish::{Expected, Outlook, Verdict};
use crate::job::{Harm, Job, JobKind, Outcome, tool};
use crate::present::Present;
use crate::series::Range;
use crate::store::{Level, Subject};
use crate::units::duration_text;
use crate::web::Site;
use crate::web::answer::{Asked, Partly, Problem};
use crate::web::compare;

/// What is shown before and after the job: a part of its length, and at least some seconds.
const MARGIN: f64 = 0.03;
const LEAST_MARGIN: f64 = 5.0;

pub async fn page(State(site): State<Site>, Path(id): Path<String>, Asked(view): Asked<View>) -> Answer {
    let job = find(&site, &id).await?;
    let now = whole(&site, &job, &view).await?;
    let url = super::fragment_url(&format!("/jobs/{}/now", job.id), &view.query());
    let present = site.present()?;
    let refresh = Some(match job.ended_at {
        None => Refresh::of_range(url, around(&job, &present)),
        Some(_) => Refresh::once(url),
    });
    framed(&site, Content { title: &job.name, place: "/jobs", refresh, tools: String::new(), now })
}

pub async fn fragment(State(site): State<Site>, Path(id): Path<String>, Asked(view): Asked<View>) -> Answer {
    let job = find(&site, &id).await?;
    whole(&site, &job, &view).await.map(Html)
}

async fn find(site: &Site, id: &str) -> Result<Job, Problem> {
    let missing = || Problem::NotFound(format!("There is no job {id}."));
    let number = id.parse().map_err(|_| missing())?;
    super::job_numbered(site, number).await?.ok_or_else(missing)
}

/// All that is told of a job, as HTML.
pub async fn whole(site: &Site, job: &Job, view: &View) -> Result<String, Problem> {
    let present = site.present()?;
    let range = match (&view.from, &view.to) {
        (None, None) => around(job, &present),
        _ => view.range(&present)?,
    };
    let figures = match job.is_imported() {
        // Its course came with it: nothing here was measured of it.
        true => super::compare::alone(job, site.cost(job).await?, view.width()),
        false => charts::draw(site, view, range, std::slice::from_ref(job), sketches(job, &present)).await?,
    };
    let outlook = present.outlook(job);
    let page = shown(&Subjects {
        name: job.name.clone(),
        description: describe(job, &present),
        remarks: remarks(site, job, &present, outlook.as_ref()).await?,
        notice: outlook.as_ref().and_then(overflowing).or_else(|| notice(job, &present)),
        key_figures: key_figures(job, &present, outlook.as_ref()),
        ranges: Vec::new(),
        span: String::new(),
        figures,
        phases: phases::phases(job, present.interval.at),
        notes: notes(job, present.interval.at),
        layout: Vec::new(),
        links: links(job)
            .into_iter()
            .filter(|_| !job.is_imported())
            .chain(others(site, job, &present).await?)
            .collect(),
        jobs: JobTable::default(),
    })?;
    let cost = super::job_cost::section(site, job).await?;
    let ran = super::job_ran::section(site, job).await?;
    Ok(page + &cost + &ran)
}

async fn remarks(
    site: &Site,
    job: &Job,
    present: &Present,
    outlook: Option<&Outlook>,
) -> Result<Vec<String>, Problem> {
    let locked = phases::locked(job, present.interval.at);
    let expected = outlook.map(expected).unwrap_or_default();
    let said = labelled(job).into_iter().chain(made_by(job)).chain(mounted(job, present)).chain(locked);
    Ok(expected.into_iter().chain(said).chain(rolled_up(site, job, present).await?).collect())
}

fn labelled(job: &Job) -> Option<String> {
    let label = job.label.as_ref()?;
    let variant = label.variant.as_ref().map_or_else(String::new, |variant| format!(", variant {variant}"));
    let repeat = label.repeat.map_or_else(String::new, |repeat| format!(", run {repeat}"));
    Some(format!("Of the set {}{variant}{repeat}.", label.set))
}

fn made_by(job: &Job) -> Option<String> {
    match (&job.program, tool::above_lvcreate(job)) {
        (Some(program), _) => Some(format!("Made by {program}.")),
        (None, Some(tool)) if job.heard.is_some() => Some(format!("Made by {tool}.")),
        (None, Some(tool)) => Some(format!("By its name it is of {tool}; who made it was not seen.")),
        (None, None) => None,
    }
}

fn notes(job: &Job, now: jiff::Timestamp) -> Vec<NoteRow> {
    job.notes.iter().map(|note| NoteRow { at: moment(note.at, now), text: note.text.clone() }).collect()
}

/// What is said in a box: that the backup will be lost unless somebody does something.
fn overflowing(outlook: &Outlook) -> Option<String> {
    (outlook.verdict == Verdict::FullFirst).then(|| outlook.text.clone())
}

/// When it will be done, and from what that follows.
fn expected(outlook: &Outlook) -> Vec<String> {
    let calm = overflowing(outlook).is_none().then(|| outlook.text.clone());
    calm.into_iter().chain([outlook.left.text.clone()]).collect()
}

/// A sentence where not every tick of the job is kept any more.
async fn rolled_up(site: &Site, job: &Job, present: &Present) -> Result<Option<String>, Problem> {
    if job.is_imported() {
        return Ok(None);
    }
    let ran = Range { from: job.started_at, to: job.ended_at.unwrap_or(present.interval.at) };
    // Where the database does not answer, the charts say so.
    let finest = Partly::or_from_memory(site.archive.finest(ran).await, || None, "")?;
    let length = match finest.found {
        None | Some(Level::Ticks) => return Ok(None),
        Some(Level::TenSeconds) => "ten seconds",
        Some(Level::Minutes) => "a minute",
        Some(Level::TenMinutes) => "ten minutes",
    };
    Ok(Some(format!(
        "Every tick of this job is not kept any more: the charts show sums of {length}, with the least and the most."
    )))
}

/// The job's own time with a little on either side.
fn around(job: &Job, present: &Present) -> Range {
    let now = present.interval.at;
    let margin_ms = ((job.seconds(now) * MARGIN).max(LEAST_MARGIN) * 1000.0) as i64;
    let end = job.ended_at.unwrap_or(now);
    let moved = |at: jiff::Timestamp, by: i64| {
        jiff::Timestamp::from_millisecond(at.as_millisecond().saturating_add(by)).unwrap_or(at)
    };
    Range { from: moved(job.started_at, -margin_ms), to: moved(end.max(job.started_at), margin_ms) }
}

fn sketches(job: &Job, present: &Present) -> Vec<Sketch> {
    match job.kind {
        JobKind::Snapshot => {
            let subject = Subject::Volume(job.key.clone());
            vec![
                charts::fill_and_read_speed(&subject, present.thresholds.snapshot_fill),
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

fn describe(job: &Job, present: &Present) -> String {
    let now = present.interval.at;
    let what = match (job.kind, &job.vg, &job.lv, &job.origin) {
        (JobKind::Snapshot, Some(vg), Some(lv), Some(origin)) => {
            format!("Snapshot {vg}/{lv} of {vg}/{origin}")
        }
        (JobKind::Snapshot, Some(vg), Some(lv), None) => format!("Snapshot {vg}/{lv}"),
        (JobKind::Mark, ..) => "Marked span".to_string(),
        _ => "Command".to_string(),
    };
    let until = job.ended_at.map_or_else(String::new, |at| format!(" to {}", moment(at, now)));
    let host = job.imported_from().map_or_else(String::new, |host| format!("From {host} · "));
    format!("{host}{what} · {}{until} UTC", moment(job.started_at, now))
}

fn notice(job: &Job, present: &Present) -> Option<String> {
    if let Some((harm, at)) = job.harm() {
        let lost = untrustworthy(harm, &moment(at, present.interval.at));
        return Some(format!("{lost}{}", unmounted_by_its_death(job, present)));
    }
    if let Some(died_at) = job.died_at {
        let at = moment(died_at, present.interval.at);
        let died = format!("{}: what read it then is lost, whatever it reported.", died(job, &at));
        return Some(format!("{died}{}", unmounted_by_its_death(job, present)));
    }
    match job.outcome {
        Some(Outcome::Abandoned) => Some(abandoned(job)),
        _ => job.partly_seen.then(|| {
            "This job was seen in part only: it had begun, or went on, while cowbell did not run.".into()
        }),
    }
}

fn died(job: &Job, at: &str) -> String {
    match (job.kind, &job.vg, &job.lv) {
        (JobKind::Command | JobKind::Mark, Some(vg), Some(lv)) => {
            format!("Snapshot {vg}/{lv}, which was made while it ran, became invalid at {at} UTC")
        }
        _ => format!("The snapshot became invalid at {at} UTC"),
    }
}

fn untrustworthy(harm: Harm, at: &str) -> String {
    let what = match harm {
        Harm::Death => "became invalid",
        Harm::IoError => "answered with I/O errors",
        Harm::Unmount => "was unmounted by somebody else",
    };
    format!(
        "The backup reported success, but its snapshot {what} at {at} UTC: what it wrote may be cut short or filled up \
         with zeros. Do not rely on it."
    )
}

fn abandoned(job: &Job) -> String {
    let last = job.heard.as_ref().and_then(|heard| heard.phases.last());
    match last {
        Some(last) => format!(
            "The backup never came to its end: the last that its hooks told is the phase {}. It was killed, or ended \
             without a word.",
            last.phase.text()
        ),
        None => "Nobody told how it ended: it was killed, or the machine went down. It is closed at the time at which it \
                 was last known to run."
            .into(),
    }
}

/// What a backup's own log does not say: why its files were suddenly gone.
pub fn unmounted_by_its_death(job: &Job, present: &Present) -> String {
    let unmounted = job.unmounted_at.zip(job.mounted_on.as_ref());
    match unmounted.filter(|_| job.was_unmounted_with_its_death()) {
        Some((at, folder)) => {
            let watched =
                present.interval.policies.is_some_and(|policies| policies.monitoring && policies.dmeventd);
            let who = if watched { ", as LVM's dmeventd does with an invalid snapshot" } else { "" };
            format!(
                " It was unmounted from {folder} at {}{who}: a backup may report missing files, or none at all, \
                 instead of an I/O error.",
                moment(at, present.interval.at)
            )
        }
        None => String::new(),
    }
}

fn mounted(job: &Job, present: &Present) -> Option<String> {
    let folder = job.mounted_on.as_ref()?;
    Some(match job.unmounted_at {
        Some(at) => format!("Was mounted on {folder} until {} UTC.", moment(at, present.interval.at)),
        None if job.is_running() => format!("Mounted on {folder}."),
        None => format!("Was mounted on {folder}."),
    })
}

fn key_figures(job: &Job, present: &Present, outlook: Option<&Outlook>) -> Vec<KeyFigure> {
    let (outcome, _) = rows::outcome(job);
    let percent = |percent: Option<f64>| text::or_dash(percent.map(|percent| format!("{percent:.2} %")));
    let seconds = job.seconds(present.interval.at);
    let bytes = job.bytes_read.map(|bytes| bytes as f64);
    let mean = bytes.filter(|_| seconds > 0.0 && !job.partly_seen).map(|bytes| bytes / seconds);
    let of =
        if job.kind == JobKind::Snapshot { "from the snapshot" } else { "from all disks, in whole ticks" };
    let mut figures = vec![
        KeyFigure::new("Outcome", outcome.into(), outcome_detail(job, present.interval.at)),
        KeyFigure::new(if job.is_running() { "So far" } else { "Took" }, duration_text(seconds), ""),
        KeyFigure::new("Read", Writing::default().amount(bytes), of),
        KeyFigure::new("Mean read speed", Writing::default().rate(mean), "over its whole time"),
    ];
    if job.kind == JobKind::Snapshot {
        figures.push(KeyFigure::new("Peak fill", percent(job.peak_fill_percent), ""));
        figures.push(KeyFigure::new("Last fill", percent(job.last_fill_percent), ""));
    }
    let in_time = |name, expected: Expected| {
        KeyFigure::new(name, duration_text(expected.likely_s), expected.bounds_text())
    };
    figures.extend(outlook.and_then(|outlook| outlook.done).map(|done| in_time("Done in", done)));
    figures.extend(outlook.and_then(|outlook| outlook.full).map(|full| in_time("Full in", full)));
    figures
}

/// What an outcome rests on.
fn outcome_detail(job: &Job, now: jiff::Timestamp) -> String {
    match job.outcome {
        None => String::new(),
        Some(Outcome::Unknown) => "nobody reported one".into(),
        Some(Outcome::Overflowed) => {
            job.died_at.map_or("seen by cowbell".into(), |at| format!("at {} UTC", moment(at, now)))
        }
        Some(Outcome::Untrustworthy) => "success was reported, but the snapshot was lost".into(),
        Some(Outcome::Abandoned) => "it never came to its end".into(),
        Some(Outcome::Failed) => match job.exit_status {
            Some(status) => format!("with status {status}"),
            None => "reported".into(),
        },
        Some(Outcome::Succeeded) => "reported".into(),
    }
}

/// What it can be compared with at a click: the run before, and the others of its set.
async fn others(site: &Site, job: &Job, present: &Present) -> Result<Vec<(String, String)>, Problem> {
    let before = compare::run_before(site, job).await?.map(|before| {
        let began = moment(before.started_at, present.interval.at);
        let href = format!("/jobs/compare?ids={},{}", before.id, job.id);
        (format!("compare with the run before, {began} UTC"), href)
    });
    let set = job.label.as_ref().map(|label| {
        let href = format!("/jobs/compare?set={}", text::escaped(&label.set));
        (format!("compare the runs of {}", label.set), href)
    });
    Ok(before.into_iter().chain(set).collect())
}

fn links(job: &Job) -> Vec<(String, String)> {
    let named = |word: &str, lv: &Option<String>| {
        let (vg, lv) = (job.vg.as_ref()?, lv.as_ref()?);
        Some((format!("{word} {vg}/{lv}"), rows::volume_href(vg, lv)))
    };
    named("snapshot", &job.lv).into_iter().chain(named("origin", &job.origin)).collect()
}
