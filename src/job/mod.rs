//! Jobs: when a backup, a benchmark or a copy ran, and what is known of it.
//!
//! A snapshot volume that appears and goes is a job, known by its UUID: one life, one job. Others are told by marks.
//! What nobody said is not known: an outcome that was not reported is never success.

pub mod advice;
pub mod course;
pub mod diagnosis;
pub mod figures;
pub mod finish;
pub mod setup;
pub mod sizing;
pub mod statistics;
mod words;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::interval::Interval;
use crate::source::{Mark, MarkKind};
use crate::topology::{State, Volume, VolumeKind, VolumeState};

/// A running job's figures are handed on to be kept this often; its beginning, death and end at once.
const KEEP_EVERY_MS: i64 = 10_000;
/// dmeventd looks every 10 s at the latest, and then takes a moment.
const DEATH_AND_UNMOUNT_MS: i64 = 12_000;
/// Both may be seen in one tick, or the mount first.
const ONE_MOMENT_MS: i64 = 1_000;
/// Ended jobs that are remembered, so that a volume that comes back goes on with its job.
const REMEMBERED: usize = 200;

#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: i64,
    pub kind: JobKind,
    /// What makes it the same job after a restart: the snapshot's UUID, or the key that its mark chose.
    pub key: String,
    pub name: String,
    pub vg: Option<String>,
    pub lv: Option<String>,
    pub origin: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// `None` while it runs.
    pub outcome: Option<Outcome>,
    /// When its snapshot was seen to be invalid.
    pub died_at: Option<Timestamp>,
    /// The folder on which its snapshot is mounted, or was at last.
    pub mounted_on: Option<String>,
    /// When it was seen to be unmounted; `None` while it is mounted, or where it never was.
    pub unmounted_at: Option<Timestamp>,
    /// It had begun before anybody looked, or went on while nobody did.
    pub partly_seen: bool,
    pub last_fill_percent: Option<f64>,
    pub peak_fill_percent: Option<f64>,
    /// Of a snapshot: read from it. Of a command: read from all disks in the whole ticks while it ran.
    pub bytes_read: Option<u64>,
    /// What its device's counter of bytes read said last, to go on from.
    pub read_counter: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// The life of a snapshot volume.
    Snapshot,
    /// A command under `cowbell run`.
    Command,
    /// A span that somebody marked.
    Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    Failed,
    /// The snapshot became invalid while it lived.
    Overflowed,
    /// Nobody said.
    Unknown,
}

impl Outcome {
    pub fn text(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Overflowed => "overflowed",
            Self::Unknown => "unknown",
        }
    }
}

impl JobKind {
    pub fn text(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Command => "command",
            Self::Mark => "mark",
        }
    }
}

impl From<MarkKind> for JobKind {
    fn from(kind: MarkKind) -> Self {
        match kind {
            MarkKind::Mark => Self::Mark,
            MarkKind::Command => Self::Command,
        }
    }
}

impl Job {
    fn new(id: i64, kind: JobKind, key: &str, name: &str, started_at: Timestamp) -> Self {
        Self {
            id,
            kind,
            key: key.into(),
            name: name.into(),
            vg: None,
            lv: None,
            origin: None,
            started_at,
            ended_at: None,
            outcome: None,
            died_at: None,
            mounted_on: None,
            unmounted_at: None,
            partly_seen: false,
            last_fill_percent: None,
            peak_fill_percent: None,
            bytes_read: None,
            read_counter: None,
        }
    }

    pub fn is_running(&self) -> bool {
        self.ended_at.is_none()
    }

    pub fn seconds(&self, now: Timestamp) -> f64 {
        let end = self.ended_at.unwrap_or(now);
        (end.as_millisecond() - self.started_at.as_millisecond()).max(0) as f64 / 1000.0
    }

    fn see(&mut self, at: Timestamp, state: &VolumeState) {
        if state.state == State::Invalid {
            self.died_at.get_or_insert(at);
        }
        if let Some(percent) = state.fill.map(|fill| fill.percent()) {
            self.last_fill_percent = Some(percent);
            self.peak_fill_percent = Some(self.peak_fill_percent.map_or(percent, |peak| peak.max(percent)));
        }
    }

