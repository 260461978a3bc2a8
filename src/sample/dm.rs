//! The device-mapper's devices and what their targets say: status grammar of snapshot, thin pool, thin and caches.
//!
//! The text is that of [`crate::source::dm`]. A word that is not known makes an error that quotes the line, and stops
//! no other. Source of the grammar: `drivers/md/dm-*.c` of Linux 6.12, back to 3.10.

use super::diskstats::Number;
use crate::units::{Fill, SECTOR, Sectors};

/// Bytes of a thin pool's and a cache's metadata block, always.
const METADATA_BLOCK: u64 = 4096;

#[derive(Clone, Debug, PartialEq)]
pub struct DmDevice {
    pub number: Number,
    pub name: String,
    /// `LVM-…`, `CRYPT-…`, `mpath-…`; empty where its maker gave none.
    pub uuid: String,
    pub is_suspended: bool,
    pub targets: Vec<Target>,
}

/// One segment of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub length: Sectors,
    pub status: Status,
}

/// What a target says of itself, by its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    Snapshot(CowArea),
    /// The origin of a snapshot that is being merged back into it.
    SnapshotMerge(CowArea),
    ThinPool(Pool),
    Thin(Thin),
    /// A cache's data and metadata, or a VDO pool's or write cache's data.
    Filled {
        kind: String,
        data: Fill,
        metadata: Option<Fill>,
    },
    /// What it says is not known to us: neither is how it is.
    NotUnderstood(String),
    /// A target without a fill, by the kernel's name for it: `linear`, `striped`, `snapshot-origin`, `raid`…
    Other(String),
}

/// The area into which a thick snapshot's changed chunks are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CowArea {
    /// The fill counts in sectors, and the snapshot's own metadata is part of it.
    Filled {
        fill: Fill,
        metadata: Sectors,
    },
    /// It was full, or an I/O error or lack of memory ended it. The snapshot is dead.
    Invalid,
    MergeFailed,
    /// The kernel does not say.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    Working { data: Fill, metadata: Fill, mode: PoolMode, needs_check: bool },
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    ReadWrite,
    ReadOnly,
    OutOfDataSpace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thin {
    Mapped(Sectors),
    Failed,
}

/// Devices that were understood, and the lines that were not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DmDevices {
    pub devices: Vec<DmDevice>,
    pub not_understood: Vec<String>,
}

/// Understands the text that the device-mapper's reader writes.
pub fn parse(text: &str) -> DmDevices {
    let mut found = DmDevices::default();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let understood = match line.strip_prefix('\t') {
            None => device(line).map(|device| found.devices.push(device)),
            Some(line) => found.devices.last_mut().and_then(|device| device.add(line)),
        };
        if understood.is_none() {
            found.not_understood.push(line.trim().to_string());
        }
    }
    found
}

fn device(line: &str) -> Option<DmDevice> {
    let mut columns = line.split('\t');
    let number = columns.next()?.parse().ok()?;
    let (name, uuid, state) = (columns.next()?, columns.next()?, columns.next()?);
    Some(DmDevice {
        number,
        name: name.to_string(),
        uuid: uuid.to_string(),
        is_suspended: state == "suspended",
        targets: Vec::new(),
    })
}

