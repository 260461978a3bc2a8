//! The rules about volumes: how full they are, and what state they are in.

use std::sync::Arc;

use super::case::Case;
use super::settle::Finding;
use super::trend::{Forecast, Need};
use super::{Alert, Rule, Rules, Situation, fill, sentence, state};
use crate::config::{RuleSettings, Thresholds};
use crate::interval::Interval;
use crate::topology::{State, Volume, VolumeState};

/// By then, LVM has reported that a volume is inactive; otherwise it was removed.
const REPORTED_S: f64 = 90.0;

impl Rules {
    pub(super) fn judge_volume(
        &mut self,
        volume: &Volume,
        state: &VolumeState,
        settings: Option<&RuleSettings>,
        is_slow: bool,
        now: &Situation,
        changed: &mut Vec<Alert>,
    ) {
        let Some(clock) = self.clock else { return };
        let forecast = self.forecast(volume, state, settings, now);
        for rule in Rule::OF_VOLUMES
            .into_iter()
            .filter(|rule| rule.concerns(volume.kind))
        {
            let is_slow_rule = matches!(rule, Rule::SnapshotAge | Rule::SnapshotLeftOver);
            if is_slow_rule && !is_slow {
                continue;
            }
            let thresholds = settings.unwrap_or(self.settings.general()).of(rule);
            let case = Case {
                rule,
                volume,
                state,
                forecast: &forecast,
                now,
                clock,
            };
            changed.extend(self.apply(&case, thresholds));
        }
    }

    /// The newest forecast of a snapshot or pool whose fill is known.
    fn forecast(
        &mut self,
        volume: &Volume,
        state: &VolumeState,
        settings: Option<&RuleSettings>,
        now: &Situation,
    ) -> Option<Arc<Forecast>> {
        if matches!(state.state, State::Invalid | State::Inactive) {
            self.trends.end(&volume.uuid);
        }
        let fill = state
            .fill
            .filter(|fill| fill.unit > 0 && Rule::TimeUntilFull.concerns(volume.kind))?;
        let settings = settings.unwrap_or(self.settings.general());
        let by_fill = [Rule::SnapshotFill, Rule::PoolData].into_iter();
        let percent = by_fill
            .filter(|rule| rule.concerns(volume.kind))
            .find_map(|rule| settings.of(rule));
        let is_open = self
            .open
            .iter()
            .any(|alert| alert.rule.has_outlook() && alert.uuid == *volume.uuid);
        let need = Need {
            is_urgent: is_open
                || percent.is_some_and(|thresholds| fill.percent() >= thresholds.warning),
            horizon_s: settings
                .of(Rule::TimeUntilFull)
                .map_or(0.0, |thresholds| thresholds.clear),
        };
        Some(
            self.trends
                .advance(volume, fill, now.interval, need, now.outlook),
        )
    }

    /// Evaluates a rule for a volume; returns the alert if it is to be delivered.
    pub(super) fn apply(&mut self, case: &Case, thresholds: Option<Thresholds>) -> Option<Alert> {
        let at = case.now.interval.at;
        let thresholds = thresholds?;
        let raised = self
            .index(case.rule, &case.volume.uuid)
            .map(|index| self.open[index].severity);
        let is_by_fill = case.rule.has_outlook() || case.rule == Rule::PoolMetadata;
        let evaluate = if is_by_fill {
            fill::evaluate
        } else {
            state::evaluate
        };
        let (evaluation, value) = evaluate(case, thresholds, raised);
        let (vg, lv, uuid) = (&*case.volume.vg, &*case.volume.lv, &*case.volume.uuid);
        let finding = Finding {
            rule: case.rule,
            vg,
            lv,
            uuid,
            thresholds,
            evaluation,
            value,
        };
        self.settle(&finding, at, &sentence::Sentences { case, thresholds })
    }

    /// Clears alerts whose volume is gone or changed its kind.
    pub(super) fn clear_gone(&mut self, interval: &Interval) -> Vec<Alert> {
        let is_there = |rule: Rule, uuid: &str| {
            let volume = interval.topology.volume(uuid);
            volume.is_some_and(|volume| rule.concerns(volume.kind))
        };
        let is_of_volume = |rule: Rule| Rule::OF_VOLUMES.contains(&rule);
        self.retain_holds(|rule, uuid| {
            !is_of_volume(rule) || is_there(rule, uuid) != outlasts(rule)
        });
        let is_gone =
            |alert: &&Alert| is_of_volume(alert.rule) && !is_there(alert.rule, &alert.uuid);
        let gone: Vec<Alert> = self.open.iter().filter(is_gone).cloned().collect();
        let mut is_certain = |alert: &Alert| {
            !outlasts(alert.rule) || self.has_held(alert.rule, &alert.uuid, interval.at, REPORTED_S)
        };
        let gone: Vec<i64> = gone
            .iter()
            .filter(|alert| is_certain(alert))
            .map(|alert| alert.id)
            .collect();
        self.clear_all(
            interval.at,
            |alert| gone.contains(&alert.id),
            sentence::gone,
        )
    }
}

/// Whether a problem remains while its volume is deactivated. Such a volume is not seen until LVM reports it.
fn outlasts(rule: Rule) -> bool {
    matches!(rule, Rule::PoolState | Rule::MergeFailed)
}
