//! Sizes from runs and from measured areas.

use std::ops::Range;
use std::sync::Arc;

use super::needs::LEAST_WINDOWS;
use super::*;
use crate::advice::never_overflows;
use crate::job::growth::{AGES_MIN, FinishedSnapshot, Growth, StoredNeed};
use crate::sample::diskstats::Number;
use crate::table::Style;
use crate::units::Sectors;
use cowbell_touched::label::{Probe, Role};
use cowbell_touched::text::{AreaWrites, Region, Written};
use jiff::Timestamp;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_772_330_400 + 60 * minute).unwrap()
}

/// A list of a single range.
fn only(areas: Range<usize>) -> Vec<Range<usize>> {
    vec![areas]
}

fn counts(areas: &Areas, bytes: u64) -> Vec<u64> {
    areas
        .curve(at(0))
        .chunks
        .into_iter()
        .find(|of| of.bytes == bytes)
        .unwrap()
        .counts
}

/// The same as counting the distinct areas of the last minutes, for each age.
#[test]
fn all_ages_follow_from_the_last_minute_of_each_area() {
    let writes = [
        vec![0..3, 7..8],
        only(2..5),
        vec![],
        vec![9..12, 0..1],
        only(2..3),
    ];
    let mut areas = Areas::new(16, 4096, false);
    for written in &writes {
        areas.advance(1, written, false);
    }
    let distinct = |minutes: usize| {
        let mut seen: Vec<usize> = writes[5 - minutes..]
            .iter()
            .flatten()
            .cloned()
            .flatten()
            .collect();
        seen.sort_unstable();
        seen.dedup();
        seen.len() as u64
    };
    assert_eq!(
        counts(&areas, 4096),
        [distinct(1), distinct(2), distinct(3), distinct(5)]
    );
    assert_eq!(
        counts(&areas, 16384)[3],
        3,
        "areas 0, 2 and 3 are in the first chunk, and so on"
    );
}

#[test]
fn ages_beyond_the_measured_time_are_unknown() {
    let mut areas = Areas::new(4, 65536, false);
    assert_eq!(counts(&areas, 65536), Vec::<u64>::new());
    areas.advance(1, &only(0..1), false);
    assert_eq!(counts(&areas, 65536), [1]);
    assert_eq!(
        areas.curve(at(0)).chunks.len(),
        3,
        "smaller chunks than the areas are unknown"
    );
}

#[test]
fn minutes_are_numbered_again_after_weeks() {
    let mut areas = Areas::new(8, 4096, false);
    areas.advance(1, &only(0..8), false);
    for _ in 0..70_000 {
        areas.advance(1, &[], false);
    }
    areas.advance(1, &only(3..5), false);
    let counts = counts(&areas, 4096);
    assert_eq!((counts.len(), counts[0], counts[19]), (20, 2, 2));
}

#[test]
fn a_missed_reading_belongs_to_the_next_one() {
    let mut areas = Areas::new(8, 4096, false);
    areas.advance(1, &only(0..1), false);
    areas.advance(3, &only(1..2), false);
    assert_eq!(counts(&areas, 4096), [1, 1, 1]);
}

#[test]
fn windows_with_discards_are_left_out() {
    let mut areas = Areas::new(8, 4096, false);
    areas.advance(1, &only(0..8), true);
    areas.advance(1, &only(0..1), false);
    areas.advance(1, &only(0..1), false);
    let growth = areas.curve(at(0)).growth(4096).unwrap();
    assert_eq!(growth.0.len(), 2, "the third minute had discards");
    let mut measured = measured(3);
    areas.advance(60, &only(0..1), false);
    measured.add(Arc::new(areas.curve(at(240))));
    areas.advance(60, &only(0..1), true);
    measured.add(Arc::new(areas.curve(at(300))));
    let advice = advise(&SizingRequest {
        measured: Some(&measured),
        ..request(Vec::new())
    })
    .unwrap();
    let hour = &advice.rows[0];
    assert_eq!((hour.windows, hour.windows_with_discards), (4, 1));
    assert!(
        advice
            .table()
            .write(Style::Plain)
            .contains("4 (1 left out)")
    );
}

#[test]
fn a_growth_is_known_between_its_points_and_a_little_beyond() {
    let growth = Growth(vec![(60.0, 100.0), (120.0, 150.0)]);
    assert_eq!(
        [30.0, 60.0, 90.0, 120.0].map(|age| growth.at(age)),
        [50.0, 100.0, 125.0, 150.0].map(Some)
    );
    assert_eq!((growth.at(144.0), growth.at(151.0)), (Some(180.0), None));
}

