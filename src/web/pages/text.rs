//! How pages write numbers. An unknown value is a dash, never a zero.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::sentence::{Sentence, SentencePart};
use crate::units::{bytes_text, number_text, percent_text, size_text};
use crate::web::zone;

pub const DASH: &str = "–";
const UTC: &str = " UTC";

pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| DASH.into())
}

/// The known parts on one line.
pub fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

pub fn size(bytes: Option<u64>) -> String {
    or_dash(bytes.map(size_text))
}

pub fn amount(bytes: Option<f64>) -> String {
    or_dash(bytes.map(|bytes| bytes_text(bytes)))
}

/// Bytes per second.
pub fn rate(bytes: Option<f64>) -> String {
    bytes.map_or_else(|| DASH.into(), |_| format!("{}/s", amount(bytes)))
}

pub fn count(value: Option<f64>) -> String {
    or_dash(value.map(number_text))
}

pub fn percent(percent: Option<f64>) -> String {
    or_dash(percent.map(percent_text))
}

/// A share of one as a percentage without unit.
pub fn share(share: Option<f64>) -> String {
    or_dash(share.map(|share| format!("{:.1}", share * 100.0)))
}

/// A sentence with its times as the page writes them, and commands in backticks.
pub fn told(sentence: &Sentence, now: Timestamp) -> String {
    let part = |part: &SentencePart| match part {
        SentencePart::Time(at) => super::zoned_moment(*at, now),
        other => other.to_string(),
    };
    sentence.parts().iter().map(part).collect()
}

/// A sentence with commands in backticks: plain parts and commands in turn, the first one plain. Its times are those of the
/// reader.
pub fn with_commands(sentence: &str) -> Vec<(bool, String)> {
    if sentence.matches('`').count() % 2 == 1 {
        return vec![(false, sentence.into())];
    }
    let part = |(index, part)| {
        (
            index % 2 == 1,
            if index % 2 == 1 {
                part
            } else {
                where_read(part)
            },
        )
    };
    sentence
        .split('`')
        .map(String::from)
        .enumerate()
        .map(part)
        .collect()
}

/// Stored sentences have times such as `2026-11-23 19:43:23 UTC`.
fn where_read(text: String) -> String {
    const LENGTH: usize = "2026-11-23 19:43:23".len();
    let zone = zone::current();
    if zone == TimeZone::UTC {
        return text;
    }
    let mut parts: Vec<String> = text.split(UTC).map(String::from).collect();
    let last = parts.pop().unwrap_or_default();
    for part in &mut parts {
        let time = part
            .len()
            .checked_sub(LENGTH)
            .and_then(|start| part.get(start..));
        let at = time.and_then(|time| Timestamp::strptime("%F %T%z", format!("{time}+0000")).ok());
        match at {
            Some(at) => {
                part.truncate(part.len() - LENGTH);
                let name = zone::abbreviation(&zone, at);
                part.push_str(&format!(
                    "{} {name}",
                    at.to_zoned(zone.clone()).strftime("%F %T")
                ));
            }
            None => part.push_str(UTC),
        }
    }
    parts.concat() + &last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_are_dashes() {
        assert_eq!([count(None), share(None), rate(None)], [DASH, DASH, DASH]);
    }

    #[test]
    fn numbers_have_three_figures_or_commas() {
        assert_eq!(count(Some(0.0)), "0");
        assert_eq!(count(Some(12.34)), "12.3");
        assert_eq!(count(Some(1_234_567.0)), "1,234,567");
        assert_eq!(share(Some(0.783)), "78.3");
    }

    #[test]
    fn commands_are_separated_from_the_sentence() {
        let parts = with_commands("Use `lvextend x` now.");
        let commands: Vec<&str> = parts
            .iter()
            .filter(|(is_command, _)| *is_command)
            .map(|(_, part)| &**part)
            .collect();
        assert_eq!(commands, ["lvextend x"]);
        assert_eq!(
            with_commands("a name with ` in it"),
            [(false, "a name with ` in it".into())]
        );
    }
}
