//! What a backup is worth: its report beside its process, its reads, the kernel's log, and the command that it runs under.

use cowbell::alert::{Rules, Severity};
use cowbell::commands::{Mark, MarkEnd, MarkKind};
use cowbell::config::Alerts;
use cowbell::job::{Job, JobKind, JobTracker, Outcome};
use cowbell::sample::hooks;
use cowbell::source::{Part, PartReading, ReadResult};
use jiff::Timestamp;

use crate::machine::Done;
use crate::observer::Observer;
use crate::tape::{BEGIN, SNAPSHOT_UUID, Snapshot, Tape};

/// Sectors of the origin.
const WHOLE: u64 = 614_400;
const NONE: Snapshot = Snapshot::Absent;
const ALIVE: Snapshot = Snapshot::Filled(10.0);
const DEAD: Snapshot = Snapshot::Invalid;

/// A night, one tick a second.
struct Night {
    tape: Tape,
    observer: Observer,
    jobs: JobTracker,
    rules: Rules,
    /// Sectors that were read of the snapshot.
    read: u64,
    /// When the command began.
    began_at: Timestamp,
}

impl Night {
    fn new() -> Self {
        let mut night = Self {
            tape: Tape::new(std::time::Duration::from_secs(1)),
            observer: Observer::default(),
            jobs: JobTracker::default(),
            rules: Rules::resume(Alerts::default(), Vec::new(), 0),
            read: 0,
            began_at: BEGIN,
        };
        night.tick(NONE, &[]);
        night
    }

    /// A tick, after these words of the run 7, or `RUN WORD`, and with these texts.
    fn seen(&mut self, snapshot: Snapshot, words: &[&str], texts: &[(Part, &str)]) {
        let reading = self
            .tape
            .tick(snapshot, Done::default(), Done::sectors(self.read, 0));
        for (part, text) in texts {
            let result = ReadResult::Text((*text).into());
            reading.texts.push(PartReading {
                part: *part,
                result,
                took_us: 0,
            });
        }
        let at = reading.at;
        for word in words {
            let word = if word.starts_with(|first: char| first.is_ascii_digit()) {
                format!("mylvmbackup {word}")
            } else {
                format!("mylvmbackup 7 {word}")
            };
            let changed = self.jobs.take_hook(&hooks::parse(&word).unwrap(), at);
            changed
                .into_iter()
                .for_each(|job| _ = self.rules.judge_job(&job, at));
        }
        let interval = self.observer.observe(reading);
        for job in self.jobs.advance(&interval) {
            self.rules.judge_job(&job, at);
        }
    }

    fn tick(&mut self, snapshot: Snapshot, words: &[&str]) {
        self.seen(snapshot, words, &[]);
    }

    /// The run 7 up to its reading, in a process that is observed.
    fn begins(&mut self) {
        self.seen(
            NONE,
            &["preconnect", "preflush"],
            &[(Part::Backups, "7\t4000\t6 1\n")],
        );
        self.tick(ALIVE, &["presnapshot", "preunlock", "predisconnect"]);
        self.tick(ALIVE, &["premount", "prebackup"]);
    }

    /// Reads so many percent of the origin.
    fn reads(&mut self, percent: u64) {
        self.read += WHOLE * percent / 100;
        self.tick(ALIVE, &[]);
    }

    fn ends_well(&mut self) {
        self.tick(ALIVE, &["backupsuccess", "precleanup"]);
        self.tick(NONE, &[]);
        self.process_ends(NONE);
    }

    /// cowbell restarts.
    fn restarts(&mut self) {
        let running = self.jobs.running().iter().cloned();
        let all = self
            .jobs
            .ended()
            .iter()
            .map(|job| (**job).clone())
            .chain(running);
        self.jobs = JobTracker::resume(all.collect(), 9, Some(self.now()));
    }

    fn process_ends(&mut self, snapshot: Snapshot) {
        self.seen(snapshot, &[], &[(Part::Backups, "7\tended\n")]);
    }

    fn now(&self) -> Timestamp {
        self.tape.readings.last().unwrap().at
    }

    fn jobs(&self, kind: JobKind) -> Vec<&Job> {
        let all = self
            .jobs
            .ended()
            .iter()
            .map(|job| &**job)
            .chain(self.jobs.running());
        all.filter(|job| job.kind == kind).collect()
    }

    fn outcome(&self) -> Option<Outcome> {
        let jobs = self.jobs(JobKind::Snapshot);
        assert_eq!(jobs.len(), 1, "one job: {jobs:#?}");
        jobs[0].outcome
    }

