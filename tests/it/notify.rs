//! Alerts reach those who are to be told, soon, and nobody who does not listen delays a tick.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::daemon::{Daemon, Start, ask_database};
use crate::service::{Supervisor, reload};
use crate::tape::{Snapshot, Tape};
use crate::wait_for;

const TICK: Duration = Duration::from_millis(100);
/// An alert is told this long after the crossing at most.
const SOON: Duration = Duration::from_secs(3);

/// A receiver of webhooks that remembers what it was told, and when.
struct Hook {
    address: String,
    told: Arc<Mutex<Vec<(Instant, Value)>>>,
}

impl Hook {
    /// Answers each request with the status that `answer` has for its number.
    fn start(answer: impl Fn(usize) -> u16 + Send + 'static) -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), answer)
    }

    fn at(address: SocketAddr, answer: impl Fn(usize) -> u16 + Send + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let told = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&told);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                if let Some(message) = receive(stream, answer(number)) {
                    remembered.lock().unwrap().push((Instant::now(), message));
                }
            }
        });
        Self { address, told }
    }

    fn config(&self) -> String {
        format!(
            "[[notify]]\nkind = \"webhook\"\nurl = \"http://{}/hook?key=secret\"\n",
            self.address
        )
    }

    fn told(&self) -> Vec<(Instant, Value)> {
        self.told.lock().unwrap().clone()
    }

    fn messages(&self, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} messages"), || {
            (self.told().len() >= count).then_some(())
        });
        self.told()
            .into_iter()
            .map(|(_, message)| message)
            .collect()
    }
}

/// Reads one request, answers it, and gives its body where the answer is a yes.
fn receive(stream: TcpStream, status: u16) -> Option<Value> {
    let mut lines = BufReader::new(&stream);
    let (mut length, mut is_json) = (0, false);
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        is_json |= line == "content-type: application/json";
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).ok()?;
    assert!(is_json, "a webhook is told in JSON");
    write!(
        &stream,
        "HTTP/1.1 {status} Whatever\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    (status == 200).then(|| serde_json::from_slice(&body).unwrap())
}

/// A recording whose snapshot is at each of these fills for ten ticks.
fn steps(course: &[Snapshot]) -> Tape {
    let ticks: Vec<Snapshot> = course.iter().flat_map(|snapshot| [*snapshot; 10]).collect();
    Tape::of(TICK, &ticks)
}

fn statuses(messages: &[Value]) -> Vec<(&str, &str)> {
    messages
        .iter()
        .map(|told| {
            (
                told["status"].as_str().unwrap(),
                told["severity"].as_str().unwrap(),
            )
        })
        .collect()
}

const RISING: [Snapshot; 5] = [
    Snapshot::Filled(50.0),
    Snapshot::Filled(75.0),
    Snapshot::Filled(90.0),
    Snapshot::Filled(91.0),
    Snapshot::Absent,
];

/// Waits for the page to show the alert, and tells when.
fn shown(daemon: &Daemon) -> Instant {
    wait_for("an alert", || {
        (daemon.json("/api/v1/alerts") != serde_json::json!([])).then(Instant::now)
    })
}

#[test]
fn a_webhook_is_told_when_an_alert_is_raised_grows_worse_and_is_over() {
    let (tape, hook) = (steps(&RISING), Hook::start(|_| 200));
    let daemon = Start::playing(&tape, "1").config(&hook.config()).start();
    let shown = shown(&daemon);
    let messages = hook.messages(3);
    assert!(
        hook.told()[0].0 < shown + SOON,
        "{:?} after it was shown",
        hook.told()[0].0.duration_since(shown)
    );
    assert_eq!(
        statuses(&messages),
        [
            ("raised", "warning"),
            ("raised", "critical"),
            ("cleared", "critical")
        ]
    );
    daemon.has_played(50);
    assert_eq!(hook.told().len(), 3, "each is told once");
    let listed = &daemon.json("/api/v1/alerts")[0];
    let last = messages[2].as_object().unwrap();
    for (key, value) in listed
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, _)| *key != "deliveries")
    {
        assert_eq!(last.get(key), Some(value), "{key} is as the API lists it");
    }
    let delivery = &listed["deliveries"][0];
    assert_eq!(
        (&delivery["is_delivered"], &delivery["known"]["status"]),
        (&true.into(), &"cleared".into())
    );
    assert_eq!(
        (&delivery["tries"], &delivery["answer"]),
        (&1.into(), &"200 OK".into())
    );
    assert_eq!(last["host"], "lab");
    assert!(
        last["sentence"].as_str().unwrap().contains("removed"),
        "{last:?}"
    );
    assert_eq!(messages[0]["value"], 75.0);
    assert_eq!(messages[0]["cleared_at"], Value::Null);
    assert!(
        !daemon.log().contains("secret"),
        "an address may hold a secret: {}",
        daemon.log()
    );
}

