//! Export of stored ticks: CSV, JSON lines, OpenMetrics or a SQLite file, for any range, subjects, metrics and resolution.
//!
//! Only one segment at a time is in memory, whatever the range.

mod naming;
mod openmetrics;
mod samples;
mod tables;
mod text;
mod topics;

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use jiff::Timestamp;

use super::codec::{Presence, Rows};
use super::plan::{Part, plan};
use super::read_view::ReadView;
use super::rollup::{self, SegmentAxis, columns_at, extent};
use super::seal::{Segment, read_axis, read_rows};
use super::segment::{Level, rows_of};
use super::tick::SegmentTicks;
use crate::quantity::Extent;
use crate::series::Range;
use tables::Tables;
use topics::{Topic, Topics};

pub use openmetrics::{OpenMetrics, escaped_label};
pub use samples::{SampleBatch, SegmentSamples, SeriesSamples};
pub use text::{Form, Text};

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
    /// A sentence for each damaged part of the range, which is missing.
    pub missing: Vec<String>,
}

pub enum Target {
    Text(Text),
    OpenMetrics(OpenMetrics),
    Tables(Box<Tables>),
}

/// A row: the values of a topic up to an instant.
struct Line<'a> {
    at: Timestamp,
    /// ISO 8601, UTC, to the millisecond.
    time: &'a str,
    topic: &'a Topic,
    /// The length of the row, which covers one tick or several.
    seconds: f64,
    /// One for each of the topic's quantities.
    values: &'a [Option<Extent>],
}

