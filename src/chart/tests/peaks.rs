//! Heights of axes, and marks.

use super::*;

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
    let mark = |second, kind| Mark {
        at: at(second),
        text: "<b>".into(),
        kind,
    };
    chart.marks = vec![
        mark(10, MarkKind::Raised(Severity::Critical)),
        mark(20, MarkKind::Cleared),
        mark(30, MarkKind::Change),
        mark(500, MarkKind::Change),
    ];
    let svg = draw(&chart);
    let signs = ["sign critical", "sign ok", "sign change"].map(|class| count(&svg, class));
    assert_eq!(signs, [1, 1, 1]);
    assert_eq!(path(&svg, "sign critical"), "M85.4 122m-4 0h8l-4-7z");
    assert_eq!(
        numbers(&svg)["marks"][0],
        serde_json::json!({ "at": (START + 10) * 1000, "text": "<b>" })
    );
}
