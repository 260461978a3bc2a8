//! Device-mapper devices and the status of their targets, for each target with a status of interest.
//!
//! The text comes from [`super::DeviceMapper`]. An unknown word is an error that quotes the line; other lines are not
//! affected. Source of the grammar: `drivers/md/dm-*.c` of Linux 6.12, back to 3.10.

mod stacked;
use std::collections::HashMap;

use cowbell_units::{Fill, SECTOR, Sectors};

use super::Number;

/// The size of a metadata block of a thin pool or cache, in bytes.
const METADATA_BLOCK: u64 = 4096;

#[derive(Clone, Debug, PartialEq)]
pub struct DmDevice {
    pub number: Number,
    pub name: String,
    /// `LVM-…`, `CRYPT-…`, `mpath-…`; empty if its creator set none.
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

/// A target's status, by type.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    Snapshot(CowArea),
    /// The origin of a snapshot that is being merged back into it.
    SnapshotMerge(CowArea),
    ThinPool(Pool),
    Thin(Thin),
    /// A cache's data and metadata usage, or the data usage of a VDO pool or write cache.
    Filled {
        kind: String,
        data: Option<Fill>,
        metadata: Option<Fill>,
        health: Health,
    },
    /// A mirror or RAID.
    InSync {
        kind: String,
        sync: Fill,
        health: Health,
    },
    /// A status that cowbell cannot parse; holds the target's type.
    Unparsed(String),
    /// A target without usage, by the kernel's name for it: `linear`, `striped`, `snapshot-origin`…
    Other(String),
}

/// The area that holds a thick snapshot's copied chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CowArea {
    /// In sectors, with the snapshot's own metadata.
    Filled(Fill),
    /// The snapshot is lost: its COW area overflowed, or an I/O error or lack of memory invalidated it.
    Invalid,
    MergeFailed,
    /// The kernel reports `Unknown`.
    Unknown,
}

/// A thin pool. Source: `dm-thin.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    Working {
        data: Fill,
        metadata: Fill,
        mode: PoolMode,
        needs_check: bool,
    },
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    ReadWrite,
    ReadOnly,
    OutOfDataSpace,
}

/// A thin volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thin {
    Mapped(Sectors),
    Failed,
}

/// The health of a cache, write cache, VDO pool, RAID or mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Working,
    ReadOnly,
    NeedsCheck,
    Failed,
    /// A leg is written anew from the others, and protects nothing until then.
    Rebuilding,
    /// A leg, or a mirror's log, failed.
    Degraded,
    /// The legs of a RAID differ, as its last check found.
    Mismatches,
}

/// Parsed devices and invalid lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DmDevices {
    pub devices: Vec<DmDevice>,
    pub unparsed: Vec<String>,
    /// Whether this is an update of some devices; all others are unchanged.
    pub is_partial: bool,
}

impl DmDevices {
    /// Applies a partial update to `before`, or replaces it.
    pub fn updating(self, before: Vec<DmDevice>) -> Vec<DmDevice> {
        if !self.is_partial {
            return self.devices;
        }
        let mut updated: HashMap<Number, DmDevice> = self
            .devices
            .into_iter()
            .map(|device| (device.number, device))
            .collect();
        let now = before
            .into_iter()
            .map(|device| match updated.remove(&device.number) {
                Some(updated) => updated.with_chunk_size_of(&device),
                None => device.without_status(),
            });
        now.collect()
    }
}

/// Parses the text of the devices.
pub fn parse(text: &str) -> DmDevices {
    let mut found = DmDevices {
        is_partial: text.starts_with("again\n"),
        ..DmDevices::default()
    };
    for line in text
        .lines()
        .skip(usize::from(found.is_partial))
        .filter(|line| !line.is_empty())
    {
        let parsed = match line.strip_prefix('\t') {
            None => device(line).map(|device| found.devices.push(device)),
            Some(line) => found.devices.last_mut().and_then(|device| device.add(line)),
        };
        if parsed.is_none() {
            found.unparsed.push(line.trim().to_string());
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
                let parsed = status(kind, &words);
                let status = parsed
                    .clone()
                    .unwrap_or_else(|| Status::Unparsed(kind.to_string()));
                self.targets.push(Target { length, status });
                parsed?;
            }
            "table" => self.set_chunk_size(words.get(2)?.parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    /// Sets the chunk size: a thin pool counts its data in chunks, and only the table has their size.
    fn set_chunk_size(&mut self, chunk_sectors: u64) {
        for target in &mut self.targets {
            if let Status::ThinPool(Pool::Working { data, .. }) = &mut target.status {
                data.unit = chunk_sectors.saturating_mul(SECTOR);
            }
        }
    }

    /// Clears a status that a partial update should have contained, but did not.
    fn without_status(mut self) -> Self {
        for target in self
            .targets
            .iter_mut()
            .filter(|target| !matches!(target.status, Status::Other(_)))
        {
            target.status = Status::Unparsed(target.status.kind().to_string());
            self.is_suspended = false;
        }
        self
    }

    /// Takes the chunk size from `before`: a new table would have arrived with a full list.
    fn with_chunk_size_of(mut self, before: &Self) -> Self {
        let chunk = before
            .targets
            .iter()
            .find_map(|target| match target.status {
                Status::ThinPool(Pool::Working { data, .. }) => Some(data.unit / SECTOR),
                _ => None,
            });
        if let Some(chunk) = chunk {
            self.set_chunk_size(chunk);
        }
        self
    }

    /// The properties that the topology depends on.
    pub fn identity(&self) -> impl PartialEq {
        (self.number, &self.name, &self.uuid, self.kind())
    }

    /// The kernel's name for the type of its first target; `None` without a table.
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
            Self::Filled { kind, .. }
            | Self::InSync { kind, .. }
            | Self::Unparsed(kind)
            | Self::Other(kind) => kind,
        }
    }
}

