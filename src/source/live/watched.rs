//! Whether the processes of running backups still run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use procfs::process::Process;

use super::{Part, PartReading};
use crate::source::files::{MAX_ANCESTORS, Root};

/// Maximum number of processes. Several backups rarely run at once.
const MAX_PROCESSES: usize = 64;

/// The processes to watch, by PID, and the last text that was returned.
pub struct WatchedProcesses {
    root: Root,
    processes: BTreeMap<u32, Watched>,
    text: String,
}

enum Watched {
    Running {
        process: Process,
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
            root: root.clone(),
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
                Watched::Running {
                    process: running,
                    line,
                } if has_ended(running) => {
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
        let reading = is_new.then(|| PartReading::timed(Part::Backups, || Ok(text)));
        (reading, is_ending)
    }

    fn open(&self, pid: u32) -> Option<Watched> {
        let process = self.root.process(pid)?;
        let stat = process.stat().ok()?;
        let parent = u32::try_from(stat.ppid).ok();
        let ancestors = std::iter::successors(parent, |pid| self.root.parent_of(*pid));
        let ancestors: Vec<String> = ancestors
            .take(MAX_ANCESTORS)
            .map(|pid| pid.to_string())
            .collect();
        let line = format!("{pid}\t{}\t{}\n", stat.starttime, ancestors.join(" "));
        Some(Watched::Running { process, line })
    }
}

/// A zombie has ended: only its parent has not waited for it yet.
fn has_ended(process: &Process) -> bool {
    process
        .stat()
        .map_or(true, |stat| matches!(stat.state, 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(processes: &mut WatchedProcesses) -> Option<String> {
        let read = processes.read_if_changed().0?;
        Some(read.result.text().unwrap().into())
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
