//! How much the file systems of snapshots hold, asked beside the loop: a question to one may wait for ever.
//!
//! Each of a few mounts is asked when it comes, and each minute. One thread at most hangs in the kernel, and while it
//! does no other is started. Only what lies on a thick snapshot or on a thin volume is asked: which of those are
//! snapshots is LVM's to tell, and is understood later.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, fstat, fstatvfs, major, minor, open};

use super::files::{Root, unescaped};
use super::{Part, Text};

/// A snapshot's file system does not change, a thin volume's does.
const AGE: Duration = Duration::from_secs(60);
/// The kernel answers from memory; what takes longer waits for a disk, and that is said.
const DEADLINE: Duration = Duration::from_secs(2);
/// File systems that are asked at once.
const MOST_ASKED: usize = 64;

/// The question, and which mounts it is about.
pub struct Usage {
    root: Root,
    mounts: String,
    names: String,
    /// Lines of the table of mounts.
    chosen: Vec<String>,
    question: Option<Question>,
    /// Which were asked last, and when.
    asked: Option<(Vec<String>, Instant)>,
    /// Whether it was said that nothing is to be asked.
    said_nothing: bool,
}

/// A question that was not answered yet.
struct Question {
    at: Instant,
    reply: Receiver<Vec<UsageReply>>,
    is_late: bool,
}

/// A line of the table of mounts, and what was told of it.
struct UsageReply {
    mount: String,
    text: String,
}

impl Usage {
    pub fn below(root: &Root) -> Self {
        Self {
            root: root.clone(),
            mounts: String::new(),
            names: String::new(),
            chosen: Vec::new(),
            question: None,
            asked: None,
            said_nothing: false,
        }
    }

    /// The table of mounts is this one now.
    pub fn mounts_are(&mut self, mounts: &str) {
        self.mounts = mounts.into();
        self.choose();
    }

    /// The devices and their layers are these now.
    pub fn names_are(&mut self, names: &str) {
        self.names = names.into();
        self.choose();
    }

    fn choose(&mut self) {
        self.chosen = chosen(&self.mounts, &self.names);
    }

    /// What was told since the last tick, and asks again where that is due. Never waits.
    pub fn said(&mut self) -> Option<Text> {
        let text = self.answer();
        if self.question.is_none() && self.is_due() {
            self.ask();
        }
        let is_idle = self.chosen.is_empty() && self.question.is_none();
        let nothing = is_idle && !std::mem::replace(&mut self.said_nothing, is_idle);
        text.or_else(|| nothing.then(|| said(Ok(String::new()), Duration::ZERO)))
    }

    fn answer(&mut self) -> Option<Text> {
        let question = self.question.as_mut()?;
        let took = question.at.elapsed();
        let told = match question.reply.try_recv() {
            Ok(told) => told,
            Err(TryRecvError::Empty) if took > DEADLINE && !question.is_late => {
                question.is_late = true;
                return Some(said(Err(late(took)), took));
            }
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                self.question = None;
                return Some(said(Err("the thread that asks file systems has ended".into()), took));
            }
        };
        self.question = None;
        // What was mounted anew while the question hung is another.
        let still = told.into_iter().filter(|told| self.chosen.contains(&told.mount));
        Some(said(Ok(still.map(|told| told.text).collect()), took))
    }

    fn is_due(&self) -> bool {
        let is_fresh = |(of, at): &(Vec<String>, Instant)| *of == self.chosen && at.elapsed() < AGE;
        !self.chosen.is_empty() && !self.asked.as_ref().is_some_and(is_fresh)
    }

    fn ask(&mut self) {
        let (reply, answer) = channel();
        let (mounts, root) = (self.chosen.clone(), self.root.clone());
        let asking = move || {
            let tell = |mount: String| UsageReply { text: told(&root, &mount), mount };
            // Nobody waits any more where the program ends.
            let _ = reply.send(mounts.into_iter().map(tell).collect());
        };
        // Where no thread can be made the reply is dropped, and that is the answer.
        let _ = std::thread::Builder::new().name("file-systems".into()).spawn(asking);
        self.asked = Some((self.chosen.clone(), Instant::now()));
        self.question = Some(Question { at: Instant::now(), reply: answer, is_late: false });
    }
}

fn said(text: Result<String, String>, took: Duration) -> Text {
    Text {
        part: Part::Usage,
        said: text.into(),
        took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
    }
}

fn late(took: Duration) -> String {
    format!(
        "how much the file systems of snapshots hold is not known: the kernel has not told it for {:.1} s",
        took.as_secs_f64()
    )
}

/// The first mount of each device that lies on a COW area of its own, or on a thin pool.
fn chosen(mounts: &str, names: &str) -> Vec<String> {
    let numbers = snapshot_numbers(names);
    let mut seen = HashSet::new();
    let is_first = |line: &&str| {
        let number = line.split(' ').nth(2).unwrap_or_default();
        numbers.contains(number) && seen.insert(number.to_string())
    };
    mounts.lines().filter(is_first).take(MOST_ASKED).map(String::from).collect()
}

