//! Killed at any moment: every tick that was kept is there, once, with the right values, and the database is whole.
//!
//! A child appends ticks as fast as the disk takes them, one a minute by their clock, so that every ten are rolled up, and
//! a job with some of them, so that they are committed. It tells each tick that is kept, and is killed.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use jiff::SignedDuration;
use tempfile::TempDir;

use crate::daemon::block_on;
use crate::ticks::{self, Tick, disks, read_bytes, sectors};

/// Lives of the program that end by a kill at any moment.
const KILLS: u64 = 200;
/// And such as end within a call that commits, rolls up or moves the log into the database.
const KILLS_IN_CALLS: usize = 40;
/// Lives of one database: what has grown long takes long to check.
const LIVES: u64 = 20;
/// Enough to open, however busy the machine is.
const LONG_LIFE: Duration = Duration::from_secs(3);
/// A child that is to be killed within a call stops after so many ticks, so that the end of a life is among them.
const TICKS_OF_A_LIFE: u64 = 120;

const FOLDER: &str = "COWBELL_TEST_FOLDER";
const FIRST: &str = "COWBELL_TEST_FIRST";
const END: &str = "COWBELL_TEST_END";

/// A database and what is known to be in it.
struct Story {
    folder: TempDir,
    /// Ticks that the database has, from number 0 on.
    there: u64,
}

impl Story {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            there: 0,
        }
    }

    fn db(&self) -> PathBuf {
        self.folder.path().join("cowbell.db")
    }

    /// The child, by way of `strace` where it is to be killed within a call.
    fn child(&self, strace: &[&str]) -> Command {
        let end = if strace.is_empty() {
            u64::MAX
        } else {
            self.there + TICKS_OF_A_LIFE
        };
        let binary = std::env::current_exe().unwrap();
        let mut command = match strace {
            [] => Command::new(&binary),
            options => {
                let mut command = Command::new("strace");
                command
                    .args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"])
                    .args(options)
                    .arg(&binary);
                command
            }
        };
        command.args([
            "--exact",
            "kills::appends_until_it_is_killed",
            "--ignored",
            "--nocapture",
        ]);
        command
            .env(FOLDER, self.folder.path())
            .env(FIRST, self.there.to_string())
            .env(END, end.to_string());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }

    /// One life that ends after that time; or by itself, where there is none. Gives whether it was killed.
    fn live(&mut self, mut child: Command, life: Option<Duration>) -> bool {
        let mut child = child.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        if let Some(life) = life {
            std::thread::sleep(life);
            child.kill().unwrap();
        }
        let lines = output.lines().map_while(Result::ok);
        // The harness begins a line of its own.
        let told = lines.filter_map(|line| {
            line.rsplit_once("kept ")?
                .1
                .strip_suffix('.')?
                .parse::<u64>()
                .ok()
        });
        let told = told.last().map_or(self.there, |last| last + 1);
        let status = child.wait().unwrap();
        self.check(told);
        status.signal().is_some()
    }

    /// All that was told is there, and what else is there goes on behind it.
    fn check(&mut self, told: u64) {
        let inventory = match block_on(cowbell::store::inventory(&self.db())) {
            Ok(inventory) => inventory,
            // Killed while it made the database.
            Err(_) if told == 0 => return,
            Err(error) => panic!("{error:#}"),
        };
        assert_eq!(inventory.damage, Vec::<String>::new());
        let count = inventory.ticks.len() as u64;
        assert!(
            count >= told,
            "{told} ticks were kept, but {count} are there"
        );
        for (number, (at, elapsed_us)) in (0..).zip(&inventory.ticks) {
            assert_eq!(
                (*at, *elapsed_us),
                (Tick::of_minute(number).at, 60_000_000),
                "tick {number}"
            );
        }
        self.there = count;
    }

    /// After all lives: what is read is what was handed over, tick by tick and rolled up.
    async fn check_values(&self) {
        let (inlet, store) = ticks::open(&self.db()).await;
        let all: Vec<Tick> = (0..self.there).map(Tick::of_minute).collect();
        let half = SignedDuration::from_secs(30);
        for some in all.chunks(3_000) {
            let (from, to) = (some[0].at - half, some[some.len() - 1].at + half);
            let found = read_bytes(&store, from, to, 10_000).await;
            let expected: Vec<_> = some.iter().map(|tick| (tick.at, tick.sectors)).collect();
            assert_eq!(sectors(&found, SignedDuration::from_mins(1)), expected);
        }
        let sum = all.iter().map(|tick| tick.sectors).sum::<u64>() as f64;
        let expected = sum * 512.0 / (60 * all.len()) as f64;
        let found = read_bytes(&store, all[0].at, all[all.len() - 1].at, 1).await[0]
            .avg
            .unwrap();
        assert!(
            (found - expected).abs() <= 1e-9 * expected,
            "found {found}, expected {expected}"
        );
        inlet.close().await;
        let inventory = cowbell::store::inventory(&self.db()).await.unwrap();
        assert_eq!(inventory.ticks.len() as u64, self.there);
    }
}

