//! Sends one request, says what its answer means, and for how long a receiver that fails is left alone.

use std::time::{Duration, Instant};

use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use reqwest::{Client, StatusCode, Url};

use crate::channel::secret::{External, Secrets};
use crate::channel::{http, shortened};
use crate::config::RemoteWriteSettings;

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
}
