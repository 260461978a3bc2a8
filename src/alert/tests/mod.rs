//! Each rule on a host with one volume: what is raised and cleared, and when.

mod self_monitoring;
mod unusual_backup;

use self_monitoring::{guard_state, guarded};

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::advice::{Extensible, PoolPart};
use crate::config::GuardMode;
use crate::config::{RuleSubject, parse};
use crate::forecast::{PastRuns, ReadPoint, ReadProgress, RemainingReads, Room, outlook};
use crate::interval::Host;
use crate::job::Job;
use crate::sample::guard::{GuardPlan, GuardSeen, GuardState, GuardedVolume};
use crate::sample::host::Invalidation;
use crate::sample::lvm::{Policies, Segment};
use crate::topology::{Group, LvLayout, State, Topology, VolumeKind, VolumeState};
use crate::units::Fill;

const MIB: u64 = 1 << 20;
const BEGIN: Timestamp = Timestamp::constant(1_772_330_400, 0);
/// Of the volume, in MiB.
const SIZE: u64 = 10_000;

/// A volume `vg0/snap` or `vg0/pool`, at one tick a second.
struct Machine {
    rules: Rules,
    volume: Volume,
    topology: Arc<Topology>,
    policies: Option<Policies>,
    jobs: JobTracker,
    backup: Option<Outlook>,
    guard: Option<GuardSeen>,
    seconds: i64,
    last_s: Option<i64>,
    /// `12 +snapshot_fill warning`, `40 -snapshot_fill`.
    events: Vec<String>,
}

impl Machine {
    fn new(kind: VolumeKind, config: &str) -> Self {
        let settings = parse(std::path::Path::new("c.toml"), config)
            .unwrap()
            .alerts;
        let lv = if kind == VolumeKind::ThinPool {
            "pool"
        } else {
            "snap"
        };
        let volume = Volume {
            vg: "vg0".into(),
            lv: lv.into(),
            uuid: "u1".into(),
            kind,
            origin: (kind == VolumeKind::Snapshot).then(|| "data".into()),
            size: Some(SIZE * MIB),
            created_at: Some(BEGIN),
            ..Volume::default()
        };
        let mut machine = Self {
            rules: Rules::resume(settings, Vec::new(), 0),
            volume,
            topology: Arc::default(),
            policies: None,
            jobs: JobTracker::default(),
            backup: None,
            guard: None,
            seconds: -1,
            last_s: None,
            events: Vec::new(),
        };
        machine.has_free(100_000);
        machine
    }

    fn snapshot() -> Self {
        Self::new(VolumeKind::Snapshot, "")
    }

    fn pool() -> Self {
        Self::new(VolumeKind::ThinPool, "")
    }

    /// The free space of its group, in MiB.
    fn has_free(&mut self, mib: u64) {
        let group = Group {
            name: "vg0".into(),
            free: Some(mib * MIB),
            extent: Some(4 * MIB),
            ..Group::default()
        };
        let volumes = vec![self.volume.clone()];
        self.topology = Arc::new(Topology::new(Vec::new(), vec![group], volumes));
    }

    /// Its origin becomes as small as the snapshot.
    fn can_hold_its_origin(&mut self) {
        self.volume.layout.push(LvLayout {
            lv: "snap".into(),
            allocation: None,
            segments: vec![Segment::default()],
        });
        let origin = Volume {
            vg: "vg0".into(),
            lv: "data".into(),
            uuid: "u0".into(),
            size: Some(9_500 * MIB),
            ..Volume::default()
        };
        let volumes = vec![self.volume.clone(), origin];
        self.topology = Arc::new(Topology::new(Vec::new(), Vec::new(), volumes));
    }

    fn interval(&self, states: Vec<VolumeState>) -> Interval {
        Interval {
            at: BEGIN + SignedDuration::from_secs(self.seconds),
            elapsed_us: self.last_s.map_or(0, |last_s| {
                (self.seconds - last_s).unsigned_abs() * 1_000_000
            }),
            topology: Arc::clone(&self.topology),
            devices: Vec::new(),
            volumes: states,
            host: Host::default(),
            devices_listed: true,
            policies: self.policies,
            usages: Arc::default(),
            makers: Vec::new(),
            backups: Arc::default(),
            exits: Vec::new(),
            read_errors: Vec::new(),
            invalidation: None,
            touched: None,
            next_snapshot: None,
            schedule: Default::default(),
            guard: self.guard.clone(),
        }
    }

