//! What holds for any rows and any bytes.

use proptest::prelude::*;

use super::*;
use crate::store::tests::cases;

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
    let ranged = (near, prop::collection::vec(any::<u64>(), count)).prop_map(|((base, mask), noise)| {
        noise.iter().map(|noise| base.wrapping_add(noise & mask)).collect()
    });
    let rare = prop::collection::vec(prop_oneof![9 => Just(0), 1 => number()], count);
    prop_oneof![prop::collection::vec(number(), count), ranged, rare]
}

fn any_rows() -> impl Strategy<Value = Rows> {
    let count = prop_oneof![9 => 0..80_usize, 1 => 80..700_usize];
    count.prop_flat_map(|count| {
        let columns = prop::collection::vec(column(count), 4);
        (prop::collection::vec(presence(), count), columns).prop_map(|(presence, mut columns)| {
            for column in &mut columns {
                column
                    .iter_mut()
                    .zip(&presence)
                    .filter(|(_, is)| **is != Known)
                    .for_each(|(number, _)| *number = 0);
            }
            Rows { presence, columns }
        })
    })
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn any_rows_come_back(rows in any_rows(), wanted in 0..16_u8) {
        let bytes = encode(&SHAPE, &rows);
        let some = decode(&SHAPE, &bytes, |column| wanted >> column & 1 == 1).unwrap();
        for column in (0..4).filter(|column| wanted >> column & 1 == 1) {
            prop_assert_eq!(&some.columns[column], &rows.columns[column]);
        }
        prop_assert_eq!(decode(&SHAPE, &bytes, |_| true).unwrap(), rows);
    }

    #[test]
    fn what_is_foretold_from_a_mean_comes_back_whatever_it_is(rows in any_rows()) {
        let of = |amount, over| Predictor::Mean(Mean { amount, over, scale: 512e6 });
        let shape = [Nothing, Nothing, of(0, Over::Column(1)), of(1, Over::Usually(10_000_000))];
        prop_assert_eq!(decode(&shape, &encode(&shape, &rows), |_| true).unwrap(), rows);
    }

    #[test]
    fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&SHAPE, &body, |_| true);
        let _ = decode(&SHAPE, &summed(&body), |_| true);
    }

    /// What is behind the checksum holds by itself: here it always fits.
    #[test]
    fn chunks_with_wrong_bytes_are_read_or_refused(
        rows in any_rows(),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut body = encode(&SHAPE, &rows);
        body.truncate(body.len() - 4);
        for (place, byte) in wrong {
            let place = place.index(body.len());
            body[place] = byte;
        }
        body.truncate(cut.map_or(body.len(), |cut| cut.index(body.len())));
        if let Ok(rows) = decode(&SHAPE, &summed(&body), |_| true) {
            prop_assert!(rows.columns.iter().all(|column| column.len() == rows.presence.len()));
        }
    }

    /// Pco gets whatever there is: a form byte and a width before any bytes.
    #[test]
    fn any_bytes_are_unpacked_or_refused(
        width in 0..3_u8,
        begins in prop::sample::select(&[0_u8, 0x10][..]),
        rest in prop::collection::vec(prop_oneof![any::<u8>(), Just(0)], 0..400),
        count in 1..700_usize,
    ) {
        let bytes = [&[width << 6, 0, begins], &rest[..]].concat();
        let _ = packed::read(count, &mut Reader::of(&bytes));
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_varint_is_as_long_as_is_said_and_comes_back(number in number()) {
        let mut bytes = Vec::new();
        varint::write(number, &mut bytes);
        prop_assert_eq!(bytes.len(), varint::length(number));
        prop_assert_eq!(Reader::of(&bytes).number(), Ok(number));
    }

    #[test]
    fn a_number_is_so_far_apart_from_any_other(number in number(), from in number()) {
        prop_assert_eq!(varint::apart(varint::difference(number, from), from), number);
    }
}
