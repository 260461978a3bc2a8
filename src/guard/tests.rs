//! Decisions about single volumes, and properties that hold on random courses in a model of LVM.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::decision::{
    Decision, GroupRoom, GuardSubject, LvmRoom, RemainingNeed, Spent, decide, extensions,
};
use super::ledger::{Addition, Ledger};
use super::slowing::{self, Slowing, SlowingStep};
use super::watch::{FillMeter, NeedInputs};
use super::{command, numbers, sentence};
use crate::advice::Extensible;
use crate::config::{Bytes, GuardMode, LongestTime, SlowWriters, SlowingUser, VolumeLimits};
use crate::forecast::ReadPoint;
use crate::sample::guard::{GuardPlan, GuardedPart};
use crate::sentence::Sentence;

const MIB: u64 = 1 << 20;

fn limits(largest_mib: u64) -> VolumeLimits {
    VolumeLimits {
        name: "vg0/*".parse().unwrap(),
        largest: Bytes(largest_mib * MIB),
        add_at_most_per_day: Bytes(500 * MIB),
        steps_per_backup: 6,
        longest_hold: LongestTime::default(),
    }
}

/// A snapshot of 40 MiB with 38 MiB used, that fills by 1 MiB/s and needs 30 MiB more.
fn snapshot() -> GuardSubject {
    GuardSubject {
        uuid: "snapshot".into(),
        part: GuardedPart::Snapshot,
        name: "vg0/data_snapshot".into(),
        vg: "vg0".into(),
        size: 40 * MIB,
        used: 38 * MIB,
        readings: 10,
        seen_s: 40.0,
        bytes_per_s: Some(MIB as f64),
        need: RemainingNeed::Until {
            growth: 32 * MIB,
            done_s: Some(32.0),
        },
        left_alone: None,
        is_lost: false,
        lvm: Some(LvmRoom {
            step: 4 * MIB,
            step_cost: 4 * MIB,
            free: Some(1000 * MIB),
            refusal: None,
        }),
        limits: limits(500),
        spent: Spent::default(),
        is_autoextended: false,
    }
}

fn pool() -> GuardSubject {
    GuardSubject {
        uuid: "pool".into(),
        part: GuardedPart::Pool,
        name: "vg0/pool".into(),
        need: RemainingNeed::Unknown,
        ..snapshot()
    }
}

fn metadata() -> GuardSubject {
    GuardSubject {
        part: GuardedPart::Metadata,
        name: "vg0/pool_tmeta".into(),
        size: 4 * MIB,
        used: 3 * MIB,
        bytes_per_s: Some(MIB as f64 / 4.0),
        ..pool()
    }
}

fn decide_in(free_mib: u64, keep_mib: u64, subjects: &[GuardSubject]) -> Vec<Decision> {
    decide_slowing(free_mib, keep_mib, subjects, false)
}

fn decide_slowing(
    free_mib: u64,
    keep_mib: u64,
    subjects: &[GuardSubject],
    slows: bool,
) -> Vec<Decision> {
    let group = GroupRoom {
        free: Some(free_mib * MIB),
        keep_free: keep_mib * MIB,
        spare: 4 * MIB,
        took_s: 0.5,
    };
    let groups = BTreeMap::from([("vg0".into(), group)]);
    decide(subjects, &groups, 0.0, slows)
}

fn added_mib(decision: &Decision) -> u64 {
    decision
        .extension
        .map_or(0, |extension| extension.add / MIB)
}

#[test]
fn a_third_of_what_is_needed_is_added_as_late_as_is_safe() {
    let check = |subject: GuardSubject, expected: &str| {
        let decision = &decide_in(500, 100, &[subject])[0];
        assert_eq!(sentence(decision, GuardMode::On), expected);
    };
    check(
        snapshot(),
        "The guard will extend it by 12.0 MiB to 52.0 MiB.",
    );
    let early = GuardSubject {
        used: 10 * MIB,
        ..snapshot()
    };
    check(early.clone(), "The guard will extend it in about 24 s.");
    check(
        GuardSubject {
            need: RemainingNeed::CannotOverflow,
            ..snapshot()
        },
        "The guard has nothing to do: it can hold a copy of its whole origin.",
    );
    let enough = RemainingNeed::Until {
        growth: MIB,
        done_s: Some(1.0),
    };
    check(
        GuardSubject {
            need: enough,
            ..snapshot()
        },
        "The guard has nothing to do: its backup will be done first.",
    );
    check(
        GuardSubject {
            bytes_per_s: Some(0.0),
            ..snapshot()
        },
        "The guard has nothing to do: it does not grow.",
    );
    check(
        GuardSubject {
            readings: 2,
            used: 10 * MIB,
            ..snapshot()
        },
        "The guard watches it for some seconds first.",
    );
    check(
        GuardSubject {
            left_alone: Some("it is invalid".into()),
            ..snapshot()
        },
        "The guard leaves it alone: it is invalid.",
    );
    check(
        GuardSubject {
            lvm: None,
            ..snapshot()
        },
        "The guard will extend it once LVM has said how much room there is.",
    );
    check(
        metadata(),
        "The guard will extend it by 8.00 MiB to 12.0 MiB.",
    );
    check(
        pool(),
        "The guard will extend it by 8.00 MiB to 48.0 MiB, but by less than it needs: 100 MiB are kept free in VG vg0, and 500 \
         MiB are free.",
    );
    assert_eq!(numbers(&early), "10.0 MiB of 40.0 MiB used, 1.00 MiB/s");
}

