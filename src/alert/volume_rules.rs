//! The table of the rules about volumes, and those by state: snapshots that are lost, too old or left over, and pools that do
//! not work or cannot grow. `fill` has those about how full a volume is.

use jiff::Timestamp;

use super::fill::{extension, not_extended};
use super::settle::Evaluation;
use super::volumes::{VolumeRule, VolumeUnderRule};
use super::{Alert, AlertText, Rule, Severity, Situation};
use crate::advice::{self, Extensible, PoolPart, PoolRefusal};
use crate::config::RuleSubject;
use crate::job::{Job, JobKind, why_invalid};
use crate::sample::host::Invalidation;
use crate::sample::lvm::Autoextend;
use crate::sentence;
use crate::sentence::Sentence;
use crate::topology::{State, Volume, VolumeKind};
use crate::units::{Fill, duration_text, size_text};

/// The end of an overflow is no recovery.
const LOST: &str = "A backup that was reading it is lost all the same.";
/// An extension of a pool that does not work brings it below this.
const ROOMY_PERCENT: f64 = 70.0;

impl VolumeUnderRule<'_> {
    /// The table of the rules about volumes; `None` for one about backups or cowbell.
    pub(super) fn row(rule: Rule) -> Option<VolumeRule> {
        Some(match rule {
            Rule::SnapshotFill
            | Rule::PoolData
            | Rule::PoolMetadata
            | Rule::TimeUntilFull
            | Rule::FullBeforeDone => VolumeRule {
                evaluate: |it, before| it.evaluate_fill(before),
                raised: |it, severity| it.full(severity),
                cleared: |it| it.full_no_more(),
            },
            Rule::SnapshotInvalid => VolumeRule {
                evaluate: |it, _| (it.evaluate_state(), None),
                raised: |it, _| it.lost(),
                cleared: |it| it.says(format!(" was deactivated. {LOST}")),
            },
            Rule::MergeFailed => VolumeRule {
                evaluate: |it, _| (it.evaluate_state(), None),
                raised: |it, _| it.not_merged(),
                cleared: |it| sentence!["The merge into ", it.name(), " goes on, or is over."],
            },
            Rule::PoolState => VolumeRule {
                evaluate: |it, _| (it.evaluate_state(), None),
                raised: |it, _| it.pool_broken(),
                cleared: |it| it.says(" works again. Writes that failed in the meantime are lost."),
            },
            Rule::VolumeState => VolumeRule {
                evaluate: |it, _| (it.evaluate_state(), None),
                raised: |it, _| it.troubled(),
                cleared: |it| it.says(format!(" is {} now.", it.state.state.text())),
            },
            Rule::NextSnapshotBlocked => VolumeRule {
                evaluate: |it, _| (it.next_snapshot_blocked(), None),
                raised: |it, _| it.blocks_next_snapshot(),
                cleared: |it| it.says(" does not block the next snapshot any more."),
            },
            Rule::AutoextendBlocked => VolumeRule {
                evaluate: |it, _| (it.autoextend_blocked(), None),
                raised: |it, _| it.cannot_extend(),
                cleared: |it| {
                    let pool = sentence![it.lower_noun(), " ", it.name()];
                    sentence!["LVM can extend ", pool, " again, or need not."]
                },
            },
            Rule::SnapshotAge => VolumeRule {
                evaluate: |it, before| match it.volume.created_at {
                    Some(created_at) => it.evaluate_age(created_at, before),
                    None => (Evaluation::Unchanged, None),
                },
                raised: |it, _| it.too_old(),
                cleared: |it| it.says(" is in use again."),
            },
            Rule::SnapshotLeftOver => VolumeRule {
                evaluate: |it, before| match left_over_since(it.volume, it.now) {
                    Some(since) => it.evaluate_age(since, before),
                    None => (Evaluation::Clear, None),
                },
                raised: |it, _| it.left_over(),
                cleared: |it| it.says(" is in use again."),
            },
            Rule::GroupState
            | Rule::BackupFailed
            | Rule::BackupMissing
            | Rule::BackupSlow
            | Rule::BackupSmall
            | Rule::SnapshotSmall
            | Rule::LockHeld
            | Rule::PartFailed
            | Rule::DataOld
            | Rule::TicksMissed
            | Rule::ConfigurationRefused
            | Rule::Guard
            | Rule::StoreFailed => return None,
        })
    }

    fn evaluate_age(
        &self,
        since: Timestamp,
        before: Option<Severity>,
    ) -> (Evaluation, Option<f64>) {
        let age_s = self.age_s(since);
        let evaluation = Evaluation::by_value(self.rule, age_s, self.thresholds, before);
        (evaluation, Some(age_s))
    }

    /// By the table of states.
    fn evaluate_state(&self) -> Evaluation {
        let state = self.state.state;
        match (state.alert(self.volume.kind), self.rule) {
            (Some((rule, severity)), _) if rule == self.rule => {
                if self.is_of_pool() {
                    Evaluation::Clear
                } else {
                    Evaluation::Raised(severity)
                }
            }
            _ if state == State::Unknown => Evaluation::Unchanged,
            (_, Rule::SnapshotInvalid | Rule::VolumeState) if state == State::Inactive => {
                Evaluation::Over
            }
            // It stays invalid: another state means that it is being removed.
            (_, Rule::SnapshotInvalid) => Evaluation::Unchanged,
            // A pool is deactivated to be repaired, which does not repair it yet.
            (Some(_), Rule::PoolState) if state == State::Suspended => Evaluation::Unchanged,
            (Some(_), Rule::MergeFailed) if state == State::Suspended => Evaluation::Unchanged,
            (_, Rule::PoolState | Rule::MergeFailed) if state == State::Inactive => {
                Evaluation::Unchanged
            }
            _ => Evaluation::Clear,
        }
    }

    /// The state that its alert follows from.
    pub(super) fn raised_by(&self) -> Option<State> {
        let (rule, _) = self.state.state.alert(self.volume.kind)?;
        (rule == self.rule).then_some(self.state.state)
    }

    /// Whether its pool has a trouble of its own, whose alert covers the volumes in it.
    fn is_of_pool(&self) -> bool {
        let interval = self.now.interval;
        let pool = interval.topology.pool_of(self.volume);
        let pool = pool.and_then(|pool| interval.volume(&pool.uuid));
        self.rule == Rule::VolumeState
            && pool.is_some_and(|(pool, state)| state.state.alert(pool.kind).is_some())
    }

    /// Whether `lvcreate` would refuse the next snapshot because of this volume.
    fn next_snapshot_blocked(&self) -> Evaluation {
        let is_blocked = match (self.volume.kind, self.state.metadata) {
            (VolumeKind::ThinPool, Some(_)) => self.too_full().is_some(),
            (VolumeKind::ThinPool, None) => return Evaluation::Unchanged,
            _ => self.awaits_merge() || (self.has_next_name() && !self.is_in_use()),
        };
        if is_blocked {
            Evaluation::CRITICAL
        } else {
            Evaluation::Clear
        }
    }

    /// The part of a thin pool that is so full that LVM creates no volume in it.
    fn too_full(&self) -> Option<PoolRefusal> {
        let threshold = self.autoextend().threshold;
        PoolRefusal::of(self.state.metadata?, self.state.fill?, threshold)
    }

    /// Whether mylvmbackup's next snapshot is to be of this volume, into which another one waits to be merged.
    fn awaits_merge(&self) -> bool {
        let next = self.now.interval.next_snapshot.as_ref();
        let is_next =
            next.is_some_and(|next| next.group == self.volume.vg && next.origin == self.volume.lv);
        is_next && self.volume.is_merged_into && self.state.state != State::Merging
    }

    /// Whether mylvmbackup's next snapshot is to have its name.
    fn has_next_name(&self) -> bool {
        let next = self.now.interval.next_snapshot.as_ref();
        next.is_some_and(|next| {
            next.group == self.volume.vg && next.name.as_ref() == Some(&self.volume.lv)
        })
    }

    /// Whether a backup may be using it.
    fn is_in_use(&self) -> bool {
        let mut running = self.now.jobs.running().iter();
        let job = running.find(|job| job.key == *self.volume.uuid);
        let is_run = job
            .and_then(|job| job.backup_run.as_ref())
            .is_some_and(|run| run.runs());
        let is_mounted = self
            .volume
            .mounted_on
            .as_ref()
            .is_none_or(|points| !points.is_empty());
        is_run || (is_mounted && left_over_since(self.volume, self.now).is_none())
    }

    /// A warning once the group has no room for the next step, and critical once that step is due.
    fn autoextend_blocked(&self) -> Evaluation {
        let Some(policies) = self.now.interval.policies else {
            return Evaluation::Unchanged;
        };
        // What LVM does not even try is said where the pool is full.
        let threshold = self.autoextend().threshold;
        if threshold >= 100 || not_extended(self.volume, &policies).is_some() {
            return Evaluation::Clear;
        }
        let (Some(free), Some(step)) = (self.free(), self.step()) else {
            return Evaluation::Unchanged;
        };
        let percent = self.state.fill.map(Fill::percent);
        if free >= step {
            Evaluation::Clear
        } else if percent.is_some_and(|percent| percent >= f64::from(threshold)) {
            Evaluation::CRITICAL
        } else {
            Evaluation::WARNING
        }
    }

    /// When LVM extends it by itself; never, if that is unknown.
    fn autoextend(&self) -> Autoextend {
        let policies = self.now.interval.policies.unwrap_or_default();
        self.volume.autoextend(&policies).unwrap_or_default()
    }

    /// What it can get in its group: nothing if LVM refuses.
    fn free(&self) -> Option<u64> {
        let room = self.room();
        match room.refusal {
            Some(_) => Some(0),
            None => room.free,
        }
    }

    fn room(&self) -> Extensible {
        Extensible::new(self.volume, &self.now.interval.topology, PoolPart::Data)
    }

    /// The bytes by which LVM would extend the pool.
    fn step(&self) -> Option<u64> {
        let extent = self.group()?.extent_bytes();
        let percent = u64::from(self.autoextend().percent);
        let bytes = self.volume.size?.saturating_mul(percent) / 100;
        Some(bytes.div_ceil(extent).max(1) * extent)
    }

    /// ` of data`, or how its writes are slowed: ` to data`
    fn origin_after(&self, preposition: &str) -> String {
        match &self.volume.origin {
            Some(origin) => format!(" {preposition} {origin}"),
            None => String::new(),
        }
    }

    fn removal(&self) -> Sentence {
        advice::removal(self.volume, &self.now.interval.topology)
    }

    fn lost(&self) -> AlertText {
        let of = self.origin_after("of");
        let size = self.volume.size.map_or("before".into(), size_text);
        let larger = format!("ake the next one larger than {size}.");
        let cause = self.its_job().and_then(Job::invalid_because);
        let next = match cause {
            Some(Invalidation::IoError) => ". See the kernel's log about its disk.".into(),
            Some(Invalidation::Overflow) => format!(". M{larger}"),
            Some(Invalidation::Cut) => ".".into(),
            None => format!(". If it overflowed, m{larger}"),
        };
        let lost = "Any backup that reads it is lost. ";
        AlertText::new(
            self.says(format!("{of} is invalid: {}.", why_invalid(cause))),
            sentence![lost, self.removal().capitalized(), next],
        )
    }

    /// What `volume_state` says.
    fn troubled(&self) -> AlertText {
        let topology = &self.now.interval.topology;
        let below = self
            .state
            .below
            .and_then(|index| topology.devices[index].lv.as_ref());
        // The RAID below a pool is a hidden volume.
        let part = below.map_or(&self.volume.lv, |lv| &lv.name);
        match self.state.state {
            State::Suspended => {
                let index = self.state.below.or(self.volume.device);
                let device = index.map_or("?", |index| &*topology.devices[index].name);
                let resume = advice::resumption(device).capitalized();
                // Reads of an origin wait for its own devices, and not for a COW area.
                let is_own = [self.volume.device, self.volume.real].contains(&index);
                let hangs = if self.volume.real.is_none() || is_own {
                    "All I/O to it hangs. "
                } else {
                    "Writes to it hang, and reads may. "
                };
                AlertText::new(
                    self.says(format!(" waits: device {device} is suspended.")),
                    sentence![hangs, resume, "."],
                )
            }
            State::Partial => AlertText::new(
                self.says(" is partial: a PV with a part of it is missing, or gives only errors."),
                sentence![
                    "I/O to that part fails. ",
                    advice::reattachment(self.volume, topology).capitalized(),
                    "."
                ],
            ),
            State::Rebuilding => AlertText::new(
                self.says(" writes a leg anew, and is not redundant until it is in sync."),
                "Nothing needs to be done; the other legs must not fail until then.",
            ),
            State::Degraded => AlertText::new(
                self.says(" is degraded: a leg has failed or is missing, and the next failure may lose data."),
                sentence![advice::raid_repair(self.volume, part, topology).capitalized(), "."],
            ),
            State::LegSplit => {
                let merge = self.volume.split_leg.as_deref().map(|leg| {
                    let merge = advice::raid_change(self.volume, leg, topology, "lvconvert --merge");
                    sentence![" Once that is not read any more, ", merge, "."]
                });
                AlertText::new(
                    self.says(" has a leg that is split off and gets nothing that is written now."),
                    sentence!["The next failure may lose data.", merge],
                )
            }
            State::RefreshNeeded => AlertText::new(
                self.says(" needs a refresh: a leg failed, and its PV is there again. Until then, the next failure may lose data."),
                sentence![
                    advice::raid_change(self.volume, part, topology, "lvchange --refresh").capitalized(),
                    ". If the leg fails again, replace its disk."
                ],
            ),
            State::MismatchesExist => AlertText::new(
                self.says(" has mismatches: its last check found that its legs differ."),
                sentence![
                    advice::raid_change(self.volume, part, topology, "lvchange --syncaction repair").capitalized(),
                    ". That makes them equal, and cannot tell which leg is right. See the kernel's log for a failing disk."
                ],
            ),
            _ if self.volume.kind.is_thin() => AlertText::new(
                self.says(" has failed: the pool does not know it, or cannot read its metadata."),
                "All I/O to it fails. See the kernel's log, and restore it from a backup.",
            ),
            _ => AlertText::new(
                self.says(" has failed: more legs are lost than it can do without."),
                "All I/O to it may fail. Attach the disks again, or restore it from a backup.",
            ),
        }
    }

    fn blocks_next_snapshot(&self) -> AlertText {
        if self.awaits_merge() {
            let topology = &self.now.interval.topology;
            let refusal = advice::origin_refusal(self.volume, topology).unwrap_or_default();
            return AlertText::new(
                sentence!["The next backup of ", self.name(), " cannot start."],
                sentence![refusal.capitalized(), "."],
            );
        }
        let found = self.too_full();
        let Some(found) = found.filter(|_| self.volume.kind.is_thin_pool()) else {
            return AlertText::new(
                self.says(" has the name that mylvmbackup gives to its next snapshot."),
                sentence![
                    "mylvmbackup then stops at once, and calls no hook. If no backup uses it, ",
                    self.removal(),
                    "."
                ],
            );
        };
        let rule = match found.part {
            PoolPart::Data => Rule::PoolData,
            PoolPart::Metadata => Rule::PoolMetadata,
        };
        let clear = found.limit.min(ROOMY_PERCENT);
        let topology = &self.now.interval.topology;
        let remedy = extension(rule, self.volume, found.fill, clear, topology, None);
        AlertText::new(
            sentence![found.text(self.name()), "."],
            Sentence::from("The next backup that makes one cannot start.").then(remedy),
        )
    }

    fn not_merged(&self) -> AlertText {
        let see = "See the kernel's log for I/O errors. To continue the merge, ";
        AlertText::new(
            sentence!["The merge of a snapshot into ", self.name(), " failed."],
            sentence![see, advice::reactivation(self.volume), "."],
        )
    }

    fn too_old(&self) -> AlertText {
        let of = self.origin_after("of");
        let created_at = self.volume.created_at;
        let age = duration_text(created_at.map_or(0.0, |since| self.age_s(since)));
        let limit = duration_text(self.thresholds.warning);
        AlertText::new(
            self.says(format!("{of} is {age} old (warning from {limit}).")),
            sentence![
                "If it is not needed, ",
                self.removal(),
                ". ",
                self.slows_writes()
            ],
        )
    }

    fn left_over(&self) -> AlertText {
        let of = self.origin_after("of");
        // A job goes on if no process reported its end.
        let uuid = &*self.volume.uuid;
        let is_running = self.now.jobs.running().iter().any(|job| job.key == *uuid);
        let why = if is_running {
            "it is not mounted any more"
        } else {
            "its backup has ended"
        };
        AlertText::new(
            self.says(format!("{of} still exists, although {why}.")),
            sentence![self.removal().capitalized(), ". ", self.slows_writes()],
        )
    }

    fn slows_writes(&self) -> String {
        let to = self.origin_after("to");
        format!("It slows down writes{to}.")
    }

    fn pool_broken(&self) -> AlertText {
        let topology = &self.now.interval.topology;
        let repair = sentence![advice::pool_repair(self.volume, topology), "."];
        match self.state.state {
            State::OutOfData => {
                let writes = self.volume.writes_when_full();
                let problem = format!(" is out of data space: writes to its volumes {writes}.");
                AlertText::new(self.says(problem), self.pool_remedy())
            }
            State::ReadOnly => {
                let then = Sentence::from("Writes to its volumes fail.");
                match self.state.metadata {
                    Some(fill) if !self.is_metadata_full(fill) => AlertText::new(
                        self.says(" is read-only: its metadata could not be written."),
                        then.then(sentence!["To repair it, ", repair]),
                    ),
                    _ => AlertText::new(
                        self.says(" is read-only: its metadata is full, or cannot be written."),
                        then.then(self.pool_remedy()),
                    ),
                }
            }
            State::NeedsCheck => {
                let why = "since it could not be written";
                let pool = sentence![self.lower_noun(), " ", self.name()];
                AlertText::new(
                    sentence!["The metadata of ", pool, " needs a check, {why}."],
                    sentence!["Writes to its volumes fail. To repair it, ", repair],
                )
            }
            _ => {
                let problem = match self.volume.kind {
                    VolumeKind::Writecache => " has failed: its cache had an error.",
                    _ => " has failed: its metadata is damaged, or cannot be read.",
                };
                let then = "All I/O of its volumes fails. See the kernel's log; to repair it, ";
                AlertText::new(self.says(problem), sentence![then, repair])
            }
        }
    }

    /// Whether the metadata of a thin pool may have run out; LVM extends no other.
    fn is_metadata_full(&self, metadata: Fill) -> bool {
        self.volume.kind.is_thin_pool() && metadata.percent() >= advice::metadata_limit(metadata)
    }

    /// For a pool without space; may be empty.
    fn pool_remedy(&self) -> Sentence {
        let (rule, fill) = match (self.state.state, self.state.fill) {
            (State::OutOfData, Some(fill)) => (Rule::PoolData, fill),
            (State::OutOfData, None) => {
                return sentence![self.room().by_a_fifth(self.volume).capitalized(), "."];
            }
            _ => match self.state.metadata.filter(|fill| fill.unit > 0) {
                Some(fill) => (Rule::PoolMetadata, fill),
                None => return Sentence::default(),
            },
        };
        let topology = &self.now.interval.topology;
        extension(rule, self.volume, fill, ROOMY_PERCENT, topology, None)
    }

    fn cannot_extend(&self) -> AlertText {
        let vg = &self.volume.vg;
        let threshold = self.autoextend().threshold;
        let step = size_text(self.step().unwrap_or_default());
        let free = size_text(self.free().unwrap_or_default());
        let need = format!("from {threshold} % on, it needs {step}, but VG {vg} has {free} for it");
        let fill = self.state.fill.map(Fill::percent);
        let fill = fill.map(|percent| format!("It is {percent:.2} % full."));
        let room = self.room();
        let helps = room.refusal.unwrap_or(room.more_space).capitalized();
        AlertText::new(
            self.says(format!(" cannot be extended by LVM: {need}.")),
            Sentence::from(fill).then(sentence![helps, "."]),
        )
    }
}

