//! The numbers of a chart as JSON in the SVG's `<metadata>`, for the crosshair, the legend and the table.
//!
//! Values are steps of the last decimal that the legend shows, which is all that the chart can tell, and short. Only small
//! values are not whole steps.

use serde_json::{Value, json};

use super::plot::ChartLayout;
use super::svg::TENTHS;
use super::{Band, Line, Side, TimeLabels};
use crate::series::{Point, Range};

pub fn json(layout: &ChartLayout) -> String {
    let chart = layout.chart;
    let edges = layout.left.edges;
    let axis = |side: Side| {
        let scale = &layout.plot(side).scale;
        json!({ "unit": scale.name(), "decimals": scale.decimals() })
    };
    let line = |line: &Line| {
        let axis = usize::from(chart.side(line.side) == Side::Right);
        json!({ "label": line.label, "class": line.look.class(), "axis": axis })
    };
    let band = |band: &Band| {
        let to = band.to.map(|to| to.as_millisecond());
        let href = band.href.as_deref().filter(|href| is_on_this_site(href));
        json!({ "from": band.from.as_millisecond(), "to": to, "label": band.label, "href": href })
    };
    let plot = [edges.left, edges.top, edges.right, edges.bottom].map(|edge| edge / TENTHS);
    let times = times(layout);
    json!({
        "from": chart.range.from.as_millisecond(),
        "to": chart.range.to.as_millisecond(),
        // In pixels.
        "plot": plot,
        // Whether time counts from the start.
        "elapsed": chart.time_labels == TimeLabels::Elapsed,
        "axes": chart.sides().into_iter().map(axis).collect::<Vec<_>>(),
        "lines": chart.lines.iter().map(line).collect::<Vec<_>>(),
        // The time of the first row, in milliseconds since 1970.
        "start": times.first(),
        "rows": rows(layout, &times),
        "bands": chart.bands.iter().map(band).collect::<Vec<_>>(),
        "marks": chart.marks.iter()
            .map(|mark| json!({ "at": mark.at.as_millisecond(), "text": mark.text }))
            .collect::<Vec<_>>(),
    })
    .to_string()
}

fn points(line: &Line, range: Range) -> impl Iterator<Item = &Point> {
    let points = line.series.points.iter();
    points.filter(move |point| range.contains(point.t))
}

/// The times at which any line has a point, in milliseconds since 1970.
fn times(layout: &ChartLayout) -> Vec<i64> {
    let lines = layout.chart.lines.iter();
    let points = lines.flat_map(|line| points(line, layout.chart.range));
    let mut times: Vec<i64> = points.map(|point| point.t.as_millisecond()).collect();
    times.sort();
    times.dedup();
    times
}

/// One row after the other: the milliseconds until the next one, then the mean of each line.
fn rows(layout: &ChartLayout, times: &[i64]) -> Vec<Value> {
    let width = 1 + layout.chart.lines.len();
    let mut rows = vec![Value::Null; width * times.len()];
    for (row, at) in times.iter().enumerate() {
        let next = times.get(row + 1).unwrap_or(at);
        rows[width * row] = json!(next - at);
    }
    for (number, line) in layout.chart.lines.iter().enumerate() {
        let scale = &layout.plot(line.side).scale;
        for point in points(line, layout.chart.range) {
            let mean = point.avg.filter(|value| value.is_finite());
            if let Ok(row) = times.binary_search(&point.t.as_millisecond()) {
                rows[width * row + 1 + number] =
                    mean.map_or(Value::Null, |value| whole(scale.steps(value)));
            }
        }
    }
    rows
}

/// Without a decimal point where there is nothing behind it.
fn whole(number: f64) -> Value {
    if number.fract() == 0.0 {
        json!(number as i64)
    } else {
        json!(number)
    }
}

/// An absolute path without host, which no browser runs as a script.
fn is_on_this_site(href: &str) -> bool {
    href.starts_with('/') && !href.starts_with("//") && !href.contains(['\\', '\t', '\n', '\r'])
}
