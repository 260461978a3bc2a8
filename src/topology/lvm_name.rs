//! LVM's device-mapper names and UUIDs: `vg--a-my--data_snapshot-cow`, and `LVM-<vg><lv>-cow`.

/// The parts of a device-mapper name.
#[derive(Debug, PartialEq)]
pub struct DmName {
    pub vg: String,
    pub lv: String,
}

/// Splits a name at single dashes; double dashes are escaped dashes. Ignores the layer at the end. Only valid if the
/// UUID shows that LVM created the device.
pub fn split(name: &str) -> Option<DmName> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '-' if letters.next_if_eq(&'-').is_some() => part.push('-'),
            '-' if parts.len() < 2 => parts.push(std::mem::take(&mut part)),
            _ => part.push(letter),
        }
    }
    parts.push(part);
    let mut parts = parts.into_iter();
    Some(DmName {
        vg: parts.next()?,
        lv: parts.next()?,
    })
}

/// `LVM-`, 32 characters for the group, 32 for the volume, and an optional layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DmUuid<'a> {
    pub group: &'a str,
    pub volume: &'a str,
    /// `real`, `cow`, `tpool`…; `None` for the volume itself.
    pub layer: Option<&'a str>,
}

/// Characters of a UUID without dashes.
const UUID: usize = 32;

impl<'a> DmUuid<'a> {
    /// `None` if LVM did not create the device.
    pub fn parse(uuid: &'a str) -> Option<Self> {
        let ids = uuid
            .strip_prefix("LVM-")
            .filter(|ids| ids.is_ascii() && ids.len() >= 2 * UUID)?;
        let (ids, rest) = ids.split_at(2 * UUID);
        Some(Self {
            group: &ids[..UUID],
            volume: &ids[UUID..],
            layer: rest.strip_prefix('-').filter(|layer| !layer.is_empty()),
        })
    }
}

/// A UUID in LVM's notation: groups of 6-4-4-4-4-4-6 characters.
pub fn dashed(uuid: &str) -> String {
    let mut text = String::with_capacity(UUID + 6);
    for (index, letter) in uuid.chars().enumerate() {
        if [6, 10, 14, 18, 22, 26].contains(&index) {
            text.push('-');
        }
        text.push(letter);
    }
    text
}

/// Name parts that LVM reserves for hidden volumes.
const HIDDEN: [&str; 17] = [
    "_mlog", "_mimage", "_rimage", "_rmeta", "_tdata", "_tmeta", "_cdata", "_cmeta", "_corig",
    "_vdata", "_cvol", "_wcorig", "_pmspare", "_cpool", "_imeta", "_iorig", "_vorigin",
];

/// Whether this is a spare volume for repairing pool metadata.
pub fn is_spare(lv: &str) -> bool {
    lv.ends_with("_pmspare")
}

/// Whether LVM hides volumes with this name.
pub fn is_hidden(lv: &str) -> bool {
    lv.starts_with("pvmove") || HIDDEN.iter().any(|part| lv.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_like_lvm() {
        for (name, vg, lv) in [
            ("vg0-mysql", "vg0", "mysql"),
            ("vg--a-my--data", "vg-a", "my-data"),
            ("vg--a-my--data_snapshot-cow", "vg-a", "my-data_snapshot"),
            ("vg---lv", "vg-", "lv"),
            ("vg0-pool-tpool", "vg0", "pool"),
        ] {
            assert_eq!(
                split(name),
                Some(DmName {
                    vg: vg.into(),
                    lv: lv.into()
                }),
                "{name}"
            );
        }
        assert_eq!(split("luks"), None);
    }

    #[test]
    fn uuids_contain_volume_and_layer() {
        let volume = "YSAcT6J7pWWXJAvyngnkLAzEHyRzaUS5";
        let group = "ItZNPisw1YqMR0M1uiKz8lnAXbZGUKiO";
        let uuid = format!("LVM-{group}{volume}-cow");
        assert_eq!(
            DmUuid::parse(&uuid),
            Some(DmUuid {
                group,
                volume,
                layer: Some("cow")
            })
        );
        assert_eq!(DmUuid::parse("CRYPT-LUKS2-1"), None);
        assert_eq!(DmUuid::parse("LVM-short"), None);
        assert_eq!(dashed(volume), "YSAcT6-J7pW-WXJA-vyng-nkLA-zEHy-RzaUS5");
    }
}
