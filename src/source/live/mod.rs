//! The machine that cowbell runs on: a reading each tick, and messages of hooks in between.

pub mod device_mapper;
pub mod exits;
pub mod kernel_log;
mod processes;
mod reports;
mod touched;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use futures_util::future::OptionFuture;

use super::backup::PlanQuery;
use super::clock::{Ticker, micros, now, uptime_us};
use super::files::{LockEvents, MountEvents, Mounts, OpenFile, Root};
use super::guard::GuardStateFile;
use super::hooks::HookListener;
use super::rate::ExtraTicks;
use super::usage::UsageQuery;
use super::{Part, PartReading, ReadError, ReadResult, Reading};
use crate::config::LvmSource;
use device_mapper::DmSource;
use exits::ProcessExits;
use kernel_log::KernelLog;
use processes::{Makers, WatchedProcesses};
use reports::LvmReports;
use touched::TouchedAreas;

/// Maximum age of device names and attributes.
const NAMES_AGE: Duration = Duration::from_secs(60);
/// The same if device-mapper devices may be renamed without an event.
const NAMES_AGE_WITHOUT_EVENTS: Duration = Duration::from_secs(10);

/// Reads this machine at a fixed interval, and after device-mapper events.
pub struct Live {
    root: Root,
    files: Files,
    ticker: Ticker,
    interval: Duration,
    /// Receives messages of hooks too, if set.
    pub hook_listener: Option<HookListener>,
    device_mapper: Option<DmSource>,
    makers: Makers,
    watched: WatchedProcesses,
    exits: ProcessExits,
    /// While backups run.
    mount_events: Option<MountEvents>,
    /// Of LVM's commands, from the first on.
    lock_events: Option<LockEvents>,
    kernel_log: KernelLog,
    /// `None` without the device-mapper. A later `Live` can continue its counts.
    pub touched: Option<TouchedAreas>,
    names: Names,
    plans: Vec<PlanQuery>,
    guard: Option<GuardStateFile>,
    usage: Option<UsageQuery>,
    lvm: Option<LvmReports>,
    /// Parts that the configuration disables, for the first reading.
    disabled: Vec<PartReading>,
    read_at: Option<Instant>,
    extra: ExtraTicks,
}

/// Files that are read at every tick.
struct Files {
    diskstats: OpenFile,
    host: Option<HostFiles>,
    mounts: Mounts,
}

struct HostFiles {
    vmstat: OpenFile,
    stat: OpenFile,
    pressure: OpenFile,
}

/// The device names, when they were read, and the fingerprint of the devices then.
#[derive(Default)]
struct Names {
    /// `None` if they are due.
    read_at: Option<Instant>,
    fingerprint: u64,
    text: Option<ReadResult>,
}

impl Live {
    /// Reads below `root` at each `interval`.
    pub fn new(root: Root, interval: Duration, source: LvmSource) -> std::io::Result<Self> {
        let device_mapper = source.uses_dm().then(DmSource::open);
        let live = Self::unprivileged(root, interval)?;
        Ok(Self {
            lock_events: LockEvents::below(&live.root),
            plans: PlanQuery::all_below(&live.root),
            guard: Some(GuardStateFile::below(&live.root)),
            usage: Some(UsageQuery::below(&live.root)),
            touched: device_mapper.is_some().then(TouchedAreas::default),
            device_mapper,
            lvm: source.uses_lvm().then(LvmReports::new),
            disabled: disabled(source),
            ..live
        })
    }

    /// What `cowbell guard` decides by: devices and mounts, and LVM only when it is asked.
    pub fn for_guard(root: Root, interval: Duration) -> std::io::Result<Self> {
        let mut live = Self::unprivileged(root, interval)?;
        live.files.host = None;
        Ok(Self {
            usage: Some(UsageQuery::below(&live.root)),
            device_mapper: Some(DmSource::open()),
            lvm: Some(LvmReports::on_demand()),
            ..live
        })
    }

    /// Asks LVM unless it is being asked; its report is part of a later reading. Returns whether it was asked now.
    pub fn ask_lvm(&mut self) -> bool {
        self.lvm.as_mut().is_some_and(LvmReports::ask)
    }