fn run(minutes: f64, mib: u64, overflowed: bool) -> FinishedSnapshot {
    let end_s = minutes * if overflowed { 30.0 } else { 60.0 };
    FinishedSnapshot {
        chunk: 4096,
        growth: Growth(vec![(end_s, (mib * MIB) as f64)]),
        started_at: at(0),
        seconds: minutes * 60.0,
        made_bytes: Some(64 * MIB),
        overflowed,
        is_backup: true,
        is_good: !overflowed,
        tool: Some("mylvmbackup".into()),
    }
}

/// A backup whose size as it was made is not known, so that it keeps no size.
fn unsized_run(minutes: f64, mib: u64) -> FinishedSnapshot {
    FinishedSnapshot {
        made_bytes: None,
        ..run(minutes, mib, false)
    }
}

fn stored(run: &FinishedSnapshot) -> Option<StoredNeed> {
    Some(StoredNeed {
        chunk: run.chunk,
        started_at: run.started_at,
        used: run.growth.0.last()?.1 as u64,
        unseen: 0,
        overflowed: run.overflowed,
        is_good_backup: run.is_backup && run.is_good,
    })
}

fn request(runs: Vec<FinishedSnapshot>) -> SizingRequest<'static> {
    SizingRequest {
        stored: runs.iter().filter_map(stored).collect(),
        vg: "vg0",
        lv: "mysql",
        extent: 4 * MIB,
        origin_bytes: Some(1024 * MIB),
        free: Some(256 * MIB),
        runs,
        ..SizingRequest::default()
    }
}

#[test]
fn finished_snapshots_tell_the_size_of_the_next_one() {
    let advice = advise(&request(vec![run(60.0, 20, false), run(60.0, 30, false)])).unwrap();
    assert_eq!(
        (advice.usual_s, advice.setting.as_deref()),
        (Some(3600.0), Some("[lvm]\nlvsize=64M"))
    );
    let row = &advice.rows[0];
    assert_eq!(
        (row.windows, row.median_bytes / MIB, row.largest_bytes / MIB),
        (2, 25, 30)
    );
    let planned = advice.planned.unwrap();
    assert_eq!(
        (planned.risk, &*planned.text),
        (
            SizeRisk::Low,
            "64.0 MiB, as the last one had, is enough for the next snapshot of vg0/mysql: the most that was needed in 2 \
             cases is 30.0 MiB. A smaller size needs 5 good backups about 02:00 UTC, and 2 are known."
        )
    );
    assert_eq!(
        advice.basis,
        "Known from 2 finished snapshots of vg0/mysql."
    );
    assert_eq!(
        advice.room.as_deref(),
        Some("Volume group vg0 has 256 MiB free.")
    );
}

#[test]
fn a_longer_age_needs_no_less_though_fewer_windows_are_known() {
    let advice = advise(&request(vec![run(180.0, 30, false), run(60.0, 40, false)])).unwrap();
    let largest = |age_s: f64| {
        let point = advice.curve.iter().find(|point| point.age_s == age_s);
        point.map(|point| point.largest_bytes / MIB as f64)
    };
    assert_eq!((largest(3600.0), largest(7200.0)), (Some(40.0), Some(40.0)));
}

#[test]
fn a_pool_grows_while_a_snapshot_exists() {
    let thin = SizingRequest {
        is_thin: true,
        free: Some(50 * MIB),
        ..request(vec![run(60.0, 30, false)])
    };
    let advice = advise(&thin).unwrap();
    assert_eq!(
        (advice.suggested_bytes, advice.setting, advice.planned),
        (Some(60 * MIB), None, None)
    );
    assert_eq!(
        advice.room.as_deref(),
        Some(
            "Within 1 h 00 min, the pool may grow by 60.0 MiB. It has 50.0 MiB free, which is too little."
        )
    );
    assert!(
        advice
            .limits
            .ends_with("is also that of its other volumes."),
        "{}",
        advice.limits
    );
}

#[test]
fn the_size_that_mylvmbackup_will_use_counts_unless_the_client_plans_another() {
    let text = |configured_bytes, planned_bytes| {
        let runs = vec![run(60.0, 30, false)];
        let request = SizingRequest {
            configured_bytes,
            planned_bytes,
            ..request(runs)
        };
        next_snapshot(&request)
            .unwrap()
            .text
            .split_inclusive(',')
            .take(2)
            .collect::<String>()
    };
    assert_eq!(text(None, None), "64.0 MiB, as the last one had,");
    assert_eq!(
        text(Some(50 * MIB), None),
        "50.0 MiB, as mylvmbackup.conf says,"
    );
    assert_eq!(
        text(Some(50 * MIB), Some(40 * MIB)),
        "40.0 MiB, as planned,"
    );
}

