//! Backups that run, and what is to be expected of them.

use super::*;
use crate::job::remaining::PastRuns;
use crate::job::tests::example::Normal;
use crate::job::{Job, JobKind};

const MB: u64 = 1_000_000;

fn paces(n: usize, read_mb: f64, growth_mb: f64) -> Vec<Rates> {
    let wave = |index: usize| 1.0 + 0.2 * (index as f64 * 2.4).sin();
    let pace = |index| Rates {
        read_bytes_per_s: read_mb * wave(index) * 1e6,
        growth_bytes_per_s: Some(growth_mb * wave(index + 7) * 1e6),
        seconds: 1.0,
    };
    (0..n).map(pace).collect()
}

/// Of a backup that has so much to read, and has read nothing.
fn left(bytes: u64) -> RemainingReads {
    let mut job = Job::new(1, JobKind::Snapshot, "key", "snap", jiff::Timestamp::UNIX_EPOCH);
    (job.bytes_read, job.setup.file_system_bytes) = (Some(0), Some(bytes));
    RemainingReads::of(&job, &PastRuns::default())
}

fn room(free_bytes: u64) -> Option<Room> {
    Some(Room { name: "snapshot vg0/snap".into(), is_pool: false, free_bytes })
}

fn known(left_mb: u64, free_mb: u64, recent: &[Rates]) -> Outlook {
    let found = outlook(left(left_mb * MB), room(free_mb * MB), recent);
    assert_ne!(found.verdict, OutlookVerdict::TooEarly);
    found
}

#[test]
fn a_backup_with_room_will_be_done_first() {
    let found = known(60_000, 10_000, &paces(300, 100.0, 2.0));
    assert_eq!(found.verdict, OutlookVerdict::DoneFirst);
    let done = found.done.unwrap();
    assert!((590.0..=610.0).contains(&done.likely_s), "{done:?}");
    assert!(done.soonest_s <= done.likely_s && done.likely_s <= done.latest_s.unwrap());
    assert!(
        found.text.ends_with("if both go on as in the last 5 min 00 s, the backup will be done first."),
        "{}",
        found.text
    );
}

#[test]
fn a_snapshot_that_fills_sooner_will_overflow_first() {
    let found = known(600_000, 1_000, &paces(300, 100.0, 2.0));
    assert_eq!(found.verdict, OutlookVerdict::FullFirst);
    assert!(found.text.contains("will overflow first, and the backup will be lost: make it larger now"));
}

#[test]
fn a_close_race_is_open() {
    assert_eq!(known(60_000, 1_200, &paces(300, 100.0, 2.0)).verdict, OutlookVerdict::Open);
}

#[test]
fn a_snapshot_that_does_not_fill_cannot_overflow() {
    let found = known(60_000, 1_000, &paces(300, 100.0, 0.0));
    assert_eq!((found.verdict, found.full), (OutlookVerdict::DoneFirst, None));
    assert!(found.text.contains("snapshot vg0/snap does not fill"), "{}", found.text);
}

#[test]
fn without_io_there_is_no_forecast() {
    let found = known(60_000, 1_000, &paces(300, 0.0, 0.0));
    assert_eq!((found.verdict, found.done, found.full), (OutlookVerdict::Open, None, None));
    assert_eq!(found.text, "Nothing is being read, and snapshot vg0/snap does not fill.");
}

#[test]
fn nothing_left_is_done_and_no_space_is_full() {
    assert_eq!(known(0, 1_000, &paces(300, 1.0, 1.0)).done.unwrap().likely_s, 0.0);
    assert_eq!(known(1_000, 0, &paces(300, 1.0, 1.0)).verdict, OutlookVerdict::FullFirst);
}

#[test]
fn less_than_a_minute_is_too_early() {
    for (ticks, verdict) in
        [(60, OutlookVerdict::DoneFirst), (59, OutlookVerdict::TooEarly), (0, OutlookVerdict::TooEarly)]
    {
        let found = outlook(left(MB), room(100 * MB), &paces(ticks, 1.0, 1.0));
        assert_eq!((found.verdict, found.ticks), (verdict, ticks));
        assert_eq!(found.done.is_some(), verdict != OutlookVerdict::TooEarly);
    }
    let found = outlook(left(MB), room(MB), &paces(12, 1.0, 1.0));
    assert!(found.text.ends_with("its speeds are known for 12 ticks of the 60 needed."), "{}", found.text);
}

#[test]
fn unknown_parts_are_omitted() {
    let recent = paces(300, 100.0, 2.0);
    let mut unknown = left(0);
    (unknown.left_bytes, unknown.may_be) = (None, Vec::new());
    let found = outlook(unknown, room(1_200 * MB), &recent);
    assert_eq!((found.verdict, found.done), (OutlookVerdict::Open, None));
    assert!(
        found.text.starts_with("The time of completion is unknown, and snapshot vg0/snap is full in 10 min")
    );
    assert!(found.text.ends_with("), if it goes on as in the last 5 min 00 s."), "{}", found.text);
    let unseen: Vec<Rates> = recent.iter().map(|pace| Rates { growth_bytes_per_s: None, ..*pace }).collect();
    let found = outlook(left(60_000 * MB), None, &unseen);
    assert_eq!((found.verdict, found.full, found.overflows), (OutlookVerdict::Open, None, None));
    assert!(
        found.text.ends_with("), if it goes on as in the last 5 min 00 s; the snapshot's usage is unknown."),
        "{}",
        found.text
    );
    let found = outlook(left(60_000 * MB), room(MB), &unseen);
    assert_eq!(
        (found.verdict, found.ticks),
        (OutlookVerdict::TooEarly, 0),
        "growth that was not seen is not none"
    );
}