    /// Open alerts of backups: `critical data`.
    fn rings(&self) -> String {
        let open = self
            .rules
            .open()
            .iter()
            .filter(|alert| alert.rule == cowbell::alert::Rule::BackupFailed);
        let open = open.map(|alert| format!("{} {}", alert.severity.text(), alert.lv));
        open.collect::<Vec<_>>().join(", ")
    }

    fn sentence(&self) -> String {
        let last = self.rules.open().last();
        last.map_or_else(String::new, |alert| alert.sentence().to_string())
    }

    fn command(&mut self, key: &str, process: Option<u32>, end: Option<bool>) {
        let end = end.map(|succeeded| MarkEnd {
            at: self.now(),
            succeeded,
            status: Some(if succeeded { 0 } else { 3 }),
            failure: None,
        });
        let mark = Mark {
            key: key.into(),
            kind: MarkKind::Command,
            name: "nightly".into(),
            label: None,
            started_at: self.began_at,
            end,
            process,
            is_backup: false,
        };
        let change = self.jobs.mark(&mark, None, self.now()).unwrap();
        self.rules.judge_job(&change.job, self.now());
    }
}

#[test]
fn a_backup_that_read_everything_succeeded() {
    let mut night = Night::new();
    night.begins();
    night.reads(95);
    night.ends_well();
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Succeeded), "")
    );
}

#[test]
fn a_first_backup_that_read_little_is_unclear_until_a_person_accepts_it() {
    let mut night = Night::new();
    night.begins();
    night.reads(40);
    night.ends_well();
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Unknown), "warning data")
    );
    assert!(
        night.sentence().contains("`cowbell job accept 1`"),
        "{}",
        night.sentence()
    );
    let change = night.jobs.accept(SNAPSHOT_UUID, None, night.now()).unwrap();
    night.rules.judge_job(&change.job, night.now());
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Succeeded), "")
    );
}

#[test]
fn a_process_that_ends_without_a_report_abandons_its_backup_at_once() {
    let mut night = Night::new();
    night.begins();
    night.reads(20);
    night.process_ends(ALIVE);
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Abandoned), "critical data")
    );
    assert!(
        night
            .sentence()
            .contains("It left its snapshot vg0/data_snapshot"),
        "{}",
        night.sentence()
    );
    night.tick(ALIVE, &[]);
    night.tick(NONE, &[]);
    assert_eq!(
        night.jobs(JobKind::Snapshot).len(),
        1,
        "the snapshot that it left is no other job"
    );
}

#[test]
fn a_backup_that_is_killed_after_a_restart_is_abandoned() {
    let mut night = Night::new();
    night.begins();
    night.reads(20);
    night.restarts();
    night.seen(ALIVE, &[], &[(Part::Backups, "7\t4000\t6 1\n")]);
    night.process_ends(ALIVE);
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Abandoned), "critical data")
    );
}

#[test]
fn a_backup_that_ended_while_cowbell_did_not_run_may_be_bad() {
    for snapshot in [ALIVE, NONE] {
        let mut night = Night::new();
        night.begins();
        night.reads(20);
        night.restarts();
        night.process_ends(snapshot);
        assert_eq!(
            (night.outcome(), &*night.rings()),
            (Some(Outcome::Unknown), "warning data")
        );
        assert!(
            night.sentence().contains("did not receive its report"),
            "{}",
            night.sentence()
        );
    }
}

#[test]
fn a_backup_that_ran_when_the_machine_went_down_is_abandoned() {
    let mut night = Night::new();
    night.begins();
    night.reads(20);
    night.restarts();
    let now = night.now();
    for job in night.jobs.booted(now + jiff::SignedDuration::from_secs(60)) {
        night.rules.judge_job(&job, now);
    }
    night.tick(ALIVE, &[]);
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Abandoned), "critical data")
    );
}

#[test]
fn a_pid_that_was_reused_is_another_process() {
    let mut night = Night::new();
    night.begins();
    night.seen(ALIVE, &[], &[(Part::Backups, "7\t9000\t6 1\n")]);
    assert_eq!(night.outcome(), Some(Outcome::Abandoned));
}

#[test]
fn a_snapshot_that_is_kept_is_no_running_backup() {
    let mut night = Night::new();
    night.begins();
    night.reads(100);
    night.tick(ALIVE, &["backupsuccess", "precleanup"]);
    assert_eq!(night.outcome(), None, "it cleans up");
    night.process_ends(ALIVE);
    night.tick(DEAD, &[]);
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Succeeded), "")
    );
    assert!(night.jobs(JobKind::Snapshot)[0].left_snapshot);
}