    fn see_mounts(&mut self, at: Timestamp, mounts: Option<&[String]>) {
        match mounts {
            Some([first, ..]) => {
                (self.mounted_on, self.unmounted_at) = (Some(first.clone()), None);
            }
            Some([]) if self.mounted_on.is_some() => {
                self.unmounted_at.get_or_insert(at);
            }
            _ => {}
        }
    }

    /// Whether it was unmounted so soon after its snapshot died that LVM's monitoring may have done it.
    pub fn was_unmounted_with_its_death(&self) -> bool {
        let between = self.died_at.zip(self.unmounted_at);
        between.is_some_and(|(died, unmounted)| {
            let ms = unmounted.as_millisecond() - died.as_millisecond();
            (-ONE_MOMENT_MS..=DEATH_AND_UNMOUNT_MS).contains(&ms)
        })
    }

    /// A device's counter starts with the device, so what it says is what was read in the snapshot's life.
    fn count_reads(&mut self, counter: u64) {
        let grown = match self.read_counter {
            Some(before) if before <= counter => counter - before,
            _ => counter,
        };
        self.bytes_read = Some(self.bytes_read.unwrap_or_default() + grown);
        self.read_counter = Some(counter);
    }

    fn end(&mut self, at: Timestamp, outcome: Outcome) {
        self.ended_at = Some(at.max(self.started_at));
        self.outcome = Some(if self.died_at.is_some() { Outcome::Overflowed } else { outcome });
    }
}

/// All jobs that run, and the last ones that ended.
#[derive(Debug, Default)]
pub struct JobBook {
    running: Vec<Job>,
    ended: Vec<Arc<Job>>,
    last_id: i64,
    /// When the first tick was: what was there by then had begun before.
    began_at: Option<Timestamp>,
    last_seen_at: Option<Timestamp>,
    kept_at: Option<Timestamp>,
}

impl JobBook {
    /// Goes on with the jobs of an earlier run of the program.
    ///
    /// `last_tick_at` is the last tick of that run: what is gone since was last seen then.
    pub fn resume(jobs: Vec<Job>, last_id: i64, last_tick_at: Option<Timestamp>) -> Self {
        let (mut running, ended): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(Job::is_running);
        for job in &mut running {
            // Nobody looked in between.
            job.partly_seen = true;
        }
        let ended = ended.into_iter().map(Arc::new).collect();
        Self { running, ended, last_id, began_at: None, last_seen_at: last_tick_at, kept_at: None }
    }

    /// Jobs that run, the oldest first.
    pub fn running(&self) -> &[Job] {
        &self.running
    }

    /// Jobs that ended, the latest last.
    pub fn ended(&self) -> &[Arc<Job>] {
        &self.ended
    }

    /// Takes a tick; gives the jobs that are to be kept anew.
    pub fn advance(&mut self, interval: &Interval) -> Vec<Job> {
        if !interval.saw_devices {
            return Vec::new();
        }
        let known = self.running.len();
        let last_seen_at = self.last_seen_at.take().unwrap_or(interval.at);
        self.begin_snapshots(interval);
        let keep_all = self
            .kept_at
            .is_none_or(|at| (interval.at.as_millisecond() - at.as_millisecond()).abs() >= KEEP_EVERY_MS);
        let mut news = Vec::new();
        for (index, job) in self.running.iter_mut().enumerate() {
            let turns = |job: &Job| {
                (job.ended_at, job.died_at, job.lv.clone(), job.unmounted_at, job.mounted_on.clone())
            };
            let before = turns(job);
            match job.kind {
                JobKind::Snapshot => follow_snapshot(job, interval, last_seen_at),
                JobKind::Command | JobKind::Mark => follow_host(job, interval),
            }
            if keep_all || index >= known || before != turns(job) {
                news.push(job.clone());
            }
        }
        if keep_all {
            self.kept_at = Some(interval.at);
        }
        self.began_at.get_or_insert(interval.at);
        self.file_ended();
        news
    }

