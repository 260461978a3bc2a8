//! What was kept as plain tables: CSV, JSON lines or a SQLite file, for any range, subjects, metrics and resolution.
//!
//! Read segment by segment and written row by row: a segment and no more is in memory, however long the range is.

mod missing;
mod sheet;
mod tables;
mod text;
mod topics;

use std::path::Path;
use std::str::FromStr;

use anyhow::Context;

use super::decoder::extent;
use super::plan::{Part, plan};
use super::read_view::ReadView;
use super::seal::Segment;
use super::segment::Level;
use crate::series::{Extent, Range};
use missing::Missing;
use sheet::Sheet;
use tables::Tables;
use topics::Topics;

pub use text::{Form, Text};

/// How finely is told what was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    #[default]
    Tick,
    TenSeconds,
    Minute,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub range: Range,
    /// Words of the API's `of`; all that was ever seen where there are none.
    pub of: Vec<String>,
    /// Names of quantities; all of each subject's own kind where there are none.
    pub metrics: Vec<String>,
    pub resolution: Resolution,
}

/// What was written.
#[derive(Clone, Debug)]
pub struct Exported {
    pub rows: u64,
    /// What was kept and could not be written: a sentence each.
    pub missing: Vec<String>,
}

/// Where rows go.
pub enum Target {
    Text(Text),
    Tables(Box<Tables>),
}

/// One row: what was known of a topic up to an instant.
struct Line<'a> {
    /// As ISO 8601 has it, in UTC, to the millisecond.
    time: &'a str,
    /// Its place among the topics.
    topic: usize,
    /// What the row is of: a tick, or several.
    seconds: f64,
    /// One for each of the topic's quantities.
    values: &'a [Option<Extent>],
}

impl Resolution {
    /// The level that is read. Ten seconds are made of ticks, where those are still there.
    fn level(self) -> Level {
        if self == Self::Minute { Level::Minutes } else { Level::Ticks }
    }

    /// The length of a row; 0 where each tick is a row of its own.
    fn row_ms(self) -> i64 {
        match self {
            Self::Tick => 0,
            Self::TenSeconds => 10_000,
            Self::Minute => 60_000,
        }
    }

    /// As people write it.
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

impl Target {
    /// Plain tables in a new SQLite file, with what else the database at `kept` holds of the range.
    pub async fn tables(file: &Path, kept: &Path) -> anyhow::Result<Self> {
        Ok(Self::Tables(Box::new(Tables::new(file, kept).await?)))
    }

    async fn begin(&mut self, topics: &Topics, ask: &Ask) -> anyhow::Result<()> {
        match self {
            Self::Text(text) => Ok(text.begin(topics, ask.resolution)?),
            Self::Tables(tables) => tables.begin(topics, ask).await,
        }
    }

    async fn line(&mut self, line: &Line<'_>) -> anyhow::Result<()> {
        match self {
            Self::Text(text) => Ok(text.line(line)?),
            Self::Tables(tables) => tables.line(line).await,
        }
    }

    async fn finish(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Text(text) => Ok(text.finish()?),
            Self::Tables(tables) => tables.finish().await,
        }
    }
}

impl ReadView {
    /// Writes what is asked for, as far as it can be read. `progress` is told what share is done, from 0 to 1.
    pub async fn export(
        &mut self,
        ask: &Ask,
        target: &mut Target,
        mut progress: impl FnMut(f64),
    ) -> anyhow::Result<Exported> {
        let topics = Topics::of(ask, &self.catalog)?;
        target.begin(&topics, ask).await?;
        let parts = self.parts(ask).await.context("cannot read segments")?;
        let (mut rows, mut missing) = (0, Missing::default());
        for (index, part) in parts.iter().enumerate() {
            progress(index as f64 / parts.len() as f64);
            let sheet = self.sheet(part, &topics, ask.resolution.row_ms()).await;
            if sheet.as_ref().is_none_or(|sheet| !sheet.is_whole) {
                missing.add(&part.segment);
            }
            if let Some(sheet) = sheet {
                rows += write(&sheet, Some(part), &topics, ask.range, target).await?;
            }
        }
        for segment in &self.journaled {
            let sheet = Sheet::of_ticks(segment.number, &segment.ticks, &topics, ask.resolution.row_ms());
            rows += write(&sheet, None, &topics, ask.range, target).await?;
        }
        target.finish().await?;
        let missing = missing.sentence().into_iter().chain(self.damage.iter().cloned()).collect();
        Ok(Exported { rows, missing })
    }

    /// The segments that tell of the range, each instant in one of them alone.
    async fn parts(&mut self, ask: &Ask) -> anyhow::Result<Vec<Part>> {
        let segments: Vec<Segment> = sqlx::query_as(
            "SELECT id, from_ms, to_ms, first_source, last_source FROM segment
             WHERE to_ms >= ? AND from_ms <= ? ORDER BY id",
        )
        .bind(ask.range.from.as_millisecond())
        .bind(ask.range.to.as_millisecond())
        .fetch_all(&mut self.connection)
        .await?;
        Ok(plan(ask.resolution.level(), &segments))
    }
}

/// Writes the rows of a segment that are in the range and not told by a finer one.
async fn write(
    sheet: &Sheet,
    part: Option<&Part>,
    topics: &Topics,
    range: Range,
    target: &mut Target,
) -> anyhow::Result<u64> {
    let (mut values, mut rows) = (Vec::new(), 0);
    for (row, at) in sheet.instants().filter(|(_, at)| range.contains(*at)) {
        if part.is_some_and(|part| part.is_covered(sheet.axis.numbers[row])) {
            continue;
        }
        let (time, elapsed_us) = (format!("{at:.3}"), sheet.axis.elapsed_us[row]);
        for (index, topic) in topics.list.iter().enumerate().filter(|(_, topic)| sheet.has(topic, row)) {
            values.clear();
            values.extend(topic.quantities.iter().map(|(place, quantity)| {
                extent(sheet.level, topics.streams[*place], *quantity, &sheet.rows[*place], row, elapsed_us)
            }));
            let line = Line { time: &time, topic: index, seconds: elapsed_us as f64 / 1e6, values: &values };
            target.line(&line).await?;
            rows += 1;
        }
    }
    Ok(rows)
}
