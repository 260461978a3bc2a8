//! `/`: the verdict, usage of snapshots and pools, throughput, and recent jobs.

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use jiff::Timestamp;

use super::charts::{self, Charts, RangeTools, Sketch};
use super::jobs::{JobTable, took};
use super::text::{moment, zoned_minute, zoned_moment};
use super::volumes::{full_in, nothing_to_watch, state_cell, used_of_size, volume_href};
use super::{Content, PageRequest, PageResult};
use crate::alert::{Pace, Rule, alike};
use crate::chart::Look;
use crate::headline::headline;
use crate::job::history::{VolumeBackups, backups_by_volume};
use crate::job::{Job, JobKind};
use crate::present::{Present, RecordingEnd};
use crate::quantity::Quantity;
use crate::sentence::Sentence;
use crate::store::Subject;
use crate::table::{Bar, Cell, Column, Table};
use crate::topology::{Device, Volume, VolumeState};
use crate::units::{Fill, count_text, duration_text, percent_text, size_text};
use crate::verdict::{Grade, Verdict, alert_ranks, filled_by, grade_by, grade_of};

/// Maximum disks and fills in one readable chart.
const MOST_DISKS: usize = 4;
const MOST_FILLS: usize = 6;
const MOST_JOBS: usize = 10;
const MOST_LASTS: usize = 2;
/// With more rows, those that neither grow nor belong to a running job are folded.
const MOST_ROWS: usize = 3;
/// Three charts fit on a screen of 768 pixels.
const HEIGHT: u32 = 100;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    headline: String,
    verdict: Verdict,
    more: Vec<Sentence>,
    /// With names of jobs, in which a backtick begins no command.
    running: Option<String>,
    ranges: RangeTools,
    fills: Table,
    /// Sentences on the last backups, and their addresses.
    lasts: Vec<(String, String)>,
    nothing_to_watch: Sentence,
    charts: Charts,
    jobs: JobTable,
}

pub async fn page(request: PageRequest) -> PageResult {
    let present = &request.present;
    let range = request.view.range(present)?;
    let jobs = request.site.own_job_list(range, MOST_JOBS).await?;
    let mut sketches = vec![
        fills(present, &jobs.found),
        reads(&jobs.found),
        disks(present),
    ];
    for sketch in &mut sketches {
        sketch.height = HEIGHT;
    }
    let charts = charts::draw(&request, range, &jobs.found, sketches).await?;
    let verdict = Verdict::of_host(present);
    let page = OverviewPage {
        headline: headline(present, |at| zoned_minute(at, present.interval.at)),
        more: more(present, &verdict),
        running: running(present),
        verdict,
        ranges: request.view.ranges(range, &jobs.found),
        fills: fill_table(present),
        lasts: last_backups(present),
        nothing_to_watch: nothing_to_watch(present),
        charts,
        jobs: JobTable::of(&jobs, present),
    };
    Content::new("Overview", "/", request.view.refresh(range), &page)
}

/// What else there is to say, such as other alerts.
fn more(present: &Present, verdict: &Verdict) -> Vec<Sentence> {
    let mut more = Vec::new();
    let others = alike(&present.alerts, present.interval.at)
        .len()
        .saturating_sub(1);
    if others > 0 {
        let others = count_text(others, "more alert is", "more alerts are");
        more.push(format!("{others} open.").into());
    }
    // The sign says the usual end.
    if let Some(RecordingEnd::Early(how)) = &present.ended {
        more.push(format!("This is a recording of {}: {how}.", present.host).into());
    }
    if let Some(error) = &present.store.error
        && !verdict.sentence.to_string().contains(error)
    {
        more.push(Sentence::with_commands(error));
    }
    more
}

fn running(present: &Present) -> Option<String> {
    // The table shows those of snapshots.
    let others = present
        .jobs
        .iter()
        .filter(|job| job.is_running() && job.kind != JobKind::Snapshot);
    let mut running = Vec::new();
    for job in others {
        let seconds = job.seconds(present.interval.at);
        running.push(format!("{} for {}", job.name, duration_text(seconds)));
    }
    (!running.is_empty()).then(|| format!("Running: {}.", running.join(", ")))
}

