//! The rules about volumes: which ones are evaluated, what they share, and volumes that are gone.
//!
//! `volume_rules` has the table of the rules and those about what state a volume is in, `fill` those about how full it is.

use std::sync::Arc;

use jiff::Timestamp;

use super::settle::{AlertSubject, Evaluation, RuleFinding};
use super::trend::{Need, VolumeForecast};
use super::{Alert, AlertText, Clock, Rule, Rules, Severity, Situation};
use crate::advice;
use crate::config::{RuleSettings, RuleSubject, Thresholds};
use crate::interval::Interval;
use crate::job::Job;
use crate::sentence;
use crate::sentence::{Sentence, SentencePart};
use crate::topology::{Group, State, Volume, VolumeKind, VolumeState};
use crate::units::{Fill, count_text};

/// By then, LVM has reported that a volume is inactive; otherwise it was removed.
const REPORTED_S: f64 = 90.0;

impl Rule {
    pub(super) fn concerns(self, kind: VolumeKind) -> bool {
        match self.subject() {
            RuleSubject::Snapshots => kind.is_thick_snapshot(),
            RuleSubject::AllSnapshots => kind.is_snapshot(),
            RuleSubject::ThinPools => kind.is_thin_pool(),
            RuleSubject::SnapshotsAndThinPools => kind.can_overflow(),
            RuleSubject::PoolsAndCaches => kind.has_health(),
            RuleSubject::AllVolumes => true,
            RuleSubject::Groups
            | RuleSubject::NextSnapshots
            | RuleSubject::Backups
            | RuleSubject::Cowbell => false,
        }
    }
}

/// How a rule about volumes is judged, and what its alerts say.
pub(super) struct VolumeRule {
    /// Given the severity of the open alert: the result, and the value that it is from.
    pub evaluate: fn(&VolumeUnderRule, Option<Severity>) -> (Evaluation, Option<f64>),
    pub raised: fn(&VolumeUnderRule, Severity) -> AlertText,
    /// How the alert ended while its volume exists.
    pub cleared: fn(&VolumeUnderRule) -> Sentence,
}

/// A rule, and the volume that it is evaluated for.
pub(super) struct VolumeUnderRule<'a> {
    pub rule: Rule,
    pub thresholds: Thresholds,
    /// Of all rules for this volume.
    pub settings: &'a RuleSettings,
    pub volume: &'a Volume,
    pub state: &'a VolumeState,
    /// `None` if its fill is unknown.
    pub forecast: Option<&'a VolumeForecast>,
    pub now: &'a Situation<'a>,
    pub clock: Clock,
}

impl VolumeUnderRule<'_> {
    /// The fill that the rule is about.
    pub fn fill(&self) -> Option<Fill> {
        if self.rule == Rule::PoolMetadata {
            self.state.metadata
        } else {
            self.state.fill
        }
    }

    pub fn age_s(&self, since: Timestamp) -> f64 {
        self.clock.age_s(since, self.now.interval.at)
    }

    pub fn group(&self) -> Option<&Group> {
        self.now.interval.topology.group(&self.volume.vg)
    }

    pub fn name(&self) -> SentencePart {
        sentence::volume(self.volume.full_name())
    }

    /// What the sentences are about, at the beginning of one.
    pub fn noun(&self) -> &'static str {
        if self.rule == Rule::PoolMetadata {
            "Metadata of thin pool"
        } else {
            self.volume.kind.noun()
        }
    }

    /// In the middle of a sentence.
    pub fn lower_noun(&self) -> String {
        if self.volume.kind == VolumeKind::VdoPool {
            return self.noun().into();
        }
        self.noun().to_lowercase()
    }

    /// A sentence about the volume.
    pub fn says(&self, predicate: impl Into<Sentence>) -> Sentence {
        sentence![self.noun(), " ", self.name(), predicate]
    }

    /// The number of the job that it concerns: the backup that reads the volume, or the snapshot's own job.
    fn job(&self) -> Option<i64> {
        if let Some(forecast) = self.forecast
            && let Some((job, _)) = forecast.backup
        {
            return Some(job);
        }
        self.its_job().map(|job| job.id)
    }

    /// The snapshot's own job.
    pub fn its_job(&self) -> Option<&Job> {
        let uuid = &*self.volume.uuid;
        let jobs = self.now.jobs;
        let running = jobs.running().iter().find(|job| job.key == uuid);
        running.or_else(|| {
            let mut ended = jobs.ended().iter().rev().map(|job| &**job);
            ended.find(|job| job.key == uuid)
        })
    }
}

/// Identifies a group in its alerts.
fn group_key(group: &str) -> String {
    format!("group:{group}")
}

/// For a group of which LVM makes no snapshot.
fn broken_group(group: &Group) -> AlertText {
    let vg = &group.name;
    if group.missing_pvs == 0 {
        let refusal = advice::snapshot_refusal(group).unwrap_or_default();
        return AlertText::new(
            format!("LVM makes no snapshot in VG {vg}, so the next backup cannot start."),
            sentence![refusal.capitalized(), "."],
        );
    }
    let missing = count_text(group.missing_pvs as usize, "PV is", "PVs are");
    let others = "The volumes with a part on it have alerts of their own.";
    let remedy = sentence![advice::missing_pvs(group).capitalized(), "."];
    AlertText::new(
        format!(
            "{missing} missing in VG {vg}: LVM makes no snapshot there, so the next backup cannot start."
        ),
        remedy.then(group.misses_data.then_some(others)),
    )
}

