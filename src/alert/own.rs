//! Rules about cowbell itself: what it cannot read or write, and ticks that it missed. Their alerts have no volume.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::rule::{Evaluation, evaluate as by_value};
use super::settle::{Finding, Texts};
use super::{Alert, Rule, Rules, Severity};
use crate::sample::PartState;
use crate::source::{Part, variant_name};
use crate::units::duration_text;

/// The parts of every tick.
const OF_TICKS: [Part; 5] = [
    Part::Diskstats,
    Part::Vmstat,
    Part::Stat,
    Part::Pressure,
    Part::Dm,
];
/// The parts that alerts rest on. LVM's report comes every minute, and fails at times, since it waits for no lock.
const NEEDED: [Part; 3] = [Part::Diskstats, Part::Dm, Part::Lvm];
/// Ticks are counted over this time.
const WINDOW_S: f64 = 60.0;
/// This share of missed ticks is too many.
const MOST_MISSED: f64 = 0.1;

/// The state of cowbell itself.
pub struct Own<'a> {
    pub at: Timestamp,
    pub parts: &'a BTreeMap<Part, PartState>,
    /// Since the previous tick.
    pub elapsed_s: f64,
    /// The ticks that were due in that time.
    pub due: u64,
    /// Why the database is not written.
    pub store_error: Option<&'a str>,
    /// Entries that were dropped since the start.
    pub lost: u64,
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
    read: Vec<(Part, Timestamp, f64)>,
    store_failed_s: Option<f64>,
}

impl OwnCounts {
    /// The seconds since a part was read.
    fn age_s(&mut self, part: Part, last_ok_at: Timestamp) -> f64 {
        let now_s = self.running_s;
        match self.read.iter_mut().find(|(known, ..)| *known == part) {
            Some((_, known_at, _)) if *known_at == last_ok_at => {}
            Some(entry) => *entry = (part, last_ok_at, now_s),
            None => self.read.push((part, last_ok_at, now_s)),
        }
        self.read
            .iter()
            .find(|(known, ..)| *known == part)
            .map_or(0.0, |(_, _, read_s)| now_s - read_s)
    }
}

impl Rules {
    /// Evaluates the rules about cowbell itself; returns alerts to deliver.
    pub fn judge_own(&mut self, own: &Own) -> Vec<Alert> {
        self.own_counts.running_s += own.elapsed_s;
        let mut changed = Vec::new();
        for part in OF_TICKS {
            if let Some(state) = own.parts.get(&part) {
                changed.extend(self.judge_part(Rule::PartFailed, part, state, own.at));
            }
        }
        for part in NEEDED {
            if let Some(state) = own.parts.get(&part) {
                changed.extend(self.judge_part(Rule::DataOld, part, state, own.at));
            }
        }
        changed.extend(self.judge_ticks(own));
        changed.extend(self.judge_store(own));
        changed
    }

    /// A part that could never be read, such as without root, is no failure.
    fn judge_part(
        &mut self,
        rule: Rule,
        part: Part,
        state: &PartState,
        at: Timestamp,
    ) -> Option<Alert> {
        let last_ok_at = state.last_ok_at?;
        let seconds = self.own_counts.age_s(part, last_ok_at);
        let seconds = if rule == Rule::PartFailed && state.error.is_none() {
            0.0
        } else {
            seconds
        };
        let raised = || {
            let (what, matters) = meaning(part);
            let error = state.error.as_deref().unwrap_or("no new one arrives");
            let age = duration_text(seconds);
            match rule {
                Rule::DataOld => format!("{what} is {age} old: {error}. {matters}."),
                _ => format!("{what} cannot be read for {age}: {error}. {matters}."),
            }
        };
        let cleared = || format!("{} is read again.", meaning(part).0);
        self.settle_own(rule, part, seconds, at, raised, cleared)
    }

