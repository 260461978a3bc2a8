//! Statistics of the device-mapper: a region divides a device into areas of one size, and the kernel counts the writes to
//! each. Counters are never cleared, since another reader would miss what they counted.
//!
//! Creating and deleting a region is the only change that cowbell makes to a device. Only `cowbell size` does it, and never
//! the daemon or its reader: creating one suspends the device inside the kernel until its requests are complete, usually for
//! milliseconds. If the storage does not answer, the caller waits in the kernel and cannot be killed.
//!
//! Only regions with the program name `cowbell` are cowbell's. Source: `Documentation/admin-guide/device-mapper/statistics.rst`
//! and `drivers/md/dm-stats.c`, Linux 3.12 and later.

use std::fmt;
use std::fs::File;
use std::str::FromStr;

use cowbell_device_mapper::ioctl::{Buffer, CallError, Command, DeviceEntry};
use rustix::io::Errno;

use super::label::Label;

/// The program name of cowbell's regions.
pub const PROGRAM: &str = "cowbell";
/// Maximum regions on a volume. The kernel walks through all of them at each request.
pub const MAX_REGIONS: usize = 48;
/// Maximum areas of a region: 4 GiB at 4 KiB, 512 GiB at 512 KiB. Their counters take 8 MiB here, and 200 in the kernel.
pub const MAX_AREAS: u64 = 1 << 20;
/// Areas to read with one message: half a megabyte of text, in which the kernel is not interrupted for a few milliseconds.
const PAGE: u64 = 4_096;
/// The length of a DM UUID of a volume: `LVM-` and the UUIDs of group and volume. Hidden layers have a longer one.
const VOLUME_UUID: usize = 68;

/// Messages that change nothing.
enum Query {
    /// Lists the regions of cowbell.
    List,
    /// Lists the regions of every program.
    ListAll,
    Print {
        id: u64,
        first: u64,
        count: u64,
    },
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List => write!(f, "@stats_list {PROGRAM}"),
            Self::ListAll => write!(f, "@stats_list"),
            Self::Print { id, first, count } => write!(f, "@stats_print {id} {first} {count}"),
        }
    }
}

/// A region as the kernel lists it. All sizes are in sectors.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionEntry {
    pub id: u64,
    pub start: u64,
    pub length: u64,
    pub step: u64,
    /// What it is for, and the time of its creation, which tells regions with the same number apart.
    pub label: Label,
}

/// The writes to an area since its region was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaCounters {
    pub writes: u64,
    pub sectors: u64,
}

impl RegionEntry {
    /// `ID: START+LENGTH STEP PROGRAM TEXT`
    fn parse(line: &str) -> Option<Self> {
        let (id, rest) = line.split_once(": ")?;
        let words: Vec<&str> = rest.split(' ').collect();
        let [extent, step, _program, label, ..] = words[..] else {
            return None;
        };
        let (start, length) = extent.split_once('+')?;
        Some(Self {
            id: id.parse().ok()?,
            start: start.parse().ok()?,
            length: length.parse().ok()?,
            step: step.parse().ok().filter(|step| *step > 0)?,
            label: Label::parse(label),
        })
    }

    pub fn areas(&self) -> u64 {
        self.length.div_ceil(self.step)
    }
}

/// A device and cowbell's regions on it.
#[derive(Debug, Default, PartialEq)]
pub struct DeviceRegions {
    pub uuid: String,
    pub regions: Vec<RegionEntry>,
}

impl DeviceRegions {
    /// Whether the device is a volume, and not one of its hidden layers.
    pub fn is_volume(&self) -> bool {
        self.uuid.starts_with("LVM-") && self.uuid.len() == VOLUME_UUID
    }
}

/// Reads statistics through a descriptor of the control device.
#[derive(Default)]
pub struct StatsReader {
    devices: Buffer,
    answers: Buffer,
}

