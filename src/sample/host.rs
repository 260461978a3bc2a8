//! Paging, CPU time and I/O pressure: `/proc/vmstat`, `/proc/stat` and `/proc/pressure/io`.

use std::io::Cursor;

use procfs::{CpuTime, ExplicitSystemInfo, FromBufReadSI, KernelStats};

/// KiB paged in and out since boot: `vmstat`'s bi and bo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    pub in_kib: u64,
    pub out_kib: u64,
}

/// CPU time since boot, of all CPUs, in clock ticks.
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
        let line = text
            .lines()
            .find(|line| line.split_ascii_whitespace().next() == Some(key));
        let line = line.ok_or_else(|| format!("/proc/vmstat has no line `{key}`"))?;
        let value = line[key.len()..].trim().parse();
        value
            .map_err(|_| format!("/proc/vmstat: expected `{key}` and a number, but found `{line}`"))
    };
    Ok(Paging {
        in_kib: value("pgpgin")?,
        out_kib: value("pgpgout")?,
    })
}

/// CPU times and the number of processes blocked on I/O.
pub fn parse_stat(text: &str) -> Result<(CpuTimes, Option<u32>), String> {
    // Only ratios are used, so the length of a clock tick does not matter.
    let machine = ExplicitSystemInfo {
        boot_time_secs: 0,
        ticks_per_second: 100,
        page_size: 4096,
        is_little_endian: true,
    };
    let stat = KernelStats::from_buf_read(Cursor::new(text), &machine)
        .map_err(|error| format!("cannot parse /proc/stat: {error}"))?;
    Ok((cpu_times(&stat.total), stat.procs_blocked))
}

/// User time includes guest time already. As in `vmstat`, system time includes irq and softirq.
fn cpu_times(cpu: &CpuTime) -> CpuTimes {
    let sum = |ticks: &[Option<u64>]| {
        ticks
            .iter()
            .flatten()
            .fold(0, |sum: u64, own| sum.saturating_add(*own))
    };
    let user = sum(&[Some(cpu.user), Some(cpu.nice)]);
    let system = sum(&[Some(cpu.system), cpu.irq, cpu.softirq]);
    let total = sum(&[
        Some(user),
        Some(system),
        cpu.iowait,
        Some(cpu.idle),
        cpu.steal,
    ]);
    CpuTimes {
        user,
        system,
        iowait: cpu.iowait.unwrap_or_default(),
        total,
    }
}

/// Microseconds since boot during which at least one process waited for I/O.
pub fn parse_pressure(text: &str) -> Result<u64, String> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "));
    let total = some.and_then(|words| {
        words
            .split(' ')
            .find_map(|word| word.strip_prefix("total="))
    });
    total.and_then(|total| total.trim().parse().ok()).ok_or_else(|| {
        let line = text.lines().next().unwrap_or_default();
        format!("/proc/pressure/io: expected a line `some … total=` with a number, but found `{line}`")
    })
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
    fn an_invalid_line_is_quoted() {
        let check = |text: &str, expected: &str| {
            assert!(parse_vmstat(text).unwrap_err().contains(expected))
        };
        check("", "has no line `pgpgin`");
        check("pgpgin many\npgpgout 1", "found `pgpgin many`");
        assert!(parse_stat("cpu x").is_err());
        assert!(parse_pressure("full\u{feff}avg10=0.00 total=1\n").is_err());
        assert!(
            parse_pressure("some of it")
                .unwrap_err()
                .contains("found `some of it`")
        );
        let both =
            "full avg10=0.00 total=7\nsome avg10=1.00 avg60=0.00 avg300=0.00 total=5887846\n";
        assert_eq!(parse_pressure(both), Ok(5_887_846));
    }
    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n| )*") {
            let _ = (parse_vmstat(&text), parse_stat(&text), parse_pressure(&text));
        }

        #[test]
        fn any_numbers_parse_without_panic(
            vmstat in "(pgpg(in|out) -?(0|[0-9]{1,9}|18446744073709551615|99999999999999999999)\n){0,4}",
            cpu in "(( 0| [0-9]{1,9}| 18446744073709551615){3,12})",
            pressure in "((some|full)( |\\PC{1,2})avg10=[0-9]{1,4}\\.[0-9]{1,3} avg60=0.00 avg300=0.00 total=(0|[0-9]{1,9}|18446744073709551615|99999999999999999999)\n){0,3}",
        ) {
            let stat = format!("cpu {cpu}\nintr 0\nctxt 1\nbtime 1\nprocesses 1\nprocs_running 1\nprocs_blocked 1\n");
            let _ = (parse_vmstat(&vmstat), parse_stat(&stat), parse_pressure(&pressure));
        }
    }
}
