//! Which device's counters are whose, and that each byte counts once, on machines whose kernels write them oddly.

use cowbell::interval::Interval;
use cowbell::source::{Part, ReadResult};

use crate::observer::{Observer, reading};

/// The bytes that were read in the last second of each device, and of the host: so many KiB of each line's sectors.
fn check(sysfs: &str, ticks: [&str; 2], total_kib: Option<u64>, expected: &[(&str, Option<u64>)]) {
    let interval = last_of(sysfs, &ticks);
    for (name, kib) in expected {
        let device = interval.topology.device(name).unwrap();
        let read = interval.work_of(device).read_bytes();
        assert_eq!(read.map(|bytes| bytes / 1024), *kib, "{name}");
    }
    let read = interval.total().read_bytes();
    assert_eq!(read.map(|bytes| bytes / 1024), total_kib, "total");
}

fn last_of(sysfs: &str, ticks: &[&str]) -> Interval {
    let mut observer = Observer::default();
    let mut intervals = ticks.iter().zip(0_u32..).map(|(diskstats, second)| {
        let mut texts = vec![(Part::Diskstats, ReadResult::Text((*diskstats).into()))];
        if second == 0 {
            texts.push((Part::Sysfs, ReadResult::Text(sysfs.into())));
        }
        observer.observe(&reading(f64::from(second), texts))
    });
    intervals.by_ref().last().unwrap()
}

const MULTIPATH: &str = "nvme0n1/dev\t259:1\nnvme0n1/wwid\teui.1\nnvme0n1p1/dev\t259:2\nnvme0n1p1/partition\t1\n\
    nvme0n1p1/parent\tnvme0n1\nnvme0c0n1/hidden\t1\nnvme0c0n1/wwid\teui.1\nnvme0c1n1/hidden\t1\nnvme0c1n1/wwid\teui.1\n\
    nvme1n1/dev\t259:5\n";

#[test]
fn paths_of_nvme_multipath_count_for_their_disk_before_linux_6_4() {
    check(
        MULTIPATH,
        [
            "0 0 nvme0c0n1 1 0 80 0 0 0 0 0 0 0 0\n0 0 nvme0c1n1 1 0 10 0 0 0 0 0 0 0 0\n\
             259 1 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n259 2 nvme0n1p1 0 0 0 0 0 0 0 0 0 0 0\n\
             259 5 nvme1n1 1 0 2 0 0 0 0 0 0 0 0\n",
            "0 0 nvme0c0n1 5 0 280 0 0 0 0 0 0 0 0\n0 0 nvme0c1n1 2 0 110 0 0 0 0 0 0 0 0\n\
             259 1 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n259 2 nvme0n1p1 0 0 0 0 0 0 0 0 0 0 0\n\
             259 5 nvme1n1 1 0 22 0 0 0 0 0 0 0 0\n",
        ],
        Some(160),
        &[
            ("nvme0n1", Some(150)),
            ("nvme0c0n1", Some(100)),
            ("nvme0c1n1", Some(50)),
            ("nvme0n1p1", None),
        ],
    );
}

#[test]
fn a_disk_of_nvme_multipath_that_counts_itself_counts_once() {
    check(
        MULTIPATH,
        [
            "0 0 nvme0c0n1 1 0 80 0 0 0 0 0 0 0 0\n0 0 nvme0c1n1 1 0 10 0 0 0 0 0 0 0 0\n\
             259 1 nvme0n1 2 0 90 0 0 0 0 0 0 0 0\n",
            "0 0 nvme0c0n1 5 0 280 0 0 0 0 0 0 0 0\n0 0 nvme0c1n1 2 0 110 0 0 0 0 0 0 0 0\n\
             259 1 nvme0n1 7 0 390 0 0 0 0 0 0 0 0\n",
        ],
        Some(150),
        &[("nvme0n1", Some(150)), ("nvme0c0n1", Some(100))],
    );
}

#[test]
fn a_path_that_the_kernel_does_not_list_makes_its_disk_unknown() {
    let lines = "259 1 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n";
    check(MULTIPATH, [lines, lines], None, &[("nvme0n1", None)]);
}

