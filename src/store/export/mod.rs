//! Export of stored ticks as CSV, JSON lines or OpenMetrics, for any range, subjects, metrics and resolution.
//!
//! Rows are read once, in portions, and handed to the target one by one.

mod formats;
mod samples;
mod topics;

use std::str::FromStr;

use anyhow::Context;
use jiff::Timestamp;

use super::address::{Level, Position, StoredValue, Stream};
use super::read_view::ReadView;
use super::record::{Decoder, Rows};
use super::rollup::{RollUp, extent};
use super::scan::{RangeScan, StoredRow};
use crate::quantity::Extent;
use crate::series::Range;
use crate::units::count_text;
use topics::{Topic, Topics};

pub use formats::{ExportFormat, Target, escaped_label};
pub use samples::{SampleBatch, SeriesSamples, TickSamples};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    #[default]
    Tick,
    TenSeconds,
    Minute,
}

/// The selection to export.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportQuery {
    pub range: Range,
    /// Subjects as in the API's `of`; if empty, all that were ever seen.
    pub of: Vec<String>,
    /// Names of quantities; if empty, all of each subject's own.
    pub metrics: Vec<String>,
    pub resolution: Resolution,
}

/// The result of an export.
#[derive(Clone, Debug)]
pub struct ExportSummary {
    pub rows: u64,
    /// A sentence on damaged parts of the range, which are missing.
    pub missing: Option<String>,
}

/// A row: the values of a topic up to an instant.
struct ExportLine<'a> {
    at: Timestamp,
    /// ISO 8601, UTC, to the millisecond.
    time: &'a str,
    /// The place of the topic in [`Topics`].
    place: usize,
    topic: &'a Topic,
    /// The length of the row, which covers one tick or several.
    seconds: f64,
    /// One for each of the topic's quantities.
    values: &'a [Option<Extent>],
}

impl Resolution {
    /// The level to read. Rows of ten seconds are made of ticks if those are still stored.
    fn level(self) -> Level {
        match self {
            Self::Tick | Self::TenSeconds => Level::Ticks,
            Self::Minute => Level::Minutes,
        }
    }

    /// The length of a row; 0 if each tick is a row.
    fn row_ms(self) -> i64 {
        match self {
            Self::Tick => 0,
            Self::TenSeconds => 10_000,
            Self::Minute => 60_000,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Tick => "tick",
            Self::TenSeconds => "10s",
            Self::Minute => "1min",
        }
    }
}

impl FromStr for Resolution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Tick, Self::TenSeconds, Self::Minute];
        let found = all.into_iter().find(|resolution| resolution.word() == text);
        found.ok_or_else(|| "expected tick, 10s or 1min".into())
    }
}

impl ReadView {
    /// Exports all data that can be read. `progress` receives the completed share, from 0 to 1.
    pub async fn export(
        &mut self,
        ask: &ExportQuery,
        target: &mut Target,
        mut progress: impl FnMut(f64),
    ) -> anyhow::Result<ExportSummary> {
        let mut export = ExportRun::new(ask, Topics::of(ask, &self.catalog)?, target)?;
        let times = (
            ask.range.from.as_millisecond(),
            ask.range.to.as_millisecond(),
        );
        let scan = RangeScan::new(&mut self.connection, ask.resolution.level(), times, None);
        let mut scan = scan.await?.leaving_out_damage();
        loop {
            let next = scan.next(&mut self.connection).await;
            let Some((level, rows)) = next.context("cannot read stored rows")? else {
                break;
            };
            if let Some(last) = rows.last() {
                progress(share(ask.range, last.position.at_ms));
            }
            export.add_rows(level, rows)?;
        }
        export.damaged_ms.append(&mut scan.left_out_ms);
        export.finish()
    }
}

/// How much of the range ends before a time.
fn share(range: Range, at_ms: i64) -> f64 {
    let from_ms = range.from.as_millisecond();
    let to_ms = range.to.as_millisecond();
    let passed = at_ms.saturating_sub(from_ms) as f64;
    (passed / to_ms.saturating_sub(from_ms).max(1) as f64).clamp(0.0, 1.0)
}

/// An export that is going on.
struct ExportRun<'a> {
    range: Range,
    row_ms: i64,
    topics: Topics,
    target: &'a mut Target,
    decoder: Decoder,
    /// The ticks of the row that is not complete yet.
    rolled: RollUp,
    rows: u64,
    /// When rows that could not be decoded end.
    damaged_ms: Vec<i64>,
}

