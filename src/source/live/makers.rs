//! The processes that create a snapshot right now: lvcreate and its ancestors, read at device-mapper events. Only PID,
//! name and parent are read: command lines may contain passwords. The kernel truncates names to 15 bytes.
//!
//! If two lvcreate processes run at once below different programs, they cannot be told apart, and no program is reported.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use procfs::process::Stat;

use super::{Part, PartReading, ReadResult};
use crate::source::files::{MAX_ANCESTORS, Root};

/// LVM's programs that create snapshots.
const MAKERS: [&str; 2] = ["lvcreate", "lvm"];
/// Limit of processes to read, highest PIDs first; each takes some ten microseconds.
const MAX_PROCESSES: usize = 4_096;
/// Processes from an event are discarded after this long without a new device.
const MAX_AGE: Duration = Duration::from_secs(2);

/// Remembers the known devices.
pub struct Makers {
    root: Root,
    /// `None` before the first list.
    known: Option<HashSet<String>>,
    /// The processes at the last event that had any.
    processes: Option<(Instant, String)>,
}

impl Makers {
    pub fn below(root: &Root) -> Self {
        Self {
            root: root.clone(),
            known: None,
            processes: None,
        }
    }

    /// Reads the processes for the next tick.
    pub fn look(&mut self) {
        let found = self.chains();
        if !found.is_empty() {
            self.processes = Some((Instant::now(), found));
        }
    }

    /// The processes, if the device-mapper's answer has a new device. Those from an event are kept for a late answer.
    pub fn read_if_new(&mut self, answer: Option<&PartReading>) -> Option<PartReading> {
        let devices = devices(answer?)?;
        let known = self
            .known
            .replace(devices.iter().map(ToString::to_string).collect());
        if known.is_none_or(|known| devices.iter().all(|device| known.contains(*device))) {
            return None;
        }
        let processes = self
            .processes
            .take()
            .filter(|(at, _)| at.elapsed() < MAX_AGE)
            .map(|(_, processes)| processes);
        let text = PartReading::timed(Part::Processes, || {
            let now = self.chains();
            Ok(if now.is_empty() {
                processes.unwrap_or_default()
            } else {
                now
            })
        });
        (text.result != ReadResult::Text(String::new())).then_some(text)
    }

