//! What a journal gives back, as the store sees it: each test opens real files in a folder of its own.

mod crash;
mod damage;
mod full;

use std::path::{Path, PathBuf};

use super::{Journal, Replayed, Segment};

pub const ID: u64 = 0x00c0_ffee_0bad_cafe;

/// A folder with a journal in it.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn database(&self) -> PathBuf {
        self.folder().join("cowbell.db")
    }

    pub fn ticks(&self, turn: usize) -> PathBuf {
        self.folder().join(format!("cowbell.db-ticks{turn}"))
    }

    pub fn open(&self, sealed: i64) -> (Journal, Replayed) {
        Journal::open(&self.database(), ID, sealed).unwrap()
    }

    pub fn bytes(&self, turn: usize) -> Vec<u8> {
        std::fs::read(self.ticks(turn)).unwrap()
    }

    pub fn set_bytes(&self, turn: usize, bytes: &[u8]) {
        std::fs::write(self.ticks(turn), bytes).unwrap();
    }

    pub fn set_aside(&self) -> Vec<PathBuf> {
        let names = self.folder().read_dir().unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.to_str().unwrap().contains(".damaged-")).collect()
    }

    /// A journal with one segment.
    pub fn with(number: i64, records: &[&[u8]]) -> Place {
        let place = Place::new();
        let (mut journal, _) = place.open(number - 1);
        begin_with(&mut journal, number, records);
        place
    }
}

pub fn begin_with(journal: &mut Journal, number: i64, records: &[&[u8]]) {
    journal.begin(number).unwrap();
    append_all(journal, records);
}

fn append_all(journal: &mut Journal, records: &[&[u8]]) {
    for record in records {
        journal.append(record).unwrap();
    }
}

pub fn segment(number: i64, records: &[&[u8]]) -> Segment {
    Segment { number, records: records.iter().map(|record| record.to_vec()).collect() }
}

/// Whether just this comes back, and nothing is said.
fn check(place: &Place, sealed: i64, expected: Vec<Segment>) {
    let (_, replayed) = place.open(sealed);
    assert_eq!(replayed, Replayed { segments: expected, said: Vec::new() });
}

fn refusal<T: std::fmt::Debug>(place: &Place, outcome: std::io::Result<T>) -> String {
    let folder = format!("{}/", place.folder().display());
    outcome.unwrap_err().to_string().replace(&folder, "")
}

#[test]
fn a_new_journal_is_empty_and_stays_so() {
    let place = Place::new();
    check(&place, 0, vec![]);
    check(&place, 0, vec![]);
}

#[test]
fn what_is_appended_comes_back() {
    let longest = vec![7; 16 << 20];
    let records: [&[u8]; 5] = [b"one", b"", &[0; 40], &longest, b"five"];
    let place = Place::with(1, &records);
    check(&place, 0, vec![segment(1, &records)]);
}

#[test]
fn numbers_below_zero_are_segments_too() {
    let place = Place::with(-3, &[b"a"]);
    check(&place, -4, vec![segment(-3, &[b"a"])]);
}

#[test]
fn a_segment_without_records_comes_back() {
    check(&Place::with(1, &[]), 0, vec![segment(1, &[])]);
}

#[test]
fn two_segments_come_back_oldest_first() {
    let place = Place::with(1, &[b"a", b"b"]);
    begin_with(&mut place.open(0).0, 2, &[b"c"]);
    check(&place, 0, vec![segment(1, &[b"a", b"b"]), segment(2, &[b"c"])]);
    check(&place, 1, vec![segment(2, &[b"c"])]);
    check(&place, 2, vec![]);
}

#[test]
fn appending_goes_on_behind_the_newest() {
    let place = Place::with(1, &[b"a"]);
    begin_with(&mut place.open(0).0, 2, &[b"b"]);
    place.open(0).0.append(b"c").unwrap();
    check(&place, 0, vec![segment(1, &[b"a"]), segment(2, &[b"b", b"c"])]);
}

