//! Alerts: rules that are evaluated for each tick before anything is stored. An unknown value changes nothing.
//!
//! An open alert shows the current value; receivers are notified again only if it gets worse.

mod backup;
mod fill;
mod self_monitoring;
mod settle;
#[cfg(test)]
mod tests;
mod trend;
mod volume_rules;
mod volumes;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::config::{Alerts as Settings, Gravity, Measure};
pub use crate::config::{Rule, Severity};
use crate::forecast::Outlook;
use crate::interval::Interval;
use crate::job::JobTracker;
use crate::job::history::seconds_between;
use crate::sentence;
use crate::sentence::Sentence;
use crate::sizing::MeasuredVolumes;
use crate::topology::{State, Volume};
pub use fill::{autoextend, end, is_autoextended, left_with_guard, meanwhile, saved};
use self_monitoring::OwnCounts;
pub use self_monitoring::OwnState;
use trend::Trends;
pub use trend::{Pace, Race};

/// An alert of a rule for one volume, from when it was raised until it was cleared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    pub id: i64,
    pub rule: Rule,
    pub severity: Severity,
    /// Group and volume. The volume is empty for an alert about a group; both are, for one about cowbell itself.
    pub vg: String,
    pub lv: String,
    /// Identifies what it is about: the volume's UUID, since its name may change, the key of a job, or a part of cowbell.
    pub uuid: String,
    /// The value that raised or, once cleared, cleared it: percent or seconds, see the rule. `None` if unknown or not
    /// applicable.
    pub value: Option<f64>,
    /// The worst value so far: the highest, or the shortest time that was left.
    pub peak: Option<f64>,
    /// The number of the job that it concerns.
    pub job: Option<i64>,
    /// The state of its volume, of a rule that follows from it.
    pub state: Option<State>,
    pub raised_at: Timestamp,
    pub cleared_at: Option<Timestamp>,
    /// Whether it was cleared because all is well again, not because its volume was lost, removed or deactivated.
    pub recovered: bool,
    /// The highest severity so far; cleared alerts keep it.
    pub worst: Severity,
    /// When a warning became critical.
    pub worse_at: Option<Timestamp>,
    pub acknowledged: Option<Acknowledgement>,
    /// The problem and its remedy; once cleared, how it ended.
    #[serde(rename = "sentence", with = "one_string")]
    #[schema(value_type = String)]
    pub text: AlertText,
}

/// What an alert says. This is how it is stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AlertText {
    /// One sentence, which is said again once the alert is cleared.
    #[serde(with = "sentence::parts")]
    pub problem: Sentence,
    /// What follows from it, and what helps.
    #[serde(with = "sentence::parts")]
    pub remedy: Sentence,
    /// How it ended; empty while it lasts.
    #[serde(with = "sentence::parts")]
    pub ending: Sentence,
}

impl AlertText {
    pub fn new(problem: impl Into<Sentence>, remedy: impl Into<Sentence>) -> Self {
        Self {
            problem: problem.into(),
            remedy: remedy.into(),
            ending: Sentence::default(),
        }
    }

    fn whole(&self) -> Sentence {
        if self.ending.is_empty() {
            return self.problem.clone().then_on_a_line(self.remedy.clone());
        }
        let before = sentence!["Before: ", self.problem.clone()];
        self.ending.clone().then(before)
    }
}

/// The text of an alert in the API: all of it as one string.
mod one_string {
    use super::*;

    pub fn serialize<S: Serializer>(text: &AlertText, serializer: S) -> Result<S::Ok, S::Error> {
        text.whole().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<AlertText, D::Error> {
        Ok(AlertText::new(Sentence::deserialize(source)?, ""))
    }
}

/// An alert as it is stored: as in the API, so that SQL finds its sentence, and with the parts of its text.
#[derive(Serialize, Deserialize)]
pub struct StoredAlert {
    #[serde(flatten)]
    alert: Alert,
    text: AlertText,
}

impl From<Alert> for StoredAlert {
    fn from(alert: Alert) -> Self {
        let text = alert.text.clone();
        Self { alert, text }
    }
}

impl From<StoredAlert> for Alert {
    fn from(StoredAlert { alert, text }: StoredAlert) -> Self {
        Self { text, ..alert }
    }
}

/// The problem is being worked on: an acknowledged alert is not repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Acknowledgement {
    pub at: Timestamp,
    /// `null`: until the alert is cleared.
    pub until: Option<Timestamp>,
    pub note: String,
}

