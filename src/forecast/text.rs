//! The sentences of a forecast.

use super::{Eta, EtaBasis, IDLE_S, Outlook, OutlookVerdict, Risk};
use crate::units::{capital, duration_text, rough_text};

/// One sentence for each time, and one for the verdict.
pub fn sentences(outlook: &Outlook, is_pool: bool, idle_s: f64) -> String {
    let sentences = [
        Some(done(outlook, idle_s)),
        Some(full(outlook)),
        verdict(outlook, is_pool),
    ];
    sentences
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

fn done(outlook: &Outlook, idle_s: f64) -> String {
    match outlook.done {
        _ if idle_s >= IDLE_S => format!("Nothing was read for {}.", duration_text(idle_s)),
        Some(done) => done.sentence("the backup is done", "The backup is done"),
        None if outlook.left.left_bytes.is_none() => "The time of completion is unknown.".into(),
        // After a restart, reads before it are counted, but their speed is not known.
        None if outlook.left.read_bytes.is_some_and(|bytes| bytes > 0) => {
            "The speed of reading is not known yet.".into()
        }
        None => "Nothing was read yet.".into(),
    }
}

fn full(outlook: &Outlook) -> String {
    match (&outlook.overflows, outlook.full) {
        (None, _) => "The snapshot's usage is unknown.".into(),
        (Some(name), _) if outlook.cannot_overflow => {
            format!(
                "{} cannot overflow: it can hold a copy of its whole origin.",
                capital(name)
            )
        }
        (Some(name), None) => format!("{} did not grow yet.", capital(name)),
        (Some(name), Some(full)) => full.sentence(
            &format!("{name} is full"),
            &format!("{} is full", capital(name)),
        ),
    }
}

fn verdict(outlook: &Outlook, is_pool: bool) -> Option<String> {
    let remedy = outlook
        .remedy
        .as_ref()
        .map_or("make it larger now", |remedy| &remedy.text);
    let will = if outlook.verdict == OutlookVerdict::FullFirst {
        "will"
    } else {
        "will probably"
    };
    let are_known = outlook.done.is_some() && outlook.full.is_some();
    Some(match (outlook.verdict, outlook.risk) {
        (OutlookVerdict::DoneFirst, _) if outlook.cannot_overflow => return None,
        (OutlookVerdict::DoneFirst, _) => "The backup will be done first.".into(),
        (_, Risk::High) if is_pool => {
            format!("The pool {will} be full first, for all its volumes: {remedy}.")
        }
        (_, Risk::High) => {
            format!("The snapshot {will} overflow first, and the backup {will} be lost: {remedy}.")
        }
        (_, Risk::Race) => format!("It is a race: {remedy}."),
        (OutlookVerdict::Open, _) if are_known => match &outlook.remedy {
            Some(remedy) => format!(
                "The backup will probably be done first. To be sure, {}.",
                remedy.text
            ),
            None => "The backup will probably be done first.".into(),
        },
        (OutlookVerdict::Open, _) if outlook.remedy.is_some() => format!("To be sure, {remedy}."),
        _ => return None,
    })
}

impl Eta {
    /// `The backup is done in 4 min 00 s (3 min 00 s to 6 min 00 s).`
    fn sentence(self, event: &str, event_first: &str) -> String {
        let when = match (self.likely_s, self.latest_s) {
            (None, _) => {
                return format!(
                    "{event_first} in {} at the soonest.",
                    duration_text(self.soonest_s)
                );
            }
            (Some(likely_s), _) => {
                format!("in {} ({})", duration_text(likely_s), self.bounds_text())
            }
        };
        match self.basis {
            EtaBasis::Tested => format!("{event_first} {when}."),
            EtaBasis::RecentSpeed => {
                format!(
                    "At the speed of the last {}, {event} {when}.",
                    duration_text(self.seen_s)
                )
            }
        }
    }

    /// `in 6 to 9 min`
    pub fn in_text(self) -> String {
        let is_exact = self
            .latest_s
            .is_some_and(|latest_s| rough_text(latest_s) == rough_text(self.soonest_s));
        format!(
            "in {}{}",
            if is_exact { "about " } else { "" },
            self.short_text()
        )
    }

    /// `6 to 9 min`
    pub fn short_text(self) -> String {
        let soonest = rough_text(self.soonest_s);
        match self.latest_s.map(rough_text) {
            None => format!("{soonest} at the soonest"),
            Some(latest) if latest == soonest => latest,
            Some(latest) => {
                let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_string());
                let is_same = unit(&soonest) == unit(&latest);
                let from = if is_same {
                    soonest.split(' ').next().unwrap_or_default()
                } else {
                    &soonest
                };
                format!("{from} to {latest}")
            }
        }
    }

    /// `10 min to 14 min`
    pub fn bounds_text(self) -> String {
        let soonest = duration_text(self.soonest_s);
        match self.latest_s {
            Some(latest_s) => format!("{soonest} to {}", duration_text(latest_s)),
            None => format!("{soonest} at the soonest"),
        }
    }
}
