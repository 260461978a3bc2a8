//! An hour of a backup host, in seconds: a snapshot fills under a writer while it is read, overflows and is removed.
//!
//! At second 600 the snapshot appears and fills by a twentieth of a percent each second: 70 % at 2000, 85 % at 2300,
//! dead at 2600, removed at 3000. From 700 on it is read, a MiB each second. In between, readers fail.

use std::time::{Duration, Instant};

use cowbell::source::Part;
use jiff::SignedDuration;
use serde_json::Value;

use crate::daemon::{Daemon, Start};
use crate::machine::Done;
use crate::tape::{BEGIN, Snapshot, Tape, fails};
use crate::wait_for;

const MIB: u64 = 1_048_576;
/// Sectors of a MiB.
const STEP: u64 = 2_048;
const TICKS: u64 = 3_600;
/// What is written to the disk all the time, in sectors each second.
const WRITTEN: u64 = 2 * STEP;

fn snapshot(second: u64) -> Snapshot {
    match second {
        600..2_600 => Snapshot::Filled((second - 600) as f64 * 0.05),
        2_600..3_000 => Snapshot::Invalid,
        _ => Snapshot::Absent,
    }
}

fn hour() -> Tape {
    let mut tape = Tape::new(Duration::from_secs(1));
    for second in 0..TICKS {
        let read = STEP * (second.clamp(700, 2_600) - 700);
        // In one second the disk reads a hundred times as much.
        let burst = if second >= 1_234 { 99 * STEP } else { 0 };
        let sda = Done::sectors(read + burst, WRITTEN * second);
        let reading = tape.tick(snapshot(second), sda, Done::sectors(read, 0));
        match second {
            1_500..1_510 | 2_100..2_105 => fails(reading, Part::Diskstats),
            2_200..2_205 => fails(reading, Part::Dm),
            _ => {}
        }
    }
    tape.saved()
}

fn at(second: u64) -> String {
    (BEGIN + SignedDuration::from_secs(second as i64)).to_string()
}

/// The series between two seconds, thinned to so many points.
fn series(
    daemon: &Daemon,
    of: &str,
    metric: &str,
    from: u64,
    to: u64,
    points: usize,
) -> Vec<Value> {
    let query = format!(
        "of={of}&metric={metric}&from={}&to={}&points={points}",
        at(from),
        at(to)
    );
    let series = daemon.series_of(&query);
    assert!(
        series.len() <= points,
        "{} points for {query}",
        series.len()
    );
    series
}

#[test]
fn an_hour_is_played_in_seconds_and_every_number_is_right() {
    let tape = hour();
    let told = tape.folder().join("told");
    let config = format!(
        "[[notify]]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"x=$(cat); printf '%s\\\\n' \\\"$x\\\" >> {0}\"]\n",
        told.display()
    );
    let began = Instant::now();
    let daemon = Start::playing(&tape, "max").config(&config).start();
    daemon.has_played(TICKS as usize);
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "it took {:?}",
        began.elapsed()
    );
    assert_eq!(daemon.json("/api/v1/status")["ticks"]["missed"], 0);
    job_is_right(&daemon);
    alerts_are_right(&daemon);
    everything_was_told_once(&told);
    rates_are_right(&daemon);
    fills_are_right(&daemon);
}

fn job_is_right(daemon: &Daemon) {
    let jobs = daemon.json("/api/v1/jobs");
    assert_eq!(
        jobs.as_array().unwrap().len(),
        1,
        "one life, one job: {jobs}"
    );
    let job = &jobs[0];
    for (key, expected) in [
        ("kind", "snapshot".into()),
        ("name", "data_snapshot".into()),
        ("vg", "vg0".into()),
        ("lv", "data_snapshot".into()),
        ("origin", "data".into()),
        ("started_at", Value::from(at(600))),
        ("ended_at", at(3_000).into()),
        ("died_at", at(2_600).into()),
        ("partly_seen", false.into()),
        ("peak_fill_percent", 99.95.into()),
        ("last_fill_percent", 99.95.into()),
        ("bytes_read", (1_900 * MIB).into()),
    ] {
        assert_eq!(job[key], expected, "{key} of {job}");
    }
    assert_ne!(job["outcome"], "succeeded", "nobody said so");
    assert_ne!(job["outcome"], Value::Null, "it has ended");
}