impl<'a> ExportRun<'a> {
    fn new(ask: &ExportQuery, topics: Topics, target: &'a mut Target) -> anyhow::Result<Self> {
        target.begin(&topics, ask.resolution)?;
        Ok(Self {
            range: ask.range,
            row_ms: ask.resolution.row_ms(),
            topics,
            target,
            decoder: Decoder::new(Level::Ticks),
            rolled: RollUp::default(),
            rows: 0,
            damaged_ms: Vec::new(),
        })
    }

    fn add_rows(&mut self, level: Level, rows: Vec<StoredRow>) -> anyhow::Result<()> {
        if self.decoder.level() != level {
            self.decoder = Decoder::new(level);
        }
        for row in rows {
            let is_readable = self.decoder.decode(row.position, &row.record).is_ok();
            let at_ms = row.position.at_ms;
            let is_wanted =
                Timestamp::from_millisecond(at_ms).is_ok_and(|at| self.range.contains(at));
            match (is_wanted, is_readable) {
                (true, true) => self.add(row.position)?,
                (true, false) => self.damaged_ms.push(at_ms),
                (false, _) => {}
            }
        }
        Ok(())
    }

    /// Adds the last row of the decoder. Ticks become rows of the resolution; roll-ups stay as they are.
    fn add(&mut self, position: Position) -> anyhow::Result<()> {
        if self.decoder.level() == Level::Ticks && self.row_ms > 0 {
            if !self.rolled.includes(position, self.row_ms) {
                self.write_rolled()?;
            }
            self.rolled.add(position, &self.decoder);
            return Ok(());
        }
        let decoder = &self.decoder;
        let row = StoredValues {
            level: decoder.level(),
            position,
            elapsed_us: decoder.elapsed_us(),
            row: &|stream| decoder.row(stream),
        };
        self.rows += row.write(&self.topics, self.target)?;
        Ok(())
    }

    fn write_rolled(&mut self) -> anyhow::Result<()> {
        let rolled: Option<(Position, u64, Rows)> = std::mem::take(&mut self.rolled).finish();
        let Some((position, elapsed_us, rows)) = rolled else {
            return Ok(());
        };
        let row = StoredValues {
            level: Level::Minutes,
            position,
            elapsed_us,
            row: &|stream| rows.row(Level::Minutes, stream),
        };
        self.rows += row.write(&self.topics, self.target)?;
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<ExportSummary> {
        self.write_rolled()?;
        self.target.finish()?;
        Ok(ExportSummary {
            rows: self.rows,
            missing: missing(&self.damaged_ms),
        })
    }
}

/// The rows of all streams at one position.
struct StoredValues<'a> {
    level: Level,
    position: Position,
    elapsed_us: u64,
    row: &'a dyn Fn(Stream) -> Option<&'a [StoredValue]>,
}

impl StoredValues<'_> {
    /// Writes a line for each topic that has a row; returns the number of rows that they became.
    fn write(&self, topics: &Topics, target: &mut Target) -> anyhow::Result<u64> {
        let at = Timestamp::from_millisecond(self.position.at_ms)?;
        let time = format!("{at:.3}");
        let mut count = 0;
        let mut values = Vec::new();
        for (place, topic) in topics.list.iter().enumerate() {
            values.clear();
            let mut has_row = false;
            for (stream, quantity) in &topic.quantities {
                let row = (self.row)(*stream);
                has_row |= row.is_some();
                values.push(
                    row.and_then(|row| {
                        extent(self.level, *stream, *quantity, row, self.elapsed_us)
                    }),
                );
            }
            if has_row {
                count += target.line(&ExportLine {
                    at,
                    time: &time,
                    place,
                    topic,
                    seconds: self.elapsed_us as f64 / 1e6,
                    values: &values,
                })?;
            }
        }
        Ok(count)
    }
}

/// The sentence on rows that cannot be read.
fn missing(damaged_ms: &[i64]) -> Option<String> {
    let at = |ms: i64| {
        Timestamp::from_millisecond(ms).map_or(format!("{ms} ms"), |at| format!("{at:.0}"))
    };
    let from = at(*damaged_ms.iter().min()?);
    let to = at(*damaged_ms.iter().max()?);
    let rows = count_text(damaged_ms.len(), "stored row is", "stored rows are");
    Some(format!(
        "{rows} damaged and missing, between {from} and {to}: `cowbell db verify` says more"
    ))
}