#[test]
fn a_snapshot_that_dies_after_the_report_does_no_harm_and_before_it_does() {
    let mut night = Night::new();
    night.begins();
    night.reads(100);
    night.tick(ALIVE, &["backupsuccess"]);
    night.tick(DEAD, &["precleanup"]);
    night.tick(NONE, &[]);
    assert_eq!(night.outcome(), Some(Outcome::Succeeded));
    let mut night = Night::new();
    night.begins();
    night.reads(100);
    night.tick(DEAD, &["backupsuccess"]);
    night.tick(NONE, &["precleanup"]);
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Untrustworthy), "critical data")
    );
}

#[test]
fn a_snapshot_that_is_removed_while_it_is_read_is_said_so() {
    for (word, expected) in [
        ("backupsuccess", Outcome::Untrustworthy),
        ("backupfailure", Outcome::Failed),
    ] {
        let mut night = Night::new();
        night.begins();
        night.reads(50);
        night.tick(NONE, &[]);
        assert_eq!(night.outcome(), None, "its process still runs");
        night.tick(NONE, &[word, "precleanup"]);
        assert_eq!(night.outcome(), Some(expected));
        assert!(
            night.sentence().contains("another process"),
            "{}",
            night.sentence()
        );
    }
}

#[test]
fn a_read_error_of_its_snapshot_makes_it_untrustworthy_and_one_of_a_disk_below_unclear() {
    for (message, expected) in [
        (
            "I/O error, dev sda, sector 8 op 0x0:(READ) flags 0x0\n",
            Outcome::Unknown,
        ),
        (
            "Buffer I/O error on dev dm-3, logical block 0, async page read\n",
            Outcome::Untrustworthy,
        ),
        (
            "Buffer I/O error on dev dm-2, logical block 0, async page read\n",
            Outcome::Untrustworthy,
        ),
        (
            "EXT4-fs error (device dm-3): ext4_find_entry: reading directory\n",
            Outcome::Untrustworthy,
        ),
        (
            "I/O error, dev sdz, sector 8 op 0x0:(READ) flags 0x0\n",
            Outcome::Succeeded,
        ),
        (
            "I/O error, dev sda, sector 8 op 0x1:(WRITE) flags 0x0\n",
            Outcome::Succeeded,
        ),
    ] {
        let mut night = Night::new();
        night.begins();
        night.reads(100);
        night.seen(ALIVE, &[], &[(Part::KernelLog, message)]);
        night.ends_well();
        assert_eq!(night.outcome(), Some(expected), "{message}");
        let is_of_disk = expected == Outcome::Unknown;
        assert_eq!(
            night
                .sentence()
                .contains("sda, a disk below its snapshot, had a read error"),
            is_of_disk
        );
    }
}

#[test]
fn a_run_that_ends_before_it_makes_a_snapshot_failed() {
    let mut night = Night::new();
    night.seen(NONE, &["preconnect"], &[(Part::Backups, "7\t4000\t6 1\n")]);
    night.process_ends(NONE);
    for _ in 0..5 {
        night.tick(NONE, &[]);
    }
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Failed), "critical mylvmbackup")
    );
    // A process that was gone when it was first looked for has failed too, but later: it may run in a container.
    let mut night = Night::new();
    night.seen(NONE, &["preconnect"], &[(Part::Backups, "7\tended\n")]);
    for second in 0..60 {
        night.tick(NONE, &[]);
        assert!(second > 40 || night.jobs(JobKind::Snapshot).is_empty());
    }
    assert_eq!(night.outcome(), Some(Outcome::Failed));
}

#[test]
fn a_run_without_room_for_its_snapshot_rings() {
    let mut night = Night::new();
    let words = [
        "preconnect",
        "presnapshot vg0/data_snapshot",
        "preunlock",
        "predisconnect",
        "precleanup",
    ];
    night.tick(NONE, &words);
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Failed), "critical data")
    );
    assert!(
        night.sentence().contains("no snapshot was made"),
        "{}",
        night.sentence()
    );
}

#[test]
fn a_run_whose_snapshot_was_never_seen_is_not_confirmed() {
    for (report, expected, rings) in [
        ("backupsuccess", Outcome::Unknown, "warning data"),
        ("backupfailure", Outcome::Failed, "critical data"),
    ] {
        let mut night = Night::new();
        night.tick(
            NONE,
            &[
                "preconnect vg0/x origin=vg0/data",
                "presnapshot",
                "premount",
                "prebackup",
            ],
        );
        night.tick(NONE, &[report, "precleanup"]);
        (0..65).for_each(|_| night.tick(NONE, &[]));
        assert_eq!((night.outcome(), &*night.rings()), (Some(expected), rings));
        assert!(
            !night.sentence().contains("no snapshot was made"),
            "{}",
            night.sentence()
        );
    }
}

