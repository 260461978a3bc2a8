//! Used space of file systems on snapshots, read beside the loop: a `statvfs` may wait forever. Mounts on thick
//! snapshots and thin volumes, and on what lies on those, such as LUKS, are queried when they appear and every minute, by at most one thread at a time.
//!
//! A result counts only if the path leads to that very device: another mount may cover it, and the service's sandbox
//! hides mounts below `/home`, `/root` and `/tmp`.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, fstat, fstatvfs, major, minor, open};

use super::clock::micros;
use super::files::{Root, unescaped};
use super::slow::SlowThread;
use super::{Part, PartReading};

/// Maximum age of an answer: a thick snapshot's usage is constant, a thin volume's is not.
const AGE: Duration = Duration::from_secs(60);
/// The kernel answers from memory; a longer query waits for a disk and is reported as an error.
const DEADLINE: Duration = Duration::from_secs(2);
/// Maximum number of file systems per query.
const MAX_MOUNTS: usize = 64;

/// The query and its mounts.
pub struct UsageQuery {
    /// A request has lines of mountinfo.
    thread: SlowThread<Vec<String>, Vec<UsageReply>>,
    mounts: String,
    /// Whether some of them are gone, which a query may not have known.
    has_gone: bool,
    names: String,
    /// Lines of mountinfo.
    chosen: Vec<String>,
    /// Those of the last query.
    asked: Vec<String>,
    /// Whether an empty text was returned since the last mount.
    reported_empty: bool,
}

/// A line of mountinfo and its usage.
struct UsageReply {
    mount: String,
    text: String,
    is_known: bool,
}

impl UsageQuery {
    pub fn below(root: &Root) -> Self {
        let root = root.clone();
        Self::with(SlowThread::new(
            "file-systems",
            move |mounts: Vec<String>| {
                let reply = |mount: String| usage_line(&root, mount);
                mounts.into_iter().map(reply).collect()
            },
        ))
    }

    fn with(thread: SlowThread<Vec<String>, Vec<UsageReply>>) -> Self {
        Self {
            thread,
            mounts: String::new(),
            has_gone: false,
            names: String::new(),
            chosen: Vec::new(),
            asked: Vec::new(),
            reported_empty: false,
        }
    }

    /// Updates the mount table; `has_gone`: also with mounts that are not there any more.
    pub fn set_mounts(&mut self, mounts: &str, has_gone: bool) {
        self.mounts = mounts.into();
        self.has_gone = has_gone;
        self.chosen = chosen(&self.mounts, &self.names);
    }

    /// Updates devices and layers.
    pub fn set_names(&mut self, names: &str) {
        self.names = names.into();
        self.chosen = chosen(&self.mounts, &self.names);
    }

    /// The answer since the last tick, if any; starts a new query if one is due. Never waits.
    pub fn poll(&mut self) -> Option<PartReading> {
        let text = self.answer();
        self.ask();
        let is_idle = self.chosen.is_empty() && !self.thread.is_busy();
        let nothing = is_idle && !std::mem::replace(&mut self.reported_empty, is_idle);
        text.or_else(|| nothing.then(|| reading(Ok(String::new()), Duration::ZERO)))
    }

    /// Starts a query if one is due. Its answer is returned by [`UsageQuery::poll`].
    pub fn ask(&mut self) {
        if self.chosen.is_empty() {
            // The next snapshot may have the same number, and its mount the same line.
            self.asked.clear();
        } else if !self.thread.is_busy() {
            if self.asked != self.chosen {
                self.asked.clone_from(&self.chosen);
                self.thread.forget_last();
            }
            self.thread.ask_every(AGE, self.asked.clone());
        }
    }

    fn answer(&mut self) -> Option<PartReading> {
        Some(match self.thread.poll(DEADLINE)? {
            Ok(answer) => {
                // A mount that was replaced during the query is another file system.
                let still = answer
                    .value
                    .into_iter()
                    .filter(|reply| self.chosen.contains(&reply.mount))
                    .filter(|reply| reply.is_known || !self.has_gone);
                reading(Ok(still.map(|reply| reply.text).collect()), answer.took)
            }
            Err(none) => {
                let why = none.sentence("the kernel");
                let why = format!("the usage of file systems on snapshots is unknown: {why}");
                reading(Err(why), none.waited())
            }
        })
    }
}

fn reading(text: Result<String, String>, took: Duration) -> PartReading {
    PartReading {
        part: Part::Usage,
        result: text.into(),
        took_us: micros(took),
    }
}

/// The first mount of each device on a COW area or thin pool.
fn chosen(mounts: &str, names: &str) -> Vec<String> {
    let numbers = snapshot_numbers(names);
    let mut seen = HashSet::new();
    let is_first = |line: &&str| {
        let number = line.split(' ').nth(2).unwrap_or_default();
        numbers.contains(number) && seen.insert(number.to_string())
    };
    mounts
        .lines()
        .filter(is_first)
        .take(MAX_MOUNTS)
        .map(String::from)
        .collect()
}

