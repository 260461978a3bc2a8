//! `[alerts]`: the thresholds of each rule, or "off"; and `[[alerts.for]]`: other ones for some volumes.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::rule::{Measure, Rule, RuleSubject, Thresholds};
use super::values::{Pattern, Seconds, unexpected};

/// The settings of all rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Alerts {
    rules: RuleSettings,
    /// The first one that matches a volume and names a rule decides that rule.
    pub overrides: Vec<Override>,
}

/// The thresholds of each rule; `None` if it is off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleSettings([Option<Thresholds>; Rule::ALL.len()]);

/// Other settings for the volumes that match a pattern. A backup is matched by its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    lv: Pattern,
    rules: Vec<RuleSetting>,
}

type RuleSetting = (Rule, Option<Thresholds>);

impl Default for Alerts {
    fn default() -> Self {
        Self {
            rules: RuleSettings(std::array::from_fn(|index| {
                Some(Rule::ALL[index].default_thresholds())
            })),
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
        self.for_volume(vg, lv).of(rule)
    }

    pub fn for_volume(&self, vg: &str, lv: &str) -> RuleSettings {
        let mut rules = self.rules;
        // The first override decides, so it is applied last.
        for other in self.overrides(vg, lv).rev() {
            for (rule, thresholds) in &other.rules {
                rules.0[*rule as usize] = *thresholds;
            }
        }
        rules
    }

    /// Whether an override names this rule for a volume.
    pub fn is_overridden(&self, rule: Rule, vg: &str, lv: &str) -> bool {
        let mut overrides = self.overrides(vg, lv);
        overrides.any(|other| other.rules.iter().any(|(name, _)| *name == rule))
    }

    fn overrides(&self, vg: &str, lv: &str) -> impl DoubleEndedIterator<Item = &Override> {
        self.overrides
            .iter()
            .filter(move |it| it.lv.matches(vg, lv))
    }

    /// For volumes without an override, and for cowbell itself.
    pub fn general(&self) -> &RuleSettings {
        &self.rules
    }
}

impl<'de> Deserialize<'de> for Alerts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = deserializer.deserialize_map(RuleTable::new("for", Rule::ALL.to_vec()))?;
        let mut alerts = Self {
            overrides: table.other.unwrap_or_default(),
            ..Self::default()
        };
        for (rule, setting) in table.settings {
            alerts.rules.0[rule as usize] = setting;
        }
        Ok(alerts)
    }
}

impl<'de> Deserialize<'de> for Override {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut rules = Rule::ALL.to_vec();
        rules.retain(|rule| rule.subject() != RuleSubject::Cowbell);
        let table = deserializer.deserialize_map(RuleTable::new("lv", rules))?;
        Ok(Self {
            lv: table.other.ok_or_else(|| D::Error::missing_field("lv"))?,
            rules: table.settings,
        })
    }
}

/// A table of rules with one other key. Values are parsed one by one, so that an error has the line of its key.
struct RuleTable<Other> {
    settings: Vec<RuleSetting>,
    other: Option<Other>,
    other_key: &'static str,
    rules: Vec<Rule>,
}

impl<Other> RuleTable<Other> {
    fn new(other_key: &'static str, rules: Vec<Rule>) -> Self {
        Self {
            settings: Vec::new(),
            other: None,
            other_key,
            rules,
        }
    }
}

impl<'de, Other: Deserialize<'de>> Visitor<'de> for RuleTable<Other> {
    type Value = Self;

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        write!(text, "a table of rules, and `{}`", self.other_key)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == self.other_key {
                self.other = Some(map.next_value()?);
                continue;
            }
            let rule = Rule::named(&key).filter(|rule| self.rules.contains(rule));
            let names = self.rules.iter().map(|rule| rule.name());
            let keys: Vec<&str> = std::iter::once(self.other_key).chain(names).collect();
            let setting = SettingOf(rule.ok_or_else(|| {
                format!(
                    "unknown field `{key}`, expected one of `{}`",
                    keys.join("`, `")
                )
            }));
            self.settings.push(map.next_value_seed(setting)?);
        }
        Ok(self)
    }
}

