//! Whatever becomes of the database's files: the daemon starts on what was ours, says what is lost, and collects on; and
//! what is not ours it refuses, and leaves as it is.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;

use crate::config;
use crate::job::{Job, JobKind};
use crate::store::journal::Journal;
use crate::store::open::for_writing;
use crate::store::place::beside;
use crate::store::record::Recorder;
use crate::store::rows::identity;
use crate::store::seal::seal;
use crate::store::tick::Tick;
use crate::store::{Holds, WriteOp, inventory, open};

/// Ticks in the database, and besides in the journal.
const SEALED: i64 = 3;
const JOURNALED: i64 = 1;
/// What belongs to a database that was closed.
const FILES: [&str; 3] = ["", "-ticks0", "-ticks1"];

/// What is to come of it.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// All ticks are there, and nothing is said.
    Whole,
    /// This file is kept under another name as it is, which is said in these words; so many ticks are left.
    Aside(&'static str, &'static str, i64),
    /// So many ticks are left, and this is said.
    Said(&'static str, i64),
    /// It does not start, says this, and changes nothing.
    Refused(&'static str),
    /// It does not start before somebody has mended what lies beside it, says this, and has what was in the database.
    Hindered(&'static str),
}
use Then::{Aside, Hindered, Refused, Said, Whole};

type Harm = fn(&Path);

/// All that can befall the database's own file.
const OF_THE_FILE: &[(&str, Harm, Then)] = &[
    ("nothing", |_| {}, Whole),
    ("its first page of zeros", |db| fill(db, 100..2_048, 0), Aside("", "malformed", 0)),
    ("its first page of garbage", |db| fill(db, 100..2_048, 0xaa), Aside("", "malformed", 0)),
    ("a header of garbage", |db| fill(db, 16..67, 0xaa), Aside("", "what stands in its header cannot be", 0)),
    ("a header of zeros", |db| fill(db, 16..60, 0), Aside("", "what stands in its header cannot be", 0)),
    ("a byte of its header that may be any", |db| fill(db, 56..57, 0xaa), Whole),
    ("cut to 50 bytes", |db| cut(db, 50), Aside("", "expected 100 bytes and more, but found 50", 0)),
    ("cut to 100 bytes", |db| cut(db, 100), Aside("", "bytes, but found 100", 0)),
    ("cut to a page", |db| cut(db, 2_048), Aside("", "bytes, but found 2048", 0)),
    (
        "cut to 50 bytes, with no journal",
        |db| {
            cut(db, 50);
            fs::remove_file(beside(db, "-ticks0")).unwrap();
            fs::remove_file(beside(db, "-ticks1")).unwrap();
        },
        Refused("it is damaged, and nothing in it says that it is cowbell's; move it away, or name another"),
    ),
    ("no header at all", |db| fill(db, 0..100, 0), Refused("it is no SQLite database; name another")),
    ("another's number", |db| fill(db, 68..72, 7), Refused("it is another program's database; name another")),
    ("no number", |db| fill(db, 68..72, 0), Refused("it is another program's database; name another")),
    (
        "another's number, and damaged",
        |db| {
            fill(db, 68..72, 7);
            fill(db, 100..2_048, 0xaa);
        },
        Refused("it is damaged, and nothing in it says that it is cowbell's"),
    ),
    ("a version of nobody", |db| fill(db, 60..64, 7), Refused("which no cowbell gives; name another")),
];

/// And what lies beside it.
const BESIDE_IT: &[(&str, Harm, Then)] = &[
    ("a log of garbage", |db| fs::write(beside(db, "-wal"), [0xaa; 9_000]).unwrap(), Whole),
    ("a log that is cut", |db| fs::write(beside(db, "-wal"), [0x37]).unwrap(), Whole),
    ("an index of garbage", |db| fs::write(beside(db, "-shm"), [0xaa; 32_768]).unwrap(), Whole),
    (
        "a file to roll back from, of garbage",
        |db| fs::write(beside(db, "-journal"), [0xaa; 999]).unwrap(),
        Whole,
    ),
    (
        "a journal of garbage",
        |db| fill(&beside(db, "-ticks0"), 0..99, 0xaa),
        Aside("-ticks0", "cannot be used", SEALED),
    ),
    (
        "a journal that is cut",
        |db| cut(&beside(db, "-ticks0"), 20),
        Aside("-ticks0", "within its header", SEALED),
    ),
    (
        "a journal cut in its record",
        |db| cut(&beside(db, "-ticks0"), 46),
        Said("found a torn one at", SEALED),
    ),
    // As one that was never written to: nothing tells it from that.
    ("an empty journal", |db| cut(&beside(db, "-ticks0"), 0), Said("", SEALED)),
    (
        "another's journal",
        |db| fill_with(&beside(db, "-ticks0"), &journal_of_another()),
        Aside("-ticks0", "expected database", SEALED),
    ),
    (
        "a folder for a journal",
        |db| {
            fs::remove_file(beside(db, "-ticks0")).unwrap();
            fs::create_dir(beside(db, "-ticks0")).unwrap();
        },
        Hindered("expected a regular file, but found something else; move it away"),
    ),
];

fn fill(path: &Path, range: Range<u64>, byte: u8) {
    let bytes = vec![byte; (range.end - range.start) as usize];
    fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(&bytes, range.start).unwrap();
}

fn fill_with(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

fn cut(path: &Path, length: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn journal_of_another() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    write_journal(&path, 99);
    fs::read(beside(&path, "-ticks0")).unwrap()
}

fn ticks(from: i64, count: i64) -> Vec<Arc<Tick>> {
    (from..from + count).map(|at| Arc::new(Tick::new(1000 * at, 1_000_000, Arc::default()))).collect()
}

fn write_journal(database: &Path, id: u64) {
    let (mut journal, _) = Journal::open(database, id, 1).unwrap();
    journal.begin(2).unwrap();
    let mut recorder = Recorder::default();
    for tick in ticks(SEALED, JOURNALED) {
        journal.append(&recorder.record(&tick)).unwrap();
        recorder.remember(&tick);
    }
}

/// A database that was closed, with a journal that is not sealed yet.
async fn kept(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("cowbell.db");
    let mut connection = for_writing(&path, Holds::ThisMachine).await.unwrap().connection;
    seal(&mut connection, 1, &ticks(0, SEALED)).await.unwrap();
    write_journal(&path, identity(&mut connection).await.unwrap());
    connection.close().await.unwrap();
    path
}

async fn check(what: &str, harm: impl FnOnce(&Path), then: Then) {
    let folder = tempfile::tempdir().unwrap();
    let path = kept(&folder).await;
    harm(&path);
    let before = FILES.map(|ending| fs::read(beside(&path, ending)).ok());
    let opened = open(&path, Holds::ThisMachine, config::Store::default()).await;
    let (mut inlet, said) = match (opened, then) {
        (Err(error), Refused(sentence)) => {
            let error = crate::store::in_words(&error);
            assert!(error.contains(sentence) && !error.contains('\n'), "{what}: {error}");
            return assert!(before == FILES.map(|ending| fs::read(beside(&path, ending)).ok()), "{what}");
        }
        (Err(error), Hindered(sentence)) => {
            let error = crate::store::in_words(&error);
            assert!(error.contains(sentence) && !error.contains('\n'), "{what}: {error}");
            fs::remove_dir(beside(&path, "-ticks0")).unwrap();
            let found = inventory(&path).await.unwrap();
            return assert_eq!((found.ticks.len() as i64, found.damage), (SEALED, vec![]), "{what}");
        }
        (Err(error), _) => panic!("{what}: expected {then:?}, but found {error:?}"),
        (Ok((inlet, _)), _) => {
            let notes = inlet.health().0.notes;
            (inlet, notes)
        }
    };
    let left = match then {
        Whole => {
            assert_eq!(said, Vec::<String>::new(), "{what}");
            SEALED + JOURNALED
        }
        Said(part, left) => {
            assert!(said.concat().contains(part), "{what}: {said:?}");
            left
        }
        Aside(ending, part, left) => {
            assert_eq!(said.len(), 1, "{what}: {said:?}");
            assert!(said[0].contains(part) && said[0].contains("it is now "), "{what}: {said:?}");
            assert!(set_aside(&path).contains(before[at(ending)].as_ref().unwrap()), "{what}: {said:?}");
            left
        }
        Refused(_) | Hindered(_) => panic!("{what}: expected {then:?}, but it started: {said:?}"),
    };
    check_that_it_collects_on(&mut inlet, what).await;
    inlet.close().await;
    let found = inventory(&path).await.unwrap();
    assert_eq!((found.ticks.len() as i64, found.damage), (left, vec![]), "{what}");
}

fn at(ending: &str) -> usize {
    FILES.iter().position(|other| *other == ending).unwrap()
}

/// What is in the files that were set aside.
fn set_aside(path: &Path) -> Vec<Vec<u8>> {
    let paths = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let aside = paths.filter(|path| path.to_str().unwrap().contains(".damaged-"));
    aside.map(|path| fs::read(path).unwrap()).collect()
}

async fn check_that_it_collects_on(inlet: &mut crate::store::StoreWriter, what: &str) {
    let job = Job::new(1, JobKind::Command, "key", "dd", Timestamp::UNIX_EPOCH);
    inlet.append(WriteOp::Job(Box::new(job)));
    let began = Instant::now();
    while inlet.health().0.written == 0 {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}: {:?}", inlet.health());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_file_that_is_damaged_is_set_aside_and_one_that_is_not_ours_refused() {
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
    for byte in (16..100).filter(|byte| !(60..72).contains(byte)) {
        let folder = tempfile::tempdir().unwrap();
        let path = kept(&folder).await;
        fill(&path, byte..byte + 1, 0xaa);
        let opened = open(&path, Holds::ThisMachine, config::Store::default()).await;
        let (mut inlet, _) = opened.unwrap_or_else(|error| panic!("byte {byte}: {error:?}"));
        check_that_it_collects_on(&mut inlet, &format!("byte {byte}")).await;
        inlet.close().await;
    }
}

/// SQLite takes what a whole log says for the database's own.
#[tokio::test]
async fn a_log_of_another_database_is_set_aside_and_no_tick_with_it() {
    for page_size in [2_048, 4_096] {
        let other = tempfile::tempdir().unwrap();
        let diary = other.path().join("diary.db");
        let options = SqliteConnectOptions::new().filename(&diary).create_if_missing(true);
        let options = options.page_size(page_size).journal_mode(SqliteJournalMode::Wal);
        let mut connection = options.connect().await.unwrap();
        sqlx::query("CREATE TABLE diary (page TEXT)").execute(&mut connection).await.unwrap();
        let log = fs::read(beside(&diary, "-wal")).unwrap();
        let part = if page_size == 2_048 { "is of another database, and not used" } else { "" };
        let harm = |db: &Path| fill_with(&beside(db, "-wal"), &log);
        check(&format!("another's log of pages of {page_size} bytes"), harm, Said(part, SEALED + JOURNALED))
            .await;
    }
}
