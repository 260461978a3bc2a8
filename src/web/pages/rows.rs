//! Tables that several pages show: usage and jobs.

use jiff::Timestamp;

use super::{moment, text, zone_name};
use crate::config::Rule;
use crate::job::{Job, JobKind, tool};
use crate::present::Present;
use crate::table::{Bar, Cell, Column, Table};
use crate::topology::{State, Volume, VolumeKind, VolumeState};
use crate::units::{Fill, count_text, duration_text, percent_text, size_text, took_text};
use crate::verdict::{Grade, filled_by, grade_by, grade_of, grade_of_job};
use crate::web::answer::Partial;

/// All snapshots and pools, the worst first, then by fill. Many quiet ones are one row.
pub fn fills(present: &Present) -> Table {
    let mut rows = Vec::new();
    for (volume, state) in present.interval.volumes() {
        let row = |fill, part, rule| fill_row(present, volume, state, fill, part, rule);
        match volume.kind {
            VolumeKind::Snapshot => rows.push(row(state.fill, None, Rule::SnapshotFill)),
            VolumeKind::ThinPool => {
                rows.push(row(state.fill, Some("data"), Rule::PoolData));
                rows.push(row(state.metadata, Some("metadata"), Rule::PoolMetadata));
            }
            _ => {}
        }
    }
    rows.sort_by(|a, b| {
        a.1.cmp(&b.1)
            .then(b.0.0.cmp(&a.0.0))
            .then(b.0.1.total_cmp(&a.0.1))
    });
    let columns = [
        Column::name("Volume"),
        Column::text("State"),
        Column::text("Fill").class("fill"),
        Column::number("Used of size").class("size"),
        Column::number("Growth").class("least"),
        Column::number("Full in").class("eta"),
        Column::text("Used by").class("less"),
    ];
    let loud = rows.iter().filter(|(_, is_quiet, _)| !is_quiet).count();
    let quiet = rows.split_off(if rows.len() > MOST_ROWS {
        loud
    } else {
        rows.len()
    });
    let folded = (!quiet.is_empty()).then(|| {
        let count = count_text(quiet.len(), "quiet one", "quiet ones");
        let fullest = quiet
            .iter()
            .map(|((_, percent), ..)| *percent)
            .fold(0.0, f64::max);
        let mut row = vec![Cell::link(count, "/volumes"), Cell::state("ok", "ok")];
        row.push(format!("up to {}", percent_text(fullest)).into());
        row.resize_with(columns.len(), || Cell::from(String::from(" ")));
        row
    });
    let rows = rows.into_iter().map(|(.., row)| row).chain(folded);
    Table::new("Snapshots and pools", columns, rows).class("fills")
}

/// With more rows, those that neither grow nor belong to a running job are folded.
const MOST_ROWS: usize = 3;

/// The urgency of a row, whether it is quiet, and its cells.
type FillRow = ((Grade, f64), bool, Vec<Cell>);

fn fill_row(
    present: &Present,
    volume: &Volume,
    state: &VolumeState,
    fill: Option<Fill>,
    part: Option<&'static str>,
    rule: Rule,
) -> FillRow {
    let percent = fill.map(Fill::percent);
    let thresholds = present.thresholds.of(rule, &volume.vg, &volume.lv);
    // The metadata of a pool has a grade of its own.
    let grade = match rule {
        Rule::PoolMetadata if fill.is_some() => grade_by(present, volume, rule),
        _ => grade_of(present, volume, state),
    };
    let urgency = (grade, percent.unwrap_or(-1.0));
    let now = present.interval.at;
    let width = percent.map(|width| Bar {
        width,
        class: if grade == Grade::Ok {
            "used"
        } else {
            grade.text()
        },
        mark: thresholds.map(|thresholds| thresholds.critical),
        ..Bar::default()
    });
    let used = match (percent, present.job_of(volume).and_then(|job| job.died_at)) {
        (None, Some(died_at)) => format!("since {}", moment(died_at, now)).into(),
        (percent, _) => Cell::known(percent.map(percent_text)),
    };
    let of = volume
        .origin
        .as_ref()
        .map_or_else(String::new, |origin| format!("of {origin}"));
    let detail = part.map_or(of, String::from);
    // A pace is that of a pool's data.
    let pace = present
        .paces
        .get(&volume.uuid)
        .filter(|_| rule != Rule::PoolMetadata);
    let growth = pace.map(|pace| format!("{}/min", size_text((pace.bytes_per_s * 60.0) as u64)));
    let full_in = pace.and_then(|pace| pace.full).map(|eta| eta.short_text());
    let user = if rule == Rule::PoolMetadata {
        None
    } else {
        user(present, volume)
    };
    let is_quiet = grade == Grade::Ok && pace.is_none() && user.is_none();
    let row = vec![
        Cell::link(volume.full_name(), volume_href(&volume.vg, &volume.lv)).small(detail),
        Cell::state(state_word(state.state, grade), grade.text()),
        width
            .map_or_else(Cell::default, |bar| Cell::default().bar(bar))
            .then(used),
        used_of_size(fill, volume.size.filter(|_| part != Some("metadata"))).into(),
        Cell::known(growth),
        Cell::known(full_in),
        user.unwrap_or_default(),
    ];
    (urgency, is_quiet, row)
}