#[test]
fn a_size_that_half_of_the_runs_exceed_is_likely_to_overflow() {
    let with = |runs, planned_bytes| {
        let request = SizingRequest {
            planned_bytes: Some(planned_bytes),
            ..request(runs)
        };
        advise(&request).unwrap().planned.unwrap().risk
    };
    let runs = vec![
        run(60.0, 20, false),
        run(60.0, 30, false),
        run(60.0, 40, false),
    ];
    assert_eq!(with(runs.clone(), 48 * MIB), SizeRisk::Low);
    assert_eq!(with(runs.clone(), 36 * MIB), SizeRisk::Possible);
    assert_eq!(with(runs, 24 * MIB), SizeRisk::Likely);
    // Full after half an hour, it would have needed 128 MiB.
    assert_eq!(
        with(vec![run(60.0, 20, false), run(60.0, 64, true)], 64 * MIB),
        SizeRisk::Likely
    );
    assert_eq!(
        with(vec![run(60.0, 20, false), run(60.0, 64, true)], 129 * MIB),
        SizeRisk::Low
    );
    // What it would have needed after its end is not known.
    assert_eq!(
        advise(&request(vec![run(60.0, 64, true)]))
            .unwrap()
            .rows
            .len(),
        1
    );
}

/// Each hour the volume writes another 1,000 areas, and 100 the same in each minute.
fn measured(hours: u32) -> Measured {
    let mut areas = Areas::new(1 << 16, 4096, false);
    let mut measured = Measured::default();
    for hour in 0..hours {
        for minute in 0..60 {
            let start = 1000 + (hour * 60 + minute) as usize * 20;
            areas.advance(1, &[0..100, start..start + 20], false);
        }
        measured.add(Arc::new(areas.curve(at(i64::from(hour) * 60))));
    }
    measured
}

#[test]
fn measured_windows_tell_all_ages_and_chunk_sizes() {
    let measured = measured(26);
    let request = SizingRequest {
        measured: Some(&measured),
        ..request(vec![unsized_run(60.0, 4)])
    };
    let advice = advise(&request).unwrap();
    let of = |hours: f64, chunk| {
        advice
            .rows
            .iter()
            .find(|row| row.age_s == hours * 3600.0 && row.chunk_bytes == chunk)
            .unwrap()
    };
    let (hour, three) = (of(1.0, 4096), of(3.0, 4096));
    assert_eq!((hour.windows, three.windows), (27, 24));
    assert_eq!(three.median_bytes, cow_bytes(100 + 3 * 60 * 20, 4096));
    // 100 areas are 7 chunks of 64 KiB, and 3600 neighbouring ones 225 or 226.
    let chunks = (three.median_bytes, of(3.0, 65536).median_bytes);
    assert!(
        (cow_bytes(232, 65536)..=cow_bytes(234, 65536)).contains(&chunks.1),
        "{chunks:?}"
    );
    assert_eq!(
        three.suggested_bytes,
        20 * MIB,
        "1.2 times 15 MiB, in whole extents"
    );
    assert_eq!(
        of(24.0, 4096).suggested_bytes,
        4 * MIB * 57,
        "three windows are few: twice 113 MiB"
    );
    assert!(advice.basis.starts_with(
        "Known from 1 finished snapshot of vg0/mysql, and from 26 measured windows since"
    ));
}

/// Probes in areas that are written to more often, of a volume with 64 areas of 1 MiB. In each minute an area gets as many
/// writes as its number, a third of them to the same chunk.
fn estimated(minutes: usize) -> (MappedVolume, Vec<Vec<u64>>) {
    let choices =
        cowbell_touched::estimate::choose(&(0..64).map(f64::from).collect::<Vec<_>>(), 32, 0.5);
    let mut mapped = MappedVolume::new(Sectors(2048), Sectors(64 * 2048), false);
    let mut written = vec![vec![0_u64; 256]; 64];
    let mut seed = 1_u64;
    for minute in 0..=minutes {
        let mut areas: Vec<Vec<Range<usize>>> = vec![Vec::new(); 64];
        for (area, of_area) in areas.iter_mut().enumerate() {
            for write in 0..area {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let chunk = if write % 3 == 0 {
                    7
                } else {
                    (seed >> 33) as usize % 256
                };
                written[area][chunk] = minute as u64;
                of_area.push(chunk..chunk + 1);
            }
        }
        let counts = (1..64).map(|area| AreaWrites {
            area,
            writes: area as u64,
            sectors: Sectors(8 * area as u64),
        });
        let regions = choices.iter().enumerate().map(|(index, choice)| Region {
            number: Number {
                major: 253,
                minor: 0,
            },
            dm_uuid: "LVM-x".into(),
            id: index as u64,
            start: Sectors(choice.area as u64 * 2048),
            length: Sectors(2048),
            step: Sectors(8),
            role: Role::Probe(Probe {
                index,
                count: choices.len(),
                probability: choice.probability,
            }),
            written: (minute > 0).then(|| Written::Areas(areas[choice.area].clone())),
        });
        mapped.advance(
            1,
            &counts.collect::<Vec<_>>(),
            &regions.collect::<Vec<_>>(),
            false,
        );
    }
    (mapped, written)
}

