//! What is said is what was seen, and the same on pages, in the API, by commands, in alerts and in the log.

use std::time::Duration;

use cowbell::source::{Part, PartReading, ReadResult};

use crate::daemon::{Daemon, Start, cowbell, said};
use crate::machine::Done;
use crate::tape::{Snapshot, Tape};

/// The snapshot is mounted, and its origin is not.
const MOUNTS: &str = "36 35 253:3 / /mnt/data rw shared:1 - xfs /dev/mapper/vg0-data_snapshot rw\n";

/// A snapshot of which 2 MB are read each second, and so many sectors written; at each tick so full.
fn tape(fills: &[Snapshot], written: u64) -> Tape {
    let mut tape = Tape::new(Duration::from_secs(1));
    for (tick, fill) in (0_u64..).zip(fills) {
        let done = Done::sectors(4_000 * tick, written * tick);
        let reading = tape.tick(*fill, done, done);
        let mut add = |part, text: &str| {
            let result = ReadResult::Text(text.into());
            reading.texts.push(PartReading {
                part,
                result,
                took_us: 10,
            });
        };
        if tick == 3 {
            add(Part::Mounts, MOUNTS);
            add(Part::Usage, "253:3\t/mnt/data\t400100\t100\t1000\n");
        }
    }
    tape.saved()
}

fn filling(ticks: u32, growth: f64) -> Vec<Snapshot> {
    let fill = |tick| Snapshot::Filled(10.0 + growth * f64::from(tick));
    (0..ticks).map(fill).collect()
}

fn playing(tape: &Tape) -> Daemon {
    let daemon = Start::playing(tape, "max").start();
    daemon.has_played(tape.readings.len());
    daemon
}

fn run(daemon: &Daemon, arguments: &[&str]) -> String {
    let address = format!("127.0.0.1:{}", daemon.port);
    said(cowbell().args(arguments).args(["--listen", &address])).out
}

/// Everything that is said, a text for each place.
fn all_places(daemon: &Daemon) -> Vec<(&'static str, String)> {
    let mut places = Vec::new();
    for path in [
        "/",
        "/alerts",
        "/jobs/1",
        "/volumes/vg0/data_snapshot",
        "/api/v1/jobs/1",
        "/api/v1/alerts",
        "/api/v1/status",
    ] {
        places.push((path, daemon.get(path).body));
    }
    for (name, arguments) in [
        ("status", &["status"][..]),
        ("job show", &["job", "show", "1"]),
        ("alert list", &["alert", "list"]),
    ] {
        places.push((name, run(daemon, arguments)));
    }
    places.push(("log", daemon.log()));
    places
}

fn grade_of_page(daemon: &Daemon, path: &str) -> String {
    let page = daemon.get(path).body;
    let (_, rest) = page.split_once("<section class=\"verdict ").unwrap();
    rest.split_once('"').unwrap().0.into()
}

#[test]
fn a_snapshot_in_use_is_no_backup_and_has_no_forecast_of_one() {
    let tape = tape(&filling(121, 0.5), 4_000);
    let daemon = playing(&tape);
    let used = "It is mounted on /mnt/data and written to: it is in use, and is no backup.";
    for (place, text) in all_places(&daemon) {
        for claim in ["backup needs", "Done in", "done first", "is a race"] {
            assert!(!text.contains(claim), "{claim:?} in {place}: {text}");
        }
        let text = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        let names = [
            "/jobs/1",
            "/volumes/vg0/data_snapshot",
            "job show",
            "/alerts",
            "status",
        ];
        assert!(
            !names.contains(&place) || text.contains(used),
            "{place}: {text}"
        );
    }
    let outlook = daemon.json("/api/v1/jobs/1/outlook");
    assert!(outlook.is_null(), "{outlook}");
    let overview = daemon.get("/").body;
    assert!(overview.contains("mounted on /mnt/data, "), "{overview}");
}

#[test]
fn a_backup_that_reads_no_more_has_no_time_until_it_is_done() {
    let mut fills = filling(60, 0.5);
    let still = tape(&fills, 0);
    let reading = playing(&still);
    assert!(run(&reading, &["status"]).contains("The backup needs about"));
    // The counter stands still for the last 15 s.
    fills.extend(filling(15, 0.0).iter().map(|_| Snapshot::Filled(39.5)));
    let mut tape = Tape::new(Duration::from_secs(1));
    for (tick, fill) in (0_u64..).zip(&fills) {
        let done = Done::sectors(4_000 * tick.min(59), 0);
        let texts = &still.readings[(tick as usize).min(59)].texts;
        let reading = tape.tick(*fill, done, done);
        let is_rare = |it: &&PartReading| [Part::Mounts, Part::Usage].contains(&it.part);
        reading.texts.extend(texts.iter().filter(is_rare).cloned());
    }
    let tape = tape.saved();
    let stopped = playing(&tape);
    for (place, text) in all_places(&stopped) {
        for claim in ["backup needs", "done first"] {
            let is_past = ["log", "/alerts", "/api/v1/alerts"].contains(&place);
            assert!(
                is_past || !text.contains(claim),
                "{claim:?} in {place}: {text}"
            );
        }
    }
    let outlook = stopped.json("/api/v1/jobs/1/outlook");
    let text = outlook["text"].as_str().unwrap();
    assert!(text.starts_with("Nothing was read for 15 s. "), "{text}");
}

#[test]
fn an_overflow_has_one_outcome_and_one_peak_everywhere() {
    let mut fills = filling(178, 0.5);
    fills.extend([Snapshot::Invalid; 5]);
    let tape_of_running = tape(&fills, 0);
    let running = playing(&tape_of_running);
    fills.extend([Snapshot::Absent; 5]);
    let tape_of_ended = tape(&fills, 0);
    let ended = playing(&tape_of_ended);
    for daemon in [&running, &ended] {
        for path in ["/volumes/vg0/data", "/"] {
            assert_eq!(grade_of_page(daemon, path), "critical", "{path}");
        }
        let volumes = daemon.get("/volumes").body;
        assert!(volumes.contains("state critical"), "{volumes}");
        assert_eq!(daemon.json("/api/v1/jobs/1")["outcome"], "overflowed");
        assert_eq!(daemon.json("/api/v1/jobs/1")["peak_fill_percent"], 98.5);
        let list = run(daemon, &["job", "list"]);
        assert!(
            list.contains("overflowed") && list.contains("98.50 %"),
            "{list}"
        );
        let show = run(daemon, &["job", "show", "1"]);
        assert!(
            show.contains(": overflowed, at ") && show.contains("98.50 %"),
            "{show}"
        );
        let page = daemon.get("/jobs/1").body;
        assert!(
            page.contains("overflowed") && page.contains("98.50 %"),
            "{page}"
        );
        // As long as the recording, not since it was made.
        let alerts = run(daemon, &["alert", "list"]);
        assert!(!alerts.contains(" d "), "{alerts}");
    }
    assert!(run(&running, &["status"]).contains("(snapshot): overflowed, running for "));
    let log = ended.log();
    assert!(
        log.contains("job 1 `data_snapshot` ended: overflowed"),
        "{log}"
    );
}
