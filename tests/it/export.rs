//! What is exported is what the API says, to the last digit; what is not known stays empty.

use std::time::Duration;

use cowbell::source::Part;
use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;

use crate::daemon::{
    Daemon, Said, Start, block_on, change_database, cowbell, kept_ticks, said, time,
};
use crate::machine::{Done, line};
use crate::tape::{Snapshot, Tape, fails};
use crate::ticks::{Tick, keep};
use crate::wait_for;

const SECOND: Duration = Duration::from_secs(1);
const SNAPSHOT: &str = "vg0/data_snapshot";
const HEAD: usize = 5;

/// A snapshot that fills while a disk reads, for as many seconds, and a tick in which nothing could be read.
fn played(ticks: usize) -> Daemon {
    let mut tape = Tape::new(SECOND);
    for tick in 0..ticks as u64 {
        let done = Done::sectors((tick + 1) * (tick + 7) * 8, tick * 24);
        let reading = tape.tick(
            Snapshot::Filled(10.0 + tick as f64 / 7.0),
            done,
            Done::sectors(tick * 8, 0),
        );
        if tick == 3 {
            for part in [Part::Diskstats, Part::Dm, Part::Vmstat] {
                fails(reading, part);
            }
        }
    }
    play(tape, ticks)
}

/// What is exported is what is committed, which is a little behind what the daemon knows.
fn play(tape: Tape, ticks: usize) -> Daemon {
    let daemon = Start::playing(&tape.saved(), "max").start();
    wait_for("all ticks in the database", || {
        (kept_ticks(&daemon.db).len() == ticks).then_some(())
    });
    daemon
}

fn export(daemon: &Daemon, arguments: &[&str]) -> Said {
    said(
        cowbell()
            .arg("export")
            .arg("--db")
            .arg(&daemon.db)
            .args(arguments),
    )
}

fn exported(daemon: &Daemon, arguments: &[&str]) -> String {
    let said = export(daemon, arguments);
    assert_eq!(
        (said.code, said.err.as_str()),
        (Some(0), ""),
        "{arguments:?}"
    );
    said.out
}

/// A table with a head, whose fields hold no commas.
fn table(text: &str) -> (Vec<&str>, Vec<Vec<&str>>) {
    assert!(text.ends_with("\r\n"), "lines end as RFC 4180 has it");
    let mut lines = text
        .trim_end()
        .split("\r\n")
        .map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let rows: Vec<Vec<&str>> = lines.collect();
    assert!(rows.iter().all(|row| row.len() == head.len()), "{text}");
    (head, rows)
}

/// Instants and values of one column, an empty field as what is not known.
fn column(text: &str, name: &str) -> Vec<(jiff::Timestamp, Option<f64>)> {
    let (head, rows) = table(text);
    let place = head
        .iter()
        .position(|column| *column == name)
        .unwrap_or_else(|| panic!("{name} in {head:?}"));
    let cell = |row: &Vec<&str>| (row[0].parse().unwrap(), row[place].parse().ok());
    rows.iter().map(cell).collect()
}

fn api(daemon: &Daemon, of: &str, metric: &str) -> Vec<(jiff::Timestamp, Option<f64>)> {
    let point = |point: &Value| (time(&point["t"]), point["avg"].as_f64());
    daemon.series(of, metric).iter().map(point).collect()
}

#[test]
fn what_is_exported_is_what_the_api_says_beside_the_daemon_and_afterwards() {
    let mut daemon = played(40);
    let subjects = [
        "device:sda".to_string(),
        "total".into(),
        "vm".into(),
        format!("volume:{SNAPSHOT}"),
    ];
    let texts = |daemon: &Daemon| {
        subjects
            .each_ref()
            .map(|of| exported(daemon, &["--of", of]))
    };
    let before = texts(&daemon);
    for (of, text) in subjects.iter().zip(&before) {
        let (head, rows) = table(text);
        assert_eq!(
            (&head[..HEAD], rows.len()),
            (&["time", "kind", "name", "id", "seconds"][..], 40)
        );
        for metric in &head[HEAD..] {
            assert_eq!(
                column(text, metric),
                api(&daemon, of, metric),
                "{of} {metric}"
            );
        }
    }
    daemon.stop(Signal::TERM);
    assert_eq!(texts(&daemon), before);
}

