//! Comparisons of constructed sets.

use super::*;

fn set(name: &str, speeds_mb: &[f64]) -> ComparedSet {
    let figure = |name: &str, unit, value| Figure {
        name: name.into(),
        unit,
        value: Some(value),
    };
    let run = |(index, mb): (usize, &f64)| ComparedRun {
        name: format!("{name}-{}", index + 1),
        figures: vec![
            figure("duration", FigureUnit::Seconds, 60_000.0 / mb),
            figure("read speed mean", FigureUnit::Rate, mb * 1e6),
            Figure {
                name: "peak fill".into(),
                unit: FigureUnit::Percent,
                value: None,
            },
        ],
        facts: Vec::new(),
    };
    ComparedSet {
        name: name.into(),
        runs: speeds_mb.iter().enumerate().map(run).collect(),
    }
}

fn speeds(sets: &[ComparedSet]) -> ComparedRow {
    compare(sets)
        .rows
        .into_iter()
        .find(|row| row.figure == "read speed mean")
        .unwrap()
}

#[test]
fn a_faster_variant_is_detected() {
    let sets = [
        set("64k", &[98.0, 100.0, 102.0, 101.0, 99.0]),
        set("16k", &[118.0, 122.0, 120.0, 121.0, 119.0]),
    ];
    let row = speeds(&sets);
    let ratio = row.cells[1].ratio.unwrap();
    assert!(
        (ratio.ratio - 1.2).abs() < 1e-9 && ratio.difference == Difference::Larger,
        "{ratio:?}"
    );
    let bounds = ratio.bounds.unwrap();
    assert!(bounds.low > 1.15 && bounds.high < 1.25, "{bounds:?}");
    assert_eq!(
        row.cells[0].ratio, None,
        "the first is what others are compared with"
    );
    assert_eq!(row.cells[0].moments.unwrap().n, 5);
}

#[test]
fn no_difference_is_seen_if_runs_vary_as_much_as_sets() {
    let sets = [
        set("a", &[80.0, 120.0, 100.0]),
        set("b", &[90.0, 130.0, 95.0]),
    ];
    assert_eq!(
        speeds(&sets).cells[1].ratio.unwrap().difference,
        Difference::NotSeen
    );
}

#[test]
fn single_runs_have_a_ratio_without_bounds() {
    let ratio = speeds(&[set("a", &[100.0]), set("b", &[150.0])]).cells[1]
        .ratio
        .unwrap();
    assert_eq!(
        (ratio.ratio, ratio.bounds, ratio.difference),
        (1.5, None, Difference::OneRun)
    );
}

#[test]
fn an_unknown_figure_has_no_row() {
    let found = compare(&[set("a", &[100.0, 101.0])]);
    assert_eq!(
        found
            .rows
            .iter()
            .map(|row| &*row.figure)
            .collect::<Vec<_>>(),
        ["duration", "read speed mean"]
    );
}

#[test]
fn figures_that_are_zero_in_all_runs_are_dropped() {
    let zero = |name: &str, value| Figure {
        name: name.into(),
        unit: FigureUnit::Number,
        value,
    };
    let mut sets = [set("a", &[100.0, 101.0]), set("b", &[100.0])];
    for run in sets.iter_mut().flat_map(|set| &mut set.runs) {
        run.figures.push(zero("never", Some(0.0)));
        run.figures
            .push(zero("once", Some(f64::from(u8::from(run.name == "a-2")))));
    }
    for run in &mut sets[0].runs {
        run.figures.push(zero("unknown in b", Some(0.0)));
    }
    let mut found = compare(&sets);
    found.drop_zeros();
    let kept: Vec<&str> = found.rows.iter().map(|row| &*row.figure).collect();
    assert_eq!(
        kept,
        ["duration", "read speed mean", "once", "unknown in b"]
    );
}

#[test]
fn an_empty_set_is_unknown_and_not_zero() {
    let row = speeds(&[set("a", &[100.0, 101.0]), set("none", &[])]);
    assert_eq!(
        row.cells[1],
        ComparedCell {
            moments: None,
            ratio: None
        }
    );
    assert_eq!(
        compare(&[]),
        Comparison {
            sets: vec![],
            rows: vec![],
            remarks: vec![],
            other_differences: vec![]
        }
    );
}

