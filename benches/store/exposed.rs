//! The same values as Prometheus has them: each second's text, to be scraped or imported.

use std::fmt::Write;

use crate::machine::{Machine, name};

const OF_DEVICE: [&str; 8] = [
    "reads_completed",
    "sectors_read",
    "read_time_milliseconds",
    "writes_completed",
    "sectors_written",
    "write_time_milliseconds",
    "io_time_milliseconds",
    "io_time_weighted_milliseconds",
];
const OF_HOST: [&str; 8] = [
    "paged_in_kib_total",
    "paged_out_kib_total",
    "user_total",
    "system_total",
    "iowait_total",
    "cpu_total",
    "blocked",
    "pressure_io_microseconds_total",
];

/// Counters as they stand, with the second since 1970 where it has to be said.
pub fn add(text: &mut String, machine: &Machine, second: Option<i64>) {
    let end = second.map_or("\n".to_string(), |second| format!(" {second}\n"));
    for (column, metric) in OF_DEVICE.iter().enumerate() {
        for (index, device) in machine.devices.iter().enumerate() {
            let (device, value) = (name(index), device.counters[column]);
            let _ = write!(
                text,
                "node_disk_{metric}_total{{device=\"{device}\"}} {value}{end}"
            );
        }
    }
    for (volume, used) in machine.used.iter().enumerate() {
        let _ = write!(text, "volume_used{{volume=\"vg0/lv{volume}\"}} {used}{end}");
    }
    for (metric, value) in OF_HOST.iter().zip(machine.host) {
        let _ = write!(text, "host_{metric} {value}{end}");
    }
}
