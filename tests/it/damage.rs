//! Whatever happens to the database beside a running daemon, or after its death, nothing is lost without
//! a word.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use cowbell::store::TickOrigin;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::daemon::{
    Daemon, Start, ask_database, block_on, change_database, cowbell, kept_ticks, said,
};
use crate::http;
use crate::machine::Machine;
use crate::ticks::{Tick, disks};
use crate::{wait_at_most, wait_for};

fn put(daemon: &Daemon, key: &str) -> u16 {
    let headers = [("Content-Type", "application/json"), ("Host", "127.0.0.1")];
    let job = json!({"name": key, "started_at": "2026-03-01T02:00:00Z", "ended_at": "2026-03-01T03:00:00Z", "succeeded": true});
    http::put(
        daemon.port,
        &format!("/api/v1/marks/{key}"),
        &headers,
        &job.to_string(),
    )
    .status
}

/// Any program may open the database and close it again. SQLite's locks are the process's, and go when any descriptor of
/// the file is closed in it: the daemon must have opened the file only through SQLite.
#[test]
fn a_reader_may_come_and_go_beside_the_daemon() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    wait_for("ticks", || (daemon.taken() >= 3).then_some(()));
    let (wal, db) = (daemon.db.with_extension("db-wal"), daemon.db.clone());
    for number in 0..3 {
        block_on(async {
            let mut connection = SqliteConnectOptions::new()
                .filename(&db)
                .connect()
                .await
                .unwrap();
            sqlx::query("SELECT count(*) FROM job_record")
                .fetch_one(&mut connection)
                .await
                .unwrap();
            connection.close().await.unwrap();
        });
        assert!(
            wal.exists(),
            "the last one to close deletes the log, and this was not the last"
        );
        assert_eq!(put(&daemon, &format!("job{number}")), 201);
        assert_eq!(daemon.get("/jobs").status, 200);
    }
    daemon.stop(Signal::KILL);
    assert_eq!(ask_database(&db, "SELECT count(*) FROM job"), 3);
}

/// The state directory is removed, moved away, or another one is put in its place.
#[test]
fn a_lost_state_directory_is_reported_and_storing_begins_anew() {
    type Lose = fn(&Path);
    let lose: [(&str, Lose); 3] = [
        ("removed", |folder| fs::remove_dir_all(folder).unwrap()),
        ("moved", |folder| {
            fs::rename(folder, folder.with_extension("moved")).unwrap()
        }),
        ("replaced", |folder| {
            fs::rename(folder, folder.with_extension("moved")).unwrap();
            fs::create_dir(folder).unwrap();
        }),
    ];
    for (what, lose) in lose {
        let (machine, place) = (Machine::new(), tempfile::tempdir().unwrap());
        let folder = place.path().join("state");
        fs::create_dir(&folder).unwrap();
        let mut daemon = Start::watching(&machine)
            .db(&folder.join("cowbell.db"))
            .start();
        wait_for("ticks", || (daemon.taken() >= 5).then_some(()));
        lose(&folder);
        let notes = || daemon.json("/api/v1/status")["store"]["notes"].to_string();
        wait_at_most(
            std::time::Duration::from_secs(15),
            "the loss to be reported",
            || {
                notes()
                    .contains("removed or replaced: storing began anew")
                    .then_some(())
            },
        );
        wait_for("the store to be well", || {
            daemon.part("store")["ok"].as_bool().filter(|ok| *ok)
        });
        assert_eq!(put(&daemon, "after"), 201, "{what}");
        let taken = daemon.taken() as usize;
        daemon.stop(Signal::TERM);
        let kept = kept_ticks(&daemon.db).len();
        assert!(
            kept >= taken,
            "{what}: {kept} of {taken} ticks are stored, with those that memory had"
        );
        assert_eq!(
            ask_database(&daemon.db, "SELECT count(*) FROM job"),
            1,
            "{what}"
        );
    }
}

