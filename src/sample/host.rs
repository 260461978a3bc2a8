//! Paging, processors and pressure: `/proc/vmstat`, `/proc/stat` and `/proc/pressure/io`.

use std::io::Cursor;

use procfs::{CpuTime, ExplicitSystemInfo, FromBufRead, FromBufReadSI, IoPressure, KernelStats};

/// What was paged in and out since boot, in KiB: the source of `vmstat`'s bi and bo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    pub in_kib: u64,
    pub out_kib: u64,
}

/// Processor time since boot, over all processors, in ticks of the kernel's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    pub user: u64,
    pub system: u64,
    pub iowait: u64,
    pub total: u64,
}

/// Two lines of `/proc/vmstat`; `pgpgin` and `pgpgout` are in KiB, whatever the page size.
pub fn parse_vmstat(text: &str) -> Result<Paging, String> {
    let value = |key: &str| {
        let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(key));
        let line = line.ok_or_else(|| format!("/proc/vmstat has no line `{key}`"))?;
        let value = line[key.len()..].trim().parse();
        value.map_err(|_| format!("/proc/vmstat: expected `{key}` and a number, but found `{line}`"))
    };
    Ok(Paging { in_kib: value("pgpgin")?, out_kib: value("pgpgout")? })
}

/// Processor times and the number of processes that wait for I/O, from `/proc/stat`.
pub fn parse_stat(text: &str) -> Result<(CpuTimes, Option<u32>), String> {
    // Only ratios of ticks are used, so their length does not matter.
    let machine = ExplicitSystemInfo {
        boot_time_secs: 0,
        ticks_per_second: 100,
        page_size: 4096,
        is_little_endian: true,
    };
    let stat = KernelStats::from_buf_read(Cursor::new(text), &machine)
        .map_err(|error| format!("cannot understand /proc/stat: {error}"))?;
    Ok((cpu_times(&stat.total), stat.procs_blocked))
}

/// Guest time is in user time already; irq and softirq count as system, as `vmstat` has it.
fn cpu_times(cpu: &CpuTime) -> CpuTimes {
    let or_zero = Option::unwrap_or_default;
    let user = cpu.user + cpu.nice;
    let system = cpu.system + or_zero(cpu.irq) + or_zero(cpu.softirq);
    let iowait = or_zero(cpu.iowait);
    CpuTimes { user, system, iowait, total: user + system + iowait + cpu.idle + or_zero(cpu.steal) }
}

/// Microseconds since boot in which at least one process waited for I/O.
pub fn parse_pressure(text: &str) -> Result<u64, String> {
    let pressure = IoPressure::from_buf_read(Cursor::new(text))
        .map_err(|error| format!("cannot understand /proc/pressure/io: {error}"))?;
    Ok(pressure.some.total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/vm-6.18");

    fn captured(name: &str) -> String {
        std::fs::read_to_string(format!("{MACHINE}/{name}")).unwrap()
    }

    #[test]
    fn a_captured_machine_is_read() {
        assert!(parse_vmstat(&captured("vmstat")).unwrap().in_kib > 0);
        let (cpu, blocked) = parse_stat(&captured("stat")).unwrap();
        assert!(cpu.user > 0 && cpu.total > cpu.user + cpu.system + cpu.iowait);
        assert!(blocked.is_some());
    }

    #[test]
    fn what_cannot_be_understood_is_quoted() {
        let check = |text: &str, expected: &str| assert!(parse_vmstat(text).unwrap_err().contains(expected));
        check("", "has no line `pgpgin`");
        check("pgpgin many\npgpgout 1", "found `pgpgin many`");
        assert!(parse_stat("cpu x").is_err());
        assert!(parse_pressure("some of it").is_err());
    }
}
