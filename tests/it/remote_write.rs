//! Remote write: every stored tick reaches a receiver once, whatever the receiver does, and no tick is delayed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prost::Message;
use rustix::process::Signal;

use crate::daemon::{Daemon, Start, ask_database, cowbell, kept_ticks, said};
use crate::machine::{Done, Machine};
use crate::tape::{BEGIN, Snapshot, Tape};
use crate::{wait_at_most, wait_for};

/// As `remote.proto` and `types.proto` of Prometheus have it.
#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// A series without `instance` and `machine_id`, as OpenMetrics writes it, and a time.
type Key = (String, i64);

struct Request {
    at: Instant,
    taken: bool,
    head: String,
    body: WriteRequest,
}

/// What the receiver does with a request.
#[derive(Clone, Copy)]
enum Answer {
    Take,
    Status(u16, &'static str),
    /// Refuses it, and quotes its head.
    Quote,
    Junk,
    Silence,
}

struct Receiver {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Receiver {
    /// `answer` gets the number of the request.
    fn start(answer: impl Fn(usize) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for (number, stream) in listener
                .incoming()
                .map_while(Result::ok)
                .filter_map(|stream| receive(&stream).map(|request| (stream, request)))
                .enumerate()
            {
                let (stream, (head, body)) = stream;
                let answer = answer(number);
                let quoted = head.replace("\r\n", " ");
                seen.lock().unwrap().push(Request {
                    at: Instant::now(),
                    taken: matches!(answer, Answer::Take),
                    head,
                    body,
                });
                held.extend(respond(stream, answer, &quoted));
            }
        });
        Self { address, requests }
    }

    fn config(&self) -> String {
        format!(
            "[remote_write]\nurl = \"http://{}/api/v1/write\"\n",
            self.address
        )
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// How often each sample was taken, with its value; a mark of staleness is none.
    fn samples(&self) -> BTreeMap<Key, (f64, usize)> {
        let mut samples = BTreeMap::new();
        for request in self
            .requests
            .lock()
            .unwrap()
            .iter()
            .filter(|request| request.taken)
        {
            for series in &request.body.timeseries {
                assert!(
                    series
                        .labels
                        .is_sorted_by(|one, other| one.name < other.name),
                    "{series:?}"
                );
                for sample in series
                    .samples
                    .iter()
                    .filter(|sample| !sample.value.is_nan())
                {
                    let sent = samples
                        .entry((name(series), sample.timestamp))
                        .or_insert((sample.value, 0));
                    sent.1 += 1;
                }
            }
        }
        samples
    }
}

fn name(series: &TimeSeries) -> String {
    let label = |name: &str| {
        series
            .labels
            .iter()
            .find(|label| label.name == name)
            .map(|label| &*label.value)
    };
    assert!(label("instance").is_some(), "{series:?}");
    let own = ["vg", "lv", "name", "uuid"]
        .into_iter()
        .filter_map(|name| Some((name, label(name)?)));
    let own: Vec<String> = own
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    format!("{}{{{}}}", label("__name__").unwrap(), own.join(","))
}

fn receive(stream: &TcpStream) -> Option<(String, WriteRequest)> {
    let (mut lines, mut head, mut length) = (BufReader::new(stream), String::new(), 0);
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).ok()?;
    let plain = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
    Some((head, WriteRequest::decode(&*plain).unwrap()))
}

fn samples(request: &WriteRequest) -> usize {
    request
        .timeseries
        .iter()
        .map(|series| series.samples.len())
        .sum()
}

/// The connection, if it is to stay open without an answer.
fn respond(mut stream: TcpStream, answer: Answer, head: &str) -> Option<TcpStream> {
    let text = match answer {
        Answer::Silence => return Some(stream),
        Answer::Quote => {
            let length = head.len();
            format!("HTTP/1.1 400 X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{head}")
        }
        Answer::Junk => "\0\u{1}SSH-2.0 who are you?\r\n\r\n".to_string(),
        Answer::Take => {
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n\0{]".into()
        }
        Answer::Status(status, headers) => {
            format!(
                "HTTP/1.1 {status} X\r\n{headers}Content-Length: 9\r\nConnection: close\r\n\r\nno, thank"
            )
        }
    };
    let _ = stream.write_all(text.as_bytes());
    None
}

/// A snapshot that fills and is removed while a disk reads now and then.
fn tape(ticks: usize) -> Tape {
    let mut tape = Tape::new(Duration::from_secs(1));
    for tick in 0..ticks as u64 {
        let snapshot = if tick % 100 < 80 {
            Snapshot::Filled((tick % 100) as f64 / 7.0)
        } else {
            Snapshot::Absent
        };
        tape.tick(
            snapshot,
            Done::sectors(tick / 3 * 64, tick * 24),
            Done::default(),
        );
    }
    tape.saved()
}