#[test]
fn after_seconds_it_gets_room_for_as_many_seconds() {
    let young = GuardSubject {
        seen_s: 20.0,
        need: RemainingNeed::Until {
            growth: 200 * MIB,
            done_s: None,
        },
        ..snapshot()
    };
    // 18 MiB, in extents of 4 MiB.
    let added =
        |subject: &GuardSubject| added_mib(&decide_in(500, 100, std::slice::from_ref(subject))[0]);
    assert_eq!(added(&young), 20);
    let old = GuardSubject {
        seen_s: 2000.0,
        ..young.clone()
    };
    assert_eq!(added(&old), 68);
    // The last steps get a third of it and more, however little was seen.
    let late = Spent {
        steps: 3,
        ..Spent::default()
    };
    let spent = GuardSubject {
        spent: late,
        ..young
    };
    assert_eq!(added(&spent), 68);
}

#[test]
fn volumes_of_a_group_wait_for_one_another_and_the_fullest_comes_first() {
    let with = |name: &str, used_mib: u64| GuardSubject {
        uuid: name.into(),
        used: used_mib * MIB,
        ..snapshot()
    };
    let group = GroupRoom {
        free: Some(1000 * MIB),
        took_s: 1.5,
        ..GroupRoom::default()
    };
    let groups = BTreeMap::from([("vg0".into(), group)]);
    let due = |subjects: &[GuardSubject]| -> Vec<String> {
        let decisions = decide(subjects, &groups, 0.0, false);
        let due = extensions(subjects, &decisions).into_iter();
        due.map(|(subject, _)| subject.uuid.clone()).collect()
    };
    // One alone has time; the second of two would come too late.
    assert!(due(&[with("a", 32)]).is_empty());
    assert_eq!(due(&[with("a", 32), with("b", 33)]), ["b", "a"]);
    assert_eq!(due(&[with("a", 10), with("b", 35)]), ["b"]);
}

#[test]
fn each_limit_is_named_where_it_forbids_an_extension() {
    let check = |free_mib, subject: GuardSubject, expected: &str| {
        let decision = &decide_in(free_mib, 100, &[subject])[0];
        let text = sentence(decision, GuardMode::On);
        assert_eq!(text, format!("The guard may not extend it: {expected}."));
        assert_eq!(decision.plan, GuardPlan::MayNot);
    };
    check(
        102,
        snapshot(),
        "100 MiB are kept free in VG vg0, and 102 MiB are free",
    );
    check(
        500,
        GuardSubject {
            limits: limits(43),
            ..snapshot()
        },
        "`largest` is 43.0 MiB",
    );
    let spent = |steps, today_mib| Spent {
        steps,
        added: 0,
        today: today_mib * MIB,
    };
    check(
        500,
        GuardSubject {
            spent: spent(6, 0),
            ..snapshot()
        },
        "`steps_per_backup` allows 6 extensions",
    );
    check(
        500,
        GuardSubject {
            spent: spent(0, 499),
            ..snapshot()
        },
        "`add_at_most_per_day` is 500 MiB, and 499 MiB were added",
    );
    let lvm = LvmRoom {
        step: 4 * MIB,
        step_cost: 4 * MIB,
        free: Some(0),
        refusal: None,
    };
    check(
        500,
        GuardSubject {
            lvm: Some(lvm.clone()),
            ..snapshot()
        },
        "the PVs of VG vg0 have no room for it",
    );
    let refusal = Some("VG vg0 is exported".into());
    check(
        500,
        GuardSubject {
            lvm: Some(LvmRoom { refusal, ..lvm }),
            ..snapshot()
        },
        "VG vg0 is exported",
    );
}

#[test]
fn legs_take_room_too() {
    let mirrored = GuardSubject {
        lvm: Some(LvmRoom {
            step_cost: 8 * MIB,
            ..snapshot().lvm.unwrap()
        }),
        ..pool()
    };
    let added = |free_mib| added_mib(&decide_in(free_mib, 100, std::slice::from_ref(&mirrored))[0]);
    assert_eq!([added(107), added(108), added(200)], [0, 4, 8]);
}

#[test]
fn a_pool_at_risk_goes_before_a_snapshot_and_metadata_before_both() {
    let all = [snapshot(), pool(), metadata()];
    // Metadata costs its spare too: 8 MiB and 8 MiB.
    let added: Vec<u64> = decide_in(130, 100, &all).iter().map(added_mib).collect();
    assert_eq!(added, [0, 8, 8]);
    let added: Vec<u64> = decide_in(110, 100, &all).iter().map(added_mib).collect();
    assert_eq!(added, [0, 0, 4]);
    // The snapshot that needs least gets all of it.
    let small = GuardSubject {
        need: RemainingNeed::Until {
            growth: 10 * MIB,
            done_s: Some(10.0),
        },
        ..snapshot()
    };
    let added: Vec<u64> = decide_in(108, 100, &[snapshot(), small])
        .iter()
        .map(added_mib)
        .collect();
    assert_eq!(added, [0, 8]);
}

