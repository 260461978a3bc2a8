//! Updates a running job at each tick: its snapshot's state and its reads. Ends commands that send no more marks.

use std::sync::Arc;

use jiff::Timestamp;

use super::backup_run::BackupRun;
use super::judgement::PROBED_BYTES;
use super::maker::{MakerState, ProcessEnd, ReadShare};
use super::progress::overflows;
use super::{DiskError, Job, Outcome};
use crate::commands::Note;
use crate::interval::Interval;
use crate::topology::Volume;

/// `cowbell run` sends a mark every half minute. A command without one for this long was killed.
const LONGEST_SILENCE_US: u64 = 120_000_000;
/// If a run's process was not observed, and its snapshot still exists this long after the run's last message, the run has
/// ended and left the snapshot behind. So has a script that ended well, if nothing reads on for so long.
const LONGEST_CLEANUP_MS: i64 = 60_000;
/// The maximum time that one tick adds to a silence: while the machine sleeps, `cowbell run` sleeps too.
const LONGEST_TICK_US: u64 = 60_000_000;

/// Bytes written to a mounted snapshot that show its use: in place of its origin, which is mounted nowhere, or beside it.
const LEAST_IN_PLACE: u64 = 4 << 20;
const LEAST_WRITTEN: u64 = 32 << 20;

/// A thin snapshot that is not mounted, with nothing on top, is idle while no more than probing is read or written within
/// this time.
const IDLE_MS: i64 = 60_000;

/// When a kept thin snapshot was in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastUse {
    at: Timestamp,
    /// What was read and written of it is compared with this count, and since when.
    counted_at: Timestamp,
    bytes: u64,
}

impl LastUse {
    /// The use of a volume that is seen for the first time.
    pub fn begin(interval: &Interval, volume: &Volume, is_new: bool) -> Self {
        let bytes = if is_new {
            0
        } else {
            used_bytes(interval, volume)
        };
        Self {
            at: interval.at,
            counted_at: interval.at,
            bytes,
        }
    }

    /// Returns whether it is in use now.
    pub fn advance(&mut self, interval: &Interval, volume: &Volume) -> bool {
        let bytes = used_bytes(interval, volume);
        let is_mounted = volume.mounted_on.as_ref().is_none_or(|on| !on.is_empty());
        let is_used =
            is_mounted || !volume.on_top.is_empty() || bytes.abs_diff(self.bytes) > PROBED_BYTES;
        if is_used {
            self.at = interval.at;
        }
        if is_used || is_long(self.counted_at, interval.at) {
            (self.counted_at, self.bytes) = (interval.at, bytes);
        }
        is_used
    }

    /// When it was last in use, if that is long ago.
    pub fn idle_since(self, now: Timestamp) -> Option<Timestamp> {
        is_long(self.at, now).then_some(self.at)
    }
}

fn is_long(since: Timestamp, now: Timestamp) -> bool {
    (now.as_millisecond() - since.as_millisecond()).abs() >= IDLE_MS
}

fn used_bytes(interval: &Interval, volume: &Volume) -> u64 {
    let device = interval.device_of(volume);
    let Some(counters) = device.and_then(|device| device.counters) else {
        return 0;
    };
    counters.read_bytes().unwrap_or_default() + counters.written_bytes().unwrap_or_default()
}

/// The time since a command's last mark, and the bytes read until that mark.
#[derive(Debug)]
pub(super) struct CommandSilence {
    last_at: Timestamp,
    bytes_read: Option<u64>,
    us: u64,
}

impl CommandSilence {
    pub fn since(last_at: Timestamp, job: &Job) -> Self {
        Self {
            last_at: last_at.max(job.started_at),
            bytes_read: job.bytes_read,
            us: 0,
        }
    }
}

/// The properties whose changes are stored at once.
pub(super) fn key_properties(job: &Job) -> impl PartialEq + use<> {
    let times = [
        job.ended_at,
        job.died_at,
        job.io_error_at,
        job.removed_at,
        job.unmounted_at,
        job.stalled_since,
    ];
    let names = (job.lv.clone(), job.mounted_on.clone());
    let made_by = (job.maker.clone(), job.command_key.clone());
    (times, job.disk_error.clone(), job.report(), names, made_by)
}

