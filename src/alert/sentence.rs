//! The messages of alerts: the problem, its extent, and a command that helps.

use super::rule::CLEARANCE;
use super::{Alert, Rule, Severity};
use crate::config::Thresholds;
use crate::interval::Interval;
use crate::topology::{Group, State, Volume, VolumeState};
use crate::units::{Fill, size_text};

/// The smallest growth to suggest, as a share of the size: with less, the alert would soon be raised again.
const MIN_GROWTH: f64 = 0.2;
/// Additional percentage points of free space to suggest, for the same reason.
const EXTRA_ROOM: f64 = 5.0;
const MIB: u64 = 1024 * 1024;

/// The problem of a volume, and its remedy.
pub fn raised(
    rule: Rule,
    severity: Severity,
    volume: &Volume,
    state: &VolumeState,
    thresholds: Thresholds,
    interval: &Interval,
) -> String {
    let name = volume.full_name();
    let Some(fill) = rule.fill(state) else {
        let origin = volume.origin.as_deref().map_or_else(String::new, |origin| format!(" of {origin}"));
        return format!(
            "Snapshot {name}{origin} is invalid: it overflowed, or its COW area had an I/O error. Any backup that reads it is \
             lost. Remove it with `lvremove {name}` and make the next one larger than {}.",
            volume.size.map_or_else(|| "before".to_string(), size_text)
        );
    };
    let threshold = if severity == Severity::Critical { thresholds.critical } else { thresholds.warning };
    format!(
        "{what} {name} is {percent:.2} % full ({severity} from {threshold} %){used}. {remedy}",
        what = subject(rule),
        percent = fill.percent(),
        severity = severity.text(),
        used = used_text(fill),
        remedy = remedy(rule, volume, fill, thresholds.warning, interval.topology.group(&volume.vg)),
    )
}

/// How an alert ended while its volume exists.
pub fn cleared(rule: Rule, volume: &Volume, state: &VolumeState) -> String {
    let name = volume.full_name();
    match (state.state, rule.fill(state)) {
        (State::Invalid, _) => {
            format!("{} {name} is now invalid, which has its own alert.", subject(rule))
        }
        (State::Inactive, _) => format!("{} {name} was deactivated.", subject(rule)),
        (_, Some(fill)) => {
            format!("{} {name} is back to {:.2} %{}.", subject(rule), fill.percent(), used_text(fill))
        }
        (_, None) => format!("{} {name} is back to normal.", subject(rule)),
    }
}

/// How an alert ended because its volume is gone.
pub fn gone(alert: &Alert) -> String {
    format!("{} {}/{} was removed or deactivated.", subject(alert.rule), alert.vg, alert.lv)
}

fn subject(rule: Rule) -> &'static str {
    match rule {
        Rule::SnapshotFill | Rule::SnapshotInvalid => "Snapshot",
        Rule::BackupFailed => "Backup of",
        Rule::PoolData => "Thin pool",
        Rule::PoolMetadata => "Metadata of thin pool",
    }
}

fn remedy(rule: Rule, volume: &Volume, fill: Fill, warning: f64, group: Option<&Group>) -> String {
    let (name, vg) = (volume.full_name(), &volume.vg);
    if fill.unit == 0 {
        return format!("Extend it with `lvextend` (`lvs {name}` shows its size), or stop the writes.");
    }
    let option = if rule == Rule::PoolMetadata { "--poolmetadatasize" } else { "-L" };
    let extent = group.and_then(|group| group.extent).unwrap_or(4 * MIB);
    let preferred = growth(fill, warning).div_ceil(extent).saturating_mul(extent);
    let command = |bytes: u64| format!("`lvextend {option} +{}m {name}`", bytes / MIB);
    match group.and_then(|group| group.free) {
        Some(free) if free >= extent => {
            let bytes = preferred.min(free / extent * extent);
            format!("VG {vg} has {} free: run {}.", size_text(free), command(bytes))
        }
        Some(_) => {
            format!("VG {vg} has no free space: add a PV with `vgextend {vg} DEVICE`, or stop the writes.")
        }
        None => format!("If VG {vg} has free space, run {}.", command(preferred)),
    }
}

/// The growth in bytes that clears the alert.
fn growth(fill: Fill, warning: f64) -> u64 {
    let total = fill.total_bytes() as f64;
    let enough = fill.used_bytes() as f64 * 100.0 / (warning - CLEARANCE - EXTRA_ROOM).max(1.0) - total;
    enough.max(total * MIN_GROWTH).ceil() as u64
}

/// `: 4 of 5 GiB used`; empty if only the percentage is known.
fn used_text(fill: Fill) -> String {
    if fill.unit == 0 {
        return String::new();
    }
    format!(": {} of {} used", size_text(fill.used_bytes()), size_text(fill.total_bytes()))
}
