//! Commands on jobs, over the API and by `cowbell job`: what they change, when they are stored, and what is refused with
//! nothing half done.

use std::path::Path;
use std::time::Duration;

use cowbell::job::Job;
use cowbell::store::WriteOp;
use rustix::process::Signal;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::daemon::{Daemon, Said, Start, ask_database, block_on, cowbell, said, time};
use crate::http::{self, Answer};
use crate::machine::Machine;
use crate::{wait_at_most, wait_for};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const HOST: (&str, &str) = ("Host", "127.0.0.1:2692");

/// Ticks of a minute: whatever is known at once did not wait for a tick.
fn watching() -> (Machine, Daemon) {
    let machine = Machine::new();
    let root = machine.root().to_str().unwrap().to_string();
    let daemon = Start::with(&["serve", "--interval", "60s", "--root", &root]).start();
    (machine, daemon)
}

fn job(daemon: &Daemon, arguments: &[&str]) -> Said {
    said(
        cowbell()
            .arg("job")
            .args(arguments)
            .args(["--listen", &format!("127.0.0.1:{}", daemon.port)]),
    )
}

fn done(daemon: &Daemon, arguments: &[&str]) -> String {
    let found = job(daemon, arguments);
    assert_eq!((found.code, &*found.err), (Some(0), ""), "{arguments:?}");
    found.out
}

/// Refused with one sentence, and nothing printed.
fn refused(daemon: &Daemon, arguments: &[&str], part: &str) {
    // A tick meanwhile counts what was read.
    let jobs = || {
        let mut jobs = listed(daemon);
        for job in &mut jobs {
            job["bytes_read"].take();
        }
        jobs
    };
    let before = jobs();
    let found = job(daemon, arguments);
    assert!(
        matches!(found.code, Some(1 | 2)) && found.out.is_empty(),
        "{arguments:?}: {found:?}"
    );
    assert!(
        found.err.contains(part),
        "expected {part:?} for {arguments:?}: {found:?}"
    );
    if found.code == Some(1) {
        assert_eq!(found.err.lines().count(), 1, "{found:?}");
    }
    assert_eq!(jobs(), before, "{arguments:?} changed something");
}

fn put(daemon: &Daemon, key: &str, body: &Value) -> Answer {
    http::put(
        daemon.port,
        &format!("/api/v1/marks/{key}"),
        &[HOST, JSON],
        &body.to_string(),
    )
}

fn put_refused(daemon: &Daemon, key: &str, body: &Value, part: &str) {
    let answer = put(daemon, key, body);
    assert_eq!(answer.status, 409, "{body}: {answer:?}");
    assert!(
        answer.sentence().contains(part),
        "expected {part:?}: {answer:?}"
    );
}

/// The jobs of all pages, from the first one on.
fn pages(daemon: &Daemon, first: &str) -> Vec<Value> {
    let (mut jobs, mut next) = (Vec::new(), first.to_string());
    loop {
        let answer = daemon.get(&next);
        assert_eq!(answer.status, 200, "{next}: {answer:?}");
        jobs.extend(answer.json().as_array().unwrap().iter().cloned());
        let link = answer
            .head
            .lines()
            .find_map(|line| line.strip_prefix("link: <"));
        match link.map(|link| link.strip_suffix(">; rel=\"next\"").unwrap()) {
            Some(link) => next = link.into(),
            None => return jobs,
        }
    }
}

fn listed(daemon: &Daemon) -> Vec<Value> {
    daemon.json("/api/v1/jobs").as_array().unwrap().clone()
}