#[test]
fn a_backup_that_stopped_reading_is_not_almost_done() {
    let mut recent = paces(300, 100.0, 2.0);
    recent.extend(paces(60, 0.0, 2.0));
    let found = known(60_000, 10_000, &recent);
    assert_eq!((found.verdict, found.done), (OutlookVerdict::FullFirst, None));
    assert!(
        found.text.starts_with("Nothing is being read, and snapshot vg0/snap is full in "),
        "{}",
        found.text
    );
}

#[test]
fn ticks_before_the_first_read_do_not_count() {
    let mut recent = paces(90, 0.0, 9.0);
    recent.extend(paces(90, 100.0, 2.0));
    let found = known(60_000, 10_000, &recent);
    assert_eq!((found.verdict, found.ticks), (OutlookVerdict::DoneFirst, 90));
    assert!((590.0..=610.0).contains(&found.done.unwrap().likely_s), "{found:?}");
}

#[test]
fn after_a_lasting_change_only_new_speeds_count() {
    let mut recent = paces(200, 100.0, 0.1);
    recent.extend(paces(120, 20.0, 2.0));
    let found = known(60_000, 10_000, &recent);
    assert!(found.seen_s.unwrap() <= 135.0, "{found:?}");
    assert!((2_700.0..=3_300.0).contains(&found.done.unwrap().likely_s), "{found:?}");
    // While they rise or fall throughout, it is too early.
    let falling =
        |tick: usize| Rates { read_bytes_per_s: 1e8 / (1.0 + tick as f64), ..paces(1, 1.0, 2.0)[0] };
    let found = outlook(left(60_000 * MB), room(10_000 * MB), &(0..300).map(falling).collect::<Vec<_>>());
    assert_eq!(found.verdict, OutlookVerdict::TooEarly);
    assert!(found.text.ends_with("its speeds rise or fall throughout."), "{}", found.text);
}

#[test]
fn different_earlier_runs_widen_the_range() {
    let spread = |totals: &[u64]| {
        let mut job = Job::new(1, JobKind::Snapshot, "key", "snap", jiff::Timestamp::UNIX_EPOCH);
        job.bytes_read = Some(0);
        let totals = totals.iter().map(|mb| mb * MB).collect();
        let left = RemainingReads::of(&job, &PastRuns { totals, is_unreported: false });
        let done = outlook(left, room(100_000 * MB), &paces(300, 100.0, 2.0)).done.unwrap();
        assert!((590.0..=610.0).contains(&done.likely_s), "{done:?}");
        done.latest_s.unwrap() - done.soonest_s
    };
    assert!(spread(&[40_000, 60_000, 80_000]) > spread(&[60_000]) + 300.0);
}

/// Seconds until so many bytes are read at these speeds of a second each.
fn seconds_of(mut left: f64, speeds: impl IntoIterator<Item = f64>) -> f64 {
    let whole = speeds.into_iter().take_while(|speed| {
        left -= speed;
        left > 0.0
    });
    whole.count() as f64
}

#[test]
fn the_90_percent_range_holds_8_or_9_times_in_10() {
    let mut normal = Normal::default();
    let mut comes = || {
        let waves = normal.alike(1500, 0.6).into_iter().map(|wave| (100.0 + 24.0 * wave).max(0.0) * 1e6);
        let reads: Vec<f64> = waves.collect();
        let pace =
            |read: &f64| Rates { read_bytes_per_s: *read, growth_bytes_per_s: Some(0.0), seconds: 1.0 };
        let recent: Vec<Rates> = reads[..300].iter().map(pace).collect();
        let found = outlook(left(50_000 * MB), room(MB), &recent);
        let (done, came_s) = (found.done?, seconds_of(50e9, reads[300..].iter().copied()));
        Some(done.soonest_s - 1.0 <= came_s && came_s <= done.latest_s?)
    };
    let came: Vec<bool> = (0..100).filter_map(|_| comes()).collect();
    let share = came.iter().filter(|came| **came).count() as f64 / came.len() as f64;
    assert!(came.len() > 80 && (0.8..=0.97).contains(&share), "{share} of {}", came.len());
}

#[test]
fn longer_windows_even_out_the_speeds() {
    let spread = |left_mb| {
        let done = known(left_mb, 1_000_000, &paces(60, 100.0, 1.0)).done.unwrap();
        (done.latest_s.unwrap() - done.soonest_s) / done.likely_s
    };
    assert!(spread(500) > spread(500_000), "{} {}", spread(500), spread(500_000));
}
