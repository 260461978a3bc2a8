//! When to query LVM: after changes, when the last report is old, and with growing pauses after failures. A query takes
//! a fifth of a second, reads every PV, and needs locks.

use std::time::{Duration, Instant};

use super::{Part, PartReading};
use crate::source::clock::micros;
use crate::source::lvm::LvmQuery;

/// Maximum age of a report.
const REPORT_AGE: Duration = Duration::from_secs(60);
/// The same if LVM is the only source of usage, since the device-mapper does not answer.
const REPORT_AGE_WITHOUT_DM: Duration = Duration::from_secs(10);
/// Minimum pause between queries, which doubles with each failure.
const REPORT_PAUSE: Duration = Duration::from_secs(2);
/// Maximum pause after failures, which are usually due to another process's lock.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// LVM's report and policies.
pub struct LvmReports {
    reporter: LvmQuery,
    /// Texts for the next reading.
    texts: Vec<PartReading>,
    /// Set if names changed since the last query.
    is_due: bool,
    /// Whether it is asked by its owner alone.
    is_on_demand: bool,
    /// Whether the last query was started for what changed, or by its owner, and so its answer is to be read at once.
    pub is_awaited: bool,
    asked_at: Option<Instant>,
    pause: Duration,
}

impl LvmReports {
    pub fn new() -> Self {
        Self {
            reporter: LvmQuery::default(),
            texts: Vec::new(),
            is_due: true,
            is_on_demand: false,
            is_awaited: false,
            asked_at: None,
            pause: REPORT_PAUSE,
        }
    }

    /// Asked by [`LvmReports::ask`] alone.
    pub fn on_demand() -> Self {
        Self {
            is_on_demand: true,
            ..Self::new()
        }
    }

    /// Starts a query, unless one is running or its answer was not taken. Returns whether it did.
    pub fn ask(&mut self) -> bool {
        let starts = !self.reporter.is_busy() && self.texts.is_empty();
        if starts {
            self.reporter.start();
            self.is_awaited = self.is_due || self.is_on_demand;
            self.asked_at = Some(Instant::now());
        }
        starts
    }

    /// Schedules a query after names changed, and resets the pause.
    pub fn names_changed(&mut self) {
        (self.is_due, self.pause) = (true, REPORT_PAUSE);
    }

    /// Starts a query if one is due. `tells_fills`: LVM is the only source of usage.
    pub fn start_if_due(&mut self, tells_fills: bool) {
        if self.is_on_demand || self.reporter.is_busy() {
            return;
        }
        let age = if tells_fills {
            REPORT_AGE_WITHOUT_DM
        } else {
            REPORT_AGE
        };
        let elapsed = self.asked_at.map_or(Duration::MAX, |at| at.elapsed());
        if elapsed >= age || (self.is_due && elapsed >= self.pause) {
            self.ask();
            self.is_due = false;
        }
    }

    /// The texts since the last call.
    pub fn take_texts(&mut self) -> Vec<PartReading> {
        std::mem::take(&mut self.texts)
    }

    /// Waits for the answer and stores it for [`LvmReports::take_texts`]; forever without a query. Cancel-safe.
    pub async fn answer(&mut self) {
        let answer = self.reporter.answer().await;
        match &answer.report {
            Ok(_) => self.pause = REPORT_PAUSE,
            Err(error) if error.is_temporary => {
                (self.is_due, self.pause) = (true, (self.pause * 2).min(MAX_PAUSE));
            }
            Err(_) => {}
        }
        let took_us = self.asked_at.map_or(0, |at| micros(at.elapsed()));
        let report = answer.report.map_err(|error| error.sentence);
        self.texts.push(PartReading {
            part: Part::Lvm,
            result: report.into(),
            took_us,
        });
        let policies = answer.policies.into_iter();
        self.texts.extend(policies.map(|text| PartReading {
            part: Part::LvmConfig,
            result: text.into(),
            took_us,
        }));
    }
}
