//! Runs LVM's commands that change something, and the administrator's, one thread for each. Those of LVM are never killed:
//! a command that dies while it has suspended a volume leaves it suspended for ever.
//!
//! Before a snapshot is extended, its origin's file system is synchronized: the extension freezes it until all dirty pages
//! and their copies are on disk. The second synchronization finds few of them, as the extension will; so it tells how long
//! that will hold up writes.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cowbell_device_mapper::status::{self, CowArea, DmDevice, Status};
use cowbell_device_mapper::{DeviceMapper, Scope};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open, syncfs};

use crate::advice::lvm_size;
use crate::config::SlowingUser;
use crate::source::lvm::environment;
use crate::topology::lvm_name;

/// Neither begins nor ends that dmeventd monitors the volume, nor starts dmeventd in the guard's sandbox. Nor does LVM archive
/// the metadata before: on a full or read-only file system, it would refuse the change.
const SETTINGS: &str = "activation{monitoring=0} backup{archive=0}";
/// The locks of LVM's groups.
const LOCKS: &str = "/run/lock/lvm";
/// How often a running command and its device are looked at.
const LOOK: Duration = Duration::from_millis(10);
/// With less time until it is full, nothing is synchronized before.
const LEAST_FOR_SYNC_S: f64 = 4.0;
/// Of the time until it is full, the synchronizations may take this share.
const SYNC_SHARE: f64 = 0.5;
/// Synchronizations before an extension, if there is time: each has fewer dirty pages to write than the one before.
const LEAST_SYNCS: usize = 2;
const MOST_SYNCS: usize = 3;
/// An extension holds up writes for so many times as long as the synchronization before it, measured by `tests/lab/run guard`
/// on fast and slow disks: 2.1 to 4.0. The first synchronization says nothing: it writes what was dirty.
const HOLD_PER_SYNC: f64 = 2.75;
/// A command of the administrator's is ended after a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(70);
/// What of LVM's output is quoted.
const LONGEST_OUTPUT: usize = 400;

/// A command, and on what.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The device-mapper's UUID and name of the volume's device, which must still be what was decided about.
    pub device: Option<(String, String)>,
    /// Mount points of the origin's file systems.
    pub mounts: Vec<PathBuf>,
    pub left_s: f64,
    pub longest_hold: Duration,
    /// The group whose suspended devices are resumed.
    pub resumes: Option<String>,
    /// Who runs it; `None`: root.
    pub user: Option<SlowingUser>,
    /// Where the output goes: a pipe would kill the command if the guard died.
    pub output: PathBuf,
}

/// How a command went.
#[derive(Clone, Debug, Default)]
pub struct CommandResult {
    pub status: Option<ExitStatus>,
    pub took: Duration,
    /// For how long it was expected to hold up writes; `None` if nothing was synchronized before.
    pub expected_hold: Option<Duration>,
    /// For how long the device was seen suspended.
    pub suspended: Duration,
    /// Why it failed or was not run.
    pub error: Option<String>,
}

impl CommandResult {
    fn not_run(error: String) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }
}

/// The extension of a volume to a size. `option` is what LVM needs before the size, such as `-L`.
pub fn extension(option: &str, to: u64, name: &str) -> Vec<String> {
    let size = lvm_size(to);
    let arguments = ["--config", SETTINGS].into_iter().chain(option.split(' '));
    let command = ["lvextend"].into_iter().chain(arguments);
    command.chain([&*size, name]).map(String::from).collect()
}

/// Ends the suspension of a volume's devices.
pub fn refresh(name: &str) -> Vec<String> {
    ["lvchange", "--config", SETTINGS, "--refresh", name]
        .map(String::from)
        .into()
}