#[test]
fn a_command_above_the_backup_is_no_better_than_it_and_one_beside_it_is_untouched() {
    for (process, expected) in [
        (Some(6), Outcome::Untrustworthy),
        (Some(60), Outcome::Succeeded),
        (None, Outcome::Succeeded),
    ] {
        let mut night = Night::new();
        night.command("run-1", process, None);
        night.begins();
        night.reads(100);
        night.tick(DEAD, &["backupsuccess", "precleanup"]);
        night.tick(NONE, &[]);
        night.command("run-1", process, Some(true));
        night.tick(NONE, &[]);
        let command = night.jobs(JobKind::Command)[0];
        assert_eq!(command.outcome, Some(expected), "{process:?}");
        assert_eq!(command.lv.is_some(), expected == Outcome::Untrustworthy);
        assert_eq!(
            (night.outcome(), &*night.rings()),
            (Some(Outcome::Untrustworthy), "critical data")
        );
    }
}

#[test]
fn the_exit_of_a_command_is_the_report_of_a_snapshot_that_it_created() {
    let chain = "5 (cron) S 1\n6 (cowbell) S 5\n8 (backup.sh) S 6\n9 (lvcreate) S 8\n";
    for (percent, succeeded, expected, rings) in [
        (100, true, Outcome::Succeeded, ""),
        (10, true, Outcome::Unknown, "warning data"),
        (100, false, Outcome::Failed, "critical data"),
    ] {
        let mut night = Night::new();
        night.command("run-1", Some(6), None);
        night.seen(ALIVE, &[], &[(Part::Processes, chain)]);
        night.reads(percent);
        night.tick(NONE, &[]);
        assert_eq!(
            night.outcome(),
            Some(Outcome::Unknown),
            "the command still runs"
        );
        night.command("run-1", Some(6), Some(succeeded));
        night.tick(NONE, &[]);
        assert_eq!(
            (night.outcome(), &*night.rings()),
            (Some(expected), rings),
            "{percent} %"
        );
    }
}

#[test]
fn a_command_that_made_snapshots_before_rings_when_it_fails_without_one() {
    let chain = "6 (cowbell) S 5\n8 (backup.sh) S 6\n9 (lvcreate) S 8\n";
    let mut night = Night::new();
    night.command("run-1", Some(6), None);
    night.seen(ALIVE, &[], &[(Part::Processes, chain)]);
    night.reads(100);
    night.tick(NONE, &[]);
    night.command("run-1", Some(6), Some(true));
    night.tick(NONE, &[]);
    assert_eq!(night.rings(), "");
    night.command("run-2", Some(60), Some(false));
    assert_eq!(night.rings(), "critical data");
    assert!(night.sentence().contains("failed at") && night.sentence().contains("with status 3"));
    assert_eq!(night.rules.open()[0].severity, Severity::Critical);
}

#[test]
fn a_snapshot_that_a_person_created_is_no_backup() {
    let chain = "4 (sshd) S 1\n5 (bash) S 4\n9 (lvcreate) S 5\n";
    let mut night = Night::new();
    night.seen(ALIVE, &[], &[(Part::Processes, chain)]);
    night.reads(10);
    assert!(!night.jobs(JobKind::Snapshot)[0].is_backup());
    night.tick(Snapshot::Filled(95.0), &[]);
    night.tick(DEAD, &[]);
    night.tick(NONE, &[]);
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Overflowed), "")
    );
}

#[test]
fn a_process_that_failed_before_the_backup_read_anything_does_no_harm() {
    let mut night = Night::new();
    night.begins();
    let began = night.jobs(JobKind::Snapshot)[0]
        .backup_run
        .as_ref()
        .unwrap()
        .last_at;
    let line = format!("7\t{}\tdescendant\t512\t0\ttar\n", began.as_millisecond());
    night.seen(ALIVE, &[], &[(Part::Exits, &line)]);
    night.reads(96);
    night.ends_well();
    assert_eq!(night.outcome(), Some(Outcome::Succeeded));
}

#[test]
fn a_second_message_of_a_runs_beginning_begins_no_other_run() {
    let mut night = Night::new();
    night.begins();
    night.reads(50);
    night.tick(ALIVE, &["preconnect"]);
    night.reads(46);
    night.ends_well();
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Succeeded), "")
    );
}