#[test]
fn a_path_counts_where_its_disk_is_not_listed() {
    check(
        MULTIPATH,
        [
            "0 0 nvme0c0n1 1 0 80 0 0 0 0 0 0 0 0\n",
            "0 0 nvme0c0n1 5 0 280 0 0 0 0 0 0 0 0\n",
        ],
        Some(100),
        &[("nvme0c0n1", Some(100))],
    );
}

#[test]
fn names_with_slashes_are_those_that_sysfs_writes_with_exclamation_marks() {
    let sysfs = "cciss!c0d0/dev\t104:0\ncciss!c0d0p1/dev\t104:1\ncciss!c0d0p1/parent\tcciss!c0d0\n\
        cciss!c0d0p1/partition\t1\ndm-0/dev\t253:0\ndm-0/dm/name\tvg0-a\ndm-0/dm/uuid\tLVM-x\ndm-0/slaves\tcciss!c0d0p1\n";
    let tick = |sectors: u64| {
        format!(
            "104 0 cciss/c0d0 1 0 {sectors} 0 0 0 0 0 0 0 0\n104 1 cciss/c0d0p1 1 0 {sectors} 0 0 0 0 0 0 0 0\n\
             253 0 dm-0 1 0 {sectors} 0 0 0 0 0 0 0 0\n"
        )
    };
    let ticks = [tick(0), tick(20)];
    check(
        sysfs,
        [&ticks[0], &ticks[1]],
        Some(10),
        &[("cciss/c0d0p1", Some(10))],
    );
    let interval = last_of(sysfs, &[&ticks[0]]);
    let slaves = &interval.topology.device("dm-0").unwrap().slaves;
    assert_eq!(*slaves, ["cciss/c0d0p1"]);
}

#[test]
fn a_device_that_is_listed_twice_counts_once() {
    check(
        "sda/dev\t8:0\n",
        [
            "8 0 sda 1 0 0 0 0 0 0 0 0 0 0\n",
            "8 0 sda 1 0 20 0 0 0 0 0 0 0 0\n8 0 sda 1 0 20 0 0 0 0 0 0 0 0\n",
        ],
        Some(10),
        &[("sda", Some(10))],
    );
}

#[test]
fn partitions_of_xen_without_a_disk_count() {
    check(
        "xvda1/dev\t202:1\nxvda1/partition\t1\nxvda1/parent\txvda\nxvda2/dev\t202:2\n",
        [
            "202 1 xvda1 1 0 0 0 0 0 0 0 0 0 0\n202 2 xvda2 1 0 0 0 0 0 0 0 0 0 0\n",
            "202 1 xvda1 1 0 20 0 0 0 0 0 0 0 0\n202 2 xvda2 1 0 4 0 0 0 0 0 0 0 0\n",
        ],
        Some(12),
        &[("xvda1", Some(10)), ("xvda2", Some(2))],
    );
}

#[test]
fn a_counter_that_steps_back_is_unknown_and_no_other() {
    let work = |now: &str| {
        let before = "8 0 sda 100 0 800 50 100 0 800 50 0 50 100\n";
        let interval = last_of("sda/dev\t8:0\n", &[before, now]);
        let work = interval.total();
        work.0.map(|counter| counter.is_some())
    };
    // The first three are the reads, their sectors and their milliseconds; this kernel counts no discards.
    for (now, unknown) in [
        ("8 0 sda 97 0 840 51 101 0 808 51 0 51 102\n", vec![0]),
        ("8 0 sda 105 0 10 51 101 0 808 51 0 51 102\n", vec![1]),
        ("8 0 sda 105 0 840 43 101 0 808 51 0 51 94\n", vec![2, 7]),
        ("8 0 sda 5 0 40 3 101 0 808 51 0 51 94\n", (0..8).collect()),
    ] {
        let known = work(now);
        let found: Vec<usize> = (0..8).filter(|place| !known[*place]).collect();
        assert_eq!(found, unknown, "{now}");
    }
}
