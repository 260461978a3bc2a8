//! Will the backup be done before its snapshot overflows? What is said of one that runs, in all the places.

use std::time::Duration;

use cowbell::source::{Part, PartReading, ReadResult};
use serde_json::{Value, json};

use crate::daemon::{Daemon, Start, cowbell, said};
use crate::machine::Done;
use crate::tape::{SNAPSHOT_UUID, Snapshot, Tape};

const MOUNTS: &str = "36 35 253:3 / /mnt/snap ro shared:1 - xfs /dev/mapper/vg0-data_snapshot ro\n";
const MB: u64 = 1_000_000;

/// A backup of so many ticks that reads about 2 MB each, while its snapshot fills by so many percent each. What is
/// mounted holds so much; `None` where nothing is mounted.
fn backup(tape: &mut Tape, ticks: usize, growth: f64, holds_mb: Option<u64>) {
    let mut read = 0;
    for tick in 0..ticks {
        read += 4_000 + 8 * (tick as u64 * 7 % 5) * 20;
        let fill = Snapshot::Filled(10.0 + growth * tick as f64);
        let reading = tape.tick(fill, Done::sectors(read, 0), Done::sectors(read, 0));
        let mut add = |part, text: String| {
            reading.texts.push(PartReading {
                part,
                result: ReadResult::Text(text),
                took_us: 10,
            });
        };
        match holds_mb {
            Some(mb) if tick == 3 => {
                add(Part::Mounts, MOUNTS.into());
                add(
                    Part::Usage,
                    format!("253:3\t/mnt/snap\t{}\t1000\t1000\n", mb * 1000 + 1000),
                );
            }
            None if tick == 0 => add(Part::Mounts, String::new()),
            _ => {}
        }
    }
}

fn playing(tape: Tape) -> (Tape, Daemon) {
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(tape.readings.len());
    (tape, daemon)
}

fn tape() -> Tape {
    Tape::new(Duration::from_secs(1))
}

fn outlook(daemon: &Daemon) -> Value {
    let jobs = daemon.json("/api/v1/jobs");
    let id = &jobs[0]["id"];
    let outlook = daemon.json(&format!("/api/v1/jobs/{id}/outlook"));
    assert_eq!(
        daemon.json(&format!("/api/v1/jobs/{id}/figures"))["outlook"],
        outlook
    );
    outlook
}

#[test]
fn a_backup_with_room_is_said_to_be_done_first_everywhere() {
    let mut tape = tape();
    backup(&mut tape, 121, 0.05, Some(400));
    let (_tape, daemon) = playing(tape);
    let said_of_it = outlook(&daemon);
    assert_eq!(said_of_it["verdict"], "done_first", "{said_of_it}");
    assert_eq!(said_of_it["left"]["from"], "file_system");
    assert_eq!(said_of_it["left"]["expected_bytes"], 400 * MB);
    // 133 MB are left of 400, at 2.2 MB/s; the COW area has 84 % free and fills by 0.05 % a second.
    let likely = |what: &str| said_of_it[what]["likely_s"].as_f64().unwrap();
    assert!((55.0..65.0).contains(&likely("done")), "{said_of_it}");
    assert!((1_600.0..1_750.0).contains(&likely("full")), "{said_of_it}");
    let text = said_of_it["text"].as_str().unwrap();
    assert!(
        text.contains(" snapshot vg0/data_snapshot is full in 28 min 00 s ("),
        "{text}"
    );
    assert!(text.ends_with(" The backup will be done first."), "{text}");
    assert_eq!(said_of_it["growth"]["add_bytes"], 0, "{said_of_it}");
    let page = daemon.get("/jobs/1").body;
    for expected in [
        text,
        "Its file system uses 381 MiB; ",
        "<dt>Done in</dt>",
        "<dt>Full in</dt>",
    ] {
        assert!(page.contains(expected), "no {expected:?} in {page}");
    }
    // A green headline looks ahead too, and says what it is from.
    let headline = daemon.json("/api/v1/status")["sentence"]
        .as_str()
        .unwrap()
        .to_string();
    for expected in [
        "Snapshot vg0/data_snapshot is 16.00 % full and, at the speed of the last ",
        ", will overflow in ",
        ". The backup needs about 60 s more and will be done first.",
    ] {
        assert!(headline.contains(expected), "no {expected:?} in {headline}");
    }
    for path in ["/", "/jobs/1", "/volumes/vg0/data_snapshot"] {
        assert_eq!(
            verdict(&daemon.get(path).body),
            ("ok".into(), headline.clone()),
            "{path}"
        );
    }
    let answer = "<p class=\"headline\">The backup of vg0/data will finish in ";
    assert!(daemon.get("/").body.contains(answer));
    let address = format!("127.0.0.1:{}", daemon.port);
    for arguments in [&["status"][..], &["job", "show", "1"]] {
        let told = said(cowbell().args(arguments).args(["--listen", &address]));
        assert!(told.out.contains(&headline), "{told:?}");
    }
}

