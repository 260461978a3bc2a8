//! All jobs: which begin, continue and end with a tick, a command or a hook's message.

mod commands;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::follow::{Silence, abandon_silent, follow_host, follow_snapshot, key_properties};
use super::pending_runs::PendingRuns;
use super::setup::Setup;
use super::{Job, JobKind, Outcome};
use crate::interval::Interval;
use crate::sample::hooks::{HookMessage, Step};
use crate::topology::{Volume, VolumeKind};
pub use commands::{CommandError, Effect, JobChange};

/// How often running jobs are stored. Key events are stored at once.
const STORE_EVERY_MS: i64 = 10_000;
/// A program that creates a snapshot is observed within this time of the snapshot.
const MAKER_DISTANCE_MS: i64 = 3_000;
/// LVM's report, which shows that a thin volume is a snapshot, may take this long.
const MAKER_AGE_MS: i64 = 60_000;
/// Ended jobs in memory, so that a volume that reappears continues its job.
const MOST_ENDED: usize = 200;

/// All running jobs, and the last ended ones.
#[derive(Debug, Default)]
pub struct JobTracker {
    pending_runs: PendingRuns,
    /// Programs that created a snapshot, and when.
    makers: Vec<(Timestamp, String)>,
    running: Vec<Job>,
    ended: Vec<Arc<Job>>,
    /// Of running commands, by their keys.
    silences: HashMap<String, Silence>,
    last_id: i64,
    /// The first tick. Snapshots that existed then began earlier.
    began_at: Option<Timestamp>,
    last_seen_at: Option<Timestamp>,
    stored_at: Option<Timestamp>,
    /// The setup of every new job: host and kernel.
    machine: Setup,
}

impl JobTracker {
    /// Continues the jobs of an earlier process, whose last tick was at `last_tick_at`.
    pub fn resume(jobs: Vec<Job>, last_id: i64, last_tick_at: Option<Timestamp>) -> Self {
        let (mut running, ended): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(Job::is_running);
        for job in &mut running {
            job.partly_seen = true;
            if let Some(run) = &mut job.backup_run {
                run.is_unbroken = false;
            }
        }
        let ended = ended.into_iter().map(Arc::new).collect();
        Self { running, ended, last_id, last_seen_at: last_tick_at, ..Self::default() }
    }

    /// Sets the host's name and kernel.
    pub fn on(self, host: &str, kernel: Option<String>) -> Self {
        let machine = Setup { host: Some(host.into()), kernel, ..Setup::default() };
        Self { machine, ..self }
    }

    /// Running jobs, the oldest first.
    pub fn running(&self) -> &[Job] {
        &self.running
    }

    /// Ended jobs, the latest last.
    pub fn ended(&self) -> &[Arc<Job>] {
        &self.ended
    }

    /// Processes a tick; returns the jobs to store.
    pub fn advance(&mut self, interval: &Interval) -> Vec<Job> {
        if !interval.devices_listed {
            return Vec::new();
        }
        let before: Vec<_> = self.running.iter().map(key_properties).collect();
        let last_seen_at = self.last_seen_at.take().unwrap_or(interval.at);
        self.begin_snapshots(interval);
        self.find_makers(interval);
        self.find_runs();
        for job in &mut self.running {
            match job.kind {
                JobKind::Snapshot => follow_snapshot(job, interval, last_seen_at),
                JobKind::Mark => follow_host(job, interval),
                JobKind::Command => {
                    follow_host(job, interval);
                    let begin = || Silence::since(last_seen_at, job);
                    let silence = self.silences.entry(job.key.clone()).or_insert_with(begin);
                    abandon_silent(job, silence, interval.elapsed_us);
                }
            }
        }
        let stores_all = self.stored_at.is_none_or(|at| apart_ms(interval.at, at) >= STORE_EVERY_MS);
        if stores_all {
            self.stored_at = Some(interval.at);
        }
        let has_changed = |index: usize, job: &Job| before.get(index) != Some(&key_properties(job));
        let changed = self.running.iter().enumerate();
        let mut changed: Vec<Job> = changed
            .filter(|(index, job)| stores_all || has_changed(*index, job))
            .map(|(_, job)| job.clone())
            .collect();
        self.began_at.get_or_insert(interval.at);
        self.harm_commands(&mut changed);
        changed.extend(self.begin_failed_runs(interval));
        self.file_ended();
        changed
    }

    /// Processes a hook's message; returns its job if that changed.
    pub fn take_hook(&mut self, message: &HookMessage, at: Timestamp) -> Option<Job> {
        let listening_since = self.began_at.unwrap_or(at);
        let continues = message.step != Step::Preconnect && !self.pending_runs.contains(message.run);
        // PIDs are reused: the message is from the latest run.
        let mut runs = self.running.iter_mut().rev();
        let is_its = |job: &&mut Job| job.backup_run.as_ref().is_some_and(|run| run.run == message.run);
        let Some(job) = runs.find(is_its).filter(|_| continues) else {
            self.pending_runs.take(message, at, listening_since);
            return self.find_runs();
        };
        job.backup_run.as_mut()?.take(message.step, at, listening_since).then(|| job.clone())
    }

