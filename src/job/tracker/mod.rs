//! All jobs: begins, continues and ends them at each tick, command or hook message.

mod commands;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::backup_run::BackupRun;
use super::follow::{
    CommandSilence, LastUse, abandon_silent, follow_host, follow_snapshot, key_properties,
};
use super::maker::MakerRun;
use super::pending_runs::PendingRuns;
use super::setup::Setup;
use super::{Job, JobKind, Outcome, tool, user};
use crate::interval::Interval;
use crate::sample::hooks::{HookMessage, Step};
use crate::sample::processes::Maker;
use crate::topology::{Topology, Volume, VolumeKind};
pub use commands::{CommandError, Effect, JobChange};

/// How often running jobs are stored. Key events are stored at once.
const STORE_EVERY_MS: i64 = 10_000;
/// A program that creates a snapshot is observed within this time of the snapshot.
const MAKER_DISTANCE_MS: i64 = 3_000;
/// LVM's report may be this late, and only it shows that a thin volume is a snapshot.
const MAKER_AGE_MS: i64 = 60_000;
/// LVM knows the second in which a volume was created, so its creator is observed up to this much later, hardly earlier.
const LVM_SECOND_MS: i64 = 1_000;
/// Ended jobs in memory: a volume that reappears continues its job, and the last ones of each volume tell what is usual.
const MOST_ENDED: usize = 200;
/// Ended jobs whose scripts are followed, which may still fail.
const MOST_FOLLOWED: usize = 10;
/// A smaller difference is how a clock is adjusted, or when a tick was taken.
const LEAST_SET_MS: i64 = 1000;

/// All running jobs, and the last ended ones.
#[derive(Debug, Default)]
pub struct JobTracker {
    pending_runs: PendingRuns,
    /// Programs that created volumes within the last minute.
    makers: Vec<SeenMaker>,
    /// The UUIDs of all volumes at the last tick.
    volumes: HashSet<Arc<str>>,
    running: Vec<Job>,
    ended: Vec<Arc<Job>>,
    /// Snapshots and the commands that created them, until both have ended.
    links: Vec<Link>,
    /// Active thin snapshots, by UUID.
    uses: HashMap<Arc<str>, LastUse>,
    /// The silences of running commands, by the job's key.
    silences: HashMap<String, CommandSilence>,
    last_id: i64,
    /// The first tick. Snapshots that existed then began earlier.
    began_at: Option<Timestamp>,
    last_seen_at: Option<Timestamp>,
    ticked_at: Option<Timestamp>,
    stored_at: Option<Timestamp>,
    /// The setup of every new job: host and kernel.
    machine: Setup,
}

/// A program that was seen to create volumes.
#[derive(Debug)]
struct SeenMaker {
    at: Timestamp,
    maker: Maker,
    /// How its processes ended, before the volume is known as a snapshot.
    run: MakerRun,
    /// The UUIDs of the volumes that appeared with it.
    created: Vec<Arc<str>>,
}

/// The keys of two jobs: a snapshot's, and that of the command that created it.
#[derive(Debug)]
struct Link {
    snapshot: String,
    command: String,
}

impl JobTracker {
    /// Continues the jobs of an earlier process, whose last tick was at `last_tick_at`.
    pub fn resume(jobs: Vec<Job>, last_id: i64, last_tick_at: Option<Timestamp>) -> Self {
        let mut tracker = Self {
            last_id,
            last_seen_at: last_tick_at,
            ..Self::default()
        };
        for mut job in jobs {
            if !job.is_running() {
                tracker.ended.push(Arc::new(job));
                continue;
            }
            job.partly_seen = true;
            if let Some(run) = &mut job.backup_run {
                run.is_unbroken = false;
                run.was_seen_running = false;
            }
            if let Some(command) = &job.command_key {
                tracker.links.push(Link {
                    snapshot: job.key.clone(),
                    command: command.clone(),
                });
            }
            tracker.running.push(job);
        }
        tracker
    }

    /// Sets the host's name and kernel.
    pub fn on(mut self, host: &str, kernel: Option<String>) -> Self {
        self.machine.host = Some(host.into());
        self.machine.kernel = kernel;
        self
    }

