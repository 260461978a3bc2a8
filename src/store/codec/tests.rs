//! Rows come back as they were, and bytes that are not a chunk are refused.

use proptest::prelude::*;

use super::Presence::{Absent, Known, Unknown};
use super::*;
use crate::store::tests::cases;

/// As many rows as asked for, all known.
fn known<const COLUMNS: usize>(count: u64, row: impl Fn(u64) -> [u64; COLUMNS]) -> Rows {
    let columns = (0..COLUMNS)
        .map(|column| (0..count).map(|index| row(index)[column]).collect())
        .collect();
    Rows {
        presence: vec![Known; count as usize],
        columns,
    }
}

/// The rows come back; says how many bytes their chunk has.
fn check(rows: &Rows) -> usize {
    let bytes = encode(rows).unwrap();
    assert_eq!(&decode(rows.columns.len(), &bytes).unwrap(), rows);
    bytes.len()
}

/// A body with the checksum that fits.
fn summed(body: &[u8]) -> Vec<u8> {
    [body, &crc32fast::hash(body).to_le_bytes()].concat()
}

/// A chunk that claims so many rows and holds these bytes.
fn chunk(rows: u32, plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(
        [&[FORMAT], &rows.to_le_bytes()[..]].concat(),
        Compression::default(),
    );
    encoder.write_all(plain).unwrap();
    summed(&encoder.finish().unwrap())
}

fn check_damaged(chunk: &[u8], expected: &str) {
    assert_eq!(decode(2, chunk).unwrap_err().to_string(), expected);
}

/// Neither regular nor the same on every run of these tests by chance: the same always.
fn scattered(index: u64) -> u64 {
    let mixed = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

#[test]
fn nothing_at_all_comes_back() {
    check(&Rows::default());
    check(&known(5, |_| []));
}

#[test]
fn an_idle_device_takes_a_few_bytes() {
    assert!(check(&known(600, |_| [0; 8])) < 50);
}

#[test]
fn what_never_changes_takes_a_few_bytes() {
    assert!(check(&known(600, |_| [300, 1 << 40, u64::MAX])) < 80);
}

#[test]
fn a_device_that_came_in_between_takes_a_few_bytes_more() {
    let mut rows = known(600, |_| [0; 8]);
    rows.presence[..200].fill(Absent);
    rows.presence[200] = Unknown;
    assert!(check(&rows) < 60);
}

#[test]
fn a_volume_that_fills_steadily_is_small() {
    assert!(check(&known(600, |index| [(1 << 44) + index * 4096])) < 60);
}

#[test]
fn numbers_that_are_scattered_take_little_more_than_their_varints() {
    for bits in [3_usize, 15, 31, 57] {
        let bytes = check(&known(600, |index| [1 + scattered(index) % (1 << bits)]));
        assert!(
            bytes < 600 * (bits + 1).div_ceil(7) + 80,
            "{bytes} bytes for {bits} bits"
        );
    }
}

#[test]
fn as_many_rows_as_there_may_be_come_back_and_one_more_is_refused() {
    check(&known(MOST_ROWS as u64, |index| [index, scattered(index)]));
    let refused = encode(&known(MOST_ROWS as u64 + 1, |_| [0]))
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "expected at most 16384 rows in a segment, but found 16385"
    );
    check_damaged(
        &chunk(16_385, &[]),
        "expected at most 16384 rows, but found 16385",
    );
}

#[test]
fn columns_of_other_lengths_are_refused() {
    assert!(
        encode(&Rows {
            presence: vec![Known],
            columns: vec![vec![]]
        })
        .is_err()
    );
}