/// What the database has, as `cowbell export` writes it.
fn exported(daemon: &Daemon) -> BTreeMap<Key, f64> {
    let file = daemon.folder.path().join("history.om");
    let _ = std::fs::remove_file(&file);
    let export = [
        "export",
        "--from",
        "2026-01-01",
        "--format",
        "openmetrics",
        "--output",
    ];
    let ended = said(
        cowbell()
            .args(export)
            .arg(&file)
            .arg("--db")
            .arg(&daemon.db),
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = std::fs::read_to_string(file).unwrap();
    let samples = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut words = line.rsplitn(3, ' ');
            let (time, value) = (words.next().unwrap(), words.next().unwrap());
            let at_ms: i64 = time.replace('.', "").parse().unwrap();
            (
                (words.next().unwrap().into(), at_ms),
                value.parse().unwrap(),
            )
        });
    samples.collect()
}

/// From the first sample that was taken to the last, each that is stored was taken once, with its value.
fn check_complete(receiver: &Receiver, stored: &BTreeMap<Key, f64>) {
    let sent = receiver.samples();
    let times = || sent.keys().map(|(_, at_ms)| *at_ms);
    let (first, last) = (times().min().unwrap(), times().max().unwrap());
    let expected: BTreeMap<&Key, f64> = stored
        .iter()
        .filter(|((_, at), _)| (first..=last).contains(at))
        .map(|(key, value)| (key, *value))
        .collect();
    let missing: Vec<_> = expected
        .keys()
        .filter(|key| !sent.contains_key(**key))
        .take(5)
        .collect();
    let twice: Vec<_> = sent
        .iter()
        .filter(|(_, (_, count))| *count != 1)
        .take(5)
        .collect();
    assert!(
        missing.is_empty() && twice.is_empty(),
        "missing {missing:?}, twice {twice:?}"
    );
    let found: BTreeMap<&Key, f64> = sent.iter().map(|(key, (value, _))| (key, *value)).collect();
    assert_eq!(found, expected);
}

fn state(daemon: &Daemon) -> serde_json::Value {
    daemon.json("/api/v1/status")["remote_write"].clone()
}

/// Until all ticks of a recording are sent, but the last, which wait for others.
fn has_caught_up(daemon: &Daemon, ticks: i64) {
    daemon.has_played(usize::try_from(ticks).unwrap());
    let sent_ms = || {
        ask_database(
            &daemon.db,
            "SELECT max((done & ((1 << 44) - 1)) * (islands = '[]')) FROM remote_write",
        )
    };
    let end_ms = (BEGIN.as_second() + ticks - 6) * 1000;
    wait_for("the backlog", || (sent_ms() >= end_ms).then_some(()));
}

#[test]
fn every_stored_sample_is_sent_once_across_an_outage() {
    let receiver = Receiver::start(|number| match number {
        3..6 => Answer::Status(503, ""),
        6 => Answer::Junk,
        _ => Answer::Take,
    });
    let daemon = Start::playing(&tape(700), "50")
        .config(&receiver.config())
        .start();
    has_caught_up(&daemon, 700);
    let stored = exported(&daemon);
    assert!(stored.len() > 10_000, "{}", stored.len());
    check_complete(&receiver, &stored);
    let requests = receiver.requests.lock().unwrap();
    for request in requests.iter() {
        assert!(
            samples(&request.body) <= 5_000,
            "{}",
            samples(&request.body)
        );
        let head = request.head.to_ascii_lowercase();
        for header in [
            "post /api/v1/write http/1.1",
            "content-type: application/x-protobuf",
            "content-encoding: snappy",
            "x-prometheus-remote-write-version: 0.1.0",
        ] {
            assert!(head.contains(header), "{header} in {head}");
        }
    }
    let is_stale = |series: &TimeSeries| {
        name(series).starts_with("cowbell_volume_fill_ratio")
            && series
                .samples
                .iter()
                .any(|sample| sample.value.to_bits() == 0x7ff0_0000_0000_0002)
    };
    let taken = requests.iter().filter(|request| request.taken);
    assert!(
        taken
            .flat_map(|request| &request.body.timeseries)
            .any(is_stale),
        "the snapshot's end is marked"
    );
    // The log names a kind of failure once.
    let log = daemon.log();
    assert_eq!(log.matches("it answers 503").count(), 1, "{log}");
}

#[test]
fn what_is_refused_for_good_is_dropped_counted_and_logged_once() {
    let (receiver, machine) = (Receiver::start(|_| Answer::Quote), Machine::new());
    let config = receiver.config().replace("http://", "http://me:hunter22@")
        + "headers = { X-Scope-OrgID = \"hunter23\" }\ninstance = \"here\"\n";
    let daemon = Start::watching(&machine).config(&config).start();
    let refused = || {
        state(&daemon)["refused_requests"]
            .as_u64()
            .filter(|count| *count >= 2)
    };
    wait_for("two refused requests", refused);
    let status = state(&daemon);
    assert!(
        status["dropped_samples"].as_u64().unwrap() > 1_000,
        "{status}"
    );
    let log = daemon.log();
    assert_eq!(
        log.matches("refuses ticks, which are dropped: it answers 400")
            .count(),
        1,
        "{log}"
    );
    assert!(log.contains("authorization: … "), "{log}");
    assert!(
        !log.contains("hunter") && !status.to_string().contains("hunter"),
        "{log}"
    );
    let head = receiver.requests.lock().unwrap()[0]
        .head
        .to_ascii_lowercase();
    assert!(
        head.contains("authorization: basic bwu6ahvudgvymji=")
            && head.contains("x-scope-orgid: hunter23")
    );
    let text = daemon.get("/metrics").body;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("cowbell_remote_write_dropped_samples_total{} "));
    let dropped = line.and_then(|value| value.parse::<f64>().ok());
    assert!(dropped >= status["dropped_samples"].as_f64(), "{text}");
    assert!(
        daemon
            .get("/status")
            .body
            .contains("requests refused; it answers 400")
    );
}

