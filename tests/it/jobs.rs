//! What a job cost, as the API, its page and `cowbell job` tell it: from a whole program that played a recording.

use std::time::Duration;

use serde_json::Value;

use crate::daemon::{Daemon, Said, Start, cowbell, said};
use crate::machine::Done;
use crate::tape::{Snapshot, Tape};

/// Sectors of a MiB.
const MIB: u64 = 2048;

/// A minute without a snapshot, two in which it fills and is read at 8 MiB/s and then at 4, and a minute without.
fn night() -> (Tape, Daemon) {
    let mut tape = Tape::new(Duration::from_secs(1));
    let (absent, idle) = (Snapshot::Absent, Done::default());
    for _ in 0..60 {
        tape.tick(absent, idle, idle);
    }
    let mut read = 0;
    for second in 0..120_u32 {
        let snapshot = Snapshot::Filled(f64::from(second) / 10.0);
        tape.tick(snapshot, Done::sectors(read, 0), Done::sectors(read, 0));
        read += if second < 60 { 8 * MIB } else { 4 * MIB };
    }
    for _ in 0..180 {
        tape.tick(absent, Done::sectors(read, 0), idle);
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(360);
    (tape, daemon)
}

fn job(daemon: &Daemon, arguments: &[&str]) -> Said {
    let listen = format!("127.0.0.1:{}", daemon.port);
    said(
        cowbell()
            .arg("job")
            .args(arguments)
            .args(["--listen", &listen]),
    )
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected {part:?} in {text}");
    }
}

#[test]
fn figures_are_what_was_seen_of_the_job() {
    let (_tape, daemon) = night();
    let body = daemon.json("/api/v1/jobs/1/figures");
    let read = &body["figures"]["read"];
    let mib = |value: &Value| value.as_f64().unwrap() / f64::from(1 << 20);
    // What was read in the tick in which the snapshot was gone nobody saw.
    assert_eq!(
        mib(&read["bytes"]).round(),
        60.0 * 8.0 + 59.0 * 4.0,
        "{body:#}"
    );
    assert_eq!(
        (mib(&read["ends"]["first"]), mib(&read["ends"]["last"])),
        (8.0, 4.0)
    );
    assert_eq!(body["figures"]["fill"]["peak_percent"], 11.9);
    assert_eq!(body["setup"]["kind"], "thick");
    assert_eq!(body["setup"]["origin_pvs"], body["setup"]["cow_pvs"]);
    has(
        &body["diagnosis"].to_string(),
        &["Reads slowed from 8.00 MiB/s to 4.00 MiB/s."],
    );
    assert_eq!(
        body["sizing"]["suggested_bytes"], 66_560_000,
        "as it was: one run is not enough for less"
    );
}

#[test]
fn a_job_that_is_none_is_refused_with_a_sentence() {
    let (_tape, daemon) = night();
    let missing = daemon.get("/api/v1/jobs/77/figures");
    assert_eq!(
        (missing.status, &*missing.sentence()),
        (404, "there is no job 77; `cowbell job list` lists all jobs")
    );
    let misnamed = daemon.get("/api/v1/jobs/nightly/figures");
    assert_eq!(misnamed.status, 400);
    has(
        &misnamed.sentence(),
        &["expected the ID of a job", "found `nightly`"],
    );
}

#[test]
fn the_page_says_what_it_cost() {
    let (_tape, daemon) = night();
    let page = daemon.get("/jobs/1").body;
    has(
        &page,
        &[
            "<h2 id=\"cost\">Cost</h2>",
            "Reads slowed from",
            "While it was read",
        ],
    );
}

#[test]
fn jobs_are_listed_and_shown_on_the_command_line() {
    let (_tape, daemon) = night();
    let list = job(&daemon, &["list"]);
    assert_eq!((list.code, &*list.err), (Some(0), ""), "{list:?}");
    has(&list.out, &["ID  Job", "1   data_snapshot", "vg0/data"]);
    let shown = job(&daemon, &["show", "1"]);
    has(&shown.out, &["\n\nReads slowed", "read speed mean"]);
    let markdown = job(&daemon, &["show", "1", "--markdown"]);
    has(&markdown.out, &["# data\\_snapshot", "| Figure | Value |"]);
    let json: Value = serde_json::from_str(&job(&daemon, &["show", "1", "--json"]).out).unwrap();
    assert_eq!(json["id"], 1);
    let none = job(&daemon, &["show", "9"]);
    assert_eq!(none.code, Some(1));
    has(&none.err, &["there is no job 9"]);
}