#[test]
fn limits_hold_after_a_restart_and_when_the_file_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let addition = |uptime_us| Addition {
        uptime_us,
        uuid: "snapshot".into(),
        part: GuardedPart::Snapshot,
        limits: "vg0/*".into(),
        bytes: 12 * MIB,
    };
    let day_us = 24 * 3600 * 1_000_000;
    let mut ledger = Ledger::open(folder.path()).unwrap();
    ledger.begin(addition(5), |_| true).unwrap();
    ledger.begin(addition(6), |_| true).unwrap();
    let of = |ledger: &Ledger, now_us| {
        let spent = ledger.spent("snapshot", GuardedPart::Snapshot, "vg0/*", now_us);
        (spent.steps, spent.added / MIB, spent.today / MIB)
    };
    let mut ledger = Ledger::open(folder.path()).unwrap();
    assert_eq!(of(&ledger, 7), (2, 24, 24));
    assert_eq!(of(&ledger, 5 + day_us), (2, 24, 12));
    ledger.withdraw("snapshot", GuardedPart::Snapshot).unwrap();
    assert_eq!(of(&Ledger::open(folder.path()).unwrap(), 7), (1, 12, 12));
    // Of a volume that is gone, only the last day counts.
    ledger.begin(addition(7 + day_us), |_| false).unwrap();
    assert_eq!(of(&ledger, 8 + day_us), (1, 12, 12));
    std::fs::write(folder.path().join("ledger.json"), "{").unwrap();
    let error = Ledger::open(folder.path()).unwrap_err();
    assert!(
        error.contains("remove the file to begin at zero"),
        "{error}"
    );
    assert!(Ledger::open(Path::new("/proc/none")).is_ok());
}

#[test]
fn writers_are_slowed_only_where_all_room_will_not_do() {
    // It needs 30 MiB more, and lasts for 2 s.
    let decision = |free_mib, slows| {
        let decisions = decide_slowing(free_mib, 50, &[snapshot()], slows);
        (added_mib(&decisions[0]), decisions[0].is_short)
    };
    assert_eq!(decision(90, true), (12, false));
    // What there is, at once; then nothing has to be added while writers are slowed.
    assert_eq!(decision(70, true), (20, true));
    assert_eq!(decision(50, true), (0, true));
    assert_eq!(decision(50, false), (0, false));
    // There is time: what it needs may become less.
    let slower = GuardSubject {
        bytes_per_s: Some(MIB as f64 / 20.0),
        ..snapshot()
    };
    assert!(!decide_slowing(50, 50, &[slower], true)[0].is_short);
}

/// Scripts that create a file and remove it, as who the tests run as or, for root, as another user.
struct Scripts {
    folder: tempfile::TempDir,
    settings: SlowWriters,
}

impl Scripts {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let allow = |path: &Path| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        };
        allow(folder.path());
        let script = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            allow(&path);
            path.to_str().unwrap().to_string()
        };
        let flag = folder.path().join("slow").display().to_string();
        let settings = SlowWriters {
            command: script("pause", format!("id -u >{flag}"))
                .try_into()
                .unwrap(),
            undo: script("resume", format!("rm {flag}")).try_into().unwrap(),
            user: SlowingUser {
                user: 65534,
                group: 65534,
            },
            at_most: LongestTime(std::time::Duration::from_secs(600)),
        };
        Self { folder, settings }
    }

    fn runner(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.folder.path().join("slow")).ok()?;
        Some(text.trim().into())
    }

    /// A tick of a guard at this second, whose commands end at once; the backup has ended at each 99th. What it did.
    fn tick(
        &self,
        slowing: &mut Slowing,
        at_s: u64,
        is_short: bool,
        extends: bool,
    ) -> &'static str {
        let subject = GuardSubject {
            left_alone: (at_s % 100 == 99).then(|| "it is not read".into()),
            ..snapshot()
        };
        let decision = Decision {
            is_short,
            ..decide_in(50, 50, &[snapshot()]).remove(0)
        };
        let volumes = [(&subject, &decision)];
        let now_us = at_s * 1_000_000;
        let step = slowing.step(Some(&self.settings), &volumes, now_us, !extends, extends);
        let failed = |order| command::run(&order).error.is_some();
        match step {
            None => "nothing",
            Some(SlowingStep::Slow(slowed)) => {
                slowing.begin(&slowed).unwrap();
                slowing.begun(failed(slowed.order(self.folder.path(), &slowed.command)));
                "slowed"
            }
            Some(SlowingStep::Lift(slowed)) => {
                let failed = failed(slowed.undo(self.folder.path()));
                slowing.lifted(failed).unwrap();
                if failed { "failed" } else { "lifted" }
            }
        }
    }
}

#[test]
fn slowed_writers_are_released_in_every_path() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scripts = Scripts::new();
    let folder = scripts.folder.path();
    let open = || Slowing::open(folder).unwrap();
    let mut slowing = open();
    let tick = |slowing: &mut Slowing, at_s, is_short| scripts.tick(slowing, at_s, is_short, false);
    assert_eq!(tick(&mut slowing, 1, false), "nothing");
    assert_eq!(tick(&mut slowing, 2, true), "slowed");
    assert_eq!(scripts.runner().as_deref(), Some("65534"));
    // It fills more slowly now, and stays slowed until the backup ends.
    assert_eq!(tick(&mut slowing, 3, false), "nothing");
    assert_eq!(tick(&mut slowing, 99, false), "lifted");
    assert_eq!(scripts.runner(), None);
    // An extension ends it first.
    assert_eq!(tick(&mut slowing, 10, true), "slowed");
    assert_eq!(scripts.tick(&mut slowing, 11, false, true), "lifted");
    // So does the longest time, once for each backup.
    assert_eq!(tick(&mut slowing, 20, true), "slowed");
    assert_eq!(tick(&mut slowing, 620, true), "lifted");
    assert_eq!(tick(&mut slowing, 621, true), "nothing");
    assert_eq!(tick(&mut slowing, 699, false), "nothing");
    // A guard that was killed: the next one, and `--lift`.
    assert_eq!(tick(&mut slowing, 30, true), "slowed");
    let mut slowing = open();
    assert_eq!(tick(&mut slowing, 31, true), "lifted");
    assert_eq!(tick(&mut slowing, 32, true), "slowed");
    slowing::lift(folder).unwrap();
    assert_eq!(scripts.runner(), None);
    slowing::lift(folder).unwrap();
    // An undo that fails is tried again.
    let mut slowing = open();
    assert_eq!(tick(&mut slowing, 40, true), "slowed");
    std::fs::remove_file(folder.join("slow")).unwrap();
    assert_eq!(tick(&mut slowing, 99, false), "failed");
    assert_eq!(tick(&mut slowing, 100, false), "nothing");
    assert!(slowing::lift(folder).unwrap_err().contains("still slowed"));
    std::fs::write(folder.join("slow"), "").unwrap();
    assert_eq!(tick(&mut slowing, 110, false), "lifted");
}

