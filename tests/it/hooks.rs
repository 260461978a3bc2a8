//! What mylvmbackup's hooks tell becomes phases and an outcome of the snapshot's one job, and nothing that is told
//! overrides what was seen.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cowbell::commands::{Mark, MarkEnd, MarkKind};
use cowbell::job::{Job, JobKind, JobTracker, Outcome};
use cowbell::sample::hooks;
use cowbell::source::{Hook, Reading};
use jiff::Timestamp;
use serde_json::json;

use crate::daemon::{Daemon, Start, cowbell, said};
use crate::machine::{Done, Machine};
use crate::observer::Observer;
use crate::tape::{BEGIN, Snapshot, Tape};
use crate::wait_for;

const HOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/mylvmbackup");

/// What a run says, tick by tick: `words` of the run with this number before the tick that finds the snapshot so.
pub type Story<'a> = &'a [(Snapshot, u32, &'a [&'a str])];

pub const NONE: Snapshot = Snapshot::Absent;
pub const ALIVE: Snapshot = Snapshot::Filled(10.0);
const DEAD: Snapshot = Snapshot::Invalid;

/// Sectors of the origin, all of which a backup reads.
const WHOLE: u64 = 614_400;

/// Ten seconds a tick.
pub fn tape(story: Story) -> Tape {
    let mut tape = Tape::new(Duration::from_secs(10));
    for (snapshot, run, words) in story {
        let reading = tape.tick(*snapshot, Done::default(), Done::sectors(WHOLE, 0));
        let at = reading.at;
        let said = |word: &&str| Hook {
            at,
            text: format!("mylvmbackup {run} {word}"),
        };
        reading.hooks = words.iter().map(said).collect();
    }
    tape
}

/// The loop's way with jobs.
#[derive(Default)]
pub struct Watcher {
    observer: Observer,
    pub book: JobTracker,
}

impl Watcher {
    fn take(&mut self, reading: &Reading) {
        for hook in &reading.hooks {
            if let Ok(message) = hooks::parse(&hook.text) {
                self.book.take_hook(&message, hook.at);
            }
        }
        let interval = self.observer.observe(reading);
        self.book.advance(&interval);
    }

    pub fn watched(story: Story) -> Self {
        let mut watcher = Self::default();
        tape(story)
            .readings
            .iter()
            .for_each(|reading| watcher.take(reading));
        watcher
    }

    /// Killed, and started again after the reading with this number.
    fn watched_twice(story: Story, first: usize) -> Self {
        let readings = tape(story).readings;
        let (mut before, mut after) = (Self::default(), Self::default());
        readings[..first]
            .iter()
            .for_each(|reading| before.take(reading));
        let jobs: Vec<Job> = before.book.running().to_vec();
        after.book = JobTracker::resume(jobs, 1, Some(readings[first - 1].at));
        readings[first..]
            .iter()
            .for_each(|reading| after.take(reading));
        after
    }

    fn only_job(&self) -> Job {
        let jobs: Vec<&Job> = self
            .book
            .ended()
            .iter()
            .map(|job| &**job)
            .chain(self.book.running())
            .collect();
        assert_eq!(jobs.len(), 1, "one job: {jobs:#?}");
        jobs[0].clone()
    }
}

/// Each phase by its name and when it began, in seconds.
pub fn phases(job: &Job) -> String {
    let second = |at: Timestamp| at.as_second() - BEGIN.as_second();
    let phases = job
        .phases()
        .into_iter()
        .map(|span| format!("{} {}", span.name, second(span.began_at)));
    phases.collect::<Vec<_>>().join(", ")
}

fn check(story: Story, outcome: Outcome, expected: &str) {
    let job = Watcher::watched(story).only_job();
    assert_eq!(
        (job.outcome, phases(&job).as_str()),
        (Some(outcome), expected)
    );
}

pub const BEFORE: (Snapshot, u32, &[&str]) = (NONE, 7, &["preconnect", "preflush"]);
const MADE: (Snapshot, u32, &[&str]) = (ALIVE, 7, &["presnapshot"]);
const READ: (Snapshot, u32, &[&str]) = (
    ALIVE,
    7,
    &["preunlock", "predisconnect", "premount", "prebackup"],
);
const DONE: (Snapshot, u32, &[&str]) = (ALIVE, 7, &["backupsuccess", "precleanup"]);
pub const GONE: (Snapshot, u32, &[&str]) = (NONE, 7, &[]);