/// Numbers of devices whose UUID another one has with `-cow` behind it, or that lie on one that ends with `-tpool`.
fn snapshot_numbers(names: &str) -> HashSet<&str> {
    let attribute = |wished: &str| -> HashMap<&str, &str> {
        let attributes = names.lines().filter_map(|line| line.split_once('\t'));
        let named = attributes.filter_map(|(path, value)| Some((path.split_once('/')?, value)));
        named.filter(|((_, name), _)| *name == wished).map(|((device, _), value)| (device, value)).collect()
    };
    let (uuids, slaves) = (attribute("dm/uuid"), attribute("slaves"));
    let known: HashSet<&str> = uuids.values().copied().collect();
    let has_cow = |device: &str| {
        uuids.get(device).is_some_and(|uuid| !uuid.is_empty() && known.contains(&*format!("{uuid}-cow")))
    };
    let is_pool = |device: &str| uuids.get(device).is_some_and(|uuid| uuid.ends_with("-tpool"));
    let is_thin = |device: &str| {
        slaves.get(device).is_some_and(|slaves| slaves.split(' ').any(&is_pool)) && !is_pool(device)
    };
    let numbers = attribute("dev").into_iter();
    numbers.filter(|(device, _)| has_cow(device) || is_thin(device)).map(|(_, number)| number).collect()
}

/// `NUMBER<TAB>MOUNT<TAB>blocks<TAB>free<TAB>block size`, or behind the mount why that is not known.
fn told(root: &Root, mount: &str) -> String {
    let mut words = mount.split(' ');
    let (number, point) = (words.nth(2).unwrap_or_default(), words.nth(1).unwrap_or_default());
    let path = root.0.join(unescaped(point).trim_start_matches('/'));
    let mut text = format!("{number}\t{point}\t");
    let _ = match usage(&path, number) {
        Ok([blocks, free, size]) => writeln!(text, "{blocks}\t{free}\t{size}"),
        Err(why) => writeln!(text, "{why}"),
    };
    text
}

/// What `statvfs(3)` says of the file system that is mounted there, if it is on that device: something else may be
/// mounted above it.
fn usage(path: &Path, number: &str) -> Result<[u64; 3], String> {
    let folder =
        open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(|error| error.to_string())?;
    let device = fstat(&folder).map_err(|error| error.to_string())?.st_dev;
    let found = format!("{}:{}", major(device), minor(device));
    if found != number {
        return Err(format!("expected device {number} to be mounted there, but found {found}"));
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
        dm-5/dev\t253:5\ndm-5/dm/uuid\tLVM-THIN\ndm-5/slaves\tdm-4\n";

    fn line(number: &str, point: &str) -> String {
        format!("36 35 {number} / {point} rw - xfs /dev/mapper/it rw\n")
    }

    #[test]
    fn only_what_may_be_a_snapshot_is_asked_and_once() {
        let mounts = [
            line("8:0", "/"),
            line("253:0", "/data"),
            line("253:3", "/mnt/a"),
            line("253:3", "/mnt/b"),
            line("253:5", "/thin"),
        ];
        let expected = [mounts[2].trim_end(), mounts[4].trim_end()];
        assert_eq!(chosen(&mounts.concat(), NAMES), expected);
        assert!(chosen(&mounts.concat(), "").is_empty());
    }

    #[test]
    fn a_file_system_tells_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("my data")).unwrap();
        let device = rustix::fs::stat(folder.path()).unwrap().st_dev;
        let number = format!("{}:{}", major(device), minor(device));
        let text = told(&Root(folder.path().into()), &line(&number, "/my\\040data"));
        let columns: Vec<&str> = text.trim_end().split('\t').collect();
        assert_eq!(columns[..2], [&*number, "/my\\040data"], "{text}");
        let [blocks, free, size] = columns[2..] else { panic!("{text}") };
        assert!(blocks.parse::<u64>().unwrap() >= free.parse().unwrap() && size.parse::<u64>().unwrap() > 0);
    }

    #[test]
    fn what_cannot_be_asked_says_why() {
        let root = Root("/".into());
        let text = told(&root, &line("253:99", "/"));
        assert!(
            text.starts_with("253:99\t/\texpected device 253:99 to be mounted there, but found "),
            "{text}"
        );
        let text = told(&root, &line("253:99", "/there/is/no/such"));
        assert!(text.contains("No such file"), "{text}");
    }

    #[test]
    fn a_question_that_hangs_is_the_only_one_and_is_said_once() {
        let mut usage = Usage::below(&Root("/".into()));
        assert_eq!(usage.said().unwrap().said, super::super::Said::Text(String::new()));
        let (reply, answer) = channel();
        let at = Instant::now().checked_sub(DEADLINE * 2).unwrap();
        usage.names_are(NAMES);
        usage.mounts_are(&line("253:3", "/mnt/a"));
        usage.question = Some(Question { at, reply: answer, is_late: false });
        let error = |text: Option<Text>| match text?.said {
            super::super::Said::Error(error) => Some(error),
            super::super::Said::Text(_) => None,
        };
        assert!(error(usage.said()).unwrap().contains("has not told it for 4.0 s"));
        assert!(usage.said().is_none() && usage.asked.is_none(), "no second one is asked");
        // It is answered at last, but of what is not mounted any more.
        let old = UsageReply { mount: "old".into(), text: "253:3\t/mnt/a\t1\t1\t1\n".into() };
        reply.send(vec![old]).unwrap();
        assert_eq!(usage.said().unwrap().said, super::super::Said::Text(String::new()));
        assert!(usage.question.is_some(), "and what is there is asked");
    }
}
