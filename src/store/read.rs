//! Rows of a range as series and tables, from the database and, for the last 20 minutes, from memory.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use anyhow::Context;
use sqlx::{Connection, SqliteConnection};

use super::StoreReader;
use super::address::{Level, Position, Stream};
use super::catalog::DeviceRow;
use super::readers::on_a_thread;
use super::recent::TickRecord;
use super::record::Decoder;
use super::rollup::extent;
use super::scan::{RangeScan, StoredRow};
use super::stored::count_rows;
use super::subject::{SeriesKey, Subject};
use crate::quantity::{Extent, Quantity, RowKind};
use crate::series::{Downsampler, Range, Series};

/// So many ticks in memory are summarised sooner than a thread is woken.
const QUICK_TICKS: usize = 1_500;
/// Series of longer ranges are made of roll-ups, however many points are asked for: a day of ticks takes seconds to read,
/// six hours are five megabytes. An export has every tick.
const LONGEST_OF_TICKS_MS: i64 = 6 * HOUR_MS;
/// Series of longer ranges are made of rows of ten minutes.
const LONGEST_OF_MINUTES_MS: i64 = 14 * 24 * HOUR_MS;
const HOUR_MS: i64 = 3600 * 1000;
/// Maximum rows of a table, apart from ticks that are not rolled up yet: a day at one tick a second. A row takes 16 bytes
/// for each quantity.
const MOST_ROWS: u32 = 100_000;

/// A series to read: its stream and quantity; `None` for a subject that was never seen.
pub type Wanted = Option<(Stream, Quantity)>;

/// The rows of some quantities, row by row.
///
/// Figures are computed from these rows, since a chart has too few points. The rows are ticks if they are still stored and
/// not too many, otherwise the finest roll-ups. A volume's fill is the maximum of a roll-up, so that no peak is lost. All
/// other values are means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TickTable {
    /// When each row ended, in milliseconds since 1970, in order of time.
    pub ends_ms: Vec<i64>,
    /// The length of each row; never 0.
    pub elapsed_us: Vec<u64>,
    /// The values of each requested quantity, one for each row; `None` for a subject that was never seen.
    pub columns: Vec<Option<Vec<Option<f64>>>>,
}

/// Takes the values of the wanted quantities, row by row.
trait RowSink: Send + 'static {
    fn row(&mut self, at_ms: i64, elapsed_us: u64, values: &[Option<Extent>]);
}

/// Decodes rows, and hands those of the range to the sink.
struct RangeReader<Sink> {
    wanted: Vec<Wanted>,
    times: (i64, i64),
    decoder: Decoder,
    /// Of the current row.
    values: Vec<Option<Extent>>,
    /// Rows that could not be decoded.
    unreadable: usize,
    sink: Sink,
}

impl<Sink: RowSink> RangeReader<Sink> {
    fn new(wanted: Vec<Wanted>, range: Range, sink: Sink) -> Self {
        Self {
            wanted,
            times: times(range),
            decoder: Decoder::new(Level::Ticks),
            values: Vec::new(),
            unreadable: 0,
            sink,
        }
    }

    /// Takes the next row. One that cannot be decoded is a gap.
    fn take(&mut self, position: Position, record: &[u8]) {
        let is_readable = self.decoder.decode(position, record).is_ok();
        self.take_decoded(position, is_readable);
    }

    fn take_decoded(&mut self, position: Position, is_readable: bool) {
        let (from_ms, to_ms) = self.times;
        if !(from_ms..=to_ms).contains(&position.at_ms) {
            return;
        }
        self.unreadable += usize::from(!is_readable);
        let elapsed_us = self.decoder.elapsed_us();
        self.values.clear();
        for wanted in &self.wanted {
            let value = wanted
                .filter(|_| is_readable)
                .and_then(|(stream, quantity)| {
                    let row = self.decoder.row(stream)?;
                    extent(self.decoder.level(), stream, quantity, row, elapsed_us)
                });
            self.values.push(value);
        }
        self.sink.row(position.at_ms, elapsed_us, &self.values);
    }

