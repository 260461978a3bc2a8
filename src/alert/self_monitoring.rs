//! Rules about cowbell itself: what it cannot read or write, and ticks that it missed. Their alerts have no volume.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::settle::{AlertSubject, Evaluation, RuleFinding};
use super::{Alert, AlertText, Rule, Rules, Severity};
use crate::config::{GUARD_PATH, GuardMode};
use crate::sample::PartState;
use crate::sample::guard::{GuardPlan, GuardSeen};
use crate::sentence;
use crate::sentence::command;
use crate::source::{Part, variant_name};
use crate::units::duration_text;

/// A part that raises alerts if it cannot be read.
struct WatchedPart {
    part: Part,
    name: &'static str,
    /// What is unknown without it.
    effect: &'static str,
}

const WATCHED_PARTS: [WatchedPart; 6] = [
    WatchedPart {
        part: Part::Diskstats,
        name: "/proc/diskstats",
        effect: "Volumes and throughput are unknown.",
    },
    WatchedPart {
        part: Part::Vmstat,
        name: "/proc/vmstat",
        effect: "Paging is unknown.",
    },
    WatchedPart {
        part: Part::Stat,
        name: "/proc/stat",
        effect: "The use of processors is unknown.",
    },
    WatchedPart {
        part: Part::Pressure,
        name: "/proc/pressure/io",
        effect: "I/O pressure is unknown.",
    },
    WatchedPart {
        part: Part::Dm,
        name: "The status of the device-mapper",
        effect: "The usage of snapshots and pools is unknown, so no alert can be raised for them.",
    },
    WatchedPart {
        part: Part::Lvm,
        name: "LVM's report",
        effect: "New volumes, sizes and the free space of volume groups may be unknown.",
    },
];
/// Ticks are counted over this time.
const WINDOW_S: f64 = 60.0;
/// This share of missed ticks is too many.
const MOST_MISSED: f64 = 0.1;

/// The state of cowbell itself.
pub struct OwnState<'a> {
    pub at: Timestamp,
    pub parts: &'a BTreeMap<Part, PartState>,
    /// Since the previous tick.
    pub elapsed_s: f64,
    /// The ticks that were due in that time.
    pub due: u64,
    /// Why the configuration was not taken at the last reload.
    pub configuration_error: Option<&'a str>,
    /// `None` without `cowbell guard`.
    pub guard: Option<&'a GuardSeen>,
    /// Why the database is not written.
    pub store_error: Option<&'a str>,
    /// Entries that were dropped since the start.
    pub lost: u64,
}

/// An action of the guard is told for so long.
const NEWS: SignedDuration = SignedDuration::from_mins(10);