    fn tick(&mut self, state: Option<VolumeState>) {
        self.seconds += 1;
        let interval = self.interval(state.into_iter().collect());
        self.last_s = Some(self.seconds);
        let outlook = |_: &Volume| self.backup.clone().map(|outlook| (7, outlook));
        let changed = self.rules.judge(&Situation {
            interval: &interval,
            jobs: &self.jobs,
            outlook: &outlook,
            measured: &MeasuredVolumes::new(),
        });
        self.note(&changed);
    }

    fn note(&mut self, changed: &[Alert]) {
        for alert in changed {
            let (at, rule) = (self.seconds, alert.rule.name());
            self.events.push(match alert.cleared_at {
                Some(_) if alert.recovered => format!("{at} -{rule}"),
                // Over, but not well again.
                Some(_) => format!("{at} ~{rule}"),
                None => format!("{at} +{rule} {}", alert.severity.text()),
            });
            let sentence = alert.sentence().to_string();
            assert!(
                sentence.ends_with('.') && !sentence.contains("  "),
                "{sentence}"
            );
        }
    }

    fn is(&mut self, seconds: usize, state: State) {
        (0..seconds).for_each(|_| self.tick(Some(only(state))));
    }

    /// Filled to so many MiB, a line from where it is now.
    fn fills(&mut self, from: u64, to: u64, seconds: u64) {
        (1..=seconds).for_each(|second| {
            let used = from as f64 + (to as f64 - from as f64) * second as f64 / seconds as f64;
            self.tick(Some(filled(used as u64)));
        });
    }

    fn sentence(&self, rule: Rule) -> String {
        let mut open = self.rules.open().iter();
        let alert = open.find(|alert| alert.rule == rule);
        alert.map_or_else(String::new, |alert| alert.sentence().to_string())
    }

    fn has(&self, expected: &[&str]) {
        assert_eq!(self.events, expected);
    }
}

fn only(state: State) -> VolumeState {
    VolumeState::only(state)
}

fn filled(mib: u64) -> VolumeState {
    VolumeState {
        fill: Some(Fill {
            used: mib,
            total: SIZE,
            unit: MIB,
        }),
        ..only(State::Ok)
    }
}

/// The forecast of a backup that has run for 60 s, with so many MiB to read at 10 MiB/s, on a volume with `free` MiB, which
/// fills by `speed` MiB/s.
fn backup(left: u64, free: u64, speed: f64) -> Outlook {
    let mut curve = ReadProgress::default();
    for second in 0..60 {
        let read = f64::from(second) * 10.0 * MIB as f64;
        let used = Some(f64::from(second) * speed * MIB as f64);
        curve.push(ReadPoint {
            at_s: f64::from(second),
            read,
            used,
        });
    }
    let left = RemainingReads::of(
        Some(590 * MIB),
        Some((590 + left) * MIB),
        &PastRuns::default(),
    );
    let volume = Volume {
        vg: "vg0".into(),
        lv: "snap".into(),
        ..Volume::default()
    };
    let group = Group {
        name: "vg0".into(),
        free: Some(100_000 * MIB),
        extent: Some(4 * MIB),
        ..Group::default()
    };
    let topology = Topology::new(Vec::new(), vec![group], vec![volume.clone()]);
    let volume = Extensible::new(&volume, &topology, PoolPart::Data);
    let room = Room {
        is_pool: false,
        free_bytes: free * MIB,
        most_bytes: None,
        volume,
        guard: None,
    };
    outlook(left, Some(room), &curve, &PastRuns::default())
}

#[test]
fn a_fill_is_raised_escalated_and_cleared() {
    let mut machine = Machine::snapshot();
    machine.rules.settings = parse(
        std::path::Path::new("c"),
        "[alerts]\ntime_until_full = \"off\"",
    )
    .unwrap()
    .alerts;
    for mib in [6_999, 7_000, 8_499, 8_500, 7_999, 6_500, 6_499] {
        machine.tick(Some(filled(mib)));
    }
    machine.has(&[
        "1 +snapshot_fill warning",
        "3 +snapshot_fill critical",
        "6 -snapshot_fill",
    ]);
}

#[test]
fn what_the_guard_saves_is_a_warning_with_its_plan_in_place_of_a_command() {
    let with = |is_enough, mode| {
        let mut machine = Machine::snapshot();
        let volume = GuardedVolume {
            uuid: "u1".into(),
            is_enough,
            ..guarded(GuardPlan::WillExtend, "The guard will extend it.")
        };
        let state = GuardState {
            mode,
            volumes: vec![volume],
            ..guard_state()
        };
        machine.guard = Some(GuardSeen::new(state.into(), 0));
        machine.fills(8_600, 8_600, 1);
        machine.sentence(Rule::SnapshotFill)
    };
    let (on, dry) = (GuardMode::On, GuardMode::DryRun);
    let saved = with(true, on);
    assert!(saved.contains("(warning from 70 %)"), "{saved}");
    assert!(saved.ends_with("The guard will extend it."), "{saved}");
    for sentence in [with(false, on), with(true, dry)] {
        assert!(sentence.contains("(critical from 85 %)"), "{sentence}");
        assert!(
            sentence.contains("The guard will extend it. ") && sentence.contains("lvextend"),
            "{sentence}"
        );
    }
}