#[test]
fn a_map_and_its_probes_tell_about_the_whole_volume() {
    let (mapped, written) = estimated(240);
    let curve = mapped.curve(at(0));
    assert_eq!(
        curve.chunks.iter().map(|of| of.bytes).collect::<Vec<_>>(),
        CHUNKS
    );
    for (age, minutes) in AGES_MIN.iter().enumerate().filter(|(_, age)| **age <= 240) {
        let since = 240 - u64::from(*minutes) + 1;
        let truth = written
            .iter()
            .flatten()
            .filter(|minute| **minute >= since)
            .count() as f64;
        let of = &curve.chunks[0];
        let (least, found, most) = (
            of.least[age] as f64,
            of.counts[age] as f64,
            of.most[age] as f64,
        );
        assert!(
            (found / truth - 1.0).abs() < 0.06,
            "{minutes} min: {found} in place of {truth}"
        );
        assert!(
            (least..=most).contains(&truth),
            "{minutes} min: {truth}, not {least} to {most}"
        );
    }
}

/// 32 areas with probes, whose first ten chunks are written all the time, and a log that fills another area in half an hour.
#[test]
fn a_log_that_passes_through_the_volume_is_counted_although_no_probe_sees_it() {
    let mut mapped = MappedVolume::new(Sectors(2048), Sectors(64 * 2048), false);
    for minute in 0..=8 * 60 {
        let regions = (0..32).map(|index| Region {
            number: Number {
                major: 253,
                minor: 0,
            },
            dm_uuid: "LVM-x".into(),
            id: index as u64,
            start: Sectors(index as u64 * 2048),
            length: Sectors(2048),
            step: Sectors(8),
            role: Role::Probe(Probe {
                index,
                count: 32,
                probability: 0.5,
            }),
            written: (minute > 0).then(|| Written::Areas(only(0..10))),
        });
        let writes = |area, writes| AreaWrites {
            area,
            writes,
            sectors: Sectors(8 * writes),
        };
        let mut counts: Vec<AreaWrites> = (0..32).map(|area| writes(area, 20)).collect();
        if minute > 0 {
            // 256 chunks in 30 minutes.
            counts.push(writes(
                32 + (minute - 1) / 30,
                if minute % 30 == 0 { 24 } else { 8 },
            ));
        }
        mapped.advance(
            u32::from(minute > 0),
            &counts,
            &regions.collect::<Vec<_>>(),
            false,
        );
    }
    let of = &mapped.curve(at(0)).chunks[0];
    let hours = |hours: u64| {
        of.counts[AGES_MIN
            .iter()
            .position(|age| u64::from(*age) == 60 * hours)
            .unwrap()]
    };
    assert_eq!((hours(1), hours(4)), (320 + 2 * 256, 320 + 8 * 256));
}

#[test]
fn an_estimate_is_suggested_with_its_error() {
    let (mapped, _) = estimated(60);
    let curve = Arc::new(mapped.curve(at(0)));
    let mut measured = Measured::default();
    for _ in 0..LEAST_WINDOWS {
        measured.add(Arc::clone(&curve));
    }
    let advice = advise(&SizingRequest {
        measured: Some(&measured),
        extent: 4096,
        ..request(Vec::new())
    })
    .unwrap();
    let row = advice
        .rows
        .iter()
        .find(|row| row.chunk_bytes == 4096)
        .unwrap();
    let most = cow_bytes(curve.chunks[0].most[9], 4096) as f64;
    assert_eq!(row.median_bytes, cow_bytes(curve.chunks[0].counts[9], 4096));
    let (least, median) = (
        cow_bytes(curve.chunks[0].least[9], 4096) as f64,
        row.median_bytes as f64,
    );
    let error = (most / median - 1.0).max(1.0 - least / median) * 100.0;
    assert!((row.error_percent.unwrap() - error).abs() < 1e-9);
    assert!(row.suggested_bytes as f64 >= most * 1.2);
    assert!(
        advice
            .table()
            .write(Style::Plain)
            .contains(&format!("±{:.0} %", row.error_percent.unwrap()))
    );
    assert!(
        advice
            .limits
            .ends_with("the truth is within in 95 % of cases."),
        "{}",
        advice.limits
    );
}

#[test]
fn a_map_without_all_of_its_probes_tells_nothing() {
    let mut mapped = MappedVolume::new(Sectors(2048), Sectors(64 * 2048), false);
    mapped.advance(60, &[], &[], false);
    assert!(mapped.curve(at(0)).chunks.is_empty());
    // A map as a recording may claim.
    let mut huge = MappedVolume::new(Sectors(1), Sectors(u64::MAX), false);
    huge.advance(
        u32::MAX,
        &[AreaWrites {
            area: usize::MAX,
            writes: u64::MAX,
            sectors: Sectors(u64::MAX),
        }],
        &[],
        true,
    );
    assert!(huge.curve(at(0)).chunks.is_empty());
}

