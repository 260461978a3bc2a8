//! How full a thick snapshot is where nobody may ask the kernel: an estimate, with bounds that contain what is true.

use std::time::Duration;

use cowbell::interval::Interval;
use cowbell::interval::estimate::Estimate;
use cowbell::source::{Part, Reading, Said, Text};
use cowbell::topology::{State, Volume};
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::captured::Captured;
use crate::cow::{Model, ORIGIN};
use crate::daemon::Start;
use crate::host::{report, row};
use crate::observer::{Observer, reading, volume};
use crate::tape::Tape;

/// A model of the kernel, and somebody without root who watches its counters.
struct Watched {
    model: Model,
    observer: Observer,
    seconds: f64,
}

impl Watched {
    /// Has looked once, before there were snapshots.
    fn new(counts_flushes: bool) -> Self {
        let mut watched =
            Self { model: Model::new(counts_flushes), observer: Observer::default(), seconds: 0.0 };
        watched.tick();
        watched
    }

    fn tick(&mut self) -> Interval {
        self.tick_with(vec![(Part::Dm, Said::Error("the right is missing".into()))])
    }

    fn tick_with(&mut self, mut texts: Vec<(Part, Said)>) -> Interval {
        self.seconds += 1.0;
        texts.push((Part::Diskstats, Said::Text(self.model.host.diskstats())));
        texts.push((Part::Sysfs, Said::Text(self.model.host.names())));
        self.observer.observe(&reading(self.seconds, texts))
    }

    /// Looks, and checks what is said of this snapshot.
    fn check(&mut self, lv: &str) -> Result<Estimate, String> {
        let interval = self.tick();
        self.check_in(&interval, lv)
    }

    /// What is estimated, where what is true lies within its bounds.
    fn check_in(&self, interval: &Interval, lv: &str) -> Result<Estimate, String> {
        let estimate = estimate_of(interval, lv).ok_or(format!("nothing is said of {lv}"))?;
        let (used, total) = self.model.fill(lv);
        assert_eq!(estimate.low.total, total);
        let Estimate { low, likely, high } = estimate;
        if low.used <= used && used <= high.used && low.used <= likely.used && likely.used <= high.used {
            return Ok(estimate);
        }
        Err(format!("{lv}: {used} is true, of {} {} {}", low.used, likely.used, high.used))
    }
}

fn estimate_of(interval: &Interval, lv: &str) -> Option<Estimate> {
    let (found, state) = volume(interval, lv);
    assert_eq!((state.state, state.fill), (State::Unknown, None), "an estimate is no fill");
    interval.estimate_of(found)
}

#[test]
fn one_snapshot_that_is_watched_from_its_beginning_is_known_to_the_chunk() {
    for (chunk, counts_flushes) in [(8, false), (8, true), (32, true), (128, true)] {
        let mut watched = Watched::new(counts_flushes);
        let snap = watched.model.create(chunk);
        let empty = watched.check(&snap).unwrap();
        assert_eq!((empty.low.percent(), empty.high.percent()), (0.0, 0.0), "{chunk}");
        for step in 0..40 {
            watched.model.write(step * 700, 64, 4);
            watched.model.read_snapshot(0, step * 500, 900);
            watched.model.read(777);
            let estimate = watched.check(&snap).unwrap();
            let (used, _) = watched.model.fill(&snap);
            assert_eq!((estimate.low.used, estimate.high.used), (used, used), "chunks of {chunk} sectors");
        }
    }
}

#[test]
fn a_snapshot_that_was_there_before_anybody_looked_is_not_estimated() {
    let mut watched = Watched { model: Model::new(true), observer: Observer::default(), seconds: 0.0 };
    let snap = watched.model.create(8);
    for step in 0..5 {
        watched.model.write(step * 64, 64, 4);
        assert_eq!(estimate_of(&watched.tick(), &snap), None);
    }
    let second = watched.model.create(8);
    watched.model.write(9_000, 64, 4);
    let interval = watched.tick();
    assert_eq!(estimate_of(&interval, &snap), None, "it was there all the same");
    watched.check_in(&interval, &second).unwrap();
}

