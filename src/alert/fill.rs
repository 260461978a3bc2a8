//! Rules by fill: how full a snapshot or pool is, when it will be full, and whether a backup is done before.

use super::settle::Evaluation;
use super::trend::{Expected, VolumeForecast};
use super::volumes::VolumeUnderRule;
use super::{AlertText, Rule, Severity};
use crate::advice::{Extensible, PoolPart, monitoring, most_bytes};
use crate::config::{Measure, Thresholds};
use crate::forecast::{Eta, EtaBasis, Outlook, OutlookVerdict, Risk};
use crate::interval::Interval;
use crate::job::Job;
use crate::job::progress::overflows;
use crate::sample::guard::{GuardPlan, GuardedPart, GuardedVolume};
use crate::sample::lvm::{Autoextend, Policies};
use crate::sentence;
use crate::sentence::{Sentence, command};
use crate::topology::{State, Topology, Volume, VolumeKind};
use crate::units::{Fill, rough_text, size_text};

/// An extension is to last so many times as long as clears the alert, since speeds vary.
const LASTING: f64 = 1.25;
/// The smallest growth to suggest, as a share of the size: with less, the alert would soon be raised again.
const MIN_GROWTH: f64 = 0.2;
/// Additional percentage points of free space to suggest, for the same reason.
const EXTRA_ROOM: f64 = 5.0;
/// A burst of writes, as of mkfs, is shorter. An alert needs growth for so long, or for as long as is left.
const BURST_S: f64 = 60.0;
const NEVER_FULL: &str = " cannot overflow: it can hold a copy of its whole origin.";