#[test]
fn a_backup_is_one_job_with_its_phases_and_its_success() {
    let all = "flush 0, snapshot 10, mount 20, backup 20, cleanup 30";
    check(&[BEFORE, MADE, READ, DONE, GONE], Outcome::Succeeded, all);
    let job = Watcher::watched(&[BEFORE, MADE, READ, DONE, GONE]).only_job();
    let range = job.backup_run.as_ref().unwrap().lock_range().unwrap();
    assert_eq!((range.from, job.started_at), (BEGIN, BEGIN));
    assert_eq!(range.to.as_second() - range.from.as_second(), 20);
}

#[test]
fn a_run_that_cleans_up_without_success_failed() {
    let failed = (ALIVE, 7, &["precleanup"][..]);
    check(
        &[BEFORE, MADE, READ, failed, GONE],
        Outcome::Failed,
        "flush 0, snapshot 10, mount 20, backup 20, cleanup 30",
    );
}

#[test]
fn success_from_a_snapshot_that_died_meanwhile_is_untrustworthy() {
    let died = (DEAD, 7, &[][..]);
    let done = (DEAD, 7, &["backupsuccess", "precleanup"][..]);
    let job = Watcher::watched(&[BEFORE, MADE, READ, died, done, GONE]).only_job();
    assert_eq!(job.outcome, Some(Outcome::Untrustworthy));
    let failed = (DEAD, 7, &["precleanup"][..]);
    let full = (Snapshot::Filled(95.0), 7, &[][..]);
    let job = Watcher::watched(&[BEFORE, MADE, READ, full, died, failed, GONE]).only_job();
    assert_eq!(job.outcome, Some(Outcome::Overflowed));
    let job = Watcher::watched(&[BEFORE, MADE, READ, died, failed, GONE]).only_job();
    assert_eq!(job.outcome, Some(Outcome::Failed), "it was far from full");
}

#[test]
fn a_run_that_is_killed_is_abandoned_when_its_snapshot_goes() {
    check(
        &[BEFORE, MADE, READ, (ALIVE, 7, &[]), GONE],
        Outcome::Abandoned,
        "flush 0, snapshot 10, mount 20, backup 20",
    );
}

#[test]
fn a_daemon_that_is_restarted_in_the_middle_goes_on_with_the_same_job() {
    let story = [
        BEFORE,
        MADE,
        READ,
        (ALIVE, 7, &[][..]),
        (ALIVE, 7, &[]),
        DONE,
        GONE,
    ];
    for first in 2..=5 {
        let job = Watcher::watched_twice(&story, first).only_job();
        assert_eq!(
            (job.id, job.outcome),
            (1, Some(Outcome::Succeeded)),
            "killed after {first}"
        );
        assert!(
            phases(&job).starts_with("flush 0, snapshot 10")
                && phases(&job).ends_with("cleanup 50")
        );
    }
    let ended_meanwhile = Watcher::watched_twice(&story, 6).only_job();
    assert_eq!(ended_meanwhile.outcome, Some(Outcome::Succeeded));
}

#[test]
fn a_daemon_that_did_not_run_when_success_was_told_does_not_know() {
    // Success is reported while cowbell does not listen.
    let unheard = (ALIVE, 8, &[][..]);
    let story = [
        BEFORE,
        MADE,
        READ,
        unheard,
        (ALIVE, 7, &["precleanup"][..]),
        GONE,
    ];
    let job = Watcher::watched_twice(&story, 4).only_job();
    assert_eq!(job.outcome, Some(Outcome::Unknown));
    // It may have ended meanwhile; its snapshot is kept for long after.
    let silent = (ALIVE, 7, &[][..]);
    let job =
        Watcher::watched_twice(&[BEFORE, MADE, READ, silent, silent, silent, GONE], 4).only_job();
    assert_eq!(job.outcome, Some(Outcome::Unknown));
}

#[test]
fn a_run_that_goes_on_is_no_job_and_a_snapshot_without_hooks_has_no_phases() {
    let watcher = Watcher::watched(&[
        BEFORE,
        (NONE, 7, &["presnapshot"][..]),
        (NONE, 7, &["preunlock"]),
    ]);
    assert!(watcher.book.running().is_empty() && watcher.book.ended().is_empty());
    check(&[(ALIVE, 7, &[]), GONE], Outcome::Unknown, "");
    // It was not to make one yet.
    check(&[BEFORE, (ALIVE, 7, &[]), GONE], Outcome::Unknown, "");
}