/// How full a snapshot is, or the data or the metadata of a pool.
struct FillRow<'a> {
    volume: &'a Volume,
    state: &'a VolumeState,
    fill: Option<Fill>,
    rule: Rule,
    grade: Grade,
    /// How many groups of alerts are more urgent than those of the volume.
    rank: usize,
    /// Of a pool, that of its data.
    pace: Option<&'a Pace>,
    /// The running job that fills it, or since when a snapshot is left over.
    user: Option<Cell>,
}

/// All snapshots and pools, the most urgent first, as the verdict has it, then by fill. Many quiet ones are one row.
fn fill_table(present: &Present) -> Table {
    let jobs = VolumeJobs::of(present);
    let ranks = alert_ranks(present);
    let mut rows = Vec::new();
    for (volume, state) in present.interval.volumes() {
        let Some(rule) = volume.kind.fill_rule() else {
            continue;
        };
        let rank = ranks.get(&*volume.uuid).copied().unwrap_or(usize::MAX);
        rows.push(FillRow {
            volume,
            state,
            fill: state.fill,
            rule,
            grade: grade_of(present, volume, state),
            rank,
            pace: present.paces.get(&volume.uuid),
            user: jobs.user(volume, present.interval.at),
        });
        if volume.kind.is_thin_pool() {
            rows.push(FillRow::of_metadata(present, volume, state, rank));
        }
    }
    rows.sort_by(|a, b| {
        let by_fill = || {
            b.percent()
                .unwrap_or(-1.0)
                .total_cmp(&a.percent().unwrap_or(-1.0))
        };
        let by_grade = || b.grade.cmp(&a.grade);
        a.is_quiet()
            .cmp(&b.is_quiet())
            .then_with(by_grade)
            .then(a.rank.cmp(&b.rank))
            .then_with(by_fill)
    });
    let mut quiet = Vec::new();
    if rows.len() > MOST_ROWS {
        quiet = rows.split_off(rows.partition_point(|row| !row.is_quiet()));
    }
    let mut table = Table::of("Snapshots and pools", rows)
        .column(Column::name("Volume"), FillRow::name)
        .column(Column::text("State"), |row| {
            state_cell(row.state.state, row.grade)
        })
        .column(Column::text("Fill").class("fill"), |row| row.bar(present))
        .column(Column::number("Used of size").class("size"), FillRow::used)
        .column(Column::number("Growth").class("least"), |row| {
            let bytes = row
                .pace
                .map(|pace| size_text((pace.bytes_per_s * 60.0) as u64));
            Cell::known(bytes.map(|bytes| format!("{bytes}/min")))
        })
        .column(Column::number("Full in").class("eta"), |row| {
            row.full_in(present).unwrap_or_default()
        })
        .column(Column::text("Used by").class("less"), |row| {
            row.user.clone().unwrap_or_default()
        })
        .done()
        .class("fills");
    if !quiet.is_empty() {
        let count = count_text(quiet.len(), "quiet one", "quiet ones");
        let fullest = quiet
            .iter()
            .filter_map(FillRow::percent)
            .fold(0.0, f64::max);
        table.push(vec![
            Cell::link(count, "/volumes"),
            Cell::state("ok", "ok"),
            format!("up to {}", percent_text(fullest)).into(),
        ]);
    }
    table
}

impl<'a> FillRow<'a> {
    fn of_metadata(
        present: &Present,
        volume: &'a Volume,
        state: &'a VolumeState,
        rank: usize,
    ) -> Self {
        let rule = Rule::PoolMetadata;
        Self {
            volume,
            state,
            fill: state.metadata,
            rule,
            // The metadata of a pool has a grade of its own.
            grade: match state.metadata {
                Some(_) => grade_by(present, volume, rule),
                None => grade_of(present, volume, state),
            },
            rank,
            pace: None,
            user: None,
        }
    }

    fn percent(&self) -> Option<f64> {
        self.fill.map(Fill::percent)
    }

    fn is_quiet(&self) -> bool {
        self.grade == Grade::Ok && self.pace.is_none() && self.user.is_none()
    }

