//! When LVM is asked for its report: on change, when the last one is old, and not at once again when it refused.

use std::time::{Duration, Instant};

use super::{Part, Text, micros};
use crate::source::lvm::{Answer, NoReport, Reporter};

/// LVM is asked again after this long even when nothing seems to have changed.
const REPORT_AGE: Duration = Duration::from_secs(60);
/// The same, where the device-mapper does not answer and LVM's report is all that tells of fills.
const REPORT_AGE_WITHOUT_DM: Duration = Duration::from_secs(10);
/// LVM is not asked more often than this, however often volumes come and go; when it refuses, half as often each time.
const REPORT_PAUSE: Duration = Duration::from_secs(2);
/// It is asked as often as this, however often it refuses: somebody holds a lock, and will let it go.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// LVM's own report.
pub struct Lvm {
    reporter: Reporter,
    /// What it said, for the next reading.
    said: Vec<Text>,
    /// Set when the names changed and LVM was not asked since.
    is_due: bool,
    asked_at: Option<Instant>,
    pause: Duration,
}

impl Lvm {
    pub fn new() -> Self {
        Self {
            reporter: Reporter::default(),
            said: Vec::new(),
            is_due: true,
            asked_at: None,
            pause: REPORT_PAUSE,
        }
    }

    /// The names changed: LVM is asked soon, whatever it refused before.
    pub fn names_changed(&mut self) {
        (self.is_due, self.pause) = (true, REPORT_PAUSE);
    }

    /// Puts the question where the last report is old, or the names changed since. `tells_fills` where nobody else
    /// does.
    pub fn ask(&mut self, tells_fills: bool) {
        if self.reporter.is_busy() {
            return;
        }
        let age = if tells_fills { REPORT_AGE_WITHOUT_DM } else { REPORT_AGE };
        let elapsed = self.asked_at.map_or(Duration::MAX, |at| at.elapsed());
        if elapsed >= age || (self.is_due && elapsed >= self.pause) {
            self.reporter.start();
            self.asked_at = Some(Instant::now());
            self.is_due = false;
        }
    }

    /// Waits for the answer, and keeps it for [`Lvm::said`]; for ever while no question was put. May be dropped and
    /// called again.
    pub async fn answer(&mut self) {
        let answer = self.reporter.answer().await;
        self.keep(answer);
    }

    /// What it said since it was last asked for that.
    pub fn said(&mut self) -> Vec<Text> {
        std::mem::take(&mut self.said)
    }

    fn keep(&mut self, answer: Answer) {
        match answer.report {
            Ok(_) => self.pause = REPORT_PAUSE,
            Err(NoReport::NotNow(_)) => {
                (self.is_due, self.pause) = (true, (self.pause * 2).min(LONGEST_PAUSE));
            }
            Err(NoReport::Never(_)) => {}
        }
        let took_us = self.asked_at.map_or(0, micros);
        let report = answer.report.map_err(NoReport::sentence);
        self.said.push(Text { part: Part::Lvm, said: report.into(), took_us });
        let policies =
            answer.policies.map(|policies| Text { part: Part::LvmConfig, said: policies.into(), took_us });
        self.said.extend(policies);
    }
}
