//! Every row of a range with its length. Figures are computed from these rows, since a chart has too few points.
//!
//! The rows are ticks if they are still stored and not too many, otherwise the finest roll-ups. A volume's fill is the
//! maximum of a roll-up, so that no peak is lost. All other values are means.

use std::sync::{Arc, PoisonError};

use super::StoreReader;
use super::read::StoredRange;
use super::readers::on_a_thread;
use super::rollup::Value;
use super::segment::Level;
use super::stream::Stream;
use super::subject::SeriesKey;
use crate::quantity::{Extent, Quantity, RowKind};
use crate::series::Range;

/// Maximum rows, apart from ticks that are not rolled up yet: a day at one tick a second. A row takes 16 bytes for each
/// quantity.
const MOST_ROWS: usize = 100_000;

/// Some quantities in a range, row by row, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TickTable {
    /// When each row ended, in milliseconds since 1970.
    pub ends_ms: Vec<i64>,
    /// The length of each row; never 0.
    pub elapsed_us: Vec<u64>,
    /// The values of each requested quantity, one for each row; `None` for a subject that was never seen.
    pub columns: Vec<Option<Vec<Option<f64>>>>,
}

impl StoreReader {
    /// Every row of each of `wanted` over the range.
    pub async fn tick_table(
        &self,
        wanted: &[SeriesKey],
        range: Range,
    ) -> anyhow::Result<TickTable> {
        let streams = self.streams(wanted);
        // At one tick a second, a longer range has too many ticks. They are not counted by reading them.
        let is_long = range.seconds() > MOST_ROWS as f64;
        let mut level = if is_long {
            Level::Minutes
        } else {
            Level::Ticks
        };
        loop {
            let found = self.stored(level, range, &streams).await?;
            let rows: usize = found
                .stored
                .iter()
                .map(|(_, segment)| segment.axis.len())
                .sum();
            match Level::ALL.get(level as usize + 1) {
                Some(coarser) if rows > MOST_ROWS => level = *coarser,
                _ => return Ok(on_a_thread(move || table(&found, &streams, range)).await?),
            }
        }
    }

    /// The identity of a volume's last device, by `vg/lv` or UUID.
    pub fn device_identity(&self, volume: &str) -> Option<Arc<str>> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        catalog.identity_of_volume(catalog.volume_named(volume)?)
    }
}

fn table(found: &StoredRange, wanted: &[Option<(Stream, Quantity)>], range: Range) -> TickTable {
    let (from_ms, to_ms) = (range.from.as_millisecond(), range.to.as_millisecond());
    let Some(first) = wanted.iter().position(Option::is_some) else {
        return TickTable {
            columns: vec![None; wanted.len()],
            ..TickTable::default()
        };
    };
    let mut axis: Vec<(i64, u64)> = Vec::new();
    let mut columns: Vec<Option<Vec<Option<f64>>>> = wanted
        .iter()
        .map(|wanted| wanted.map(|_| Vec::new()))
        .collect();
    found.each(wanted, |index, (at_ms, elapsed_us, extent): Value| {
        if !(from_ms..=to_ms).contains(&at_ms) || elapsed_us == 0 {
            return;
        }
        // All columns have the same rows.
        if index == first {
            axis.push((at_ms, elapsed_us));
        }
        if let (Some(column), Some((_, quantity))) = (&mut columns[index], wanted[index]) {
            column.push(extent.and_then(|extent| value(quantity, extent)));
        }
    });
    // The clock may have gone back.
    let mut order: Vec<usize> = (0..axis.len()).collect();
    order.sort_by_key(|row| axis[*row].0);
    let sorted =
        |values: Vec<Option<f64>>| order.iter().map(|row| values[*row]).collect::<Vec<_>>();
    TickTable {
        ends_ms: order.iter().map(|row| axis[*row].0).collect(),
        elapsed_us: order.iter().map(|row| axis[*row].1).collect(),
        columns: columns
            .into_iter()
            .map(|column| column.map(sorted))
            .collect(),
    }
}

/// `None` if it is not a number.
fn value(quantity: Quantity, extent: Extent) -> Option<f64> {
    let value = if quantity.kind() == RowKind::Volume {
        extent.max
    } else {
        extent.all.value()
    };
    Some(value).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Observation;

    #[test]
    fn of_a_fill_that_was_rolled_up_the_largest_is_taken_and_of_a_rate_the_mean() {
        let extent = Extent {
            all: Observation {
                amount: 50,
                over: 10,
                scale: 1.0,
            },
            min: 1.0,
            max: 9.0,
        };
        assert_eq!(value(Quantity::FillPercent, extent), Some(9.0));
        assert_eq!(value(Quantity::ReadBytes, extent), Some(5.0));
    }
}
