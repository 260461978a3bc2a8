//! The machine that this runs on: a reading each tick, and between ticks what is told from outside.

mod device_mapper;
mod extra;
mod makers;
mod reports;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::files::{KeptFile, Mounts, Root};
use super::hooks::HookListener;
use super::usage::Usage;
use super::{Hook, JobCommand, Part, Reading, Said, Text};
use crate::config::LvmSource;
use device_mapper::DeviceMapper;
use extra::ExtraTicks;
use makers::Makers;
use reports::Lvm;

/// Names of devices are read again after this long even when nothing seems to have changed, for renames that nobody
/// told of.
const NAMES_AGE: Duration = Duration::from_secs(10);
/// The same, where the device-mapper tells of renames.
const NAMES_AGE_WITH_EVENTS: Duration = Duration::from_secs(60);

/// Reads this machine at a fixed interval, and when the device-mapper says that something happened.
pub struct Live {
    root: Root,
    files: Files,
    ticker: tokio::time::Interval,
    interval: Duration,
    commands: mpsc::Receiver<JobCommand>,
    ear: Option<HookListener>,
    device_mapper: Option<DeviceMapper>,
    makers: Makers,
    names: Names,
    usage: Usage,
    lvm: Option<Lvm>,
    /// Said once: what is not read because the configuration says so.
    unasked: Vec<Text>,
    read_at: Option<Instant>,
    extra: ExtraTicks,
}

/// What is read at every tick.
struct Files {
    diskstats: KeptFile,
    vmstat: KeptFile,
    stat: KeptFile,
    pressure: KeptFile,
    mounts: Mounts,
}

/// When the names of the devices were read, and what the devices looked like then.
#[derive(Default)]
struct Names {
    /// `None` where they are to be read now.
    read_at: Option<Instant>,
    fingerprint: u64,
    text: Option<Said>,
}

impl Live {
    /// Reads below `root` at each `interval`. `commands` brings word from outside.
    pub fn new(
        root: Root,
        interval: Duration,
        source: LvmSource,
        commands: mpsc::Receiver<JobCommand>,
    ) -> std::io::Result<Self> {
        let mut ticker = tokio::time::interval(interval);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let files = Files {
            diskstats: root.keep("proc/diskstats"),
            vmstat: root.keep("proc/vmstat"),
            stat: root.keep("proc/stat"),
            pressure: root.keep("proc/pressure/io"),
            mounts: Mounts::below(&root),
        };
        Ok(Self {
            usage: Usage::below(&root),
            makers: Makers::below(&root),
            root,
            files,
            ticker,
            interval,
            commands,
            ear: None,
            device_mapper: if source.uses_dm() { Some(DeviceMapper::start()?) } else { None },
            names: Names::default(),
            lvm: source.uses_lvm().then(Lvm::new),
            unasked: unasked(source),
            read_at: None,
            extra: ExtraTicks::new(),
        })
    }

    /// Hears hooks too.
    pub fn hearing(self, ear: Option<HookListener>) -> Self {
        Self { ear, ..self }
    }

    /// Waits for the next tick, or the next word from outside.
    pub async fn next(&mut self) -> Reading {
        loop {
            tokio::select! {
                biased;
                _ = self.ticker.tick() => return self.read().await,
                () = self.extra.due() => return self.read().await,
                Some(word) = self.commands.recv() => return handed_on(vec![word], Vec::new()),
                hook = word_of(&mut self.ear) => return handed_on(Vec::new(), vec![hook]),
                () = answer_of(&mut self.lvm) => {}
                () = event_of(&mut self.device_mapper) => self.hear(),
            }
        }
    }

    /// Something happened: names are read anew, and soon. Who did it is looked for at once, since it may be gone by then.
    fn hear(&mut self) {
        self.names.read_at = None;
        if self.extra.plan(self.read_at) {
            self.makers.look();
        }
    }

