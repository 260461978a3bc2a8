//! Tables that several pages show: usage and jobs.

use jiff::Timestamp;

use super::{moment, text};
use crate::config::{Rule, Thresholds};
use crate::job::{Job, JobKind, Outcome, tool};
use crate::present::Present;
use crate::series::Range;
use crate::table::{Bar, Cell, Column, Table};
use crate::topology::{State, Volume, VolumeKind, VolumeState};
use crate::units::{Fill, duration_text, percent_text, size_text, took_text};
use crate::web::answer::Partial;

/// All snapshots and pools, failed ones first, then by fill.
pub fn fills(present: &Present) -> Table {
    let mut rows = Vec::new();
    for (volume, state) in present.interval.volumes() {
        let thresholds = |rule| present.thresholds.of(rule, &volume.vg, &volume.lv);
        match volume.kind {
            VolumeKind::Snapshot => {
                rows.push(fill(present, volume, state, state.fill, None, thresholds(Rule::SnapshotFill)));
            }
            VolumeKind::ThinPool => {
                let (data, metadata) = (thresholds(Rule::PoolData), thresholds(Rule::PoolMetadata));
                rows.push(fill(present, volume, state, state.fill, Some("data"), data));
                rows.push(fill(present, volume, state, state.metadata, Some("metadata"), metadata));
            }
            _ => {}
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let columns = [
        Column::name("Volume"),
        Column::text("State"),
        Column::text("Fill").class("fill"),
        Column::number("Used of size"),
        Column::text("Origin or pool").class("less"),
        Column::number("Age").class("less"),
    ];
    Table::new("Snapshots and pools", columns, rows.into_iter().map(|(_, row)| row)).class("fills")
}

/// A row and its urgency.
type FillRow = (f64, Vec<Cell>);

fn fill(
    present: &Present,
    volume: &Volume,
    state: &VolumeState,
    fill: Option<Fill>,
    part: Option<&'static str>,
    thresholds: Option<Thresholds>,
) -> FillRow {
    let percent = fill.map(Fill::percent);
    let grade = grade(state.state, percent, thresholds);
    let urgency = if state.state.is_bad() { 200.0 } else { percent.unwrap_or(-1.0) };
    let now = present.interval.at;
    let width = percent.map(|width| Bar {
        width,
        class: if grade == "ok" { "used" } else { grade },
        mark: thresholds.map(|thresholds| thresholds.critical),
        ..Bar::default()
    });
    let used = match (percent, present.job_of(volume).and_then(|job| job.died_at)) {
        (None, Some(died_at)) => format!("since {}", moment(died_at, now)).into(),
        (percent, _) => Cell::known(percent.map(percent_text)),
    };
    let of =
        volume.origin.as_ref().map_or_else(|| volume.kind.text().into(), |origin| format!("of {origin}"));
    let row = vec![
        Cell::link(volume.full_name(), volume_href(&volume.vg, &volume.lv)).small(part.unwrap_or_default()),
        Cell::state(state_word(state.state, grade), grade),
        width.map_or_else(Cell::default, |bar| Cell::default().bar(bar)).then(used),
        used_of_size(fill, volume.size.filter(|_| part != Some("metadata"))).into(),
        of.into(),
        Cell::known(volume.created_at.map(|from| duration_text(Range { from, to: now }.seconds()))),
    ];
    (urgency, row)
}

/// The CSS class of a volume by state and fill.
pub fn grade(state: State, percent: Option<f64>, thresholds: Option<Thresholds>) -> &'static str {
    match (state, percent) {
        _ if state.is_bad() => "critical",
        (State::Unknown | State::Inactive, _) | (_, None) => "unknown",
        (_, Some(percent)) if thresholds.is_some_and(|it| percent >= it.critical) => "critical",
        (_, Some(percent)) if thresholds.is_some_and(|it| percent >= it.warning) => "warning",
        _ => "ok",
    }
}

/// The grade of a volume that works, or else its state.
pub fn state_word(state: State, grade: &'static str) -> &'static str {
    if state == State::Ok && grade != "unknown" { grade } else { state.text() }
}

pub fn used_of_size(fill: Option<Fill>, size: Option<u64>) -> String {
    let fill = fill.filter(|fill| fill.unit > 0);
    match (fill, size) {
        (None, None) => text::DASH.into(),
        (Some(fill), _) => format!("{} of {}", size_text(fill.used_bytes()), size_text(fill.total_bytes())),
        (None, size) => format!("{} of {}", text::DASH, text::size(size)),
    }
}

pub fn volume_href(vg: &str, lv: &str) -> String {
    format!("/volumes/{}/{}", crate::web::escaped(vg), crate::web::escaped(lv))
}

/// Jobs, with a sentence if the list is incomplete.
pub struct JobTable {
    pub table: Table,
    pub missing: Option<String>,
}

impl JobTable {
    pub fn of(jobs: &Partial<Vec<Job>>, now: Timestamp) -> Self {
        let name = |job: &Job| Cell::link(&job.name, format!("/jobs/{}", job.id)).small(label(job));
        Self { table: job_table("The latest first", jobs, now, name), missing: jobs.missing.clone() }
    }

    /// Jobs with checkboxes.
    pub fn of_choices(jobs: &Partial<Vec<Job>>, now: Timestamp) -> Self {
        let name = |job: &Job| {
            Cell::choice(&job.name, "id", job.id.to_string()).small(job.id.to_string()).small(label(job))
        };
        let table = job_table("Single jobs, the latest first", jobs, now, name).class("choose");
        Self { table, missing: jobs.missing.clone() }
    }

    /// Whether there are certainly no jobs.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.missing.is_none()
    }
}

fn job_table(
    caption: &'static str,
    jobs: &Partial<Vec<Job>>,
    now: Timestamp,
    name: impl Fn(&Job) -> Cell,
) -> Table {
    let columns = [
        Column::name("Job").class("named"),
        Column::text("Outcome"),
        Column::text("Started (UTC)").class("least"),
        Column::number("Took"),
        Column::number("Read").class("least"),
        Column::number("Peak fill").class("least"),
        Column::text("Of").class("less"),
    ];
    let row = |job: &Job| {
        let (outcome, grade) = outcome(job);
        let of = match (&job.vg, &job.origin) {
            (Some(vg), Some(origin)) => {
                format!("{} of {vg}/{origin}", tool::above_lvcreate(job).unwrap_or("snapshot"))
            }
            _ => job.kind.text().into(),
        };
        let host = job.imported_from().map_or_else(String::new, |host| format!(" on {host}"));
        vec![
            name(job),
            Cell::state(outcome, grade),
            moment(job.started_at, now).into(),
            took(job, now).into(),
            Cell::known(job.bytes_read.map(size_text)),
            Cell::known(job.peak_fill_percent.map(percent_text)),
            format!("{of}{host}").into(),
        ]
    };
    Table::new(caption, columns, jobs.found.iter().map(row))
}

fn label(job: &Job) -> String {
    job.label.as_ref().map_or_else(String::new, |label| label.short_text(&job.name))
}

/// The duration so far, or in total.
pub fn took(job: &Job, now: Timestamp) -> String {
    let text = if job.is_running() { duration_text } else { took_text };
    text(job.seconds(now))
}

/// A job's outcome, or `running`, with its CSS class.
pub fn outcome(job: &Job) -> (&'static str, &'static str) {
    let outcome = match job.outcome {
        Some(outcome) => outcome,
        None if job.is_untrustworthy() || job.damaged_archive().is_some() => Outcome::Untrustworthy,
        None if job.kind == JobKind::Snapshot && job.died_at.is_some() => Outcome::Overflowed,
        None => return ("running", "running"),
    };
    let grade = match outcome {
        Outcome::Succeeded => "ok",
        Outcome::Unknown => "unknown",
        Outcome::Abandoned => "warning",
        outcome if outcome.is_bad() => "critical",
        _ => "unknown",
    };
    (outcome.text(), grade)
}
