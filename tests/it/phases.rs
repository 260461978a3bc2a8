//! Phases that are told of a job: what each did, wherever the job is told, and the same phases of several jobs side by
//! side. From a whole program that played a recording of it.

use std::time::Duration;

use cowbell::commands::{JobCommand, JobLabel, Mark, MarkEnd, MarkKind};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::daemon::{Daemon, Start, cowbell, said};
use crate::machine::Done;
use crate::tape::{BEGIN, Snapshot, Tape};

/// Sectors of a MiB.
const MIB: u64 = 2048;
/// Seconds of each phase but the last, which is over within a tick.
const PHASE: u64 = 10;
/// Seconds from one run's beginning to the next one's.
const TURN: u64 = 30;
/// MiB that each run reads in a second of its first phase; in the second one nothing is read.
const RUNS: [(&str, u64); 3] = [("linear", 20), ("linear", 20), ("striped", 60)];

fn after(seconds: u64) -> Timestamp {
    BEGIN + SignedDuration::from_secs(seconds as i64)
}

fn words(run: usize, second: u64) -> Vec<JobCommand> {
    let began = run as u64 * TURN;
    let key = format!("mark:{run}");
    let phase = |name: &str, at: Timestamp| JobCommand::Phase {
        key: key.clone(),
        name: name.into(),
        at: Some(at),
    };
    let mark = |end: Option<MarkEnd>| {
        let variant = Some(RUNS[run].0.into());
        JobCommand::Mark(Mark {
            key: key.clone(),
            kind: MarkKind::Mark,
            name: "bonnie++".into(),
            label: Some(JobLabel {
                set: "bonnie++".into(),
                variant,
                repeat: None,
            }),
            started_at: after(began),
            end,
            process: None,
            is_backup: false,
        })
    };
    let over = after(began + 2 * PHASE) + SignedDuration::from_millis(300);
    match second {
        0 => vec![mark(None), phase("reading", after(began))],
        PHASE => vec![
            phase("idle", after(began + PHASE)),
            phase("idle", after(began + PHASE)),
        ],
        second if second == 2 * PHASE => vec![phase("seeking", after(began + second))],
        second if second == 2 * PHASE + 1 => {
            vec![mark(Some(MarkEnd {
                at: over,
                succeeded: true,
                status: None,
                failure: None,
            }))]
        }
        _ => Vec::new(),
    }
}

/// Three runs of a set.
fn experiment() -> (Tape, Daemon) {
    let mut tape = Tape::new(Duration::from_secs(1));
    let mut read = 0;
    for (run, (_, mib)) in RUNS.iter().enumerate() {
        for second in 0..TURN {
            let done = Done::sectors(read, 0);
            tape.tick(Snapshot::Absent, done, done)
                .commands
                .extend(words(run, second));
            read += if second < PHASE { mib * MIB } else { 0 };
        }
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(RUNS.len() * TURN as usize);
    (tape, daemon)
}

fn job(daemon: &Daemon, arguments: &[&str]) -> String {
    let listen = format!("127.0.0.1:{}", daemon.port);
    let found = said(
        cowbell()
            .arg("job")
            .args(arguments)
            .args(["--listen", &listen]),
    );
    assert_eq!((found.code, &*found.err), (Some(0), ""), "{arguments:?}");
    found.out
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected {part:?} in {text}");
    }
}

#[test]
fn what_each_phase_did_is_told_with_the_job() {
    let (_tape, daemon) = experiment();
    let figures = &daemon.json("/api/v1/jobs/1/figures")["figures"];
    let told = |phase: &Value| {
        let mib = phase["read_bytes"]
            .as_f64()
            .map(|bytes| bytes / f64::from(1 << 20));
        (phase["name"].clone(), phase["seconds"].clone(), mib)
    };
    let phases: Vec<_> = figures["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(told)
        .collect();
    let expected = [
        (json!("reading"), json!(10.0), Some(200.0)),
        (json!("idle"), json!(10.0), Some(0.0)),
        // Too short for a whole tick.
        (
            json!("seeking"),
            figures["phases"][2]["seconds"].clone(),
            None,
        ),
    ];
    assert_eq!(phases, expected);
    let text = job(&daemon, &["show", "1"]);
    has(
        &text,
        &[
            "Phase     Began    Took     Read  Read speed",
            "reading  0.00 s  10.0 s  200 MiB  20.0 MiB/s",
        ],
    );
    has(
        &job(&daemon, &["show", "1", "--markdown"]),
        &["| reading | 0.00 s | 10.0 s | 200 MiB | 20.0 MiB/s |"],
    );
    for page in ["/jobs/1", "/api/v1/jobs/report?ids=1"] {
        let page = daemon.get(page).body;
        has(
            &page,
            &[
                "<caption>Phases</caption>",
                "20.0 MiB/s <small",
                "seeking</th>",
                "A dash means",
            ],
        );
    }
}

#[test]
fn the_same_phases_of_several_jobs_are_compared() {
    let (_tape, daemon) = experiment();
    let text = job(
        &daemon,
        &[
            "compare",
            "--set",
            "bonnie++",
            "--figure",
            "reading: read speed mean",
        ],
    );
    has(
        &text,
        &[
            "reading: read speed mean      20.0 MiB/s",
            "± 0 B/s",
            "60.0 MiB/s",
            "3.00",
        ],
    );
    let body = daemon.json("/api/v1/jobs/compare?set=bonnie%2B%2B");
    let rows = body["comparison"]["rows"].as_array().unwrap();
    let is_called = |name: &str| rows.iter().any(|row| row["figure"] == name);
    assert!(
        is_called("idle: duration") && !is_called("seeking: read speed mean"),
        "{rows:?}"
    );
}

#[test]
fn a_jobs_file_has_its_phases() {
    let (_tape, daemon) = experiment();
    let file = daemon.json("/api/v1/jobs/1/export");
    let names: Vec<_> = file["job"]["phase_marks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["name"].clone())
        .collect();
    assert_eq!(names, ["reading", "idle", "seeking"]);
}
