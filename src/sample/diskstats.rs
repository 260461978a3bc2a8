//! `/proc/diskstats`: the I/O counters of each block device. `procfs` parses the columns. A line that it rejects is
//! returned verbatim and does not affect other lines.

use std::collections::HashSet;
use std::ops::Index;

pub use cowbell_device_mapper::Number;
use procfs::DiskStat;

use crate::units::Sectors;

/// As the kernel counts them, in 31 bits.
const MOST_IN_FLIGHT: u64 = i32::MAX as u64;

/// One line: a device and its counters.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceLine {
    pub number: Number,
    /// The kernel's name, such as `sda1` or `dm-3`.
    pub name: String,
    pub counters: Counters,
    /// `None` if the kernel miscounted: it prints -1 as 4,294,967,295.
    pub in_flight: Option<u64>,
    /// Discards and flushes.
    pub other_requests: u64,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Requests,
    Sectors,
    Milliseconds,
}

type CounterColumn = fn(&DiskStat) -> Option<u64>;

/// Declares the counters of a line: what each counts, and its column.
macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident: $counted:ident, $column:expr;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter { $($(#[$doc])* $counter),+ }

        const TABLE: &[(Counter, Counted, CounterColumn)] =
            &[$((Counter::$counter, Counted::$counted, $column)),+];
    };
}

// A column that the kernel does not have is unknown.
counters! {
    Reads: Requests, |line| Some(line.reads);
    SectorsRead: Sectors, |line| Some(line.sectors_read);
    ReadMs: Milliseconds, |line| Some(line.time_reading);
    Writes: Requests, |line| Some(line.writes);
    SectorsWritten: Sectors, |line| Some(line.sectors_written);
    WriteMs: Milliseconds, |line| Some(line.time_writing);
    /// Time with at least one request in flight.
    BusyMs: Milliseconds, |line| Some(line.time_in_progress);
    /// Sum of all requests' times.
    QueueMs: Milliseconds, |line| Some(line.weighted_time_in_progress);
    /// Since Linux 4.18.
    SectorsDiscarded: Sectors, |line| line.sectors_discarded;
    /// Where the kernel counts reads when they start, those that completed; see `interval::completed`.
    ReadsCompleted: Requests, |_| None;
    WritesCompleted: Requests, |_| None;
}

impl Counter {
    pub const COUNT: usize = TABLE.len();

    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(counter, ..)| *counter)
    }

    pub fn counted(self) -> Counted {
        TABLE[self as usize].1
    }
}

/// The counters of a device since it was created, in the units of the kernel; `None` for one that it does not count.
///
/// Milliseconds wrap at 2³² on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters(pub [Option<u64>; Counter::COUNT]);

impl Index<Counter> for Counters {
    type Output = Option<u64>;

    fn index(&self, counter: Counter) -> &Option<u64> {
        &self.0[counter as usize]
    }
}

impl Counters {
    pub fn is_untouched(&self) -> bool {
        self[Counter::Reads] == Some(0) && self[Counter::Writes] == Some(0)
    }

    pub fn read_bytes(&self) -> Option<u64> {
        Some(Sectors(self[Counter::SectorsRead]?).bytes())
    }

    pub fn written_bytes(&self) -> Option<u64> {
        Some(Sectors(self[Counter::SectorsWritten]?).bytes())
    }

    fn of(line: &DiskStat) -> Self {
        Self(std::array::from_fn(|place| {
            let (_, counted, column) = TABLE[place];
            let count = column(line)?;
            Some(match counted {
                Counted::Milliseconds => count & u64::from(u32::MAX),
                Counted::Requests | Counted::Sectors => count,
            })
        }))
    }
}

/// How many requests a device has in flight, and how many it has completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub name: String,
    pub in_flight: u64,
    pub completed: u64,
}

/// The queue of each device; invalid lines are left out.
pub fn queues(text: &str) -> Vec<Queue> {
    let queue = |stat: DiskStat| Queue {
        name: stat.name,
        in_flight: stat.in_progress,
        completed: stat.reads.wrapping_add(stat.writes),
    };
    text.lines()
        .filter_map(|line| DiskStat::from_line(line).ok())
        .map(queue)
        .collect()
}

