//! Rows of a store into a time series.

use super::*;
use crate::job::setup::SnapshotKind;
use crate::job::time_series::JobMeasure;

const START_MS: i64 = 1_772_330_400_000;

/// Ticks of a second, the first one ending so many seconds after the job's start; each column the same in all of them.
fn every(
    sources: &Sources,
    ticks: std::ops::Range<i64>,
    value: impl Fn(&Slot, i64) -> Option<f64>,
) -> TickTable {
    let column = |slot: &Slot| Some(ticks.clone().map(|second| value(slot, second)).collect());
    TickTable {
        ends_ms: ticks
            .clone()
            .map(|second| START_MS + second * 1000)
            .collect(),
        elapsed_us: ticks.clone().map(|_| 1_000_000).collect(),
        columns: sources.slots.iter().map(column).collect(),
    }
}

fn job(seconds: i64) -> (Job, Timestamp) {
    let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap();
    let mut job = Job::new(1, JobKind::Snapshot, "uuid", "backup", at(START_MS));
    (job.vg, job.origin) = (Some("vg0".into()), Some("data".into()));
    job.ended_at = Some(at(START_MS + seconds * 1000));
    (job, at(START_MS + 10_000_000))
}

fn sources(job: &Job, snapshots: u32) -> Sources {
    let setup = Setup {
        kind: Some(SnapshotKind::Thick),
        snapshots: Some(snapshots),
        ..Setup::default()
    };
    let pvs = [("sda".to_string(), Subject::Device("S1".into()))];
    Sources::of(job, &setup, &pvs, |volume| Some(format!("LVM-{volume}")))
}

fn usual(slot: &Slot, second: i64) -> Option<f64> {
    Some(match slot {
        Slot::JobMeasure(JobMeasure::SnapshotRead) => 100.0,
        Slot::JobMeasure(JobMeasure::OriginRead) => 10.0,
        Slot::CowRead => 30.0,
        // Every other second the copier's read is counted late.
        Slot::RealRead => 80.0 + if second % 2 == 0 { 40.0 } else { -20.0 },
        Slot::CowWritten => 25.0,
        Slot::IntoSnapshot => 5.0,
        _ => 1.0,
    })
}

#[test]
fn a_course_has_equal_times_before_and_after() {
    let (job, now) = job(60);
    let times = JobTimes::of(&job, now);
    assert_eq!(times.range().seconds(), 180.0);
    let sources = sources(&job, 1);
    let time_series = sources
        .time_series(&every(&sources, -59..121, usual), times)
        .unwrap();
    let lengths = [
        time_series.before.unwrap(),
        time_series.during,
        time_series.after.unwrap(),
    ]
    .map(|span| span.whole().len());
    assert_eq!(lengths, [60, 60, 60]);
}

#[test]
fn a_long_job_has_ten_minutes_around_it() {
    let (job, now) = job(7200);
    assert_eq!(
        JobTimes::of(&job, now).range().seconds(),
        7200.0 + 2.0 * MOST_AROUND_S
    );
}

#[test]
fn late_counts_are_carried_to_the_next_tick() {
    let (job, now) = job(60);
    let sources = sources(&job, 1);
    let time_series = sources
        .time_series(&every(&sources, 1..61, usual), JobTimes::of(&job, now))
        .unwrap();
    let whole = time_series.during.whole();
    // 90 of 120 below the origin in the mean, less 10 by the origin and 70 through the snapshot.
    assert_eq!(whole.amount(JobMeasure::Copied), Some(600.0));
    assert_eq!(whole.mean(JobMeasure::CowWritten), Some(20.0));
}

#[test]
fn with_several_snapshots_copies_are_unknown() {
    let (job, now) = job(60);
    let sources = sources(&job, 2);
    let time_series = sources
        .time_series(&every(&sources, 1..61, usual), JobTimes::of(&job, now))
        .unwrap();
    assert_eq!(time_series.during.whole().mean(JobMeasure::Copied), None);
    assert_eq!(
        time_series.during.whole().mean(JobMeasure::CowWritten),
        Some(20.0)
    );
}

#[test]
fn copies_are_unknown_if_one_layer_is() {
    let (job, now) = job(60);
    let sources = sources(&job, 1);
    let unread = |slot: &Slot, second: i64| usual(slot, second).filter(|_| *slot != Slot::CowRead);
    let time_series = sources
        .time_series(&every(&sources, 1..61, unread), JobTimes::of(&job, now))
        .unwrap();
    assert_eq!(time_series.during.whole().mean(JobMeasure::Copied), None);
    assert_eq!(
        time_series.during.whole().mean(JobMeasure::SnapshotRead),
        Some(100.0)
    );
}

#[test]
fn a_timeline_is_short_and_keeps_peaks() {
    let ticks = (1..=2_000)
        .map(|second| JobTick {
            end_s: f64::from(second),
            seconds: 1.0,
        })
        .collect();
    let mut fills = vec![Some(5.0); 2_000];
    fills[777] = Some(90.0);
    fills[..8].fill(None);
    let during = TickColumns::new(ticks)
        .unwrap()
        .with(JobMeasure::FillPercent, fills)
        .unwrap();
    let timeline = Timeline::of(&JobTimeSeries {
        before: None,
        during,
        after: None,
        took_s: None,
    });
    assert_eq!((timeline.points.len(), timeline.seconds), (250, 2_000.0));
    assert_eq!(
        timeline
            .points
            .iter()
            .filter_map(|point| point.fill_percent)
            .fold(0.0, f64::max),
        90.0
    );
    assert_eq!(
        (timeline.points[0].fill_percent, timeline.points[0].read),
        (None, None)
    );
    assert!(timeline.has(|point| point.fill_percent) && !timeline.has(|point| point.written));
}
