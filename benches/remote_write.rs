//! What remote write costs for a thousand hosts: `cargo bench --bench remote_write`.
//!
//! The ticks of `web/demo.cowbell` go through the store, as in the daemon, and from there to a VictoriaMetrics that this
//! bench starts, as those of so many hosts with names of their own. First each host sends every five seconds, as it would
//! live; then all send as fast as the receiver takes it. Results are kept in `benches/RESULTS.md`.
//!
//! `HOSTS` and `SECONDS` (of each part) may be set. The program `victoria-metrics` must be installed.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use cowbell::config;
use cowbell::pipeline::Observer;
use cowbell::remote_write::{ExternalLabels, encoded};
use cowbell::source::own::own_cost;
use cowbell::source::recording::{Player, Speed};
use cowbell::store::{self, Position, SeriesSamples, Span, StoreReader, TickOrigin};
use jiff::Timestamp;

const RECORDING: &[u8] = include_bytes!("../web/demo.cowbell");
const RECEIVER: &str = "127.0.0.1:18428";
/// As a daemon sends them.
const EVERY: Duration = Duration::from_secs(5);
/// Requests at a time.
const SENDERS: usize = 8;
const PAGE_KIB: u64 = 4;
/// Clock ticks in a second, in `/proc/PID/stat`.
const CLOCK_TICKS: f64 = 100.0;

/// The series of five seconds of one host.
type Batch = Vec<SeriesSamples>;

/// All requests of one part.
#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    samples: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
    /// The most that a request was late, in milliseconds.
    late_ms: AtomicI64,
}

struct Load {
    client: reqwest::Client,
    batches: Vec<Batch>,
    hosts: usize,
    /// When the first batch is said to have been.
    began_ms: i64,
    counts: Counts,
}

fn main() {
    let number = |name: &str, usual: usize| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(usual)
    };
    let (hosts, seconds) = (number("HOSTS", 1_000), number("SECONDS", 120));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let batches = runtime.block_on(batches(folder.path()));
    let data = folder.path().join("receiver");
    let mut receiver = start_receiver(&data);
    let series = batches.iter().map(Vec::len).max().unwrap_or_default();
    println!("{hosts} hosts; at most {series} series in five seconds of a host\n");
    println!(
        "| part | samples/s | bytes/s | bytes of a sample | CPU of the sender | CPU of the receiver | its RSS | its disk | failures, latest |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut first = 0;
    for (name, is_paced) in [
        ("each host every 5 s", true),
        ("as fast as possible", false),
    ] {
        let began_ms =
            Timestamp::now().as_millisecond() - i64::try_from(seconds).unwrap_or_default() * 2_000;
        let client = reqwest::Client::builder()
            .tls_certs_only([])
            .build()
            .expect("a client");
        let load = Load {
            client,
            batches: batches.clone(),
            hosts,
            began_ms,
            counts: Counts::default(),
        };
        let (before, of_receiver, began) = (own_cpu(), cpu(receiver.id()), Instant::now());
        let load = Arc::new(load);
        runtime.block_on(run(
            &load,
            first,
            Duration::from_secs(seconds as u64),
            is_paced,
        ));
        let took = began.elapsed().as_secs_f64();
        let sender_cpu = (own_cpu() - before) / took;
        let receiver_cpu = (cpu(receiver.id()) - of_receiver) / took;
        let counts = &load.counts;
        let (samples, bytes) = (
            counts.samples.load(Relaxed) as f64,
            counts.bytes.load(Relaxed) as f64,
        );
        // The receiver flushes every five seconds.
        std::thread::sleep(Duration::from_secs(10));
        println!(
            "| {name}, {took:.0} s | {:.0} | {:.0} | {:.2} | {:.1} % | {:.1} % | {} MiB | {} MiB | {}, {} ms |",
            samples / took,
            bytes / took,
            bytes / samples,
            sender_cpu * 100.0,
            receiver_cpu * 100.0,
            resident_kib(receiver.id()) / 1024,
            size_kib(&data) / 1024,
            counts.failures.load(Relaxed),
            counts.late_ms.load(Relaxed),
        );
        first += usize::try_from(counts.requests.load(Relaxed))
            .unwrap_or_default()
            .div_ceil(hosts);
    }
    let _ = receiver.kill();
    let _ = receiver.wait();
}

/// The recording by five seconds.
async fn batches(folder: &Path) -> Vec<Batch> {
    let path = folder.join("cowbell.db");
    let keep = config::Config::default().store;
    let (mut writer, reader) = store::open(&path, TickOrigin::Recording, keep)
        .await
        .expect("a store");
    let mut player = Player::of_bytes(RECORDING, Speed::Unbounded).expect("a recording");
    let mut observer = Observer::default();
    while let Some(reading) = player.next().await {
        if reading.is_tick() {
            writer.append_tick(&observer.observe(&reading)).await;
        }
    }
    let ticks = ticks(&reader).await;
    writer.close().await;
    ticks.chunks(5).map(merged).collect()
}

