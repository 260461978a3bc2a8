//! What a person sees in a chart, read off the SVG.

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::series::Point;
use crate::units::Prefix;

const START: i64 = 1_700_000_040;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

fn point(second: i64, value: Option<f64>) -> Point {
    Point { t: at(second), min: value, avg: value, max: value }
}

fn series(values: &[(i64, Option<f64>)]) -> Series {
    Series { points: values.iter().map(|&(second, value)| point(second, value)).collect() }
}

fn percent_chart(seconds: i64, values: &[(i64, Option<f64>)]) -> Chart {
    Chart {
        title: "Fill".into(),
        range: Range { from: at(0), to: at(seconds) },
        times: Times::Clock,
        size: Size { width: 400, height: 142 },
        left: Axis { unit: Unit::Percent, most: Some(100.0) },
        right: None,
        lines: vec![Line {
            label: "fill".into(),
            series: series(values),
            side: Side::Left,
            look: Look::Fill,
            area: false,
        }],
        bands: Vec::new(),
        levels: Vec::new(),
    }
}

/// How often a class stands in the picture.
fn count(svg: &str, class: &str) -> usize {
    svg.matches(&format!(r#"class="{class}""#)).count()
}

/// The path data of the first shape of a class.
fn path<'a>(svg: &'a str, class: &str) -> &'a str {
    let rest = svg.split_once(&format!(r#"class="{class}" d=""#)).expect("the shape is drawn").1;
    rest.split('"').next().unwrap()
}

fn labels(svg: &str) -> Vec<&str> {
    svg.split(r#"class="tick""#).skip(1).map(|rest| rest.split(['>', '<']).nth(1).unwrap()).collect()
}

fn every_second(from: i64, to: i64) -> Vec<(i64, Option<f64>)> {
    (from..=to).map(|second| (second, Some(50.0))).collect()
}

#[test]
fn a_known_stretch_is_one_line() {
    let svg = draw(&percent_chart(60, &every_second(0, 60)));
    assert_eq!(count(&svg, "line kf"), 1);
}

#[test]
fn zero_is_the_bottom_and_the_most_is_the_top() {
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
fn coarser_points_of_a_roll_up_are_joined_too() {
    let coarse: Vec<_> = (0..20).map(|number| (number * 60, Some(10.0))).collect();
    let values = [coarse, every_second(1_200, 1_400)].concat();
    assert_eq!(count(&draw(&percent_chart(1_400, &values)), "line kf"), 1);
}

#[test]
fn nothing_unknown_dips_to_zero() {
    let mut values = every_second(0, 60);
    values[30].1 = None;
    let svg = draw(&percent_chart(60, &values));
    assert!(svg.matches(r#"class="line kf" d="M"#).count() == 2 && !path(&svg, "line kf").contains("50"));
}

#[test]
fn a_point_alone_is_a_dot() {
    let svg = draw(&percent_chart(60, &[(10, None), (11, Some(40.0)), (12, None)]));
    assert_eq!((count(&svg, "line kf"), count(&svg, "dot kf")), (0, 1));
}

#[test]
fn peaks_show_as_an_envelope_behind_the_mean() {
    let mut chart = percent_chart(60, &every_second(0, 60));
    assert_eq!(count(&draw(&chart), "envelope kf"), 0);
    chart.lines[0].series.points[30].max = Some(90.0);
    let svg = draw(&chart);
    assert_eq!(count(&svg, "envelope kf"), 1);
    assert!(svg.find("envelope kf") < svg.find("line kf"));
}

#[test]
fn axes_say_their_unit_once_and_count_in_round_numbers() {
    let mut chart = percent_chart(300, &[(0, Some(3e8)), (300, Some(1e8))]);
    for (unit, expected) in [
        (Unit::BytesPerSecond(Prefix::Binary), ["0", "128", "256", "384", "MiB/s", "UTC"]),
        (Unit::BytesPerSecond(Prefix::Decimal), ["0", "100", "200", "300", "MB/s", "UTC"]),
        (Unit::Count, ["0", "100", "200", "300", "million", "UTC"]),
    ] {
        chart.left = Axis { unit, most: None };
        let svg = draw(&chart);
        assert_eq!(labels(&svg)[..6], expected, "{unit:?}");
    }
}

#[test]
fn labels_have_room_beside_the_plot() {
    let mut chart = percent_chart(300, &[(0, Some(1_500_000.0)), (300, Some(1e5))]);
    chart.left = Axis { unit: Unit::KibPerSecond, most: None };
    assert_eq!(labels(&draw(&chart))[..6], ["0", "500", "1,000", "1,500", "k KiB/s", "UTC"]);
    for most in [1e3, 99_999.0, 1e6, 4.2e6, 1e8, 3e9] {
        for unit in [Unit::KibPerSecond, Unit::Count, Unit::Requests, Unit::BytesPerSecond(Prefix::Binary)] {
            chart.left = Axis { unit, most: None };
            chart.lines[0].series = series(&[(0, Some(most)), (300, Some(0.0))]);
            let svg = draw(&chart);
            let numbers = labels(&svg).into_iter().filter(|label| !label.contains([':', ' ', '/']));
            let numbers = numbers.filter(|label| label.starts_with(|first: char| first.is_ascii_digit()));
            let longest = numbers.map(str::len).max();
            assert!(
                longest.is_some_and(|longest| longest <= "500,000".len()),
                "{unit:?} to {most}: {:?}",
                labels(&svg)
            );
        }
    }
}

#[test]
fn times_are_whole_and_named_once_as_utc() {
    for (seconds, expected) in [
        (40, vec!["UTC", "22:14:10", "22:14:20", "22:14:30"]),
        (3_600, vec!["UTC", "22:30", "22:45", "23:00"]),
        (7 * 86_400, vec!["UTC", "17 Nov", "19 Nov", "21 Nov"]),
    ] {
        let chart = percent_chart(seconds, &[]);
        let svg = draw(&chart);
        let times: Vec<&str> = labels(&svg).into_iter().skip_while(|label| *label != "UTC").collect();
        assert_eq!(times, expected);
    }
}

#[test]
fn elapsed_time_is_counted_from_the_start() {
    for (seconds, expected) in
        [(40, vec!["min:s", "0:10", "0:20", "0:30", "0:40"]), (39_600, vec!["h:min", "3:00", "6:00", "9:00"])]
    {
        let mut chart = percent_chart(seconds, &[]);
        (chart.times, chart.range) = (
            Times::Elapsed,
            Range { from: Timestamp::UNIX_EPOCH, to: Timestamp::from_second(seconds).unwrap() },
        );
        let svg = draw(&chart);
        let times: Vec<&str> = labels(&svg).into_iter().skip_while(|label| *label != expected[0]).collect();
        assert_eq!(times.iter().filter(|label| **label != "0:00").copied().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn two_axes_each_hold_their_own_lines() {
    let mut chart = percent_chart(100, &[(0, Some(0.0)), (100, Some(100.0))]);
    chart.right = Some(Axis { unit: Unit::KibPerSecond, most: Some(200_000.0) });
    chart.lines.push(Line {
        label: "read".into(),
        series: series(&[(0, Some(0.0)), (100, Some(100_000.0))]),
        side: Side::Right,
        look: Look::Read,
        area: false,
    });
    let svg = draw(&chart);
    assert_eq!(path(&svg, "line k1"), "M52 122l300-50");
    assert!(labels(&svg).contains(&"200,000") && labels(&svg).contains(&"KiB/s"));
}

#[test]
fn a_job_is_a_band_behind_the_lines_that_leads_to_its_report() {
    let mut chart = percent_chart(60, &every_second(0, 60));
    chart.bands.push(Band {
        from: at(15),
        to: None,
        label: "nightly backup".into(),
        href: Some("/jobs/7".into()),
    });
    let svg = draw(&chart);
    assert!(svg.contains(r#"<a href="/jobs/7""#) && svg.contains(">nightly backup</text>"));
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
fn a_link_to_elsewhere_is_no_link() {
    let mut chart = percent_chart(60, &[]);
    for href in ["javascript:alert(1)", "//evil.example/", "https://evil.example/", "/\\evil.example"] {
        chart.bands = vec![Band { from: at(1), to: None, label: "job".into(), href: Some(href.into()) }];
        assert!(!draw(&chart).contains("<a "), "{href}");
    }
}

#[test]
fn a_level_is_named_and_left_out_above_the_axis() {
    let mut chart = percent_chart(60, &[]);
    let level =
        |value| Level { value, side: Side::Left, label: "critical 85 %".into(), grade: Grade::Critical };
    chart.levels = vec![level(85.0), level(120.0)];
    let svg = draw(&chart);
    assert_eq!(svg.matches(r#"<path class="level critical""#).count(), 1);
    assert!(svg.contains(">critical 85 %</text>"));
}

#[test]
fn the_legend_tells_the_last_value_and_admits_not_knowing_it() {
    let mut chart = percent_chart(60, &[(0, Some(12.0)), (1, Some(41.23))]);
    let entry =
        |last: Option<&str>| LegendEntry { label: "fill".into(), class: "kf", last: last.map(str::to_owned) };
    assert_eq!(legend(&chart), [entry(Some("41.2 %"))]);
    chart.lines[0].series.points.push(point(2, None));
    assert_eq!(legend(&chart), [entry(None)]);
}

#[test]
fn units_are_written_as_people_read_them() {
    for (unit, value, text) in [
        (Unit::BytesPerSecond(Prefix::Binary), 1_572_864.0, "1.50 MiB/s"),
        (Unit::KibPerSecond, 204_800.0, "204,800 KiB/s"),
        (Unit::Share, 0.123, "12.3 %"),
        (Unit::Milliseconds, 4.5, "4.50 ms"),
        (Unit::Count, 3.0, "3"),
        (Unit::Requests, 12_345.6, "12,346 req/s"),
    ] {
        assert_eq!(unit.value_text(value), text);
    }
}

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
    chart.levels.push(Level { value: 50.0, side: Side::Right, label: hostile.into(), grade: Grade::Warning });
    let svg = draw(&chart);
    assert!(!svg.contains("<script") && !svg.contains("\"onclick") && !svg.contains('\u{0}'));
    assert!(svg.contains("&quot;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)"));
}

#[test]
fn a_chart_with_nothing_still_has_its_axes() {
    let svg = draw(&percent_chart(0, &[]));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>") && labels(&svg).contains(&"100"));
}

#[test]
fn three_lines_of_six_hundred_points_stay_small() {
    let mut chart = percent_chart(600, &[]);
    chart.size = Size { width: 1_200, height: 220 };
    for number in 0..3 {
        let mut line = chart.lines[0].clone();
        line.series.points = (0..600)
            .map(|second| {
                let avg = f64::from((second * 7_919 * (number + 1)) % 89);
                Point { t: at(second.into()), min: Some(avg * 0.8), avg: Some(avg), max: Some(avg + 9.0) }
            })
            .collect();
        chart.lines.push(line);
    }
    let svg = draw(&chart);
    assert!(svg.len() < 30_000, "noise with envelopes takes {} bytes", svg.len());
    chart.lines.iter_mut().flat_map(|line| &mut line.series.points).for_each(|point| {
        (point.min, point.max) = (point.avg, point.avg);
    });
    assert!(draw(&chart).len() < 20_000);
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
            Just(Unit::BytesPerSecond(Prefix::Binary)), Just(Unit::BytesPerSecond(Prefix::Decimal)),
            Just(Unit::KibPerSecond), Just(Unit::Percent), Just(Unit::Share), Just(Unit::Milliseconds),
            Just(Unit::Count), Just(Unit::Requests),
        ],
        most in any_value(),
        has_right in any::<bool>(),
        (from, to) in (any_time(), any_time()),
        (width, height) in (any::<u32>(), any::<u32>()),
        points in prop::collection::vec((any_time(), any_value(), any_value(), any_value()), 0..30),
        (label, start, end) in (".*", any_time(), prop::option::of(any_time())),
        (look, area) in (any::<u8>(), any::<bool>()),
    ) -> Chart {
        let points = points.into_iter().map(|(t, min, avg, max)| Point { t, min, avg, max }).collect();
        let axis = Axis { unit, most };
        Chart {
            title: label.clone(),
            range: Range { from, to },
            times: if has_right { Times::Clock } else { Times::Elapsed },
            size: Size { width, height },
            left: axis,
            right: has_right.then_some(axis),
            lines: vec![Line {
                label: label.clone(), series: Series { points }, side: Side::Right, look: Look::Other(look), area,
            }],
            bands: vec![Band { from: start, to: end, label: label.clone(), href: Some(label.clone()) }],
            levels: vec![
                Level { value: most.unwrap_or(1.0), side: Side::Right, label, grade: Grade::Warning },
            ],
        }
    }
}

proptest! {
    #[test]
    fn whatever_comes_in_a_picture_comes_out(chart in any_chart()) {
        let svg = draw(&chart);
        legend(&chart);
        prop_assert!(svg.ends_with("</svg>") && !svg.contains("NaN") && !svg.contains("inf"));
        prop_assert!(svg.len() < 60_000, "{} bytes", svg.len());
    }
}
