//! Killed while it deletes what is old: what is left is whole, and the next start goes on to the same end.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use sqlx::SqliteConnection;

use super::course::BEGIN_MS;
use crate::config;
use crate::store::retention::Retention;
use crate::store::rolling::{SOURCES, roll_up};
use crate::store::seal::seal;
use crate::store::stream::Stream;
use crate::store::tick::{Layout, Tick};
use crate::store::{TickOrigin, database};

const APART_MS: i64 = 50 * 60_000;
/// Three weeks.
const TICKS: i64 = 600;
const DATABASE: &str = "COWBELL_TEST_DATABASE";

async fn connect(path: &Path) -> SqliteConnection {
    database::for_writing(path, TickOrigin::ThisMachine)
        .await
        .unwrap()
        .connection
}

async fn three_weeks(path: &Path) {
    let mut connection = connect(path).await;
    sqlx::query("PRAGMA synchronous = OFF")
        .execute(&mut connection)
        .await
        .unwrap();
    let layout: Arc<Layout> = Arc::new(vec![Stream::HOST, Stream::TOTAL]);
    for number in 1..=TICKS {
        let elapsed_us = APART_MS.unsigned_abs() * 1000;
        let mut tick = Tick::new(
            BEGIN_MS + number * APART_MS,
            elapsed_us,
            Arc::clone(&layout),
        );
        tick.push(1, Some(&[1, 8, 1, 0, 0, 0, 1, 1, 0]));
        seal(&mut connection, number, &[Arc::new(tick)])
            .await
            .unwrap();
    }
    roll_up(&mut connection, SOURCES).await.unwrap();
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut connection)
        .await
        .unwrap();
}

/// Deletes all that is old, to the end.
async fn tidy(path: &Path) {
    let mut connection = connect(path).await;
    let mut retention = Retention::new(config::Store {
        ticks: config::Age::days(7),
        ..config::Store::default()
    });
    while retention.step(&mut connection).await.unwrap() {}
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut connection)
        .await
        .unwrap();
}

/// All segments and chunks that are there; each chunk is of a segment.
async fn left(path: &Path) -> (Vec<i64>, Vec<i64>) {
    let mut connection = connect(path).await;
    let check: String = sqlx::query_scalar("PRAGMA integrity_check")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(check, "ok");
    let ids = "SELECT id FROM segment ORDER BY id";
    let segments: Vec<i64> = sqlx::query_scalar(ids)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let ids = "SELECT id FROM chunk ORDER BY id";
    let chunks: Vec<i64> = sqlx::query_scalar(ids)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let mut of_chunks: Vec<i64> = chunks.iter().map(|id| id >> 24).collect();
    of_chunks.dedup();
    assert_eq!(of_chunks, segments);
    (segments, chunks)
}

/// Runs the child until its write of that number, counted by thread; says whether it was killed.
fn killed(path: &Path, write: usize) -> bool {
    let mut child = Command::new("strace");
    child.args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e"]);
    child
        .arg(format!("inject=pwrite64:signal=KILL:when={write}"))
        .arg(std::env::current_exe().unwrap());
    let (_, module) = module_path!().split_once("::").unwrap();
    child
        .args([
            "--exact",
            &format!("{module}::deletes_until_it_is_killed"),
            "--ignored",
        ])
        .env(DATABASE, path);
    child
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .signal()
        .is_some()
}

/// Whether `strace` is installed. CI has to have it.
fn has_strace() -> bool {
    let found = Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    assert!(
        found || std::env::var_os("CI").is_none(),
        "CI needs strace (Debian's package strace)"
    );
    found
}

#[test]
fn a_kill_while_it_deletes_leaves_what_is_left_whole() {
    if !has_strace() {
        return eprintln!("skipped: strace is not installed (Debian's package strace)");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [full, tidied, path] = ["full", "tidied", "killed"].map(|name| folder.path().join(name));
    runtime.block_on(three_weeks(&full));
    std::fs::copy(&full, &tidied).unwrap();
    runtime.block_on(tidy(&tidied));
    let (before, expected) = (
        runtime.block_on(left(&full)),
        runtime.block_on(left(&tidied)),
    );
    assert!(
        expected.0.len() < before.0.len() * 9 / 10,
        "{} of {}",
        expected.0.len(),
        before.0.len()
    );
    std::fs::copy(&full, &path).unwrap();
    let kills = (1..40)
        .step_by(3)
        .filter(|write| killed(&path, *write) && !runtime.block_on(left(&path)).0.is_empty());
    assert!(kills.count() >= 10);
    runtime.block_on(tidy(&path));
    assert_eq!(runtime.block_on(left(&path)), expected);
}

#[test]
#[ignore = "the child of the test above"]
fn deletes_until_it_is_killed() {
    let Some(path) = std::env::var_os(DATABASE).map(PathBuf::from) else {
        return;
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(tidy(&path));
}
