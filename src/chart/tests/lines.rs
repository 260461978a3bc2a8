//! Lines and their gaps.

use super::*;

#[test]
fn points_without_gaps_are_one_line() {
    let svg = draw(&percent_chart(60, &every_second(0, 60)));
    assert_eq!(count(&svg, "line kf"), 1);
}

#[test]
fn zero_is_at_the_bottom_and_the_maximum_at_the_top() {
    let svg = draw(&percent_chart(100, &[(0, Some(0.0)), (100, Some(100.0))]));
    // From the lower left of the plot to its upper right, to half a pixel: 100 pixels up.
    assert_eq!(path(&svg, "line kf"), "M52 122l333.6-100");
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