#[test]
fn a_snapshot_belongs_to_the_run_that_named_it() {
    for report in ["backupsuccess", "backupfailure"] {
        let mut night = Night::new();
        let processes = [(Part::Backups, "7\t4000\t6 1\n8\t4001\t6 1\n")];
        night.seen(
            NONE,
            &["8 preconnect vg0/other", "preconnect vg0/data_snapshot"],
            &processes,
        );
        night.tick(
            NONE,
            &["8 presnapshot vg0/other", "8 premount", "8 prebackup"],
        );
        night.tick(
            ALIVE,
            &["presnapshot vg0/data_snapshot", "premount", "prebackup"],
        );
        night.reads(100);
        night.tick(
            ALIVE,
            &["8 backupsuccess", "8 precleanup", report, "precleanup"],
        );
        night.tick(NONE, &[]);
        let job = night.jobs(JobKind::Snapshot)[0];
        assert_eq!(job.backup_run.as_ref().map(|run| run.run), Some(7));
        let is_good = report == "backupsuccess";
        assert_eq!(
            job.outcome,
            Some(if is_good {
                Outcome::Succeeded
            } else {
                Outcome::Failed
            })
        );
    }
}

#[test]
fn a_snapshot_that_a_person_creates_during_a_run_is_not_its_own() {
    let chain = "4 (sshd) S 1\n5 (bash) S 4\n9 (lvcreate) S 5\n";
    let mut night = Night::new();
    night.seen(
        NONE,
        &["preconnect", "presnapshot"],
        &[(Part::Backups, "7\t4000\t6 1\n")],
    );
    night.seen(ALIVE, &[], &[(Part::Processes, chain)]);
    night.tick(ALIVE, &["premount", "prebackup"]);
    assert!(night.jobs(JobKind::Snapshot)[0].backup_run.is_none());
}

#[test]
fn the_backup_of_another_volume_clears_no_alert() {
    let mut night = Night::new();
    night.seen(
        NONE,
        &["50 preconnect"],
        &[(Part::Backups, "50\t4000\t6 1\n")],
    );
    night.seen(NONE, &[], &[(Part::Backups, "50\tended\n")]);
    (0..5).for_each(|_| night.tick(NONE, &[]));
    night.begins();
    night.reads(100);
    night.ends_well();
    assert_eq!(night.rings(), "critical mylvmbackup");
}

#[test]
fn a_good_backup_clears_the_alert_of_a_run_that_made_no_snapshot() {
    for (names, rings) in [
        ("vg0/data_snapshot origin=vg0/data", "critical data"),
        ("origin=vg0/data", "critical data"),
        ("vg0/data_snapshot", "critical data"),
        ("vg0/nightly origin=vg0/data", "critical data"),
        ("vg0/nightly", "critical nightly"),
    ] {
        let mut night = Night::new();
        let word = format!("50 preconnect {names}");
        night.seen(NONE, &[&word], &[(Part::Backups, "50\t4000\t6 1\n")]);
        night.seen(NONE, &[], &[(Part::Backups, "50\tended\n")]);
        (0..5).for_each(|_| night.tick(NONE, &[]));
        assert_eq!(night.rings(), rings, "{names}");
        if names == "vg0/nightly" {
            continue;
        }
        night.begins();
        night.reads(100);
        night.ends_well();
        assert_eq!(night.rings(), "", "{names}");
    }
}

#[test]
fn a_backup_that_copies_only_changes_is_not_judged_by_what_it_read() {
    let mut night = Night::new();
    night.tick(
        NONE,
        &["preconnect vg0/data_snapshot origin=vg0/data type=rsnap"],
    );
    night.tick(
        ALIVE,
        &[
            "presnapshot",
            "preunlock",
            "predisconnect",
            "premount",
            "prebackup",
        ],
    );
    night.reads(3);
    night.ends_well();
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Succeeded), "")
    );
}

#[test]
fn an_incomplete_backup_says_how_to_accept_it() {
    let mut night = Night::new();
    night.begins();
    let mount = "24 23 253:3 / /mnt/backup rw - ext4 /dev/mapper/x rw\n";
    let usage = format!("253:3\t/mnt/backup\t{WHOLE}\t0\t512\n");
    night.seen(ALIVE, &[], &[(Part::Mounts, mount), (Part::Usage, &usage)]);
    night.reads(3);
    night.ends_well();
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Incomplete), "critical data")
    );
    assert!(
        night.sentence().contains("`cowbell job accept 1`"),
        "{}",
        night.sentence()
    );
}