/// Whether a command of LVM is changing a group: what it suspended, it will resume.
pub fn is_locked(vg: &str) -> bool {
    let Ok(file) = File::open(Path::new(LOCKS).join(format!("V_{vg}"))) else {
        return false;
    };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// Runs it to its end, however long that takes.
pub fn run(order: &Order) -> CommandResult {
    let expected_hold = match synchronize(order) {
        Ok(hold) => hold,
        Err(why) => return CommandResult::not_run(why),
    };
    if let Some(vg) = &order.resumes
        && let Err(why) = drop_loaded_tables(vg)
    {
        tracing::warn!("{why}");
    }
    if let Err(why) = still_fits(order) {
        return CommandResult {
            expected_hold,
            ..CommandResult::not_run(why)
        };
    }
    let mut result = wait(order);
    result.expected_hold = expected_hold;
    result
}

/// For how long the extension will hold up writes; `None` if there is no time to find out. Fails if that is too long.
fn synchronize(order: &Order) -> Result<Option<Duration>, String> {
    if order.mounts.is_empty() || order.left_s < LEAST_FOR_SYNC_S {
        return Ok(None);
    }
    let deadline = Instant::now() + Duration::from_secs_f64(order.left_s * SYNC_SHARE);
    let mut hold = None;
    for number in 1..=MOST_SYNCS {
        let (sender, done) = mpsc::channel();
        let mounts = order.mounts.clone();
        let started = Instant::now();
        // A file system whose disk hangs holds up this thread for ever.
        let spawned = thread::Builder::new().name("sync".into()).spawn(move || {
            for mount in &mounts {
                if let Ok(folder) = open(
                    mount,
                    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                    Mode::empty(),
                ) {
                    let _ = syncfs(&folder);
                }
            }
            let _ = sender.send(());
        });
        if spawned.is_err() {
            return Ok(hold);
        }
        // If it is not done by then, it takes at least so long.
        let _ = done.recv_timeout(deadline.saturating_duration_since(started));
        let took = started.elapsed();
        let is_over = Instant::now() >= deadline;
        let expected = match number {
            1 => took,
            _ => took.mul_f64(HOLD_PER_SYNC),
        };
        hold = Some(expected);
        if expected <= order.longest_hold && (number >= LEAST_SYNCS || is_over) {
            return Ok(hold);
        }
        if is_over {
            break;
        }
    }
    let (hold_s, longest) = (hold.unwrap_or_default().as_secs_f64(), order.longest_hold);
    Err(format!(
        "it would hold up writes for about {hold_s:.1} s, as the last `sync` of its file system shows, and `longest_hold` is \
         {} s",
        longest.as_secs_f64()
    ))
}

/// A killed command may have loaded a table that LVM's metadata do not know, such as a pool's for data that did not grow. LVM
/// does not replace it by the one that it is to have, fails to resume with it, and leaves the device suspended.
fn drop_loaded_tables(vg: &str) -> Result<(), String> {
    let cannot = |why: String| format!("cannot drop tables of suspended devices in VG {vg}: {why}");
    let is_of_group = |device: &DmDevice| {
        let name = lvm_name::split(&device.name).filter(|_| device.uuid.starts_with("LVM-"));
        device.is_suspended && name.is_some_and(|name| name.vg == vg)
    };
    let mut suspended = devices().map_err(cannot)?;
    suspended.retain(is_of_group);
    if suspended.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("dmsetup");
    let names = suspended.iter().map(|device| &device.name);
    command.arg("clear").args(names);
    command.env_clear().envs(environment());
    let output = command
        .output()
        .map_err(|error| cannot(error.to_string()))?;
    if !output.status.success() {
        return Err(cannot(String::from_utf8_lossy(&output.stderr).into()));
    }
    Ok(())
}

fn devices() -> Result<Vec<DmDevice>, String> {
    let text = DeviceMapper::default().read(Scope::All);
    Ok(status::parse(&text.map_err(|error| error.to_string())?).devices)
}

/// Whether the device is that of the volume that was decided about, and can be extended.
fn still_fits(order: &Order) -> Result<(), String> {
    let Some((uuid, name)) = &order.device else {
        return Ok(());
    };
    let devices = devices()?;
    let Some(device) = devices.iter().find(|device| device.uuid == *uuid) else {
        return Err("it was removed meanwhile".into());
    };
    let first = device.targets.first().map(|target| &target.status);
    match first {
        _ if device.name != *name => Err("it was renamed meanwhile".into()),
        _ if device.is_suspended => Err("it is suspended".into()),
        Some(Status::Snapshot(CowArea::Filled(fill))) if fill.used <= fill.total => Ok(()),
        Some(Status::Snapshot(_)) => Err("it is lost".into()),
        Some(Status::SnapshotMerge(_)) => Err("it is merged into its origin".into()),
        _ => Ok(()),
    }
}

fn wait(order: &Order) -> CommandResult {
    let started = Instant::now();
    let mut child = match spawn(order) {
        Ok(child) => child,
        Err(error) => {
            return CommandResult::not_run(format!("cannot run `{}`: {error}", order.command[0]));
        }
    };
    let mut suspended = Duration::ZERO;
    let mut looked = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) => {}
            Err(error) => break Err(error),
        }
        let is_suspended = order.device.as_ref().is_some_and(|(uuid, _)| {
            let mut devices = devices().unwrap_or_default().into_iter();
            devices.any(|device| device.uuid == *uuid && device.is_suspended)
        });
        if is_suspended {
            suspended += looked.elapsed();
        }
        looked = Instant::now();
        thread::sleep(LOOK);
    };
    let mut result = CommandResult {
        took: started.elapsed(),
        suspended,
        ..CommandResult::default()
    };
    match status {
        Ok(status) => {
            result.status = Some(status);
            if !status.success() {
                result.error = Some(why(status, &order.output));
            }
        }
        Err(error) => result.error = Some(error.to_string()),
    }
    result
}

fn spawn(order: &Order) -> io::Result<std::process::Child> {
    let mut options = File::options();
    let output = options.create(true).append(true).open(&order.output)?;
    let mut command = Command::new(&order.command[0]);
    command
        .args(&order.command[1..])
        .env_clear()
        .envs(environment())
        .current_dir("/")
        .stdin(Stdio::null())
        .process_group(0);
    if let Some(SlowingUser { user, group }) = order.user {
        command.uid(user).gid(group);
        wait_for_others(&output);
    }
    output.set_len(0)?;
    command.stdout(output.try_clone()?).stderr(output).spawn()
}

/// A command that a killed guard began has the lock of its output until it ends.
fn wait_for_others(output: &File) {
    let deadline = Instant::now() + LONGEST_WAIT;
    while flock(output, FlockOperation::NonBlockingLockExclusive).is_err()
        && Instant::now() < deadline
    {
        thread::sleep(LOOK);
    }
}

/// `exit status 5: Insufficient free space`
fn why(status: ExitStatus, output: &Path) -> String {
    let text = std::fs::read_to_string(output).unwrap_or_default();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let text: String = lines.join("; ").chars().take(LONGEST_OUTPUT).collect();
    match status.signal() {
        Some(signal) => format!("signal {signal} ended it: {text}"),
        None if text.is_empty() => status.to_string(),
        None => text,
    }
}
