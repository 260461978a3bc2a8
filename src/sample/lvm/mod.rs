//! What LVM itself says: volume groups, their PVs, their volumes, the inactive ones included, and its policies.
//!
//! Here is what is known; how it is read stands beside.

mod policies;
mod report;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

use super::diskstats::Number;
use crate::units::Fill;
pub use policies::{Policies, parse_policies};
pub use report::parse;

/// Everything that LVM knows of this host and cowbell asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub groups: Vec<Group>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub name: String,
    pub uuid: String,
    pub size: Option<u64>,
    pub free: Option<u64>,
    pub extent: Option<u64>,
    pub missing_pvs: u32,
    pub tags: Vec<String>,
    pub pvs: Vec<Pv>,
    /// All of them, those that LVM hides too.
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pv {
    pub name: String,
    pub number: Option<Number>,
    pub size: Option<u64>,
    pub free: Option<u64>,
    pub is_missing: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    pub name: String,
    /// As `lvs` writes it, with dashes.
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
    /// `copy_percent`: how much of a mirror or RAID is in step, to the hundredth.
    pub sync: Option<Fill>,
    pub tags: Vec<String>,
    /// What a pool does when it is full: `queue` or `error`.
    pub when_full: Option<String>,
    /// The bare name of the volume that this is a hidden part of.
    pub parent: Option<String>,
    /// In their order.
    pub segments: Vec<Segment>,
}

/// A part of a volume that is laid out in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// LVM's word, such as `linear`, `striped` or `thin-pool`.
    pub kind: String,
    /// Its first extent within the volume, and how many it has.
    pub start: u64,
    pub extents: u64,
    pub stripes: Option<u32>,
    /// In bytes.
    pub stripe_size: Option<u64>,
    /// In bytes: of a snapshot, thin pool or cache.
    pub chunk_size: Option<u64>,
    /// The names of the PVs that it lies on directly, each with its extents there.
    pub on: Vec<(String, u64)>,
}

impl Report {
    pub fn tells_free_space(&self) -> bool {
        self.groups.iter().any(|group| group.free.is_some() || group.pvs.iter().any(|pv| pv.free.is_some()))
    }

    /// The same, with nothing said of free space.
    pub fn without_free_space(&self) -> Self {
        let mut report = self.clone();
        for group in &mut report.groups {
            group.free = None;
            group.pvs.iter_mut().for_each(|pv| pv.free = None);
        }
        report
    }
}

impl Volume {
    /// Whether the kernel has no device for it, by the fifth letter of `lv_attr`.
    pub fn is_inactive(&self) -> bool {
        self.attributes.as_bytes().get(4) == Some(&b'-')
    }

    /// The type of its first segment, such as `linear` or `thin-pool`.
    pub fn segment_type(&self) -> Option<&str> {
        self.segments.first().map(|segment| segment.kind.as_str())
    }

    /// The n-th letter of `lv_attr`, from 1 on, as `lvs(8)` counts them.
    pub fn letter(&self, place: usize) -> Option<char> {
        self.attributes.chars().nth(place.checked_sub(1)?)
    }
}
