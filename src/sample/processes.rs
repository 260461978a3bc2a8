//! Processes: the program that creates a snapshot, those of running backups, and how those and the ones below them ended.
//!
//! - `pid (name) state ppid pgrp age [volume]`: lvcreate, the volume that it makes if it names one, and its ancestors. The age
//!   is in seconds, when lvcreate started. Names are arbitrary; they are truncated and stripped of control characters.
//!   Between systemd and what it starts, the unit has a line; its PID is above all real ones.
//! - `PID<TAB>START<TAB>ANCESTORS` or `PID<TAB>ended`: a running backup.
//! - `RUN<TAB>MILLISECONDS<TAB>self|child|descendant|thread<TAB>STATUS<TAB>BYTES<TAB>NAME`: a backup, or a process below it,
//!   exited.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub number: u32,
    pub name: String,
    pub parent: u32,
    /// `None` in older recordings.
    pub group: Option<u32>,
    /// In seconds, when lvcreate started; `None` in older recordings.
    pub age_s: Option<u64>,
    /// What lvcreate makes, as `vg0/snap`, or `/snap` if its group is not known.
    pub volume: Option<String>,
}

/// A program that creates a volume by lvcreate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    pub program: String,
    /// The PIDs of lvcreate and of all processes above it.
    pub processes: Vec<u32>,
    /// Those of a script or program that runs lvcreate, the nearest first; empty if lvcreate was typed.
    pub above: Vec<u32>,
    /// The service that runs this script.
    pub service: Option<u32>,
    /// As [`Process::volume`].
    pub volume: Option<String>,
}

impl Maker {
    /// Whether lvcreate names the volume that it makes, and it is this one.
    pub fn names(&self, volume: &str) -> bool {
        self.volume
            .as_ref()
            .is_some_and(|made| match made.strip_prefix('/') {
                Some(lv) => volume.split_once('/').is_some_and(|(_, name)| name == lv),
                None => made == volume,
            })
    }
}

/// Programs that create snapshots, the more specific one first: `lvm` also runs for reports.
const CREATORS: [&str; 2] = ["lvcreate", "lvm"];

/// Programs that run another one in a process group of its own.
const NEW_GROUP: [&str; 5] = ["timeout", "sudo", "su", "runuser", "setsid"];

/// Services that run a script before each backup, and do not end after it.
const SERVICES: [&str; 12] = [
    "bacula-fd",
    "bareos-fd",
    "urbackupclientb",
    "dsmcad",
    "bpcd",
    "cvd",
    "pvescheduler",
    "pvedaemon",
    "salt-minion",
    "zabbix_agentd",
    "zabbix_agent2",
    "supervisord",
];
/// A script runs no longer than this. A process that is older when lvcreate starts, or that ends later after its snapshot was
/// removed, is a service.
pub const LONGEST_SCRIPT_S: u64 = 12 * 3600;

/// At least the length that the kernel keeps, even in multi-byte characters.
const LONGEST_NAME: usize = 32;
/// Maximum depth of the search for a parent.
const MAX_DEPTH: usize = 64;

/// Parses the lines; also returns invalid ones.
pub fn parse(text: &str) -> (Vec<Process>, Vec<String>) {
    super::parse_lines(text, process)
}