    fn name(&self) -> Cell {
        let volume = self.volume;
        let detail = match (self.rule, &volume.origin) {
            (Rule::PoolData, _) => "data".into(),
            (Rule::PoolMetadata, _) => "metadata".into(),
            (_, Some(origin)) => format!("of {origin}"),
            (_, None) => String::new(),
        };
        Cell::link(volume.full_name(), volume_href(&volume.vg, &volume.lv)).small(detail)
    }

    /// The fill with the threshold of a critical alert, or since when it is invalid.
    fn bar(&self, present: &Present) -> Cell {
        let volume = self.volume;
        let Some(percent) = self.percent() else {
            let died_at = present.job_of(volume).and_then(|job| job.died_at);
            let since = |at| format!("since {}", moment(at, present.interval.at));
            return Cell::known(died_at.map(since));
        };
        let thresholds = present.thresholds.of(self.rule, &volume.vg, &volume.lv);
        let bar = Bar {
            mark: thresholds.map(|thresholds| thresholds.critical),
            ..Bar::of_fill(percent, self.grade.text())
        };
        Cell::default().bar(bar).then(percent_text(percent))
    }

    fn full_in(&self, present: &Present) -> Option<Cell> {
        self.pace?;
        let (full, why_not) = full_in(present, self.volume)?;
        Some(Cell::from(full).small(why_not))
    }

    fn used(&self) -> String {
        // The size of a pool's metadata is not that of the volume.
        let is_metadata = self.rule == Rule::PoolMetadata;
        used_of_size(self.fill, self.volume.size.filter(|_| !is_metadata))
    }
}

/// The jobs of snapshots that fill a volume, and those that are over, by UUID. They are found in one pass, since a host may
/// have a thousand snapshots, each with its job.
#[derive(Default)]
struct VolumeJobs<'a> {
    filling: HashMap<&'a str, &'a Job>,
    ended: HashMap<&'a str, &'a Job>,
}

impl<'a> VolumeJobs<'a> {
    fn of(present: &'a Present) -> Self {
        let mut jobs = Self::default();
        // The latest come last, and replace earlier ones.
        for job in present.jobs.iter().map(Arc::as_ref) {
            if job.ended_at.is_some() {
                jobs.ended.insert(&job.key, job);
            }
            if job.kind == JobKind::Snapshot
                && let Some((volume, _)) = filled_by(present, job)
            {
                jobs.filling.insert(&volume.uuid, job);
            }
        }
        jobs
    }

    /// The running job that fills a volume, or since when a snapshot is left over.
    fn user(&self, volume: &Volume, now: Timestamp) -> Option<Cell> {
        let link = |job: &Job, text: String| Cell::link(text, format!("/jobs/{}", job.id));
        if let Some(job) = self.filling.get(&*volume.uuid) {
            let what = match &job.in_use_on {
                _ if job.is_backup() => "backup".into(),
                Some(folder) => format!("mounted on {folder}"),
                None => "snapshot".into(),
            };
            return Some(link(job, format!("{what}, {}", took(job, now))));
        }
        let job = self
            .ended
            .get(&*volume.uuid)
            .filter(|job| job.is_backup())?;
        let since = moment(job.ended_at?, now);
        Some(link(job, format!("left over since {since}")))
    }
}

/// The read speed of what is backed up.
fn reads(jobs: &[Job]) -> Sketch {
    let snapshots = jobs.iter().filter(|job| job.kind == JobKind::Snapshot);
    let mut traces = Vec::new();
    for (job, number) in snapshots.take(MOST_FILLS).zip(0..) {
        let subject = Subject::Volume(job.key.clone());
        let look = match number {
            0 => Look::Read,
            number => Look::Other(number - 1),
        };
        traces.push(charts::trace(
            &job.name,
            &subject,
            Quantity::ReadBytes,
            look,
        ));
    }
    Sketch::new("Read speed of snapshots", traces)
}

/// The last backup of each volume, and when the next is usual.
fn last_backups(present: &Present) -> Vec<(String, String)> {
    let ended = present.jobs.iter().rev().map(Arc::as_ref);
    let all = backups_by_volume(ended.filter(|job| job.ended_at.is_some()));
    let lines = all.iter().filter_map(|backups| {
        let job = *backups.all.first()?;
        Some((
            last_backup(present, job, backups),
            format!("/jobs/{}", job.id),
        ))
    });
    lines.take(MOST_LASTS).collect()
}