#[test]
fn what_is_not_known_is_empty_in_csv_and_null_in_json() {
    let daemon = played(6);
    let of = ["--of", "device:sda", "--metric", "read_bytes"];
    let known: Vec<bool> = column(&exported(&daemon, &of), "read_bytes")
        .iter()
        .map(|(_, value)| value.is_some())
        .collect();
    assert_eq!(known, [false, true, true, false, false, true]);

    let text = exported(&daemon, &[&of[..], &["--format", "json"]].concat());
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let nulls: Vec<bool> = lines
        .iter()
        .map(|line| line["read_bytes"].is_null())
        .collect();
    assert_eq!(nulls, known.iter().map(|known| !known).collect::<Vec<_>>());
    assert!(
        lines
            .iter()
            .all(|line| line.get("read_bytes").is_some() && line["name"] == "sda"),
        "{text}"
    );
}

#[test]
fn a_minute_is_the_sum_of_its_ticks_with_the_smallest_and_the_largest() {
    let daemon = played(150);
    let seconds = exported(&daemon, &["--of", "device:sda", "--metric", "read_bytes"]);
    let minutes = exported(
        &daemon,
        &[
            "--of",
            "device:sda",
            "--metric",
            "read_bytes",
            "--resolution",
            "1min",
        ],
    );
    let known: Vec<f64> = column(&seconds, "read_bytes")[61..121]
        .iter()
        .filter_map(|(_, value)| *value)
        .collect();
    let at = |name: &str| column(&minutes, name);
    let place = at("read_bytes")
        .iter()
        .position(|(at, _)| at.to_string() == "2026-03-01T02:02:00Z")
        .unwrap();
    let value = |name: &str| at(name)[place].1.unwrap();
    assert_eq!((known.len(), value("seconds")), (60, 60.0));
    let mean = known.iter().sum::<f64>() / 60.0;
    assert!((value("read_bytes") / mean - 1.0).abs() < 1e-12);
    // Rounded outward to eight binary digits.
    let (least, most) = (known[0], known[59]);
    assert!(value("read_bytes_min") <= least && value("read_bytes_min") > least * 0.996);
    assert!(value("read_bytes_max") >= most && value("read_bytes_max") < most * 1.004);
}

#[test]
fn where_only_roll_ups_are_left_those_are_told_and_no_byte_is_lost() {
    // Four hours and a little.
    let mut tape = Tape::new(10 * SECOND);
    for tick in 0..1_500 {
        let done = Done::sectors(tick * tick * 8, 0);
        tape.bare_tick(
            &line((8, 0), "sda", done),
            "sda/dev\t8:0\nsda/serial\tA\nsda/slaves\t\n",
        );
    }
    let mut daemon = play(tape, 1_500);
    daemon.stop(Signal::TERM);
    let told = |arguments: &[&str]| {
        // More than a pipe holds.
        let file = daemon.folder.path().join("told.csv");
        let to_file = [
            "--of",
            "device:sda",
            "--metric",
            "read_bytes",
            "--output",
            file.to_str().unwrap(),
        ];
        exported(&daemon, &[&to_file, arguments].concat());
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let seconds = column(&text, "seconds")
            .into_iter()
            .map(|(_, seconds)| seconds.unwrap());
        let rates = column(&text, "read_bytes")
            .into_iter()
            .map(|(_, rate)| rate.unwrap_or_default());
        let bytes: f64 = seconds
            .zip(rates)
            .map(|(seconds, rate)| seconds * rate)
            .sum();
        (text.lines().count() - 1, bytes.round() as u64, text)
    };
    let (fine, coarse) = (told(&[]), told(&["--resolution", "1min"]));
    assert_eq!((fine.0, fine.1), (1_500, 1_499 * 1_499 * 4_096));
    assert_eq!(fine.1, coarse.1);
    change_database(
        &daemon.db,
        "DELETE FROM tick WHERE id <= (SELECT max(id) FROM ten_minute)",
    );
    let left = told(&[]);
    assert!((250..400).contains(&left.0), "{} rows", left.0);
    assert_eq!(left.1, fine.1);
    assert_eq!(told(&["--resolution", "1min"]).2, coarse.2);
}

