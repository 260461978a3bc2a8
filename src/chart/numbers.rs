//! The numbers of a chart as JSON in the SVG's `<metadata>`, for the crosshair, the legend and the table.
//!
//! Values are whole steps of the last decimal that the legend shows, which is all that the chart can tell, and short.
//! They are row by row: a chart that is drawn a tick later has lost its first row and has one more at the end, and only
//! that has to be sent.

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
    lines: Vec<LineNumbers<'a>>,
    /// The time of the first row, in milliseconds since 1970; `None` without rows.
    start: Option<i64>,
    /// Of each row: the milliseconds until the next one, then the mean of each line.
    rows: Vec<Option<i64>>,
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
    let mut times: Vec<i64> = chart
        .lines
        .iter()
        .flat_map(|line| points(chart, line).map(ms))
        .collect();
    times.sort();
    times.dedup();
    let lines: Vec<LineNumbers> = chart
        .lines
        .iter()
        .map(|line| of_line(chart, line))
        .collect();
    let scales: Vec<Scale> = [Some(scaled.left), scaled.right]
        .into_iter()
        .flatten()
        .collect();
    let numbers = Numbers {
        from: chart.range.from.as_millisecond(),
        to: chart.range.to.as_millisecond(),
        plot: frame::edges(chart, size),
        elapsed: chart.time_labels == TimeLabels::Elapsed,
        axes: scales
            .iter()
            .map(|scale| AxisNumbers {
                unit: scale.name(),
                decimals: scale.decimals(),
            })
            .collect(),
        start: times.first().copied(),
        rows: rows(chart, &times, &lines, &scales),
        lines,
        bands: chart.bands.iter().map(band).collect(),
        marks: chart.marks.iter().map(mark).collect(),
    };
    // A chart without its numbers is better than none.
    let text = serde_json::to_string(&numbers).unwrap_or_default();
    out.push_str("<metadata>");
    out.push_str(
        &text
            .replace('&', "\\u0026")
            .replace('<', "\\u003c")
            .replace('>', "\\u003e"),
    );
    out.push_str("</metadata>");
}

fn points<'a>(chart: &Chart, line: &'a Line) -> impl Iterator<Item = &'a Point> {
    let range = chart.range;
    line.series
        .points
        .iter()
        .filter(move |point| range.contains(point.t))
}

fn ms(point: &Point) -> i64 {
    point.t.as_millisecond()
}

fn of_line<'a>(chart: &Chart, line: &'a Line) -> LineNumbers<'a> {
    LineNumbers {
        label: &line.label,
        class: line.look.class(),
        axis: usize::from(chart.side(line.side) == Side::Right),
    }
}

fn rows(chart: &Chart, times: &[i64], lines: &[LineNumbers], scales: &[Scale]) -> Vec<Option<i64>> {
    let width = 1 + lines.len();
    let mut rows = vec![None; width * times.len()];
    let next = times.iter().skip(1).chain(times.last());
    for (row, (at, next)) in rows.chunks_exact_mut(width).zip(times.iter().zip(next)) {
        row[0] = Some(next - at);
    }
    for (column, (line, numbers)) in (1..).zip(chart.lines.iter().zip(lines)) {
        for point in points(chart, line) {
            if let Ok(place) = times.binary_search(&ms(point)) {
                let mean = point.avg.filter(|value| value.is_finite());
                rows[width * place + column] = mean.map(|value| scales[numbers.axis].steps(value));
            }
        }
    }
    rows
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
    MarkNumbers {
        at: mark.at.as_millisecond(),
        text: &mark.text,
    }
}

/// An absolute path without host, which no browser runs as a script.
fn is_on_this_site(href: &str) -> bool {
    href.starts_with('/') && !href.starts_with("//") && !href.contains(['\\', '\t', '\n', '\r'])
}