fn alerts_are_right(daemon: &Daemon) {
    let alerts = daemon.json("/api/v1/alerts");
    let alerts = alerts.as_array().unwrap();
    let [backup, invalid, fill, time] = &alerts[..] else {
        panic!("{alerts:?}")
    };
    // Foreseen from 20 % on: growth of 400 s tells of 1,600 s.
    assert_eq!(
        (time["rule"].as_str(), time["severity"].as_str()),
        (Some("time_until_full"), Some("critical"))
    );
    assert_eq!(
        (time["raised_at"].as_str(), time["cleared_at"].as_str()),
        (Some(&*at(1_040)), Some(&*at(2_600)))
    );
    assert_eq!((&fill["peak"], &fill["job"]), (&99.95.into(), &1.into()));
    assert_eq!(
        (backup["rule"].as_str(), backup["cleared_at"].as_str()),
        (Some("backup_failed"), None)
    );
    assert_eq!(
        (fill["rule"].as_str(), fill["severity"].as_str()),
        (Some("snapshot_fill"), Some("critical"))
    );
    assert_eq!(
        (fill["raised_at"].as_str(), fill["cleared_at"].as_str()),
        (Some(&*at(2_000)), Some(&*at(2_600)))
    );
    assert_eq!(
        (invalid["rule"].as_str(), invalid["severity"].as_str()),
        (Some("snapshot_invalid"), Some("critical"))
    );
    assert_eq!(
        (
            invalid["raised_at"].as_str(),
            invalid["cleared_at"].as_str()
        ),
        (Some(&*at(2_600)), Some(&*at(3_000)))
    );
    let latest = daemon.get("/api/v1/alerts?limit=1");
    assert_eq!(latest.json(), serde_json::json!([backup]));
    let link = latest
        .head
        .lines()
        .find_map(|line| line.strip_prefix("link: <"))
        .expect("a next page");
    let link = link
        .strip_suffix(">; rel=\"next\"")
        .unwrap()
        .replace("limit=1", "limit=9");
    let next = daemon.get(&link);
    assert_eq!(
        (next.json(), next.head.contains("link: ")),
        (serde_json::json!([invalid, fill, time]), false)
    );
}

/// At this speed newer states may replace older ones before those are told, but the newest is told, and none twice.
fn everything_was_told_once(told: &std::path::Path) {
    let key = |told: &Value| {
        ["rule", "status", "severity"]
            .map(|name| told[name].as_str().unwrap().to_string())
            .join(" ")
    };
    let messages = wait_for("the last messages", || {
        let text = std::fs::read_to_string(told).unwrap_or_default();
        let messages = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        // Alerts that are raised within two seconds share a message.
        let with_others = |message: Value| {
            let others = message["others"].as_array().cloned().unwrap_or_default();
            std::iter::once(message).chain(others)
        };
        let messages: Vec<Value> = messages.flat_map(with_others).collect();
        let last = |rule: &str| messages.iter().rfind(|told| told["rule"] == rule).map(key);
        let is_over = |rule: &str| last(rule).is_none_or(|last| last.contains("cleared"));
        let is_complete = last("backup_failed").is_some()
            && is_over("snapshot_fill")
            && is_over("snapshot_invalid");
        is_complete.then_some(messages)
    });
    for (wanted, parts) in [
        (
            "snapshot_fill raised warning",
            &[
                "vg0/data_snapshot",
                " % full (warning from 70 %)",
                "VG vg0 has 1.00 GiB for it",
                "`lvextend -L +",
                "vg0/data_snapshot`",
            ][..],
        ),
        (
            "snapshot_fill raised critical",
            &[
                "vg0/data_snapshot",
                " % full (critical from 85 %)",
                "1.00 GiB for it",
                "`lvextend -L +",
            ],
        ),
        (
            "snapshot_fill cleared critical",
            &[
                "became invalid",
                "Before: Snapshot vg0/data_snapshot is 99.95 % full",
            ],
        ),
        (
            "snapshot_invalid raised critical",
            &[
                "vg0/data_snapshot",
                "is invalid: it overflowed.",
                "lvremove",
            ],
        ),
        (
            "snapshot_invalid cleared critical",
            &[
                "vg0/data_snapshot",
                "removed",
                "Before: Snapshot vg0/data_snapshot of data is invalid",
            ],
        ),
        ("backup_failed raised critical", &[]),
    ] {
        let found: Vec<&Value> = messages.iter().filter(|told| key(told) == wanted).collect();
        assert!(found.len() <= 1, "{found:?}");
        for told in found {
            assert!(told.get("host").is_none_or(|host| host == "lab"), "{told}");
            for part in parts {
                let sentence = told["sentence"].as_str().unwrap();
                assert!(sentence.contains(part), "expected {part:?} in {sentence:?}");
            }
        }
    }
}