#[test]
fn a_job_is_started_and_stopped_at_once_by_its_name() {
    let (_machine, daemon) = watching();
    let begin = ["start", "nightly", "--variant", "gzip", "--repeat", "2"];
    assert_eq!(done(&daemon, &begin), "1\n");
    done(
        &daemon,
        &["note", "nightly", "the <b>disk</b> was replaced"],
    );
    done(&daemon, &["stop", "nightly", "--status", "3"]);
    let jobs = listed(&daemon);
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    let (kind, outcome) = (&jobs[0]["kind"], &jobs[0]["outcome"]);
    assert_eq!(
        (kind, outcome, &jobs[0]["exit_status"]),
        (&json!("mark"), &json!("failed"), &json!(3))
    );
    assert_eq!(
        jobs[0]["label"],
        json!({"set": "nightly", "variant": "gzip", "repeat": 2})
    );
    assert_eq!(jobs[0]["notes"][0]["text"], "the <b>disk</b> was replaced");
    assert_eq!(done(&daemon, &["start", "nightly", "--at=-5m"]), "2\n");
    done(&daemon, &["stop", "2", "--at=-1m"]);
    let jobs = listed(&daemon);
    let second = jobs.iter().find(|job| job["id"] == 2).unwrap();
    let took = time(&second["ended_at"]).as_second() - time(&second["started_at"]).as_second();
    assert!(
        (235..=245).contains(&took) && second["outcome"] == "succeeded",
        "{second}"
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence_and_nothing_is_half_done() {
    let (_machine, daemon) = watching();
    refused(
        &daemon,
        &["stop", "nightly"],
        "`cowbell job start nightly` starts one",
    );
    done(&daemon, &["start", "nightly"]);
    refused(
        &daemon,
        &["start", "nightly"],
        "a job called `nightly` has been running since",
    );
    refused(
        &daemon,
        &["stop", "nightly", "--at=-1h"],
        "expected `ended_at` not before the start (",
    );
    refused(
        &daemon,
        &["stop", "nightly", "--at", "2999-01-01T00:00:00Z"],
        "`ended_at` from 1970 to now",
    );
    refused(
        &daemon,
        &["start", "nightly"],
        "end it first (`cowbell job stop 1 --failed` if it came to nothing)",
    );
    refused(
        &daemon,
        &["delete", "1"],
        "job 1 is running: delete it when it has ended",
    );
    refused(
        &daemon,
        &["start", "2"],
        "a name of digits alone means a job's number",
    );
    done(&daemon, &["stop", "nightly"]);
    refused(&daemon, &["stop", "nightly"], "the last one ended at");
    refused(&daemon, &["stop", "1"], "the last one ended at");
    refused(&daemon, &["delete", "9"], "nothing was deleted");
    refused(&daemon, &["delete", "1", "9"], "there is no job 9");
    done(&daemon, &["start", "second"]);
    refused(&daemon, &["delete", "1", "2"], "job 2 is running");
    done(&daemon, &["stop", "second"]);
    refused(&daemon, &["note", "9", "text"], "there is no job 9");
    refused(
        &daemon,
        &["note", "weekly", "text"],
        "no job called `weekly`",
    );
    refused(
        &daemon,
        &["note", "1", ""],
        "a note to be 1 to 1000 letters",
    );
    refused(
        &daemon,
        &["note", "1", "text", "--at", "2999-01-01T00:00:00Z"],
        "`at` from 1970 to now",
    );
    for at in ["2999-01-01T00:00:00Z", "1969-12-31T00:00:00Z"] {
        refused(
            &daemon,
            &["start", "weekly", "--at", at],
            "`started_at` from 1970 to now",
        );
    }
    for at in ["-1", "--1h", "soon", "-000001-01-01T00:00:00Z"] {
        refused(
            &daemon,
            &["start", "weekly", &format!("--at={at}")],
            "expected `--at` to be a time such as",
        );
    }
    let long = "x".repeat(10_000);
    for name in [
        &*long,
        "a\tb",
        "a\u{1b}[31mb",
        "a\u{202e}b",
        "",
        " ",
        "\u{200b}\u{feff} \u{2060}",
    ] {
        for option in [None, Some("--set"), Some("--variant")] {
            let named: Vec<&str> = option.map_or(vec!["start", name], |option| {
                vec!["start", "weekly", option, name]
            });
            refused(
                &daemon,
                &named,
                "1 to 200 letters without control characters",
            );
        }
    }
}

#[test]
fn of_many_that_begin_under_one_name_at_once_one_does() {
    let (_machine, daemon) = watching();
    let body = |name: &str| json!({"name": name, "started_at": "2026-03-01T02:00:01Z"});
    let put_all = |names: &(dyn Fn(usize) -> String + Sync)| {
        let daemon = &daemon;
        std::thread::scope(|scope| {
            let begin = |number: usize| {
                scope.spawn(move || {
                    put(
                        daemon,
                        &format!("{}-{number}", names(number)),
                        &body(&names(number)),
                    )
                    .status
                })
            };
            let threads: Vec<_> = (0..8).map(begin).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
        })
    };
    let mut found = put_all(&|_| "same".into());
    found.sort();
    assert_eq!(found, [201, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(put_all(&|number| format!("other-{number}")), [201; 8]);
    let jobs = listed(&daemon);
    let ids: std::collections::BTreeSet<_> = jobs.iter().map(|job| job["id"].as_i64()).collect();
    assert_eq!(
        (jobs.len(), ids.len()),
        (9, 9),
        "each is a job of its own: {jobs:?}"
    );
}

#[test]
fn a_key_is_one_jobs_for_ever() {
    let (_machine, daemon) = watching();
    let begun = json!({"name": "backup", "started_at": "2026-03-01T02:00:01Z"});
    let ended = |second: u32| {
        let mut body = begun.clone();
        body["ended_at"] = json!(format!("2026-03-01T02:00:{second:02}Z"));
        body["succeeded"] = json!(true);
        body
    };
    assert_eq!(put(&daemon, "first", &begun).json(), json!({"id": 1}));
    let later = json!({"name": "backup", "started_at": "2026-03-01T02:00:02Z"});
    put_refused(
        &daemon,
        "first",
        &later,
        "has been running since 2026-03-01T02:00:01Z: choose another key",
    );
    let mut other_start = ended(5);
    other_start["started_at"] = json!("2026-03-01T02:00:02Z");
    put_refused(
        &daemon,
        "first",
        &other_start,
        "has been running since 2026-03-01T02:00:01Z: choose another key",
    );
    for body in [&ended(5), &ended(5), &begun] {
        assert_eq!(
            put(&daemon, "first", body).json(),
            json!({"id": 1}),
            "the same may be told twice"
        );
    }
    put_refused(&daemon, "first", &ended(6), "ended at 2026-03-01T02:00:05Z");
    put_refused(&daemon, "first", &later, "ended at 2026-03-01T02:00:05Z");
    for number in 0..201 {
        let mut body = ended(9);
        body["name"] = json!(format!("other {number}"));
        assert_eq!(put(&daemon, &format!("other-{number}"), &body).status, 201);
    }
    assert_eq!(listed(&daemon).len(), 202);
    put_refused(&daemon, "first", &later, "ended at 2026-03-01T02:00:05Z");
    assert_eq!(put(&daemon, "first", &begun).json(), json!({"id": 1}));
    let mut command = later.clone();
    command["kind"] = json!("command");
    put_refused(&daemon, "first", &command, "ended at");
    let fresh = json!({"name": "again", "kind": "command", "started_at": jiff::Timestamp::now().to_string()});
    put_refused(&daemon, "first", &fresh, "ended at");
    assert_eq!(listed(&daemon).len(), 202, "none was made anew");
}

#[test]
fn notes_deletion_and_what_runs_survive_a_restart() {
    let (machine, mut first) = watching();
    let root = machine.root().to_str().unwrap().to_string();
    for name in ["kept", "deleted", "running"] {
        done(&first, &["start", name, "--set", "nights"]);
        done(
            &first,
            &["note", name, &format!("note on {name}"), "--at=-1h"],
        );
    }
    done(&first, &["stop", "kept"]);
    done(&first, &["stop", "deleted", "--failed"]);
    done(&first, &["delete", "2"]);
    done(&first, &["note", "1", "after its end"]);
    first.stop(Signal::TERM);
    let second = Start::with(&["serve", "--interval", "60s", "--root", &root])
        .db(&first.db)
        .start();
    let jobs = listed(&second);
    let names: Vec<_> = jobs
        .iter()
        .map(|job| job["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["running", "kept"]);
    let notes: Vec<_> = jobs[1]["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note["text"].clone())
        .collect();
    assert_eq!(notes, ["note on kept", "after its end"]);
    assert_eq!(
        (&jobs[0]["outcome"], &jobs[0]["id"]),
        (&Value::Null, &json!(3))
    );
    refused(
        &second,
        &["start", "running"],
        "a job called `running` has been running since",
    );
    done(&second, &["stop", "running"]);
    assert_eq!(
        (&listed(&second)[0]["id"], &listed(&second)[0]["outcome"]),
        (&json!(3), &json!("succeeded"))
    );
    assert_eq!(done(&second, &["start", "running"]), "4\n");
}

#[test]
fn the_number_of_a_deleted_job_is_not_given_again_after_a_restart() {
    let (machine, mut first) = watching();
    let root = machine.root().to_str().unwrap().to_string();
    for name in ["kept", "deleted"] {
        done(&first, &["start", name]);
        done(&first, &["stop", name]);
    }
    done(&first, &["delete", "2"]);
    first.stop(Signal::TERM);
    let second = Start::with(&["serve", "--interval", "60s", "--root", &root])
        .db(&first.db)
        .start();
    assert_eq!(done(&second, &["start", "next"]), "3\n");
}

#[test]
fn of_a_set_with_too_many_runs_the_latest_are_compared() {
    let (_machine, daemon) = watching();
    for number in 1..=66 {
        let body = json!({
            "name": "run", "set": "many", "repeat": number, "succeeded": true,
            "started_at": format!("2026-03-01T02:{:02}:{:02}Z", number / 60, number % 60),
            "ended_at": "2026-03-01T03:00:00Z",
        });
        assert_eq!(put(&daemon, &format!("run-{number}"), &body).status, 201);
    }
    let body = daemon.json("/api/v1/jobs/compare?set=many");
    let ids: Vec<_> = body["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["id"].as_i64())
        .collect();
    assert_eq!((ids.len(), ids[0]), (64, Some(3)));
    let sentence = "The set many has 66 runs. Only the latest 64 are compared.";
    assert_eq!(body["sentences"][0], sentence);
    assert!(done(&daemon, &["compare", "--set", "many"]).contains(sentence));
}

#[test]
fn a_recordings_jobs_are_left_as_they_are() {
    let tape = crate::tape::Tape::of(
        Duration::from_secs(1),
        &[crate::tape::Snapshot::Filled(75.0); 5],
    );
    let daemon = Start::playing(&tape, "max").start();
    wait_at_most(Duration::from_secs(20), "a job", || {
        (!listed(&daemon).is_empty()).then_some(())
    });
    refused(&daemon, &["start", "nightly"], "cowbell plays a recording");
    refused(&daemon, &["note", "1", "text"], "cowbell plays a recording");
    refused(
        &daemon,
        &["phase", "1", "writing"],
        "cowbell plays a recording",
    );
    refused(
        &daemon,
        &["stop", "data_snapshot"],
        "ends when the snapshot is removed",
    );
}

/// Each phase by its name, and whether it goes on.
fn phases(job: &Value) -> Vec<(String, bool)> {
    let phases = job["phases"].as_array().unwrap().iter();
    phases
        .map(|phase| {
            (
                phase["phase"].as_str().unwrap().into(),
                phase["ended_at"].is_null(),
            )
        })
        .collect()
}

#[test]
fn a_job_is_told_its_phases_while_it_runs_and_they_survive_a_restart() {
    let (machine, mut first) = watching();
    let root = machine.root().to_str().unwrap().to_string();
    done(&first, &["start", "bonnie++", "--at=-1h"]);
    done(&first, &["phase", "bonnie++", "writing", "--at=-50m"]);
    done(&first, &["phase", "1", "writing"]);
    done(
        &first,
        &["phase", "bonnie++", "<b>reading</b>", "--at=-20m"],
    );
    assert_eq!(
        phases(&listed(&first)[0]),
        [("writing".into(), false), ("<b>reading</b>".into(), true)]
    );
    refused(
        &first,
        &["phase", "1", "seeking", "--at=-2h"],
        "job 1 began at",
    );
    refused(
        &first,
        &["phase", "1", "seeking", "--at=-30m"],
        "phase `<b>reading</b>` of job 1 began at",
    );
    refused(
        &first,
        &["phase", "1", "seeking", "--at", "2999-01-01T00:00:00Z"],
        "`at` from 1970 to now",
    );
    refused(
        &first,
        &["phase", "1", "see\nking"],
        "1 to 200 letters without control characters",
    );
    refused(&first, &["phase", "9", "seeking"], "there is no job 9");
    refused(
        &first,
        &["phase", "weekly", "seeking"],
        "no job called `weekly`",
    );
    let wrong = http::change(
        first.port,
        "POST",
        "/api/v1/jobs/1/phases",
        &[HOST, JSON],
        r#"{"name": ""}"#,
    );
    assert!(
        wrong.status == 400 && wrong.sentence().contains("a phase's name"),
        "{wrong:?}"
    );
    first.stop(Signal::TERM);
    let second = Start::with(&["serve", "--interval", "60s", "--root", &root])
        .db(&first.db)
        .start();
    done(&second, &["phase", "bonnie++", "seeking"]);
    done(&second, &["stop", "bonnie++"]);
    refused(&second, &["phase", "1", "more"], "job 1 ended at");
    let told = phases(&listed(&second)[0]);
    assert_eq!(
        told.iter().map(|(name, _)| &**name).collect::<Vec<_>>(),
        ["writing", "<b>reading</b>", "seeking"]
    );
    let page = second.get("/jobs/1").body;
    assert!(
        page.contains("&#60;b&#62;reading&#60;/b&#62;") && !page.contains("<b>reading"),
        "{page}"
    );
}

#[test]
fn pages_tell_the_set_and_the_notes_as_text() {
    let (_machine, daemon) = watching();
    let set = "<b>nights</b>";
    done(
        &daemon,
        &[
            "start",
            "backup",
            "--set",
            set,
            "--variant",
            "zstd",
            "--repeat",
            "2",
        ],
    );
    done(
        &daemon,
        &[
            "note",
            "backup",
            "the <script>alert(1)</script> tape & all",
            "--at=-1m",
        ],
    );
    done(&daemon, &["stop", "backup"]);
    // Lines may break after the separators of long words.
    let page = daemon.get("/jobs/1").body.replace("<wbr>", "");
    for part in [
        "Set &#60;b&#62;nights&#60;/b&#62;, variant zstd, run 2.",
        "<caption>Notes</caption>",
        "the &#60;script&#62;alert(1)&#60;/script&#62; tape &#38; all",
    ] {
        assert!(page.contains(part), "expected {part:?} in {page}");
    }
    let list = daemon.get("/jobs").body;
    assert!(
        list.contains("<small>&#60;b&#62;nights&#60;/b&#62; · zstd · #2</small>"),
        "{list}"
    );
    assert!(
        !page.contains("<script>alert") && !list.contains("<b>nights"),
        "markup is text"
    );
}

/// Holds the database, as another program may, so that nothing can be written.
struct Hold(tokio::runtime::Runtime, Option<sqlx::SqliteConnection>);

impl Hold {
    fn of(db: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let options = SqliteConnectOptions::new()
            .filename(db)
            .busy_timeout(Duration::from_secs(20));
        let connection = runtime.block_on(async {
            let mut connection = options.connect().await.unwrap();
            sqlx::query("BEGIN IMMEDIATE")
                .execute(&mut connection)
                .await
                .unwrap();
            connection
        });
        Self(runtime, Some(connection))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.block_on(self.1.take().unwrap().close()).unwrap();
    }
}

#[test]
fn what_cannot_be_stored_is_held_in_memory_and_the_answer_says_so() {
    let (_machine, daemon) = watching();
    let started_at = "2026-03-01T02:00:01Z";
    let body = |name: &str| json!({"name": name, "started_at": started_at});
    assert_eq!(put(&daemon, "before", &body("before")).status, 201);
    let hold = Hold::of(&daemon.db);
    for (key, id) in [("before", 1), ("first", 2), ("first", 2), ("second", 3)] {
        let answer = put(&daemon, key, &body(key));
        assert_eq!(
            (answer.status, &answer.json()["id"]),
            (202, &json!(id)),
            "{key}: {answer:?}"
        );
        let message = answer.json()["message"].as_str().unwrap().to_string();
        assert!(
            message.starts_with("held in memory, not stored: "),
            "{message}"
        );
        assert!(message.contains("database is locked"), "{message}");
    }
    let warned = job(&daemon, &["start", "third"]);
    assert_eq!((warned.code, &*warned.out), (Some(0), "4\n"), "{warned:?}");
    assert!(
        warned
            .err
            .starts_with("job 4: held in memory, not stored: "),
        "{warned:?}"
    );
    let noted = job(&daemon, &["note", "third", "text"]);
    assert!(
        noted.code == Some(0) && noted.err.contains("held in memory, not stored: "),
        "{noted:?}"
    );
    assert_eq!(listed(&daemon).len(), 4, "all are listed from memory");
    drop(hold);
    let again = wait_for("it is stored", || {
        Some(put(&daemon, "first", &body("first"))).filter(|answer| answer.status == 200)
    });
    assert_eq!(again.json(), json!({"id": 2}));
    assert_eq!(ask_database(&daemon.db, "SELECT count(*) FROM job"), 4);
}

#[test]
fn a_run_begins_at_once_while_nothing_can_be_stored_and_says_what_became_of_it() {
    let (_machine, daemon) = watching();
    let hold = Hold::of(&daemon.db);
    let began = std::time::Instant::now();
    let listen = format!("127.0.0.1:{}", daemon.port);
    let found = said(cowbell().args(["run", "--listen", &listen, "--", "date", "+%s%N"]));
    let ran_at = Duration::from_nanos(found.out.trim().parse().unwrap());
    let since_start = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        - ran_at;
    assert!(
        began.elapsed() - since_start < Duration::from_secs(1),
        "it was begun late: {found:?}"
    );
    assert_eq!(found.code, Some(0));
    assert!(
        found
            .err
            .starts_with("cowbell run: the job is held in memory, not stored: "),
        "{found:?}"
    );
    drop(hold);
}

/// Begins and ends jobs as fast as they are answered, until the daemon is gone; gives those that were answered as stored,
/// with their state.
fn mark_until_it_ends(daemon: &Daemon, thread: usize) -> Vec<(String, bool)> {
    let mut stored = Vec::new();
    for number in 0.. {
        let name = format!("{thread}-{number}");
        let mut body = json!({"name": name, "started_at": "2026-03-01T02:00:01Z"});
        for is_end in [false, true] {
            if is_end {
                body["ended_at"] = json!("2026-03-01T02:00:02Z");
                body["succeeded"] = json!(true);
            }
            let text = body.to_string();
            let request = format!(
                "PUT /api/v1/marks/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
                 Connection: close\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            );
            match http::command(daemon.port, request.as_bytes()) {
                Ok(answer) if answer.status == 200 || answer.status == 201 => {
                    stored.push((name.clone(), is_end))
                }
                Ok(answer) => assert!(matches!(answer.status, 202 | 503), "{answer:?}"),
                Err(_) => return stored,
            }
        }
    }
    stored
}

#[test]
fn what_was_answered_as_stored_survives_a_kill() {
    let (machine, folder) = (Machine::new(), tempfile::tempdir().unwrap());
    let db = folder.path().join("cowbell.db");
    let mut stored: Vec<(String, bool)> = Vec::new();
    for life in 0..3 {
        let daemon = &Start::watching(&machine).db(&db).start();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| scope.spawn(move || mark_until_it_ends(daemon, life * 10 + thread)))
                .collect();
            std::thread::sleep(Duration::from_millis(1_500));
            rustix::process::kill_process(daemon.pid(), Signal::KILL).unwrap();
            stored.extend(
                threads
                    .into_iter()
                    .flat_map(|thread| thread.join().unwrap()),
            );
        });
    }
    let daemon = Start::watching(&machine).db(&db).start();
    let jobs: std::collections::HashMap<String, bool> = pages(&daemon, "/api/v1/jobs")
        .iter()
        .map(|job| {
            (
                job["name"].as_str().unwrap().into(),
                !job["ended_at"].is_null(),
            )
        })
        .collect();
    assert!(stored.len() > 30, "{} were answered", stored.len());
    let lost: Vec<_> = stored
        .iter()
        .filter(|(name, is_end)| jobs.get(name).is_none_or(|has_ended| *is_end && !has_ended))
        .collect();
    assert!(
        lost.is_empty(),
        "{} of {} are lost: {lost:?}",
        lost.len(),
        stored.len()
    );
}

#[test]
fn any_key_is_a_jobs() {
    let (_machine, daemon) = watching();
    let keys = [
        "report",
        "compare",
        "import",
        "notes",
        "7",
        "a%2Fb",
        "%2E%2E",
        "%2Fetc%2F..%2Fb%3Fc%23d",
        "%C3%A4%20%25",
        "figures",
        "1%2Fexport",
        "openapi.json",
    ];
    for (key, id) in keys.into_iter().zip(1..) {
        let mut body = json!({"name": format!("job {id}"), "started_at": "2026-03-01T02:00:01Z"});
        let begun = put(&daemon, key, &body);
        assert_eq!(
            (begun.status, begun.json()),
            (201, json!({"id": id})),
            "{key}"
        );
        body["ended_at"] = json!("2026-03-01T02:00:02Z");
        body["succeeded"] = json!(true);
        let ended = put(&daemon, key, &body);
        assert_eq!(
            (ended.status, ended.json()),
            (200, json!({"id": id})),
            "{key}"
        );
    }
    let jobs = listed(&daemon);
    assert!(
        jobs.len() == keys.len() && jobs.iter().all(|job| job["outcome"] == "succeeded"),
        "{jobs:?}"
    );
    let told: Vec<_> = jobs
        .iter()
        .rev()
        .map(|job| job["key"].as_str().unwrap())
        .collect();
    assert_eq!(told[5..9], ["a/b", "..", "/etc/../b?c#d", "ä %"]);
    assert_eq!(
        daemon.get("/api/v1/jobs/compare?ids=1,2").status,
        200,
        "the other addresses are as they were"
    );
    assert_eq!(daemon.get("/api/v1/jobs/report?ids=1").status, 200);
    let wrong = http::change(
        daemon.port,
        "PATCH",
        "/api/v1/jobs/report",
        &[HOST, JSON],
        "{}",
    );
    assert_eq!(
        (
            wrong.status,
            wrong.sentence().contains("PATCH is not allowed")
        ),
        (405, true),
        "{wrong:?}"
    );
}

#[test]
fn a_long_list_of_jobs_comes_in_pages_of_which_each_links_to_the_next() {
    let (machine, folder) = (Machine::new(), tempfile::tempdir().unwrap());
    let (root, db) = (
        machine.root().to_str().unwrap(),
        folder.path().join("cowbell.db"),
    );
    block_on(async {
        let (mut writer, _) = crate::ticks::open(&db).await;
        for id in 1..=2500 {
            let started_at = jiff::Timestamp::from_second(1_772_330_400 + id / 3).unwrap();
            let mut job: Job = serde_json::from_value(json!({
                "kind": "mark", "name": format!("night {id}"), "started_at": started_at,
                "ended_at": "2026-03-02T02:00:00Z", "outcome": "succeeded",
            }))
            .unwrap();
            (job.id, job.key) = (id, format!("mark:{id}"));
            writer.append(WriteOp::Job(Box::new(job))).await;
        }
        writer.close().await;
    });
    let second = Start::with(&["serve", "--interval", "60s", "--root", root])
        .db(&db)
        .start();
    for limit in ["", "&limit=77", "&limit=1000", "&limit=999"] {
        let jobs = pages(
            &second,
            &format!("/api/v1/jobs?from=2026-01-01T00:00:00Z{limit}"),
        );
        let ids = jobs.iter().map(|job| job["id"].as_i64().unwrap());
        assert!(ids.eq((1..=2500).rev()), "{limit}: {} in all", jobs.len());
    }
    let list = done(&second, &["list", "--from", "2026-01-01T00:00:00Z"]);
    assert_eq!(list.lines().count(), 2501, "a line each below the head");
    let json: Value = serde_json::from_str(&done(
        &second,
        &["list", "--json", "--from", "2026-01-01T00:00:00Z"],
    ))
    .unwrap();
    assert_eq!(json.as_array().unwrap().len(), 2500);
    done(&second, &["note", "night 1", "found behind two pages"]);
    let page = second.get("/jobs?from=2026-01-01T00:00:00Z").body;
    let older = page
        .split("<a href=\"")
        .find(|rest| rest.contains("rel=\"next\">Older jobs"))
        .unwrap();
    let older = older.split('"').next().unwrap().replace("&#38;", "&");
    assert!(second.get(&older).body.contains("/jobs/2300\""), "{older}");
    for (query, part) in [
        ("limit=0", "from 1 to 1000"),
        ("limit=1001", "from 1 to 1000"),
        ("before=x", "next page"),
    ] {
        let answer = second.get(&format!("/api/v1/jobs?{query}"));
        assert!(
            answer.status == 400 && answer.sentence().contains(part),
            "{answer:?}"
        );
    }
    // The run before is found however many jobs of other names are between.
    for name in ["night 3", "night 3"] {
        done(&second, &["start", name]);
        done(&second, &["stop", name]);
    }
    assert!(
        second
            .get("/jobs/2501")
            .body
            .contains("/jobs/compare?ids=3,2501")
    );
    assert!(
        second
            .get("/jobs/2502")
            .body
            .contains("/jobs/compare?ids=2501,2502")
    );
}

#[test]
fn a_recording_has_the_commands_that_the_daemon_beside_it_carried_out() {
    let (machine, daemon) = watching();
    let listen = format!("127.0.0.1:{}", daemon.port);
    let file = machine.root().join("it.cowbell");
    let mut recorder = cowbell()
        .args([
            "record",
            "--interval",
            "100ms",
            "--listen",
            &listen,
            "--root",
        ])
        .arg(machine.root())
        .arg(&file)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut number = 0;
    wait_for("the recorder to hear of commands", || {
        number += 1;
        let name = format!("early {number}");
        done(&daemon, &["start", &name]);
        done(&daemon, &["stop", &name]);
        std::thread::sleep(Duration::from_millis(300));
        std::fs::metadata(&file)
            .is_ok_and(|file| file.len() > 4_000)
            .then_some(())
    });
    done(&daemon, &["start", "nightly", "--set", "nights"]);
    done(&daemon, &["phase", "nightly", "copying"]);
    done(&daemon, &["note", "nightly", "the disk was replaced"]);
    refused(&daemon, &["start", "nightly"], "has been running since");
    done(&daemon, &["stop", "nightly", "--status", "3"]);
    done(&daemon, &["start", "going on"]);
    std::thread::sleep(Duration::from_millis(500));
    rustix::process::kill_process(rustix::process::Pid::from_child(&recorder), Signal::INT)
        .unwrap();
    assert_eq!(
        wait_for("its end", || recorder.try_wait().unwrap()).code(),
        Some(0)
    );
    let played = Start::with(&[
        "serve",
        "--replay",
        file.to_str().unwrap(),
        "--speed",
        "max",
    ])
    .start();
    let jobs = wait_for("its jobs", || {
        Some(listed(&played)).filter(|jobs| jobs.iter().any(|job| job["name"] == "going on"))
    });
    let nightly = |jobs: &[Value]| {
        jobs.iter()
            .find(|job| job["name"] == "nightly")
            .unwrap()
            .clone()
    };
    let (live, recorded) = (nightly(&listed(&daemon)), nightly(&jobs));
    for key in [
        "started_at",
        "ended_at",
        "outcome",
        "exit_status",
        "label",
        "notes",
        "phases",
        "key",
    ] {
        assert_eq!(recorded[key], live[key], "{key}");
    }
}
