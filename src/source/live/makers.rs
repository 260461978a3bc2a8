//! Who makes a snapshot at this moment: the processes of lvcreate, and those above them.
//!
//! Looked at when the device-mapper tells of an event, since that is when lvcreate still runs, and told only in a tick in
//! which there is a device that was not there before. Of each process its number, its name and its parent are taken, and nothing else: command lines, which
//! hold passwords, are never read. The kernel keeps the first fifteen bytes of a name.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Part, Said, Text, timed};
use crate::source::files::Root;

/// The names under which LVM makes snapshots.
const MAKERS: [&str; 2] = ["lvcreate", "lvm"];
/// So many processes are looked at, those with the highest numbers first: a look costs some ten microseconds each.
const MOST_PROCESSES: usize = 4_096;
/// What was seen at an event is of no device that comes later than this.
const SEEN_FOR: Duration = Duration::from_secs(2);
/// So many processes above one are looked at.
const MOST_ABOVE: usize = 16;

/// Knows which devices there were.
pub struct Makers {
    proc: PathBuf,
    /// `None` before the first list.
    known: Option<HashSet<String>>,
    /// What was seen at the last event at which there was something to see.
    seen: Option<(Instant, String)>,
}

/// What is taken of a process.
struct Process {
    number: u32,
    name: String,
    state: String,
    parent: u32,
}

impl Makers {
    pub fn below(root: &Root) -> Self {
        Self { proc: root.0.join("proc"), known: None, seen: None }
    }

    /// Looks, for the next tick.
    pub fn look(&mut self) {
        let found = self.chains();
        if !found.is_empty() {
            self.seen = Some((Instant::now(), found));
        }
    }

    /// The processes, where the device-mapper's answer has a new device and something makes one. What was seen
    /// waits for an answer, which may come late.
    pub fn read_if_new(&mut self, answer: Option<&Text>) -> Option<Text> {
        let devices = devices(answer?)?;
        let known = self.known.replace(devices.iter().map(ToString::to_string).collect());
        if known.is_none_or(|known| devices.iter().all(|device| known.contains(*device))) {
            return None;
        }
        let seen = self.seen.take().filter(|(at, _)| at.elapsed() < SEEN_FOR).map(|(_, seen)| seen);
        let text = timed(Part::Processes, || {
            let now = self.chains();
            Ok(if now.is_empty() { seen.unwrap_or_default() } else { now })
        });
        (text.said != Said::Text(String::new())).then_some(text)
    }

