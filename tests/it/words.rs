//! Word of jobs, over the API and by `cowbell job`: what it changes, and what is refused with nothing half done.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::daemon::{Daemon, Said, Start, cowbell, said, time};
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
    said(cowbell().arg("job").args(arguments).args(["--listen", &format!("127.0.0.1:{}", daemon.port)]))
}

fn done(daemon: &Daemon, arguments: &[&str]) -> String {
    let found = job(daemon, arguments);
    assert_eq!((found.code, &*found.err), (Some(0), ""), "{arguments:?}");
    found.out
}

/// Refused with one sentence, and nothing printed.
fn refused(daemon: &Daemon, arguments: &[&str], part: &str) {
    let before = daemon.json("/api/v1/jobs");
    let found = job(daemon, arguments);
    assert!(matches!(found.code, Some(1 | 2)) && found.out.is_empty(), "{arguments:?}: {found:?}");
    assert!(found.err.contains(part), "expected {part:?} for {arguments:?}: {found:?}");
    if found.code == Some(1) {
        assert_eq!(found.err.lines().count(), 1, "{found:?}");
    }
    assert_eq!(daemon.json("/api/v1/jobs"), before, "{arguments:?} changed something");
}

fn put(daemon: &Daemon, key: &str, body: &Value) -> Answer {
    http::put(daemon.port, &format!("/api/v1/jobs/{key}"), &[HOST, JSON], &body.to_string())
}

fn put_refused(daemon: &Daemon, key: &str, body: &Value, part: &str) {
    let answer = put(daemon, key, body);
    assert_eq!(answer.status, 409, "{body}: {answer:?}");
    assert!(answer.sentence().contains(part), "expected {part:?}: {answer:?}");
}

fn listed(daemon: &Daemon) -> Vec<Value> {
    daemon.json("/api/v1/jobs").as_array().unwrap().clone()
}