    fn take_stored(&mut self, level: Level, rows: &[StoredRow]) {
        if self.decoder.level() != level {
            self.decoder = Decoder::new(level);
        }
        for row in rows {
            self.take(row.position, &row.record);
        }
    }

    /// Takes ticks in memory that follow the stored rows.
    fn take_recent(mut self, ticks: &[TickRecord]) -> Self {
        self.decoder = Decoder::new(Level::Ticks);
        let mut ticks = ticks.iter();
        if let Some(first) = ticks.as_slice().first()
            && let Some(decoder) = &first.decoder
        {
            self.decoder = Decoder::clone(decoder);
            self.take_decoded(first.position, true);
            ticks.next();
        }
        for tick in ticks {
            self.take(tick.position, &tick.record);
        }
        self
    }

    fn finish(self) -> Sink {
        if self.unreadable > 0 {
            tracing::warn!(
                "{} stored rows are damaged and shown as a gap; `cowbell db verify` says more",
                self.unreadable
            );
        }
        self.sink
    }
}

fn times(range: Range) -> (i64, i64) {
    (range.from.as_millisecond(), range.to.as_millisecond())
}

/// Ticks for a few hours, so that a range ends exactly where it is asked to; otherwise the coarsest level with at least two
/// rows for each point, if those are not too many to read.
fn level_for(range: Range, points: usize) -> Level {
    let (from_ms, to_ms) = times(range);
    let width_ms = Downsampler::new(range, points).width_ms();
    let length_ms = to_ms - from_ms;
    if length_ms <= LONGEST_OF_TICKS_MS {
        Level::Ticks
    } else if length_ms <= LONGEST_OF_MINUTES_MS && width_ms < 2 * Level::TenMinutes.row_ms() {
        Level::Minutes
    } else {
        Level::TenMinutes
    }
}

impl StoreReader {
    /// The series of `wanted` over the range, read in one pass, with at most `points` points each. `None` for a subject that
    /// was never seen. [`super::ReadError`] if the database is needed and does not answer.
    pub async fn series(
        &self,
        wanted: &[SeriesKey],
        range: Range,
        points: usize,
    ) -> anyhow::Result<Vec<Option<Series>>> {
        let wanted = self.wanted(wanted);
        let sink = Samplers::new(&wanted, range, points);
        let level = level_for(range, points);
        Ok(self.read(level, wanted, range, sink).await?.finish())
    }

    /// The same from memory only: the last 20 minutes, and all data that is not written yet.
    pub fn series_in_memory(
        &self,
        wanted: &[SeriesKey],
        range: Range,
        points: usize,
    ) -> Vec<Option<Series>> {
        let wanted = self.wanted(wanted);
        let sink = Samplers::new(&wanted, range, points);
        let ticks = within(self.recent.view().ticks, range, None);
        let reader = RangeReader::new(wanted, range, sink);
        reader.take_recent(&ticks).finish().finish()
    }

    /// Every row of each of `wanted` over the range.
    pub async fn tick_table(
        &self,
        wanted: &[SeriesKey],
        range: Range,
    ) -> anyhow::Result<TickTable> {
        let level = self.table_level(range).await?;
        let wanted = self.wanted(wanted);
        let table = TickTable {
            columns: wanted
                .iter()
                .map(|wanted| wanted.map(|_| Vec::new()))
                .collect(),
            ..TickTable::default()
        };
        let sink = TableSink {
            quantities: wanted
                .iter()
                .map(|wanted| wanted.map(|(_, quantity)| quantity))
                .collect(),
            table,
        };
        let sink = self.read(level, wanted, range, sink).await?;
        Ok(on_a_thread(move || sink.table.sorted()).await?)
    }

    /// The finest level with few enough rows.
    async fn table_level(&self, range: Range) -> anyhow::Result<Level> {
        let minutes = (range.seconds() / 60.0) as u32;
        if minutes > MOST_ROWS {
            return Ok(Level::TenMinutes);
        }
        // At one tick a second, a longer range has too many ticks. They are not counted by reading them.
        if range.seconds() > f64::from(MOST_ROWS) {
            return Ok(Level::Minutes);
        }
        if self.has_all_in_memory(range) {
            return Ok(Level::Ticks);
        }
        let count = self.readers.read(async move |connection| {
            count_rows(connection, Level::Ticks, times(range), MOST_ROWS + 1).await
        });
        match count.await.context("cannot count ticks")? {
            count if count > MOST_ROWS => Ok(Level::Minutes),
            _ => Ok(Level::Ticks),
        }
    }

