//! Files of jobs that are nearly as long as a file may be: one at a time goes in and one out, and what that takes of
//! memory.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::process::Pid;
use serde_json::{Value, json};

use crate::daemon::{Daemon, Start};
use crate::http::{self, Answer};
use crate::machine::Machine;

const MIB: usize = 1024 * 1024;
/// Ticks of which a file with everything in it is nearly as long as it may be, also by the count of its values.
const LONGEST: usize = 90_000;
/// Of 6 MiB, which is more than the kernel takes of what nobody reads.
const LONG: usize = 36_000;
/// Nearly as many as a file may have.
const MOST: usize = 830_000;
const MEASURES: [&str; 13] = [
    "snapshot_read",
    "fill_percent",
    "cow_written",
    "copied",
    "origin_read",
    "origin_written",
    "origin_writes",
    "origin_write_await_ms",
    "bi",
    "bo",
    "user",
    "system",
    "iowait",
];
const OF_A_PV: [&str; 5] = [
    "read",
    "written",
    "utilisation",
    "read_await_ms",
    "read_request_bytes",
];
const SHARES: [&str; 5] = ["fill_percent", "user", "system", "iowait", "utilisation"];

/// A job's file of so many seconds with everything that is known of a job, each with other numbers.
fn file(ticks: usize) -> String {
    file_of(ticks, &MEASURES, &OF_A_PV)
}

fn file_of(ticks: usize, measures: &[&str], of_a_pv: &[&str]) -> String {
    let mut last = 1_u64;
    let mut number = || {
        last = last
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        last >> 33
    };
    let mut column = |name: &str| match SHARES.contains(&name) {
        true => (0..ticks)
            .map(|_| json!((number() % 1_000_000) as f64 / 1e6))
            .collect::<Vec<_>>(),
        false => (0..ticks).map(|_| json!(number() % 120_000_000)).collect(),
    };
    let mut columns = |names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| ((*name).to_string(), json!(column(name))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let lengths: Vec<_> = (1..=ticks).map(|tick| (tick * 1000, 1_000_000)).collect();
    let during =
        json!({"ticks": lengths, "columns": columns(measures), "pvs": {"sda": columns(of_a_pv)}});
    let began: jiff::Timestamp = "2026-03-01T02:00:00Z".parse().unwrap();
    let ended = began + jiff::SignedDuration::from_secs(ticks as i64);
    let job = json!({
        "kind": "snapshot", "name": "data_snapshot", "vg": "vg0", "lv": "data_snapshot", "origin": "data",
        "started_at": began, "ended_at": ended, "outcome": "succeeded", "setup": {"host": "twin"},
    });
    json!({"cowbell_job": 1, "job": job, "before": null, "during": during, "after": null})
        .to_string()
}

fn head(daemon: &Daemon, length: usize) -> String {
    let host = format!("127.0.0.1:{}", daemon.port);
    format!(
        "POST /api/v1/jobs/import HTTP/1.1\r\nConnection: close\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

fn import(daemon: &Daemon, file: &str) -> Answer {
    http::command(daemon.port, (head(daemon, file.len()) + file).as_bytes()).unwrap()
}

/// A connection that has said so much and says no more.
fn begun(daemon: &Daemon, words: &str) -> UnixStream {
    let mut stream = http::control(daemon.port).unwrap();
    stream.write_all(words.as_bytes()).unwrap();
    stream
}

fn refused(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 503, "{answer:?}");
    let sentence = format!("another job is being {what}; try again");
    assert_eq!(answer.sentence(), sentence);
}

#[test]
fn while_somebody_sends_a_file_no_other_is_taken_in() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let small = file(20);
    let head = head(&daemon, small.len()).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    let mut slow = begun(&daemon, &head);
    let mut asked = [0; 25];
    slow.read_exact(&mut asked).unwrap();
    assert_eq!(
        &asked, b"HTTP/1.1 100 Continue\r\n\r\n",
        "he has the place, and is to go on"
    );
    slow.write_all(&small.as_bytes()[..100]).unwrap();
    refused(&import(&daemon, &small), "imported");
    drop(slow);
    crate::wait_for("the place", || {
        (import(&daemon, &small).status == 201).then_some(())
    });
}

#[test]
fn while_somebody_takes_no_more_of_a_file_no_other_is_given_out() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    assert_eq!(import(&daemon, &file(LONG)).status, 201);
    let mut slow = begun(
        &daemon,
        "GET /api/v1/jobs/1/export HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    slow.read_exact(&mut [0; 100]).unwrap();
    refused(&daemon.get("/api/v1/jobs/1/export"), "exported");
    drop(slow);
    let whole = crate::wait_for("the place", || {
        let answer = daemon.get("/api/v1/jobs/1/export");
        (answer.status == 200).then_some(answer.body)
    });
    assert!(whole.len() > 4 * MIB && whole.ends_with('}'));
}

fn most_resident_mib(pid: Pid) -> f64 {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let status = std::fs::read_to_string(path).unwrap();
    let most = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    most.split_whitespace()
        .next()
        .unwrap()
        .parse::<f64>()
        .unwrap()
        / 1024.0
}

/// The figures of `benches/RESULTS.md`.
#[test]
#[ignore = "measures: cargo test --test it long_files -- --ignored --nocapture"]
fn what_a_long_file_takes_of_memory() {
    let machine = Machine::new();
    let daemon = Start::with(&["serve", "--root", machine.root().to_str().unwrap()]).start();
    let pid = daemon.pid();
    let measured = |what: &str, work: &dyn Fn() -> u16| {
        std::fs::write(format!("/proc/{}/clear_refs", pid.as_raw_nonzero()), "5").unwrap();
        let (before, began) = (most_resident_mib(pid), Instant::now());
        let status = work();
        let (took, most) = (began.elapsed().as_secs_f64(), most_resident_mib(pid));
        println!("| {what} | {status} | {before:.0} MiB | {most:.0} MiB | {took:.1} s |");
    };
    for (named, file) in [
        ("all that is known", file(LONGEST)),
        ("ticks alone", file_of(MOST, &[], &[])),
    ] {
        let length = file.len() as f64 / MIB as f64;
        measured(&format!("import, {named}, {length:.1} MiB"), &|| {
            import(&daemon, &file).status
        });
    }
    measured("export", &|| daemon.get("/api/v1/jobs/1/export").status);
    measured("its figures", &|| {
        daemon.get("/api/v1/jobs/1/figures").status
    });
}
