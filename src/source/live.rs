//! The machine that this runs on: a reading each tick, and between ticks the marks that come from outside.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::files::{KeptFile, Root};
use super::{Mark, Part, Reading, Said, Text, dm, lvm};

/// The device-mapper answers in microseconds, but waits for a pool's commit, and so for the disk; longer than this a
/// tick does not wait with it.
const DM_DEADLINE: Duration = Duration::from_millis(400);
/// Names of devices are read again after this long even when nothing seems to have changed, for renames.
const NAMES_AGE: Duration = Duration::from_secs(10);
/// LVM is asked again after this long even when nothing seems to have changed.
const REPORT_AGE: Duration = Duration::from_secs(60);
/// LVM is not asked more often than this, however often volumes come and go.
const REPORT_PAUSE: Duration = Duration::from_secs(2);

/// Reads this machine at a fixed interval.
pub struct Live {
    root: Root,
    files: Files,
    ticker: tokio::time::Interval,
    interval: Duration,
    marks: mpsc::Receiver<Mark>,
    device_mapper: dm::Worker,
    names: Names,
    reporter: lvm::Reporter,
    report: Option<Text>,
    /// Set when the names changed and LVM was not asked since.
    report_is_due: bool,
    reported_at: Option<Instant>,
}

/// What is read at every tick.
struct Files {
    diskstats: KeptFile,
    vmstat: KeptFile,
    stat: KeptFile,
    pressure: KeptFile,
}

/// When the names of the devices were read, and what the devices looked like then.
#[derive(Default)]
struct Names {
    read_at: Option<Instant>,
    fingerprint: u64,
    text: Option<Said>,
}

impl Live {
    /// Reads below `root` at each `interval`. `marks` brings word from outside.
    pub fn new(root: Root, interval: Duration, marks: mpsc::Receiver<Mark>) -> std::io::Result<Self> {
        let mut ticker = tokio::time::interval(interval);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let files = Files {
            diskstats: root.keep("proc/diskstats"),
            vmstat: root.keep("proc/vmstat"),
            stat: root.keep("proc/stat"),
            pressure: root.keep("proc/pressure/io"),
        };
        Ok(Self {
            root,
            files,
            ticker,
            interval,
            marks,
            device_mapper: dm::Worker::start()?,
            names: Names::default(),
            reporter: lvm::Reporter::default(),
            report: None,
            report_is_due: true,
            reported_at: None,
        })
    }

    /// Waits for the next tick, or the next mark.
    pub async fn next(&mut self) -> Reading {
        loop {
            tokio::select! {
                biased;
                _ = self.ticker.tick() => return self.read().await,
                Some(mark) = self.marks.recv() => return handed_on(mark),
                answer = self.reporter.answer() => self.keep_report(answer),
            }
        }
    }

    async fn read(&mut self) -> Reading {
        let started = Instant::now();
        let at = now();
        let uptime_us = uptime_us();
        let diskstats = timed(Part::Diskstats, || self.files.diskstats.read());
        let mut texts = vec![
            timed(Part::Vmstat, || self.files.vmstat.read()),
            timed(Part::Stat, || self.files.stat.read()),
            timed(Part::Pressure, || self.files.pressure.read()),
            self.read_device_mapper().await,
        ];
        texts.extend(self.read_names(&diskstats));
        texts.extend(self.report.take());
        texts.insert(0, diskstats);
        self.ask_for_report();
        Reading { at, uptime_us, took_us: micros(started), texts, marks: Vec::new() }
    }

    async fn read_device_mapper(&mut self) -> Text {
        let started = Instant::now();
        let answer = self.device_mapper.read(DM_DEADLINE.min(self.interval / 2)).await;
        Text { part: Part::Dm, said: answer.into(), took_us: micros(started) }
    }

    /// The names of the devices, where they changed or are old.
    fn read_names(&mut self, diskstats: &Text) -> Option<Text> {
        let fingerprint = match &diskstats.said {
            Said::Text(text) => self.root.devices_fingerprint(text),
            Said::Error(_) => 0,
        };
        let is_fresh = self.names.read_at.is_some_and(|at| at.elapsed() < NAMES_AGE);
        if is_fresh && fingerprint == self.names.fingerprint {
            return None;
        }
        let text = timed(Part::Sysfs, || self.root.read_block_devices());
        if self.names.text.as_ref() != Some(&text.said) {
            self.report_is_due = true;
            self.names.text = Some(text.said.clone());
        }
        self.names.read_at = Some(Instant::now());
        self.names.fingerprint = fingerprint;
        Some(text)
    }

    fn ask_for_report(&mut self) {
        if self.reporter.is_busy() {
            return;
        }
        let age = self.reported_at.map_or(Duration::MAX, |at| at.elapsed());
        if age >= REPORT_AGE || (self.report_is_due && age >= REPORT_PAUSE) {
            self.reporter.start();
            self.reported_at = Some(Instant::now());
            self.report_is_due = false;
        }
    }

    fn keep_report(&mut self, answer: Result<String, lvm::NoReport>) {
        self.report_is_due |= matches!(answer, Err(lvm::NoReport::NotNow(_)));
        let answer = answer.map_err(lvm::NoReport::sentence);
        let took_us = self.reported_at.map_or(0, micros);
        self.report = Some(Text { part: Part::Lvm, said: answer.into(), took_us });
    }
}

fn handed_on(mark: Mark) -> Reading {
    Reading { at: now(), uptime_us: uptime_us(), took_us: 0, texts: Vec::new(), marks: vec![mark] }
}

fn timed(part: Part, read: impl FnOnce() -> Result<String, String>) -> Text {
    let started = Instant::now();
    let said = read().into();
    Text { part, said, took_us: micros(started) }
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// The wall clock, cut to the millisecond in which everything is kept.
pub fn now() -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond()).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn uptime_us() -> u64 {
    let clock = clock_gettime(ClockId::Boottime);
    u64::try_from(clock.tv_sec).unwrap_or_default() * 1_000_000
        + u64::try_from(clock.tv_nsec).unwrap_or_default() / 1_000
}
