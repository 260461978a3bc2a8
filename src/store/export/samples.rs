//! Ticks after a position as samples, series by series, for remote write: ten minutes at a time, from memory, or from the
//! database if only it has them.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use anyhow::Context;

use super::topics::{Metric, Topics, labels};
use crate::quantity::Quantity;
use crate::store::StoreReader;
use crate::store::address::{Level, Position, Span, Stream, TickWindow};
use crate::store::catalog::Catalog;
use crate::store::readers::on_a_thread;
use crate::store::recent::TickRecord;
use crate::store::record::Decoder;
use crate::store::stored::first_window_after;

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

/// The ticks of ten minutes, from their beginning, as of when they were read.
pub struct TickSamples {
    /// It has all later ticks of the window.
    after: Position,
    window: TickWindow,
    ticks: Vec<TickRecord>,
    sources: Vec<SampleSource>,
}

/// A series without its values.
struct SampleSource {
    stream: Stream,
    quantity: Quantity,
    metric: Metric,
    labels: Vec<(&'static str, String)>,
}

impl StoreReader {
    /// The newest tick, and the last one before it that ended at least this much earlier. `None` before the first tick.
    pub fn newest(&self, apart_ms: i64) -> Option<(Position, Option<Position>)> {
        self.recent.newest(apart_ms)
    }

    /// The ten minutes of the first tick after a position; `None` if there is none.
    pub async fn samples_after(&self, after: Position) -> anyhow::Result<Option<TickSamples>> {
        let (first_in_memory, mut ticks) = self.recent.window_after(after);
        if first_in_memory.is_none_or(|first| first > after) {
            self.check_open()?;
            let stored = self.readers.read(async move |connection| {
                first_window_after(connection, after, first_in_memory).await
            });
            let stored = stored.await;
            let stored = stored.context("cannot read ticks")?;
            if !stored.is_empty() {
                ticks = stored;
            }
        }
        let reader = self.clone();
        let samples = on_a_thread(move || {
            let catalog = reader.catalog.read();
            TickSamples::new(
                after,
                ticks,
                &catalog.unwrap_or_else(PoisonError::into_inner),
            )
        });
        Ok(samples.await?)
    }
}

impl TickSamples {
    /// The catalog has the names of the streams. `None` without ticks.
    fn new(after: Position, ticks: Vec<TickRecord>, catalog: &Catalog) -> Option<Self> {
        let window = ticks.first()?.position.window();
        let mut decoder = Decoder::new(Level::Ticks);
        let mut streams = BTreeSet::new();
        let mut damaged = 0;
        for tick in &ticks {
            match decoder.decode(tick.position, &tick.record) {
                Ok(()) => streams.extend(decoder.streams()),
                Err(_) => damaged += 1,
            }
        }
        if damaged > 0 {
            tracing::warn!("{damaged} stored ticks are damaged and not sent");
        }
        Some(Self {
            after,
            window,
            ticks,
            sources: sources(&streams, catalog),
        })
    }

    /// Whether no tick is between a position and those that it has.
    pub fn continues(&self, after: Position) -> bool {
        after.window() == self.window && self.after <= after
    }

    /// As many whole ticks of the span as have no more samples than `most`, and at least one. `None` if no tick is in it.
    pub fn batch(&self, span: Span, most: usize) -> Option<SampleBatch> {
        let mut samples: Vec<Vec<(i64, Option<f64>)>> = vec![Vec::new(); self.sources.len()];
        let mut before = vec![None; self.sources.len()];
        let mut count = 0;
        let mut to = None;
        let mut decoder = Decoder::new(Level::Ticks);
        for tick in self
            .ticks
            .iter()
            .take_while(|tick| tick.position <= span.to)
        {
            let is_readable = decoder.decode(tick.position, &tick.record).is_ok();
            let values = self.values(Some(&decoder).filter(|_| is_readable));
            if tick.position > span.after {
                let is_sample = |place: usize| values[place].or(before[place]).is_some();
                let places: Vec<usize> = (0..values.len()).filter(|at| is_sample(*at)).collect();
                if to.is_some() && count + places.len() > most {
                    break;
                }
                count += places.len();
                to = Some(tick.position);
                for place in places {
                    samples[place].push((tick.position.at_ms, values[place]));
                }
            }
            before = values;
        }
        let with_samples = self.sources.iter().zip(samples);
        let series = with_samples
            .filter(|(_, samples)| !samples.is_empty())
            .map(|(source, samples)| source.with(samples));
        Some(SampleBatch {
            series: series.collect(),
            to: to?,
            samples: count,
        })
    }

    /// The values of each source in the last tick of the decoder; all are unknown if it could not be read.
    fn values(&self, decoder: Option<&Decoder>) -> Vec<Option<f64>> {
        let value = |source: &SampleSource| {
            let decoder = decoder?;
            let row = decoder.row(source.stream)?;
            let seen = source.quantity.observe(row, decoder.elapsed_us())?;
            Some(seen.value() / source.metric.scale).filter(|value| value.is_finite())
        };
        self.sources.iter().map(value).collect()
    }
}

/// All quantities of these streams.
fn sources(streams: &BTreeSet<Stream>, catalog: &Catalog) -> Vec<SampleSource> {
    let mut sources = Vec::new();
    for topic in Topics::of_streams(streams, catalog).list {
        let labels = labels(&topic).into_iter();
        let labels: Vec<(&'static str, String)> = labels
            .map(|(name, value)| (name, value.to_string()))
            .collect();
        for (stream, quantity) in &topic.quantities {
            sources.push(SampleSource {
                stream: *stream,
                quantity: *quantity,
                metric: Metric::of(&topic, *quantity),
                labels: labels.clone(),
            });
        }
    }
    sources
}

impl SampleSource {
    fn with(&self, samples: Vec<(i64, Option<f64>)>) -> SeriesSamples {
        SeriesSamples {
            name: self.metric.family.clone(),
            unit: self.metric.unit,
            labels: self.labels.clone(),
            samples,
        }
    }
}