impl DmDevice {
    fn add(&mut self, line: &str) -> Option<()> {
        let (what, line) = line.split_once(' ')?;
        let mut words = line.split_ascii_whitespace();
        let (_start, length) = (words.next()?, Sectors(words.next()?.parse().ok()?));
        let (kind, words) = (words.next()?, words.collect::<Vec<_>>());
        match what {
            "status" => {
                let understood = status(kind, &words);
                let status = understood.clone().unwrap_or_else(|| Status::NotUnderstood(kind.to_string()));
                self.targets.push(Target { length, status });
                understood?;
            }
            "table" => self.learn_chunk(words.get(2)?.parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    /// A thin pool's data is counted in chunks, whose length only the table holds.
    fn learn_chunk(&mut self, chunk_sectors: u64) {
        for target in &mut self.targets {
            if let Status::ThinPool(Pool::Working { data, .. }) = &mut target.status {
                data.unit = chunk_sectors.saturating_mul(SECTOR);
            }
        }
    }

    /// The kernel's name of its first target's type, `None` for a device without a table.
    pub fn kind(&self) -> Option<&str> {
        self.targets.first().map(|target| target.status.kind())
    }
}

impl Status {
    pub fn kind(&self) -> &str {
        match self {
            Self::Snapshot(_) => "snapshot",
            Self::SnapshotMerge(_) => "snapshot-merge",
            Self::ThinPool(_) => "thin-pool",
            Self::Thin(_) => "thin",
            Self::Filled { kind, .. } | Self::NotUnderstood(kind) | Self::Other(kind) => kind,
        }
    }
}

fn status(kind: &str, words: &[&str]) -> Option<Status> {
    Some(match kind {
        "snapshot" => Status::Snapshot(cow_area(words)?),
        "snapshot-merge" => Status::SnapshotMerge(cow_area(words)?),
        "thin-pool" => Status::ThinPool(pool(words)?),
        "thin" => Status::Thin(thin(words)?),
        "cache" => cache(words)?,
        "writecache" => writecache(words)?,
        "vdo" => vdo(words)?,
        _ => Status::Other(kind.to_string()),
    })
}

/// `<allocated>/<total> <metadata>` in sectors, or a word.
fn cow_area(words: &[&str]) -> Option<CowArea> {
    match words {
        ["Invalid"] | ["Overflow"] => Some(CowArea::Invalid),
        ["Merge", "failed"] => Some(CowArea::MergeFailed),
        ["Unknown"] => Some(CowArea::Unknown),
        [fill, metadata] => {
            let metadata = Sectors(metadata.parse().ok()?);
            let mut fill = ratio(fill, SECTOR)?;
            if fill.used == metadata.0 {
                // Nothing but its own metadata: `lvs` calls that empty.
                fill.used = 0;
            }
            Some(CowArea::Filled { fill, metadata })
        }
        [fill] => Some(CowArea::Filled { fill: ratio(fill, SECTOR)?, metadata: Sectors(0) }),
        _ => None,
    }
}

/// `<transaction> <metadata used>/<total> <data used>/<total> <held root> <words…>`, or a word.
fn pool(words: &[&str]) -> Option<Pool> {
    if matches!(words, ["Fail"] | ["Error"]) || words.last() == Some(&"Error") {
        return Some(Pool::Failed);
    }
    let metadata = ratio(words.get(1)?, METADATA_BLOCK)?;
    // The length of a chunk comes with the table; without it bytes are not known, and the unit stays 0.
    let data = ratio(words.get(2)?, 0)?;
    let mode = match words {
        _ if words.contains(&"out_of_data_space") => PoolMode::OutOfDataSpace,
        _ if words.contains(&"ro") => PoolMode::ReadOnly,
        _ if words.contains(&"rw") => PoolMode::ReadWrite,
        _ => return None,
    };
    Some(Pool::Working { data, metadata, mode, needs_check: words.contains(&"needs_check") })
}

/// `<mapped sectors> <highest mapped sector>`, or a word; `-` is a device that is not there.
fn thin(words: &[&str]) -> Option<Thin> {
    match words {
        ["Fail" | "Error" | "-"] => Some(Thin::Failed),
        [mapped, _highest] => Some(Thin::Mapped(Sectors(mapped.parse().ok()?))),
        _ => None,
    }
}

/// `8 <metadata used>/<total> <block sectors> <data used>/<total> …`; fails as a whole without numbers.
fn cache(words: &[&str]) -> Option<Status> {
    let kind = "cache".to_string();
    if matches!(words, ["Fail"] | ["Error"]) {
        return Some(Status::Other(kind));
    }
    let block = words.get(2)?.parse::<u64>().ok()?.saturating_mul(SECTOR);
    let metadata = Some(ratio(words.get(1)?, METADATA_BLOCK)?);
    Some(Status::Filled { kind, data: ratio(words.get(3)?, block)?, metadata })
}

/// `<error> <blocks> <free blocks> …`
fn writecache(words: &[&str]) -> Option<Status> {
    let (total, free): (u64, u64) = (words.get(1)?.parse().ok()?, words.get(2)?.parse().ok()?);
    let data = Fill { used: total.checked_sub(free)?, total, unit: METADATA_BLOCK };
    Some(Status::Filled { kind: "writecache".into(), data, metadata: None })
}

/// `<device> <mode> <recovery> <index> <compression> <used>/<total>` with the two last as words of their own.
fn vdo(words: &[&str]) -> Option<Status> {
    let (used, total) = (words.get(5)?.parse().ok()?, words.get(6)?.parse().ok()?);
    let kind = "vdo".to_string();
    if words.get(1) != Some(&"normal") {
        return Some(Status::Other(kind));
    }
    Some(Status::Filled { kind, data: Fill { used, total, unit: METADATA_BLOCK }, metadata: None })
}

fn ratio(text: &str, unit: u64) -> Option<Fill> {
    let (used, total) = text.split_once('/')?;
    Some(Fill { used: used.parse().ok()?, total: total.parse().ok()?, unit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(status: &str) -> Option<Status> {
        let found = parse(&format!("253:0\tvg0-x\tLVM-x\tactive\n\tstatus 0 409600 {status}\n"));
        found.devices[0].targets.first().map(|target| target.status.clone())
    }

    fn percent(status: &str) -> Option<f64> {
        match only(status)? {
            Status::Snapshot(CowArea::Filled { fill, .. })
            | Status::SnapshotMerge(CowArea::Filled { fill, .. }) => Some(fill.percent()),
            Status::Filled { data, .. } => Some(data.percent()),
            _ => None,
        }
    }

    #[test]
    fn fills_are_those_that_lvs_prints() {
        for (status, lvs) in [
            ("snapshot 16/81920 16", Some(0.0)),
            ("snapshot 24/81920 16", Some(0.03)),
            ("snapshot 8248/81920 48", Some(10.07)),
            ("snapshot 30856/40960 136", Some(75.33)),
            ("snapshot 8248/81920", Some(10.07)),
            ("snapshot-merge 16/40960 16", Some(0.0)),
            ("snapshot Invalid", None),
            ("snapshot Merge failed", None),
            (
                "cache 8 27/2048 128 10/100 0 0 0 0 0 0 0 1 writethrough 2 migration_threshold 2048 smq 0 rw -",
                Some(10.0),
            ),
            ("writecache 0 1000 250 0", Some(75.0)),
        ] {
            assert_eq!(percent(status), lvs, "{status}");
        }
    }

    #[test]
    fn an_overflowed_snapshot_is_invalid() {
        for word in ["Invalid", "Overflow"] {
            assert_eq!(only(&format!("snapshot {word}")), Some(Status::Snapshot(CowArea::Invalid)));
        }
    }

    #[test]
    fn a_pool_counts_data_in_chunks_and_metadata_in_blocks() {
        let text = "253:0\tp-tpool\tLVM-x-tpool\tactive\n\
            \tstatus 0 131072 thin-pool 1 112/1024 162/1024 - rw no_discard_passdown queue_if_no_space - 256 \n\
            \ttable 0 131072 thin-pool 253:1 253:2 128 0 0 \n";
        let Status::ThinPool(Pool::Working { data, metadata, mode, needs_check }) =
            parse(text).devices[0].targets[0].status
        else {
            panic!("expected a working pool")
        };
        assert_eq!((data.percent(), data.used_bytes()), (15.82, 162 * 64 * 1024));
        assert_eq!((metadata.percent(), metadata.total_bytes()), (10.94, 4 << 20));
        assert_eq!((mode, needs_check), (PoolMode::ReadWrite, false));
    }

    #[test]
    fn a_pools_words_are_read_in_any_order_and_number() {
        let mode = |status: &str| match only(status) {
            Some(Status::ThinPool(Pool::Working { mode, needs_check, .. })) => Some((mode, needs_check)),
            _ => None,
        };
        assert_eq!(
            mode(
                "thin-pool 3 117/1024 1024/1024 - out_of_data_space no_discard_passdown error_if_no_space - 256"
            ),
            Some((PoolMode::OutOfDataSpace, false))
        );
        assert_eq!(
            mode("thin-pool 3 117/1024 4/1024 17 ro discard_passdown queue_if_no_space needs_check"),
            Some((PoolMode::ReadOnly, true))
        );
        assert_eq!(only("thin-pool Fail"), Some(Status::ThinPool(Pool::Failed)));
    }

    #[test]
    fn a_word_that_is_not_known_is_quoted_and_stops_no_other() {
        let found = parse(
            "253:0\ta\tLVM-a\tactive\n\tstatus 0 8 snapshot Melted\n253:1\tb\tLVM-b\tsuspended\n\tstatus 0 8 linear \n",
        );
        assert_eq!(found.not_understood, ["status 0 8 snapshot Melted"]);
        assert_eq!(found.devices[0].targets[0].status, Status::NotUnderstood("snapshot".into()));
        assert!(found.devices[1].is_suspended);
        assert_eq!(found.devices[1].kind(), Some("linear"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_stops_the_program(text in "(\\PC|\t|\n)*") {
            parse(&text);
        }

        #[test]
        fn no_status_stops_the_program(kind in "snapshot|thin-pool|thin|cache|vdo|writecache", rest in "[0-9/ a-zA-Z-]*") {
            only(&format!("{kind} {rest}"));
        }
    }
}
