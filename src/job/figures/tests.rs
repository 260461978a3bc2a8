//! Figures of constructed time series, and of such of which little is known.

use proptest::prelude::*;

use super::*;
use crate::job::setup::Setup;
use crate::job::tests::example::{
    KIB, MEASURES, MIB, PV_MEASURES, setup, slope, slow_figures, slowing, steady, straight, ticks,
};
use crate::job::time_series::{JobMeasure, JobTimeSeries, PvMeasure, TickColumns};
use crate::statistics::{Relation, Trend};

fn close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= expected.abs() * 0.05,
        "expected {expected}, but found {found}"
    );
}

fn only(span: TickColumns) -> JobTimeSeries {
    JobTimeSeries {
        before: None,
        during: span,
        after: None,
        took_s: None,
    }
}

fn reading(speeds: Vec<Option<f64>>) -> Figures {
    let span = TickColumns::new(ticks(speeds.len(), 0.0))
        .unwrap()
        .with(JobMeasure::SnapshotRead, speeds)
        .unwrap();
    Figures::of(&only(span), &Setup::default())
}

#[test]
fn a_backup_slows_while_its_snapshot_fills() {
    let figures = slow_figures();
    let read = figures.read.unwrap();
    close(read.speed.mean, 67.0 * MIB);
    let ends = read.ends.unwrap();
    close(ends.first, 115.0 * MIB);
    close(ends.last, 19.8 * MIB);
    let by_fill = figures.read_by_fill.correlation().unwrap();
    close(by_fill.slope, -106.0 / 60.0 * MIB);
    assert_eq!(by_fill.trend, Trend::Falling, "{by_fill:?}");
    assert!(by_fill.n <= 480 && figures.curve.len() == by_fill.n);
    close(figures.fill_by_time.unwrap(), 1.0);
    assert_eq!(
        figures.read_by_first_writes.correlation().unwrap().trend,
        Trend::Unclear,
        "those were steady"
    );
}

#[test]
fn the_write_cost_includes_copies() {
    let figures = slow_figures();
    let fill = figures.fill.unwrap();
    assert_eq!(
        (fill.peak_percent, fill.peak_bytes),
        (60.0, Some(600 << 20))
    );
    close(figures.copied.write_cost.unwrap(), 2.9);
    close(figures.copied.cow_bytes.unwrap(), 2000.0 * 1.9 * MIB);
    close(
        figures.copied.chunks_per_s.unwrap(),
        1.6 * MIB / (64.0 * KIB),
    );
}

#[test]
fn production_is_measured_before_during_and_after() {
    let origin = Figures::of(&slowing(600), &setup()).origin;
    let awaits =
        [origin.before, origin.during, origin.after].map(|work| work.write_await_ms.unwrap());
    assert!(
        awaits[0] < 2.01 && awaits[1] > 8.99 && awaits[2] < 2.01,
        "{awaits:?}"
    );
    close(origin.during.write_request_bytes.unwrap(), 16.0 * KIB);
}

#[test]
fn pvs_have_the_volumes_that_they_carry() {
    let figures = slow_figures();
    let [sda, sdb] = &figures.pvs[..] else {
        panic!("{:?}", figures.pvs)
    };
    assert_eq!(
        (sda.carries_origin, sda.carries_cow, sdb.carries_cow),
        (Some(true), Some(true), Some(false))
    );
    close(sda.utilisation.unwrap(), 0.98);
    let sizes = sda.read_request_bytes.unwrap();
    assert!(
        sizes.first > 480.0 * KIB && sizes.last < 50.0 * KIB,
        "{sizes:?}"
    );
    assert_eq!((sdb.read_bytes_per_s, sdb.read_request_bytes), (None, None));
}

#[test]
fn means_are_per_request() {
    let n = 10;
    let pair = |a: f64, b: f64| {
        (0..n)
            .map(|index| Some(if index % 2 == 0 { a } else { b }))
            .collect::<Vec<_>>()
    };
    let span = TickColumns::new(ticks(n, 0.0))
        .and_then(|span| span.with(JobMeasure::OriginWrites, pair(1.0, 99.0)))
        .and_then(|span| span.with(JobMeasure::OriginWriteAwaitMs, pair(100.0, 1.0)))
        .and_then(|span| span.with_pv("sda", PvMeasure::Read, steady(n, KIB)))
        .unwrap();
    let figures = Figures::of(&only(span), &Setup::default());
    close(figures.origin.during.write_await_ms.unwrap(), 1.99);
    assert_eq!(
        figures.pvs[0].read_request_bytes, None,
        "their sizes are not known"
    );
}

#[test]
fn waiting_before_and_after_reading_does_not_slow_it() {
    let mut speeds = vec![Some(0.0); 300];
    speeds.extend(slope(100, 50.0 * MIB, 50.0 * MIB));
    speeds.extend(vec![Some(0.0); 600]);
    let read = reading(speeds).read.unwrap();
    close(read.speed.mean, 50.0 * MIB);
    assert!(read.seconds >= 98.0 && read.seconds <= 100.0, "{read:?}");
}

#[test]
fn an_empty_course_has_no_figures() {
    let figures = Figures::of(
        &only(TickColumns::new(Vec::new()).unwrap()),
        &Setup::default(),
    );
    assert_eq!(
        (
            figures.seconds,
            figures.read,
            figures.fill,
            figures.curve.len()
        ),
        (None, None, None, 0)
    );
    assert_eq!(figures.read_by_fill, Relation::TooFew { n: 0 });
    assert_eq!(figures.origin.during, OriginWork::default());
}

