//! Whatever happens to the database's files: the daemon starts on those that are ours, says what is lost, and continues to
//! store. Files that are not ours it leaves as they are, and continues from memory.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;

use crate::config;
use crate::job::{Job, JobKind};
use crate::store::address::{Level, Position};
use crate::store::database::{PAGE, for_writing};
use crate::store::paths::beside;
use crate::store::record::{Encoder, Rows};
use crate::store::stored::write_tick;
use crate::store::{TickOrigin, WriteOp, inventory, open};

/// Ticks in the database.
const TICKS: i64 = 4;

/// What is to come of it.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// All ticks are there, and nothing is said.
    Whole,
    /// The database is kept under another name as it is, which is said in these words.
    Aside(&'static str),
    /// All ticks are there, and this is said.
    Said(&'static str),
    /// It continues from memory, says this, and changes nothing.
    Refused(&'static str),
}
use Then::{Aside, Refused, Said, Whole};

type Harm = fn(&Path);

/// All that can befall the database's own file.
const OF_THE_FILE: &[(&str, Harm, Then)] = &[
    ("nothing", |_| {}, Whole),
    (
        "its first page of zeros",
        |db| fill(db, 100..PAGE.into(), 0),
        Aside("malformed"),
    ),
    (
        "its first page of garbage",
        |db| fill(db, 100..PAGE.into(), 0xaa),
        Aside("malformed"),
    ),
    (
        "a header of garbage",
        |db| fill(db, 16..67, 0xaa),
        Aside("its header is not one of cowbell's"),
    ),
    (
        "a header of zeros",
        |db| fill(db, 16..60, 0),
        Aside("its header is not one of cowbell's"),
    ),
    (
        "a byte of its header that may be any",
        |db| fill(db, 72..73, 0xaa),
        Whole,
    ),
    (
        "cut to 50 bytes",
        |db| cut(db, 50),
        Refused(
            "it is damaged, and nothing in it says that it is cowbell's; move it away, or name another",
        ),
    ),
    ("cut to 100 bytes", |db| cut(db, 100), Aside("malformed")),
    (
        "cut to a page",
        |db| cut(db, PAGE.into()),
        Aside("malformed"),
    ),
    (
        "a text",
        |db| fs::write(db, "a text that is no database").unwrap(),
        Refused("it is no SQLite database; name another"),
    ),
    (
        "no header at all",
        |db| fill(db, 0..100, 0),
        Aside("its header is not one of cowbell's"),
    ),
    (
        "another's number",
        |db| fill(db, 68..72, 7),
        Aside("its header is not one of cowbell's"),
    ),
    (
        "no number",
        |db| fill(db, 68..72, 0),
        Aside("its header is not one of cowbell's"),
    ),
    (
        "a version of nobody",
        |db| fill(db, 60..64, 7),
        Aside("its header is not one of cowbell's"),
    ),
];

/// And what lies beside it.
const BESIDE_IT: &[(&str, Harm, Then)] = &[
    (
        "a log of garbage",
        |db| fs::write(beside(db, "-wal"), [0xaa; 9_000]).unwrap(),
        Whole,
    ),
    (
        "a log that is cut",
        |db| fs::write(beside(db, "-wal"), [0x37]).unwrap(),
        Whole,
    ),
    (
        "an index of garbage",
        |db| fs::write(beside(db, "-shm"), [0xaa; 32_768]).unwrap(),
        Whole,
    ),
    (
        "a file to roll back from, of garbage",
        |db| fs::write(beside(db, "-journal"), [0xaa; 999]).unwrap(),
        Whole,
    ),
];

fn fill(path: &Path, range: Range<u64>, byte: u8) {
    let bytes = vec![byte; (range.end - range.start) as usize];
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .write_all_at(&bytes, range.start)
        .unwrap();
}

fn cut(path: &Path, length: u64) {
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(length)
        .unwrap();
}

/// A database that was closed.
async fn kept(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("cowbell.db");
    let opened = for_writing(&path, TickOrigin::ThisMachine, false).await;
    let mut connection = opened.unwrap().connection;
    let mut encoder = Encoder::new(Level::Ticks);
    for second in 1..=TICKS {
        let at_ms = 1000 * second;
        let position = Position { stretch: 0, at_ms };
        let record = encoder.encode(position, 1_000_000, &Rows::default());
        write_tick(&mut connection, position, &record)
            .await
            .unwrap();
    }
    connection.close().await.unwrap();
    path
}

async fn check(what: &str, harm: impl FnOnce(&Path), then: Then) {
    let folder = tempfile::tempdir().unwrap();
    let path = kept(&folder).await;
    harm(&path);
    let before = fs::read(&path).unwrap();
    let opened = open(&path, TickOrigin::ThisMachine, config::Store::default()).await;
    let (mut inlet, _) =
        opened.unwrap_or_else(|error| panic!("{what}: expected {then:?}, but found {error:?}"));
    let (health, _) = inlet.health();
    if let Refused(sentence) = then {
        let error = health.error.expect(what);
        assert!(
            error.contains(sentence) && !error.contains('\n'),
            "{what}: {error}"
        );
        inlet.close().await;
        return assert!(before == fs::read(&path).unwrap(), "{what}");
    }
    let said = health.notes;
    let left = match then {
        Whole => {
            assert_eq!(said, Vec::<String>::new(), "{what}");
            TICKS
        }
        Said(part) => {
            assert!(said.concat().contains(part), "{what}: {said:?}");
            TICKS
        }
        Aside(part) => {
            assert_eq!(said.len(), 1, "{what}: {said:?}");
            assert!(
                said[0].contains(part) && said[0].contains("it is now "),
                "{what}: {said:?}"
            );
            assert!(set_aside(&path).contains(&before), "{what}: {said:?}");
            0
        }
        Refused(_) => unreachable!(),
    };
    check_that_it_collects_on(&mut inlet, what).await;
    inlet.close().await;
    let found = inventory(&path).await.unwrap();
    assert_eq!(
        (found.ticks.len() as i64, found.damage),
        (left, vec![]),
        "{what}"
    );
}

/// What is in the files that were set aside.
fn set_aside(path: &Path) -> Vec<Vec<u8>> {
    let paths = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let aside = paths.filter(|path| path.to_str().unwrap().contains(".damaged-"));
    aside.map(|path| fs::read(path).unwrap()).collect()
}

async fn check_that_it_collects_on(inlet: &mut crate::store::StoreWriter, what: &str) {
    let job = Job::new(1, JobKind::Command, "key", "dd", Timestamp::UNIX_EPOCH);
    inlet.append(WriteOp::Job(Box::new(job))).await;
    let began = Instant::now();
    while inlet.health().0.written == 0 {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{what}: {:?}",
            inlet.health()
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_a_file_of_another_program_is_left_as_it_is() {
    for (what, harm, then) in OF_THE_FILE {
        check(what, harm, *then).await;
    }
}

#[tokio::test]
async fn what_lies_beside_the_database_does_not_keep_it_from_starting() {
    for (what, harm, then) in BESIDE_IT {
        check(what, harm, *then).await;
    }
}

#[tokio::test]
async fn whatever_byte_of_the_header_is_another_it_starts() {
    for byte in 0..100 {
        let folder = tempfile::tempdir().unwrap();
        let path = kept(&folder).await;
        fill(&path, byte..byte + 1, 0xaa);
        let opened = open(&path, TickOrigin::ThisMachine, config::Store::default()).await;
        let (mut inlet, _) = opened.unwrap_or_else(|error| panic!("byte {byte}: {error:?}"));
        check_that_it_collects_on(&mut inlet, &format!("byte {byte}")).await;
        inlet.close().await;
    }
}

/// SQLite takes what a whole log says for the database's own.
#[tokio::test]
async fn a_log_of_another_database_is_set_aside_and_no_tick_with_it() {
    for page_size in [PAGE, 4_096] {
        let other = tempfile::tempdir().unwrap();
        let diary = other.path().join("diary.db");
        let options = SqliteConnectOptions::new()
            .filename(&diary)
            .create_if_missing(true);
        let options = options
            .page_size(page_size)
            .journal_mode(SqliteJournalMode::Wal);
        let mut connection = options.connect().await.unwrap();
        sqlx::query("CREATE TABLE diary (page TEXT)")
            .execute(&mut connection)
            .await
            .unwrap();
        let log = fs::read(beside(&diary, "-wal")).unwrap();
        let part = if page_size == PAGE {
            "is of another database, and not used"
        } else {
            ""
        };
        let harm = |db: &Path| fs::write(beside(db, "-wal"), &log).unwrap();
        check(
            &format!("another's log of pages of {page_size} bytes"),
            harm,
            Said(part),
        )
        .await;
    }
}