impl StatsReader {
    /// Every device of the device-mapper.
    pub fn devices(&mut self, control: &File) -> Result<Vec<DeviceEntry>, String> {
        match self.devices.call(control, Command::ListDevices, 0, 0) {
            Ok(answer) => Ok(answer.devices()),
            Err(CallError::Gone) => Ok(Vec::new()),
            Err(CallError::Failed(why)) => Err(why.into()),
        }
    }

    /// The regions of cowbell on a device; an error of `EINVAL` means that the kernel has no statistics.
    pub fn regions(&mut self, control: &File, device: u64) -> Result<DeviceRegions, Errno> {
        let response = self
            .answers
            .message(control, device, &Query::List.to_string())?;
        let regions = response
            .answer()
            .lines()
            .filter_map(RegionEntry::parse)
            .collect();
        Ok(DeviceRegions {
            uuid: response.uuid().into_owned(),
            regions,
        })
    }

    /// The number of regions of all programs on a device.
    pub fn count_all(&mut self, control: &File, device: u64) -> Result<usize, Errno> {
        let response = self
            .answers
            .message(control, device, &Query::ListAll.to_string())?;
        Ok(response.answer().lines().count())
    }

    /// The writes to each area since the region was created.
    pub fn counters(
        &mut self,
        control: &File,
        device: u64,
        region: &RegionEntry,
    ) -> Result<Vec<AreaCounters>, String> {
        let areas = region.areas();
        if areas > MAX_AREAS {
            return Err(format!(
                "region {} has {areas} areas, expected at most {MAX_AREAS}",
                region.id
            ));
        }
        let mut counters = Vec::with_capacity(areas as usize);
        for first in (0..areas).step_by(PAGE as usize) {
            let query = Query::Print {
                id: region.id,
                first,
                count: PAGE,
            };
            let response = self.answers.message(control, device, &query.to_string());
            let response =
                response.map_err(|errno| format!("cannot read region {}: {errno}", region.id))?;
            parse_counters(response.answer(), &mut counters)?;
        }
        if counters.len() as u64 != areas {
            return Err(format!(
                "region {} has {} areas, expected {areas}",
                region.id,
                counters.len()
            ));
        }
        Ok(counters)
    }
}

/// Appends the fifth and seventh counter, completed writes and written sectors, of each line `START+LENGTH COUNTERS…`.
fn parse_counters(text: &str, counters: &mut Vec<AreaCounters>) -> Result<(), String> {
    for line in text.lines() {
        let mut words = line.split(' ').skip(5).map(|count| count.parse().ok());
        let (writes, sectors) = (words.next().flatten(), words.nth(1).flatten());
        let of_area = writes
            .zip(sectors)
            .map(|(writes, sectors)| AreaCounters { writes, sectors });
        counters.push(
            of_area
                .ok_or_else(|| format!("expected the counters of an area, but found {line:?}"))?,
        );
    }
    Ok(())
}

/// A region to create. All sizes are in sectors.
#[derive(Clone, Debug)]
pub struct NewRegion {
    pub place: Place,
    /// The size of an area.
    pub step: u64,
    pub label: Label,
}

/// Where a region is, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    WholeDevice,
    Extent { start: u64, length: u64 },
}

/// The kernel's word: `-`, or `START+LENGTH`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WholeDevice => f.write_str("-"),
            Self::Extent { start, length } => write!(f, "{start}+{length}"),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let extent = || {
            let (start, length) = word.split_once('+')?;
            Some(Self::Extent {
                start: start.parse().ok()?,
                length: length.parse().ok()?,
            })
        };
        let whole = (word == "-").then_some(Self::WholeDevice);
        whole
            .or_else(extent)
            .ok_or_else(|| format!("expected - or START+LENGTH, but found {word:?}"))
    }
}

/// Messages that change the statistics of a device.
enum Change<'a> {
    Create(&'a NewRegion),
    Delete { id: u64 },
}