impl Alert {
    /// An open alert that says nothing yet, and is about cowbell itself.
    pub fn new(id: i64, rule: Rule, severity: Severity, uuid: &str, raised_at: Timestamp) -> Self {
        Self {
            id,
            rule,
            severity,
            vg: String::new(),
            lv: String::new(),
            uuid: uuid.into(),
            value: None,
            peak: None,
            job: None,
            state: None,
            raised_at,
            cleared_at: None,
            recovered: false,
            worst: severity,
            worse_at: None,
            acknowledged: None,
            text: AlertText::default(),
        }
    }

    pub fn is_acknowledged(&self, at: Timestamp) -> bool {
        self.acknowledged
            .as_ref()
            .is_some_and(|acknowledged| acknowledged.until.is_none_or(|until| at < until))
    }

    pub fn is_over(&self) -> bool {
        self.cleared_at.is_some()
    }

    pub fn status(&self) -> AlertStatus {
        if self.is_over() {
            AlertStatus::Cleared
        } else {
            AlertStatus::Raised
        }
    }

    pub fn sentence(&self) -> Sentence {
        self.text.whole()
    }

    /// `warning: snapshot fill of vg0/mysql_snapshot`, or `cleared: …`
    pub fn title(&self) -> String {
        let status = if self.is_over() {
            self.end_text()
        } else {
            self.severity.text()
        };
        let rule = self.rule.text();
        match self.volume() {
            Some(volume) => format!("{status}: {rule} of {volume}"),
            None => format!("{status}: {rule}"),
        }
    }

    /// What it means, and of two that mean the same which state is worse.
    pub fn urgency(&self) -> (Gravity, u8) {
        self.state
            .map_or((self.rule.gravity(), 0), |state| state.urgency())
    }

    /// How it ended: over, if its volume is lost or gone, which is no recovery.
    pub fn end_text(&self) -> &'static str {
        if self.recovered { "cleared" } else { "over" }
    }

    /// `vg0/mysql`, or `vg0` of a group; `None` if it is about cowbell itself.
    pub fn volume(&self) -> Option<String> {
        match (&*self.vg, &*self.lv) {
            ("", "") => None,
            ("", name) | (name, "") => Some(name.into()),
            (vg, lv) => Some(format!("{vg}/{lv}")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertStatus {
    Raised,
    Cleared,
}

impl AlertStatus {
    pub fn text(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Cleared => "cleared",
        }
    }
}

/// Alerts in groups that say the same: several rules warn of one overflow. The most urgent group comes first, and in it
/// the alert that says most. Verdict, pages, `status` and lists all have this order.
pub fn alike<'a>(
    alerts: impl IntoIterator<Item = &'a Alert>,
    at: Timestamp,
) -> Vec<Vec<&'a Alert>> {
    let mut groups: Vec<Vec<&Alert>> = Vec::new();
    for alert in alerts {
        let is_same = |other: &Alert| {
            other.uuid == alert.uuid && other.rule.has_outlook() && alert.rule.has_outlook()
        };
        match groups.iter_mut().find(|group| is_same(group[0])) {
            Some(group) => group.push(alert),
            None => groups.push(vec![alert]),
        }
    }
    for group in &mut groups {
        group.sort_by_key(|alert| Reverse(rank(alert, at)));
    }
    groups.sort_by_key(|group| {
        let (severity, is_new, urgency, raised_at) = rank(group[0], at);
        let (left_ms, fill) = (time_left_ms(group), centipercent(group));
        let is_lost = urgency.0 == Gravity::Lost;
        Reverse((
            severity,
            is_new,
            is_lost,
            Reverse(left_ms),
            urgency,
            fill,
            raised_at,
        ))
    });
    groups
}

fn rank(alert: &Alert, at: Timestamp) -> (Severity, bool, (Gravity, u8), Timestamp) {
    let is_new = !alert.is_acknowledged(at);
    (alert.severity, is_new, alert.urgency(), alert.raised_at)
}

/// Until the volume is full; the greatest number if no alert of the group is about that.
fn time_left_ms(group: &[&Alert]) -> u64 {
    let left_ms = group
        .iter()
        .filter(|alert| alert.rule.measure() == Measure::TimeLeft);
    let left_ms = left_ms.filter_map(|alert| Some((alert.value? * 1000.0) as u64));
    left_ms.min().unwrap_or(u64::MAX)
}

fn centipercent(group: &[&Alert]) -> u64 {
    let fills = group
        .iter()
        .filter(|alert| alert.rule.measure() == Measure::Percent);
    let fills = fills.filter_map(|alert| Some((alert.value? * 100.0) as u64));
    fills.max().unwrap_or_default()
}