/// A killed guard's command may still run: the undo waits for it.
#[test]
fn the_undo_comes_after_a_command_that_still_runs() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scripts = Scripts::new();
    let folder = scripts.folder.path();
    let flag = folder.join("slow").display().to_string();
    let pause = &scripts.settings.command.0;
    std::fs::write(pause, format!("#!/bin/sh\nsleep 1\ntouch {flag}\n")).unwrap();
    let mut slowing = Slowing::open(folder).unwrap();
    let subject = snapshot();
    let decision = decide_slowing(50, 50, std::slice::from_ref(&subject), true).remove(0);
    let volumes = [(&subject, &decision)];
    let Some(SlowingStep::Slow(slowed)) =
        slowing.step(Some(&scripts.settings), &volumes, 0, true, false)
    else {
        panic!()
    };
    slowing.begin(&slowed).unwrap();
    let order = slowed.order(folder, &slowed.command);
    let running = std::thread::spawn(move || command::run(&order));
    std::thread::sleep(std::time::Duration::from_millis(300));
    slowing::lift(folder).unwrap();
    assert!(running.join().unwrap().error.is_none());
    assert_eq!(scripts.runner(), None);
}

prop_compose! {
    fn any_subject()(
        number in 0..4u32,
        part in prop::sample::select(vec![GuardedPart::Metadata, GuardedPart::Pool, GuardedPart::Snapshot]),
        size in 1..200u64,
        used_share in 0.0..1.05f64,
        readings in 0..6usize,
        speed in prop::option::of(0.0..20.0f64),
        growth in prop::option::of(0..300u64),
        is_alone in prop::bool::weighted(0.1),
        has_lvm in prop::bool::weighted(0.9),
        step in prop::sample::select(vec![1, 4, 8u64]),
        legs in 1..4u64,
        lvm_free in prop::option::of(0..300u64),
        largest in 1..400u64,
        steps in 0..8u32,
        today in 0..600u64,
    ) -> GuardSubject {
        GuardSubject {
            uuid: number.to_string(),
            part,
            size: size * MIB,
            used: (size as f64 * used_share) as u64 * MIB,
            readings,
            bytes_per_s: speed.map(|speed| speed * MIB as f64),
            need: growth.map_or(RemainingNeed::Unknown, |growth| RemainingNeed::Until {
                growth: growth * MIB,
                done_s: Some(growth as f64),
            }),
            left_alone: is_alone.then(|| "it is invalid".into()),
            lvm: has_lvm.then(|| LvmRoom {
                step: step * MIB,
                step_cost: step * legs * MIB,
                free: lvm_free.map(|free| free * MIB),
                refusal: None,
            }),
            limits: limits(largest),
            spent: Spent { steps, added: 0, today: today * MIB },
            ..snapshot()
        }
    }
}

