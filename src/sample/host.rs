//! The host as a whole: paging, CPU time and I/O pressure from `/proc/vmstat`, `/proc/stat` and `/proc/pressure/io`; read errors
//! from the kernel's log.

use std::io::Cursor;

use procfs::{CpuTime, ExplicitSystemInfo, FromBufReadSI, KernelStats, ProcError};
use serde::{Deserialize, Serialize};

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
        .map_err(|error| format!("cannot parse /proc/stat: {}", reason(&error)))?;
    Ok((cpu_times(&stat.total), stat.procs_blocked))
}

/// Of what the kernel does not write, procfs says in two lines where in its source it noticed; only the second tells what.
fn reason(error: &ProcError) -> String {
    match error {
        ProcError::InternalError(error) => error.msg.replace('\n', " "),
        error => error.to_string(),
    }
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

/// Why a snapshot became invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Invalidation {
    Overflow,
    IoError,
    /// Its COW area was made smaller than what it held.
    Cut,
}

/// By the kernel's log, which names no snapshot; `None` if it has different reasons.
///
/// Source: `__invalidate_snapshot` in `md/dm-snap.c`.
pub fn invalidation(text: &str) -> Option<Invalidation> {
    let mut found = text.lines().filter_map(|line| {
        let (_, why) = line.split_once("nvalidating snapshot: ")?;
        let is_error = why.starts_with("Error");
        Some(if is_error {
            Invalidation::IoError
        } else {
            Invalidation::Overflow
        })
    });
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// Names of devices with a read error in the kernel's log, such as `sda` or `dm-3`, each once.
pub fn devices_with_read_errors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = text
        .lines()
        .filter_map(device_with_read_error)
        .map(String::from)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Sources: `blk_print_req_error` in `block/blk-mq.c`; `buffer_io_error` in `fs/buffer.c`; `xfs_printk_level`; `ext4_msg`.
fn device_with_read_error(line: &str) -> Option<&str> {
    let name_after = |marker: &str, ends: &[char]| {
        let rest = line.split_once(marker)?.1;
        Some(rest.split(ends).next().unwrap_or_default())
    };
    let found = if line.contains(" error, dev ") || line.contains("I/O error on dev") {
        // A rejected discard or a failed write loses nothing that a backup reads.
        let is_other = line.contains(" op ") && !line.contains(":(READ)");
        if is_other || line.contains("write") {
            return None;
        }
        name_after(" dev ", &[',', ' ']).or_else(|| name_after(" device ", &[',', ' ']))
    } else if line.contains("-fs error") || line.contains("BTRFS error") {
        name_after("(device ", &[')', ':'])
    } else {
        name_after("XFS (", &[')']).filter(|_| line.contains("I/O error"))
    };
    found.filter(|name| !name.is_empty() && name.len() <= 32)
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
    #[test]
    fn what_is_wrong_with_proc_stat_is_one_line_without_a_path() {
        let error = parse_stat("cpu 1 2 3 4\nctxt 1\n").unwrap_err();
        assert!(
            !error.contains('\n') && !error.contains(".rs") && !error.contains("report"),
            "{error}"
        );
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

    #[test]
    fn the_log_says_why_a_snapshot_is_invalid() {
        let error = "device-mapper: snapshots: Invalidating snapshot: Error reading/writing.";
        let full = "device-mapper: snapshots: Invalidating snapshot: Unable to allocate exception.";
        for (text, expected) in [
            (error.into(), Some(Invalidation::IoError)),
            (full.into(), Some(Invalidation::Overflow)),
            (format!("{error}\n{full}"), None),
            ("I/O error, dev sda, sector 123".into(), None),
        ] {
            assert_eq!(invalidation(&text), expected, "{text}");
        }
    }

    #[test]
    fn read_errors_name_their_device() {
        for (line, expected) in [
            (
                "I/O error, dev sda, sector 123 op 0x0:(READ) flags 0x80700 phys_seg 4 prio class 2",
                Some("sda"),
            ),
            (
                "blk_update_request: I/O error, dev nvme0n1, sector 5 op 0x0:(READ) flags 0x0",
                Some("nvme0n1"),
            ),
            ("print_req_error: I/O error, dev sdb, sector 5", Some("sdb")),
            (
                "blk_update_request: critical medium error, dev sdb, sector 5 op 0x0:(READ)",
                Some("sdb"),
            ),
            (
                "critical target error, dev sda, sector 5 op 0x3:(DISCARD) flags 0x800",
                None,
            ),
            (
                "I/O error, dev sda, sector 5 op 0x1:(WRITE) flags 0x800",
                None,
            ),
            (
                "Buffer I/O error on dev dm-3, logical block 0, async page read",
                Some("dm-3"),
            ),
            (
                "Buffer I/O error on dev dm-3, logical block 0, lost async page write",
                None,
            ),
            (
                "Buffer I/O error on device dm-3, logical block 7",
                Some("dm-3"),
            ),
            (
                "EXT4-fs error (device dm-3): ext4_find_entry:1455: inode #2: reading directory",
                Some("dm-3"),
            ),
            (
                "EXT4-fs error (device dm-3) in ext4_free_inode: IO failure",
                Some("dm-3"),
            ),
            (
                "XFS (dm-3): metadata I/O error in \"xfs_imap_to_bp\" at daddr 0x40 len 32 error 5",
                Some("dm-3"),
            ),
            ("XFS (dm-3): Mounting V5 Filesystem", None),
            (
                "BTRFS error (device dm-3): parent transid verify failed",
                Some("dm-3"),
            ),
            ("usb 1-1: device descriptor read/64, error -71", None),
            ("", None),
        ] {
            assert_eq!(device_with_read_error(line), expected, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_log_parses_without_panic(text in "(\\PC|\n| error, dev |XFS \\()*") {
            devices_with_read_errors(&text);
        }
    }
}
