//! A job goes from one host to another as a file: exported by one program, imported by another, and refused where it is
//! not whole.

use std::time::Duration;

use serde_json::Value;

use crate::daemon::{Daemon, Said, Start, block_on, change_database, cowbell, kept_ticks, said};
use crate::http::{self, Answer};
use crate::machine::{Done, Machine};
use crate::tape::{Snapshot, Tape};

/// Sectors of a MiB.
const MIB: u64 = 2048;

/// A host on which a snapshot was read for forty seconds.
fn twin() -> (Tape, Daemon) {
    let mut tape = Tape::new(Duration::from_secs(1));
    let (absent, idle) = (Snapshot::Absent, Done::default());
    for _ in 0..10 {
        tape.tick(absent, idle, idle);
    }
    for second in 0..40_u32 {
        let read = Done::sectors(u64::from(second) * 8 * MIB, 0);
        tape.tick(Snapshot::Filled(f64::from(second) / 4.0), read, read);
    }
    for _ in 0..60 {
        tape.tick(absent, Done::sectors(40 * 8 * MIB, 0), idle);
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(110);
    (tape, daemon)
}

fn job(daemon: &Daemon, arguments: &[&str]) -> Said {
    let listen = format!("127.0.0.1:{}", daemon.port);
    said(
        cowbell()
            .arg("job")
            .args(arguments)
            .args(["--listen", &listen]),
    )
}

fn import(daemon: &Daemon, body: &str) -> Answer {
    let host = format!("127.0.0.1:{}", daemon.port);
    let head = format!(
        "POST /api/v1/jobs/import HTTP/1.1\r\nConnection: close\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    http::command(daemon.port, (head + body).as_bytes()).unwrap()
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected {part:?} in {text}");
    }
}

#[test]
fn a_job_of_another_host_has_the_same_figures_here() {
    let (_tape, twin) = twin();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("night.json");
    let path = file.to_str().unwrap();
    let exported = job(&twin, &["export", "1", "-o", path]);
    assert_eq!(
        (exported.code, &*exported.err),
        (Some(0), ""),
        "{exported:?}"
    );

    let machine = Machine::new();
    let here = Start::watching(&machine).start();
    let imported = job(&here, &["import", path]);
    assert_eq!(
        (imported.code, &*imported.err),
        (Some(0), ""),
        "{imported:?}"
    );
    assert_eq!(imported.out, "data_snapshot of lab is job 1\n");
    assert_eq!(
        job(&here, &["import", path]).out,
        "data_snapshot of lab exists already as job 1\n"
    );

    let (there, now) = (
        twin.json("/api/v1/jobs/1/figures"),
        here.json("/api/v1/jobs/1/figures"),
    );
    for place in [
        "/figures/read/bytes",
        "/figures/fill/peak_percent",
        "/figures/seconds",
        "/setup/kind",
    ] {
        assert_eq!(now.pointer(place), there.pointer(place), "{place}");
    }
    assert_eq!(now["diagnosis"], there["diagnosis"]);
    let list = here.json("/api/v1/jobs");
    assert_eq!(
        (&list[0]["imported_from"], &list[0]["outcome"]),
        (&"lab".into(), &"unknown".into())
    );
    has(
        &here.get("/jobs?from=2026-01-01T00:00:00Z").body,
        &["data_snapshot", "on lab"],
    );
    has(
        &here.get("/jobs/1").body,
        &["From lab", "Read from the snapshot", ">Cost</h2>"],
    );
    has(
        &job(&here, &["list", "--from", "2026-01-01T00:00:00Z"]).out,
        &["vg0/data on lab"],
    );
    let again = folder.path().join("again.json");
    job(&here, &["export", "1", "-o", again.to_str().unwrap()]);
    assert_eq!(
        std::fs::read_to_string(&again).unwrap(),
        std::fs::read_to_string(&file).unwrap()
    );
}

#[test]
fn an_imported_job_is_compared_with_others_and_forgotten_with_its_file() {
    let (_tape, twin) = twin();
    let text = twin.get("/api/v1/jobs/1/export").body;
    let other = text
        .replace("\"name\":\"data_snapshot\"", "\"name\":\"zfs\"")
        .replace("\"host\":\"lab\"", "\"host\":\"lab2\"");
    let machine = Machine::new();
    let here = Start::watching(&machine).start();
    assert_eq!(
        (import(&here, &text).status, import(&here, &other).status),
        (201, 201)
    );
    let body = here.json("/api/v1/jobs/compare?ids=1,2");
    assert_eq!(body["comparison"]["other_differences"][0]["fact"], "host");
    assert_eq!(
        body["comparison"]["rows"][0]["cells"][1]["ratio"]["ratio"],
        1.0
    );
    assert_eq!(job(&here, &["delete", "1"]).code, Some(0));
    crate::wait_for("the job to be gone", || {
        (here.get("/api/v1/jobs/1").status != 200).then_some(())
    });
    crate::wait_for("its file to be gone", || {
        (crate::daemon::ask_database(&here.db, "SELECT count(*) FROM imported") == 1).then_some(())
    });
}

#[test]
fn what_cannot_be_imported_is_refused_in_a_sentence_and_nothing_is_kept() {
    let (_tape, twin) = twin();
    let text = twin.get("/api/v1/jobs/1/export").body;
    let machine = Machine::new();
    let here = Start::watching(&machine).start();
    let long = "x".repeat(10_000);
    for (body, part) in [
        (text[..text.len() / 2].to_string(), "the file is truncated"),
        ("{\"rows\": []}".into(), "this is not the file of a job"),
        (
            text.replacen("\"cowbell_job\":1", "\"cowbell_job\":7", 1),
            "has version 7",
        ),
        (
            text.replacen("\"read\":[", "\"read\":[1,", 1),
            "does not fit together",
        ),
        (
            text.replacen("\"ticks\":[", "\"ticks\":[[1,-1],", 1),
            "cannot be understood",
        ),
        (
            text.replacen(
                "\"name\":\"data_snapshot\"",
                &format!("\"name\":\"{long}\""),
                1,
            ),
            "1 to 200 letters",
        ),
        (
            text.replacen("\"name\":\"data_snapshot\"", "\"name\":\"\\u001b[2J\"", 1),
            "control characters",
        ),
    ] {
        let refused = import(&here, &body);
        assert_eq!(refused.status, 400, "{part}: {refused:?}");
        has(&refused.sentence(), &[part]);
    }
    let endless = job(&here, &["import", "/dev/zero"]);
    has(&endless.err, &["/dev/zero is not a regular file"]);
    assert_eq!(here.json("/api/v1/jobs"), Value::Array(Vec::new()));
    let foreign = http::send(
        here.port,
        format!(
            "POST /api/v1/jobs/import HTTP/1.1\r\nConnection: close\r\nHost: evil.example\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )
        .as_bytes(),
    );
    assert_eq!(foreign.unwrap().status, 403);
    assert_eq!(
        import(&twin, &text).status,
        409,
        "a recording's jobs cannot be changed"
    );
}

/// Jobs and imported files have a quarter of `size`. What fills it here is a file of nine megabytes.
#[test]
fn jobs_beyond_their_part_of_the_size_are_refused_and_no_tick_goes_for_them() {
    let (_tape, twin) = twin();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("night.json");
    let path = file.to_str().unwrap();
    assert_eq!(job(&twin, &["export", "1", "-o", path]).code, Some(0));
    let machine = Machine::new();
    let mut here = Start::watching(&machine).start();
    assert_eq!(job(&here, &["start", "before"]).code, Some(0));
    let ticks = kept_ticks(&here.db).len();
    here.stop(rustix::process::Signal::TERM);
    for statement in [
        "INSERT INTO job_record (id, key, started_ms, body, checksum) VALUES (99, 'imported:x', 0, '{}', 0)",
        "INSERT INTO imported VALUES ('imported:x', zeroblob(9000000))",
    ] {
        change_database(&here.db, statement);
    }
    let here = Start::watching(&machine)
        .db(&here.db)
        .config("[store]\nsize = \"32MiB\"")
        .start();
    for refused in [job(&here, &["import", path]), job(&here, &["start", "new"])] {
        assert_eq!(refused.code, Some(1), "{refused:?}");
        has(
            &refused.err,
            &["a quarter of `size` in [store]", "delete some"],
        );
    }
    assert_eq!(
        import(&here, &std::fs::read_to_string(path).unwrap()).status,
        507
    );
    assert_eq!(
        job(&here, &["stop", "before"]).code,
        Some(0),
        "a job that is stored already may end"
    );
    let stored = block_on(cowbell::store::inventory(&here.db))
        .unwrap()
        .ticks
        .len();
    assert!(stored > ticks, "{stored}");
}
