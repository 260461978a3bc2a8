//! Rows come back as they were, and bytes that are not a chunk are said to be damaged.

use super::Predictor::{Column, Nothing, Sum};
use super::Presence::{Absent, Known, Unknown};
use super::*;

/// Whatever there is.
mod any;

const SHAPE: [Predictor; 4] = [Nothing, Nothing, Sum(0, 1), Column(2)];

fn rows(presence: Vec<Presence>, columns: [Vec<u64>; 4]) -> Rows {
    Rows { presence, columns: columns.into() }
}

/// As many rows as asked for, all known.
fn known<const COLUMNS: usize>(count: u64, row: impl Fn(u64) -> [u64; COLUMNS]) -> Rows {
    let columns = (0..COLUMNS).map(|column| (0..count).map(|index| row(index)[column]).collect()).collect();
    Rows { presence: vec![Known; count as usize], columns }
}

/// The rows come back, and their chunk has so many bytes.
fn check(rows: &Rows, expected_bytes: usize) {
    let shape = vec![Nothing; rows.columns.len()];
    let bytes = encode(&shape, rows);
    assert_eq!(&decode(&shape, &bytes, |_| true).unwrap(), rows);
    assert_eq!(bytes.len(), expected_bytes);
}

/// A body with the checksum that fits.
fn summed(body: &[u8]) -> Vec<u8> {
    [body, &crc32fast::hash(body).to_le_bytes()].concat()
}

fn check_damaged(body: &[u8], expected: &str) {
    assert_eq!(decode(&SHAPE, &summed(body), |_| true).unwrap_err().to_string(), expected);
}

