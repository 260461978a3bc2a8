//! `[alerts]`: the thresholds of each rule, or "off"; and `[[alerts.for]]`: other ones for some volumes.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::pattern::Pattern;
use super::rule::{Measure, Rule, Thresholds};

/// The settings of all rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Alerts {
    rules: RuleSettings,
    /// The first one that matches a volume and has a rule decides that rule.
    pub overrides: Vec<Override>,
}

/// The thresholds of each rule; `None` if it is off.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSettings([Option<Thresholds>; Rule::ALL.len()]);

/// Other settings for the volumes that match a pattern. A backup is matched by its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    lv: Pattern,
    rules: Vec<(Rule, Option<Thresholds>)>,
}

/// The default distance of `clear` from `warning`, in percentage points.
const CLEARANCE: f64 = 5.0;
/// By default a time clears when it is a third longer than its warning.
const CLEARED_TIME: f64 = 4.0 / 3.0;
/// Longer times are mistakes.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

impl Default for Alerts {
    fn default() -> Self {
        let rules = RuleSettings(Rule::ALL.map(|rule| Some(rule.default_thresholds())));
        Self {
            rules,
            overrides: Vec::new(),
        }
    }
}

impl RuleSettings {
    /// The thresholds of a rule; `None` if it is off.
    pub fn of(&self, rule: Rule) -> Option<Thresholds> {
        self.0[rule as usize]
    }
}

impl Alerts {
    /// The thresholds of a rule for a volume; `None` if it is off.
    pub fn of(&self, rule: Rule, vg: &str, lv: &str) -> Option<Thresholds> {
        let mut matching = self
            .overrides
            .iter()
            .filter(|other| other.lv.matches(vg, lv));
        matching
            .find_map(|other| other.rules.iter().find(|(name, _)| *name == rule))
            .map_or(self.rules.of(rule), |(_, thresholds)| *thresholds)
    }

    /// The settings of a rule, each for the volumes that match its pattern and none before it; the last is for all others.
    pub fn cases(&self, rule: Rule) -> Vec<(Option<&Pattern>, Option<Thresholds>)> {
        let special = self.overrides.iter().filter_map(|other| {
            let (_, thresholds) = other.rules.iter().find(|(name, _)| *name == rule)?;
            Some((Some(&other.lv), *thresholds))
        });
        special.chain([(None, self.rules.of(rule))]).collect()
    }

    /// For volumes without an override, and for cowbell itself.
    pub fn general(&self) -> &RuleSettings {
        &self.rules
    }

    /// The settings of all rules for a volume; `None` if they are the general ones.
    pub fn special(&self, vg: &str, lv: &str) -> Option<Box<RuleSettings>> {
        let is_special = self.overrides.iter().any(|other| other.lv.matches(vg, lv));
        is_special.then(|| Box::new(RuleSettings(Rule::ALL.map(|rule| self.of(rule, vg, lv)))))
    }
}

/// The keys of `[alerts]` and of `[[alerts.for]]`, where the last rules, those about cowbell itself, make no sense.
const GENERAL_KEYS: [&str; Rule::ALL.len() + 1] = with_rules("for");
const SPECIAL_KEYS: [&str; 18] = with_rules("lv");

const fn with_rules<const COUNT: usize>(first: &'static str) -> [&'static str; COUNT] {
    let mut names = [first; COUNT];
    let mut index = 1;
    while index < COUNT {
        names[index] = Rule::NAMES[index - 1];
        index += 1;
    }
    names
}

/// A key: the first one, or a rule.
struct Key(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<Rule>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Rule>, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<Rule>;

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str("the name of a rule")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<Rule>, E> {
        match self.0.iter().position(|known| *known == name) {
            Some(0) => Ok(None),
            Some(index) => Ok(Some(Rule::ALL[index - 1])),
            None => Err(E::unknown_field(name, self.0)),
        }
    }
}

impl<'de> Deserialize<'de> for Alerts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(General)
    }
}

struct General;

impl<'de> Visitor<'de> for General {
    type Value = Alerts;

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str("a table of rules")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Alerts, A::Error> {
        let mut alerts = Alerts::default();
        while let Some(key) = map.next_key_seed(Key(&GENERAL_KEYS))? {
            match key {
                Some(rule) => alerts.rules.0[rule as usize] = map.next_value_seed(Setting(rule))?,
                None => alerts.overrides = map.next_value()?,
            }
        }
        Ok(alerts)
    }
}

impl<'de> Deserialize<'de> for Override {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Special)
    }
}

struct Special;

impl<'de> Visitor<'de> for Special {
    type Value = Override;

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str("a table with `lv` and rules")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Override, A::Error> {
        let (mut lv, mut rules) = (None, Vec::new());
        while let Some(key) = map.next_key_seed(Key(&SPECIAL_KEYS))? {
            match key {
                Some(rule) => rules.push((rule, map.next_value_seed(Setting(rule))?)),
                None => lv = Some(map.next_value()?),
            }
        }
        Ok(Override {
            lv: lv.ok_or_else(|| A::Error::missing_field("lv"))?,
            rules,
        })
    }
}

