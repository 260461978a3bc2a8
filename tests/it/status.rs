//! What people and machines ask at 3 a.m.: `cowbell status`, `cowbell check`, `/healthz`.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use crate::daemon::{Said, Start, cowbell, free_port, said};
use crate::machine::Machine;
use crate::tape::{Snapshot, Tape};
use crate::{http, wait_for};

fn status(port: u16) -> Said {
    said(cowbell().args(["status", "--listen", &format!("127.0.0.1:{port}")]))
}

/// `cowbell status` of a host whose snapshot is like that: its exit status, and what the text says.
fn check(snapshot: Snapshot, code: i32, parts: &[&str]) {
    let tape = Tape::of(Duration::from_secs(1), &[snapshot; 3]);
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(3);
    let found = status(daemon.port);
    assert_eq!((found.code, &*found.err), (Some(code), ""), "{found:?}");
    for part in parts {
        assert!(
            found.out.contains(part),
            "expected {part:?} in {}",
            found.out
        );
    }
    let first = found.out.lines().next().unwrap();
    assert!(
        first.contains(" | ") && first.matches('|').count() == 1,
        "a plugin's line with performance: {first}"
    );
}

#[test]
fn fills_jobs_and_alerts_are_printed_with_the_exit_status_of_a_plugin() {
    check(Snapshot::Absent, 0, &["COWBELL OK - ", "jobs=0 alerts=0"]);
    check(
        Snapshot::Filled(10.07),
        0,
        &[
            "COWBELL OK - ",
            "'vg0/data_snapshot'=10.07%;70;85;0;100",
            "snapshot vg0/data_snapshot of data: 10.07 %",
            "job data_snapshot",
        ],
    );
    check(
        Snapshot::Filled(75.0),
        1,
        &[
            "COWBELL WARNING - ",
            "vg0/data_snapshot is 75.00 % full",
            "lvextend",
        ],
    );
    check(
        Snapshot::Filled(90.0),
        2,
        &["COWBELL CRITICAL - ", "90.00 %"],
    );
    check(
        Snapshot::Invalid,
        2,
        &["COWBELL CRITICAL - ", "INVALID", "invalid"],
    );
}

#[test]
fn an_acknowledged_alert_is_marked_and_json_has_all() {
    let tape = Tape::of(Duration::from_secs(1), &[Snapshot::Filled(90.0); 3]);
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(3);
    let listen = format!("127.0.0.1:{}", daemon.port);
    for alert in daemon.json("/api/v1/alerts").as_array().unwrap() {
        let id = alert["id"].to_string();
        let mut acknowledge = cowbell();
        acknowledge.args(["alert", "acknowledge", &id, "--listen", &listen]);
        assert_eq!(said(&mut acknowledge).code, Some(0));
    }
    let text = status(daemon.port).out;
    assert!(
        text.contains("\ncritical, acknowledged: Snapshot vg0/data_snapshot "),
        "{text}"
    );
    let found = said(cowbell().args(["status", "--json", "--listen", &listen]));
    let state: serde_json::Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(
        (found.code, &state["status"]["grade"]),
        (Some(2), &"critical".into())
    );
    let thresholds = serde_json::json!({"warning": 70.0, "critical": 85.0});
    assert_eq!(state["volumes"][0]["thresholds"], thresholds, "{state}");
}

#[test]
fn watch_needs_a_terminal_and_redraws_what_status_prints() {
    let tape = Tape::of(Duration::from_secs(1), &[Snapshot::Filled(10.0); 3]);
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(3);
    let listen = format!("127.0.0.1:{}", daemon.port);
    let found = said(cowbell().args(["watch", "--listen", &listen]));
    assert_eq!(found.code, Some(1));
    assert!(found.err.contains("needs a terminal"), "{found:?}");
    let program = cowbell();
    let variables = program.get_envs();
    let variables: Vec<_> = variables
        .filter_map(|(key, value)| Some((key, value?)))
        .collect();
    let name = program.get_program().to_str().unwrap();
    let command = format!("stty rows 4; exec timeout -s INT 2 {name} watch --listen {listen}");
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).envs(variables);
    let found = said(&mut script);
    let screens: Vec<&str> = found.out.split("\u{1b}[H").skip(1).collect();
    assert!(screens.len() >= 2, "{found:?}");
    for screen in screens {
        assert!(screen.starts_with("COWBELL OK - "), "{screen:?}");
        assert!(
            screen.lines().count() <= 4 && !screen.contains(" | "),
            "{screen:?}"
        );
    }
}

#[test]
fn without_a_daemon_the_status_is_unknown() {
    let port = free_port();
    let found = status(port);
    assert_eq!(found.code, Some(3), "{found:?}");
    assert!(
        found.out.starts_with("COWBELL UNKNOWN - ") && found.out.contains(&port.to_string()),
        "{found:?}"
    );
}

#[test]
fn a_daemon_that_does_not_answer_is_unknown_and_not_waited_for() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    kill_process(daemon.pid(), Signal::STOP).unwrap();
    let found = status(daemon.port);
    kill_process(daemon.pid(), Signal::CONT).unwrap();
    assert_eq!(found.code, Some(3), "{found:?}");
}

#[test]
fn healthz_is_well_while_ticks_come() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    assert_eq!(daemon.get("/healthz").status, 200);
}

