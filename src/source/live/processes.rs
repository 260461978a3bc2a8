//! Processes that matter to a backup: those that create a snapshot right now, and those of running backups. Only PID, name and
//! parent are read: command lines may contain passwords. Of `lvcreate`, the name of the new volume is read as well. The kernel
//! truncates names to 15 bytes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::process::{Process, Stat};

use super::{Part, PartReading, ReadResult};
use crate::source::files::Root;

/// LVM's programs that create snapshots.
const MAKERS: [&str; 2] = ["lvcreate", "lvm"];
/// Limit of processes to read, highest PIDs first; each takes some ten microseconds.
const MAX_LISTED: usize = 4_096;
/// Processes from an event are discarded after this long without a new device: on slow disks, LVM takes seconds from its lock
/// to the device.
const MAX_AGE: Duration = Duration::from_secs(20);
/// Maximum number of processes. Several backups rarely run at once.
const MAX_WATCHED: usize = 64;
/// A unit whose control group is empty for this long has ended. Between two of its commands it is empty for milliseconds.
const UNIT_EMPTY: Duration = Duration::from_secs(2);
/// Maximum number of processes that are remembered of a unit.
const MAX_MEMBERS: usize = 8_192;
/// Above all PIDs.
const UNIT_NUMBERS: u32 = 1 << 30;
/// Where control groups are: version 2, and systemd's own where version 1 is used.
const CONTROL_GROUPS: [&str; 3] = [
    "sys/fs/cgroup",
    "sys/fs/cgroup/systemd",
    "sys/fs/cgroup/unified",
];

/// Each `lvcreate` and its ancestors, read at device-mapper events, for the next new device.
pub struct Makers {
    root: Root,
    /// `None` before the first list.
    known: Option<HashSet<String>>,
    /// Lines of processes by PID, and when each was last read. Several backups may begin at once, and each `lvcreate` waits
    /// for the one before.
    lines: BTreeMap<i32, (Instant, String)>,
}

impl Makers {
    pub fn below(root: &Root) -> Self {
        Self {
            root: root.clone(),
            known: None,
            lines: BTreeMap::new(),
        }
    }

    /// Reads the processes for the next tick.
    pub fn look(&mut self) {
        self.lines.retain(|_, (at, _)| at.elapsed() < MAX_AGE);
        for (pid, (at, line)) in self.chains() {
            let known = self.lines.entry(pid).or_insert_with(|| (at, String::new()));
            known.0 = at;
            // The command line is gone once the process has ended.
            if names_volume(&line) || !names_volume(&known.1) {
                known.1 = line;
            }
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
        let begun = Instant::now();
        let text = PartReading::timed(Part::Processes, || {
            self.look();
            let lines = self.lines.values().map(|(_, line)| line.as_str());
            Ok(lines.collect())
        });
        // What has ended was reported now.
        self.lines.retain(|_, (at, _)| *at >= begun);
        (text.result != ReadResult::Text(String::new())).then_some(text)
    }

    /// A line `pid (name) state ppid pgrp age [volume]` for each process that creates volumes, and for its ancestors.
    fn chains(&self) -> BTreeMap<i32, (Instant, String)> {
        let own = i32::try_from(std::process::id());
        let mut pids = self.root.pids();
        pids.sort_unstable_by(|a, b| b.cmp(a));
        pids.truncate(MAX_LISTED);
        let mut lines = BTreeMap::new();
        for pid in pids {
            let Some(process) = self.root.process_stat(pid) else {
                continue;
            };
            // cowbell's own LVM queries create nothing.
            if MAKERS.contains(&process.comm.as_str()) && Ok(process.ppid) != own {
                let volume = new_volume(&self.root.arguments(pid));
                let began = process.starttime;
                let mut write = |process: &Stat| {
                    let made = volume
                        .as_ref()
                        .filter(|_| Ok(process.pid) == pid.try_into());
                    let ticks = began.saturating_sub(process.starttime);
                    let age_s = ticks / procfs::ticks_per_second();
                    let line = line(process, age_s, made.map_or("", String::as_str));
                    lines.insert(process.pid, (Instant::now(), line));
                };
                for mut process in self.root.with_ancestors(process) {
                    if let Some(unit) = SystemdUnit::of(&self.root, &process) {
                        write(&unit.above(&process));
                        process.ppid = unit.number as i32;
                    }
                    write(&process);
                }
            }
        }
        lines
    }
}

fn line(process: &Stat, age_s: u64, volume: &str) -> String {
    let name = process.comm.replace(char::is_control, "?");
    let line = format!(
        "{} ({name}) {} {} {} {age_s} {volume}",
        process.pid, process.state, process.ppid, process.pgrp
    );
    line.trim_end().to_string() + "\n"
}

fn names_volume(line: &str) -> bool {
    line.rsplit(' ')
        .next()
        .is_some_and(|last| last.contains('/'))
}

/// The volume that `lvcreate` is told to make, as `vg0/snap`, or `/snap` if its group is not seen. `None` if LVM chooses its name.
fn new_volume(arguments: &[String]) -> Option<String> {
    let mut name = None;
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if matches!(word, "-n" | "--name") {
            name = words.next();
        } else if let Some(value) = word.strip_prefix("--name=").or(word.strip_prefix("-n")) {
            name = Some(value);
        }
    }
    let name = name?.trim_start_matches("/dev/");
    let paths = arguments
        .iter()
        .map(|word| word.trim_start_matches("/dev/"));
    let mut groups = paths.filter_map(|path| path.split_once('/'));
    let (group, lv) = match name.split_once('/') {
        Some(whole) => whole,
        None => {
            let is_group = |(group, _): &(&str, &str)| is_lvm_name(group) && *group != "mapper";
            (groups.find(is_group).map_or("", |(group, _)| group), name)
        }
    };
    let is_valid = is_lvm_name(lv) && (group.is_empty() || is_lvm_name(group));
    is_valid.then(|| format!("{group}/{lv}"))
}

