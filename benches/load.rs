//! Ticks while many clients read: `cargo bench --bench load -- SECONDS`, or `-- scrapes SECONDS`.
//!
//! 200 readers request pages and API paths again and again, and 500 clients hold live streams. The server may refuse
//! connections; ticks may not be late, and memory may not grow. A stream that was there before shows each tick's time.
//! With `scrapes`, one client reads `/metrics` 100 times a second, of 100 devices and with ten ticks a second.
//! Nothing here is asserted: machines differ. Results are kept in `benches/RESULTS.md`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

const PORT: u16 = 26_923;
const READERS: usize = 200;
const STREAMS: usize = 500;
const PATHS: [&str; 11] = [
    "/",
    "/devices",
    "/volumes",
    "/jobs",
    "/alerts",
    "/status",
    "/api/v1/status",
    "/api/v1/devices",
    "/api/v1/jobs",
    "/api/v1/vm",
    "/metrics",
];
const LIVE: &str = "/api/v1/live";
/// Between two ticks.
const INTERVAL_MS: i64 = 1000;
const SCRAPED_INTERVAL_MS: i64 = 100;
/// Between two scrapes.
const SCRAPE_EVERY: Duration = Duration::from_millis(10);
const SCRAPED_DEVICES: usize = 100;
/// Between two requests of a reader.
const PAUSE: Duration = Duration::from_millis(100);
/// A client that was refused tries again after this.
const RETRY: Duration = Duration::from_secs(1);

static STOP: AtomicBool = AtomicBool::new(false);
static ANSWERED: AtomicU64 = AtomicU64::new(0);
static EVENTS: AtomicU64 = AtomicU64::new(0);
static REFUSED_READERS: AtomicU64 = AtomicU64::new(0);
static REFUSED_STREAMS: AtomicU64 = AtomicU64::new(0);

fn main() {
    let seconds = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .next();
    match std::env::args().any(|argument| argument == "scrapes") {
        true => scrapes(seconds.unwrap_or(60)),
        false => many_clients(seconds.unwrap_or(300)),
    }
}

fn scrapes(seconds: usize) {
    let folder = tempfile::tempdir().expect("a folder for the database");
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("proc")).expect("a folder for the devices");
    let devices =
        (0..SCRAPED_DEVICES).map(|number| format!("8 {number} sd{number} 1 0 8 1 1 0 8 1 0 1 1\n"));
    std::fs::write(root.join("proc/diskstats"), devices.collect::<String>())
        .expect("a file of devices");
    let root = root.to_str().expect("a path in UTF-8");
    let interval = format!("{SCRAPED_INTERVAL_MS}ms");
    let mut daemon = start(folder.path(), &["--root", root, "--interval", &interval]);
    let ticks = seconds * 1000 / usize::try_from(SCRAPED_INTERVAL_MS).expect("a positive interval");
    let mut events = events();
    let quiet = lateness(events.by_ref().take(ticks).collect(), SCRAPED_INTERVAL_MS);
    let scraper = thread::spawn(scrape);
    let loaded = lateness(events.take(ticks).collect(), SCRAPED_INTERVAL_MS);
    STOP.store(true, Relaxed);
    let mut times = scraper.join().expect("the scraper ends");
    daemon
        .kill()
        .and_then(|()| daemon.wait())
        .expect("the daemon ends");
    times.sort_unstable();
    let (count, median, slow) = (
        times.len(),
        times[times.len() / 2],
        times[times.len() * 99 / 100],
    );
    println!(
        "| seconds | scrapes | a scrape: p50, p99 | late: p50, p99, max; missed, of {ticks} | the same without scrapes |\n|---|---|---|---|---|"
    );
    println!("| {seconds} | {count} | {median:.1?}, {slow:.1?} | {loaded} | {quiet} |");
}

/// How long each scrape took.
fn scrape() -> Vec<Duration> {
    let (began, mut times) = (Instant::now(), Vec::new());
    for number in 0.. {
        thread::sleep((SCRAPE_EVERY * number).saturating_sub(began.elapsed()));
        if STOP.load(Relaxed) {
            break;
        }
        let sent = Instant::now();
        get("/metrics").expect("the daemon answers");
        times.push(sent.elapsed());
    }
    times
}

