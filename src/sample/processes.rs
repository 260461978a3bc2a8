//! The program that creates a snapshot, from lines `pid (name) state ppid` of lvcreate and its ancestors. Process names
//! are arbitrary; they are truncated and stripped of control characters.

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
}