fn is_lvm_name(name: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "+_.-".contains(letter);
    !name.is_empty() && name.chars().all(is_allowed) && !name.starts_with('-')
}

/// A unit of systemd. It starts each of its commands itself, so that no process is above all of them: the unit takes that place,
/// with the number of its control group.
struct SystemdUnit {
    number: u32,
    folder: PathBuf,
    empty_since: Option<Instant>,
    /// Its processes, and those that have ended.
    members: BTreeSet<u32>,
}

impl SystemdUnit {
    /// The unit of a process that systemd started.
    fn of(root: &Root, process: &Stat) -> Option<Self> {
        if process.ppid != 1 {
            return None;
        }
        let place = root.0.join(format!("proc/{}/cgroup", process.pid));
        let groups = fs::read_to_string(place).ok()?;
        // `0::/system.slice/nightly.service`
        let mut paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let path = paths.find(|path| path.ends_with(".service"))?;
        let folders =
            CONTROL_GROUPS.map(|mount| root.0.join(mount).join(path.trim_start_matches('/')));
        folders.into_iter().find_map(Self::at)
    }

    fn at(folder: PathBuf) -> Option<Self> {
        Some(Self {
            number: number_of(&folder)?,
            folder,
            empty_since: None,
            members: BTreeSet::new(),
        })
    }

    fn with_number(root: &Root, number: u32) -> Option<Self> {
        let mut folders: Vec<PathBuf> = CONTROL_GROUPS.map(|mount| root.0.join(mount)).into();
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                match path.extension().and_then(|word| word.to_str()) {
                    Some("slice") => folders.push(path),
                    Some("service") if number_of(&path) == Some(number) => return Self::at(path),
                    _ => {}
                }
            }
        }
        None
    }

    /// The unit as the parent of one of its processes.
    fn above(&self, process: &Stat) -> Stat {
        let name = self.folder.file_name().unwrap_or_default();
        let mut unit = process.clone();
        unit.pid = self.number as i32;
        unit.comm = name.to_string_lossy().into_owned();
        unit.ppid = 1;
        unit
    }

    /// Reads its processes; returns whether it has ended.
    fn has_ended(&mut self) -> bool {
        let is_same = number_of(&self.folder) == Some(self.number);
        let read = |name: &str| fs::read_to_string(self.folder.join(name));
        let running = read("cgroup.procs");
        // A group below it may have processes too, which only version 2 tells.
        let is_empty = match read("cgroup.events") {
            Ok(events) => events.contains("populated 0"),
            Err(_) => running.as_ref().is_ok_and(String::is_empty),
        };
        if self.members.len() > MAX_MEMBERS {
            self.members.clear();
        }
        let pids = running.iter().flat_map(|pids| pids.lines());
        self.members
            .extend(pids.filter_map(|pid| pid.parse::<u32>().ok()));
        if is_empty {
            self.empty_since.get_or_insert_with(Instant::now);
        } else {
            self.empty_since = None;
        }
        !is_same
            || self
                .empty_since
                .is_some_and(|since| since.elapsed() >= UNIT_EMPTY)
    }
}