#[test]
fn one_that_fills_sooner_is_said_to_be_lost() {
    let mut tape = tape();
    backup(&mut tape, 121, 0.5, Some(4_000));
    let (_tape, daemon) = playing(tape);
    let said = outlook(&daemon);
    assert_eq!(said["verdict"], "full_first", "{said}");
    assert_eq!(said["risk"], "high", "{said}");
    assert_eq!(daemon.json("/api/v1/status")["grade"], "critical");
    let answer = "<p class=\"headline\">The backup of vg0/data will be lost in ";
    assert!(daemon.get("/").body.contains(answer));
    let page = daemon.get("/jobs/1").body;
    let verdict = page
        .split("<section class=\"verdict critical\"")
        .nth(1)
        .unwrap();
    let verdict = verdict.split("</section>").next().unwrap();
    assert!(
        verdict.contains("and will be lost. <br>Run <code>lvextend -L +"),
        "{verdict}"
    );
}

const ADDED: &str = "The guard added 20.0 MiB, to 44.0 MiB.";

/// The guard's state, as of each reading.
fn guarded(tape: &mut Tape, is_enough: bool) {
    let added_at = tape.readings.last().unwrap().at;
    for reading in &mut tape.readings {
        let volume = json!({
            "uuid": SNAPSHOT_UUID, "name": "vg0/data_snapshot", "part": "snapshot", "plan": "will_extend",
            "text": "The guard will extend it in about 2 min.", "is_enough": is_enough, "size_bytes": 1,
            "used_bytes": 1, "bytes_per_s": null, "growth_bytes": null, "steps": 0, "added_bytes": 0, "largest_bytes": 1,
        });
        let action = |text: &str, took_ms: Option<u64>| {
            json!({
                "at": added_at, "mode": "on", "uuid": SNAPSHOT_UUID, "name": "vg0/data_snapshot",
                "command": ["lvextend"], "from_bytes": 1, "to_bytes": 2, "exit_status": null, "took_ms": took_ms,
                "expected_hold_ms": null, "suspended_ms": null, "text": text, "failed": false,
            })
        };
        let actions = [
            action(ADDED, Some(5)),
            action("The guard is about to.", None),
        ];
        let state = json!({
            "uptime_us": reading.uptime_us, "mode": "on", "error": null, "volumes": [volume], "actions": actions,
        });
        reading.texts.push(PartReading {
            part: Part::Guard,
            result: ReadResult::Text(state.to_string()),
            took_us: 10,
        });
    }
}

#[test]
fn one_that_the_guard_saves_is_nowhere_said_to_be_lost() {
    for (is_enough, is_lost) in [(true, false), (false, true)] {
        let mut tape = tape();
        backup(&mut tape, 121, 0.5, Some(4_000));
        guarded(&mut tape, is_enough);
        let (_tape, daemon) = playing(tape);
        let status = daemon.json("/api/v1/status");
        let sentence = status["sentence"].as_str().unwrap();
        assert_eq!(status["grade"] == "critical", is_lost, "{status}");
        for path in ["/", "/jobs/1", "/volumes/vg0/data_snapshot"] {
            let page = daemon.get(path).body;
            assert_eq!(page.contains("be lost"), is_lost, "{path}: {page}");
            assert!(page.contains("The guard will extend it"), "{path}: {page}");
            assert_eq!(page.contains("lvextend"), is_lost, "{path}: {page}");
        }
        let notes = &daemon.json("/api/v1/jobs/1")["notes"];
        assert_eq!(notes.as_array().unwrap().len(), 1, "{notes}");
        assert_eq!(notes[0]["text"], ADDED);
        let mark = format!(": {}", ADDED.trim_end_matches('.'));
        assert!(daemon.get("/jobs/1").body.contains(&mark), "no {mark:?}");
        for path in ["/", "/jobs/1", "/volumes/vg0/data_snapshot"] {
            let told = daemon.get(path).body.contains(">guarded");
            assert_eq!(told, !is_lost, "{path}");
        }
        if !is_lost {
            assert!(sentence.contains(" would overflow in "), "{sentence}");
            let left = "The guard will extend it in about 2 min. The backup needs about ";
            assert!(sentence.contains(left), "{sentence}");
            assert!(
                sentence.ends_with(" more and will probably be done first."),
                "{sentence}"
            );
            let answer = "<p class=\"headline\">The guard will extend vg0/data_snapshot in time";
            assert!(daemon.get("/").body.contains(answer));
        }
    }
}

