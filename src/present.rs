//! The current state, which the loop publishes after each tick.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::advice::{Extensible, PoolPart, never_overflows};
use crate::alert::{Alert, Pace, Race, Rule, saved};
use crate::averages::Averages;
use crate::config::{self, Config, Receiver};
use crate::forecast::{Outlook, ReadProgress, RemainingReads, Room, outlook};
use crate::interval::Interval;
use crate::job::Job;
use crate::job::progress::past_runs;
use crate::job::progress::{Curves, overflows};
use crate::notify::{Attempts, Delivery, Silence};
use crate::remote_write::RemoteWriteState;
use crate::sample::PartState;
use crate::sizing::{
    MeasuredVolumes, PlannedSize, SizeAdvice, SizingRequest, advise, next_snapshot,
};
use crate::source::{Part, ReadError, variant_name};
use crate::store::Health;
use crate::topology::{State, Volume, VolumeState};

/// The minimum time for which a tick counts as fresh; otherwise three intervals.
const MIN_FRESHNESS: Duration = Duration::from_secs(3);
/// A part may fail for this long: LVM's report comes every minute, and waits for no lock.
const PART_GRACE: SignedDuration = SignedDuration::from_secs(150);

/// The current state.
#[derive(Clone, Debug)]
pub struct Present {
    pub host: String,
    pub started_at: Timestamp,
    pub interval_length: Duration,
    pub interval: Arc<Interval>,
    /// The alert thresholds.
    pub thresholds: config::Alerts,
    pub averages: Arc<Averages>,
    /// Running jobs, and the last ones that ended.
    pub jobs: Vec<Arc<Job>>,
    /// What was read from live snapshots, and how far they filled.
    pub curves: Arc<Curves>,
    /// The forecasts of running backups by job, from when they are first needed.
    pub outlooks: OnceLock<HashMap<i64, Outlook>>,
    /// The running jobs of snapshots, from when they are first needed.
    pub running: OnceLock<RunningJobs>,
    /// What was measured of volumes, by UUID.
    pub measured: Arc<MeasuredVolumes>,
    pub alerts: Vec<Alert>,
    /// How fast snapshots and pools fill that grow, by UUID.
    pub paces: HashMap<Arc<str>, Pace>,
    /// The running backups that read them, by UUID of the snapshot or pool.
    pub races: HashMap<Arc<str>, Race>,
    /// The last deliveries of open and recent alerts, by alert and receiver.
    pub deliveries: Arc<BTreeMap<(i64, String), Delivery>>,
    /// Attempts to deliver an alert since the start, by receiver.
    pub attempts: Arc<BTreeMap<String, Attempts>>,
    pub silences: Vec<Silence>,
    /// The receivers of alerts, with their secrets.
    pub receivers: Arc<[Receiver]>,
    pub ticks: Ticks,
    pub parts: BTreeMap<Part, PartState>,
    pub store: Health,
    /// `None` if no receiver is configured.
    pub remote_write: Option<RemoteWriteState>,
    /// The retention settings.
    pub keep: config::Store,
    /// Hints on this program's setup, a sentence each.
    pub notes: Vec<String>,
    pub configuration: ConfigurationState,
    /// Ticks, jobs and alerts that were dropped since the start.
    pub lost: u64,
    /// Monotonic time of publication.
    pub published: Instant,
    /// Set at the end of a recording; no more ticks follow.
    pub ended: Option<RecordingEnd>,
}

/// The configuration in force.
#[derive(Clone, Debug, Default)]
pub struct ConfigurationState {
    /// Of its text without secrets.
    pub hash: String,
    /// Reloads since the start, by their end.
    pub taken: u64,
    pub refused: u64,
    /// Whether it was refused at the last reload.
    pub is_refused: bool,
}

impl ConfigurationState {
    pub fn of(config: &Config) -> Self {
        Self {
            hash: config.hash(),
            ..Self::default()
        }
    }

    pub fn take(&mut self, config: &Config) {
        self.hash = config.hash();
        self.taken += 1;
        self.is_refused = false;
    }

    pub fn refuse(&mut self) {
        self.refused += 1;
        self.is_refused = true;
    }
}

