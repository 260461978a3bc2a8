//! The processes that made a snapshot, and how they and those below them exited: evidence of how a backup went, if no hook
//! reports that. The same of a command under `cowbell run`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::backup_run::{BROKEN_PIPE, ProcessFailure, ReportedResult};
use super::programs::{self, ProgramKind, is_reader};
use crate::interval::Interval;
use crate::sample::processes::{
    BackupProcess, ExitRelation, ExitStatus, LONGEST_SCRIPT_S, ProcessExit,
};

/// A process that read and wrote this much took part in the backup, whatever its name.
const LEAST_BYTES: u64 = 1 << 20;
/// A script that failed and left an unread snapshot is not helped any more after this.
const GIVE_UP_MS: i64 = 30_000;
/// What watches a backup or sends a mail reads and writes less than this part of what is read of the snapshot.
const HELPER_SHARE: u64 = 10;
/// `SIGHUP`, `SIGINT` and `SIGTERM`: a script may end what watched its backup.
const ASKED_TO_END: [ExitStatus; 3] = [
    ExitStatus::Signal(1),
    ExitStatus::Signal(2),
    ExitStatus::Signal(15),
];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MakerRun {
    /// Those above `lvcreate`, the nearest first. Empty if it was typed.
    pub processes: Vec<MakerProcess>,
    /// The service that ran them, which goes on. Only what reads the snapshot counts of what it runs, or itself.
    service: Option<u32>,
    /// The first known program below them that read or wrote the data, and was killed or ended with an error.
    failed_process: Option<ProcessFailure>,
    /// What that process had read and written.
    failed_bytes: u64,
    /// Of failed programs that are not known, the one that had read and written most.
    failed_helper: Option<ProcessFailure>,
    helper_bytes: u64,
    /// Whether the same tool has ended well since, without much data: as it creates its repository.
    has_created: bool,
    /// The first `mount` below them that failed: a tool then reads an empty folder, and ends well.
    pub failed_mount: Option<ProcessFailure>,
    /// What had been read of the snapshot by the last tick.
    bytes_read: u64,
    /// Whether they are a command's, whose programs may copy files that change meanwhile.
    #[serde(skip)]
    is_command: bool,
    /// Whether a backup tool ran below them.
    #[serde(skip)]
    pub ran_tool: bool,
    /// Whether a program copied only what has changed.
    copied_changes: bool,
    /// What programs read and wrote that copy all files or blocks.
    whole_bytes: u64,
    /// Whether a program such as e2fsck read it to check it.
    has_checked: bool,
    /// The program whose threads ended while it went on, and what they had read and written.
    threaded: String,
    thread_bytes: u64,
    /// When a process that had read or written the data last ended well.
    pub copied_at: Option<Timestamp>,
    /// Whether the machine went down, and so nothing goes on that ran then.
    went_down: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MakerProcess {
    pub pid: u32,
    /// In clock ticks since boot; `None` until it was seen running.
    pub started: Option<u64>,
    pub end: Option<ProcessEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    pub at: Timestamp,
    /// `None` if the kernel's report of it was not received.
    pub status: Option<ExitStatus>,
    /// What had been read of the snapshot then; `None` until that is counted.
    pub read: Option<ReadShare>,
}

/// How much of a snapshot's data was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadShare {
    /// No more than mounting reads.
    Nothing,
    Part,
    All,
}

/// How far the processes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakerState {
    /// It was typed, or its processes ended and left a snapshot that was not read.
    Gone,
    /// The nearest process runs.
    Runs,
    /// The nearest has ended before the snapshot was read, and one above it runs.
    HandedOver,
    Ended(ProcessEnd),
}

impl MakerRun {
    pub fn new(above: &[u32], service: Option<u32>) -> Self {
        let process = |pid: &u32| MakerProcess {
            pid: *pid,
            ..MakerProcess::default()
        };
        Self {
            processes: above.iter().map(process).collect(),
            service,
            ..Self::default()
        }
    }

