//! Every row of a range is what its tick says, wherever the tick is kept.

use std::sync::Arc;

use proptest::prelude::*;

use super::cases;
use super::course::{Numbers, course};
use super::series::{everything, kept, range, seen};
use crate::series::Observation;
use crate::store::tick::Tick;

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn every_tick_is_told_from_memory_or_the_database(
        ticks in course(Numbers::Usual, 250),
        in_memory in 0..4_usize,
    ) {
        let (_folder, archive) = kept(&ticks, in_memory, &[]);
        let instants = || ticks.iter().map(|tick| tick.at_ms);
        let range = range(instants().min().unwrap(), instants().max().unwrap());
        let wanted: Vec<_> = everything().into_iter().map(|(_, wanted)| wanted).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let found = runtime.block_on(archive.every(&wanted, range)).unwrap();
        let mut order: Vec<usize> = (0..found.ends_ms.len()).collect();
        order.sort_by_key(|row| (found.ends_ms[*row], found.elapsed_us[*row]));
        let mut expected: Vec<&Arc<Tick>> = ticks.iter().filter(|tick| tick.elapsed_us > 0).collect();
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