proptest! {
    #[test]
    fn no_limit_is_ever_broken(
        subjects in prop::collection::vec(any_subject(), 1..6),
        free in 0..400u64,
        keep in 0..300u64,
        slows in any::<bool>(),
    ) {
        let mut subjects = subjects;
        // All share what was added today.
        let today = subjects[0].spent.today;
        subjects.iter_mut().for_each(|subject| subject.spent.today = today);
        let decisions = decide_slowing(free, keep, &subjects, slows);
        prop_assert!(slows || !decisions.iter().any(|decision| decision.is_short));
        let (mut cost, mut added, mut spare) = (0, 0, 4 * MIB);
        let mut in_order: Vec<(&GuardSubject, &Decision)> = subjects.iter().zip(&decisions).collect();
        in_order.sort_by_key(|(subject, _)| subject.part);
        for (subject, decision) in in_order {
            let Some(extension) = decision.extension else { continue };
            prop_assert_eq!(decision.plan, GuardPlan::Extends);
            prop_assert!(subject.left_alone.is_none());
            let lvm = subject.lvm.as_ref().unwrap();
            prop_assert_eq!(extension.add % lvm.step, 0);
            prop_assert!(extension.add > 0 && extension.to == subject.size + extension.add);
            prop_assert!(extension.to <= subject.limits.largest.0);
            prop_assert!(extension.add <= lvm.free.unwrap_or(u64::MAX));
            prop_assert!(subject.readings >= 3 || subject.used > subject.size / 2);
            let is_full_pool = subject.part == GuardedPart::Pool && subject.used >= subject.size;
            prop_assert!(is_full_pool || subject.bytes_per_s.unwrap_or_default() > 0.0);
            if subject.part == GuardedPart::Snapshot {
                prop_assert!(subject.spent.steps < subject.limits.steps_per_backup);
            }
            cost += extension.add / lvm.step * lvm.step_cost;
            if subject.part == GuardedPart::Metadata {
                cost += extension.to.saturating_sub(spare);
                spare = spare.max(extension.to);
            }
            added += extension.add;
        }
        prop_assert!(cost <= (free * MIB).saturating_sub(keep * MIB), "{cost}");
        prop_assert!(added == 0 || today + added <= limits(0).add_at_most_per_day.0);
    }

    #[test]
    fn less_room_or_a_lower_limit_never_leads_to_a_larger_extension(
        subject in any_subject(),
        free in 0..400u64,
        less in 0..400u64,
        lower in 1..400u64,
    ) {
        let added = |free, subject: &GuardSubject| {
            let decisions = decide_in(free, 50, std::slice::from_ref(subject));
            decisions[0].extension.map_or(0, |extension| extension.add)
        };
        let most = added(free, &subject);
        prop_assert!(added(free.min(less), &subject) <= most);
        let lower = GuardSubject {
            limits: VolumeLimits {
                largest: Bytes(subject.limits.largest.0.min(lower * MIB)),
                ..subject.limits.clone()
            },
            ..subject.clone()
        };
        prop_assert!(added(free, &lower) <= most);
    }

    /// A snapshot takes nothing that a pool, or its metadata, gets without it.
    #[test]
    fn a_snapshot_never_gets_room_that_a_pool_needs(
        pool in any_subject().prop_filter("a pool", |it| it.part != GuardedPart::Snapshot),
        snapshot in any_subject(),
        free in 0..400u64,
    ) {
        let alone = decide_in(free, 50, std::slice::from_ref(&pool));
        let snapshot = GuardSubject { part: GuardedPart::Snapshot, spent: pool.spent, ..snapshot };
        let beside = decide_in(free, 50, &[snapshot, pool]);
        let added = |decision: &Decision| decision.extension.map_or(0, |extension| extension.add);
        prop_assert!(added(&beside[1]) >= added(&alone[0]));
    }
}

/// A generator of random numbers; the same seed gives the same course.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.next()
    }

    /// Equally likely in each magnitude.
    fn magnitude(&mut self, least: f64, most: f64) -> f64 {
        self.between(least.ln(), most.ln()).exp()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CourseKind {
    Steady,
    /// Fast for a while, now and then.
    Bursts {
        period_s: f64,
        on_s: f64,
    },
    /// From a moment on faster by a factor.
    From {
        at_s: f64,
        factor: f64,
    },
    Until {
        at_s: f64,
        factor: f64,
    },
    /// Chunks that were copied are written again ever more often.
    Decaying {
        region: f64,
    },
}

/// A backup of the model, in bytes and seconds.
#[derive(Clone, Debug)]
struct Backup {
    kind: CourseKind,
    size: f64,
    grows: f64,
    reads: f64,
    left: f64,
    begins_s: f64,
    used: f64,
    read: f64,
    ended: Option<bool>,
    meter: FillMeter,
    start_size: f64,
    steps: u32,
}

/// Who extends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Arm {
    Nothing,
    Dmeventd { threshold: f64, percent: f64 },
    SpeedsAlone,
    Guard,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    /// Of each backup, whether it was saved.
    fates: Vec<bool>,
    saved: u32,
    lost: u32,
    added: f64,
    needed: f64,
    extensions: u32,
    most_steps: u32,
    in_vain: u32,
    broken: u32,
}

impl Tally {
    fn text(&self, possible: u32) -> String {
        let ratio = self.added / self.needed;
        let Self {
            saved,
            lost,
            extensions,
            most_steps,
            in_vain,
            broken,
            ..
        } = self;
        format!(
            "saved {saved} of {possible} that can be, lost {lost}, {ratio:.2} added per needed, {extensions} extensions, \
             {most_steps} at most, {in_vain} in vain, {broken} limits broken"
        )
    }

    fn add(&mut self, other: Self) {
        self.fates.extend(other.fates);
        self.saved += other.saved;
        self.broken += other.broken;
    }
}

/// A group of the model with backups that run in it.
struct Course {
    backups: Vec<Backup>,
    free: f64,
    keep: f64,
    extent: f64,
    largest: f64,
}

impl Course {
    fn random(random: &mut Random, is_large: bool) -> Self {
        // Small: tens of MiB and minutes; large: tens of GiB and hours.
        let lasts_s = if is_large {
            random.magnitude(1200.0, 7200.0)
        } else {
            random.between(60.0, 200.0)
        };
        let scale = if is_large {
            random.magnitude(2.0, 40.0) * 1024.0 * MIB as f64
        } else {
            random.magnitude(12.0, 60.0) * MIB as f64
        };
        let extent = if is_large { 4.0 } else { 1.0 } * MIB as f64;
        let count = 1 + (random.next() * 3.0) as usize;
        let mut backups = Vec::new();
        for _ in 0..count {
            let kind = match (random.next() * 5.0) as u32 {
                0 => CourseKind::Steady,
                1 => CourseKind::Bursts {
                    period_s: lasts_s * random.between(0.05, 0.3),
                    on_s: lasts_s * random.between(0.01, 0.04),
                },
                2 => CourseKind::From {
                    at_s: lasts_s * random.between(0.2, 0.8),
                    factor: random.between(1.5, 8.0),
                },
                3 => CourseKind::Until {
                    at_s: lasts_s * random.between(0.1, 0.5),
                    factor: random.between(1.5, 4.0),
                },
                _ => CourseKind::Decaying {
                    region: scale * random.between(1.0, 2.0),
                },
            };
            let size = (scale * random.magnitude(0.3, 1.2) / extent).ceil() * extent;
            backups.push(Backup {
                kind,
                size,
                // From half of what fits to three times of it.
                grows: size * random.magnitude(0.4, 2.5) / lasts_s,
                reads: scale * 4.0 / lasts_s,
                left: scale * 4.0,
                begins_s: lasts_s * random.between(0.0, 0.2),
                used: 0.0,
                read: 0.0,
                ended: None,
                meter: FillMeter::default(),
                start_size: size,
                steps: 0,
            });
        }
        let keep = scale * 0.2;
        Self {
            free: (keep + scale * count as f64 * random.magnitude(0.1, 3.0)).ceil(),
            backups,
            keep,
            extent,
            largest: scale * 8.0,
        }
    }

