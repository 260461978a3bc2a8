//! What a tick says of a job that runs: its snapshot's state, its reads, and whether anybody still tells of it.
//!
//! Here a job learns and may end; which jobs there are is the book's.

use jiff::Timestamp;

use super::{Job, Outcome};
use crate::interval::Interval;

/// A command that nobody told of for so long was killed: `cowbell run` tells of it each half minute.
const LONGEST_SILENCE_US: u64 = 120_000_000;
/// What one tick adds to a silence at most: who told of it slept with the machine.
const LONGEST_TICK_US: u64 = 60_000_000;

/// When a command was last heard of, and what was known of it then.
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

/// What is kept at once when it changes.
pub(super) fn turns(job: &Job) -> impl PartialEq + use<> {
    let harm = (job.died_at, job.io_error_at, job.unmounted_at);
    (job.ended_at, harm, job.lv.clone(), job.mounted_on.clone())
}

/// A snapshot that is gone ended with this tick, or, when nobody looked for a while, after it was last seen.
pub(super) fn follow_snapshot(job: &mut Job, interval: &Interval, last_seen_at: Timestamp) {
    let Some((volume, state)) = interval.volumes().find(|(volume, _)| *volume.uuid == job.key) else {
        return job.end(last_seen_at, job.reported());
    };
    // Names may change while it lives; what is no longer known was true before.
    (job.vg, job.lv) = (Some(volume.vg.clone()), Some(volume.lv.clone()));
    job.name.clone_from(&volume.lv);
    job.origin = volume.origin.clone().or(job.origin.take());
    if let Some(created_at) =
        volume.created_at.filter(|created_at| job.partly_seen && *created_at < job.started_at)
    {
        job.started_at = created_at;
    }
    job.see(interval.at, state);
    job.setup.see(interval, volume);
    job.see_mounts(interval.at, volume.mounted_on.as_deref());
    if let Some(counters) = interval.device_of(volume).and_then(|device| device.counters) {
        job.count_reads(counters.sectors_read.bytes());
    }
}

/// A command of which nobody tells any more ended when it was last heard of, as far as anybody knows.
pub(super) fn abandon_silent(job: &mut Job, silence: &mut Silence, elapsed_us: u64) {
    silence.us += elapsed_us.min(LONGEST_TICK_US);
    if silence.us >= LONGEST_SILENCE_US {
        job.bytes_read = silence.bytes_read;
        job.end(silence.last_at, Outcome::Abandoned);
    }
}

/// Ticks that began before the job are left out: what they read was not the job's alone.
pub(super) fn follow_host(job: &mut Job, interval: &Interval) {
    let began_us = interval.at.as_microsecond().saturating_sub_unsigned(interval.elapsed_us);
    if began_us < job.started_at.as_microsecond() {
        return;
    }
    job.setup.see_host(interval);
    if let Some(total) = interval.total() {
        job.bytes_read = Some(job.bytes_read.unwrap_or_default() + total.sectors_read.bytes());
    }
}
