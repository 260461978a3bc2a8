//! Sends one request, and says what its answer means.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Client, StatusCode, Url};

use crate::config;
use crate::notify::{Secrets, http, shortened};

/// The time limit for a request and its answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const VERSION: &str = "x-prometheus-remote-write-version";

/// A receiver with its connections. The client of notifications is used, so certificates and proxies are treated alike.
pub struct Receiver {
    client: Client,
    url: Url,
    headers: HeaderMap,
    secrets: Secrets,
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
        let status = self.status.and_then(|status| StatusCode::from_u16(status).ok());
        status.is_some_and(|status| status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS)
    }
}

impl Receiver {
    pub fn new(url: &str, settings: &config::RemoteWrite) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("snappy"));
        headers.insert(VERSION, HeaderValue::from_static("0.1.0"));
        let agent = concat!("cowbell/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.extend(http::headers(&settings.headers)?);
        let client = http::client(url)?;
        let request = client.post(url).build().map_err(|_| "`url` is no address".to_string())?;
        // User and password of the URL are a header, which a receiver may quote.
        let login = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let secrets = Secrets::of_request(url, settings.headers.values().chain(&login.map(String::from)));
        let url = url.parse().map_err(|_| "`url` is no address".to_string())?;
        Ok(Self { client, url, headers, secrets })
    }

    /// Any answer of success will do, whatever its body.
    pub async fn send(&self, body: Vec<u8>) -> Result<(), Failure> {
        match tokio::time::timeout(TIME_LIMIT, self.post(body)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => {
                Err(Failure { sentence: shortened(&self.secrets.hide(&failure.sentence)), ..failure })
            }
            Err(_) => {
                let sentence = format!("it did not answer within {TIME_LIMIT:?}");
                Err(Failure { status: None, sentence, pause: None })
            }
        }
    }

    async fn post(&self, body: Vec<u8>) -> Result<(), Failure> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let answer = request.send().await.map_err(|error| {
            let sentence = http::broken(&error).sentence;
            Failure { status: None, sentence, pause: None }
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let pause = http::pause(&answer);
        Err(Failure { status: Some(status.as_u16()), sentence: http::refusal(answer).await, pause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_are_final() {
        let is_final = |status| Failure { status, sentence: String::new(), pause: None }.is_final();
        for status in [400, 401, 404, 413] {
            assert!(is_final(Some(status)), "{status}");
        }
        for status in [Some(429), Some(500), Some(503), Some(507), Some(301), Some(999), None] {
            assert!(!is_final(status), "{status:?}");
        }
    }
}
