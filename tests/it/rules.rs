//! Rules of alerts in the whole program: forecasts, settings for some volumes, and cowbell itself.

use std::path::Path;
use std::time::Duration;

use cowbell::source::{Part, PartReading, ReadResult};
use serde_json::Value;

use crate::daemon::{Daemon, Said, Start, cowbell, said};
use crate::machine::{Done, Machine};
use crate::tape::{Snapshot, Tape, fails};
use crate::wait_for;

const MOUNTS: &str = "36 35 253:3 / /mnt/snap ro shared:1 - xfs /dev/mapper/vg0-data_snapshot ro\n";

/// A backup that reads 2 MB a second of 4 GB, while its snapshot fills by 0.2 % a second. At the end, the device-mapper
/// does not answer.
fn night() -> Tape {
    let mut tape = Tape::new(Duration::from_secs(1));
    for tick in 0..310_u32 {
        let read = Done::sectors(u64::from(tick) * 4_000, 0);
        let reading = tape.tick(Snapshot::Filled(10.0 + 0.2 * f64::from(tick)), read, read);
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
            add(Part::Usage, "253:3\t/mnt/snap\t4001000\t1000\t1000\n");
        }
        if tick >= 240 {
            fails(reading, Part::Dm);
        }
    }
    tape.saved()
}

fn open(daemon: &Daemon, rule: &str) -> Value {
    let alerts = daemon.json("/api/v1/alerts");
    let is_it = |alert: &&Value| alert["rule"] == rule && alert["cleared_at"].is_null();
    alerts
        .as_array()
        .unwrap()
        .iter()
        .find(is_it)
        .cloned()
        .unwrap_or_default()
}

fn status(daemon: &Daemon) -> Said {
    said(cowbell().args(["status", "--listen", &format!("127.0.0.1:{}", daemon.port)]))
}

#[test]
fn an_overflow_is_foreseen_and_what_cannot_be_read_is_said() {
    let tape = night();
    let config = "[alerts]\n[[alerts.for]]\nlv = \"vg0/data_*\"\nsnapshot_fill = { warning = 50, critical = 55 }\n";
    let daemon = Start::playing(&tape, "max").config(config).start();
    daemon.has_played(310);
    // The fill of the last tick with the device-mapper.
    let head = "Snapshot vg0/data_snapshot is 57.80 % full";
    for (rule, parts) in [
        (
            "snapshot_fill",
            [head, " (critical from 55 %) and will overflow in "],
        ),
        ("time_until_full", [head, " full and will overflow in "]),
        (
            "full_before_done",
            [
                head,
                ". The backup needs about 29 min more and will be lost. Run `lvextend -L +",
            ],
        ),
    ] {
        let alert = open(&daemon, rule);
        assert_eq!(
            (&alert["severity"], &alert["job"]),
            (&"critical".into(), &1.into()),
            "{rule}: {alert}"
        );
        for part in parts {
            assert!(
                alert["sentence"].as_str().unwrap().contains(part),
                "expected {part:?} in {alert}"
            );
        }
    }
    assert_eq!(open(&daemon, "snapshot_fill")["peak"], 57.8);
    let unread = open(&daemon, "part_failed");
    assert_eq!(
        (&unread["vg"], &unread["lv"], &unread["severity"]),
        (&"".into(), &"".into(), &"warning".into())
    );
    let sentence = "warning: The status of the device-mapper cannot be read for ";
    let found = status(&daemon);
    assert!(
        found.code == Some(2) && found.out.contains(sentence),
        "{found:?}"
    );
}

#[test]
fn a_database_that_is_not_written_is_a_warning() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine)
        .db(Path::new("/proc/cowbell.db"))
        .config("[alerts]\nstore_failed = \"1s\"\n")
        .start();
    let alert = wait_for("the alert", || {
        Some(open(&daemon, "store_failed")).filter(|alert| !alert.is_null())
    });
    let found = status(&daemon);
    assert!(
        found.code == Some(1)
            && found
                .out
                .contains("cowbell has not written its database for "),
        "{found:?}"
    );
    assert!(
        daemon
            .get("/alerts")
            .body
            .contains("cowbell has not written"),
        "{alert}"
    );
    let alert_list = said(cowbell().args([
        "alert",
        "list",
        "--listen",
        &format!("127.0.0.1:{}", daemon.port),
    ]));
    assert!(alert_list.out.contains("store failed"), "{alert_list:?}");
}

#[test]
fn settings_that_cannot_be_used_are_refused_by_check_and_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let path = file.to_str().unwrap();
    for (text, parts) in [
        (
            "[alerts]\nsnapshot_age = \"3\"\n",
            ["line 2", "expected a duration such as \"30m\""],
        ),
        (
            "[alerts]\n[[alerts.for]]\nlv = \"mysql\"\n",
            ["line 3", "expected a pattern of volumes such as"],
        ),
        (
            "[alerts]\n[[alerts.for]]\nlv = \"vg0/*\"\npool_data = { warning = 9, critical = 8 }\n",
            [
                "line 4",
                "expected percentages with 0 < clear < warning < critical <= 100",
            ],
        ),
        (
            "[alerts]\npool_state = \"no\"\n",
            ["line 2", "expected \"on\" or \"off\", but found \"no\""],
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        for command in ["check", "serve"] {
            let found = said(cowbell().args([command, "--config", path]));
            assert_ne!(found.code, Some(0), "{found:?}");
            for part in [path, parts[0], parts[1]] {
                assert!(
                    format!("{}{}", found.out, found.err).contains(part),
                    "expected {part:?} in {found:?}"
                );
            }
        }
    }
}