#[test]
fn words_of_another_run_at_the_same_time_are_not_this_ones() {
    let others = (
        ALIVE,
        8,
        &["preconnect", "presnapshot", "preunlock", "precleanup"][..],
    );
    let watcher = Watcher::watched(&[BEFORE, MADE, READ, others, DONE, GONE]);
    let found: Vec<_> = watcher
        .book
        .ended()
        .iter()
        .map(|job| (job.outcome, phases(job)))
        .collect();
    let failed = (
        Some(Outcome::Failed),
        "flush 30, snapshot 30, cleanup 30".to_string(),
    );
    let good = "flush 0, snapshot 10, mount 20, backup 20, cleanup 40".to_string();
    assert_eq!(found, [failed, (Some(Outcome::Succeeded), good)]);
}

#[test]
fn a_command_that_ran_when_the_machine_went_down_is_closed() {
    let mut job = Watcher::watched(&[BEFORE, MADE, READ]).only_job();
    (job.kind, job.backup_run) = (JobKind::Command, None);
    let seen_at = job.started_at + jiff::SignedDuration::from_secs(20);
    let mut book = JobTracker::resume(vec![job], 1, Some(seen_at));
    assert!(
        book.booted(BEGIN - jiff::SignedDuration::from_secs(60))
            .is_empty(),
        "the machine stayed up"
    );
    let closed = book.booted(seen_at + jiff::SignedDuration::from_secs(60));
    assert_eq!(
        (closed[0].outcome, closed[0].ended_at),
        (Some(Outcome::Abandoned), Some(seen_at))
    );
}

/// A command that began with the first of so many ticks, ten seconds apart.
fn command_begun_at_the_first_of(ticks: usize) -> (Watcher, Mark, Vec<Reading>) {
    let readings = tape(&vec![(NONE, 0, &[][..]); ticks]).readings;
    let (key, name) = ("mark:run-1".to_string(), "nightly".to_string());
    let mark = Mark {
        key,
        kind: MarkKind::Command,
        name,
        label: None,
        started_at: BEGIN,
        end: None,
        process: None,
        is_backup: false,
    };
    let mut watcher = Watcher::default();
    watcher.take(&readings[0]);
    watcher.book.mark(&mark, None, readings[0].at).unwrap();
    (watcher, mark, readings)
}

#[test]
fn a_command_without_marks_is_abandoned_at_its_last_mark() {
    let (mut watcher, mark, readings) = command_begun_at_the_first_of(30);
    readings[1..5]
        .iter()
        .for_each(|reading| watcher.take(reading));
    watcher.book.mark(&mark, None, readings[4].at).unwrap();
    readings[5..16]
        .iter()
        .for_each(|reading| watcher.take(reading));
    assert_eq!(
        watcher.only_job().outcome,
        None,
        "not before two minutes are over"
    );
    readings[16..20]
        .iter()
        .for_each(|reading| watcher.take(reading));
    let job = watcher.only_job();
    assert_eq!(
        (job.outcome, job.ended_at),
        (Some(Outcome::Abandoned), Some(readings[4].at))
    );
    watcher.book.mark(&mark, None, readings[19].at).unwrap();
    assert_eq!(watcher.only_job().outcome, None, "a late mark continues it");
    let at = readings[20].at;
    let end = Some(MarkEnd {
        at,
        succeeded: true,
        status: Some(0),
        failure: None,
    });
    watcher.book.mark(&Mark { end, ..mark }, None, at).unwrap();
    let job = watcher.only_job();
    assert_eq!(
        (job.id, job.outcome, job.ended_at),
        (1, Some(Outcome::Succeeded), Some(at))
    );
}

#[test]
fn a_machine_that_slept_has_not_heard_a_command_being_silent() {
    let (mut watcher, _, mut readings) = command_begun_at_the_first_of(4);
    for reading in &mut readings[2..] {
        reading.uptime_us += 8 * 3600 * 1_000_000;
        reading.at += jiff::SignedDuration::from_hours(8);
    }
    readings[1..]
        .iter()
        .for_each(|reading| watcher.take(reading));
    assert_eq!(watcher.only_job().outcome, None);
}

