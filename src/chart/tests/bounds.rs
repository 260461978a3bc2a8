//! Invariants for any input: labels are escaped, sizes are limited, and there is always a chart.

use proptest::prelude::*;

use super::*;
use crate::chart::scale::Scale;

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
    chart.size = Size {
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
        (look, area) in (any::<u8>(), any::<bool>()),
    ) -> Chart {
        let points = points.into_iter().map(|(t, min, avg, max)| Point { t, min, avg, max }).collect();
        let axis = Axis { unit, max };
        Chart {
            title: label.clone(),
            range: Range { from, to },
            time_labels: if has_right { TimeLabels::Clock(TimeZone::UTC) } else { TimeLabels::Elapsed },
            size: Size { width, height },
            left: axis,
            right: has_right.then_some(axis),
            lines: vec![Line {
                label: label.clone(), series: Series { points }, side: Side::Right, look: Look::Other(look), area,
            }],
            bands: vec![Band { from: start, to: end, label: label.clone(), href: Some(label.clone()) }],
            stacked: false,
            marks: vec![Mark { at: start, text: String::new(), kind: MarkKind::Cleared }],
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
        let scale = Scale::new(unit, None, Some(f64::MAX), 100.0);
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