/// Indexes of running jobs, the latest last.
#[derive(Clone, Debug, Default)]
pub struct RunningJobs {
    /// By UUID of the snapshot.
    of_snapshot: HashMap<String, usize>,
    /// By UUID of the volume that is full when the snapshot overflows.
    filling: HashMap<Arc<str>, Vec<usize>>,
}

/// How a recording ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingEnd {
    Complete,
    /// It is cut off or damaged, as this says.
    Early(String),
}

/// Statistics of sampling.
#[derive(Clone, Debug, Default)]
pub struct Ticks {
    pub taken: u64,
    /// Intervals without a reading.
    pub missed: u64,
    pub took_us: Percentiles,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Percentiles {
    pub p50: u64,
    pub p99: u64,
}

impl Present {
    /// The running job of a snapshot.
    pub fn job_of(&self, volume: &Volume) -> Option<&Job> {
        let index = self.running_jobs().of_snapshot.get(&*volume.uuid)?;
        Some(&self.jobs[*index])
    }

    /// The running backups that may fill a snapshot or pool, the latest first.
    pub fn backups_filling(&self, volume: &Volume) -> impl Iterator<Item = &Job> {
        let indexes = self.running_jobs().filling.get(&volume.uuid);
        let indexes = indexes.into_iter().flatten().rev();
        indexes.map(|index| &*self.jobs[*index])
    }

    fn running_jobs(&self) -> &RunningJobs {
        self.running.get_or_init(|| {
            let mut running = RunningJobs::default();
            for (index, job) in self.jobs.iter().enumerate() {
                if !job.is_running() {
                    continue;
                }
                let of_snapshot = running.of_snapshot.entry(job.key.clone());
                of_snapshot.or_insert(index);
                let snapshot = self.interval.topology.volume(&job.key);
                if job.is_backup()
                    && let Some(snapshot) = snapshot
                    && let Some((full, _)) = overflows(&self.interval, snapshot)
                {
                    let filling = running.filling.entry(Arc::clone(&full.uuid));
                    filling.or_default().push(index);
                }
            }
            running
        })
    }

    /// Explains in a sentence why the usage of a snapshot or pool is unknown, if the device-mapper cannot be read.
    pub fn why_usage_is_unknown(&self, volume: &Volume, state: &VolumeState) -> Option<String> {
        let error = self.parts.get(&Part::Dm)?.error.as_ref()?;
        (volume.kind.fills() && state.state == State::Unknown).then(|| error.usage_unknown())
    }

    /// All parts that have a state, with their last results; `None` before the first.
    pub fn parts_in_order(&self) -> impl Iterator<Item = (Part, Option<&PartState>)> {
        // Without snapshots, statistics or mylvmbackup, these are never read.
        let is_optional = |part| {
            matches!(
                part,
                Part::Usage | Part::Touched | Part::BackupPlan | Part::Schedule
            )
        };
        Part::ALL
            .into_iter()
            .filter(|part| !part.is_of_events())
            .map(|part| (part, self.parts.get(&part)))
            .filter(move |(part, state)| !is_optional(*part) || state.is_some())
    }

    /// The forecast for a running job with a live snapshot.
    pub fn outlook(&self, job: &Job) -> Option<Outlook> {
        self.outlooks
            .get_or_init(|| self.all_outlooks())
            .get(&job.id)
            .cloned()
    }

    /// Takes up to half a millisecond for each job.
    fn all_outlooks(&self) -> HashMap<i64, Outlook> {
        let jobs = || self.jobs.iter().map(Arc::as_ref);
        let mut outlooks = HashMap::new();
        for job in jobs().filter(|job| job.is_running()) {
            let ended = jobs().rev().filter(|other| !other.is_running());
            if let Some(outlook) = forecast(job, &self.interval, &self.curves, ended) {
                outlooks.insert(job.id, outlook);
            }
        }
        outlooks
    }

    /// How large a snapshot of this volume has to be; `None` of a volume that has none, or if nothing is known.
    pub fn size_advice(&self, volume: &Volume, planned_bytes: Option<u64>) -> Option<SizeAdvice> {
        let ended = self.jobs.iter().rev().map(Arc::as_ref);
        let request = SizingRequest::of_volume(volume, &self.interval, &self.measured, ended)?;
        advise(&SizingRequest {
            planned_bytes,
            ..request
        })
    }