    /// A command that runs below this process.
    pub fn of_command(process: u32) -> Self {
        Self {
            is_command: true,
            ..Self::new(&[process], None)
        }
    }

    /// The process that read or wrote the data, and failed. One that is not known and handled little of it had another task,
    /// such as sending a mail, if a known program copied it all.
    pub fn failed_reader(&self) -> Option<&ProcessFailure> {
        let is_little = self.helper_bytes < self.bytes_read / HELPER_SHARE;
        let is_copied = self.copied_changes || !self.is_unknown_copy(self.bytes_read);
        let helper = self.failed_helper.as_ref();
        let helper = helper.filter(|_| !(is_little && is_copied));
        self.failed_process.as_ref().or(helper)
    }

    /// `mysqldump ended with status 2`: how a program failed that read or wrote the data.
    pub fn failure(&self) -> Option<String> {
        self.failed_reader().map(ProcessFailure::text)
    }

    /// The PID and the start of the process that ran `lvcreate`, if both are known.
    pub fn nearest(&self) -> Option<(u32, u64)> {
        let nearest = self.processes.first()?;
        Some((nearest.pid, nearest.started?))
    }

    /// The PIDs to watch: of those that have not ended, and of the service.
    pub fn running(&self) -> impl Iterator<Item = u32> {
        let running = self.processes.iter().filter(|one| one.end.is_none());
        running.map(|one| one.pid).chain(self.service)
    }

    /// Updates how its processes, and while its snapshot is there those below them, ended.
    pub fn update(&mut self, interval: &Interval, has_snapshot: bool, bytes_read: Option<u64>) {
        self.bytes_read = bytes_read.unwrap_or_default();
        for exit in &interval.exits {
            let is_own = exit.relation == ExitRelation::Itself && self.service != Some(exit.run);
            if has_snapshot || is_own {
                self.learn_exit(exit);
            }
        }
        for process in interval.backups.iter() {
            self.update_process(process, interval.at);
        }
    }

    /// Updates whether a process runs. Another process with its PID means that it has ended.
    fn update_process(&mut self, process: &BackupProcess, at: Timestamp) {
        let is_it = |one: &&mut MakerProcess| one.pid == process.pid && one.end.is_none();
        let Some(known) = self.processes.iter_mut().find(is_it) else {
            return;
        };
        match &process.running {
            Some(running) if known.started.unwrap_or(running.started) == running.started => {
                known.started = Some(running.started);
            }
            _ => known.end(at, None),
        }
    }

    /// Whether a program copied only what has changed, and none copied what was read of the snapshot: rsync may only upload
    /// an archive.
    pub fn is_incremental(&self, bytes_read: u64) -> bool {
        self.copied_changes && self.is_unknown_copy(bytes_read)
    }

    /// Whether a program copied it and ended well, and none failed.
    pub fn has_copied(&self) -> bool {
        let has_copied = self.copied_at.is_some() || self.ran_whole();
        has_copied && self.failed_reader().is_none()
    }

    /// Whether a known program ended well that copies all files or blocks.
    pub fn ran_whole(&self) -> bool {
        self.whole_bytes > 0
    }

    /// Whether no known program copied what was read.
    pub fn is_unknown_copy(&self, bytes_read: u64) -> bool {
        self.whole_bytes < bytes_read.max(LEAST_BYTES)
    }

    /// Whether the snapshot was made to check its data, and nothing was to copy it.
    pub fn has_only_checked(&self) -> bool {
        let has_copied = self.has_copied() || self.copied_changes;
        self.has_checked && !has_copied && self.failed_reader().is_none()
    }

