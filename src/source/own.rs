//! cowbell's own resource usage, from `/proc/self`.

/// Processor time, memory and writes of this process. `None` where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnCost {
    pub cpu_seconds: Option<f64>,
    pub rss_bytes: Option<u64>,
    /// Bytes that were or will be written to a disk.
    pub written_bytes: Option<u64>,
}

/// Reads three small files; for requests, not for every tick.
pub fn own_cost() -> OwnCost {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).ok();
    let (stat, io) = (read("stat"), read("io"));
    // The name in parentheses may hold spaces; `state` is the first field behind it, and the third of all.
    let fields: Option<Vec<&str>> =
        stat.as_ref().and_then(|stat| Some(stat.rsplit_once(')')?.1.split_whitespace().collect()));
    let field = |number: usize| fields.as_ref()?.get(number - 3)?.parse::<u64>().ok();
    let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
    OwnCost {
        cpu_seconds: field(14).zip(field(15)).map(|(user, system)| (user + system) as f64 / ticks_per_second),
        rss_bytes: field(24).map(|pages| pages * rustix::param::page_size() as u64),
        written_bytes: io
            .and_then(|io| io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_costs_something() {
        let cost = own_cost();
        assert!(cost.cpu_seconds.is_some_and(|seconds| seconds < 3600.0 * 24.0), "{cost:?}");
        assert!(cost.rss_bytes.is_some_and(|bytes| (1 << 20..1 << 34).contains(&bytes)), "{cost:?}");
        assert!(cost.written_bytes.is_some(), "{cost:?}");
    }
}
