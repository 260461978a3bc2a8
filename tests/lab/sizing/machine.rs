//! The guest as cowbell sees it, with a clock of its own: readings at virtual times go through the same code as those of
//! the daemon, from the kernel's text to the curves.

use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use cowbell::interval::Interval;
use cowbell::pipeline::Observer;
use cowbell::sizing::{MeasuredVolumes, Tracker};
use cowbell::source::files::{OpenFile, Root};
use cowbell::source::lvm::LvmQuery;
use cowbell::source::{Part, PartReading, Reading};
use cowbell::topology::Volume;
use cowbell::units::Fill;
use cowbell_device_mapper::ioctl;
use cowbell_device_mapper::{DeviceMapper, Scope};
use cowbell_touched::label::Role;
use cowbell_touched::statistics::StatsReader;
use cowbell_touched::text;
use cowbell_touched::text::Counters;
use cowbell_touched::text::Region;
use jiff::Timestamp;

use crate::cases::Case;

/// 2026-03-01, midnight.
const BEGIN_S: i64 = 1_772_323_200;

pub struct Machine {
    runtime: tokio::runtime::Runtime,
    observer: Observer,
    mapper: DeviceMapper,
    diskstats: OpenFile,
    counters: Counters,
    pub exact: Watch,
    pub sampled: Watch,
    /// Since the beginning.
    pub minute: u64,
    pub interval: Interval,
    /// The real time of the last reading of all regions, and its areas.
    pub reading: (std::time::Duration, u64),
}

/// The measured volumes by one kind of regions. A volume may have both here, and each counts by itself.
pub struct Watch {
    tracker: Tracker,
    pub known: Arc<MeasuredVolumes>,
    is_its: fn(&Region) -> bool,
}

impl Watch {
    fn new(is_its: fn(&Region) -> bool) -> Self {
        Self {
            tracker: Tracker::default(),
            known: Arc::default(),
            is_its,
        }
    }

    fn advance(&mut self, interval: &Interval) {
        let mut interval = interval.clone();
        if let Some(regions) = &mut interval.touched {
            regions.retain(self.is_its);
        }
        self.tracker.advance(&interval, &mut self.known);
    }
}

