//! The configuration file: its types, its defaults, and checks that name file, line and key.
//!
//! Each value checks itself while it is read, so that a `Config` that exists is one that can be used.

mod token;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;

pub use token::Token;

/// Where the configuration is looked for when none is named; it need not be there.
pub const DEFAULT_PATH: &str = "/etc/cowbell/cowbell.toml";
/// Ticks more often than this would cost more than they tell.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// Ticks less often than this would miss the death of a snapshot.
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// Everything that can be set; every key has a default.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port of the pages and the API.
    pub listen: Listen,
    pub interval: TickInterval,
    pub lvm: Lvm,
    pub store: Store,
    pub alerts: Alerts,
    pub notify: Vec<Notify>,
    pub hooks: Hooks,
    pub changes: Changes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Listen(SocketAddr::from(([127, 0, 0, 1], 2692))),
            interval: TickInterval(Duration::from_secs(1)),
            lvm: Lvm::default(),
            store: Store::default(),
            alerts: Alerts::default(),
            notify: Vec::new(),
            hooks: Hooks::default(),
            changes: Changes::default(),
        }
    }
}

/// Who may change something, which is to tell of jobs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    /// Holds the token of other machines; `None` where changes come from this one alone.
    pub token_file: Option<WholePath>,
}

impl Changes {
    /// The token, read now.
    pub fn token(&self) -> Result<Option<Token>, Unusable> {
        self.token_file.as_ref().map(|path| Token::read(&path.0)).transpose()
    }
}

/// A path that means the same wherever the program is started.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct WholePath(pub PathBuf);

/// Where backups' hooks are heard.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// `None` where nothing is said: in the folder that systemd makes for the service, else nowhere.
    pub socket: Option<SocketPath>,
}

/// A whole path that the kernel takes for a socket.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct SocketPath(pub PathBuf);

/// The kernel's limit, without the byte that ends it.
const LONGEST_SOCKET_PATH: usize = 107;

/// How LVM is looked at.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Lvm {
    pub source: LvmSource,
}

/// Who is asked about volumes, their fills and their groups.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LvmSource {
    /// The device-mapper at every tick, and LVM on change and each minute; where the device-mapper does not answer,
    /// LVM tells of fills every 10 s.
    #[default]
    Auto,
    /// The device-mapper alone: no `lvm` is run.
    Dm,
    /// LVM alone, every 10 s, for hosts where the device-mapper may not be asked.
    Lvs,
}

impl LvmSource {
    pub fn asks_dm(self) -> bool {
        self != Self::Lvs
    }

    pub fn asks_lvm(self) -> bool {
        self != Self::Dm
    }
}

/// For how long what was seen is kept, by how finely.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "RawStore")]
pub struct Store {
    /// Every tick.
    pub ticks: Age,
    /// Roll-ups of ten seconds.
    pub ten_seconds: Age,
    /// Roll-ups of a minute.
    pub minutes: Age,
    /// Every tick while a job ran.
    pub jobs: Age,
    /// What all of it may take on disk; the oldest and finest goes first.
    pub size: Size,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            ticks: Age::days(30),
            ten_seconds: Age::days(90),
            minutes: Age::days(730),
            jobs: Age::days(365),
            size: Size(1 << 30),
        }
    }
}

/// A number of days, such as "30d", "12w" or "2y"; a year has 365.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
pub struct Age(pub Duration);

impl Age {
    pub const fn days(days: u64) -> Self {
        Self(Duration::from_secs(days * 24 * 3600))
    }
}

/// A number of bytes, such as "500MiB" or "2GB".
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

/// Less than this holds no day of a host with a few disks.
pub const SMALLEST_STORE: Size = Size(32 << 20);

/// An address and a port, both as numbers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Listen(pub SocketAddr);

/// The length of a tick, from [`SHORTEST_INTERVAL`] to [`LONGEST_INTERVAL`].
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct TickInterval(pub Duration);

/// Thresholds in percent, one pair for each thing that can overflow.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Alerts {
    pub snapshot_fill: Thresholds,
    pub pool_data: Thresholds,
    pub pool_metadata: Thresholds,
}

/// Two levels in percent, the warning below the critical one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "RawThresholds")]
pub struct Thresholds {
    pub warning: f64,
    pub critical: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { warning: 70.0, critical: 85.0 }
    }
}