/// Updates a snapshot's job, or ends it: when the snapshot was last seen, when its backup has ended, or since it is idle and
/// no backup.
pub(super) fn follow_snapshot(
    job: &mut Job,
    interval: &Interval,
    last_seen_at: Timestamp,
    last_use: Option<&LastUse>,
    ended: &[Arc<Job>],
) {
    let is_new = job.setup.kind.is_none();
    let is_there = update_snapshot(job, interval);
    // Known at once, such a backup has a forecast, and raises an alert if it hangs.
    if is_new {
        job.is_routine = job.is_routine_after(ended);
    }
    if !is_there || job.died_at == Some(interval.at) {
        let origin = job.origin_name();
        let origin = origin.and_then(|name| interval.topology.volume(&name));
        let work = origin.map(|origin| interval.work_of_volume(origin));
        job.record_unseen(interval.at, interval.elapsed_us, work.unwrap_or_default());
    }
    let read = job.read_share();
    if let Some(maker) = &mut job.maker {
        maker.note_read(read);
        if read == ReadShare::Nothing {
            maker.give_up(interval.at);
        }
    }
    let ended_at = match &job.backup_run {
        Some(run) if !is_there && !run.is_over() && run.runs() => {
            if run.report.is_none() {
                job.removed_at = job.removed_at.or(Some(last_seen_at));
            }
            None
        }
        _ if !is_there => Some(last_seen_at),
        Some(run) => run.ended_at().or_else(|| silent_end(run, interval.at)),
        None if job.is_backup() => match job.maker_state() {
            MakerState::Ended(end) => last_read_at(job, end, interval.at),
            // Its command has left it in the background.
            MakerState::Runs => None,
            MakerState::HandedOver | MakerState::Gone => job.command_report.map(|report| report.at),
        },
        None => last_use.and_then(|last_use| last_use.idle_since(interval.at)),
    };
    if let Some(at) = ended_at {
        job.left_snapshot = is_there;
        job.end_judged(at, ended);
    }
}

/// When a backup was over whose script has ended and left the snapshot. A script may have read a part of it, such as to recover
/// a database, and have left the rest to another program, or to one of its own that goes on.
fn last_read_at(job: &Job, end: ProcessEnd, now: Timestamp) -> Option<Timestamp> {
    let maker = job.maker.as_ref();
    if !maker.is_some_and(|maker| maker.may_be_read_on(&end)) {
        return Some(end.at);
    }
    let pause_ms = i64::try_from(job.pause_ms).unwrap_or(i64::MAX);
    let read_at = Timestamp::from_millisecond(now.as_millisecond().saturating_sub(pause_ms));
    let last_at = read_at.unwrap_or(end.at).max(end.at);
    let silent_ms = now.as_millisecond() - last_at.as_millisecond();
    (silent_ms >= LONGEST_CLEANUP_MS).then_some(last_at)
}

/// The end of a run whose process was not observed, and whose last message is long ago.
fn silent_end(run: &BackupRun, now: Timestamp) -> Option<Timestamp> {
    let is_silent = now.as_millisecond() - run.last_at.as_millisecond() >= LONGEST_CLEANUP_MS;
    (run.is_over() && !run.runs() && is_silent).then_some(run.last_at)
}

