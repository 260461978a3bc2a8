//! Sketches into charts. All series are read in one pass; gaps are explained below the first chart.

use jiff::Timestamp;

use super::{Sketch, Trace, View};
use crate::chart::{self, Band, Chart, LegendEntry, Line, Size, TimeLabels};
use crate::job::Job;
use crate::present::Present;
use crate::series::{Range, Series};
use crate::store::{Gap, SeriesKey};
use crate::units::count_text;
use crate::web::Site;
use crate::web::answer::{Partial, Problem};
use crate::web::pages::moment;

const HEIGHT: u32 = 170;

/// A chart with its legend.
pub struct Figure {
    pub title: String,
    pub legend: Vec<LegendEntry>,
    pub svg: String,
    /// Reasons of gaps; the first chart of a page has them for all charts.
    pub gaps: Vec<String>,
}

/// Reads all series in one pass and draws the charts. Sketches without traces are left out.
pub async fn draw(
    site: &Site,
    view: &View,
    range: Range,
    jobs: &[Job],
    sketches: Vec<Sketch>,
) -> Result<Vec<Figure>, Problem> {
    let sketches: Vec<Sketch> = sketches.into_iter().filter(|sketch| !sketch.traces.is_empty()).collect();
    let wanted: Vec<SeriesKey> =
        sketches.iter().flat_map(|sketch| &sketch.traces).map(|trace| trace.wanted.clone()).collect();
    let stored = site.store.series(&wanted, range, view.points()).await;
    let in_memory = || site.store.series_in_memory(&wanted, range, view.points());
    let Partial { found, missing } =
        Partial::or_from_memory(stored, in_memory, "only the last minutes are drawn")?;
    let mut series = found.into_iter();
    let figures = sketches.into_iter().map(|sketch| {
        let line = |(Trace { label, side, look, area, .. }, series): (Trace, Option<Series>)| Line {
            label,
            series: series.unwrap_or_default(),
            side,
            look,
            area,
        };
        let lines = sketch.traces.into_iter().zip(series.by_ref()).map(line);
        let chart = Chart {
            title: sketch.title,
            range,
            time_labels: TimeLabels::Clock,
            size: Size { width: view.width(), height: HEIGHT },
            left: sketch.left,
            right: sketch.right,
            lines: lines.collect(),
            bands: jobs.iter().map(band).collect(),
            thresholds: sketch.thresholds,
        };
        let (legend, svg) = (chart::legend(&chart), chart::draw(&chart));
        Figure { legend, svg, title: chart.title, gaps: Vec::new() }
    });
    let mut figures: Vec<Figure> = figures.collect();
    if let Some(first) = figures.first_mut() {
        first.gaps = missing.into_iter().chain(gaps(&*site.present()?, range)).collect();
    }
    Ok(figures)
}

/// The gaps of the range.
fn gaps(present: &Present, range: Range) -> Vec<String> {
    let at = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
    let shown = |gap: &&Gap| at(gap.from_ms) <= range.to && range.from <= at(gap.to_ms);
    let gaps = present.store.stock.gaps.iter().filter(shown);
    gaps.map(|gap| {
        let (from, to) =
            (moment(at(gap.from_ms), present.interval.at), moment(at(gap.to_ms), present.interval.at));
        format!(
            "From {from} to {to} UTC, {} could not be stored: {}.",
            count_text(gap.ticks, "tick", "ticks"),
            gap.reason
        )
    })
    .collect()
}

fn band(job: &Job) -> Band {
    Band {
        from: job.started_at,
        to: job.ended_at,
        label: job.name.clone(),
        href: Some(format!("/jobs/{}", job.id)),
    }
}
