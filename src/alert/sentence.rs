//! The messages of alerts: the problem, its extent, and a command that helps.

use super::case::Case;
use super::settle::Words;
use super::trend::{Expected, Forecast};
use super::wording::{self, lower};
use super::{Alert, Rule, Severity, state};
use crate::config::{Measure, Thresholds};
use crate::forecast::{Eta, OutlookVerdict};
use crate::topology::{Extensible, Group, State, Volume};
use crate::units::{Fill, capital, duration_text, rough_text, size_text};

/// The smallest growth to suggest, as a share of the size: with less, the alert would soon be raised again.
const MIN_GROWTH: f64 = 0.2;
/// Additional percentage points of free space to suggest, for the same reason.
const EXTRA_ROOM: f64 = 5.0;

/// The sentences of an alert about a volume.
pub(super) struct Sentences<'a> {
    pub case: &'a Case<'a>,
    pub thresholds: Thresholds,
}

impl Words for Sentences<'_> {
    /// The problem and its remedy.
    fn raised(&self, severity: Severity) -> String {
        let Case { rule, volume, .. } = self.case;
        let (name, of) = (volume.full_name(), of_origin(volume));
        match rule {
            Rule::SnapshotInvalid => wording::invalid(
                &name,
                &of,
                volume.size.map_or_else(|| "before".to_string(), size_text),
            ),
            Rule::MergeFailed => wording::merge_failed(&name),
            Rule::PoolState => self.pool_state(),
            Rule::AutoextendBlocked => self.autoextend_blocked(),
            Rule::SnapshotAge => {
                wording::old(&name, &of, duration_text(self.age_s()), self.thresholds)
            }
            Rule::SnapshotLeftOver => wording::left_over(&name, &of),
            _ => self.full(severity),
        }
    }

    /// How the alert ended while its volume exists.
    fn cleared(&self) -> String {
        let Case {
            rule,
            volume,
            state,
            forecast,
            ..
        } = self.case;
        let (subject, name) = (subject(self.case), volume.full_name());
        let fill = self.case.fill();
        match (rule, state.state) {
            (Rule::SnapshotInvalid, _) => format!("{subject} {name} was deactivated. {LOST}"),
            (Rule::PoolState, _) => {
                format!(
                    "{subject} {name} works again. Writes that failed in the meantime are lost."
                )
            }
            (Rule::AutoextendBlocked, _) => {
                format!(
                    "LVM can extend {} {name} again, or need not.",
                    lower(subject)
                )
            }
            (Rule::MergeFailed, _) => format!("The merge into {name} goes on, or is over."),
            (Rule::SnapshotAge | Rule::SnapshotLeftOver, _) => {
                format!("{subject} {name} is in use again.")
            }
            (_, State::Invalid) => {
                format!("{subject} {name} is now invalid, which has its own alert.")
            }
            (_, State::Inactive) => format!("{subject} {name} was deactivated."),
            (Rule::FullBeforeDone, _) => {
                match forecast.as_ref().and_then(|forecast| forecast.verdict()) {
                    None => format!("The backup that read {} {name} has ended.", lower(subject)),
                    Some(OutlookVerdict::DoneFirst) => {
                        format!(
                            "The backup will be done before {} {name} is full.",
                            lower(subject)
                        )
                    }
                    Some(_) => {
                        format!(
                            "The backup will probably be done before {} {name} is full.",
                            lower(subject)
                        )
                    }
                }
            }
            (Rule::TimeUntilFull, _) => {
                let percent = fill.map(Fill::percent).unwrap_or_default();
                format!(
                    "{subject} {name} will not be full soon any more: it is {percent:.2} % full."
                )
            }
            (_, _) => match fill {
                Some(fill) => {
                    format!(
                        "{subject} {name} is back to {:.2} %{}.",
                        fill.percent(),
                        used_text(fill)
                    )
                }
                None => format!("{subject} {name} is back to normal."),
            },
        }
    }

    fn job(&self) -> Option<i64> {
        self.case.job()
    }
}