#[test]
fn nothing_known_is_no_advice() {
    assert_eq!(advise(&request(Vec::new())), None);
    assert_eq!(
        advise(&SizingRequest {
            measured: Some(&Measured::default()),
            ..request(Vec::new())
        }),
        None
    );
}

#[test]
fn a_backup_that_failed_at_once_does_not_make_the_usual_one_shorter() {
    let failed = FinishedSnapshot {
        is_good: false,
        ..unsized_run(0.05, 0)
    };
    let advice = advise(&request(vec![
        failed.clone(),
        failed.clone(),
        unsized_run(60.0, 20),
    ]))
    .unwrap();
    assert_eq!(
        (advice.usual_s, advice.setting.as_deref()),
        (Some(3600.0), Some("[lvm]\nlvsize=40M"))
    );
    assert_eq!(advise(&request(vec![failed])), None);
}

#[test]
fn quiet_hours_of_measuring_do_not_make_the_size_of_a_night_smaller() {
    let mut areas = Areas::new(1 << 10, 4096, false);
    let mut quiet = Measured::default();
    for hour in 0..30 {
        areas.advance(60, &[], false);
        quiet.add(Arc::new(areas.curve(at(hour * 60))));
    }
    let few = Measured {
        curves: quiet.curves.iter().take(4).cloned().collect(),
        now: None,
    };
    let size = |measured| {
        let request = SizingRequest {
            measured: Some(measured),
            ..request(vec![unsized_run(60.0, 30)])
        };
        advise(&request).unwrap().rows[0].suggested_bytes / MIB
    };
    assert_eq!((size(&few), size(&quiet)), (60, 36));
}

#[test]
fn the_size_of_the_next_snapshot_is_that_with_which_the_last_one_was_made() {
    let extended = FinishedSnapshot {
        made_bytes: Some(16 * MIB),
        ..run(60.0, 40, false)
    };
    assert_eq!(
        next_snapshot(&request(vec![extended])).unwrap().risk,
        SizeRisk::Likely
    );
    let by_hand = FinishedSnapshot {
        is_backup: false,
        ..run(60.0, 40, false)
    };
    assert_eq!(
        next_snapshot(&request(vec![by_hand])),
        None,
        "no backup is planned"
    );
}

#[test]
fn curves_of_other_times_are_forgotten() {
    let mut measured = measured(2);
    let mut late = (*measured.curves[0]).clone();
    late.at = at(16 * 24 * 60);
    measured.add(Arc::new(late));
    assert_eq!(measured.curves.len(), 1);
}

/// No size beyond that of a full copy is suggested.
#[test]
fn a_suggestion_is_at_most_a_full_copy() {
    let small = SizingRequest {
        origin_bytes: Some(32 * MIB),
        ..request(vec![run(60.0, 30, false)])
    };
    assert_eq!(advise(&small).unwrap().rows[0].suggested_bytes, 36 * MIB);
}

/// Days of measuring in which each hour writes as many areas of 4 KiB as it says, at places of its own.
fn days(days: usize, written: impl Fn(usize) -> usize) -> Measured {
    let mut areas = Areas::new(1 << 16, 4096, false);
    let mut measured = Measured::default();
    for hour in 0..days * 24 {
        let start = hour % 24 * 2048;
        areas.advance(60, &only(start..start + written(hour)), false);
        // The curve at the end of the hour; `at(0)` is at 02:00.
        measured.add(Arc::new(areas.curve(at((hour as i64 - 1) * 60))));
    }
    measured
}