#[test]
fn a_warning_waits_and_a_critical_alert_does_not() {
    let config = "[alerts]\ntime_until_full = \"off\"\npool_data = { warning = 70, critical = 85, for = \"5s\", keep_firing_for = \"3s\" }";
    let mut machine = Machine::new(VolumeKind::ThinPool, config);
    machine.fills(7_500, 7_500, 4);
    machine.fills(6_000, 6_000, 2);
    machine.fills(7_500, 7_500, 6);
    machine.fills(6_000, 6_000, 2);
    machine.fills(7_500, 7_500, 1);
    machine.fills(6_000, 6_000, 4);
    machine.fills(9_000, 9_000, 1);
    machine.has(&[
        "11 +pool_data warning",
        "18 -pool_data",
        "19 +pool_data critical",
    ]);
}

#[test]
fn a_steady_growth_is_foreseen() {
    // 2 MiB a second. After 400 s, the 1,600 s that are left are four times what was seen.
    let mut machine = Machine::pool();
    machine.rules.settings = parse(std::path::Path::new("c"), "[alerts]\npool_data = \"off\"")
        .unwrap()
        .alerts;
    machine.fills(6_000, 6_000, 20);
    machine.fills(6_000, 10_000, 2_000);
    let [warning, critical] = [0, 1].map(|index| {
        let (at, what) = machine.events[index].split_once(' ').unwrap();
        (at.parse::<i64>().unwrap() - 19, what.to_string())
    });
    assert_eq!(
        (&*warning.1, &*critical.1),
        ("+time_until_full warning", "+time_until_full critical")
    );
    assert!((425..=440).contains(&warning.0), "{:?}", machine.events);
    assert!(
        (1_395..=1_420).contains(&critical.0),
        "{:?}",
        machine.events
    );
    // It is full, and nothing grows any more: that is no recovery.
    machine.fills(10_000, 10_000, 1_000);
    assert_eq!(machine.events.len(), 2, "{:?}", machine.events);
    let alert = &machine.rules.open()[0];
    assert_eq!((alert.value, alert.peak), (Some(0.0), Some(0.0)));
    machine.tick(Some(filled(5_000)));
    machine.fills(5_000, 5_000, 80);
    assert!(
        machine.events[2].ends_with("-time_until_full"),
        "{:?}",
        machine.events
    );
}

#[test]
fn a_short_burst_and_slow_growth_are_no_cause() {
    let mut machine = Machine::pool();
    machine.fills(1_000, 1_000, 20);
    // At this speed it would be full in three minutes.
    machine.fills(1_000, 1_400, 8);
    machine.fills(1_400, 1_400, 400);
    machine.fills(1_400, 1_500, 3_000);
    machine.has(&[]);
}

#[test]
fn the_burst_of_mkfs_is_no_cause() {
    let mut machine = Machine::pool();
    machine.fills(0, 0, 20);
    machine.fills(0, 4_700, 40);
    machine.fills(4_700, 4_700, 600);
    machine.has(&[]);
}

#[test]
fn an_alert_about_time_clears_soon_after_growth_stopped() {
    let mut machine = Machine::pool();
    machine.fills(0, 0, 20);
    machine.fills(0, 5_000, 600);
    assert!(machine.events.last().unwrap().contains("+time_until_full"));
    let stopped = machine.seconds;
    machine.fills(5_000, 5_000, 120);
    let last = machine.events.last().unwrap();
    assert!(
        last.contains("-time_until_full"),
        "{stopped}: {:?}",
        machine.events
    );
}

#[test]
fn nothing_is_foreseen_in_the_first_seconds() {
    let mut machine = Machine::snapshot();
    machine.fills(0, 600, 8);
    machine.has(&[]);
}