#[test]
fn a_command_that_died_while_cowbell_did_not_run_is_abandoned_at_its_last_mark() {
    let (mut watcher, _, readings) = command_begun_at_the_first_of(30);
    readings[1..5]
        .iter()
        .for_each(|reading| watcher.take(reading));
    watcher.book = JobTracker::resume(watcher.book.running().to_vec(), 1, Some(readings[4].at));
    readings[10..]
        .iter()
        .for_each(|reading| watcher.take(reading));
    let job = watcher.only_job();
    assert_eq!(
        (job.outcome, job.ended_at),
        (Some(Outcome::Abandoned), Some(readings[4].at))
    );
}

#[test]
fn a_recording_holds_the_hooks_and_shows_what_they_told() {
    let done = (DEAD, 7, &["backupsuccess", "precleanup"][..]);
    let story = [BEFORE, MADE, READ, (DEAD, 7, &[][..]), done, GONE, GONE];
    let daemon = Start::playing(&tape(&story).saved(), "max").start();
    daemon.has_played(story.len());
    let jobs = wait_for("the job's outcome", || {
        let jobs = daemon.json("/api/v1/jobs");
        (!jobs[0]["outcome"].is_null()).then_some(jobs)
    });
    assert_eq!(jobs.as_array().unwrap().len(), 1, "{jobs}");
    let job = &jobs[0];
    assert_eq!(
        (&job["outcome"], &job["reported"]),
        (&json!("untrustworthy"), &json!("succeeded"))
    );
    let names: Vec<_> = job["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["phase"].clone())
        .collect();
    assert_eq!(names, ["flush", "snapshot", "mount", "backup", "cleanup"]);
    assert_eq!(job["locked_at_most"]["from"], json!("2026-03-01T02:00:00Z"));
    let alerts = daemon.json("/api/v1/alerts");
    let untrustworthy = alerts
        .as_array()
        .unwrap()
        .iter()
        .find(|alert| alert["rule"] == "backup_failed");
    let alert = untrustworthy.unwrap_or_else(|| panic!("{alerts}"));
    assert_eq!(
        (&alert["lv"], &alert["cleared_at"]),
        (&json!("data"), &json!(null)),
        "it lasts"
    );
    assert!(
        alert["sentence"]
            .as_str()
            .unwrap()
            .contains("reported success, but its snapshot became invalid")
    );
    let page = daemon.get(&format!("/jobs/{}", job["id"]));
    for part in [
        "Phases",
        "cleanup",
        "global read lock was held for",
        "do not rely on it",
    ] {
        assert!(page.body.contains(part), "{part}");
    }
    let listen = format!("127.0.0.1:{}", daemon.port);
    for form in [&[][..], &["--markdown"]] {
        let id = job["id"].to_string();
        let shown = said(
            cowbell()
                .args(["job", "show", &id, "--listen", &listen])
                .args(form),
        )
        .out;
        for part in [
            "untrustworthy, success was reported",
            "of vg0/data",
            "global read lock",
            "do not rely on it",
        ] {
            assert!(shown.contains(part), "expected {part:?} in {shown}");
        }
    }
}

/// Runs a hook as mylvmbackup does; gives how long it took.
fn hook(name: &str, socket: &Path) -> Duration {
    let began = Instant::now();
    let output = Command::new(format!("{HOOKS}/{name}"))
        .env("COWBELL_HOOKS", socket)
        .output()
        .unwrap();
    let took = began.elapsed();
    assert!(
        output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}"
    );
    took
}

#[test]
fn a_hook_ends_well_and_at_once_whoever_listens() {
    let folder = tempfile::tempdir().unwrap();
    let (absent, full, file) = (
        folder.path().join("absent"),
        folder.path().join("full"),
        folder.path().join("file"),
    );
    let _nobody_reads = UnixDatagram::bind(&full).unwrap();
    std::fs::write(&file, "").unwrap();
    drop(UnixDatagram::bind(folder.path().join("left")).unwrap());
    for socket in [
        &absent,
        &full,
        &file,
        &folder.path().join("left"),
        Path::new(&"x".repeat(4000)),
    ] {
        let times: Vec<_> = (0..15).map(|_| hook("preunlock", socket)).collect();
        // Of several, since other tests want the processors too; a hook that waits would wait each time.
        let least = times.into_iter().min().unwrap();
        assert!(
            least < Duration::from_millis(20),
            "{}: {least:?}",
            socket.display()
        );
    }
}