impl VolumeUnderRule<'_> {
    pub(super) fn evaluate_fill(&self, raised: Option<Severity>) -> (Evaluation, Option<f64>) {
        match self.state.state {
            // The alert `SnapshotInvalid` covers it.
            State::Invalid | State::CutShort | State::Inactive => return (Evaluation::Over, None),
            State::Unknown => return (Evaluation::Unchanged, None),
            _ => {}
        }
        let Some(percent) = self.fill().map(Fill::percent) else {
            return (Evaluation::Unchanged, None);
        };
        let (evaluation, value) = match (self.rule, self.forecast) {
            _ if self.is_never_full() => (Evaluation::Clear, Some(percent)),
            (Rule::TimeUntilFull, Some(forecast)) => {
                time_until_full(forecast, self.thresholds, raised)
            }
            (Rule::FullBeforeDone, Some(forecast)) => (full_before_done(forecast, raised), None),
            (Rule::TimeUntilFull | Rule::FullBeforeDone, None) => (Evaluation::Unchanged, None),
            _ => (
                Evaluation::by_value(self.rule, percent, self.thresholds, raised),
                Some(percent),
            ),
        };
        // What a backup always needs is no warning, if it will certainly be enough.
        let is_enough =
            self.rule.has_outlook() && self.forecast.is_some_and(VolumeForecast::is_done_first);
        if is_enough && raised.is_none() && evaluation == Evaluation::WARNING {
            return (Evaluation::Clear, value);
        }
        if evaluation == Evaluation::CRITICAL && self.saved().is_some() {
            return (Evaluation::WARNING, value);
        }
        (evaluation, value)
    }

    /// How full a volume is, when it will be full, what that means, and what helps.
    pub(super) fn full(&self, severity: Severity) -> AlertText {
        let mut text = self.full_text(severity);
        let mut running = self.now.jobs.running().iter();
        if let Some(job) = running.find(|job| job.key == *self.volume.uuid) {
            text.remedy = text.remedy.then(job.in_use());
        }
        let policies = self.now.interval.policies.as_ref();
        if let Some(why) = policies.and_then(|policies| not_extended(self.volume, policies)) {
            text.remedy = text.remedy.then(sentence![why, "."]);
        }
        if let Some(saved) = self.saved() {
            // It makes the command superfluous.
            let backup = self.forecast.and_then(|it| it.backup.as_ref());
            let left = backup.and_then(|(_, outlook)| left_with_guard(outlook));
            text.remedy = Sentence::from(&*saved.text).then(left);
        } else if let Some(guarded) = self.guarded()
            && guarded.plan != GuardPlan::Nothing
        {
            text.remedy = Sentence::from(&*guarded.text).then(text.remedy);
        }
        text
    }

    /// What `cowbell guard` decided about it.
    fn guarded(&self) -> Option<&GuardedVolume> {
        let guard = self.now.interval.guard.as_ref()?;
        guard.volume(&self.volume.uuid, guarded_part(self.rule, self.volume.kind))
    }

    /// What it plans, if that keeps the volume from being full.
    fn saved(&self) -> Option<&GuardedVolume> {
        saved(self.now.interval, self.volume, self.rule)
    }

    fn full_text(&self, severity: Severity) -> AlertText {
        let Some(fill) = self.fill() else {
            return AlertText::default();
        };
        let level = self.level(severity).unwrap_or_default();
        let mut problem = self.says(format!(" is {:.2} % full{level}", fill.percent()));
        let forecast = self.forecast.filter(|_| self.rule != Rule::PoolMetadata);
        let Some((forecast, Expected::In(eta))) = forecast.map(|it| (it, it.full)) else {
            if forecast.is_some_and(|forecast| forecast.full == Expected::Stopped) {
                problem.push(" and does not grow now");
            }
            problem.push(used_text(fill));
            problem.push(".");
            return AlertText::new(problem, self.remedy(fill, forecast, None));
        };
        let kind = self.volume.kind;
        let is_saved = self.saved().is_some();
        let then = match &forecast.backup {
            Some(_) if is_saved => String::new(),
            Some((_, outlook)) => meanwhile(outlook, self.volume),
            None if kind.is_thick_snapshot() => String::new(),
            None => then_writes(self.volume),
        };
        let end = end(kind, is_saved);
        problem.push(format!(" and {end} {}{then}.", eta.in_text()));
        AlertText::new(problem, self.remedy(fill, Some(forecast), Some(eta)))
    }

    fn is_never_full(&self) -> bool {
        let forecast = self.forecast.filter(|_| self.rule != Rule::PoolMetadata);
        forecast.is_some_and(|forecast| forecast.full == Expected::Never)
    }

    /// Whether a backup runs that may fill it.
    fn is_read(&self) -> bool {
        let fills = |job: &Job| {
            let topology = &self.now.interval.topology;
            let full = topology
                .volume(&job.key)
                .and_then(|it| overflows(self.now.interval, it));
            job.is_backup() && full.is_some_and(|(full, _)| full.uuid == self.volume.uuid)
        };
        self.now.jobs.running().iter().any(fills)
    }

    /// ` (warning from 70 %)`
    fn level(&self, severity: Severity) -> Option<String> {
        let from = match severity {
            Severity::Warning => self.thresholds.warning,
            Severity::Critical => self.thresholds.critical,
        };
        let is_by_percent = self.rule.measure() == Measure::Percent;
        is_by_percent.then(|| format!(" ({} from {from} %)", severity.text()))
    }

    /// What helps, and how long it then lasts.
    fn remedy(&self, fill: Fill, forecast: Option<&VolumeForecast>, eta: Option<Eta>) -> Sentence {
        if self.is_never_full() {
            return sentence!["It", NEVER_FULL];
        }
        if fill.unit == 0 {
            let room =
                Extensible::new(self.volume, &self.now.interval.topology, part_of(self.rule));
            let extend = room.by_a_fifth(self.volume).capitalized();
            return sentence![extend, ". Otherwise stop the writes."];
        }
        if let Some((_, outlook)) = forecast.and_then(|forecast| forecast.backup.as_ref()) {
            let is_done_first = outlook.verdict == OutlookVerdict::DoneFirst;
            match (&outlook.remedy, eta) {
                (_, Some(_)) if is_done_first => return "Nothing needs to be done.".into(),
                (Some(remedy), Some(_)) => {
                    return sentence![remedy.text.clone().capitalized(), "."];
                }
                (remedy, None) if is_done_first || remedy.is_some() => {
                    return outlook.text.clone();
                }
                _ => {}
            }
        }
        let is_stopped = forecast.is_some_and(|forecast| forecast.full == Expected::Stopped);
        // What is also full by percent is to be extended all the same.
        let by_percent = self
            .volume
            .kind
            .fill_rule()
            .and_then(|rule| self.settings.of(rule));
        let is_full = by_percent.is_some_and(|it| fill.percent() >= it.warning);
        if is_stopped && !is_full && self.rule.measure() != Measure::Percent {
            return "Nothing needs to be done while it does not grow.".into();
        }
        let clear_of = |rule| self.settings.of(rule).map(|it| it.clear);
        let clear = match self.rule.measure() {
            Measure::Percent => Some(self.thresholds.clear),
            _ => self.volume.kind.fill_rule().and_then(clear_of),
        };
        let clear = clear.unwrap_or(fill.percent());
        let likely_s = eta.and_then(|eta| eta.likely_s);
        let time = likely_s.map(|likely_s| (likely_s, clear_of(Rule::TimeUntilFull)));
        let topology = &self.now.interval.topology;
        extension(self.rule, self.volume, fill, clear, topology, time)
    }

    pub(super) fn full_no_more(&self) -> Sentence {
        let (name, lower) = (self.name(), self.lower_noun());
        let percent = self.fill().map(Fill::percent).unwrap_or_default();
        match (self.rule, self.state.state) {
            (_, state) if state.is_lost() => self.says(" became invalid."),
            (_, State::Inactive) => self.says(" was deactivated."),
            _ if self.is_never_full() => self.says(NEVER_FULL),
            (Rule::FullBeforeDone, _) => {
                let will = match self.forecast.and_then(VolumeForecast::verdict) {
                    None if self.is_read() => return self.says(" does not grow any more."),
                    None => return sentence!["The backup that read {lower} ", name, " has ended."],
                    Some(OutlookVerdict::DoneFirst) => "will",
                    Some(_) => "will probably",
                };
                sentence![
                    "The backup {will} be done before {lower} ",
                    name,
                    " is full."
                ]
            }
            (Rule::TimeUntilFull, _) => self.says(format!(
                " will not be full soon any more: it is {percent:.2} % full."
            )),
            (_, _) => match self.fill().map(used_text) {
                Some(used) => self.says(format!(" is back to {percent:.2} %{used}.")),
                None => self.says(" is back to normal."),
            },
        }
    }
}