fn status(kind: &str, words: &[&str]) -> Option<Status> {
    Some(match kind {
        "snapshot" => Status::Snapshot(cow_area(words)?),
        "snapshot-merge" => Status::SnapshotMerge(cow_area(words)?),
        "thin-pool" => Status::ThinPool(pool(words)?),
        "thin" => Status::Thin(thin(words)?),
        "cache" => stacked::cache(words)?,
        "writecache" => stacked::writecache(words)?,
        "vdo" => stacked::vdo(words)?,
        "raid" => stacked::raid(words)?,
        "mirror" => stacked::mirror(words)?,
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
            let mut fill = ratio(fill, SECTOR)?;
            if fill.used == metadata.parse::<u64>().ok()? {
                // Only metadata is allocated: `lvs` reports 0 %.
                fill.used = 0;
            }
            Some(CowArea::Filled(fill))
        }
        [fill] => ratio(fill, SECTOR).map(CowArea::Filled),
        _ => None,
    }
}

/// `<transaction> <metadata used>/<total> <data used>/<total> <held root> <flags…>`, or a word.
fn pool(words: &[&str]) -> Option<Pool> {
    if matches!(words, ["Fail"] | ["Error"]) || words.last() == Some(&"Error") {
        return Some(Pool::Failed);
    }
    let metadata = ratio(words.get(1)?, METADATA_BLOCK)?;
    // The table has the chunk size. Until it is known, the unit is 0.
    let data = ratio(words.get(2)?, 0)?;
    let mode = match words {
        _ if words.contains(&"out_of_data_space") => PoolMode::OutOfDataSpace,
        _ if words.contains(&"ro") => PoolMode::ReadOnly,
        _ if words.contains(&"rw") => PoolMode::ReadWrite,
        _ => return None,
    };
    Some(Pool::Working {
        data,
        metadata,
        mode,
        needs_check: words.contains(&"needs_check"),
    })
}

/// `<mapped sectors> <highest mapped sector>`, or a word; `-` if the thin device cannot be opened.
fn thin(words: &[&str]) -> Option<Thin> {
    match words {
        ["Fail" | "Error" | "-"] => Some(Thin::Failed),
        [mapped, _highest] => Some(Thin::Mapped(Sectors(mapped.parse().ok()?))),
        _ => None,
    }
}

fn ratio(text: &str, unit: u64) -> Option<Fill> {
    let (used, total) = text.split_once('/')?;
    Some(Fill {
        used: used.parse().ok()?,
        total: total.parse().ok()?,
        unit,
    })
}

#[cfg(test)]
mod tests {
    //! Status lines of the kernel and their meaning.

    use super::*;

    fn only(status: &str) -> Option<Status> {
        let found = parse(&format!(
            "253:0\tvg0-x\tLVM-x\tactive\n\tstatus 0 409600 {status}\n"
        ));
        found.devices[0]
            .targets
            .first()
            .map(|target| target.status.clone())
    }

    fn percent(status: &str) -> Option<f64> {
        match only(status)? {
            Status::Snapshot(CowArea::Filled(fill))
            | Status::SnapshotMerge(CowArea::Filled(fill)) => Some(fill.percent()),
            Status::Filled { data, .. } => data.map(Fill::percent),
            _ => None,
        }
    }

