//! Outcomes of jobs.

pub(crate) mod example;

use jiff::Timestamp;

use super::backup_run::BackupRun;
use super::completeness::Completeness;
use super::maker::{MakerRun, ProcessEnd, ReadShare};
use super::{Job, JobKind, Outcome, ReportedResult};
use crate::commands::{ArchiveSummary, ArchiveVerdict};
use crate::sample::processes::ExitStatus;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_772_330_400 + second).unwrap()
}

/// A snapshot's job whose run reported this after a hundred seconds.
fn reported(succeeded: Option<bool>) -> Job {
    let mut job = Job::new(1, JobKind::Snapshot, "uuid", "data_snapshot", at(0));
    let report = succeeded.map(|succeeded| ReportedResult {
        at: at(100),
        succeeded,
    });
    job.backup_run = Some(BackupRun {
        report,
        is_unbroken: true,
        ..BackupRun::new(4711, at(0))
    });
    job.setup.file_system_bytes = Some(100);
    job.bytes_read = Some(100);
    job.completeness = Completeness::of(&job, std::iter::empty());
    job
}

fn ended(mut job: Job) -> Outcome {
    let reported = job.reported();
    job.end(at(110), reported);
    job.outcome.unwrap()
}

fn dead(mut job: Job, second: i64) -> Job {
    job.died_at = Some(at(second));
    job
}

#[test]
fn a_report_is_the_outcome_unless_the_snapshot_contradicts_it() {
    assert_eq!(ended(reported(Some(true))), Outcome::Succeeded);
    assert_eq!(ended(reported(Some(false))), Outcome::Failed);
}

#[test]
fn success_with_a_dead_snapshot_is_untrustworthy() {
    assert_eq!(
        ended(dead(reported(Some(true)), 50)),
        Outcome::Untrustworthy
    );
    assert_eq!(
        ended(dead(reported(Some(true)), 105)),
        Outcome::Untrustworthy,
        "it may have been dead before"
    );
}

#[test]
fn a_snapshot_that_dies_long_after_the_backup_is_harmless() {
    assert_eq!(
        ended(dead(reported(Some(true)), 100 + 3600)),
        Outcome::Succeeded
    );
}

#[test]
fn a_failure_with_a_dead_snapshot_is_an_overflow() {
    assert_eq!(ended(dead(reported(Some(false)), 50)), Outcome::Overflowed);
    assert_eq!(ended(dead(reported(None), 50)), Outcome::Overflowed);
}

#[test]
fn a_snapshot_that_was_valid_after_the_report_dies_too_late_to_matter() {
    let job = Job {
        outlived_report: true,
        ..reported(Some(true))
    };
    assert_eq!(ended(dead(job, 102)), Outcome::Succeeded);
}

#[test]
fn io_errors_and_a_removal_override_success_too() {
    let job = Job {
        io_error_at: Some(at(50)),
        ..reported(Some(true))
    };
    assert_eq!(ended(job), Outcome::Untrustworthy);
    let job = Job {
        removed_at: Some(at(50)),
        ..reported(Some(true))
    };
    assert_eq!(ended(job), Outcome::Untrustworthy);
    // Its whole content was read, through files that were still open.
    let mut job = reported(Some(true));
    (job.mounted_on, job.unmounted_at) = (Some("/mnt/snap".into()), Some(at(50)));
    assert_eq!(ended(job), Outcome::Succeeded);
}

#[test]
fn success_is_believed_only_if_all_was_read() {
    for (read, expected) in [
        (95, Outcome::Succeeded),
        (60, Outcome::Unknown),
        (20, Outcome::Incomplete),
    ] {
        let mut job = Job {
            bytes_read: Some(read),
            ..reported(Some(true))
        };
        job.completeness = Completeness::of(&job, std::iter::empty());
        assert_eq!(ended(job), expected, "{read} of 100");
    }
    assert_eq!(
        ended(Job {
            completeness: None,
            ..reported(Some(true))
        }),
        Outcome::Unknown
    );
}

#[test]
fn an_unclear_result_can_be_accepted_and_a_bad_one_cannot() {
    let mut job = Job {
        completeness: None,
        ..reported(Some(true))
    };
    job.end(at(110), Outcome::Succeeded);
    assert!(job.accept(at(200)) && job.accept(at(300)), "twice is once");
    assert_eq!(
        (job.outcome, job.accepted_at),
        (Some(Outcome::Succeeded), Some(at(200)))
    );
    let mut job = dead(reported(Some(true)), 50);
    job.end(at(110), Outcome::Succeeded);
    assert!(!job.accept(at(200)));
    assert_eq!(job.outcome, Some(Outcome::Untrustworthy));
}

#[test]
fn a_silent_run_is_abandoned_only_if_cowbell_listened() {
    assert_eq!(ended(reported(None)), Outcome::Abandoned);
    let mut interrupted = reported(None);
    interrupted.backup_run.as_mut().unwrap().is_unbroken = false;
    assert_eq!(ended(interrupted), Outcome::Unknown);
    let without_hooks = Job::new(1, JobKind::Snapshot, "uuid", "data_snapshot", at(0));
    assert_eq!(ended(without_hooks.clone()), Outcome::Unknown);
    assert_eq!(ended(dead(without_hooks, 50)), Outcome::Overflowed);
}