/// An alert needs a forecast that looks no further ahead than a few times what was seen, since a short burst of writes
/// looks alarming. A critical one also needs that even the latest time is soon.
fn time_until_full(
    forecast: &VolumeForecast,
    thresholds: Thresholds,
    raised: Option<Severity>,
) -> (Evaluation, Option<f64>) {
    let eta = match forecast.full {
        Expected::TooEarly => return (Evaluation::Unchanged, None),
        Expected::Far | Expected::Stopped | Expected::Never => return (Evaluation::Clear, None),
        Expected::Now => return (Evaluation::CRITICAL, Some(0.0)),
        Expected::In(eta) => eta,
    };
    let Some(likely_s) = eta.likely_s else {
        return (Evaluation::Clear, None);
    };
    let is_certain = |severity| {
        let is_soon = eta
            .latest_s
            .is_some_and(|latest_s| latest_s <= thresholds.warning);
        let is_burst = eta.seen_s < BURST_S.min(likely_s);
        eta.basis == EtaBasis::Tested && !is_burst && (severity == Severity::Warning || is_soon)
    };
    let evaluation = match Evaluation::by_value(Rule::TimeUntilFull, likely_s, thresholds, raised) {
        Evaluation::Raised(severity) if Some(severity) > raised && !is_certain(severity) => {
            match raised {
                None if is_certain(Severity::Warning) => Evaluation::WARNING,
                _ => Evaluation::Unchanged,
            }
        }
        evaluation => evaluation,
    };
    (evaluation, Some(likely_s))
}