/// What rules about volumes and backups are judged by.
pub struct Situation<'a> {
    pub interval: &'a Interval,
    pub jobs: &'a JobTracker,
    /// The running backup that needs most of a snapshot or pool, and its forecast.
    pub outlook: &'a dyn Fn(&Volume) -> Option<(i64, Outlook)>,
    /// What was measured of volumes, by UUID.
    pub measured: &'a MeasuredVolumes,
}

/// How long cowbell runs: a clock that is set forward makes nothing older.
#[derive(Clone, Copy)]
struct Clock {
    began_at: Timestamp,
    running_s: f64,
}

impl Clock {
    /// The seconds from `since` to `at`, or fewer if the clock was set forward.
    fn age_s(self, since: Timestamp, at: Timestamp) -> f64 {
        seconds_between(since, at)
            .min(seconds_between(since, self.began_at).max(0.0) + self.running_s)
    }
}

/// What changes slowly is evaluated this often.
const SLOW_MS: i64 = 10_000;

/// The rules and their open alerts.
#[derive(Default)]
pub struct Rules {
    settings: Settings,
    open: Vec<Alert>,
    last_id: i64,
    /// Problems that are not raised yet, and open alerts that do not clear yet, by rule and UUID: since when.
    holds: HashMap<(Rule, String), Timestamp>,
    trends: Trends,
    judged_slowly_at: Option<Timestamp>,
    own_counts: OwnCounts,
    clock: Option<Clock>,
    /// The last tick of an earlier process.
    stopped_at: Option<Timestamp>,
}

impl Rules {
    /// Continues with the alerts that were open when the program ended.
    pub fn resume(settings: Settings, open: Vec<Alert>, last_id: i64) -> Self {
        Self {
            settings,
            open,
            last_id,
            ..Self::default()
        }
    }

    /// When an earlier process took its last tick: what happened since then is unknown.
    pub fn after(self, stopped_at: Option<Timestamp>) -> Self {
        Self { stopped_at, ..self }
    }

    /// Takes new thresholds; open alerts are judged by them at the next tick.
    pub fn reload(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Open alerts, the oldest first.
    pub fn open(&self) -> &[Alert] {
        &self.open
    }

    /// How fast snapshots and pools fill that grow, by UUID.
    pub fn paces(&self) -> HashMap<Arc<str>, Pace> {
        self.trends.paces()
    }

    /// The running backups that may lose to a snapshot or pool, by its UUID.
    pub fn races(&self) -> HashMap<Arc<str>, Race> {
        self.trends.races()
    }

    /// Acknowledges an open alert, or withdraws that. Returns the alert to store; `None` if it is not open.
    pub fn acknowledge(&mut self, id: i64, acknowledged: Option<Acknowledgement>) -> Option<Alert> {
        let alert = self.open.iter_mut().find(|alert| alert.id == id)?;
        alert.acknowledged = acknowledged;
        Some(alert.clone())
    }

    /// Evaluates all rules for a tick; returns alerts to deliver: raised, escalated or cleared ones.
    pub fn judge(&mut self, now: &Situation) -> Vec<Alert> {
        let interval = now.interval;
        if !interval.devices_listed {
            return Vec::new();
        }
        let is_slow = self.is_due(interval.at);
        let clock = self.clock.get_or_insert(Clock {
            began_at: interval.at,
            running_s: 0.0,
        });
        clock.running_s += interval.elapsed_us as f64 / 1e6;
        let mut changed = Vec::new();
        for (volume, state) in interval.volumes() {
            self.judge_volume(volume, state, is_slow, now, &mut changed);
        }
        if is_slow {
            self.trends.retain(&interval.topology);
        }
        changed.extend(self.judge_groups(interval));
        changed.extend(self.judge_backups(now, is_slow));
        changed.extend(self.clear_off(interval.at));
        changed.extend(self.clear_gone(interval));
        changed.extend(self.clear_old_backups(interval.at));
        // Delivers raised alerts before cleared ones.
        changed.sort_by_key(|alert| alert.cleared_at.is_some());
        changed
    }

    /// Whether rules about what changes slowly are due.
    fn is_due(&mut self, at: Timestamp) -> bool {
        let is_recent =
            |last: Timestamp| (0..SLOW_MS).contains(&(at.as_millisecond() - last.as_millisecond()));
        let is_due = !self.judged_slowly_at.is_some_and(is_recent);
        if is_due {
            self.judged_slowly_at = Some(at);
        }
        is_due
    }
}