    /// A line `number (name) state parent` for each process that makes volumes, and for all above it.
    fn chains(&self) -> String {
        let own = std::process::id();
        let mut lines = BTreeSet::new();
        for process in self.numbers().into_iter().filter_map(|number| self.process(number)) {
            // What this program itself asks LVM makes nothing.
            if MAKERS.contains(&process.name.as_str()) && process.parent != own {
                self.add_with_those_above(process, &mut lines);
            }
        }
        lines.into_iter().fold(String::new(), |mut text, (_, line)| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    fn add_with_those_above(&self, process: Process, lines: &mut BTreeSet<(u32, String)>) {
        let mut next = Some(process);
        for _ in 0..MOST_ABOVE {
            let Some(Process { number, name, state, parent }) = next else { return };
            lines.insert((number, format!("{number} ({name}) {state} {parent}")));
            next = self.process(parent);
        }
    }

    fn numbers(&self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir(&self.proc) else { return Vec::new() };
        let mut numbers: Vec<u32> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.truncate(MOST_PROCESSES);
        numbers
    }

    /// `None` of one that is gone.
    fn process(&self, number: u32) -> Option<Process> {
        let stat = fs::read(self.proc.join(number.to_string()).join("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // A name can hold anything, parentheses and line feeds too.
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let mut commands = rest.split_ascii_whitespace();
        let (state, parent) = (commands.next()?.to_string(), commands.next()?.parse().ok()?);
        Some(Process { number, name: name.replace(char::is_control, "?"), state, parent })
    }
}

/// The lines of devices in an answer that tells of all; `None` of one that does not. Whether one is suspended is left
/// out.
fn devices(answer: &Text) -> Option<Vec<&str>> {
    let Said::Text(text) = &answer.said else { return None };
    let is_whole = !text.starts_with("again\n");
    let lines = text.lines().filter(|line| !line.starts_with('\t'));
    is_whole.then(|| lines.map(|line| line.rsplit_once('\t').map_or(line, |(device, _)| device)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Text {
        Text { part: Part::Dm, said: Said::Text(text.into()), took_us: 0 }
    }

    /// Processes with their names and parents.
    fn machine(processes: &[(u32, &str, u32)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (number, name, parent) in processes {
            let place = folder.path().join(format!("proc/{number}"));
            fs::create_dir_all(&place).unwrap();
            fs::write(
                place.join("stat"),
                format!("{number} ({name}) S {parent} 1 1 0 -1 4194304 93847 140722\n"),
            )
            .unwrap();
            fs::write(place.join("cmdline"), "lvcreate\0--password=geheim\0").unwrap();
        }
        folder
    }

    const BEFORE: &str = "254:0\tvg0-data\tLVM-d\tactive\n\tstatus 0 8 linear \n";
    const AFTER: &str = "254:0\tvg0-data\tLVM-d\tactive\n254:1\tvg0-snap-cow\tLVM-s-cow\tactive\n";

    fn said(processes: &[(u32, &str, u32)], answers: &[&str]) -> Vec<Option<Said>> {
        let folder = machine(processes);
        let mut makers = Makers::below(&Root(folder.path().into()));
        answers.iter().map(|text| makers.read_if_new(Some(&answer(text))).map(|text| text.said)).collect()
    }

    #[test]
    fn those_above_lvcreate_are_told_when_a_device_is_new() {
        let processes =
            [(1, "systemd", 0), (40, "cron", 1), (50, "nightly", 40), (60, "lvcreate", 50), (70, "bash", 1)];
        let expected = "1 (systemd) S 0\n40 (cron) S 1\n50 (nightly) S 40\n60 (lvcreate) S 50\n";
        let suspended = BEFORE.replace("active", "suspended");
        let found = said(&processes, &[BEFORE, &suspended, "again\n", AFTER, AFTER]);
        assert_eq!(found, [None, None, None, Some(Said::Text(expected.into())), None]);
    }

    #[test]
    fn what_was_seen_at_an_event_is_told_when_it_is_gone_and_its_device_is_there() {
        let folder = machine(&[(60, "lvcreate", 50)]);
        let mut makers = Makers::below(&Root(folder.path().into()));
        assert_eq!(makers.read_if_new(Some(&answer(BEFORE))), None);
        makers.look();
        fs::remove_dir_all(folder.path().join("proc")).unwrap();
        makers.look();
        let refused = Text { said: Said::Error("no answer".into()), ..answer("") };
        assert_eq!(makers.read_if_new(Some(&refused)), None);
        let told = makers.read_if_new(Some(&answer(AFTER))).map(|text| text.said);
        assert_eq!(told, Some(Said::Text("60 (lvcreate) S 50\n".into())));
    }

    #[test]
    fn nothing_is_told_where_nothing_makes_one() {
        assert_eq!(said(&[(1, "systemd", 0), (9, "lvs", 1)], &[BEFORE, AFTER]), [None, None]);
        let own = std::process::id();
        assert_eq!(said(&[(own, "cowbell", 1), (9, "lvm", own)], &[BEFORE, AFTER]), [None, None]);
    }

    #[test]
    fn a_hostile_name_makes_no_line_of_its_own() {
        let processes = [(5, "a) R 1\n7 (evil", 1), (6, "lvcreate", 5)];
        let expected = "5 (a) R 1?7 (evil) S 1\n6 (lvcreate) S 5\n";
        assert_eq!(said(&processes, &[BEFORE, AFTER])[1], Some(Said::Text(expected.into())));
    }

    #[test]
    fn processes_in_a_circle_end() {
        assert!(said(&[(5, "lvcreate", 6), (6, "sh", 5)], &[BEFORE, AFTER])[1].is_some());
    }
}
