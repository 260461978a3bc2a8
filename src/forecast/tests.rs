//! Backups that run, and what is to be expected of them.

use super::*;

const MB: u64 = 1_000_000;
const GIB: u64 = 1 << 30;

/// So many seconds at these speeds in MB/s, which vary a little.
fn go_on(curve: &mut ReadProgress, seconds: usize, read_mb: f64, growth_mb: f64) {
    for _ in 0..seconds {
        let last = curve.last().unwrap_or(ReadPoint {
            at_s: 0.0,
            read: 0.0,
            used: Some(0.0),
        });
        let wave = |at_s: f64| 1.0 + 0.2 * (at_s * 2.4).sin();
        curve.push(ReadPoint {
            at_s: last.at_s + 1.0,
            read: last.read + read_mb * 1e6 * wave(last.at_s),
            used: last
                .used
                .map(|used| used + growth_mb * 1e6 * wave(last.at_s + 7.0)),
        });
    }
}

fn curve(seconds: usize, read_mb: f64, growth_mb: f64) -> ReadProgress {
    let mut curve = ReadProgress::default();
    curve.push(ReadPoint {
        at_s: 0.0,
        read: 0.0,
        used: Some(0.0),
    });
    go_on(&mut curve, seconds, read_mb, growth_mb);
    curve
}

/// Of a backup that has so much to read.
fn left(mb: u64) -> RemainingReads {
    RemainingReads::of(Some(0), Some(mb * MB), &PastRuns::default())
}

fn room(free_mb: u64) -> Option<Room> {
    let volume = Extensible {
        name: "vg0/snap".into(),
        vg: "vg0".into(),
        option: "-L".into(),
        step: 4 << 20,
        step_cost: 4 << 20,
        free: Some(64 * GIB),
        refusal: None,
        more_space: "add a PV to VG vg0".into(),
    };
    Some(Room {
        is_pool: false,
        free_bytes: free_mb * MB,
        most_bytes: None,
        volume,
        guard: None,
    })
}

fn forecast(left_mb: u64, free_mb: u64, curve: &ReadProgress) -> Outlook {
    outlook(left(left_mb), room(free_mb), curve, &PastRuns::default())
}

fn likely(eta: Option<Eta>) -> f64 {
    eta.unwrap().likely_s.unwrap()
}

#[test]
fn a_backup_with_room_will_be_done_first() {
    let found = forecast(60_000, 10_000, &curve(300, 100.0, 2.0));
    assert_eq!(found.verdict, OutlookVerdict::DoneFirst, "{}", found.text);
    let done = found.done.unwrap();
    assert!((590.0..=610.0).contains(&likely(found.done)), "{done:?}");
    assert!(
        done.soonest_s <= 600.0 && 600.0 <= done.latest_s.unwrap(),
        "{done:?}"
    );
    assert!(
        found
            .text
            .to_string()
            .starts_with("The backup is done in 10 min 0")
            || found
                .text
                .to_string()
                .starts_with("The backup is done in 9 min 5"),
        "{}",
        found.text
    );
    assert!(
        found
            .text
            .to_string()
            .ends_with("The backup will be done first."),
        "{}",
        found.text
    );
}