#[test]
fn a_reader_that_is_killed_makes_its_backup_incomplete_or_untrustworthy() {
    for (exit, percent, expected) in [
        ("descendant\t9\t0\ttar", 50, Outcome::Incomplete),
        ("descendant\t9\t0\ttar", 96, Outcome::Untrustworthy),
        ("descendant\t512\t0\ttar", 96, Outcome::Untrustworthy),
        ("descendant\t256\t0\ttar", 96, Outcome::Untrustworthy),
        ("descendant\t256\t0\tgzip", 96, Outcome::Untrustworthy),
        ("descendant\t256\t0\tgrep", 96, Outcome::Succeeded),
        ("descendant\t768\t0\tsystemctl", 96, Outcome::Succeeded),
        ("descendant\t9\t0\tcurl", 96, Outcome::Succeeded),
        ("descendant\t13\t0\ttar", 96, Outcome::Succeeded),
        ("child\t512\t0\tprebackup", 96, Outcome::Succeeded),
    ] {
        let mut night = Night::new();
        night.begins();
        night.reads(percent);
        let line = format!("7\t{}\t{exit}\n", night.now().as_millisecond());
        night.seen(ALIVE, &[], &[(Part::Exits, &line)]);
        night.ends_well();
        assert_eq!(night.outcome(), Some(expected), "{exit}, {percent} %");
        assert_eq!(night.rings().is_empty(), expected == Outcome::Succeeded);
    }
}

/// A script with PID 8 below cron makes the snapshot.
const CRON: &str = "1 (systemd) S 0 1\n4 (cron) S 1 4\n8 (nightly.sh) S 4 8\n9 (lvcreate) D 8 8\n";

#[test]
fn a_script_without_hooks_is_judged_by_how_its_processes_exit() {
    let good = (Outcome::Succeeded, "");
    let bad = |outcome| (outcome, "critical data");
    for (exits, percent, (expected, rings)) in [
        (&["self\t0\t0\tnightly.sh"][..], 96, good),
        (&["self\t256\t0\tnightly.sh"], 96, bad(Outcome::Failed)),
        (&["self\t9\t0\tnightly.sh"], 96, bad(Outcome::Failed)),
        (
            &["child\t9\t9000000\ttar", "self\t0\t0\tnightly.sh"],
            96,
            bad(Outcome::Untrustworthy),
        ),
        (
            &["child\t256\t9000000\tcat", "self\t0\t0\tnightly.sh"],
            50,
            bad(Outcome::Incomplete),
        ),
        (
            &["child\t9\t9000\tsleep", "self\t0\t0\tnightly.sh"],
            96,
            good,
        ),
        (
            &["child\t0\t9000000\trestic", "self\t0\t0\tnightly.sh"],
            9,
            good,
        ),
        (&["child\t9\t9000000\ttar"], 96, bad(Outcome::Failed)),
    ] {
        let mut night = Night::new();
        night.seen(ALIVE, &[], &[(Part::Processes, CRON)]);
        night.reads(percent);
        for exit in exits {
            let line = format!("8\t{}\t{exit}\n", night.now().as_millisecond());
            let is_script = exit.starts_with("self");
            night.seen(
                if is_script { NONE } else { ALIVE },
                &[],
                &[(Part::Exits, &line)],
            );
        }
        night.tick(NONE, &[]);
        assert_eq!(night.outcome(), Some(expected), "{exits:?}");
        assert_eq!(night.rings(), rings, "{exits:?}");
    }
}

#[test]
fn a_backup_of_changes_whose_snapshot_was_never_mounted_is_not_good() {
    let mount = "24 23 253:3 / /mnt/backup rw - ext4 /dev/mapper/x rw\n";
    let good = (Outcome::Succeeded, "");
    for (mount_status, mounts, percent, expected) in [
        (0, mount, 1, good),
        (8192, "", 1, (Outcome::Incomplete, "critical data")),
        (8192, "", 0, (Outcome::Incomplete, "critical data")),
        // It was mounted in another way, or its device was read.
        (8192, mount, 1, good),
        (8192, "", 9, good),
        // It may have been mounted where that is not seen.
        (0, "", 1, good),
        (0, "", 0, (Outcome::Unknown, "warning data")),
    ] {
        let mut night = Night::new();
        night.seen(ALIVE, &[], &[(Part::Processes, CRON)]);
        night.seen(ALIVE, &[], &[(Part::Mounts, mounts)]);
        night.reads(percent);
        for exit in [
            &*format!("child\t{mount_status}\t0\tmount"),
            "child\t0\t9000000\trsync",
            "self\t0\t0\tnightly.sh",
        ] {
            let is_script = exit.starts_with("self");
            let snapshot = if is_script { NONE } else { ALIVE };
            night.tick(snapshot, &[]);
            let line = format!("8\t{}\t{exit}\n", night.now().as_millisecond());
            night.seen(snapshot, &[], &[(Part::Exits, &line)]);
        }
        let case = (mount_status, mounts, percent);
        let found = (night.outcome(), &*night.rings());
        assert_eq!(found, (Some(expected.0), expected.1), "{case:?}");
        let names_it = night.sentence().contains("mount ended with status 32");
        assert_eq!(names_it, expected.0 == Outcome::Incomplete, "{case:?}");
    }
}

