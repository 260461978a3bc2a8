//! One request of remote write 1.0: its body, what its answer means, and for how long a receiver that fails is left alone.
//!
//! A body is protobuf, compressed by snappy. The messages are those of `remote.proto` and `types.proto` of Prometheus.

use std::time::{Duration, Instant};

use prost::Message;
use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use reqwest::{Client, StatusCode, Url};

use crate::channel::secret::{External, Secrets};
use crate::channel::{http, shortened};
use crate::config::RemoteWriteSettings;
use crate::store::SeriesSamples;

/// The time limit for a request and its answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The headers of every request.
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_TYPE, "application/x-protobuf"),
    (CONTENT_ENCODING, "snappy"),
    (
        HeaderName::from_static("x-prometheus-remote-write-version"),
        "0.1.0",
    ),
    (USER_AGENT, concat!("cowbell/", env!("CARGO_PKG_VERSION"))),
];
/// The first pause after a failure. Each further one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A receiver with its connections. The client of notifications is used, so certificates and proxies are treated alike.
pub struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
    secrets: Secrets,
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq)]
pub struct SendFailure {
    /// The status of the answer; `None` without one.
    pub status: Option<StatusCode>,
    /// Without secrets.
    pub sentence: String,
    /// For how long the receiver wants to be left alone.
    pub pause: Option<Duration>,
}

impl SendFailure {
    fn without_status(sentence: String) -> Self {
        Self {
            status: None,
            sentence,
            pause: None,
        }
    }

    /// Whether the same request would be refused again.
    pub fn is_final(&self) -> bool {
        self.status.is_some_and(|status| {
            status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS
        })
    }
}

impl Endpoint {
    pub fn new(settings: &RemoteWriteSettings) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.extend(settings.headers.map()?);
        let url = settings.url.as_str();
        let client = http::client(url)?;
        let request = client
            .post(url)
            .build()
            .map_err(|_| "`url` is no address".to_string())?;
        // User and password of the URL are a header, which a receiver may quote.
        let login = request
            .headers()
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let mut secrets = settings.url.secrets();
        secrets.extend(settings.headers.secrets());
        secrets.extend(login.into_iter().flat_map(|login| {
            // Basic, and the encoded user and password.
            login.split(' ').chain([login]).map(String::from)
        }));
        let secrets = Secrets::new(secrets);
        let url = url.parse().map_err(|_| "`url` is no address".to_string())?;
        Ok(Self {
            client,
            url,
            headers,
            secrets,
        })
    }

    /// Any answer of success will do, whatever its body.
    pub async fn send(&self, body: Vec<u8>) -> Result<(), SendFailure> {
        let result = match tokio::time::timeout(TIME_LIMIT, self.post(body)).await {
            Ok(result) => result,
            Err(_) => Err(SendFailure::without_status(format!(
                "it did not answer within {TIME_LIMIT:?}"
            ))),
        };
        result.map_err(|failure| SendFailure {
            sentence: shortened(&self.secrets.hide(&failure.sentence)),
            ..failure
        })
    }

    async fn post(&self, body: Vec<u8>) -> Result<(), SendFailure> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(body);
        let answer = request
            .send()
            .await
            .map_err(|error| SendFailure::without_status(http::broken(&error).sentence))?;
        if answer.status().is_success() {
            return Ok(());
        }
        Err(SendFailure {
            status: Some(answer.status()),
            pause: http::pause(&answer),
            sentence: http::refusal(answer).await,
        })
    }
}

/// The failures in a row, of either request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Whether the live request may go. It also tries whether a receiver is back.
    pub fn allows_live(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// Whether the backlog may go: not before the receiver has taken something again.
    pub fn allows_backlog(&self, now: Instant) -> bool {
        self.failures == 0 && self.allows_live(now)
    }

    /// Returns the pause. The receiver may have asked for one.
    pub fn fail(&mut self, now: Instant, wanted: Option<Duration>) -> Duration {
        let usual = FIRST_PAUSE
            .saturating_mul(1 << self.failures.min(10))
            .min(LONGEST_PAUSE);
        let pause = wanted.unwrap_or(usual).max(FIRST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.until = self.until.max(Some(now + pause));
        pause
    }

    pub fn succeed(&mut self) {
        self.failures = 0;
    }
}

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

    #[test]
    fn only_refusals_are_final() {
        let is_final = |status: Option<u16>| {
            SendFailure {
                status: status.map(|status| StatusCode::from_u16(status).unwrap()),
                sentence: String::new(),
                pause: None,
            }
            .is_final()
        };
        for status in [400, 401, 404, 413] {
            assert!(is_final(Some(status)), "{status}");
        }
        for status in [
            Some(429),
            Some(500),
            Some(503),
            Some(507),
            Some(301),
            Some(999),
            None,
        ] {
            assert!(!is_final(status), "{status:?}");
        }
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_begin_anew_after_a_success() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        let mut pauses: Vec<u64> = (0..7).map(|_| backoff.fail(now, None).as_secs()).collect();
        backoff.succeed();
        pauses.push(backoff.fail(now, None).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 1]);
    }

    #[test]
    fn the_pause_that_a_receiver_wants_is_kept() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(Some(backoff.fail(now, seconds(120))), seconds(120));
        assert_eq!(
            Some(backoff.fail(now, seconds(0))),
            seconds(1),
            "none at all would be a busy loop"
        );
        assert!(!backoff.allows_live(now + Duration::from_secs(119)));
        assert!(backoff.allows_live(now + Duration::from_secs(120)));
    }

    #[test]
    fn the_backlog_waits_until_the_live_request_succeeds() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        assert!(backoff.allows_backlog(now));
        let later = now + backoff.fail(now, None);
        assert!(backoff.allows_live(later) && !backoff.allows_backlog(later));
        backoff.succeed();
        assert!(backoff.allows_backlog(later) && !backoff.allows_backlog(now));
    }

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
