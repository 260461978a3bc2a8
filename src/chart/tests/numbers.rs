//! The numbers that an SVG carries.

use serde_json::json;

use super::*;

#[test]
fn a_chart_carries_its_numbers_in_the_units_of_its_axis() {
    let mut chart = percent_chart(
        100,
        &[
            (0, Some(12.34)),
            (1, None),
            (3, Some(99.0)),
            (200, Some(1.0)),
        ],
    );
    chart.lines.push(Line {
        label: "other".into(),
        series: series(&[(3, Some(5.0))]),
        ..chart.lines[0].clone()
    });
    let numbers = numbers(&draw(&chart));
    assert_eq!(numbers["axes"], json!([{ "unit": "%", "decimals": 1 }]));
    assert_eq!(
        numbers["lines"][0],
        json!({ "label": "fill", "class": "kf", "axis": 0 })
    );
    assert_eq!(numbers["start"], START * 1000);
    assert_eq!(
        numbers["rows"],
        json!([1_000, 123, null, 2_000, null, null, 0, 990, 50])
    );
    assert_eq!(numbers["plot"], json!([52, 22, 386, 122]));
}

#[test]
fn a_legend_and_its_axis_have_one_unit() {
    let mut chart = percent_chart(100, &[(0, Some(6_000_000.0)), (1, Some(1_024.0))]);
    chart.left = Axis {
        unit: Unit::BytesPerSecond,
        max: None,
    };
    assert_eq!(
        super::super::draw(&chart).legend[0].last.as_deref(),
        Some("0.00 MiB/s")
    );
    assert_eq!(
        numbers(&draw(&chart))["axes"],
        json!([{ "unit": "MiB/s", "decimals": 2 }])
    );
    assert_eq!(numbers(&draw(&chart))["rows"], json!([1_000, 572, 0, 0]));
}
