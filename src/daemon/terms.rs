//! The settings of the loop: machine, rules, retention.

use std::time::Duration;

use crate::config;
use crate::source::recording::Header;

pub struct Terms {
    pub host: String,
    /// As in `uname -r`; in a recording, at that time.
    pub kernel: Option<String>,
    pub interval_length: Duration,
    pub alerts: config::Alerts,
    pub keep: config::Store,
    /// Sentences for the administrator about the setup.
    pub notes: Vec<String>,
}

impl Terms {
    pub fn new(host: String, interval_length: Duration) -> Self {
        let (alerts, keep) = (config::Alerts::default(), config::Store::default());
        Self {
            host,
            kernel: None,
            interval_length,
            alerts,
            keep,
            notes: Vec::new(),
        }
    }

    /// For the machine of a recording.
    pub fn of(header: Header) -> Self {
        let terms = Self::new(header.host, Duration::from_millis(header.interval_ms));
        Self {
            kernel: Some(header.kernel),
            ..terms
        }
    }

    pub fn with_config(self, config: &config::Config) -> Self {
        Self {
            alerts: config.alerts.clone(),
            keep: config.store,
            ..self
        }
    }

    pub fn with_note(mut self, note: Option<String>) -> Self {
        self.notes.extend(note);
        self
    }
}