/// A deactivated snapshot that is activated again reads its metadata, and writes nothing.
#[test]
fn a_snapshot_that_was_only_activated_is_not_estimated() {
    let mut watched = Watched::new(true);
    let snap = watched.model.create(8);
    let cow = watched.model.host.layer(&snap, "cow");
    cow.done = crate::machine::Done { reads: 3, sectors_read: 24, ..Default::default() };
    assert_eq!(estimate_of(&watched.tick(), &snap), None);
    watched.model.write(0, 64, 1);
    assert_eq!(estimate_of(&watched.tick(), &snap), None, "nobody knows what was in it");
}

/// `lvcreate` makes a plain volume first, clears its beginning, and only then makes it a snapshot.
#[test]
fn a_tick_in_the_middle_of_lvcreate_does_not_spoil_the_estimate() {
    let mut watched = Watched::new(true);
    watched.model.host.add("snap1", "", &["sda"], 8_192, "linear ");
    watched.tick();
    watched.model.host.remove("snap1");
    let snap = watched.model.create(8);
    assert_eq!(snap, "snap1");
    watched.check(&snap).unwrap();
    watched.model.write(0, 64, 1);
    watched.check(&snap).unwrap();
}

#[test]
fn what_was_copied_before_the_first_tick_is_within_the_bounds() {
    for at_once in [1, 3, 128] {
        let mut watched = Watched::new(true);
        let snap = watched.model.create(8);
        watched.model.write(0, 8_000, at_once);
        let first = watched.check(&snap).unwrap();
        watched.model.write(8_000, 8_000, at_once);
        let second = watched.check(&snap).unwrap();
        let width = |estimate: Estimate| estimate.high.used - estimate.low.used;
        assert!(width(second) <= width(first), "what is watched adds nothing that is not known");
    }
}

#[test]
fn a_second_snapshot_does_not_spoil_what_is_known_of_the_first() {
    let mut watched = Watched::new(true);
    let first = watched.model.create(8);
    watched.model.write(0, 800, 4);
    watched.check(&first).unwrap();
    let second = watched.model.create(8);
    watched.model.write(400, 800, 4);
    let interval = watched.tick();
    watched.check_in(&interval, &first).unwrap();
    watched.check_in(&interval, &second).unwrap();
    watched.model.write(2_000, 4_000, 4);
    let interval = watched.tick();
    let one = watched.check_in(&interval, &first).unwrap();
    let other = watched.check_in(&interval, &second).unwrap();
    assert!(one.low.used > 3_000 && other.low.used > 3_000, "{one:?} {other:?}");
}

#[test]
fn the_end_of_a_backup_from_another_snapshot_is_not_taken_for_copying() {
    let mut watched = Watched::new(true);
    let first = watched.model.create(8);
    let _second = watched.model.create(8);
    watched.model.write(0, 800, 4);
    watched.tick();
    // Read through it until it is removed, all between two ticks.
    watched.model.read_snapshot(1, 0, 30_000);
    watched.model.remove(1);
    let estimate = watched.check(&first).unwrap();
    assert!(estimate.low.used <= watched.model.fill(&first).0, "{estimate:?}");
}

#[test]
fn a_tick_without_diskstats_widens_the_bounds_and_loses_nothing() {
    let mut watched = Watched::new(true);
    let snap = watched.model.create(8);
    watched.model.write(0, 800, 1);
    watched.check(&snap).unwrap();
    watched.seconds += 1.0;
    let nothing = vec![(Part::Diskstats, Said::Error("it was not there".into()))];
    watched.observer.observe(&reading(watched.seconds, nothing));
    watched.model.write(800, 800, 1);
    watched.check(&snap).unwrap();
    watched.model.write(1_600, 800, 1);
    watched.check(&snap).unwrap();
}

#[test]
fn where_the_kernel_or_lvm_says_it_nothing_is_estimated() {
    let mut watched = Watched::new(true);
    let snap = watched.model.create(8);
    watched.model.write(0, 800, 1);
    watched.check(&snap).unwrap();
    let mut said = row(&snap, "swi-a-s---");
    said["data_percent"] = "0.70".into();
    let interval = watched.tick_with(vec![
        (Part::Dm, Said::Error("the right is missing".into())),
        (Part::Lvm, Said::Text(report(&[row("data", "owi-a-s---"), said]))),
    ]);
    let (found, state) = volume(&interval, &snap);
    assert_eq!((state.fill.map(|fill| fill.percent()), interval.estimate_of(found)), (Some(0.7), None));

    let (used, total) = watched.model.fill(&snap);
    watched.model.host.layer(&snap, "").status = format!("snapshot {used}/{total} 16");
    let dm = watched.model.host.device_mapper();
    let interval = watched.tick_with(vec![(Part::Dm, Said::Text(dm))]);
    let (found, state) = volume(&interval, &snap);
    assert_eq!((state.fill.map(|fill| fill.used), interval.estimate_of(found)), (Some(used), None));
}

