//! Every row of a range, each with its length: what figures are made of, where a chart's points would be too few.
//!
//! Ticks as long as they are kept and not too many, else the finest roll-ups that do. Of a volume's fill a roll-up's
//! most is taken, so that no peak is lost; of all else its mean.

use std::sync::{Arc, PoisonError};

use super::StoreReader;
use super::decoder::QuantityDecoder;
use super::read::{StoredRows, rows_of};
use super::segment::Level;
use super::stream::Stream;
use super::subject::Wanted;
use super::tick::{Cell, Tick};
use crate::series::quantity::Quantity;
use crate::series::{Extent, Range};

/// Rows at most, unless there are as many that are not rolled up yet: a day of ticks of a second, and 16 bytes for each
/// quantity of each.
const MOST_ROWS: usize = 100_000;

/// What was seen of some quantities in a range, row by row in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TickTable {
    /// When each row ended, in milliseconds since 1970.
    pub ends_ms: Vec<i64>,
    /// How long each row is; never 0.
    pub elapsed_us: Vec<u64>,
    /// A value of each row for each quantity that was asked for; `None` of what was never seen.
    pub columns: Vec<Option<Vec<Option<f64>>>>,
}

/// A quantity of which rows are gathered.
struct Column {
    stream: Stream,
    quantity: Quantity,
    values: Vec<Option<f64>>,
}

/// What is gathered, and where.
struct Gathering {
    range: Range,
    rows: TickTable,
    columns: Vec<Option<Column>>,
}

impl StoreReader {
    /// Every row of each of `wanted` over the range.
    pub async fn every(&self, wanted: &[Wanted], range: Range) -> anyhow::Result<TickTable> {
        let column = |wanted: &Wanted| {
            let stream = self.stream(wanted)?;
            Some(Column { stream, quantity: wanted.quantity, values: Vec::new() })
        };
        let columns: Vec<Option<Column>> = wanted.iter().map(column).collect();
        let mut streams: Vec<Stream> = columns.iter().flatten().map(|column| column.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        let (ticks, kept) = self.few_enough(range, &streams).await?;
        let gathering = Gathering { range, rows: TickTable::default(), columns };
        Ok(tokio::task::spawn_blocking(move || gathering.gather(&streams, &kept, &ticks)).await?)
    }

    /// Memory and database at the finest level that has not too many rows.
    async fn few_enough(
        &self,
        range: Range,
        streams: &[Stream],
    ) -> anyhow::Result<(Vec<Arc<Tick>>, StoredRows)> {
        // Of a tick a second there are too many in a longer range, and they are not read to be counted.
        let is_long = range.seconds() > MOST_ROWS as f64;
        let mut level = if is_long { Level::TenSeconds } else { Level::Ticks };
        loop {
            let (ticks, kept) = self.seen(level, range, streams).await?;
            let rows: usize = kept.parts.iter().map(|(_, axis)| axis.len()).sum();
            match Level::ALL.get(level as usize + 1) {
                Some(coarser) if rows > MOST_ROWS => level = *coarser,
                _ => return Ok((ticks, kept)),
            }
        }
    }

    /// The identity of a volume's device by its `vg/lv` or UUID, also when it is gone; layers are told from it.
    pub fn device_identity(&self, volume: &str) -> Option<Arc<str>> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        catalog.identity_of_volume(catalog.volume_named(volume)?)
    }
}

impl Gathering {
    fn gather(mut self, streams: &[Stream], kept: &StoredRows, ticks: &[Arc<Tick>]) -> TickTable {
        for (part, axis) in &kept.parts {
            let is_new = |row: usize| !part.is_covered(axis.numbers[row]);
            let places = self.places(&axis.at_ms, &axis.elapsed_us, is_new);
            self.take(places.iter().map(|row| (axis.at_ms[*row], axis.elapsed_us[*row])));
            let level = part.segment.level();
            for stream in streams {
                let decoder = |column: &Column| QuantityDecoder::new(level, stream.kind, column.quantity);
                let rows = rows_of(*stream, part, axis, &kept.chunks);
                for column in self.columns.iter_mut().flatten().filter(|column| column.stream == *stream) {
                    let decoder = decoder(column);
                    let extent = |row: &usize| decoder.extent(&rows, *row, axis.elapsed_us[*row]);
                    let quantity = column.quantity;
                    column.values.extend(places.iter().map(|row| value(quantity, extent(row)?)));
                }
            }
        }
        self.take_ticks(ticks);
        self.in_order()
    }