    /// Reads only what every user may read: no device-mapper, no LVM, no file systems on snapshots, no plan of backups.
    pub fn unprivileged(root: Root, interval: Duration) -> std::io::Result<Self> {
        let files = Files {
            diskstats: root.keep("proc/diskstats"),
            host: Some(HostFiles {
                vmstat: root.keep("proc/vmstat"),
                stat: root.keep("proc/stat"),
                pressure: root.keep("proc/pressure/io"),
            }),
            mounts: Mounts::below(&root),
        };
        Ok(Self {
            plans: Vec::new(),
            guard: None,
            usage: None,
            makers: Makers::below(&root),
            watched: WatchedProcesses::below(&root),
            exits: ProcessExits::below(&root),
            mount_events: None,
            lock_events: None,
            kernel_log: KernelLog::below(&root),
            root,
            files,
            ticker: Ticker::every(interval)?,
            interval,
            hook_listener: None,
            device_mapper: None,
            touched: None,
            names: Names::default(),
            lvm: None,
            disabled: Vec::new(),
            read_at: None,
            extra: ExtraTicks::default(),
        })
    }

    /// Starts processes that create the probes of maps.
    pub fn create_probes(&mut self) {
        if let Some(touched) = &mut self.touched {
            touched.create_probes();
        }
    }

    /// Reads exits through a netlink socket of the host's network namespace.
    pub fn inherit_netlink(&mut self, socket: OwnedFd) {
        self.exits.inherit(socket);
    }

    /// Waits for the next tick or hook message.
    pub async fn next(&mut self) -> Reading {
        loop {
            tokio::select! {
                biased;
                () = self.ticker.tick() => return self.read().await,
                () = self.extra.due() => return self.read().await,
                Some(hook) = OptionFuture::from(self.hook_listener.as_mut().map(HookListener::next)) => {
                    // mylvmbackup goes on at once, so the state at this step can be read only now.
                    self.extra.plan(None);
                    self.exits.collect(&self.watched, hook.at);
                    return Reading::between_ticks(hook.at, Vec::new(), vec![hook]);
                }
                Some(()) = OptionFuture::from(self.mount_events.as_mut().map(MountEvents::next)) => {
                    // A script removes its snapshot soon after it has unmounted it, and with that the count of what was read.
                    self.extra.plan(self.read_at);
                    self.exits.expect_processes();
                    self.note_mounts();
                }
                Some(()) = OptionFuture::from(self.lock_events.as_mut().map(LockEvents::next)) => {
                    self.makers.look();
                    // It may be about to remove a snapshot that was read without being mounted.
                    if !self.watched.is_empty() {
                        self.extra.plan(self.read_at);
                    }
                }
                Some(()) = OptionFuture::from(self.lvm.as_mut().map(LvmReports::answer)) => {
                    // Only a report tells that a new thin volume is a snapshot, which may be removed soon.
                    if self.lvm.as_ref().is_some_and(|lvm| lvm.is_awaited) {
                        self.extra.plan(None);
                    }
                }
                Some(()) = OptionFuture::from(self.device_mapper.as_mut().map(DmSource::event)) => {
                    self.on_event();
                }
            }
        }
    }

    /// Watches these processes of backups, and no others.
    pub fn watch(&mut self, pids: &[u32]) {
        if self.watched.watch(pids) {
            self.exits.listen(!pids.is_empty());
            self.mount_events = match self.mount_events.take() {
                _ if pids.is_empty() => None,
                None => MountEvents::below(&self.root),
                events => events,
            };
        }
    }

    /// A small file system is mounted for a moment only, in which its usage is known.
    fn note_mounts(&mut self) {
        if let Some(mounts) = self.files.mounts.note()
            && let Some(usage) = &mut self.usage
        {
            usage.set_mounts(&mounts, false);
            usage.ask();
        }
    }

    /// Schedules reading the names, in an extra tick. Looks for the snapshot's creator at once, since it may end before that
    /// tick.
    fn on_event(&mut self) {
        self.names.read_at = None;
        if self.lock_events.is_none() {
            self.lock_events = LockEvents::below(&self.root);
        }
        if self.extra.plan(self.read_at) {
            self.makers.look();
        }
    }

