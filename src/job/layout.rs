//! The layout of a job's volumes, and the disks below them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::topology::{Device, Topology, Volume};
use crate::units::{Prefix, bytes_text};

/// Maximum depth of layers; a recording may contain a cycle.
const DEEPEST: usize = 8;

/// The layout of a volume's first segment, as LVM reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Layout {
    /// LVM's word, such as `linear` or `striped`.
    pub kind: String,
    pub stripes: Option<u32>,
    pub stripe_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// The kernel's name, such as `sda`.
    pub name: String,
    pub model: Option<String>,
    pub rotational: Option<bool>,
    pub scheduler: Option<String>,
    pub read_ahead_kib: Option<u64>,
}

impl Layout {
    /// For a thin volume, the layout of its pool's data. `None` without LVM's report.
    pub fn of(volume: &Volume, topology: &Topology) -> Option<Self> {
        let part = if volume.kind.is_thin() {
            let pool = topology.pool_of(volume)?;
            pool.layout
                .iter()
                .find(|part| part.lv == format!("{}_tdata", pool.lv))?
        } else {
            volume.layout.first()?
        };
        let segment = part.segments.first()?;
        Some(Self {
            kind: segment.kind.clone(),
            stripes: segment.stripes,
            stripe_bytes: segment.stripe_size,
        })
    }

    /// Such as `striped, 2 stripes of 64.0 KiB`.
    pub fn text(&self) -> String {
        let stripes =
            self.stripes
                .filter(|stripes| *stripes > 1)
                .map_or_else(String::new, |stripes| {
                    let of = self.stripe_bytes.filter(|bytes| *bytes > 0);
                    let of =
                        of.map(|bytes| format!(" of {}", bytes_text(bytes as f64, Prefix::Binary)));
                    format!(", {stripes} stripes{}", of.unwrap_or_default())
                });
        format!("{}{stripes}", self.kind)
    }
}

impl From<&Device> for Disk {
    fn from(device: &Device) -> Self {
        Self {
            name: device.name.to_string(),
            model: device.model.clone(),
            rotational: device.rotational,
            scheduler: device.scheduler.clone(),
            read_ahead_kib: device.read_ahead_kib,
        }
    }
}

/// The disks below these PVs.
pub fn disks_below<'a>(topology: &Topology, pvs: impl Iterator<Item = &'a String>) -> Vec<Disk> {
    let mut names: Vec<String> = pvs.cloned().collect();
    for _ in 0..DEEPEST {
        names = names
            .into_iter()
            .flat_map(|name| below(topology, name))
            .collect();
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
        .iter()
        .filter_map(|name| topology.device(name))
        .map(Disk::from)
        .collect()
}

/// The disks of the host's total.
pub fn all_disks(topology: &Topology) -> Vec<Disk> {
    topology
        .devices
        .iter()
        .filter(|device| device.counts)
        .map(Disk::from)
        .collect()
}

fn below(topology: &Topology, name: String) -> Vec<String> {
    match topology.device(&name) {
        Some(device) if !device.slaves.is_empty() => device.slaves.clone(),
        _ => vec![name],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(kind: &str, stripes: Option<u32>, stripe_bytes: Option<u64>) -> Layout {
        Layout {
            kind: kind.into(),
            stripes,
            stripe_bytes,
        }
    }

    #[test]
    fn a_layout_shows_several_stripes() {
        assert_eq!(layout("linear", Some(1), Some(0)).text(), "linear");
        assert_eq!(
            layout("striped", Some(2), Some(65_536)).text(),
            "striped, 2 stripes of 64.0 KiB"
        );
        assert_eq!(layout("raid1", Some(2), None).text(), "raid1, 2 stripes");
    }
}
