//! Creates the probes of a map: one region after the other, in places chosen by the writes to the map so far. The service
//! starts this an hour after `cowbell size --watch on` created the map. All or none of them remain.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use cowbell_device_mapper::ioctl;
use cowbell_touched::estimate::{PROBES, Writes};
use cowbell_touched::label::Role;
use cowbell_touched::plan::place_probes;
use cowbell_touched::statistics::{NewRegion, RegionEntry, StatsReader, delete_all};

use super::volume::{self, TargetVolume};
use super::{creator, refusal};
use crate::source::clock;
use crate::source::files::Root;

/// How long it waits for the volume's queue to be short, for all probes together.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
const PAUSE: Duration = Duration::from_secs(20);

/// The process's own command line.
#[derive(Args)]
pub struct ProbesArguments {
    /// The device-mapper's UUID of the volume.
    uuid: String,
}

pub async fn run(arguments: &ProbesArguments, root: &Root) -> anyhow::Result<()> {
    let uuid = &arguments.uuid;
    let Some(subject) = volume::find_uuid(uuid, root).await? else {
        bail!("cannot create probes: the volume {uuid} is not active");
    };
    subject.refuse_unless_eligible()?;
    let regions = regions(&subject)?;
    delete_probes(&subject)?;
    if regions.is_empty() {
        // Nothing was written yet, so every place is like the other.
        return Ok(());
    }
    let result = create_all(&subject, &regions, root).await;
    if result.is_err() {
        delete_probes(&subject)?;
    }
    result.with_context(|| {
        format!(
            "the {PROBES} probes of {} were not created",
            subject.volume.name
        )
    })
}

async fn create_all(
    subject: &TargetVolume,
    regions: &[NewRegion],
    root: &Root,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for region in regions {
        while let Err(why) = subject.require_short_queues(root).await {
            if Instant::now() > deadline {
                return Err(why);
            }
            tokio::time::sleep(PAUSE).await;
        }
        creator::create(subject, region).await?;
    }
    Ok(())
}

fn is_probe(region: &RegionEntry) -> bool {
    matches!(region.label.role, Role::Probe(_))
}

/// Those of an earlier process, which did not finish, or of this one.
fn delete_probes(subject: &TargetVolume) -> anyhow::Result<()> {
    let control = ioctl::open().map_err(anyhow::Error::msg)?;
    delete_all(&control, subject.device, is_probe)
        .map(drop)
        .map_err(|errno| anyhow::Error::msg(refusal(&subject.volume.name, errno)))
}

/// The regions to create, from what the map has counted.
fn regions(subject: &TargetVolume) -> anyhow::Result<Vec<NewRegion>> {
    let control = ioctl::open().map_err(anyhow::Error::msg)?;
    let mut reader = StatsReader::default();
    let found = reader.regions(&control, subject.device);
    let found = found
        .map_err(|errno| anyhow::Error::msg(refusal(&subject.volume.name, errno)))?
        .regions;
    let map = found.iter().find_map(|region| match region.label.role {
        Role::Map { chunk } => Some((region, chunk)),
        _ => None,
    });
    let (map, chunk) =
        map.with_context(|| format!("{} has no map any more", subject.volume.name))?;
    let counters = reader
        .counters(&control, subject.device, map)
        .map_err(anyhow::Error::msg)?;
    let writes = counters.iter().map(|area| Writes {
        count: area.writes as f64,
        sectors: area.sectors as f64,
    });
    Ok(place_probes(
        map,
        chunk,
        &writes.collect::<Vec<_>>(),
        clock::now().as_millisecond(),
        random,
    ))
}

/// From 0 to 1, other in each process.
fn random() -> f64 {
    (RandomState::new().hash_one(clock::uptime_us()) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_differ() {
        let numbers = [random(), random(), random()];
        assert!(
            numbers.iter().all(|number| (0.0..1.0).contains(number)) && numbers[0] != numbers[1]
        );
    }
}