    /// Running jobs, the oldest first.
    pub fn running(&self) -> &[Job] {
        &self.running
    }

    /// Runs of mylvmbackup that have created no snapshot yet.
    pub fn pending_runs(&self) -> impl Iterator<Item = &BackupRun> {
        self.pending_runs.runs()
    }

    /// Ended jobs, the latest last.
    pub fn ended(&self) -> &[Arc<Job>] {
        &self.ended
    }

    /// Takes the present names of the volumes of ended jobs; returns the jobs with new ones.
    pub fn follow_names(&mut self, topology: &Topology) -> Vec<Job> {
        let mut renamed = Vec::new();
        for ended in &mut self.ended {
            let mut job = Arc::unwrap_or_clone(Arc::clone(ended));
            if job.take_names(topology) {
                *ended = Arc::new(job.clone());
                renamed.push(job);
            }
        }
        renamed
    }

    /// Processes a tick; returns the jobs to store.
    pub fn advance(&mut self, interval: &Interval) -> Vec<Job> {
        self.note_clock(interval);
        if !interval.devices_listed {
            return Vec::new();
        }
        let before: Vec<_> = self.running.iter().map(key_properties).collect();
        let last_seen_at = self.last_seen_at.take().unwrap_or(interval.at);
        let mut changed = self.update_processes(interval);
        self.note_makers(interval);
        self.begin_snapshots(interval);
        self.find_makers();
        self.find_runs();
        for job in &mut self.running {
            match job.kind {
                JobKind::Snapshot => {
                    let last_use = self.uses.get(&*job.key);
                    follow_snapshot(job, interval, last_seen_at, last_use, &self.ended);
                }
                JobKind::Mark => follow_host(job, interval),
                JobKind::Command => {
                    follow_host(job, interval);
                    let begin = || CommandSilence::since(last_seen_at, job);
                    let silence = self.silences.entry(job.key.clone()).or_insert_with(begin);
                    abandon_silent(job, silence, interval.elapsed_us);
                }
            }
        }
        let is_old = |at| apart_ms(interval.at, at) >= STORE_EVERY_MS;
        let stores_all = self.stored_at.is_none_or(is_old);
        if stores_all {
            self.stored_at = Some(interval.at);
        }
        for (index, job) in self.running.iter().enumerate() {
            if stores_all || before.get(index) != Some(&key_properties(job)) {
                changed.push(job.clone());
            }
        }
        self.began_at.get_or_insert(interval.at);
        self.judge_links(&mut changed);
        changed.extend(self.begin_unmade_runs(interval));
        self.file_ended();
        changed
    }

    /// Notes how much more or less time the wall clock shows than has passed.
    fn note_clock(&mut self, interval: &Interval) {
        let before = self.ticked_at.replace(interval.at);
        let Some(before) = before.filter(|_| interval.elapsed_us > 0) else {
            return;
        };
        let shown_us = interval.at.as_microsecond() - before.as_microsecond();
        let set_ms = shown_us.saturating_sub_unsigned(interval.elapsed_us) / 1000;
        if set_ms.abs() >= LEAST_SET_MS {
            for job in &mut self.running {
                job.clock_set_ms = job.clock_set_ms.saturating_add(set_ms);
            }
        }
    }

    /// Processes a hook's message; returns its job if that changed.
    pub fn take_hook(&mut self, message: &HookMessage, at: Timestamp) -> Option<Job> {
        let listening_since = self.began_at.unwrap_or(at);
        let is_pending = self.pending_runs.contains(message.run);
        if let Some(job) = self.job_of_run(message.run).filter(|_| !is_pending)
            && let Some(run) = &mut job.backup_run
        {
            let is_new = message.step == Step::Preconnect && (run.is_over() || !run.runs());
            if !is_new {
                let has_changed = run.take(message.step, at, listening_since);
                return has_changed.then(|| job.clone());
            }
        }
        self.pending_runs.take(message, at, listening_since);
        self.find_runs()
    }

