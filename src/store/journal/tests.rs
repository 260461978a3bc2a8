//! A journal in a folder: what was appended comes back, and damage costs the record that it lies in.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::store::tests::cases;

const IDENTITY: u64 = 0x1234_5678_9abc_def0;

struct Folder {
    _folder: tempfile::TempDir,
    database: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("cowbell.db");
        Self {
            _folder: folder,
            database,
        }
    }

    fn open(&self, sealed: i64) -> (Journal, JournalContent) {
        Journal::open(&self.database, IDENTITY, sealed).unwrap()
    }

    fn look(&self, sealed: i64) -> JournalContent {
        recover(&bytes(&self.database).unwrap(), IDENTITY, sealed)
    }

    fn file(&self) -> PathBuf {
        path_of(&self.database)
    }
}

fn record(number: usize) -> Vec<u8> {
    (0..100 + number % 7 * 40)
        .map(|byte| (byte * 31 + number) as u8)
        .collect()
}

/// A journal with so many records of segment 8, synced after each five.
fn filled(folder: &Folder, count: usize) -> Journal {
    let (mut journal, _) = folder.open(7);
    for number in 0..count {
        journal.append(8, &record(number)).unwrap();
        if number % 5 == 4 {
            journal.sync().unwrap();
        }
    }
    journal
}

#[test]
fn what_was_appended_comes_back_after_a_kill() {
    let folder = Folder::new();
    let expected: Vec<_> = (0..23).map(|number| (8, record(number))).collect();
    // Neither synced nor closed.
    std::mem::forget(filled(&folder, 23));
    let (mut journal, recovered) = folder.open(7);
    assert_eq!(
        (recovered.records, recovered.damage),
        (expected.clone(), vec![])
    );
    journal.append(9, b"next").unwrap();
    let all: Vec<_> = expected
        .into_iter()
        .chain([(9, b"next".to_vec())])
        .collect();
    assert_eq!(folder.look(7).records, all);
    assert_eq!(
        folder.look(8).records,
        [(9, b"next".to_vec())],
        "what is sealed is left out"
    );
}

#[test]
fn a_cleared_journal_begins_anew_and_what_is_left_over_of_it_is_no_damage() {
    let folder = Folder::new();
    let mut journal = filled(&folder, 50);
    journal.clear().unwrap();
    assert_eq!(
        folder.look(8),
        JournalContent {
            end: HEADER as u64,
            ..JournalContent::default()
        }
    );
    let length = folder.file().metadata().unwrap().len();
    for number in 0..60 {
        journal.append(9, &record(number)).unwrap();
        let found = folder.look(8);
        assert_eq!(
            (found.records.len(), found.damage),
            (number + 1, vec![]),
            "{number}"
        );
    }
    assert_eq!(
        folder.file().metadata().unwrap().len(),
        length,
        "blocks are used again"
    );
}

#[test]
fn a_flipped_byte_costs_the_record_that_it_lies_in() {
    let folder = Folder::new();
    std::mem::forget(filled(&folder, 12));
    let (expected, end) = (folder.look(7).records, folder.look(7).end as usize);
    let whole = fs::read(folder.file()).unwrap();
    // The zeros behind the last page with a record tell nothing.
    let whole = whole[..(end + 1).next_multiple_of(2 * PAGE as usize)].to_vec();
    for at in (0..HEADER + 3 * FRAME)
        .chain((0..end).step_by(7))
        .chain(end - 2 * FRAME..end)
    {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        let found = recover(&damaged, IDENTITY, 7);
        let lost = expected.len() - found.records.len();
        assert!(lost <= 1, "byte {at} costs {lost} records");
        assert!(
            found.records.iter().all(|record| expected.contains(record)),
            "byte {at}"
        );
        assert!(
            lost == 0 || !found.damage.is_empty(),
            "byte {at} costs a record, and nothing says so"
        );
    }
}

#[test]
fn a_file_that_was_cut_off_is_damaged() {
    let folder = Folder::new();
    std::mem::forget(filled(&folder, 12));
    let whole = fs::read(folder.file()).unwrap();
    let (all, end) = (folder.look(7).records.len(), folder.look(7).end as usize);
    // A file has whole pages: one that was cut between two cannot be told from one that never grew.
    for length in (HEADER + 1..end)
        .filter(|length| length % PAGE as usize != 0)
        .step_by(5)
    {
        let found = recover(&whole[..length], IDENTITY, 7);
        assert!(
            found.records.len() < all && !found.damage.is_empty(),
            "{length} of {end} bytes"
        );
    }
}

#[test]
fn after_damage_new_records_follow_the_last_whole_one() {
    let folder = Folder::new();
    std::mem::forget(filled(&folder, 12));
    let at = folder.look(7).end - 30;
    File::options()
        .write(true)
        .open(folder.file())
        .unwrap()
        .write_all_at(&[0xaa], at)
        .unwrap();
    let (mut journal, recovered) = folder.open(7);
    assert_eq!(recovered.records.len(), 11);
    assert!(
        recovered
            .damage
            .last()
            .unwrap()
            .contains("a copy of the damaged journal is ")
    );
    journal.append(8, b"next").unwrap();
    let found = folder.look(7);
    assert_eq!(
        (found.records.len(), &found.records[11].1[..], found.damage),
        (12, &b"next"[..], vec![])
    );
}

#[test]
fn the_journal_of_another_database_is_set_aside() {
    let folder = Folder::new();
    std::mem::forget(filled(&folder, 3));
    let (_, recovered) = Journal::open(&folder.database, 99, 0).unwrap();
    assert!(recovered.records.is_empty());
    assert!(
        recovered.damage[0].contains("belongs to another database; it is now "),
        "{recovered:?}"
    );
    assert!(lies_beside(&folder.database));
}

#[test]
fn only_the_owner_may_read_it() {
    let folder = Folder::new();
    fs::write(folder.file(), b"").unwrap();
    fs::set_permissions(folder.file(), Permissions::from_mode(0o644)).unwrap();
    drop(folder.open(0));
    assert_eq!(
        folder.file().metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn a_pipe_in_its_place_is_refused_instead_of_waited_for() {
    let folder = Folder::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.file(),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let error = Journal::open(&folder.database, IDENTITY, 0)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("expected a regular file, but found something else; move it away"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..9_000)) {
        recover(&bytes, IDENTITY, 0);
    }

    #[test]
    fn whatever_is_appended_synced_and_cleared_the_rest_comes_back(
        steps in prop::collection::vec((0..10u8, 0..6_000usize), 1..60),
    ) {
        let folder = Folder::new();
        let (mut journal, _) = folder.open(0);
        let (mut segment, mut expected) = (1, Vec::new());
        for (step, length) in steps {
            match step {
                0 => { journal.clear().unwrap(); expected.clear(); segment += 1; }
                1 => segment += 1,
                2 | 3 => journal.sync().unwrap(),
                4 => { drop(journal); journal = folder.open(expected.first().map_or(segment - 1, |(first, _)| first - 1)).0; }
                _ => { journal.append(segment, &vec![step; length]).unwrap(); expected.push((segment, vec![step; length])); }
            }
            let sealed = expected.first().map_or(segment - 1, |(first, _): &(i64, Vec<u8>)| first - 1);
            let found = folder.look(sealed);
            prop_assert_eq!((&found.records, &found.damage), (&expected, &vec![]));
        }
    }
}