impl Machine {
    pub fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut observer = Observer::default();
        // Of no text, to have one.
        let interval = observer.observe(&reading(0, Vec::new()));
        let mut machine = Self {
            runtime,
            observer,
            mapper: DeviceMapper::default(),
            diskstats: Root("/".into()).keep("proc/diskstats"),
            counters: Counters::new(),
            exact: Watch::new(|region| region.role == Role::Whole),
            sampled: Watch::new(|region| matches!(region.role, Role::Map { .. } | Role::Probe(_))),
            minute: 0,
            interval,
            reading: Default::default(),
        };
        machine.list()?;
        Ok(machine)
    }

    /// Reads the counters.
    pub fn read(&mut self) -> anyhow::Result<()> {
        let started = std::time::Instant::now();
        let (text, counters) = text::read(std::mem::take(&mut self.counters));
        let areas = counters
            .values()
            .map(|region| region.areas.len() as u64)
            .sum();
        self.counters = counters;
        self.reading = (started.elapsed(), areas);
        let mapped = self.mapper.read(Scope::Fills).map_err(String::from);
        let texts = vec![
            (Part::Diskstats, self.diskstats.read()),
            (Part::Dm, mapped),
            (Part::Touched, text),
        ];
        self.observe(texts)
    }

    /// Reads which volumes there are, after a change.
    pub fn list(&mut self) -> anyhow::Result<()> {
        let mut reporter = LvmQuery::default();
        let report = self.runtime.block_on(async {
            reporter.start();
            reporter
                .answer()
                .await
                .report
                .map_err(|error| error.sentence)
        });
        let texts = vec![
            (Part::Diskstats, self.diskstats.read()),
            (Part::Sysfs, Root("/".into()).read_block_devices()),
            (Part::Dm, self.mapper.read(Scope::All).map_err(String::from)),
            (Part::Lvm, report),
        ];
        self.observe(texts)
    }

    fn observe(&mut self, texts: Vec<(Part, Result<String, String>)>) -> anyhow::Result<()> {
        if let Some((part, error)) = texts
            .iter()
            .find_map(|(part, text)| Some((part, text.as_ref().err()?)))
        {
            return Err(anyhow!("cannot read {part:?}: {error}"));
        }
        self.interval = self.observer.observe(&reading(self.minute, texts));
        self.exact.advance(&self.interval);
        self.sampled.advance(&self.interval);
        Ok(())
    }

    pub fn volume(&self, lv: &str) -> anyhow::Result<&Volume> {
        self.interval
            .topology
            .volumes
            .iter()
            .find(|volume| volume.lv == lv)
            .with_context(|| format!("no volume {lv}"))
    }

    /// What a snapshot or a pool uses.
    pub fn fill(&self, lv: &str) -> anyhow::Result<Fill> {
        let volumes = &self.interval.topology.volumes;
        let index = volumes
            .iter()
            .position(|volume| volume.lv == lv)
            .with_context(|| format!("no volume {lv}"))?;
        self.interval.volumes[index]
            .fill
            .with_context(|| format!("the usage of {lv} is unknown"))
    }

    /// The bytes written to a volume since it exists.
    pub fn written(&self, case: &Case) -> anyhow::Result<u64> {
        let device = self.volume(case.name)?.device.context("it is not active")?;
        let counters = self.interval.devices[device]
            .counters
            .context("its counters are unknown")?;
        counters
            .written_bytes()
            .context("no count of written sectors")
    }

    /// The writes to each area of a volume's map so far, with its region, as `cowbell create-probes` reads them.
    pub fn map_of(&self, case: &Case) -> anyhow::Result<Map> {
        let control = ioctl::open().map_err(anyhow::Error::msg)?;
        let mut reader = StatsReader::default();
        let device = device_of(case)?;
        let regions = reader.regions(&control, device)?.regions;
        let region = regions
            .into_iter()
            .find(|region| matches!(region.label.role, Role::Map { .. }));
        let region = region.context("it has no map")?;
        let counters = reader
            .counters(&control, device, &region)
            .map_err(anyhow::Error::msg)?;
        Ok((region, counters))
    }
}

type Map = (
    cowbell_touched::statistics::RegionEntry,
    Vec<cowbell_touched::statistics::AreaCounters>,
);

/// The device-mapper's number of a volume.
pub fn device_of(case: &Case) -> anyhow::Result<u64> {
    let control = ioctl::open().map_err(anyhow::Error::msg)?;
    let devices = StatsReader::default()
        .devices(&control)
        .map_err(anyhow::Error::msg)?;
    let name = case.dm_name();
    devices
        .iter()
        .find(|device| device.name == name)
        .map(|device| device.number)
        .with_context(|| format!("no {name}"))
}

fn reading(minute: u64, texts: Vec<(Part, Result<String, String>)>) -> Reading {
    let texts = texts.into_iter().map(|(part, text)| PartReading {
        part,
        result: text.into(),
        took_us: 0,
    });
    Reading {
        at: Timestamp::from_second(BEGIN_S + 60 * minute.cast_signed())
            .expect("a time of this century"),
        uptime_us: 1_000_000 + minute * 60_000_000,
        took_us: 0,
        texts: texts.collect(),
        commands: Vec::new(),
        hooks: Vec::new(),
    }
}

/// LVM's commands, all in one process.
pub fn lvm(commands: &[String]) -> anyhow::Result<()> {
    let path = "/mnt/tmp/commands";
    std::fs::write(path, format!("#!/sbin/lvm\n{}\n", commands.join("\n")))?;
    let output = std::process::Command::new("lvm")
        .arg(path)
        .output()
        .context("cannot start lvm")?;
    ensure!(
        output.status.success(),
        "lvm: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