    /// The running job of the process with this PID. PIDs are reused, so that of its latest run.
    fn job_of_run(&mut self, pid: u32) -> Option<&mut Job> {
        let mut jobs = self.running.iter_mut().rev();
        jobs.find(|job| job.backup_run.as_ref().is_some_and(|run| run.run == pid))
    }

    /// Ends commands, marks and runs of mylvmbackup that ran when the machine went down before it booted at `at`.
    pub fn booted(&mut self, at: Timestamp) -> Vec<Job> {
        let mut changed = Vec::new();
        let Some(seen_at) = self.last_seen_at.filter(|seen_at| *seen_at < at) else {
            return changed;
        };
        for job in &mut self.running {
            if let Some(maker) = &mut job.maker {
                maker.end_all(seen_at);
            }
            let is_process = job.kind != JobKind::Snapshot || job.backup_run.is_some();
            if is_process && job.started_at <= seen_at {
                job.end_at_shutdown(seen_at, &self.ended);
                changed.push(job.clone());
            }
        }
        self.file_ended();
        // A script that goes on after it has removed its snapshot did not finish.
        for ended in &mut self.ended {
            if ended.script_has_ended() == Some(false) {
                let job = Arc::make_mut(ended);
                job.maker
                    .iter_mut()
                    .for_each(|maker| maker.end_all(seen_at));
                if job.outcome == Some(Outcome::Unknown) {
                    job.outcome = Some(Outcome::Abandoned);
                }
                changed.push(job.clone());
            }
        }
        changed
    }

    fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// Assigns new snapshots the programs that created them.
    fn find_makers(&mut self) {
        let mut created = Vec::new();
        for job in &mut self.running {
            if job.kind != JobKind::Snapshot || job.program.is_some() {
                continue;
            }
            let Some(SeenMaker { maker, run, .. }) = maker_of(
                &self.makers,
                &job.key,
                &job.volume_name().unwrap_or_default(),
                job.started_at,
            ) else {
                continue;
            };
            job.program = Some(maker.program.clone());
            job.maker = Some(run.clone());
            let is_above = |run: &BackupRun| maker.processes.contains(&run.run);
            if job.backup_run.is_none()
                && let Some(run) = self.pending_runs.take_run(is_above)
            {
                job.begin_with(run);
            }
            created.push((job.key.clone(), maker.processes.clone()));
        }
        for (key, processes) in created {
            self.find_command(&key, &processes);
        }
    }

    /// Notes which volumes appeared with a program that creates some. LVM's report, which shows that a thin volume is a
    /// snapshot, comes later.
    fn note_makers(&mut self, interval: &Interval) {
        self.makers
            .retain(|seen| apart_ms(seen.at, interval.at) <= MAKER_AGE_MS);
        for maker in &interval.makers {
            // While it waits for LVM's lock, it is seen with the volumes of others.
            let is_it = |seen: &&mut SeenMaker| {
                (&seen.maker.processes, &seen.maker.program) == (&maker.processes, &maker.program)
            };
            match self.makers.iter_mut().find(is_it) {
                Some(seen) => {
                    seen.at = interval.at;
                    seen.maker.volume = maker.volume.clone().or(seen.maker.volume.take());
                }
                // The exits of this tick may be those of its snapshot before.
                None => self.makers.push(SeenMaker {
                    at: interval.at,
                    maker: maker.clone(),
                    run: MakerRun::new(&maker.above, maker.service),
                    created: Vec::new(),
                }),
            }
        }
        let mut now = HashSet::new();
        for (volume, _) in interval.volumes() {
            now.insert(Arc::clone(&volume.uuid));
            if self.began_at.is_none() || self.volumes.contains(&volume.uuid) {
                continue;
            }
            let name = volume.full_name();
            let mut recent = self.makers.iter_mut().rev();
            let is_its = |seen: &&mut SeenMaker| {
                let is_recent = apart_ms(seen.at, interval.at) <= MAKER_DISTANCE_MS;
                is_recent && seen.created.is_empty() && seen.maker.names(&name)
            };
            let maker = match recent.find(is_its) {
                Some(seen) => Some(seen),
                None => the_unnamed(&mut self.makers, interval.at),
            };
            if let Some(seen) = maker {
                seen.created.push(Arc::clone(&volume.uuid));
            }
        }
        self.volumes = now;
    }

