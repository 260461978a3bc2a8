//! Rules by state: snapshots that are lost, too old or left over, and pools that do not work or cannot grow.

use jiff::Timestamp;

use super::case::Case;
use super::rule::{Evaluation, evaluate as by_value};
use super::{Rule, Severity, Situation};
use crate::config::Thresholds;
use crate::job::{Job, JobKind};
use crate::sample::lvm::Policies;
use crate::topology::{State, Volume};
use crate::units::Fill;

const CRITICAL: Evaluation = Evaluation::Raised(Severity::Critical);
/// LVM extends by whole extents; its default.
const EXTENT: u64 = 4 << 20;

/// Evaluates a rule of this family; returns its value too.
pub(super) fn evaluate(
    case: &Case,
    thresholds: Thresholds,
    raised: Option<Severity>,
) -> (Evaluation, Option<f64>) {
    let state = case.state.state;
    let since = match case.rule {
        Rule::SnapshotInvalid => {
            // An invalid snapshot stays invalid: another state means that it is being removed.
            return (
                if state == State::Invalid {
                    CRITICAL
                } else {
                    other(state)
                },
                None,
            );
        }
        Rule::MergeFailed => return (merge_failed(state), None),
        Rule::PoolState => return (pool_state(state), None),
        Rule::AutoextendBlocked => return (autoextend_blocked(case), None),
        Rule::SnapshotAge => case.volume.created_at,
        _ => left_over_since(case.volume, case.now),
    };
    match since.map(|since| case.age_s(since)) {
        Some(age_s) => (by_value(case.rule, age_s, thresholds, raised), Some(age_s)),
        None if case.rule == Rule::SnapshotAge => (Evaluation::Unchanged, None),
        None => (Evaluation::Clear, None),
    }
}

/// Of an invalid snapshot that is not said to be invalid.
fn other(state: State) -> Evaluation {
    if state == State::Inactive {
        Evaluation::Over
    } else {
        Evaluation::Unchanged
    }
}

fn merge_failed(state: State) -> Evaluation {
    match state {
        State::MergeFailed => CRITICAL,
        State::Unknown | State::Suspended | State::Inactive => Evaluation::Unchanged,
        _ => Evaluation::Clear,
    }
}

/// A pool is deactivated to be repaired, which does not repair it yet.
fn pool_state(state: State) -> Evaluation {
    match state {
        State::ReadOnly | State::OutOfData | State::NeedsCheck | State::Failed => CRITICAL,
        State::Ok => Evaluation::Clear,
        _ => Evaluation::Unchanged,
    }
}

/// A warning once the group has no room for the next step, and critical once that step is due.
fn autoextend_blocked(case: &Case) -> Evaluation {
    let Some(policies) = case.now.interval.policies else {
        return Evaluation::Unchanged;
    };
    if !extends_pools(&policies) {
        return Evaluation::Clear;
    }
    let Some(group) = case.now.interval.topology.group(&case.volume.vg) else {
        return Evaluation::Unchanged;
    };
    let (Some(free), Some(step)) = (group.free, step(case.volume, &policies, group.extent)) else {
        return Evaluation::Unchanged;
    };
    match case.state.fill.map(Fill::percent) {
        _ if free >= step => Evaluation::Clear,
        Some(percent) if percent >= f64::from(policies.pool.threshold) => CRITICAL,
        _ => Evaluation::Raised(Severity::Warning),
    }
}

fn extends_pools(policies: &Policies) -> bool {
    policies.monitoring && policies.dmeventd && policies.pool.threshold < 100
}

/// The bytes by which LVM would extend a pool.
pub(super) fn step(pool: &Volume, policies: &Policies, extent: Option<u64>) -> Option<u64> {
    let extent = extent.filter(|extent| *extent > 0).unwrap_or(EXTENT);
    let bytes = pool.size?.saturating_mul(u64::from(policies.pool.percent)) / 100;
    Some(bytes.div_ceil(extent).max(1) * extent)
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