#[test]
fn a_backup_that_is_too_slow_for_its_snapshot_is_critical_and_one_that_is_fast_enough_is_no_warning()
 {
    let mut machine = Machine::snapshot();
    machine.backup = Some(backup(600, 2_500, 1.0));
    machine.fills(7_000, 7_500, 60);
    machine.has(&[]);
    machine.backup = Some(backup(60_000, 2_500, 1.0));
    machine.fills(7_500, 7_530, 30);
    let alerts: Vec<_> = machine
        .rules
        .open()
        .iter()
        .map(|alert| (alert.rule, alert.job))
        .collect();
    let job = Some(7);
    assert_eq!(
        alerts,
        [(Rule::SnapshotFill, job), (Rule::FullBeforeDone, job)],
        "{:?}",
        machine.events
    );
    let sentence = machine.sentence(Rule::SnapshotFill);
    assert!(
        sentence.starts_with(
            "Snapshot vg0/snap is 75.30 % full (warning from 70 %) and will overflow in 4"
        ) && sentence.contains(
            " min. The backup needs about 100 min more and will be lost. Run `lvextend -L +"
        ) && sentence.contains("vg0/snap`, which makes it last about "),
        "{sentence}"
    );
    machine.backup = None;
    machine.fills(7_530, 7_540, 10);
    assert!(
        machine
            .events
            .last()
            .unwrap()
            .ends_with(" ~full_before_done"),
        "{:?}",
        machine.events
    );
}

#[test]
fn an_alert_that_waits_to_clear_says_that_growth_stopped() {
    let mut machine = Machine::snapshot();
    machine.fills(1_000, 8_000, 70);
    let told = |machine: &Machine| machine.sentence(Rule::TimeUntilFull);
    assert!(told(&machine).contains("will overflow in"));
    machine.fills(8_000, 8_000, 60);
    let stopped =
        "Snapshot vg0/snap is 80.00 % full and does not grow now: 7.81 GiB of 9.77 GiB used.";
    assert!(told(&machine).starts_with(stopped), "{}", told(&machine));
    // As the alert about its percentage says.
    assert!(
        told(&machine).contains("run `lvextend -L +"),
        "{}",
        told(&machine)
    );
}

#[test]
fn a_snapshot_that_can_hold_its_whole_origin_has_no_alert() {
    let mut machine = Machine::snapshot();
    machine.fills(9_000, 9_000, 1);
    machine.can_hold_its_origin();
    machine.fills(9_100, 9_300, 20);
    machine.has(&["0 +snapshot_fill critical", "1 -snapshot_fill"]);
}

#[test]
fn an_alert_that_waits_to_clear_says_that_the_snapshot_cannot_overflow() {
    let mut machine = Machine::snapshot();
    machine.fills(1_000, 8_000, 70);
    machine.can_hold_its_origin();
    machine.fills(8_000, 8_000, 1);
    assert_eq!(
        machine.sentence(Rule::TimeUntilFull),
        "Snapshot vg0/snap is 80.00 % full: 7.81 GiB of 9.77 GiB used. It cannot overflow: it can hold a copy of its \
         whole origin."
    );
}

#[test]
fn critical_alerts_are_raised_even_if_the_backup_is_done_first() {
    let mut machine = Machine::snapshot();
    machine.backup = Some(backup(60, 1_500, 0.5));
    machine.fills(8_400, 8_490, 30);
    machine.has(&[]);
    machine.fills(8_500, 8_500, 1);
    machine.has(&["30 +snapshot_fill critical"]);
}

#[test]
fn an_overflow_is_no_recovery() {
    let mut machine = Machine::snapshot();
    machine.fills(9_000, 9_000, 1);
    machine.fills(9_000, 9_020, 20);
    assert!(!machine.rules.paces().is_empty());
    machine.is(2, State::Invalid);
    assert!(
        machine.rules.paces().is_empty(),
        "what is full fills no more"
    );
    machine.has(&[
        "0 +snapshot_fill critical",
        "21 +snapshot_invalid critical",
        "21 ~snapshot_fill",
    ]);
    let invalid = machine.rules.open()[0].clone();
    machine.topology = Arc::default();
    machine.tick(None);
    assert_eq!(machine.events[3], "23 ~snapshot_invalid");
    assert!(
        invalid
            .gone_text()
            .to_string()
            .contains("A backup that was reading it is lost all the same.")
    );
}