impl Rule {
    /// Whether it is judged every ten seconds only.
    pub(super) fn changes_slowly(self) -> bool {
        matches!(self, Self::SnapshotAge | Self::SnapshotLeftOver)
    }

    /// Whether a problem remains while its volume is deactivated. Such a volume is not seen until LVM reports it.
    pub(super) fn outlasts_volume(self) -> bool {
        matches!(self, Self::PoolState | Self::MergeFailed)
    }
}

impl Alert {
    /// How it ended because its volume is gone.
    pub(super) fn gone_text(&self) -> Sentence {
        let name = sentence::volume(self.volume().unwrap_or_default());
        match (self.rule, self.rule.subject()) {
            (Rule::SnapshotInvalid, _) => sentence!["Snapshot ", name, " was removed. {LOST}"],
            (Rule::SnapshotAge | Rule::SnapshotLeftOver, _) => {
                sentence!["Snapshot ", name, " was removed."]
            }
            (_, RuleSubject::AllVolumes) => {
                sentence!["Volume ", name, " was removed or deactivated."]
            }
            (_, RuleSubject::ThinPools | RuleSubject::PoolsAndCaches) => {
                sentence!["Pool ", name, " was removed or deactivated."]
            }
            _ => sentence![name, " was removed or deactivated."],
        }
    }
}

/// Since when no backup needs a snapshot that one created; `None` if one does, or if it is no backup's.
fn left_over_since(snapshot: &Volume, now: &Situation) -> Option<Timestamp> {
    let is_its = |job: &&Job| job.kind == JobKind::Snapshot && job.key == *snapshot.uuid;
    let running = now.jobs.running().iter().find(is_its);
    let ended = || now.jobs.ended().iter().rev().map(|job| &**job).find(is_its);
    let job = running
        .or_else(ended)
        .filter(|job| job.is_backup() && !job.is_imported())?;
    let has_source = job.backup_run.is_some() || job.command_key.is_some();
    match job.ended_at {
        Some(ended_at) if job.left_snapshot => Some(ended_at),
        // No process tells when the backup ended, so it was done when the snapshot was unmounted.
        None if !has_source => job.unmounted_at,
        _ => None,
    }
}
