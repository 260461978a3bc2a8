//! Files that are torn, flipped, swapped, another's, or no files.

use super::{ID, Journal, Place, Replayed, begin_with, check, refusal, segment};

const RECORDS: [&[u8]; 3] = [b"first", b"second one", b"the third record"];
/// Where the last of them starts in a file, and where it ends.
const LAST: std::ops::Range<usize> = 36 + 13 + 18..36 + 13 + 18 + 24;

/// Two of three come back and the loss is said; then a new third, as long as the old, comes back too.
fn check_last_left_out(place: &Place, what: &str) {
    let (mut journal, replayed) = place.open(0);
    assert_eq!(replayed.segments, [segment(1, &RECORDS[..2])], "{what}");
    let [said] = &replayed.said[..] else { panic!("{what}: {:?}", replayed.said) };
    let expected = "cowbell.db-ticks1, expected a whole record of segment 1 behind the first 2, but found a torn one at byte 67; \
                    it is left out, with what may be behind it; a copy of the file is ";
    assert!(said.contains(expected), "{what}: {said}");
    journal.append(b"third once again").unwrap();
    check(place, 0, vec![segment(1, &[RECORDS[0], RECORDS[1], b"third once again"])]);
}

/// The state before a write, overwritten with the first `count` bytes of it.
fn torn(before: &[u8], after: &[u8], count: usize) -> Vec<u8> {
    [&after[..LAST.start + count], &before[LAST.start + count..]].concat()
}

fn check_torn_at_every_byte(place: &Place, before: &[u8]) {
    let after = place.bytes(1);
    check(place, 0, vec![segment(1, &RECORDS)]);
    for count in 1..LAST.len() {
        place.set_bytes(1, &torn(before, &after, count));
        check_last_left_out(place, &format!("torn at {count}"));
    }
    place.set_bytes(1, &torn(before, &after, 0));
    check(place, 0, vec![segment(1, &RECORDS[..2])]);
}

#[test]
fn a_record_torn_at_any_byte_is_left_out() {
    let place = Place::with(1, &RECORDS[..2]);
    let before = place.bytes(1);
    place.open(0).0.append(RECORDS[2]).unwrap();
    check_torn_at_every_byte(&place, &before);
}

#[test]
fn a_record_torn_over_older_ones_is_left_out() {
    let place = Place::with(-1, &[&[0xff; 30], &[0xff; 30], &[0xff; 30], &[0xff; 30]]);
    begin_with(&mut place.open(0).0, 1, &RECORDS[..2]);
    let before = place.bytes(1);
    place.open(0).0.append(RECORDS[2]).unwrap();
    check_torn_at_every_byte(&place, &before);
}

#[test]
fn a_file_that_ends_in_the_last_record_leaves_it_out() {
    let place = Place::with(1, &RECORDS);
    let whole = place.bytes(1);
    for end in LAST.start + 1..LAST.end {
        place.set_bytes(1, &whole[..end]);
        check_last_left_out(&place, &format!("ends at {end}"));
    }
    for end in [LAST.end, LAST.end + 3] {
        place.set_bytes(1, &whole[..end]);
        check(&place, 0, vec![segment(1, &RECORDS)]);
    }
}

#[test]
fn a_flipped_bit_in_the_last_record_leaves_it_out() {
    let place = Place::with(1, &RECORDS);
    let whole = place.bytes(1);
    for bit in LAST.map(|byte| byte * 8 + byte % 8) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        place.set_bytes(1, &bytes);
        check_last_left_out(&place, &format!("bit {bit}"));
    }
}

#[test]
fn a_whole_record_behind_a_torn_one_never_counts_again() {
    let place = Place::with(1, &RECORDS);
    let mut bytes = place.bytes(1);
    bytes[36 + 13 + 8] ^= 1;
    place.set_bytes(1, &bytes);
    let (mut journal, replayed) = place.open(0);
    assert_eq!(replayed.segments, [segment(1, &RECORDS[..1])]);
    journal.append(b"second now").unwrap();

    // The page with the end mark was not written when the power was cut.
    let mut bytes = place.bytes(1);
    bytes[LAST].copy_from_slice(&Place::with(1, &RECORDS).bytes(1)[LAST]);
    place.set_bytes(1, &bytes);
    assert_eq!(place.open(0).1.segments, [segment(1, &[RECORDS[0], b"second now"])]);
}

#[test]
fn a_file_damaged_in_its_header_is_set_aside() {
    // One bit of each byte, each time another.
    for bit in (0..36).map(|byte| byte * 8 + byte % 8) {
        let place = Place::with(1, &[b"a"]);
        begin_with(&mut place.open(0).0, 2, &[b"b"]);
        let mut bytes = place.bytes(1);
        bytes[bit / 8] ^= 1 << (bit % 8);
        place.set_bytes(1, &bytes);
        let said = check_set_aside(&place, 1, &bytes, vec![segment(2, &[b"b"])]);
        assert!(said.starts_with("the journal cowbell.db-ticks1 cannot be used: expected "), "{said}");
    }
}

