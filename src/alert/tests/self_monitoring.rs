//! cowbell itself: parts, ticks and the database.

use std::collections::BTreeMap;

use super::*;
use crate::config::GuardMode;
use crate::sample::PartState;
use crate::sample::guard::{
    GuardAction, GuardPlan, GuardSeen, GuardState, GuardedPart, GuardedVolume,
};
use crate::source::Part;

struct Watcher {
    machine: Machine,
    parts: BTreeMap<Part, PartState>,
    store_error: Option<&'static str>,
    guard: Option<GuardSeen>,
}

impl Watcher {
    fn new() -> Self {
        Self {
            machine: Machine::snapshot(),
            parts: BTreeMap::new(),
            store_error: None,
            guard: None,
        }
    }

    /// Takes one of `due` ticks.
    fn tick(&mut self, due: u64, parts: &[(Part, bool)]) {
        self.machine.seconds += due as i64;
        let at = BEGIN + SignedDuration::from_secs(self.machine.seconds);
        for (part, is_ok) in parts {
            let before = self.parts.get(part).and_then(|state| state.last_ok_at);
            let error = (!is_ok).then(|| "it was not there".to_string().into());
            let last_ok_at = if *is_ok { Some(at) } else { before };
            self.parts.insert(
                *part,
                PartState {
                    error,
                    took_us: 1,
                    last_ok_at,
                },
            );
        }
        let own = OwnState {
            at,
            parts: &self.parts,
            elapsed_s: due as f64,
            due,
            configuration_error: None,
            guard: self.guard.as_ref(),
            store_error: self.store_error,
            lost: 0,
        };
        let changed = self.machine.rules.judge_own(&own);
        assert!(
            changed
                .iter()
                .all(|alert| alert.volume().is_none()
                    && alert.rule.subject() == RuleSubject::Cowbell)
        );
        self.machine.note(&changed);
    }
}

#[test]
fn a_part_that_fails_for_a_minute_is_a_warning() {
    let mut watcher = Watcher::new();
    watcher.tick(1, &[(Part::Dm, true), (Part::Pressure, false)]);
    (0..70).for_each(|_| watcher.tick(1, &[(Part::Dm, false), (Part::Pressure, false)]));
    let sentence = &watcher.machine.rules.open()[0].sentence().to_string();
    assert!(
        sentence.starts_with(
            "The status of the device-mapper cannot be read for 70 s: it was not there. The usage"
        ),
        "{sentence}"
    );
    watcher.tick(1, &[(Part::Dm, true)]);
    watcher
        .machine
        .has(&["60 +part_failed warning", "71 -part_failed"]);
}

#[test]
fn a_report_that_does_not_come_is_old_after_a_quarter_of_an_hour() {
    let mut watcher = Watcher::new();
    watcher.tick(1, &[(Part::Lvm, true), (Part::Dm, true)]);
    (0..910).for_each(|_| watcher.tick(1, &[(Part::Dm, true)]));
    watcher.tick(1, &[(Part::Lvm, true)]);
    watcher
        .machine
        .has(&["900 +data_old warning", "911 -data_old"]);
}

#[test]
fn missed_ticks_are_counted_by_the_minute() {
    let mut watcher = Watcher::new();
    (0..200).for_each(|_| watcher.tick(1, &[]));
    watcher.machine.has(&[]);
    (0..40).for_each(|_| watcher.tick(2, &[]));
    (0..100).for_each(|_| watcher.tick(1, &[]));
    watcher
        .machine
        .has(&["239 +ticks_missed warning", "359 -ticks_missed"]);
}

#[test]
fn a_database_that_is_not_written_is_a_warning() {
    let mut watcher = Watcher::new();
    (0..10).for_each(|_| watcher.tick(1, &[]));
    for length in [20, 40] {
        watcher.store_error = Some("the disk is full");
        (0..length).for_each(|_| watcher.tick(1, &[]));
        watcher.store_error = None;
        (0..10).for_each(|_| watcher.tick(1, &[]));
    }
    watcher
        .machine
        .has(&["70 +store_failed warning", "80 -store_failed"]);
}

pub(super) fn guard_state() -> GuardState {
    GuardState {
        uptime_us: 0,
        mode: GuardMode::On,
        error: None,
        volumes: Vec::new(),
        actions: Vec::new(),
    }
}

pub(super) fn guarded(plan: GuardPlan, text: &str) -> GuardedVolume {
    GuardedVolume {
        uuid: "snapshot-uuid".into(),
        name: "vg0/snap".into(),
        part: GuardedPart::Snapshot,
        plan,
        text: text.into(),
        is_enough: true,
        size_bytes: 0,
        used_bytes: 0,
        bytes_per_s: None,
        growth_bytes: None,
        steps: 0,
        added_bytes: 0,
        largest_bytes: 0,
    }
}

#[test]
fn the_guard_is_an_alert_if_it_does_not_run_acted_or_may_not_act() {
    let text = "The guard added 12.0 MiB, to 36.0 MiB.";
    let action = GuardAction::new(BEGIN, GuardMode::On, "vg0/snap".into(), text);
    let refused = guarded(GuardPlan::MayNot, "The guard may not extend it: no.");
    for (state, uptime_us, expected) in [
        (guard_state(), 0, None),
        (
            GuardState {
                error: Some("vg7 does not exist".into()),
                ..guard_state()
            },
            0,
            Some("The guard does not run: vg7 does not exist."),
        ),
        (
            guard_state(),
            60_000_000,
            Some("The guard has not written its state for 60 s"),
        ),
        (
            GuardState {
                volumes: vec![refused],
                ..guard_state()
            },
            0,
            Some("vg0/snap: The guard may not extend it: no. Extend it by hand"),
        ),
        (
            GuardState {
                actions: vec![action.clone()],
                ..guard_state()
            },
            0,
            Some("vg0/snap: The guard added 12.0 MiB, to 36.0 MiB."),
        ),
        (
            GuardState {
                actions: vec![action],
                mode: GuardMode::DryRun,
                ..guard_state()
            },
            0,
            None,
        ),
    ] {
        let mut watcher = Watcher::new();
        watcher.guard = Some(GuardSeen::new(state.into(), uptime_us));
        watcher.tick(1, &[]);
        let open = watcher.machine.rules.open();
        let found = open.first().map(|alert| alert.sentence().to_string());
        match (&found, expected) {
            (Some(found), Some(expected)) => assert!(found.starts_with(expected), "{found}"),
            _ => assert_eq!(found.as_deref(), expected),
        }
    }
}