/// Numbers of devices with a `-cow` device of the same UUID, or on a device whose UUID ends with `-tpool`; and of all
/// devices on these.
fn snapshot_numbers(names: &str) -> HashSet<&str> {
    let attribute = |wished: &str| -> HashMap<&str, &str> {
        let attributes = names.lines().filter_map(|line| line.split_once('\t'));
        let named = attributes.filter_map(|(path, value)| Some((path.split_once('/')?, value)));
        named
            .filter(|((_, name), _)| *name == wished)
            .map(|((device, _), value)| (device, value))
            .collect()
    };
    let (uuids, slaves) = (attribute("dm/uuid"), attribute("slaves"));
    let known: HashSet<&str> = uuids.values().copied().collect();
    let has_cow = |device: &str| {
        uuids
            .get(device)
            .is_some_and(|uuid| !uuid.is_empty() && known.contains(&*format!("{uuid}-cow")))
    };
    let is_pool = |device: &str| {
        uuids
            .get(device)
            .is_some_and(|uuid| uuid.ends_with("-tpool"))
    };
    let is_thin = |device: &str| {
        slaves
            .get(device)
            .is_some_and(|slaves| slaves.split(' ').any(&is_pool))
            && !is_pool(device)
    };
    let numbers = attribute("dev");
    let devices = || numbers.keys().copied();
    let is_snapshot = |device: &&str| has_cow(device) || is_thin(device);
    let mut found: HashSet<&str> = devices().filter(is_snapshot).collect();
    // As often as something lies on what was found before.
    loop {
        let lies_on_found = |device: &str| {
            slaves
                .get(device)
                .is_some_and(|slaves| slaves.split(' ').any(|slave| found.contains(slave)))
        };
        let is_new = |device: &&str| !found.contains(device) && lies_on_found(device);
        let new: Vec<&str> = devices().filter(is_new).collect();
        if new.is_empty() {
            break;
        }
        found.extend(new);
    }
    found
        .iter()
        .filter_map(|device| numbers.get(device))
        .copied()
        .collect()
}

/// `NUMBER<TAB>MOUNT<TAB>blocks<TAB>free<TAB>block size`, or an error after the mount.
fn usage_line(root: &Root, mount: String) -> UsageReply {
    let mut words = mount.split(' ');
    let (number, point) = (
        words.nth(2).unwrap_or_default(),
        words.nth(1).unwrap_or_default(),
    );
    let path = root.0.join(unescaped(point).trim_start_matches('/'));
    let found = usage(&path, number);
    let text = match &found {
        Ok([blocks, free, size]) => format!("{number}\t{point}\t{blocks}\t{free}\t{size}\n"),
        Err(why) => format!("{number}\t{point}\t{why}\n"),
    };
    UsageReply {
        is_known: found.is_ok(),
        text,
        mount,
    }
}

