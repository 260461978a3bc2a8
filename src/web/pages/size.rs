//! What a snapshot of a volume needs against its age, on the page of the origin.

use crate::chart::{self, Axis, Look, Scatter, Size, Unit};
use crate::job::growth::AGES_MIN;
use crate::present::Present;
use crate::sizing::{PlannedSize, SizeAdvice, SizePoint, SizeRisk};
use crate::table::Table;
use crate::topology::Volume;

const HEIGHT: u32 = 240;
const MOST_WIDTH: u32 = 760;
const HOUR_S: f64 = 3600.0;
/// The chart ends so much later than the next snapshot.
const BEYOND: f64 = 1.5;

pub struct SizeView {
    pub advice: SizeAdvice,
    /// `critical`, `warning` or `ok`; empty if no size is planned.
    pub grade: &'static str,
    pub svg: Option<String>,
    /// Whether the chart has only windows of the hour in which backups begin.
    pub is_of_an_hour: bool,
    /// Whether it has the snapshot that exists now.
    pub is_growing: bool,
    pub table: Table,
}

/// `None` if nothing is known.
pub fn of_volume(present: &Present, volume: &Volume, width: u32) -> Option<SizeView> {
    let advice = present.size_advice(volume, None)?;
    let running = running(present, volume);
    Some(SizeView {
        grade: advice
            .planned
            .as_ref()
            .map_or("", |planned| match planned.risk {
                SizeRisk::Low => "ok",
                SizeRisk::Possible | SizeRisk::Likely => "warning",
            }),
        svg: svg(&advice, &running, width),
        is_of_an_hour: advice
            .hours
            .as_ref()
            .is_some_and(|hours| hours.of_backups.is_some()),
        is_growing: !running.is_empty(),
        table: advice.table(),
        advice,
    })
}

/// The growth of the snapshot that exists now, by age in seconds.
fn running(present: &Present, volume: &Volume) -> Vec<(f64, f64)> {
    let is_of_volume = |job: &&std::sync::Arc<crate::job::Job>| {
        job.is_running()
            && job.vg.as_ref() == Some(&volume.vg)
            && job.origin.as_ref() == Some(&volume.lv)
    };
    let Some(job) = present.jobs.iter().rev().find(is_of_volume) else {
        return Vec::new();
    };
    let ages = AGES_MIN.iter().zip(&job.growth);
    let now = job
        .grown_bytes()
        .map(|bytes| (job.age_s(present.interval.at), bytes as f64));
    let known = ages
        .map(|(age, bytes)| (f64::from(*age) * 60.0, *bytes as f64))
        .chain(now);
    if job.growth.is_empty() && now.is_none() {
        Vec::new()
    } else {
        std::iter::once((0.0, 0.0)).chain(known).collect()
    }
}

/// The band of all windows with its median, the next snapshot as a point, and the growth of the one that exists.
fn svg(advice: &SizeAdvice, running: &[(f64, f64)], width: u32) -> Option<String> {
    let planned = advice.planned.as_ref();
    let end_s = planned.map_or(f64::INFINITY, |planned: &PlannedSize| {
        planned.age_s * BEYOND
    });
    let shown: Vec<&SizePoint> = advice
        .curve
        .iter()
        .filter(|point| point.age_s <= end_s)
        .collect();
    if shown.len() < 2 {
        return None;
    }
    let last_s = shown
        .last()
        .map_or(0.0, |point| point.age_s)
        .max(planned.map_or(0.0, |planned| planned.age_s));
    let (unit_s, unit) = if last_s >= 2.0 * HOUR_S {
        (HOUR_S, "hours")
    } else {
        (60.0, "minutes")
    };
    let at = |(age_s, bytes): (f64, f64)| (age_s / unit_s, bytes);
    let band = shown
        .iter()
        .map(|point| (point.age_s / unit_s, point.least_bytes, point.largest_bytes));
    let median = shown
        .iter()
        .map(|point| at((point.age_s, point.median_bytes)));
    let mut curves = vec![(
        Look::Read,
        std::iter::once((0.0, 0.0)).chain(median).collect(),
    )];
    if !running.is_empty() {
        curves.push((Look::Fill, running.iter().copied().map(at).collect()));
    }
    Some(chart::scatter(&Scatter {
        title: "What a snapshot needs, by its age".into(),
        size: Size {
            width: width.min(MOST_WIDTH),
            height: HEIGHT,
        },
        x: Axis {
            unit: Unit::Count,
            max: None,
        },
        x_name: format!("age in {unit}"),
        y: Axis {
            unit: Unit::Bytes,
            max: None,
        },
        points: planned
            .map(|planned| at((planned.age_s, planned.bytes as f64)))
            .into_iter()
            .collect(),
        curves,
        band: std::iter::once((0.0, 0.0, 0.0)).chain(band).collect(),
        ..Scatter::default()
    }))
}