#[test]
fn a_range_is_understood_as_everywhere_and_relative_to_the_last_tick() {
    let daemon = played(40);
    let count = |span: &[&str]| {
        table(&exported(&daemon, &[&["--of", "vm"], span].concat()))
            .1
            .len()
    };
    assert_eq!(count(&["--from", "-9s"]), 10);
    assert_eq!(count(&["--from", "2026-03-01T02:00:05Z", "--to=-30s"]), 5);
    assert_eq!(count(&["--to", "2026-03-01T01:00:00Z"]), 0);
}

#[test]
fn a_relative_range_ends_now_also_after_the_clock_was_in_the_future() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("cowbell.db");
    let tick = |at| Tick {
        at,
        elapsed: SECOND.try_into().unwrap(),
        sectors: 1,
    };
    let now = tick(Timestamp::now() - SECOND);
    let future = tick("2156-01-01T00:00:00Z".parse().unwrap());
    block_on(keep(&db, &[future, now]));
    let rows = |span: &[&str]| {
        let arguments = ["export", "--of", "total", "--db", db.to_str().unwrap()];
        let said = said(cowbell().args(arguments).args(span));
        assert_eq!(said.err, "");
        said.out.lines().count() - 1
    };
    assert_eq!(rows(&["--from", "-1h"]), 1);
    assert_eq!(rows(&[]), 2);
}

