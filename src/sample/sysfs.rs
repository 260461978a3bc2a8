//! Names, identities and layers of block devices, from sysfs.

use std::collections::BTreeMap;

use super::diskstats::Number;
use crate::units::Sectors;

/// The sysfs attributes of one block device. Empty attributes count as missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockDevice {
    pub name: String,
    /// The inode of its sysfs directory, which changes when the device is recreated.
    pub inode: Option<u64>,
    pub number: Option<Number>,
    pub size: Option<Sectors>,
    /// The disk that it is a partition of, and its partition number.
    pub partition: Option<(String, u32)>,
    pub dm_name: Option<String>,
    pub dm_uuid: Option<String>,
    /// A unique identity of the disk: WWID, serial number or md's UUID.
    pub serial: Option<String>,
    pub model: Option<String>,
    /// Whether the disk reports that it is rotational.
    pub rotational: Option<bool>,
    /// The active I/O scheduler, or `none`.
    pub scheduler: Option<String>,
    pub read_ahead_kib: Option<u64>,
    /// The smallest unit that it reads or writes, in bytes.
    pub block_size: Option<u64>,
    /// Whether it is one path of a multipath disk and hidden by the kernel.
    pub is_hidden: bool,
    /// The names of the devices below.
    pub slaves: Vec<String>,
}

/// Parses `name/attribute<TAB>value` lines. Unknown attributes are ignored.
///
/// sysfs writes `!` where the kernel's name has a slash: `cciss!c0d0` is `cciss/c0d0`.
pub fn parse(text: &str) -> Vec<BlockDevice> {
    let mut attributes: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for line in text.lines() {
        let Some((path, value)) = line.split_once('\t') else {
            continue;
        };
        let Some((name, attribute)) = path.split_once('/') else {
            continue;
        };
        attributes
            .entry(name)
            .or_default()
            .insert(attribute, value.trim());
    }
    attributes
        .iter()
        .map(|(name, attributes)| block_device(name, attributes))
        .collect()
}

fn block_device(name: &str, attributes: &BTreeMap<&str, &str>) -> BlockDevice {
    let value = |key: &str| {
        attributes
            .get(key)
            .copied()
            .filter(|value| !matches!(*value, "" | "(null)"))
    };
    let text = |key: &str| value(key).map(String::from);
    let serial = ["wwid", "device/wwid", "serial", "device/serial", "md/uuid"]
        .into_iter()
        .find_map(text);
    BlockDevice {
        name: kernel_name(name),
        inode: value("inode").and_then(|inode| inode.parse().ok()),
        number: value("dev").and_then(|dev| dev.parse().ok()),
        size: value("size")
            .and_then(|size| size.parse().ok())
            .map(Sectors),
        partition: value("parent")
            .map(kernel_name)
            .zip(value("partition").and_then(|number| number.parse().ok())),
        dm_name: text("dm/name"),
        dm_uuid: text("dm/uuid"),
        serial,
        model: text("device/model"),
        rotational: value("queue/rotational").map(|flag| flag != "0"),
        scheduler: value("queue/scheduler").map(chosen),
        read_ahead_kib: value("queue/read_ahead_kb").and_then(|kib| kib.parse().ok()),
        block_size: value("queue/logical_block_size").and_then(|bytes| bytes.parse().ok()),
        is_hidden: value("hidden") == Some("1"),
        slaves: value("slaves")
            .unwrap_or_default()
            .split_ascii_whitespace()
            .map(kernel_name)
            .collect(),
    }
}

fn kernel_name(in_sysfs: &str) -> String {
    in_sysfs.replace('!', "/")
}

/// The bracketed word of `mq-deadline [none]`.
fn chosen(words: &str) -> String {
    let inside = words
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(words, |(word, _)| word).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_grouped_by_device() {
        let found = parse(
            "sda1/dev\t8:1\nsda1/partition\t1\nsda1/parent\tsda\nsda1/slaves\t\n\
             sda1/queue/scheduler\tmq-deadline [none]\nsda1/queue/rotational\t1\n\
             dm-0/dev\t253:0\ndm-0/dm/uuid\tLVM-x\ndm-0/dm/name\tvg0-a\ndm-0/slaves\tsda1 sdb\nrubbish\n",
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].slaves, ["sda1", "sdb"]);
        assert_eq!(found[0].dm_uuid.as_deref(), Some("LVM-x"));
        assert_eq!(
            (found[1].scheduler.as_deref(), found[1].rotational),
            (Some("none"), Some(true))
        );
        assert_eq!(found[1].partition, Some(("sda".to_string(), 1)));
    }
    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n|\t|/)*") {
            parse(&text);
        }

        #[test]
        fn any_attributes_parse_without_panic(
            text in "((sda|sda1|dm-0|md0)/(dev|size|partition|parent|slaves|hidden|queue/(scheduler|rotational|read_ahead_kb|logical_block_size)|dm/(name|uuid))\t(\\PC{0,6}|-?[0-9:]{0,24}|\\[*[a-z]{0,4}\\]*)\n){0,8}"
        ) {
            assert!(parse(&text).len() <= 4);
        }
    }
}