#[test]
fn a_segment_is_begun_over_the_one_before_the_last() {
    let place = Place::with(1, &[b"a longer one", b"another longer one", b"a third"]);
    let (mut journal, _) = place.open(0);
    begin_with(&mut journal, 2, &[b"b"]);
    begin_with(&mut journal, 3, &[b"c", b"d"]);
    check(&place, 1, vec![segment(2, &[b"b"]), segment(3, &[b"c", b"d"])]);
}

#[test]
fn no_page_is_written_to_again_once_it_is_on_disk() {
    let place = Place::new();
    let (mut journal, _) = place.open(0);
    begin_with(&mut journal, 2, &[b"a", b"b"]);
    journal.sync().unwrap();
    let synced = place.bytes(0);
    append_all(&mut journal, &[b"c", &[4; 5000], b"e"]);
    journal.sync().unwrap();
    append_all(&mut journal, &[b"f"]);
    assert_eq!(place.bytes(0)[..4096], synced[..4096]);
    check(&place, 0, vec![segment(2, &[b"a", b"b", b"c", &[4; 5000], b"e", b"f"])]);
}

#[test]
fn a_file_that_is_used_again_does_not_grow() {
    let place = Place::with(1, &[&[1; 1000]]);
    let (mut journal, _) = place.open(0);
    begin_with(&mut journal, 2, &[b"b"]);
    begin_with(&mut journal, 3, &[&[3; 900], &[3; 900]]);
    assert_eq!([place.bytes(0).len(), place.bytes(1).len()], [256 << 10, 256 << 10]);
}

#[test]
fn records_left_over_never_count() {
    // The new record is as long as the old one, so that the old second is just behind it.
    let place = Place::with(1, &[b"old 1", b"old 2", b"old 3"]);
    let left = place.bytes(1);
    begin_with(&mut place.open(1).0, 3, &[b"new 1"]);
    check(&place, 1, vec![segment(3, &[b"new 1"])]);

    let mut bytes = place.bytes(1);
    let behind = 36 + 8 + 5;
    bytes[behind..].copy_from_slice(&left[behind..]);
    place.set_bytes(1, &bytes);
    assert_eq!(place.open(1).1.segments, [segment(3, &[b"new 1"])], "without the end mark");
}

#[test]
fn the_same_segment_begun_anew_has_none_of_its_former_records() {
    let place = Place::with(1, &[b"former"]);
    let former = place.bytes(1);
    place.set_bytes(1, &[]);
    place.open(0).0.begin(1).unwrap();
    let mut bytes = place.bytes(1);
    bytes[36..].copy_from_slice(&former[36..]);
    place.set_bytes(1, &bytes);
    assert_eq!(place.open(0).1.segments, [segment(1, &[])]);
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let place = Place::new();
    let (mut journal, _) = place.open(5);
    let outcome = journal.append(b"a");
    assert_eq!(
        refusal(&place, outcome),
        "cannot append to the journal cowbell.db-ticks0: begin a segment first"
    );
    let outcome = journal.begin(5);
    assert_eq!(
        refusal(&place, outcome),
        "cannot begin segment 5 in the journal cowbell.db-ticks1: expected one after 5"
    );
    begin_with(&mut journal, 8, &[b"a"]);
    for wrong in [7, 8, i64::MIN] {
        let sentence = refusal(&place, journal.begin(wrong));
        assert!(sentence.ends_with(": expected one after 8"), "{sentence}");
    }
    let outcome = journal.append(&vec![0; (16 << 20) + 1]);
    assert_eq!(
        refusal(&place, outcome),
        "cannot append to the journal cowbell.db-ticks0: expected at most 16777216 bytes, but found 16777217"
    );
    journal.append(b"b").unwrap();
    check(&place, 5, vec![segment(8, &[b"a", b"b"])]);
}

#[test]
fn it_is_read_by_those_who_may_read_the_database() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    std::fs::write(place.database(), "").unwrap();
    std::fs::set_permissions(place.database(), PermissionsExt::from_mode(0o400)).unwrap();
    place.open(0);
    assert_eq!(place.ticks(0).metadata().unwrap().permissions().mode() & 0o777, 0o600);
}