#[test]
fn a_name_with_commas_and_quotes_is_one_field() {
    let mut tape = Tape::new(SECOND);
    for tick in 1..3 {
        let diskstats = line((8, 0), "sda", Done::sectors(tick * 8, 0));
        tape.bare_tick(
            &diskstats,
            "sda/dev\t8:0\nsda/serial\ta \"b\", c\nsda/slaves\t\n",
        );
    }
    let daemon = play(tape, 2);
    let text = exported(&daemon, &["--of", "device:sda", "--metric", "reads"]);
    assert!(
        text.contains(",device,sda,\"a \"\"b\"\", c\",1,1\r\n"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_exported_is_a_sentence() {
    let daemon = played(3);
    let check = |arguments: &[&str], expected: &str| {
        let said = export(&daemon, arguments);
        assert!(
            said.code == Some(1) && said.err.contains(expected),
            "{expected}: {said:?}"
        );
        assert_eq!((said.out.as_str(), said.err.lines().count()), ("", 1));
    };
    check(
        &["--of", "device:sdz"],
        "nothing called `device:sdz` was ever seen here; there is volume:vg0/data",
    );
    check(&["--of", "device:sdz"], "device:sda");
    check(
        &["--of", "sda"],
        "expected `of` to be device:<name or uuid>",
    );
    check(&["--metric", "read_bytes,bogus"], "but found `bogus`");
    check(
        &["--of", "vm", "--metric", "reads"],
        "expected `metric` to be one of bi_kib_per_s",
    );
    check(
        &["--from", "yesterday"],
        "expected `from` to be a time such as",
    );
    check(
        &["--output", daemon.db.to_str().unwrap()],
        "exists and is not overwritten",
    );
    let nowhere = said(cowbell().args(["export", "--db", "/nonexistent/cowbell.db"]));
    assert_eq!(
        nowhere.err,
        "cowbell: cannot read the database /nonexistent/cowbell.db: there is none\n"
    );
}

/// A tick is needed for the later ones of its ten minutes.
#[test]
fn what_is_damaged_is_left_out_and_said_and_all_else_is_exported() {
    let mut tape = Tape::new(20 * SECOND);
    for tick in 1..=100 {
        let diskstats = line((8, 0), "sda", Done::sectors(tick * 8, 0));
        tape.bare_tick(&diskstats, "sda/dev\t8:0\nsda/serial\tA\nsda/slaves\t\n");
    }
    let mut daemon = play(tape, 100);
    daemon.stop(Signal::TERM);
    let of_disk = ["--of", "device:sda", "--metric", "reads"];
    let rows = |text: &str| table(text).1.len();
    let all = rows(&exported(&daemon, &of_disk));
    change_database(
        &daemon.db,
        "UPDATE tick SET record = x'00' WHERE id = (SELECT min(id) FROM tick WHERE id > 1772330400000)",
    );
    let said = export(&daemon, &of_disk);
    let missing = "missing, between 2026-03-01T02:00:20Z and 2026-03-01T02:10:00Z: `cowbell db verify` says more";
    let expected = format!("cowbell: 30 stored rows are damaged and {missing}\n");
    assert_eq!(
        (said.code, said.err, rows(&said.out)),
        (Some(1), expected, all - 30)
    );
    exported(
        &daemon,
        &[&of_disk[..], &["--from", "2026-03-01T02:25:00Z"]].concat(),
    );

    change_database(
        &daemon.db,
        "UPDATE tick SET record = x'00' WHERE id = 1772331600000",
    );
    for ending in ["csv", "jsonl"] {
        let file = daemon.folder.path().join("told").with_extension(ending);
        let to_file = ["--output", file.to_str().unwrap()];
        let said = export(&daemon, &[&of_disk[..], &to_file].concat());
        let expected = "cowbell: 31 stored rows are damaged and missing, between 2026-03-01T02:00:20Z and 2026-03-01T02:20:00Z: `cowbell db verify` says more\n";
        assert_eq!((said.code, said.err.as_str()), (Some(1), expected));
        assert!(said.out.contains(" rows in ") && file.exists(), "{said:?}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let daemon = played(40);
    let program = env!("CARGO_BIN_EXE_cowbell");
    let script = format!("{program} export --db {} | head -n 1", daemon.db.display());
    let said = said(std::process::Command::new("sh").args(["-c", &script]));
    assert_eq!((said.err.as_str(), said.out.lines().count()), ("", 1));
}

#[test]
fn openmetrics_has_a_sample_for_each_known_value_of_a_series() {
    let daemon = played(12);
    let text = exported(&daemon, &["--format", "openmetrics"]);
    assert!(text.ends_with("\n# EOF\n"));
    let fill: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("cowbell_volume_fill_ratio{"))
        .collect();
    assert!(
        fill[0].contains("vg=\"vg0\",lv=\"data_snapshot\",uuid=\""),
        "{}",
        fill[0]
    );
    let csv = exported(
        &daemon,
        &[
            "--of",
            &format!("volume:{SNAPSHOT}"),
            "--metric",
            "fill_percent",
        ],
    );
    let (_, rows) = table(&csv);
    let known: Vec<f64> = rows
        .iter()
        .filter_map(|row| row[HEAD].parse().ok())
        .collect();
    let samples = fill
        .iter()
        .map(|line| line.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 100.0);
    assert!(
        known.len() >= 11 && known.len() == fill.len(),
        "{known:?} {fill:?}"
    );
    assert!(
        samples
            .zip(&known)
            .all(|(sample, known)| (sample - known).abs() < 1e-9)
    );
    let families: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .collect();
    let distinct: std::collections::BTreeSet<&&str> = families.iter().collect();
    assert_eq!(
        families.len(),
        distinct.len(),
        "a family's samples are together"
    );
}
