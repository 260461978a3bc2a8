//! Which program makes a snapshot, from lines `number (name) state parent` of the processes above lvcreate.
//!
//! A name can hold anything; what is shown of it is cut and has no control characters.

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub number: u32,
    pub name: String,
    pub parent: u32,
}

/// The programs that make snapshots themselves, the surer one first: `lvm` asks, too.
const MAKERS: [&str; 2] = ["lvcreate", "lvm"];

/// Programs that only run others.
const WRAPPERS: [&str; 36] = [
    "sh",
    "bash",
    "rbash",
    "dash",
    "ash",
    "ksh",
    "ksh93",
    "mksh",
    "zsh",
    "fish",
    "csh",
    "tcsh",
    "busybox",
    "sudo",
    "doas",
    "su",
    "runuser",
    "env",
    "timeout",
    "nice",
    "ionice",
    "chrt",
    "taskset",
    "flock",
    "nohup",
    "setsid",
    "time",
    "stdbuf",
    "xargs",
    "setpriv",
    "chroot",
    "nsenter",
    "unshare",
    "run-parts",
    "strace",
    "cowbell",
];

/// Programs that begin a session or a service: what they run was somebody's own command.
const HOSTS: [&str; 30] = [
    "systemd",
    "(sd-pam)",
    "systemd-executo",
    "init",
    "init.sh",
    "linuxrc",
    "runit",
    "runsv",
    "s6-supervise",
    "openrc-run",
    "tini",
    "dumb-init",
    "containerd-shim",
    "conmon",
    "cron",
    "crond",
    "CRON",
    "anacron",
    "atd",
    "fcron",
    "sshd",
    "sshd-session",
    "dropbear",
    "login",
    "agetty",
    "getty",
    "screen",
    "SCREEN",
    "xinetd",
    "script",
];

/// How such names may go on: `tmux: server`.
const HOSTS_BEGIN: [&str; 3] = ["tmux", "gnome-terminal", "kthreadd"];

/// No more than the kernel keeps of a name, but for letters of several bytes.
const LONGEST_NAME: usize = 32;
/// Longer chains are not gone up.
const MOST_ABOVE: usize = 64;

/// Understands the lines; gives those that are not like that, too.
pub fn parse(text: &str) -> (Vec<Process>, Vec<String>) {
    let (mut processes, mut not_understood) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        match process(line) {
            Some(process) => processes.push(process),
            None => not_understood.push(line.to_string()),
        }
    }
    (processes, not_understood)
}

fn process(line: &str) -> Option<Process> {
    let (number, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(')')?;
    let parent = rest.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Process { number: number.parse().ok()?, name: name.to_string(), parent })
}

/// The name of the program that makes a snapshot; `None` where nobody makes one, or several do and it cannot be told
/// which.
pub fn maker(processes: &[Process]) -> Option<String> {
    let is_of_cowbell = |process: &Process| {
        processes.iter().any(|above| above.number == process.parent && above.name == "cowbell")
    };
    // What another cowbell asks LVM makes nothing.
    let makes = |process: &&Process| process.name == "lvcreate" || !is_of_cowbell(process);
    let named = |name: &str| -> Vec<&Process> {
        processes.iter().filter(|process| process.name == name).filter(makes).collect()
    };
    let makers = MAKERS.into_iter().map(named).find(|makers| !makers.is_empty())?;
    let mut names = makers.into_iter().map(|maker| program_above(maker, processes));
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}

/// The first above it that does not only run others; itself where that is what began the session.
fn program_above(maker: &Process, processes: &[Process]) -> String {
    let parent_of = |process: &Process| processes.iter().find(|other| other.number == process.parent);
    let mut above = parent_of(maker);
    for _ in 0..MOST_ABOVE {
        match above {
            Some(process) if WRAPPERS.contains(&process.name.as_str()) => above = parent_of(process),
            Some(process) if !is_host(process) => return shown(&process.name),
            _ => break,
        }
    }
    shown(&maker.name)
}

fn is_host(process: &Process) -> bool {
    let name = process.name.as_str();
    process.number <= 1 || HOSTS.contains(&name) || HOSTS_BEGIN.iter().any(|start| name.starts_with(start))
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
        let (processes, not_understood) = parse(text);
        assert_eq!(not_understood, [""; 0], "{text:?}");
        assert_eq!(maker(&processes).as_deref(), expected, "{text:?}");
    }

    #[test]
    fn the_program_is_the_first_that_does_not_only_run_others() {
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
    fn what_somebody_typed_is_lvcreate_itself() {
        check(
            "1 (systemd) S 0\n4 (sshd) S 1\n5 (bash) S 4\n6 (sudo) S 5\n7 (lvcreate) D 6\n",
            Some("lvcreate"),
        );
        check("4 (tmux: server) S 1\n5 (bash) S 4\n7 (lvcreate) D 5\n", Some("lvcreate"));
        check("4 (cron) S 1\n5 (sh) S 4\n7 (lvcreate) D 5\n", Some("lvcreate"));
        check("7 (lvcreate) D 5\n", Some("lvcreate"));
    }

    #[test]
    fn two_at_once_are_told_apart_by_nobody() {
        check("5 (one) S 1\n6 (lvcreate) S 5\n7 (two) S 1\n8 (lvcreate) S 7\n", None);
        check("5 (one) S 1\n6 (lvcreate) S 5\n8 (lvcreate) S 5\n", Some("one"));
        check("5 (one) S 1\n6 (lvcreate) S 5\n7 (monitor) S 1\n8 (lvm) S 7\n", Some("one"));
        check("5 (one) S 1\n", None);
        check("5 (cowbell) S 1\n6 (lvm) S 5\n", None);
        check("5 (one) S 1\n6 (cowbell) S 5\n7 (lvcreate) S 6\n", Some("one"));
        check("", None);
    }

    #[test]
    fn hostile_names_are_names() {
        check("5 (a) R 1?7 (evil) S 1\n6 (lvcreate) S 5\n", Some("a) R 1?7 (evil"));
        check("5 (<b>&amp;) S 1\n6 (lvcreate) S 5\n", Some("<b>&amp;"));
        check("5 (my backup ((1)) S 1\n6 (lvcreate) S 5\n", Some("my backup ((1)"));
        check("5 () S 1\n6 (lvcreate) S 5\n", Some(""));
        check("5 (sh) S 6\n6 (bash) S 5\n7 (lvcreate) S 5\n", Some("lvcreate"));
        let long = "x".repeat(5_000);
        check(&format!("5 ({long}\u{1b}) S 1\n6 (lvcreate) S 5\n"), Some(&long[..LONGEST_NAME]));
        check("5 (a\u{1b}[2J) S 1\n6 (lvcreate) S 5\n", Some("a?[2J"));
    }

    #[test]
    fn what_is_no_process_is_given_back() {
        assert_eq!(parse("5 lvcreate S 1\n6 (x) S\nx (y) S 1\n").1.len(), 3);
    }

    proptest! {
        #[test]
        fn no_text_stops_the_program(text in "(\\PC|\n|[0-9]{1,12} \\((sh|lvcreate)\\) S [0-9]{1,3}\n)*") {
            maker(&parse(&text).0);
        }
    }
}
