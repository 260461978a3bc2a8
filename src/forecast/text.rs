//! The sentences of a forecast, and what makes a snapshot or pool last until its backup is done: a command, and what else
//! helps if the volume group has too little free space.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Eta, EtaBasis, Outlook, OutlookVerdict, Risk};
use crate::advice::Extensible;
use crate::sentence;
use crate::sentence::{Sentence, command};
use crate::units::{capital, duration_text, rough_text, size_text};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Remedy {
    /// The `lvextend` command; `null` if the volume group has no free extent.
    pub command: Option<String>,
    /// The bytes that it adds, in whole extents.
    pub added_bytes: u64,
    /// Whether that is enough until the backup is done, in 19 of 20 cases.
    pub is_enough: bool,
    /// When the volume is full with it; `null` if it then holds a copy of its whole origin.
    pub full: Option<Eta>,
    /// Without a capital and a full stop.
    #[schema(value_type = String)]
    pub text: Sentence,
}

impl Remedy {
    /// By as much as is wanted, if there is room. `full_with` forecasts when the volume is full with so many bytes more.
    pub fn of(
        volume: &Extensible,
        needed: u64,
        wanted: u64,
        full_with: impl Fn(u64) -> Option<Eta>,
    ) -> Self {
        let extension = volume.by(wanted.max(needed));
        let added_bytes = extension.as_ref().map_or(0, |extension| extension.bytes);
        let mut remedy = Self {
            command: extension.map(|extension| extension.command),
            added_bytes,
            is_enough: added_bytes >= needed,
            full: full_with(added_bytes),
            text: Sentence::default(),
        };
        remedy.text = remedy.sentence(volume, needed);
        remedy
    }

    fn sentence(&self, volume: &Extensible, needed: u64) -> Sentence {
        let (vg, lasts) = (&volume.vg, self.lasts());
        let within = self.full.map_or("now".into(), |full| {
            format!("within {}", duration_text(full.soonest_s))
        });
        let needed = size_text(needed);
        let needs = format!("the backup needs {needed} more, but ");
        let otherwise = format!(", slow the writes, or stop the backup {within}");
        let run = self.command.as_ref().map(command);
        let Some(run) = run else {
            return sentence![needs, volume.why_not(), otherwise];
        };
        if !self.is_enough {
            let free = size_text(volume.free.unwrap_or_default());
            return sentence![
                needs,
                "VG {vg} has only {free} for it: run ",
                run,
                ", which makes it last {lasts}, then ",
                volume.more_space.clone(),
                otherwise,
            ];
        }
        let then = match self.full {
            Some(_) => format!(", which makes it last {lasts}, long enough for the backup"),
            None => ", after which it cannot overflow".into(),
        };
        if volume.free.is_none() {
            return sentence!["run ", run, " if VG {vg} has free space", then];
        }
        sentence!["run ", run, then]
    }

    /// `about 40 min`
    fn lasts(&self) -> String {
        match self.full.and_then(|full| full.likely_s) {
            Some(likely_s) => format!("about {}", rough_text(likely_s)),
            None => "much longer".into(),
        }
    }
}

/// One sentence for each time, and one for the verdict.
/// `idle_s` is since when nothing was read, `quiet_s` since when it did not grow, if that has stopped.
pub fn sentences(
    outlook: &Outlook,
    is_pool: bool,
    idle_s: Option<f64>,
    quiet_s: Option<f64>,
) -> Sentence {
    let times = Sentence::from(done(outlook, idle_s)).then(full(outlook, quiet_s));
    times.then(verdict(outlook, is_pool))
}

fn done(outlook: &Outlook, idle_s: Option<f64>) -> String {
    if let Some(idle_s) = idle_s {
        return format!("Nothing was read for {}.", duration_text(idle_s));
    }
    match outlook.done {
        Some(done) => done.sentence("the backup is done", "The backup is done"),
        None if outlook.left.left_bytes.is_none() => "The time of completion is unknown.".into(),
        // After a restart, reads before it are counted, but their speed is not known.
        None if outlook.left.read_bytes.is_some_and(|bytes| bytes > 0) => {
            "The speed of reading is not known yet.".into()
        }
        None => "Nothing was read yet.".into(),
    }
}

fn full(outlook: &Outlook, quiet_s: Option<f64>) -> String {
    let Some(name) = &outlook.overflows else {
        return "The snapshot's usage is unknown.".into();
    };
    let first = capital(name);
    match outlook.full {
        _ if outlook.cannot_overflow => {
            format!("{first} cannot overflow: it can hold a copy of its whole origin.")
        }
        None => format!("{first} did not grow yet."),
        Some(_) if let Some(quiet_s) = quiet_s => {
            format!("{first} did not grow for {}.", duration_text(quiet_s))
        }
        Some(full) => full.sentence(&format!("{name} is full"), &format!("{first} is full")),
    }
}

fn verdict(outlook: &Outlook, is_pool: bool) -> Option<Sentence> {
    let remedy = match &outlook.remedy {
        Some(remedy) => remedy.text.clone(),
        None => "make it larger now".into(),
    };
    if let Some(guard) = &outlook.guard {
        let done = outlook
            .done
            .map(|_| "So the backup will probably be done first.");
        return Some(Sentence::from(&**guard).then(done));
    }
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
            sentence![
                "The pool {will} be full first, for all its volumes: ",
                remedy,
                "."
            ]
        }
        (_, Risk::High) => {
            let lost = format!("and the backup {will} be lost: ");
            sentence!["The snapshot {will} overflow first, ", lost, remedy, "."]
        }
        (_, Risk::Race) => sentence!["It is a race: ", remedy, "."],
        (OutlookVerdict::Open, _) => {
            let first = are_known.then_some("The backup will probably be done first.");
            // What did not grow needs no command.
            let sure = outlook.remedy.is_some() && outlook.full.is_some();
            let sure = sure.then(|| sentence!["To be sure, ", remedy, "."]);
            let sentence = Sentence::from(first).then(sure);
            return Some(sentence).filter(|sentence| !sentence.is_empty());
        }
        _ => return None,
    })
}

impl Eta {
    /// `The backup is done in 4 min 00 s (3 min 00 s to 6 min 00 s).`
    fn sentence(self, event: &str, event_first: &str) -> String {
        let Some(likely_s) = self.likely_s else {
            let soonest = duration_text(self.soonest_s);
            return format!("{event_first} in {soonest} at the soonest.");
        };
        let when = format!("in {} ({})", duration_text(likely_s), self.bounds_text());
        match self.basis {
            EtaBasis::Tested => format!("{event_first} {when}."),
            EtaBasis::RecentSpeed => {
                let seen = duration_text(self.seen_s);
                format!("At the speed of the last {seen}, {event} {when}.")
            }
        }
    }

    /// `in 6 to 9 min`
    pub fn in_text(self) -> String {
        let latest = self.latest_s.map(rough_text);
        let about = if latest == Some(rough_text(self.soonest_s)) {
            "about "
        } else {
            ""
        };
        format!("in {about}{}", self.short_text())
    }

    /// `6 to 9 min`
    pub fn short_text(self) -> String {
        let soonest = rough_text(self.soonest_s);
        let Some(latest) = self.latest_s.map(rough_text) else {
            return format!("{soonest} at the soonest");
        };
        if latest == soonest {
            return latest;
        }
        match (soonest.split_once(' '), latest.split_once(' ')) {
            (Some((number, unit)), Some((_, other))) if unit == other => {
                format!("{number} to {latest}")
            }
            _ => format!("{soonest} to {latest}"),
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