/// The setting of a rule: `"off"`, `"on"`, a duration, or a table, depending on its measure. If there is no such rule, it is
/// the error.
struct SettingOf(Result<Rule, String>);

impl<'de> DeserializeSeed<'de> for SettingOf {
    type Value = RuleSetting;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RuleSetting, D::Error> {
        let rule = self.0.map_err(D::Error::custom)?;
        Ok((rule, deserializer.deserialize_any(RuleVisitor(rule))?))
    }
}

struct RuleVisitor(Rule);

impl<'de> Visitor<'de> for RuleVisitor {
    type Value = Option<Thresholds>;

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str(expected(self.0.measure()))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
        let measure = self.0.measure();
        match (word, Seconds::try_from(word.to_string())) {
            ("off", _) => Ok(None),
            ("on", _) => Ok(Some(self.0.default_thresholds())),
            (_, Ok(limit)) if measure == Measure::Limit => {
                Ok(Some(Thresholds::limit(limit.into())))
            }
            _ => Err(E::custom(unexpected(expected(measure), word))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let table = MapAccessDeserializer::new(map);
        let measure = self.0.measure();
        let thresholds = match measure {
            Measure::Percent => Levels::<f64>::deserialize(table)?.thresholds(self.0),
            Measure::TimeLeft => Levels::<Seconds>::deserialize(table)?.thresholds(self.0),
            Measure::Period => Ok(Thresholds {
                critical: Within::deserialize(table)?.within.into(),
                ..Thresholds::NONE
            }),
            Measure::Limit | Measure::State => {
                Err(format!("expected {}, but found a table", expected(measure)))
            }
        };
        thresholds.map(Some).map_err(A::Error::custom)
    }
}

fn expected(measure: Measure) -> &'static str {
    match measure {
        Measure::Percent => "percentages such as { warning = 70, critical = 85 }, or \"off\"",
        Measure::TimeLeft => "times such as { warning = \"30m\", critical = \"10m\" }, or \"off\"",
        Measure::Limit => "a duration such as \"30m\" or \"26h\", or \"off\"",
        Measure::Period => "\"on\", { within = \"26h\" } or \"off\"",
        Measure::State => "\"on\" or \"off\"",
    }
}

/// The thresholds of a rule with two levels, in percent or as periods. `clear` has a default that follows from `warning`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Levels<Unit> {
    warning: Unit,
    critical: Unit,
    clear: Option<Unit>,
    #[serde(rename = "for")]
    hold: Option<Seconds>,
    keep_firing_for: Option<Seconds>,
}

impl<Unit: Into<f64>> Levels<Unit> {
    /// Fails if they contradict each other.
    fn thresholds(self, rule: Rule) -> Result<Thresholds, String> {
        let defaults = rule.default_thresholds();
        let (warning, critical) = (self.warning.into(), self.critical.into());
        let given = self.clear.map(Into::into);
        let mut found = match rule.measure() {
            Measure::TimeLeft => Thresholds::time_left(warning, critical),
            _ => Thresholds::percent(warning, critical),
        };
        found.clear = given.unwrap_or(found.clear);
        found.hold_s = self.hold.map_or(defaults.hold_s, f64::from);
        found.keep_firing_s = self
            .keep_firing_for
            .map_or(defaults.keep_firing_s, f64::from);
        let clear = found.clear;
        if rule.measure() == Measure::TimeLeft {
            if 0.0 < critical && critical < warning && warning < clear {
                return Ok(found);
            }
            let example = "{ warning = \"30m\", critical = \"10m\" }";
            return Err(format!(
                "expected times with 0 < critical < warning < clear, such as {example}"
            ));
        }
        if 0.0 < clear && clear < warning && warning < critical && critical <= 100.0 {
            return Ok(found);
        }
        let clear = given.map_or_else(String::new, |clear| format!(", clear = {clear}"));
        Err(format!(
            "expected percentages with 0 < clear < warning < critical <= 100, but found warning = {warning}, \
             critical = {critical}{clear}"
        ))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Within {
    within: Seconds,
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
