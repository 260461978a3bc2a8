//! Rows of tables that several pages show: fills and jobs.

use jiff::Timestamp;

use super::{moment, text};
use crate::config::{Alerts, Thresholds};
use crate::job::{Job, JobKind, Outcome, tool};
use crate::present::Present;
use crate::table::{Bar, Cell, Column, Table};
use crate::topology::{State, Volume, VolumeKind, VolumeState};
use crate::units::{Fill, Prefix, bytes_text, duration_text, took_text};
use crate::web::answer::Partial;

/// All snapshots and pools, those in trouble first, then the fullest.
pub fn fills(present: &Present) -> Table {
    let mut rows = Vec::new();
    for (volume, state) in present.interval.volumes() {
        let thresholds = &present.thresholds;
        match volume.kind {
            VolumeKind::Snapshot => {
                rows.push(fill(present, volume, state, state.fill, None, thresholds.snapshot_fill));
            }
            VolumeKind::ThinPool => rows.extend(pool(present, volume, state, thresholds)),
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

/// A row, and how urgent it is.
type FillRow = (f64, Vec<Cell>);

fn pool(present: &Present, volume: &Volume, state: &VolumeState, thresholds: &Alerts) -> [FillRow; 2] {
    [
        fill(present, volume, state, state.fill, Some("data"), thresholds.pool_data),
        fill(present, volume, state, state.metadata, Some("metadata"), thresholds.pool_metadata),
    ]
}

fn fill(
    present: &Present,
    volume: &Volume,
    state: &VolumeState,
    fill: Option<Fill>,
    part: Option<&'static str>,
    thresholds: Thresholds,
) -> FillRow {
    let percent = fill.map(Fill::percent);
    let grade = grade(state.state, percent, thresholds);
    let urgency = if state.state.is_bad() { 200.0 } else { percent.unwrap_or(-1.0) };
    let now = present.interval.at;
    let width = percent.map(|width| Bar {
        width,
        class: if grade == "ok" { "used" } else { grade },
        mark: Some(thresholds.critical),
        ..Bar::default()
    });
    let used = match (percent, present.job_of(volume).and_then(|job| job.died_at)) {
        (None, Some(died_at)) => format!("since {}", moment(died_at, now)).into(),
        (percent, _) => Cell::known(percent.map(|percent| format!("{percent:.2} %"))),
    };
    let of =
        volume.origin.as_ref().map_or_else(|| volume.kind.text().into(), |origin| format!("of {origin}"));
    let row = vec![
        Cell::link(volume.full_name(), volume_href(&volume.vg, &volume.lv)).small(part.unwrap_or_default()),
        Cell::state(state_word(state.state, grade), grade),
        width.map_or_else(Cell::default, |bar| Cell::default().bar(bar)).then(used),
        used_of_size(fill, volume.size.filter(|_| part != Some("metadata"))).into(),
        of.into(),
        Cell::known(volume.created_at.map(|at| duration_text(seconds_between(at, now)))),
    ];
    (urgency, row)
}

/// The class for a volume in this state and so full.
pub fn grade(state: State, percent: Option<f64>, thresholds: Thresholds) -> &'static str {
    match (state, percent) {
        _ if state.is_bad() => "critical",
        (State::Unknown | State::Inactive, _) | (_, None) => "unknown",
        (_, Some(percent)) if percent >= thresholds.critical => "critical",
        (_, Some(percent)) if percent >= thresholds.warning => "warning",
        _ => "ok",
    }
}

/// A volume that is as it should be but for its fill is called by that.
pub fn state_word(state: State, grade: &'static str) -> &'static str {
    if state == State::Ok && grade != "unknown" { grade } else { state.text() }
}

pub fn used_of_size(fill: Option<Fill>, size: Option<u64>) -> String {
    let fill = fill.filter(|fill| fill.unit > 0);
    let bytes = |bytes: u64| bytes_text(bytes as f64, Prefix::Binary);
    match (fill, size) {
        (Some(fill), _) => format!("{} of {}", bytes(fill.used_bytes()), bytes(fill.total_bytes())),
        (None, Some(size)) => format!("{} of {}", text::DASH, bytes(size)),
        (None, None) => text::DASH.into(),
    }
}

pub fn volume_href(vg: &str, lv: &str) -> String {
    format!("/volumes/{}/{}", text::escaped(vg), text::escaped(lv))
}

pub fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    (to.as_millisecond() - from.as_millisecond()) as f64 / 1000.0
}

/// Jobs, with a sentence where there are more of them than can be told.
pub struct JobTable {
    pub table: Table,
    pub missing: Option<String>,
}

impl JobTable {
    pub fn of(jobs: &Partial<Vec<Job>>, now: Timestamp) -> Self {
        let name = |job: &Job| Cell::link(&job.name, format!("/jobs/{}", job.id)).small(label(job));
        Self { table: job_table("The latest first", jobs, now, name), missing: jobs.missing.clone() }
    }

    /// Jobs of which some are chosen in a form.
    pub fn of_choices(jobs: &Partial<Vec<Job>>, now: Timestamp) -> Self {
        let name = |job: &Job| {
            Cell::choice(&job.name, "id", job.id.to_string()).small(job.id.to_string()).small(label(job))
        };
        let table = job_table("Single jobs, the latest first", jobs, now, name).class("choose");
        Self { table, missing: jobs.missing.clone() }
    }

    /// Whether there is certainly none.
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
        Column::text("Began (UTC)").class("least"),
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
            Cell::known(job.bytes_read.map(|bytes| bytes_text(bytes as f64, Prefix::Binary))),
            Cell::known(job.peak_fill_percent.map(|percent| format!("{percent:.2} %"))),
            format!("{of}{host}").into(),
        ]
    };
    Table::new(caption, columns, jobs.found.iter().map(row))
}

fn label(job: &Job) -> String {
    job.label.as_ref().map_or_else(String::new, |label| label.in_few_words(&job.name))
}

/// How long it took, or has run by now.
pub fn took(job: &Job, now: Timestamp) -> String {
    let text = if job.is_running() { duration_text } else { took_text };
    text(job.seconds(now))
}

/// How a job ended, or that it runs, with the class for the word.
pub fn outcome(job: &Job) -> (&'static str, &'static str) {
    match job.outcome {
        None if job.is_untrustworthy() => (Outcome::Untrustworthy.text(), "critical"),
        None if job.kind == JobKind::Snapshot && job.died_at.is_some() => ("overflowed", "critical"),
        None => ("running", "running"),
        Some(outcome) => (outcome.text(), outcome_grade(outcome)),
    }
}

fn outcome_grade(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "ok",
        Outcome::Unknown => "unknown",
        Outcome::Abandoned => "warning",
        Outcome::Failed | Outcome::Overflowed | Outcome::Untrustworthy => "critical",
    }
}
