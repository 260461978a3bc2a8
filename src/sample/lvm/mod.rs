//! LVM's own report: volume groups, PVs, and volumes including inactive ones; and LVM's policies.

mod report;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use jiff::Timestamp;

use super::diskstats::Number;
use crate::units::Fill;
pub use report::parse;

/// The parts of LVM's report that cowbell uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub groups: Vec<ReportedGroup>,
    /// PVs that belong to no group.
    pub free_pvs: Vec<Pv>,
    /// What is to be done so that LVM can archive metadata, which it does before each change. Without a full stop.
    pub archive_fault: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedGroup {
    pub name: String,
    pub uuid: String,
    /// `vg_attr`, such as `wz--n-`.
    pub attributes: String,
    pub size: Option<u64>,
    pub free: Option<u64>,
    pub extent: Option<u64>,
    pub missing_pvs: u32,
    /// The most PVs that it may have; 0 is no limit.
    pub max_pvs: usize,
    /// The most volumes that it may have; 0 is no limit. Hidden ones do not count.
    pub max_volumes: u64,
    pub volume_count: u64,
    pub tags: Vec<String>,
    /// The host that it belongs to.
    pub system_id: Option<String>,
    pub pvs: Vec<Pv>,
    /// All volumes, including hidden ones.
    pub volumes: Vec<ReportedVolume>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pv {
    pub name: String,
    pub number: Option<Number>,
    pub size: Option<u64>,
    pub free: Option<u64>,
    /// Another device with the same PV, which LVM does not use.
    pub twin: Option<String>,
    pub is_missing: bool,
    /// Whether LVM may allocate from it.
    pub is_allocatable: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedVolume {
    pub name: String,
    /// With dashes, as `lvs` prints it.
    pub uuid: String,
    /// `lv_attr`, such as `swi-I-s---`.
    pub attributes: String,
    pub size: Option<u64>,
    pub origin: Option<String>,
    pub pool: Option<String>,
    pub created_at: Option<Timestamp>,
    pub health: Option<String>,
    /// `data_percent`, to the hundredth.
    pub data: Option<Fill>,
    /// `metadata_percent`, to the hundredth.
    pub metadata: Option<Fill>,
    /// `copy_percent` to the hundredth: a mirror or RAID in sync.
    pub sync: Option<Fill>,
    pub tags: Vec<String>,
    /// What a full pool does with writes: `queue` or `error`.
    pub when_full: Option<String>,
    /// For a hidden volume, the name of the volume that it is part of.
    pub parent: Option<String>,
    /// In order of their first extent.
    pub segments: Vec<Segment>,
    /// What its metadata profile, or its group's, says in place of `lvm.conf`. It counts for thin pools alone.
    pub profile: Option<Autoextend>,
}

/// A range of a volume with one layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// LVM's segment type, such as `linear`, `striped` or `thin-pool`.
    pub kind: String,
    /// Its first extent within the volume, and the number of extents.
    pub start: u64,
    pub extents: u64,
    pub stripes: Option<u32>,
    /// In bytes.
    pub stripe_size: Option<u64>,
    /// In bytes, for snapshots, thin pools and caches.
    pub chunk_size: Option<u64>,
    /// The PVs that it lies on directly, with the number of extents on each.
    pub pv_extents: Vec<(String, u64)>,
    /// Whether dmeventd monitors it; `None` if that was not asked or does not apply.
    pub monitored: Option<bool>,
}

impl Report {
    pub fn has_free_space(&self) -> bool {
        self.groups
            .iter()
            .any(|group| group.free.is_some() || group.pvs.iter().any(|pv| pv.free.is_some()))
    }

    /// A copy without free space.
    pub fn without_free_space(&self) -> Self {
        let mut report = self.clone();
        for group in &mut report.groups {
            group.free = None;
            group.pvs.iter_mut().for_each(|pv| pv.free = None);
        }
        report
    }
}

impl ReportedVolume {
    /// Whether the kernel has no device for it; from the fifth character of `lv_attr`.
    pub fn is_inactive(&self) -> bool {
        self.attributes.as_bytes().get(4) == Some(&b'-')
    }

    /// The type of its first segment, such as `linear` or `thin-pool`.
    pub fn segment_type(&self) -> Option<&str> {
        self.segments.first().map(|segment| segment.kind.as_str())
    }

    /// The n-th character of `lv_attr`, counted from 1 as in `lvs(8)`.
    pub fn letter(&self, place: usize) -> Option<char> {
        letter(&self.attributes, place)
    }
}

impl ReportedGroup {
    /// The n-th character of `vg_attr`, counted from 1 as in `vgs(8)`.
    pub fn letter(&self, place: usize) -> Option<char> {
        letter(&self.attributes, place)
    }
}

fn letter(attributes: &str, place: usize) -> Option<char> {
    attributes.chars().nth(place.checked_sub(1)?)
}

/// Autoextend policies of snapshots and thin pools, and whether dmeventd can apply them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// Whether LVM registers volumes with dmeventd when it activates them.
    pub monitoring: bool,
    /// Whether dmeventd runs.
    pub dmeventd: bool,
    /// Whether `lvm.conf` forbids all changes of metadata.
    pub metadata_is_read_only: bool,
    pub snapshot: Autoextend,
    /// Of pools without a metadata profile.
    pub pool: Autoextend,
}

impl Policies {
    /// Of a thin pool with this metadata profile.
    pub fn of_pool(&self, profile: Option<Autoextend>) -> Autoextend {
        profile.unwrap_or(self.pool)
    }
}

/// The usage in percent that triggers autoextend (100: never), and the growth in percent of the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autoextend {
    pub threshold: u32,
    pub percent: u32,
}

impl Default for Autoextend {
    fn default() -> Self {
        Self {
            threshold: 100,
            percent: 20,
        }
    }
}

/// Parses the output of `lvmconfig`, `name=value` per line, with a line that says whether dmeventd runs.
pub fn parse_policies(text: &str) -> Result<Policies, String> {
    let values: HashMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.trim().split_once('='))
        .collect();
    let number = |key: &str| {
        let value = values
            .get(key)
            .ok_or_else(|| format!("expected a line `{key}=…`, but found {text:?}"))?;
        value
            .parse::<u32>()
            .map_err(|_| format!("expected a number in `{key}={value}`"))
    };
    let growth = |what: &str| {
        Ok::<_, String>(Autoextend {
            threshold: number(&format!("{what}_autoextend_threshold"))?,
            percent: number(&format!("{what}_autoextend_percent"))?,
        })
    };
    Ok(Policies {
        monitoring: number("monitoring")? != 0,
        metadata_is_read_only: values.get("metadata_read_only") == Some(&"1"),
        dmeventd: values.get("dmeventd") == Some(&"running"),
        snapshot: growth("snapshot")?,
        pool: growth("thin_pool")?,
    })
}

/// The host's own system ID, which may be empty; `None` if unknown.
pub fn system_id(policies: &str) -> Option<String> {
    let mut lines = policies.lines();
    let id = lines.find_map(|line| line.trim().strip_prefix("system ID:"))?;
    Some(id.trim().into())
}