/// A critical race remains critical until it is decided.
fn full_before_done(forecast: &VolumeForecast, raised: Option<Severity>) -> Evaluation {
    let Some((_, outlook)) = &forecast.backup else {
        // The backup has ended.
        return Evaluation::Over;
    };
    match (outlook.verdict, outlook.risk) {
        (OutlookVerdict::TooEarly, _) => Evaluation::Unchanged,
        // A reader that stopped is not done, and its end is not near.
        (_, Risk::Low) if outlook.done.is_none() && outlook.full.is_some() => {
            raised.map_or(Evaluation::Clear, Evaluation::Raised)
        }
        (_, Risk::High) => Evaluation::CRITICAL,
        (_, Risk::Race) => Evaluation::Raised(raised.unwrap_or(Severity::Warning)),
        (_, Risk::Low) => Evaluation::Clear,
    }
}

/// Whether LVM extends a volume by itself, as far as is seen; `None` of a kind that it never extends.
pub fn autoextend(volume: &Volume, policies: &Policies) -> Option<Sentence> {
    let Autoextend { threshold, percent } = volume.autoextend(policies)?;
    if threshold >= 100 {
        return Some("LVM does not extend it automatically".into());
    }
    not_extended(volume, policies).or_else(|| {
        let at = format!("by {percent} % at {threshold} %");
        Some(match volume.is_monitored() {
            Some(_) => sentence!["LVM extends it {at}"],
            None => sentence!["LVM is to extend it {at}; whether dmeventd monitors it is unknown"],
        })
    })
}

/// Whether LVM extends a volume by itself, as far as is seen.
pub fn is_autoextended(volume: &Volume, policies: &Policies) -> bool {
    let autoextend = volume.autoextend(policies);
    autoextend.is_some_and(|it| it.threshold < 100) && not_extended(volume, policies).is_none()
}

/// Why LVM does not extend a volume although it is to, and what switches that on; `None` if it does or may.
pub(super) fn not_extended(volume: &Volume, policies: &Policies) -> Option<Sentence> {
    let threshold = volume.autoextend(policies)?.threshold;
    let why = match volume.is_monitored() {
        _ if threshold >= 100 => return None,
        _ if !policies.dmeventd => "dmeventd does not run",
        Some(false) => "dmeventd does not monitor it",
        None if !policies.monitoring => "activation/monitoring is 0",
        _ => return None,
    };
    let set = sentence!["LVM is to extend it at {threshold} %, but does not, since {why}"];
    Some(sentence![set, ": ", monitoring(volume, *policies)])
}

/// What `cowbell guard` plans, if that keeps a volume from being full in the sense of a rule.
pub fn saved<'a>(interval: &'a Interval, volume: &Volume, rule: Rule) -> Option<&'a GuardedVolume> {
    let guard = interval.guard.as_ref()?;
    guard.saves(&volume.uuid, guarded_part(rule, volume.kind))
}

/// What the guard would extend, so that a rule about a volume is no longer met.
fn guarded_part(rule: Rule, kind: VolumeKind) -> GuardedPart {
    match rule {
        Rule::PoolMetadata => GuardedPart::Metadata,
        _ if kind.is_thin_pool() => GuardedPart::Pool,
        _ => GuardedPart::Snapshot,
    }
}

/// What happens to a volume, or would if the guard did not save it.
pub fn end(kind: VolumeKind, is_saved: bool) -> &'static str {
    match (kind.is_thick_snapshot(), is_saved) {
        (true, false) => "will overflow",
        (true, true) => "would overflow",
        (false, false) => "will be full",
        (false, true) => "would be full",
    }
}