/// Somebody who is told of alerts.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "RawNotify")]
pub enum Notify {
    /// The alert is posted to this address as JSON.
    Webhook { url: String },
    /// The program is run with the alert as JSON on its standard input.
    Command { command: Vec<String> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStore {
    ticks: Option<Age>,
    ten_seconds: Option<Age>,
    minutes: Option<Age>,
    jobs: Option<Age>,
    size: Option<Size>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawThresholds {
    warning: f64,
    critical: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNotify {
    kind: String,
    url: Option<String>,
    command: Option<Vec<String>>,
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| {
            format!("expected an address and a port such as \"127.0.0.1:2692\", but found \"{text}\"")
        })
    }
}

impl TryFrom<String> for TickInterval {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse::<SignedDuration>()
            .ok()
            .and_then(|length| Duration::try_from(length).ok())
            .filter(|length| (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(length))
            .map(Self)
            .ok_or_else(|| {
                format!("expected a length from \"100ms\" to \"60s\" such as \"1s\", but found \"{text}\"")
            })
    }
}

impl TryFrom<RawStore> for Store {
    type Error = String;

    fn try_from(raw: RawStore) -> Result<Self, String> {
        let usual = Self::default();
        let store = Self {
            ticks: raw.ticks.unwrap_or(usual.ticks),
            ten_seconds: raw.ten_seconds.unwrap_or(usual.ten_seconds),
            minutes: raw.minutes.unwrap_or(usual.minutes),
            jobs: raw.jobs.unwrap_or(usual.jobs),
            size: raw.size.unwrap_or(usual.size),
        };
        if store.ticks > store.ten_seconds || store.ten_seconds > store.minutes {
            return Err("expected ticks <= ten_seconds <= minutes: the coarser is kept for longer".into());
        }
        if store.size < SMALLEST_STORE {
            return Err(format!("`size`: expected at least \"32MiB\", but found {} bytes", store.size.0));
        }
        Ok(store)
    }
}

impl TryFrom<String> for Age {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let days = |text: &str| {
            let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
            let days = match unit {
                "d" => 1,
                "w" => 7,
                "y" => 365,
                _ => return None,
            };
            count.trim().parse::<u32>().ok()?.checked_mul(days).filter(|days| (1..=36_500).contains(days))
        };
        let days = days(text.trim());
        days.map(|days| Self::days(days.into())).ok_or_else(|| {
            format!("expected a number of days, weeks or years such as \"30d\", \"12w\" or \"2y\", but found \"{text}\"")
        })
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        const UNITS: [(&str, u64); 6] = [
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("TiB", 1 << 40),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("TB", 1_000_000_000_000),
        ];
        let size = UNITS.into_iter().find_map(|(unit, bytes)| {
            text.trim().strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(bytes)
        });
        size.map(Self).ok_or_else(|| {
            format!("expected a whole number of MiB, GiB, MB or GB such as \"1GiB\", but found \"{text}\"")
        })
    }
}

impl TryFrom<String> for SocketPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.starts_with('/') && text.len() <= LONGEST_SOCKET_PATH && !text.contains('\0') {
            return Ok(Self(text.into()));
        }
        Err(format!(
            "expected a path such as \"/run/cowbell/hooks\", of {LONGEST_SOCKET_PATH} bytes at most, but found \"{text}\""
        ))
    }
}

impl TryFrom<String> for WholePath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_whole = text.starts_with('/') && !text.contains('\0');
        is_whole.then(|| Self(PathBuf::from(&text))).ok_or_else(|| {
            format!("expected a whole path such as \"/etc/cowbell/token\", but found \"{text}\"")
        })
    }
}

impl TryFrom<RawThresholds> for Thresholds {
    type Error = String;

    fn try_from(raw: RawThresholds) -> Result<Self, String> {
        let RawThresholds { warning, critical } = raw;
        if 0.0 < warning && warning < critical && critical <= 100.0 {
            return Ok(Self { warning, critical });
        }
        Err(format!(
            "expected percentages with 0 < warning < critical <= 100, but found warning = {warning}, critical = {critical}"
        ))
    }
}

impl TryFrom<RawNotify> for Notify {
    type Error = String;

    fn try_from(raw: RawNotify) -> Result<Self, String> {
        match (raw.kind.as_str(), raw.url, raw.command) {
            ("webhook", Some(url), None) => checked_url(url).map(|url| Self::Webhook { url }),
            ("command", None, Some(command)) if !command.is_empty() => Ok(Self::Command { command }),
            ("webhook", ..) => Err("expected a webhook to have `url` and nothing else".into()),
            ("command", ..) => {
                Err("expected a command to have `command = [\"/path\", \"argument\"]` and nothing else"
                    .into())
            }
            (kind, ..) => Err(format!("`kind`: expected \"webhook\" or \"command\", but found \"{kind}\"")),
        }
    }
}