#[test]
fn damage_of_a_tick_is_reported_by_all_and_costs_no_earlier_one() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    wait_for("ticks", || (daemon.taken() >= 30).then_some(()));
    daemon.commit();
    daemon.stop(Signal::KILL);
    let db = daemon.db.to_str().unwrap();
    let all = kept_ticks(&daemon.db).len();
    assert!(all >= 30, "{all}");
    change_database(
        &daemon.db,
        "UPDATE tick SET record = CAST(record || x'00' AS BLOB) WHERE id = (SELECT max(id) FROM tick)",
    );
    let verified = said(cowbell().args(["db", "verify", "--db", db]));
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(
        verified.err.contains("the tick up to ") && verified.err.contains("cannot be read: "),
        "{verified:?}"
    );
    let copy = format!("{db}.copy");
    let copied = said(cowbell().args(["db", "backup", &copy, "--db", db]));
    assert_eq!(copied.code, Some(1), "{copied:?}");
    let exported = said(cowbell().args(["export", "--db", db, "--of", "vm"]));
    assert_eq!(exported.code, Some(1), "{exported:?}");
    assert!(
        exported.err.contains("1 stored row is damaged and missing"),
        "{exported:?}"
    );
    assert_eq!(
        exported.out.lines().count() - 1,
        all - 1,
        "one tick is lost"
    );
}

/// People rely on what a job's row says of their backup.
#[test]
fn a_damaged_row_of_a_job_is_refused_and_no_other() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    for key in ["good", "bad", "fine"] {
        assert_eq!(put(&daemon, key), 201);
    }
    daemon.stop(Signal::TERM);
    let db = daemon.db.clone();
    change_database(
        &db,
        "UPDATE job_record SET body = replace(body, 'succeeded', 'cucceeded') WHERE key LIKE '%bad'",
    );
    let daemon = Start::watching(&machine).db(&db).start();
    let names = || {
        let jobs = daemon.json("/api/v1/jobs?from=2026-03-01T00:00:00Z");
        let jobs = jobs
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["name"].as_str().unwrap().to_string());
        let mut names: Vec<String> = jobs.collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["fine", "good"]);
    assert!(
        daemon.log().contains("the row of job 2 is damaged"),
        "{}",
        daemon.log()
    );
    drop(daemon);
    let verified = said(cowbell().args(["db", "verify", "--db", db.to_str().unwrap()]));
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(
        verified.err.contains("the row of job 2 is damaged"),
        "{verified:?}"
    );
}