fn process(line: &str) -> Option<Process> {
    let (number, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(')')?;
    let mut columns = rest.split_ascii_whitespace().skip(1).peekable();
    Some(Process {
        number: number.parse().ok()?,
        name: name.to_string(),
        parent: columns.next()?.parse().ok()?,
        group: columns.next().and_then(|group| group.parse().ok()),
        age_s: columns
            .next_if(|word| !word.contains('/'))
            .and_then(|age| age.parse().ok()),
        volume: columns.next().map(String::from),
    })
}

/// The programs that create volumes.
pub fn makers(processes: &[Process]) -> Vec<Maker> {
    let is_of_cowbell = |process: &Process| {
        processes
            .iter()
            .any(|above| above.number == process.parent && above.name == "cowbell")
    };
    // Another cowbell runs `lvm` for reports only.
    let makes = |process: &&Process| process.name == "lvcreate" || !is_of_cowbell(process);
    let named = |name: &str| -> Vec<&Process> {
        let named = processes.iter().filter(|process| process.name == name);
        named.filter(makes).collect()
    };
    let [mut makers, others] = CREATORS.map(named);
    // `lvm` may only report.
    let is_alone = makers.is_empty();
    makers.extend(others.iter().filter(|lvm| is_alone || lvm.volume.is_some()));
    let makers = makers.into_iter().map(|process| {
        let (above, service) = script_above(process, processes);
        Maker {
            program: program_above(process, processes),
            processes: numbers(chain(process, processes)),
            above,
            service,
            volume: process.volume.clone(),
        }
    });
    makers.collect()
}

fn numbers<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<u32> {
    processes.map(|process| process.number).collect()
}

/// The processes of the script that runs this `lvcreate`, the nearest first, and the service that runs the script. An
/// interactive shell gives each command a process group of its own; within a script only such wrappers as `timeout` do.
fn script_above(maker: &Process, processes: &[Process]) -> (Vec<u32>, Option<u32>) {
    let mut below = maker;
    let above = chain(maker, processes).skip(1).take_while(|process| {
        let is_same = process.group == below.group || NEW_GROUP.contains(&below.name.as_str());
        below = process;
        is_same && process.group.is_some() && role(process) != Role::SessionLeader
    });
    let mut above: Vec<&Process> = above.collect();
    let service = (1..above.len()).find(|index| is_service(above[*index]));
    let ran_it = service.map(|index| above[index].number);
    above.truncate(service.unwrap_or(above.len()));
    (numbers(above.into_iter()), ran_it)
}

/// Whether it runs one backup after the other.
fn is_service(process: &Process) -> bool {
    SERVICES.contains(&&*process.name) || process.age_s >= Some(LONGEST_SCRIPT_S)
}

/// A process and its ancestors.
fn chain<'a>(process: &'a Process, processes: &'a [Process]) -> impl Iterator<Item = &'a Process> {
    let parent_of = |process: &&Process| {
        processes
            .iter()
            .find(|other| other.number == process.parent)
    };
    std::iter::successors(Some(process), parent_of).take(MAX_DEPTH)
}

/// The nearest ancestor that is not a wrapper, or the process itself below a session leader.
fn program_above(maker: &Process, processes: &[Process]) -> String {
    let above = chain(maker, processes).skip(1);
    let nearest = above
        .map(|process| (role(process), process))
        .find(|(role, _)| *role != Role::Wrapper);
    match nearest {
        Some((Role::Program, process)) => shown(&process.name),
        _ => shown(&maker.name),
    }
}

/// What a process is to the one below it.
#[derive(PartialEq)]
enum Role {
    /// It runs other programs.
    Wrapper,
    /// It starts sessions or services; a command below it was typed or configured directly.
    SessionLeader,
    Program,
}

/// Whether a program of this name runs another one.
pub fn is_wrapper(name: &str) -> bool {
    matches!(
        name,
        "sh" | "bash"
            | "rbash"
            | "dash"
            | "ash"
            | "ksh"
            | "ksh93"
            | "mksh"
            | "zsh"
            | "fish"
            | "csh"
            | "tcsh"
            | "busybox"
            | "sudo"
            | "doas"
            | "su"
            | "runuser"
            | "env"
            | "timeout"
            | "nice"
            | "ionice"
            | "chrt"
            | "taskset"
            | "flock"
            | "nohup"
            | "setsid"
            | "time"
            | "stdbuf"
            | "xargs"
            | "setpriv"
            | "chroot"
            | "nsenter"
            | "unshare"
            | "run-parts"
            | "strace"
            | "cowbell"
    )
}

fn role(process: &Process) -> Role {
    match &*process.name {
        name if is_wrapper(name) => Role::Wrapper,
        _ if process.number <= 1 => Role::SessionLeader,
        "systemd" | "(sd-pam)" | "systemd-executo" | "init" | "init.sh" | "linuxrc" | "runit"
        | "runsv" | "s6-supervise" | "openrc-run" | "tini" | "dumb-init" | "containerd-shim"
        | "conmon" | "cron" | "crond" | "CRON" | "anacron" | "atd" | "fcron" | "sshd"
        | "sshd-session" | "dropbear" | "login" | "agetty" | "getty" | "screen" | "SCREEN"
        | "xinetd" | "script" => Role::SessionLeader,
        // As in `tmux: server`.
        name if ["tmux", "gnome-terminal", "kthreadd"]
            .iter()
            .any(|start| name.starts_with(start)) =>
        {
            Role::SessionLeader
        }
        _ => Role::Program,
    }
}

fn shown(name: &str) -> String {
    let cut: String = name.chars().take(LONGEST_NAME).collect();
    cut.replace(char::is_control, "?")
}

/// What is known of a watched process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupProcess {
    pub pid: u32,
    /// `None` once it has ended.
    pub running: Option<RunningProcess>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    /// Clock ticks from boot to its start. With the PID, it identifies a process.
    pub started: u64,
    /// The PIDs of its ancestors.
    pub ancestors: Vec<u32>,
}

