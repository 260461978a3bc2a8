//! Values of the file that are more than a text or a number. Each is checked while it is parsed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::ConfigError;

/// Shorter ticks would cost more than they show.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// Longer ticks would miss a snapshot's overflow.
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
/// A smaller store could not hold a day of a host with a few disks.
const SMALLEST_STORE: Size = Size(32 << 20);
/// Days of the longest retention: a century.
const OLDEST: u64 = 36_500;
/// Characters of an address of Grafana.
const LONGEST_BOARD: usize = 2000;
/// Characters of a proxy's prefix.
const LONGEST_PREFIX: usize = 200;
/// Longer times of rules are mistakes.
const LONGEST_PERIOD: Duration = Duration::from_secs(366 * 24 * 3600);

/// The users of this machine.
pub const USERS: &str = "/etc/passwd";

/// The numbers of a user and of its group, as this machine knows them.
pub fn user_numbers(name: &str) -> Option<(u32, u32)> {
    let users = std::fs::read_to_string(USERS).ok()?;
    users.lines().find_map(|user| {
        let fields: Vec<&str> = user.split(':').collect();
        let [found, _, user, group, ..] = fields[..] else {
            return None;
        };
        (found == name).then_some((user.parse().ok()?, group.parse().ok()?))
    })
}

/// A duration such as "90s" or "1h 30m".
pub(super) fn duration(text: &str) -> Option<Duration> {
    Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()
}

/// The error of a value that cannot be used.
pub(super) fn unexpected(expected: &str, found: &str) -> String {
    format!("expected {expected}, but found {found:?}")
}

/// A numeric address and a port.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Listen(pub SocketAddr);

impl Default for Listen {
    fn default() -> Self {
        Self(SocketAddr::from(([127, 0, 0, 1], 2692)))
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let expected = "an address and a port such as \"127.0.0.1:2692\"";
        let address = text.parse().map(Self);
        address.map_err(|_| unexpected(expected, &text))
    }
}

/// Fails for an address that other machines reach, without a token.
pub fn check_address(address: SocketAddr, has_token: bool) -> Result<(), ConfigError> {
    if address.ip().is_loopback() || has_token {
        return Ok(());
    }
    let why = format!(
        "other machines reach {address}, which needs a token: set `token_file` in [changes], or listen on 127.0.0.1 \
         and use `ssh -L`"
    );
    Err(ConfigError::option("listen", &why))
}

/// The length of a tick, from [`SHORTEST_INTERVAL`] to [`LONGEST_INTERVAL`].
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct TickInterval(pub Duration);

impl Default for TickInterval {
    fn default() -> Self {
        Self(Duration::from_secs(1))
    }
}

impl TryFrom<String> for TickInterval {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match duration(&text) {
            Some(length) if (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&length) => {
                Ok(Self(length))
            }
            _ => Err(unexpected(
                "a duration from \"100ms\" to \"60s\" such as \"1s\"",
                &text,
            )),
        }
    }
}

/// The address of this host's board in Grafana, without a range.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Board(String);

impl Board {
    /// Its address at a range, in milliseconds since 1970.
    pub fn at(&self, from_ms: i64, to_ms: i64) -> String {
        let separator = if self.0.contains('?') { '&' } else { '?' };
        format!("{}{separator}from={from_ms}&to={to_ms}", self.0)
    }
}

impl TryFrom<String> for Board {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Ok(url) = Url::parse(&text)
            && matches!(url.scheme(), "http" | "https")
            && url.fragment().is_none()
            && url.password().is_none()
            && text.len() <= LONGEST_BOARD
        {
            return Ok(Self(text));
        }
        let example = "https://grafana.example/d/cowbell-host?var-instance=db1:2692";
        Err(format!(
            "expected the address of a board such as \"{example}\", but found \"{text:.200}\""
        ))
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

    pub fn ms(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

impl TryFrom<String> for Age {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match with_unit(&text, &[("d", 1), ("w", 7), ("y", 365)]) {
            Some(days @ 1..=OLDEST) => Ok(Self::days(days)),
            _ => Err(unexpected(
                "a number of days, weeks or years such as \"30d\", \"12w\" or \"2y\"",
                &text,
            )),
        }
    }
}

/// A whole number with one of these units: `2w` is 14 days.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    units.iter().find_map(|(unit, factor)| {
        let count = text.trim().strip_suffix(unit)?.trim();
        count.parse::<u64>().ok()?.checked_mul(*factor)
    })
}

/// A number of bytes, such as "500MiB" or "2GB".
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match Bytes::try_from(text.clone())? {
            Bytes(bytes) if bytes >= SMALLEST_STORE.0 => Ok(Self(bytes)),
            Bytes(_) => Err(unexpected("at least \"32MiB\"", &text)),
        }
    }
}

/// A number of bytes of any size, such as "0 MiB" or "20 GiB".
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
pub struct Bytes(pub u64);