fn many_clients(seconds: usize) {
    let folder = tempfile::tempdir().expect("a folder for the database");
    let mut daemon = start(folder.path(), &[]);
    // Before the others, since it may not be refused.
    let mut events = events();
    let quiet = lateness(events.by_ref().take(seconds.min(30)).collect(), INTERVAL_MS);
    let before = rss_mib(&daemon);
    let clients = clients();
    let watching = thread::spawn(move || events.take(seconds).collect());
    let mut memory: Vec<f64> = Vec::new();
    while !watching.is_finished() {
        thread::sleep(Duration::from_secs(1));
        memory.push(rss_mib(&daemon));
    }
    let loaded = lateness(watching.join().expect("the ticks arrive"), INTERVAL_MS);
    STOP.store(true, Relaxed);
    daemon
        .kill()
        .and_then(|()| daemon.wait())
        .expect("the daemon ends");
    clients
        .into_iter()
        .for_each(|client| client.join().expect("a client ends"));

    println!(
        "| seconds | answers | events | refused readers | refused streams | late: p50, p99, max; missed | the same without load \
         | RSS before, after 1/3, at the end, max |\n|---|---|---|---|---|---|---|---|"
    );
    let count = |counter: &AtomicU64| counter.load(Relaxed).to_string();
    let counts = [&ANSWERED, &EVENTS, &REFUSED_READERS, &REFUSED_STREAMS]
        .map(count)
        .join(" | ");
    let most = memory.iter().copied().fold(0.0, f64::max);
    let (third, end) = (memory[memory.len() / 3], memory[memory.len() - 1]);
    println!(
        "| {seconds} | {counts} | {loaded} | {quiet} | {before:.1}, {third:.1}, {end:.1}, {most:.1} MiB |"
    );
}

fn start(folder: &Path, arguments: &[&str]) -> Child {
    let daemon = Command::new(env!("CARGO_BIN_EXE_cowbell"))
        .args([
            "serve",
            "--listen",
            &format!("127.0.0.1:{PORT}"),
            "--config",
            "/dev/null",
            "--db",
        ])
        .arg(folder.join("cowbell.db"))
        .args(arguments)
        .stdout(Stdio::null())
        .spawn()
        .expect("the daemon starts");
    thread::sleep(Duration::from_secs(3));
    daemon
}

/// The times of ticks in milliseconds, from a stream. The first event is an old tick's.
fn events() -> impl Iterator<Item = i64> + Send {
    let stream = open(LIVE).expect("the daemon answers");
    let ticks = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| {
            let tick: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
            Some(
                tick["at"]
                    .as_str()?
                    .parse::<Timestamp>()
                    .ok()?
                    .as_millisecond(),
            )
        });
    ticks.skip(1)
}

/// How late ticks were, compared with the earliest one. They are due every so many milliseconds.
fn lateness(ticks: Vec<i64>, interval_ms: i64) -> String {
    let (first, half) = (ticks[0], interval_ms / 2);
    let offsets = ticks
        .iter()
        .map(|at| (at - first + half).rem_euclid(interval_ms) - half);
    let earliest = offsets.clone().min().unwrap_or_default();
    let mut late: Vec<i64> = offsets.map(|offset| offset - earliest).collect();
    late.sort_unstable();
    let missed = ticks
        .windows(2)
        .filter(|pair| pair[1] - pair[0] > interval_ms + half)
        .count();
    format!(
        "{}, {}, {} ms; {missed}",
        late[late.len() / 2],
        late[late.len() * 99 / 100],
        late[late.len() - 1]
    )
}

fn clients() -> Vec<JoinHandle<()>> {
    let reader =
        |number: usize| move || again(|| read(PATHS[number % PATHS.len()]), &REFUSED_READERS);
    let stream = || again(hold, &REFUSED_STREAMS);
    let spawn = |client: Box<dyn FnOnce() + Send>| {
        Builder::new()
            .stack_size(128 * 1024)
            .spawn(client)
            .expect("a thread")
    };
    let readers = (0..READERS).map(|number| spawn(Box::new(reader(number))));
    readers
        .chain((0..STREAMS).map(|_| spawn(Box::new(stream))))
        .collect()
}

fn again(client: impl Fn() -> Option<()>, refused: &AtomicU64) {
    while !STOP.load(Relaxed) {
        if client().is_none() && !STOP.load(Relaxed) {
            refused.fetch_add(1, Relaxed);
            thread::sleep(RETRY);
        }
    }
}

/// `None` if the server refused.
fn read(path: &str) -> Option<()> {
    get(path)?;
    ANSWERED.fetch_add(1, Relaxed);
    thread::sleep(PAUSE);
    Some(())
}

fn get(path: &str) -> Option<()> {
    let mut answer = Vec::new();
    open(path)?.read_to_end(&mut answer).ok()?;
    answer.starts_with(b"HTTP/1.1 200").then_some(())
}

/// Holds a stream until the server ends it.
fn hold() -> Option<()> {
    let mut lines = BufReader::new(open(LIVE)?).lines().map_while(Result::ok);
    lines
        .next()
        .filter(|line| line.starts_with("HTTP/1.1 200"))?;
    for line in lines {
        EVENTS.fetch_add(u64::from(line.starts_with("data: ")), Relaxed);
    }
    Some(())
}

fn open(path: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", PORT)).ok()?;
    let coding = if path == LIVE { "identity" } else { "gzip" };
    let head = format!("Host: localhost\r\nAccept-Encoding: {coding}\r\nConnection: close\r\n");
    write!(stream, "GET {path} HTTP/1.1\r\n{head}\r\n").ok()?;
    Some(stream)
}

fn rss_mib(daemon: &Child) -> f64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).expect("the daemon runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|kib| kib.parse::<f64>().ok())
        .unwrap_or_default()
        / 1024.0
}