impl Rules {
    pub(super) fn judge_volume(
        &mut self,
        volume: &Volume,
        state: &VolumeState,
        is_slow: bool,
        now: &Situation,
        changed: &mut Vec<Alert>,
    ) {
        let Some(clock) = self.clock else { return };
        let settings = self.settings.for_volume(&volume.vg, &volume.lv);
        let forecast = self.forecast(volume, state, &settings, now);
        for rule in Rule::ALL.iter().copied() {
            if !rule.concerns(volume.kind) || (rule.changes_slowly() && !is_slow) {
                continue;
            }
            let Some((row, thresholds)) = VolumeUnderRule::row(rule).zip(settings.of(rule)) else {
                continue;
            };
            let it = VolumeUnderRule {
                rule,
                thresholds,
                settings: &settings,
                volume,
                state,
                forecast: forecast.as_deref(),
                now,
                clock,
            };
            changed.extend(self.judge_by_rule(&row, &it));
        }
        if let Some(forecast) = forecast {
            let has_alert = self.has_outlook_alert(&volume.uuid);
            let thresholds = settings.of(Rule::TimeUntilFull);
            let is_unsure = thresholds.is_some_and(|it| forecast.is_full_within(it.warning));
            let is_unsure = is_unsure && !has_alert && !forecast.is_done_first();
            self.trends.set_unsure(&volume.uuid, is_unsure);
        }
    }

    /// Whether an alert is open that says when the volume is full.
    fn has_outlook_alert(&self, uuid: &str) -> bool {
        let mut open = self.open.iter();
        open.any(|alert| alert.rule.has_outlook() && alert.uuid == uuid)
    }

    /// The newest forecast of a snapshot or pool whose fill is known.
    fn forecast(
        &mut self,
        volume: &Volume,
        state: &VolumeState,
        settings: &RuleSettings,
        now: &Situation,
    ) -> Option<Arc<VolumeForecast>> {
        if state.state.is_lost() || state.state == State::Inactive {
            self.trends.end(&volume.uuid);
        }
        let fill = state.fill.filter(|fill| fill.unit > 0)?;
        let percent_rule = volume.kind.fill_rule()?;
        let thresholds = settings.of(percent_rule);
        let is_open = self.has_outlook_alert(&volume.uuid);
        let need = Need {
            is_urgent: is_open || thresholds.is_some_and(|it| fill.percent() >= it.warning),
            horizon_s: settings.of(Rule::TimeUntilFull).map_or(0.0, |it| it.clear),
        };
        let trends = &mut self.trends;
        Some(trends.advance(volume, fill, now.interval, need, now.outlook))
    }

    fn judge_by_rule(&mut self, row: &VolumeRule, it: &VolumeUnderRule) -> Option<Alert> {
        let subject = AlertSubject::new(&it.volume.vg, &it.volume.lv, &it.volume.uuid);
        let before = self.severity(it.rule, subject.uuid);
        let (evaluation, value) = (row.evaluate)(it, before);
        let is_open = before.is_some() || matches!(evaluation, Evaluation::Raised(_));
        let finding = RuleFinding {
            value,
            // The search takes time.
            job: if is_open { it.job() } else { None },
            state: it.raised_by(),
            ..RuleFinding::new(it.rule, subject, it.now.interval.at, evaluation)
        };
        let raised = |severity| (row.raised)(it, severity);
        self.settle(&finding, raised, || (row.cleared)(it))
    }

    /// Raises an alert for each group in which LVM makes no snapshot, as it reports.
    pub(super) fn judge_groups(&mut self, interval: &Interval) -> Vec<Alert> {
        let groups = &interval.topology.groups;
        let mut changed = Vec::new();
        for group in groups.iter().filter(|group| group.size.is_some()) {
            let key = group_key(&group.name);
            let subject = AlertSubject::new(&group.name, "", &key);
            let evaluation = if advice::blocks_snapshots(group) {
                Evaluation::CRITICAL
            } else {
                Evaluation::Clear
            };
            let finding = RuleFinding::new(Rule::GroupState, subject, interval.at, evaluation);
            let ending = || format!("LVM makes snapshots in VG {} again.", group.name).into();
            changed.extend(self.settle(&finding, |_| broken_group(group), ending));
        }
        let is_gone = |alert: &Alert| {
            let mut groups = groups.iter();
            alert.rule == Rule::GroupState
                && !groups.any(|group| group_key(&group.name) == alert.uuid)
        };
        changed.extend(self.clear_all(interval.at, |alert| {
            is_gone(alert).then(|| format!("VG {} was removed.", alert.vg).into())
        }));
        changed
    }

    /// Clears alerts whose volume is gone or changed its kind.
    pub(super) fn clear_gone(&mut self, interval: &Interval) -> Vec<Alert> {
        let is_gone = |rule: Rule, uuid: &str| {
            let volume = interval.topology.volume(uuid);
            VolumeUnderRule::row(rule).is_some()
                && !volume.is_some_and(|volume| rule.concerns(volume.kind))
        };
        // Of a rule that outlasts its volume, the hold waits for LVM to report that.
        self.holds
            .retain(|(rule, uuid), _| is_gone(*rule, uuid) == rule.outlasts_volume());
        let mut gone = Vec::new();
        for alert in &self.open {
            if is_gone(alert.rule, &alert.uuid) {
                gone.push((alert.rule, alert.uuid.clone()));
            }
        }
        gone.retain(|(rule, uuid)| {
            !rule.outlasts_volume() || self.has_held(*rule, uuid, interval.at, REPORTED_S)
        });
        self.clear_all(interval.at, |alert| {
            let mut gone = gone.iter();
            let is_gone = gone.any(|(rule, uuid)| alert.rule == *rule && alert.uuid == *uuid);
            is_gone.then(|| alert.gone_text())
        })
    }
}