    /// Updates whether the processes of backups run, how they exited, and which commands they run under. Returns the ended
    /// jobs that this changed.
    fn update_processes(&mut self, interval: &Interval) -> Vec<Job> {
        for process in interval.backups.iter() {
            self.pending_runs.update_process(process, interval.at);
            let Some(job) = self.job_of_run(process.pid) else {
                continue;
            };
            if let Some(run) = &mut job.backup_run {
                run.update_process(process, interval.at);
            }
            if let Some(running) = &process.running {
                let key = job.key.clone();
                self.find_command(&key, &running.ancestors);
            }
        }
        for exit in &interval.exits {
            let job = self.job_of_run(exit.run);
            if let Some(run) = job.and_then(|job| job.backup_run.as_mut()) {
                run.learn_exit(exit);
            }
        }
        for job in &mut self.running {
            if let Some(maker) = &mut job.maker {
                maker.update(interval, true, job.bytes_read);
            }
        }
        for seen in &mut self.makers {
            seen.run.update(interval, true, None);
        }
        self.judge_by_makers(interval)
    }

    /// A script goes on after it has removed its snapshot: its status decides about the ended job.
    fn judge_by_makers(&mut self, interval: &Interval) -> Vec<Job> {
        let mut changed = Vec::new();
        if interval.backups.is_empty() && interval.exits.is_empty() {
            return changed;
        }
        for index in 0..self.ended.len() {
            let job = &self.ended[index];
            let (Some(ended_at), Some(maker), Some(false)) =
                (job.ended_at, &job.maker, job.script_has_ended())
            else {
                continue;
            };
            let mut updated = maker.clone();
            updated.update(interval, false, job.bytes_read);
            updated.note_read(job.read_share());
            if updated == *maker {
                continue;
            }
            let mut job = Job::clone(job);
            job.maker = Some(updated);
            let mut others = self
                .running
                .iter()
                .chain(self.ended.iter().map(Arc::as_ref));
            job.is_spare = others.any(|other| job.is_spare_beside(other));
            if job.script_has_ended() == Some(true) && job.accepted_at.is_none() {
                job.end_judged(ended_at, &self.ended);
            }
            changed.push(job.clone());
            self.ended[index] = Arc::new(job);
        }
        changed
    }

    /// Assigns a snapshot the command that is among the processes above its creator.
    fn find_command(&mut self, key: &str, processes: &[u32]) {
        let Some(command) = self.command_above(processes).map(|job| job.key.clone()) else {
            return;
        };
        let mut jobs = self.running.iter_mut();
        let Some(job) = jobs.find(|job| job.key == key && job.command_key.is_none()) else {
            return;
        };
        job.command_key = Some(command.clone());
        if let Some(command) = self.remembered(&command) {
            command.snapshots_made += 1;
            // A thin volume is known as a snapshot later than it is made.
            if let (Some(at), Some(0)) = (command.ended_at, command.exit_status) {
                command.end(at, Outcome::Succeeded);
            }
        }
        let snapshot = key.into();
        self.links.push(Link { snapshot, command });
    }

    /// The running or just ended command that is one of these processes; the innermost of nested ones began last.
    fn command_above(&self, processes: &[u32]) -> Option<&Job> {
        let is_above = |job: &&Job| {
            let is_one = |process| processes.contains(&process);
            job.kind == JobKind::Command && job.process.is_some_and(is_one)
        };
        let ended = self.ended.iter().rev().map(|job| &**job);
        let all = self.running.iter().rev().chain(ended.take(MOST_FOLLOWED));
        all.into_iter().find(is_above)
    }

