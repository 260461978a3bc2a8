//! cowbell's own resource usage, from `/proc/self`.

use procfs::process::Process;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// CPU time, memory and writes of this process. `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OwnCost {
    pub cpu_seconds: Option<f64>,
    pub rss_bytes: Option<u64>,
    /// Bytes that were or will be written to a disk.
    pub written_bytes: Option<u64>,
}

/// Reads three small files; for requests, not for every tick.
pub fn own_cost() -> OwnCost {
    let Ok(process) = Process::myself() else {
        return OwnCost::default();
    };
    let stat = process.stat().ok();
    let ticks_per_second = procfs::ticks_per_second() as f64;
    OwnCost {
        cpu_seconds: stat
            .as_ref()
            .map(|stat| (stat.utime + stat.stime) as f64 / ticks_per_second),
        rss_bytes: stat.map(|stat| stat.rss * procfs::page_size()),
        written_bytes: process.io().ok().map(|io| io.write_bytes),
    }
}
