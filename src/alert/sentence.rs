//! The messages of alerts: the problem, its extent, and a command that helps.

use super::rule::CLEARANCE;
use super::{Alert, Rule, Severity};
use crate::config::Thresholds;
use crate::forecast::Outlook;
use crate::interval::Interval;
use crate::topology::{Extensible, Group, State, Volume, VolumeState};
use crate::units::{Fill, size_text};

/// The smallest growth to suggest, as a share of the size: with less, the alert would soon be raised again.
const MIN_GROWTH: f64 = 0.2;
/// Additional percentage points of free space to suggest, for the same reason.
const EXTRA_ROOM: f64 = 5.0;

/// The problem of a volume, and its remedy.
pub fn raised(
    rule: Rule,
    severity: Severity,
    volume: &Volume,
    state: &VolumeState,
    thresholds: Thresholds,
    interval: &Interval,
    outlook: Option<&Outlook>,
) -> String {
    let name = volume.full_name();
    let Some(fill) = rule.fill(state) else {
        let origin = volume.origin.as_deref().map_or_else(String::new, |origin| format!(" of {origin}"));
        return format!(
            "Snapshot {name}{origin} is invalid: it overflowed, or its COW area had an I/O error. Any backup that reads it is \
             lost. Unmount it, and remove it with `lvremove {name}`. If it overflowed, make the next one larger than {}.",
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
        remedy = remedy(rule, volume, fill, thresholds.warning, interval.topology.group(&volume.vg), outlook),
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

/// The forecast of the running backup, or an extension that clears the alert.
fn remedy(
    rule: Rule,
    volume: &Volume,
    fill: Fill,
    warning: f64,
    group: Option<&Group>,
    outlook: Option<&Outlook>,
) -> String {
    let (name, vg) = (volume.full_name(), &volume.vg);
    if fill.unit == 0 {
        return format!("Extend it with `lvextend` (`lvs {name}` shows its size), or stop the writes.");
    }
    if let Some(outlook) = outlook.filter(|outlook| outlook.is_conclusive()) {
        return outlook.text.clone();
    }
    let option = if rule == Rule::PoolMetadata { "--poolmetadatasize" } else { "-L" };
    let volume = Extensible::new(volume, group, option);
    let Some(extension) = volume.by(growth(fill, warning)) else {
        return format!(
            "VG {vg} has no free space: add a PV with `vgextend {vg} DEVICE`, or stop the writes."
        );
    };
    let percent = fill.used_bytes() as f64 * 100.0 / (fill.total_bytes() + extension.bytes) as f64;
    let run = format!("run `{}`, which brings it to {percent:.0} %", extension.command);
    match volume.free {
        Some(free) => format!("VG {vg} has {} free: {run}.", size_text(free)),
        None => format!("If VG {vg} has free space, {run}."),
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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn check(free: Option<u64>, expected: &str) {
        let volume = Volume { vg: "vg0".into(), lv: "snap".into(), ..Volume::default() };
        let fill = Fill { used: 56, total: 80, unit: MIB };
        let group = Group { free, extent: Some(4 * MIB), ..Group::default() };
        let found = remedy(Rule::SnapshotFill, &volume, fill, 70.0, Some(&group), None);
        assert_eq!(found, expected, "{free:?} free");
    }

    #[test]
    fn without_a_backup_an_extension_clears_the_alert() {
        check(
            Some(1024 * MIB),
            "VG vg0 has 1.00 GiB free: run `lvextend -L +16m vg0/snap`, which brings it to 58 %.",
        );
        check(
            Some(9 * MIB),
            "VG vg0 has 9.00 MiB free: run `lvextend -L +8m vg0/snap`, which brings it to 64 %.",
        );
        check(None, "If VG vg0 has free space, run `lvextend -L +16m vg0/snap`, which brings it to 58 %.");
        let none = "VG vg0 has no free space: add a PV with `vgextend vg0 DEVICE`, or stop the writes.";
        check(Some(MIB), none);
    }
}