#[test]
fn a_size_is_that_of_the_hour_in_which_backups_begin() {
    let advised = |measured: &Measured| {
        let runs = vec![unsized_run(60.0, 8)];
        advise(&SizingRequest {
            measured: Some(measured),
            ..request(runs)
        })
        .unwrap()
    };
    let busy_days = days(9, |hour| {
        if (9..17).contains(&(hour % 24)) {
            2000
        } else {
            200
        }
    });
    let advice = advised(&busy_days);
    let usual = advice
        .curve
        .iter()
        .find(|point| Some(point.age_s) == advice.usual_s)
        .unwrap();
    assert_eq!(
        usual.largest_bytes,
        (8 * MIB) as f64,
        "the run, which is at night"
    );
    let hours = advice.hours.unwrap();
    assert_eq!((hours.rows.len(), hours.of_backups), (24, Some(2)));
    let of = |hour: usize| (hours.rows[hour].windows, hours.rows[hour].median_bytes);
    assert_eq!(of(12), (27, cow_bytes(2000, 4096)));
    assert_eq!(of(2), (28, cow_bytes(200, 4096)), "with the run");
    assert_eq!(
        advice.suggested_bytes,
        Some(12 * MIB),
        "1.2 times the run's 8 MiB"
    );
    let usual_row = advice
        .rows
        .iter()
        .find(|row| Some(row.age_s) == advice.usual_s && row.chunk_bytes == 4096);
    assert_eq!(
        usual_row.map(|row| (row.windows, row.suggested_bytes)),
        Some((28, 12 * MIB)),
        "of that hour"
    );
    assert_eq!(
        hours.text,
        "The hour matters: within 1 h 00 min, snapshots made about 00:00 UTC need up to 808 KiB, and those made about \
         17:00 UTC up to 7.85 MiB. The suggested size, and what the table says of the usual age, is for 02:00 UTC, when its \
         backups begin."
    );
    let batch_job = days(9, |hour| if hour % 24 == 2 { 2000 } else { 10 });
    assert_eq!(
        advised(&batch_job).hours.unwrap().rows[2].suggested_bytes,
        12 * MIB
    );
    let one_bad_night = days(9, |hour| if hour == 26 { 2000 } else { 10 });
    assert!(advised(&one_bad_night).hours.is_none());
    let all_alike = days(9, |hour| 1000 + hour % 7 * 100);
    assert!(advised(&all_alike).hours.is_none());
    let few_days = days(2, |hour| if hour % 24 < 12 { 2000 } else { 200 });
    assert!(advised(&few_days).hours.is_none());
}

#[test]
fn the_next_snapshot_is_compared_with_its_own_hour() {
    let busy_days = days(9, |hour| {
        if (6..20).contains(&(hour % 24)) {
            2000
        } else {
            20
        }
    });
    let small = FinishedSnapshot {
        made_bytes: Some(4 * MIB),
        ..run(60.0, 1, false)
    };
    let planned = |runs| {
        next_snapshot(&SizingRequest {
            measured: Some(&busy_days),
            ..request(runs)
        })
        .unwrap()
    };
    assert_eq!(planned(vec![small.clone()]).risk, SizeRisk::Low, "at 02:00");
    assert_eq!(
        planned(vec![FinishedSnapshot {
            started_at: at(600),
            ..small
        }])
        .risk,
        SizeRisk::Likely,
        "at 12:00"
    );
}

#[test]
fn backups_that_moved_to_a_busy_hour_are_not_compared_with_their_old_one() {
    let busy_days = days(9, |hour| {
        if (6..20).contains(&(hour % 24)) {
            2000
        } else {
            20
        }
    });
    let at_night = |day: i64| FinishedSnapshot {
        started_at: at(day * 24 * 60),
        made_bytes: Some(4 * MIB),
        ..run(60.0, 1, false)
    };
    let at_noon = |day: i64| FinishedSnapshot {
        started_at: at(day * 24 * 60 + 600),
        made_bytes: Some(4 * MIB),
        ..run(60.0, 4, true)
    };
    let planned = |runs| {
        next_snapshot(&SizingRequest {
            measured: Some(&busy_days),
            ..request(runs)
        })
        .unwrap()
    };
    let nights: Vec<FinishedSnapshot> = (0..8).rev().map(at_night).collect();
    let moved = |days: std::ops::RangeInclusive<i64>| {
        let runs = days.rev().map(at_noon).chain(nights.clone()).collect();
        planned(runs).risk
    };
    assert_eq!(planned(nights.clone()).risk, SizeRisk::Low);
    assert_eq!(
        [moved(8..=8), moved(8..=9), moved(8..=17)],
        [SizeRisk::Likely; 3]
    );
    // One that did not overflow is enough to doubt the hour.
    let once = FinishedSnapshot {
        overflowed: false,
        is_good: true,
        ..at_noon(8)
    };
    assert_eq!(
        planned(std::iter::once(once).chain(nights.clone()).collect()).risk,
        SizeRisk::Likely
    );
    // An overflow at another hour still counts, but not as if all backups began then.
    let before = [
        at_night(9),
        at_night(8),
        FinishedSnapshot {
            started_at: at(7 * 24 * 60 + 180),
            ..at_noon(7)
        },
    ];
    let runs: Vec<FinishedSnapshot> = before.into_iter().chain(nights.clone()).collect();
    assert_eq!(planned(runs.clone()).risk, SizeRisk::Possible);
    let hours = advise(&SizingRequest {
        measured: Some(&busy_days),
        ..request(runs)
    })
    .unwrap()
    .hours
    .unwrap();
    assert_eq!(
        (hours.of_backups, hours.rows[0].largest_bytes),
        (Some(2), cow_bytes(20, 4096))
    );
}