#[test]
fn a_negative_figure_has_no_ratio() {
    assert_eq!(ratio(&[-1.0, 3.0], &[2.0, 2.0]), None);
    assert_eq!(ratio(&[1.0, 3.0], &[0.0, 0.0]), None);
}

#[test]
fn a_cold_first_run_and_an_outlier_are_named_and_kept() {
    let set = set("a", &[60.0, 118.0, 121.0, 120.0, 119.0, 40.0, 120.0]);
    let found = compare(std::slice::from_ref(&set));
    let odd = |figure: &str| -> Vec<(String, Oddity)> {
        let remarks = found
            .remarks
            .iter()
            .filter(|remark| remark.figure == figure);
        remarks
            .map(|remark| (remark.run.clone(), remark.oddity))
            .collect()
    };
    // The sixth was slower than the first, which is so not the only one, but slow all the same.
    assert_eq!(
        odd("read speed mean"),
        [
            ("a-1".into(), Oddity::Outlier),
            ("a-6".into(), Oddity::Outlier)
        ]
    );
    assert_eq!(found.rows[0].cells[0].moments.unwrap().n, 7);
    let found = compare(&[ComparedSet {
        runs: set.runs[..5].to_vec(),
        ..set.clone()
    }]);
    assert_eq!(found.remarks.len(), 2, "of the duration and of the speed");
    assert!(
        found
            .remarks
            .iter()
            .all(|remark| remark.run == "a-1" && remark.oddity == Oddity::ColdFirst)
    );
}

#[test]
fn a_common_figure_is_known_in_two_sets() {
    let nothing = |name: &str| ComparedSet {
        name: name.into(),
        runs: vec![
            ComparedRun {
                name: "1".into(),
                figures: Vec::new(),
                facts: Vec::new()
            };
            2
        ],
    };
    let has = |sets: &[ComparedSet]| compare(sets).has_common_figures();
    assert!(has(&[set("a", &[100.0]), set("b", &[90.0])]) && has(&[set("a", &[100.0, 90.0])]));
    assert!(
        !has(&[set("a", &[100.0, 90.0]), nothing("b")]),
        "a figure of one alone is compared with nothing"
    );
    let lasted = |name: &str| {
        let mut set = set(name, &[100.0]);
        set.runs[0]
            .figures
            .retain(|figure| figure.name == "duration");
        set
    };
    let alone = |sets: &[ComparedSet]| compare(sets).has_durations_alone();
    assert!(
        alone(&[lasted("a"), set("b", &[90.0])])
            && !alone(&[set("a", &[100.0]), set("b", &[90.0])])
    );
    assert!(
        !alone(&[nothing("a"), nothing("b")]),
        "nothing at all is another matter"
    );
    assert!(!has(&[nothing("a"), nothing("b")]) && !has(&[set("a", &[100.0])]) && !has(&[]));
}

#[test]
fn a_run_unlike_the_others_is_found() {
    assert_eq!(outliers(&[100.0, 102.0, 99.0, 60.0, 101.0]), [3]);
    assert_eq!(outliers(&[100.0, 104.0, 96.0, 108.0, 92.0]), [0; 0]);
}

#[test]
fn a_small_deviation_from_close_runs_is_no_outlier() {
    assert_eq!(outliers(&[100.0, 100.1, 99.9, 103.0, 100.0]), [0; 0]);
}

#[test]
fn one_among_equal_runs_is_found() {
    let mut same = [100.0; 12];
    same[7] = 50.0;
    assert_eq!(outliers(&same), [7]);
    assert_eq!(outliers(&[100.0; 12]), [0; 0]);
}

#[test]
fn few_runs_have_no_outlier() {
    assert_eq!(
        (outliers(&[1.0, 1.0, 1.0, 9.0]).len(), outliers(&[]).len()),
        (0, 0)
    );
}

#[test]
fn a_first_run_over_empty_caches_is_cold() {
    let speeds = |first: f64| [first, 118.0, 121.0, 120.0, 119.0];
    assert!(is_cold_first(&speeds(60.0), f64::lt));
    assert!(!is_cold_first(&speeds(115.0), f64::lt));
    assert!(!is_cold_first(&speeds(200.0), f64::lt) && is_cold_first(&speeds(200.0), f64::gt));
    assert!(!is_cold_first(&[118.0, 60.0, 121.0, 120.0, 119.0], f64::lt));
    assert!(!is_cold_first(&[60.0, 118.0], f64::lt) && !is_cold_first(&[], f64::lt));
}
