//! Job bands, thresholds and the legend.

use super::*;

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
    assert_eq!(super::super::draw(&chart).legend, [entry(Some("41.2 %"))]);
    chart.lines[0].series.points.push(point(2, None));
    assert_eq!(super::super::draw(&chart).legend, [entry(None)]);
}
