//! The label of a region of statistics: when it was created, and what it is for. The kernel keeps it with the region, so a
//! later start of the program finds all that it needs.
//!
//! The text is one word: `TIME`, `TIME/map/CHUNK`, or `TIME/INDEX/COUNT/PROBABILITY` for a probe. The time is in
//! milliseconds since 1970, the chunk size in sectors.

use std::fmt;

/// The label of a region.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// The time as text.
    pub created: String,
    pub role: Role,
}

/// What a region is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// It has the chunks of the whole volume.
    Whole,
    /// It has large areas of the whole volume. Probes tell how many chunks of an area were written.
    Map {
        /// The areas of its probes, in sectors.
        chunk: u64,
    },
    Probe(Probe),
    /// Of another version of the program.
    Other,
}

/// A region with the chunks of one place, which was chosen at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Its number among the probes of its map, from 0 on.
    pub index: usize,
    /// How many probes the map has.
    pub count: usize,
    /// The probability that its area of the map was chosen.
    pub probability: f64,
}

/// Whether these are all probes of a map, each once.
pub fn are_complete(probes: &[Probe]) -> bool {
    let has = |index: usize| {
        probes
            .iter()
            .any(|probe| probe.index == index && probe.count == probes.len())
    };
    !probes.is_empty() && (0..probes.len()).all(has)
}

impl Label {
    pub fn new(created_ms: i64, role: Role) -> Self {
        Self {
            created: created_ms.to_string(),
            role,
        }
    }

    pub fn parse(text: &str) -> Self {
        let (created, role) = text.split_once('/').unwrap_or((text, ""));
        Self {
            created: created.into(),
            role: Role::parse(role),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Role::Whole => f.write_str(&self.created),
            role => write!(f, "{}/{role}", self.created),
        }
    }
}

impl Role {
    pub fn parse(text: &str) -> Self {
        let map = || {
            let chunk = text
                .strip_prefix("map/")?
                .parse()
                .ok()
                .filter(|chunk| *chunk > 0)?;
            Some(Self::Map { chunk })
        };
        let probe = || Probe::parse(text).map(Self::Probe);
        if text.is_empty() {
            Self::Whole
        } else {
            map().or_else(probe).unwrap_or(Self::Other)
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Map { chunk } => write!(f, "map/{chunk}"),
            Self::Probe(Probe {
                index,
                count,
                probability,
            }) => write!(f, "{index}/{count}/{probability:.9}"),
            Self::Other => f.write_str("other"),
        }
    }
}

impl Probe {
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split('/').collect();
        let [index, count, probability] = words[..] else {
            return None;
        };
        let (index, count) = (index.parse().ok()?, count.parse().ok()?);
        let probability = probability
            .parse()
            .ok()
            .filter(|probability| *probability > 0.0 && *probability <= 1.0)?;
        (index < count).then_some(Self {
            index,
            count,
            probability,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let probe = Role::Probe(Probe {
            index: 3,
            count: 32,
            probability: 0.0625,
        });
        for (text, role) in [
            ("1764000000000", Role::Whole),
            ("1764000000000/map/8", Role::Map { chunk: 8 }),
            ("1764000000000/3/32/0.062500000", probe),
        ] {
            let label = Label::new(1_764_000_000_000, role);
            assert_eq!(
                (label.to_string().as_str(), Label::parse(text)),
                (text, label)
            );
        }
    }

    #[test]
    fn probes_are_complete_with_each_number_once() {
        let probe = |index| Probe {
            index,
            count: 2,
            probability: 0.5,
        };
        for (probes, expected) in [
            (vec![], false),
            (vec![probe(0)], false),
            (vec![probe(1), probe(0)], true),
            (vec![probe(0), probe(0)], false),
            (vec![probe(0), probe(1), probe(1)], false),
        ] {
            assert_eq!(are_complete(&probes), expected, "{probes:?}");
        }
    }

    #[test]
    fn labels_of_other_versions_have_no_role() {
        assert_eq!(Label::parse("-").role, Role::Whole);
        for text in [
            "1/2",
            "1/32/32/0.5",
            "1/0/32/0",
            "1/0/32/1.5",
            "1/0/32/NaN",
            "1/0/32/0.5/x",
            "1/-1/2/0.5",
        ] {
            assert_eq!(Label::parse(text).role, Role::Other, "{text}");
        }
    }
}