/// Updates a snapshot's job; returns whether its snapshot exists and is active.
fn update_snapshot(job: &mut Job, interval: &Interval) -> bool {
    let found = interval.volume(&job.key);
    let Some((volume, state)) = found.filter(|(volume, _)| volume.device.is_some()) else {
        return false;
    };
    job.origin = volume.origin.clone().or(job.origin.take());
    if let Some(origin) = interval.topology.origin_of(volume) {
        job.origin_uuid = Some(origin.uuid.to_string());
    }
    job.take_names(&interval.topology);
    if job.partly_seen {
        let created_at = volume.created_at.unwrap_or(job.started_at);
        job.started_at = job.started_at.min(created_at);
    }
    note_extensions(job, interval);
    job.note_invalidation(interval, state);
    job.update_state(interval.at, state);
    job.setup.update(interval, volume, state.fill);
    let full = overflows(interval, volume);
    job.record_growth(interval.at, full.and_then(|(_, state)| state.fill));
    job.update_mounts(interval.at, volume.mounted_on.as_deref());
    if let Some(device) = interval.device_of(volume)
        && let Some(counters) = device.counters
        && let Some(read) = counters.read_bytes()
    {
        job.count_reads(read, interval.at, interval.elapsed_us);
        let written = counters.written_bytes().unwrap_or_default();
        if job.in_use_on.is_none() && is_in_use(interval, volume, read, written) {
            job.in_use_on.clone_from(&job.mounted_on);
        }
    }
    update_read_errors(job, interval, volume);
    true
}

/// What the guard did stays with the backup that it did it for.
fn note_extensions(job: &mut Job, interval: &Interval) {
    let actions = interval.guard.iter().flat_map(|guard| &guard.state.actions);
    for action in actions {
        if action.uuid == job.key && action.has_extended() {
            job.note(&Note {
                at: action.at,
                text: action.text.clone(),
            });
        }
    }
}

/// Whether a mounted snapshot is written to like a file system in use. A backup that mounts it writes what the mount needs,
/// and times of access.
fn is_in_use(interval: &Interval, snapshot: &Volume, read: u64, written: u64) -> bool {
    let is_mounted = |volume: &Volume| volume.mounted_on.as_ref().map(|on| !on.is_empty());
    let origin = interval.topology.origin_of(snapshot);
    let is_in_place = origin.and_then(is_mounted) == Some(false) && written >= LEAST_IN_PLACE;
    let is_much = written >= LEAST_WRITTEN && written >= read / 2;
    is_mounted(snapshot) == Some(true) && (is_in_place || is_much)
}

fn update_read_errors(job: &mut Job, interval: &Interval, volume: &Volume) {
    for device in &interval.read_errors {
        let mut pvs = job
            .setup
            .origin_pvs
            .iter()
            .chain(&job.setup.cow_pvs)
            .flatten();
        if is_own(interval, volume, device) {
            if job.io_error_at.is_none() {
                job.io_error_at = Some(interval.at);
                job.io_error_device = Some(device.clone());
            }
        } else if job.disk_error.is_none() && pvs.any(|pv| pv == device) {
            job.disk_error = Some(DiskError {
                at: interval.at,
                device: device.clone(),
            });
        }
    }
}

/// Whether only a snapshot's reads, or its origin's, use this device: its own, its COW area, or its origin's data.
fn is_own(interval: &Interval, volume: &Volume, device: &str) -> bool {
    let topology = &interval.topology;
    let real = topology.origin_of(volume).and_then(|origin| origin.real);
    let own = [volume.device, volume.cow, real].into_iter().flatten();
    own.filter_map(|index| topology.devices.get(index))
        .any(|own| *own.name == *device)
}

/// Ends a command that has been silent for too long; its end is its last mark.
pub(super) fn abandon_silent(job: &mut Job, silence: &mut CommandSilence, elapsed_us: u64) {
    silence.us += elapsed_us.min(LONGEST_TICK_US);
    if silence.us >= LONGEST_SILENCE_US {
        job.bytes_read = silence.bytes_read;
        job.end(silence.last_at, Outcome::Abandoned);
    }
}

/// Adds the host's reads. Skips a tick that began before the job, since it includes other reads.
pub(super) fn follow_host(job: &mut Job, interval: &Interval) {
    let end_us = interval.at.as_microsecond();
    if end_us.saturating_sub_unsigned(interval.elapsed_us) < job.started_at.as_microsecond() {
        return;
    }
    job.setup.update_host(interval);
    if let Some(read) = interval.total().read_bytes() {
        job.bytes_read = Some(job.bytes_read.unwrap_or_default() + read);
    }
}