#[test]
fn a_snapshot_that_the_guard_extends_in_time_is_not_at_risk() {
    let room = Room {
        guard: Some("The guard will extend it in about 4 min.".into()),
        ..room(1_000).unwrap()
    };
    let curve = curve(300, 100.0, 2.0);
    let found = outlook(left(600_000), Some(room), &curve, &PastRuns::default());
    assert_eq!(
        (found.verdict, found.risk),
        (OutlookVerdict::Open, Risk::Low)
    );
    assert!(found.remedy.is_none() && found.full.is_some());
    let text = found.text.to_string();
    let end = "The guard will extend it in about 4 min. So the backup will probably be done first.";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn a_snapshot_that_fills_sooner_will_overflow_first() {
    let found = forecast(600_000, 1_000, &curve(300, 100.0, 2.0));
    assert_eq!(found.verdict, OutlookVerdict::FullFirst);
    assert!(
        found.text.to_string().contains(
            "The snapshot will overflow first, and the backup will be lost: run `lvextend -L +"
        ),
        "{}",
        found.text
    );
    let pool = Room {
        is_pool: true,
        ..room(1_000).unwrap()
    };
    let found = outlook(
        left(600_000),
        Some(pool),
        &curve(300, 100.0, 2.0),
        &PastRuns::default(),
    );
    assert!(
        found
            .text
            .to_string()
            .contains("The pool will be full first, for all its volumes: run `lvextend -L +"),
        "{}",
        found.text
    );
}

#[test]
fn a_clear_race_is_decided_within_half_a_minute() {
    let verdict = |free_mb| forecast(6_000, free_mb, &curve(25, 100.0, 2.0)).verdict;
    assert_eq!(
        [40, 400].map(verdict),
        [OutlookVerdict::FullFirst, OutlookVerdict::DoneFirst]
    );
}

#[test]
fn slow_bursts_widen_the_range() {
    let mut bursts = curve(1, 100.0, 2.0);
    for _ in 0..10 {
        go_on(&mut bursts, 60, 100.0, 4.0);
        go_on(&mut bursts, 60, 100.0, 0.0);
    }
    let width = |curve: &ReadProgress| {
        let full = forecast(60_000, 2_400, curve).full.unwrap();
        full.latest_s.unwrap() / full.soonest_s
    };
    assert!(
        width(&bursts) > 1.5 * width(&curve(1_200, 100.0, 2.0)),
        "{}",
        width(&bursts)
    );
}

#[test]
fn a_close_race_is_open() {
    let found = forecast(60_000, 1_200, &curve(300, 100.0, 2.0));
    assert_eq!(found.verdict, OutlookVerdict::Open);
    assert_eq!(
        found.risk,
        Risk::High,
        "it is likelier than not to be full first"
    );
    let text = "The snapshot will probably overflow first, and the backup will probably be lost: run `lvextend -L +";
    assert!(found.text.to_string().contains(text), "{}", found.text);
    let found = forecast(60_000, 1_215, &curve(300, 100.0, 2.0));
    assert_eq!(
        (found.verdict, found.risk),
        (OutlookVerdict::Open, Risk::Race)
    );
    assert!(
        found
            .text
            .to_string()
            .contains("It is a race: run `lvextend -L +"),
        "{}",
        found.text
    );
}

#[test]
fn the_bytes_that_are_still_needed_are_those_until_the_end() {
    let growth = |free_mb| {
        forecast(60_000, free_mb, &curve(300, 100.0, 2.0))
            .growth
            .unwrap()
    };
    // 600 s at 2 MB/s.
    let roomy = growth(10_000);
    assert!(
        (1_150..=1_250).contains(&(roomy.likely_bytes / MB)),
        "{roomy:?}"
    );
    let upper = roomy.upper_bytes.unwrap();
    assert!(
        (roomy.likely_bytes..2_400 * MB).contains(&upper),
        "{roomy:?}"
    );
    assert_eq!(roomy.add_bytes, Some(0));
    let tight = growth(200);
    let add = tight.add_bytes.unwrap() / MB;
    assert!(
        (add as i64 - (tight.upper_bytes.unwrap() / MB) as i64 + 200).abs() <= 1,
        "{tight:?}"
    );
}

#[test]
fn an_extension_has_a_reserve_if_there_is_room() {
    let found = forecast(600_000, 1_000, &curve(300, 100.0, 2.0));
    let upper = found.growth.unwrap().upper_bytes.unwrap();
    let remedy = found.remedy.unwrap();
    assert!(remedy.is_enough && remedy.added_bytes >= upper * 5 / 4 - 1_000 * MB);
    let mut short = room(1_000).unwrap();
    short.volume.free = Some(upper);
    let found = outlook(
        left(600_000),
        Some(short),
        &curve(300, 100.0, 2.0),
        &PastRuns::default(),
    );
    let remedy = found.remedy.unwrap();
    assert!(remedy.is_enough && remedy.added_bytes <= upper);
}

#[test]
fn the_first_seconds_make_no_race() {
    let races = |seconds| {
        let curve = curve(seconds, 20.0, 0.4);
        (100..200).any(|free_mb| forecast(6_000, free_mb, &curve).risk == Risk::Race)
    };
    assert!(races(70));
    assert!(!races(50));
}

#[test]
fn a_reader_that_is_not_steady_may_become_slower() {
    let later = |noise: f64| {
        let mut curve = curve(1, 100.0, 2.0);
        for second in 0..100 {
            let sign = if (second * 7) % 3 == 0 { 2.0 } else { -1.0 };
            go_on(&mut curve, 1, 100.0 * (1.0 + noise * sign), 2.0);
        }
        let done = forecast(20_000, 10_000, &curve).done.unwrap();
        done.latest_s.unwrap() / done.likely_s.unwrap()
    };
    assert!(
        later(0.2) > later(0.02) * 1.1,
        "{} {}",
        later(0.2),
        later(0.02)
    );
}

#[test]
fn within_20_s_of_the_first_growth_there_is_a_word_and_it_stays() {
    let mut curve = curve(100, 100.0, 0.0);
    let found = forecast(600_000, 1_000, &curve);
    assert_eq!(found.full, None);
    assert!(
        found
            .text
            .to_string()
            .contains("Snapshot vg0/snap did not grow yet."),
        "{}",
        found.text
    );
    go_on(&mut curve, 5, 100.0, 5.0);
    for (seconds, growth_mb) in [(15, 5.0), (300, 0.0), (100, 1.0), (1_000, 0.0)] {
        let full = forecast(600_000, 1_000, &curve).full.unwrap();
        assert!(full.soonest_s.is_finite(), "{full:?}");
        go_on(&mut curve, seconds, 100.0, growth_mb);
    }
}

#[test]
fn a_short_past_is_the_speed_of_the_last_seconds() {
    let found = forecast(60_000, 1_000, &curve(15, 100.0, 5.0));
    assert_eq!(found.full.unwrap().basis, EtaBasis::RecentSpeed);
    assert!(
        found
            .text
            .to_string()
            .contains("At the speed of the last 14 s, snapshot vg0/snap is full in "),
        "{}",
        found.text
    );
    let later = forecast(60_000, 1_000, &curve(150, 100.0, 5.0));
    assert_eq!(later.full.unwrap().basis, EtaBasis::Tested);
    let width = |outlook: &Outlook| {
        outlook.full.unwrap().latest_s.unwrap() / outlook.full.unwrap().soonest_s
    };
    assert!(width(&found) > width(&later));
}

#[test]
fn growth_that_decayed_to_nothing_does_not_overflow_first() {
    let mut used = ReadProgress::default();
    // A volume of 400 MB is written at random, in 60 s it is all copied but for a part in e.
    for second in 0..600 {
        let at_s = f64::from(second);
        let grown = 400e6 * (1.0 - (-at_s / 60.0).exp());
        used.push(ReadPoint {
            at_s,
            read: at_s * 10e6,
            used: Some(grown),
        });
    }
    let found = forecast(20_000, 100, &used);
    assert_eq!(found.verdict, OutlookVerdict::DoneFirst, "{}", found.text);
    let full = found.full.unwrap();
    assert!(
        full.likely_s.is_none_or(|likely_s| likely_s > 3_600.0),
        "{full:?}"
    );
    // While it decays, it is forecast.
    let early: ReadProgress = {
        let mut early = ReadProgress::default();
        for second in 0..60 {
            let at_s = f64::from(second);
            early.push(ReadPoint {
                at_s,
                read: at_s * 10e6,
                used: Some(400e6 * (1.0 - (-at_s / 60.0).exp())),
            });
        }
        early
    };
    // 80 MB more than the 251 MB of the first 59 s: at 106 s.
    let full = forecast(20_000, 81, &early).full.unwrap();
    assert!((40.0..=54.0).contains(&full.likely_s.unwrap()), "{full:?}");
}

#[test]
fn a_quiet_snapshot_is_done_first_if_it_was_quiet_for_as_long() {
    let verdict = |seconds| forecast(10_000, 1_000, &curve(seconds, 100.0, 0.0)).verdict;
    assert_eq!(verdict(50), OutlookVerdict::Open);
    assert_eq!(verdict(150), OutlookVerdict::DoneFirst);
}

#[test]
fn without_io_there_is_no_forecast() {
    let found = forecast(60_000, 1_000, &curve(300, 0.0, 0.0));
    assert_eq!(
        (found.verdict, found.done, found.full),
        (OutlookVerdict::TooEarly, None, None)
    );
    assert_eq!(
        found.text,
        "Nothing was read yet. Snapshot vg0/snap did not grow yet.".into()
    );
    let nothing = outlook(
        left(1),
        None,
        &ReadProgress::default(),
        &PastRuns::default(),
    );
    assert_eq!(
        nothing.text,
        "Nothing was read yet. The snapshot's usage is unknown.".into()
    );
}

#[test]
fn nothing_left_is_done_and_no_space_is_full() {
    assert!(
        likely(forecast(0, 1_000, &curve(300, 1.0, 1.0)).done) < 0.5,
        "its processes end"
    );
    let full = forecast(100_000, 0, &curve(300, 1.0, 1.0));
    assert_eq!(
        (likely(full.full), full.verdict),
        (0.0, OutlookVerdict::FullFirst)
    );
}

#[test]
fn unknown_parts_are_omitted() {
    let known = curve(300, 100.0, 2.0);
    let unknown = RemainingReads::of(Some(0), None, &PastRuns::default());
    let found = outlook(unknown, room(1_200), &known, &PastRuns::default());
    assert_eq!(
        (found.verdict, found.done, found.growth),
        (OutlookVerdict::Open, None, None)
    );
    assert!(
        found
            .text
            .to_string()
            .starts_with("The time of completion is unknown. Snapshot vg0/snap is full in "),
        "{}",
        found.text
    );
    let found = outlook(left(60_000), None, &known, &PastRuns::default());
    assert_eq!(
        (found.verdict, found.full, found.overflows),
        (OutlookVerdict::Open, None, None)
    );
    assert!(
        found
            .text
            .to_string()
            .ends_with(" The snapshot's usage is unknown."),
        "{}",
        found.text
    );
}

#[test]
fn a_snapshot_as_large_as_its_origin_cannot_overflow() {
    let growing = curve(300, 100.0, 2.0);
    let found = |free_mb| {
        let room = Room {
            most_bytes: Some(1_000 * MB),
            ..room(free_mb).unwrap()
        };
        outlook(left(600_000), Some(room), &growing, &PastRuns::default())
    };
    let roomy = found(1_000);
    assert_eq!(
        (roomy.verdict, roomy.full, roomy.remedy),
        (OutlookVerdict::DoneFirst, None, None)
    );
    assert!(
        roomy.text.to_string().ends_with(
            "Snapshot vg0/snap cannot overflow: it can hold a copy of its whole origin."
        )
    );
    let short = found(900);
    assert_eq!(short.growth.unwrap().add_bytes, Some(100 * MB));
    let text = "run `lvextend -L +96m vg0/snap`, after which it cannot overflow";
    assert_eq!(short.remedy.unwrap().text.to_string(), text);
}

#[test]
fn a_backup_that_stopped_reading_is_not_almost_done() {
    let mut curve = curve(300, 100.0, 2.0);
    go_on(&mut curve, 300, 0.0, 2.0);
    let found = forecast(60_000, 10_000, &curve);
    assert_eq!((found.done, found.remedy), (None, None));
    assert!(
        found
            .text
            .to_string()
            .starts_with("Nothing was read for 5 min 00 s. "),
        "{}",
        found.text
    );
}

#[test]
fn after_a_lasting_change_the_new_speeds_count_most() {
    let mut curve = curve(200, 100.0, 0.1);
    go_on(&mut curve, 120, 20.0, 2.0);
    // 3,000 s at the new speeds.
    let done = forecast(60_000, 10_000, &curve).done.unwrap();
    assert!(
        (2_700.0..=3_300.0).contains(&done.likely_s.unwrap()),
        "{done:?}"
    );
    assert!(
        done.soonest_s <= 3_000.0 && 3_000.0 <= done.latest_s.unwrap(),
        "{done:?}"
    );
}

#[test]
fn the_interval_does_not_matter() {
    let of = |every: usize| {
        let mut thinned = ReadProgress::default();
        let mut all = curve(600, 100.0, 2.0).points();
        all.retain(|point| (point.at_s as usize).is_multiple_of(every));
        all.into_iter().for_each(|point| thinned.push(point));
        forecast(60_000, 10_000, &thinned)
    };
    let (each, tenth) = (of(1), of(10));
    assert_eq!(each.verdict, tenth.verdict);
    assert!(
        (likely(each.full) / likely(tenth.full) - 1.0).abs() < 0.05,
        "{:?} {:?}",
        each.full,
        tenth.full
    );
}

#[test]
fn a_long_run_stays_within_its_memory() {
    let mut all = curve(100_000, 1.0, 1.0);
    assert!(all.points().len() <= MOST_POINTS);
    assert!(size_of::<ReadPoint>() * MOST_POINTS <= 20 * 1024);
    assert_eq!(all.points()[0].at_s, 0.0);
    // Short intervals are merged.
    let before = all.points().len();
    for tick in 1..=8 {
        all.push(ReadPoint {
            at_s: 100_000.0 + f64::from(tick) / 10.0,
            ..all.last().unwrap()
        });
    }
    assert_eq!(all.points().len(), before + 1);
}

#[test]
fn earlier_runs_tell_the_speed_at_first() {
    let run = PastRun {
        read_bytes: 40_000 * MB,
        seconds: 400.0,
        grown_bytes: Some(400 * MB),
        ..PastRun::default()
    };
    let earlier = PastRuns {
        runs: vec![run],
        is_unreported: false,
    };
    let soon = curve(4, 50.0, 4.0);
    let done = |earlier: &PastRuns| likely(outlook(left(40_000), room(1_000), &soon, earlier).done);
    assert!((700.0..900.0).contains(&done(&PastRuns::default())));
    assert!(
        done(&earlier) < done(&PastRuns::default()) - 20.0,
        "{}",
        done(&earlier)
    );
}

#[test]
fn different_earlier_runs_widen_the_range() {
    let spread = |totals: &[u64]| {
        let run = |mb: &u64| PastRun {
            read_bytes: mb * MB,
            ..PastRun::default()
        };
        let earlier = PastRuns {
            runs: totals.iter().map(run).collect(),
            is_unreported: false,
        };
        let left = RemainingReads::of(Some(0), None, &earlier);
        let done = outlook(
            left,
            room(100_000),
            &curve(300, 100.0, 2.0),
            &PastRuns::default(),
        )
        .done
        .unwrap();
        assert!(
            (590.0..=610.0).contains(&done.likely_s.unwrap()),
            "{done:?}"
        );
        done.latest_s.unwrap() - done.soonest_s
    };
    assert!(spread(&[40_000, 60_000, 80_000]) > spread(&[60_000]) + 300.0);
}

fn remaining(
    file_system_gib: Option<u64>,
    read_gib: Option<u64>,
    totals_gib: &[u64],
    left_gib: Option<u64>,
    text: &str,
) {
    let run = |gib: &u64| PastRun {
        read_bytes: gib * GIB,
        ..PastRun::default()
    };
    let earlier = PastRuns {
        runs: totals_gib.iter().map(run).collect(),
        is_unreported: false,
    };
    let gib = |gib: u64| gib * GIB;
    let left = RemainingReads::of(read_gib.map(gib), file_system_gib.map(gib), &earlier);
    assert_eq!((&*left.text, left.left_bytes), (text, left_gib.map(gib)));
}

#[test]
fn the_rest_is_used_space_minus_reads() {
    remaining(
        Some(40),
        Some(12),
        &[99],
        Some(28),
        "Its file system uses 40.0 GiB; 12.0 GiB are read.",
    );
    remaining(
        Some(40),
        None,
        &[],
        None,
        "Its file system uses 40.0 GiB; the bytes read so far are unknown.",
    );
    let text = "Its file system uses 40.0 GiB; 41.0 GiB are read, and the rest is unknown.";
    remaining(Some(40), Some(41), &[50], None, text);
}

#[test]
fn without_a_file_system_the_total_is_that_of_earlier_runs() {
    let text = "The last 3 runs of the same origin read 40.0 GiB (36.0 GiB to 44.0 GiB); 12.0 GiB are read.";
    remaining(None, Some(12), &[44, 36, 40], Some(28), text);
    let text = "The last 3 runs of the same origin read 40.0 GiB (36.0 GiB to 44.0 GiB); 38.0 GiB are read.";
    remaining(None, Some(38), &[44, 36, 40], Some(4), text);
    let text = "The last run of the same origin read 40.0 GiB; 41.0 GiB are read, and the rest is unknown.";
    remaining(None, Some(41), &[40], None, text);
}

#[test]
fn an_unknown_total_is_reported() {
    let text = "The used space of its file system is unknown, and there is no earlier run of the same origin; 12.0 GiB are read, and \
                the rest is unknown.";
    remaining(None, Some(12), &[], None, text);
}

#[test]
fn a_backup_that_skips_files_reads_the_same_share_again() {
    let run = |read: u64, used: u64| PastRun {
        read_bytes: read * GIB,
        file_system_bytes: Some(used * GIB),
        ..PastRun::default()
    };
    let mut earlier = PastRuns {
        runs: vec![run(20, 40), run(15, 30), run(24, 40)],
        is_unreported: false,
    };
    let left = RemainingReads::of(Some(GIB), Some(50 * GIB), &earlier);
    assert_eq!((left.left_bytes, left.runs), (Some(24 * GIB), 3));
    assert_eq!(
        left.text,
        "Its file system uses 50.0 GiB, and the last 3 runs read 50 % of theirs (50 % to 60 %); 1.00 GiB are read."
    );
    earlier.is_unreported = true;
    assert_eq!(
        RemainingReads::of(Some(GIB), Some(50 * GIB), &earlier).left_bytes,
        Some(49 * GIB)
    );
}

fn remedied(free_mib: Option<u64>, likely_s: f64, text: &str) {
    let volume = Extensible {
        free: free_mib.map(|mib| mib << 20),
        ..room(0).unwrap().volume
    };
    let full = |_| {
        Some(Eta {
            likely_s: Some(likely_s),
            soonest_s: likely_s * 0.8,
            ..likely_eta()
        })
    };
    let remedy = Remedy::of(&volume, 46 << 20, 0, full);
    assert_eq!(remedy.text.to_string(), text);
}

fn likely_eta() -> Eta {
    Eta {
        likely_s: None,
        soonest_s: 0.0,
        latest_s: None,
        basis: EtaBasis::Tested,
        seen_s: 100.0,
    }
}

#[test]
fn a_remedy_names_a_command_and_what_it_buys() {
    remedied(
        Some(1024),
        2_400.0,
        "run `lvextend -L +48m vg0/snap`, which makes it last about 40 min, long enough for the backup",
    );
    remedied(
        None,
        2_400.0,
        "run `lvextend -L +48m vg0/snap` if VG vg0 has free space, which makes it last about 40 min, long enough for \
         the backup",
    );
    remedied(
        Some(22),
        300.0,
        "the backup needs 46.0 MiB more, but VG vg0 has only 22.0 MiB for it: run `lvextend -L +20m vg0/snap`, which makes \
         it last about 5 min, then add a PV to VG vg0, slow the writes, or stop the backup within 4 min 00 s",
    );
    remedied(
        Some(0),
        100.0,
        "the backup needs 46.0 MiB more, but VG vg0 has no room for it: add a PV to VG vg0, slow the writes, or stop the backup \
         within 80 s",
    );
}