/// What a backup does in the meantime: `. The backup needs about 8 min more and will be lost`
pub fn meanwhile(outlook: &Outlook, volume: &Volume) -> String {
    let is_snapshot = volume.kind.is_thick_snapshot();
    let done_s = outlook.done.and_then(|done| done.likely_s);
    let mut rest = String::new();
    let end = match (outlook.verdict, outlook.risk) {
        (OutlookVerdict::DoneFirst, _) => " and will be done first",
        (OutlookVerdict::FullFirst, _) if is_snapshot => " and will be lost",
        (_, Risk::High) if is_snapshot => " and will probably be lost",
        (_, Risk::Race) => ": a race",
        (OutlookVerdict::Open, Risk::Low) if is_snapshot && done_s.is_some() => {
            " and will probably be done first"
        }
        _ if is_snapshot => "",
        _ => {
            rest = then_writes(volume);
            ""
        }
    };
    match done_s {
        Some(done_s) => {
            let done = rough_text(done_s);
            format!(". The backup needs about {done} more{end}{rest}")
        }
        None => end.replace(" and", ", so the backup") + &rest,
    }
}

/// What the backup of a volume still needs that the guard will extend.
pub fn left_with_guard(outlook: &Outlook) -> Option<String> {
    let done = rough_text(outlook.done?.likely_s?);
    Some(format!(
        "The backup needs about {done} more and will probably be done first."
    ))
}

/// The end of a sentence on a full pool.
fn then_writes(pool: &Volume) -> String {
    format!(". Then writes to its volumes {}", pool.writes_when_full())
}

/// An extension that brings a volume below `clear` percent, and how long it then lasts; or all that there is, and what
/// else helps. `time` is until it is full without, and what it is to last at least.
pub(super) fn extension(
    rule: Rule,
    volume: &Volume,
    fill: Fill,
    clear: f64,
    topology: &Topology,
    time: Option<(f64, Option<f64>)>,
) -> Sentence {
    let vg = &volume.vg;
    let part = part_of(rule);
    let room = Extensible::new(volume, topology, part);
    let (used, total) = (fill.used_bytes() as f64, fill.total_bytes() as f64);
    let free = total - used;
    let mut wanted = growth(fill, clear);
    if let Some((likely_s, Some(lasting_s))) = time {
        let times = LASTING * lasting_s / likely_s.max(1.0);
        wanted = wanted.max((free * times - free) as u64);
    }
    let most = most_bytes(volume, part, topology).filter(|_| part == PoolPart::Data);
    let until_most = most.map_or(u64::MAX, |most| most.saturating_sub(fill.total_bytes()));
    wanted = wanted.min(until_most);
    let Some(extension) = room.by(wanted) else {
        let why_not = room.why_not().capitalized();
        return sentence![why_not, ". Otherwise stop the writes."];
    };
    let added = extension.bytes as f64;
    let percent = used * 100.0 / (total + added);
    let is_enough = extension.bytes >= wanted;
    let more =
        (!is_enough).then(|| sentence![", then ", room.more_space.clone(), ", or stop the writes"]);
    let lasts = match time {
        _ if extension.bytes >= until_most => Some(", after which it cannot overflow".into()),
        Some((likely_s, _)) if free > 0.0 => {
            let lasts = rough_text(likely_s * (free + added) / free);
            Some(format!(" and makes it last about {lasts}"))
        }
        _ => None,
    };
    let run = sentence![
        "run ",
        command(extension.command),
        ", which brings it to {percent:.0} %",
        lasts,
        more,
        ".",
    ];
    match room.free.map(size_text) {
        Some(free) if !is_enough => {
            sentence!["VG {vg} has only {free} for it, which is not enough: ", run]
        }
        Some(free) => sentence!["VG {vg} has {free} for it: ", run],
        None => sentence!["If VG {vg} has free space, ", run],
    }
}

