//! Charts as they were looked at. `COWBELL_GOLDEN=write cargo test --lib golden` writes them anew: look at them again.

use super::*;

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
    });
    chart.bands.push(Band {
        from: at(10),
        to: None,
        label: "nightly".into(),
        href: Some("/jobs/1".into()),
    });
    chart.marks.push(Mark {
        at: at(160),
        text: "full in 2 min".into(),
        kind: MarkKind::Raised(Severity::Critical),
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
        })
        .collect();
    chart
}

/// Read speeds that fall with the fill.
fn falling() -> Scatter {
    Scatter {
        title: "Read speed by fill".into(),
        size: Size {
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
    let path = format!(
        "{}/src/chart/tests/golden/{name}.svg",
        env!("CARGO_MANIFEST_DIR")
    );
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