    /// Which rows are within the range and have a length.
    fn places(&self, at_ms: &[i64], elapsed_us: &[u64], is_new: impl Fn(usize) -> bool) -> Vec<usize> {
        let (from, to) = (self.range.from.as_millisecond(), self.range.to.as_millisecond());
        let is_wanted = |row: &usize| (from..=to).contains(&at_ms[*row]) && elapsed_us[*row] > 0;
        (0..at_ms.len()).filter(|row| is_wanted(row) && is_new(*row)).collect()
    }

    fn take(&mut self, rows: impl Iterator<Item = (i64, u64)>) {
        let (ends_ms, elapsed_us): (Vec<i64>, Vec<u64>) = rows.unzip();
        self.rows.ends_ms.extend(ends_ms);
        self.rows.elapsed_us.extend(elapsed_us);
    }

    fn take_ticks(&mut self, ticks: &[Arc<Tick>]) {
        let (at_ms, elapsed_us): (Vec<i64>, Vec<u64>) =
            ticks.iter().map(|tick| (tick.at_ms, tick.elapsed_us)).unzip();
        let places = self.places(&at_ms, &elapsed_us, |_| true);
        self.take(places.iter().map(|row| (at_ms[*row], elapsed_us[*row])));
        for column in self.columns.iter_mut().flatten() {
            let (stream, quantity) = (column.stream, column.quantity);
            column.values.extend(places.iter().map(|row| observed(stream, quantity, &ticks[*row])));
        }
    }

    /// Rows are taken as they were written, and a clock may have gone back in between.
    fn in_order(mut self) -> TickTable {
        let values = |column: Option<Column>| column.map(|column| column.values);
        self.rows.columns = self.columns.into_iter().map(values).collect();
        if self.rows.ends_ms.is_sorted() {
            return self.rows;
        }
        let mut order: Vec<usize> = (0..self.rows.ends_ms.len()).collect();
        order.sort_by_key(|row| self.rows.ends_ms[*row]);
        let sorted =
            |values: Vec<Option<f64>>| order.iter().map(|row| values[*row]).collect::<Vec<Option<f64>>>();
        TickTable {
            ends_ms: order.iter().map(|row| self.rows.ends_ms[*row]).collect(),
            elapsed_us: order.iter().map(|row| self.rows.elapsed_us[*row]).collect(),
            columns: self.rows.columns.into_iter().map(|column| column.map(sorted)).collect(),
        }
    }
}

/// `None` where it is no number.
fn value(quantity: Quantity, extent: Extent) -> Option<f64> {
    let value = if matches!(quantity, Quantity::Volume(_)) { extent.max } else { extent.all.value() };
    Some(value).filter(|value| value.is_finite())
}

fn observed(stream: Stream, quantity: Quantity, tick: &Tick) -> Option<f64> {
    let zeros = [0; 16];
    let row = match tick.cell(stream) {
        Cell::Absent | Cell::Unknown => return None,
        Cell::Zero => &zeros[..],
        Cell::Row(row) => row,
    };
    value(quantity, stream.kind.observe(quantity, row, tick.elapsed_us)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Observation;
    use crate::series::quantity::{DeviceQuantity, VolumeQuantity};

    #[test]
    fn of_a_fill_that_was_rolled_up_the_most_is_taken_and_of_a_rate_the_mean() {
        let extent = Extent { all: Observation { amount: 50, over: 10, scale: 1.0 }, min: 1.0, max: 9.0 };
        assert_eq!(value(Quantity::Volume(VolumeQuantity::FillPercent), extent), Some(9.0));
        assert_eq!(value(Quantity::Device(DeviceQuantity::ReadBytes), extent), Some(5.0));
    }
}