    #[test]
    fn fills_match_lvs() {
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
            assert_eq!(
                only(&format!("snapshot {word}")),
                Some(Status::Snapshot(CowArea::Invalid))
            );
        }
    }

    #[test]
    fn a_pool_counts_data_in_chunks_and_metadata_in_blocks() {
        let text = "253:0\tp-tpool\tLVM-x-tpool\tactive\n\
        \tstatus 0 131072 thin-pool 1 112/1024 162/1024 - rw no_discard_passdown queue_if_no_space - 256 \n\
        \ttable 0 131072 thin-pool 253:1 253:2 128 0 0 \n";
        let Status::ThinPool(Pool::Working {
            data,
            metadata,
            mode,
            needs_check,
        }) = parse(text).devices[0].targets[0].status
        else {
            panic!("expected a working pool")
        };
        assert_eq!(
            (data.percent(), data.used_bytes()),
            (15.82, 162 * 64 * 1024)
        );
        assert_eq!(
            (metadata.percent(), metadata.total_bytes()),
            (10.94, 4 << 20)
        );
        assert_eq!((mode, needs_check), (PoolMode::ReadWrite, false));
    }

    #[test]
    fn pool_flags_may_come_in_any_order() {
        let mode = |status: &str| match only(status) {
            Some(Status::ThinPool(Pool::Working {
                mode, needs_check, ..
            })) => Some((mode, needs_check)),
            _ => None,
        };
        assert_eq!(
            mode(
                "thin-pool 3 117/1024 1024/1024 - out_of_data_space no_discard_passdown error_if_no_space - 256"
            ),
            Some((PoolMode::OutOfDataSpace, false))
        );
        assert_eq!(
            mode(
                "thin-pool 3 117/1024 4/1024 17 ro discard_passdown queue_if_no_space needs_check"
            ),
            Some((PoolMode::ReadOnly, true))
        );
        assert_eq!(only("thin-pool Fail"), Some(Status::ThinPool(Pool::Failed)));
    }

    #[test]
    fn an_unknown_word_is_quoted_and_affects_no_other_line() {
        let found = parse(
            "253:0\ta\tLVM-a\tactive\n\tstatus 0 8 snapshot Melted\n253:1\tb\tLVM-b\tsuspended\n\tstatus 0 8 linear \n",
        );
        assert_eq!(found.unparsed, ["status 0 8 snapshot Melted"]);
        assert_eq!(
            found.devices[0].targets[0].status,
            Status::Unparsed("snapshot".into())
        );
        assert!(found.devices[1].is_suspended);
        assert_eq!(found.devices[1].kind(), Some("linear"));
    }

    #[test]
    fn sync_of_raids_and_mirrors_matches_lvs() {
        let sync = |status: &str| match only(status) {
            Some(Status::InSync { sync, health, .. }) => Some((sync.percent(), health)),
            _ => None,
        };
        for (status, expected) in [
            (
                "raid raid1 2 AA 65536/65536 idle 0 0 -",
                Some((100.0, Health::Working)),
            ),
            (
                "raid raid1 2 AA 65536/65536 idle 256 0 -",
                Some((100.0, Health::Mismatches)),
            ),
            (
                "raid raid1 2 aa 16384/65536 resync 0 0 -",
                Some((25.0, Health::Working)),
            ),
            (
                "raid raid1 2 Aa 65536/65536 recover 0 0 -",
                Some((99.99, Health::Rebuilding)),
            ),
            (
                "raid raid1 2 AD 65536/65536 idle 0",
                Some((100.0, Health::Degraded)),
            ),
            ("raid raid5_ls 3 ADD 100/400", Some((25.0, Health::Failed))),
            ("raid raid0 2 AD 400/400", Some((100.0, Health::Failed))),
            (
                "raid raid10 4 A-AA 400/400",
                Some((100.0, Health::Degraded)),
            ),
            ("raid raid5_ls 3 AAA 100/400", Some((25.0, Health::Working))),
            (
                "mirror 2 253:1 253:2 64/128 1 AA 3 disk 253:0 A",
                Some((50.0, Health::Working)),
            ),
            (
                "mirror 2 253:1 253:2 128/128 1 AD 1 core",
                Some((100.0, Health::Degraded)),
            ),
            ("mirror 99999999999999999999 1", None),
        ] {
            assert_eq!(sync(status), expected, "{status}");
        }
    }

    #[test]
    fn devices_missing_from_a_partial_update_lose_their_status() {
        let first = parse(
            "253:0\tp-tpool\tLVM-p-tpool\tactive\n\tstatus 0 64 thin-pool 1 1/1024 100/1024 - rw - -\n\
         \ttable 0 64 thin-pool 253:1 253:2 128 0 0\n253:4\tlinear\tLVM-l\tactive\n\tstatus 0 8 linear \n",
        );
        let again = parse(
            "again\n253:0\tp-tpool\tLVM-p-tpool\tsuspended\n\tstatus 0 64 thin-pool 1 1/1024 200/1024 - rw - -\n",
        );
        assert!(again.is_partial && again.unparsed.is_empty());
        let now = again.updating(first.devices.clone());
        assert_eq!(now[1], first.devices[1]);
        let Status::ThinPool(Pool::Working { data, .. }) = now[0].targets[0].status else {
            panic!("a pool")
        };
        assert_eq!(
            (data.used_bytes(), now[0].is_suspended),
            (200 * 64 * 1024, true)
        );

        let none = parse("again\n253:0 could not be asked: no memory\n");
        assert_eq!(none.unparsed.len(), 1);
        assert_eq!(
            none.updating(first.devices)[0].targets[0].status,
            Status::Unparsed("thin-pool".into())
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\t|\n)*") {
            parse(&text);
        }

        #[test]
        fn any_status_parses_without_panic(kind in "snapshot|thin-pool|thin|cache|vdo|writecache|raid|mirror", rest in "[0-9/ a-zA-Z-]*") {
            only(&format!("{kind} {rest}"));
        }
    }
}