/// `Last backup of vg0/data: succeeded, 01:00:12 UTC, 12 min, peak 41.0 %; the next usually ends in about 3 h.`
fn last_backup(present: &Present, job: &Job, backups: &VolumeBackups) -> String {
    let now = present.interval.at;
    let name = backups.name();
    let (outcome, began) = (job.judgement().word(), zoned_moment(job.started_at, now));
    let mut text = format!(
        "Last backup of {name}: {outcome}, {began}, {}",
        took(job, now)
    );
    if let Some(peak) = job.peak_fill_percent {
        text += &format!(", peak {}", percent_text(peak));
    }
    if let Some(next) = backups.next(&present.interval.schedule, now) {
        text += &format!("; the next {}", next.text(|at| zoned_minute(at, now)));
    }
    text + "."
}

/// The busiest PVs, or disks if there is no LVM.
pub fn disks(present: &Present) -> Sketch {
    let devices = &present.interval.topology.devices;
    let has_pvs = devices.iter().any(|device| device.is_pv);
    let title = if has_pvs {
        "Throughput of the PVs"
    } else {
        "Throughput of the disks"
    };
    let quantities = [
        ("read", Quantity::ReadBytes),
        ("written", Quantity::WrittenBytes),
    ];
    let disks = busiest(present, has_pvs).into_iter();
    Sketch::new(title, charts::disk_traces(disks, quantities))
}

/// The part that is COW copying, if there are or were thick snapshots.
pub fn copying(present: &Present, jobs: &[Job]) -> Sketch {
    let pvs = if charts::may_copy(present, jobs) {
        busiest(present, true)
    } else {
        Vec::new()
    };
    charts::copying(pvs.into_iter())
}

/// The busiest PVs or disks since the start, sorted by name.
fn busiest(present: &Present, has_pvs: bool) -> Vec<&Device> {
    let mut disks = Vec::new();
    for device in &present.interval.topology.devices {
        let averages = present.averages.device(&device.identity);
        let moved = averages.and_then(|averages| averages.sum(Quantity::MovedBytes));
        let is_meant = if has_pvs { device.is_pv } else { device.counts };
        if is_meant {
            disks.push((device, moved.unwrap_or_default()));
        }
    }
    disks.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    disks.truncate(MOST_DISKS);
    disks.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    disks.into_iter().map(|(device, _)| device).collect()
}

/// The fullest snapshots and pools, also of removed snapshots in the range.
fn fills(present: &Present, jobs: &[Job]) -> Sketch {
    struct Filled {
        percent: f64,
        name: String,
        uuid: String,
        is_pool: bool,
    }
    let mut fills = Vec::new();
    for (volume, state) in present.interval.volumes() {
        if volume.kind.can_overflow() {
            fills.push(Filled {
                percent: state.fill.map_or(0.0, Fill::percent),
                name: volume.full_name(),
                uuid: volume.uuid.to_string(),
                is_pool: volume.kind.is_thin_pool(),
            });
        }
    }
    for job in jobs {
        if let Some(percent) = job.peak_fill_percent
            && job.kind == JobKind::Snapshot
            && !job.is_running()
        {
            fills.push(Filled {
                percent,
                name: format!("{}/{}", job.vg.as_deref().unwrap_or_default(), job.name),
                uuid: job.key.clone(),
                is_pool: false,
            });
        }
    }
    fills.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    fills.truncate(MOST_FILLS);
    // Sorted by name, so that colours stay while fills change.
    fills.sort_by(|a, b| (a.is_pool, &a.name).cmp(&(b.is_pool, &b.name)));
    let mut traces = Vec::new();
    for (fill, number) in fills.into_iter().zip(0..) {
        let subject = Subject::Volume(fill.uuid);
        traces.extend(charts::fill_traces(
            &fill.name,
            &subject,
            fill.is_pool,
            number,
        ));
    }
    let thresholds = present.thresholds.general().of(Rule::SnapshotFill);
    charts::fills(traces, thresholds)
}
