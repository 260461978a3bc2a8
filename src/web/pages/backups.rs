//! `/backups`: the last backups of each volume as a row of signs, with what is usual, and what comes next.

use std::cmp::Reverse;
use std::slice;
use std::sync::Arc;

use askama::Template;

use super::charts::{self, Charts, RangeTools};
use super::job::{around, sketches};
use super::jobs::{JobTable, job_class, took};
use super::text::{moment, zoned_minute};
use super::volumes::volume_href;
use super::{Content, PageRequest, PageResult, Refresh};
use crate::job::Job;
use crate::job::history::{VolumeBackups, backups_by_volume};
use crate::present::Present;
use crate::sentence;
use crate::sizing::SizeRisk;
use crate::table::{Cell, Column, Table};
use crate::units::{capital, percent_text, size_text, took_text};
use crate::verdict::grade_of_job;
use crate::web::escaped;

/// Signs in a row: a month of nights.
const MOST_NIGHTS: usize = 30;

#[derive(Template)]
#[template(path = "backups.html")]
struct BackupsPage {
    nights: Table,
    last: Option<LastNight>,
    others: JobTable,
}

/// The course of the latest backup of the volume that comes first.
struct LastNight {
    name: String,
    href: String,
    ranges: RangeTools,
    charts: Charts,
}

pub async fn page(request: PageRequest) -> PageResult {
    let PageRequest { present, view, .. } = &request;
    let all = nights(present);
    let last = all.first().and_then(Nights::latest);
    let (mut refresh, mut last_night) = (Refresh::EACH_TICK, None);
    if let Some(job) = last.filter(|job| !job.is_imported()) {
        let range = if view.is_default() {
            around(job, present)
        } else {
            view.range(present)?
        };
        let first = sketches(job, present).into_iter().take(1).collect();
        let charts = charts::draw(&request, range, slice::from_ref(job), first).await?;
        refresh = Refresh::of_range(range);
        last_night = Some(LastNight {
            name: job.name.clone(),
            href: format!("/jobs/{}", job.id),
            ranges: view.ranges_of(job, range),
            charts,
        });
    }
    let latest = present.jobs.iter().rev().map(Arc::as_ref);
    let page = BackupsPage {
        nights: table(present, all),
        last: last_night,
        others: JobTable::of_others(latest, present),
    };
    Content::new("Backups", "/backups", Some(refresh), &page)
}

/// The backups of a volume, and those that run.
struct Nights<'a> {
    ended: VolumeBackups<'a>,
    running: Vec<&'a Job>,
}

impl<'a> Nights<'a> {
    fn latest(&self) -> Option<&'a Job> {
        let ended = self.ended.all.first();
        self.running.first().or(ended).copied()
    }

    /// The ended ones that have a sign, the latest last.
    fn shown(&self) -> impl Iterator<Item = &'a Job> {
        self.ended.all.iter().take(MOST_NIGHTS).rev().copied()
    }

    fn trend(&self, value: fn(&Job) -> Option<f64>) -> Cell {
        Cell::default().trend(self.shown().map(value).collect())
    }
}

/// Of this host, by volume. The worst comes first, then the latest.
fn nights(present: &Present) -> Vec<Nights<'_>> {
    let jobs = present.jobs.iter().rev().map(Arc::as_ref);
    let (running, ended): (Vec<&Job>, Vec<&Job>) = jobs.partition(|job| job.is_running());
    let mut all: Vec<Nights> = Vec::new();
    for backups in backups_by_volume(ended.into_iter()) {
        all.push(Nights {
            ended: backups,
            running: Vec::new(),
        });
    }
    for job in running.into_iter().filter(|job| job.is_own_backup()) {
        let (vg, lv) = job.backed_up();
        let is_its = |nights: &&mut Nights| nights.ended.vg == vg && nights.ended.lv == lv;
        match all.iter_mut().find(is_its) {
            Some(nights) => nights.running.push(job),
            None => all.push(Nights {
                ended: VolumeBackups::new(vg, lv),
                running: vec![job],
            }),
        }
    }
    all.sort_by_key(|nights| {
        let latest = nights.latest();
        Reverse(latest.map(|job| grade_of_job(present, job)))
    });
    all
}