/// Parses `/proc/diskstats` of kernels 2.6.25 to today (14, 18 and 20 columns); also returns invalid lines.
///
/// A device may be listed twice while others come or go. Its last line counts.
pub fn parse(text: &str) -> (Vec<DeviceLine>, Vec<String>) {
    let (mut lines, unparsed) =
        super::parse_lines(text, |line| device_line(DiskStat::from_line(line).ok()?));
    let mut seen = HashSet::new();
    lines.reverse();
    lines.retain(|line| seen.insert(line.name.clone()));
    lines.reverse();
    (lines, unparsed)
}

fn device_line(stat: DiskStat) -> Option<DeviceLine> {
    Some(DeviceLine {
        number: Number {
            major: stat.major.try_into().ok()?,
            minor: stat.minor.try_into().ok()?,
        },
        counters: Counters::of(&stat),
        in_flight: Some(stat.in_progress).filter(|count| *count <= MOST_IN_FLIGHT),
        other_requests: stat
            .discards
            .unwrap_or_default()
            .saturating_add(stat.flushes.unwrap_or_default()),
        name: stat.name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_14_18_and_20_columns_are_read() {
        for rest in ["", " 1 2 3 4", " 1 2 3 4 5 6", " 1 2 3 4 5 6 7 8"] {
            let (devices, unparsed) = parse(&format!(
                " 254       0 vda 10 1 80 5 20 2 160 6 3 7 11{rest}\n"
            ));
            assert_eq!(unparsed, Vec::<String>::new());
            let device = &devices[0];
            assert_eq!(device.name, "vda");
            assert_eq!(device.counters[Counter::SectorsWritten], Some(160));
            assert_eq!(device.counters[Counter::QueueMs], Some(11));
        }
    }

    #[test]
    fn a_counter_that_an_old_kernel_lacks_is_unknown() {
        let discarded = |rest: &str| {
            let (devices, _) = parse(&format!("8 0 sda 10 1 80 5 20 2 160 6 3 7 11{rest}\n"));
            devices[0].counters[Counter::SectorsDiscarded]
        };
        assert_eq!([discarded(""), discarded(" 1 2 3 4")], [None, Some(3)]);
    }

    #[test]
    fn queues_are_requests_in_flight() {
        let found = queues("nonsense\n 254       0 vda 10 1 80 5 20 2 160 6 3 7 11 1 2 3 4\n");
        assert_eq!(
            found,
            [Queue {
                name: "vda".into(),
                in_flight: 3,
                completed: 30
            }]
        );
    }

    #[test]
    fn an_invalid_line_affects_no_other() {
        let text = "8 0 sda 1 0 8 1 1 0 8 1 0 1 1\nnonsense\n8 1 sda1 x 0 8 1 1 0 8 1 0 1 1\n8 16 sdb 1 0 8 1 1 0 8 1 0 1 1\n";
        let (devices, unparsed) = parse(text);
        assert_eq!(
            devices.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(),
            ["sda", "sdb"]
        );
        assert_eq!(unparsed, ["nonsense", "8 1 sda1 x 0 8 1 1 0 8 1 0 1 1"]);
    }

    #[test]
    fn a_device_that_is_listed_twice_is_one() {
        let text = "8 0 sda 1 0 8 1 1 0 8 1 0 1 1\n8 16 sdb 5 0 8 1 1 0 8 1 0 1 1\n8 0 sda 2 0 8 1 1 0 8 1 0 1 1\n";
        let (devices, _) = parse(text);
        let reads = devices
            .iter()
            .map(|device| (&*device.name, device.counters[Counter::Reads]));
        assert_eq!(
            reads.collect::<Vec<_>>(),
            [("sdb", Some(5)), ("sda", Some(2))]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n| )*") {
            parse(&text);
        }

        #[test]
        fn any_numbers_parse_without_panic(lines in "([0-9]{1,10} [0-9]{1,10} sd[a-z]( -?(0|[0-9]{1,9}|18446744073709551615|99999999999999999999)){8,20}\n){0,5}") {
            let (devices, unparsed) = parse(&lines);
            assert!(devices.len() + unparsed.len() <= lines.lines().count());
        }
    }
}
