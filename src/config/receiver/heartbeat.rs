//! `[heartbeat]`: an address that is called each minute while all is well.

use serde::Deserialize;

use super::super::ConfigError;
use super::value::{self, Address};

/// Settings of the heartbeat.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    url: Option<Address>,
}

impl Heartbeat {
    pub fn url(&self) -> Option<&str> {
        self.url.as_ref().map(|url| &*url.0)
    }

    pub fn with_credential(mut self) -> Result<Self, ConfigError> {
        if let Some(url) = &mut self.url {
            value::resolve_url("url", &mut url.0)
                .map_err(|why| ConfigError(format!("in [heartbeat]: {why}")))?;
        }
        Ok(self)
    }

    pub fn without_secrets(&self) -> Self {
        Self {
            url: self
                .url
                .as_ref()
                .map(|url| Address(value::shown_url(&url.0))),
        }
    }
}