    /// Learns how one of its processes, or one below them, exited.
    pub fn learn_exit(&mut self, exit: &ProcessExit) {
        let known = self.processes.iter_mut().find(|one| one.pid == exit.run);
        let is_mount = exit.name == "mount";
        let is_of_service = self.service == Some(exit.run) && (is_mount || is_reader(&exit.name));
        match known {
            Some(known) if exit.relation == ExitRelation::Itself => {
                known.end(exit.at, Some(exit.status));
                return;
            }
            None if !is_of_service => return,
            _ => {}
        }
        if is_mount && !exit.status.is_success() {
            self.failed_mount
                .get_or_insert_with(|| ProcessFailure::of(exit));
            return;
        }
        self.ran_tool |= programs::is_backup_tool(&exit.name);
        if self.is_command && programs::has_only_met_changes(&exit.name, exit.status) {
            return;
        }
        let kind = programs::kind(&exit.name);
        if kind == Some(ProgramKind::Checks) {
            self.has_checked = true;
            return;
        }
        if exit.status.is_success() {
            self.copied_changes |= matches!(kind, Some(ProgramKind::Changes | ProgramKind::Dumps));
            if kind == Some(ProgramKind::Whole) {
                self.whole_bytes = self.whole_bytes.saturating_add(exit.bytes);
            }
            self.learn_success(exit);
            self.excuse_question(exit);
        } else if self.is_harmful(exit) {
            self.learn_failure(exit, kind.is_some());
        }
    }

    /// Whether a process that ended so may have spoilt the backup.
    fn is_harmful(&self, exit: &ProcessExit) -> bool {
        let is_much = exit.bytes >= LEAST_BYTES;
        let is_reader = is_reader(&exit.name);
        match exit.status {
            BROKEN_PIPE => false,
            status if ASKED_TO_END.contains(&status) && !is_reader => {
                !self.is_command && exit.bytes >= LEAST_BYTES.max(self.bytes_read / HELPER_SHARE)
            }
            status if ASKED_TO_END.contains(&status) => is_much,
            ExitStatus::Signal(_) => is_much || is_reader,
            ExitStatus::Status(_) => {
                let answers = programs::kind(&exit.name) == Some(ProgramKind::Answers);
                !answers && (is_much || is_reader)
            }
        }
    }

    /// A tool may ask for its repository, create it if that fails, and then make the backup. Without the second step, what
    /// failed may have been the backup of another folder, or to another repository.
    fn excuse_question(&mut self, exit: &ProcessExit) {
        let failed = self.failed_process.as_ref();
        let is_again = failed.is_some_and(|failed| failed.name == exit.name);
        if !is_again || !programs::has_repository(&exit.name) || self.failed_bytes >= LEAST_BYTES {
            return;
        }
        if exit.bytes < LEAST_BYTES {
            self.has_created = true;
        } else if self.has_created {
            self.failed_process = None;
        }
    }

    fn learn_failure(&mut self, exit: &ProcessExit, is_known: bool) {
        if !is_known && exit.bytes > self.helper_bytes {
            self.failed_helper = Some(ProcessFailure::of(exit));
            self.helper_bytes = exit.bytes;
        }
        if is_known && self.failed_process.is_none() {
            self.failed_process = Some(ProcessFailure::of(exit));
            self.failed_bytes = exit.bytes;
            self.has_created = false;
        }
    }

    /// A thread may end since it waits for what a hung process does not read: only a process has copied all.
    fn learn_success(&mut self, exit: &ProcessExit) {
        let mut bytes = exit.bytes;
        if self.threaded == exit.name {
            bytes = bytes.saturating_add(std::mem::take(&mut self.thread_bytes));
        }
        if exit.relation == ExitRelation::Thread {
            self.threaded.clone_from(&exit.name);
            self.thread_bytes = bytes;
        } else if bytes >= LEAST_BYTES {
            self.copied_at = Some(exit.at);
        }
    }

    /// Notes what had been read when a process ended.
    pub fn note_read(&mut self, read: ReadShare) {
        for end in self.processes.iter_mut().filter_map(|one| one.end.as_mut()) {
            end.read.get_or_insert(read);
        }
    }

