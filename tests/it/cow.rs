//! A model of the kernel's thick snapshots: what they copy, and what their devices count meanwhile.
//!
//! Source: `drivers/md/dm-snap.c` and `dm-snap-persistent.c` of Linux 6.12. A COW area begins with a chunk of header;
//! then come areas of one chunk of metadata and the chunks that it tells of, 16 bytes for each. A chunk is copied when
//! it is written to for the first time; then its metadata is written, for all copies together that were under way.

use std::collections::BTreeSet;

use crate::host::Host;
use crate::machine::Done;

/// Sectors of the origin: 16 MiB.
const ORIGIN: u64 = 32_768;
/// Sectors of a COW area: none of them overflows here.
const COW: u64 = 131_072;
const BYTES_OF_AN_EXCEPTION: u64 = 16;
const SECTOR: u64 = 512;

/// An origin `data` on `sda`, and its snapshots.
pub struct Model {
    pub host: Host,
    real: Option<String>,
    snapshots: Vec<Snapshot>,
    made: u32,
    /// Whether this kernel counts a flush before the metadata as a write of no length.
    counts_flushes: bool,
}

struct Snapshot {
    lv: String,
    /// In sectors.
    chunk: u64,
    copied: BTreeSet<u64>,
    /// The next chunk of the COW area that is free, its metadata chunk, and how many exceptions that tells of.
    next_free: u64,
    area: u64,
    committed: u64,
}

impl Model {
    /// An origin that has no snapshots yet.
    pub fn new(counts_flushes: bool) -> Self {
        let mut host = Host::new(&["sda"]);
        host.add("data", "", &["sda"], ORIGIN, "linear ");
        Self {
            host,
            real: None,
            snapshots: Vec::new(),
            made: 0,
            counts_flushes,
        }
    }

    /// Makes a snapshot with chunks of so many sectors; gives its name.
    pub fn create(&mut self, chunk: u64) -> String {
        let real = self.real.clone().unwrap_or_else(|| {
            let real = self.host.add("data", "real", &["sda"], ORIGIN, "linear ");
            let top = self.host.layer("data", "");
            (top.on, top.status) = (vec![real.clone()], "snapshot-origin ".into());
            real
        });
        self.real = Some(real.clone());
        self.made += 1;
        let lv = format!("snap{}", self.made);
        self.host.add_snapshot(&lv, &real, &["sda"], COW, "");
        // The header is looked for, then it and an empty area are written.
        read(self.cow(&lv), 8);
        write(self.cow(&lv), chunk);
        write(self.cow(&lv), chunk);
        let copied = BTreeSet::new();
        self.snapshots.push(Snapshot {
            lv: lv.clone(),
            chunk,
            copied,
            next_free: 2,
            area: 0,
            committed: 0,
        });
        lv
    }

    /// Writes to the origin; so many copies are under way at once.
    pub fn write(&mut self, first: u64, sectors: u64, at_once: usize) {
        write(&mut self.host.layer("data", "").done, sectors);
        if self.real.is_some() {
            write(self.real(), sectors);
        }
        for index in 0..self.snapshots.len() {
            let fresh: Vec<u64> = self.snapshots[index].not_copied(first, sectors);
            for together in fresh.chunks(at_once.max(1)) {
                for chunk in together {
                    self.copy(index, *chunk);
                }
                self.commit(index, together.len() as u64);
            }
        }
    }

    /// Reads from the origin.
    pub fn read(&mut self, sectors: u64) {
        read(&mut self.host.layer("data", "").done, sectors);
        if self.real.is_some() {
            read(self.real(), sectors);
        }
    }

    /// Reads through the n-th snapshot: a chunk that was copied from its COW area, any other from the origin.
    pub fn read_snapshot(&mut self, which: usize, first: u64, sectors: u64) {
        let Some((index, lv)) = self.nth(which) else {
            return;
        };
        for (chunk, part) in self.snapshots[index].parts(first, sectors) {
            read(&mut self.host.layer(&lv, "").done, part);
            if self.snapshots[index].copied.contains(&chunk) {
                read(self.cow(&lv), part);
            } else {
                read(self.real(), part);
            }
        }
    }

