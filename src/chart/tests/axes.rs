//! Axis labels and units.

use super::*;

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
            let numbers = labels(&svg)
                .into_iter()
                .filter(|label| !label.contains([':', ' ', '/']));
            let numbers =
                numbers.filter(|label| label.starts_with(|first: char| first.is_ascii_digit()));
            let longest = numbers.map(str::len).max();
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