#[test]
fn states_are_critical_at_once() {
    for (kind, state, rule, is_over) in [
        (
            VolumeKind::ThinPool,
            State::OutOfData,
            "pool_state",
            State::Ok,
        ),
        (
            VolumeKind::ThinPool,
            State::ReadOnly,
            "pool_state",
            State::Ok,
        ),
        (
            VolumeKind::ThinPool,
            State::NeedsCheck,
            "pool_state",
            State::Ok,
        ),
        (VolumeKind::ThinPool, State::Failed, "pool_state", State::Ok),
        (
            VolumeKind::VdoPool,
            State::ReadOnly,
            "pool_state",
            State::Ok,
        ),
        (
            VolumeKind::Linear,
            State::MergeFailed,
            "merge_failed",
            State::Merging,
        ),
    ] {
        let mut machine = Machine::new(kind, "");
        machine.is(2, State::Ok);
        machine.is(2, state);
        // Neither says that the problem is over.
        machine.is(1, State::Unknown);
        machine.is(1, State::Inactive);
        let topology = std::mem::take(&mut machine.topology);
        (0..80).for_each(|_| machine.tick(None));
        machine.topology = topology;
        machine.is(1, State::Inactive);
        machine.is(1, is_over);
        machine.is(1, state);
        machine.topology = Arc::default();
        (0..100).for_each(|_| machine.tick(None));
        machine.has(&[
            &format!("2 +{rule} critical"),
            &format!("87 -{rule}"),
            &format!("88 +{rule} critical"),
            &format!("179 ~{rule}"),
        ]);
    }
}

/// LVM suspends a volume for a moment whenever it makes or removes a snapshot.
#[test]
fn a_state_of_a_volume_is_told_once_it_lasts() {
    for (kind, state, severity) in [
        (VolumeKind::Linear, State::Suspended, "critical"),
        (VolumeKind::ThinPool, State::Suspended, "critical"),
        (VolumeKind::Snapshot, State::Suspended, "critical"),
        (VolumeKind::Linear, State::Partial, "critical"),
        (VolumeKind::Raid, State::Degraded, "critical"),
        (VolumeKind::Raid, State::Failed, "critical"),
        (VolumeKind::Raid, State::RefreshNeeded, "critical"),
        (VolumeKind::Raid, State::Rebuilding, "warning"),
        (VolumeKind::Raid, State::MismatchesExist, "warning"),
        (VolumeKind::Raid, State::LegSplit, "warning"),
        (VolumeKind::Thin, State::Failed, "critical"),
    ] {
        let mut machine = Machine::new(kind, "");
        machine.is(4, state);
        machine.is(1, State::Ok);
        machine.is(10, state);
        machine.is(1, State::Unknown);
        machine.is(2, State::Ok);
        machine.has(&[&format!("10 +volume_state {severity}"), "16 -volume_state"]);
    }
}

#[test]
fn a_snapshot_whose_area_was_cut_is_lost() {
    let mut machine = with_job(|job| {
        (job.died_at, job.invalidation) = (Some(BEGIN), Some(Invalidation::Cut));
    });
    machine.is(2, State::CutShort);
    machine.has(&["0 +snapshot_invalid critical"]);
    assert!(
        machine
            .sentence(Rule::SnapshotInvalid)
            .contains("smaller than what it held")
    );
    let sentence = machine.sentence(Rule::SnapshotInvalid);
    machine.is(2, State::Invalid);
    assert_eq!(
        machine.sentence(Rule::SnapshotInvalid),
        sentence,
        "the next write made it invalid"
    );
}

/// LVM wants a quarter of a small pool's metadata free, and 4 MiB of a large one's.
#[test]
fn a_pool_in_which_lvm_makes_no_snapshot_blocks_the_next_one() {
    for (total_mib, used_percent, is_blocked) in [
        (2, 74, false),
        (2, 75, true),
        (16, 75, true),
        (40, 89, false),
        (40, 90, true),
    ] {
        let mut machine = Machine::pool();
        let metadata = Fill {
            used: total_mib * used_percent,
            total: total_mib * 100,
            unit: MIB / 100,
        };
        let state = VolumeState {
            metadata: Some(metadata),
            ..filled(1_000)
        };
        (0..40).for_each(|_| machine.tick(Some(state)));
        let text = machine.sentence(Rule::NextSnapshotBlocked);
        assert_eq!(
            !text.is_empty(),
            is_blocked,
            "{total_mib} MiB at {used_percent} %: {text}"
        );
    }
}

/// LVM then makes no snapshot, although nothing extends the pool.
#[test]
fn a_pool_above_the_threshold_of_autoextend_blocks_the_next_snapshot() {
    for (threshold, used, is_blocked) in
        [(70, 7_000, false), (70, 7_001, true), (100, 9_999, false)]
    {
        let mut machine = Machine::pool();
        let mut policies = Policies::default();
        policies.pool.threshold = threshold;
        machine.policies = Some(policies);
        let state = VolumeState {
            metadata: Some(Fill {
                used: 10,
                total: 100,
                unit: MIB,
            }),
            ..filled(used)
        };
        (0..40).for_each(|_| machine.tick(Some(state)));
        let text = machine.sentence(Rule::NextSnapshotBlocked);
        let expected = "The data of thin pool vg0/pool is 70.01 % full, and from 70.00 % on LVM creates no snapshot in the pool.";
        assert_eq!(text.starts_with(expected), is_blocked, "{threshold} {text}");
    }
}