    /// The PIDs of backups whose processes are to be watched.
    pub fn backup_processes(&self) -> Vec<u32> {
        let of_jobs = self
            .running
            .iter()
            .filter_map(|job| job.backup_run.as_ref());
        let runs = of_jobs.chain(self.pending_runs.runs());
        let runs = runs.filter(|run| run.process_ended_at.is_none());
        let mut pids: Vec<u32> = runs.map(|run| run.run).collect();
        let ended = self.ended.iter().rev().map(|job| &**job);
        let open = ended.filter(|job| job.script_has_ended() == Some(false));
        for job in self.running.iter().chain(open.take(MOST_FOLLOWED)) {
            pids.extend(job.maker.iter().flat_map(MakerRun::running));
        }
        // It may be known only later that what they created is a snapshot.
        for SeenMaker { maker, .. } in &self.makers {
            pids.extend(maker.above.iter().chain(&maker.service));
        }
        let mut known = HashSet::new();
        pids.retain(|pid| known.insert(*pid));
        pids
    }

    /// Assigns snapshots the runs that created them; returns the last such job.
    fn find_runs(&mut self) -> Option<Job> {
        let mut found = None;
        for job in &mut self.running {
            if let Some(run) = self.pending_runs.take_run_of(job) {
                job.begin_with(run);
                found = Some(job.clone());
            }
        }
        found
    }

    /// Turns runs that ended without a snapshot into jobs.
    fn begin_unmade_runs(&mut self, interval: &Interval) -> Vec<Job> {
        let before = self.running.len();
        for pending in self.pending_runs.take_over(interval.at) {
            let id = self.next_id();
            let job = pending.into_job(id, &self.machine, &interval.topology);
            self.running.push(job);
        }
        self.running[before..].to_vec()
    }

    /// Passes the result of each command to the jobs of the snapshots that it created, and the fate of these snapshots back
    /// to the command: a command whose backup is bad has not succeeded, whatever it reports.
    fn judge_links(&mut self, changed: &mut Vec<Job>) {
        for link in std::mem::take(&mut self.links) {
            let snapshot_before = self.remembered(&link.snapshot).cloned();
            let command_before = self.remembered(&link.command).cloned();
            let (Some(snapshot_before), Some(command_before)) = (snapshot_before, command_before)
            else {
                continue;
            };
            let mut snapshot = snapshot_before.clone();
            let mut command = command_before.clone();
            snapshot.learn_result(&command, &self.ended);
            command.learn_loss(&snapshot);
            if snapshot.is_running() || command.is_running() {
                self.links.push(link);
            }
            for (before, job) in [(snapshot_before, snapshot), (command_before, command)] {
                if job == before {
                    continue;
                }
                if let Some(place) = self.remembered(&job.key) {
                    place.clone_from(&job);
                }
                changed.push(job);
            }
        }
    }

    fn begin_snapshots(&mut self, interval: &Interval) {
        let topology = &interval.topology;
        self.uses.retain(|uuid, _| {
            topology
                .volume(uuid)
                .is_some_and(|volume| volume.device.is_some())
        });
        for (volume, _) in interval.volumes() {
            // A snapshot that is kept inactive, as snapper does, is no backup.
            if !volume.is_snapshot() || volume.device.is_none() {
                continue;
            }
            let is_used = self.is_used(interval, volume);
            let uuid = &*volume.uuid;
            let is_left = |job: &Job| job.key == uuid && job.left_snapshot && job.is_backup();
            let is_known = self.running.iter().any(|job| job.key == uuid)
                || self.ended.iter().any(|job| is_left(job));
            if is_known || !(is_used || self.is_by_backup(volume)) {
                continue;
            }
            let job = self
                .reopened(volume)
                .unwrap_or_else(|| self.new_snapshot(volume, interval.at));
            self.running.push(job);
        }
    }

    /// Whether it is in use now, as a thick snapshot always is.
    fn is_used(&mut self, interval: &Interval, volume: &Volume) -> bool {
        if volume.kind != VolumeKind::ThinSnapshot {
            return true;
        }
        let is_new = self.began_at.is_some() && volume.created_at >= self.began_at;
        let last_use = self
            .uses
            .entry(Arc::clone(&volume.uuid))
            .or_insert_with(|| LastUse::begin(interval, volume, is_new));
        last_use.advance(interval, volume)
    }

