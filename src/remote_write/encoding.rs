//! Samples as the body of a request of remote write 1.0: protobuf, compressed by snappy.
//!
//! The messages are those of `remote.proto` and `types.proto` of Prometheus.

use prost::Message;

use crate::store::SeriesSamples;

/// Ends a series at a time: Prometheus shows a gap from there on, and not the last value for five minutes.
const STALE: u64 = 0x7ff0_0000_0000_0002;

/// The labels of all series of this host.
#[derive(Clone, Debug)]
pub struct ExternalLabels {
    pub instance: String,
    /// Tells hosts of one name apart; empty if unknown.
    pub machine_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<SeriesLabel>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<TimedValue>,
}

#[derive(Clone, PartialEq, Message)]
struct SeriesLabel {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct TimedValue {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// The body of a request. It fails only for more bytes than any request has.
pub fn encoded(
    series: &[SeriesSamples],
    external: &ExternalLabels,
) -> Result<Vec<u8>, snap::Error> {
    let request = WriteRequest {
        timeseries: series
            .iter()
            .map(|series| TimeSeries {
                labels: labels(series, external),
                samples: samples(series),
            })
            .collect(),
    };
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec())
}

/// Labels are sorted, and an empty one is left out, as the specification has it.
fn labels(series: &SeriesSamples, external: &ExternalLabels) -> Vec<SeriesLabel> {
    let common = [
        ("__name__", &series.name),
        ("instance", &external.instance),
        ("machine_id", &external.machine_id),
    ];
    let own = series.labels.iter().map(|(name, value)| (*name, value));
    let mut labels: Vec<_> = own
        .chain(common)
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| SeriesLabel {
            name: name.into(),
            value: value.clone(),
        })
        .collect();
    labels.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    labels
}

fn samples(series: &SeriesSamples) -> Vec<TimedValue> {
    let samples = series.samples.iter();
    samples
        .map(|(at_ms, value)| TimedValue {
            value: value.unwrap_or(f64::from_bits(STALE)),
            timestamp: *at_ms,
        })
        .collect()
}

#[cfg(test)]
mod tests {
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
        let request =
            decoded(&encoded(&[series(labels, vec![(1, Some(0.5))])], &external()).unwrap());
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
        let request =
            decoded(&encoded(&[series(Vec::new(), samples.clone())], &external()).unwrap());
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
                labels: vec![SeriesLabel {
                    name: "__name__".into(),
                    value: "up".into(),
                }],
                samples: vec![TimedValue {
                    value: 1.0,
                    timestamp: 1000,
                }],
            }],
        };
        let expected = b"\x0a\x1e\x0a\x0e\x0a\x08__name__\x12\x02up\x12\x0c\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\xe8\x07";
        assert_eq!(one.encode_to_vec(), expected);
    }
}
