//! How large the next snapshot has to be: on the page, in the API, and on the command line.

use std::time::Duration;

use cowbell::source::{Part, PartReading, ReadResult};

use crate::daemon::{Daemon, Start, cowbell, said};
use crate::machine::Done;
use crate::tape::{DATA_DM_UUID, Snapshot, Tape};

/// The COW area of `Tape`, 63.5 MiB.
const COW_BYTES: u64 = 66_560_000;
const MIB: f64 = 1024.0 * 1024.0;

/// A snapshot of an hour that fills by so many percent a minute. Each minute, areas of 4 KiB are written: the first ten,
/// and another fifty.
fn hour(growth: f64, is_measured: bool) -> Tape {
    let mut tape = Tape::new(Duration::from_secs(60));
    for minute in 0..63_usize {
        let snapshot = match minute {
            0 | 62 => Snapshot::Absent,
            minute => Snapshot::Filled(growth * minute as f64),
        };
        let reading = tape.tick(snapshot, Done::default(), Done::default());
        if is_measured {
            let first = 10 + 50 * minute;
            let areas = if minute == 0 {
                "first".into()
            } else {
                format!("0-9 {first}-{}", first + 49)
            };
            let text = format!("253:0\t{DATA_DM_UUID}\t0 0+614400 8\n\t{areas}\n");
            let result = ReadResult::Text(text);
            reading.texts.push(PartReading {
                part: Part::Touched,
                result,
                took_us: 10,
            });
        }
    }
    tape.saved()
}

fn played(tape: &Tape) -> Daemon {
    let daemon = Start::playing(tape, "max").start();
    daemon.has_played(tape.readings.len());
    daemon
}

#[test]
fn a_finished_snapshot_tells_the_size_of_the_next_one() {
    let tape = hour(0.5, false);
    let daemon = played(&tape);
    let advice = daemon.json("/api/v1/volumes/vg0/data/size");
    let usual = &advice["rows"][0];
    let peak = usual["largest_bytes"].as_f64().unwrap() / MIB;
    assert!(
        (peak - 19.4).abs() < 0.5,
        "30.5 % of 63.5 MiB, but found {peak}: {advice}"
    );
    assert_eq!(advice["suggested_bytes"], COW_BYTES, "one run: no less");
    assert_eq!(advice["planned"]["risk"], "low");
    assert_eq!(
        advice["curve"].as_array().unwrap().len(),
        11,
        "ten ages up to an hour, and the usual one"
    );

    let page = daemon.get("/volumes/vg0/data").body;
    assert!(
        page.contains("A smaller size needs 5 good backups"),
        "{page}"
    );
    assert!(
        page.contains("aria-label=\"What a snapshot needs, by its age\""),
        "{page}"
    );
    let text = said(cowbell().args([
        "size",
        "vg0/data",
        "--listen",
        &format!("127.0.0.1:{}", daemon.port),
    ]))
    .out;
    assert!(
        text.contains("63.5 MiB, as the last one had, is enough") && text.contains("(usual)"),
        "{text}"
    );
}

#[test]
fn a_size_that_was_exceeded_by_what_is_planned_is_a_warning() {
    let tape = hour(0.5, false);
    let daemon = played(&tape);
    let planned = |bytes: u64| {
        daemon.json(&format!("/api/v1/volumes/vg0/data/size?planned={bytes}"))["planned"].clone()
    };
    assert_eq!(planned(16 << 20)["risk"], "likely");
    assert!(
        planned(16 << 20)["text"]
            .as_str()
            .unwrap()
            .ends_with("Use 63.5 MiB.")
    );
    assert_eq!(planned(32 << 20)["risk"], "low");
}

/// Only root can read the file, so what it says about the next snapshot is in the readings.
#[test]
fn the_size_that_mylvmbackup_will_use_is_the_planned_one() {
    let planned = |lv: &str| {
        let mut tape = hour(0.5, false);
        let result = ReadResult::Text(format!("[lvm]\nvgname=vg0\nlvname={lv}\nlvsize=16M\n"));
        tape.readings[3].texts.push(PartReading {
            part: Part::BackupPlan,
            result,
            took_us: 10,
        });
        let tape = tape.saved();
        let daemon = played(&tape);
        let page = daemon.get("/volumes/vg0/data").body;
        (
            daemon.json("/api/v1/volumes/vg0/data/size")["planned"].clone(),
            page,
        )
    };
    let (of_data, page) = planned("data");
    assert_eq!(
        (&of_data["risk"], &of_data["bytes"]),
        (&"likely".into(), &(16 << 20).into())
    );
    assert!(
        page.contains("16.0 MiB, as mylvmbackup.conf says, is less than was needed"),
        "{page}"
    );
    assert_eq!(
        planned("other").0["risk"],
        "low",
        "it is as large as the last one was"
    );
}