/// What there is to say about the guard: the worst first.
fn guard_news(guard: &GuardSeen, at: Timestamp) -> Option<(Severity, AlertText)> {
    let log = sentence!["See ", command("journalctl -u cowbell-guard"), "."];
    if let Some(error) = &guard.state.error {
        let text = AlertText::new(format!("The guard does not run: {error}."), log);
        return Some((Severity::Critical, text));
    }
    if let Some(silent_s) = guard.silent_s {
        let silent = duration_text(silent_s);
        let problem =
            format!("The guard has not written its state for {silent}: it hangs, or was killed.");
        return Some((Severity::Critical, AlertText::new(problem, log)));
    }
    let mut volumes = guard.state.volumes.iter();
    let is_short = |plan| matches!(plan, GuardPlan::MayNot | GuardPlan::Slows);
    if let Some(volume) = volumes.find(|volume| is_short(volume.plan)) {
        let problem = format!("{}: {}", volume.name, volume.text);
        let then = sentence![
            "Extend it by hand, or raise the limit in ",
            command(GUARD_PATH),
            "."
        ];
        return Some((Severity::Critical, AlertText::new(problem, then)));
    }
    let action = guard.state.actions.last()?;
    if at.duration_since(action.at) > NEWS
        || guard.state.mode == GuardMode::DryRun && !action.failed
    {
        return None;
    }
    let severity = if action.failed {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let problem = format!("{}: {}", action.name, action.text);
    Some((severity, AlertText::new(problem, log)))
}

/// What was counted since the last evaluation.
#[derive(Default)]
pub(super) struct OwnCounts {
    seconds: f64,
    taken: u64,
    due: u64,
    /// Seconds since the start, for ages that do not depend on the clock.
    running_s: f64,
    /// When each part was last read: its own time, and the seconds above.
    read: BTreeMap<Part, (Timestamp, f64)>,
    store_failed_s: Option<f64>,
}

impl OwnCounts {
    /// The seconds since a part was read.
    fn age_s(&mut self, part: Part, last_ok_at: Timestamp) -> f64 {
        let now = (last_ok_at, self.running_s);
        let read = self.read.entry(part).or_insert(now);
        if read.0 != last_ok_at {
            *read = now;
        }
        self.running_s - read.1
    }
}

impl Rules {
    /// Evaluates the rules about cowbell itself; returns alerts to deliver.
    pub fn judge_own(&mut self, own: &OwnState) -> Vec<Alert> {
        self.own_counts.running_s += own.elapsed_s;
        let mut changed = Vec::new();
        for watched in &WATCHED_PARTS {
            let Some(state) = own.parts.get(&watched.part) else {
                continue;
            };
            // LVM's report comes every minute, and fails at times, since it waits for no lock: only its age matters.
            if watched.part.is_of_every_tick() {
                changed.extend(self.judge_part(Rule::PartFailed, watched, state, own.at));
            }
            if watched.part.is_needed() {
                changed.extend(self.judge_part(Rule::DataOld, watched, state, own.at));
            }
        }
        changed.extend(self.judge_ticks(own));
        changed.extend(self.judge_configuration(own));
        changed.extend(self.judge_guard(own));
        changed.extend(self.judge_store(own));
        changed
    }

    /// A part that could never be read, such as without root, is no failure.
    fn judge_part(
        &mut self,
        rule: Rule,
        watched: &WatchedPart,
        state: &PartState,
        at: Timestamp,
    ) -> Option<Alert> {
        let last_ok_at = state.last_ok_at?;
        let mut seconds = self.own_counts.age_s(watched.part, last_ok_at);
        if rule == Rule::PartFailed && state.error.is_none() {
            seconds = 0.0;
        }
        let is_open = self.open.iter().any(|alert| alert.rule == rule);
        if seconds < self.settings.general().of(rule)?.warning && !is_open {
            // It is so in nearly every tick.
            return None;
        }
        let raised = || {
            let error = match &state.error {
                Some(error) => error.to_string(),
                None => "no new one arrives".into(),
            };
            let age = duration_text(seconds);
            let problem = match rule {
                Rule::DataOld => format!("{} is {age} old: {error}.", watched.name),
                _ => format!("{} cannot be read for {age}: {error}.", watched.name),
            };
            AlertText::new(problem, watched.effect)
        };
        let cleared = || format!("{} is read again.", watched.name);
        let part = variant_name(watched.part);
        self.settle_lasting(rule, &part, seconds, at, raised, cleared)
    }

    /// A rule about how long something lasts.
    fn settle_lasting(
        &mut self,
        rule: Rule,
        part: &str,
        seconds: f64,
        at: Timestamp,
        raised: impl FnOnce() -> AlertText,
        cleared: impl FnOnce() -> String,
    ) -> Option<Alert> {
        let thresholds = self.settings.general().of(rule)?;
        let before = self.severity(rule, part);
        let evaluation = Evaluation::by_value(rule, seconds, thresholds, before);
        let finding = RuleFinding {
            value: Some(seconds),
            ..RuleFinding::new(rule, AlertSubject::own(part), at, evaluation)
        };
        self.settle(&finding, |_| raised(), || cleared().into())
    }

    fn judge_ticks(&mut self, own: &OwnState) -> Option<Alert> {
        let counts = &mut self.own_counts;
        counts.seconds += own.elapsed_s;
        counts.taken += 1;
        counts.due += own.due.max(1);
        if counts.seconds < WINDOW_S {
            return None;
        }
        let (missed, due) = (counts.due - counts.taken, counts.due);
        counts.seconds = 0.0;
        counts.taken = 0;
        counts.due = 0;
        let evaluation = Evaluation::warning_if(missed as f64 >= MOST_MISSED * due as f64);
        let subject = AlertSubject::own("ticks");
        let finding = RuleFinding::new(Rule::TicksMissed, subject, own.at, evaluation);
        let raised = |_| {
            let problem = format!(
                "cowbell missed {missed} of {due} ticks, since the machine is overloaded or a disk does not answer."
            );
            let then = "Alerts come late. See the durations on the status page.";
            AlertText::new(problem, then)
        };
        let cleared = || "cowbell takes its ticks in time again.".into();
        self.settle(&finding, raised, cleared)
    }

    fn judge_configuration(&mut self, own: &OwnState) -> Option<Alert> {
        let evaluation = Evaluation::warning_if(own.configuration_error.is_some());
        let subject = AlertSubject::own("configuration");
        let finding = RuleFinding::new(Rule::ConfigurationRefused, subject, own.at, evaluation);
        let raised = |_| {
            let error = own.configuration_error.unwrap_or_default();
            let problem = format!("cowbell {error}.");
            let reload = command("systemctl reload cowbell");
            let then = sentence![
                "The next restart will fail: mend the file, then run ",
                reload,
                "."
            ];
            AlertText::new(problem, then)
        };
        let cleared = || "cowbell took the configuration.".into();
        self.settle(&finding, raised, cleared)
    }

    fn judge_guard(&mut self, own: &OwnState) -> Option<Alert> {
        let found = own.guard.and_then(|guard| guard_news(guard, own.at));
        let evaluation = match &found {
            Some((severity, _)) => Evaluation::Raised(*severity),
            None => Evaluation::Clear,
        };
        let subject = AlertSubject::own("guard");
        let finding = RuleFinding::new(Rule::Guard, subject, own.at, evaluation);
        let raised = |_| {
            let (_, text) = found.unwrap_or((Severity::Warning, AlertText::default()));
            text
        };
        let cleared = || "The guard has nothing more to say.".into();
        self.settle(&finding, raised, cleared)
    }

    fn judge_store(&mut self, own: &OwnState) -> Option<Alert> {
        let now_s = self.own_counts.running_s;
        let failed_s = &mut self.own_counts.store_failed_s;
        *failed_s = own.store_error.map(|_| failed_s.unwrap_or(now_s));
        let seconds = failed_s.map_or(0.0, |failed_s| now_s - failed_s);
        let raised = || {
            let lost = match own.lost {
                0 => "nothing was lost yet".to_string(),
                lost => format!("{lost} entries were lost"),
            };
            let error = own.store_error.unwrap_or("it was not written");
            let time = duration_text(seconds);
            AlertText::new(
                format!("cowbell has not written its database for {time}: {error}."),
                format!("It continues from memory and raises alerts; {lost}."),
            )
        };
        let cleared = || "cowbell writes its database again.".into();
        self.settle_lasting(Rule::StoreFailed, "store", seconds, own.at, raised, cleared)
    }
}
