//! What is not known is a gap: never a zero, never a spike.

use std::time::Duration;

use cowbell::source::Part;
use serde_json::Value;

use crate::daemon::{Daemon, Start};
use crate::machine::{Done, line};
use crate::tape::{Snapshot, Tape, fails};

const SECOND: Duration = Duration::from_secs(1);
/// Sectors that each device reads in each tick, and the bytes per second that this makes.
const STEP: u64 = 2_048;
const RATE: f64 = 1_048_576.0;

fn names(serial: &str) -> String {
    format!(
        "sda/dev\t8:0\nsda/serial\tA\nsda/slaves\t\nsdb/dev\t8:16\nsdb/serial\t{serial}\nsdb/slaves\t\n"
    )
}

/// Plays a machine whose second disk has read as many sectors as `course` says, tick for tick, and has a serial number.
/// `None` is a tick in which it is not there. The first disk reads steadily.
fn play(course: &[Option<(u64, &str)>]) -> Daemon {
    let mut tape = Tape::new(SECOND);
    for (tick, sdb) in (1..).zip(course) {
        let steady = line((8, 0), "sda", Done::sectors(tick * STEP, 0));
        match sdb {
            Some((sectors, serial)) => {
                let sdb = line((8, 16), "sdb", Done::sectors(*sectors, 0));
                tape.bare_tick(&(steady + &sdb), &names(serial));
            }
            None => {
                tape.bare_tick(&steady, "sda/dev\t8:0\nsda/serial\tA\nsda/slaves\t\n");
            }
        }
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(course.len());
    daemon
}

/// Rates as a person reads them off a chart: MiB/s, `None` for a gap. A point is one tick.
fn course(points: &[Value]) -> Vec<Option<f64>> {
    let rate = |point: &Value| {
        assert!(
            point["min"] == point["avg"] && point["avg"] == point["max"],
            "{point}"
        );
        point["avg"].as_f64().map(|rate| rate / RATE)
    };
    points.iter().map(rate).collect()
}

fn check(played: &[Option<(u64, &str)>], of: &str, expected: &[Option<f64>]) {
    let daemon = play(played);
    assert_eq!(course(&daemon.series(of, "read_bytes")), expected, "{of}");
    let steady = course(&daemon.series("device:sda", "read_bytes"));
    assert_eq!(steady[0], None, "nothing is known of the first tick");
    assert!(
        steady[1..].iter().all(|rate| *rate == Some(1.0)),
        "the other disk goes on: {steady:?}"
    );
}

#[test]
fn a_counter_that_goes_back_is_a_gap() {
    let at = |step: u64| Some((step * STEP, "B"));
    check(
        &[at(10), at(11), at(3), at(4), at(4)],
        "device:sdb",
        &[None, Some(1.0), None, Some(1.0), Some(0.0)],
    );
}

#[test]
fn a_device_that_was_made_anew_is_a_gap_though_it_has_its_identity_and_has_counted_further() {
    let mut tape = Tape::new(SECOND);
    for (tick, inode) in (1..).zip([7, 7, 8, 8]) {
        let names = format!("sda/dev\t8:0\nsda/serial\tA\nsda/inode\t{inode}\nsda/slaves\t\n");
        tape.bare_tick(&line((8, 0), "sda", Done::sectors(tick * STEP, 0)), &names);
    }
    let daemon = Start::playing(&tape.saved(), "max").start();
    daemon.has_played(4);
    assert_eq!(
        course(&daemon.series("device:sda", "read_bytes")),
        [None, Some(1.0), None, Some(1.0)]
    );
}

#[test]
fn each_counter_that_goes_back_is_a_gap_and_a_gauge_is_none() {
    // Reads, merged, sectors, ms; writes, merged, sectors, ms; in flight, busy ms, weighted ms.
    for column in 0..11 {
        let counters = |step: u64| -> Vec<String> {
            let step_of = |index| {
                if index == column && step == 3 {
                    50
                } else {
                    100 * step
                }
            };
            (0..11).map(|index| step_of(index).to_string()).collect()
        };
        let mut tape = Tape::new(SECOND);
        for step in [1, 2, 3, 4] {
            tape.bare_tick(
                &format!("8 0 sda {}\n", counters(step).join(" ")),
                "sda/dev\t8:0\nsda/slaves\t\n",
            );
        }
        let tape = tape.saved();
        let daemon = Start::playing(&tape, "max").start();
        daemon.has_played(4);
        let rate = &daemon.series("device:sda", "written_bytes")[2]["avg"];
        // If the device had been recreated, all of its counters would have gone back.
        assert_eq!(rate.is_null(), column == 6, "column {column}: {rate}");
        let of_column = match column {
            0 => "reads",
            2 => "read_bytes",
            4 => "writes",
            3 => "read_await_ms",
            7 => "write_await_ms",
            9 => "utilisation",
            10 => "queue_depth",
            _ => continue,
        };
        let known = &daemon.series("device:sda", of_column)[2]["avg"];
        assert!(known.is_null(), "{of_column}: {known}");
    }
}

#[test]
fn a_device_that_appears_has_not_just_read_all_that_its_counter_says() {
    let at = |step: u64| Some((step * STEP, "B"));
    // Ticks in which it was never there say nothing of it either.
    check(
        &[None, None, at(500), at(501)],
        "device:sdb",
        &[None, None, None, Some(1.0)],
    );
}

#[test]
fn a_device_that_vanishes_and_returns_leaves_a_gap() {
    let at = |step: u64| Some((step * STEP, "B"));
    check(
        &[at(1), at(2), None, None, at(50), at(51)],
        "device:sdb",
        &[None, Some(1.0), None, None, None, Some(1.0)],
    );
}

#[test]
fn another_device_under_the_same_number_from_one_tick_to_the_next_is_another_series() {
    let course = [
        Some((STEP, "B")),
        Some((2 * STEP, "B")),
        Some((900 * STEP, "C")),
        Some((901 * STEP, "C")),
    ];
    check(&course, "device:B", &[None, Some(1.0), None, None]);
    check(&course, "device:C", &[None, None, None, Some(1.0)]);
    // The name means the one that had it last.
    check(&course, "device:sdb", &[None, None, None, Some(1.0)]);
}

#[test]
fn milliseconds_that_run_over_are_no_gap() {
    let mut tape = Tape::new(SECOND);
    for (tick, read_ms) in [(1, u32::MAX - 500), (2, 500)] {
        let diskstats = format!(
            "   8       0 sda {} 0 {} {read_ms} 0 0 0 0 0 0 0\n",
            tick * 10,
            tick * STEP
        );
        tape.bare_tick(&diskstats, "sda/dev\t8:0\nsda/serial\tA\nsda/slaves\t\n");
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(2);
    let awaits = daemon.series("device:sda", "read_await_ms");
    assert_eq!(
        awaits[1]["avg"].as_f64(),
        Some(100.1),
        "1001 ms for 10 requests: {awaits:?}"
    );
}

#[test]
fn what_failed_in_a_tick_is_null_in_that_tick_alone() {
    let mut tape = Tape::new(SECOND);
    for tick in 0..6 {
        let done = Done::sectors((tick + 1) * STEP, 0);
        let reading = tape.tick(Snapshot::Filled(10.0 + tick as f64), done, Done::default());
        if tick == 3 {
            for part in [Part::Diskstats, Part::Dm, Part::Vmstat, Part::Pressure] {
                fails(reading, part);
            }
        }
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(6);
    let known = |of: &str, metric: &str| -> Vec<bool> {
        daemon
            .series(of, metric)
            .iter()
            .map(|point| !point["avg"].is_null())
            .collect()
    };
    assert_eq!(
        known("device:sda", "read_bytes"),
        [false, true, true, false, false, true],
        "the next one has no before"
    );
    assert_eq!(
        known("volume:vg0/data_snapshot", "fill_percent"),
        [true, true, true, false, true, true]
    );
    assert_eq!(
        known("vm", "bi_kib_per_s"),
        [false, true, true, false, false, true]
    );
    assert_eq!(
        known("vm", "pressure_io_some"),
        [false, true, true, false, false, true]
    );
    let jobs = daemon.json("/api/v1/jobs");
    assert_eq!(
        jobs.as_array().unwrap().len(),
        1,
        "the snapshot was not gone, only unseen: {jobs}"
    );
    assert_eq!(jobs[0]["ended_at"], Value::Null);
}

#[test]
fn a_host_without_lvm_pressure_and_requests_says_null_and_not_zero() {
    let mut tape = Tape::new(SECOND);
    for _ in 0..2 {
        tape.bare_tick(
            &line((8, 0), "sda", Done::default()),
            "sda/dev\t8:0\nsda/serial\tA\nsda/slaves\t\n",
        );
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(2);
    assert_eq!(daemon.json("/api/v1/volumes"), serde_json::json!([]));
    let vm = daemon.json("/api/v1/vm");
    for key in [
        "bi_kib_per_s",
        "bo_kib_per_s",
        "user",
        "system",
        "iowait",
        "blocked",
        "pressure_io_some",
    ] {
        assert_eq!(vm.get(key), Some(&Value::Null), "{key}");
    }
    let disk = &daemon.json("/api/v1/devices")[0];
    assert_eq!(
        disk["read_bytes_per_s"].as_f64(),
        Some(0.0),
        "that nothing was read is known"
    );
    assert_eq!(
        disk["read_await_ms"],
        Value::Null,
        "how long nothing took is not"
    );
}
