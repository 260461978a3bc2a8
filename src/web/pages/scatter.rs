//! Charts on the page of a volume whose axis is not time: what a snapshot needs by its age, and read speed by fill.

use std::sync::Arc;

use super::charts::{self, RelationView};
use super::{PageRequest, text};
use crate::chart::{self, Look, PictureSize, Scatter, Unit};
use crate::job::Job;
use crate::job::figures::Figures;
use crate::job::growth::AGES_MIN;
use crate::present::Present;
use crate::sentence::Sentence;
use crate::sizing::SizeAdvice;
use crate::statistics::{Correlation, Relation, Trend};
use crate::topology::Volume;
use crate::verdict::Grade;
use crate::web::answer::Problem;

const SIZE_HEIGHT: u32 = 240;
const MOST_SIZE_WIDTH: u32 = 760;
const RELATION_HEIGHT: u32 = 220;
const MOST_RELATION_WIDTH: u32 = 640;
const HOUR_S: f64 = 3600.0;
/// The chart ends so much later than the next snapshot.
const BEYOND: f64 = 1.5;

/// What a snapshot of a volume needs.
pub struct SnapshotSize {
    pub advice: SizeAdvice,
    /// Whether the next one is large enough.
    pub planned: Option<(Grade, Sentence)>,
    pub svg: Option<String>,
    /// Whether the chart has only windows of the hour in which backups begin.
    pub is_of_an_hour: bool,
    /// Whether it has the snapshot that exists now.
    pub is_growing: bool,
    pub remedy: Option<Sentence>,
}

/// `None` if nothing is known.
pub fn snapshot_size(present: &Present, volume: &Volume, width: u32) -> Option<SnapshotSize> {
    let advice = present.size_advice(volume, None)?;
    let growth = growth(present, volume);
    let hours = advice.hours.as_ref();
    let planned = advice.planned.as_ref();
    Some(SnapshotSize {
        planned: planned.map(|next| (next.risk.into(), Sentence::from(&*next.text))),
        svg: needs_by_age(&advice, &growth, width),
        is_of_an_hour: hours.is_some_and(|hours| hours.of_backups.is_some()),
        is_growing: !growth.is_empty(),
        remedy: advice.remedy.clone(),
        advice,
    })
}

/// The growth of the snapshot that exists now, by age in seconds.
fn growth(present: &Present, volume: &Volume) -> Vec<(f64, f64)> {
    let is_of_it = |job: &&Job| {
        let is_origin = job.origin.as_ref() == Some(&volume.lv);
        job.is_running() && is_origin && job.vg.as_ref() == Some(&volume.vg)
    };
    let Some(job) = present.jobs.iter().rev().map(Arc::as_ref).find(is_of_it) else {
        return Vec::new();
    };
    let mut growth = vec![(0.0, 0.0)];
    for (age_min, bytes) in AGES_MIN.iter().zip(&job.growth) {
        growth.push((f64::from(*age_min) * 60.0, *bytes as f64));
    }
    if let Some(bytes) = job.grown_bytes() {
        growth.push((job.age_s(present.interval.at), bytes as f64));
    }
    // The beginning alone says nothing.
    if growth.len() == 1 {
        growth.clear();
    }
    growth
}

/// The band of all windows with its median, the next snapshot as a point, and the growth of the one that exists.
fn needs_by_age(advice: &SizeAdvice, growth: &[(f64, f64)], width: u32) -> Option<String> {
    let planned = advice.planned.as_ref();
    let end_s = planned.map_or(f64::INFINITY, |planned| planned.age_s * BEYOND);
    let points = advice.curve.iter();
    let shown: Vec<_> = points.take_while(|point| point.age_s <= end_s).collect();
    if shown.len() < 2 {
        return None;
    }
    let planned_s = planned.map_or(0.0, |planned| planned.age_s);
    let last_s = shown.last().map_or(0.0, |point| point.age_s.max(planned_s));
    let (unit_s, unit) = if last_s >= 2.0 * HOUR_S {
        (HOUR_S, "hours")
    } else {
        (60.0, "minutes")
    };
    let mut band = vec![(0.0, 0.0, 0.0)];
    let mut median = vec![(0.0, 0.0)];
    for point in shown {
        let age = point.age_s / unit_s;
        band.push((age, point.least_bytes, point.largest_bytes));
        median.push((age, point.median_bytes));
    }
    let mut curves = vec![(Look::Read, median)];
    if !growth.is_empty() {
        let in_unit = growth.iter().map(|(age_s, bytes)| (age_s / unit_s, *bytes));
        curves.push((Look::Fill, in_unit.collect()));
    }
    let points = planned.map(|planned| (planned.age_s / unit_s, planned.bytes as f64));
    Some(chart::scatter(&Scatter {
        title: "What a snapshot needs, by its age".into(),
        size: PictureSize {
            width: width.min(MOST_SIZE_WIDTH),
            height: SIZE_HEIGHT,
        },
        x: charts::axis(Unit::Count),
        x_name: format!("age in {unit}"),
        y: charts::axis(Unit::Bytes),
        points: points.into_iter().collect(),
        curves,
        band,
        ..Scatter::default()
    }))
}

/// Read speed against fill of a snapshot, with the line through the points and what it explains; `None` before there is
/// anything to see, or if the store does not answer.
pub async fn relation(request: &PageRequest, job: &Job) -> Result<Option<RelationView>, Problem> {
    match request.site.cost(job).await {
        Err(Problem::Unavailable(_)) => Ok(None),
        cost => Ok(read_speed_by_fill(&cost?.figures, request.view.width())),
    }
}

fn read_speed_by_fill(figures: &Figures, width: u32) -> Option<RelationView> {
    let mut points = Vec::new();
    for point in &figures.curve {
        points.extend(point.fill_percent.zip(point.read_bytes_per_s));
    }
    if points.len() < 2 {
        return None;
    }
    let known = figures.read_by_fill.correlation();
    let clear = known.filter(|found| found.trend != Trend::Unclear);
    let svg = chart::scatter(&Scatter {
        title: "Read speed by fill".into(),
        size: PictureSize {
            width: width.min(MOST_RELATION_WIDTH),
            height: RELATION_HEIGHT,
        },
        x: charts::axis(Unit::Percent),
        x_name: "fill in %".into(),
        y: charts::BYTES,
        points,
        line: clear.map(|found| (found.slope, found.intercept)),
        ..Scatter::default()
    });
    let sentence = relation_text(figures.read_by_fill);
    Some(RelationView { sentence, svg })
}

/// `1.20 MB/s slower for each percent of fill (61 points, R² 0.93).`
fn relation_text(relation: Relation) -> String {
    let Correlation {
        slope,
        trend,
        n,
        explained,
        ..
    } = match relation {
        Relation::TooFew { n } => return format!("{n} points are too few to see a relation."),
        Relation::Unvaried { n } => return format!("One of the two did not change ({n} points)."),
        Relation::Narrow { n } => {
            return format!("The fill changed too little to see a relation ({n} points).");
        }
        Relation::Correlation(found) => found,
    };
    let change = text::rate(Some(slope.abs()));
    let said = match trend {
        Trend::Unclear => "No relation to be seen".into(),
        Trend::Falling => format!("{change} slower for each percent of fill"),
        Trend::Rising => format!("{change} faster for each percent of fill"),
    };
    format!("{said} ({n} points, R² {explained:.2}).")
}
