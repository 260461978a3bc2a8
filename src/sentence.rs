//! What people are told, as parts: text, commands, times and volumes.
//!
//! A page shows a command as code, a time in the reader's zone and a volume as a link; a terminal and a message show
//! [`Sentence`](crate::sentence::Sentence)'s `Display`. So nothing is ever read back out of prose. `sentence!` builds one:
//!
//! ```
//! use cowbell::sentence;
//! use cowbell::sentence::{command, volume};
//!
//! let (name, age) = ("vg0/snap", "2 days");
//! let old = sentence!["Snapshot ", volume(name), " is {age} old. Remove it with ", command(format!("lvremove {name}")), "."];
//! ```

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::{PartialSchema, ToSchema};

use crate::units::capital;

/// One or more sentences. As JSON it is plain text, for API and clients; see [`parts`] for what is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence(Vec<SentencePart>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SentencePart {
    Text(String),
    /// For a shell, or for SQL.
    Command(String),
    Time(Timestamp),
    /// The full name: `vg0/mysql`.
    Volume(String),
    /// What follows begins a line where that is shown, so that it stays in its place while numbers before it change.
    Line,
}

/// Joins parts: string literals, which may name variables as in `format!`, and everything that is `Into<Sentence>`.
#[macro_export]
macro_rules! sentence {
    ($($parts:tt)*) => {{
        #[allow(unused_mut, reason = "a sentence may have no part")]
        let mut sentence = $crate::sentence::Sentence::default();
        $crate::push_parts!(sentence; $($parts)*);
        sentence
    }};
}

/// The loop of [`sentence!`]: one part at a time, since a literal is formatted.
#[doc(hidden)]
#[macro_export]
macro_rules! push_parts {
    ($sentence:ident;) => {};
    ($sentence:ident; $text:literal $(, $($rest:tt)*)?) => {
        $sentence.push(::std::format!($text));
        $($crate::push_parts!($sentence; $($rest)*);)?
    };
    ($sentence:ident; $part:expr $(, $($rest:tt)*)?) => {
        $sentence.push($part);
        $($crate::push_parts!($sentence; $($rest)*);)?
    };
}

pub fn command(text: impl Into<String>) -> SentencePart {
    SentencePart::Command(text.into())
}

pub fn volume(full_name: impl Into<String>) -> SentencePart {
    SentencePart::Volume(full_name.into())
}

impl Sentence {
    pub fn parts(&self) -> &[SentencePart] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends; neighbouring texts become one, so that equal sentences have equal parts.
    pub fn push(&mut self, other: impl Into<Self>) {
        for part in other.into().0 {
            match (self.0.last_mut(), part) {
                (Some(SentencePart::Text(last)), SentencePart::Text(text)) => last.push_str(&text),
                (_, SentencePart::Text(text)) if text.is_empty() => {}
                (_, part) => self.0.push(part),
            }
        }
    }

    /// Appends the next sentence, if there is one, after a space.
    pub fn then(mut self, next: impl Into<Self>) -> Self {
        let next = next.into();
        if !self.is_empty() && !next.is_empty() {
            self.push(" ");
        }
        self.push(next);
        self
    }

    /// As [`Self::then`], but on a new line.
    pub fn then_on_a_line(mut self, next: impl Into<Self>) -> Self {
        let next = next.into();
        if !self.is_empty() && !next.is_empty() {
            self.push(SentencePart::Line);
        }
        self.push(next);
        self
    }

    /// With a capital, if it begins with text.
    pub fn capitalized(mut self) -> Self {
        if let Some(SentencePart::Text(first)) = self.0.first_mut() {
            *first = capital(first);
        }
        self
    }

    /// Text of modules that write commands in backticks: `Run `lvs` now.` An odd number of them is part of a name.
    pub fn with_commands(text: &str) -> Self {
        if text.matches('`').count() % 2 == 1 {
            return text.into();
        }
        let mut sentence = Self::default();
        for (index, part) in text.split('`').enumerate() {
            if index % 2 == 1 {
                sentence.push(command(part));
            } else {
                sentence.push(part);
            }
        }
        sentence
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|part| part.fmt(formatter))
    }
}