    /// If its nearest process failed before anything was read, those above it are given some time to go on without it.
    pub fn give_up(&mut self, now: Timestamp) {
        let Some(end) = self.processes.first().and_then(|nearest| nearest.end) else {
            return;
        };
        let has_failed = end.status.is_some_and(|status| !status.is_success());
        let is_old = now.as_millisecond() - end.at.as_millisecond() >= GIVE_UP_MS;
        if has_failed && is_old && end.read == Some(ReadShare::Nothing) {
            self.processes.truncate(1);
        }
    }

    /// Ends all of them, when the machine went down.
    pub fn end_all(&mut self, at: Timestamp) {
        self.went_down = true;
        for process in &mut self.processes {
            process.end(at, None);
        }
    }

    /// If the snapshot was removed, by the process that still ran then.
    pub fn state(&self, removed_at: Option<Timestamp>) -> MakerState {
        let mut state = MakerState::Gone;
        for (index, process) in self.processes.iter().enumerate() {
            let Some(end) = process.end else {
                return if index == 0 {
                    MakerState::Runs
                } else {
                    MakerState::HandedOver
                };
            };
            let had_ended = |one: &MakerProcess| one.end.is_some_and(|other| other.at <= end.at);
            let is_last = self.processes[index + 1..].iter().all(had_ended);
            let has_failed = end.status.is_some_and(|status| !status.is_success());
            let removed_it = removed_at.is_some_and(|removed| end.at >= removed);
            // No process above it continues what that reader began.
            let failed = self.failed_reader();
            let has_lost_reader = failed.is_some_and(|failed| failed.at <= end.at);
            let decides = match end.read {
                Some(ReadShare::All) => true,
                Some(ReadShare::Part) => has_failed || is_last || removed_it || has_lost_reader,
                Some(ReadShare::Nothing) => has_failed && is_last || removed_it,
                None => false,
            };
            if decides {
                return MakerState::Ended(end);
            }
            if end.read.is_none() {
                state = MakerState::Runs;
            }
        }
        state
    }

    /// Whether another program may go on reading the snapshot that a process left when it ended.
    pub fn may_be_read_on(&self, end: &ProcessEnd) -> bool {
        let has_failed = end.status.is_some_and(|status| !status.is_success());
        let is_cut_off = has_failed || self.failed_reader().is_some() || self.went_down;
        end.read != Some(ReadShare::All) && !is_cut_off
    }

    /// The result that the status of its process reports.
    pub fn report(&self, removed_at: Option<Timestamp>) -> Option<ReportedResult> {
        let MakerState::Ended(end) = self.state(removed_at) else {
            return None;
        };
        // The status of a service is not that of the backup.
        let after_s = |removed: Timestamp| end.at.as_second() - removed.as_second();
        if removed_at.is_some_and(|removed| after_s(removed) > LONGEST_SCRIPT_S as i64) {
            return None;
        }
        let succeeded = end.status?.is_success();
        Some(ReportedResult {
            at: end.at,
            succeeded,
        })
    }
}