#[test]
fn what_the_guard_has_done_is_no_answer_to_whether_the_backup_finishes() {
    let mut tape = tape();
    backup(&mut tape, 121, 0.05, Some(400));
    guarded(&mut tape, true);
    let (_tape, daemon) = playing(tape);
    let page = daemon.get("/").body;
    let (grade, sentence) = verdict(&page);
    assert_eq!(grade, "warning");
    assert!(
        sentence.starts_with("vg0/data_snapshot: The guard "),
        "{sentence}"
    );
    let answer = "<p class=\"headline\">The backup of vg0/data will finish in ";
    assert!(page.contains(answer), "{page}");
}

/// The grade and the sentence of a page's verdict, without markup.
fn verdict(page: &str) -> (String, String) {
    let (_, rest) = page.split_once("<section class=\"verdict ").unwrap();
    let (grade, rest) = rest.split_once('"').unwrap();
    let sentence = rest
        .split_once("</strong> ")
        .unwrap()
        .1
        .split_once("</p>")
        .unwrap()
        .0
        .split(" <small")
        .next()
        .unwrap();
    let parts = sentence
        .split("</button>")
        .map(|part| part.split("<button").next().unwrap());
    let plain = parts
        .collect::<String>()
        .replace("<br>", "")
        .replace("<code>", "`")
        .replace("</code>", "`")
        .replace("&#39;", "'");
    (grade.into(), plain)
}

/// The grade of a row of a table that has this link.
fn graded_row(page: &str, href: &str) -> String {
    let mut rows = page
        .split("<tr>")
        .filter(|row| row.contains(&format!("href=\"{href}\"")));
    let row = rows
        .next()
        .unwrap_or_else(|| panic!("no row of {href} in {page}"));
    row.split_once("class=\"state ")
        .unwrap()
        .1
        .split_once('"')
        .unwrap()
        .0
        .into()
}