#[test]
fn visitors_see_it_as_what_it_is() {
    let mut model = Model::new(true);
    let mut tape = Tape::new(Duration::from_secs(1));
    let mut look = |model: &Model| {
        let texts = [
            (Part::Diskstats, Said::Text(model.host.diskstats())),
            (Part::Sysfs, Said::Text(model.host.names())),
            (Part::Dm, Said::Error("the right is missing".into())),
        ];
        tape.add(texts.map(|(part, said)| Text { part, said, took_us: 10 }).into());
    };
    look(&model);
    let snap = model.create(8);
    look(&model);
    model.write(0, 16_000, 4);
    look(&model);
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(3);
    let volumes = daemon.json("/api/v1/volumes");
    let volume = volumes.as_array().unwrap().iter().find(|volume| volume["lv"] == *snap).unwrap();
    assert_eq!((&volume["state"], &volume["fill_percent"]), (&"unknown".into(), &serde_json::Value::Null));
    let (used, total) = model.fill(&snap);
    let estimate = &volume["fill_estimate"];
    let percent = (used as f64 / total as f64 * 10_000.0).round() / 100.0;
    assert_eq!(estimate["used_bytes"].as_u64(), Some(used * 512), "{volume}");
    for key in ["percent", "low_percent", "high_percent"] {
        assert_eq!(estimate[key].as_f64(), Some(percent), "{key}: {volume}");
    }
    assert_eq!(daemon.part("dm")["error"], "the right is missing");
}

/// Real counters of four kernels: as if all snapshots were made, and filled, between two ticks.
#[test]
fn what_lvs_said_of_captured_snapshots_is_within_the_bounds() {
    for machine in
        Captured::with_volumes().into_iter().filter(|machine| !machine.name.starts_with("constructed"))
    {
        let mut second = machine.reading.clone();
        second.texts.retain(|text| matches!(text.part, Part::Diskstats | Part::Sysfs));
        let mut first = second.clone();
        (first.at, first.uptime_us) =
            (first.at - jiff::SignedDuration::from_secs(1), first.uptime_us - 1_000_000);
        forget_snapshots(&mut first, machine);
        let mut observer = Observer::default();
        observer.observe(&first);
        let interval = observer.observe(&second);
        let rows = machine.rows();
        let valid = rows.iter().filter(|row| row.attributes.starts_with("swi-a"));
        let mut seen = 0;
        for row in valid {
            let (found, _): (&Volume, _) = volume(&interval, &row.lv);
            let estimate = interval.estimate_of(found).unwrap_or_else(|| panic!("{} {row:?}", machine.name));
            let bounds = estimate.low.percent()..=estimate.high.percent();
            assert!(bounds.contains(&row.data.unwrap()), "{} {row:?} {bounds:?}", machine.name);
            seen += 1;
        }
        assert!(seen >= 2, "{}", machine.name);
    }
}

/// As the machine was before its thick snapshots were made.
fn forget_snapshots(reading: &mut Reading, machine: &Captured) {
    let info = machine.file("dmsetup-info").unwrap();
    let rows = machine.rows();
    let is_snapshot = |name: &str| {
        let snapshots = rows.iter().filter(|row| row.attributes.starts_with('s'));
        snapshots.into_iter().any(|row| {
            let dm_name = format!("{}-{}", row.vg.replace('-', "--"), row.lv.replace('-', "--"));
            let origin = row.origin.as_ref().unwrap().replace('-', "--");
            let real = format!("{}-{origin}-real", row.vg.replace('-', "--"));
            name == dm_name || name == dm_name + "-cow" || name == real
        })
    };
    let gone: Vec<String> = info
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter(|columns| is_snapshot(columns[2]))
        .map(|columns| format!("dm-{}", columns[1]))
        .collect();
    assert!(gone.len() >= 6, "{gone:?}");
    for text in &mut reading.texts {
        let Said::Text(said) = &mut text.said else { continue };
        let names = |line: &str| match text.part {
            Part::Sysfs => line.split('/').next().unwrap_or_default().to_string(),
            _ => line.split_ascii_whitespace().nth(2).unwrap_or_default().to_string(),
        };
        let kept: String = said
            .lines()
            .filter(|line| !gone.contains(&names(line)))
            .map(|line| format!("{line}\n"))
            .collect();
        *said = kept;
    }
}