/// Parses the lines; also returns invalid ones.
pub fn parse_backups(text: &str) -> (Vec<BackupProcess>, Vec<String>) {
    super::parse_lines(text, backup_process)
}

fn backup_process(line: &str) -> Option<BackupProcess> {
    let (pid, rest) = line.split_once('\t')?;
    let pid = pid.parse().ok()?;
    if rest == "ended" {
        return Some(BackupProcess { pid, running: None });
    }
    let (started, ancestors) = rest.split_once('\t')?;
    let ancestors: Result<Vec<u32>, _> =
        ancestors.split_ascii_whitespace().map(str::parse).collect();
    let running = RunningProcess {
        started: started.parse().ok()?,
        ancestors: ancestors.ok()?,
    };
    Some(BackupProcess {
        pid,
        running: Some(running),
    })
}

/// A backup's own process, or one below it, that exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessExit {
    /// The PID of the backup.
    pub run: u32,
    pub at: Timestamp,
    pub relation: ExitRelation,
    /// Read and written, by `read(2)` and `write(2)` and their like.
    pub bytes: u64,
    pub name: String,
    pub status: ExitStatus,
}

/// What an exited process was to a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitRelation {
    Itself,
    /// The backup itself started it, and so knows its status.
    Child,
    Descendant,
    /// A thread of a process below it, which goes on.
    Thread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    Signal(u32),
    Status(u32),
}

impl ExitStatus {
    pub fn is_success(self) -> bool {
        self == Self::Status(0)
    }

    /// `was killed by signal 9`
    pub fn text(self) -> String {
        match self {
            Self::Signal(signal) => format!("was killed by signal {signal}"),
            Self::Status(status) => format!("ended with status {status}"),
        }
    }
}

/// Parses the lines of exited processes; also returns invalid ones.
pub fn parse_exits(text: &str) -> (Vec<ProcessExit>, Vec<String>) {
    super::parse_lines(text, exit)
}

