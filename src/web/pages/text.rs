//! How numbers are written on pages. What is not known is a dash, never a zero.

use crate::units::{Prefix, bits_text, bytes_text, three_figures};

pub const DASH: &str = "–";

pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| DASH.into())
}

/// Whether amounts are written in bytes or bits, and in which multiples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Writing {
    pub prefix: Prefix,
    pub bits: bool,
}

impl Writing {
    /// An amount of data, given in bytes.
    pub fn amount(self, bytes: Option<f64>) -> String {
        let write = if self.bits { bits_text } else { bytes_text };
        or_dash(bytes.map(|bytes| write(bytes, self.prefix)))
    }

    /// The same, each second.
    pub fn rate(self, bytes: Option<f64>) -> String {
        bytes.map_or_else(|| DASH.into(), |_| format!("{}/s", self.amount(bytes)))
    }
}

/// A number of things, with thousands set apart.
pub fn count(value: Option<f64>) -> String {
    or_dash(value.map(|value| if value < 100.0 { trimmed(value) } else { grouped(value) }))
}

/// Three figures at most, and no decimals for nothing.
fn trimmed(value: f64) -> String {
    let text = three_figures(value);
    match text.split_once('.') {
        Some((whole, decimals)) if decimals.bytes().all(|digit| digit == b'0') => whole.to_string(),
        _ => text,
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub fn percent(share: Option<f64>) -> String {
    or_dash(share.map(|share| format!("{:.1}", share * 100.0)))
}

/// A sentence with commands in backticks, as plain parts and commands in turn, beginning with a plain one.
pub fn with_commands(sentence: &str) -> Vec<(bool, String)> {
    sentence.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part.to_string())).collect()
}

/// A part of an address, with everything that has a meaning there made harmless.
pub fn escaped(part: &str) -> String {
    part.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash() {
        assert_eq!(
            (count(None), percent(None), Writing::default().rate(None)),
            (DASH.into(), DASH.into(), DASH.into())
        );
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(count(Some(0.0)), "0");
        assert_eq!(count(Some(12.34)), "12.3");
        assert_eq!(count(Some(1_234_567.0)), "1,234,567");
        assert_eq!(percent(Some(0.783)), "78.3");
        assert_eq!(Writing { prefix: Prefix::Decimal, bits: true }.rate(Some(125_000.0)), "1.00 Mbit/s");
    }

    #[test]
    fn commands_are_told_from_the_sentence_around_them() {
        let parts = with_commands("Use `lvextend x` now.");
        let commands: Vec<&str> =
            parts.iter().filter(|(is_command, _)| *is_command).map(|(_, part)| &**part).collect();
        assert_eq!(commands, ["lvextend x"]);
    }

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(escaped("a/b c?<é"), "a%2Fb%20c%3F%3C%C3%A9");
    }
}
