//! What the watcher itself did and cost: its ticks, the parts that it reads, its database, its process.

use jiff::Timestamp;

use super::exposition::{Exposition, Labels};
use crate::present::Present;
use crate::source::own::own_cost;
use crate::source::variant_name;

pub fn write(present: &Present, out: &mut Exposition) {
    write_ticks(present, out);
    write_process(out);
    write_store(present, out);
    write_remote_write(present, out);
    out.infos(
        "cowbell_host",
        "Name of the host and version of cowbell.",
        [Labels::of([
            ("host", &*present.host),
            ("version", env!("CARGO_PKG_VERSION")),
        ])],
    );
    write_configuration(present, out);
    write_deliveries(present, out);
    write_parts(present, out);
}

fn write_ticks(present: &Present, out: &mut Exposition) {
    let ticks = &present.ticks;
    out.counter("cowbell_ticks", "Ticks taken.", ticks.taken as f64);
    out.counter(
        "cowbell_missed_ticks",
        "Whole intervals without a tick.",
        ticks.missed as f64,
    );
    out.gauge(
        "cowbell_tick_duration_median_seconds",
        "Median time for reading and evaluating, over the last 600 ticks.",
        ticks.took_us.p50 as f64 / 1e6,
    );
    out.gauge(
        "cowbell_tick_duration_p99_seconds",
        "99th percentile of that time.",
        ticks.took_us.p99 as f64 / 1e6,
    );
    out.gauge(
        "cowbell_interval_seconds",
        "Configured time between ticks.",
        present.interval_length.as_secs_f64(),
    );
    out.gauge(
        "cowbell_last_tick_timestamp_seconds",
        "When the last tick was taken.",
        seconds(present.interval.at),
    );
    out.gauge(
        "cowbell_start_timestamp_seconds",
        "When the first tick was taken.",
        seconds(present.started_at),
    );
}

fn write_process(out: &mut Exposition) {
    let cost = own_cost();
    out.counter(
        "cowbell_process_cpu_seconds",
        "Processor time of this process.",
        cost.cpu_seconds,
    );
    out.counter(
        "cowbell_process_written_bytes",
        "Bytes that this process wrote to disks.",
        cost.written_bytes.map(|bytes| bytes as f64),
    );
    out.gauge(
        "cowbell_process_resident_memory_bytes",
        "Memory of this process.",
        cost.rss_bytes.map(|bytes| bytes as f64),
    );
}

fn write_store(present: &Present, out: &mut Exposition) {
    let store = &present.store;
    out.counter(
        "cowbell_lost_entries",
        "Ticks, jobs and alerts that could not be stored.",
        present.lost as f64,
    );
    out.gauge(
        "cowbell_store_size_bytes",
        "Size of stored data, at the last complete ten minutes.",
        store.is_open.then_some(store.stock.size_bytes as f64),
    );
    out.gauge(
        "cowbell_store_failed",
        "1 if the database is not written, else 0.",
        flag(store.error.is_some()),
    );
}

fn write_configuration(present: &Present, out: &mut Exposition) {
    let state = &present.configuration;
    out.infos(
        "cowbell_configuration",
        "Hash of what `cowbell config` prints.",
        [Labels::of([("hash", &*state.hash)])],
    );
    let reloads = [("taken", state.taken), ("refused", state.refused)];
    let reloads = reloads.map(|(result, count)| (Labels::of([("result", result)]), count));
    out.counters(
        "cowbell_reloads",
        "Reloads of the configuration since the start.",
        reloads
            .iter()
            .map(|(labels, count)| (labels, Some(*count as f64))),
    );
    out.gauge(
        "cowbell_configuration_refused",
        "1 if the configuration was refused at the last reload, else 0.",
        flag(state.is_refused),
    );
}

fn write_deliveries(present: &Present, out: &mut Exposition) {
    let mut rows = Vec::new();
    for (receiver, attempts) in present.attempts.iter() {
        for (result, count) in [
            ("delivered", attempts.delivered),
            ("failed", attempts.failed),
        ] {
            let labels = Labels::of([("receiver", &**receiver), ("result", result)]);
            rows.push((labels, count));
        }
    }
    out.counters(
        "cowbell_deliveries",
        "Attempts to deliver an alert to a receiver.",
        rows.iter()
            .map(|(labels, count)| (labels, Some(*count as f64))),
    );
}

fn write_remote_write(present: &Present, out: &mut Exposition) {
    let state = present.remote_write.as_ref();
    out.counter(
        "cowbell_remote_write_sent_samples",
        "Samples that the receiver took.",
        state.map(|state| state.sent_samples as f64),
    );
    out.counter(
        "cowbell_remote_write_dropped_samples",
        "Samples that it refused for good or did not write.",
        state.map(|state| state.dropped_samples as f64),
    );
    out.counter(
        "cowbell_remote_write_failed_requests",
        "Requests that are sent again.",
        state.map(|state| state.failed_requests as f64),
    );
    out.gauge(
        "cowbell_remote_write_behind_seconds",
        "Age of the first unsent tick.",
        state.and_then(|state| Some(state.behind_ms? as f64 / 1e3)),
    );
    out.gauge(
        "cowbell_remote_write_newest_behind_seconds",
        "Age of the newest sent tick.",
        state.and_then(|state| Some(state.newest_behind_ms? as f64 / 1e3)),
    );
}

/// A part that was not read yet has no rows.
fn write_parts(present: &Present, out: &mut Exposition) {
    let label = |part| Labels::of([("part", &*variant_name(part))]);
    let labels: Vec<Labels> = present.parts.keys().map(label).collect();
    let parts = || labels.iter().zip(present.parts.values());
    out.gauges(
        "cowbell_part_last_read_timestamp_seconds",
        "When the part was last read without an error.",
        parts().map(|(labels, part)| (labels, part.last_ok_at.map(seconds))),
    );
    out.gauges(
        "cowbell_part_duration_seconds",
        "Time for reading the part, at its last reading.",
        parts().map(|(labels, part)| (labels, Some(part.took_us as f64 / 1e6))),
    );
    out.gauges(
        "cowbell_part_failed",
        "1 if the part could not be read, else 0.",
        parts().map(|(labels, part)| (labels, Some(flag(part.error.is_some())))),
    );
}

pub(super) fn seconds(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 / 1e3
}

pub(super) fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}
