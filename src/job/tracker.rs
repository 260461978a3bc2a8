//! All jobs: which begin, go on and end with a tick, a command or a hook's message.

mod commands;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::follow::{Silence, abandon_silent, follow_host, follow_snapshot, turns};
use super::runs::Runs;
use super::setup::Setup;
use super::{Job, JobKind, Outcome};
use crate::interval::Interval;
use crate::sample::hooks::{HookMessage, Step};
use crate::topology::{Volume, VolumeKind};
pub use commands::{CommandError, Effect, JobChange};

/// A running job's figures are handed on to be kept this often; its beginning, death and end at once.
const KEEP_EVERY_MS: i64 = 10_000;
/// A program that was seen to make a snapshot made the one that appeared at most this much before or after.
const MAKING_MS: i64 = 3_000;
/// That a thin volume is a snapshot is known when LVM has said it, which may take this long.
const MAKER_REMEMBERED_MS: i64 = 60_000;
/// Ended jobs that are remembered, so that a volume that comes back goes on with its job.
const REMEMBERED: usize = 200;

/// All jobs that run, and the last ones that ended.
#[derive(Debug, Default)]
pub struct JobTracker {
    runs: Runs,
    /// Programs that were seen to make a snapshot, and when.
    makers: Vec<(Timestamp, String)>,
    running: Vec<Job>,
    ended: Vec<Arc<Job>>,
    /// Of commands that run, by their keys.
    silences: HashMap<String, Silence>,
    last_id: i64,
    /// When the first tick was: what was there by then had begun before.
    began_at: Option<Timestamp>,
    last_seen_at: Option<Timestamp>,
    kept_at: Option<Timestamp>,
    /// The machine that is watched, and its kernel; the rest of it is unknown.
    machine: Setup,
}

impl JobTracker {
    /// Goes on with the jobs of an earlier run of the program.
    ///
    /// `last_tick_at` is the last tick of that run: what is gone since was last seen then.
    pub fn resume(jobs: Vec<Job>, last_id: i64, last_tick_at: Option<Timestamp>) -> Self {
        let (mut running, ended): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(Job::is_running);
        for job in &mut running {
            // Nobody looked in between.
            job.partly_seen = true;
            if let Some(heard) = &mut job.heard {
                heard.is_unbroken = false;
            }
        }
        let ended = ended.into_iter().map(Arc::new).collect();
        Self { running, ended, last_id, last_seen_at: last_tick_at, ..Self::default() }
    }

    /// The same on a machine of this name, with this kernel.
    pub fn on(self, host: &str, kernel: Option<String>) -> Self {
        let machine = Setup { host: Some(host.into()), kernel, ..Setup::default() };
        Self { machine, ..self }
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
        if !interval.devices_listed {
            return Vec::new();
        }
        let known = self.running.len();
        let last_seen_at = self.last_seen_at.take().unwrap_or(interval.at);
        let programs: Vec<bool> = self.running.iter().map(|job| job.program.is_some()).collect();
        self.begin_snapshots(interval);
        self.find_makers(interval);
        self.find_runs();
        let keep_all = self
            .kept_at
            .is_none_or(|at| (interval.at.as_millisecond() - at.as_millisecond()).abs() >= KEEP_EVERY_MS);
        let mut news = Vec::new();
        for (index, job) in self.running.iter_mut().enumerate() {
            let before = turns(job);
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
            let is_told = programs.get(index).is_some_and(|had| *had != job.program.is_some());
            if keep_all || index >= known || is_told || before != turns(job) {
                news.push(job.clone());
            }
        }
        if keep_all {
            self.kept_at = Some(interval.at);
        }
        self.began_at.get_or_insert(interval.at);
        self.harm_commands(&mut news);
        news.extend(self.end_unmade(interval));
        self.file_ended();
        news
    }