#[test]
fn a_job_is_started_and_stopped_at_once_by_its_name() {
    let (_machine, daemon) = watching();
    let begin = ["start", "nightly", "--variant", "gzip", "--repeat", "2"];
    assert_eq!(done(&daemon, &begin), "1\n");
    done(&daemon, &["note", "nightly", "the <b>disk</b> was replaced"]);
    done(&daemon, &["stop", "nightly", "--status", "3"]);
    let jobs = listed(&daemon);
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    let (kind, outcome) = (&jobs[0]["kind"], &jobs[0]["outcome"]);
    assert_eq!((kind, outcome, &jobs[0]["exit_status"]), (&json!("mark"), &json!("failed"), &json!(3)));
    assert_eq!(jobs[0]["label"], json!({"set": "nightly", "variant": "gzip", "repeat": 2}));
    assert_eq!(jobs[0]["notes"][0]["text"], "the <b>disk</b> was replaced");
    assert_eq!(done(&daemon, &["start", "nightly", "--at=-5m"]), "2\n");
    done(&daemon, &["stop", "2", "--at=-1m"]);
    let jobs = listed(&daemon);
    let second = jobs.iter().find(|job| job["id"] == 2).unwrap();
    let took = time(&second["ended_at"]).as_second() - time(&second["started_at"]).as_second();
    assert!((235..=245).contains(&took) && second["outcome"] == "succeeded", "{second}");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence_and_nothing_is_half_done() {
    let (_machine, daemon) = watching();
    refused(&daemon, &["stop", "nightly"], "`cowbell job start nightly` begins one");
    done(&daemon, &["start", "nightly"]);
    refused(&daemon, &["start", "nightly"], "a job called `nightly` runs since");
    refused(&daemon, &["stop", "nightly", "--at=-1h"], "expected `ended_at` from the start on (");
    refused(&daemon, &["stop", "nightly", "--at", "2999-01-01T00:00:00Z"], "`ended_at` from 1970 to now");
    refused(&daemon, &["start", "nightly"], "with `cowbell job stop 1 --failed` if it came to nothing");
    refused(&daemon, &["delete", "1"], "job 1 runs");
    refused(&daemon, &["start", "2"], "digits alone are the number of a job");
    done(&daemon, &["stop", "nightly"]);
    refused(&daemon, &["stop", "nightly"], "the last one ended at");
    refused(&daemon, &["stop", "1"], "the last one ended at");
    refused(&daemon, &["delete", "9"], "nothing was deleted");
    refused(&daemon, &["delete", "1", "9"], "there is no job 9");
    done(&daemon, &["start", "second"]);
    refused(&daemon, &["delete", "1", "2"], "job 2 runs");
    done(&daemon, &["stop", "second"]);
    refused(&daemon, &["note", "9", "text"], "there is no job 9");
    refused(&daemon, &["note", "weekly", "text"], "no job called `weekly`");
    refused(&daemon, &["note", "1", ""], "a note to be 1 to 1000 letters");
    refused(&daemon, &["note", "1", "text", "--at", "2999-01-01T00:00:00Z"], "`at` from 1970 to now");
    for at in ["2999-01-01T00:00:00Z", "1969-12-31T00:00:00Z"] {
        refused(&daemon, &["start", "weekly", "--at", at], "`started_at` from 1970 to now");
    }
    for at in ["-1", "--1h", "soon", "-000001-01-01T00:00:00Z"] {
        refused(&daemon, &["start", "weekly", &format!("--at={at}")], "expected `--at` to be a time such as");
    }
    let long = "x".repeat(10_000);
    for name in [&*long, "a\tb", "a\u{1b}[31mb", "a\u{202e}b", "", " ", "\u{200b}\u{feff} \u{2060}"] {
        for option in [None, Some("--set"), Some("--variant")] {
            let named: Vec<&str> =
                option.map_or(vec!["start", name], |option| vec!["start", "weekly", option, name]);
            refused(&daemon, &named, "1 to 200 letters without control characters");
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
                    put(daemon, &format!("{}-{number}", names(number)), &body(&names(number))).status
                })
            };
            let threads: Vec<_> = (0..8).map(begin).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        })
    };
    let mut found = put_all(&|_| "same".into());
    found.sort();
    assert_eq!(found, [202, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(put_all(&|number| format!("other-{number}")), [202; 8]);
    let jobs = listed(&daemon);
    let ids: std::collections::BTreeSet<_> = jobs.iter().map(|job| job["id"].as_i64()).collect();
    assert_eq!((jobs.len(), ids.len()), (9, 9), "each is a job of its own: {jobs:?}");
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
    put_refused(&daemon, "first", &later, "runs since 2026-03-01T02:00:01Z: choose another key");
    let mut other_start = ended(5);
    other_start["started_at"] = json!("2026-03-01T02:00:02Z");
    put_refused(&daemon, "first", &other_start, "runs since 2026-03-01T02:00:01Z: choose another key");
    for body in [&ended(5), &ended(5), &begun] {
        assert_eq!(put(&daemon, "first", body).json(), json!({"id": 1}), "the same may be told twice");
    }
    put_refused(&daemon, "first", &ended(6), "is over since 2026-03-01T02:00:05Z");
    put_refused(&daemon, "first", &later, "is over since 2026-03-01T02:00:05Z");
    for number in 0..201 {
        let mut body = ended(9);
        body["name"] = json!(format!("other {number}"));
        assert_eq!(put(&daemon, &format!("other-{number}"), &body).status, 202);
    }
    wait_for("it is in the database", || (listed(&daemon).len() == 202).then_some(()));
    put_refused(&daemon, "first", &later, "is over since 2026-03-01T02:00:05Z");
    assert_eq!(put(&daemon, "first", &begun).json(), json!({"id": 1}));
    let mut command = later.clone();
    command["kind"] = json!("command");
    put_refused(&daemon, "first", &command, "is over since");
    assert_eq!(listed(&daemon).len(), 202, "none was made anew");
    let fresh = json!({"name": "again", "kind": "command", "started_at": jiff::Timestamp::now().to_string()});
    assert_eq!(put(&daemon, "first", &fresh).status, 202, "a command that begins now is not looked up");
    let again = wait_for("it is one row in the database", || {
        let jobs = listed(&daemon);
        jobs.iter().find(|job| job["name"] == "again").filter(|_| jobs.len() == 202).cloned()
    });
    assert_eq!(again["id"], 203, "{again}");
}

#[test]
fn notes_deletion_and_what_runs_survive_a_restart() {
    let (machine, mut first) = watching();
    let root = machine.root().to_str().unwrap().to_string();
    for name in ["kept", "deleted", "running"] {
        done(&first, &["start", name, "--set", "nights"]);
        done(&first, &["note", name, &format!("note on {name}"), "--at=-1h"]);
    }
    done(&first, &["stop", "kept"]);
    done(&first, &["stop", "deleted", "--failed"]);
    done(&first, &["delete", "2"]);
    done(&first, &["note", "1", "after its end"]);
    first.stop(Signal::TERM);
    let second = Start::with(&["serve", "--interval", "60s", "--root", &root]).db(&first.db).start();
    let jobs = listed(&second);
    let names: Vec<_> = jobs.iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["running", "kept"]);
    let notes: Vec<_> =
        jobs[1]["notes"].as_array().unwrap().iter().map(|note| note["text"].clone()).collect();
    assert_eq!(notes, ["note on kept", "after its end"]);
    assert_eq!((&jobs[0]["outcome"], &jobs[0]["id"]), (&Value::Null, &json!(3)));
    refused(&second, &["start", "running"], "a job called `running` runs since");
    done(&second, &["stop", "running"]);
    assert_eq!((&listed(&second)[0]["id"], &listed(&second)[0]["outcome"]), (&json!(3), &json!("succeeded")));
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
    let second = Start::with(&["serve", "--interval", "60s", "--root", &root]).db(&first.db).start();
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
        assert_eq!(put(&daemon, &format!("run-{number}"), &body).status, 202);
    }
    wait_for("all are kept", || (listed(&daemon).len() == 66).then_some(()));
    let body = daemon.json("/api/v1/jobs/compare?set=many");
    let ids: Vec<_> = body["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_i64()).collect();
    assert_eq!((ids.len(), ids[0]), (64, Some(3)));
    let sentence = "Of the 66 runs of the set many the latest 64 are compared; the others are left out.";
    assert_eq!(body["sentences"][0], sentence);
    assert!(done(&daemon, &["compare", "--set", "many"]).contains(sentence));
}

