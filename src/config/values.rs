//! Values of the file that are more than a text or a number. Each is checked while it is parsed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::Time;
use reqwest::Url;
use serde::Deserialize;

use super::ConfigError;

/// Shorter ticks would cost more than they show.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// Longer ticks would miss a snapshot's overflow.
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
/// A smaller store could not hold a day of a host with a few disks.
const SMALLEST_STORE: Size = Size(32 << 20);
/// Days of the longest retention: a century.
const OLDEST: u32 = 36_500;
/// Characters of an address of Grafana.
const LONGEST_BOARD: usize = 2000;
/// Characters of a proxy's prefix.
const LONGEST_PREFIX: usize = 200;
/// The shortest time between two repeats, and the usual one.
const SHORTEST_REPEAT: Duration = Duration::from_secs(60);
const USUAL_REPEAT: Duration = Duration::from_secs(3600);

/// A duration such as "90s" or "1h 30m".
pub(super) fn duration(text: &str) -> Option<Duration> {
    Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()
}

/// A numeric address and a port.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Listen(pub SocketAddr);

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| {
            format!(
                "expected an address and a port such as \"127.0.0.1:2692\", but found \"{text}\""
            )
        })
    }
}

/// Fails for an address that other machines reach, without a token.
pub fn check_address(address: SocketAddr, has_token: bool) -> Result<(), ConfigError> {
    if address.ip().is_loopback() || has_token {
        return Ok(());
    }
    Err(ConfigError::option(
        "listen",
        &format!(
            "other machines reach {address}, which needs a token: set `token_file` in [changes], or listen on 127.0.0.1 \
             and use `ssh -L`"
        ),
    ))
}

/// The length of a tick, from [`SHORTEST_INTERVAL`] to [`LONGEST_INTERVAL`].
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct TickInterval(pub Duration);

impl TryFrom<String> for TickInterval {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match duration(&text) {
            Some(length) if (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&length) => {
                Ok(Self(length))
            }
            _ => Err(format!(
                "expected a duration from \"100ms\" to \"60s\" such as \"1s\", but found \"{text}\""
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
        match Url::parse(&text) {
            Ok(url)
                if matches!(url.scheme(), "http" | "https")
                    && url.fragment().is_none()
                    && url.password().is_none()
                    && text.len() <= LONGEST_BOARD =>
            {
                Ok(Self(text))
            }
            _ => Err(format!(
                "expected the address of a board such as \"https://grafana.example/d/cowbell-host?var-instance=db1:2692\", \
                 but found \"{text:.200}\""
            )),
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

    pub fn ms(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

impl TryFrom<String> for Age {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        for (unit, days) in [("d", 1), ("w", 7), ("y", 365)] {
            if let Some(count) = text.trim().strip_suffix(unit)
                && let Ok(count) = count.trim().parse::<u32>()
                && let Some(days @ 1..=OLDEST) = count.checked_mul(days)
            {
                return Ok(Self::days(days.into()));
            }
        }
        Err(format!(
            "expected a number of days, weeks or years such as \"30d\", \"12w\" or \"2y\", but found \"{text}\""
        ))
    }
}

/// A number of bytes, such as "500MiB" or "2GB".
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

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
        for (unit, bytes) in UNITS {
            if let Some(count) = text.trim().strip_suffix(unit)
                && let Ok(count) = count.trim().parse::<u64>()
                && let Some(bytes) = count.checked_mul(bytes)
            {
                if bytes < SMALLEST_STORE.0 {
                    return Err(format!("expected at least \"32MiB\", but found \"{text}\""));
                }
                return Ok(Self(bytes));
            }
        }
        Err(format!(
            "expected a whole number of MiB, GiB, MB or GB such as \"1GiB\", but found \"{text}\""
        ))
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
        Err(format!(
            "expected a path such as \"/cowbell\", of letters, digits and -_.~, but found \"{text}\""
        ))
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
pub struct Label<const MOST: usize>(pub String);

impl<const MOST: usize> TryFrom<String> for Label<MOST> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if (1..=MOST).contains(&text.chars().count()) && !text.contains(char::is_control) {
            return Ok(Self(text));
        }
        Err(format!("expected 1 to {MOST} letters"))
    }
}

/// A time of the day, which may include midnight, in the local time zone.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct QuietHours {
    from: Time,
    to: Time,
}

impl TryFrom<String> for QuietHours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time = |text: &str| Time::strptime("%H:%M", text.trim()).ok();
        if let Some((from, to)) = text.split_once('-')
            && let Some((from, to)) = time(from).zip(time(to))
            && from != to
        {
            return Ok(Self { from, to });
        }
        Err(format!(
            "`quiet_hours`: expected times such as \"22:00-07:00\", but found {text:?}"
        ))
    }
}

impl QuietHours {
    pub fn contains(self, time: Time) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&time)
        } else {
            time >= self.from || time < self.to
        }
    }
}

/// The time between two repeats of an alert; `None` for never.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Repeat(pub Option<Duration>);

impl Default for Repeat {
    fn default() -> Self {
        Self(Some(USUAL_REPEAT))
    }
}

impl TryFrom<String> for Repeat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        match duration(&text) {
            Some(length) if length >= SHORTEST_REPEAT => Ok(Self(Some(length))),
            _ => Err(format!(
                "`repeat`: expected \"never\" or at least 1min, such as \"1h\", but found {text:?}"
            )),
        }
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
    fn quiet_hours_may_include_midnight() {
        let hours = |text: &str| QuietHours::try_from(text.to_string()).unwrap();
        let at = |hour, minute| Time::constant(hour, minute, 0, 0);
        for (text, time, expected) in [
            ("22:00-07:00", at(23, 0), true),
            ("22:00-07:00", at(6, 59), true),
            ("22:00-07:00", at(7, 0), false),
            ("01:00-05:00", at(0, 59), false),
            ("01:00-05:00", at(1, 0), true),
        ] {
            assert_eq!(hours(text).contains(time), expected, "{text} {time}");
        }
    }
}