/// What happens to the origin and its snapshots.
#[derive(Clone, Debug)]
enum Event {
    Create { chunk: u64 },
    Remove { which: usize },
    Write { first: u64, sectors: u64, at_once: usize },
    Read { sectors: u64 },
    ReadSnapshot { which: usize, first: u64, sectors: u64 },
    WriteSnapshot { which: usize, first: u64, sectors: u64 },
    Tick,
    MissedTick,
}

fn events(may_write_into_snapshots: bool) -> impl Strategy<Value = Vec<Event>> {
    let place = || {
        (0..ORIGIN / 8, 1..64_u64).prop_map(|(first, length)| {
            let (first, sectors) = (first * 8, length * 8);
            (first, sectors.min(ORIGIN - first))
        })
    };
    let into = if may_write_into_snapshots { 2 } else { 0 };
    let event = prop_oneof![
        2 => (3..8_u32).prop_map(|power| Event::Create { chunk: 1 << power }),
        1 => (0..4_usize).prop_map(|which| Event::Remove { which }),
        12 => (place(), 1..40_usize).prop_map(|((first, sectors), at_once)| Event::Write { first, sectors, at_once }),
        2 => (1..500_u64).prop_map(|sectors| Event::Read { sectors }),
        4 => (0..4_usize, place())
            .prop_map(|(which, (first, sectors))| Event::ReadSnapshot { which, first, sectors }),
        into => (0..4_usize, place())
            .prop_map(|(which, (first, sectors))| Event::WriteSnapshot { which, first, sectors }),
        8 => Just(Event::Tick),
        1 => Just(Event::MissedTick),
    ];
    prop::collection::vec(event, 1..120)
}

/// Lets it happen, and looks at every tick: each snapshot is estimated, and rightly.
fn check_history(events: &[Event], counts_flushes: bool) -> Result<(), TestCaseError> {
    let (mut watched, mut seen) = (Watched::new(counts_flushes), Vec::new());
    for event in events {
        let model = &mut watched.model;
        match *event {
            Event::Create { chunk } if model.names().len() < 4 => drop(model.create(chunk)),
            Event::Create { .. } => {}
            // One that comes and goes between two ticks nobody sees, and its copies are taken for those of others.
            Event::Remove { which } if model.names().iter().all(|lv| seen.contains(lv)) => {
                model.remove(which)
            }
            Event::Remove { .. } => {}
            Event::Write { first, sectors, at_once } => model.write(first, sectors, at_once),
            Event::Read { sectors } => model.read(sectors),
            Event::ReadSnapshot { which, first, sectors } => model.read_snapshot(which, first, sectors),
            Event::WriteSnapshot { which, first, sectors } => model.write_snapshot(which, first, sectors),
            Event::Tick => {
                let interval = watched.tick();
                seen = watched.model.names();
                for lv in watched.model.names() {
                    watched.check_in(&interval, &lv).map_err(TestCaseError::fail)?;
                }
            }
            Event::MissedTick => {
                watched.seconds += 1.0;
                let nothing = vec![(Part::Diskstats, Said::Error("it was not there".into()))];
                watched.observer.observe(&reading(watched.seconds, nothing));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 100, failure_persistence: None, ..Config::default() })]

    #[test]
    fn whatever_happens_to_an_origin_the_truth_lies_within_the_bounds(
        events in events(false), counts_flushes in any::<bool>()
    ) {
        check_history(&events, counts_flushes)?;
    }

    #[test]
    fn and_it_does_where_snapshots_are_written_to(events in events(true), counts_flushes in any::<bool>()) {
        check_history(&events, counts_flushes)?;
    }
}