/// A rule's setting: `"off"`, `"on"`, a duration, or a table, depending on its measure.
struct Setting(Rule);

impl<'de> DeserializeSeed<'de> for Setting {
    type Value = Option<Thresholds>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Setting {
    type Value = Option<Thresholds>;

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str(match self.0.measure() {
            Measure::Percent => "percentages such as { warning = 70, critical = 85 }, or \"off\"",
            Measure::TimeLeft => {
                "times such as { warning = \"30m\", critical = \"10m\" }, or \"off\""
            }
            Measure::Limit => "a duration such as \"30m\" or \"26h\", or \"off\"",
            Measure::Period => "\"on\", { within = \"26h\" } or \"off\"",
            Measure::State => "\"on\" or \"off\"",
        })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match (self.0.measure(), text) {
            (_, "off") => Ok(None),
            (_, "on") => Ok(Some(self.0.default_thresholds())),
            (Measure::Limit, _) => match Period::try_from(text.to_string()) {
                Ok(limit) => Ok(Some(Thresholds::limit(limit.0))),
                Err(_) => Err(E::custom(format!(
                    "expected {}, but found \"{text}\"",
                    Expectation(&self)
                ))),
            },
            _ => Err(E::custom(format!(
                "expected {}, but found \"{text}\"",
                Expectation(&self)
            ))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let table = MapAccessDeserializer::new(map);
        let thresholds = match self.0.measure() {
            Measure::Percent => Percentages::deserialize(table)?.checked(),
            Measure::TimeLeft => Times::deserialize(table)?.checked(),
            Measure::Period => {
                let Within { within } = Within::deserialize(table)?;
                Ok(Thresholds {
                    critical: within.0,
                    ..Thresholds::STATE
                })
            }
            Measure::Limit | Measure::State => Err(format!(
                "expected {}, but found a table",
                Expectation(&self)
            )),
        };
        thresholds.map(Some).map_err(A::Error::custom)
    }
}

/// What a setting expects, as text.
struct Expectation<'a>(&'a Setting);

impl fmt::Display for Expectation<'_> {
    fn fmt(&self, text: &mut fmt::Formatter) -> fmt::Result {
        Visitor::expecting(self.0, text)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Percentages {
    warning: f64,
    critical: f64,
    clear: Option<f64>,
    #[serde(rename = "for", default)]
    hold: Period,
    #[serde(default)]
    keep_firing_for: Period,
}

impl Percentages {
    fn checked(self) -> Result<Thresholds, String> {
        let Self {
            warning,
            critical,
            hold,
            keep_firing_for,
            ..
        } = self;
        let clear = self
            .clear
            .unwrap_or_else(|| (warning - CLEARANCE).max(warning / 2.0));
        if 0.0 < clear && clear < warning && warning < critical && critical <= 100.0 {
            let (hold_s, keep_firing_s) = (hold.0, keep_firing_for.0);
            return Ok(Thresholds {
                warning,
                critical,
                clear,
                hold_s,
                keep_firing_s,
            });
        }
        let clear = self
            .clear
            .map_or_else(String::new, |clear| format!(", clear = {clear}"));
        Err(format!(
            "expected percentages with 0 < clear < warning < critical <= 100, but found warning = {warning}, critical = \
             {critical}{clear}"
        ))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Times {
    warning: Period,
    critical: Period,
    clear: Option<Period>,
    #[serde(rename = "for")]
    hold: Option<Period>,
    keep_firing_for: Option<Period>,
}

impl Times {
    fn checked(self) -> Result<Thresholds, String> {
        let usual = Rule::TimeUntilFull.default_thresholds();
        let (warning, critical) = (self.warning.0, self.critical.0);
        let clear = self.clear.map_or(warning * CLEARED_TIME, |clear| clear.0);
        let hold_s = self.hold.map_or(usual.hold_s, |hold| hold.0);
        let keep_firing_s = self
            .keep_firing_for
            .map_or(usual.keep_firing_s, |keep| keep.0);
        if 0.0 < critical && critical < warning && warning < clear {
            return Ok(Thresholds {
                warning,
                critical,
                clear,
                hold_s,
                keep_firing_s,
            });
        }
        Err("expected times with 0 < critical < warning < clear, such as { warning = \"30m\", critical = \"10m\" }"
            .into())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Within {
    within: Period,
}

/// A duration in seconds, such as "90s", "30m" or "1h 30m".
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(try_from = "String")]
struct Period(f64);

impl TryFrom<String> for Period {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let length = text
            .parse::<SignedDuration>()
            .ok()
            .and_then(|length| Duration::try_from(length).ok());
        let length = length.filter(|length| *length <= LONGEST);
        length
            .map(|length| Self(length.as_secs_f64()))
            .ok_or_else(|| {
                format!("expected a duration such as \"30m\" or \"26h\", but found \"{text}\"")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Alerts, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.to_string())
    }

    fn check(text: &str, rule: Rule, volume: &str, expected: &str) {
        let alerts = parsed(text).unwrap();
        let (vg, lv) = volume.split_once('/').unwrap();
        let found = alerts.of(rule, vg, lv).map_or("off".into(), |found| {
            format!(
                "{} {} {} {} {}",
                found.warning, found.critical, found.clear, found.hold_s, found.keep_firing_s
            )
        });
        assert_eq!(found, expected, "{rule:?} of {volume} in {text}");
        let special = alerts.special(vg, lv);
        assert_eq!(
            alerts.of(rule, vg, lv),
            special.as_deref().unwrap_or(alerts.general()).of(rule)
        );
    }

    #[test]
    fn settings_have_defaults_and_their_own_units() {
        use Rule::{BackupMissing, MergeFailed, SnapshotAge, SnapshotFill, TimeUntilFull};
        for (text, rule, expected) in [
            ("", SnapshotFill, "70 85 65 0 0"),
            (
                "snapshot_fill = { warning = 80, critical = 90 }",
                SnapshotFill,
                "80 90 75 0 0",
            ),
            (
                "snapshot_fill = { warning = 4, critical = 9 }",
                SnapshotFill,
                "4 9 2 0 0",
            ),
            (
                "snapshot_fill = { warning = 80, critical = 90, clear = 60, for = \"1m\", keep_firing_for = \"90s\" }",
                SnapshotFill,
                "80 90 60 60 90",
            ),
            ("snapshot_fill = \"off\"", SnapshotFill, "off"),
            ("", TimeUntilFull, "1800 600 2400 30 60"),
            (
                "time_until_full = { warning = \"1h\", critical = \"15m\" }",
                TimeUntilFull,
                "3600 900 4800 30 60",
            ),
            (
                "snapshot_age = \"1h 30m\"",
                SnapshotAge,
                "5400 inf 5400 0 0",
            ),
            ("snapshot_age = \"on\"", SnapshotAge, "86400 inf 86400 0 0"),
            (
                "backup_missing = { within = \"26h\" }",
                BackupMissing,
                "inf 93600 inf 0 0",
            ),
            ("merge_failed = \"off\"", MergeFailed, "off"),
        ] {
            check(text, rule, "vg0/data", expected);
        }
    }

    #[test]
    fn the_first_matching_override_with_a_rule_decides_it() {
        let text = "
            snapshot_fill = { warning = 50, critical = 60 }
            [[for]]
            lv = \"vg0/mysql_*\"
            snapshot_age = \"1h\"
            [[for]]
            lv = \"vg0/*\"
            snapshot_fill = \"off\"
            snapshot_age = \"2h\"";
        check(text, Rule::SnapshotAge, "vg0/mysql_a", "3600 inf 3600 0 0");
        check(text, Rule::SnapshotFill, "vg0/mysql_a", "off");
        check(text, Rule::SnapshotAge, "vg0/data", "7200 inf 7200 0 0");
        check(text, Rule::SnapshotFill, "vg1/data", "50 60 45 0 0");
    }

    #[test]
    fn wrong_settings_are_refused_with_what_is_allowed() {
        for (text, expected) in [
            (
                "snapshot_fill = { warning = 70, critical = 85, clear = 75 }",
                "clear < warning",
            ),
            ("snapshot_fill = \"none\"", "or \"off\", but found \"none\""),
            (
                "time_until_full = { warning = \"5m\", critical = \"10m\" }",
                "0 < critical < warning",
            ),
            (
                "time_until_full = { warning = \"5\", critical = \"10m\" }",
                "a duration such as",
            ),
            ("snapshot_age = 24", "expected a duration such as \"30m\""),
            (
                "snapshot_age = { warning = 3 }",
                "expected a duration such as \"30m\"",
            ),
            (
                "merge_failed = \"maybe\"",
                "expected \"on\" or \"off\", but found \"maybe\"",
            ),
            ("merge_failed = true", "expected \"on\" or \"off\""),
            ("backup_missing = { after = \"1h\" }", "expected `within`"),
            ("[[for]]\nsnapshot_age = \"1h\"", "missing field `lv`"),
            ("[[for]]\nlv = \"vg0\"", "expected a pattern of volumes"),
            (
                "[[for]]\nlv = \"vg0/*\"\nticks_missed = \"off\"",
                "unknown field `ticks_missed`, expected one of `lv`",
            ),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(expected), "expected {expected:?} in {error}");
        }
    }
}