#[test]
fn a_command_that_succeeds_with_a_dead_snapshot_is_untrustworthy() {
    for (died, reported, expected) in [
        (true, Outcome::Succeeded, Outcome::Untrustworthy),
        (true, Outcome::Failed, Outcome::Failed),
        (false, Outcome::Succeeded, Outcome::Succeeded),
    ] {
        let mut job = Job::new(1, JobKind::Command, "run-1", "nightly", at(0));
        job.died_at = died.then(|| at(50));
        job.end(at(100), reported);
        assert_eq!(job.outcome, Some(expected));
    }
}

#[test]
fn only_good_runs_of_the_same_origin_are_compared_with() {
    let earlier = |id: i64, outcome, origin: &str| {
        let job = Job {
            id,
            outcome: Some(outcome),
            bytes_read: Some(10),
            ..reported(Some(true))
        };
        std::sync::Arc::new(Job {
            origin: Some(origin.into()),
            ..job
        })
    };
    let before = [
        earlier(2, Outcome::Incomplete, "data"),
        earlier(3, Outcome::Succeeded, "other"),
    ];
    let mut job = Job {
        origin: Some("data".into()),
        bytes_read: Some(40),
        ..reported(Some(true))
    };
    job.end_judged(at(110), &before);
    assert_eq!(
        (job.outcome, job.completeness.unwrap().runs),
        (Some(Outcome::Unknown), 0)
    );
}

/// A script made the snapshot and ended; other processes read so many MiB of 100.
fn left_to_others(id: i64, mib: u64, before: &[std::sync::Arc<Job>]) -> Job {
    let mut maker = MakerRun::new(&[7], None);
    maker.processes[0].end = Some(ProcessEnd {
        at: at(2),
        status: Some(ExitStatus::Status(0)),
        read: Some(ReadShare::Nothing),
    });
    let mut job = Job {
        maker: Some(maker),
        vg: Some("vg0".into()),
        lv: Some("bk".into()),
        origin: Some("data".into()),
        bytes_read: Some(mib << 20),
        ..Job::new(id, JobKind::Snapshot, "uuid", "bk", at(0))
    };
    job.setup.file_system_bytes = Some(100 << 20);
    job.end_judged(at(110), before);
    job
}

#[test]
fn a_backup_by_others_than_its_maker_is_known_by_earlier_nights() {
    let mut before = Vec::new();
    for (id, (mib, outcome, is_backup)) in (1..).zip([
        (100, Outcome::Unknown, true),
        (50, Outcome::Unknown, false),
        (100, Outcome::Unknown, true),
        (50, Outcome::Incomplete, true),
        (100, Outcome::Unknown, true),
        (9, Outcome::Incomplete, true),
    ]) {
        let job = left_to_others(id, mib, &before);
        assert_eq!(
            (job.outcome, job.is_backup()),
            (Some(outcome), is_backup),
            "{id}"
        );
        before.push(std::sync::Arc::new(job));
    }
    let text = before[3].judgement().warning.unwrap().to_string();
    assert!(
        text.starts_with("The backup of vg0/data that ended at 2026"),
        "{text}"
    );
}

/// Its archive was read through.
fn certified(mut job: Job, verdict: ArchiveVerdict) -> Job {
    let archive = ArchiveSummary {
        archive: "/backup/x.tar.gz".into(),
        verdict,
        checked_at: at(120),
        sha256: String::new(),
        files: 1,
        bytes: 1,
        finding: None,
        certificate: None,
    };
    job.certify(&archive).unwrap();
    job
}

#[test]
fn a_damaged_archive_makes_a_success_untrustworthy_before_and_after_the_end() {
    use ArchiveVerdict::{Damaged, Sound};
    for (report, verdict, expected) in [
        (Some(true), Damaged, Outcome::Untrustworthy),
        (Some(true), Sound, Outcome::Succeeded),
        (Some(false), Damaged, Outcome::Failed),
        (None, Damaged, Outcome::Abandoned),
    ] {
        assert_eq!(
            ended(certified(reported(report), verdict)),
            expected,
            "{report:?} {verdict:?}"
        );
        let mut job = reported(report);
        job.end(at(110), job.reported());
        assert_eq!(
            certified(job, verdict).outcome,
            Some(expected),
            "{report:?} {verdict:?} at last"
        );
    }
    let mut repaired = reported(Some(true));
    repaired.end(at(110), repaired.reported());
    let repaired = certified(certified(repaired, Damaged), Sound);
    assert_eq!(
        repaired.outcome,
        Some(Outcome::Succeeded),
        "the same archive, made again"
    );
    let mut unheard = reported(None);
    unheard.backup_run = None;
    assert_eq!(ended(certified(unheard, Damaged)), Outcome::Untrustworthy);
}