    /// Bytes a second that a backup's snapshot grows.
    fn speed(backup: &Backup, at_s: f64, noise: f64) -> f64 {
        let factor = match backup.kind {
            CourseKind::Steady => 1.0,
            CourseKind::Bursts { period_s, on_s } => {
                if at_s % period_s < on_s {
                    5.0
                } else {
                    0.7
                }
            }
            CourseKind::From {
                at_s: from_s,
                factor,
            } => {
                if at_s >= from_s {
                    factor
                } else {
                    1.0
                }
            }
            CourseKind::Until { at_s: to_s, factor } => {
                if at_s < to_s {
                    factor
                } else {
                    1.0
                }
            }
            CourseKind::Decaying { region } => 2.0 * (1.0 - backup.used / region).max(0.0),
        };
        backup.grows * factor * noise
    }

    /// What a backup needs in all, if it is never full.
    fn needs(backup: &Backup) -> f64 {
        let mut alone = backup.clone();
        let mut at_s = 0.0;
        while alone.left > 0.0 {
            alone.used += Self::speed(&alone, at_s, 1.0);
            alone.left -= alone.reads;
            at_s += 1.0;
        }
        alone.used
    }

    fn subjects(&mut self, now_s: f64, arm: Arm) -> Vec<GuardSubject> {
        let (largest, keep) = (self.largest, self.free - self.keep);
        let mut subjects = Vec::new();
        for (index, backup) in self.backups.iter_mut().enumerate() {
            let now_us = (now_s * 1e6) as u64;
            if backup.ended.is_some() || now_s < backup.begins_s {
                continue;
            }
            let meter = &mut backup.meter;
            meter.push(now_us, backup.used as u64);
            let point = ReadPoint {
                at_s: now_s - backup.begins_s,
                read: backup.read,
                used: Some(backup.used),
            };
            meter.note_reads(point, now_us);
            let free_bytes = (backup.size - backup.used) as u64;
            let inputs = NeedInputs {
                free_bytes,
                most_bytes: None,
                file_system_bytes: Some((backup.left + backup.read) as u64),
                volume: Extensible {
                    name: format!("vg0/{index}"),
                    vg: "vg0".into(),
                    option: "-L".into(),
                    step: self.extent as u64,
                    step_cost: self.extent as u64,
                    free: None,
                    refusal: None,
                    more_space: Sentence::default(),
                },
            };
            let need = match arm {
                Arm::Guard => meter.need(inputs, now_us),
                _ => RemainingNeed::Unknown,
            };
            subjects.push(GuardSubject {
                uuid: index.to_string(),
                name: format!("vg0/{index}"),
                size: backup.size as u64,
                used: backup.used as u64,
                readings: (now_s - backup.begins_s) as usize + 1,
                seen_s: meter.seen_s(now_us),
                bytes_per_s: meter.speed(),
                need,
                lvm: Some(LvmRoom {
                    step: self.extent as u64,
                    step_cost: self.extent as u64,
                    free: Some(keep.max(0.0) as u64 + self.keep as u64),
                    refusal: None,
                }),
                limits: VolumeLimits {
                    largest: Bytes(largest as u64),
                    add_at_most_per_day: Bytes(u64::MAX),
                    ..limits(0)
                },
                spent: Spent {
                    steps: backup.steps,
                    ..Spent::default()
                },
                ..snapshot()
            });
        }
        subjects
    }