    /// Whether the next snapshot of a volume is large enough; `None` without backups, or if that is not known.
    pub fn planned_size(&self, volume: &Volume) -> Option<PlannedSize> {
        let ended = self.jobs.iter().rev().map(Arc::as_ref);
        let request = SizingRequest::of_volume(volume, &self.interval, &self.measured, ended)?;
        next_snapshot(&request)
    }

    /// How large the next snapshot of a job's origin has to be. `None` of a job that has no thick snapshot.
    pub fn size_advice_for(&self, job: &Job) -> Option<SizeAdvice> {
        let origin = job.origin_name().filter(|_| !job.is_imported())?;
        let origin = self.interval.topology.volume(&origin)?;
        self.size_advice(origin, None).filter(|it| !it.is_thin)
    }

    /// Whether LVM's dmeventd monitors snapshots, and unmounts invalid ones.
    pub fn is_monitored(&self) -> bool {
        self.interval
            .policies
            .is_some_and(|policies| policies.monitoring && policies.dmeventd)
    }

    /// Why not all is well: ticks are late, the database is not written, or a part cannot be read.
    pub fn problem(&self) -> Option<String> {
        if !self.is_fresh() {
            return Some("no tick is taken".into());
        }
        self.store.error.clone().or_else(|| {
            let (part, error) = self.failing_part()?;
            Some(format!("{}: {error}", variant_name(part)))
        })
    }

    /// A part that fails for longer than it may, and its error.
    pub fn failing_part(&self) -> Option<(Part, &ReadError)> {
        let (part, state) = self
            .parts
            .iter()
            .find(|(part, state)| self.is_failing(**part, state))?;
        Some((*part, state.error.as_ref()?))
    }

    /// Not every kernel has all parts, but alerts rest on some. Plans of the next backups are read only where they
    /// changed, and tell nothing of what is now.
    fn is_failing(&self, part: Part, state: &PartState) -> bool {
        let is_old = |last_ok_at| self.interval.at.duration_since(last_ok_at) > PART_GRACE;
        !matches!(part, Part::BackupPlan | Part::Schedule)
            && state.error.is_some()
            && state.last_ok_at.map_or(part.is_needed(), is_old)
    }

    /// Whether ticks arrive in time. The end of a recording is not late.
    pub fn is_fresh(&self) -> bool {
        self.ended.is_some()
            || self.published.elapsed() < MIN_FRESHNESS.max(self.interval_length * 3)
    }
}

/// The forecast for a running backup with a live snapshot, from its curve and from ended jobs, the latest first.
pub fn forecast<'a>(
    job: &Job,
    interval: &Interval,
    curves: &Curves,
    ended: impl Iterator<Item = &'a Job>,
) -> Option<Outlook> {
    let snapshot = interval.topology.volume(&job.key)?;
    let reads = job.is_running() && job.died_at.is_none() && job.stalled_since.is_none();
    if !reads || !job.is_backup() {
        return None;
    }
    let earlier = past_runs(job, ended);
    let left = RemainingReads::of(job.bytes_read, job.setup.file_system_bytes, &earlier);
    let room = overflows(interval, snapshot)
        .and_then(|(volume, state)| room(job, interval, volume, state));
    Some(outlook(
        left,
        room,
        curves.of(job.id).unwrap_or(&ReadProgress::default()),
        &earlier,
    ))
}

fn room(job: &Job, interval: &Interval, volume: &Volume, state: &VolumeState) -> Option<Room> {
    let fill = state.fill.filter(|fill| fill.unit > 0)?;
    let origin = job
        .setup
        .origin_bytes
        .filter(|_| volume.kind.is_thick_snapshot());
    let most = origin.map(|origin| never_overflows(origin, job.setup.chunk_bytes));
    let guard = saved(interval, volume, Rule::FullBeforeDone);
    Some(Room {
        is_pool: volume.kind.is_thin_pool(),
        free_bytes: fill.total_bytes().saturating_sub(fill.used_bytes()),
        most_bytes: most.map(|most| most.saturating_sub(fill.used_bytes())),
        volume: Extensible::new(volume, &interval.topology, PoolPart::Data),
        guard: guard.map(|it| it.text.clone()),
    })
}
