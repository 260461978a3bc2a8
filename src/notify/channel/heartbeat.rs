//! Calls an address while all is well, so that another machine notices when this one is silent.

use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::webhook::{broken, client};

/// The time limit for a call.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// How often it calls.
const EVERY: Duration = Duration::from_secs(60);
/// Until all is well at the start, and how often that is looked at.
const FIRST: Duration = Duration::from_secs(1);

pub struct Heartbeat {
    url: String,
    client: reqwest::Client,
}

impl Heartbeat {
    pub fn new(url: &str) -> Result<Self, String> {
        Ok(Self { url: url.into(), client: client(url)? })
    }

    /// Calls each minute while `is_well` says so. Of failures in a row, the first is logged.
    pub async fn beat(self, is_well: impl Fn() -> bool) {
        while !is_well() {
            tokio::time::sleep(FIRST).await;
        }
        let mut beats = tokio::time::interval(EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_failed = false;
        loop {
            beats.tick().await;
            if !is_well() {
                continue;
            }
            let called = self.call().await;
            match &called {
                Ok(()) if has_failed => tracing::info!("the heartbeat's address answers again"),
                Err(why) if !has_failed => {
                    tracing::warn!("the heartbeat's address cannot be called, trying each minute: {why}");
                }
                _ => {}
            }
            has_failed = called.is_err();
        }
    }

    async fn call(&self) -> Result<(), String> {
        let answer = self.client.get(&self.url).timeout(TIME_LIMIT).send().await;
        let status = answer.map_err(|error| broken(&error).sentence)?.status();
        // A redirect is no success: its target was not called.
        if status.is_success() { Ok(()) } else { Err(format!("it answers {status}")) }
    }
}
