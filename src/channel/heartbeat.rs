//! The heartbeat: an address that is called while all is well, so that another machine notices when this one is silent.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::MissedTickBehavior;

use super::TIME_LIMIT;
use super::http::{broken, client};
use super::secret::{Address, External};

/// How often it calls.
const EVERY: Duration = Duration::from_secs(60);
/// For the first tick.
const FIRST: Duration = Duration::from_secs(2);

/// The keys of `[heartbeat]`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    url: Address,
}

/// A heartbeat that is ready.
pub struct HeartbeatClient {
    url: String,
    client: reqwest::Client,
}

impl Heartbeat {
    /// Reads the address, if it is in a credential or file.
    pub fn load(&mut self) -> Result<(), String> {
        self.url.load("url")
    }

    pub fn connect(&self) -> Result<HeartbeatClient, String> {
        let url = self.url.as_str().to_string();
        Ok(HeartbeatClient {
            client: client(&url)?,
            url,
        })
    }
}

impl HeartbeatClient {
    /// Calls each minute while there is no problem. Of failures in a row, the first is logged, and so is the first problem.
    pub async fn beat(self, problem: impl Fn() -> Option<String>) {
        tokio::time::sleep(FIRST).await;
        let mut beats = tokio::time::interval(EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = Ok(());
        loop {
            beats.tick().await;
            let now = match problem() {
                Some(why) => Err(format!("the heartbeat is silent: {why}")),
                None => self.call().await,
            };
            match (&now, &before) {
                (Err(why), Ok(())) => tracing::warn!("{why}"),
                (Ok(()), Err(_)) => tracing::info!("the heartbeat's address was called again"),
                _ => {}
            }
            before = now;
        }
    }

    async fn call(&self) -> Result<(), String> {
        let answer = self.client.get(&self.url).timeout(TIME_LIMIT).send().await;
        let why = match answer.map(|answer| answer.status()) {
            // A redirect is no success: its target was not called.
            Ok(status) if status.is_success() => return Ok(()),
            Ok(status) => format!("it answers {status}"),
            Err(error) => broken(&error).sentence,
        };
        Err(format!(
            "the heartbeat's address cannot be called, trying each minute: {why}"
        ))
    }
}