/// Each tick of the store.
async fn ticks(reader: &StoreReader) -> Vec<Batch> {
    let (mut after, mut ticks) = (Position::default(), Vec::new());
    let to = Position {
        stretch: i64::MAX >> 44,
        at_ms: i64::MAX,
    };
    while let Some(segment) = reader.samples_after(after).await.expect("ticks") {
        // With no room for samples, a batch is one tick.
        while let Some(batch) = segment.batch(Span { after, to }, 0) {
            after = batch.to;
            ticks.push(batch.series);
        }
    }
    ticks
}

fn merged(ticks: &[Batch]) -> Batch {
    let (mut merged, mut places): (Batch, HashMap<_, usize>) = (Batch::new(), HashMap::new());
    for series in ticks.iter().flatten() {
        let key = (series.name.clone(), series.labels.clone());
        match places.get(&key) {
            Some(place) => merged[*place].samples.extend(&series.samples),
            None => {
                places.insert(key, merged.len());
                merged.push(series.clone());
            }
        }
    }
    merged
}

/// Sends the batches from `first` on, for this long.
async fn run(load: &Arc<Load>, first: usize, length: Duration, is_paced: bool) {
    let (began, next) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let senders = (0..SENDERS).map(|_| {
        let (load, next) = (Arc::clone(load), Arc::clone(&next));
        tokio::spawn(async move {
            while began.elapsed() < length {
                let number = next.fetch_add(1, Relaxed);
                if is_paced {
                    // The hosts are spread over the five seconds.
                    let due = began + EVERY.mul_f64(number as f64 / load.hosts as f64);
                    tokio::time::sleep_until(due.into()).await;
                    let late = i64::try_from(due.elapsed().as_millis()).unwrap_or(i64::MAX);
                    load.counts.late_ms.fetch_max(late, Relaxed);
                }
                load.send(first + number / load.hosts, number % load.hosts)
                    .await;
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.expect("a sender that does not panic");
    }
}

impl Load {
    async fn send(&self, slot: usize, host: usize) {
        // Hosts are at different places of the recording.
        let mut batch = self.batches[(slot + host) % self.batches.len()].clone();
        let from_ms = batch
            .iter()
            .filter_map(|series| Some(series.samples.first()?.0))
            .min()
            .unwrap_or_default();
        let slot_ms = i64::try_from(slot).unwrap_or_default() * 5_000;
        let mut samples = 0;
        for series in &mut batch {
            samples += series.samples.len() as u64;
            for (at_ms, _) in &mut series.samples {
                *at_ms += self.began_ms + slot_ms - from_ms;
            }
        }
        let labels = ExternalLabels {
            instance: format!("db{host}.example"),
            machine_id: format!("{host:032x}"),
        };
        let body = encoded(&batch, &labels).expect("a body");
        self.counts.bytes.fetch_add(body.len() as u64, Relaxed);
        let request = self
            .client
            .post(format!("http://{RECEIVER}/api/v1/write"))
            .body(body);
        let is_taken = request
            .send()
            .await
            .is_ok_and(|answer| answer.status().is_success());
        self.counts
            .failures
            .fetch_add(u64::from(!is_taken), Relaxed);
        self.counts.requests.fetch_add(1, Relaxed);
        self.counts.samples.fetch_add(samples, Relaxed);
    }
}

fn start_receiver(data: &Path) -> Child {
    let mut command = Command::new("victoria-metrics");
    command
        .arg(format!("-storageDataPath={}", data.display()))
        .arg(format!("-httpListenAddr={RECEIVER}"));
    let receiver = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let receiver =
        receiver.expect("the program victoria-metrics, which the Debian package of this name has");
    let end = Instant::now() + Duration::from_secs(30);
    while std::net::TcpStream::connect(RECEIVER).is_err() {
        assert!(Instant::now() < end, "victoria-metrics does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    receiver
}

fn own_cpu() -> f64 {
    own_cost().cpu_seconds.unwrap_or_default()
}

/// Processor seconds of a process.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .split(' ')
        .skip(11)
        .take(2);
    fields
        .filter_map(|field| field.parse::<f64>().ok())
        .sum::<f64>()
        / CLOCK_TICKS
}

fn resident_kib(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or_default()
        * PAGE_KIB
}

fn size_kib(folder: &Path) -> u64 {
    let output = Command::new("du")
        .arg("-sk")
        .arg(folder)
        .output()
        .expect("du");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split('\t')
        .next()
        .and_then(|kib| kib.parse().ok())
        .unwrap_or_default()
}