    fn has_all_in_memory(&self, range: Range) -> bool {
        let from_ms = range.from.as_millisecond();
        self.check_open().is_err() || self.recent.view().reaches_back_to(from_ms)
    }

    /// Hands all rows of the range to the sink: those that only the database has, and the ticks in memory.
    async fn read<Sink: RowSink>(
        &self,
        level: Level,
        wanted: Vec<Wanted>,
        range: Range,
        sink: Sink,
    ) -> anyhow::Result<Sink> {
        let view = self.recent.view();
        let needs_stored = wanted.iter().any(Option::is_some)
            && self.check_open().is_ok()
            && !view.reaches_back_to(range.from.as_millisecond());
        let mut reader = RangeReader::new(wanted, range, sink);
        let mut rolled = None;
        if needs_stored {
            let in_memory = view.first();
            let read = self.readers.read(async move |connection| {
                read_stored(connection, level, in_memory, reader).await
            });
            (reader, rolled) = read.await.context("cannot read ticks")?;
        }
        let ticks = within(view.ticks, range, rolled.filter(|_| level > Level::Ticks));
        if ticks.len() <= QUICK_TICKS {
            return Ok(reader.take_recent(&ticks).finish());
        }
        Ok(on_a_thread(move || reader.take_recent(&ticks).finish()).await?)
    }

    /// The finest level that has data in the range; `None` if there are none.
    pub async fn finest(&self, range: Range) -> anyhow::Result<Option<Level>> {
        let (from_ms, to_ms) = times(range);
        let recent = self.recent.view().ticks;
        if recent
            .iter()
            .any(|tick| (from_ms..=to_ms).contains(&tick.position.at_ms))
        {
            return Ok(Some(Level::Ticks));
        }
        if self.check_open().is_err() {
            return Ok(None);
        }
        let finest = self.readers.read(async move |connection| {
            for level in Level::ALL {
                if count_rows(connection, level, (from_ms, to_ms), 1).await? > 0 {
                    return Ok(Some(level));
                }
            }
            Ok(None)
        });
        finest.await.context("cannot read what is stored")
    }

    /// The stream of each; `None` if the subject was never seen.
    fn wanted(&self, keys: &[SeriesKey]) -> Vec<Wanted> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter()
            .map(|key| Some((key.stream(&catalog)?, key.quantity)))
            .collect()
    }

    /// The device last seen with this identity, kernel name or label.
    pub fn device(&self, name: &str) -> Option<DeviceRow> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        let row = catalog.device_named(name)?;
        catalog.device_rows.get(&row).cloned()
    }

    /// The identity of the last device of a volume, if it was ever seen.
    pub fn device_identity(&self, volume: &str) -> Option<Arc<str>> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        catalog.identity_of_volume(catalog.volume_named(volume)?)
    }

    /// The UUIDs of the volumes that this group had, by name, the last ones of each name.
    pub fn volumes_of(&self, vg: &str) -> BTreeMap<String, Arc<str>> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        let mut rows: Vec<_> = catalog
            .volume_rows
            .values()
            .filter(|row| row.vg == vg)
            .collect();
        rows.sort_by_key(|row| row.last_seen_ms);
        rows.into_iter()
            .map(|row| (row.lv.clone(), Arc::clone(&row.uuid)))
            .collect()
    }

    /// Whether anything of this subject was ever stored.
    pub fn knows(&self, subject: &Subject) -> bool {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        subject.stream(&catalog).is_some()
    }
}

/// Hands the database's rows to the sink. Returns the reader, and the last tick that is part of roll-ups.
async fn read_stored<Sink: RowSink>(
    connection: &mut SqliteConnection,
    wanted: Level,
    in_memory: Option<Position>,
    mut reader: RangeReader<Sink>,
) -> anyhow::Result<(RangeReader<Sink>, Option<Position>)> {
    // One transaction, so that ticks that are rolled up meanwhile are read once.
    let mut transaction = connection.begin().await?;
    let mut scan = RangeScan::new(&mut transaction, wanted, reader.times, in_memory).await?;
    while let Some((level, rows)) = scan.next(&mut transaction).await? {
        reader.take_stored(level, &rows);
    }
    Ok((reader, scan.rolled))
}