fn part_of(rule: Rule) -> PoolPart {
    match rule {
        Rule::PoolMetadata => PoolPart::Metadata,
        _ => PoolPart::Data,
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
    let (used, total) = (size_text(fill.used_bytes()), size_text(fill.total_bytes()));
    format!(": {used} of {total} used")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::lvm::Segment;
    use crate::topology::{Group, LvLayout};

    const MIB: u64 = 1024 * 1024;

    fn check(free: Option<u64>, expected: &str) {
        check_in_time(free, None, expected);
    }

    fn check_in_time(free: Option<u64>, time: Option<(f64, Option<f64>)>, expected: &str) {
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
            name: "vg0".into(),
            free,
            extent: Some(4 * MIB),
            ..Group::default()
        };
        let topology = Topology::new(Vec::new(), vec![group], vec![volume.clone()]);
        let found = extension(Rule::SnapshotFill, &volume, fill, 65.0, &topology, time);
        assert_eq!(found.to_string(), expected, "{free:?} free");
    }

    #[test]
    fn without_a_backup_an_extension_clears_the_alert() {
        check(
            Some(1024 * MIB),
            "VG vg0 has 1.00 GiB for it: run `lvextend -L +16m vg0/snap`, which brings it to 58 %.",
        );
        check(
            Some(9 * MIB),
            "VG vg0 has only 9.00 MiB for it, which is not enough: run `lvextend -L +8m vg0/snap`, which brings it to 64 %, then add \
             a PV to VG vg0, since none that fits is free, or stop the writes.",
        );
        check(
            None,
            "If VG vg0 has free space, run `lvextend -L +16m vg0/snap`, which brings it to 58 %.",
        );
        let none = "VG vg0 has no room for it: add a PV to VG vg0, since none that fits is free. Otherwise stop the writes.";
        check(Some(MIB), none);
    }

    /// 24 MiB are full in 52 s. Until 40 min are left, 1.36 GiB are needed, and a quarter more.
    #[test]
    fn an_extension_lasts_until_the_alert_about_time_clears() {
        let time = Some((52.0, Some(2400.0)));
        check_in_time(
            Some(4096 * MIB),
            time,
            "VG vg0 has 4.00 GiB for it: run `lvextend -L +1364m vg0/snap`, which brings it to 4 % and makes it last about \
             50 min.",
        );
        check_in_time(
            Some(20 * MIB),
            time,
            "VG vg0 has only 20.0 MiB for it, which is not enough: run `lvextend -L +20m vg0/snap`, which brings it to 56 % and \
             makes it last about 95 s, then add a PV to VG vg0, since none that fits is free, or stop the writes.",
        );
    }

    #[test]
    fn lvm_extends_only_what_dmeventd_monitors() {
        let set = "LVM is to extend it";
        let on = "switch that on with `lvchange --monitor y vg0/pool`";
        for (threshold, monitoring, dmeventd, monitored, expected) in [
            (
                100,
                true,
                true,
                Some(true),
                "LVM does not extend it automatically".into(),
            ),
            (
                70,
                true,
                true,
                Some(true),
                "LVM extends it by 20 % at 70 %".into(),
            ),
            (
                70,
                true,
                true,
                Some(false),
                format!("{set} at 70 %, but does not, since dmeventd does not monitor it: {on}"),
            ),
            (
                70,
                true,
                false,
                Some(true),
                format!("{set} at 70 %, but does not, since dmeventd does not run: {on}"),
            ),
            (
                70,
                true,
                true,
                None,
                format!("{set} by 20 % at 70 %; whether dmeventd monitors it is unknown"),
            ),
        ] {
            let segment = Segment {
                monitored,
                ..Segment::default()
            };
            let pool = Volume {
                vg: "vg0".into(),
                lv: "pool".into(),
                kind: VolumeKind::ThinPool,
                layout: vec![LvLayout {
                    lv: "pool".into(),
                    allocation: None,
                    segments: vec![segment],
                }],
                ..Volume::default()
            };
            let mut policies = Policies {
                monitoring,
                dmeventd,
                ..Policies::default()
            };
            policies.pool.threshold = threshold;
            let found = autoextend(&pool, &policies).unwrap();
            assert_eq!(found.to_string(), expected, "{policies:?} {monitored:?}");
        }
    }
}