#[test]
fn the_pause_that_a_receiver_wants_is_kept() {
    let receiver = Receiver::start(|number| match number {
        1 => Answer::Status(429, "Retry-After: 4\r\n"),
        _ => Answer::Take,
    });
    let daemon = Start::playing(&tape(300), "20")
        .config(&receiver.config())
        .start();
    wait_for("a request after the pause", || {
        (receiver.count() > 2).then_some(())
    });
    let requests = receiver.requests.lock().unwrap();
    let pause = requests[2].at - requests[1].at;
    assert!(pause >= Duration::from_secs(4), "{pause:?}");
    drop(requests);
    has_caught_up(&daemon, 300);
    check_complete(&receiver, &exported(&daemon));
}

/// It accepts connections and says nothing.
#[test]
fn a_receiver_that_does_not_answer_delays_no_tick() {
    let (receiver, machine) = (Receiver::start(|_| Answer::Silence), Machine::new());
    let daemon = Start::watching(&machine).config(&receiver.config()).start();
    let failure = || state(&daemon)["failure"].as_str().map(String::from);
    let failure = wait_for("the time limit", failure);
    assert_eq!(failure, "it did not answer within 10s");
    let ticks = &daemon.json("/api/v1/status")["ticks"];
    let (taken, missed) = (
        ticks["taken"].as_u64().unwrap(),
        ticks["missed"].as_u64().unwrap(),
    );
    assert!(taken > 100 && missed < taken / 10, "{ticks}");
}

#[test]
fn a_restart_goes_on_where_it_stopped() {
    let (receiver, machine) = (Receiver::start(|_| Answer::Take), Machine::new());
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("kept.db");
    let start = || {
        Start::watching(&machine)
            .config(&receiver.config())
            .db(&db)
            .start()
    };
    let mut first = start();
    wait_at_most(Duration::from_secs(60), "two requests", || {
        (receiver.count() >= 2).then_some(())
    });
    // A second later the loop has what was sent.
    std::thread::sleep(Duration::from_secs(1));
    first.stop(Signal::TERM);
    assert!(ask_database(&db, "SELECT done FROM remote_write") > 0);
    let mut second = start();
    let before = receiver.count();
    wait_at_most(Duration::from_secs(60), "two more requests", || {
        (receiver.count() >= before + 2).then_some(())
    });
    // The kill loses what is not committed.
    second.commit();
    second.stop(Signal::KILL);
    let second = start();
    let before = receiver.count();
    wait_at_most(Duration::from_secs(60), "another request", || {
        (receiver.count() > before).then_some(())
    });
    second.commit();
    assert!(kept_ticks(&db).len() > 150);
    let sent = receiver.samples();
    let stored = exported(&second);
    let times: Vec<i64> = sent.keys().map(|(_, at_ms)| *at_ms).collect();
    let (from, to) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
    let missing = stored
        .keys()
        .filter(|key| (from..=to).contains(&key.1) && !sent.contains_key(*key));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&Key>::new());
    // After a kill, one request may go twice.
    let requests = receiver.requests.lock().unwrap();
    let most = requests
        .iter()
        .map(|request| samples(&request.body))
        .max()
        .unwrap();
    let twice = sent.values().filter(|(_, count)| *count > 1).count();
    assert!(
        twice <= most && sent.values().all(|(_, count)| *count <= 2),
        "{twice} twice"
    );
}

#[test]
fn a_wrong_configuration_is_told_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cowbell.toml");
    for (text, expected) in [
        (
            "url = \"ftp://x\"",
            "expected an http:// or https:// address",
        ),
        (
            "url = \"http://x\"\ninstance = \"\"",
            "line 3, `instance = …`: expected 1 to 255 letters",
        ),
        (
            "url = \"file:/does/not/exist\"",
            "in [remote_write]: `url`: /does/not/exist does not exist: write",
        ),
        (
            "instance = \"x\"",
            "line 1, `[remote_write]`: missing field `url`",
        ),
    ] {
        std::fs::write(&file, format!("[remote_write]\n{text}\n")).unwrap();
        let ended = said(
            cowbell()
                .args(["serve", "--listen", "127.0.0.1:1", "--config"])
                .arg(&file),
        );
        assert!(
            ended.err.contains(expected) && ended.err.lines().count() == 1,
            "{ended:?}"
        );
    }
}