    fn run(mut self, arm: Arm, random: &mut Random, tally: &mut Tally) {
        let mut now_s = 0.0;
        // The extension that is under way: the volume, its new size, and when the room is usable.
        let mut pending: Vec<(usize, f64, f64)> = Vec::new();
        let mut noise = vec![1.0_f64; self.backups.len()];
        while self.backups.iter().any(|backup| backup.ended.is_none()) {
            now_s += 1.0;
            for (index, backup) in self.backups.iter_mut().enumerate() {
                noise[index] = (noise[index].ln() * 0.9 + random.between(-0.1, 0.1)).exp();
                if backup.ended.is_some() || now_s < backup.begins_s {
                    continue;
                }
                // Room that becomes usable within this second counts from then on.
                let mut room = backup.size;
                pending.retain(|(of, size, at_s)| {
                    let is_usable = *of == index && *at_s <= now_s;
                    if is_usable {
                        room = room.max(*size);
                    }
                    !is_usable
                });
                let grown = Self::speed(backup, now_s - backup.begins_s, noise[index]);
                backup.size = room;
                backup.used += grown;
                if backup.used > backup.size {
                    backup.ended = Some(false);
                } else {
                    let read = backup.reads.min(backup.left);
                    backup.read += read;
                    backup.left -= read;
                    if backup.left <= 0.0 {
                        backup.ended = Some(true);
                    }
                }
                if backup.ended.is_some() {
                    // It is removed, and gives its room back.
                    self.free += backup.size;
                }
            }
            let took_s = random.between(0.3, 1.0);
            match arm {
                Arm::Nothing => {}
                Arm::Dmeventd { threshold, percent } => {
                    if (now_s as u64).is_multiple_of(10) {
                        for backup in &mut self.backups {
                            let is_due = backup.used / backup.size > threshold;
                            let add = (backup.size * percent / self.extent).ceil() * self.extent;
                            let runs = backup.ended.is_none() && now_s >= backup.begins_s;
                            if runs && is_due && add <= self.free {
                                self.free -= add;
                                backup.size += add;
                                backup.steps += 1;
                            }
                        }
                    }
                }
                Arm::SpeedsAlone | Arm::Guard => {
                    let subjects = self.subjects(now_s, arm);
                    let group = GroupRoom {
                        free: Some(self.free as u64),
                        keep_free: self.keep as u64,
                        spare: 0,
                        took_s: 1.0,
                    };
                    let groups = BTreeMap::from([("vg0".to_string(), group)]);
                    let decisions = decide(&subjects, &groups, 0.0, false);
                    if let Some((subject, extension)) = extensions(&subjects, &decisions).first()
                        && pending.is_empty()
                    {
                        let index: usize = subject.uuid.parse().unwrap();
                        self.free -= extension.add as f64;
                        self.backups[index].steps += 1;
                        // LVM's report comes first, and two thirds of `lvextend`.
                        pending.push((
                            index,
                            extension.to as f64,
                            now_s + 0.2 + took_s * 2.0 / 3.0,
                        ));
                        if extension.to as f64 > self.largest {
                            tally.broken += 1;
                        }
                    }
                }
            }
            if arm == Arm::Guard && self.free < self.keep - 1.0 {
                tally.broken += 1;
            }
        }
        for backup in &self.backups {
            let is_saved = backup.ended == Some(true);
            tally.fates.push(is_saved);
            tally.saved += u32::from(is_saved);
            tally.lost += u32::from(!is_saved);
            if is_saved {
                tally.added += (backup.size - backup.start_size) / self.extent;
            }
            tally.extensions += backup.steps;
            tally.most_steps = tally.most_steps.max(backup.steps);
            if is_saved {
                tally.needed += (backup.used - backup.start_size).max(0.0) / self.extent;
                tally.in_vain += u32::from(backup.steps > 0 && backup.used <= backup.start_size);
            }
        }
    }
}

/// How many of a course's backups a perfect choice saves: those that need least, as far as there is room.
fn can_be_saved(course: &Course) -> u32 {
    let needs = course.backups.iter().map(|backup| {
        let more = (Course::needs(backup) * 1.02 - backup.size).max(0.0);
        (more / course.extent).ceil() * course.extent
    });
    let mut needs: Vec<f64> = needs.collect();
    needs.sort_unstable_by(f64::total_cmp);
    let mut room = course.free - course.keep;
    let mut saved = 0;
    for need in needs {
        room -= need;
        saved += u32::from(room >= 0.0);
    }
    saved
}

/// `COWBELL_COURSES=100` for the table of `benches/RESULTS.md`.
#[test]
fn the_guard_saves_more_than_dmeventd_with_less_room_and_breaks_no_limit() {
    let courses: u64 = std::env::var("COWBELL_COURSES").map_or(8, |count| count.parse().unwrap());
    let arms = [
        ("nothing", Arm::Nothing),
        (
            "dmeventd 70/20",
            Arm::Dmeventd {
                threshold: 0.7,
                percent: 0.2,
            },
        ),
        (
            "dmeventd 50/50",
            Arm::Dmeventd {
                threshold: 0.5,
                percent: 0.5,
            },
        ),
        ("guard, speeds alone", Arm::SpeedsAlone),
        ("guard", Arm::Guard),
    ];
    let mut tallies = Vec::new();
    let mut possible = 0;
    for (name, arm) in arms {
        let mut tally = Tally::default();
        possible = 0;
        for is_large in [false, true] {
            let mut of_size = Tally::default();
            let mut possible_of_size = 0;
            for seed in (1..=courses).filter(|seed| (seed % 2 == 0) == is_large) {
                let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                let course = Course::random(&mut random, is_large);
                possible_of_size += can_be_saved(&course);
                course.run(arm, &mut random, &mut of_size);
            }
            println!(
                "{name}, {}: {}",
                if is_large { "large" } else { "small" },
                of_size.text(possible_of_size)
            );
            tally.add(of_size);
            possible += possible_of_size;
        }
        tallies.push(tally);
    }
    let [nothing, small_steps, large_steps, _, guard] = &tallies[..] else {
        panic!()
    };
    // It is never worse than nothing.
    for (alone, guarded) in nothing.fates.iter().zip(&guard.fates) {
        assert!(*guarded || !alone);
    }
    assert_eq!(guard.broken, 0);
    assert!(guard.saved >= small_steps.saved.max(large_steps.saved));
    assert!(guard.saved >= possible, "{} of {possible}", guard.saved);
}

