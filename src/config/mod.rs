//! The configuration file: types, defaults, and checks that name file, line and key.
//!
//! Each value is checked while it is parsed, so every `Config` is valid.

mod alerts;
mod board;
mod interval;
mod listen;
mod lvm;
mod paths;
mod pattern;
mod quotation;
mod receiver;
mod rule;
mod secret;
mod store;
mod token;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

pub use alerts::{Alerts, RuleSettings};
pub use board::Board;
pub use interval::{LONGEST_INTERVAL, SHORTEST_INTERVAL, TickInterval};
pub use listen::{Listen, check_address};
pub use lvm::{Lvm, LvmSource};
pub use paths::{Changes, Hooks, Proxy};
pub use pattern::Pattern;
pub use receiver::{
    Channel, Email, Heartbeat, QuietHours, Receiver, RemoteWriteSettings, Severity, Webhook,
};
pub use rule::{Measure, Rule, RuleSubject, Thresholds};
pub use store::{Age, Size, Store};
pub use token::{Token, is_equal};

/// The configuration file if `--config` names none; it may be missing.
pub const DEFAULT_PATH: &str = "/etc/cowbell/cowbell.toml";

/// All settings; every key has a default.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port of the web pages and the API.
    pub listen: Listen,
    /// Names of this site, besides its addresses and `localhost`.
    pub hosts: Vec<String>,
    pub interval: TickInterval,
    /// The board of this host in Grafana.
    pub grafana: Option<Board>,
    pub lvm: Lvm,
    pub store: Store,
    pub alerts: Alerts,
    pub notify: Vec<Receiver>,
    pub heartbeat: Heartbeat,
    pub remote_write: RemoteWriteSettings,
    pub hooks: Hooks,
    pub changes: Changes,
    pub proxy: Proxy,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Listen(SocketAddr::from(([127, 0, 0, 1], 2692))),
            hosts: Vec::new(),
            interval: TickInterval(Duration::from_secs(1)),
            grafana: None,
            lvm: Lvm::default(),
            store: Store::default(),
            alerts: Alerts::default(),
            notify: Vec::new(),
            heartbeat: Heartbeat::default(),
            remote_write: RemoteWriteSettings::default(),
            hooks: Hooks::default(),
            changes: Changes::default(),
            proxy: Proxy::default(),
        }
    }
}

impl Config {
    /// The keys whose new values take effect after a restart only.
    pub fn needs_restart(&self, before: &Self) -> Vec<&'static str> {
        let keys = [
            ("listen", self.listen != before.listen),
            ("interval", self.interval != before.interval),
            ("grafana", self.grafana != before.grafana),
            ("[lvm]", self.lvm != before.lvm),
            ("[store]", self.store != before.store),
            ("[hooks]", self.hooks != before.hooks),
            ("[proxy]", self.proxy != before.proxy),
            ("[heartbeat]", self.heartbeat != before.heartbeat),
            ("[remote_write]", self.remote_write != before.remote_write),
        ];
        keys.into_iter()
            .filter(|(_, is_changed)| *is_changed)
            .map(|(key, _)| key)
            .collect()
    }

    /// The configuration with the secrets of receivers that are in credentials.
    pub fn with_credentials(self) -> Result<Self, ConfigError> {
        let notify = self
            .notify
            .into_iter()
            .map(Receiver::with_credentials)
            .collect::<Result<_, _>>()?;
        let remote_write = self.remote_write.with_credentials()?;
        Ok(Self {
            notify,
            heartbeat: self.heartbeat.with_credential()?,
            remote_write,
            ..self
        })
    }

    /// A copy to show.
    pub fn without_secrets(&self) -> Self {
        let notify = self.notify.iter().map(Receiver::without_secrets).collect();
        let remote_write = self.remote_write.without_secrets();
        Self {
            notify,
            heartbeat: self.heartbeat.without_secrets(),
            remote_write,
            ..self.clone()
        }
    }
}

/// An invalid configuration: one sentence with file, line and key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    /// An invalid value of a command-line option or its environment variable.
    pub fn option(name: &str, error: &str) -> Self {
        Self(format!("in the option {name}: {error}"))
    }
}

