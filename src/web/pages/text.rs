//! How pages write numbers. An unknown value is a dash, never a zero.

use crate::units::{Prefix, bytes_text, number_text, percent_text, size_text};

pub const DASH: &str = "–";

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
    or_dash(bytes.map(|bytes| bytes_text(bytes, Prefix::default())))
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

/// A sentence with commands in backticks: plain parts and commands in turn, the first one plain.
pub fn with_commands(sentence: &str) -> Vec<(bool, String)> {
    sentence.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part.to_string())).collect()
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
        let commands: Vec<&str> =
            parts.iter().filter(|(is_command, _)| *is_command).map(|(_, part)| &**part).collect();
        assert_eq!(commands, ["lvextend x"]);
    }
}
