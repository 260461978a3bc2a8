//! Backups that are not as usual.

use super::*;
use crate::job::{JobKind, Outcome};

const HOUR: i64 = 3600;
const GIB: u64 = 1 << 30;

fn at(hour: f64) -> Timestamp {
    BEGIN + SignedDuration::from_secs((hour * 3600.0) as i64)
}

/// A backup of `vg0/data`: when it ended in hours from the beginning, its length in hours, and what it read in GiB.
fn backup_of_data(id: i64, ended: f64, hours: f64, gib: u64) -> Job {
    let mut job = Job::new(
        id,
        JobKind::Snapshot,
        &format!("u{id}"),
        "data_snapshot",
        at(ended - hours),
    );
    (job.vg, job.lv, job.origin) = (
        Some("vg0".into()),
        Some("data_snapshot".into()),
        Some("data".into()),
    );
    job.program = Some("holland".into());
    (job.ended_at, job.outcome) = (Some(at(ended)), Some(Outcome::Succeeded));
    job.bytes_read = Some(gib * GIB);
    job
}

/// Nightly ones that took 2 h and read 100 GiB, the last at -1 h.
fn nights(count: i64) -> Vec<Job> {
    (0..count)
        .map(|night| {
            backup_of_data(
                night + 1,
                -1.0 - 24.0 * (count - 1 - night) as f64,
                2.0,
                100,
            )
        })
        .collect()
}

/// A machine with the origin `vg0/data` and these jobs.
fn machine(jobs: Vec<Job>, config: &str) -> Machine {
    let mut machine = Machine::new(VolumeKind::Linear, config);
    (machine.volume.lv, machine.volume.origin) = ("data".into(), None);
    machine.has_free(1);
    machine.jobs = JobTracker::resume(jobs, 99, None);
    machine
}

impl Machine {
    /// Goes on to this hour, in ticks of ten minutes.
    fn until(&mut self, hour: f64) {
        while self.seconds < (hour * 3600.0) as i64 {
            self.seconds += 599;
            self.tick(Some(only(State::Ok)));
        }
    }

    /// The hours at which something happened.
    fn hours(&self) -> Vec<String> {
        let hour = |event: &String| {
            let (second, what) = event.split_once(' ').unwrap();
            format!("{} {what}", second.parse::<i64>().unwrap() / HOUR)
        };
        self.events.iter().map(hour).collect()
    }
}

#[test]
fn a_backup_that_did_not_run_is_missed_after_a_period_and_a_half() {
    let mut machine = machine(nights(10), "");
    machine.until(34.9);
    machine.has(&[]);
    machine.until(48.0);
    assert_eq!(machine.hours(), ["35 +backup_missing warning"]);
    let alert = &machine.rules.open()[0];
    assert_eq!(alert.volume().as_deref(), Some("vg0/data"));
    assert!(
        alert.sentence().to_string().starts_with("There was no good backup of vg0/data since 2026-03-01 01:00:00 UTC, for 2 d 1 h; usually there is one every 1 d 0 h. "),
        "{}",
        alert.sentence().to_string()
    );
    let mut jobs = nights(10);
    jobs.push(backup_of_data(50, 47.5, 2.0, 100));
    machine.jobs = JobTracker::resume(jobs, 99, None);
    machine.until(48.5);
    assert_eq!(machine.hours()[1..], ["48 -backup_missing"]);
}

#[test]
fn a_bad_backup_is_none() {
    let mut jobs = nights(10);
    jobs.push(Job {
        outcome: Some(Outcome::Failed),
        ..backup_of_data(50, 23.0, 2.0, 100)
    });
    let mut machine = machine(jobs, "");
    machine.until(36.0);
    assert_eq!(machine.hours(), ["35 +backup_missing warning"]);
}

#[test]
fn weekends_and_trials_and_given_up_backups_are_no_cause() {
    // Mondays to Fridays for three weeks; the last on a Friday.
    let weekdays = (0..15_i64).map(|day| {
        backup_of_data(
            day + 1,
            (day / 5 * 7 + day % 5) as f64 * 24.0 - 433.0,
            2.0,
            100,
        )
    });
    let mut weekend = machine(weekdays.collect(), "");
    weekend.until(71.0);
    weekend.has(&[]);
    // Several by hand in an hour.
    let trials =
        (0..8).map(|trial| backup_of_data(trial + 1, -1.0 + 0.1 * trial as f64, 0.05, 100));
    let mut trials = machine(trials.collect(), "");
    trials.until(100.0);
    trials.has(&[]);
    let mut given_up = machine(nights(10), "");
    given_up.until(240.0);
    assert_eq!(
        given_up.hours(),
        ["35 +backup_missing warning", "203 -backup_missing"]
    );
}

#[test]
fn backups_while_cowbell_did_not_run_are_not_missed() {
    let mut machine = machine(nights(10), "");
    machine.rules = Rules::resume(Settings::default(), Vec::new(), 0).after(Some(at(0.0)));
    machine.seconds = 60 * HOUR;
    machine.until(94.0);
    machine.has(&[]);
    machine.until(96.0);
    assert_eq!(machine.hours(), ["95 +backup_missing warning"]);
}

#[test]
fn a_configured_period_is_critical_and_needs_no_history() {
    let config =
        "[alerts]\n[[alerts.for]]\nlv = \"vg0/data\"\nbackup_missing = { within = \"26h\" }";
    for jobs in [Vec::new(), vec![backup_of_data(1, 0.0, 2.0, 100)]] {
        let mut machine = machine(jobs, config);
        machine.until(30.0);
        assert_eq!(machine.hours(), ["26 +backup_missing critical"]);
    }
}