/// The running job that fills a volume, or since when a snapshot is left over.
fn user(present: &Present, volume: &Volume) -> Option<Cell> {
    let now = present.interval.at;
    let link = |job: &Job, text: String| Cell::link(text, format!("/jobs/{}", job.id));
    let running = present.jobs.iter().rev().find(|job| {
        job.kind == JobKind::Snapshot
            && filled_by(present, job).is_some_and(|(full, _)| full.uuid == volume.uuid)
    });
    if let Some(job) = running {
        let what = if job.is_backup() {
            "backup"
        } else {
            "snapshot"
        };
        return Some(link(job, format!("{what}, {}", took(job, now))));
    }
    let ended = present
        .jobs
        .iter()
        .rev()
        .find(|job| job.key == *volume.uuid && job.ended_at.is_some())?;
    Some(link(
        ended,
        format!("left over since {}", moment(ended.ended_at?, now)),
    ))
}

/// The grade of a volume that works, or else its state.
pub fn state_word(state: State, grade: Grade) -> &'static str {
    if state == State::Ok {
        grade.text()
    } else {
        state.text()
    }
}

pub fn used_of_size(fill: Option<Fill>, size: Option<u64>) -> String {
    let fill = fill.filter(|fill| fill.unit > 0);
    match (fill, size) {
        (None, None) => text::DASH.into(),
        (Some(fill), _) => format!(
            "{} of {}",
            size_text(fill.used_bytes()),
            size_text(fill.total_bytes())
        ),
        (None, size) => format!("{} of {}", text::DASH, text::size(size)),
    }
}

pub fn group_href(vg: &str) -> String {
    format!("/groups/{}", crate::web::escaped(vg))
}

pub fn volume_href(vg: &str, lv: &str) -> String {
    format!(
        "/volumes/{}/{}",
        crate::web::escaped(vg),
        crate::web::escaped(lv)
    )
}

/// Jobs, with a sentence if the list is incomplete.
pub struct JobTable {
    pub table: Table,
    pub missing: Option<String>,
}

impl JobTable {
    pub fn of(jobs: &Partial<Vec<Job>>, present: &Present) -> Self {
        let name = |job: &Job| Cell::link(&job.name, format!("/jobs/{}", job.id)).small(label(job));
        Self {
            table: job_table("Jobs", jobs, present, name),
            missing: jobs.missing.clone(),
        }
    }

    /// Jobs with checkboxes.
    pub fn of_choices(jobs: &Partial<Vec<Job>>, present: &Present) -> Self {
        let name = |job: &Job| {
            Cell::choice(&job.name, "id", job.id.to_string())
                .small(job.id.to_string())
                .small(label(job))
        };
        let table = job_table("Single jobs, the latest first", jobs, present, name).class("choose");
        Self {
            table,
            missing: jobs.missing.clone(),
        }
    }

    /// Whether there are certainly no jobs.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.missing.is_none()
    }
}

fn job_table(
    caption: &'static str,
    jobs: &Partial<Vec<Job>>,
    present: &Present,
    name: impl Fn(&Job) -> Cell,
) -> Table {
    let now = present.interval.at;
    let columns = [
        Column::name("Job").class("named"),
        Column::text("Outcome"),
        Column::text(format!("Started ({})", zone_name(now))).class("least"),
        Column::number("Took"),
        Column::number("Read").class("least"),
        Column::number("Peak fill").class("least"),
        Column::text("Of").class("less"),
    ];
    let row = |job: &Job| {
        let of = match (&job.vg, &job.origin) {
            (Some(vg), Some(origin)) => {
                format!(
                    "{} of {vg}/{origin}",
                    tool::above_lvcreate(job).unwrap_or("snapshot")
                )
            }
            _ => job.kind.text().into(),
        };
        let host = job
            .imported_from()
            .map_or_else(String::new, |host| format!(" on {host}"));
        vec![
            name(job),
            Cell::state(job.judgement().word(), job_class(present, job)),
            moment(job.started_at, now).into(),
            took(job, now).into(),
            Cell::known(job.bytes_read.map(size_text)),
            Cell::known(job.peak_fill_percent.map(percent_text)),
            format!("{of}{host}").into(),
        ]
    };
    Table::new(caption, columns, jobs.found.iter().map(row)).class("jobs")
}

fn label(job: &Job) -> String {
    job.label
        .as_ref()
        .map_or_else(String::new, |label| label.short_text(&job.name))
}

/// The duration so far, or in total.
pub fn took(job: &Job, now: Timestamp) -> String {
    let text = if job.is_running() {
        duration_text
    } else {
        took_text
    };
    text(job.seconds(now))
}

/// The CSS class of a job's grade.
pub fn job_class(present: &Present, job: &Job) -> &'static str {
    match grade_of_job(present, job) {
        Grade::Ok if job.is_running() => "running",
        grade => grade.text(),
    }
}