/// Neither regular nor the same on every run of these tests by chance: the same always.
fn scattered(index: u64) -> u64 {
    let mixed = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

#[test]
fn nothing_at_all_comes_back() {
    check(&Rows::default(), 7);
    check(&known(5, |_| []), 7);
}

#[test]
fn an_idle_device_is_eight_bytes() {
    check(&known(600, |_| [0; 8]), 8);
}

#[test]
fn what_never_changes_is_a_few_bytes() {
    check(&known(600, |_| [300, 1 << 40, u64::MAX]), 8 + 1 + 3 + 7 + 11);
}

#[test]
fn a_device_that_came_in_between_is_runs() {
    let mut rows = known(600, |_| [0; 8]);
    rows.presence[..200].fill(Absent);
    rows.presence[200] = Unknown;
    check(&rows, 8 + 5);
}

#[test]
fn work_in_every_other_second_takes_a_bit_each() {
    check(&known(600, |index| [index % 2]), 8 + 75 + 1 + 2);
}

#[test]
fn presence_of_every_kind_in_turn_takes_two_bits_each() {
    let mut rows = known(600, |index| [u64::from(index % 4 == 3)]);
    for (index, presence) in rows.presence.iter_mut().enumerate() {
        *presence = [Absent, Unknown, Known, Known][index % 4];
    }
    check(&rows, 8 + 150 + 1 + 2);
}

#[test]
fn a_few_numbers_are_as_they_are_and_a_few_of_a_row_are_differences() {
    check(&known(3, |index| [1 + index * 5]), 8 - 1 + 1 + 1 + 3);
    check(&known(3, |index| [(1 << 40) + index * 5]), 8 - 1 + 1 + 1 + 6 + 2);
}

#[test]
fn a_volume_that_fills_steadily_is_small() {
    let bytes = encode(&[Nothing], &known(600, |index| [(1 << 44) + index * 4096]));
    assert!(bytes.len() < 40, "{} bytes", bytes.len());
}

#[test]
fn numbers_that_are_scattered_take_little_more_than_their_bits() {
    for bits in [3, 15, 31, 57] {
        let rows = known(600, |index| [1 + scattered(index) % (1 << bits)]);
        let bytes = encode(&[Nothing], &rows);
        assert_eq!(decode(&[Nothing], &bytes, |_| true).unwrap(), rows);
        assert!(bytes.len() < 600 * bits / 8 + 80, "{} bytes for {bits} bits", bytes.len());
    }
}

#[test]
fn sectors_cost_no_more_than_the_pages_they_are() {
    let pages = encode(&[Nothing], &known(600, |index| [1 + scattered(index) % 5000]));
    let sectors = encode(&[Nothing], &known(600, |index| [8 + scattered(index) % 5000 * 8]));
    assert_eq!(pages.len(), sectors.len());
}

#[test]
fn what_is_foretold_costs_next_to_nothing() {
    let row = |index| (scattered(index) % 1000, scattered(index + 600));
    let all = known(600, |index| {
        let (one, other) = row(index);
        [one, other, one.wrapping_add(other), one.wrapping_add(other)]
    });
    let two = known(600, |index| [row(index).0, row(index).1]);
    assert_eq!(encode(&SHAPE, &all).len(), encode(&[Nothing; 2], &two).len() + 2);
}

#[test]
fn only_what_is_wanted_and_what_it_is_foretold_from_comes_back() {
    let all = known(600, |index| [index, scattered(index), 7, 9]);
    let bytes = encode(&SHAPE, &all);
    let lengths = |wanted: usize| {
        let rows = decode(&SHAPE, &bytes, |column| column == wanted).unwrap();
        assert_eq!(rows.columns[wanted], all.columns[wanted]);
        rows.columns.iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(lengths(0), [600, 0, 0, 0]);
    assert_eq!(lengths(1), [0, 600, 0, 0]);
    assert_eq!(lengths(2), [600, 600, 600, 0]);
    assert_eq!(lengths(3), [600, 600, 600, 600]);
}

#[test]
fn an_idle_column_that_is_not_wanted_is_empty_too() {
    let bytes = encode(&SHAPE, &known(600, |_| [0; 4]));
    let rows = decode(&SHAPE, &bytes, |column| column == 1).unwrap();
    assert_eq!(rows.columns, [vec![], vec![0; 600], vec![], vec![]]);
}

#[test]
fn numbers_in_a_row_that_is_not_known_are_not_kept() {
    let columns = || [vec![5, 6], vec![5, 6], vec![5, 6], vec![5, 6]];
    let bytes = encode(&SHAPE, &rows(vec![Known, Unknown], columns()));
    let kept = columns().map(|column| vec![column[0], 0]);
    assert_eq!(decode(&SHAPE, &bytes, |_| true).unwrap(), rows(vec![Known, Unknown], kept));
}

#[test]
fn as_many_rows_as_there_may_be_come_back_and_one_more_is_damaged() {
    let most = known(MOST_ROWS as u64, |index| [index, scattered(index)]);
    let bytes = encode(&[Nothing; 2], &most);
    assert_eq!(decode(&[Nothing; 2], &bytes, |_| true).unwrap(), most);
    check_damaged(&[1, 0, 0x81, 0x80, 0x04], "expected at most 65536 rows, but found 65537");
}

#[test]
fn damage_is_told_in_sentences() {
    assert_eq!(
        decode(&SHAPE, &[], |_| true).unwrap_err().to_string(),
        "expected more bytes, but found the end"
    );
    let flipped = decode(&SHAPE, &[1, 0, 0, 0, 0, 0, 0], |_| true).unwrap_err().to_string();
    assert_eq!(flipped, "expected the checksum 00000000, but found fe83b325");
    check_damaged(&[], "expected more bytes, but found the end");
    check_damaged(&[2, 0, 0], "expected format 1, but found 2");
    check_damaged(&[1, 0, 0, 9], "expected the end, but found 1 more bytes");
    check_damaged(&[1, 0x41, 0], "expected a form of presence, but found 0x41");
    check_damaged(&[1, 1, 3, 0b1101], "expected runs of 3 rows, but found 4");
    check_damaged(&[1, 0b1100, 3, 2], "expected 4 columns, but found 2");
    check_damaged(&[1, 0b1100, 3, 4, 0, 0, 0], "expected more bytes, but found the end");
    check_damaged(&[1, 0b1100, 1, 4, 0, 5, 0x80, 0, 0], "column 1: expected more bytes, but found the end");
    check_damaged(
        &[1, 0b1100, 1, 4, 15, 0xc0, 0, 0, 0, 0, 0],
        "column 0: expected numbers packed in a way that this program packs them, but found 0xc0",
    );
}

#[test]
fn every_flipped_bit_is_found() {
    let bytes = encode(&[Nothing], &known(100, |index| [scattered(index) % 100]));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&[Nothing], &flipped, |_| true).is_err(), "bit {bit}");
    }
}

/// A later pco must still read what this one wrote, and a chunk has no room for another header.
#[test]
fn pco_writes_the_header_that_is_not_kept() {
    assert_eq!(pco::wrapped::FileCompressor::default().write_header(Vec::new()).unwrap(), packed::PCO_HEADER);
}
