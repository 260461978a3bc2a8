//! Courses of backups that `tests/lab/scenarios/courses.sh` recorded: `tests/fixtures/courses/KIND-NUMBER.txt`. The odd
//! numbers of each kind are for tuning, the even ones for judging.

use std::fs;
use std::path::Path;

use cowbell::forecast::{PastRun, PastRuns};

/// A tick a second.
#[derive(Clone, Copy)]
pub struct Tick {
    pub at_s: f64,
    /// Read from the snapshot so far.
    pub read: f64,
    pub used: f64,
    pub total: f64,
}

pub struct Course {
    pub kind: String,
    pub number: u32,
    /// What its file system uses.
    pub expected: u64,
    pub done_s: Option<f64>,
    pub full_s: Option<f64>,
    pub ticks: Vec<Tick>,
    pub earlier: PastRuns,
}

/// All courses, in order of kind and number.
pub fn courses() -> Vec<Course> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/courses");
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "txt"));
    paths.sort();
    let mut courses: Vec<Course> = Vec::new();
    for path in paths {
        let mut course = Course::of(&fs::read_to_string(&path).unwrap());
        // Of this kind, all are backups of the same origin.
        if course.kind == "nightly" {
            let earlier = courses
                .iter()
                .rev()
                .filter(|other| other.kind == course.kind);
            course.earlier.runs = earlier.filter_map(Course::as_past_run).collect();
        }
        courses.push(course);
    }
    courses
}

impl Course {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\n\n").expect("a head, and a blank line");
        let value = |key: &str| {
            head.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        };
        let seconds = |key| value(key).map(|text| text.parse().unwrap());
        Self {
            kind: value("kind").unwrap().into(),
            number: value("number").unwrap().parse().unwrap(),
            expected: value("expected").unwrap().parse().unwrap(),
            done_s: seconds("done"),
            full_s: seconds("full"),
            ticks: body.lines().map(Tick::of).collect(),
            earlier: PastRuns::default(),
        }
    }

    pub fn is_for_judging(&self) -> bool {
        self.number.is_multiple_of(2)
    }

    /// When the first of both came.
    pub fn end_s(&self) -> f64 {
        self.done_s
            .unwrap_or(f64::INFINITY)
            .min(self.full_s.unwrap_or(f64::INFINITY))
    }

    /// When the size that it had at a tick was reached, whatever was added later; `None` if it never was.
    pub fn full_at(&self, tick: usize) -> Option<f64> {
        let total = self.ticks[tick].total;
        let reached = self.ticks[tick..]
            .windows(2)
            .find(|pair| pair[1].used >= total)
            .map(|pair| {
                let part = (total - pair[0].used) / (pair[1].used - pair[0].used);
                pair[0].at_s + (pair[1].at_s - pair[0].at_s) * part.clamp(0.0, 1.0)
            });
        reached.or(self
            .full_s
            .filter(|_| self.ticks.last().is_some_and(|last| last.total <= total)))
    }

    fn as_past_run(&self) -> Option<PastRun> {
        let seconds = self.done_s?;
        let last = self
            .ticks
            .iter()
            .take_while(|tick| tick.at_s <= seconds)
            .last()?;
        Some(PastRun {
            read_bytes: self.expected,
            seconds,
            file_system_bytes: Some(self.expected),
            grown_bytes: Some(last.used as u64),
        })
    }
}

impl Tick {
    fn of(line: &str) -> Self {
        let numbers: Vec<f64> = line
            .split(' ')
            .map(|number| number.parse().unwrap())
            .collect();
        let [at_s, read, used, total] = numbers[..] else {
            panic!("expected four numbers, but found {line:?}")
        };
        Self {
            at_s,
            read,
            used,
            total,
        }
    }
}
