//! Sends one request, and says what its answer means.
//!
//! A receiver is offered remote write 2.0. It says in a header of its answer how many samples it has written: one that does
//! not know 2.0 has no such header, even if it answers with success, since it finds no samples. It is sent 1.0 from then on.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT,
};
use reqwest::{Client, Response, StatusCode, Url};

use super::encoding::Version;
use crate::config;
use crate::notify::{Secrets, http, shortened};

/// The time limit for a request and its answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const VERSION: &str = "x-prometheus-remote-write-version";
const WRITTEN: &str = "x-prometheus-remote-write-samples-written";

/// A receiver with its connections. The client of notifications is used, so certificates and proxies are treated alike.
pub struct Receiver {
    client: Client,
    url: Url,
    headers: HeaderMap,
    secrets: Secrets,
    /// Whether it has turned out not to know 2.0.
    is_version_1: AtomicBool,
}

/// The answer to a request with samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// So many samples were written, if it says so.
    Taken(Option<u64>),
    Failed(Failure),
    /// The request is to be encoded anew: it was 2.0, which the receiver does not know.
    WrongVersion,
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The status of the answer; `None` without one.
    pub status: Option<u16>,
    /// Without secrets.
    pub sentence: String,
    /// For how long the receiver wants to be left alone.
    pub pause: Option<Duration>,
}

impl Failure {
    /// Whether the same request would be refused again.
    pub fn is_final(&self) -> bool {
        let status = self
            .status
            .and_then(|status| StatusCode::from_u16(status).ok());
        status.is_some_and(is_refusal)
    }
}

impl Receiver {
    pub fn new(url: &str, settings: &config::RemoteWrite) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("snappy"));
        let agent = concat!("cowbell/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.extend(http::headers(&settings.headers)?);
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
        let secrets = Secrets::of_request(
            url,
            settings.headers.values().chain(&login.map(String::from)),
        );
        let url = url.parse().map_err(|_| "`url` is no address".to_string())?;
        Ok(Self {
            client,
            url,
            headers,
            secrets,
            is_version_1: AtomicBool::new(false),
        })
    }

    /// The version of the next request.
    pub fn version(&self) -> Version {
        if self.is_version_1.load(Relaxed) {
            Version::One
        } else {
            Version::Two
        }
    }

    /// Any answer of success will do, whatever its body.
    pub async fn send(&self, version: Version, body: Vec<u8>) -> Answer {
        match tokio::time::timeout(TIME_LIMIT, self.post(version, body)).await {
            Ok(Answer::Failed(failure)) => {
                let sentence = shortened(&self.secrets.hide(&failure.sentence));
                Answer::Failed(Failure {
                    sentence,
                    ..failure
                })
            }
            Ok(answer) => answer,
            Err(_) => Answer::without_status(format!("it did not answer within {TIME_LIMIT:?}")),
        }
    }

    async fn post(&self, version: Version, body: Vec<u8>) -> Answer {
        let (kind, number) = match version {
            Version::One => ("application/x-protobuf", "0.1.0"),
            Version::Two => (
                "application/x-protobuf;proto=io.prometheus.write.v2.Request",
                "2.0.0",
            ),
        };
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, kind)
            .header(VERSION, number);
        match request
            .headers(self.headers.clone())
            .body(body)
            .send()
            .await
        {
            Ok(answer) => self.understood(version, answer).await,
            Err(error) => Answer::without_status(http::broken(&error).sentence),
        }
    }

    async fn understood(&self, version: Version, answer: Response) -> Answer {
        let (status, written) = (answer.status(), written(&answer));
        if version == Version::Two
            && written.is_none()
            && (status.is_success() || is_refusal(status))
        {
            self.is_version_1.store(true, Relaxed);
            return Answer::WrongVersion;
        }
        if status.is_success() {
            return Answer::Taken(written);
        }
        let pause = http::pause(&answer);
        Answer::Failed(Failure {
            status: Some(status.as_u16()),
            sentence: http::refusal(answer).await,
            pause,
        })
    }
}

impl Answer {
    fn without_status(sentence: String) -> Self {
        Self::Failed(Failure {
            status: None,
            sentence,
            pause: None,
        })
    }
}

/// How many samples the receiver says that it has written.
fn written(answer: &Response) -> Option<u64> {
    answer
        .headers()
        .get(WRITTEN)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_are_final() {
        let is_final = |status| {
            Failure {
                status,
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
}