#[test]
fn damage_is_said_in_sentences() {
    check_damaged(&[], "expected more bytes, but found the end");
    check_damaged(
        &[1, 0, 0, 0, 0, 0, 0],
        "expected the checksum 00000000, but found fe83b325",
    );
    check_damaged(&summed(&[]), "expected more bytes, but found the end");
    check_damaged(
        &summed(&[2, 0, 0]),
        "expected more bytes, but found the end",
    );
    check_damaged(&summed(&[1, 0, 0, 0, 0]), "expected format 2, but found 1");
    check_damaged(&chunk(1, &[]), "expected more bytes, but found the end");
    check_damaged(&chunk(1, &[3, 0, 0]), "expected a presence, but found 3");
    check_damaged(&chunk(1, &[2, 0]), "expected more bytes, but found the end");
    check_damaged(
        &chunk(1, &[2, 0x80, 0x80]),
        "expected more bytes, but found the end",
    );
    check_damaged(
        &chunk(1, &[2, 0, 0, 0]),
        "expected the end, but found more bytes",
    );
    let too_long = [&[2_u8][..], &[0x80; 9], &[2, 0]].concat();
    check_damaged(
        &chunk(1, &too_long),
        "expected a number of at most 64 bits, but found more",
    );
    let broken = decode(2, &summed(&[2, 1, 0, 0, 0, 0xff]))
        .unwrap_err()
        .to_string();
    assert!(
        broken.starts_with("expected compressed rows, but found: "),
        "{broken}"
    );
}

/// A few kilobytes that unpack to gigabytes: no more is unpacked than the rows can need.
#[test]
fn a_chunk_that_unpacks_to_more_than_its_rows_is_refused() {
    let zeros = vec![0; 64 << 20];
    check_damaged(&chunk(1, &zeros), "expected the end, but found more bytes");
    let chunk = chunk(MOST_ROWS as u32, &zeros);
    assert!(chunk.len() < 300_000);
    check_damaged(&chunk, "expected the end, but found more bytes");
}

#[test]
fn every_flipped_bit_is_found() {
    let bytes = encode(&known(100, |index| [scattered(index) % 100])).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(1, &flipped).is_err(), "bit {bit}");
    }
}

fn presence() -> impl Strategy<Value = Presence> {
    prop_oneof![1 => Just(Absent), 1 => Just(Unknown), 8 => Just(Known)]
}

/// Numbers of any length, each length as likely.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..=64_u32).prop_map(|(number, shift)| number.checked_shr(shift).unwrap_or(0))
}

/// Columns such as there are: some of any numbers, some of a narrow range far up, some nearly always the same.
fn column(count: usize) -> impl Strategy<Value = Vec<u64>> {
    let near = (number(), 0..40_u32).prop_map(|(base, bits)| (base, (1_u64 << bits) - 1));
    let ranged =
        (near, prop::collection::vec(any::<u64>(), count)).prop_map(|((base, mask), noise)| {
            noise
                .iter()
                .map(|noise| base.wrapping_add(noise & mask))
                .collect()
        });
    let rare = prop::collection::vec(prop_oneof![9 => Just(0), 1 => number()], count);
    prop_oneof![prop::collection::vec(number(), count), ranged, rare]
}

fn any_rows() -> impl Strategy<Value = Rows> {
    let count = prop_oneof![9 => 0..80_usize, 1 => 80..700_usize];
    count.prop_flat_map(|count| {
        let columns = prop::collection::vec(column(count), 4);
        (prop::collection::vec(presence(), count), columns)
            .prop_map(|(presence, columns)| Rows { presence, columns })
    })
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn any_rows_come_back(rows in any_rows()) {
        prop_assert_eq!(decode(4, &encode(&rows).unwrap()).unwrap(), rows);
    }

    #[test]
    fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..300), rows in 0..400_u32) {
        let _ = decode(4, &body);
        let _ = decode(4, &summed(&body));
        let _ = decode(4, &chunk(rows, &body));
    }

    /// What is behind the checksum holds by itself: here it always fits.
    #[test]
    fn chunks_with_wrong_bytes_are_read_or_refused(
        rows in any_rows(),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut body = encode(&rows).unwrap();
        body.truncate(body.len() - 4);
        for (place, byte) in wrong {
            let place = place.index(body.len());
            body[place] = byte;
        }
        body.truncate(cut.map_or(body.len(), |cut| cut.index(body.len())));
        if let Ok(rows) = decode(4, &summed(&body)) {
            prop_assert!(rows.columns.iter().all(|column| column.len() == rows.presence.len()));
        }
    }
}
