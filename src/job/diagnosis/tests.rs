//! Each sentence where its numbers carry it, and silence where they do not.

use super::*;
use crate::job::figures::OriginWork;
use crate::job::tests::example::{MIB, setup, slow_figures, slowing};

fn example() -> Figures {
    slow_figures().clone()
}

fn texts(figures: &Figures, finding: Finding) -> Vec<String> {
    let sentences = diagnosis(figures, &setup()).into_iter();
    sentences
        .filter(|sentence| sentence.finding == finding)
        .map(|sentence| sentence.text)
        .collect()
}

fn check(figures: &Figures, finding: Finding, expected: &str) {
    assert_eq!(texts(figures, finding), [expected]);
}

fn relation(slope: f64, rank: f64, trend: Trend) -> Relation {
    Relation::Correlation(Correlation {
        n: 480,
        slope,
        intercept: 0.0,
        explained: 0.5,
        rank,
        independent: 60.0,
        trend,
    })
}

#[test]
fn a_slow_backup_is_explained() {
    let texts: Vec<String> = diagnosis(&example(), &setup())
        .into_iter()
        .map(|sentence| sentence.text)
        .collect();
    assert_eq!(
        texts[0],
        "Reads slowed from 114 MiB/s to 19.7 MiB/s as the snapshot filled from 3 to 57 %."
    );
    assert!(texts[1].starts_with("Reads were 1.7"));
    assert!(
        texts[1].ends_with("so anything else that changed over time may be the cause."),
        "{}",
        texts[1]
    );
    assert_eq!(
        texts[2..],
        [
            "The mean read request on sda fell from 487 KiB to 39.8 KiB.",
            "Each byte written to the origin cost 2.9 bytes on disk, because old data was copied.",
            "The COW area and the origin are both on PV sda. It was busy 98 % of the time.",
            "A write to the origin took 2.00 ms before the snapshot, 9.00 ms with it, and 2.00 ms after it.",
            "At least one process waited for I/O 70 % of the time.",
        ]
    );
}

#[test]
fn times_are_compared_only_for_requests_of_one_size() {
    let mut figures = example();
    let same = EndMeans {
        first: 40960.0,
        last: 38000.0,
    };
    figures.pvs[0].read_request_bytes = Some(same);
    check(
        &figures,
        Finding::AwaitsGrew,
        "A read on sda took 2.50 ms at the beginning and 11.5 ms at the end.",
    );
    figures.origin.before.write_request_bytes = Some(59.0 * 1024.0);
    figures.origin.during.write_request_bytes = Some(4096.0);
    assert_eq!(texts(&figures, Finding::WritesTookLonger).len(), 0);
}

#[test]
fn without_figures_only_missing_reads_are_reported() {
    let span = crate::job::time_series::TickColumns::new(Vec::new()).unwrap();
    let time_series = crate::job::time_series::JobTimeSeries {
        before: None,
        during: span,
        after: None,
        took_s: None,
    };
    let found = diagnosis(
        &Figures::of(&time_series, &Setup::default()),
        &Setup::default(),
    );
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].text, "No reads were observed.");
}

#[test]
fn the_fill_is_omitted_without_a_correlation() {
    let mut figures = example();
    figures.read_by_fill = relation(-1e6, -0.1, Trend::Unclear);
    check(
        &figures,
        Finding::ReadsSlowed,
        "Reads slowed from 114 MiB/s to 19.7 MiB/s.",
    );
    check(
        &figures,
        Finding::ReadsDidNotGoWithFill,
        "Read speed shows no relation to fill (480 points).",
    );
}

#[test]
fn too_few_points_are_reported() {
    let figures = Figures::of(&slowing(12), &setup());
    check(
        &figures,
        Finding::TooFewPoints,
        "Too few points (12) to say whether read speed depended on fill.",
    );
    assert_eq!(texts(&figures, Finding::ReadsWentWithFill).len(), 0);
}

#[test]
fn several_snapshots_explain_unknown_first_writes() {
    let mut figures = example();
    figures.copied.first_writes = None;
    let of = |snapshots| {
        let setup = Setup {
            snapshots: Some(snapshots),
            ..setup()
        };
        diagnosis(&figures, &setup)
            .into_iter()
            .map(|sentence| sentence.text)
            .collect::<Vec<_>>()
    };
    let expected = "The origin had 2 snapshots. The kernel does not count copies by snapshot, so first writes and \
                copied chunks are unknown. COW writes and write cost are of this snapshot alone.";
    assert!(of(2).iter().any(|text| text == expected), "{:?}", of(2));
    assert!(!of(1).iter().any(|text| text.contains("The origin had")));
}