    fn settle_own(
        &mut self,
        rule: Rule,
        part: Part,
        seconds: f64,
        at: Timestamp,
        raised: impl Fn() -> String,
        cleared: impl Fn() -> String,
    ) -> Option<Alert> {
        let thresholds = self.settings.general().of(rule)?;
        if seconds < thresholds.warning && !self.open.iter().any(|alert| alert.rule == rule) {
            return None;
        }
        let uuid = variant_name(part);
        let before = self
            .index(rule, &uuid)
            .map(|index| self.open[index].severity);
        let evaluation = by_value(rule, seconds, thresholds, before);
        let finding = Finding {
            rule,
            vg: "",
            lv: "",
            uuid: &uuid,
            thresholds,
            evaluation,
            value: Some(seconds),
        };
        self.settle(
            &finding,
            at,
            &Texts {
                raised,
                cleared,
                job: None,
            },
        )
    }

    fn judge_ticks(&mut self, own: &Own) -> Option<Alert> {
        let counts = &mut self.own_counts;
        counts.seconds += own.elapsed_s;
        counts.taken += 1;
        counts.due += own.due.max(1);
        if counts.seconds < WINDOW_S {
            return None;
        }
        let (taken, due) = (counts.taken, counts.due);
        (counts.seconds, counts.taken, counts.due) = (0.0, 0, 0);
        let thresholds = self.settings.general().of(Rule::TicksMissed)?;
        let missed = due - taken;
        let evaluation = if missed as f64 >= MOST_MISSED * due as f64 {
            Evaluation::Raised(Severity::Warning)
        } else {
            Evaluation::Clear
        };
        let finding = Finding {
            rule: Rule::TicksMissed,
            vg: "",
            lv: "",
            uuid: "ticks",
            thresholds,
            evaluation,
            value: None,
        };
        let raised = || {
            format!(
                "cowbell missed {missed} of {due} ticks, since the machine is overloaded or a disk does not answer. Alerts come \
                 late. See the durations on the status page."
            )
        };
        let cleared = || String::from("cowbell takes its ticks in time again.");
        self.settle(
            &finding,
            own.at,
            &Texts {
                raised,
                cleared,
                job: None,
            },
        )
    }

    fn judge_store(&mut self, own: &Own) -> Option<Alert> {
        let thresholds = self.settings.general().of(Rule::StoreFailed)?;
        let now_s = self.own_counts.running_s;
        let failed_s = &mut self.own_counts.store_failed_s;
        *failed_s = own.store_error.map(|_| failed_s.unwrap_or(now_s));
        let seconds = failed_s.map_or(0.0, |failed_s| now_s - failed_s);
        let rule = Rule::StoreFailed;
        let before = self
            .index(rule, "store")
            .map(|index| self.open[index].severity);
        let evaluation = by_value(rule, seconds, thresholds, before);
        let finding = Finding {
            rule,
            vg: "",
            lv: "",
            uuid: "store",
            thresholds,
            evaluation,
            value: Some(seconds),
        };
        let raised = || {
            let lost = match own.lost {
                0 => "nothing was lost yet".to_string(),
                lost => format!("{lost} entries were lost"),
            };
            let error = own.store_error.unwrap_or("it was not written");
            format!(
                "cowbell has not written its database for {}: {error}. It continues from memory and raises alerts; {lost}.",
                duration_text(seconds)
            )
        };
        let cleared = || String::from("cowbell writes its database again.");
        self.settle(
            &finding,
            own.at,
            &Texts {
                raised,
                cleared,
                job: None,
            },
        )
    }
}

/// What a part is, and what is unknown without it.
fn meaning(part: Part) -> (&'static str, &'static str) {
    match part {
        Part::Dm => (
            "The status of the device-mapper",
            "The usage of snapshots and pools is unknown, so no alert can be raised for them",
        ),
        Part::Lvm => (
            "LVM's report",
            "New volumes, sizes and the free space of volume groups may be unknown",
        ),
        Part::Diskstats => ("/proc/diskstats", "Volumes and throughput are unknown"),
        Part::Vmstat => ("/proc/vmstat", "Paging is unknown"),
        Part::Stat => ("/proc/stat", "The use of processors is unknown"),
        _ => ("/proc/pressure/io", "I/O pressure is unknown"),
    }
}
