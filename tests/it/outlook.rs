//! Will the backup be done before its snapshot overflows? What is said of one that runs, in all the places.

use std::time::Duration;

use cowbell::source::{Part, PartReading, ReadResult};
use serde_json::Value;

use crate::daemon::{Daemon, Start, cowbell, said};
use crate::machine::Done;
use crate::tape::{Snapshot, Tape};

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
            reading.texts.push(PartReading { part, result: ReadResult::Text(text), took_us: 10 });
        };
        match holds_mb {
            Some(mb) if tick == 3 => {
                add(Part::Mounts, MOUNTS.into());
                add(Part::Usage, format!("253:3\t/mnt/snap\t{}\t1000\t1000\n", mb * 1000 + 1000));
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
    assert_eq!(daemon.json(&format!("/api/v1/jobs/{id}/figures"))["outlook"], outlook);
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
    assert!(text.contains(" snapshot vg0/data_snapshot is full in 28 min 00 s ("), "{text}");
    assert!(text.ends_with(" The backup will be done first."), "{text}");
    assert_eq!(said_of_it["growth"]["add_bytes"], 0, "{said_of_it}");
    let page = daemon.get("/jobs/1").body;
    for expected in [text, "Its file system uses 381 MiB; ", "<dt>Done in</dt>", "<dt>Full in</dt>"] {
        assert!(page.contains(expected), "no {expected:?} in {page}");
    }
    let overview = daemon.get("/").body;
    assert!(overview.contains(&format!("data_snapshot: {text}")), "{overview}");
    let address = format!("127.0.0.1:{}", daemon.port);
    for arguments in [&["status"][..], &["job", "show", "1"]] {
        let told = said(cowbell().args(arguments).args(["--listen", &address]));
        assert!(told.out.contains(text), "{told:?}");
    }
}

#[test]
fn one_that_fills_sooner_is_said_to_be_lost() {
    let mut tape = tape();
    backup(&mut tape, 121, 0.5, Some(4_000));
    let (_tape, daemon) = playing(tape);
    let said = outlook(&daemon);
    assert_eq!(said["verdict"], "full_first", "{said}");
    let page = daemon.get("/jobs/1").body;
    let page = page.replace("<code>", "`").replace("</code>", "`");
    let box_of_it = page.split("<div class=\"empty\"><strong>").nth(1).unwrap();
    assert!(box_of_it.starts_with(said["text"].as_str().unwrap()), "{page}");
}

#[test]
fn where_nothing_tells_what_is_left_it_is_said_when_it_is_full() {
    let mut tape = tape();
    backup(&mut tape, 121, 0.5, None);
    let (_tape, daemon) = playing(tape);
    let said = outlook(&daemon);
    assert_eq!((&said["done"], &said["left"]["from"]), (&Value::Null, &"nothing".into()), "{said}");
    assert!((50.0..70.0).contains(&said["full"]["likely_s"].as_f64().unwrap()), "{said}");
    assert!(said["text"].as_str().unwrap().starts_with("The time of completion is unknown. "), "{said}");
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
    assert_eq!((&said["done"], &said["left"]["left_bytes"]), (&Value::Null, &Value::Null), "{said}");
    let text = said["left"]["text"].as_str().unwrap();
    assert!(
        text.starts_with("Its file system uses 95.4 MiB; ") && text.ends_with("and the rest is unknown."),
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
