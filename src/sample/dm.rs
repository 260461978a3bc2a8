//! The device-mapper's devices and what their targets say: status grammar of snapshot, thin pool, thin and caches.
//!
//! The text is that of [`crate::source::dm`]. A word that is not known makes an error that quotes the line, and stops
//! no other. Source of the grammar: `drivers/md/dm-*.c` of Linux 6.12, back to 3.10.

use std::collections::HashMap;

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
    /// A cache's data and metadata, or a VDO pool's or write cache's data, where it says so, and how it does.
    Filled {
        kind: String,
        data: Option<Fill>,
        metadata: Option<Fill>,
        health: Health,
    },
    /// A mirror or RAID: how much of it is in step, and whether a leg of it, or a mirror's log, is dead.
    InStep {
        kind: String,
        sync: Fill,
        is_degraded: bool,
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

/// Whether a cache, write cache or VDO pool works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Working,
    ReadOnly,
    NeedsCheck,
    Failed,
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
    /// Whether only some devices are told of, and all others are as they were.
    pub is_again: bool,
}

impl DmDevices {
    /// What is known now, after `before`: the devices that are told of again are replaced.
    pub fn after(self, before: Vec<DmDevice>) -> Vec<DmDevice> {
        if !self.is_again {
            return self.devices;
        }
        let mut told: HashMap<Number, DmDevice> =
            self.devices.into_iter().map(|device| (device.number, device)).collect();
        let now = before.into_iter().map(|device| match told.remove(&device.number) {
            Some(told) => told.with_chunk_of(&device),
            None => device.untold(),
        });
        now.collect()
    }
}