    /// A line `pid (name) state ppid` for each process that creates volumes, and for its ancestors.
    fn chains(&self) -> String {
        let own = i32::try_from(std::process::id());
        let mut pids = self.root.pids();
        pids.sort_unstable_by(|a, b| b.cmp(a));
        pids.truncate(MAX_PROCESSES);
        let mut lines = BTreeSet::new();
        for process in pids
            .into_iter()
            .filter_map(|pid| self.root.process_stat(pid))
        {
            // cowbell's own LVM queries create nothing.
            if MAKERS.contains(&process.comm.as_str()) && Ok(process.ppid) != own {
                let above = |below: &Stat| self.root.process_stat(below.ppid.try_into().ok()?);
                let chain = std::iter::successors(Some(process), above).take(MAX_ANCESTORS);
                lines.extend(chain.map(|process| (process.pid, line(&process))));
            }
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

fn line(process: &Stat) -> String {
    let name = process.comm.replace(char::is_control, "?");
    format!(
        "{} ({name}) {} {}\n",
        process.pid, process.state, process.ppid
    )
}

/// The device lines of a full answer, without the suspension state; `None` for a partial answer.
fn devices(answer: &PartReading) -> Option<Vec<&str>> {
    let ReadResult::Text(text) = &answer.result else {
        return None;
    };
    let is_whole = !text.starts_with("again\n");
    let lines = text.lines().filter(|line| !line.starts_with('\t'));
    is_whole.then(|| {
        lines
            .map(|line| line.rsplit_once('\t').map_or(line, |(device, _)| device))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn answer(text: &str) -> PartReading {
        PartReading {
            part: Part::Dm,
            result: ReadResult::Text(text.into()),
            took_us: 0,
        }
    }

    /// A root with these processes: PID, name, parent.
    fn machine(processes: &[(u32, &str, u32)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (number, name, parent) in processes {
            let place = folder.path().join(format!("proc/{number}"));
            fs::create_dir_all(&place).unwrap();
            fs::write(
                place.join("stat"),
                format!("{number} ({name}) S {parent}{}\n", " 1".repeat(40)),
            )
            .unwrap();
            fs::write(place.join("cmdline"), "lvcreate\0--password=geheim\0").unwrap();
        }
        folder
    }

    const BEFORE: &str = "254:0\tvg0-data\tLVM-d\tactive\n\tstatus 0 8 linear \n";
    const AFTER: &str = "254:0\tvg0-data\tLVM-d\tactive\n254:1\tvg0-snap-cow\tLVM-s-cow\tactive\n";

    fn results(processes: &[(u32, &str, u32)], answers: &[&str]) -> Vec<Option<ReadResult>> {
        let folder = machine(processes);
        let mut makers = Makers::below(&Root(folder.path().into()));
        answers
            .iter()
            .map(|text| {
                makers
                    .read_if_new(Some(&answer(text)))
                    .map(|text| text.result)
            })
            .collect()
    }

    #[test]
    fn ancestors_of_lvcreate_are_reported_with_a_new_device() {
        let processes = [
            (1, "systemd", 0),
            (40, "cron", 1),
            (50, "nightly", 40),
            (60, "lvcreate", 50),
            (70, "bash", 1),
        ];
        let expected = "1 (systemd) S 0\n40 (cron) S 1\n50 (nightly) S 40\n60 (lvcreate) S 50\n";
        let suspended = BEFORE.replace("active", "suspended");
        let found = results(&processes, &[BEFORE, &suspended, "again\n", AFTER, AFTER]);
        assert_eq!(
            found,
            [
                None,
                None,
                None,
                Some(ReadResult::Text(expected.into())),
                None
            ]
        );
    }

    #[test]
    fn processes_from_an_event_are_kept_for_their_device() {
        let folder = machine(&[(60, "lvcreate", 50)]);
        let mut makers = Makers::below(&Root(folder.path().into()));
        assert_eq!(makers.read_if_new(Some(&answer(BEFORE))), None);
        makers.look();
        fs::remove_dir_all(folder.path().join("proc")).unwrap();
        makers.look();
        let refused = PartReading {
            result: ReadResult::Error("no answer".into()),
            ..answer("")
        };
        assert_eq!(makers.read_if_new(Some(&refused)), None);
        let result = makers
            .read_if_new(Some(&answer(AFTER)))
            .map(|text| text.result);
        assert_eq!(
            result,
            Some(ReadResult::Text("60 (lvcreate) S 50\n".into()))
        );
    }

    #[test]
    fn other_processes_are_not_reported() {
        assert_eq!(
            results(&[(1, "systemd", 0), (9, "lvs", 1)], &[BEFORE, AFTER]),
            [None, None]
        );
        let own = std::process::id();
        assert_eq!(
            results(&[(own, "cowbell", 1), (9, "lvm", own)], &[BEFORE, AFTER]),
            [None, None]
        );
    }

    #[test]
    fn a_hostile_name_stays_on_one_line() {
        let processes = [(5, "a) R 1\n7 (evil", 1), (6, "lvcreate", 5)];
        let expected = "5 (a) R 1?7 (evil) S 1\n6 (lvcreate) S 5\n";
        assert_eq!(
            results(&processes, &[BEFORE, AFTER])[1],
            Some(ReadResult::Text(expected.into()))
        );
    }

    #[test]
    fn a_cycle_of_parents_ends() {
        assert!(results(&[(5, "lvcreate", 6), (6, "sh", 5)], &[BEFORE, AFTER])[1].is_some());
    }
}