#[test]
fn the_hook_names_the_snapshot_that_its_run_is_about_to_make() {
    let folder = tempfile::tempdir().unwrap();
    let (path, config) = (
        folder.path().join("hooks"),
        folder.path().join("backup.conf"),
    );
    let socket = UnixDatagram::bind(&path).unwrap();
    std::fs::write(
        &config,
        "[lvm]\nvgname=vg0\n# lvname=other\n lvname = db1 \nlvsize=5G\n",
    )
    .unwrap();
    // A program of that name calls it, as the real one does; the test's own process would be taken else.
    let program = folder.path().join("mylvmbackup");
    std::fs::write(&program, "#!/usr/bin/perl\nsystem $ENV{HOOK};\n").unwrap();
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    let config = config.to_str().unwrap();
    for (step, arguments, expected) in [
        (
            "presnapshot",
            &["--configfile", config][..],
            " vg0/db1_snapshot origin=vg0/db1",
        ),
        (
            "presnapshot",
            &[&format!("--configfile={config}"), "--lvname=db2"],
            " vg0/db2_snapshot origin=vg0/db2",
        ),
        (
            "presnapshot",
            &["--configfile", config, "--backuplv=night"],
            " vg0/night origin=vg0/db1",
        ),
        (
            "presnapshot",
            &["--configfile", config, "--backuplv=night%H"],
            " origin=vg0/db1",
        ),
        (
            "preconnect",
            &["--configfile", config, "--backuptype=rsnap"],
            " vg0/db1_snapshot origin=vg0/db1 type=rsnap",
        ),
        (
            "preconnect",
            &["--configfile", config],
            " vg0/db1_snapshot origin=vg0/db1",
        ),
        ("premount", &["--configfile", config], ""),
    ] {
        let mut run = Command::new(&program)
            .args(arguments)
            .env("COWBELL_HOOKS", &path)
            .env("HOOK", format!("{HOOKS}/{step}"))
            .spawn()
            .unwrap();
        assert!(run.wait().unwrap().success());
        let mut buffer = [0; 200];
        let length = socket.recv(&mut buffer).unwrap();
        let said = String::from_utf8_lossy(&buffer[..length]);
        assert_eq!(
            said,
            format!("mylvmbackup {} {step}{expected}", run.id()),
            "{arguments:?}"
        );
    }
}

fn notes(daemon: &Daemon) -> String {
    daemon.json("/api/v1/status")["notes"].to_string()
}

#[test]
fn hooks_reach_the_daemon_and_nonsense_is_counted() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    for name in [
        "preconnect",
        "preflush",
        "presnapshot",
        "preunlock",
        "predisconnect",
        "premount",
        "prebackup",
    ] {
        hook(name, &daemon.hooks());
    }
    let socket = UnixDatagram::unbound().unwrap();
    let long = "x".repeat(1025);
    wait_for("room", || socket.send_to(b"hello", daemon.hooks()).ok());
    wait_for("one", || {
        notes(&daemon)
            .contains("1 message from hooks was invalid; ")
            .then_some(())
    });
    for nonsense in [
        "",
        "mylvmbackup 1 explode",
        "mylvmbackup -7 premount",
        "\0\n<script>",
        &long,
    ] {
        // The kernel takes ten at once.
        wait_for("room", || {
            socket.send_to(nonsense.as_bytes(), daemon.hooks()).ok()
        });
    }
    wait_for("the count", || {
        notes(&daemon)
            .contains("5 messages from hooks were invalid")
            .then_some(())
    });
    assert!(!notes(&daemon).contains("preunlock"), "{}", notes(&daemon));
    assert_eq!(
        daemon.json("/api/v1/jobs"),
        json!([]),
        "no snapshot, no job"
    );
    let path = daemon.hooks();
    daemon.stop(rustix::process::Signal::TERM);
    let complaints = || daemon.log().matches("a hook's message was ignored").count();
    wait_for("the log to be read", || (complaints() > 0).then_some(()));
    assert_eq!(complaints(), 1, "{}", daemon.log());
    assert!(!path.exists(), "the socket goes with the daemon");
}

#[test]
fn two_daemons_do_not_take_hooks_from_each_other() {
    let machine = Machine::new();
    let first = Start::watching(&machine).start();
    let config = format!("[hooks]\nsocket = {:?}\n", first.hooks().to_str().unwrap());
    let second = Start::watching(&machine).config(&config).start();
    assert!(
        notes(&second).contains("another program listens there"),
        "{}",
        notes(&second)
    );
    hook("preconnect", &first.hooks());
    assert!(first.hooks().exists());
}
