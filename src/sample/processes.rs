//! Processes: the program that creates a snapshot, those of running backups, and those below them that failed.
//!
//! - `pid (name) state ppid`: lvcreate and its ancestors. Names are arbitrary; they are truncated and stripped of control
//!   characters.
//! - `PID<TAB>START<TAB>ANCESTORS` or `PID<TAB>ended`: a running backup.
//! - `RUN<TAB>MILLISECONDS<TAB>child|descendant<TAB>STATUS<TAB>NAME`: a process below a backup that failed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub number: u32,
    pub name: String,
    pub parent: u32,
}

/// The program that created a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    pub program: String,
    /// The PIDs of lvcreate and of all processes above it. Of several lvcreate, those above all of them.
    pub processes: Vec<u32>,
}

/// Programs that create snapshots, the more specific one first: `lvm` also runs for reports.
const CREATORS: [&str; 2] = ["lvcreate", "lvm"];

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
    let parent = rest.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Process {
        number: number.parse().ok()?,
        name: name.to_string(),
        parent,
    })
}

/// The program that creates a snapshot. `None` if there is none, or several that differ.
pub fn maker(processes: &[Process]) -> Option<Maker> {
    let is_of_cowbell = |process: &Process| {
        processes
            .iter()
            .any(|above| above.number == process.parent && above.name == "cowbell")
    };
    // Another cowbell runs `lvm` for reports only.
    let makes = |process: &&Process| process.name == "lvcreate" || !is_of_cowbell(process);
    let named = |name: &str| -> Vec<&Process> {
        processes
            .iter()
            .filter(|process| process.name == name)
            .filter(makes)
            .collect()
    };
    let makers = CREATORS
        .into_iter()
        .map(named)
        .find(|makers| !makers.is_empty())?;
    let mut names = makers.iter().map(|maker| program_above(maker, processes));
    let program = names.next()?;
    names.all(|name| name == program).then_some(())?;
    let (first, others) = makers.split_first()?;
    let above_all = |process: &&Process| {
        others
            .iter()
            .all(|maker| chain(maker, processes).any(|other| other.number == process.number))
    };
    let processes = chain(first, processes)
        .filter(above_all)
        .map(|process| process.number)
        .collect();
    Some(Maker { program, processes })
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

fn role(process: &Process) -> Role {
    match &*process.name {
        "sh" | "bash" | "rbash" | "dash" | "ash" | "ksh" | "ksh93" | "mksh" | "zsh" | "fish"
        | "csh" | "tcsh" | "busybox" | "sudo" | "doas" | "su" | "runuser" | "env" | "timeout"
        | "nice" | "ionice" | "chrt" | "taskset" | "flock" | "nohup" | "setsid" | "time"
        | "stdbuf" | "xargs" | "setpriv" | "chroot" | "nsenter" | "unshare" | "run-parts"
        | "strace" | "cowbell" => Role::Wrapper,
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

/// A process below a backup that exited with an error or was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedProcess {
    /// The PID of the backup.
    pub run: u32,
    pub at: Timestamp,
    /// Whether the backup itself started it, and so knows its status.
    pub is_child: bool,
    pub name: String,
    pub failure: ExitFailure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitFailure {
    Signal(u32),
    Status(u32),
}

impl ExitFailure {
    /// `was killed by signal 9`
    pub fn text(self) -> String {
        match self {
            Self::Signal(signal) => format!("was killed by signal {signal}"),
            Self::Status(status) => format!("ended with status {status}"),
        }
    }
}

/// Parses the lines of failed processes; also returns invalid ones.
pub fn parse_failed(text: &str) -> (Vec<FailedProcess>, Vec<String>) {
    super::parse_lines(text, failed)
}

fn failed(line: &str) -> Option<FailedProcess> {
    let columns: Vec<&str> = line.splitn(5, '\t').collect();
    let [run, at_ms, relation, status, name] = columns[..] else {
        return None;
    };
    let status: u32 = status.parse().ok()?;
    let failure = match status & 0x7f {
        0 => ExitFailure::Status(status >> 8 & 0xff),
        signal => ExitFailure::Signal(signal),
    };
    Some(FailedProcess {
        run: run.parse().ok()?,
        at: Timestamp::from_millisecond(at_ms.parse().ok()?).ok()?,
        is_child: relation == "child",
        name: name.to_string(),
        failure,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let (processes, unparsed) = parse(text);
        assert_eq!(unparsed, [""; 0], "{text:?}");
        assert_eq!(
            maker(&processes).map(|maker| maker.program).as_deref(),
            expected,
            "{text:?}"
        );
    }

    #[test]
    fn the_program_is_the_nearest_ancestor_that_is_no_wrapper() {
        check(
            "1 (systemd) S 0\n4 (cron) S 1\n5 (mylvmbackup) S 4\n6 (sh) S 5\n7 (lvcreate) D 6\n",
            Some("mylvmbackup"),
        );
        check(
            "1 (init) S 0\n5 (holland) S 1\n6 (timeout) S 5\n7 (nice) S 6\n8 (lvcreate) R 7\n",
            Some("holland"),
        );
        check("5 (vzdump) S 1\n7 (lvm) S 5\n", Some("vzdump"));
    }

    #[test]
    fn a_typed_command_is_lvcreate_itself() {
        check(
            "1 (systemd) S 0\n4 (sshd) S 1\n5 (bash) S 4\n6 (sudo) S 5\n7 (lvcreate) D 6\n",
            Some("lvcreate"),
        );
        check(
            "4 (tmux: server) S 1\n5 (bash) S 4\n7 (lvcreate) D 5\n",
            Some("lvcreate"),
        );
        check(
            "4 (cron) S 1\n5 (sh) S 4\n7 (lvcreate) D 5\n",
            Some("lvcreate"),
        );
        check("7 (lvcreate) D 5\n", Some("lvcreate"));
    }

    #[test]
    fn concurrent_programs_are_ambiguous() {
        check(
            "5 (one) S 1\n6 (lvcreate) S 5\n7 (two) S 1\n8 (lvcreate) S 7\n",
            None,
        );
        check(
            "5 (one) S 1\n6 (lvcreate) S 5\n8 (lvcreate) S 5\n",
            Some("one"),
        );
        check(
            "5 (one) S 1\n6 (lvcreate) S 5\n7 (monitor) S 1\n8 (lvm) S 7\n",
            Some("one"),
        );
        check("5 (one) S 1\n", None);
        check("5 (cowbell) S 1\n6 (lvm) S 5\n", None);
        check(
            "5 (one) S 1\n6 (cowbell) S 5\n7 (lvcreate) S 6\n",
            Some("one"),
        );
        check("", None);
    }

    #[test]
    fn hostile_names_are_literal() {
        check(
            "5 (a) R 1?7 (evil) S 1\n6 (lvcreate) S 5\n",
            Some("a) R 1?7 (evil"),
        );
        check("5 (<b>&amp;) S 1\n6 (lvcreate) S 5\n", Some("<b>&amp;"));
        check(
            "5 (my backup ((1)) S 1\n6 (lvcreate) S 5\n",
            Some("my backup ((1)"),
        );
        check("5 () S 1\n6 (lvcreate) S 5\n", Some(""));
        check(
            "5 (sh) S 6\n6 (bash) S 5\n7 (lvcreate) S 5\n",
            Some("lvcreate"),
        );
        let long = "x".repeat(5_000);
        check(
            &format!("5 ({long}\u{1b}) S 1\n6 (lvcreate) S 5\n"),
            Some(&long[..LONGEST_NAME]),
        );
        check("5 (a\u{1b}[2J) S 1\n6 (lvcreate) S 5\n", Some("a?[2J"));
    }

    #[test]
    fn invalid_lines_are_returned() {
        assert_eq!(parse("5 lvcreate S 1\n6 (x) S\nx (y) S 1\n").1.len(), 3);
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n|[0-9]{1,12} \\((sh|lvcreate)\\) S [0-9]{1,3}\n)*") {
            maker(&parse(&text).0);
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
    fn a_failed_process_was_killed_or_ended_with_a_status() {
        let (found, unparsed) =
            parse_failed("7\t5\tdescendant\t9\ttar\n7\t5\tchild\t512\tsh\n7\t5\tchild\n");
        let told = found
            .iter()
            .map(|process| (process.is_child, process.failure.text()));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (false, "was killed by signal 9".to_string()),
                (true, "ended with status 2".into())
            ]
        );
        assert_eq!(unparsed.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn any_backups_parse_without_panic(text in "(\\PC|\n|\t|[0-9])*") {
            parse_backups(&text);
            parse_failed(&text);
        }
    }
}
