//! Times as people write them, in addresses and on the command line: absolute (`2026-11-21T03:00:00Z`), or relative to
//! the last tick (`-1h`, `now`).

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp};
use serde::Deserialize;

use super::Range;

/// The words that say which span of time is meant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Span {
    pub from: Option<String>,
    pub to: Option<String>,
}

/// Why words mean no span of time: a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoSpan(String);

impl Span {
    /// The range, with `default_from` where none is given, and up to now.
    pub fn range(&self, now: Timestamp, default_from: &str) -> Result<Range, NoSpan> {
        let from = given(self.from.as_deref()).unwrap_or(default_from);
        let to = given(self.to.as_deref()).unwrap_or("now");
        let range = Range { from: instant("from", from, now)?, to: instant("to", to, now)? };
        if range.from >= range.to {
            return Err(NoSpan(format!(
                "`from` has to be before `to`, but `{from}` is {} and `{to}` is {}",
                range.from, range.to
            )));
        }
        Ok(range)
    }
}

/// A list up to now takes in what began since the last tick.
pub fn with_the_latest(span: &Span, range: Range) -> Range {
    let is_open = given(span.to.as_deref()).is_none_or(|to| to == "now");
    Range { to: if is_open { Timestamp::MAX } else { range.to }, ..range }
}

fn given(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// The instant that a text means, which `key` names in the sentence where it means none.
pub fn instant(key: &str, text: &str, now: Timestamp) -> Result<Timestamp, NoSpan> {
    let found = match text.strip_prefix('-') {
        _ if text == "now" => Some(now),
        Some(length) => before(now, length),
        None => text
            .parse()
            .ok()
            .or_else(|| text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(Into::into)),
    };
    found.ok_or_else(|| {
        NoSpan(format!(
            "expected `{key}` to be a time such as 2026-11-21T03:00:00Z, or relative such as -1h or now, but found `{text}`"
        ))
    })
}

fn before(now: Timestamp, length: &str) -> Option<Timestamp> {
    let length: jiff::Span = length.parse().ok().filter(|length: &jiff::Span| !length.is_negative())?;
    let length = length.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    now.checked_sub(length).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &str, to: &str, expected: &str) {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let span = Span { from: Some(from.into()), to: Some(to.into()) };
        let found = match span.range(now, "-1h") {
            Ok(range) => format!("{} {}", range.from, range.to),
            Err(NoSpan(sentence)) => sentence,
        };
        assert!(found.contains(expected), "expected {expected:?}, but found {found:?}");
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
    fn what_is_no_time_is_answered_with_a_sentence() {
        check("yesterday", "", "expected `from` to be a time such as");
        check("--1h", "", "but found `--1h`");
        check("-99999999999h", "", "but found `-99999999999h`");
        check("now", "-1h", "`from` has to be before `to`");
    }
}