    /// Takes a mark; gives the job that it began or ended, `None` where it says nothing new.
    pub fn mark(&mut self, mark: &Mark) -> Option<Job> {
        let ended = self.ended.iter().map(Arc::as_ref);
        let is_it = |job: &&Job| job.key == mark.key && job.kind != JobKind::Snapshot;
        let known = self.running.iter().chain(ended).find(is_it).cloned();
        let mut job = known.clone().unwrap_or_else(|| {
            self.last_id += 1;
            Job::new(self.last_id, mark.kind.into(), &mark.key, &mark.name, mark.started_at)
        });
        if let Some(ended) = &mark.ended {
            job.end(ended.at, if ended.succeeded { Outcome::Succeeded } else { Outcome::Failed });
        }
        if known.as_ref() == Some(&job) {
            return None;
        }
        self.running.retain(|other| other.key != job.key);
        self.ended.retain(|other| other.key != job.key);
        self.running.push(job.clone());
        self.file_ended();
        Some(job)
    }

    fn begin_snapshots(&mut self, interval: &Interval) {
        for (volume, _) in interval.volumes().filter(|(volume, _)| volume.is_snapshot()) {
            if self.running.iter().any(|job| job.key == *volume.uuid) {
                continue;
            }
            let job = self.reopened(volume).unwrap_or_else(|| self.begun(volume, interval.at));
            self.running.push(job);
        }
    }

    /// A volume that was gone and is there again goes on with its job.
    fn reopened(&mut self, volume: &Volume) -> Option<Job> {
        let index = self.ended.iter().position(|job| job.key == *volume.uuid)?;
        let mut job = Arc::unwrap_or_clone(self.ended.remove(index));
        (job.ended_at, job.outcome, job.partly_seen) = (None, None, true);
        Some(job)
    }

    fn begun(&mut self, volume: &Volume, at: Timestamp) -> Job {
        self.last_id += 1;
        // That a thin volume is a snapshot is known from LVM's report alone, which comes later than the volume.
        let was_seen_late = self.began_at.is_none() || volume.kind == VolumeKind::ThinSnapshot;
        let created_at = volume.created_at.filter(|created_at| was_seen_late && *created_at < at);
        let started_at = created_at.unwrap_or(at);
        let mut job = Job::new(self.last_id, JobKind::Snapshot, &volume.uuid, &volume.lv, started_at);
        job.partly_seen = self.began_at.is_none_or(|began_at| started_at < began_at);
        (job.vg, job.lv) = (Some(volume.vg.clone()), Some(volume.lv.clone()));
        job
    }

    fn file_ended(&mut self) {
        let (running, ended): (Vec<Job>, Vec<Job>) = self.running.drain(..).partition(Job::is_running);
        self.running = running;
        self.ended.extend(ended.into_iter().map(Arc::new));
        let surplus = self.ended.len().saturating_sub(REMEMBERED);
        self.ended.drain(..surplus);
    }
}

/// A snapshot that is gone ended with this tick, or, when nobody looked for a while, after it was last seen.
fn follow_snapshot(job: &mut Job, interval: &Interval, last_seen_at: Timestamp) {
    let Some((volume, state)) = interval.volumes().find(|(volume, _)| *volume.uuid == job.key) else {
        return job.end(last_seen_at, Outcome::Unknown);
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
    job.see_mounts(interval.at, volume.mounted_on.as_deref());
    if let Some(counters) = interval.device_of(volume).and_then(|device| device.counters) {
        job.count_reads(counters.sectors_read.bytes());
    }
}

/// Ticks that began before the job are left out: what they read was not the job's alone.
fn follow_host(job: &mut Job, interval: &Interval) {
    let began_us = interval.at.as_microsecond().saturating_sub_unsigned(interval.elapsed_us);
    if began_us < job.started_at.as_microsecond() {
        return;
    }
    if let Some(total) = interval.total() {
        job.bytes_read = Some(job.bytes_read.unwrap_or_default() + total.sectors_read.bytes());
    }
}

#[cfg(test)]
mod example;