    /// Writes into the n-th snapshot: what is not a whole chunk is copied first.
    pub fn write_snapshot(&mut self, which: usize, first: u64, sectors: u64) {
        let Some((index, lv)) = self.nth(which) else {
            return;
        };
        for (chunk, part) in self.snapshots[index].parts(first, sectors) {
            write(&mut self.host.layer(&lv, "").done, part);
            if self.snapshots[index].copied.contains(&chunk) {
                write(self.cow(&lv), part);
                continue;
            }
            if part < self.snapshots[index].chunk {
                self.copy(index, chunk);
            } else {
                self.snapshots[index].allocate(chunk);
            }
            write(self.cow(&lv), part);
            self.commit(index, 1);
        }
    }

    fn nth(&self, which: usize) -> Option<(usize, String)> {
        let index = which.checked_rem(self.snapshots.len())?;
        Some((index, self.snapshots[index].lv.clone()))
    }

    fn copy(&mut self, index: usize, chunk: u64) {
        let (lv, sectors) = (
            self.snapshots[index].lv.clone(),
            self.snapshots[index].chunk,
        );
        self.snapshots[index].allocate(chunk);
        read(self.real(), sectors);
        write(self.cow(&lv), sectors);
    }

    /// The metadata of copies that were under way together: written when the last is done, or when an area is full.
    fn commit(&mut self, index: usize, copies: u64) {
        let (lv, chunk) = (
            self.snapshots[index].lv.clone(),
            self.snapshots[index].chunk,
        );
        for left in (0..copies).rev() {
            let snapshot = &mut self.snapshots[index];
            snapshot.committed += 1;
            let is_full = snapshot.committed == snapshot.exceptions();
            if left > 0 && !is_full {
                continue;
            }
            if is_full {
                (snapshot.committed, snapshot.area) = (0, snapshot.area + 1);
                // The next area is cleared.
                write(self.cow(&lv), chunk);
            }
            if self.counts_flushes {
                self.cow(&lv).writes += 1;
            }
            write(self.cow(&lv), chunk);
        }
    }

    fn real(&mut self) -> &mut Done {
        &mut self.host.layer("data", "real").done
    }

    fn cow(&mut self, lv: &str) -> &mut Done {
        &mut self.host.layer(lv, "cow").done
    }
}

impl Snapshot {
    /// Chunks that one chunk of metadata tells of.
    fn exceptions(&self) -> u64 {
        self.chunk * SECTOR / BYTES_OF_AN_EXCEPTION
    }

    fn not_copied(&self, first: u64, sectors: u64) -> Vec<u64> {
        let chunks = self
            .parts(first, sectors)
            .into_iter()
            .map(|(chunk, _)| chunk);
        chunks
            .filter(|chunk| !self.copied.contains(chunk))
            .collect()
    }

    /// The chunks in which these sectors lie, with how many of them in each.
    fn parts(&self, first: u64, sectors: u64) -> Vec<(u64, u64)> {
        let end = first + sectors;
        let chunks = first / self.chunk..end.div_ceil(self.chunk);
        let part = |chunk: u64| end.min((chunk + 1) * self.chunk) - first.max(chunk * self.chunk);
        chunks.map(|chunk| (chunk, part(chunk))).collect()
    }

    fn allocate(&mut self, chunk: u64) {
        self.copied.insert(chunk);
        self.next_free += 1;
        // A chunk of metadata is passed over.
        if self.next_free % (self.exceptions() + 1) == 1 {
            self.next_free += 1;
        }
    }
}

fn read(done: &mut Done, sectors: u64) {
    done.reads += 1;
    done.sectors_read += sectors;
}

fn write(done: &mut Done, sectors: u64) {
    done.writes += 1;
    done.sectors_written += sectors;
}
