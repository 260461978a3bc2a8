//! What the program itself costs the machine, from `/proc/self`.

use procfs::process::Process;

/// Processor time, memory and writes of this process. `None` where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnCost {
    pub cpu_seconds: Option<f64>,
    pub rss_bytes: Option<u64>,
    /// Bytes that reached, or will reach, a disk.
    pub written_bytes: Option<u64>,
}

/// Reads three small files; meant for when somebody asks, not for every tick.
pub fn own_cost() -> OwnCost {
    let Ok(process) = Process::myself() else { return OwnCost::default() };
    let stat = process.stat().ok();
    let ticks_per_second = procfs::ticks_per_second() as f64;
    OwnCost {
        cpu_seconds: stat.as_ref().map(|stat| (stat.utime + stat.stime) as f64 / ticks_per_second),
        rss_bytes: stat.map(|stat| stat.rss * procfs::page_size()),
        written_bytes: process.io().ok().map(|io| io.write_bytes),
    }
}
