//! Publishes the state after a tick, with the loop's own statistics.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::{Outlets, Watcher};
use crate::present::{Percentiles, Present, RecordingEnd, Ticks};
use crate::remote_write::RemoteWrite;
use crate::source::clock::micros;
use crate::source::{Part, ReadError, Reading, Source};
use crate::units::count_text;

/// The number of durations in the percentiles.
const DURATIONS: usize = 600;

/// How many ticks were taken and missed, and how long the last ones took.
#[derive(Default)]
pub struct TickStatistics {
    taken: u64,
    missed: u64,
    durations_us: VecDeque<u64>,
}

impl TickStatistics {
    /// Counts a tick, `intervals` after the one before.
    fn add(&mut self, intervals: u64, took_us: u64) {
        self.taken += 1;
        self.missed += intervals.saturating_sub(1);
        if self.durations_us.len() == DURATIONS {
            self.durations_us.pop_front();
        }
        self.durations_us.push_back(took_us);
    }

    fn ticks(&self) -> Ticks {
        let mut sorted: Vec<u64> = self.durations_us.iter().copied().collect();
        sorted.sort_unstable();
        let percentile = |percent: usize| {
            let last = sorted.len().checked_sub(1)?;
            sorted.get((sorted.len() * percent / 100).min(last))
        };
        Ticks {
            taken: self.taken,
            missed: self.missed,
            took_us: Percentiles {
                p50: percentile(50).copied().unwrap_or_default(),
                p99: percentile(99).copied().unwrap_or_default(),
            },
        }
    }
}

impl Watcher {
    pub(super) fn count(&mut self, reading: &Reading, began: Instant) {
        self.started_at.get_or_insert(reading.at);
        if reading.is_tick() {
            let length_us = micros(self.terms.interval_length).max(1);
            let elapsed_us = self.last.as_ref().map_or(0, |interval| interval.elapsed_us);
            let took_us = reading.took_us + micros(began.elapsed());
            self.ticks.add(elapsed_us / length_us, took_us);
        }
    }

    pub(super) fn publish(&self, outlets: &Outlets) {
        let (Some(interval), Some(started_at)) = (&self.last, self.started_at) else {
            return;
        };
        let (store, lost) = outlets.store.health();
        let present = Present {
            host: self.terms.host.clone(),
            started_at,
            interval_length: self.terms.interval_length,
            interval: Arc::clone(interval),
            thresholds: self.terms.alerts.clone(),
            averages: Arc::clone(&self.averages),
            jobs: self
                .jobs
                .ended()
                .iter()
                .cloned()
                .chain(self.jobs.running().iter().cloned().map(Arc::new))
                .collect(),
            curves: Arc::clone(&self.curves),
            outlooks: OnceLock::new(),
            running: OnceLock::new(),
            measured: Arc::clone(&self.measured),
            alerts: self.rules.open().to_vec(),
            paces: self.rules.paces(),
            races: self.rules.races(),
            deliveries: Arc::clone(outlets.notifier.deliveries()),
            attempts: Arc::clone(outlets.notifier.attempts()),
            silences: self.silences.clone(),
            receivers: Arc::clone(outlets.notifier.receivers()),
            ticks: self.ticks.ticks(),
            parts: self.observer.parts().clone(),
            store,
            remote_write: outlets.remote_write.as_ref().map(RemoteWrite::state),
            keep: self.terms.keep,
            configuration: self.terms.configuration.clone(),
            notes: self.notes(),
            lost,
            published: self.ticked,
            ended: self.ended.clone(),
        };
        outlets.present.send_replace(Some(Arc::new(present)));
    }

    pub(super) fn publish_end(&mut self, source: &Source, outlets: &Outlets) {
        let error = match source {
            Source::Recorded(player) => player.error(),
            Source::Live(_) | Source::Remote(_) => None,
        };
        tracing::info!("{}", error.unwrap_or("the recording is at its end"));
        self.ended = Some(match error {
            Some(error) => RecordingEnd::Early(error.into()),
            None => RecordingEnd::Complete,
        });
        self.publish(outlets);
    }

    /// Notes for the administrator about the setup and about input.
    fn notes(&self) -> Vec<String> {
        let dm = self
            .observer
            .parts()
            .get(&Part::Dm)
            .and_then(|part| part.error.as_ref());
        let root_needed = dm
            .filter(|error| **error == ReadError::NotRoot)
            .map(ToString::to_string);
        let (count, last) = &self.invalid_hooks;
        let messages = count_text(*count, "message from hooks was", "messages from hooks were");
        let note = (*count > 0).then(|| format!("{messages} invalid; the last: {last}"));
        self.terms
            .notes
            .iter()
            .cloned()
            .chain(root_needed)
            .chain(note)
            .collect()
    }
}