#[test]
fn a_service_that_makes_backups_and_goes_on_is_judged_by_its_earlier_nights() {
    let mut night = Night::new();
    for (percent, expected, rings) in [
        (96, Outcome::Unknown, ""),
        (96, Outcome::Unknown, ""),
        (96, Outcome::Unknown, ""),
        (50, Outcome::Incomplete, "critical data"),
        (50, Outcome::Incomplete, "critical data, critical data"),
        (96, Outcome::Unknown, ""),
        (96, Outcome::Unknown, ""),
        (50, Outcome::Incomplete, "critical data"),
    ] {
        night.read = 0;
        night.seen(ALIVE, &[], &[(Part::Processes, CRON)]);
        night.reads(percent);
        night.tick(NONE, &[]);
        let mut jobs: Vec<Job> = night
            .jobs
            .ended()
            .iter()
            .map(|job| (**job).clone())
            .collect();
        let last = jobs.last_mut().unwrap();
        assert_eq!((last.outcome, &*night.rings()), (Some(expected), rings));
        // The next one has a UUID of its own.
        last.key = format!("night {}", last.id);
        let id = last.id;
        night.jobs = JobTracker::resume(jobs, id, Some(night.now()));
        night.tick(NONE, &[]);
    }
    let last = (*night.jobs(JobKind::Snapshot).last().unwrap()).clone();
    let accept = format!("accept it once with `cowbell job accept {}`", last.id);
    assert!(night.sentence().contains(&accept), "{}", night.sentence());
    let change = night.jobs.accept(&last.key, None, night.now()).unwrap();
    night.rules.judge_job(&change.job, night.now());
    assert_eq!(night.rings(), "");
}

#[test]
fn a_dead_script_ends_its_backup_although_its_snapshot_is_left() {
    let mut night = Night::new();
    night.seen(ALIVE, &[], &[(Part::Processes, CRON)]);
    night.reads(50);
    let line = format!(
        "8\t{}\tself\t9\t0\tnightly.sh\n",
        night.now().as_millisecond()
    );
    night.seen(ALIVE, &[], &[(Part::Exits, &line)]);
    night.tick(ALIVE, &[]);
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Failed), "critical data")
    );
    assert!(
        night
            .sentence()
            .contains("its script was killed by signal 9"),
        "{}",
        night.sentence()
    );
}

#[test]
fn a_script_that_fails_before_anything_is_read_has_failed_although_the_one_above_it_runs() {
    let mut night = Night::new();
    let outer = CRON.replace(
        "9 (lvcreate) D 8 8",
        "10 (mount.sh) S 8 8\n9 (lvcreate) D 10 8",
    );
    night.seen(ALIVE, &[], &[(Part::Processes, &outer)]);
    let line = format!(
        "10\t{}\tself\t8192\t0\tmount.sh\n",
        night.now().as_millisecond()
    );
    night.seen(ALIVE, &[], &[(Part::Exits, &line)]);
    for _ in 0..28 {
        night.tick(ALIVE, &[]);
        assert_eq!(night.outcome(), None);
    }
    night.tick(ALIVE, &[]);
    night.tick(ALIVE, &[]);
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Failed), "critical data")
    );
}

#[test]
fn a_backup_that_pauses_for_long_is_stalled_until_it_reads_again() {
    let mut night = Night::new();
    night.seen(ALIVE, &[], &[(Part::Processes, CRON)]);
    night.reads(50);
    let is_stalled = |night: &Night| night.jobs(JobKind::Snapshot)[0].stalled_since.is_some();
    for _ in 0..59 {
        night.tick(ALIVE, &[]);
    }
    assert!(!is_stalled(&night));
    night.tick(ALIVE, &[]);
    assert!(is_stalled(&night));
    night.reads(1);
    assert!(!is_stalled(&night));
}

#[test]
fn a_backup_whose_reader_ended_well_is_not_stalled_while_its_script_does_something_else() {
    let mut night = Night::new();
    night.seen(ALIVE, &[], &[(Part::Processes, CRON)]);
    night.reads(50);
    let at = night.now().as_millisecond();
    let exit = format!("8\t{at}\tchild\t0\t9000000\ttar\n");
    night.seen(ALIVE, &[], &[(Part::Exits, &exit)]);
    for _ in 0..200 {
        night.tick(ALIVE, &[]);
    }
    assert_eq!(night.jobs(JobKind::Snapshot)[0].stalled_since, None);
}