#[test]
fn the_growth_of_a_snapshot_that_exists_is_drawn_over_the_curve() {
    let mut tape = hour(0.5, true);
    let legend = "and the growth of the one that exists.";
    let page = |tape: &Tape| played(tape).get("/volumes/vg0/data").body;
    assert!(!page(&tape).contains(legend), "it has ended");
    tape.readings.truncate(45);
    let mut tape = tape.saved();
    let chart = |page: String| {
        let (_, svg) = page
            .split_once("aria-label=\"What a snapshot needs, by its age\"")
            .unwrap();
        svg.split_once("</svg>").unwrap().0.to_string()
    };
    let before = page(&tape);
    assert!(before.contains(legend));
    // The clock is set in the meantime: the snapshot is as old.
    tape.readings[30..]
        .iter_mut()
        .for_each(|reading| reading.at += Duration::from_secs(7200));
    assert_eq!(chart(page(&tape.saved())), chart(before));
}

/// The snapshot exists for an hour and a minute.
#[test]
fn a_clock_that_is_set_makes_no_backup_longer() {
    // At last in the tick in which it is gone.
    for tick in [30, 62] {
        let mut tape = hour(0.5, false);
        tape.readings[tick..]
            .iter_mut()
            .for_each(|reading| reading.at += Duration::from_secs(7200));
        let tape = tape.saved();
        let daemon = played(&tape);
        assert_eq!(
            daemon.json("/api/v1/volumes/vg0/data/size")["usual_s"],
            3660.0,
            "set at tick {tick}"
        );
    }
}

/// The page of the job suggests what the page of its origin does.
#[test]
fn a_job_and_its_origin_have_one_size() {
    // The peak was 8 MiB, and 12.2 were measured.
    let tape = hour(0.2, true);
    let daemon = played(&tape);
    let size = daemon.json("/api/v1/volumes/vg0/data/size")["suggested_bytes"].clone();
    let id = daemon.json("/api/v1/jobs")[0]["id"].as_i64().unwrap();
    let job = daemon.json(&format!("/api/v1/jobs/{id}/figures"));
    assert_eq!(
        (&size, &job["sizing"]["suggested_bytes"]),
        (&COW_BYTES.into(), &size),
        "{job}"
    );
}

/// 50 new areas a minute and 10 old ones: 3,010 areas in an hour, which lie in 189 or 190 chunks of 64 KiB. A header and
/// the exceptions take one chunk each.
#[test]
fn measured_areas_tell_other_chunk_sizes() {
    let tape = hour(0.5, true);
    let daemon = played(&tape);
    let advice = daemon.json("/api/v1/volumes/vg0/data/size");
    let of = |chunk: u64| {
        let rows = advice["rows"].as_array().unwrap().iter();
        let row = rows
            .clone()
            .find(|row| row["age_s"] == 3600.0 && row["chunk_bytes"] == chunk);
        row.unwrap_or_else(|| panic!("no row of {chunk} in {advice}"))["largest_bytes"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(of(65536), (1 + 190 + 1) * 65536);
    assert!(
        advice["basis"]
            .as_str()
            .unwrap()
            .contains("writes are measured since 2026-03-01 02:00 UTC"),
        "{advice}"
    );
    let stored = crate::daemon::ask_database(&daemon.db, "SELECT count(*) FROM size_curve");
    assert_eq!(stored, 1, "an hour has passed");
}

#[test]
fn of_what_is_no_origin_or_unknown_a_sentence_says_so() {
    let tape = hour(0.5, false);
    let daemon = played(&tape);
    for (address, expected) in [
        (
            "/api/v1/volumes/vg0/nope/size",
            "there is no volume vg0/nope; `lvs` lists all volumes",
        ),
        ("/api/v1/volumes/vg0/data/size?planned=x", "planned"),
    ] {
        let answer = daemon.get(address);
        assert!(
            (400..500).contains(&answer.status) && answer.body.contains(expected),
            "{answer:?}"
        );
    }
    let tape = Tape::of(Duration::from_secs(1), &[Snapshot::Absent; 3]);
    let daemon = played(&tape);
    let answer = daemon.get("/api/v1/volumes/vg0/data/size");
    assert!(
        answer
            .body
            .contains("nothing is known of snapshots of vg0/data: wait until one has ended"),
        "{answer:?}"
    );
}