impl MakerProcess {
    fn end(&mut self, at: Timestamp, status: Option<ExitStatus>) {
        self.end.get_or_insert(ProcessEnd {
            at,
            status,
            read: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn exit(
        run: u32,
        relation: ExitRelation,
        name: &str,
        bytes: u64,
        status: ExitStatus,
    ) -> ProcessExit {
        let (at, name) = (at(9), name.into());
        ProcessExit {
            run,
            at,
            relation,
            bytes,
            name,
            status,
        }
    }

    const OK: ExitStatus = ExitStatus::Status(0);
    const KILLED: ExitStatus = ExitStatus::Signal(9);
    const MIB: u64 = 1 << 20;

    /// Process 7 below process 6, of which these have exited.
    #[track_caller]
    fn check(exits: &[(u32, ExitStatus, ReadShare)], expected: &str) {
        let mut maker = MakerRun::new(&[7, 6], None);
        for (pid, status, read) in exits {
            maker.learn_exit(&exit(*pid, ExitRelation::Itself, "x.sh", 0, *status));
            maker.note_read(*read);
        }
        let found = match maker.state(None) {
            MakerState::Ended(end) => end.status.unwrap().text(),
            other => format!("{other:?}"),
        };
        assert_eq!(found, expected, "{exits:?}");
    }

    #[test]
    fn the_process_that_read_the_snapshot_decides() {
        use ReadShare::{All, Nothing, Part};
        check(&[], "Runs");
        check(&[(7, OK, Nothing)], "HandedOver");
        check(&[(7, KILLED, Nothing)], "HandedOver");
        check(&[(7, OK, Part)], "HandedOver");
        check(&[(7, OK, All)], "ended with status 0");
        check(&[(7, KILLED, Part)], "was killed by signal 9");
        check(
            &[(7, OK, Nothing), (6, KILLED, Part)],
            "was killed by signal 9",
        );
        check(&[(7, OK, Nothing), (6, OK, Nothing)], "Gone");
        check(
            &[(7, OK, Nothing), (6, ExitStatus::Status(1), Nothing)],
            "ended with status 1",
        );
    }

    #[test]
    fn a_script_whose_reader_was_killed_decides_though_it_hides_that() {
        for (reader_second, expected) in [(8, true), (9, true), (10, false)] {
            let mut maker = MakerRun::new(&[7, 6], None);
            let mut reader = exit(7, ExitRelation::Child, "fsarchiver", 5 * MIB, KILLED);
            reader.at = at(reader_second);
            maker.learn_exit(&reader);
            maker.learn_exit(&exit(7, ExitRelation::Itself, "x.sh", 0, OK));
            maker.note_read(ReadShare::Part);
            let has_ended = matches!(maker.state(None), MakerState::Ended(_));
            assert_eq!(has_ended, expected, "{reader_second}");
        }
    }

    #[test]
    fn the_process_that_removed_the_snapshot_decides() {
        let mut maker = MakerRun::new(&[7, 6], None);
        maker.learn_exit(&exit(7, ExitRelation::Itself, "x.sh", 0, OK));
        maker.note_read(ReadShare::Part);
        let state = |second| maker.state(Some(at(second)));
        assert!(matches!(state(9), MakerState::Ended(end) if end.status == Some(OK)));
        assert_eq!(state(10), MakerState::HandedOver);
    }

    #[test]
    fn a_service_that_ends_long_after_its_backup_says_nothing_of_it() {
        for (removed_second, expected) in [(9 - 12 * 3600, Some(false)), (8 - 12 * 3600, None)] {
            let mut maker = MakerRun::new(&[7], None);
            maker.learn_exit(&exit(7, ExitRelation::Itself, "agent", 0, ASKED_TO_END[2]));
            maker.note_read(ReadShare::All);
            let report = maker.report(Some(at(removed_second)));
            assert_eq!(report.map(|it| it.succeeded), expected, "{removed_second}");
        }
    }

    #[test]
    fn of_what_a_service_runs_only_readers_count() {
        for (relation, name, expected) in [
            (ExitRelation::Child, "tar", true),
            (ExitRelation::Child, "check_web", false),
            (ExitRelation::Itself, "bacula-fd", true),
            (ExitRelation::Itself, "salt-minion", false),
        ] {
            let mut maker = MakerRun::new(&[7], Some(6));
            assert_eq!(maker.running().collect::<Vec<_>>(), [7, 6]);
            maker.learn_exit(&exit(6, relation, name, 5 * MIB, KILLED));
            assert_eq!(maker.failed_reader().is_some(), expected, "{name}");
            assert_eq!(maker.state(None), MakerState::Runs);
        }
    }

    #[track_caller]
    fn check_failed(exits: &[(&str, u64, ExitStatus)], expected: Option<&str>) {
        let mut maker = MakerRun::new(&[7], None);
        for (name, bytes, status) in exits {
            maker.learn_exit(&exit(7, ExitRelation::Child, name, *bytes, *status));
        }
        let failed = maker.failed_reader().map(|failed| failed.name.clone());
        assert_eq!(failed.as_deref(), expected, "{exits:?}");
    }

    #[test]
    fn what_read_or_wrote_the_data_spoils_it_whatever_its_name() {
        let status = ExitStatus::Status;
        check_failed(&[("slowcat", 5 * MIB, KILLED)], Some("slowcat"));
        check_failed(&[("tar", 0, status(2))], Some("tar"));
        check_failed(&[("partclone.ext4", 0, status(1))], Some("partclone.ext4"));
        for dump in ["xfsdump", "mysqldump", "pg_dump"] {
            check_failed(&[(dump, 9_000, status(1)), ("gzip", 9_000, OK)], Some(dump));
        }
        check_failed(
            &[
                ("tar", 5 * MIB, ExitStatus::Signal(13)),
                ("cat", 5 * MIB, status(1)),
            ],
            Some("cat"),
        );
        check_failed(&[("tar", 5 * MIB, ExitStatus::Signal(15))], Some("tar"));
        for harmless in [
            ("sleep", 9_000, KILLED),
            ("tail", 9_000, ExitStatus::Signal(15)),
            ("tar", 5 * MIB, ExitStatus::Signal(13)),
            ("grep", 5 * MIB, status(1)),
            ("sh", 5 * MIB, status(3)),
            ("tar", 5 * MIB, OK),
        ] {
            check_failed(&[harmless], None);
        }
    }

    #[test]
    fn a_script_may_end_what_watched_its_backup() {
        for (name, bytes, read, expected) in [
            ("vmstat", 5 * MIB, 100 * MIB, false),
            ("pv", 95 * MIB, 100 * MIB, true),
            ("gzip", 5 * MIB, 100 * MIB, true),
        ] {
            let mut maker = MakerRun::new(&[7], None);
            maker.bytes_read = read;
            maker.learn_exit(&exit(7, ExitRelation::Child, name, bytes, ASKED_TO_END[2]));
            assert_eq!(maker.failed_reader().is_some(), expected, "{name}");
        }
    }

    #[test]
    fn what_sends_a_mail_may_fail_if_a_known_program_has_copied_all() {
        let failed = ExitStatus::Status(1);
        for (name, bytes, copied_by, expected) in [
            ("python3", 5 * MIB, "tar", false),
            ("python3", 5 * MIB, "rsync", false),
            ("python3", 5 * MIB, "mirror", true),
            ("python3", 20 * MIB, "tar", true),
            ("ssh", 5 * MIB, "tar", true),
        ] {
            let mut maker = MakerRun::new(&[7], None);
            maker.bytes_read = 100 * MIB;
            maker.learn_exit(&exit(7, ExitRelation::Child, name, bytes, failed));
            maker.learn_exit(&exit(7, ExitRelation::Child, copied_by, 100 * MIB, OK));
            assert_eq!(maker.failed_reader().is_some(), expected, "{name}");
        }
    }

    #[test]
    fn a_process_has_copied_when_it_ends_and_not_its_threads() {
        let mut maker = MakerRun::new(&[7], None);
        for (relation, bytes, has_copied) in [
            (ExitRelation::Thread, 50 * MIB, false),
            (ExitRelation::Thread, 0, false),
            (ExitRelation::Child, 9_000, true),
        ] {
            maker.learn_exit(&exit(7, relation, "zbackup", bytes, OK));
            assert_eq!(maker.copied_at.is_some(), has_copied, "{relation:?}");
        }
    }

    #[test]
    fn a_tool_that_uploads_a_copy_of_all_makes_no_incremental_backup() {
        for (exits, expected) in [
            (&[("rsync", 9_000)][..], true),
            (&[("tar", 600 * MIB), ("rsync", 300 * MIB)], false),
            (&[("rsync", 300 * MIB), ("tar", 3 * MIB)], true),
            (&[("tar", 600 * MIB)], false),
        ] {
            let mut maker = MakerRun::new(&[7], None);
            for (name, bytes) in exits {
                maker.learn_exit(&exit(7, ExitRelation::Child, name, *bytes, OK));
            }
            assert_eq!(maker.is_incremental(300 * MIB), expected, "{exits:?}");
        }
    }

    #[test]
    fn a_check_of_the_file_system_copies_nothing_and_its_status_is_an_answer() {
        for (exits, expected) in [
            (&[("e2fsck", 5 * MIB, ExitStatus::Status(4))][..], true),
            (&[("fsck.ext4", 5 * MIB, KILLED), ("sleep", 0, OK)], true),
            (&[("e2fsck", 5 * MIB, OK), ("tar", 9_000, OK)], false),
            (&[("e2fsck", 5 * MIB, OK), ("tar", 9_000, KILLED)], false),
            (&[("e2fsck", 5 * MIB, OK), ("rsync", 9_000, OK)], false),
            (&[("sleep", 0, OK)], false),
        ] {
            let mut maker = MakerRun::new(&[7], None);
            for (name, bytes, status) in exits {
                maker.learn_exit(&exit(7, ExitRelation::Child, name, *bytes, *status));
            }
            assert_eq!(maker.has_only_checked(), expected, "{exits:?}");
        }
    }

    #[test]
    fn a_probe_of_a_repository_may_fail_and_a_backup_may_not() {
        let status = ExitStatus::Status;
        let asked = |name: &'static str| (name, 9_000, status(1));
        let (created, copied) = (("restic", 9_000, OK), ("restic", 50 * MIB, OK));
        check_failed(&[asked("restic"), created, copied], None);
        // A backup to another repository, or of another folder.
        check_failed(&[asked("restic"), copied], Some("restic"));
        check_failed(&[asked("rsync"), ("rsync", 9 * MIB, OK)], Some("rsync"));
        check_failed(&[asked("restic"), created], Some("restic"));
        let failed = ("restic", 50 * MIB, status(1));
        check_failed(&[failed, created, copied], Some("restic"));
        check_failed(&[("restic", 9_000, KILLED)], Some("restic"));
    }

    #[test]
    fn a_command_fails_by_a_program_that_failed_and_not_by_files_that_changed() {
        let status = ExitStatus::Status;
        for (exits, expected) in [
            (
                &[("mysqldump", 200, status(2)), ("gzip", 300, OK)][..],
                Some("mysqldump ended with status 2"),
            ),
            (
                &[("mysqldump", 200, status(2)), ("mysqldump", 9 * MIB, OK)],
                Some("mysqldump ended with status 2"),
            ),
            (
                &[("tar", 9 * MIB, status(1)), ("rsync", 9 * MIB, status(24))],
                None,
            ),
            (
                &[("tar", 9 * MIB, status(1)), ("tar", 90, status(2))],
                Some("tar ended with status 2"),
            ),
            (
                &[
                    ("grep", 90, status(1)),
                    ("sleep", 0, ExitStatus::Signal(15)),
                ],
                None,
            ),
        ] {
            let mut maker = MakerRun::of_command(7);
            for (name, bytes, status) in exits {
                maker.learn_exit(&exit(7, ExitRelation::Descendant, name, *bytes, *status));
            }
            assert_eq!(maker.failure().as_deref(), expected, "{exits:?}");
            assert_eq!(maker.ran_tool, exits[0].0 == "mysqldump");
        }
    }

    #[test]
    fn another_process_with_its_pid_means_that_it_has_ended() {
        let mut maker = MakerRun::new(&[7], None);
        let seen = |started| BackupProcess {
            pid: 7,
            running: Some(crate::sample::processes::RunningProcess {
                started,
                ancestors: Vec::new(),
            }),
        };
        maker.update_process(&seen(100), at(1));
        maker.update_process(&seen(100), at(2));
        assert_eq!(maker.running().count(), 1);
        maker.update_process(&seen(200), at(3));
        maker.note_read(ReadShare::Part);
        assert!(
            matches!(maker.state(None), MakerState::Ended(end) if end.at == at(3) && end.status.is_none())
        );
    }
}