fn checked_url(url: String) -> Result<String, String> {
    match url.parse::<reqwest::Url>() {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.has_host() => Ok(url),
        _ => Err(format!("`url`: expected an http:// or https:// address, but found \"{url}\"")),
    }
}

/// A configuration that cannot be used: one sentence, with file, line and key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(String);

impl Unusable {
    /// What is wrong with an option of the command line, or the environment variable in its place.
    pub fn option(name: &str, error: &str) -> Self {
        Self(format!("in the option {name}: {error}"))
    }
}

/// Reads the configuration: the named file, else the one at [`DEFAULT_PATH`], which may be missing.
pub fn load(named: Option<&Path>) -> Result<Config, Unusable> {
    let path = named.map_or_else(|| PathBuf::from(DEFAULT_PATH), Path::to_path_buf);
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&path, &text),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            Ok(Config::default())
        }
        Err(error) => Err(Unusable(format!(
            "cannot read the configuration {}: {error}; name a file that exists or leave --config out",
            path.display()
        ))),
    }
}

/// Understands the text of a configuration file; `path` is for the sentence when it cannot be used.
pub fn parse(path: &Path, text: &str) -> Result<Config, Unusable> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let number = text[..start].matches('\n').count() + 1;
        let line = text.lines().nth(number - 1).unwrap_or_default().trim();
        let message = error.message().trim().replace('\n', ", ");
        Unusable(format!("in the configuration {}, line {number}, `{line}`: {message}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match parse(Path::new("c.toml"), text) {
            Ok(config) => format!("{config:?}"),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "expected {expected:?} in {found:?}");
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
            "Webhook { url: \"http://127.0.0.1:9000/hook\" }",
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_line_and_what_is_allowed() {
        check("\nlisten_on = 1\n", "c.toml, line 2, `listen_on = 1`: unknown field `listen_on`, expected");
    }

    #[test]
    fn values_out_of_range_say_what_is_allowed() {
        for (text, expected) in [
            (
                r#"interval = "50ms""#,
                "line 1, `interval = \"50ms\"`: expected a length from \"100ms\" to \"60s\"",
            ),
            (r#"interval = "2m""#, "expected a length from"),
            (r#"interval = "-1s""#, "expected a length from"),
            (r#"interval = 1"#, "line 1, `interval = 1`"),
            (r#"listen = "2692""#, "expected an address and a port such as"),
            ("[alerts]\npool_data = { warning = 90, critical = 85 }", "line 2"),
            ("[alerts]\npool_data = { warning = 90, critical = 850 }", "0 < warning < critical <= 100"),
            ("[[notify]]\nkind = \"mail\"", "`kind`: expected \"webhook\" or \"command\""),
            ("[[notify]]\nkind = \"webhook\"\nurl = \"ftp://x\"", "expected an http:// or https://"),
            ("[[notify]]\nkind = \"command\"\ncommand = []", "expected a command to have"),
            (
                "[lvm]\nsource = \"lvm\"",
                "line 2, `source = \"lvm\"`: unknown variant `lvm`, expected one of `auto`, `dm`, `lvs`",
            ),
            ("[store]\nticks = \"30\"", "line 2, `ticks = \"30\"`: expected a number of days"),
            ("[store]\nsize = \"1\"", "line 2, `size = \"1\"`: expected a whole number of MiB"),
            ("[store]\nsize = \"1MiB\"", "`size`: expected at least \"32MiB\""),
            ("[store]\nticks = \"1y\"", "expected ticks <= ten_seconds <= minutes"),
            (
                "[store]\nseconds = \"1y\"",
                "line 2, `seconds = \"1y\"`: unknown field `seconds`, expected one of `ticks`",
            ),
            ("[changes]\ntoken_file = \"token\"", "line 2, `token_file = \"token\"`: expected a whole path"),
            ("[changes]\ntoken = \"secret\"", "unknown field `token`, expected `token_file`"),
            ("[hooks]\nsocket = \"hooks\"", "line 2, `socket = \"hooks\"`: expected a path such as"),
            ("listen = ", "line 1"),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn ages_and_sizes_are_written_as_people_write_them() {
        check(
            "[store]\nticks = \"2w\"\nminutes = \"5y\"\nsize = \"500MB\"",
            "Store { ticks: Age(1209600s), ten_seconds: Age(7776000s), minutes: Age(157680000s), jobs: Age(31536000s), size: Size(500000000) }",
        );
    }

    #[test]
    fn the_file_at_the_default_path_may_be_missing_but_not_a_named_one() {
        let error = load(Some(Path::new("/does/not/exist.toml"))).unwrap_err().to_string();
        assert!(error.contains("/does/not/exist.toml") && error.contains("--config"), "{error}");
    }
}
