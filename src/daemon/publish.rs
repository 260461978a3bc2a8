//! Publishes the state after a tick, with the loop's own statistics.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::{Outlets, Watcher};
use crate::present::{AT_ITS_END, Percentiles, Present, Ticks};
use crate::remote_write::RemoteWrite;
use crate::source::clock::micros;
use crate::source::{Part, Reading, Source};
use crate::units::count_text;
use cowbell_device_mapper::ROOT_NEEDED;

/// The number of durations in the percentiles.
const DURATIONS: usize = 600;

impl Watcher {
    pub(super) fn count(&mut self, reading: &Reading, began: Instant) {
        self.started_at.get_or_insert(reading.at);
        if !reading.is_tick() {
            return;
        }
        let length_us = micros(self.terms.interval_length).max(1);
        let elapsed_us = self.last.as_ref().map_or(0, |interval| interval.elapsed_us);
        self.missed += (elapsed_us / length_us).saturating_sub(1);
        let took_us = reading.took_us + micros(began.elapsed());
        if self.durations.len() < DURATIONS {
            self.durations.push(took_us);
        } else {
            let oldest = usize::try_from(self.taken).unwrap_or_default() % DURATIONS;
            self.durations[oldest] = took_us;
        }
        self.taken += 1;
    }

    pub(super) fn publish(&self, ended: Option<String>, outlets: &Outlets) {
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
            measured: Arc::clone(&self.measured),
            alerts: self.rules.open().to_vec(),
            paces: self.rules.paces(),
            races: self.rules.races(),
            deliveries: Arc::clone(outlets.notifier.deliveries()),
            silences: self.silences.clone(),
            receivers: Arc::clone(outlets.notifier.receivers()),
            ticks: Ticks {
                taken: self.taken,
                missed: self.missed,
                took_us: percentiles(&self.durations),
            },
            parts: self.observer.parts().clone(),
            store,
            remote_write: outlets.remote_write.as_ref().map(RemoteWrite::state),
            keep: self.terms.keep,
            notes: self.notes(),
            lost,
            published: self.ticked,
            ended,
        };
        outlets.present.send_replace(Some(Arc::new(present)));
    }

    pub(super) fn publish_end(&self, source: &Source, outlets: &Outlets) {
        let error = match source {
            Source::Recorded(player) => player.error(),
            Source::Live(_) | Source::Remote(_) => None,
        };
        let how = error.unwrap_or(AT_ITS_END);
        tracing::info!("{how}");
        self.publish(Some(how.to_string()), outlets);
    }

    /// Notes for the administrator about the setup and about input.
    fn notes(&self) -> Vec<String> {
        let dm = self
            .observer
            .parts()
            .get(&Part::Dm)
            .and_then(|part| part.error.as_deref());
        let root_needed = dm.filter(|error| *error == ROOT_NEEDED).map(str::to_string);
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

fn percentiles(durations: &[u64]) -> Percentiles {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let at =
        |share: usize| sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)));
    Percentiles {
        p50: at(50).copied().unwrap_or_default(),
        p99: at(99).copied().unwrap_or_default(),
    }
}