impl Sentences<'_> {
    fn age_s(&self) -> f64 {
        self.case
            .volume
            .created_at
            .map_or(0.0, |since| self.case.age_s(since))
    }

    fn group(&self) -> Option<&Group> {
        self.case.now.interval.topology.group(&self.case.volume.vg)
    }

    fn pool_state(&self) -> String {
        let Case { volume, state, .. } = self.case;
        let remedy = match (
            state.state,
            state.fill,
            state.metadata.filter(|fill| fill.unit > 0),
        ) {
            (State::OutOfData, Some(fill), _) => {
                extension(Rule::PoolData, volume, fill, 70.0, self.group())
            }
            (State::OutOfData, None, _) => wording::EXTEND.into(),
            (_, _, Some(fill)) => extension(Rule::PoolMetadata, volume, fill, 70.0, self.group()),
            _ => String::new(),
        };
        let writes = match volume.when_full.as_deref() {
            Some("error") => "fail",
            _ => wording::WAIT_THEN_FAIL,
        };
        wording::pool_state(
            state.state,
            subject(self.case),
            &volume.full_name(),
            writes,
            &remedy,
        )
    }

    fn autoextend_blocked(&self) -> String {
        let Case { volume, now, .. } = self.case;
        let (name, vg) = (volume.full_name(), &volume.vg);
        let policies = now.interval.policies.unwrap_or_default();
        let group = self.group();
        let step = state::step(volume, &policies, group.and_then(|group| group.extent))
            .unwrap_or_default();
        let free = group.and_then(|group| group.free).unwrap_or_default();
        let percent = self.case.state.fill.map_or_else(String::new, |fill| {
            format!(" It is {:.2} % full.", fill.percent())
        });
        format!(
            "Thin pool {name} cannot be extended by LVM: from {} % on, it needs {}, but VG {vg} has {} free.{percent} Add a PV \
             with `vgextend {vg} DEVICE`.",
            policies.pool.threshold,
            size_text(step),
            size_text(free),
        )
    }

    /// How full a volume is, when it will be full, what that means, and what helps.
    fn full(&self, severity: Severity) -> String {
        let Case {
            rule,
            volume,
            forecast,
            ..
        } = self.case;
        let Some(fill) = self.case.fill() else {
            return String::new();
        };
        let is_snapshot = volume.kind.is_thick_snapshot();
        let (name, percent) = (volume.full_name(), format!("{:.2}", fill.percent()));
        let head = wording::full(
            subject(self.case),
            &name,
            percent,
            *rule,
            severity,
            self.thresholds,
        );
        let known = forecast.as_ref().filter(|_| *rule != Rule::PoolMetadata);
        let eta = match known.map(|forecast| forecast.full) {
            Some(Expected::In(eta)) => Some(eta),
            _ => None,
        };
        let Some((forecast, eta)) = known.zip(eta) else {
            let remedy = self.remedy(fill, known.map(|forecast| &**forecast), None);
            return format!("{head}{}. {remedy}", used_text(fill));
        };
        let end = wording::end(volume.kind);
        let then = match &forecast.backup {
            Some((_, outlook)) => wording::meanwhile(outlook, is_snapshot),
            None if is_snapshot => String::new(),
            None => wording::THEN_WRITES_FAIL.into(),
        };
        format!(
            "{head} and {end} {}{then}. {}",
            eta.in_text(),
            self.remedy(fill, Some(forecast), Some(eta))
        )
    }

    /// What helps, and how long it then lasts.
    fn remedy(&self, fill: Fill, forecast: Option<&Forecast>, eta: Option<Eta>) -> String {
        let Case { rule, volume, .. } = self.case;
        if fill.unit == 0 {
            return wording::extend(&volume.full_name());
        }
        let backup = forecast
            .and_then(|forecast| forecast.backup.as_ref())
            .map(|(_, outlook)| outlook);
        match backup {
            Some(outlook) if outlook.verdict == OutlookVerdict::DoneFirst && eta.is_some() => {
                return "Nothing needs to be done.".into();
            }
            Some(outlook) if outlook.verdict == OutlookVerdict::DoneFirst => {
                return outlook.text.clone();
            }
            Some(outlook) => {
                if let Some(remedy) = &outlook.remedy {
                    return if eta.is_some() {
                        sentence(&remedy.text)
                    } else {
                        outlook.text.clone()
                    };
                }
            }
            None => {}
        }
        let warning = match rule.measure() {
            Measure::Percent => self.thresholds.clear,
            _ => fill.percent(),
        };
        let mut text = extension(*rule, volume, fill, warning, self.group());
        let free = fill.total_bytes().saturating_sub(fill.used_bytes()) as f64;
        if let Some(likely_s) = eta.and_then(|eta| eta.likely_s).filter(|_| free > 0.0) {
            let room = Extensible::new(volume, self.group(), option(*rule));
            if let Some(extension) = room.by(growth(fill, warning)) {
                let lasts = rough_text(likely_s * (free + extension.bytes as f64) / free);
                text = format!(
                    "{} and makes it last about {lasts}.",
                    text.trim_end_matches('.')
                );
            }
        }
        text
    }
}

