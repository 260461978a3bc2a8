//! The volume that a command is about, from the device-mapper, sysfs and LVM's report, whether it can be watched, and
//! whether it can be suspended for a moment.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use cowbell_touched::plan::MeasuredVolume;

use crate::sample::diskstats::{self, Queue};
use crate::sample::{Sample, Sampler};
use crate::source::files::Root;
use crate::source::{Part, Reading};
use crate::topology::{State, Topology, Volume, VolumeKind};

/// How often and how long queues are observed: for three seconds.
const SAMPLES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);
/// The longest queue that counts as short, on average: what a database leaves on one disk without load.
const LONGEST_QUEUE: f64 = 4.0;
/// The program that makes snapshots.
const MAKER: &str = "lvcreate";

/// An active volume.
#[derive(Clone, Debug, Default)]
pub struct TargetVolume {
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

/// Finds a volume by the name that `lvs` shows, also with `/dev/` in front; `None` if it is not active.
pub async fn find(name: &str, root: &Root) -> anyhow::Result<Option<TargetVolume>> {
    let Some((vg, lv)) = name
        .trim_start_matches("/dev/")
        .split_once('/')
        .filter(|(_, lv)| !lv.contains('/'))
    else {
        bail!(
            "expected a volume as VG/LV, such as vg0/mysql, but found {name:?}; `lvs` lists volumes"
        );
    };
    let sample = sample(root).await?;
    let topology = Topology::of(&sample);
    let index = topology
        .volume_index(&format!("{vg}/{lv}"))
        .ok_or_else(|| unknown(&topology, vg, lv))?;
    describe(&topology, &sample, index)
}

/// Finds a volume by its UUID in the device-mapper; `None` if it is not active.
pub async fn find_uuid(uuid: &str, root: &Root) -> anyhow::Result<Option<TargetVolume>> {
    let sample = sample(root).await?;
    let topology = Topology::of(&sample);
    let is_it = |volume: &Volume| {
        volume
            .device
            .is_some_and(|index| *topology.devices[index].identity == *uuid)
    };
    let index = topology.volumes.iter().position(is_it);
    let index = index.with_context(|| format!("no volume has the UUID {uuid}"))?;
    describe(&topology, &sample, index)
}

fn describe(
    topology: &Topology,
    sample: &Sample,
    index: usize,
) -> anyhow::Result<Option<TargetVolume>> {
    let volume = &topology.volumes[index];
    let states = topology.volume_states(sample);
    let Some(device) = volume.device.map(|index| &topology.devices[index]) else {
        return Ok(None);
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
    let mut queues = vec![device.name.to_string()];
    queues.extend(volume.pvs.iter().cloned());
    Ok(Some(TargetVolume {
        volume: MeasuredVolume {
            name: volume.full_name(),
            size: size.bytes(),
            pool_chunk,
        },
        uuid: volume.uuid.to_string(),
        device: device.number.dev(),
        queues,
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

/// Fails if the device-mapper does not say which volumes there are.
async fn sample(root: &Root) -> anyhow::Result<Sample> {
    let reading = Reading::of_volumes(root).await;
    let mut texts = reading.texts.iter();
    if let Some(mapped) = texts.find(|text| text.part == Part::Dm) {
        let mapped = mapped.result.text().map_err(anyhow::Error::msg);
        mapped.context("cannot read which volumes there are")?;
    }
    Ok(Sampler::default().sample(&reading))
}

impl TargetVolume {
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

    /// Whether it can be suspended for a moment, which waits for every request in flight: observes its queue and those of its
    /// disks for some seconds. Refuses if they are long or do not move, or if a snapshot is being made.
    pub async fn require_short_queues(&self, root: &Root) -> anyhow::Result<()> {
        let name = &self.volume.name;
        let mut file = root.keep("proc/diskstats");
        let mut seen: HashMap<String, Vec<Queue>> = HashMap::new();
        for _ in 0..SAMPLES {
            let queues = diskstats::queues(&file.read().map_err(anyhow::Error::msg)?);
            for queue in queues {
                if self.queues.contains(&queue.name) {
                    seen.entry(queue.name.clone()).or_default().push(queue);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        for (device, queues) in &seen {
            judge(name, device, queues)?;
        }
        ensure!(
            !root.process_names().iter().any(|name| name == MAKER),
            "cannot watch {name} now: `{MAKER}` runs and may be making a snapshot; try again when it has ended"
        );
        Ok(())
    }
}

fn judge(name: &str, device: &str, queues: &[Queue]) -> anyhow::Result<()> {
    let (Some(first), Some(last)) = (queues.first(), queues.last()) else {
        return Ok(());
    };
    if queues.iter().all(|queue| queue.in_flight > 0) && first.completed == last.completed {
        bail!(
            "cannot watch {name} now: {device} has not completed a request for {} s; try again when the storage answers",
            (SAMPLES * PAUSE).as_secs()
        );
    }
    let mean = queues
        .iter()
        .map(|queue| queue.in_flight as f64)
        .sum::<f64>()
        / queues.len() as f64;
    ensure!(
        mean <= LONGEST_QUEUE,
        "cannot watch {name} now: {device} is busy, with {mean:.1} requests in flight on average, expected at most \
         {LONGEST_QUEUE}; try again when less is written"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(seen: &[(u64, u64)]) -> Option<String> {
        let queue = |(in_flight, completed): &(u64, u64)| Queue {
            name: "dm-3".into(),
            in_flight: *in_flight,
            completed: *completed,
        };
        let queues: Vec<Queue> = seen.iter().map(queue).collect();
        judge("vg0/data", "dm-3", &queues)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn a_queue_must_be_short_and_move() {
        let busy = "cannot watch vg0/data now: dm-3 is busy, with 6.0 requests in flight on average, expected at most 4; \
                    try again when less is written";
        let hangs = "cannot watch vg0/data now: dm-3 has not completed a request for 3 s; try again when the storage answers";
        for (seen, expected) in [
            (&[(0, 7), (0, 7)][..], None),
            (&[(1, 7), (2, 8)], None),
            (&[(0, 7), (8, 7)], None),
            (&[(4, 7), (8, 9)], Some(busy)),
            (&[(1, 7), (1, 7)], Some(hangs)),
            (&[], None),
        ] {
            assert_eq!(judged(seen).as_deref(), expected, "{seen:?}");
        }
    }
}