#[test]
fn unobserved_values_are_unknown_and_not_zero() {
    let figures = reading(vec![None; 500]);
    assert_eq!((figures.seconds, figures.read), (Some(500.0), None));
    assert_eq!(
        (figures.bi, figures.copied.write_cost, figures.host.user),
        (None, None, None)
    );
    assert_eq!(reading(vec![Some(0.0); 500]).read, None, "nothing was read");
}

#[test]
fn one_tick_has_a_speed_but_no_ends() {
    let figures = reading(vec![Some(5.0)]);
    let read = figures.read.unwrap();
    assert_eq!((read.speed.median, read.bytes, read.ends), (5.0, 5.0, None));
    assert_eq!(figures.read_by_fill, Relation::TooFew { n: 0 });
}

#[test]
fn a_few_points_of_fill_show_no_slope() {
    for (last, is_known) in [(3.0, false), (12.0, true)] {
        let span = TickColumns::new(ticks(180, 0.0)).unwrap();
        let span = span.with(JobMeasure::SnapshotRead, slope(180, 20.0 * MIB, 14.0 * MIB));
        let span = span.unwrap();
        let span = span.with(JobMeasure::FillPercent, straight(180, 0.0, last));
        let figures = Figures::of(&only(span.unwrap()), &Setup::default());
        let found = figures.read_by_fill;
        assert_eq!(found.correlation().is_some(), is_known, "{found:?}");
        assert_eq!(found == Relation::Narrow { n: 180 }, !is_known, "{found:?}");
    }
}

#[test]
fn gaps_are_reported_and_not_filled() {
    let mut speeds = steady(100, MIB);
    speeds[20..60].fill(None);
    let read = reading(speeds).read.unwrap();
    assert_eq!(read.known_share, 0.6);
    close(read.speed.mean, MIB);
    close(read.bytes, 60.0 * MIB);
}

#[test]
fn a_constant_fill_has_no_correlation() {
    let n = 500;
    let span = TickColumns::new(ticks(n, 0.0))
        .and_then(|span| span.with(JobMeasure::SnapshotRead, slope(n, MIB, MIB)))
        .and_then(|span| span.with(JobMeasure::FillPercent, steady(n, 3.0)))
        .unwrap();
    let figures = Figures::of(&only(span), &Setup::default());
    assert!(
        matches!(figures.read_by_fill, Relation::Unvaried { .. }),
        "{:?}",
        figures.read_by_fill
    );
    assert_eq!(
        (figures.fill_by_time, figures.fill.unwrap().peak_bytes),
        (None, None)
    );
}

#[test]
fn figures_survive_json() {
    let figures = Figures::of(&slowing(100), &setup());
    let read: Figures = serde_json::from_str(&serde_json::to_string(&figures).unwrap()).unwrap();
    assert_eq!(
        (read.curve.len(), read.fill, read.bi),
        (figures.curve.len(), figures.fill, None)
    );
    close(
        read.read_by_fill.correlation().unwrap().slope,
        figures.read_by_fill.correlation().unwrap().slope,
    );
}

#[test]
fn the_schema_lists_the_kinds_of_relations() {
    let schema = serde_json::to_string(&<Relation as utoipa::PartialSchema>::schema()).unwrap();
    for word in ["says", "too_few", "unvaried", "known"] {
        assert!(schema.contains(word), "{word}: {schema}");
    }
}

/// What a reader may hand over: nothing, a count, and numbers that no machine says.
fn any_column(n: usize) -> impl Strategy<Value = Vec<Option<f64>>> {
    let value = prop_oneof![
        Just(None),
        (0.0..1e9).prop_map(Some),
        Just(Some(0.0)),
        any::<f64>().prop_map(Some)
    ];
    prop::collection::vec(value, n)
}

fn any_time_series() -> impl Strategy<Value = JobTimeSeries> {
    let columns =
        |n: usize| prop::collection::vec(any_column(n), MEASURES.len() + PV_MEASURES.len());
    let span = |columns: Vec<Vec<Option<f64>>>| {
        let mut span = TickColumns::new(ticks(columns[0].len(), 0.0)).unwrap();
        let mut columns = columns.into_iter();
        for measure in MEASURES {
            span = span.with(measure, columns.next().unwrap()).unwrap();
        }
        for measure in PV_MEASURES {
            span = span
                .with_pv("sda", measure, columns.next().unwrap())
                .unwrap();
        }
        span
    };
    (0_usize..60)
        .prop_flat_map(columns)
        .prop_map(span)
        .prop_map(only)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// JSON has no word for what is not a number: a figure that were one would not be read back.
    #[test]
    fn figures_are_always_finite(time_series in any_time_series()) {
        let text = serde_json::to_string(&Figures::of(&time_series, &setup())).unwrap();
        prop_assert!(serde_json::from_str::<Figures>(&text).is_ok(), "{}", text);
    }
}

#[test]
fn the_duration_of_an_ended_job_is_not_rounded_to_ticks() {
    let time_series = JobTimeSeries {
        took_s: Some(9.7),
        ..only(TickColumns::new(Vec::new()).unwrap())
    };
    assert_eq!(
        Figures::of(&time_series, &Setup::default()).seconds,
        Some(9.7)
    );
}
