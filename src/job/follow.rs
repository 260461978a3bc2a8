//! Updates a running job at a tick: its snapshot's state, its reads, and the end of a silent command.

use jiff::Timestamp;

use super::{Job, Outcome};
use crate::interval::Interval;

/// `cowbell run` sends a mark every half minute. A command without one for this long was killed.
const LONGEST_SILENCE_US: u64 = 120_000_000;
/// The most that one tick adds to a silence: while the machine sleeps, `cowbell run` sleeps too.
const LONGEST_TICK_US: u64 = 60_000_000;

/// The time since a command's last mark, and what was known then.
#[derive(Debug)]
pub(super) struct Silence {
    last_at: Timestamp,
    bytes_read: Option<u64>,
    us: u64,
}

impl Silence {
    pub fn since(last_at: Timestamp, job: &Job) -> Self {
        Self { last_at: last_at.max(job.started_at), bytes_read: job.bytes_read, us: 0 }
    }
}

/// The properties whose changes are stored at once.
pub(super) fn key_properties(job: &Job) -> impl PartialEq + use<> {
    let harm = (job.died_at, job.io_error_at, job.unmounted_at);
    (job.ended_at, harm, job.lv.clone(), job.mounted_on.clone(), job.program.is_some())
}

/// Updates a snapshot's job, or ends it at the last tick with the snapshot.
pub(super) fn follow_snapshot(job: &mut Job, interval: &Interval, last_seen_at: Timestamp) {
    let Some((volume, state)) = interval.volumes().find(|(volume, _)| *volume.uuid == job.key) else {
        return job.end(last_seen_at, job.reported());
    };
    // A snapshot can be renamed.
    (job.vg, job.lv) = (Some(volume.vg.clone()), Some(volume.lv.clone()));
    job.name.clone_from(&volume.lv);
    job.origin = volume.origin.clone().or(job.origin.take());
    if job.partly_seen {
        job.started_at = volume.created_at.unwrap_or(job.started_at).min(job.started_at);
    }
    job.update_state(interval.at, state);
    job.setup.update(interval, volume);
    job.update_mounts(interval.at, volume.mounted_on.as_deref());
    if let Some(counters) = interval.device_of(volume).and_then(|device| device.counters) {
        job.count_reads(counters.sectors_read.bytes());
    }
}

/// Ends a command that was killed, at its last mark.
pub(super) fn abandon_silent(job: &mut Job, silence: &mut Silence, elapsed_us: u64) {
    silence.us += elapsed_us.min(LONGEST_TICK_US);
    if silence.us >= LONGEST_SILENCE_US {
        job.bytes_read = silence.bytes_read;
        job.end(silence.last_at, Outcome::Abandoned);
    }
}

/// Adds the host's reads. Skips a tick that began before the job, since it includes other reads.
pub(super) fn follow_host(job: &mut Job, interval: &Interval) {
    let began_us = interval.at.as_microsecond().saturating_sub_unsigned(interval.elapsed_us);
    if began_us < job.started_at.as_microsecond() {
        return;
    }
    job.setup.update_host(interval);
    if let Some(total) = interval.total() {
        job.bytes_read = Some(job.bytes_read.unwrap_or_default() + total.sectors_read.bytes());
    }
}
