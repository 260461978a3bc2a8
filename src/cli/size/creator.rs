//! Creates a region of statistics from a process of its own. If the storage stops answering at that moment, this process
//! waits in the kernel and cannot be killed; its parent leaves it alone and says so.
//!
//! The process locks the control node as long as it exists, so there is never a second one. It keeps its region only if its
//! parent says so: one that is complete after the parent gave up is deleted again.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::pin::pin;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use cowbell_device_mapper::ioctl;
use cowbell_touched::label::{Label, Role};
use cowbell_touched::statistics::{self, DeviceRegions, NewRegion, Place, StatsReader};
use rustix::fs::{FlockOperation, flock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::volume::TargetVolume;
use super::{refusal, require_room};
use crate::cli::output::complain;
use crate::source::clock;

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
pub fn run(arguments: &RegionArguments) -> anyhow::Result<()> {
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
}
