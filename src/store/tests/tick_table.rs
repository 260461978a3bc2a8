//! Every row of a range is what its tick says, wherever the tick is kept.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;

use super::cases;
use super::course::{Numbers, course};
use super::series::{everything, kept, range, seen};
use crate::quantity::Observation;
use crate::store::tick::Tick;

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn every_tick_is_told_from_memory_or_the_database(
        ticks in course(Numbers::Usual, 250),
        in_memory in 0..4_usize,
        middle in any::<Index>(),
    ) {
        let (_folder, reader) = kept(&ticks, in_memory, &[]);
        // What is longer than a day is not told tick by tick.
        let middle_ms = ticks[middle.index(ticks.len())].at_ms;
        let (from_ms, to_ms) = (middle_ms - 43_200_000, middle_ms + 43_200_000);
        let range = range(from_ms, to_ms);
        let wanted: Vec<_> = everything().into_iter().map(|(_, wanted)| wanted).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let found = runtime.block_on(reader.tick_table(&wanted, range)).unwrap();
        let mut order: Vec<usize> = (0..found.ends_ms.len()).collect();
        order.sort_by_key(|row| (found.ends_ms[*row], found.elapsed_us[*row]));
        let is_told = |tick: &&Arc<Tick>| tick.elapsed_us > 0 && (from_ms..=to_ms).contains(&tick.at_ms);
        let mut expected: Vec<&Arc<Tick>> = ticks.iter().filter(is_told).collect();
        expected.sort_by_key(|tick| (tick.at_ms, tick.elapsed_us));
        prop_assert!(found.ends_ms.is_sorted());
        prop_assert_eq!(order.len(), expected.len());
        for ((stream, wanted), column) in everything().into_iter().zip(&found.columns) {
            for (row, tick) in order.iter().zip(&expected) {
                let value = seen(tick, stream, wanted.quantity).map(Observation::value);
                prop_assert_eq!(column.as_ref().unwrap()[*row], value.filter(|value| value.is_finite()));
            }
        }
    }
}