#[test]
fn a_recordings_jobs_are_left_as_they_are() {
    let tape = crate::tape::Tape::of(Duration::from_secs(1), &[crate::tape::Snapshot::Filled(75.0); 5]);
    let daemon = Start::playing(&tape, "max").start();
    wait_at_most(Duration::from_secs(20), "a job", || (!listed(&daemon).is_empty()).then_some(()));
    refused(&daemon, &["start", "nightly"], "this is a recording");
    refused(&daemon, &["note", "1", "text"], "this is a recording");
    refused(&daemon, &["phase", "1", "writing"], "this is a recording");
    refused(&daemon, &["stop", "data_snapshot"], "it ends when the snapshot is removed");
}

/// Each phase by its name, and whether it goes on.
fn phases(job: &Value) -> Vec<(String, bool)> {
    let phases = job["phases"].as_array().unwrap().iter();
    phases.map(|phase| (phase["phase"].as_str().unwrap().into(), phase["ended_at"].is_null())).collect()
}

#[test]
fn a_job_is_told_its_phases_while_it_runs_and_they_survive_a_restart() {
    let (machine, mut first) = watching();
    let root = machine.root().to_str().unwrap().to_string();
    done(&first, &["start", "bonnie++", "--at=-1h"]);
    done(&first, &["phase", "bonnie++", "writing", "--at=-50m"]);
    done(&first, &["phase", "1", "writing"]);
    done(&first, &["phase", "bonnie++", "<b>reading</b>", "--at=-20m"]);
    assert_eq!(phases(&listed(&first)[0]), [("writing".into(), false), ("<b>reading</b>".into(), true)]);
    refused(&first, &["phase", "1", "seeking", "--at=-2h"], "job 1 runs since");
    refused(&first, &["phase", "1", "seeking", "--at=-30m"], "is in its phase `<b>reading</b>` since");
    refused(&first, &["phase", "1", "seeking", "--at", "2999-01-01T00:00:00Z"], "`at` from 1970 to now");
    refused(&first, &["phase", "1", "see\nking"], "1 to 200 letters without control characters");
    refused(&first, &["phase", "9", "seeking"], "there is no job 9");
    refused(&first, &["phase", "weekly", "seeking"], "no job called `weekly`");
    let wrong = http::change(first.port, "POST", "/api/v1/jobs/1/phases", &[HOST, JSON], r#"{"name": ""}"#);
    assert!(wrong.status == 400 && wrong.sentence().contains("a phase's name"), "{wrong:?}");
    first.stop(Signal::TERM);
    let second = Start::with(&["serve", "--interval", "60s", "--root", &root]).db(&first.db).start();
    done(&second, &["phase", "bonnie++", "seeking"]);
    done(&second, &["stop", "bonnie++"]);
    refused(&second, &["phase", "1", "more"], "job 1 is over since");
    let told = phases(&listed(&second)[0]);
    assert_eq!(
        told.iter().map(|(name, _)| &**name).collect::<Vec<_>>(),
        ["writing", "<b>reading</b>", "seeking"]
    );
    let page = second.get("/jobs/1").body;
    assert!(page.contains("&#60;b&#62;reading&#60;/b&#62;") && !page.contains("<b>reading"), "{page}");
}

#[test]
fn pages_tell_the_set_and_the_notes_as_text() {
    let (_machine, daemon) = watching();
    let set = "<b>nights</b>";
    done(&daemon, &["start", "backup", "--set", set, "--variant", "zstd", "--repeat", "2"]);
    done(&daemon, &["note", "backup", "the <script>alert(1)</script> tape & all", "--at=-1m"]);
    done(&daemon, &["stop", "backup"]);
    let page = daemon.get("/jobs/1").body;
    for part in [
        "Of the set &#60;b&#62;nights&#60;/b&#62;, variant zstd, run 2.",
        "<caption>Notes</caption>",
        "the &#60;script&#62;alert(1)&#60;/script&#62; tape &#38; all",
    ] {
        assert!(page.contains(part), "expected {part:?} in {page}");
    }
    let list = daemon.get("/jobs").body;
    assert!(list.contains("<small>&#60;b&#62;nights&#60;/b&#62; · zstd · #2</small>"), "{list}");
    assert!(!page.contains("<script>alert") && !list.contains("<b>nights"), "markup is text");
}