/// Reads the named file, or the one at [`DEFAULT_PATH`], which may be missing.
pub fn load(named: Option<&Path>) -> Result<Config, ConfigError> {
    let path = named.map_or_else(|| PathBuf::from(DEFAULT_PATH), Path::to_path_buf);
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&path, &text),
        Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => {
            Ok(Config::default())
        }
        Err(error) => Err(ConfigError(format!(
            "cannot read the configuration {}: {error}; name an existing file or omit --config",
            path.display()
        ))),
    }
}

/// Whether this user may not read the file at [`DEFAULT_PATH`]: packages install it for root and the group cowbell only.
pub fn default_is_hidden() -> bool {
    std::fs::File::open(DEFAULT_PATH)
        .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// Parses a configuration file; `path` appears in the error, and no secret.
pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let parsed = toml::from_str::<Config>(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let start = receiver::wrong_entry(text, start).unwrap_or(start);
        let index = text[..start].matches('\n').count();
        let (number, line) = (index + 1, quotation::line(text, index));
        let message = quotation::message(&error.message().trim().replace('\n', ", "));
        ConfigError(format!(
            "in the configuration {}, line {number}, `{line}`: {message}",
            path.display()
        ))
    });
    let mut config = parsed?;
    receiver::settle(&mut config.notify, path, text)?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match parse(Path::new("c.toml"), text) {
            Ok(config) => format!("{config:?}"),
            Err(error) => error.to_string(),
        };
        assert!(
            found.contains(expected),
            "expected {expected:?} in {found:?}"
        );
    }

    #[test]
    fn the_example_of_the_readme_is_read() {
        check(
            r#"
            listen = "127.0.0.1:2692"
            interval = "1s"
            [alerts]
            snapshot_fill = { warning = 70, critical = 85 }
            [[notify]]
            kind = "webhook"
            url = "http://127.0.0.1:9000/hook"
            "#,
            "Webhook { url: \"http://127.0.0.1:9000/hook\", ",
        );
    }

    #[test]
    fn an_unknown_key_is_reported_with_its_line_and_the_known_keys() {
        check(
            "\nlisten_on = 1\n",
            "c.toml, line 2, `listen_on = 1`: unknown field `listen_on`, expected",
        );
    }

    #[test]
    fn values_out_of_range_are_reported_with_the_range() {
        for (text, expected) in [
            (
                r#"interval = "50ms""#,
                "line 1, `interval = \"50ms\"`: expected a duration from \"100ms\" to \"60s\"",
            ),
            (r#"interval = "2m""#, "expected a duration from"),
            (r#"interval = "-1s""#, "expected a duration from"),
            (r#"interval = 1"#, "line 1, `interval = 1`"),
            (
                r#"listen = "2692""#,
                "expected an address and a port such as",
            ),
            (
                "[alerts]\npool_data = { warning = 90, critical = 85 }",
                "line 2",
            ),
            (
                "[alerts]\npool_data = { warning = 90, critical = 850 }",
                "0 < clear < warning < critical <= 100",
            ),
            (
                "[alerts]\n[[alerts.for]]\nlv = \"vg0/*\"\nsnapshot_age = \"3 days\"",
                "line 4, `snapshot_age = \"3 days\"`: expected a duration such as",
            ),
            (
                "[[notify]]\nkind = \"mail\"",
                "unknown variant `mail`, expected one of `webhook`, `command`, `email`",
            ),
            (
                "[[notify]]\nkind = \"webhook\"\nurl = \"ftp://x\"",
                "expected an http:// or https://",
            ),
            (
                "[[notify]]\nkind = \"webhook\"\nurl = \"credential:../token\"",
                "or \"credential:NAME\" with",
            ),
            (
                "[[notify]]\nkind = \"command\"\ncommand = \"curl x\"",
                "invalid type: string \"…\", expected",
            ),
            (
                "[[notify]]\nkind = \"command\"\ncommand = []",
                "expected a program and its arguments",
            ),
            (
                "[[notify]]\nkind = \"email\"\nto = \"a@b.c\"\n\n[[notify]]\nkind = \"webhook\"\nto = \"a@b.c\"\n",
                "c.toml, line 5, `[[notify]]`: `to` does not belong to kind = \"webhook\": expected `url`",
            ),
            (
                "[[notify]]\nname = \"a\"\nkind = \"email\"\nto = \"a@b.c\"\n[[notify]]\nname = \"a\"\nkind = \"email\"\nto = \"d@b.c\"\n",
                "c.toml, line 5, receiver \"a\": another receiver in [[notify]] has this name",
            ),
            (
                "[lvm]\nsource = \"lvm\"",
                "line 2, `source = \"lvm\"`: unknown variant `lvm`, expected one of `auto`, `dm`, `lvs`",
            ),
            (
                "[store]\nticks = \"30\"",
                "line 2, `ticks = \"30\"`: expected a number of days",
            ),
            (
                "[store]\nsize = \"1\"",
                "line 2, `size = \"1\"`: expected a whole number of MiB",
            ),
            (
                "[store]\nsize = \"1MiB\"",
                "`size`: expected at least \"32MiB\"",
            ),
            ("[store]\nticks = \"3y\"", "expected ticks <= minutes"),
            (
                "[store]\nseconds = \"1y\"",
                "line 2, `seconds = \"1y\"`: unknown field `seconds`, expected one of `ticks`",
            ),
            (
                "[changes]\ntoken_file = \"token\"",
                "line 2, `token_file = …`: expected an absolute path of at most 4095 bytes",
            ),
            (
                "[changes]\ntoken = \"secret\"",
                "unknown field `token`, expected `token_file`",
            ),
            (
                "[hooks]\nsocket = \"hooks\"",
                "line 2, `socket = \"hooks\"`: expected an absolute path",
            ),
            (
                "[proxy]\nsocket = \"http\"",
                "line 2, `socket = \"http\"`: expected an absolute path",
            ),
            (
                "[proxy]\nprefix = \"/a/\"",
                "line 2, `prefix = \"/a/\"`: expected a path such as \"/cowbell\"",
            ),
            ("listen = ", "line 1"),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn ages_and_sizes_have_units() {
        check(
            "[store]\nticks = \"2w\"\nminutes = \"5y\"\nsize = \"500MB\"",
            "Store { ticks: Age(1209600s), minutes: Age(157680000s), jobs: Age(31536000s), size: Size(500000000) }",
        );
    }

    /// The file that packages install, with the comment mark of every key removed.
    fn packaged_file() -> String {
        let lines = include_str!("../../systemd/package/cowbell.toml").lines();
        let uncommented = lines.map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => key,
            _ => line,
        });
        uncommented.collect::<Vec<_>>().join("\n")
    }

    /// The keys of a table, or of the whole file, as the error for an unknown key lists them.
    fn known_keys(file: &toml::Table, table: Option<&str>) -> Vec<String> {
        let mut file = file.clone();
        let place = match table {
            Some(name) => file[name].as_table_mut().unwrap(),
            None => &mut file,
        };
        place.insert("unknown".into(), 1.into());
        let error = file.try_into::<Config>().unwrap_err();
        let error = error.message();
        let (_, expected) = error
            .split_once("expected")
            .unwrap_or_else(|| panic!("{error}"));
        expected
            .split('`')
            .skip(1)
            .step_by(2)
            .map(String::from)
            .collect()
    }

    #[test]
    fn the_packaged_file_shows_the_defaults() {
        let mut config = parse(Path::new("cowbell.toml"), &packaged_file()).unwrap();
        // Without a default of their own.
        config.notify.clear();
        config.alerts.overrides.clear();
        config.grafana = None;
        config.heartbeat = Heartbeat::default();
        config.remote_write = RemoteWriteSettings::default();
        config.hooks = Hooks::default();
        config.changes = Changes::default();
        config.proxy = Proxy::default();
        assert_eq!(config, Config::default());
    }

    #[test]
    fn the_packaged_file_has_every_key() {
        let file: toml::Table = packaged_file().parse().unwrap();
        let tables = file
            .iter()
            .filter(|(_, value)| value.is_table())
            .map(|(name, _)| Some(name.as_str()));
        for table in tables.chain([None]) {
            let place = table.map_or(&file, |name| file[name].as_table().unwrap());
            for key in known_keys(&file, table) {
                assert!(
                    place.contains_key(&key),
                    "systemd/package/cowbell.toml lacks `{key}` in {table:?}"
                );
            }
        }
    }

    #[test]
    fn only_the_default_file_may_be_missing() {
        let error = load(Some(Path::new("/does/not/exist.toml")))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/does/not/exist.toml") && error.contains("--config"),
            "{error}"
        );
    }
}