#[test]
fn a_window_without_a_value_has_discards_only_if_they_were_seen() {
    let measured = measured(36);
    let long = SizingRequest {
        measured: Some(&measured),
        ..request(vec![run(31.0 * 60.0, 30, false)])
    };
    let rows = advise(&long).unwrap().rows;
    let usual = rows.iter().find(|row| row.age_s == 31.0 * 3600.0).unwrap();
    assert_eq!((usual.windows, usual.windows_with_discards), (1, 0));
}

#[test]
fn a_snapshot_whose_growth_is_unknown_is_not_what_sizes_are_known_from() {
    let unknown = FinishedSnapshot {
        growth: Growth::default(),
        ..run(60.0, 30, false)
    };
    let advice = advise(&request(vec![unknown, run(60.0, 30, false)])).unwrap();
    assert_eq!(advice.basis, "Known from 1 finished snapshot of vg0/mysql.");
}

/// 100 MiB are 25,600 chunks of 4 KiB, 101 with their exceptions, and the header.
#[test]
fn a_full_copy_includes_the_exception_tables() {
    assert_eq!(never_overflows(100 * MIB, None), (1 + 25_600 + 101) * 4096);
    assert_eq!(never_overflows(0, Some(16384)), 2 * 16384);
}

#[test]
fn what_is_enough_is_not_told_to_be_set() {
    // A run of an hour that needed 20 MiB, for which 40 are suggested.
    for (planned_mib, is_by_mylvmbackup, origin_mib, expected) in [
        (64, true, 1024, None),
        (40, true, 1024, None),
        (
            30,
            true,
            1024,
            Some("Set `lvsize=40M` in mylvmbackup.conf."),
        ),
        (
            10,
            false,
            1024,
            Some("Make the next snapshot with `lvcreate -s -L 40m vg0/mysql`."),
        ),
        (
            20,
            true,
            24,
            Some(
                "Set `lvsize=28M` in mylvmbackup.conf. With that size it cannot overflow, however much is written to the \
                 origin.",
            ),
        ),
    ] {
        let run = FinishedSnapshot {
            tool: is_by_mylvmbackup.then(|| "mylvmbackup".into()),
            ..unsized_run(60.0, 20)
        };
        let advice = advise(&SizingRequest {
            planned_bytes: Some(planned_mib * MIB),
            origin_bytes: Some(origin_mib * MIB),
            ..request(vec![run])
        })
        .unwrap();
        let remedy = advice.remedy.map(|remedy| remedy.to_string());
        assert_eq!(remedy.as_deref(), expected, "{planned_mib} MiB");
        assert_eq!(advice.setting.is_some(), is_by_mylvmbackup);
    }
}

/// The second one was full after half of its two hours.
#[test]
fn how_long_a_backup_lasted_that_overflowed_is_not_usual() {
    let advice = advise(&request(vec![run(60.0, 20, false), run(120.0, 64, true)])).unwrap();
    assert_eq!(advice.usual_s, Some(3600.0));
    let advice = advise(&request(vec![run(60.0, 20, true), run(120.0, 64, true)])).unwrap();
    assert_eq!((advice.usual_s, advice.suggested_s), (None, Some(7200.0)));
    assert_eq!(
        advice.suggested_bytes,
        Some(256 * MIB),
        "twice the 128 MiB that it would have needed"
    );
    assert!(
        advice
            .limits
            .ends_with("a whole backup may take longer than 2 h 00 min."),
        "{}",
        advice.limits
    );
}

/// So many backups of an hour that each needed 10 of 80 MiB, after such ones.
fn after(count: usize, changed: impl Fn(&mut FinishedSnapshot)) -> SizingRequest<'static> {
    let mut runs = Vec::new();
    for night in (0..count as i64).rev() {
        let mut run = run(60.0, 10, false);
        run.made_bytes = Some(80 * MIB);
        run.started_at = at(night * 24 * 60);
        changed(&mut run);
        runs.push(run);
    }
    request(runs)
}