fn rates_are_right(daemon: &Daemon) {
    let reads = series(daemon, "device:sda", "read_bytes", 0, TICKS, 10_000);
    assert_eq!(
        reads.len(),
        TICKS as usize,
        "a point for each tick, and never more"
    );
    let rate = |second: usize| {
        assert_eq!(reads[second]["t"], at(second as u64));
        reads[second]["avg"].as_f64().map(|rate| rate / MIB as f64)
    };
    for (second, expected) in [
        (0, None),
        (1, Some(0.0)),
        (700, Some(0.0)),
        (701, Some(1.0)),
        (1_233, Some(1.0)),
        (1_234, Some(100.0)),
        (1_235, Some(1.0)),
        (1_499, Some(1.0)),
        (1_500, None),
        (1_509, None),
        (1_510, None),
        (1_511, Some(1.0)),
        (2_600, Some(1.0)),
        (2_601, Some(0.0)),
    ] {
        assert_eq!(rate(second), expected, "MiB/s at second {second}");
    }
    // Thinned, the sum stays exact and the burst stays visible.
    let thinned = series(daemon, "device:sda", "read_bytes", 1_200, 1_299, 10);
    assert_eq!(thinned.len(), 10);
    let sum: f64 = thinned
        .iter()
        .map(|point| point["avg"].as_f64().unwrap() * 10.0)
        .sum();
    assert_eq!(sum / MIB as f64, 199.0, "{thinned:?}");
    let burst = &thinned[3];
    assert_eq!(
        (burst["min"].as_f64(), burst["max"].as_f64()),
        (Some(MIB as f64), Some(100.0 * MIB as f64))
    );
    let total = series(daemon, "total", "written_bytes", 100, 199, 1);
    assert_eq!(
        total[0]["avg"].as_f64(),
        Some(2.0 * MIB as f64),
        "each byte counts once"
    );
}

fn fills_are_right(daemon: &Daemon) {
    let fills = series(
        daemon,
        "volume:vg0/data_snapshot",
        "fill_percent",
        0,
        TICKS,
        10_000,
    );
    let fill = |second: usize| fills[second]["avg"].as_f64();
    for (second, expected) in [
        (599, None),
        (700, Some(5.0)),
        (2_000, Some(70.0)),
        (2_199, Some(79.95)),
        (2_200, None),
        (2_204, None),
        (2_205, Some(80.25)),
        (2_599, Some(99.95)),
        (2_600, None),
        (3_100, None),
    ] {
        assert_eq!(fill(second), expected, "percent at second {second}");
    }
    for points in [1, 2, 7, 600] {
        let thinned = series(
            daemon,
            "volume:vg0/data_snapshot",
            "fill_percent",
            600,
            2_599,
            points,
        );
        assert_eq!(
            thinned.last().unwrap()["max"].as_f64(),
            Some(99.95),
            "in {points} points"
        );
        assert_eq!(thinned[0]["min"].as_f64(), Some(0.0), "in {points} points");
    }
    let by_uuid = series(
        daemon,
        &format!("volume:{}", crate::tape::SNAPSHOT_UUID),
        "read_bytes",
        1_000,
        1_009,
        1,
    );
    assert_eq!(
        by_uuid[0]["avg"].as_f64(),
        Some(MIB as f64),
        "what is gone is known by its UUID, too"
    );
}

#[test]
fn a_snapshot_that_is_there_at_the_start_is_a_job_since_its_creation_and_partly_seen() {
    let tape = Tape::of(
        Duration::from_secs(1),
        &[
            Snapshot::Filled(40.0),
            Snapshot::Filled(41.0),
            Snapshot::Absent,
        ],
    );
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(3);
    let job = &daemon.json("/api/v1/jobs")[0];
    assert_eq!(
        (&job["started_at"], &job["partly_seen"]),
        (&"2026-03-01T01:59:00Z".into(), &true.into()),
        "{job}"
    );
    assert_eq!(
        (&job["ended_at"], &job["outcome"]),
        (&at(2).into(), &"unknown".into()),
        "nobody said how it ended"
    );
    assert_eq!(job["peak_fill_percent"], 41.0);
}
