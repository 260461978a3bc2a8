//! Calls an address while all is well, so that another machine notices when this one is silent.

use std::time::Duration;

use super::webhook::client;

/// The time limit for a call.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// How often it calls.
const EVERY: Duration = Duration::from_secs(60);

pub struct Heartbeat {
    url: String,
    client: reqwest::Client,
}

impl Heartbeat {
    pub fn new(url: &str) -> Result<Self, String> {
        Ok(Self { url: url.into(), client: client(url)? })
    }

    /// Calls each minute while `is_well` says so. The first failure in a row is logged.
    pub async fn beat(self, is_well: impl Fn() -> bool) {
        let mut beats = tokio::time::interval(EVERY);
        let mut has_failed = false;
        loop {
            beats.tick().await;
            if !is_well() {
                continue;
            }
            let answer = self.client.get(&self.url).timeout(TIME_LIMIT).send().await;
            let answer = answer.and_then(reqwest::Response::error_for_status);
            let answer = answer.map_err(reqwest::Error::without_url);
            match &answer {
                Ok(_) if has_failed => tracing::info!("the heartbeat's address answers again"),
                Err(error) if !has_failed => {
                    tracing::warn!("the heartbeat's address does not answer: {error}")
                }
                _ => {}
            }
            has_failed = answer.is_err();
        }
    }
}
