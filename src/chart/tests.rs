//! Tests of charts through their SVG.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::scale::{Reach, Scale};
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
        size: PictureSize {
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
            is_below: false,
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

// Axes

#[test]
fn axes_have_one_unit_and_round_numbers() {
    let mut chart = percent_chart(300, &[(0, Some(3e8)), (300, Some(1e8))]);
    for (unit, expected) in [
        (
            Unit::BytesPerSecond,
            ["0", "128", "256", "384", "MiB/s", "UTC"],
        ),
        (Unit::Count, ["0", "100", "200", "300", "million", "UTC"]),
    ] {
        chart.left = Axis { unit, max: None };
        let svg = draw(&chart);
        assert_eq!(labels(&svg)[..6], expected, "{unit:?}");
    }
}

#[test]
fn labels_fit_beside_the_plot() {
    let mut chart = percent_chart(300, &[(0, Some(1_500_000.0)), (300, Some(1e5))]);
    chart.left = Axis {
        unit: Unit::KibPerSecond,
        max: None,
    };
    assert_eq!(
        labels(&draw(&chart))[..6],
        ["0", "500", "1,000", "1,500", "k KiB/s", "UTC"]
    );
    for max in [1e3, 99_999.0, 1e6, 4.2e6, 1e8, 3e9] {
        for unit in [Unit::KibPerSecond, Unit::Count, Unit::BytesPerSecond] {
            chart.left = Axis { unit, max: None };
            chart.lines[0].series = series(&[(0, Some(max)), (300, Some(0.0))]);
            let svg = draw(&chart);
            let is_number = |label: &&str| {
                label.starts_with(|first: char| first.is_ascii_digit())
                    && !label.contains([':', ' ', '/'])
            };
            let longest = labels(&svg)
                .into_iter()
                .filter(is_number)
                .map(str::len)
                .max();
            assert!(
                longest.is_some_and(|longest| longest <= "500,000".len()),
                "{unit:?} to {max}: {:?}",
                labels(&svg)
            );
        }
    }
}

#[test]
fn time_labels_are_round_and_in_utc() {
    for (seconds, expected) in [
        (40, vec!["UTC", "22:14:10", "22:14:20", "22:14:30"]),
        (3_600, vec!["UTC", "22:30", "22:45", "23:00"]),
        (7 * 86_400, vec!["UTC", "17 Nov", "19 Nov", "21 Nov"]),
    ] {
        let chart = percent_chart(seconds, &[]);
        let svg = draw(&chart);
        let time_labels: Vec<&str> = labels(&svg)
            .into_iter()
            .skip_while(|label| *label != "UTC")
            .collect();
        assert_eq!(time_labels, expected);
    }
}

#[test]
fn time_labels_are_round_in_the_zone_of_the_reader() {
    let mut chart = percent_chart(0, &[]);
    let mut found = |zone: &str, from: &str, to: &str| {
        chart.time_labels = TimeLabels::Clock(TimeZone::get(zone).unwrap());
        chart.range = Range {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
        };
        let svg = draw(&chart);
        let names = labels(&svg).into_iter().map(String::from);
        names
            .skip_while(|label| {
                !label.contains("ST") && !label.contains("CE") && !label.contains('+')
            })
            .collect::<Vec<_>>()
    };
    // Half an hour beside the others, and the night in which clocks are set back.
    assert_eq!(
        found(
            "Asia/Kolkata",
            "2026-11-21T00:00:00Z",
            "2026-11-21T04:00:00Z"
        ),
        ["IST", "06:00", "07:00", "08:00", "09:00"]
    );
    assert_eq!(
        found(
            "Europe/Berlin",
            "2026-10-24T20:00:00Z",
            "2026-10-25T12:00:00Z"
        ),
        ["CET", "25 Oct", "06:00", "12:00"]
    );
    assert_eq!(
        found(
            "Asia/Kathmandu",
            "2026-11-20T00:00:00Z",
            "2026-11-27T00:00:00Z"
        ),
        ["+0545", "21 Nov", "23 Nov", "25 Nov", "27 Nov"]
    );
}

#[test]
fn elapsed_time_counts_from_the_start() {
    for (seconds, expected) in [
        (40, vec!["min:s", "0:10", "0:20", "0:30", "0:40"]),
        (39_600, vec!["h:min", "3:00", "6:00", "9:00"]),
    ] {
        let mut chart = percent_chart(seconds, &[]);
        (chart.time_labels, chart.range) = (
            TimeLabels::Elapsed,
            Range {
                from: Timestamp::UNIX_EPOCH,
                to: Timestamp::from_second(seconds).unwrap(),
            },
        );
        let svg = draw(&chart);
        let time_labels: Vec<&str> = labels(&svg)
            .into_iter()
            .skip_while(|label| *label != expected[0])
            .collect();
        assert_eq!(
            time_labels
                .iter()
                .filter(|label| **label != "0:00")
                .copied()
                .collect::<Vec<_>>(),
            expected
        );
    }
}

#[test]
fn two_axes_scale_independently() {
    let mut chart = percent_chart(100, &[(0, Some(0.0)), (100, Some(100.0))]);
    chart.right = Some(Axis {
        unit: Unit::KibPerSecond,
        max: Some(200_000.0),
    });
    chart.lines.push(Line {
        label: "read".into(),
        series: series(&[(0, Some(0.0)), (100, Some(100_000.0))]),
        side: Side::Right,
        look: Look::Read,
        area: false,
        is_below: false,
    });
    let svg = draw(&chart);
    assert_eq!(path(&svg, "line k1"), "M52 122l300-50");
    assert!(labels(&svg).contains(&"200,000") && labels(&svg).contains(&"KiB/s"));
}

#[test]
fn values_have_readable_units() {
    for (unit, value, text) in [
        (Unit::BytesPerSecond, 1_572_864.0, "1.50 MiB/s"),
        (Unit::KibPerSecond, 204_800.0, "204,800 KiB/s"),
        (Unit::Share, 0.123, "12.3 %"),
        (Unit::Milliseconds, 4.5, "4.50 ms"),
        (Unit::Count, 3.0, "3"),
    ] {
        assert_eq!(unit.value_text(value), text);
    }
}

#[test]
fn an_empty_chart_has_axes() {
    let svg = draw(&percent_chart(0, &[]));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>") && labels(&svg).contains(&"100"));
}

// Lines and their gaps

#[test]
fn points_without_gaps_are_one_line() {
    let svg = draw(&percent_chart(60, &every_second(0, 60)));
    assert_eq!(count(&svg, "line kf"), 1);
}

#[test]
fn zero_is_at_the_bottom_and_the_maximum_at_the_top() {
    let svg = draw(&percent_chart(100, &[(0, Some(0.0)), (100, Some(100.0))]));
    // From the lower left of the plot to its upper right: 100 pixels up.
    assert_eq!(path(&svg, "line kf"), "M52 122l334-100");
}

#[test]
fn an_unknown_value_breaks_the_line() {
    let mut values = every_second(0, 60);
    values[30].1 = None;
    let svg = draw(&percent_chart(60, &values));
    assert_eq!(count(&svg, "line kf"), 2);
}

#[test]
fn a_gap_breaks_the_line() {
    let values = [every_second(0, 20), every_second(40, 60)].concat();
    let svg = draw(&percent_chart(60, &values));
    assert_eq!(count(&svg, "line kf"), 2);
}

#[test]
fn a_single_late_tick_does_not_break_the_line() {
    let values = [every_second(0, 20), every_second(22, 60)].concat();
    assert_eq!(count(&draw(&percent_chart(60, &values)), "line kf"), 1);
}

#[test]
fn points_of_roll_ups_are_connected() {
    let coarse: Vec<_> = (0..20).map(|number| (number * 60, Some(10.0))).collect();
    let values = [coarse, every_second(1_200, 1_400)].concat();
    assert_eq!(count(&draw(&percent_chart(1_400, &values)), "line kf"), 1);
}

#[test]
fn unknown_values_do_not_dip_to_zero() {
    let mut values = every_second(0, 60);
    values[30].1 = None;
    let svg = draw(&percent_chart(60, &values));
    assert!(
        svg.matches(r#"class="line kf" d="M"#).count() == 2
            && !path(&svg, "line kf").contains("50")
    );
}

#[test]
fn an_isolated_point_is_a_dot() {
    let svg = draw(&percent_chart(
        60,
        &[(10, None), (11, Some(40.0)), (12, None)],
    ));
    assert_eq!((count(&svg, "line kf"), count(&svg, "dot kf")), (0, 1));
}

#[test]
fn extremes_form_an_envelope_behind_the_mean() {
    let mut chart = percent_chart(60, &every_second(0, 60));
    assert_eq!(count(&draw(&chart), "envelope kf"), 0);
    chart.lines[0].series.points[30].max = Some(90.0);
    let svg = draw(&chart);
    assert_eq!(count(&svg, "envelope kf"), 1);
    assert!(svg.find("envelope kf") < svg.find("line kf"));
}

// Heights of axes, and marks

fn bytes_chart(values: &[(i64, Option<f64>)]) -> Chart {
    Chart {
        left: Axis {
            unit: Unit::BytesPerSecond,
            max: None,
        },
        ..percent_chart(100, values)
    }
}

fn low_with(peaks: &[i64]) -> Vec<(i64, Option<f64>)> {
    (0..=100)
        .map(|second| {
            (
                second,
                Some(if peaks.contains(&second) { 4e8 } else { 2e6 }),
            )
        })
        .collect()
}

#[test]
fn one_spike_does_not_flatten_the_rest_and_the_chart_says_so() {
    let svg = draw(&bytes_chart(&low_with(&[30])));
    assert_eq!(
        labels(&svg)[..5],
        ["▲ 381.47 MiB/s, axis cut", "0", "1", "2", "3"]
    );
    assert_eq!(numbers(&svg)["rows"][2 * 30 + 1], 38_147);
}

#[test]
fn a_spike_between_gaps_does_not_flatten_the_rest_either() {
    let mut values = low_with(&[30]);
    (values[29].1, values[31].1) = (None, None);
    assert_eq!(
        labels(&draw(&bytes_chart(&values)))[..5],
        ["▲ 381.47 MiB/s, axis cut", "0", "1", "2", "3"]
    );
}

#[test]
fn what_lasts_or_returns_is_shown_whole() {
    for peaks in [
        vec![30, 31, 32],
        (0..=100).step_by(10).collect(),
        vec![10, 50, 90],
    ] {
        let svg = draw(&bytes_chart(&low_with(&peaks)));
        assert!(
            !svg.contains("axis cut") && labels(&svg).contains(&"384"),
            "{peaks:?}"
        );
    }
}

#[test]
fn alerts_and_changes_are_marked() {
    let mut chart = percent_chart(100, &every_second(0, 100));
    let mark = |second, kind| EventMark {
        at: at(second),
        text: "<b>".into(),
        kind,
    };
    chart.marks = vec![
        mark(10, EventKind::Raised(Severity::Critical)),
        mark(20, EventKind::Cleared),
        mark(30, EventKind::Change),
        mark(500, EventKind::Change),
    ];
    let svg = draw(&chart);
    let signs = ["sign critical", "sign ok", "sign change"].map(|class| count(&svg, class));
    assert_eq!(signs, [1, 1, 1]);
    assert_eq!(path(&svg, "sign critical"), "M81.4 122l8 0-4-7z");
    assert_eq!(
        numbers(&svg)["marks"][0],
        serde_json::json!({ "at": (START + 10) * 1000, "text": "<b>" })
    );
}

// Jobs, thresholds and the legend

#[test]
fn a_job_is_a_named_band_behind_the_lines() {
    let mut chart = percent_chart(60, &every_second(0, 60));
    chart.bands.push(Band {
        from: at(15),
        to: None,
        label: "nightly backup".into(),
        href: Some("/jobs/7".into()),
    });
    let svg = draw(&chart);
    assert!(svg.contains(r#""href":"/jobs/7""#) && svg.contains(">nightly backup</text>"));
    assert!(svg.find(r#"class="band""#) < svg.find("line kf"));
}

#[test]
fn a_long_name_of_a_short_job_is_shortened() {
    let mut chart = percent_chart(60, &[]);
    chart.bands.push(Band {
        from: at(50),
        to: Some(at(60)),
        label: "nightly backup of everything".into(),
        href: None,
    });
    assert!(draw(&chart).contains(">nightly…</text>"));
}

#[test]
fn external_links_are_omitted() {
    let mut chart = percent_chart(60, &[]);
    for href in [
        "javascript:alert(1)",
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
    ] {
        chart.bands = vec![Band {
            from: at(1),
            to: None,
            label: "job".into(),
            href: Some(href.into()),
        }];
        assert!(draw(&chart).contains(r#""href":null"#), "{href}");
    }
}

#[test]
fn a_threshold_is_labelled_and_omitted_above_the_axis() {
    let mut chart = percent_chart(60, &[]);
    let level = |value| Threshold {
        value,
        side: Side::Left,
        label: "critical 85 %".into(),
        severity: Severity::Critical,
    };
    chart.thresholds = vec![level(85.0), level(120.0)];
    let svg = draw(&chart);
    assert_eq!(svg.matches(r#"<path class="level critical""#).count(), 1);
    assert!(svg.contains(">critical 85 %</text>"));
}

#[test]
fn the_legend_shows_the_last_value_if_known() {
    let mut chart = percent_chart(60, &[(0, Some(12.0)), (1, Some(41.23))]);
    let entry = |last: Option<&str>| LegendEntry {
        label: "fill".into(),
        class: "kf",
        last: last.map(str::to_owned),
    };
    assert_eq!(super::draw(&chart).legend, [entry(Some("41.23 %"))]);
    chart.lines[0].series.points.push(point(2, None));
    assert_eq!(super::draw(&chart).legend, [entry(None)]);
}

// The numbers that an SVG carries

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
    assert_eq!(numbers["axes"], json!([{ "unit": "%", "decimals": 2 }]));
    assert_eq!(
        numbers["lines"][0],
        json!({ "label": "fill", "class": "kf", "axis": 0 })
    );
    assert_eq!(numbers["start"], START * 1000);
    assert_eq!(
        numbers["rows"],
        json!([1_000, 1_234, null, 2_000, null, null, 0, 9_900, 500])
    );
    assert_eq!(numbers["plot"], json!([52, 22, 386, 122]));
}

#[test]
fn what_varies_from_second_to_second_is_a_mean_with_a_band() {
    let values: Vec<(i64, Option<f64>)> = (0..900)
        .map(|second| (second, Some(if second % 2 == 0 { 20.0 } else { 80.0 })))
        .collect();
    let svg = draw(&percent_chart(900, &values));
    let ys: Vec<f64> = path(&svg, "line kf")
        .split(['l', ' '])
        .filter_map(|number| number.parse().ok())
        .collect();
    assert!(ys.len() < 2 * 90, "a point for each column: {}", ys.len());
    assert_eq!(count(&svg, "envelope kf"), 1);
    // The rows under the crosshair stay those of the series.
    assert_eq!(numbers(&svg)["rows"].as_array().unwrap().len(), 2 * 900);
}

#[test]
fn points_at_one_place_are_a_line_that_browsers_accept() {
    let svg = draw(&percent_chart(1_000_000, &[(0, Some(5.0)), (1, Some(5.0))]));
    assert_eq!(path(&svg, "line kf"), "M52 117l0 0");
}

#[test]
fn a_legend_and_its_axis_have_one_unit() {
    let mut chart = percent_chart(100, &[(0, Some(6_000_000.0)), (1, Some(1_024.0))]);
    chart.left = Axis {
        unit: Unit::BytesPerSecond,
        max: None,
    };
    assert_eq!(
        super::draw(&chart).legend[0].last.as_deref(),
        // Not 0.00 MiB/s, which would say that nothing was read.
        Some("0.00098 MiB/s")
    );
    assert_eq!(
        numbers(&draw(&chart))["axes"],
        json!([{ "unit": "MiB/s", "decimals": 2 }])
    );
    assert_eq!(
        numbers(&draw(&chart))["rows"],
        json!([1_000, 572, 0, 0.098])
    );
}

#[test]
fn writes_are_drawn_below_reads_and_stay_positive_numbers() {
    let mut chart = percent_chart(10, &[(0, Some(4e6)), (10, Some(4e6))]);
    chart.left = Axis {
        unit: Unit::BytesPerSecond,
        max: None,
    };
    chart.lines.push(Line {
        label: "written".into(),
        series: series(&[(0, Some(1e6)), (10, Some(2e6))]),
        look: Look::Write,
        area: true,
        is_below: true,
        ..chart.lines[0].clone()
    });
    let svg = draw(&chart);
    assert_eq!(labels(&svg)[..4], ["2", "0", "2", "4"]);
    let lines = &numbers(&svg)["rows"];
    assert_eq!(*lines, json!([10_000, 381, 95, 0, 381, 191]));
    // From a quarter of the way down, to half of it; the axis is above.
    let [_, axis_y] = path(&svg, "axis")
        .split(['M', ' ', 'l'])
        .collect::<Vec<_>>()[1..3]
    else {
        panic!("no axis")
    };
    let start = path(&svg, "line k2").split(['M', ' ', 'l']).nth(2).unwrap();
    assert!(start.parse::<f64>().unwrap() > axis_y.parse::<f64>().unwrap());
}

#[test]
fn latencies_that_are_decades_apart_have_a_logarithmic_axis() {
    let values: Vec<(i64, Option<f64>)> = (0..100)
        .map(|second| (second, Some(if second < 50 { 0.4 } else { 4_200.0 })))
        .collect();
    let mut chart = percent_chart(100, &values);
    chart.size.height = 172;
    chart.left = Axis {
        unit: Unit::Milliseconds,
        max: None,
    };
    let svg = draw(&chart);
    assert_eq!(
        labels(&svg)[..7],
        ["0.1", "1", "10", "100", "1,000", "10,000", "ms"]
    );
    // On a low chart, each second decade.
    chart.size.height = 142;
    assert_eq!(
        labels(&draw(&chart))[..4],
        ["0.1", "10", "1,000", "100,000"]
    );
    chart.size.height = 172;
    assert_eq!(
        super::draw(&chart).legend[0].last.as_deref(),
        Some("4,200 ms")
    );
    // Within two decades it is linear, from zero.
    chart.lines[0].series = series(&[(0, Some(1.0)), (99, Some(60.0))]);
    assert_eq!(labels(&draw(&chart))[0], "0");
}

// Any input

#[test]
fn hostile_labels_are_escaped() {
    let hostile = "\"><script>alert('&')</script>\u{0}";
    let mut chart = percent_chart(60, &[]);
    chart.title = hostile.into();
    chart.bands.push(Band {
        from: at(0),
        to: None,
        label: hostile.into(),
        href: Some("/\"onclick='x'".into()),
    });
    chart.thresholds.push(Threshold {
        value: 50.0,
        side: Side::Right,
        label: hostile.into(),
        severity: Severity::Warning,
    });
    chart.lines[0].label = hostile.into();
    let svg = draw(&chart);
    let (picture, numbers) = svg.split_once("<metadata>").unwrap();
    assert!(
        !picture.contains("<script") && !picture.contains("\"onclick") && !svg.contains('\u{0}')
    );
    assert!(
        !numbers
            .replace("</metadata></svg>", "")
            .contains(['<', '>', '&'])
    );
    assert!(picture.contains("&quot;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)"));
}

#[test]
fn three_lines_of_six_hundred_points_stay_small() {
    let mut chart = percent_chart(600, &[]);
    chart.size = PictureSize {
        width: 1_200,
        height: 220,
    };
    for number in 0..3 {
        let mut line = chart.lines[0].clone();
        line.series.points = (0..600)
            .map(|second| {
                let avg = f64::from((second * 7_919 * (number + 1)) % 89);
                Point {
                    t: at(second.into()),
                    min: Some(avg * 0.8),
                    avg: Some(avg),
                    max: Some(avg + 9.0),
                }
            })
            .collect();
        chart.lines.push(line);
    }
    let length = |chart: &Chart| {
        let svg = draw(chart);
        let picture = svg.find("<metadata>").unwrap();
        (picture, svg.len() - picture)
    };
    let (picture, numbers) = length(&chart);
    assert!(
        picture < 30_000,
        "noise with envelopes takes {picture} bytes"
    );
    assert!(numbers < 32_000, "its numbers take {numbers} bytes");
    chart
        .lines
        .iter_mut()
        .flat_map(|line| &mut line.series.points)
        .for_each(|point| {
            (point.min, point.max) = (point.avg, point.avg);
        });
    let (picture, numbers) = length(&chart);
    assert!(
        picture < 20_000 && numbers < 16_000,
        "{picture} and {numbers}"
    );
}

fn any_value() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        Just(None),
        Just(Some(f64::NAN)),
        Just(Some(f64::INFINITY)),
        any::<f64>().prop_map(Some),
        (0.0..1e9).prop_map(Some)
    ]
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        (0_i64..4_000).prop_map(at),
        Just(Timestamp::MIN),
        Just(Timestamp::MAX),
        Just(Timestamp::UNIX_EPOCH)
    ]
}

prop_compose! {
    fn any_chart()(
        unit in prop_oneof![
            Just(Unit::BytesPerSecond),
            Just(Unit::KibPerSecond), Just(Unit::Percent), Just(Unit::Share), Just(Unit::Milliseconds),
            Just(Unit::Count),
        ],
        max in any_value(),
        has_right in any::<bool>(),
        (from, to) in (any_time(), any_time()),
        (width, height) in (any::<u32>(), any::<u32>()),
        points in prop::collection::vec((any_time(), any_value(), any_value(), any_value()), 0..30),
        (label, start, end) in (".*", any_time(), prop::option::of(any_time())),
        (look, area, is_below) in (any::<u8>(), any::<bool>(), any::<bool>()),
    ) -> Chart {
        let points = points.into_iter().map(|(t, min, avg, max)| Point { t, min, avg, max }).collect();
        let axis = Axis { unit, max };
        Chart {
            title: label.clone(),
            range: Range { from, to },
            time_labels: if has_right { TimeLabels::Clock(TimeZone::UTC) } else { TimeLabels::Elapsed },
            size: PictureSize { width, height },
            left: axis,
            right: has_right.then_some(axis),
            lines: vec![Line {
                label: label.clone(), series: Series { points }, side: Side::Right, look: Look::Other(look), area, is_below,
            }],
            bands: vec![Band { from: start, to: end, label: label.clone(), href: Some(label.clone()) }],
            stacked: false,
            marks: vec![EventMark { at: start, text: String::new(), kind: EventKind::Cleared }],
            forecasts: vec![Forecast {
                from: (start, max.unwrap_or(1.0)), value: 100.0, soonest: from, likely: end, latest: end, side: Side::Left, look: Look::Fill,
            }],
            thresholds: vec![
                Threshold { value: max.unwrap_or(1.0), side: Side::Right, label, severity: Severity::Warning },
            ],
        }
    }
}

#[test]
fn the_largest_values_have_a_text() {
    for unit in [Unit::Share, Unit::Percent, Unit::BytesPerSecond] {
        let scale = Scale::new(
            Axis { unit, max: None },
            Reach::up_to(Some(f64::MAX)),
            100.0,
        );
        for text in [scale.text(f64::MAX), unit.value_text(f64::MAX)] {
            assert!(!text.contains("inf"), "{text}");
        }
    }
}

proptest! {
    #[test]
    fn any_chart_is_drawn(chart in any_chart()) {
        let svg = draw(&chart);
        let at = svg.find("NaN").or_else(|| svg.find("inf"));
        prop_assert!(svg.ends_with("</svg>") && at.is_none(), "{}", &svg[at.unwrap_or(0).saturating_sub(200)..]);
        prop_assert!(svg.len() < 60_000, "{} bytes", svg.len());
    }
}

// Pictures

/// A fill that grows, with a gap, a job, an alert, two thresholds and a forecast; beside it a read speed.
fn overflowing() -> Chart {
    let fill = |second| {
        (
            second,
            (!(100..=120).contains(&second)).then_some(second as f64 / 4.0),
        )
    };
    let values: Vec<_> = (0..=200).map(fill).collect();
    let mut chart = percent_chart(300, &values);
    chart.lines[0].area = true;
    chart.right = Some(Axis {
        unit: Unit::BytesPerSecond,
        max: None,
    });
    let speed = (0..=200).map(|second| Point {
        t: at(second),
        min: Some(50e6),
        avg: Some(120e6 - second as f64 * 4e5),
        max: Some(150e6),
    });
    chart.lines.push(Line {
        label: "read".into(),
        series: Series {
            points: speed.collect(),
        },
        side: Side::Right,
        look: Look::Read,
        area: false,
        is_below: false,
    });
    chart.bands.push(Band {
        from: at(10),
        to: None,
        label: "nightly".into(),
        href: Some("/jobs/1".into()),
    });
    chart.marks.push(EventMark {
        at: at(160),
        text: "full in 2 min".into(),
        kind: EventKind::Raised(Severity::Critical),
    });
    chart.thresholds = [(70.0, Severity::Warning), (90.0, Severity::Critical)]
        .map(|(value, severity)| Threshold {
            value,
            side: Side::Left,
            label: format!("{value} %"),
            severity,
        })
        .into();
    chart.forecasts.push(Forecast {
        from: (at(200), 50.0),
        value: 100.0,
        soonest: at(260),
        likely: Some(at(290)),
        latest: None,
        side: Side::Left,
        look: Look::Fill,
    });
    chart
}

/// What four PVs write, one on top of the other.
fn stacked() -> Chart {
    let mut chart = percent_chart(60, &[]);
    chart.left = Axis {
        unit: Unit::BytesPerSecond,
        max: None,
    };
    chart.stacked = true;
    chart.lines = (0..4)
        .map(|number| Line {
            label: format!("sd{}", char::from(b'a' + number)),
            series: series(
                &(0..=60)
                    .map(|second| {
                        (
                            second,
                            Some(f64::from(number + 1) * 1e6 * (2.0 + (second % 7) as f64)),
                        )
                    })
                    .collect::<Vec<_>>(),
            ),
            side: Side::Left,
            look: Look::Other(number),
            area: true,
            is_below: false,
        })
        .collect();
    chart
}

/// Read speeds that fall with the fill.
fn falling() -> Scatter {
    Scatter {
        title: "Read speed by fill".into(),
        size: PictureSize {
            width: 400,
            height: 240,
        },
        x: Axis {
            unit: Unit::Percent,
            max: Some(100.0),
        },
        x_name: "fill".into(),
        y: Axis {
            unit: Unit::BytesPerSecond,
            max: None,
        },
        points: (0..50)
            .map(|step| {
                (
                    f64::from(step) * 2.0,
                    2e8 - f64::from(step * (step % 5 + 1)) * 5e5,
                )
            })
            .collect(),
        line: Some((-0.7e6, 2e8)),
        ..Scatter::default()
    }
}

/// Compares with the file, or writes it.
fn compare(name: &str, svg: &str) {
    let path = format!("{}/src/chart/golden/{name}.svg", env!("CARGO_MANIFEST_DIR"));
    let svg = svg.replace("><", ">\n<") + "\n";
    if std::env::var_os("COWBELL_GOLDEN").is_some() {
        std::fs::write(&path, &svg).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let differs = golden
        .lines()
        .zip(svg.lines())
        .find(|(golden, now)| golden != now);
    assert_eq!(differs, None, "{name}");
    assert_eq!(golden.len(), svg.len(), "{name}");
}

#[test]
fn charts_look_as_they_did() {
    compare("overflowing", &draw(&overflowing()));
    compare("stacked", &draw(&stacked()));
    compare("no-data", &draw(&percent_chart(60, &[])));
    compare("falling", &scatter(&falling()));
}