fn exit(line: &str) -> Option<ProcessExit> {
    let columns: Vec<&str> = line.splitn(6, '\t').collect();
    let [run, at_ms, relation, status, bytes, name] = columns[..] else {
        return None;
    };
    let status: u32 = status.parse().ok()?;
    Some(ProcessExit {
        run: run.parse().ok()?,
        at: Timestamp::from_millisecond(at_ms.parse().ok()?).ok()?,
        relation: match relation {
            "self" => ExitRelation::Itself,
            "child" => ExitRelation::Child,
            "descendant" => ExitRelation::Descendant,
            "thread" => ExitRelation::Thread,
            _ => return None,
        },
        bytes: bytes.parse().ok()?,
        name: name.to_string(),
        status: match status & 0x7f {
            0 => ExitStatus::Status(status >> 8 & 0xff),
            signal => ExitStatus::Signal(signal),
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let (processes, unparsed) = parse(text);
        assert_eq!(unparsed, [""; 0], "{text:?}");
        let makers = makers(&processes);
        let programs: Vec<&str> = makers.iter().map(|maker| &*maker.program).collect();
        assert_eq!(programs, expected, "{text:?}");
    }

    #[test]
    fn the_program_is_the_nearest_ancestor_that_is_no_wrapper() {
        check(
            "1 (systemd) S 0 9\n4 (cron) S 1 9\n5 (mylvmbackup) S 4 9\n6 (sh) S 5 9\n7 (lvcreate) D 6 9\n",
            &["mylvmbackup"],
        );
        check(
            "1 (init) S 0 9\n5 (holland) S 1 9\n6 (timeout) S 5 9\n7 (nice) S 6 9\n8 (lvcreate) R 7 9\n",
            &["holland"],
        );
        check("5 (vzdump) S 1 9\n7 (lvm) S 5 9\n", &["vzdump"]);
    }

    #[test]
    fn a_typed_command_is_lvcreate_itself() {
        check(
            "1 (systemd) S 0 9\n4 (sshd) S 1 9\n5 (bash) S 4 9\n6 (sudo) S 5 9\n7 (lvcreate) D 6 9\n",
            &["lvcreate"],
        );
        check(
            "4 (tmux: server) S 1 9\n5 (bash) S 4 9\n7 (lvcreate) D 5 9\n",
            &["lvcreate"],
        );
        check(
            "4 (cron) S 1 9\n5 (sh) S 4 9\n7 (lvcreate) D 5 9\n",
            &["lvcreate"],
        );
        check("7 (lvcreate) D 5 9\n", &["lvcreate"]);
    }

    #[test]
    fn a_service_that_runs_a_script_is_not_part_of_it() {
        for (text, above, service) in [
            (
                "4 (nightly) S 1 9 20\n5 (before) S 4 9 0\n7 (lvcreate) D 5 9 0 vg0/snap\n",
                &[5, 4][..],
                None,
            ),
            (
                "4 (nightly) S 1 9 43200\n5 (before) S 4 9 0\n7 (lvcreate) D 5 9 0\n",
                &[5],
                Some(4),
            ),
            (
                "4 (bacula-fd) S 1 9 20\n5 (before) S 4 9 0\n7 (lvcreate) D 5 9 0 vg0/snap\n",
                &[5],
                Some(4),
            ),
            ("4 (bacula-fd) S 1 9 20\n7 (lvcreate) D 4 9 0\n", &[4], None),
            // As older recordings have it.
            (
                "4 (nightly) S 1 9\n5 (before) S 4 9\n7 (lvcreate) D 5 9 vg0/snap\n",
                &[5, 4],
                None,
            ),
        ] {
            let makers = makers(&parse(text).0);
            assert_eq!(
                (&*makers[0].above, makers[0].service),
                (above, service),
                "{text}"
            );
            assert_eq!(makers[0].volume.is_some(), text.contains('/'), "{text}");
        }
    }

    #[test]
    fn each_concurrent_program_is_found() {
        check(
            "5 (one) S 1 9\n6 (lvcreate) S 5 9\n7 (two) S 1 9\n8 (lvcreate) S 7 9\n",
            &["one", "two"],
        );
        check(
            "5 (one) S 1 9\n6 (lvcreate) S 5 9\n8 (lvcreate) S 5 9\n",
            &["one", "one"],
        );
        check(
            "5 (one) S 1 9\n6 (lvcreate) S 5 9\n7 (monitor) S 1 9\n8 (lvm) S 7 9\n",
            &["one"],
        );
        check(
            "5 (one) S 1 9\n6 (lvcreate) S 5 9\n7 (two) S 1 9\n8 (lvm) S 7 9 vg0/snap\n",
            &["one", "two"],
        );
        check("5 (one) S 1 9\n", &[]);
        check("5 (cowbell) S 1 9\n6 (lvm) S 5 9\n", &[]);
        check(
            "5 (one) S 1 9\n6 (cowbell) S 5 9\n7 (lvcreate) S 6 9\n",
            &["one"],
        );
        check("", &[]);
    }

    #[test]
    fn hostile_names_are_literal() {
        check(
            "5 (a) R 1?7 (evil) S 1 9\n6 (lvcreate) S 5 9\n",
            &["a) R 1?7 (evil"],
        );
        check("5 (<b>&amp;) S 1 9\n6 (lvcreate) S 5 9\n", &["<b>&amp;"]);
        check(
            "5 (my backup ((1)) S 1 9\n6 (lvcreate) S 5 9\n",
            &["my backup ((1)"],
        );
        check("5 () S 1 9\n6 (lvcreate) S 5 9\n", &[""]);
        check(
            "5 (sh) S 6 9\n6 (bash) S 5 9\n7 (lvcreate) S 5 9\n",
            &["lvcreate"],
        );
        let long = "x".repeat(5_000);
        check(
            &format!("5 ({long}\u{1b}) S 1 9\n6 (lvcreate) S 5 9\n"),
            &[&long[..LONGEST_NAME]],
        );
        check("5 (a\u{1b}[2J) S 1 9\n6 (lvcreate) S 5 9\n", &["a?[2J"]);
    }

    #[test]
    fn invalid_lines_are_returned() {
        assert_eq!(parse("5 lvcreate S 1 9\n6 (x) S\nx (y) S 1 9\n").1.len(), 3);
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n|[0-9]{1,12} \\((sh|lvcreate)\\) S [0-9]{1,3}\n)*") {
            makers(&parse(&text).0);
        }
    }

    #[test]
    fn a_process_runs_or_has_ended() {
        let (found, unparsed) =
            parse_backups("7\t4000\t6 5 1\n8\tended\n9\t\t\nx\tended\n7\t1\tx\n");
        let running = Some(RunningProcess {
            started: 4000,
            ancestors: vec![6, 5, 1],
        });
        assert_eq!(
            found,
            [
                BackupProcess { pid: 7, running },
                BackupProcess {
                    pid: 8,
                    running: None
                }
            ]
        );
        assert_eq!(unparsed.len(), 3);
    }

    #[test]
    fn an_exited_process_was_killed_or_ended_with_a_status() {
        let (found, unparsed) = parse_exits(
            "7\t5\tdescendant\t9\t40\ttar\n7\t5\tself\t512\t0\tsh\n7\t5\tchild\n7\t5\tson\t0\t0\tsh\n",
        );
        let text = |exit: &ProcessExit| {
            format!(
                "{:?}, {} B, {}",
                exit.relation,
                exit.bytes,
                exit.status.text()
            )
        };
        let told: Vec<String> = found.iter().map(text).collect();
        assert_eq!(
            told,
            [
                "Descendant, 40 B, was killed by signal 9",
                "Itself, 0 B, ended with status 2"
            ]
        );
        assert_eq!(unparsed.len(), 2);
    }

    /// `pid (name) state ppid pgrp`
    #[track_caller]
    fn check_above(text: &str, expected: &[u32]) {
        let found = makers(&parse(text).0);
        assert_eq!(found[0].above, expected, "{text}");
    }

    #[test]
    fn a_volume_has_the_name_that_its_lvcreate_was_given() {
        let found = makers(
            &parse("7 (lvcreate) D 5 9 vg0/snap\n8 (lvcreate) D 5 9 /log\n9 (lvcreate) D 5 9\n").0,
        );
        let names = |volume| {
            found
                .iter()
                .map(|maker| maker.names(volume))
                .collect::<Vec<_>>()
        };
        assert_eq!(names("vg0/snap"), [true, false, false]);
        assert_eq!(names("vg1/snap"), [false, false, false]);
        assert_eq!(names("vg1/log"), [false, true, false]);
    }

    #[test]
    fn a_script_has_the_process_group_of_its_lvcreate_and_an_interactive_shell_has_not() {
        let by_hand = "1 (systemd) S 0 1\n4 (sshd) S 1 4\n5 (bash) S 4 5\n";
        check_above(&format!("{by_hand}6 (lvcreate) S 5 6\n"), &[]);
        check_above(
            &format!("{by_hand}6 (nightly.sh) S 5 6\n7 (lvcreate) S 6 6\n"),
            &[6],
        );
        check_above(
            &format!("{by_hand}6 (bash) S 5 6\n7 (mk.sh) S 6 6\n8 (lvcreate) S 7 6\n"),
            &[7, 6],
        );
        let cron = "1 (systemd) S 0 1\n4 (cron) S 1 4\n5 (sh) S 4 5\n";
        check_above(&format!("{cron}6 (lvcreate) S 5 5\n"), &[5]);
        check_above(
            &format!("{cron}6 (timeout) S 5 6\n7 (lvcreate) S 6 6\n"),
            &[6, 5],
        );
    }

    proptest::proptest! {
        #[test]
        fn any_backups_parse_without_panic(text in "(\\PC|\n|\t|[0-9])*") {
            parse_backups(&text);
            parse_exits(&text);
        }
    }
}