/// Empty without backups.
fn table(present: &Present, all: Vec<Nights>) -> Table {
    let now = present.interval.at;
    Table::of("Backups", all)
        .column(Column::name("Of"), |nights| {
            let backups = &nights.ended;
            if backups.vg.is_empty() {
                return backups.name().into();
            }
            Cell::link(backups.name(), volume_href(&backups.vg, &backups.lv))
        })
        .column(Column::text("Last nights").class("nights"), |nights| {
            let shown = nights.shown().chain(nights.running.iter().copied());
            let signs = shown.map(|job| sign(present, job));
            signs.fold(Cell::default(), Cell::then)
        })
        .column(Column::number("Took").class("least"), |nights| {
            let last = nights.latest().map(|job| took(job, now));
            let usual = median(&nights.ended, seconds);
            nights.trend(seconds).then(Cell::known(last)).small(
                usual.map_or_else(String::new, |usual| format!("usually {}", took_text(usual))),
            )
        })
        .column(Column::number("Read").class("less"), |nights| {
            let last = nights.latest().and_then(|job| job.bytes_read);
            let usual = median(&nights.ended, |job| Some(job.bytes_read? as f64));
            let trend = nights.trend(|job| Some(job.bytes_read? as f64));
            trend.then(Cell::known(last.map(size_text))).small(
                usual.map_or_else(String::new, |usual| {
                    format!("usually {}", size_text(usual as u64))
                }),
            )
        })
        .column(Column::number("Peak fill").class("less"), |nights| {
            let last = nights.latest().and_then(|job| job.peak_fill_percent);
            let trend = nights.trend(|job| job.peak_fill_percent);
            trend.then(Cell::known(last.map(percent_text)))
        })
        .column(Column::text("Next"), |nights| {
            let next = nights.ended.next(&present.interval.schedule, now);
            let text = next.map(|next| capital(&next.text(|at| zoned_minute(at, now))));
            Cell::known(text).then(next_size(present, &nights.ended))
        })
        .column(Column::text("Two nights").class("least"), |nights| {
            let name = nights.ended.name();
            match nights.ended.all.len() {
                0 | 1 => Cell::default(),
                _ => Cell::link(
                    "Compare",
                    format!("/jobs/compare?filter={}", escaped(&name)),
                ),
            }
        })
        .done()
        .class("jobs")
}

/// Of a job that ended.
fn seconds(job: &Job) -> Option<f64> {
    Some(job.seconds(job.ended_at?))
}

fn sign(present: &Present, job: &Job) -> Cell {
    let now = present.interval.at;
    let (began, outcome) = (moment(job.started_at, now), job.judgement().word());
    let text = format!("{began}: {outcome}, {}", took(job, now));
    Cell::sign(text, format!("/jobs/{}", job.id), job_class(present, job))
}

/// What good backups usually have.
fn median(backups: &VolumeBackups, value: impl Fn(&Job) -> Option<f64>) -> Option<f64> {
    let good = backups.good.iter().copied();
    let mut values: Vec<f64> = good.filter_map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// How large the next snapshot is, whether that is enough, and what to do if not.
fn next_size(present: &Present, backups: &VolumeBackups) -> Cell {
    let found = || {
        let volume = present.interval.topology.volume(&backups.name())?;
        Some((volume, present.planned_size(volume)?))
    };
    let Some((volume, planned)) = found() else {
        return Cell::default();
    };
    let said = format!(
        "{} planned, {}",
        size_text(planned.bytes),
        planned.risk.text()
    );
    let is_enough = planned.risk == SizeRisk::Low;
    let advice = (!is_enough)
        .then(|| present.size_advice(volume, None))
        .flatten();
    match advice.and_then(|advice| advice.remedy) {
        Some(remedy) => {
            let remedy = Cell::sentence(&sentence![". ", remedy]);
            Cell::default().small(said).then(remedy)
        }
        None => Cell::default().small(said),
    }
}