#[test]
fn steady_reads_are_reported() {
    let mut figures = example();
    let read = figures.read.as_mut().unwrap();
    read.ends = Some(EndMeans {
        first: 118.0 * MIB,
        last: 112.0 * MIB,
    });
    read.speed.mean = 115.0 * MIB;
    check(
        &figures,
        Finding::ReadsKeptTheirSpeed,
        "Read speed stayed the same: 118 MiB/s at the beginning, 112 MiB/s at the end.",
    );
    figures.read.as_mut().unwrap().speed.mean = 300.0 * MIB;
    check(
        &figures,
        Finding::ReadsVaried,
        "Read speed varied: 118 MiB/s at the beginning, 112 MiB/s at the end, 300 MiB/s on average.",
    );
    figures.read.as_mut().unwrap().ends = Some(EndMeans {
        first: 118.0 * MIB,
        last: 90.0 * MIB,
    });
    let kept = [
        Finding::ReadsKeptTheirSpeed,
        Finding::ReadsSlowed,
        Finding::ReadsQuickened,
    ];
    assert!(
        kept.iter()
            .all(|finding| texts(&figures, *finding).is_empty()),
        "neither the same nor a change"
    );
}

#[test]
fn first_writes_that_slow_reads_are_reported() {
    let mut figures = example();
    figures.read_by_first_writes = relation(-4.2, -0.8, Trend::Falling);
    check(
        &figures,
        Finding::ReadsWentWithFirstWrites,
        "Reads were slower when there were more first writes. For each byte first written, 4.2 bytes less were read (\
         480 points).",
    );
}

#[test]
fn a_busy_compressor_is_no_slow_disk() {
    let mut figures = example();
    (figures.host.user, figures.host.pressure_io) = (Some(0.24), Some(0.1));
    assert!(
        texts(&figures, Finding::ProcessorsWereTheLimit).is_empty(),
        "sda is busy"
    );
    figures.pvs[0].utilisation = Some(0.2);
    check(
        &figures,
        Finding::ProcessorsWereTheLimit,
        "1.2 processors were busy, but the busiest PV only 20 % of the time. The limit was probably computation, such \
         as compression, and not a disk.",
    );
    figures.host.pressure_io = Some(0.7);
    assert!(
        texts(&figures, Finding::ProcessorsWereTheLimit).is_empty(),
        "a disk that is no PV may have been"
    );
    figures.host.pressure_io = None;
    figures.pvs[1].utilisation = None;
    assert!(
        texts(&figures, Finding::ProcessorsWereTheLimit).is_empty(),
        "sdb may have been busy"
    );
}

#[test]
fn a_busy_pv_is_shared_only_if_known() {
    let mut figures = example();
    figures.pvs[0].carries_cow = None;
    assert!(texts(&figures, Finding::SharedPvBusy).is_empty());
    check(
        &figures,
        Finding::PvBusy,
        "PV sda was busy 98 % of the time.",
    );
}

#[test]
fn without_a_time_before_production_is_not_compared() {
    let mut figures = example();
    figures.origin.before = OriginWork::default();
    assert!(texts(&figures, Finding::WritesTookLonger).is_empty());
}

#[test]
fn fewer_production_writes_are_reported_with_rates() {
    let mut figures = example();
    figures.origin.during.written_bytes_per_s = Some(0.4 * MIB);
    check(
        &figures,
        Finding::WritesFell,
        "Writes to the origin ran at 1.00 MiB/s before the snapshot, 410 KiB/s with it, and 1.00 MiB/s after it.",
    );
    figures.origin.during.written_bytes_per_s = Some(0.8 * MIB);
    assert!(texts(&figures, Finding::WritesFell).is_empty());
}

#[test]
fn gaps_are_reported_first() {
    let mut figures = example();
    figures.read.as_mut().unwrap().known_share = 0.62;
    let first = diagnosis(&figures, &setup()).remove(0);
    assert_eq!(
        first.text,
        "The read speed is known for 62 % of the time. The figures below cover only that time."
    );
}