    /// Takes what a hook said; gives the job of which that is news.
    pub fn hear(&mut self, told: &HookMessage, at: Timestamp) -> Option<Job> {
        let listening_since = self.began_at.unwrap_or(at);
        let goes_on = told.step != Step::Preconnect && !self.runs.knows(told.run);
        // A process's number is used again: the latest run is the one that is heard.
        let job = self.running.iter_mut().rev().find(|job| goes_on && job.is_of(told.run));
        let Some(job) = job else {
            self.runs.hear(told, at, listening_since);
            return self.find_runs();
        };
        job.heard.as_mut()?.take(told.step, at, listening_since).then(|| job.clone())
    }

    /// Closes what was told to run when the machine went down: nobody is left to say how it ended.
    pub fn booted(&mut self, at: Timestamp) -> Vec<Job> {
        let last_seen_at = self.last_seen_at;
        let mut news = Vec::new();
        for job in self.running.iter_mut().filter(|job| job.kind != JobKind::Snapshot) {
            if let Some(seen_at) = last_seen_at.filter(|seen_at| job.started_at <= *seen_at && *seen_at < at)
            {
                job.end(seen_at, Outcome::Abandoned);
                news.push(job.clone());
            }
        }
        self.file_ended();
        news
    }

    fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// Gives snapshots the programs that were seen to make one when they appeared.
    fn find_makers(&mut self, interval: &Interval) {
        let apart_ms = |a: Timestamp, b: Timestamp| (a.as_millisecond() - b.as_millisecond()).abs();
        self.makers.retain(|(at, _)| apart_ms(*at, interval.at) <= MAKER_REMEMBERED_MS);
        self.makers.extend(interval.maker.clone().map(|maker| (interval.at, maker)));
        let is_open =
            |job: &&mut Job| job.kind == JobKind::Snapshot && job.program.is_none() && job.heard.is_none();
        for job in self.running.iter_mut().filter(is_open) {
            let near = self.makers.iter().filter(|(at, _)| apart_ms(*at, job.started_at) <= MAKING_MS);
            let nearest = near.min_by_key(|(at, _)| apart_ms(*at, job.started_at));
            job.program = nearest.map(|(_, maker)| maker.clone());
        }
    }

    /// Gives snapshots the runs that made them; gives the last job that got one.
    fn find_runs(&mut self) -> Option<Job> {
        let mut found = None;
        for job in &mut self.running {
            if let Some(heard) = self.runs.of(job) {
                job.started_at = job.started_at.min(heard.first_at);
                job.heard = Some(heard);
                found = Some(job.clone());
            }
        }
        found
    }

    /// Makes jobs of runs that ended without a snapshot.
    fn end_unmade(&mut self, interval: &Interval) -> Vec<Job> {
        let begin = self.running.len();
        for unmade in self.runs.given_up(interval.at) {
            let id = self.next_id();
            self.running.push(unmade.job(id, &self.machine, &interval.topology));
        }
        self.running[begin..].to_vec()
    }

    /// A command that made the snapshot that died has lost what it read, whatever its exit status will be.
    fn harm_commands(&mut self, news: &mut Vec<Job>) {
        let died: Vec<Job> =
            self.running.iter().filter(|job| job.kind == JobKind::Snapshot).cloned().collect();
        for (snapshot, died_at) in died.iter().filter_map(|job| job.died_at.map(|at| (job, at))) {
            let made_it = |job: &&mut Job| {
                let is_snapshot = job.kind == JobKind::Snapshot;
                !is_snapshot && job.died_at.is_none() && job.started_at <= snapshot.started_at
            };
            for job in self.running.iter_mut().filter(made_it) {
                job.died_at = Some(died_at);
                (job.vg, job.lv) = (snapshot.vg.clone(), snapshot.lv.clone());
                job.origin.clone_from(&snapshot.origin);
                news.push(job.clone());
            }
        }
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
        // That a thin volume is a snapshot is known from LVM's report alone, which comes later than the volume.
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
        let (running, ended): (Vec<Job>, Vec<Job>) = self.running.drain(..).partition(Job::is_running);
        self.running = running;
        self.silences.retain(|key, _| self.running.iter().any(|job| job.key == *key));
        self.ended.extend(ended.into_iter().map(Arc::new));
        let surplus = self.ended.len().saturating_sub(REMEMBERED);
        self.ended.drain(..surplus);
    }
}
