//! `[[notify]]`: the receivers of alerts. Their kinds are in the module `channel`, and `notify` delivers to them.

use std::collections::HashSet;
use std::time::Duration;

use jiff::civil::Time;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use utoipa::ToSchema;

use super::ConfigError;
use super::values::{Pattern, ShortName, duration, unexpected};
use crate::channel::Channel;

/// Characters of a name.
const LONGEST_NAME: usize = 100;
/// The shortest time between two repeats, and the usual one.
const SHORTEST_REPEAT: Duration = Duration::from_secs(60);
const USUAL_REPEAT: Duration = Duration::from_secs(3600);
/// The keys of every kind. All others belong to one kind.
pub const COMMON_KEYS: [&str; 5] = ["name", "severity", "volumes", "quiet_hours", "repeat"];

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    #[default]
    Warning,
    Critical,
}

impl Severity {
    pub fn text(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// A receiver of alerts.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// Unique in the file; holds no secret.
    #[serde(default, deserialize_with = "name")]
    pub name: String,
    /// The least severity that it gets.
    #[serde(default)]
    pub severity: Severity,
    /// The volumes whose alerts it gets; all if `None`.
    pub volumes: Option<Pattern>,
    /// Warnings wait for their end.
    pub quiet_hours: Option<QuietHours>,
    /// Open critical alerts are repeated after this time.
    #[serde(default)]
    pub repeat: Repeat,
    /// In the file, the keys of its kind stand beside those above; see `nest_kinds`.
    #[serde(rename = "kind")]
    pub channel: Channel,
    #[serde(skip)]
    place: EntryPlace,
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    ShortName::<LONGEST_NAME>::deserialize(deserializer).map(|label| label.0)
}

/// File and line of an entry. All are equal, since a receiver that moves in the file remains the same.
#[derive(Clone, Debug, Default)]
struct EntryPlace(String);

impl PartialEq for EntryPlace {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Receiver {
    /// An error of its settings, with file, line and name.
    pub fn error(&self, why: &str) -> ConfigError {
        let Self { name, place, .. } = self;
        ConfigError(format!("{} receiver \"{name}\": {why}", place.0))
    }

    /// Reads what is in credentials and files.
    pub fn load(&mut self) -> Result<(), ConfigError> {
        let loaded = self.channel.load();
        loaded.map_err(|why| self.error(&why))
    }

