//! Killed while it deletes what is old: what is left is whole, and the next start goes on to the same end.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sqlx::{AssertSqlSafe, SqliteConnection};

use super::BEGIN_MS;
use crate::config;
use crate::store::address::{Level, Position, Stream};
use crate::store::record::{Encoder, Rows};
use crate::store::retention::Retention;
use crate::store::rollup::roll_up;
use crate::store::stored::write_tick;
use crate::store::{TickOrigin, database, inventory};

const APART_MS: i64 = 50 * 60_000;
/// Three weeks.
const TICKS: i64 = 600;
const DATABASE: &str = "COWBELL_TEST_DATABASE";

async fn connect(path: &Path) -> SqliteConnection {
    database::for_writing(path, TickOrigin::ThisMachine, false)
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
    let mut encoder = Encoder::new(Level::Ticks);
    for number in 1..=TICKS {
        let position = Position {
            stretch: 0,
            at_ms: BEGIN_MS + number * APART_MS,
        };
        let rows = Rows::collect(Level::Ticks, |push| {
            let columns = Stream::TOTAL.kind.columns();
            push(Stream::TOTAL, &vec![number.try_into().ok(); columns]);
        });
        let record = encoder.encode(position, APART_MS.unsigned_abs() * 1000, &rows);
        write_tick(&mut connection, position, &record)
            .await
            .unwrap();
    }
    roll_up(&mut connection).await.unwrap();
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

/// The rows of each level. Each can be read.
async fn left(path: &Path) -> [i64; 3] {
    let mut connection = connect(path).await;
    let mut counts = [0; 3];
    for (count, level) in counts.iter_mut().zip(Level::ALL) {
        let count_rows = format!("SELECT count(*) FROM {}", level.table());
        *count = sqlx::query_scalar(AssertSqlSafe(count_rows))
            .fetch_one(&mut connection)
            .await
            .unwrap();
    }
    drop(connection);
    assert_eq!(inventory(path).await.unwrap().damage, Vec::<String>::new());
    counts
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
        expected[0] < before[0] * 9 / 10,
        "{expected:?} of {before:?}"
    );
    std::fs::copy(&full, &path).unwrap();
    let kills = (1..40)
        .step_by(3)
        .filter(|write| killed(&path, *write) && runtime.block_on(left(&path))[0] > 0);
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