#[test]
fn a_limit_on_the_size_of_files_does_not_end_the_watching() {
    let (machine, folder) = (Machine::new(), tempfile::tempdir().unwrap());
    let db = folder.path().join("cowbell.db");
    let port = crate::daemon::free_port();
    let script = format!(
        "ulimit -f 16; exec {} serve --interval 100ms --listen 127.0.0.1:{port} --root {} --db {}",
        env!("CARGO_BIN_EXE_cowbell"),
        machine.root().display(),
        db.display()
    );
    let mut command = std::process::Command::new("sh");
    let mut child = command
        .args(["-c", &script])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("ticks", || {
        let answer = http::try_get(port, "/api/v1/status").ok()?;
        (answer.json()["ticks"]["taken"].as_u64()? >= 20).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A large database is not checked when it is opened, so damage shows when the page is written to.
#[test]
fn damage_that_is_found_while_writing_sets_a_large_database_aside() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    assert_eq!(put(&daemon, "before"), 201);
    daemon.stop(Signal::TERM);
    let db = daemon.db.clone();
    change_database(
        &db,
        "CREATE TABLE large AS SELECT zeroblob(70 << 20) AS bytes",
    );
    let page = ask_database(
        &db,
        "SELECT rootpage FROM sqlite_schema WHERE name = 'job_started'",
    );
    let size = ask_database(&db, "SELECT page_size FROM pragma_page_size");
    let file = fs::File::options().write(true).open(&db).unwrap();
    file.write_all_at(&[0xff; 64], (page as u64 - 1) * size as u64)
        .unwrap();
    let mut daemon = Start::watching(&machine).db(&db).start();
    assert_eq!(put(&daemon, "after"), 202);
    wait_for("a new database", || {
        (put(&daemon, "after") == 200).then_some(())
    });
    wait_for("the note", || {
        let notes = daemon.json("/api/v1/status")["store"]["notes"].to_string();
        notes.contains("was damaged").then_some(())
    });
    let taken = daemon.taken() as usize;
    daemon.stop(Signal::TERM);
    let kept = kept_ticks(&db).len();
    assert!(
        kept >= taken,
        "{kept} of {taken} ticks are stored, with those that memory had"
    );
}

#[test]
fn a_job_that_a_constraint_refuses_is_not_reported_as_stored() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    daemon.stop(Signal::TERM);
    let db = daemon.db.clone();
    change_database(
        &db,
        "CREATE TRIGGER refuse BEFORE INSERT ON job_record WHEN NEW.key LIKE '%bad'
         BEGIN SELECT RAISE(ABORT, 'not this one'); END",
    );
    let daemon = Start::watching(&machine).db(&db).start();
    assert_eq!([put(&daemon, "bad"), put(&daemon, "good")], [507, 201]);
    assert_eq!(ask_database(&db, "SELECT count(*) FROM job"), 1);
    let error = daemon.part("store")["error"].to_string();
    assert!(
        error.contains("1 entry"),
        "the status says that one was lost: {error}"
    );
}

/// Threads are needed to open a database and to draw a chart.
#[test]
fn without_a_thread_to_be_had_the_answer_is_503_and_watching_goes_on() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let (pid, nothing) = (
        daemon.pid().as_raw_nonzero().to_string(),
        std::process::Stdio::null,
    );
    let mut strace = std::process::Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "inject=clone,clone3:error=EAGAIN",
            "-p",
            &pid,
        ])
        .stderr(nothing())
        .spawn()
        .unwrap();
    wait_for("strace", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        (!status.contains("TracerPid:\t0\n")).then_some(())
    });
    for target in [
        "/api/v1/series?of=total&metric=read_bytes&from=-10s",
        "/api/v1/jobs/1",
    ] {
        let answer = daemon.get(target);
        assert_eq!(answer.status, 503, "{target}: {answer:?}");
    }
    let jobs = daemon.get("/api/v1/jobs");
    assert!(
        jobs.status == 200 && jobs.head.contains("cowbell-missing: "),
        "{jobs:?}"
    );
    let taken = daemon.taken();
    wait_for("more ticks", || (daemon.taken() > taken + 3).then_some(()));
    strace.kill().unwrap();
    strace.wait().unwrap();
    wait_for("an answer", || {
        (daemon.get("/api/v1/jobs/1").status == 404).then_some(())
    });
}

/// Where a child of these tests has its database.
const DATABASE: &str = "COWBELL_TEST_DATABASE";

/// Whether faults can be injected into system calls. CI must be able to.
fn has_strace() -> bool {
    if std::process::Command::new("strace")
        .arg("-V")
        .output()
        .is_ok()
    {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "CI needs strace");
    eprintln!("skipped: strace is not installed (Debian's package strace)");
    false
}

/// Runs one of the tests below in a process in which system calls on the database's files fail, as `inject` says for each
/// thread.
fn with_failing_calls(db: &Path, child: &str, inject: &str) {
    let ran = std::process::Command::new("strace")
        // The tracer is a grandchild, so that the child can end it.
        .args(["-D", "-f", "-qq", "-o", "/dev/null"])
        .args([
            "-e",
            "trace=pread64,pwrite64",
            "-e",
            &format!("inject={inject}"),
        ])
        .arg("-P")
        .arg(db)
        .arg("-P")
        .arg(db.with_extension("db-wal"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("damage::{child}"), "--ignored"])
        .env(DATABASE, db)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{inject}: {ran:?}");
}

/// The database of the child of a test.
fn database_of_child() -> Option<std::path::PathBuf> {
    std::env::var_os(DATABASE).map(Into::into)
}

fn is_set_aside(db: &Path) -> bool {
    let folder = fs::read_dir(db.parent().unwrap()).unwrap();
    let mut names = folder.map(|entry| entry.unwrap().file_name());
    names.any(|name| name.to_str().unwrap().contains(".damaged-"))
}

