//! `[alerts]`: the thresholds of each rule, or "off"; and `[[alerts.for]]`: other ones for some volumes.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::pattern::Pattern;
use super::rule::{Measure, Rule, RuleSubject, Thresholds};

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
    rules: Vec<RuleSetting>,
}

type RuleSetting = (Rule, Option<Thresholds>);

/// The default distance of `clear` from `warning`, in percentage points.
const CLEARANCE: f64 = 5.0;
/// By default a time clears when it is a third longer than its warning.
const CLEARED_TIME: f64 = 4.0 / 3.0;
/// Longer times are mistakes.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

impl Default for Alerts {
    fn default() -> Self {
        Self {
            rules: RuleSettings::of_each(|rule| Some(rule.default_thresholds())),
            overrides: Vec::new(),
        }
    }
}

impl RuleSettings {
    fn of_each(setting: impl Fn(Rule) -> Option<Thresholds>) -> Self {
        Self(std::array::from_fn(|index| setting(Rule::ALL[index])))
    }

    /// The thresholds of a rule; `None` if it is off.
    pub fn of(&self, rule: Rule) -> Option<Thresholds> {
        self.0[rule as usize]
    }
}

impl Alerts {
    /// The thresholds of a rule for a volume; `None` if it is off.
    pub fn of(&self, rule: Rule, vg: &str, lv: &str) -> Option<Thresholds> {
        for other in self.overrides.iter().filter(|it| it.lv.matches(vg, lv)) {
            if let Some((_, thresholds)) = other.rules.iter().find(|(name, _)| *name == rule) {
                return *thresholds;
            }
        }
        self.rules.of(rule)
    }

    /// For volumes without an override, and for cowbell itself.
    pub fn general(&self) -> &RuleSettings {
        &self.rules
    }

    /// The settings of all rules for a volume; `None` if they are the general ones.
    pub fn special(&self, vg: &str, lv: &str) -> Option<Box<RuleSettings>> {
        let is_special = self.overrides.iter().any(|it| it.lv.matches(vg, lv));
        is_special.then(|| Box::new(RuleSettings::of_each(|rule| self.of(rule, vg, lv))))
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
        match (word, Period::try_from(word.to_string())) {
            ("off", _) => Ok(None),
            ("on", _) => Ok(Some(self.0.default_thresholds())),
            (_, Ok(limit)) if measure == Measure::Limit => Ok(Some(Thresholds::limit(limit.0))),
            _ => {
                let expected = expected(measure);
                Err(E::custom(format!(
                    "expected {expected}, but found \"{word}\""
                )))
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let table = MapAccessDeserializer::new(map);
        let measure = self.0.measure();
        let thresholds = match measure {
            Measure::Percent => Percentages::deserialize(table)?.checked(),
            Measure::TimeLeft => Times::deserialize(table)?.checked(self.0),
            Measure::Period => Ok(Thresholds {
                critical: Within::deserialize(table)?.within.0,
                ..Thresholds::STATE
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
        let (warning, critical) = (self.warning, self.critical);
        let usual_clear = (warning - CLEARANCE).max(warning / 2.0);
        let clear = self.clear.unwrap_or(usual_clear);
        if !(0.0 < clear && clear < warning && warning < critical && critical <= 100.0) {
            let clear = self.clear.map(|clear| format!(", clear = {clear}"));
            return Err(format!(
                "expected percentages with 0 < clear < warning < critical <= 100, but found warning = {warning}, \
                 critical = {critical}{}",
                clear.unwrap_or_default()
            ));
        }
        Ok(Thresholds {
            warning,
            critical,
            clear,
            hold_s: self.hold.0,
            keep_firing_s: self.keep_firing_for.0,
        })
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
    fn checked(self, rule: Rule) -> Result<Thresholds, String> {
        let usual = rule.default_thresholds();
        let seconds = |period: Option<Period>, usual_s| period.map_or(usual_s, |period| period.0);
        let thresholds = Thresholds {
            warning: self.warning.0,
            critical: self.critical.0,
            clear: seconds(self.clear, self.warning.0 * CLEARED_TIME),
            hold_s: seconds(self.hold, usual.hold_s),
            keep_firing_s: seconds(self.keep_firing_for, usual.keep_firing_s),
        };
        let Thresholds {
            warning,
            critical,
            clear,
            ..
        } = thresholds;
        if 0.0 < critical && critical < warning && warning < clear {
            return Ok(thresholds);
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
        let parsed = text.parse::<SignedDuration>().ok();
        let length = parsed.and_then(|length| Duration::try_from(length).ok());
        match length.filter(|length| *length <= LONGEST) {
            Some(length) => Ok(Self(length.as_secs_f64())),
            None => Err(format!(
                "expected a duration such as \"30m\" or \"26h\", but found \"{text}\""
            )),
        }
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