/// One idle backup of 8 s said 4 MiB in place of 80.
#[test]
fn a_smaller_size_needs_five_good_backups_and_falls_by_a_quarter() {
    let kept =
        |known: &str| format!("A smaller size needs 5 good backups about 02:00 UTC, and {known}.");
    let as_it_is = |_: &mut FinishedSnapshot| ();
    let enough = "A size of 60.0 MiB would be enough: none of 5 good backups about 02:00 UTC needed more. It falls by a \
                  quarter at most at once.";
    for (request, mib, said) in [
        (after(1, as_it_is), 80, kept("1 is known")),
        (after(4, as_it_is), 80, kept("4 are known")),
        (after(5, as_it_is), 60, enough.into()),
        (after(9, |run| run.is_good = false), 80, String::new()),
        (
            after(9, |run| run.is_backup = false),
            80,
            kept("0 are known").replace(" about 02:00 UTC", ""),
        ),
        (
            after(9, |run| {
                if run.started_at > at(4 * 24 * 60) {
                    run.started_at += jiff::SignedDuration::from_hours(9);
                }
            }),
            80,
            kept("4 are known").replace("02:00", "11:00"),
        ),
    ] {
        let advice = advise(&request).unwrap_or_else(|| panic!("nothing is known for {said}"));
        let (Some(planned), bytes) = (advice.planned.clone(), advice.suggested_bytes) else {
            assert_eq!((advice.suggested_bytes, &*said), (None, ""));
            continue;
        };
        assert_eq!(bytes, Some(mib * MIB), "{said}");
        let text = planned.text + " " + &advice.remedy.clone().unwrap_or_default().to_string();
        assert!(text.trim_end().ends_with(&said), "{text}");
        assert_eq!(
            next_snapshot(&request).map(|next| next.risk),
            (!said.contains("0 are")).then_some(SizeRisk::Low)
        );
        let usual = advice.rows.iter().find(|row| row.age_s == 3600.0).unwrap();
        assert_eq!(
            Some(usual.suggested_bytes),
            advice.suggested_bytes,
            "the table says the same"
        );
    }
}

#[test]
fn a_larger_size_needs_one_run() {
    let request = after(1, |run| {
        run.growth = Growth(vec![(3600.0, (70 * MIB) as f64)])
    });
    assert_eq!(advise(&request).unwrap().suggested_bytes, Some(140 * MIB));
}

/// A busy backup of 40 s needed 13.1 MiB, and an idle one of 7 s nothing.
#[test]
fn the_most_that_was_needed_is_the_peak_of_a_job_however_long_it_was() {
    let mut request = after(9, |run| run.growth = Growth(vec![(3600.0, MIB as f64)]));
    request.runs[0].seconds = 7.0;
    request.stored.push(StoredNeed {
        used: 131 * MIB / 10,
        is_good_backup: false,
        ..request.stored[0].clone()
    });
    let planned = advise(&request).unwrap().planned.unwrap();
    assert!(
        planned.text.contains("in 9 cases is 13.1 MiB."),
        "{}",
        planned.text
    );
    request.planned_bytes = Some(12 * MIB);
    let planned = next_snapshot(&request).unwrap();
    assert_eq!(planned.risk, SizeRisk::Possible);
    assert!(
        planned
            .text
            .contains("is less than was needed in 1 of 10 cases."),
        "{}",
        planned.text
    );
}

#[test]
fn what_overflowed_needed_more_than_its_size() {
    let advice = advise(&request(vec![run(60.0, 20, false), run(60.0, 64, true)])).unwrap();
    let usual = &advice.rows[0];
    assert_eq!(usual.largest_text(), "more than 64.0 MiB");
    assert!(
        advice
            .table()
            .write(Style::Plain)
            .contains("more than 64.0 MiB")
    );
    assert_eq!(advice.planned.unwrap().risk, SizeRisk::Likely);
    assert_eq!(
        advice.suggested_bytes,
        Some(256 * MIB),
        "it was full after half of its time"
    );
}

/// Its need between its last tick and its removal is not known, only that it was no more than that.
#[test]
fn copies_after_the_last_tick_are_left_room_for() {
    let mut request = after(9, |run| run.made_bytes = Some(40 * MIB));
    request.stored[3].unseen = 29 * MIB;
    let advice = advise(&request).unwrap();
    assert_eq!(advice.suggested_bytes, Some(40 * MIB), "and not 30");
    assert!(
        advice
            .planned
            .unwrap()
            .text
            .contains("the most that was needed in 9 cases is 10.0 MiB.")
    );
}

proptest! {
    #[test]
    fn no_size_is_below_any_peak_or_three_quarters_of_the_present_one(
        all in proptest::collection::vec((1..90_u64, 1..200_u32, 0..24 * 60 * 9_i64, 0..6_u8), 1..14),
        made_mib in 1..400_u64,
    ) {
        let mut runs = Vec::new();
        for (mib, minutes, minute, kind) in all {
            let mut run = run(f64::from(minutes), mib, kind == 0);
            run.started_at = at(minute);
            (run.is_backup, run.is_good) = (kind != 1, kind > 2);
            run.made_bytes = Some(made_mib * MIB);
            runs.push(run);
        }
        let request = request(runs);
        if let Some(advised) = advise(&request).and_then(|advice| advice.suggested_bytes) {
            for run in &request.stored {
                prop_assert!(advised >= run.least_size());
            }
            prop_assert!(advised * 4 >= made_mib * MIB * 3);
            let good = request.stored.iter().filter(|run| run.is_good_backup).count();
            prop_assert!(good >= 5 || advised >= made_mib * MIB);
        }
    }
}
