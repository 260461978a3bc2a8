//! The forecast as a sentence.

use super::speeds::LEAST_TICKS;
use super::{Eta, Outlook, OutlookVerdict};
use crate::units::duration_text;

impl Eta {
    pub fn text(self) -> String {
        let (likely, bounds) = (duration_text(self.likely_s), self.bounds_text());
        let is_one = bounds == format!("{likely} to {likely}");
        if is_one { likely } else { format!("{likely} ({bounds})") }
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

impl Outlook {
    pub(super) fn sentence(&self, is_pool: bool) -> String {
        if self.verdict == OutlookVerdict::TooEarly {
            return self.too_early();
        }
        let is_left_known = self.left.left_bytes.is_some();
        let done = match self.done {
            Some(done) => format!("Done in {}", done.text()),
            None if is_left_known => "Nothing is being read".into(),
            None => "The time of completion is unknown".into(),
        };
        let full = match (&self.overflows, self.full) {
            (None, _) => "the snapshot's usage is unknown".into(),
            (Some(name), None) => format!("{name} does not fill"),
            (Some(name), Some(full)) => format!("{name} is full in {}", full.text()),
        };
        let recent_rates = format!("as in the last {}", duration_text(self.seen_s.unwrap_or_default()));
        let verdict = match self.verdict {
            _ if self.full.is_none() && self.done.is_none() => return format!("{done}, and {full}."),
            _ if self.overflows.is_none() => return format!("{done}, if it goes on {recent_rates}; {full}."),
            _ if !is_left_known => return format!("{done}, and {full}, if it goes on {recent_rates}."),
            OutlookVerdict::DoneFirst => "the backup will be done first",
            OutlookVerdict::FullFirst if is_pool => {
                "the pool will be full first, for all its volumes: make it larger now"
            }
            OutlookVerdict::FullFirst => {
                "the snapshot will overflow first, and the backup will be lost: make it larger now"
            }
            _ => "either may come first",
        };
        format!("{done}, and {full}: if both go on {recent_rates}, {verdict}.")
    }

    fn too_early(&self) -> String {
        let why = match self.ticks {
            few @ ..LEAST_TICKS => {
                format!("its speeds are known for {few} ticks of the {LEAST_TICKS} needed")
            }
            _ => "its speeds rise or fall throughout".into(),
        };
        format!("Too early to say when the backup will be done or the snapshot full: {why}.")
    }
}
