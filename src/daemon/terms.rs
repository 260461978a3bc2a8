//! What the loop is told before it begins: of which machine, by which rules, for how long things are kept.

use std::time::Duration;

use crate::config;
use crate::source::recording::Header;

/// What the loop is told about the machine and the rules before it begins.
pub struct Terms {
    pub host: String,
    /// As `uname -r` says it, or said it when a recording was made.
    pub kernel: Option<String>,
    pub interval_length: Duration,
    pub alerts: config::Alerts,
    pub keep: config::Store,
    /// What somebody should know of how this program was set up: a sentence each.
    pub notes: Vec<String>,
}

impl Terms {
    pub fn new(host: String, interval_length: Duration) -> Self {
        let (alerts, keep) = (config::Alerts::default(), config::Store::default());
        Self { host, kernel: None, interval_length, alerts, keep, notes: Vec::new() }
    }

    /// For the machine that a recording's header tells of.
    pub fn of(header: Header) -> Self {
        let terms = Self::new(header.host, Duration::from_millis(header.interval_ms));
        Self { kernel: Some(header.kernel), ..terms }
    }

    pub fn with_config(self, config: &config::Config) -> Self {
        Self { alerts: config.alerts.clone(), keep: config.store, ..self }
    }

    pub fn with_note(mut self, note: Option<String>) -> Self {
        self.notes.extend(note);
        self
    }
}