#[test]
fn a_webhook_has_its_url_from_a_credential() {
    let (tape, hook) = (steps(&RISING[..2]), Hook::start(|_| 200));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("on-call");
    std::fs::write(&file, format!("http://{}/hook?key=secret\n", hook.address)).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
    let mut start = Start::playing(&tape, "1");
    start.config = "[[notify]]\nkind = \"webhook\"\nurl = \"credential:on-call\"\n".into();
    start.credentials = Some(folder.path().into());
    let daemon = start.start();
    assert_eq!(statuses(&hook.messages(1)), [("raised", "warning")]);
    assert!(!daemon.log().contains("secret"), "{}", daemon.log());
}

#[test]
fn an_alert_is_over_five_points_below_its_threshold_and_not_before() {
    let fills = [
        50.0, 75.0, 69.0, 71.0, 65.0, 64.9, 75.0, 90.0, 84.0, 80.0, 79.0, 64.0,
    ];
    let course: Vec<_> = fills.iter().map(|fill| Snapshot::Filled(*fill)).collect();
    let (tape, hook) = (Tape::of(TICK, &course), Hook::start(|_| 200));
    let daemon = Start::playing(&tape, "1").config(&hook.config()).start();
    daemon.has_played(fills.len());
    let listed = daemon.json("/api/v1/alerts");
    let course: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|alert| {
            (
                alert["worst"].as_str().unwrap(),
                alert["value"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_eq!(course, [("critical", 64.0), ("warning", 64.9)]);
    // All of it happened within two seconds: what follows the first message goes as one, but the critical alert at once.
    let messages = hook.messages(3);
    assert_eq!(
        statuses(&messages),
        [
            ("raised", "warning"),
            ("raised", "critical"),
            ("cleared", "critical")
        ]
    );
    assert_eq!(
        messages[1]["others"][0]["status"], "cleared",
        "{messages:?}"
    );
    assert_eq!(
        (&messages[1]["value"], &messages[1]["others"][0]["value"]),
        (&90.0.into(), &64.9.into())
    );
}

#[test]
fn a_webhook_that_says_no_is_told_again() {
    let (tape, hook) = (
        steps(&RISING[..2]),
        Hook::start(|number| if number == 0 { 503 } else { 200 }),
    );
    let daemon = Start::playing(&tape, "1").config(&hook.config()).start();
    let messages = hook.messages(1);
    assert_eq!(statuses(&messages), [("raised", "warning")]);
    assert!(
        daemon.log().contains("cannot deliver alert"),
        "{}",
        daemon.log()
    );
}

#[test]
fn a_webhook_that_was_away_is_told_what_is_true_now_and_once() {
    let [_, warning, critical, still, gone] = RISING;
    let tape = steps(&[
        RISING[0], warning, critical, still, still, still, still, gone,
    ]);
    let hook = Hook::start(|number| if number < 2 { 503 } else { 200 });
    let daemon = Start::playing(&tape, "1").config(&hook.config()).start();
    let messages = hook.messages(2);
    assert_eq!(
        statuses(&messages),
        [("raised", "critical"), ("cleared", "critical")]
    );
    assert!(
        daemon
            .log()
            .contains("delivered alert 1 to webhook at 127.0.0.1 after "),
        "{}",
        daemon.log()
    );
}

#[test]
fn a_receiver_with_new_settings_gets_what_is_queued_for_it() {
    let [low, warning, critical, still, gone] = RISING;
    let tape = steps(&[
        low, warning, critical, still, gone, gone, gone, gone, gone, gone,
    ]);
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    let hook = Hook::start(move |_| if away.load(Relaxed) { 503 } else { 200 });
    let systemd = Supervisor::new();
    let start = Start::playing(&tape, "1").config(&hook.config());
    let daemon = start.environment("NOTIFY_SOCKET", &systemd.path).start();
    hook.messages(2);
    is_away.store(true, Relaxed);
    wait_for("the end of the alert", || {
        daemon.log().contains("over: ").then_some(())
    });
    wait_for("a failure", || {
        daemon.log().contains("cannot deliver alert").then_some(())
    });
    reload(&daemon, &format!("{}repeat = \"2h\"\n", hook.config()));
    wait_for("the reload", || {
        daemon
            .log()
            .contains("took the new configuration")
            .then_some(())
    });
    is_away.store(false, Relaxed);
    let messages = hook.messages(3);
    assert_eq!(
        statuses(&messages),
        [
            ("raised", "warning"),
            ("raised", "critical"),
            ("cleared", "critical")
        ]
    );
}

#[test]
fn a_command_is_told_in_json_on_its_standard_input() {
    let tape = steps(&RISING);
    let told = tape.folder().join("told");
    let config = format!(
        "[[notify]]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"x=$(cat); printf '%s\\\\n' \\\"$x\\\" >> \\\"$1\\\"\", \"sh\", \"{}\"]\n",
        told.display()
    );
    let _daemon = Start::playing(&tape, "1").config(&config).start();
    let messages = wait_for("three messages", || {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        let messages: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        (messages.len() >= 3).then_some(messages)
    });
    assert_eq!(
        statuses(&messages),
        [
            ("raised", "warning"),
            ("raised", "critical"),
            ("cleared", "critical")
        ]
    );
}

#[test]
fn receivers_that_hang_delay_neither_ticks_nor_others_nor_the_end() {
    let (tape, hook) = (
        steps(&[
            RISING[0], RISING[1], RISING[2], RISING[3], RISING[3], RISING[3], RISING[4],
        ]),
        Hook::start(|_| 200),
    );
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[[notify]]\nkind = \"webhook\"\nurl = \"http://{}/\"\n[[notify]]\nkind = \"command\"\ncommand = [\"sleep\", \"1000\"]\n{}",
        silent.local_addr().unwrap(),
        hook.config()
    );
    let mut daemon = Start::playing(&tape, "1").config(&config).start();
    let shown = shown(&daemon);
    let taken = daemon.taken();
    let began = Instant::now();
    wait_for("the ticks of two seconds", || {
        (daemon.taken() >= taken + 20).then_some(())
    });
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "20 ticks of {TICK:?} took {:?}",
        began.elapsed()
    );
    hook.messages(2);
    assert!(hook.told()[0].0 < shown + SOON);
    let (status, took) = daemon.stop(Signal::TERM);
    assert!(
        status.success() && took < Duration::from_secs(1),
        "{status:?} after {took:?}"
    );
}

#[test]
fn an_alert_is_in_the_log_with_its_sentence() {
    let tape = steps(&RISING);
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(50);
    let log = daemon.log();
    for (level, part) in [
        ("WARN", "75.00 %"),
        ("ERROR", "90.00 %"),
        ("INFO", "was removed"),
    ] {
        let found = log.lines().any(|line| {
            line.contains(level) && line.contains(part) && line.contains("vg0/data_snapshot")
        });
        assert!(found, "expected {level} with {part:?} in {log}");
    }
}

#[test]
fn an_undelivered_alert_is_delivered_after_a_kill_and_a_delivered_one_is_not_repeated() {
    let rising = steps(&RISING[..2]);
    let hook = Hook::start(|_| 200);
    let away = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let config = |other: SocketAddr| {
        format!(
            "{}[[notify]]\nkind = \"webhook\"\nurl = \"http://localhost:{}/\"\n",
            hook.config(),
            other.port()
        )
    };
    let mut first = Start::playing(&rising, "1").config(&config(away)).start();
    first.has_played(20);
    hook.messages(1);
    let stored = "SELECT count(*) FROM delivery WHERE is_delivered = (answer = '200 OK')";
    wait_for("two stored deliveries", || {
        (ask_database(&first.db, stored) == 2).then_some(())
    });
    first.stop(Signal::KILL);
    let back = Hook::at(away, |_| 200);
    let going_on = steps(&[Snapshot::Filled(76.0), Snapshot::Filled(76.5)]);
    let second = Start::playing(&going_on, "1")
        .config(&config(away))
        .db(&first.db)
        .start();
    assert_eq!(statuses(&back.messages(1)), [("raised", "warning")]);
    second.has_played(20);
    assert_eq!(
        (hook.told().len(), back.told().len()),
        (1, 1),
        "each receiver got it once"
    );
}

#[test]
fn an_alert_that_lasts_over_a_restart_is_not_raised_anew() {
    let rising = steps(&RISING[..2]);
    let hook = Hook::start(|_| 200);
    let mut first = Start::playing(&rising, "1").config(&hook.config()).start();
    first.has_played(20);
    hook.messages(1);
    first.stop(Signal::TERM);
    let going_on = steps(&[Snapshot::Filled(76.0), Snapshot::Filled(90.0)]);
    let second = Start::playing(&going_on, "1")
        .config(&hook.config())
        .db(&first.db)
        .start();
    crate::wait_for("the end", || (second.taken() == 20).then_some(()));
    assert_eq!(
        statuses(&hook.messages(2)),
        [("raised", "warning"), ("raised", "critical")]
    );
    assert_eq!(
        second.json("/api/v1/alerts").as_array().unwrap().len(),
        1,
        "the same alert"
    );
}
