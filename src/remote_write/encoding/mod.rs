//! Samples as the body of a request: protobuf, compressed by snappy.
//!
//! A request of remote write 1.0 repeats each text, one of 2.0 has it once. Both have the same labels and samples.

mod version_1;
mod version_2;

use std::borrow::Cow;

use prost::Message;

use crate::store::SeriesSamples;

/// Ends a series at a time: Prometheus shows a gap from there on, and not the last value for five minutes.
const STALE: u64 = 0x7ff0_0000_0000_0002;

/// A version of remote write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

/// The labels of all series of this host.
#[derive(Clone, Debug)]
pub struct ExternalLabels {
    pub instance: String,
    /// Tells hosts of one name apart; empty if unknown.
    pub machine_id: String,
}

/// A sample of either version.
#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// The body of a request. It fails only for more bytes than any request has.
pub fn encoded(
    version: Version,
    series: &[SeriesSamples],
    external: &ExternalLabels,
) -> Result<Vec<u8>, snap::Error> {
    let request = match version {
        Version::One => version_1::request(series, external).encode_to_vec(),
        Version::Two => version_2::request(series, external).encode_to_vec(),
    };
    snap::raw::Encoder::new().compress_vec(&request)
}

/// Labels are sorted, and an empty one is left out, as the specifications have it.
fn labels<'a>(
    series: &'a SeriesSamples,
    external: &'a ExternalLabels,
) -> Vec<(&'static str, Cow<'a, str>)> {
    let own = series
        .labels
        .iter()
        .map(|(name, value)| (*name, Cow::from(value)));
    let common = [
        ("__name__", &series.name),
        ("instance", &external.instance),
        ("machine_id", &external.machine_id),
    ];
    let common = common.map(|(name, value)| (name, Cow::from(value)));
    let mut labels: Vec<_> = own
        .chain(common)
        .filter(|(_, value)| !value.is_empty())
        .collect();
    labels.sort_unstable();
    labels
}

fn samples(series: &SeriesSamples) -> Vec<Sample> {
    let samples = series.samples.iter();
    samples
        .map(|(at_ms, value)| Sample {
            value: value.unwrap_or(f64::from_bits(STALE)),
            timestamp: *at_ms,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::version_1::{Label, TimeSeries, WriteRequest};
    use super::version_2::{GAUGE, Metadata, Request};
    use super::*;

    fn decoded(body: &[u8]) -> WriteRequest {
        let plain = snap::raw::Decoder::new().decompress_vec(body).unwrap();
        WriteRequest::decode(&*plain).unwrap()
    }

    fn series(
        labels: Vec<(&'static str, String)>,
        samples: Vec<(i64, Option<f64>)>,
    ) -> SeriesSamples {
        SeriesSamples {
            name: "cowbell_volume_fill_ratio".into(),
            unit: "ratio",
            labels,
            samples,
        }
    }

    fn external() -> ExternalLabels {
        ExternalLabels {
            instance: "db1".into(),
            machine_id: "00ff".into(),
        }
    }

    /// The letters that LVM allows in names, and what the kernel and SCSI allow in names and serial numbers.
    #[test]
    fn labels_are_sorted_and_hold_every_letter() {
        let lvm = "aZ09+_.-snap".to_string();
        let kernel = "!\u{1}\t\n\"\\{}=,'#\u{7f}é\u{fffd}\u{1F514}/dm-3 ".to_string();
        let labels = vec![
            ("vg", lvm.clone()),
            ("lv", kernel.clone()),
            ("uuid", "x".into()),
            ("name", String::new()),
        ];
        let request = decoded(
            &encoded(
                Version::One,
                &[series(labels, vec![(1, Some(0.5))])],
                &external(),
            )
            .unwrap(),
        );
        let found: Vec<(&str, &str)> = request.timeseries[0]
            .labels
            .iter()
            .map(|label| (&*label.name, &*label.value))
            .collect();
        let expected = [
            ("__name__", "cowbell_volume_fill_ratio"),
            ("instance", "db1"),
            ("lv", &kernel),
            ("machine_id", "00ff"),
            ("uuid", "x"),
            ("vg", &lvm),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn values_and_times_come_back_bit_by_bit() {
        let samples = [0.0, -0.0, 1.0 / 3.0, f64::MAX, f64::MIN_POSITIVE];
        let samples: Vec<_> = (0..)
            .zip(samples.map(Some))
            .chain([(i64::MAX, None), (-1, Some(7.0))])
            .collect();
        let request = decoded(
            &encoded(
                Version::One,
                &[series(Vec::new(), samples.clone())],
                &external(),
            )
            .unwrap(),
        );
        let found = request.timeseries[0]
            .samples
            .iter()
            .map(|sample| (sample.timestamp, sample.value.to_bits()));
        let expected = samples.iter().map(|(at_ms, value)| {
            // Protobuf leaves a zero out, whatever its sign.
            let value = value.map(|value| if value == 0.0 { 0.0 } else { value });
            (*at_ms, value.map_or(STALE, f64::to_bits))
        });
        assert!(found.eq(expected), "{request:?}");
    }

    /// Written by hand after `remote.proto` and `types.proto` of Prometheus.
    #[test]
    fn the_encoding_is_that_of_the_specification() {
        let one = WriteRequest {
            timeseries: vec![TimeSeries {
                labels: vec![Label {
                    name: "__name__".into(),
                    value: "up".into(),
                }],
                samples: vec![Sample {
                    value: 1.0,
                    timestamp: 1000,
                }],
            }],
        };
        let expected = b"\x0a\x1e\x0a\x0e\x0a\x08__name__\x12\x02up\x12\x0c\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\xe8\x07";
        assert_eq!(one.encode_to_vec(), expected);
    }

    /// Two series of a volume: their labels, with the same texts, and samples.
    #[test]
    fn version_2_has_each_text_once_and_the_same_labels_and_samples() {
        let labels = || {
            vec![
                ("vg", "db1".to_string()),
                ("lv", "data\n\u{1F514}".into()),
                ("uuid", String::new()),
            ]
        };
        let both = [
            series(labels(), vec![(1, Some(0.5)), (2, None)]),
            series(labels(), vec![(1, Some(2.0))]),
        ];
        let plain = |version| {
            let body = encoded(version, &both, &external()).unwrap();
            snap::raw::Decoder::new().decompress_vec(&body).unwrap()
        };
        let request = Request::decode(&*plain(Version::Two)).unwrap();
        let expected = [
            "",
            "__name__",
            "cowbell_volume_fill_ratio",
            "instance",
            "db1",
            "lv",
            "data\n\u{1F514}",
            "machine_id",
            "00ff",
            "vg",
            "ratio",
        ];
        assert_eq!(request.symbols, expected);
        let first = WriteRequest::decode(&*plain(Version::One)).unwrap();
        for (series, expected) in request.timeseries.iter().zip(&first.timeseries) {
            let text = |place: &u32| request.symbols[*place as usize].clone();
            let labels: Vec<Label> = series
                .label_places
                .chunks(2)
                .map(|pair| Label {
                    name: text(&pair[0]),
                    value: text(&pair[1]),
                })
                .collect();
            assert_eq!(labels, expected.labels);
            let bits = |samples: &[Sample]| {
                samples
                    .iter()
                    .map(|sample| (sample.timestamp, sample.value.to_bits()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(bits(&series.samples), bits(&expected.samples));
            let metadata = Metadata {
                metric_type: GAUGE,
                unit_place: 10,
            };
            assert_eq!(series.metadata, Some(metadata));
        }
        assert_eq!(request.timeseries.len(), 2);
    }
}