impl Resolution {
    /// The level to read. Rows of ten seconds are made of ticks if those are still stored.
    fn level(self) -> Level {
        if self == Self::Minute {
            Level::Minutes
        } else {
            Level::Ticks
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

impl Target {
    /// Tables in the new SQLite file `file`, with jobs, alerts and gaps of the range from the database `stored`.
    pub async fn tables(file: &Path, stored: &Path) -> anyhow::Result<Self> {
        Ok(Self::Tables(Box::new(Tables::new(file, stored).await?)))
    }

    /// What is to be written in one pass over the range. OpenMetrics wants the samples of a series together.
    fn passes(&self, topics: Topics) -> Vec<Topics> {
        if let Self::OpenMetrics(_) = self {
            topics.by_series()
        } else {
            vec![topics]
        }
    }

    async fn begin(&mut self, topics: &Topics, ask: &ExportQuery) -> anyhow::Result<()> {
        match self {
            Self::Text(text) => text.begin(topics, ask.resolution),
            Self::OpenMetrics(_) => Ok(()),
            Self::Tables(tables) => tables.begin(topics, ask).await,
        }
    }

    /// Writes a row; returns the number of rows that it became. A sample whose value is unknown is none.
    async fn line(&mut self, line: &Line<'_>) -> anyhow::Result<u64> {
        match self {
            Self::Text(text) => text.line(line).map(|()| 1),
            Self::OpenMetrics(text) => Ok(text.line(line)?),
            Self::Tables(tables) => tables.line(line).await.map(|()| 1),
        }
    }

    async fn finish(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Text(text) => Ok(text.finish()?),
            Self::OpenMetrics(text) => Ok(text.finish()?),
            Self::Tables(tables) => tables.finish().await,
        }
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
        let topics = Topics::of(ask, &self.catalog)?;
        target.begin(&topics, ask).await?;
        let parts = self.parts(ask).await.context("cannot read segments")?;
        let passes = target.passes(topics);
        let (mut rows, mut damaged) = (0, BTreeMap::new());
        for (index, topics) in passes.iter().enumerate() {
            let progress = |share: f64| progress((index as f64 + share) / passes.len() as f64);
            rows += self
                .pass(ask, topics, &parts, target, &mut damaged, progress)
                .await?;
        }
        target.finish().await?;
        let damaged: Vec<&Segment> = damaged.into_values().collect();
        let missing = missing(&damaged)
            .into_iter()
            .chain(self.damage.iter().cloned())
            .collect();
        Ok(ExportSummary { rows, missing })
    }

    /// Writes these topics from the whole range; returns the number of rows.
    async fn pass<'a>(
        &mut self,
        ask: &ExportQuery,
        topics: &Topics,
        parts: &'a [Part],
        target: &mut Target,
        damaged: &mut BTreeMap<i64, &'a Segment>,
        mut progress: impl FnMut(f64),
    ) -> anyhow::Result<u64> {
        let mut rows = 0;
        for (index, part) in parts.iter().enumerate() {
            progress(index as f64 / parts.len() as f64);
            let sheet = self.sheet(part, topics).await;
            if !sheet.as_ref().is_ok_and(|(_, is_whole)| *is_whole) {
                damaged.insert(part.segment.id, &part.segment);
            }
            if let Ok((sheet, _)) = sheet {
                rows += sheet
                    .rolled(topics, ask.resolution)
                    .write(topics, ask.range, target)
                    .await?;
            }
        }
        for segment in &self.journaled {
            let sheet = Sheet::of_ticks(segment, topics).rolled(topics, ask.resolution);
            rows += sheet.write(topics, ask.range, target).await?;
        }
        Ok(rows)
    }

    /// The segments that cover the range; each instant is in only one of them.
    async fn parts(&mut self, ask: &ExportQuery) -> anyhow::Result<Vec<Part>> {
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

    /// A segment's rows, and whether all of them could be read. An error if none could.
    async fn sheet(&mut self, part: &Part, topics: &Topics) -> anyhow::Result<(Sheet, bool)> {
        let (id, level) = (part.segment.id, part.segment.level());
        let axis = read_axis(&mut self.connection, id).await?;
        let (mut rows, mut is_whole) = (Vec::with_capacity(topics.streams.len()), true);
        for stream in &topics.streams {
            // A damaged page hides only its own content.
            rows.push(
                read_rows(&mut self.connection, id, *stream, axis.len())
                    .await
                    .unwrap_or_else(|_| {
                        is_whole = false;
                        Rows::without_values(
                            Presence::Unknown,
                            axis.len(),
                            columns_at(level, stream.kind),
                        )
                    }),
            );
        }
        Ok((
            Sheet {
                segment: SegmentAxis {
                    level,
                    axis,
                    covered: part.covered.clone(),
                },
                rows,
            },
            is_whole,
        ))
    }
}

/// The rows of all streams of the topics in one segment.
struct Sheet {
    segment: SegmentAxis,
    rows: Vec<Rows>,
}

impl Sheet {
    fn of_ticks(ticks: &SegmentTicks, topics: &Topics) -> Self {
        let rows = topics
            .streams
            .iter()
            .map(|stream| rows_of(&ticks.ticks, *stream))
            .collect();
        Self {
            segment: SegmentAxis::of_ticks(ticks),
            rows,
        }
    }

    /// Ticks as rows of this resolution. Roll-ups stay as they are.
    fn rolled(mut self, topics: &Topics, resolution: Resolution) -> Self {
        let SegmentAxis { level, axis, .. } = &mut self.segment;
        if *level == Level::Ticks && resolution != Resolution::Tick {
            let groups = rollup::groups(axis, resolution.row_ms());
            for (stream, rows) in topics.streams.iter().zip(&mut self.rows) {
                *rows = rollup::rolled(stream.kind, *level, axis, rows, &groups);
            }
            (*level, *axis) = (Level::Minutes, rollup::rolled_axis(axis, &groups));
        }
        self
    }

    /// Writes the rows in the range that no finer segment covers; returns their number.
    async fn write(
        &self,
        topics: &Topics,
        range: Range,
        target: &mut Target,
    ) -> anyhow::Result<u64> {
        let (axis, mut values, mut count) = (&self.segment.axis, Vec::new(), 0);
        for row in self.segment.uncovered() {
            let Ok(at) = Timestamp::from_millisecond(axis.at_ms[row]) else {
                continue;
            };
            if !range.contains(at) {
                continue;
            }
            let (time, elapsed_us) = (format!("{at:.3}"), axis.elapsed_us[row]);
            for topic in topics.list.iter().filter(|topic| self.has(topic, row)) {
                values.clear();
                values.extend(topic.quantities.iter().map(|(place, quantity)| {
                    let (kind, rows) = (topics.streams[*place].kind, &self.rows[*place]);
                    extent(self.segment.level, kind, *quantity, rows, row, elapsed_us)
                }));
                let seconds = elapsed_us as f64 / 1e6;
                count += target
                    .line(&Line {
                        at,
                        time: &time,
                        topic,
                        seconds,
                        values: &values,
                    })
                    .await?;
            }
        }
        Ok(count)
    }

    fn has(&self, topic: &Topic, row: usize) -> bool {
        topic
            .quantities
            .iter()
            .any(|(place, _)| self.rows[*place].presence[row] != Presence::Absent)
    }
}

/// The sentence on segments that cannot be read completely.
fn missing(damaged: &[&Segment]) -> Option<String> {
    let at =
        |ms| Timestamp::from_millisecond(ms).map_or(format!("{ms} ms"), |at| format!("{at:.0}"));
    let from = at(damaged.iter().map(|segment| segment.from_ms).min()?);
    let to = at(damaged.iter().map(|segment| segment.to_ms).max()?);
    let what = match damaged.len() {
        1 => "a segment is damaged, and what cannot be read of it".to_string(),
        several => format!("{several} segments are damaged, and what cannot be read of them"),
    };
    Some(format!(
        "{what} is missing, between {from} and {to}: `cowbell db verify` says more"
    ))
}
