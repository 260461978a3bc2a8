//! The wall clock jumps: no interval is negative, and no tick is lost.

use std::time::Duration;

use jiff::SignedDuration;
use rustix::process::Signal;

use crate::daemon::{Daemon, Start, ask_database, kept_ticks, time};
use crate::machine::Done;
use crate::tape::{BEGIN, Snapshot, Tape};

const TICKS: usize = 90;
const RATE: f64 = 1_048_576.0;

/// Sets the clock by so much at the thirtieth tick; the machine reads a MiB a second all the time.
fn check(jump: SignedDuration) {
    let mut tape = Tape::new(Duration::from_secs(1));
    for tick in 0..TICKS {
        let snapshot = if tick < 80 {
            Snapshot::Filled(75.0)
        } else {
            Snapshot::Absent
        };
        let reading = tape.tick(
            snapshot,
            Done::sectors(2_048 * tick as u64, 0),
            Done::default(),
        );
        if tick >= 30 {
            reading.at += jump;
        }
    }
    let tape = tape.saved();
    let mut daemon = Start::playing(&tape, "max").start();
    daemon.has_played(TICKS);
    let status = daemon.json("/api/v1/status");
    assert_eq!(
        status["ticks"]["missed"], 0,
        "the time that did not pass was not missed"
    );
    rates_are_right(&daemon, jump);
    let jobs = daemon.json("/api/v1/jobs?from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z");
    assert_eq!(jobs.as_array().unwrap().len(), 1);
    assert!(
        time(&jobs[0]["ended_at"]) >= time(&jobs[0]["started_at"]),
        "{jobs}"
    );
    let alerts = daemon.json("/api/v1/alerts");
    assert!(
        time(&alerts[0]["cleared_at"]) >= time(&alerts[0]["raised_at"]),
        "{alerts}"
    );
    let (status, _) = daemon.stop(Signal::TERM);
    assert!(status.success());
    let kept = kept_ticks(&daemon.db);
    assert_eq!(kept.len(), TICKS);
    assert_eq!(
        kept.iter()
            .filter(|(_, elapsed_us)| *elapsed_us != 1_000_000)
            .count(),
        1,
        "the first"
    );
    assert_eq!(ask_database(&daemon.db, "SELECT count(*) FROM job"), 1);
    assert_eq!(
        ask_database(
            &daemon.db,
            "SELECT count(*) FROM alert WHERE cleared_ms IS NOT NULL"
        ),
        1
    );
}

/// Before the jump and after it: the machine read as it always did.
fn rates_are_right(daemon: &Daemon, jump: SignedDuration) {
    let set = BEGIN + SignedDuration::from_secs(30) + jump;
    let end = set + SignedDuration::from_secs(TICKS as i64 - 30);
    for (from, to) in [(BEGIN, BEGIN + SignedDuration::from_secs(30)), (set, end)] {
        let series = daemon.series_of(&format!(
            "of=device:sda&metric=read_bytes&from={from}&to={to}&points=10000"
        ));
        assert!(series.len() >= 29, "{series:?}");
        for point in series
            .iter()
            .filter(|point| point["t"] != BEGIN.to_string())
        {
            assert_eq!(
                (point["min"].as_f64(), point["max"].as_f64()),
                (Some(RATE), Some(RATE)),
                "{point}"
            );
        }
    }
}

#[test]
fn a_clock_set_back_by_an_hour_loses_nothing() {
    check(-SignedDuration::from_hours(1));
}

#[test]
fn a_clock_set_back_by_seconds_onto_ticks_that_are_there_loses_nothing() {
    check(-SignedDuration::from_secs(20));
}

#[test]
fn a_clock_set_forward_by_a_day_loses_nothing() {
    check(SignedDuration::from_hours(24));
}