/// The number of a control group; `None` if it is gone.
fn number_of(folder: &Path) -> Option<u32> {
    let inode = fs::metadata(folder).ok()?.ino();
    Some(UNIT_NUMBERS | inode as u32 & (UNIT_NUMBERS - 1))
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

/// The processes to watch, by PID, and the last text that was returned.
pub struct WatchedProcesses {
    root: Root,
    processes: BTreeMap<u32, Watched>,
    text: String,
}

struct Watched {
    /// `None` if it was not found.
    runs: Option<Runs>,
    /// As in the reading.
    line: String,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// Its end was noticed. The next reading reports the end, so that the last hook messages come first.
    Ending,
    Ended,
}

enum Runs {
    Process(Process),
    Unit(SystemdUnit),
}

impl Runs {
    /// A zombie has ended: only its parent has not waited for it yet.
    fn has_ended(&mut self) -> bool {
        match self {
            Self::Process(process) => process
                .stat()
                .map_or(true, |stat| matches!(stat.state, 'Z' | 'X')),
            Self::Unit(unit) => unit.has_ended(),
        }
    }
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
        let wanted: BTreeSet<u32> = pids.iter().copied().take(MAX_WATCHED).collect();
        if self.processes.keys().eq(&wanted) {
            return false;
        }
        self.processes.retain(|pid, _| pids.contains(pid));
        for pid in pids.iter().take(MAX_WATCHED) {
            if !self.processes.contains_key(pid) {
                let found = self.open(*pid).unwrap_or(Watched {
                    runs: None,
                    line: String::new(),
                    stage: Stage::Ending,
                });
                self.processes.insert(*pid, found);
            }
        }
        true
    }

    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Those that run.
    pub fn running(&self) -> Vec<u32> {
        let running = self
            .processes
            .iter()
            .filter(|(_, process)| process.stage != Stage::Ended);
        running.map(|(pid, _)| *pid).collect()
    }

    /// The units of systemd.
    pub fn units(&self) -> impl Iterator<Item = u32> {
        self.staged_units().map(|(unit, _)| unit.number)
    }

    /// The unit of a process.
    pub fn unit_of(&self, pid: u32) -> Option<u32> {
        let mut units = self.staged_units();
        let (unit, _) = units.find(|(unit, _)| unit.members.contains(&pid))?;
        Some(unit.number)
    }

    /// The units whose end the next reading reports.
    pub fn ending_units(&self) -> impl Iterator<Item = u32> {
        let units = self.staged_units();
        units
            .filter(|(_, stage)| *stage == Stage::Ending)
            .map(|(unit, _)| unit.number)
    }

    fn staged_units(&self) -> impl Iterator<Item = (&SystemdUnit, Stage)> {
        self.processes
            .values()
            .filter_map(|process| match &process.runs {
                Some(Runs::Unit(unit)) => Some((unit, process.stage)),
                _ => None,
            })
    }

    /// The processes if anything changed: lines `PID<TAB>START<TAB>ANCESTORS`, or `PID<TAB>ended`. START is in clock ticks
    /// since boot. The second value says whether another reading is due soon, because a process has just ended.
    pub fn read_if_changed(&mut self) -> (Option<PartReading>, bool) {
        let mut is_ending = false;
        let mut text = String::new();
        for (pid, process) in &mut self.processes {
            process.stage = match process.stage {
                Stage::Running if process.runs.as_mut().is_some_and(|runs| !runs.has_ended()) => {
                    Stage::Running
                }
                Stage::Running => Stage::Ending,
                Stage::Ending | Stage::Ended => Stage::Ended,
            };
            is_ending |= process.stage == Stage::Ending;
            if process.stage == Stage::Ended {
                _ = writeln!(text, "{pid}\tended");
            } else {
                text.push_str(&process.line);
            }
        }
        let is_new = self.text != text;
        self.text.clone_from(&text);
        let reading = is_new.then(|| PartReading::timed(Part::Backups, || Ok(text)));
        (reading, is_ending)
    }

    fn open(&self, pid: u32) -> Option<Watched> {
        let (runs, line) = if pid >= UNIT_NUMBERS {
            let unit = SystemdUnit::with_number(&self.root, pid)?;
            (Runs::Unit(unit), format!("{pid}\t0\t1\n"))
        } else {
            let process = self.root.process(pid)?;
            let stat = process.stat().ok()?;
            let started = stat.starttime;
            let chain = self.root.with_ancestors(stat);
            // The first process has the parent 0, which is listed too.
            let ancestors: Vec<String> = chain.map(|process| process.ppid.to_string()).collect();
            let line = format!("{pid}\t{started}\t{}\n", ancestors.join(" "));
            (Runs::Process(process), line)
        };
        Some(Watched {
            runs: Some(runs),
            line,
            stage: Stage::Running,
        })
    }
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

    /// A root with these processes: PID, name, parent. Process N started N seconds after boot.
    fn machine(processes: &[(u32, &str, u32)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (number, name, parent) in processes {
            let place = folder.path().join(format!("proc/{number}"));
            fs::create_dir_all(&place).unwrap();
            fs::write(
                place.join("stat"),
                format!(
                    "{number} ({name}) S {parent}{} {number}00{}\n",
                    " 1".repeat(17),
                    " 1".repeat(22)
                ),
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
        let expected = "1 (systemd) S 0 1 59\n40 (cron) S 1 1 20\n50 (nightly) S 40 1 10\n60 (lvcreate) S 50 1 0\n";
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
    fn a_unit_of_systemd_is_above_what_systemd_starts_until_its_control_group_is_gone() {
        let folder = machine(&[(1, "systemd", 0), (60, "lvcreate", 1)]);
        let unit = folder
            .path()
            .join("sys/fs/cgroup/system.slice/nightly.service");
        fs::create_dir_all(&unit).unwrap();
        fs::write(
            folder.path().join("proc/60/cgroup"),
            "0::/system.slice/nightly.service\n",
        )
        .unwrap();
        let mut makers = Makers::below(&Root(folder.path().into()));
        makers.read_if_new(Some(&answer(BEFORE)));
        let found = makers.read_if_new(Some(&answer(AFTER))).unwrap();
        let number = number_of(&unit).unwrap();
        assert_eq!(
            found.result.text().unwrap(),
            format!(
                "1 (systemd) S 0 1 59\n60 (lvcreate) S {number} 1 0\n{number} (nightly.service) S 1 1 0\n"
            )
        );
        fs::write(unit.join("cgroup.procs"), "70\n71\n").unwrap();
        let mut watched = WatchedProcesses::below(&Root(folder.path().into()));
        watched.watch(&[number]);
        assert_eq!(text(&mut watched).unwrap(), format!("{number}\t0\t1\n"));
        fs::write(unit.join("cgroup.procs"), "").unwrap();
        assert_eq!(text(&mut watched), None);
        assert_eq!(watched.unit_of(71), Some(number));
        assert_eq!(watched.unit_of(60), None);
        fs::remove_dir_all(&unit).unwrap();
        assert_eq!(text(&mut watched), None);
        assert_eq!(watched.ending_units().collect::<Vec<_>>(), [number]);
        assert_eq!(text(&mut watched).unwrap(), format!("{number}\tended\n"));
    }

    #[test]
    fn the_name_of_the_new_volume_is_read_and_nothing_else_of_a_command_line() {
        for (command, expected) in [
            ("lvcreate -qq -y -s -L 40M -n bk vg0/data", Some("vg0/bk")),
            (
                "lvcreate --snapshot --name=bk --size 1G /dev/vg0/data",
                Some("vg0/bk"),
            ),
            ("lvcreate -s -L1G -nbk /dev/mapper/vg0-data", Some("/bk")),
            (
                "/sbin/lvcreate -s -n /dev/vg0/bk -l 10%ORIGIN data",
                Some("vg0/bk"),
            ),
            (
                "lvm lvcreate -V 1G --thinpool pool -n thin vg0",
                Some("/thin"),
            ),
            ("lvcreate -s -L 1G vg0/data", None),
            ("lvcreate -s -n", None),
            ("lvcreate -n a;b vg0/data", None),
            ("lvcreate --password=geheim", None),
        ] {
            let arguments: Vec<String> = command.split(' ').map(String::from).collect();
            assert_eq!(new_volume(&arguments).as_deref(), expected, "{command}");
        }
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
            Some(ReadResult::Text("60 (lvcreate) S 50 1 0\n".into()))
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
        let expected = "5 (a) R 1?7 (evil) S 1 1 1\n6 (lvcreate) S 5 1 0\n";
        assert_eq!(
            results(&processes, &[BEFORE, AFTER])[1],
            Some(ReadResult::Text(expected.into()))
        );
    }

    #[test]
    fn a_cycle_of_parents_ends() {
        assert!(results(&[(5, "lvcreate", 6), (6, "sh", 5)], &[BEFORE, AFTER])[1].is_some());
    }

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