    /// Whether a backup's program or command created it, as far as is known before it is used.
    fn is_by_backup(&self, volume: &Volume) -> bool {
        let mut job = Job {
            lv: Some(volume.lv.clone()),
            origin: volume.origin.clone(),
            ..Job::default()
        };
        let created_at = volume.created_at.unwrap_or(Timestamp::UNIX_EPOCH);
        let maker = maker_of(&self.makers, &volume.uuid, &volume.full_name(), created_at)
            .map(|seen| &seen.maker);
        job.program = maker.map(|maker| maker.program.clone());
        let command = maker.and_then(|maker| self.command_above(&maker.processes));
        command.is_some() || tool::is_for_backup(&job)
    }

    /// The earlier job of a volume that has reappeared.
    fn reopened(&mut self, volume: &Volume) -> Option<Job> {
        let index = self.ended.iter().position(|job| job.key == *volume.uuid)?;
        let mut job = Arc::unwrap_or_clone(self.ended.remove(index));
        job.reopen();
        Some(job)
    }

    fn new_snapshot(&mut self, volume: &Volume, at: Timestamp) -> Job {
        // Only LVM's report shows that a thin volume is a snapshot, and it arrives after the volume appears. A snapshot that
        // is used long after its creation begins with that.
        let was_seen_late = match self.began_at {
            None => true,
            Some(began_at) => {
                let since = volume.created_at.max(Some(began_at));
                volume.kind == VolumeKind::ThinSnapshot
                    && since.is_some_and(|since| apart_ms(since, at) <= MAKER_AGE_MS)
            }
        };
        let created_at = volume.created_at.filter(|_| was_seen_late);
        let started_at = created_at.map_or(at, |created_at| created_at.min(at));
        let id = self.next_id();
        let mut job = Job::new(id, JobKind::Snapshot, &volume.uuid, &volume.lv, started_at);
        job.partly_seen = self.is_before_first_tick(started_at);
        job.vg = Some(volume.vg.clone());
        job.lv = Some(volume.lv.clone());
        job.setup.clone_from(&self.machine);
        let mut latest_first = self.ended.iter().rev();
        let last = latest_first.find(|last| last.vg == job.vg && last.lv == job.lv);
        job.is_check = last.is_some_and(|last| last.is_check);
        job
    }

    /// Whether what began at `started_at` was not seen from its beginning.
    fn is_before_first_tick(&self, started_at: Timestamp) -> bool {
        self.began_at.is_none_or(|began_at| started_at < began_at)
    }

    fn file_ended(&mut self) {
        let ended = self.running.extract_if(.., |job| !job.is_running());
        self.ended.extend(ended.map(Arc::new));
        self.silences
            .retain(|key, _| self.running.iter().any(|job| job.key == *key));
        while self.ended.len() > MOST_ENDED {
            let index = self.dispensable();
            self.ended.remove(index);
        }
    }

    /// The oldest job of the volume or command that has most. An ordinary user displaces no jobs of others.
    fn dispensable(&self) -> usize {
        let mut users = self.ended.iter();
        if let Some(of_user) = users.position(|job| user(&job.key).is_some()) {
            return of_user;
        }
        let mut counts = HashMap::new();
        for job in &self.ended {
            *counts.entry(job.backed_up()).or_insert(0) += 1;
        }
        let most = counts.values().max();
        let has_most = |job: &Arc<Job>| counts.get(&job.backed_up()) == most;
        self.ended.iter().position(has_most).unwrap_or(0)
    }
}

fn apart_ms(one: Timestamp, other: Timestamp) -> i64 {
    (one.as_millisecond() - other.as_millisecond()).abs()
}

/// The program that created a volume: the volume appeared with it, or else it was seen near its creation.
fn maker_of<'a>(
    makers: &'a [SeenMaker],
    uuid: &str,
    name: &str,
    created_at: Timestamp,
) -> Option<&'a SeenMaker> {
    let appeared = |seen: &&SeenMaker| seen.created.iter().any(|created| **created == *uuid);
    if let Some(seen) = makers.iter().find(appeared) {
        return Some(seen);
    }
    let others = makers.iter().filter(|seen| {
        seen.created.is_empty() && (seen.maker.volume.is_none() || seen.maker.names(name))
    });
    let distance = |seen: &&SeenMaker| {
        let mut distance_ms = apart_ms(seen.at, created_at);
        if seen.at < created_at {
            distance_ms += LVM_SECOND_MS;
        }
        (seen.maker.volume.is_none(), distance_ms)
    };
    let near = others.min_by_key(distance)?;
    (distance(&near).1 <= MAKER_DISTANCE_MS).then_some(near)
}

