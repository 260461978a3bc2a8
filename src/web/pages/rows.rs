//! Rows of tables that several pages show: fills and jobs.

use jiff::Timestamp;

use super::{moment, text};
use crate::config::{Alerts, Thresholds};
use crate::job::{Job, JobKind, Outcome, tool};
use crate::present::Present;
use crate::topology::{State, Volume, VolumeKind, VolumeState};
use crate::units::{Fill, Prefix, bytes_text, duration_text, took_text};
use crate::web::answer::Partial;

/// A snapshot's or a pool's fill.
pub struct FillRow {
    pub name: String,
    pub href: String,
    /// `metadata` for a pool's second row.
    pub part: Option<&'static str>,
    pub state: &'static str,
    /// `ok`, `warning`, `critical` or `unknown`: the class of the state's word.
    pub grade: &'static str,
    /// The width of the bar; `None` where nothing is known.
    pub width: Option<String>,
    /// The percentage, or a dash.
    pub text: String,
    /// The class of the bar.
    pub bar: &'static str,
    pub critical: f64,
    pub used_of_size: String,
    pub of: String,
    pub age: String,
}

/// All snapshots and pools, those in trouble first, then the fullest.
pub fn fills(present: &Present) -> Vec<FillRow> {
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
    rows.into_iter().map(|(_, row)| row).collect()
}

fn pool(present: &Present, volume: &Volume, state: &VolumeState, thresholds: &Alerts) -> [(f64, FillRow); 2] {
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
) -> (f64, FillRow) {
    let percent = fill.map(Fill::percent);
    let grade = grade(state.state, percent, thresholds);
    let urgency = if state.state.is_bad() { 200.0 } else { percent.unwrap_or(-1.0) };
    let now = present.interval.at;
    let row = FillRow {
        name: volume.full_name(),
        href: volume_href(&volume.vg, &volume.lv),
        part,
        state: state_word(state.state, grade),
        grade,
        width: percent.map(|percent| format!("{percent:.2}")),
        text: match (percent, present.job_of(volume).and_then(|job| job.died_at)) {
            (None, Some(died_at)) => format!("since {}", moment(died_at, now)),
            (percent, _) => text::or_dash(percent.map(|percent| format!("{percent:.2} %"))),
        },
        bar: if grade == "ok" { "used" } else { grade },
        critical: thresholds.critical,
        used_of_size: used_of_size(fill, volume.size.filter(|_| part != Some("metadata"))),
        of: volume.origin.as_ref().map_or_else(|| volume.kind.text().into(), |origin| format!("of {origin}")),
        age: text::or_dash(volume.created_at.map(|at| duration_text(seconds_between(at, now)))),
    };
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

/// A job.
pub struct JobRow {
    pub id: i64,
    pub name: String,
    /// To which set it belongs, in few words; empty where it belongs to none.
    pub label: String,
    pub href: String,
    pub outcome: &'static str,
    pub grade: &'static str,
    pub began: String,
    pub took: String,
    pub read: String,
    pub peak: String,
    pub of: String,
}

/// Jobs, with a sentence where there are more of them than can be told.
#[derive(Default)]
pub struct JobTable {
    pub rows: Vec<JobRow>,
    pub missing: Option<String>,
}

impl JobTable {
    pub fn of(jobs: &Partial<Vec<Job>>, now: Timestamp) -> Self {
        let rows = jobs.found.iter().map(|job| job_row(job, now)).collect();
        Self { rows, missing: jobs.missing.clone() }
    }

    /// Whether there is certainly none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.missing.is_none()
    }
}

fn job_row(job: &Job, now: Timestamp) -> JobRow {
    let (outcome, grade) = outcome(job);
    JobRow {
        id: job.id,
        name: job.name.clone(),
        label: job.label.as_ref().map_or_else(String::new, |label| label.in_few_words(&job.name)),
        href: format!("/jobs/{}", job.id),
        outcome,
        grade,
        began: moment(job.started_at, now),
        took: took(job, now),
        read: text::or_dash(job.bytes_read.map(|bytes| bytes_text(bytes as f64, Prefix::Binary))),
        peak: text::or_dash(job.peak_fill_percent.map(|percent| format!("{percent:.2} %"))),
        of: format!(
            "{}{}",
            match (&job.vg, &job.origin) {
                (Some(vg), Some(origin)) => {
                    format!("{} of {vg}/{origin}", tool::above_lvcreate(job).unwrap_or("snapshot"))
                }
                _ => job.kind.text().into(),
            },
            job.imported_from().map_or_else(String::new, |host| format!(" on {host}"))
        ),
    }
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