/// The result of `statvfs(3)`, if the path is on that device: another file system may hide the mount.
fn usage(path: &Path, number: &str) -> Result<[u64; 3], String> {
    let folder = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| error.to_string())?;
    let device = fstat(&folder).map_err(|error| error.to_string())?.st_dev;
    let found = format!("{}:{}", major(device), minor(device));
    if found != number {
        return Err(format!(
            "expected device {number} to be mounted there, but found {found}"
        ));
    }
    let usage = fstatvfs(&folder).map_err(|error| error.to_string())?;
    Ok([usage.f_blocks, usage.f_bfree, usage.f_frsize])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "sda/dev\t8:0\nsda/slaves\t\n\
        dm-0/dev\t253:0\ndm-0/dm/uuid\tLVM-DATA\ndm-0/slaves\tdm-1\n\
        dm-1/dev\t253:1\ndm-1/dm/uuid\tLVM-DATA-real\ndm-1/slaves\tsda\n\
        dm-2/dev\t253:2\ndm-2/dm/uuid\tLVM-SNAP-cow\ndm-2/slaves\tsda\n\
        dm-3/dev\t253:3\ndm-3/dm/uuid\tLVM-SNAP\ndm-3/slaves\tdm-1 dm-2\n\
        dm-4/dev\t253:4\ndm-4/dm/uuid\tLVM-POOL-tpool\ndm-4/slaves\tsda\n\
        dm-5/dev\t253:5\ndm-5/dm/uuid\tLVM-THIN\ndm-5/slaves\tdm-4\n\
        dm-6/dev\t253:6\ndm-6/dm/uuid\tpart1-LVM-SNAP\ndm-6/slaves\tdm-3\n\
        dm-7/dev\t253:7\ndm-7/dm/uuid\tCRYPT-LUKS2-1\ndm-7/slaves\tdm-6\n\
        dm-8/dev\t253:8\ndm-8/dm/uuid\tCRYPT-LUKS2-2\ndm-8/slaves\tdm-0\n";

    fn line(number: &str, point: &str) -> String {
        format!("36 35 {number} / {point} rw - xfs /dev/mapper/it rw\n")
    }

    #[test]
    fn each_possible_snapshot_is_queried_once() {
        let mounts = [
            line("8:0", "/"),
            line("253:0", "/data"),
            line("253:3", "/mnt/a"),
            line("253:3", "/mnt/b"),
            line("253:5", "/thin"),
            line("253:7", "/mnt/luks-on-a-partition"),
            line("253:8", "/luks-on-the-origin"),
        ];
        let expected = [2, 4, 5].map(|index: usize| mounts[index].trim_end());
        assert_eq!(chosen(&mounts.concat(), NAMES), expected);
        assert!(chosen(&mounts.concat(), "").is_empty());
    }

    #[test]
    fn usage_is_that_of_statvfs() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("my data")).unwrap();
        let device = rustix::fs::stat(folder.path()).unwrap().st_dev;
        let number = format!("{}:{}", major(device), minor(device));
        let text = usage_line(&Root(folder.path().into()), line(&number, "/my\\040data")).text;
        let columns: Vec<&str> = text.trim_end().split('\t').collect();
        assert_eq!(columns[..2], [&*number, "/my\\040data"], "{text}");
        let [blocks, free, size] = columns[2..] else {
            panic!("{text}")
        };
        assert!(
            blocks.parse::<u64>().unwrap() >= free.parse().unwrap()
                && size.parse::<u64>().unwrap() > 0
        );
    }

    #[test]
    fn errors_explain_why() {
        let root = Root("/".into());
        let text = usage_line(&root, line("253:99", "/")).text;
        assert!(
            text.starts_with("253:99\t/\texpected device 253:99 to be mounted there, but found "),
            "{text}"
        );
        let text = usage_line(&root, line("253:99", "/there/is/no/such")).text;
        assert!(text.contains("No such file"), "{text}");
    }

    #[test]
    fn an_answer_about_a_mount_that_is_gone_does_not_count() {
        let (sender, answers) = std::sync::mpsc::channel();
        let thread = SlowThread::new("test", move |_| answers.recv().unwrap());
        let mut usage = UsageQuery::with(thread);
        let text = |text: &str| super::super::ReadResult::Text(text.into());
        assert_eq!(usage.poll().unwrap().result, text(""));
        usage.set_names(NAMES);
        usage.set_mounts(&line("253:3", "/mnt/a"), false);
        assert!(usage.poll().is_none() && usage.thread.is_busy());
        for (mount, expected) in [("old".to_string(), ""), (usage.chosen[0].clone(), "line\n")] {
            let reply = UsageReply {
                mount,
                text: "line\n".into(),
                is_known: true,
            };
            sender.send(vec![reply]).unwrap();
            let found = loop {
                // Another query is due at once.
                usage.thread.forget_last();
                if let Some(reading) = usage.poll() {
                    break reading;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            assert_eq!(found.result, text(expected));
        }
    }

    #[test]
    fn a_mount_of_a_moment_counts_if_its_usage_was_read_in_time() {
        let mount = line("253:3", "/mnt/a");
        for (is_known, expected) in [(true, "line\n"), (false, "")] {
            let reply = move |mounts: Vec<String>| {
                let mount = mounts[0].clone();
                let text = "line\n".into();
                vec![UsageReply {
                    mount,
                    text,
                    is_known,
                }]
            };
            let mut usage = UsageQuery::with(SlowThread::new("test", reply));
            usage.set_names(NAMES);
            usage.set_mounts(&mount, false);
            usage.ask();
            // It is unmounted, and then it is a part of one more reading.
            usage.set_mounts("", false);
            usage.ask();
            usage.set_mounts(&mount, true);
            let found = loop {
                if let Some(reading) = usage.poll() {
                    break reading;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            assert_eq!(
                found.result,
                super::super::ReadResult::Text(expected.into())
            );
        }
    }

    #[test]
    fn the_next_snapshot_is_queried_though_its_mount_has_the_same_line() {
        let mut usage = UsageQuery::with(SlowThread::new("test", |_| Vec::new()));
        usage.set_names(NAMES);
        for _ in 0..2 {
            usage.set_mounts(&line("253:3", "/mnt/a"), false);
            usage.poll();
            assert!(usage.thread.is_busy());
            usage.set_mounts("", false);
            while usage.thread.is_busy() {
                usage.poll();
            }
        }
    }
}
