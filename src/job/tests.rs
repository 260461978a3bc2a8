//! Outcomes of jobs.

use std::sync::Arc;

use jiff::Timestamp;

use super::backup_run::BackupRun;
use super::completeness::Completeness;
use super::maker::{MakerRun, ProcessEnd, ReadShare};
use super::{Job, JobKind, Outcome, ReportedResult};
use crate::commands::{ArchiveSummary, ArchiveVerdict};
use crate::sample::processes::{ExitRelation, ExitStatus, ProcessExit};

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
fn a_script_that_was_accepted_with_less_than_another_run_copies_what_has_changed() {
    let status = ExitStatus::Status(0);
    let night = |copier: &str, id: i64, read: u64, earlier: &[Arc<Job>]| {
        let mut maker = MakerRun::new(&[7], None);
        for (relation, name) in [
            (ExitRelation::Child, copier),
            (ExitRelation::Itself, "x.sh"),
        ] {
            let (run, bytes) = (7, read << 20);
            maker.learn_exit(&ProcessExit {
                run,
                at: at(100),
                relation,
                bytes,
                name: name.into(),
                status,
            });
        }
        maker.note_read(ReadShare::All);
        let mut job = Job::new(id, JobKind::Snapshot, "uuid", "data_bk", at(0));
        job.maker = Some(maker);
        (job.vg, job.origin) = (Some("vg0".into()), Some("data".into()));
        job.mounted_on = Some("/mnt/s".into());
        job.setup.file_system_bytes = Some(1000 << 20);
        job.bytes_read = Some(read << 20);
        job.end_judged(at(110), earlier);
        job
    };
    for (copier, first, accepted, then, expected) in [
        ("tar", 980, Some(400), 700, Outcome::Succeeded),
        ("tar", 980, Some(400), 2, Outcome::Succeeded),
        // It may have copied another folder.
        ("mirror", 980, Some(400), 2, Outcome::Unknown),
        ("tar", 980, None, 700, Outcome::Unknown),
        // It leaves the same out each time.
        ("tar", 400, Some(400), 200, Outcome::Unknown),
    ] {
        let mut earlier = vec![Arc::new(night(copier, 1, first, &[]))];
        if let Some(read) = accepted {
            let mut job = night(copier, 2, read, &earlier);
            assert!(job.accept(at(120)));
            earlier.push(Arc::new(job));
        }
        let found = night(copier, 3, then, &earlier).outcome;
        assert_eq!(
            found,
            Some(expected),
            "{copier} {first} {accepted:?} {then}"
        );
    }
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

/// A script that made a snapshot and ended.
fn ended_script() -> MakerRun {
    let mut maker = MakerRun::new(&[7], None);
    maker.processes[0].end = Some(ProcessEnd {
        at: at(2),
        status: Some(ExitStatus::Status(0)),
        read: Some(ReadShare::Nothing),
    });
    maker
}

/// Other processes than those that made the snapshot have read so many MiB of 100.
fn read_by_others(maker: Option<&MakerRun>, id: i64, mib: u64) -> Job {
    let mut job = Job {
        maker: maker.cloned(),
        vg: Some("vg0".into()),
        lv: Some(format!("bk-2026-03-{id:02}")),
        origin: Some("data".into()),
        bytes_read: Some(mib << 20),
        ..Job::new(id, JobKind::Snapshot, "uuid", "bk", at(0))
    };
    job.setup.file_system_bytes = Some(100 << 20);
    job
}

fn left_to_others(
    maker: Option<&MakerRun>,
    id: i64,
    mib: u64,
    before: &[std::sync::Arc<Job>],
) -> Job {
    let mut job = read_by_others(maker, id, mib);
    job.end_judged(at(110), before);
    job
}

/// It pauses for longer than any reader does.
#[test]
fn a_running_backup_of_sessions_is_known_by_earlier_nights_and_hangs_unless_unmounted() {
    let session = MakerRun::new(&[], None);
    let mut before = Vec::new();
    for (nights, unmounted_at, expected) in [
        (0, None, (false, None)),
        (1, None, (false, None)),
        (1, None, (true, Some(at(50)))),
        (0, Some(at(50)), (true, None)),
    ] {
        for _ in 0..nights {
            let id = before.len() as i64;
            let night = left_to_others(Some(&session), id, 100, &before);
            before.push(std::sync::Arc::new(night));
        }
        let mut job = read_by_others(Some(&session), 9, 0);
        job.is_routine = job.is_routine_after(&before);
        job.count_reads(50 << 20, at(50), 1_000_000);
        job.unmounted_at = unmounted_at;
        job.count_reads(50 << 20, at(150), 100_000_000);
        assert_eq!((job.is_backup(), job.stalled_since), expected, "{before:?}");
    }
}

#[test]
fn a_snapshot_is_spare_if_its_script_read_another_one_of_the_same_origin() {
    let made = |pid: u32, id: i64, mib: u64| {
        let mut maker = MakerRun::new(&[pid], None);
        maker.processes[0].started = Some(100);
        read_by_others(Some(&maker), id, mib)
    };
    for (read, other_pid, other_read, expected) in [
        (0, 7, 100, true),
        (100, 7, 100, false),
        (0, 7, 0, false),
        (0, 8, 100, false),
    ] {
        let (own, other) = (made(7, 1, read), made(other_pid, 2, other_read));
        assert_eq!(own.is_spare_beside(&other), expected, "{read} {other_read}");
        assert!(!own.is_spare_beside(&own));
    }
}

#[test]
fn a_backup_by_others_than_its_maker_is_known_by_earlier_nights() {
    let session = MakerRun::new(&[], None);
    for maker in [Some(ended_script()), Some(session), None] {
        let mut before = Vec::new();
        for (id, (mib, outcome, is_backup)) in (1..).zip([
            (100, Outcome::Unknown, true),
            (50, Outcome::Unknown, false),
            (100, Outcome::Unknown, true),
            (50, Outcome::Incomplete, true),
            (100, Outcome::Unknown, true),
            (9, Outcome::Incomplete, true),
        ]) {
            let job = left_to_others(maker.as_ref(), id, mib, &before);
            let found = (job.outcome, job.is_backup());
            assert_eq!(found, (Some(outcome), is_backup), "{maker:?} {id}");
            before.push(std::sync::Arc::new(job));
        }
        let text = before[3].judgement().warning.unwrap().to_string();
        assert!(
            text.starts_with("The backup of vg0/data that ended at 2026"),
            "{text}"
        );
    }
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

pub(crate) mod example {
    //! A constructed backup for tests: it slows from 120 to 14 MiB/s while its snapshot fills from 0 to 60 %.

    use std::sync::LazyLock;

    use crate::job::figures::Figures;
    use crate::job::setup::{Setup, SnapshotKind};
    use crate::job::time_series::{JobMeasure, JobTick, JobTimeSeries, PvMeasure, TickColumns};
    use crate::statistics::Random;

    pub const MIB: f64 = 1024.0 * 1024.0;
    pub const KIB: f64 = 1024.0;
    const MIB_BYTES: u64 = 1024 * 1024;

    pub const MEASURES: [JobMeasure; 15] = [
        JobMeasure::SnapshotRead,
        JobMeasure::Written,
        JobMeasure::FillPercent,
        JobMeasure::CowWritten,
        JobMeasure::Copied,
        JobMeasure::OriginRead,
        JobMeasure::OriginWritten,
        JobMeasure::OriginWrites,
        JobMeasure::OriginWriteAwaitMs,
        JobMeasure::Bi,
        JobMeasure::Bo,
        JobMeasure::User,
        JobMeasure::System,
        JobMeasure::Iowait,
        JobMeasure::PressureIo,
    ];
    pub const PV_MEASURES: [PvMeasure; 5] = [
        PvMeasure::Read,
        PvMeasure::Written,
        PvMeasure::Utilisation,
        PvMeasure::ReadAwaitMs,
        PvMeasure::ReadRequestBytes,
    ];

    /// Ticks of a second, from so many seconds after the job's start.
    pub fn ticks(n: usize, from_s: f64) -> Vec<JobTick> {
        (0..n)
            .map(|index| JobTick {
                end_s: from_s + (index + 1) as f64,
                seconds: 1.0,
            })
            .collect()
    }

    /// From the first value to the last, with a little noise that is the same each time.
    pub fn slope(n: usize, first: f64, last: f64) -> Vec<Option<f64>> {
        let mut random = Random::default();
        let mut noise = || 1.0 + (random.below(2001) as f64 - 1000.0) / 10_000.0;
        let step = |index: usize| first + (last - first) * index as f64 / (n.max(2) - 1) as f64;
        (0..n).map(|index| Some(step(index) * noise())).collect()
    }

    pub fn steady(n: usize, value: f64) -> Vec<Option<f64>> {
        vec![Some(value); n]
    }

    /// One of the two PVs, `sda`, carries both the origin and the COW area and is busy all the time.
    pub fn slowing(n: usize) -> JobTimeSeries {
        let during = span(n, 0.0, 9.0)
            .with(JobMeasure::SnapshotRead, slope(n, 120.0 * MIB, 14.0 * MIB))
            .and_then(|span| span.with(JobMeasure::FillPercent, straight(n, 0.0, 60.0)))
            .and_then(|span| span.with(JobMeasure::CowWritten, steady(n, 1.9 * MIB)))
            .and_then(|span| span.with(JobMeasure::Copied, slope(n, 1.6 * MIB, 1.6 * MIB)))
            .and_then(|span| {
                span.with_pv("sda", PvMeasure::Read, slope(n, 120.0 * MIB, 14.0 * MIB))
            })
            .and_then(|span| span.with_pv("sda", PvMeasure::Written, steady(n, 2.9 * MIB)))
            .and_then(|span| span.with_pv("sda", PvMeasure::Utilisation, steady(n, 0.98)))
            .and_then(|span| span.with_pv("sda", PvMeasure::ReadAwaitMs, straight(n, 2.0, 12.0)))
            .and_then(|span| {
                span.with_pv(
                    "sda",
                    PvMeasure::ReadRequestBytes,
                    straight(n, 512.0 * KIB, 16.0 * KIB),
                )
            })
            .and_then(|span| span.with_pv("sdb", PvMeasure::Utilisation, steady(n, 0.02)));
        JobTimeSeries {
            before: Some(span(60, -60.0, 2.0)),
            during: during.unwrap(),
            after: Some(span(60, n as f64, 2.0)),
            took_s: Some(n as f64),
        }
    }

    /// Of 2,000 seconds of it, made once for all tests.
    pub fn slow_figures() -> &'static Figures {
        static FIGURES: LazyLock<Figures> = LazyLock::new(|| Figures::of(&slowing(2000), &setup()));
        &FIGURES
    }

    pub fn setup() -> Setup {
        Setup {
            kind: Some(SnapshotKind::Thick),
            chunk_bytes: Some(64 * 1024),
            cow_bytes: Some(1024 * MIB_BYTES),
            peak_bytes: Some(600 * MIB_BYTES),
            origin_bytes: Some(100 * 1024 * MIB_BYTES),
            snapshots: Some(1),
            origin_pvs: Some(vec!["sda".into()]),
            cow_pvs: Some(vec!["sda".into()]),
            processors: Some(4),
            ..Setup::default()
        }
    }

    /// A span in which the origin is written to in requests of 16 KiB that take so many milliseconds each.
    fn span(n: usize, from_s: f64, await_ms: f64) -> TickColumns {
        TickColumns::new(ticks(n, from_s))
            .and_then(|span| span.with(JobMeasure::OriginWritten, steady(n, MIB)))
            .and_then(|span| span.with(JobMeasure::OriginWrites, steady(n, MIB / (16.0 * KIB))))
            .and_then(|span| span.with(JobMeasure::OriginWriteAwaitMs, steady(n, await_ms)))
            .and_then(|span| span.with(JobMeasure::User, steady(n, 0.1)))
            .and_then(|span| span.with(JobMeasure::System, steady(n, 0.05)))
            .and_then(|span| span.with(JobMeasure::Iowait, steady(n, 0.3)))
            .and_then(|span| span.with(JobMeasure::PressureIo, steady(n, 0.7)))
            .unwrap()
    }

    pub fn straight(n: usize, first: f64, last: f64) -> Vec<Option<f64>> {
        (0..n)
            .map(|index| Some(first + (last - first) * index as f64 / (n.max(2) - 1) as f64))
            .collect()
    }
}