impl TryFrom<String> for Bytes {
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
        let expected = "a whole number of MiB, GiB, MB or GB such as \"1GiB\"";
        let bytes = with_unit(&text, &UNITS).map(Self);
        bytes.ok_or_else(|| unexpected(expected, &text))
    }
}

/// Empty, or a path such as `/cowbell`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct PathPrefix(pub String);

impl TryFrom<String> for PathPrefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let is_part =
            |part: &str| !part.is_empty() && part.bytes().all(is_allowed) && !part.starts_with('.');
        let is_path = text
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(is_part));
        if text.is_empty() || is_path && text.len() <= LONGEST_PREFIX {
            return Ok(Self(text));
        }
        let expected = "a path such as \"/cowbell\", of letters, digits and -_.~";
        Err(unexpected(expected, &text))
    }
}

/// A path that does not depend on the working directory.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct AbsolutePath<const MOST: usize>(pub PathBuf);

impl<const MOST: usize> TryFrom<String> for AbsolutePath<MOST> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.starts_with('/') && text.len() <= MOST && !text.contains('\0') {
            return Ok(Self(text.into()));
        }
        // It may be the token itself, so it is not repeated.
        Err(format!("expected an absolute path of at most {MOST} bytes"))
    }
}

/// A name of a limited length.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct ShortName<const MOST: usize>(pub String);

impl<const MOST: usize> TryFrom<String> for ShortName<MOST> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if (1..=MOST).contains(&text.chars().count()) && !text.contains(char::is_control) {
            return Ok(Self(text));
        }
        Err(format!("expected 1 to {MOST} letters"))
    }
}

/// A duration of a rule, such as "90s", "30m" or "1h 30m".
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub struct Seconds(f64);

impl From<Seconds> for f64 {
    fn from(seconds: Seconds) -> Self {
        seconds.0
    }
}

impl TryFrom<String> for Seconds {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match duration(&text) {
            Some(length) if length <= LONGEST_PERIOD => Ok(Self(length.as_secs_f64())),
            _ => Err(unexpected("a duration such as \"30m\" or \"26h\"", &text)),
        }
    }
}

/// A pattern of `VG/LV`, where `*`, `?` and `[abc]` match as in a shell. `vg0/*` matches all volumes of a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(glob::Pattern);

impl Pattern {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Alerts about cowbell itself belong to no volume: both names are empty, and no pattern matches them.
    pub fn matches(&self, vg: &str, lv: &str) -> bool {
        !(vg.is_empty() && lv.is_empty()) && self.0.matches(&format!("{vg}/{lv}"))
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "a pattern of volumes such as \"vg0/mysql_*\" or \"vg0/*\"";
        let refuse = || unexpected(expected, text);
        let pattern =
            glob::Pattern::new(text).map_err(|error| format!("{}: {}", refuse(), error.msg))?;
        if text.matches('/').count() == 1 && text.len() > 1 {
            return Ok(Self(pattern));
        }
        Err(refuse())
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_added_to_the_address() {
        let at = |text: &str| Board::try_from(text.to_string()).map(|board| board.at(1, 2));
        assert_eq!(
            at("https://g/d/x").as_deref(),
            Ok("https://g/d/x?from=1&to=2")
        );
        assert_eq!(
            at("http://g/d/x?var-instance=a:1").as_deref(),
            Ok("http://g/d/x?var-instance=a:1&from=1&to=2")
        );
    }

    #[test]
    fn only_web_addresses_are_boards() {
        for text in [
            "",
            "grafana",
            "/d/x",
            "javascript:alert(1)",
            "https://a:b@g/",
            "https://g/#x",
        ] {
            let error = Board::try_from(text.to_string()).unwrap_err();
            assert!(
                error.starts_with("expected the address of a board"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_pattern_matches_group_and_volume() {
        for (pattern, vg, lv, expected) in [
            ("vg0/mysql_*", "vg0", "mysql_snapshot", true),
            ("vg0/mysql_*", "vg1", "mysql_snapshot", false),
            ("vg0/*", "vg0", "", true),
            ("*/*", "vg0", "data", true),
            ("vg[01]/d?ta", "vg1", "data", true),
            ("vg0/data", "vg0", "data2", false),
            ("*/*", "", "", false),
        ] {
            assert_eq!(
                pattern.parse::<Pattern>().unwrap().matches(vg, lv),
                expected,
                "{pattern} {vg}/{lv}"
            );
        }
    }

    #[test]
    fn a_pattern_without_group_or_with_an_open_bracket_is_refused() {
        for text in ["mysql", "", "/", "a/b/c", "vg0/[abc", "vg0/a***b"] {
            let error = text.parse::<Pattern>().unwrap_err();
            assert!(
                error.starts_with("expected a pattern of volumes"),
                "{text}: {error}"
            );
        }
    }
}
