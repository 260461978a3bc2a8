//! The volume that a command is about, from the device-mapper, sysfs and LVM's report, and whether it can be watched.
//!
//! The device-mapper is asked from a thread with a time limit: it answers late if the storage does.

use std::time::Duration;

use anyhow::{Context, bail};
use cowbell_device_mapper::Scope;
use cowbell_touched::plan::MeasuredVolume;

use crate::sample::{Sample, Sampler};
use crate::source::clock;
use crate::source::files::Root;
use crate::source::live::device_mapper;
use crate::source::lvm::LvmQuery;
use crate::source::{Part, PartReading, Reading};
use crate::topology::{State, Topology, Volume, VolumeKind};

/// The device-mapper answers in milliseconds. If it has not answered after this, the storage does not.
const DM_DEADLINE: Duration = Duration::from_secs(3);

/// An active volume.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    pub volume: MeasuredVolume,
    /// As printed by `lvs -o lv_uuid`.
    pub uuid: String,
    /// The device-mapper's number of its device.
    pub device: u64,
    /// The kernel's names of its device and of the PVs below, whose queues count.
    pub queues: Vec<String>,
    pub kind: VolumeKind,
    pub is_suspended: bool,
}

pub enum Found {
    Active(Subject),
    Inactive,
}

/// Finds a volume by the name that `lvs` shows, also with `/dev/` in front.
pub async fn find(name: &str, root: &Root) -> anyhow::Result<Found> {
    let Some((vg, lv)) = name
        .trim_start_matches("/dev/")
        .split_once('/')
        .filter(|(_, lv)| !lv.contains('/'))
    else {
        bail!(
            "expected a volume as VG/LV, such as vg0/mysql, but found {name:?}; `lvs` lists volumes"
        );
    };
    let sample = Sampler::default().sample(&reading(root).await?);
    let topology = Topology::of(&sample);
    let index = topology
        .volume_index(&format!("{vg}/{lv}"))
        .ok_or_else(|| unknown(&topology, vg, lv))?;
    describe(&topology, &sample, index)
}

/// Finds a volume by its UUID in the device-mapper.
pub async fn find_uuid(uuid: &str, root: &Root) -> anyhow::Result<Found> {
    let sample = Sampler::default().sample(&reading(root).await?);
    let topology = Topology::of(&sample);
    let is_it = |volume: &Volume| {
        volume
            .device
            .is_some_and(|index| *topology.devices[index].identity == *uuid)
    };
    let index = topology.volumes.iter().position(is_it);
    describe(
        &topology,
        &sample,
        index.with_context(|| format!("no volume has the UUID {uuid}"))?,
    )
}

fn describe(topology: &Topology, sample: &Sample, index: usize) -> anyhow::Result<Found> {
    let volume = &topology.volumes[index];
    let states = topology.volume_states(sample);
    let Some(device) = volume.device.map(|index| &topology.devices[index]) else {
        return Ok(Found::Inactive);
    };
    let mut pool_chunk = None;
    if volume.kind == VolumeKind::Thin
        && let Some(pool) = topology.pool_of(volume)
        && let Some(index) = topology.volume_index(&pool.uuid)
    {
        pool_chunk = states[index].fill.map(|fill| fill.unit);
    }
    let size = device
        .size
        .with_context(|| format!("the size of {} is unknown", volume.full_name()))?;
    Ok(Found::Active(Subject {
        volume: MeasuredVolume {
            name: volume.full_name(),
            size: size.bytes(),
            pool_chunk,
        },
        uuid: volume.uuid.to_string(),
        device: device.number.dev(),
        queues: std::iter::once(device.name.to_string())
            .chain(volume.pvs.iter().cloned())
            .collect(),
        kind: volume.kind,
        is_suspended: states[index].state == State::Suspended,
    }))
}

fn unknown(topology: &Topology, vg: &str, lv: &str) -> anyhow::Error {
    let is_layer = topology.devices.iter().any(|device| {
        device.vg.as_deref() == Some(vg)
            && device.lv.as_ref().is_some_and(|device| device.name == lv)
    });
    anyhow::Error::msg(if is_layer {
        format!(
            "cannot watch {vg}/{lv}: it is a hidden part of another volume; choose a volume that `lvs` lists"
        )
    } else {
        format!("the volume {vg}/{lv} does not exist; `lvs` lists volumes")
    })
}

/// One reading of what names volumes.
async fn reading(root: &Root) -> anyhow::Result<Reading> {
    let mut thread = device_mapper::thread();
    thread.ask(Scope::All);
    let mapped = match thread.wait(DM_DEADLINE).await {
        Ok(answer) => answer.value.1,
        Err(none) => Err(none.sentence("the device-mapper").into()),
    };
    let mapped = mapped
        .map_err(anyhow::Error::msg)
        .context("cannot read which volumes there are")?;
    let mut reporter = LvmQuery::default();
    reporter.start();
    // Without it only inactive volumes and thin origins are unknown.
    let report = reporter
        .answer()
        .await
        .report
        .map_err(|error| error.sentence);
    let texts = [
        (Part::Diskstats, root.keep("proc/diskstats").read()),
        (Part::Sysfs, root.read_block_devices()),
        (Part::Dm, Ok(mapped)),
        (Part::Lvm, report),
    ];
    let texts = texts.map(|(part, text)| PartReading {
        part,
        result: text.into(),
        took_us: 0,
    });
    Ok(Reading {
        at: clock::now(),
        uptime_us: clock::uptime_us(),
        took_us: 0,
        texts: texts.into(),
        commands: Vec::new(),
        hooks: Vec::new(),
    })
}

impl Subject {
    /// Refuses volumes that have no snapshots of their own, and suspended ones.
    pub fn refuse_unless_eligible(&self) -> anyhow::Result<()> {
        let name = &self.volume.name;
        match self.kind {
            kind if kind.is_pool() => {
                bail!("cannot watch {name}: it is a pool; choose a volume in it")
            }
            kind if kind.is_snapshot() => {
                bail!("cannot watch {name}: it is a snapshot; choose its origin")
            }
            VolumeKind::Thin if self.volume.pool_chunk.is_none_or(|chunk| chunk == 0) => {
                bail!(
                    "cannot watch {name}: the chunk size of its pool is unknown; `cowbell check` may show why"
                )
            }
            _ if self.is_suspended => bail!(
                "cannot watch {name}: it is suspended, and its storage or another command may hang; try again when `dmsetup \
                 info` shows it as ACTIVE"
            ),
            _ => Ok(()),
        }
    }
}