    /// Reads now.
    pub async fn read(&mut self) -> Reading {
        let started = Instant::now();
        self.read_at = Some(started);
        self.extra.ticked();
        let at = now();
        let uptime_us = uptime_us();
        if let Some(device_mapper) = &mut self.device_mapper {
            device_mapper.request();
        }
        let diskstats = PartReading::timed(Part::Diskstats, || self.files.diskstats.read());
        let mut texts = Vec::new();
        if let Some(host) = &mut self.files.host {
            texts.extend([
                PartReading::timed(Part::Vmstat, || host.vmstat.read()),
                PartReading::timed(Part::Stat, || host.stat.read()),
                PartReading::timed(Part::Pressure, || host.pressure.read()),
            ]);
        }
        if let Some(device_mapper) = &mut self.device_mapper {
            texts.push(device_mapper.read(self.interval / 2).await);
            if texts
                .last()
                .is_some_and(|text| device_mapper.invalid_count_changed(text))
            {
                self.names.read_at = None;
            }
            texts.extend(self.makers.read_if_new(texts.last()));
        }
        let (backups, is_ending) = self.watched.read_if_changed();
        if is_ending {
            self.extra.plan(self.read_at);
        }
        texts.extend(backups);
        self.exits.collect(&self.watched, at);
        texts.extend(self.exits.read_new());
        texts.extend(self.kernel_log.read_new());
        texts.extend(self.touched.as_mut().and_then(TouchedAreas::poll));
        if let Some(mounts) = self.files.mounts.read_if_changed() {
            // `losetup` gives a device of an old name another content.
            if mounts
                .as_ref()
                .is_ok_and(|text| text.contains(" /dev/loop"))
            {
                self.names.read_at = None;
            }
            texts.push(PartReading::timed(Part::Mounts, || mounts));
        }
        texts.extend(self.read_names(&diskstats));
        texts.extend(self.read_usage(&texts));
        texts.extend(self.plans.iter_mut().filter_map(PlanQuery::poll));
        let guard = self.guard.as_mut();
        texts.extend(guard.and_then(GuardStateFile::read_if_changed));
        texts.extend(self.lvm.iter_mut().flat_map(LvmReports::take_texts));
        texts.append(&mut self.disabled);
        texts.insert(0, diskstats);
        self.ask_for_report(&texts);
        Reading {
            at,
            uptime_us,
            took_us: micros(started.elapsed()),
            texts,
            commands: Vec::new(),
            hooks: Vec::new(),
        }
    }

    /// The names of the devices, if they changed or are old.
    fn read_names(&mut self, diskstats: &PartReading) -> Option<PartReading> {
        let (fingerprint, has_dm) = match &diskstats.result {
            ReadResult::Text(text) => (self.root.devices_fingerprint(text), text.contains(" dm-")),
            ReadResult::Error(_) | ReadResult::NotRoot => (0, true),
        };
        let has_events = self
            .device_mapper
            .as_ref()
            .is_some_and(DmSource::has_events);
        let age = if has_events || !has_dm {
            NAMES_AGE
        } else {
            NAMES_AGE_WITHOUT_EVENTS
        };
        let is_fresh = self.names.read_at.is_some_and(|at| at.elapsed() < age);
        if is_fresh && fingerprint == self.names.fingerprint {
            return None;
        }
        let text = PartReading::timed(Part::Sysfs, || self.root.read_block_devices());
        self.names.read_at = Some(Instant::now());
        self.names.fingerprint = fingerprint;
        if self.names.text.as_ref() == Some(&text.result) {
            return None;
        }
        if let Some(lvm) = &mut self.lvm {
            lvm.names_changed();
        }
        self.names.text = Some(text.result.clone());
        Some(text)
    }

    /// The usage of file systems on snapshots, according to the last names and mounts.
    fn read_usage(&mut self, texts: &[PartReading]) -> Option<PartReading> {
        let usage = self.usage.as_mut()?;
        for text in texts {
            match (text.part, &text.result) {
                (Part::Mounts, mounts) => {
                    let has_gone = self.files.mounts.has_gone;
                    usage.set_mounts(mounts.text().unwrap_or_default(), has_gone);
                }
                (Part::Sysfs, ReadResult::Text(names)) => usage.set_names(names),
                _ => {}
            }
        }
        usage.poll()
    }

    fn ask_for_report(&mut self, texts: &[PartReading]) {
        let Some(lvm) = &mut self.lvm else { return };
        let result = |part: Part| {
            texts
                .iter()
                .find(|text| text.part == part)
                .map(|text| &text.result)
        };
        let has_dm = matches!(result(Part::Diskstats), Some(ReadResult::Text(text)) if text.contains(" dm-"));
        let dm_answers = matches!(result(Part::Dm), Some(ReadResult::Text(_)));
        lvm.start_if_due(has_dm && !dm_answers);
    }
}

/// Errors for the parts that the configuration disables.
fn disabled(source: LvmSource) -> Vec<PartReading> {
    let text = |part: Part, why: &str| PartReading {
        part,
        result: ReadResult::Error(why.into()),
        took_us: 0,
    };
    match source {
        LvmSource::Auto => Vec::new(),
        LvmSource::Dm => {
            let why = "LVM is disabled by lvm.source = \"dm\" in the configuration";
            vec![text(Part::Lvm, why), text(Part::LvmConfig, why)]
        }
        LvmSource::Lvs => {
            let why = "the device-mapper is disabled by lvm.source = \"lvs\" in the configuration";
            vec![text(Part::Dm, why)]
        }
    }
}
