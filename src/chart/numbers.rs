//! The numbers of a chart as JSON in the SVG's `<metadata>`, for the crosshair, the legend and the table.
//!
//! Times are milliseconds: the first since 1970, each other one since the one before. Values are whole steps of the last
//! decimal that the legend shows, which is all that the chart can tell, and short.

use std::collections::BTreeSet;

use serde::Serialize;

use super::scale::Scale;
use super::scaled::Scaled;
use super::{Band, Chart, Line, Mark, Side, TimeLabels, frame};
use crate::series::Point;

#[derive(Serialize)]
struct Numbers<'a> {
    from: i64,
    to: i64,
    /// The edges of the plot in pixels: left, top, right, bottom.
    plot: [i32; 4],
    /// Whether time counts from the start.
    elapsed: bool,
    axes: Vec<AxisNumbers>,
    t: Vec<i64>,
    lines: Vec<LineNumbers<'a>>,
    bands: Vec<BandNumbers<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<MarkNumbers<'a>>,
}

#[derive(Serialize)]
struct AxisNumbers {
    unit: &'static str,
    decimals: usize,
}

#[derive(Serialize)]
struct LineNumbers<'a> {
    label: &'a str,
    class: &'static str,
    axis: usize,
    avg: Vec<Option<i64>>,
    /// The smallest and largest values, if they differ from the mean anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<Vec<Option<i64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<Vec<Option<i64>>>,
}

#[derive(Serialize)]
struct BandNumbers<'a> {
    from: i64,
    to: Option<i64>,
    label: &'a str,
    href: Option<&'a str>,
}

#[derive(Serialize)]
struct MarkNumbers<'a> {
    at: i64,
    text: &'a str,
}

/// Appends the element.
pub fn write(scaled: &Scaled, out: &mut String) {
    let Scaled { chart, size, .. } = *scaled;
    let points = |line: &Line| {
        line.series.points.iter().filter(|point| chart.range.contains(point.t)).map(ms).collect::<Vec<_>>()
    };
    let times: Vec<i64> =
        chart.lines.iter().flat_map(points).collect::<BTreeSet<i64>>().into_iter().collect();
    let scales: Vec<Scale> = [Some(scaled.left), scaled.right].into_iter().flatten().collect();
    let numbers = Numbers {
        from: chart.range.from.as_millisecond(),
        to: chart.range.to.as_millisecond(),
        plot: frame::edges(chart, size),
        elapsed: chart.time_labels == TimeLabels::Elapsed,
        axes: scales
            .iter()
            .map(|scale| AxisNumbers { unit: scale.name(), decimals: scale.decimals() })
            .collect(),
        t: times.iter().scan(0, |last, at| Some(at - std::mem::replace(last, *at))).collect(),
        lines: chart.lines.iter().map(|line| numbers(chart, line, &times, &scales)).collect(),
        bands: chart.bands.iter().map(band).collect(),
        marks: chart.marks.iter().map(mark).collect(),
    };
    // A chart without its numbers is better than none.
    let text = serde_json::to_string(&numbers).unwrap_or_default();
    out.push_str("<metadata>");
    out.push_str(&text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e"));
    out.push_str("</metadata>");
}

fn ms(point: &Point) -> i64 {
    point.t.as_millisecond()
}

fn numbers<'a>(chart: &Chart, line: &'a Line, times: &[i64], scales: &[Scale]) -> LineNumbers<'a> {
    let axis = usize::from(chart.side(line.side) == Side::Right);
    let column = |value: fn(&Point) -> Option<f64>| {
        let mut values = vec![None; times.len()];
        for point in &line.series.points {
            if let Ok(place) = times.binary_search(&ms(point)) {
                values[place] =
                    value(point).filter(|value| value.is_finite()).map(|value| scales[axis].steps(value));
            }
        }
        values
    };
    let (min, avg, max) = (column(|point| point.min), column(|point| point.avg), column(|point| point.max));
    let is_band = min != avg || max != avg;
    LineNumbers {
        label: &line.label,
        class: line.look.class(),
        axis,
        avg,
        min: is_band.then_some(min),
        max: is_band.then_some(max),
    }
}

fn band(band: &Band) -> BandNumbers<'_> {
    BandNumbers {
        from: band.from.as_millisecond(),
        to: band.to.map(|to| to.as_millisecond()),
        label: &band.label,
        href: band.href.as_deref().filter(|href| is_on_this_site(href)),
    }
}

fn mark(mark: &Mark) -> MarkNumbers<'_> {
    MarkNumbers { at: mark.at.as_millisecond(), text: &mark.text }
}

/// An absolute path without host, which no browser runs as a script.
fn is_on_this_site(href: &str) -> bool {
    href.starts_with('/') && !href.starts_with("//") && !href.contains(['\\', '\t', '\n', '\r'])
}