    /// Ends commands and marks that ran when the machine went down before it booted at `at`.
    pub fn booted(&mut self, at: Timestamp) -> Vec<Job> {
        let mut changed = Vec::new();
        let Some(seen_at) = self.last_seen_at.filter(|seen_at| *seen_at < at) else { return changed };
        let ran = |job: &&mut Job| job.kind != JobKind::Snapshot && job.started_at <= seen_at;
        for job in self.running.iter_mut().filter(ran) {
            job.end(seen_at, Outcome::Abandoned);
            changed.push(job.clone());
        }
        self.file_ended();
        changed
    }

    fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// Assigns new snapshots the programs that created them.
    fn find_makers(&mut self, interval: &Interval) {
        self.makers.retain(|(at, _)| apart_ms(*at, interval.at) <= MAKER_AGE_MS);
        self.makers.extend(interval.maker.clone().map(|maker| (interval.at, maker)));
        let is_open = |job: &&mut Job| {
            job.kind == JobKind::Snapshot && job.program.is_none() && job.backup_run.is_none()
        };
        for job in self.running.iter_mut().filter(is_open) {
            let nearest = self.makers.iter().min_by_key(|(at, _)| apart_ms(*at, job.started_at));
            let near = nearest.filter(|(at, _)| apart_ms(*at, job.started_at) <= MAKER_DISTANCE_MS);
            job.program = near.map(|(_, maker)| maker.clone());
        }
    }

    /// Assigns snapshots the runs that created them; returns the last such job.
    fn find_runs(&mut self) -> Option<Job> {
        let mut found = None;
        for job in &mut self.running {
            if let Some(run) = self.pending_runs.take_run_of(job) {
                job.started_at = job.started_at.min(run.first_at);
                job.backup_run = Some(run);
                found = Some(job.clone());
            }
        }
        found
    }

    /// Turns runs that failed without a snapshot into jobs.
    fn begin_failed_runs(&mut self, interval: &Interval) -> Vec<Job> {
        let before = self.running.len();
        for pending in self.pending_runs.take_failed(interval.at) {
            let id = self.next_id();
            self.running.push(pending.into_job(id, &self.machine, &interval.topology));
        }
        self.running[before..].to_vec()
    }

    /// A command whose snapshot died has lost what it read, whatever it reports.
    fn harm_commands(&mut self, changed: &mut Vec<Job>) {
        let died = self.running.iter().filter(|job| job.kind == JobKind::Snapshot && job.died_at.is_some());
        for snapshot in died.cloned().collect::<Vec<_>>() {
            let created_it = |job: &&mut Job| {
                let is_snapshot = job.kind == JobKind::Snapshot;
                !is_snapshot && job.died_at.is_none() && job.started_at <= snapshot.started_at
            };
            for job in self.running.iter_mut().filter(created_it) {
                job.died_at = snapshot.died_at;
                (job.vg, job.lv) = (snapshot.vg.clone(), snapshot.lv.clone());
                job.origin.clone_from(&snapshot.origin);
                changed.push(job.clone());
            }
        }
    }

    fn begin_snapshots(&mut self, interval: &Interval) {
        for (volume, _) in interval.volumes().filter(|(volume, _)| volume.is_snapshot()) {
            if self.running.iter().any(|job| job.key == *volume.uuid) {
                continue;
            }
            let job = self.reopened(volume).unwrap_or_else(|| self.new_snapshot(volume, interval.at));
            self.running.push(job);
        }
    }

    /// The earlier job of a volume that has reappeared.
    fn reopened(&mut self, volume: &Volume) -> Option<Job> {
        let index = self.ended.iter().position(|job| job.key == *volume.uuid)?;
        let mut job = Arc::unwrap_or_clone(self.ended.remove(index));
        (job.ended_at, job.outcome, job.partly_seen) = (None, None, true);
        Some(job)
    }

    fn new_snapshot(&mut self, volume: &Volume, at: Timestamp) -> Job {
        // Only LVM's report shows that a thin volume is a snapshot, later than the volume appears.
        let was_seen_late = self.began_at.is_none() || volume.kind == VolumeKind::ThinSnapshot;
        let created_at = volume.created_at.filter(|created_at| was_seen_late && *created_at < at);
        let started_at = created_at.unwrap_or(at);
        let mut job = Job::new(self.next_id(), JobKind::Snapshot, &volume.uuid, &volume.lv, started_at);
        job.partly_seen = self.began_at.is_none_or(|began_at| started_at < began_at);
        (job.vg, job.lv) = (Some(volume.vg.clone()), Some(volume.lv.clone()));
        job.setup.clone_from(&self.machine);
        job
    }

    fn file_ended(&mut self) {
        let ended = self.running.extract_if(.., |job| !job.is_running()).map(Arc::new);
        self.ended.extend(ended);
        self.silences.retain(|key, _| self.running.iter().any(|job| job.key == *key));
        let surplus = self.ended.len().saturating_sub(MOST_ENDED);
        self.ended.drain(..surplus);
    }
}

fn apart_ms(one: Timestamp, other: Timestamp) -> i64 {
    (one.as_millisecond() - other.as_millisecond()).abs()
}
