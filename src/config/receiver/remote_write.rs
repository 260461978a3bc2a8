//! `[remote_write]`: a receiver to which every stored tick is sent.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::ConfigError;
use super::entry::check_header;
use super::value::{self, Address};

/// Characters of `instance`.
const LONGEST_INSTANCE: usize = 255;

/// Settings of remote write. URL and headers may be secrets.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(try_from = "Entry")]
pub struct RemoteWriteSettings {
    url: Option<Address>,
    pub headers: BTreeMap<String, String>,
    /// The label `instance`; the host's name if `None`.
    pub instance: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    url: Option<Address>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    instance: Option<String>,
}

impl TryFrom<Entry> for RemoteWriteSettings {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Self, String> {
        let Entry {
            url,
            headers,
            instance,
        } = entry;
        if url.is_none() {
            return Err(
                "[remote_write] needs a `url`, such as \"http://127.0.0.1:8428/api/v1/write\""
                    .into(),
            );
        }
        headers
            .iter()
            .try_for_each(|(name, value)| check_header(name, value))?;
        let is_wrong = |name: &String| {
            name.is_empty()
                || name.chars().count() > LONGEST_INSTANCE
                || name.contains(char::is_control)
        };
        if instance.as_ref().is_some_and(is_wrong) {
            return Err(format!(
                "`instance`: expected 1 to {LONGEST_INSTANCE} letters"
            ));
        }
        Ok(Self {
            url,
            headers,
            instance,
        })
    }
}

impl RemoteWriteSettings {
    /// `None` if nothing is sent.
    pub fn url(&self) -> Option<&str> {
        self.url.as_ref().map(|url| &*url.0)
    }

    /// The settings with all values that are in credentials and files.
    pub fn with_credentials(mut self) -> Result<Self, ConfigError> {
        self.resolve()
            .map_err(|why| ConfigError(format!("in [remote_write]: {why}")))?;
        Ok(self)
    }

    fn resolve(&mut self) -> Result<(), String> {
        if let Some(url) = &mut self.url {
            value::resolve_url("url", &mut url.0)?;
        }
        self.headers
            .iter_mut()
            .try_for_each(|(header, value)| value::resolve_header(header, value))
    }

    /// A copy to show.
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        shown
            .url
            .iter_mut()
            .for_each(|url| url.0 = value::shown_url(&url.0));
        shown.headers.values_mut().for_each(value::hide_header);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match toml::from_str::<RemoteWriteSettings>(text) {
            Ok(settings) => format!("{:?}", settings.without_secrets()),
            Err(error) => error.message().to_string(),
        };
        assert!(
            found.contains(expected) && !found.contains("hunter2"),
            "expected {expected:?} in {found:?}"
        );
    }

    #[test]
    fn settings_are_checked_and_shown_without_secrets() {
        let url = "url = \"https://me:hunter2@tsdb.example:8428/hunter2\"\n";
        for (more, expected) in [
            ("", "https://tsdb.example:8428/…"),
            (
                "headers = { Authorization = \"Bearer hunter2\" }",
                "{\"Authorization\": \"…\"}",
            ),
            (
                "headers = { Authorization = \"Bearer credential:tsdb\" }",
                "Bearer credential:tsdb",
            ),
            ("instance = \"\"", "`instance`: expected 1 to 255 letters"),
            (
                "headers = { \"a b\" = \"x\" }",
                "expected names of letters, digits",
            ),
            ("token = \"x\"", "unknown field `token`"),
        ] {
            check(&format!("{url}{more}"), expected);
        }
        check("", "[remote_write] needs a `url`");
        check(
            "url = \"ftp://x\"",
            "expected an http:// or https:// address",
        );
    }
}