#[test]
fn healthz_says_why_when_ticks_are_late() {
    // The recording goes on in an hour only, by its own time.
    let mut tape = Tape::new(Duration::from_millis(100));
    for _ in 0..3 {
        tape.tick(Snapshot::Absent, Default::default(), Default::default());
    }
    let last = tape.readings.last_mut().unwrap();
    last.uptime_us += 3_600_000_000;
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "1").start();
    let late = wait_for("a late tick", || {
        Some(daemon.get("/healthz")).filter(|answer| answer.status != 200)
    });
    assert_eq!(late.status, 503);
    assert!(late.body.contains("ago"), "{late:?}");
    let found = status(daemon.port);
    assert_eq!(
        found.code,
        Some(3),
        "figures that are old are unknown: {found:?}"
    );
}

#[test]
fn healthz_is_503_before_the_first_tick() {
    let mut tape = Tape::new(Duration::from_secs(1));
    tape.tick(Snapshot::Absent, Default::default(), Default::default());
    // A mark alone is no tick.
    tape.readings[0].texts.clear();
    let tape = tape.saved();
    let port = free_port();
    let mut child = cowbell()
        .args([
            "serve",
            "--speed",
            "max",
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--replay",
        ])
        .arg(tape.path())
        .spawn()
        .unwrap();
    let answer = wait_for("an answer", || http::try_get(port, "/healthz").ok());
    let listed = http::get(port, "/api/v1/devices");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        (answer.status, listed.status),
        (503, 503),
        "{answer:?} {listed:?}"
    );
}

fn check_here(machine: &Machine, arguments: &[&str]) -> Said {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("cowbell.db");
    let found = said(
        cowbell()
            .arg("check")
            .arg("--root")
            .arg(machine.root())
            .arg("--db")
            .arg(&db)
            .args(arguments),
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "it leaves nothing behind"
    );
    found
}

#[test]
fn check_tells_of_each_thing_and_ends_well_where_serve_would_work() {
    let machine = Machine::new();
    let free = format!("127.0.0.1:{}", free_port());
    let found = check_here(&machine, &["--listen", &free]);
    assert_eq!((found.code, &*found.err), (Some(0), ""), "{found:?}");
    for part in [
        "/proc/diskstats",
        "/proc/vmstat",
        "/proc/pressure/io",
        "device-mapper",
        "LVM",
        "cowbell.db",
        "the database is on",
        &free,
    ] {
        assert!(
            found.out.contains(part),
            "expected {part:?} in {}",
            found.out
        );
    }
    fs::remove_file(machine.root().join("proc/pressure/io")).unwrap();
    let found = check_here(&machine, &["--listen", &free]);
    assert_eq!(
        found.code,
        Some(0),
        "without pressure all else works: {found:?}"
    );
    assert!(
        found
            .out
            .lines()
            .any(|line| line.starts_with("missing") && line.contains("psi=1")),
        "{}",
        found.out
    );
}

#[test]
fn check_tells_of_tonights_backup_below_the_root_and_fails_for_none_of_it() {
    let machine = Machine::new();
    let free = format!("127.0.0.1:{}", free_port());
    let found = check_here(&machine, &["--listen", &free]);
    assert!(
        !found.out.contains("mylvmbackup"),
        "there is none: {}",
        found.out
    );
    machine.write(
        "etc/mylvmbackup.conf",
        "[mysql]\npassword=geheim\nmycnf=/geheim/my.cnf\n[fs]\nbackupdir=/srv/backup\n[tools]\ntar=/opt/tar\n",
    );
    machine.write("srv/backup/backup-1_mysql.tar.gz", "archive");
    let found = check_here(&machine, &["--listen", &free]);
    assert_eq!(found.code, Some(0), "{found:?}");
    for part in [
        "mylvmbackup is not in root's PATH",
        "`tar`: \"/opt/tar\" does not exist",
        "`mountdir` \"/var/cache/mylvmbackup/mnt\" does not exist",
        "`backupdir` \"/srv/backup\" has ",
        "the largest of the last 1 backups has 7 B",
        "the file that `mycnf` names does not exist",
    ] {
        assert!(
            found.out.contains(part),
            "expected {part:?} in {}",
            found.out
        );
    }
    assert!(!found.out.contains("geheim"), "{}", found.out);
}

#[test]
fn check_fails_where_serve_would() {
    let machine = Machine::new();
    let somebody = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = somebody.local_addr().unwrap().to_string();
    let free = format!("127.0.0.1:{}", free_port());
    for (found, part) in [
        (check_here(&machine, &["--listen", &taken]), &*taken),
        (
            said(cowbell().args([
                "check",
                "--listen",
                &free,
                "--db",
                "/proc/nowhere/cowbell.db",
            ])),
            "/proc/nowhere",
        ),
        (
            said(cowbell().args(["check", "--listen", &free, "--db", "/etc/passwd"])),
            "/etc/passwd",
        ),
    ] {
        assert_eq!(found.code, Some(1), "{found:?}");
        assert!(
            found
                .out
                .lines()
                .any(|line| line.starts_with("FAILS") && line.contains(part)),
            "{found:?}"
        );
    }
}

#[test]
fn check_knows_a_cowbell_that_runs_already() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let address = format!("127.0.0.1:{}", daemon.port);
    let found = check_here(&machine, &["--listen", &address]);
    assert!(
        found
            .out
            .lines()
            .any(|line| line.contains("cowbell already runs") && line.contains(&address)),
        "{found:?}"
    );
}