#[test]
fn all_places_have_one_grade_and_one_sentence() {
    let mut grades = Vec::new();
    for ticks in [5, 12, 20, 28, 40, 60, 90, 121, 150, 170, 178, 184] {
        let mut tape = tape();
        // It overflows in the end.
        backup(&mut tape, ticks, 0.5, Some(4_000));
        let (_tape, daemon) = playing(tape);
        let host = daemon.json("/api/v1/status");
        let grade = host["grade"].as_str().unwrap().to_string();
        let volumes = daemon.json("/api/v1/volumes");
        let volume = volumes
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["lv"] == "data_snapshot")
            .unwrap()
            .clone();
        let job = daemon.json("/api/v1/jobs/1");
        let overview = daemon.get("/").body;
        let href = "/volumes/vg0/data_snapshot";
        assert_eq!(volume["grade"], host["grade"], "{ticks} {volume}");
        assert_eq!(job["grade"], host["grade"], "{ticks} {job}");
        assert_eq!(
            verdict(&overview),
            (grade.clone(), host["sentence"].as_str().unwrap().into())
        );
        let (of_volume, of_job) = (daemon.get(href).body, daemon.get("/jobs/1").body);
        assert_eq!(verdict(&of_volume).1, volume["sentence"].as_str().unwrap());
        assert_eq!(verdict(&of_job).1, job["sentence"].as_str().unwrap());
        assert_eq!(
            [&volume["sentence"], &job["sentence"]],
            [&host["sentence"]; 2],
            "after {ticks}"
        );
        let sign = match &*grade {
            "ok" => "",
            "warning" => "▲ ",
            _ => "✖ ",
        };
        let is_lost = ["will be lost", "will probably be lost"]
            .iter()
            .any(|lost| overview.contains(lost));
        assert!(!is_lost || grade == "critical", "{ticks} {host}");
        for page in [&overview, &of_volume, &of_job] {
            assert_eq!(verdict(page).0, grade, "after {ticks}");
            assert!(page.contains(&format!("<title>{sign}")), "{page}");
            assert!(
                page.contains(&format!("/assets/favicon-{grade}.svg")),
                "{page}"
            );
        }
        assert_eq!(graded_row(&overview, href), grade);
        assert_eq!(graded_row(&daemon.get("/volumes").body, href), grade);
        let of_jobs = if grade == "ok" { "running" } else { &grade };
        assert_eq!(graded_row(&daemon.get("/jobs").body, "/jobs/1"), of_jobs);
        let alerts = daemon.json("/api/v1/alerts");
        let severities: Vec<&str> = alerts
            .as_array()
            .unwrap()
            .iter()
            .map(|alert| alert["severity"].as_str().unwrap())
            .collect();
        let worst = ["critical", "warning"]
            .into_iter()
            .find(|severity| severities.contains(severity));
        assert_eq!(worst.unwrap_or("ok"), grade, "{alerts}");
        let told =
            said(cowbell().args(["status", "--listen", &format!("127.0.0.1:{}", daemon.port)]));
        let line = format!(
            "COWBELL {} - {}. {}",
            grade.to_uppercase(),
            host["headline"].as_str().unwrap(),
            host["sentence"].as_str().unwrap()
        );
        assert!(told.out.starts_with(&line), "{told:?}");
        let status = ["ok", "warning", "critical"]
            .iter()
            .position(|it| *it == grade)
            .unwrap();
        assert_eq!(told.code, i32::try_from(status).ok());
        grades.push(grade);
    }
    assert_eq!(grades.first().unwrap(), "ok");
    assert_eq!(grades.last().unwrap(), "critical");
}

#[test]
fn where_nothing_tells_what_is_left_it_is_said_when_it_is_full() {
    let mut tape = tape();
    backup(&mut tape, 121, 0.5, None);
    let (_tape, daemon) = playing(tape);
    let said = outlook(&daemon);
    assert_eq!(
        (&said["done"], &said["left"]["from"]),
        (&Value::Null, &"nothing".into()),
        "{said}"
    );
    assert!(
        (50.0..70.0).contains(&said["full"]["likely_s"].as_f64().unwrap()),
        "{said}"
    );
    assert!(
        said["text"]
            .as_str()
            .unwrap()
            .starts_with("The time of completion is unknown. "),
        "{said}"
    );
}

#[test]
fn in_the_first_seconds_it_is_the_recent_speed() {
    let mut tape = tape();
    backup(&mut tape, 15, 0.5, Some(400));
    let (_tape, daemon) = playing(tape);
    let said = outlook(&daemon);
    assert_eq!(
        (&said["done"]["basis"], &said["full"]["basis"]),
        (&"recent_speed".into(), &"recent_speed".into())
    );
    let text = said["text"].as_str().unwrap();
    assert!(text.starts_with("At the speed of the last 1"), "{text}");
}

#[test]
fn what_read_more_than_there_is_may_read_on() {
    let mut tape = tape();
    backup(&mut tape, 121, 0.05, Some(100));
    let (_tape, daemon) = playing(tape);
    let said = outlook(&daemon);
    assert_eq!(
        (&said["done"], &said["left"]["left_bytes"]),
        (&Value::Null, &Value::Null),
        "{said}"
    );
    let text = said["left"]["text"].as_str().unwrap();
    assert!(
        text.starts_with("Its file system uses 95.4 MiB; ")
            && text.ends_with("and the rest is unknown."),
        "{text}"
    );
}

#[test]
fn one_that_is_over_has_none() {
    let mut tape = tape();
    backup(&mut tape, 70, 0.05, Some(400));
    tape.tick(Snapshot::Absent, Done::default(), Done::default());
    let (_tape, daemon) = playing(tape);
    assert_eq!(outlook(&daemon), Value::Null);
}