impl fmt::Display for SentencePart {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Volume(text) => formatter.write_str(text),
            Self::Command(text) => write!(formatter, "`{text}`"),
            Self::Time(at) => write!(formatter, "{}", at.strftime("%F %T UTC")),
            Self::Line => formatter.write_str(" "),
        }
    }
}

impl From<&str> for Sentence {
    fn from(text: &str) -> Self {
        text.to_string().into()
    }
}

impl From<String> for Sentence {
    fn from(text: String) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        SentencePart::Text(text).into()
    }
}

impl From<Timestamp> for Sentence {
    fn from(at: Timestamp) -> Self {
        SentencePart::Time(at).into()
    }
}

impl From<SentencePart> for Sentence {
    fn from(part: SentencePart) -> Self {
        Self(vec![part])
    }
}

/// Nothing is said about what is unknown.
impl<Part: Into<Sentence>> From<Option<Part>> for Sentence {
    fn from(part: Option<Part>) -> Self {
        part.map_or_else(Self::default, Into::into)
    }
}

impl Serialize for Sentence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A client of the API gets the text, and prints it.
impl<'de> Deserialize<'de> for Sentence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl PartialSchema for Sentence {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        String::schema()
    }
}

impl ToSchema for Sentence {}

/// For `#[serde(with = "crate::sentence::parts")]`, where a sentence is stored: `[{"text":"Run "},{"command":"lvs"}]`
pub mod parts {
    use super::*;

    pub fn serialize<S: Serializer>(sentence: &Sentence, serializer: S) -> Result<S::Ok, S::Error> {
        sentence.0.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sentence, D::Error> {
        Vec::deserialize(deserializer).map(Sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Sentence {
        let (name, days) = ("vg0/snap", 2);
        sentence![
            "Snapshot ",
            volume(name),
            " is {days} days",
            " old",
            None::<&str>,
            " since ",
            Timestamp::UNIX_EPOCH,
            ": ",
            command(format!("lvremove {name}")),
        ]
    }

    #[test]
    fn parts_are_text_for_people_and_parts_where_they_are_stored() {
        assert_eq!(
            example().to_string(),
            "Snapshot vg0/snap is 2 days old since 1970-01-01 00:00:00 UTC: `lvremove vg0/snap`"
        );
        let stored = parts::serialize(&example(), serde_json::value::Serializer).unwrap();
        assert_eq!(
            stored.to_string(),
            r#"[{"text":"Snapshot "},{"volume":"vg0/snap"},{"text":" is 2 days old since "},{"time":"1970-01-01T00:00:00Z"},{"text":": "},{"command":"lvremove vg0/snap"}]"#
        );
        assert_eq!(parts::deserialize(stored).unwrap(), example());
        let shown = serde_json::to_value(example()).unwrap();
        let read: Sentence = serde_json::from_value(shown.clone()).unwrap();
        assert_eq!(shown, example().to_string());
        assert_eq!(read.to_string(), example().to_string());
    }

    #[test]
    fn sentences_follow_each_other_after_a_space() {
        for (first, next, expected) in [("A.", "B.", "A. B."), ("", "B.", "B."), ("A.", "", "A.")] {
            assert_eq!(Sentence::from(first).then(next).to_string(), expected);
            let lines = Sentence::from(first).then_on_a_line(next);
            assert_eq!(lines.to_string(), expected);
            assert_eq!(
                lines.parts().contains(&SentencePart::Line),
                expected == "A. B."
            );
        }
    }

    #[test]
    fn commands_in_backticks_become_parts() {
        let found = Sentence::with_commands("Use `lvextend x` now.");
        assert_eq!(
            found.parts(),
            sentence!["Use ", command("lvextend x"), " now."].parts()
        );
        let name = "a name with ` in it";
        assert_eq!(Sentence::with_commands(name), name.into());
    }
}
