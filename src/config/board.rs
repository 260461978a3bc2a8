//! `grafana`: the board of this host, to which charts lead.

use serde::Deserialize;

/// Longer addresses are none.
const LONGEST: usize = 2000;

/// The address of a board, without a range.
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
        let url = reqwest::Url::parse(&text).ok();
        let is_valid = url.is_some_and(|url| {
            ["http", "https"].contains(&url.scheme())
                && url.fragment().is_none()
                && url.password().is_none()
        });
        match is_valid && text.len() <= LONGEST {
            true => Ok(Self(text)),
            false => Err(format!(
                "expected the address of a board such as \"https://grafana.example/d/cowbell-host?var-instance=db1:2692\", \
                 but found \"{text:.200}\""
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
}
