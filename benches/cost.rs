//! What the watcher costs: `cargo bench --bench cost`.
//!
//! Runs the program as a user would, on this machine's own devices, with no page open, and reads from `/proc` what it
//! used: processor time per tick, resident memory, bytes written; then from its API how many ticks were missed and how
//! long an event takes to arrive. Nothing here is asserted: machines differ. Results are kept in `benches/RESULTS.md`.
//!
//! Each interval is measured in one process, and then as the service has it: the daemon and the reader.
//! `SECONDS=600 cargo bench --bench cost -- 1s 100ms` names the intervals, and runs each for ten minutes instead of one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

const PORT: u16 = 26_921;
/// Events whose way is timed.
const EVENTS: usize = 20;

fn main() {
    let seconds = std::env::var("SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(60);
    let devices = std::fs::read_to_string("/proc/diskstats").map_or(0, |text| text.lines().count());
    println!("{devices} devices, {seconds} s at each interval, page closed");
    println!(
        "| interval | process | CPU per tick | RSS | anonymous | written per tick | ticks | missed | event after tick, worst of {EVENTS} | first page |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let intervals = if named.is_empty() {
        vec!["1s".into(), "100ms".into()]
    } else {
        named
    };
    for interval in intervals {
        let length = Duration::from_secs(seconds);
        measure_one(&interval, length);
        measure_two(&interval, length);
    }
}

fn measure_one(interval: &str, length: Duration) {
    let folder = tempfile::tempdir().expect("a folder for the database");
    let daemon = start_daemon(interval, folder.path(), &[]);
    measure(interval, length, &[("both halves", &daemon)]);
    end(daemon);
}

fn measure_two(interval: &str, length: Duration) {
    let folder = tempfile::tempdir().expect("a folder for the database and the socket");
    let socket = folder.path().join("reader");
    let socket = socket.to_str().expect("a plain path");
    let reader = start_program(&["reader", "--interval", interval, "--socket", socket]);
    let daemon = start_daemon(interval, folder.path(), &["serve", "--reader", socket]);
    measure(
        interval,
        length,
        &[("daemon", &daemon), ("reader", &reader)],
    );
    end(daemon);
    end(reader);
}

/// A row for each process; the daemon, which answers for ticks and pages, is the first.
fn measure(interval: &str, length: Duration, processes: &[(&str, &Child)]) {
    let spent = || {
        processes
            .iter()
            .map(|(_, process)| (cpu_ns(process), written(process)))
            .collect::<Vec<_>>()
    };
    let (before, (taken, missed)) = (spent(), ticks());
    std::thread::sleep(length);
    let (after, (taken_after, missed_after)) = (spent(), ticks());
    let count = taken_after.saturating_sub(taken).max(1);
    let (latency, page) = (worst_event(), first_page());
    for (((name, process), before), after) in processes.iter().zip(before).zip(after) {
        let (rss, anonymous) = memory(process);
        println!(
            "| {interval} | {name} | {:.3} ms | {:.1} MiB | {:.1} MiB | {:.1} kB | {count} | {} | {latency} ms | {:.1} kB |",
            (after.0 - before.0) as f64 / 1e6 / count as f64,
            rss as f64 / 1024.0,
            anonymous as f64 / 1024.0,
            (after.1 - before.1) as f64 / 1e3 / count as f64,
            missed_after - missed,
            page as f64 / 1e3,
        );
    }
}

/// `arguments` are the command's own.
fn start_daemon(interval: &str, folder: &std::path::Path, arguments: &[&str]) -> Child {
    let (listen, database) = (format!("127.0.0.1:{PORT}"), folder.join("cowbell.db"));
    let database = database.to_str().expect("a plain path");
    let daemon = start_program(
        &[
            arguments,
            &[
                "--interval",
                interval,
                "--listen",
                &listen,
                "--db",
                database,
            ],
        ]
        .concat(),
    );
    let limit = Instant::now() + Duration::from_secs(10);
    while !request("/healthz", "").is_some_and(|answer| answer.starts_with(b"HTTP/1.1 200")) {
        assert!(
            Instant::now() < limit,
            "the daemon answers within ten seconds"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    // What is done once, at the start, is not the cost of a tick.
    std::thread::sleep(Duration::from_secs(2));
    daemon
}

fn start_program(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_cowbell"))
        .args(arguments)
        .args(["--config", "/dev/null"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts")
}

fn end(mut process: Child) {
    process
        .kill()
        .and_then(|()| process.wait())
        .expect("the process ends");
}

/// Nanoseconds that all its threads ran.
fn cpu_ns(process: &Child) -> u64 {
    let tasks =
        std::fs::read_dir(format!("/proc/{}/task", process.id())).expect("the process runs");
    let ran = tasks.filter_map(|task| {
        let schedstat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        schedstat.split_whitespace().next()?.parse::<u64>().ok()
    });
    ran.sum()
}

fn written(process: &Child) -> u64 {
    number_after(&proc_file(process, "io"), "write_bytes:")
}

/// Resident memory, and the part of it that is no file, in KiB.
fn memory(process: &Child) -> (u64, u64) {
    let status = proc_file(process, "status");
    (
        number_after(&status, "VmRSS:"),
        number_after(&status, "RssAnon:"),
    )
}

fn proc_file(process: &Child, name: &str) -> String {
    std::fs::read_to_string(format!("/proc/{}/{name}", process.id())).expect("the process runs")
}

fn number_after(text: &str, key: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

/// Ticks taken and missed.
fn ticks() -> (u64, u64) {
    let answer = request("/api/v1/status", "").unwrap_or_default();
    let start = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map_or(0, |at| at + 4);
    let status: Value = serde_json::from_slice(&answer[start..]).unwrap_or_default();
    let ticks = |name: &str| status["ticks"][name].as_u64().unwrap_or_default();
    (ticks("taken"), ticks("missed"))
}

/// The longest time from a tick to its event on the wire, in milliseconds. The first event is an old tick's.
fn worst_event() -> i64 {
    let lines = BufReader::new(open("/api/v1/live", ""))
        .lines()
        .map_while(Result::ok);
    let ticks = lines.filter_map(|line| {
        let arrived = Timestamp::now();
        let tick: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
        let at: Timestamp = tick["at"].as_str()?.parse().ok()?;
        Some(arrived.as_millisecond() - at.as_millisecond())
    });
    ticks.skip(1).take(EVENTS).max().unwrap_or(-1)
}

/// Bytes over the wire for the first page with its style sheet and scripts, compressed.
fn first_page() -> usize {
    let paths = [
        "/",
        "/assets/cowbell.css",
        "/assets/cowbell.js",
        "/assets/vendor/htmx.min.js",
        "/assets/stream.js",
        "/assets/favicon.svg",
    ];
    paths
        .iter()
        .filter_map(|path| request(path, "Accept-Encoding: gzip\r\n"))
        .map(|answer| answer.len())
        .sum()
}

fn open(path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", PORT)).expect("the daemon listens");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n"
    )
    .expect("it listens");
    stream
}

/// The whole answer, head and body; `None` while nobody listens.
fn request(path: &str, headers: &str) -> Option<Vec<u8>> {
    TcpStream::connect(("127.0.0.1", PORT)).ok()?;
    let mut answer = Vec::new();
    open(path, headers).read_to_end(&mut answer).ok()?;
    Some(answer)
}
