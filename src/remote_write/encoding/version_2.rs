//! Remote write 2.0, after `io/prometheus/write/v2/types.proto` of Prometheus.

use std::borrow::Cow;
use std::collections::HashMap;

use prost::Message;

use super::{ExternalLabels, Sample, labels, samples};
use crate::store::SeriesSamples;

/// `io.prometheus.write.v2.Request`
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    /// Each text once; the first one is empty.
    #[prost(string, repeated, tag = "4")]
    pub symbols: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    pub timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// Places of names and values in turn.
    #[prost(uint32, repeated, tag = "1")]
    pub label_places: Vec<u32>,
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
    #[prost(message, optional, tag = "5")]
    pub metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Metadata {
    #[prost(int32, tag = "1")]
    pub metric_type: i32,
    #[prost(uint32, tag = "4")]
    pub unit_place: u32,
}

/// A type of metrics. All stored quantities have it.
pub const GAUGE: i32 = 2;

/// The places of texts in [`Request::symbols`].
#[derive(Default)]
struct Symbols<'a> {
    places: HashMap<Cow<'a, str>, u32>,
    texts: Vec<String>,
}

impl<'a> Symbols<'a> {
    fn place(&mut self, text: Cow<'a, str>) -> u32 {
        let texts = &mut self.texts;
        *self.places.entry(text).or_insert_with_key(|text| {
            texts.push(text.to_string());
            u32::try_from(texts.len() - 1).unwrap_or_default()
        })
    }
}

pub fn request(series: &[SeriesSamples], external: &ExternalLabels) -> Request {
    let mut symbols = Symbols::default();
    symbols.place("".into());
    let timeseries = series.iter().map(|series| {
        let labels = labels(series, external)
            .into_iter()
            .flat_map(|(name, value)| [name.into(), value]);
        let label_places = labels.map(|text| symbols.place(text)).collect();
        let metadata = Metadata {
            metric_type: GAUGE,
            unit_place: symbols.place(series.unit.into()),
        };
        TimeSeries {
            label_places,
            samples: samples(series),
            metadata: Some(metadata),
        }
    });
    let timeseries = timeseries.collect();
    Request {
        symbols: symbols.texts,
        timeseries,
    }
}
