//! What is recorded is what is played: a user's recording is a bug report.

use std::io::Read;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::{Daemon, Start, cowbell, said};
use crate::machine::{Done, Machine, line};
use crate::wait_for;

fn play(file: &std::path::Path) -> Daemon {
    Start::with(&[
        "serve",
        "--replay",
        file.to_str().unwrap(),
        "--speed",
        "max",
    ])
    .start()
}

fn names(daemon: &Daemon) -> Vec<(String, String, String)> {
    let text = |device: &Value, key: &str| device[key].as_str().unwrap().to_string();
    let devices = daemon.json("/api/v1/devices");
    let devices = devices.as_array().unwrap().iter();
    devices
        .map(|device| {
            (
                text(device, "device"),
                text(device, "uuid"),
                text(device, "kind"),
            )
        })
        .collect()
}

#[test]
fn a_recording_shows_the_devices_that_the_machine_had() {
    let machine = Machine::new();
    machine.write("sys/class/block/sda/serial", "S3CR1AL\n");
    let file = machine.root().join("it.cowbell");
    let recorded = said(
        cowbell()
            .arg("record")
            .arg(&file)
            .args(["--for", "2s", "--root"])
            .arg(machine.root()),
    );
    assert_eq!(
        (recorded.code, &*recorded.out),
        (Some(0), ""),
        "{recorded:?}"
    );
    let live = Start::watching(&machine).start();
    let played = play(&file);
    wait_for("some ticks", || (played.taken() >= 2).then_some(()));
    assert_eq!(names(&played), names(&live));
    assert_eq!(
        names(&played)[0],
        ("sda".into(), "S3CR1AL".into(), "disk".into())
    );
    assert_eq!(played.json("/api/v1/status")["ticks"]["interval_ms"], 1000);
}

#[test]
fn a_recording_is_compressed_lines_of_json_with_a_header() {
    let machine = Machine::new();
    let file = machine.root().join("it.cowbell");
    said(
        cowbell()
            .arg("record")
            .arg(&file)
            .args(["--interval", "100ms", "--for", "1s", "--root"])
            .arg(machine.root()),
    );
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(&file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for key in [
        "host",
        "kernel",
        "cowbell",
        "version",
        "interval_ms",
        "started_at",
    ] {
        assert!(
            lines[0].get(key).is_some_and(|value| !value.is_null()),
            "no `{key}` in {}",
            lines[0]
        );
    }
    assert!(lines.len() > 2);
    let verbatim = std::fs::read_to_string(machine.root().join("proc/diskstats")).unwrap();
    assert!(
        lines[1]["texts"]
            .as_array()
            .unwrap()
            .iter()
            .any(|said| said["text"] == verbatim.as_str()),
        "{}",
        lines[1]
    );
}

#[test]
fn a_recording_that_is_interrupted_is_whole() {
    for signal in [Signal::INT, Signal::TERM] {
        let machine = Machine::new();
        let file = machine.root().join("it.cowbell");
        let mut child = cowbell()
            .arg("record")
            .arg(&file)
            .args(["--interval", "100ms", "--root"])
            .arg(machine.root())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("something in the file", || {
            std::fs::metadata(&file)
                .ok()
                .filter(|file| file.len() > 500)
        });
        machine.write(
            "proc/diskstats",
            &line((8, 0), "sda", Done::sectors(80_000, 0)),
        );
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(
            wait_for("its end", || child.try_wait().unwrap()).code(),
            Some(0)
        );
        let daemon = play(&file);
        wait_for("its last tick", || (daemon.taken() >= 10).then_some(()));
        assert!(!daemon.log().contains("ends early"), "{}", daemon.log());
    }
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let machine = Machine::new();
    let file = machine.root().join("proc/vmstat");
    let before = std::fs::read(&file).unwrap();
    let refused = said(
        cowbell()
            .arg("record")
            .arg(&file)
            .args(["--for", "1s", "--root"])
            .arg(machine.root()),
    );
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("proc/vmstat"), "{refused:?}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn the_demonstration_shows_a_snapshot_and_a_job() {
    let daemon = Start::with(&["demo", "--speed", "max"]).start();
    wait_for("the demonstration's job", || {
        let jobs = daemon.json("/api/v1/jobs");
        jobs.as_array()
            .unwrap()
            .iter()
            .any(|job| job["kind"] == "snapshot" && job["peak_fill_percent"].is_number())
            .then_some(())
    });
    wait_for("an alert", || {
        (!daemon.json("/api/v1/alerts").as_array().unwrap().is_empty()).then_some(())
    });
}
