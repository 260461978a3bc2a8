//! Calls an address while all is well, so that another machine notices when this one is silent.

use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::http::{broken, client};

/// The time limit for a call.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// How often it calls.
const EVERY: Duration = Duration::from_secs(60);
/// For the first tick.
const FIRST: Duration = Duration::from_secs(2);

pub struct Heartbeat {
    url: String,
    client: reqwest::Client,
}

impl Heartbeat {
    pub fn new(url: &str) -> Result<Self, String> {
        Ok(Self {
            url: url.into(),
            client: client(url)?,
        })
    }

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
