//! `/proc/diskstats`: the I/O counters of each block device. `procfs` parses the columns. A line that it rejects is
//! returned verbatim and does not affect other lines.

pub use cowbell_device_mapper::Number;
use procfs::DiskStat;

use crate::units::Sectors;

/// One line: a device and its counters.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceLine {
    pub number: Number,
    /// The kernel's name, such as `sda1` or `dm-3`.
    pub name: String,
    pub counters: Counters,
}

/// Counters that only increase while the device exists. Millisecond counters wrap at 2³² on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub reads: u64,
    pub sectors_read: Sectors,
    pub read_ms: u32,
    pub writes: u64,
    pub sectors_written: Sectors,
    pub write_ms: u32,
    /// Time with at least one request in flight.
    pub busy_ms: u32,
    /// Sum of all requests' times.
    pub queue_ms: u32,
    /// 0 on kernels before 4.18, which do not count them.
    pub sectors_discarded: Sectors,
}

impl Counters {
    pub fn is_untouched(&self) -> bool {
        self.reads == 0 && self.writes == 0
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
pub fn parse(text: &str) -> (Vec<DeviceLine>, Vec<String>) {
    super::parse_lines(text, |line| device_line(DiskStat::from_line(line).ok()?))
}

fn device_line(stat: DiskStat) -> Option<DeviceLine> {
    Some(DeviceLine {
        number: Number {
            major: stat.major.try_into().ok()?,
            minor: stat.minor.try_into().ok()?,
        },
        name: stat.name,
        counters: Counters {
            reads: stat.reads,
            sectors_read: Sectors(stat.sectors_read),
            read_ms: low_word(stat.time_reading),
            writes: stat.writes,
            sectors_written: Sectors(stat.sectors_written),
            write_ms: low_word(stat.time_writing),
            busy_ms: low_word(stat.time_in_progress),
            queue_ms: low_word(stat.weighted_time_in_progress),
            sectors_discarded: Sectors(stat.sectors_discarded.unwrap_or_default()),
        },
    })
}

fn low_word(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
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
            assert_eq!(device.counters.sectors_written, Sectors(160));
            assert_eq!(device.counters.queue_ms, 11);
        }
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

    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n| )*") {
            parse(&text);
        }

        #[test]
        fn any_numbers_parse_without_panic(lines in "([0-9]{1,10} [0-9]{1,10} sd[a-z]( -?(0|[0-9]{1,9}|18446744073709551615|99999999999999999999)){8,20}\n){0,5}") {
            let (devices, unparsed) = parse(&lines);
            assert_eq!(devices.len() + unparsed.len(), lines.lines().count());
        }
    }
}