fn kill_at_random_moments(stories: std::ops::Range<u64>) {
    for number in stories {
        let mut story = Story::new();
        for life in 0..LIVES {
            // Anywhere within a time in which it opens, replays, seals and rolls up.
            let view = Duration::from_micros((number * LIVES + life) * 61_803 % 100_000);
            let child = story.child(&[]);
            assert!(story.live(child, Some(view)));
        }
        // On a busy machine none of them lived long enough.
        if story.there == 0 {
            let child = story.child(&[]);
            assert!(story.live(child, Some(LONG_LIFE)));
        }
        assert!(story.there > 0);
        block_on(story.check_values());
    }
}

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let stories = KILLS / LIVES;
    let other = std::thread::spawn(move || kill_at_random_moments(0..stories / 2));
    kill_at_random_moments(stories / 2..stories);
    other.join().unwrap();
}

/// Calls that commit, roll up or move the log into the database, each by the file that it is made on; and which ones of a
/// life are tried.
const CALLS: [(&str, &str, std::ops::Range<usize>, usize); 4] = [
    ("pwrite64", "cowbell.db-wal", 1..220, 9),
    ("fsync", "cowbell.db-wal", 1..16, 2),
    ("pwrite64", "cowbell.db", 1..24, 3),
    ("ftruncate", "cowbell.db-wal", 1..2, 1),
];

/// Whether `strace` is installed. CI has to have it.
fn has_strace() -> bool {
    let found = Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    assert!(
        found || std::env::var_os("CI").is_none(),
        "CI needs strace (Debian's package strace)"
    );
    found
}

#[test]
fn a_kill_within_any_call_loses_nothing() {
    if !has_strace() {
        return eprintln!("skipped: strace is not installed (Debian's package strace)");
    }
    let mut killed = 0;
    for (call, file, calls, step) in CALLS {
        let mut story = Story::new();
        for number in calls.step_by(step) {
            let path = story.folder.path().join(file);
            let inject = format!("inject={call}:signal=KILL:when={number}");
            let child = story.child(&["-P", path.to_str().unwrap(), "-e", &inject]);
            killed += usize::from(story.live(child, None));
        }
        assert!(story.there > 0, "after {call} on {file}");
        block_on(story.check_values());
    }
    assert!(
        killed >= KILLS_IN_CALLS,
        "{killed} were killed; may strace trace here?"
    );
}

#[test]
#[ignore = "the child of the tests above"]
fn appends_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let [first, end] = [FIRST, END].map(|name| std::env::var(name).unwrap().parse().unwrap());
    block_on(append(&Path::new(&folder).join("cowbell.db"), first, end));
}

/// Hands over a few ticks at once, commits them, and tells of them.
async fn append(db: &Path, first: u64, end: u64) {
    let (mut inlet, _) = ticks::open(db).await;
    let topology = disks(&["sda", "sdb"]);
    let mut next = first;
    while next < end {
        for _ in 0..=next % 7 {
            inlet
                .append_tick(&Tick::of_minute(next).interval(&topology))
                .await;
            next += 1;
        }
        ticks::commit(&mut inlet).await;
        std::io::stdout()
            .write_all(format!("kept {}.\n", next - 1).as_bytes())
            .unwrap();
    }
    inlet.close().await;
}