/// How an alert ended because its volume is gone.
pub fn gone(alert: &Alert) -> String {
    let name = alert.volume().unwrap_or_default();
    match alert.rule {
        Rule::SnapshotInvalid => format!("Snapshot {name} was removed. {LOST}"),
        Rule::MergeFailed => format!("Volume {name} was removed or deactivated."),
        Rule::FullBeforeDone | Rule::TimeUntilFull | Rule::SnapshotFill => {
            format!("{name} was removed or deactivated.")
        }
        Rule::SnapshotAge | Rule::SnapshotLeftOver => format!("Snapshot {name} was removed."),
        _ => format!("Pool {name} was removed or deactivated."),
    }
}

/// The end of an overflow is no recovery.
const LOST: &str = "A backup that was reading it is lost all the same.";

fn subject(case: &Case) -> &'static str {
    wording::subject(case.rule, case.volume.kind)
}

/// ` of data`
fn of_origin(volume: &Volume) -> String {
    volume
        .origin
        .as_deref()
        .map_or_else(String::new, |origin| format!(" of {origin}"))
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    format!("{}.", capital(text))
}

fn option(rule: Rule) -> &'static str {
    if rule == Rule::PoolMetadata {
        "--poolmetadatasize"
    } else {
        "-L"
    }
}

/// An extension that brings a volume below `clear` percent.
fn extension(rule: Rule, volume: &Volume, fill: Fill, clear: f64, group: Option<&Group>) -> String {
    let vg = &volume.vg;
    let room = Extensible::new(volume, group, option(rule));
    let Some(extension) = room.by(growth(fill, clear)) else {
        return format!(
            "VG {vg} has no free space: add a PV with `vgextend {vg} DEVICE`, or stop the writes."
        );
    };
    let percent = fill.used_bytes() as f64 * 100.0 / (fill.total_bytes() + extension.bytes) as f64;
    let run = format!(
        "run `{}`, which brings it to {percent:.0} %",
        extension.command
    );
    match room.free {
        Some(free) => format!("VG {vg} has {} free: {run}.", size_text(free)),
        None => format!("If VG {vg} has free space, {run}."),
    }
}

/// The growth in bytes that clears the alert.
fn growth(fill: Fill, clear: f64) -> u64 {
    let total = fill.total_bytes() as f64;
    let enough = fill.used_bytes() as f64 * 100.0 / (clear - EXTRA_ROOM).max(1.0) - total;
    enough.max(total * MIN_GROWTH).ceil() as u64
}

/// `: 4 of 5 GiB used`; empty if only the percentage is known.
fn used_text(fill: Fill) -> String {
    if fill.unit == 0 {
        return String::new();
    }
    format!(
        ": {} of {} used",
        size_text(fill.used_bytes()),
        size_text(fill.total_bytes())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn check(free: Option<u64>, expected: &str) {
        let volume = Volume {
            vg: "vg0".into(),
            lv: "snap".into(),
            ..Volume::default()
        };
        let fill = Fill {
            used: 56,
            total: 80,
            unit: MIB,
        };
        let group = Group {
            free,
            extent: Some(4 * MIB),
            ..Group::default()
        };
        let found = extension(Rule::SnapshotFill, &volume, fill, 65.0, Some(&group));
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
        check(
            None,
            "If VG vg0 has free space, run `lvextend -L +16m vg0/snap`, which brings it to 58 %.",
        );
        let none =
            "VG vg0 has no free space: add a PV with `vgextend vg0 DEVICE`, or stop the writes.";
        check(Some(MIB), none);
    }
}