/// Understands the text that the device-mapper's reader writes.
pub fn parse(text: &str) -> DmDevices {
    let mut found = DmDevices { is_again: text.starts_with("again\n"), ..DmDevices::default() };
    for line in text.lines().skip(usize::from(found.is_again)).filter(|line| !line.is_empty()) {
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

    /// Nothing is known of what should have been told of again, and was not.
    fn untold(mut self) -> Self {
        for target in self.targets.iter_mut().filter(|target| !matches!(target.status, Status::Other(_))) {
            target.status = Status::NotUnderstood(target.status.kind().to_string());
            self.is_suspended = false;
        }
        self
    }

    /// A table does not change without a word, so the length of a chunk is still what it was.
    fn with_chunk_of(mut self, before: &Self) -> Self {
        let chunk = before.targets.iter().find_map(|target| match target.status {
            Status::ThinPool(Pool::Working { data, .. }) => Some(data.unit / SECTOR),
            _ => None,
        });
        if let Some(chunk) = chunk {
            self.learn_chunk(chunk);
        }
        self
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
            Self::Filled { kind, .. }
            | Self::InStep { kind, .. }
            | Self::NotUnderstood(kind)
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
        "cache" => cache(words)?,
        "writecache" => writecache(words)?,
        "vdo" => vdo(words)?,
        "raid" => raid(words)?,
        "mirror" => mirror(words)?,
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

/// `8 <metadata used>/<total> <block sectors> <data used>/<total> … <words>`, or a word.
fn cache(words: &[&str]) -> Option<Status> {
    let kind = "cache".to_string();
    if words.last().is_some_and(|word| matches!(*word, "Fail" | "Error")) {
        return Some(Status::Filled { kind, data: None, metadata: None, health: Health::Failed });
    }
    let block = words.get(2)?.parse::<u64>().ok()?.saturating_mul(SECTOR);
    let metadata = Some(ratio(words.get(1)?, METADATA_BLOCK)?);
    let health = match words {
        _ if words.contains(&"needs_check") => Health::NeedsCheck,
        _ if words.contains(&"ro") => Health::ReadOnly,
        _ => Health::Working,
    };
    Some(Status::Filled { kind, data: Some(ratio(words.get(3)?, block)?), metadata, health })
}

/// `<error> <blocks> <free blocks> …`; after an error all I/O fails.
fn writecache(words: &[&str]) -> Option<Status> {
    let (total, free): (u64, u64) = (words.get(1)?.parse().ok()?, words.get(2)?.parse().ok()?);
    let data = Some(Fill { used: total.checked_sub(free)?, total, unit: METADATA_BLOCK });
    let health = if words.first() == Some(&"0") { Health::Working } else { Health::Failed };
    Some(Status::Filled { kind: "writecache".into(), data, metadata: None, health })
}

/// `<device> <mode> <recovery> <index> <compression> <used>/<total>` with the two last as words of their own, which
/// count in the mode `normal` alone.
fn vdo(words: &[&str]) -> Option<Status> {
    let (used, total) = (words.get(5)?.parse().ok()?, words.get(6)?.parse().ok()?);
    let fill = Fill { used, total, unit: METADATA_BLOCK };
    let (data, health) = match *words.get(1)? {
        "normal" => (Some(fill), Health::Working),
        "recovering" => (None, Health::Working),
        "read-only" => (None, Health::ReadOnly),
        _ => return None,
    };
    Some(Status::Filled { kind: "vdo".into(), data, metadata: None, health })
}

/// `<type> <legs> <letters> <in step>/<total> <action> …`; a letter is `A` in step, `a` not yet, `D` dead, `-` missing.
fn raid(words: &[&str]) -> Option<Status> {
    let letters = words.get(2)?;
    let mut sync = ratio(words.get(3)?, SECTOR)?;
    let behind = letters.matches('a').count();
    let is_quiet = matches!(words.get(4).copied(), None | Some("idle" | "recover"));
    if sync.used == sync.total && (1..letters.len()).contains(&behind) && is_quiet {
        // The kernel is about to bring a leg into step; libdm does not call that all in step either.
        sync.used = sync.used.saturating_sub(1);
    }
    Some(Status::InStep { kind: "raid".into(), sync, is_degraded: letters.contains(['D', '-']) })
}

/// `<legs> <device>… <in step>/<regions> 1 <letters> 3 disk <log> <letter>`, or `1 core` at the end; a letter is `A`
/// where the leg or the log works, and else tells of the worst that happened to it.
fn mirror(words: &[&str]) -> Option<Status> {
    let legs: usize = words.first()?.parse().ok()?;
    let words = words.get(legs.checked_add(1)?..)?;
    let log = words.get(6).filter(|_| words.get(3) == Some(&"3"));
    let is_degraded =
        [Some(words.get(2)?), log].into_iter().flatten().any(|letters| letters.contains(is_dead));
    Some(Status::InStep { kind: "mirror".into(), sync: ratio(words.first()?, SECTOR)?, is_degraded })
}

fn is_dead(letter: char) -> bool {
    letter != 'A'
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
            Status::Filled { data, .. } => data.map(Fill::percent),
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

    #[test]
    fn raids_and_mirrors_are_in_step_as_lvs_says() {
        let sync = |status: &str| match only(status) {
            Some(Status::InStep { sync, is_degraded, .. }) => Some((sync.percent(), is_degraded)),
            _ => None,
        };
        for (status, expected) in [
            ("raid raid1 2 AA 65536/65536 idle 0 0 -", Some((100.0, false))),
            ("raid raid1 2 aa 16384/65536 resync 0 0 -", Some((25.0, false))),
            ("raid raid1 2 Aa 65536/65536 recover 0 0 -", Some((99.99, false))),
            ("raid raid1 2 AD 65536/65536 idle 0", Some((100.0, true))),
            ("raid raid5_ls 3 AAA 100/400", Some((25.0, false))),
            ("mirror 2 253:1 253:2 64/128 1 AA 3 disk 253:0 A", Some((50.0, false))),
            ("mirror 2 253:1 253:2 128/128 1 AD 1 core", Some((100.0, true))),
            ("mirror 99999999999999999999 1", None),
        ] {
            assert_eq!(sync(status), expected, "{status}");
        }
    }

    #[test]
    fn what_is_not_told_of_again_is_as_it_was() {
        let first = parse(
            "253:0\tp-tpool\tLVM-p-tpool\tactive\n\tstatus 0 64 thin-pool 1 1/1024 100/1024 - rw - -\n\
             \ttable 0 64 thin-pool 253:1 253:2 128 0 0\n253:4\tlinear\tLVM-l\tactive\n\tstatus 0 8 linear \n",
        );
        let again = parse(
            "again\n253:0\tp-tpool\tLVM-p-tpool\tsuspended\n\tstatus 0 64 thin-pool 1 1/1024 200/1024 - rw - -\n",
        );
        assert!(again.is_again && again.not_understood.is_empty());
        let now = again.after(first.devices.clone());
        assert_eq!(now[1], first.devices[1]);
        let Status::ThinPool(Pool::Working { data, .. }) = now[0].targets[0].status else { panic!("a pool") };
        assert_eq!((data.used_bytes(), now[0].is_suspended), (200 * 64 * 1024, true));

        let none = parse("again\n253:0 could not be asked: no memory\n");
        assert_eq!(none.not_understood.len(), 1);
        assert_eq!(none.after(first.devices)[0].targets[0].status, Status::NotUnderstood("thin-pool".into()));
    }

    proptest::proptest! {
        #[test]
        fn no_text_stops_the_program(text in "(\\PC|\t|\n)*") {
            parse(&text);
        }

        #[test]
        fn no_status_stops_the_program(kind in "snapshot|thin-pool|thin|cache|vdo|writecache|raid|mirror", rest in "[0-9/ a-zA-Z-]*") {
            only(&format!("{kind} {rest}"));
        }
    }
}
