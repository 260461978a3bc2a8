//! Creates a region of statistics from a process of its own. If the storage stops answering at that moment, this process
//! waits in the kernel and cannot be killed; its parent leaves it alone and says so.
//!
//! The process locks the control node as long as it exists, so there is never a second one. It keeps its region only if its
//! parent says so: one that is complete after the parent gave up is deleted again.
//!
//! A map gets its probes here too: one region after the other, in places chosen by the writes to the map so far. The service
//! starts this an hour after `cowbell size --watch on` created the map. All or none of them remain.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::pin::pin;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use cowbell_device_mapper::ioctl;
use cowbell_touched::estimate::{PROBES, Writes};
use cowbell_touched::label::{Label, Role};
use cowbell_touched::plan::place_probes;
use cowbell_touched::statistics::{
    self, DeviceRegions, NewRegion, Place, RegionEntry, StatsReader, delete_all,
};
use rustix::fs::{FlockOperation, flock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::volume::{self, TargetVolume};
use super::{refusal, require_room};
use crate::cli::output::complain;
use crate::source::clock;
use crate::source::files::Root;

/// A region takes milliseconds. One that takes longer than this is deleted again.
const LIMIT: Duration = Duration::from_secs(5);
/// What the parent says to keep the region.
const KEEP: &[u8] = b"keep";
/// Locks of the whole system. Source: proc_locks(5).
const LOCKS: &str = "/proc/locks";

/// The process's own command line.
#[derive(Args)]
pub struct RegionArguments {
    name: String,
    device: u64,
    /// Of the volume, without dashes: the number may be reused.
    uuid: String,
    #[arg(allow_hyphen_values = true)]
    place: Place,
    step: u64,
    label: String,
}

/// Refuses while an earlier process exists.
pub fn require_none() -> anyhow::Result<()> {
    lock().map(drop)
}

/// The control node, locked. Only root can open it, so only root can hold the lock.
fn lock() -> anyhow::Result<File> {
    let control = ioctl::open().map_err(anyhow::Error::msg)?;
    if flock(&control, FlockOperation::NonBlockingLockExclusive).is_err() {
        let inode = control
            .metadata()
            .context("cannot read the control node")?
            .ino();
        let locks =
            std::fs::read_to_string(LOCKS).with_context(|| format!("cannot read {LOCKS}"))?;
        bail!(
            "nothing was changed: process {} is still starting to watch a volume, and hangs if its storage does; try again \
             when it has ended",
            holder(&locks, inode).unwrap_or("?")
        );
    }
    Ok(control)
}

/// The process that holds a lock of a file: `N: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`.
fn holder(locks: &str, inode: u64) -> Option<&str> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words[..] else {
            return None;
        };
        (file.rsplit(':').next()? == inode.to_string()).then_some(pid)
    })
}

/// Creates the region; returns how long that took.
pub async fn create(subject: &TargetVolume, region: &NewRegion) -> anyhow::Result<Duration> {
    let name = &subject.volume.name;
    let mut child = Command::new("/proc/self/exe")
        .args([
            "create-region",
            name,
            &subject.device.to_string(),
            &subject.uuid.replace('-', ""),
        ])
        .args([
            region.place.to_string(),
            region.step.to_string(),
            region.label.to_string(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start a process that creates the region")?;
    let pid = child.id().unwrap_or_default();
    let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("the process that creates the region has no pipes");
    };
    let mut micros = [0; size_of::<u64>()];
    let Ok(is_complete) = tokio::time::timeout(LIMIT, output.read_exact(&mut micros)).await else {
        bail!(
            "cannot watch {name}: its storage does not answer, and process {pid} waits for it in the kernel, where it cannot \
             be killed; when the storage answers again, it ends and leaves nothing behind"
        );
    };
    if is_complete.is_ok() {
        // A process that has ended meanwhile says why below.
        let _ = input.write_all(KEEP).await;
    }
    drop(input);
    // From here on the region may remain, so the answer is waited for without a limit.
    let mut answer = pin!(child.wait_with_output());
    let answer = match tokio::time::timeout(LIMIT, &mut answer).await {
        Ok(answer) => answer,
        Err(_) => {
            complain(&format!(
                "The storage of {name} does not answer. Process {pid} waits for it, and this command for that process."
            ));
            answer.await
        }
    };
    let answer = answer.context("cannot wait for the process that creates the region")?;
    let complaint = String::from_utf8_lossy(&answer.stderr);
    ensure!(
        answer.status.success(),
        "{}",
        complaint.trim().trim_start_matches("cowbell: ")
    );
    Ok(Duration::from_micros(u64::from_le_bytes(micros)))
}

/// In the process: creates the region, tells the microseconds that it took, and deletes it again unless the parent wants it.
pub fn create_region(arguments: &RegionArguments) -> anyhow::Result<()> {
    let RegionArguments {
        name,
        device,
        uuid,
        place,
        step,
        label,
    } = arguments;
    let control = lock()?;
    let failed = |errno| anyhow::Error::msg(refusal(name, errno));
    let mut reader = StatsReader::default();
    let before = reader.regions(&control, *device).map_err(failed)?;
    ensure!(
        before.is_volume() && !uuid.is_empty() && before.uuid.ends_with(uuid),
        "cannot watch {name}: another device has its number now"
    );
    let region = NewRegion {
        place: *place,
        step: *step,
        label: Label::parse(label),
    };
    let is_probe = matches!(region.label.role, Role::Probe(_));
    ensure!(
        is_probe || before.regions.is_empty(),
        "{name} is watched already"
    );
    require_room(
        name,
        reader.count_all(&control, *device).map_err(failed)?,
        1,
    )?;
    let started = Instant::now();
    let id = statistics::create(&control, *device, &region).map_err(failed)?;
    let is_wanted = is_kept(started.elapsed());
    // A map may be deleted while its probes are created.
    if !is_wanted || (is_probe && !has_map(&reader.regions(&control, *device).map_err(failed)?)) {
        statistics::delete(&control, *device, id).map_err(failed)?;
        bail!("cannot watch {name}: the region was deleted again");
    }
    Ok(())
}

fn has_map(regions: &DeviceRegions) -> bool {
    regions
        .regions
        .iter()
        .any(|region| matches!(region.label.role, Role::Map { .. }))
}

/// Whether the parent still wants the region.
fn is_kept(took: Duration) -> bool {
    let told = std::io::stdout().write_all(&clock::micros(took).to_le_bytes());
    let told = told.and_then(|()| std::io::stdout().flush());
    let mut answer = Vec::new();
    told.is_ok() && std::io::stdin().read_to_end(&mut answer).is_ok() && answer == KEEP
}

/// How long it waits for the volume's queue to be short, for all probes together.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
const PAUSE: Duration = Duration::from_secs(20);

/// The process's own command line.
#[derive(Args)]
pub struct ProbesArguments {
    /// The device-mapper's UUID of the volume.
    uuid: String,
}

pub async fn create_probes(arguments: &ProbesArguments, root: &Root) -> anyhow::Result<()> {
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
        create(subject, region).await?;
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
    fn the_process_that_holds_a_lock_is_found() {
        let locks = "1: POSIX  ADVISORY  WRITE 700 00:05:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 815 00:05:12 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 900 00:05:12 0 EOF\n";
        assert_eq!(
            (holder(locks, 12), holder(locks, 5), holder("", 12)),
            (Some("815"), None, None)
        );
    }

    #[test]
    fn random_numbers_differ() {
        let numbers = [random(), random(), random()];
        assert!(
            numbers.iter().all(|number| (0.0..1.0).contains(number)) && numbers[0] != numbers[1]
        );
    }
}
