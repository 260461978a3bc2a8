//! What the watcher itself did and cost: its ticks, the parts that it reads, its database, its process.

use std::fmt;

use jiff::Timestamp;

use super::family::{Families, Family, LabelFamily, Labels};
use crate::present::Present;
use crate::source::own::{OwnCost, own_cost};
use crate::source::variant_name;

/// A value of the host, which needs no labels.
type Value = fn(&Present, &OwnCost) -> Option<f64>;

const COUNTERS: [(Family, Value); 8] = [
    (family("cowbell", "ticks", "Ticks taken."), |present, _| {
        Some(present.ticks.taken as f64)
    }),
    (
        family("cowbell_missed", "ticks", "Whole intervals without a tick."),
        |present, _| Some(present.ticks.missed as f64),
    ),
    (
        family(
            "cowbell_lost",
            "entries",
            "Ticks, jobs and alerts that could not be stored.",
        ),
        |present, _| Some(present.lost as f64),
    ),
    (
        family(
            "cowbell_process_cpu",
            "seconds",
            "Processor time of this process.",
        ),
        |_, cost| cost.cpu_seconds,
    ),
    (
        family(
            "cowbell_process_written",
            "bytes",
            "Bytes that this process wrote to disks.",
        ),
        |_, cost| Some(cost.written_bytes? as f64),
    ),
    (
        family(
            "cowbell_remote_write_sent",
            "samples",
            "Samples that the receiver took.",
        ),
        |present, _| Some(present.remote_write.as_ref()?.sent_samples as f64),
    ),
    (
        family(
            "cowbell_remote_write_dropped",
            "samples",
            "Samples that it refused for good or did not write.",
        ),
        |present, _| Some(present.remote_write.as_ref()?.dropped_samples as f64),
    ),
    (
        family(
            "cowbell_remote_write_failed",
            "requests",
            "Requests that are sent again.",
        ),
        |present, _| Some(present.remote_write.as_ref()?.failed_requests as f64),
    ),
];
const GAUGES: [(Family, Value); 10] = [
    (
        family(
            "cowbell_tick_duration_median",
            "seconds",
            "Median time for reading and evaluating, over the last 600 ticks.",
        ),
        |present, _| Some(present.ticks.took_us.p50 as f64 / 1e6),
    ),
    (
        family(
            "cowbell_tick_duration_p99",
            "seconds",
            "99th percentile of that time.",
        ),
        |present, _| Some(present.ticks.took_us.p99 as f64 / 1e6),
    ),
    (
        family(
            "cowbell_interval",
            "seconds",
            "Configured time between ticks.",
        ),
        |present, _| Some(present.interval_length.as_secs_f64()),
    ),
    (
        family(
            "cowbell_last_tick_timestamp",
            "seconds",
            "When the last tick was taken.",
        ),
        |present, _| Some(seconds(present.interval.at)),
    ),
    (
        family(
            "cowbell_start_timestamp",
            "seconds",
            "When the first tick was taken.",
        ),
        |present, _| Some(seconds(present.started_at)),
    ),
    (
        family(
            "cowbell_process_resident_memory",
            "bytes",
            "Memory of this process.",
        ),
        |_, cost| Some(cost.rss_bytes? as f64),
    ),
    (
        family(
            "cowbell_store_size",
            "bytes",
            "Size of stored data, at the last complete ten minutes.",
        ),
        |present, _| Some(present.store.stock.size_bytes as f64).filter(|_| present.store.is_open),
    ),
    (
        family(
            "cowbell_store_failed",
            "",
            "1 if the database is not written, else 0.",
        ),
        |present, _| Some(f64::from(u8::from(present.store.error.is_some()))),
    ),
    (
        family(
            "cowbell_remote_write_behind",
            "seconds",
            "Age of the first unsent tick.",
        ),
        |present, _| Some(present.remote_write.as_ref()?.behind_ms? as f64 / 1e3),
    ),
    (
        family(
            "cowbell_remote_write_newest_behind",
            "seconds",
            "Age of the newest sent tick.",
        ),
        |present, _| Some(present.remote_write.as_ref()?.newest_behind_ms? as f64 / 1e3),
    ),
];
const READ: Family = family(
    "cowbell_part_last_read_timestamp",
    "seconds",
    "When the part was last read without an error.",
);
const TOOK: Family = family(
    "cowbell_part_duration",
    "seconds",
    "Time for reading the part, at its last reading.",
);
const FAILED: Family = family(
    "cowbell_part_failed",
    "",
    "1 if the part could not be read, else 0.",
);
const HOST: LabelFamily = LabelFamily {
    name: "cowbell_host",
    help: "Name of the host and version of cowbell.",
};

const fn family(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family { name, unit, help }
}

pub fn encode(present: &Present, families: &mut Families) -> fmt::Result {
    let (cost, none) = (own_cost(), Labels::default());
    for (family, value) in &COUNTERS {
        families.counters(family, [(&none, value(present, &cost))].into_iter())?;
    }
    for (family, value) in &GAUGES {
        families.gauges(family, [(&none, value(present, &cost))].into_iter())?;
    }
    let properties = Labels::of([
        ("host", &*present.host),
        ("version", env!("CARGO_PKG_VERSION")),
    ]);
    families.infos(&HOST, [(&none, properties)].into_iter())?;
    encode_parts(present, families)
}

/// A part that was not read yet has no rows.
fn encode_parts(present: &Present, families: &mut Families) -> fmt::Result {
    let names: Vec<String> = present.parts.keys().map(variant_name).collect();
    let labels: Vec<Labels> = names
        .iter()
        .map(|name| Labels::of([("part", name)]))
        .collect();
    let parts = || labels.iter().zip(present.parts.values());
    families.gauges(
        &READ,
        parts().map(|(labels, part)| (labels, part.last_ok_at.map(seconds))),
    )?;
    families.gauges(
        &TOOK,
        parts().map(|(labels, part)| (labels, Some(part.took_us as f64 / 1e6))),
    )?;
    let failed = |error: &Option<String>| Some(f64::from(u8::from(error.is_some())));
    families.gauges(
        &FAILED,
        parts().map(|(labels, part)| (labels, failed(&part.error))),
    )
}

fn seconds(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 / 1e3
}