/// One file is set aside as it was, the rest comes back, and at the next start nothing is said.
fn check_set_aside(place: &Place, sealed: i64, bytes: &[u8], rest: Vec<super::Segment>) -> String {
    let before = place.set_aside();
    let (_, Replayed { segments, mut said }) = place.open(sealed.min(0));
    assert_eq!(segments, rest);
    let new: Vec<_> = place.set_aside().into_iter().filter(|path| !before.contains(path)).collect();
    assert_eq!((new.len(), said.len()), (1, 1), "{said:?}");
    assert!(said[0].ends_with(&format!("; it is now {}", new[0].display())), "{said:?}");
    assert!(std::fs::read(&new[0]).unwrap() == bytes);
    check(place, sealed.min(0), rest);
    said.remove(0).replace(&format!("{}/", place.folder().display()), "")
}

fn check_reason(bytes: &[u8], turn: usize, reason: &str) {
    let place = Place::new();
    place.set_bytes(turn, bytes);
    let said = check_set_aside(&place, 0, bytes, vec![]);
    assert!(said.contains(&format!(" cannot be used: {reason}; it is now ")), "{said}");
}

#[test]
fn what_does_not_fit_is_said() {
    let ours = Place::with(1, &RECORDS).bytes(1);
    check_reason(&ours[..35], 1, "it ends within its header");
    check_reason(b"x", 0, "it ends within its header");
    check_reason(&ours, 0, "segment 1 belongs in the other file");
    let text = b"Dear diary, today I was left where a journal should be";
    check_reason(text, 0, r#"expected "cowbellJ" at its start, but found "Dear dia""#);
    let newer = [&ours[..8], &[2], &ours[9..]].concat();
    check_reason(&newer, 1, "expected format 1, but found 2");
    let blanked = [&[0; 4096], &ours[4096..], b"x"].concat();
    check_reason(
        &blanked,
        1,
        r#"expected "cowbellJ" at its start, but found "\x00\x00\x00\x00\x00\x00\x00\x00""#,
    );
}

#[test]
fn another_databases_file_is_set_aside() {
    let place = Place::with(1, &RECORDS);
    let bytes = place.bytes(1);
    let (_, replayed) = Journal::open(&place.database(), ID + 1, 0).unwrap();
    assert_eq!(replayed.segments, []);
    let expected =
        "cannot be used: expected database 00c0ffee0badcaff, but found 00c0ffee0badcafe; it is now ";
    assert!(replayed.said[0].contains(expected), "{:?}", replayed.said);
    assert!(std::fs::read(&place.set_aside()[0]).unwrap() == bytes);
}

#[test]
fn setting_aside_deletes_nothing_that_was_set_aside() {
    let place = Place::new();
    for count in 1..10 {
        let bytes = format!("damaged for the {count}th time");
        place.set_bytes(0, bytes.as_bytes());
        check_set_aside(&place, 0, bytes.as_bytes(), vec![]);
        assert_eq!(place.set_aside().len(), count);
    }
}

#[test]
fn a_file_of_zeros_is_a_new_one() {
    let place = Place::new();
    for length in [1, 35, 36, 300_000] {
        place.set_bytes(1, &vec![0; length]);
        check(&place, 0, vec![]);
    }
    begin_with(&mut place.open(0).0, 1, &RECORDS);
    check(&place, 0, vec![segment(1, &RECORDS)]);
}

#[test]
fn a_folder_in_place_of_a_file_is_an_error() {
    let place = Place::with(1, &RECORDS);
    std::fs::create_dir(place.folder().join("of.db-ticks1")).unwrap();
    let outcome = Journal::open(&place.folder().join("of.db"), ID, 0);
    assert_eq!(
        refusal(&place, outcome),
        "cannot open the journal of.db-ticks1: expected a regular file, but found something else; move it away"
    );
}

#[test]
fn something_else_in_place_of_a_file_is_an_error() {
    let place = Place::new();
    let expected = "cannot open the journal cowbell.db-ticks0: expected a regular file, but found something else; move it away";
    let check = || {
        assert_eq!(refusal(&place, Journal::open(&place.database(), ID, 0)), expected);
        assert_eq!(refusal(&place, Journal::look(&place.database(), ID, 0)), expected);
        std::fs::remove_file(place.ticks(0)).unwrap();
    };
    std::os::unix::fs::symlink("/dev/null", place.ticks(0)).unwrap();
    check();
    // Who opens one waits.
    rustix::fs::mknodat(rustix::fs::CWD, place.ticks(0), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    check();
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let place = Place::new();
    let outcome = Journal::open(&place.folder().join("none/of.db"), ID, 0);
    let expected = "cannot open the journal none/of.db-ticks0: No such file or directory (os error 2)";
    assert_eq!(refusal(&place, outcome), expected);
}

#[test]
fn a_read_only_file_is_an_error_and_stays_as_it_is() {
    let place = Place::with(1, &RECORDS);
    let (mut journal, _) = place.open(0);
    let mut permissions = place.ticks(1).metadata().unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(place.ticks(1), permissions).unwrap();
    journal.append(b"to a file that was opened before").unwrap();

    // Root writes to what is read-only.
    if !rustix::process::geteuid().is_root() {
        let bytes = place.bytes(1);
        let outcome = Journal::open(&place.database(), ID, 0);
        let expected = "cannot open the journal cowbell.db-ticks1: Permission denied (os error 13)";
        assert_eq!(refusal(&place, outcome), expected);
        assert!(place.bytes(1) == bytes && place.set_aside().is_empty());
    }
}
