//! Patterns of volume names, such as `vg0/mysql_*`.

use std::str::FromStr;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

/// A pattern of `VG/LV`, where `*`, `?` and `[abc]` match as in a shell. `vg0/*` matches all volumes of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        let expected = |found: &str| {
            format!(
                "expected a pattern of volumes such as \"vg0/mysql_*\" or \"vg0/*\", but found {found}"
            )
        };
        let pattern = glob::Pattern::new(text)
            .map_err(|error| expected(&format!("{text:?}: {}", error.msg)))?;
        let is_one = text.matches('/').count() == 1 && text.len() > 1;
        is_one
            .then_some(Self(pattern))
            .ok_or_else(|| expected(&format!("{text:?}")))
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