impl fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(NewRegion { place, step, label }) => {
                write!(f, "@stats_create {place} {step} {PROGRAM} {label}")
            }
            Self::Delete { id } => write!(f, "@stats_delete {id}"),
        }
    }
}

/// Creates a region; returns its number. Errors: `ENOMEM` if the kernel refuses the memory, `EINVAL` if it has no
/// statistics, `ENXIO` if the device is gone.
pub fn create(control: &File, device: u64, region: &NewRegion) -> Result<u64, Errno> {
    let mut buffer = Buffer::default();
    let response = buffer.message(control, device, &Change::Create(region).to_string())?;
    response.answer().trim().parse().map_err(|_| Errno::PROTO)
}

/// Deletes a region of cowbell.
pub fn delete(control: &File, device: u64, id: u64) -> Result<(), Errno> {
    Buffer::default()
        .message(control, device, &Change::Delete { id }.to_string())
        .map(drop)
}

/// Deletes cowbell's regions on a device, as far as they are meant; returns their number.
pub fn delete_all(
    control: &File,
    device: u64,
    is_meant: fn(&RegionEntry) -> bool,
) -> Result<usize, Errno> {
    let mut regions = StatsReader::default().regions(control, device)?.regions;
    regions.retain(is_meant);
    for region in &regions {
        match delete(control, device, region.id) {
            // Another process deleted it.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(regions.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_listed_like_the_kernel() {
        let text = include_str!("../../../tests/fixtures/uml-6.1-dm-stats/list");
        let found: Option<Vec<_>> = text.lines().map(RegionEntry::parse).collect();
        let region = |id, length, step, label: &str| RegionEntry {
            id,
            start: 0,
            length,
            step,
            label: Label::parse(label),
        };
        let expected = [
            region(0, 131_072, 8192, "-"),
            region(1, 131_072, 8192, "1764000000000"),
            region(2, 16384, 1000, "-"),
        ];
        assert_eq!(found.as_deref(), Some(&expected[..]));
        assert_eq!(expected[2].areas(), 17);
        for line in [
            "",
            "0: 0+8 0 cowbell -",
            "0: 8 8 cowbell -",
            "x: 0+8 8 cowbell -",
            "0: 0+8 8 cowbell",
        ] {
            assert_eq!(RegionEntry::parse(line), None, "{line}");
        }
    }

    #[test]
    fn writes_and_sectors_are_the_fifth_and_seventh_counter() {
        let text = include_str!("../../../tests/fixtures/uml-6.1-dm-stats/print");
        let mut counters = Vec::new();
        parse_counters(text, &mut counters).unwrap();
        assert_eq!(
            counters.iter().map(|area| area.writes).collect::<Vec<_>>(),
            [2, 3, 0, 0]
        );
        assert_eq!(
            counters.iter().map(|area| area.sectors).collect::<Vec<_>>(),
            [256, 384, 0, 0]
        );
        let error = parse_counters("0+8 1 2 3\n", &mut counters).unwrap_err();
        assert_eq!(
            error,
            "expected the counters of an area, but found \"0+8 1 2 3\""
        );
    }

    #[test]
    fn only_volumes_have_a_uuid_without_layer() {
        let ids = "0123456789abcdef".repeat(4);
        for (uuid, expected) in [
            (format!("LVM-{ids}"), true),
            (format!("LVM-{ids}-real"), false),
            (format!("CRYPT-LUKS2-{ids}"), false),
            (String::new(), false),
        ] {
            assert_eq!(
                DeviceRegions {
                    uuid,
                    regions: Vec::new()
                }
                .is_volume(),
                expected
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_answer_is_parsed_without_panic(text in "(\\PC|\n|[0-9]: 0\\+8 |8 cowbell -)*") {
            let _ = text.lines().map(RegionEntry::parse).count();
            let _ = parse_counters(&text, &mut Vec::new());
        }
    }
}