#[test]
fn a_pool_that_lvm_cannot_extend_is_a_warning_and_critical_once_it_has_to() {
    let mut machine = Machine::pool();
    let mut policies = Policies {
        monitoring: true,
        dmeventd: true,
        ..Policies::default()
    };
    (policies.pool.threshold, policies.pool.percent) = (80, 20);
    machine.has_free(1_999);
    machine.fills(5_000, 5_000, 1);
    machine.policies = Some(Policies {
        dmeventd: false,
        ..policies
    });
    machine.fills(5_000, 5_000, 1);
    machine.has(&[]);
    machine.policies = Some(policies);
    machine.fills(5_000, 5_000, 1);
    machine.tick(Some(filled(8_000)));
    let sentence = machine.sentence(Rule::AutoextendBlocked).to_string();
    machine.has_free(2_000);
    machine.tick(Some(filled(8_000)));
    let events: Vec<_> = machine
        .events
        .iter()
        .filter(|event| event.contains("autoextend"))
        .collect();
    assert_eq!(
        events,
        [
            "2 +autoextend_blocked warning",
            "3 +autoextend_blocked critical",
            "4 -autoextend_blocked"
        ]
    );
    assert_eq!(
        sentence,
        "Thin pool vg0/pool cannot be extended by LVM: from 80 % on, it needs 1.95 GiB, but VG vg0 has 1.95 GiB for it. It is \
         80.00 % full. Add a PV to VG vg0, since none that fits is free."
    );
}

#[test]
fn an_old_snapshot_is_a_warning() {
    let mut machine = Machine::new(VolumeKind::Snapshot, "[alerts]\nsnapshot_age = \"1m\"");
    machine.fills(10, 10, 100);
    machine.has(&["60 +snapshot_age warning"]);
    assert_eq!(
        machine.rules.open()[0].sentence().to_string(),
        "Snapshot vg0/snap of data is 90 s old (warning from 60 s). If it is not needed, remove it with `lvremove \
         vg0/snap`. It slows down writes to data."
    );
}

#[test]
fn a_clock_that_is_set_forward_makes_nothing_old() {
    let mut machine = Machine::snapshot();
    machine.fills(10, 10, 20);
    machine.seconds += 48 * 3600;
    machine.last_s = Some(machine.seconds);
    machine.fills(10, 10, 20);
    machine.has(&[]);
}

/// A machine whose snapshot has this job.
fn with_job(change: impl FnOnce(&mut Job)) -> Machine {
    let mut machine = Machine::new(
        VolumeKind::Snapshot,
        "[alerts]\nsnapshot_left_over = \"1m\"",
    );
    let mut job = Job::new(3, crate::job::JobKind::Snapshot, "u1", "snap", BEGIN);
    job.program = Some("holland".into());
    change(&mut job);
    machine.jobs = JobTracker::resume(vec![job], 3, None);
    machine
}

#[test]
fn a_snapshot_that_its_backup_left_is_a_warning() {
    let mut machine = with_job(|job| (job.ended_at, job.left_snapshot) = (Some(BEGIN), true));
    machine.fills(10, 10, 70);
    machine.has(&["60 +snapshot_left_over warning"]);
    assert_eq!(machine.rules.open()[0].job, Some(3));
    let mut machine = with_job(|job| job.unmounted_at = Some(BEGIN));
    machine.fills(10, 10, 70);
    machine.has(&["60 +snapshot_left_over warning"]);
}

#[test]
fn a_snapshot_that_is_in_use_or_that_a_person_made_is_not_left_over() {
    let by_hand = |job: &mut Job| {
        job.program = Some("lvcreate".into());
        job.unmounted_at = Some(BEGIN);
    };
    let running = |_: &mut Job| {};
    for mut machine in [with_job(running), with_job(by_hand)] {
        machine.fills(10, 10, 200);
        machine.has(&[]);
    }
}

