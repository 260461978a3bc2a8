//! Time ranges in URLs and on the command line: absolute (`2026-11-21T03:00:00Z`, `2026-11-21T04:00[Europe/Berlin]`), or
//! relative to the last tick (`-1h`, `now`).

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp, Zoned};
use serde::Deserialize;

use super::Range;

/// The unparsed ends of a time range.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct TimeQuery {
    pub from: Option<String>,
    pub to: Option<String>,
}

/// An invalid time or range, as a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidTime(String);

impl TimeQuery {
    /// Parses the range; `default_from` and now are the defaults.
    pub fn range(&self, now: Timestamp, default_from: &str) -> Result<Range, InvalidTime> {
        let from = given(self.from.as_deref()).unwrap_or(default_from);
        let to = given(self.to.as_deref()).unwrap_or("now");
        let range = Range {
            from: instant("from", from, now)?,
            to: instant("to", to, now)?,
        };
        if range.from >= range.to {
            return Err(InvalidTime(format!(
                "`from` must be before `to`, but `{from}` is {} and `{to}` is {}",
                range.from, range.to
            )));
        }
        Ok(range)
    }
}

/// Extends a range that ends now to include later entries.
pub fn including_latest(query: &TimeQuery, range: Range) -> Range {
    let is_open = given(query.to.as_deref()).is_none_or(|to| to == "now");
    Range {
        to: if is_open { Timestamp::MAX } else { range.to },
        ..range
    }
}

fn given(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// Parses a time; the error names `key`.
pub fn instant(key: &str, text: &str, now: Timestamp) -> Result<Timestamp, InvalidTime> {
    let found = match text.strip_prefix('-') {
        _ if text == "now" => Some(now),
        Some(length) => ago(now, length),
        None => absolute(text),
    };
    found.ok_or_else(|| {
        InvalidTime(format!(
            "expected `{key}` to be a time such as 2026-11-21T03:00:00Z, or relative such as -1h or now, but found `{text}`"
        ))
    })
}

/// With an offset, with a zone, or else in UTC.
fn absolute(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    if let Ok(zoned) = text.parse::<Zoned>() {
        return Some(zoned.timestamp());
    }
    let local: DateTime = text.parse().ok()?;
    Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn ago(now: Timestamp, length: &str) -> Option<Timestamp> {
    let length: jiff::Span = length.parse().ok()?;
    if length.is_negative() {
        return None;
    }
    let days = SpanRelativeTo::days_are_24_hours();
    now.checked_sub(length.to_duration(days).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &str, to: &str, expected: &str) {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let query = TimeQuery {
            from: Some(from.into()),
            to: Some(to.into()),
        };
        let found = match query.range(now, "-1h") {
            Ok(range) => format!("{} {}", range.from, range.to),
            Err(InvalidTime(sentence)) => sentence,
        };
        assert!(
            found.contains(expected),
            "expected {expected:?}, but found {found:?}"
        );
    }

    #[test]
    fn times_are_absolute_or_relative_to_the_last_tick() {
        check("-1h", "now", "2026-11-21T11:00:00Z 2026-11-21T12:00:00Z");
        check("-90m", "-30m", "2026-11-21T10:30:00Z 2026-11-21T11:30:00Z");
        check("-7d", "", "2026-11-14T12:00:00Z 2026-11-21T12:00:00Z");
        check(
            "2026-11-20T01:02:03Z",
            "2026-11-20T05:00:00+02:00",
            "2026-11-20T01:02:03Z 2026-11-20T03:00:00Z",
        );
        check("2026-11-20T01:02", "", "2026-11-20T01:02:00Z");
        check("", "", "2026-11-21T11:00:00Z");
    }

    #[test]
    fn invalid_times_are_rejected() {
        check("yesterday", "", "expected `from` to be a time such as");
        check("--1h", "", "but found `--1h`");
        check("-99999999999h", "", "but found `-99999999999h`");
        check("now", "-1h", "`from` must be before `to`");
    }
}