    async fn read(&mut self) -> Reading {
        let started = Instant::now();
        self.read_at = Some(started);
        self.extra.ticked();
        let at = now();
        let uptime_us = uptime_us();
        let diskstats = timed(Part::Diskstats, || self.files.diskstats.read());
        let mut texts = vec![
            timed(Part::Vmstat, || self.files.vmstat.read()),
            timed(Part::Stat, || self.files.stat.read()),
            timed(Part::Pressure, || self.files.pressure.read()),
        ];
        if let Some(device_mapper) = &mut self.device_mapper {
            texts.push(device_mapper.read(self.interval / 2).await);
            if texts.last().is_some_and(|text| device_mapper.is_contradicted(text)) {
                self.names.read_at = None;
            }
            texts.extend(self.makers.read_if_new(texts.last()));
        }
        texts.extend(self.files.mounts.read_if_changed().map(|read| timed(Part::Mounts, || read)));
        texts.extend(self.read_names(&diskstats));
        texts.extend(self.ask_file_systems(&texts));
        texts.extend(self.lvm.iter_mut().flat_map(Lvm::said));
        texts.append(&mut self.unasked);
        texts.insert(0, diskstats);
        self.ask_for_report(&texts);
        Reading { at, uptime_us, took_us: micros(started), texts, commands: Vec::new(), hooks: Vec::new() }
    }

    /// The names of the devices, where they changed or are old.
    fn read_names(&mut self, diskstats: &Text) -> Option<Text> {
        let fingerprint = match &diskstats.said {
            Said::Text(text) => self.root.devices_fingerprint(text),
            Said::Error(_) => 0,
        };
        let hears = self.device_mapper.as_ref().is_some_and(DeviceMapper::hears);
        let age = if hears { NAMES_AGE_WITH_EVENTS } else { NAMES_AGE };
        let is_fresh = self.names.read_at.is_some_and(|at| at.elapsed() < age);
        if is_fresh && fingerprint == self.names.fingerprint {
            return None;
        }
        let text = timed(Part::Sysfs, || self.root.read_block_devices());
        self.names.read_at = Some(Instant::now());
        self.names.fingerprint = fingerprint;
        if self.names.text.as_ref() == Some(&text.said) {
            return None;
        }
        if let Some(lvm) = &mut self.lvm {
            lvm.names_changed();
        }
        self.names.text = Some(text.said.clone());
        Some(text)
    }

    /// What the file systems of snapshots told, which are known by the names and mounts that were read last.
    fn ask_file_systems(&mut self, texts: &[Text]) -> Option<Text> {
        for text in texts {
            match (text.part, &text.said) {
                (Part::Mounts, Said::Text(mounts)) => self.usage.mounts_are(mounts),
                (Part::Mounts, Said::Error(_)) => self.usage.mounts_are(""),
                (Part::Sysfs, Said::Text(names)) => self.usage.names_are(names),
                _ => {}
            }
        }
        self.usage.said()
    }

    fn ask_for_report(&mut self, texts: &[Text]) {
        let Some(lvm) = &mut self.lvm else { return };
        let said = |part: Part| texts.iter().find(|text| text.part == part).map(|text| &text.said);
        let has_dm = matches!(said(Part::Diskstats), Some(Said::Text(text)) if text.contains(" dm-"));
        let dm_answers = matches!(said(Part::Dm), Some(Said::Text(_)));
        lvm.ask(has_dm && !dm_answers);
    }
}

/// What the configuration says not to read is said in the first reading.
fn unasked(source: LvmSource) -> Vec<Text> {
    let text = |part: Part, why: &str| Text { part, said: Said::Error(why.into()), took_us: 0 };
    match source {
        LvmSource::Auto => Vec::new(),
        LvmSource::Dm => {
            let why = "LVM is not asked: the configuration says lvm.source = \"dm\"";
            vec![text(Part::Lvm, why), text(Part::LvmConfig, why)]
        }
        LvmSource::Lvs => {
            let why = "the device-mapper is not asked: the configuration says lvm.source = \"lvs\"";
            vec![text(Part::Dm, why)]
        }
    }
}

async fn answer_of(lvm: &mut Option<Lvm>) {
    match lvm {
        Some(lvm) => lvm.answer().await,
        None => std::future::pending().await,
    }
}

async fn event_of(device_mapper: &mut Option<DeviceMapper>) {
    match device_mapper {
        Some(device_mapper) => device_mapper.event().await,
        None => std::future::pending().await,
    }
}

async fn word_of(ear: &mut Option<HookListener>) -> Hook {
    match ear {
        Some(ear) => ear.next().await,
        None => std::future::pending().await,
    }
}

fn handed_on(commands: Vec<JobCommand>, hooks: Vec<Hook>) -> Reading {
    Reading { at: now(), uptime_us: uptime_us(), took_us: 0, texts: Vec::new(), commands, hooks }
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
