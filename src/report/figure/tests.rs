//! The names and values of figures, and the tables of phases.

use super::*;
use crate::job::setup::Setup;
use crate::job::tests::example::{MEASURES, PV_MEASURES};
use crate::job::time_series::{JobTick, JobTimeSeries, TickColumns};
use crate::table::Style;

fn time_series() -> JobTimeSeries {
    let ticks = (1..=40)
        .map(|second| JobTick {
            end_s: f64::from(second),
            seconds: 1.0,
        })
        .collect();
    let mut span = TickColumns::new(ticks).unwrap();
    for measure in MEASURES {
        span = span
            .with(
                measure,
                (0..40).map(|value| Some(f64::from(value))).collect(),
            )
            .unwrap();
    }
    for measure in PV_MEASURES {
        span = span.with_pv("sda", measure, vec![Some(0.5); 40]).unwrap();
    }
    JobTimeSeries {
        before: Some(span.clone()),
        after: Some(span.clone()),
        during: span,
        took_s: None,
    }
}

#[test]
fn every_figure_has_a_unique_name_and_a_value() {
    let setup = Setup {
        chunk_bytes: Some(4096),
        cow_bytes: Some(1 << 30),
        peak_bytes: Some(1 << 29),
        ..Setup::default()
    };
    let list = figures(&Figures::of(&time_series(), &setup));
    let unknown: Vec<&Figure> = list
        .iter()
        .filter(|figure| figure.value.is_none())
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let mut names: Vec<&str> = list.iter().map(|figure| &*figure.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), list.len());
}

#[test]
fn figures_are_shown_in_their_units() {
    for (unit, value, text) in [
        (FigureUnit::Rate, 120e6, "114 MiB/s"),
        (FigureUnit::Bytes, 16384.0, "16.0 KiB"),
        (FigureUnit::Share, 0.984, "98.4 %"),
        (FigureUnit::Ms, 9.0, "9.00 ms"),
        (FigureUnit::Seconds, 39_600.0, "11 h 00 min"),
        (FigureUnit::Seconds, 1.2345, "1.23 s"),
    ] {
        assert_eq!(unit.text(value), text);
    }
}

const MIB: f64 = 1024.0 * 1024.0;

fn phase(name: &str, began_s: f64, busy: Option<f64>) -> PhaseWork {
    let pv = |name: &str, share: f64| PhasePv {
        name: name.into(),
        utilisation: busy.map(|busy| busy * share),
        read_bytes_per_s: busy.map(|_| 0.0),
        written_bytes_per_s: busy.map(|busy| busy * share * 6.0 * MIB),
    };
    PhaseWork {
        name: name.into(),
        began_s,
        seconds: Some(8.0),
        seen_seconds: busy.map_or(0.0, |_| 8.0),
        read_bytes: busy.map(|_| 0.0),
        read_bytes_per_s: busy.map(|_| 0.0),
        written_bytes: busy.map(|busy| busy * 48.0 * MIB),
        written_bytes_per_s: busy.map(|busy| busy * 6.0 * MIB),
        pvs: vec![pv("sda", 1.0), pv("sdb", 0.0)],
    }
}

#[test]
fn phases_are_rows_of_tables() {
    let phases = [
        phase("writing", 0.5, Some(1.0)),
        phase("se|ek\u{1b}ing", 3_700.0, None),
    ];
    let written = phase_tables(&phases)
        .into_iter()
        .map(|table| table.write(Style::Plain));
    assert_eq!(
        written.collect::<Vec<_>>(),
        [
            "Phase           Began    Took  Read  Read speed   Written  Write speed\n\
             writing        0.50 s  8.00 s   0 B       0 B/s  48.0 MiB   6.00 MiB/s\n\
             se|ek ing  1 h 01 min  8.00 s     -           -         -            -\n",
            "Phase, busy PVs                sda         sdb\n\
             writing          100 %, 6.00 MiB/s  0 %, 0 B/s\n\
             se|ek ing                        -           -\n",
        ]
    );
    assert!(phase_tables(&[]).is_empty());
}

#[test]
fn figures_have_the_name_of_their_phase() {
    let phases = [
        phase("writing", 0.0, Some(0.5)),
        phase("writing", 8.0, None),
        phase("idle", 16.0, None),
    ];
    let of = shared_phases([&phases[..], &phases[..2]]);
    assert_eq!(of, ["writing", "writing (2)"]);
    let found: Vec<_> = phase_figures(&phases, &of)
        .into_iter()
        .map(|figure| (figure.name, figure.value))
        .collect();
    let expected = [
        ("writing: duration", Some(8.0)),
        ("writing: read speed mean", Some(0.0)),
        ("writing: write speed mean", Some(3.0 * MIB)),
        ("writing: sda busy", Some(0.5)),
        ("writing: sdb busy", Some(0.0)),
        ("writing (2): duration", Some(8.0)),
        ("writing (2): read speed mean", None),
        ("writing (2): write speed mean", None),
        ("writing (2): sda busy", None),
        ("writing (2): sdb busy", None),
    ];
    assert_eq!(
        found,
        expected.map(|(name, value)| (name.to_string(), value))
    );
}

#[test]
fn names_of_phases_are_unique() {
    let phases = ["a", "a (2)", "b", "a", "a"].map(|name| phase(name, 0.0, None));
    assert_eq!(
        shared_phases([&phases[..]]),
        ["a", "a (2)", "b", "a (3)", "a (4)"]
    );
}

#[test]
fn shared_phases_are_those_of_all_jobs() {
    let of = |names: &[&str]| {
        names
            .iter()
            .map(|name| phase(name, 0.0, None))
            .collect::<Vec<_>>()
    };
    let (one, other) = (of(&["a", "b", "c"]), of(&["c", "d", "b"]));
    assert_eq!(shared_phases([&one[..], &other[..]]), ["b", "c"]);
    assert!(shared_phases([&one[..], &[][..]]).is_empty() && shared_phases([]).is_empty());
}
