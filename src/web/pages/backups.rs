//! `/backups`: the last backups of each volume as a row of signs, with what is usual, and what comes next.

use std::cmp::Reverse;
use std::sync::Arc;

use askama::Template;

use super::jobs::{JobTable, job_class, took};
use super::text::{moment, zoned_minute};
use super::volumes::volume_href;
use super::{Content, PageRequest, PageResult, Refresh};
use crate::job::Job;
use crate::job::history::{VolumeBackups, backups_by_volume};
use crate::present::Present;
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
    others: JobTable,
}

pub async fn page(request: PageRequest) -> PageResult {
    let present = &request.present;
    let latest = present.jobs.iter().rev().map(Arc::as_ref);
    let page = BackupsPage {
        nights: nights(present),
        others: JobTable::of_others(latest, present),
    };
    Content::new("Backups", "/backups", Some(Refresh::EACH_TICK), &page)
}

/// Of this host, the latest night last. Empty without backups.
fn nights(present: &Present) -> Table {
    let now = present.interval.at;
    let jobs = present.jobs.iter().rev().map(Arc::as_ref);
    let (running, ended): (Vec<&Job>, Vec<&Job>) = jobs.partition(|job| job.is_running());
    let mut all = backups_by_volume(ended.into_iter());
    for job in running.iter().filter(|job| job.is_own_backup()) {
        let (vg, lv) = job.backed_up();
        if !all.iter().any(|known| known.vg == vg && known.lv == lv) {
            all.push(VolumeBackups::new(vg, lv));
        }
    }
    // The worst first, then the latest.
    all.sort_by_key(|backups| {
        let last = backups.all.first();
        Reverse(last.map(|job| grade_of_job(present, job)))
    });
    // Of the nights that have a sign, the latest last.
    let trend = |backups: &VolumeBackups, value: fn(&Job) -> Option<f64>| {
        let nights = backups.all.iter().take(MOST_NIGHTS).rev();
        Cell::default().trend(nights.map(|job| value(job)).collect())
    };
    Table::of("Backups", all)
        .column(Column::name("Of"), |backups| {
            if backups.vg.is_empty() {
                return backups.name().into();
            }
            Cell::link(backups.name(), volume_href(&backups.vg, &backups.lv))
        })
        .column(Column::text("Last nights").class("nights"), |backups| {
            let latest = backups.all.iter().take(MOST_NIGHTS).rev();
            let is_its = |job: &&Job| {
                job.is_own_backup() && job.backed_up() == (backups.vg.clone(), backups.lv.clone())
            };
            let running = running.iter().copied().filter(is_its);
            let signs = latest.copied().chain(running).map(|job| sign(present, job));
            signs.fold(Cell::default(), Cell::then)
        })
        .column(Column::number("Took").class("least"), |backups| {
            let last = backups.all.first().map(|job| took(job, now));
            let usual = median(backups, seconds);
            trend(backups, seconds).then(Cell::known(last)).small(
                usual.map_or_else(String::new, |usual| format!("usually {}", took_text(usual))),
            )
        })
        .column(Column::number("Read").class("less"), |backups| {
            let last = backups.all.first().and_then(|job| job.bytes_read);
            let usual = median(backups, |job| Some(job.bytes_read? as f64));
            let trend = trend(backups, |job| Some(job.bytes_read? as f64));
            trend.then(Cell::known(last.map(size_text))).small(
                usual.map_or_else(String::new, |usual| {
                    format!("usually {}", size_text(usual as u64))
                }),
            )
        })
        .column(Column::number("Peak fill").class("less"), |backups| {
            let last = backups.all.first().and_then(|job| job.peak_fill_percent);
            trend(backups, |job| job.peak_fill_percent).then(Cell::known(last.map(percent_text)))
        })
        .column(Column::text("Next"), |backups| {
            let next = backups.next(&present.interval.schedule, now);
            let text = next.map(|next| capital(&next.text(|at| zoned_minute(at, now))));
            Cell::known(text).then(next_size(present, backups))
        })
        .column(Column::text("Two nights").class("least"), |backups| {
            let address = format!("/jobs/compare?filter={}", escaped(&backups.name()));
            match backups.all.len() {
                0 | 1 => Cell::default(),
                _ => Cell::link("Compare", address),
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

/// How large the next snapshot is, and whether that is enough.
fn next_size(present: &Present, backups: &VolumeBackups) -> Cell {
    let volume = present.interval.topology.volume(&backups.name());
    let Some(planned) = volume.and_then(|volume| present.planned_size(volume)) else {
        return Cell::default();
    };
    let risk = planned.risk.text();
    Cell::default().small(format!("{} planned, {risk}", size_text(planned.bytes)))
}
