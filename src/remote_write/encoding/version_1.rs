//! Remote write 1.0, after `remote.proto` and `types.proto` of Prometheus.

use prost::Message;

use super::{ExternalLabels, Sample, labels, samples};
use crate::store::SeriesSamples;

/// `prometheus.WriteRequest`
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Label {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

pub fn request(series: &[SeriesSamples], external: &ExternalLabels) -> WriteRequest {
    let timeseries = series.iter().map(|series| TimeSeries {
        labels: labels(series, external)
            .into_iter()
            .map(|(name, value)| Label {
                name: name.into(),
                value: value.into_owned(),
            })
            .collect(),
        samples: samples(series),
    });
    WriteRequest {
        timeseries: timeseries.collect(),
    }
}