#[test]
fn what_is_discarded_in_a_pool_is_no_speed_and_what_was_seen_before_counts() {
    let mut meter = FillMeter::default();
    let mut speed_after = |second: u64, used: u64| {
        meter.push(second * 1_000_000, used);
        (meter.speed(), meter.seen_s(second * 1_000_000))
    };
    assert_eq!(speed_after(0, 100), (None, 0.0));
    assert_eq!(speed_after(1, 110), (Some(10.0), 1.0));
    assert_eq!(speed_after(2, 90), (None, 2.0));
    assert_eq!(speed_after(3, 95), (Some(5.0), 3.0));
}

#[test]
fn a_reader_that_paused_for_long_before_may_pause_for_longer() {
    let mut meter = FillMeter::default();
    let mut read = 0.0;
    let mut read_at = |meter: &mut FillMeter, at_s: u64| {
        meter.push(at_s * 1_000_000, 4096);
        read += 64.0 * f64::from(1 << 20);
        let point = ReadPoint {
            at_s: at_s as f64,
            read,
            used: None,
        };
        meter.note_reads(point, at_s * 1_000_000);
    };
    let last_read_s = |meter: &FillMeter, from_s: u64| {
        let mut seconds = from_s..from_s + 7200;
        seconds
            .rfind(|at_s| meter.is_read(true, at_s * 1_000_000))
            .unwrap()
            - from_s
    };
    read_at(&mut meter, 10);
    read_at(&mut meter, 11);
    assert_eq!(last_read_s(&meter, 11), 120);
    read_at(&mut meter, 311);
    assert_eq!(last_read_s(&meter, 311), 600);
    read_at(&mut meter, 4000);
    assert_eq!(last_read_s(&meter, 4000), 1800);
}

/// What became of pools of the model: MiB, and the longest time that one was full.
#[derive(Debug, Default)]
struct PoolTally {
    added: f64,
    needed: f64,
    extensions: u32,
    longest_full_s: f64,
}

/// A pool whose writers write what is some times its size, in bursts; they wait while it is full.
fn fill_pool(random: &mut Random, is_large: bool, tally: &mut PoolTally) {
    let mib = MIB as f64;
    let (size, lasts_s, extent) = if is_large {
        let size = random.magnitude(50.0, 1000.0) * 1024.0 * mib;
        (size, random.magnitude(1200.0, 7200.0), 4.0 * mib)
    } else {
        let size = random.magnitude(60.0, 1000.0) * mib;
        (size, random.between(60.0, 300.0), mib)
    };
    let size = (size / extent).ceil() * extent;
    let goal = size * random.between(1.05, 2.0);
    let used = size * random.between(0.3, 0.9);
    let mean = (goal - used) / lasts_s;
    let (period_s, share) = (
        lasts_s * random.between(0.02, 0.3),
        random.between(0.2, 1.0),
    );
    let mut meter = FillMeter::default();
    let (mut now_s, mut full_s) = (0.0, 0.0);
    let (mut now_size, mut now_used, mut added) = (size, used, 0.0);
    let mut pending: Option<(f64, f64)> = None;
    let mut noise = 1.0_f64;
    while now_used < goal {
        now_s += 1.0;
        noise = (noise.ln() * 0.9 + random.between(-0.1, 0.1)).exp();
        if let Some((to, at_s)) = pending
            && at_s <= now_s
        {
            (now_size, pending) = (to, None);
        }
        let is_on = now_s % period_s < period_s * share;
        let speed = if is_on { mean / share * noise } else { 0.0 };
        let wished = now_used + speed;
        now_used = wished.min(now_size);
        full_s = if wished > now_size { full_s + 1.0 } else { 0.0 };
        tally.longest_full_s = tally.longest_full_s.max(full_s);
        let now_us = (now_s * 1e6) as u64;
        meter.push(now_us, now_used as u64);
        if pending.is_some() {
            continue;
        }
        let subject = GuardSubject {
            size: now_size as u64,
            used: now_used as u64,
            readings: now_s as usize,
            seen_s: meter.seen_s(now_us),
            bytes_per_s: meter.speed(),
            lvm: Some(LvmRoom {
                step: extent as u64,
                step_cost: extent as u64,
                free: None,
                refusal: None,
            }),
            limits: VolumeLimits {
                largest: Bytes(u64::MAX),
                add_at_most_per_day: Bytes(u64::MAX),
                ..limits(0)
            },
            spent: Spent {
                added: added as u64,
                ..Spent::default()
            },
            ..pool()
        };
        let group = GroupRoom {
            free: Some(u64::MAX / 2),
            took_s: 1.0,
            ..GroupRoom::default()
        };
        let groups = BTreeMap::from([("vg0".to_string(), group)]);
        let decision = decide(&[subject], &groups, 0.0, false).remove(0);
        if let Some(extension) = decision.extension {
            added += extension.add as f64;
            tally.extensions += 1;
            pending = Some((extension.to as f64, now_s + 0.4 + random.between(0.2, 0.7)));
        }
    }
    tally.added += added / size;
    tally.needed += (goal - size) / size;
}

/// As above, `COWBELL_COURSES=100` for `benches/RESULTS.md`.
#[test]
fn pools_get_little_more_than_they_need_and_are_full_for_moments_at_most() {
    let pools: u64 = std::env::var("COWBELL_COURSES").map_or(8, |count| count.parse().unwrap());
    for (is_large, most) in [(false, 1.2), (true, 1.1)] {
        let mut tally = PoolTally::default();
        for seed in 1..=pools {
            let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            fill_pool(&mut random, is_large, &mut tally);
        }
        let ratio = tally.added / tally.needed;
        println!("large: {is_large}, {ratio:.2} added per needed, {tally:?}");
        assert!(ratio <= most && tally.longest_full_s <= 5.0);
    }
}