/// Some ticks and a job.
fn small_database(folder: &Path) -> std::path::PathBuf {
    let machine = Machine::new();
    let db = folder.join("cowbell.db");
    let mut daemon = Start::watching(&machine).db(&db).start();
    wait_for("ticks", || (daemon.taken() >= 3).then_some(()));
    daemon.commit();
    daemon.stop(Signal::TERM);
    db
}

/// SQLite reports a read that fails as damage: as a malformed file, or as a row of `quick_check`.
#[test]
fn a_read_that_fails_is_no_damage() {
    if !has_strace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let db = small_database(folder.path());
    let kept = kept_ticks(&db).len();
    let once = (1..=20).map(|number| format!("when={number}"));
    // The last three: of 100 reads one, two and five.
    let again_and_again = ["when=3+5", "when=7+100", "when=5+50", "when=1+20"].map(String::from);
    for reads in once.chain(again_and_again) {
        with_failing_calls(
            &db,
            "opens_the_database",
            &format!("pread64:error=EIO:{reads}"),
        );
        assert!(!is_set_aside(&db), "{reads}");
    }
    assert_eq!(ask_database(&db, "SELECT count(*) FROM job"), 1);
    assert_eq!(kept_ticks(&db).len(), kept);
}

#[test]
#[ignore = "the child of the test above"]
fn opens_the_database() {
    if let Some(db) = database_of_child() {
        block_on(async {
            let (inlet, store) = crate::ticks::open(&db).await;
            let _ = store.job(1).await;
            inlet.close().await;
        });
    }
}

#[test]
fn a_database_that_cannot_be_read_at_the_start_is_read_as_soon_as_it_can_be() {
    if has_strace() {
        let folder = tempfile::tempdir().unwrap();
        let db = small_database(folder.path());
        let kept = kept_ticks(&db).len();
        with_failing_calls(&db, "waits_for_the_database", "pread64:error=EIO");
        assert!(!is_set_aside(&db));
        assert!(kept_ticks(&db).len() >= kept);
    }
}

#[test]
#[ignore = "the child of the test above"]
fn waits_for_the_database() {
    let Some(db) = database_of_child() else {
        return;
    };
    block_on(async {
        let (mut inlet, store) = crate::ticks::open(&db).await;
        let error = inlet.health().0.error.expect("it cannot be read");
        assert!(error.contains("cowbell.db"), "{error}");
        let topology = disks(&["sda"]);
        for second in 0..3 {
            let tick = Tick::of_minute(second).interval(&topology);
            inlet.append_tick(&tick).await;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let tracer = status
            .lines()
            .find_map(|line| line.strip_prefix("TracerPid:"));
        let tracer = Pid::from_raw(tracer.unwrap().trim().parse().unwrap()).unwrap();
        kill_process(tracer, Signal::KILL).unwrap();
        let began = std::time::Instant::now();
        while inlet.health().0.error.is_some() && began.elapsed() < crate::PATIENCE {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert_eq!(inlet.health().0.error, None);
        assert!(store.job(1).await.unwrap().is_some());
        inlet.close().await;
    });
}

/// A full disk, or a disk that fails, may end the creation at any write.
#[test]
fn a_database_whose_creation_failed_half_way_is_begun_anew() {
    if !has_strace() {
        return;
    }
    for origin in [TickOrigin::ThisMachine, TickOrigin::Recording] {
        for first in 1..=24 {
            let folder = tempfile::tempdir().unwrap();
            let db = folder.path().join("cowbell.db");
            let inject = format!("pwrite64:error=ENOSPC:when={first}+");
            with_failing_calls(&db, "opens_the_database", &inject);
            let notes = block_on(async {
                let opened = cowbell::store::open(&db, origin, Default::default()).await;
                let (inlet, _) = opened.unwrap_or_else(|error| panic!("{first}: {error:#}"));
                let health = inlet.health().0;
                inlet.close().await;
                assert_eq!(health.error, None, "{first}");
                health.notes
            });
            assert!(notes.is_empty(), "{first}: {notes:?}");
        }
    }
}