/// The one of this moment whose volume gets its name from LVM: the only one, or the only one that has made nothing yet.
fn the_unnamed(makers: &mut [SeenMaker], now: Timestamp) -> Option<&mut SeenMaker> {
    let is_it = |seen: &SeenMaker| {
        seen.maker.volume.is_none() && apart_ms(seen.at, now) <= MAKER_DISTANCE_MS
    };
    let unnamed = makers.iter_mut().filter(|seen| is_it(seen));
    let (mut idle, mut busy): (Vec<_>, Vec<_>) = unnamed.partition(|seen| seen.created.is_empty());
    if idle.is_empty() {
        idle.append(&mut busy);
    }
    let only = idle.pop();
    only.filter(|_| idle.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_users_displace_no_others_from_memory() {
        let ended = |id: i64, key: &str| {
            let mut job = Job::new(id, JobKind::Command, key, "nightly", Timestamp::UNIX_EPOCH);
            job.end(Timestamp::UNIX_EPOCH, crate::job::Outcome::Succeeded);
            job
        };
        let of_users = (2..=300).map(|id| ended(id, &format!("user:1000:{id}")));
        let jobs = std::iter::once(ended(1, "uuid")).chain(of_users).collect();
        let mut tracker = JobTracker::resume(jobs, 300, None);
        tracker.file_ended();
        let ids: Vec<i64> = tracker.ended().iter().map(|job| job.id).collect();
        assert_eq!(ids, std::iter::once(1).chain(102..=300).collect::<Vec<_>>());
    }

    #[test]
    fn the_script_of_an_ended_backup_is_followed_however_many_other_jobs_end_after_it() {
        let mut backup = Job::new(1, JobKind::Snapshot, "u", "snap", Timestamp::UNIX_EPOCH);
        backup.maker = Some(MakerRun::new(&[7], None));
        backup.end(Timestamp::UNIX_EPOCH, crate::job::Outcome::Unknown);
        let mut jobs = vec![backup];
        for id in 2..30 {
            let key = id.to_string();
            let mut job = Job::new(id, JobKind::Command, &key, "copy", Timestamp::UNIX_EPOCH);
            job.end(Timestamp::UNIX_EPOCH, crate::job::Outcome::Succeeded);
            jobs.push(job);
        }
        assert_eq!(JobTracker::resume(jobs, 30, None).backup_processes(), [7]);
    }

    fn volume(uuid: &str, name: &str) -> Volume {
        let (vg, lv) = name.split_once('/').unwrap();
        Volume {
            vg: vg.into(),
            lv: lv.into(),
            uuid: uuid.into(),
            ..Volume::default()
        }
    }

    #[test]
    fn ended_jobs_follow_the_names_of_their_volumes_and_no_new_volume_of_the_old_name() {
        let mut job = Job::new(1, JobKind::Snapshot, "u1", "snap", Timestamp::UNIX_EPOCH);
        (job.vg, job.lv) = (Some("vg0".into()), Some("snap".into()));
        (job.origin, job.origin_uuid) = (Some("data".into()), Some("u0".into()));
        job.end(Timestamp::UNIX_EPOCH, crate::job::Outcome::Succeeded);
        let mut tracker = JobTracker::resume(vec![job], 1, None);
        for (volumes, expected) in [
            (vec![volume("u0", "vg0/data")], None),
            (
                vec![volume("u0", "vg0/old"), volume("u2", "vg0/data")],
                Some("vg0/snap vg0/old"),
            ),
            (vec![volume("u0", "vg1/old")], Some("vg1/snap vg1/old")),
            (
                vec![volume("u0", "vg1/old"), volume("u1", "vg1/kept")],
                Some("vg1/kept vg1/old"),
            ),
            (vec![], None),
        ] {
            let topology = Topology::new(Vec::new(), Vec::new(), volumes);
            let renamed = tracker.follow_names(&topology);
            let names = renamed.first().and_then(|job| {
                let (snapshot, origin) = (job.volume_name()?, job.origin_name()?);
                Some(format!("{snapshot} {origin}"))
            });
            assert_eq!(names.as_deref(), expected);
        }
    }

    /// A command that made so many snapshots, was expected to make so many, and may have been accepted.
    fn run_of(id: i64, made: u32, expected: u32, is_accepted: bool) -> Job {
        let key = id.to_string();
        let mut job = Job::new(id, JobKind::Command, &key, "nightly", Timestamp::UNIX_EPOCH);
        (job.snapshots_made, job.snapshots_expected) = (made, expected);
        job.end(Timestamp::UNIX_EPOCH, crate::job::Outcome::Succeeded);
        job.accepted_at = is_accepted.then_some(Timestamp::UNIX_EPOCH);
        job
    }

    #[test]
    fn a_command_is_to_make_as_many_snapshots_as_half_of_its_complete_runs() {
        for (runs, expected) in [
            (&[][..], 0),
            (&[(2, 0, false)], 2),
            // It lacked one, and does not get used to that.
            (&[(2, 0, false), (1, 2, false), (1, 2, false)], 2),
            (&[(2, 0, false), (1, 2, true)], 1),
            // One more on Sunday.
            (&[(1, 0, false), (1, 1, false), (2, 1, false)], 1),
        ] {
            let jobs = (1..).zip(runs);
            let jobs = jobs.map(|(id, (made, expected, is_accepted))| {
                run_of(id, *made, *expected, *is_accepted)
            });
            let mut tracker = JobTracker::resume(jobs.collect(), 9, None);
            let mark = crate::commands::Mark {
                key: "tonight".into(),
                kind: crate::commands::MarkKind::Command,
                name: "nightly".into(),
                label: None,
                started_at: Timestamp::UNIX_EPOCH,
                end: None,
                process: None,
                is_backup: false,
            };
            let change = tracker.mark(&mark, None, Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(change.job.snapshots_expected, expected, "{runs:?}");
        }
    }

    #[test]
    fn frequent_jobs_displace_no_rare_ones_from_memory() {
        let mut jobs = vec![run_of(1, 1, 1, false)];
        jobs[0].name = "weekly".into();
        jobs.extend((2..=250).map(|id| run_of(id, 1, 1, false)));
        let mut tracker = JobTracker::resume(jobs, 250, None);
        tracker.file_ended();
        assert_eq!(tracker.ended.len(), MOST_ENDED);
        let ids = [tracker.ended[0].id, tracker.ended[1].id];
        assert_eq!(ids, [1, 52]);
    }

    /// The second of the creation is that of an earlier program too.
    #[test]
    fn a_program_that_was_seen_before_the_second_of_a_creation_did_not_create_it() {
        let maker = |ms: i64, program: &str| SeenMaker {
            at: Timestamp::from_millisecond(1_000_000 + ms).unwrap(),
            maker: Maker {
                program: program.into(),
                processes: Vec::new(),
                above: Vec::new(),
                service: None,
                volume: None,
            },
            run: MakerRun::new(&[], None),
            created: Vec::new(),
        };
        let at = Timestamp::from_millisecond(1_000_000).unwrap();
        let program = |makers: &[SeenMaker]| {
            maker_of(makers, "u1", "vg0/snap", at).map(|seen| seen.maker.program.clone())
        };
        assert_eq!(
            program(&[maker(-500, "lvm"), maker(800, "thin.sh")]).as_deref(),
            Some("thin.sh")
        );
        assert_eq!(
            program(&[maker(100, "thin.sh"), maker(900, "lvm")]).as_deref(),
            Some("thin.sh")
        );
        assert_eq!(program(&[maker(-1_900, "lvm")]).as_deref(), Some("lvm"));
        assert_eq!(program(&[maker(-2_100, "lvm"), maker(3_001, "lvm")]), None);
        let mut thin = maker(-9_000, "thin.sh");
        thin.created.push("u1".into());
        let mut other = maker(0, "lvcreate");
        other.created.push("u2".into());
        assert_eq!(program(&[thin, other]).as_deref(), Some("thin.sh"));
    }
}