/// The ticks of a range after a position, from a tick on that can be read without those before.
fn within(mut ticks: Vec<TickRecord>, range: Range, after: Option<Position>) -> Vec<TickRecord> {
    let (from_ms, to_ms) = times(range);
    ticks.retain(|tick| Some(tick.position) > after);
    let is_in_range = |tick: &TickRecord| (from_ms..=to_ms).contains(&tick.position.at_ms);
    let Some(first) = ticks.iter().position(is_in_range) else {
        return Vec::new();
    };
    // The first of all can be read without others.
    let start = ticks[..=first]
        .iter()
        .rposition(|tick| tick.decoder.is_some());
    let start = start.unwrap_or_default();
    ticks.split_off(start)
}

/// A downsampler for each series.
struct Samplers(Vec<Option<Downsampler>>);

impl Samplers {
    fn new(wanted: &[Wanted], range: Range, points: usize) -> Self {
        let sampler = |wanted: &Wanted| wanted.map(|_| Downsampler::new(range, points));
        Self(wanted.iter().map(sampler).collect())
    }

    fn finish(self) -> Vec<Option<Series>> {
        let samplers = self.0.into_iter();
        samplers
            .map(|sampler| sampler.map(Downsampler::finish))
            .collect()
    }
}

impl RowSink for Samplers {
    fn row(&mut self, at_ms: i64, _elapsed_us: u64, values: &[Option<Extent>]) {
        for (sampler, value) in self.0.iter_mut().zip(values) {
            if let Some(sampler) = sampler {
                sampler.push(at_ms, *value);
            }
        }
    }
}

/// Collects a table.
struct TableSink {
    quantities: Vec<Option<Quantity>>,
    table: TickTable,
}

impl RowSink for TableSink {
    fn row(&mut self, at_ms: i64, elapsed_us: u64, values: &[Option<Extent>]) {
        if elapsed_us == 0 {
            return;
        }
        self.table.ends_ms.push(at_ms);
        self.table.elapsed_us.push(elapsed_us);
        let columns = self.table.columns.iter_mut().zip(&self.quantities);
        for ((column, quantity), extent) in columns.zip(values) {
            if let (Some(column), Some(quantity)) = (column, quantity) {
                column.push(extent.and_then(|extent| value(*quantity, extent)));
            }
        }
    }
}

impl TickTable {
    /// In order of time: the clock may have gone back.
    fn sorted(self) -> Self {
        if self.ends_ms.is_sorted() {
            return self;
        }
        let mut order: Vec<usize> = (0..self.ends_ms.len()).collect();
        order.sort_by_key(|row| self.ends_ms[*row]);
        let columns = self.columns.iter().map(|column| {
            let column = column.as_ref()?;
            Some(order.iter().map(|row| column[*row]).collect())
        });
        Self {
            ends_ms: order.iter().map(|row| self.ends_ms[*row]).collect(),
            elapsed_us: order.iter().map(|row| self.elapsed_us[*row]).collect(),
            columns: columns.collect(),
        }
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

    #[test]
    fn long_ranges_are_read_from_roll_ups() {
        let level = |hours: i64, points| {
            let to = jiff::Timestamp::from_second(1_800_000_000).unwrap();
            let from = to - jiff::SignedDuration::from_hours(hours);
            level_for(Range { from, to }, points)
        };
        assert_eq!(level(6, 600), Level::Ticks);
        assert_eq!(level(8, 600), Level::Minutes);
        assert_eq!(level(24, 1_920), Level::Minutes);
        assert_eq!(level(24, 10_000), Level::Minutes);
        assert_eq!(level(30 * 24, 10_000), Level::TenMinutes);
        assert_eq!(level(30 * 24, 600), Level::TenMinutes);
        assert_eq!(level(3, 1), Level::Ticks);
    }
}
