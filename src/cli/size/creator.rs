//! Creates a region of statistics from a process of its own. If the storage stops answering at that moment, this process
//! waits in the kernel and cannot be killed; the command leaves it alone and says so.
//!
//! The process holds a lock as long as it exists, so there is never a second one. If its region is complete only after the
//! command gave up, it deletes the region again.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use rustix::fs::{FlockOperation, flock};
use tokio::process::Command;

use super::budget::Plan;
use super::refusal;
use super::subject::Subject;
use crate::source::clock;
use crate::source::dm::stats::StatsReader;
use crate::source::dm::{call, watch};

/// Locked by the process that creates a region, whose PID it has. Not in the service's directory, which systemd removes.
const LOCK: &str = "/run/cowbell-size.lock";
/// A region takes milliseconds. One that took longer than this is deleted again.
const LIMIT: Duration = Duration::from_secs(5);
/// How much longer the command waits, for that deletion.
const GRACE: Duration = Duration::from_secs(1);

/// The process's own command line.
#[derive(Args)]
pub struct CreateRegion {
    name: String,
    device: u64,
    /// Of the volume, without dashes: the number may be reused.
    uuid: String,
    step: u64,
}

/// Refuses while an earlier process exists.
pub fn require_none() -> anyhow::Result<()> {
    lock().map(drop)
}

fn lock() -> anyhow::Result<File> {
    // Whoever can open it could hold the lock.
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(LOCK).with_context(|| format!("cannot open {LOCK}"))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut pid = String::new();
        file.read_to_string(&mut pid).with_context(|| format!("cannot read {LOCK}"))?;
        bail!(
            "nothing was changed: process {} is still starting to watch a volume, and hangs if its storage does; try again \
             when it has ended",
            pid.trim()
        );
    }
    Ok(file)
}

/// Creates the region; returns how long that took.
pub async fn create(subject: &Subject, plan: Plan) -> anyhow::Result<Duration> {
    let name = &subject.name;
    let child = Command::new("/proc/self/exe")
        .args(["create-region", name, &subject.device.to_string()])
        .args([subject.uuid.replace('-', ""), plan.sectors().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start a process that creates the region")?;
    let pid = child.id().unwrap_or_default();
    let Ok(output) = tokio::time::timeout(LIMIT + GRACE, child.wait_with_output()).await else {
        bail!(
            "cannot watch {name}: its storage does not answer, and process {pid} waits for it in the kernel, where it cannot \
             be killed; when the storage answers again, it ends and leaves nothing behind"
        );
    };
    let output = output.context("cannot read the result of the process that creates the region")?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().parse() {
        Ok(micros) => Ok(Duration::from_micros(micros)),
        Err(_) => bail!("{}", String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("cowbell: ")),
    }
}

/// In the process: creates the region, and prints the microseconds that it took.
pub fn run(command: &CreateRegion) -> anyhow::Result<()> {
    let CreateRegion { name, device, uuid, step } = command;
    let mut lock = lock()?;
    lock.set_len(0)
        .and_then(|()| write!(lock, "{}", std::process::id()))
        .with_context(|| format!("cannot write {LOCK}"))?;
    let control = call::open().map_err(anyhow::Error::msg)?;
    let failed = |errno| anyhow::Error::msg(refusal(name, errno));
    let before = StatsReader::default().regions(&control, *device).map_err(failed)?;
    ensure!(
        before.is_volume() && !uuid.is_empty() && before.uuid.ends_with(uuid),
        "cannot watch {name}: another device has its number now"
    );
    ensure!(before.regions.is_empty(), "{name} is watched already");
    let started = Instant::now();
    let id = watch::create(&control, *device, *step, &clock::now().as_millisecond().to_string())
        .map_err(failed)?;
    let took = started.elapsed();
    if took > LIMIT {
        watch::delete(&control, *device, id).map_err(failed)?;
        bail!(
            "cannot watch {name}: suspending it took {:.1} s, so the statistics were deleted again; try again when the storage \
             is faster",
            took.as_secs_f64()
        );
    }
    // The command gave up or was interrupted: nothing of it may remain.
    if writeln!(std::io::stdout(), "{}", clock::micros(took)).is_err() {
        watch::delete(&control, *device, id).map_err(failed)?;
    }
    Ok(())
}