#[test]
fn a_backup_that_runs_half_longer_than_any_before_is_slow() {
    let mut jobs = nights(10);
    let running = Job {
        ended_at: None,
        outcome: None,
        ..backup_of_data(50, 3.0, 3.0, 10)
    };
    jobs.push(running);
    let mut machine = machine(jobs, "");
    machine.until(4.0);
    assert_eq!(machine.hours(), ["3 +backup_slow warning"]);
    assert_eq!(machine.rules.open()[0].job, Some(50));
    machine.jobs = JobTracker::resume(nights(10), 99, None);
    machine.until(5.0);
    assert_eq!(machine.hours()[1..], ["4 -backup_slow"]);
}

#[test]
fn too_few_runs_show_nothing_and_short_runs_may_take_minutes_longer() {
    for (jobs, hours) in [
        (nights(2), 20.0),
        (
            (1..9)
                .map(|id| backup_of_data(id, -24.0, 0.1, 100))
                .collect(),
            0.1,
        ),
    ] {
        let mut jobs: Vec<Job> = jobs;
        jobs.push(Job {
            ended_at: None,
            outcome: None,
            ..backup_of_data(50, 0.0, 0.0, 10)
        });
        let mut machine = machine(jobs, "");
        machine.until(hours);
        machine.has(&[]);
    }
}

#[test]
fn a_backup_that_read_half_of_the_usual_is_small_until_the_next_one() {
    let mut jobs = nights(10);
    jobs.push(backup_of_data(50, 0.0, 2.0, 49));
    let mut machine = machine(jobs.clone(), "");
    machine.until(0.5);
    assert_eq!(machine.hours(), ["0 +backup_small warning"]);
    assert_eq!(
        machine.rules.open()[0].sentence().to_string(),
        "The backup of vg0/data read only 49.0 GiB; usually it reads 100 GiB. Check that no data is missing in it."
    );
    jobs.push(backup_of_data(51, 1.0, 2.0, 51));
    machine.jobs = JobTracker::resume(jobs, 99, None);
    machine.until(1.0);
    assert_eq!(machine.hours()[1..], ["0 -backup_small"]);
}

#[test]
fn a_lock_of_more_than_ten_seconds_is_raised_while_the_run_lasts() {
    use crate::sample::hooks::parse;
    let mut machine = machine(Vec::new(), "");
    let hears = |machine: &mut Machine, word: &str| {
        let at = BEGIN + SignedDuration::from_secs(machine.seconds);
        machine
            .jobs
            .take_hook(&parse(&format!("mylvmbackup 7 {word}")).unwrap(), at);
    };
    machine.is(5, State::Ok);
    hears(&mut machine, "preconnect");
    hears(&mut machine, "preflush");
    machine.is(12, State::Ok);
    machine.has(&["14 +lock_held warning"]);
    assert!(
        machine.rules.open()[0]
            .sentence()
            .to_string()
            .starts_with("The backup of mylvmbackup may hold the global read lock")
    );
    hears(&mut machine, "presnapshot");
    hears(&mut machine, "preunlock");
    hears(&mut machine, "predisconnect");
    machine.is(20, State::Ok);
    machine.has(&["14 +lock_held warning"]);
    hears(&mut machine, "precleanup");
    machine.is(1, State::Ok);
    machine.has(&["14 +lock_held warning", "37 -lock_held"]);
}

/// Three nights whose snapshots of 100 MiB needed so many MiB each.
fn needing(mib: [u64; 3]) -> Vec<Job> {
    let mut jobs = nights(3);
    for (job, mib) in jobs.iter_mut().zip(mib) {
        job.setup.kind = Some(crate::job::setup::SnapshotKind::Thick);
        (job.setup.made_bytes, job.setup.peak_bytes) = (Some(100 << 20), Some(mib << 20));
    }
    jobs
}

#[test]
fn a_next_snapshot_that_is_too_small_is_a_warning_until_it_is_large_enough() {
    let config = "[alerts]\nbackup_missing = \"off\"";
    let mut machine = machine(needing([80, 120, 130]), config);
    machine.until(1.0);
    assert_eq!(machine.hours(), ["0 +snapshot_small warning"]);
    assert_eq!(
        machine.rules.open()[0].sentence().to_string(),
        "The next snapshot of vg0/data is likely to overflow: 100 MiB, as the last one had, is less than was needed in 2 of 3 \
         cases. Use 260 MiB."
    );
    // For a day it does not ring again.
    machine.jobs = JobTracker::resume(needing([80, 90, 95]), 99, None);
    machine.until(23.0);
    assert_eq!(machine.rules.open().len(), 1);
    machine.until(30.0);
    assert_eq!(machine.hours()[1..], ["25 -snapshot_small"]);
}

#[test]
fn an_alert_about_the_next_snapshot_ends_when_nothing_is_known_of_it() {
    let mut machine = machine(
        needing([80, 120, 130]),
        "[alerts]\nbackup_missing = \"off\"",
    );
    machine.until(1.0);
    machine.jobs = JobTracker::resume(Vec::new(), 99, None);
    machine.until(2.0);
    assert_eq!(
        machine.hours(),
        ["0 +snapshot_small warning", "1 ~snapshot_small"]
    );
    machine = self::machine(needing([80, 90, 130]), "[alerts]\nbackup_missing = \"off\"");
    machine.until(1.0);
    machine.has(&[]);
}
