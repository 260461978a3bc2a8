//! The ticks of one segment as samples, series by series, for remote write.

use std::ops::Range;

use super::naming::{Metric, labels};
use super::topics::Topics;
use super::{Rows, SegmentAxis, Sheet, extent};
use crate::quantity::Quantity;
use crate::store::catalog::Catalog;
use crate::store::position::{Position, Span};
use crate::store::segment::{Axis, Level};
use crate::store::stream::Stream;

/// The values of a quantity over some ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesSamples {
    pub name: String,
    /// The base unit, which ends the name.
    pub unit: &'static str,
    pub labels: Vec<(&'static str, String)>,
    /// The end of a tick in milliseconds since 1970, and its value. `None` where a known value is followed by an unknown one.
    pub samples: Vec<(i64, Option<f64>)>,
}

/// The samples of some ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleBatch {
    /// Those that have samples.
    pub series: Vec<SeriesSamples>,
    /// The last of the ticks.
    pub to: Position,
    pub samples: usize,
}

/// The ticks of one segment, or some of them.
pub struct SegmentSamples {
    /// It has all later ticks of the segment, as of when it was read.
    after: Position,
    number: i64,
    topics: Topics,
    sheet: Sheet,
}

/// A series without its values.
struct Source {
    topic: usize,
    place: usize,
    metric: Metric,
    quantity: Quantity,
}

impl SegmentSamples {
    /// The catalog has the names of the streams.
    pub fn new(
        after: Position,
        number: i64,
        axis: Axis,
        rows: Vec<(Stream, Rows)>,
        catalog: &Catalog,
    ) -> Self {
        let (streams, rows) = rows.into_iter().unzip();
        let segment = SegmentAxis {
            level: Level::Ticks,
            axis,
            covered: Vec::new(),
        };
        Self {
            after,
            number,
            topics: Topics::of_streams(streams, catalog),
            sheet: Sheet { segment, rows },
        }
    }

    /// Whether no tick is between a position and those that it has.
    pub fn continues(&self, after: Position) -> bool {
        after.segment == self.number && self.after <= after
    }

    /// As many whole ticks of the span as have no more samples than `most`, and at least one. `None` if no tick is in it.
    pub fn batch(&self, span: Span, most: usize) -> Option<SampleBatch> {
        let ticks = self.ticks_in(span);
        let sources = self.sources();
        let mut series: Vec<Vec<(i64, Option<f64>)>> = vec![Vec::new(); sources.len()];
        let mut before = match ticks.start.checked_sub(1) {
            Some(row) => self.values(&sources, row),
            None => vec![None; sources.len()],
        };
        let (mut samples, mut to) = (0, None);
        for row in ticks {
            let values = self.values(&sources, row);
            let is_sample = |place: usize| values[place].or(before[place]).is_some();
            let more = (0..sources.len()).filter(|place| is_sample(*place)).count();
            if to.is_some() && samples + more > most {
                break;
            }
            let at_ms = self.sheet.segment.axis.at_ms[row];
            for place in (0..sources.len()).filter(|place| is_sample(*place)) {
                series[place].push((at_ms, values[place]));
            }
            (samples, to, before) = (
                samples + more,
                Some(Position {
                    segment: self.number,
                    at_ms,
                }),
                values,
            );
        }
        let named = sources
            .iter()
            .zip(series)
            .filter(|(_, samples)| !samples.is_empty());
        let series = named
            .map(|(source, samples)| self.named(source, samples))
            .collect();
        Some(SampleBatch {
            series,
            to: to?,
            samples,
        })
    }

    /// Times ascend within a segment.
    fn ticks_in(&self, span: Span) -> Range<usize> {
        let ends = &self.sheet.segment.axis.at_ms;
        let until = |end: Position| {
            ends.partition_point(|at_ms| {
                Position {
                    segment: self.number,
                    at_ms: *at_ms,
                } <= end
            })
        };
        let start = until(span.after);
        start..until(span.to).max(start)
    }

    fn sources(&self) -> Vec<Source> {
        let topics = self.topics.list.iter().enumerate();
        let sources = topics.flat_map(|(index, topic)| {
            topic
                .quantities
                .iter()
                .map(move |(place, quantity)| Source {
                    topic: index,
                    place: *place,
                    metric: Metric::of(topic, *quantity),
                    quantity: *quantity,
                })
        });
        sources.collect()
    }

    fn values(&self, sources: &[Source], row: usize) -> Vec<Option<f64>> {
        let elapsed_us = self.sheet.segment.axis.elapsed_us[row];
        let value = |source: &Source| {
            let (kind, rows) = (
                self.topics.streams[source.place].kind,
                &self.sheet.rows[source.place],
            );
            let extent = extent(Level::Ticks, kind, source.quantity, rows, row, elapsed_us)?;
            Some(extent.all.value() / source.metric.scale).filter(|value| value.is_finite())
        };
        sources.iter().map(value).collect()
    }

    fn named(&self, source: &Source, samples: Vec<(i64, Option<f64>)>) -> SeriesSamples {
        let labels = labels(&self.topics.list[source.topic]).into_iter();
        let labels = labels
            .map(|(name, value)| (name, value.to_string()))
            .collect();
        SeriesSamples {
            name: source.metric.family.clone(),
            unit: source.metric.unit,
            labels,
            samples,
        }
    }
}