/// A command that ends with status 0, with or without a snapshot that is read through.
fn run_command(night: &mut Night, key: &str, makes: bool) -> Job {
    night.began_at = night.now();
    night.command(key, Some(4), None);
    if makes {
        night.seen(ALIVE, &[], &[(Part::Processes, CRON)]);
        night.reads(96);
        let at = night.now().as_millisecond();
        let line = format!("8\t{at}\tself\t0\t0\tnightly.sh\n");
        night.seen(NONE, &[], &[(Part::Exits, &line)]);
    }
    night.command(key, Some(4), Some(true));
    night.tick(NONE, &[]);
    let commands = night.jobs(JobKind::Command);
    (*commands.last().unwrap()).clone()
}

#[test]
fn a_command_that_no_longer_makes_snapshots_is_accepted_once() {
    let mut night = Night::new();
    for (key, makes, expected) in [
        ("one", true, Outcome::Succeeded),
        ("two", false, Outcome::Failed),
        ("three", false, Outcome::Succeeded),
    ] {
        let last = run_command(&mut night, key, makes);
        assert_eq!(last.outcome, Some(expected), "{key}");
        if last.can_be_accepted() {
            let accept = format!("accept it once with `cowbell job accept {}`", last.id);
            assert!(night.sentence().contains(&accept), "{}", night.sentence());
            let change = night.jobs.accept(&last.key, None, night.now()).unwrap();
            assert_eq!(change.job.outcome, Some(Outcome::Succeeded));
        }
    }
}

#[test]
fn a_backup_that_hides_how_a_program_of_it_failed_has_failed() {
    for (is_backup, failure, expected) in [
        (true, Some("mysqldump ended with status 2"), Outcome::Failed),
        (true, None, Outcome::Succeeded),
        (false, Some("cp ended with status 1"), Outcome::Succeeded),
    ] {
        let mut night = Night::new();
        let mut mark = Mark {
            key: "run:one".into(),
            kind: MarkKind::Command,
            name: "nightly".into(),
            label: None,
            started_at: night.now(),
            end: None,
            process: Some(4),
            is_backup: false,
        };
        night.jobs.mark(&mark, None, night.now()).unwrap();
        night.tick(NONE, &[]);
        mark.is_backup = is_backup;
        mark.end = Some(MarkEnd {
            at: night.now(),
            succeeded: true,
            status: Some(0),
            failure: failure.map(Into::into),
        });
        let change = night.jobs.mark(&mark, None, night.now()).unwrap();
        assert_eq!(change.job.outcome, Some(expected), "{failure:?}");
        night.rules.judge_job(&change.job, night.now());
        let says = night.sentence();
        let is_named = failure.is_some_and(|failure| says.contains(failure));
        assert_eq!(is_named, expected == Outcome::Failed, "{says}");
    }
}

#[test]
fn a_script_that_goes_on_when_the_machine_goes_down_did_not_finish() {
    let mut night = Night::new();
    night.seen(ALIVE, &[], &[(Part::Processes, CRON)]);
    night.reads(96);
    night.tick(NONE, &[]);
    assert_eq!(
        night.jobs(JobKind::Snapshot)[0].outcome,
        Some(Outcome::Unknown)
    );
    night.restarts();
    let changed = night
        .jobs
        .booted(night.now() + jiff::SignedDuration::from_secs(60));
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].outcome, Some(Outcome::Abandoned));
}

#[test]
fn nothing_reads_on_after_the_machine_went_down() {
    let mut night = Night::new();
    night.seen(ALIVE, &[], &[(Part::Processes, CRON)]);
    night.reads(50);
    night.restarts();
    night
        .jobs
        .booted(night.now() + jiff::SignedDuration::from_secs(60));
    night.tick(ALIVE, &[]);
    assert_eq!(
        (night.outcome(), &*night.rings()),
        (Some(Outcome::Abandoned), "critical data")
    );
}

#[test]
fn a_command_that_makes_fewer_snapshots_than_its_last_run_has_failed() {
    let mut night = Night::new();
    for (key, makes, expected) in [
        ("one", true, Outcome::Succeeded),
        ("two", false, Outcome::Failed),
        ("three", false, Outcome::Failed),
    ] {
        let last = run_command(&mut night, key, makes);
        assert_eq!(last.outcome, Some(expected), "{key}");
    }
    assert_eq!(night.rings(), "critical data, critical data");
    assert!(
        night
            .sentence()
            .contains("it made no snapshot, and usually makes 1 snapshot"),
        "{}",
        night.sentence()
    );
}