#[test]
fn a_rule_that_is_off_raises_nothing_and_clears() {
    let mut machine = Machine::snapshot();
    machine.fills(9_000, 9_000, 1);
    let off = "[alerts]\n[[alerts.for]]\nlv = \"vg0/sn*\"\nsnapshot_fill = \"off\"";
    machine
        .rules
        .reload(parse(std::path::Path::new("c"), off).unwrap().alerts);
    machine.fills(9_000, 9_000, 2);
    machine.has(&["0 +snapshot_fill critical", "1 ~snapshot_fill"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Of any course of fills and gaps: an alert is open exactly if a person who looks at all values so far says so.
    #[test]
    fn a_fill_alert_is_never_missed_and_never_without_cause(
        course in prop::collection::vec(prop::option::weighted(0.9, 0_u64..=SIZE), 1..200),
    ) {
        let mut machine = Machine::snapshot();
        let mut expected = None;
        for mib in course {
            machine.tick(Some(mib.map_or(only(State::Unknown), filled)));
            let percent = mib.map(|mib| mib as f64 / 100.0);
            expected = match (percent, expected) {
                (None, before) => before,
                (Some(85.0..), _) => Some(Severity::Critical),
                (Some(80.0..), Some(Severity::Critical)) => Some(Severity::Critical),
                (Some(70.0..), _) => Some(Severity::Warning),
                (Some(65.0..), Some(_)) => Some(Severity::Warning),
                _ => None,
            };
            let open = machine.rules.open().iter().find(|alert| alert.rule == Rule::SnapshotFill);
            prop_assert_eq!(open.map(|alert| alert.severity), expected);
            let worst = machine.rules.open().iter().all(|alert| alert.worst >= alert.severity);
            prop_assert!(worst);
        }
    }

    /// A volume that does not grow any more is not said to become full, whatever it did before.
    #[test]
    fn what_does_not_grow_is_not_said_to_become_full(steps in prop::collection::vec(0_u64..60, 1..60)) {
        let mut machine = Machine::pool();
        let mut used = 1_000;
        for step in steps {
            used += step;
            machine.tick(Some(filled(used)));
        }
        machine.fills(used, used, 700);
        prop_assert!(machine.rules.open().is_empty(), "{:?}", machine.events);
    }

    /// Values that are unknown raise nothing and clear nothing.
    #[test]
    fn unknown_values_change_nothing(used in 0_u64..=SIZE, gap in 1_usize..100) {
        let mut machine = Machine::pool();
        machine.tick(Some(filled(used)));
        let before = machine.events.clone();
        machine.is(gap, State::Unknown);
        prop_assert_eq!(machine.events, before);
    }
}

proptest! {
    // Thousands of forecasts each.
    #![proptest_config(ProptestConfig { cases: 3, ..ProptestConfig::default() })]

    /// Steady growth from empty is foreseen between 40 and 20 min before the end, whatever its speed and jitter.
    #[test]
    fn steady_growth_is_foreseen_in_time(speed in 1_u64..3, jitter in prop::collection::vec(0_u64..3, 64)) {
        let mut machine = Machine::pool();
        let (mut used, mut second) = (0, 0);
        while used < SIZE && machine.events.is_empty() {
            machine.tick(Some(filled(used)));
            used += speed + jitter[second % 64];
            second += 1;
        }
        let mean = speed as f64 + jitter.iter().sum::<u64>() as f64 / 64.0;
        let left_s = (SIZE - used.min(SIZE)) as f64 / mean;
        prop_assert!(machine.events[0].contains("+time_until_full warning"), "{:?}", machine.events);
        prop_assert!((1_200.0..2_400.0).contains(&left_s), "{left_s} s left, {:?}", machine.events);
    }
}

#[test]
fn what_is_lost_comes_first_then_what_is_full_soonest() {
    let alert = |id: i64, rule, severity, uuid: &str, value: f64| {
        let at = BEGIN + SignedDuration::from_secs(id);
        let value = (value > 0.0).then_some(value);
        Alert {
            value,
            ..Alert::new(id, rule, severity, uuid, at)
        }
    };
    let (warning, critical) = (Severity::Warning, Severity::Critical);
    let mut alerts = [
        Alert {
            state: Some(State::Invalid),
            ..alert(1, Rule::SnapshotInvalid, critical, "lost", 0.0)
        },
        alert(2, Rule::SnapshotFill, critical, "soon", 95.0),
        alert(3, Rule::TimeUntilFull, critical, "soon", 4.0),
        alert(4, Rule::FullBeforeDone, critical, "will be lost", 0.0),
        alert(5, Rule::SnapshotFill, critical, "full", 99.0),
        alert(6, Rule::SnapshotFill, critical, "less full", 90.0),
        alert(7, Rule::SnapshotInvalid, warning, "warning", 0.0),
        alert(8, Rule::TimeUntilFull, critical, "later", 300.0),
    ];
    let order = |alerts: &[Alert]| {
        let groups = alike(alerts, BEGIN).into_iter();
        let uuids: Vec<String> = groups.map(|group| group[0].uuid.clone()).collect();
        uuids.join(", ")
    };
    let by_need = "soon, later, will be lost, full, less full";
    assert_eq!(order(&alerts), format!("lost, {by_need}, warning"));
    alerts[0].acknowledged = Some(Acknowledgement {
        at: BEGIN,
        until: None,
        note: String::new(),
    });
    assert_eq!(order(&alerts), format!("{by_need}, lost, warning"));
}

/// Each state that raises an alert stands on its side of a snapshot with 4 s left, whatever its rule.
#[test]
fn a_state_is_as_urgent_as_what_it_does_to_data() {
    let soon = Alert {
        value: Some(4.0),
        ..Alert::new(1, Rule::TimeUntilFull, Severity::Critical, "soon", BEGIN)
    };
    let fills = Alert {
        value: Some(95.0),
        ..Alert::new(2, Rule::SnapshotFill, Severity::Critical, "fills", BEGIN)
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for state in State::ALL {
        for kind in [
            VolumeKind::Linear,
            VolumeKind::Snapshot,
            VolumeKind::ThinPool,
        ] {
            let Some((rule, severity)) = state.alert(kind) else {
                continue;
            };
            let alert = Alert {
                state: Some(state),
                ..Alert::new(3, rule, severity, "state", BEGIN)
            };
            let alerts = [soon.clone(), fills.clone(), alert];
            let order: Vec<_> = alike(&alerts, BEGIN)
                .iter()
                .map(|group| &*group[0].uuid)
                .collect();
            let place = order.iter().position(|uuid| *uuid == "state").unwrap();
            let side = if place == 0 { &mut before } else { &mut after };
            assert_ne!(place, 1, "{state:?}");
            if !side.contains(&state.text()) {
                side.push(state.text());
            }
        }
    }
    assert_eq!(
        before.join(", "),
        "suspended, invalid, merge failed, read only, out of data, needs check, failed, partial, cut short"
    );
    assert_eq!(
        after.join(", "),
        "degraded, rebuilding, refresh needed, mismatches exist, leg split"
    );
}

#[test]
fn of_two_lost_volumes_the_one_in_the_worse_state_comes_first() {
    let alert = |id: i64, state: State| {
        let (rule, severity) = state.alert(VolumeKind::Linear).unwrap();
        let at = BEGIN + SignedDuration::from_secs(id);
        Alert {
            state: Some(state),
            ..Alert::new(id, rule, severity, state.text(), at)
        }
    };
    let alerts = [
        alert(1, State::Failed),
        alert(2, State::Suspended),
        alert(3, State::Partial),
        alert(4, State::Degraded),
        alert(5, State::Rebuilding),
    ];
    let groups = alike(&alerts, BEGIN).into_iter();
    let uuids: Vec<&str> = groups.map(|group| &*group[0].uuid).collect();
    assert_eq!(
        uuids.join(", "),
        "failed, suspended, partial, degraded, rebuilding"
    );
}

#[test]
fn a_snapshot_that_was_far_from_full_had_an_error() {
    for (percent, expected) in [
        (
            3.12,
            "Snapshot vg0/snap of data is invalid: its COW area had an I/O error. Any backup that reads it is \
             lost. Remove it with `lvremove vg0/snap`. See the kernel's log about its disk.",
        ),
        (
            97.0,
            "Snapshot vg0/snap of data is invalid: it overflowed. Any backup that reads it is lost. Remove it \
             with `lvremove vg0/snap`. Make the next one larger than 9.77 GiB.",
        ),
    ] {
        let mut machine = with_job(|job| {
            (job.died_at, job.peak_fill_percent) = (Some(BEGIN), Some(percent));
            job.setup.peak_bytes = Some((percent * SIZE as f64 / 100.0) as u64 * MIB);
            job.setup.cow_bytes = Some(SIZE * MIB);
        });
        machine.is(1, State::Invalid);
        assert_eq!(machine.sentence(Rule::SnapshotInvalid), expected);
    }
}

/// LVM extends no metadata but a thin pool's, and that helps only if it is full.
#[test]
fn metadata_is_extended_only_where_it_is_full() {
    let is_full = "run `lvextend --poolmetadatasize +";
    let is_not = "is read-only: its metadata could not be written. Writes to its volumes fail. To repair it, deactivate it with";
    for (kind, percent, expected) in [
        (VolumeKind::ThinPool, 100, is_full),
        (VolumeKind::ThinPool, 12, is_not),
        (VolumeKind::Cache, 100, is_not),
    ] {
        let mut machine = Machine::new(kind, "");
        let metadata = Fill {
            used: percent,
            total: 100,
            unit: MIB,
        };
        machine.tick(Some(VolumeState {
            metadata: Some(metadata),
            ..only(State::ReadOnly)
        }));
        let found = machine.sentence(Rule::PoolState);
        assert!(found.contains(expected), "{kind:?} {percent} %: {found}");
    }
}
