//! Tests of charts through their SVG.

mod axes;
mod beside;
mod bounds;
mod golden;
mod lines;
mod numbers;
mod peaks;

use jiff::Timestamp;

use super::*;
use crate::series::Point;

const START: i64 = 1_700_000_040;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

fn point(second: i64, value: Option<f64>) -> Point {
    Point {
        t: at(second),
        min: value,
        avg: value,
        max: value,
    }
}

fn series(values: &[(i64, Option<f64>)]) -> Series {
    Series {
        points: values
            .iter()
            .map(|&(second, value)| point(second, value))
            .collect(),
    }
}

pub fn percent_chart(seconds: i64, values: &[(i64, Option<f64>)]) -> Chart {
    Chart {
        title: "Fill".into(),
        range: Range {
            from: at(0),
            to: at(seconds),
        },
        time_labels: TimeLabels::Clock(TimeZone::UTC),
        size: Size {
            width: 400,
            height: 142,
        },
        left: Axis {
            unit: Unit::Percent,
            max: Some(100.0),
        },
        right: None,
        lines: vec![Line {
            label: "fill".into(),
            series: series(values),
            side: Side::Left,
            look: Look::Fill,
            area: false,
        }],
        bands: Vec::new(),
        marks: Vec::new(),
        stacked: false,
        thresholds: Vec::new(),
        forecasts: Vec::new(),
    }
}

fn draw(chart: &Chart) -> String {
    super::draw(chart).svg
}

/// Occurrences of a class.
fn count(svg: &str, class: &str) -> usize {
    svg.matches(&format!(r#"class="{class}""#)).count()
}

/// The path data of the first shape with a class.
fn path<'a>(svg: &'a str, class: &str) -> &'a str {
    let rest = svg
        .split_once(&format!(r#"class="{class}" d=""#))
        .expect("the shape is drawn")
        .1;
    rest.split('"').next().unwrap()
}

fn labels(svg: &str) -> Vec<&str> {
    svg.split(r#"class="tick""#)
        .skip(1)
        .map(|rest| rest.split(['>', '<']).nth(1).unwrap())
        .collect()
}

fn every_second(from: i64, to: i64) -> Vec<(i64, Option<f64>)> {
    (from..=to).map(|second| (second, Some(50.0))).collect()
}

/// The numbers that an SVG carries.
fn numbers(svg: &str) -> serde_json::Value {
    let text = svg
        .split_once("<metadata>")
        .unwrap()
        .1
        .split_once("</metadata>")
        .unwrap()
        .0;
    serde_json::from_str(text).unwrap()
}