    /// Holds no secret.
    fn usual_name(&self) -> String {
        let name = self.channel.kind().usual_name();
        name.chars().take(LONGEST_NAME).collect()
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
        let expected = unexpected("times such as \"22:00-07:00\"", &text);
        Err(format!("`quiet_hours`: {expected}"))
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
            _ => {
                let expected = "\"never\" or at least 1min, such as \"1h\"";
                Err(format!("`repeat`: {}", unexpected(expected, &text)))
            }
        }
    }
}

/// Moves the keys of a kind to a table of its name, which serde takes as an enum: `{ kind = "email", to = "a@b.c" }`
/// becomes `{ kind = { email = { to = "a@b.c" } } }`. Each key and value remembers its line. (An enum with a tag would
/// not: serde copies its keys before it knows the variant.) Returns where the entries begin.
pub fn nest_kinds(file: &mut DeTable) -> Vec<usize> {
    let Some(DeValue::Array(entries)) = file.get_mut("notify").map(Spanned::get_mut) else {
        return Vec::new();
    };
    let mut starts = Vec::new();
    for entry in entries.iter_mut() {
        let span = entry.span();
        starts.push(span.start);
        let DeValue::Table(keys) = entry.get_mut() else {
            continue;
        };
        let (mut common, mut own) = (DeTable::new(), DeTable::new());
        for (key, value) in std::mem::take(keys) {
            if COMMON_KEYS.contains(&&**key.get_ref()) {
                common.insert(key, value);
            } else {
                own.insert(key, value);
            }
        }
        if let Some((key, kind)) = own.remove_entry("kind") {
            let (at, mut value) = (kind.span(), kind.into_inner());
            if let DeValue::String(name) = value {
                let own = Spanned::new(span, DeValue::Table(own));
                let variant = [(Spanned::new(at.clone(), name), own)];
                value = DeValue::Table(variant.into_iter().collect());
            }
            common.insert(key, Spanned::new(at, value));
        }
        *keys = common;
    }
    starts
}

/// Gives each receiver its place in the file and a name of its own.
pub fn settle(receivers: &mut [Receiver], places: Vec<String>) -> Result<(), ConfigError> {
    let mut names = HashSet::new();
    for (receiver, place) in receivers.iter_mut().zip(places) {
        receiver.place = EntryPlace(place);
        let usual = receiver.usual_name();
        if receiver.name.is_empty() {
            receiver.name.clone_from(&usual);
        }
        let checked = receiver.channel.kind().check();
        checked.map_err(|why| receiver.error(&why))?;
        if names.contains(&receiver.name) {
            if receiver.name != usual {
                return Err(receiver.error("another receiver in [[notify]] has this name"));
            }
            let mut numbered = (2..).map(|number| format!("{usual} ({number})"));
            receiver.name = numbered
                .find(|name| !names.contains(name))
                .unwrap_or_default();
        }
        names.insert(receiver.name.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    /// The names of all receivers, or the error.
    fn names(text: &str) -> Result<Vec<String>, String> {
        let config = parse(Path::new("c.toml"), text).map_err(|error| error.to_string())?;
        let receivers = config.notify.into_iter();
        Ok(receivers.map(|receiver| receiver.name).collect())
    }

    #[test]
    fn a_receiver_has_a_name_without_secrets_and_no_two_have_the_same() {
        let hook = "[[notify]]\nkind = \"webhook\"\nurl = \"http://hooks.example/hunter2\"\n";
        let usual = "webhook at hooks.example";
        assert_eq!(
            names(&hook.repeat(3)).unwrap(),
            [usual, &format!("{usual} (2)"), &format!("{usual} (3)")]
        );
        let pager = format!("{hook}name = \"pager\"\n");
        assert_eq!(
            names(&pager.repeat(2)).unwrap_err(),
            "in the configuration c.toml, line 5, receiver \"pager\": another receiver in [[notify]] has this name"
        );
        let mail = |to: &str| format!("[[notify]]\nkind = \"email\"\nto = \"{to}\"\n");
        assert_eq!(
            names(&mail("a@example.com")).unwrap(),
            ["email to a@example.com"]
        );
        let many = names(&mail(&["a@example.com"; 20].join(", "))).unwrap();
        assert_eq!(many[0].len(), LONGEST_NAME);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line_and_what_is_allowed() {
        let (hook, mail) = (
            "kind = \"webhook\"\nurl = \"http://x\"\n",
            "kind = \"email\"\nto = \"a@b.c\"\n",
        );
        for (kind, keys, expected) in [
            ("", "", "line 1, `[[notify]]`: missing field `kind`"),
            (
                "",
                "kind = \"mail\"",
                "line 2, `kind = …`: unknown variant `mail`, expected one of `webhook`, `command`, `email`",
            ),
            (
                "",
                "kind = \"webhook\"",
                "line 1, `[[notify]]`: missing field `url`",
            ),
            (
                "",
                "kind = \"command\"",
                "line 1, `[[notify]]`: missing field `command`",
            ),
            (
                "",
                "kind = \"command\"\ncommand = []",
                "line 3, `command = …`: `command`: expected a program and its arguments",
            ),
            (
                "",
                "kind = \"command\"\ncommand = [\"\"]",
                "expected a program and its arguments",
            ),
            (
                "",
                "kind = \"command\"\ncommand = \"curl x\"",
                "line 3, `command = …`: invalid type: string \"…\", expected",
            ),
            ("", "kind = \"email\"", "missing field `to`"),
            (
                "",
                "kind = \"email\"\nto = \"\"",
                "`to`: expected addresses such as \"dba@example.com\", but found \"\"",
            ),
            (
                "",
                "kind = \"email\"\nto = \"nobody\"",
                "expected addresses such as \"dba@example.com\"",
            ),
            (
                mail,
                "from = \"a@b.c, d@b.c\"",
                "line 4, `from = …`: `from`: expected an address",
            ),
            (
                mail,
                "url = \"http://x\"",
                "line 4, `url = …`: unknown field `url`, expected one of `to`, `from`, `server`, `user`, `password`, or for every kind",
            ),
            (
                mail,
                "severty = \"critical\"",
                "`password`, or for every kind `name`, `severity`, `volumes`, `quiet_hours`, `repeat`",
            ),
            (
                mail,
                "user = \"me\"",
                "line 1, receiver \"email to a@b.c\": `user` and `password`: expected both or neither",
            ),
            (
                mail,
                "server = \"mail.example\"",
                "expected smtp://HOST:PORT",
            ),
            (
                mail,
                "severity = \"error\"",
                "line 4, `severity = …`: unknown variant `error`, expected `warning` or `critical`",
            ),
            (
                mail,
                "volumes = \"mysql\"",
                "expected a pattern of volumes such as",
            ),
            (
                mail,
                "name = \"\"",
                "line 4, `name = …`: expected 1 to 100 letters",
            ),
            (
                mail,
                "quiet_hours = \"at night\"",
                "such as \"22:00-07:00\"",
            ),
            (mail, "repeat = \"1s\"", "\"never\" or at least 1min"),
            (
                hook,
                "headers = { \"a b\" = \"\" }",
                "expected names of letters",
            ),
            (hook, "template_file = \"x\"", "expected an absolute path"),
            (
                hook,
                "template = \"x\"\ntemplate_file = \"/x\"",
                "`template` and `template_file`: expected one of them",
            ),
            (
                "kind = \"webhook\"\n",
                "url = \"http://{{ host }}/\"",
                "expected an http:// or https://",
            ),
        ] {
            let error = names(&format!("[[notify]]\n{kind}{keys}\n")).unwrap_err();
            assert!(error.contains(expected), "expected {expected:?} in {error}");
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
