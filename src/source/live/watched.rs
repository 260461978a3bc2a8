//! Whether the processes of running backups still run. An open directory `/proc/PID` identifies one process: a later
//! process with the same PID has another directory. This works on every kernel, unlike `pidfd_open(2)`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, openat};

use super::{Part, PartReading, timed};
use crate::source::files::Root;

/// Maximum number of processes. Several backups rarely run at once.
const MAX_PROCESSES: usize = 64;
/// Limit of ancestors to read.
const MAX_DEPTH: usize = 16;

/// The processes to watch, by PID, and the last text that was returned.
pub struct WatchedProcesses {
    proc: PathBuf,
    processes: BTreeMap<u32, Watched>,
    text: String,
}

enum Watched {
    Running {
        folder: OwnedFd,
        /// As in the reading.
        line: String,
    },
    /// Its end was noticed. The next reading reports the end, so that the last hook messages come first.
    Ending {
        line: String,
    },
    Ended,
}

impl WatchedProcesses {
    pub fn below(root: &Root) -> Self {
        Self {
            proc: root.0.join("proc"),
            processes: BTreeMap::new(),
            text: String::new(),
        }
    }

    /// Replaces the processes to watch; returns whether they changed. A PID that is watched already keeps its process, even if
    /// the PID is reused.
    pub fn watch(&mut self, pids: &[u32]) -> bool {
        if self.processes.keys().eq(&BTreeSet::from_iter(
            pids.iter().copied().take(MAX_PROCESSES),
        )) {
            return false;
        }
        self.processes.retain(|pid, _| pids.contains(pid));
        for pid in pids.iter().take(MAX_PROCESSES) {
            if !self.processes.contains_key(pid) {
                let found = self.open(*pid).unwrap_or(Watched::Ending {
                    line: String::new(),
                });
                self.processes.insert(*pid, found);
            }
        }
        true
    }

    /// Those that run.
    pub fn running(&self) -> Vec<u32> {
        let running = self
            .processes
            .iter()
            .filter(|(_, process)| !matches!(process, Watched::Ended));
        running.map(|(pid, _)| *pid).collect()
    }

    /// The processes if anything changed: lines `PID<TAB>START<TAB>ANCESTORS`, or `PID<TAB>ended`. START is in clock ticks
    /// since boot. The second value says whether another reading is due soon, because a process has just ended.
    pub fn read_if_changed(&mut self) -> (Option<PartReading>, bool) {
        for process in self.processes.values_mut() {
            match process {
                Watched::Running { folder, line }
                    if stat_in(folder).is_none_or(|stat| stat.has_ended()) =>
                {
                    *process = Watched::Ending {
                        line: std::mem::take(line),
                    };
                }
                Watched::Ending { .. } => *process = Watched::Ended,
                _ => {}
            }
        }
        let is_ending = self
            .processes
            .values()
            .any(|process| matches!(process, Watched::Ending { .. }));
        let mut text = String::new();
        for (pid, process) in &self.processes {
            match process {
                Watched::Running { line, .. } | Watched::Ending { line } => text.push_str(line),
                Watched::Ended => _ = writeln!(text, "{pid}\tended"),
            }
        }
        let is_new = self.text != text;
        self.text.clone_from(&text);
        (is_new.then(|| timed(Part::Backups, || Ok(text))), is_ending)
    }

    fn open(&self, pid: u32) -> Option<Watched> {
        let folder = folder(&self.proc, pid)?;
        let stat = stat_in(&folder)?;
        let above = |parent: &u32| parent_in(&self.proc, *parent);
        let ancestors = std::iter::successors(Some(stat.parent), above).take(MAX_DEPTH);
        let ancestors: Vec<String> = ancestors.map(|pid| pid.to_string()).collect();
        let line = format!("{pid}\t{}\t{}\n", stat.started, ancestors.join(" "));
        Some(Watched::Running { folder, line })
    }
}

/// The parent of a process, if it exists.
pub fn parent_in(proc: &Path, pid: u32) -> Option<u32> {
    Some(stat_in(&folder(proc, pid)?)?.parent)
}

fn folder(proc: &Path, pid: u32) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(proc.join(pid.to_string()), flags, Mode::empty()).ok()
}

/// Columns of `/proc/PID/stat` after the process name.
struct Stat {
    state: char,
    parent: u32,
    started: u64,
}

impl Stat {
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// `None` if the process is gone.
fn stat_in(folder: &OwnedFd) -> Option<Stat> {
    let mut file = File::from(
        openat(
            folder,
            "stat",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?,
    );
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    // A name can contain anything, including parentheses.
    let columns: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(Stat {
        state: columns.first()?.chars().next()?,
        parent: columns.get(1)?.parse().ok()?,
        started: columns.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ReadResult;

    fn text(processes: &mut WatchedProcesses) -> Option<String> {
        match processes.read_if_changed().0?.result {
            ReadResult::Text(text) => Some(text),
            ReadResult::Error(error) => panic!("{error}"),
        }
    }

    #[test]
    fn the_end_of_a_process_is_reported_at_the_second_reading_after_it() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut processes = WatchedProcesses::below(&Root("/".into()));
        processes.watch(&[child.id()]);
        let running = text(&mut processes).unwrap();
        let columns: Vec<&str> = running.trim_end().split('\t').collect();
        assert_eq!(columns[0], child.id().to_string());
        assert!(
            columns[2].starts_with(&std::process::id().to_string()),
            "{running}"
        );
        assert_eq!(text(&mut processes), None, "nothing changed");
        child.kill().unwrap();
        // It is a zombie at the latest when it is waited for.
        child.wait().unwrap();
        let (reading, is_ending) = processes.read_if_changed();
        assert!(reading.is_none() && is_ending);
        assert_eq!(
            text(&mut processes).unwrap(),
            format!("{}\tended\n", child.id())
        );
    }

    #[test]
    fn a_process_that_is_gone_when_it_is_first_watched_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut processes = WatchedProcesses::below(&Root(folder.path().into()));
        processes.watch(&[4711]);
        assert_eq!(text(&mut processes).unwrap(), "4711\tended\n");
        processes.watch(&[]);
        assert_eq!(text(&mut processes).unwrap(), "");
    }
}
