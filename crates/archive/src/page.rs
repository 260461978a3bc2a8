//! Pages of InnoDB: sizes, checksums, and the descriptors that say which pages are in use.
//!
//! Sources: `fil0fil.h`, `fsp0fsp.h`, `fsp0types.h` and `buf0checksum.cc` of MariaDB 10.11 and MySQL 8.0.

/// Bytes that say what a file's format is.
pub const HEAD: usize = 64;
/// The smallest page.
pub const SMALLEST: usize = 4096;
/// The largest page.
pub const LARGEST: usize = 64 * 1024;
/// Where the file's header starts in page 0, and after it the descriptors of extents in page 0 and its like.
const FSP_HEADER: usize = 38;
const DESCRIPTORS: usize = FSP_HEADER + 112;
/// The checksum of a page without one (`innodb_checksum_algorithm=none`).
const NO_CHECKSUM: u32 = 0xDEAD_BEEF;

pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

pub fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}

fn kind(page: &[u8]) -> u16 {
    u16::from_be_bytes([page[24], page[25]])
}

/// The log sequence number of the last change.
pub fn lsn(page: &[u8]) -> u64 {
    be64(page, 16)
}

/// The format of a tablespace, from the flags in its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFormat {
    /// Bytes of a page in the file.
    pub page: usize,
    /// Pages of an extent.
    pub extent: u64,
    pub checksum: PageChecksum,
    /// Whether pages are compressed one by one, and freed ones become zero (`PAGE_COMPRESSED`).
    pub punches_holes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageChecksum {
    /// MariaDB's `full_crc32`
    Full,
    /// `crc32`, `innodb` or `none`
    Header,
    /// `crc32` of pages with `ROW_FORMAT=COMPRESSED`
    Zip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    Valid,
    Broken,
    /// Its checksum is of an unknown kind.
    NotCompared,
}

impl PageFormat {
    /// `None` if the flags are not those of a tablespace's first page.
    pub fn of(head: &[u8]) -> Option<Self> {
        let is_first =
            be32(head, 4) == 0 && kind(head) == 8 && be32(head, 34) == be32(head, FSP_HEADER);
        let flags = be32(head, FSP_HEADER + 16);
        let is_full = flags & 0x10 != 0;
        let exponent = if is_full {
            flags & 0xF
        } else {
            (flags >> 6) & 0xF
        };
        let compressed = if is_full { 0 } else { (flags >> 1) & 0xF };
        let size = |exponent: u32| {
            if exponent == 0 {
                16 * 1024
            } else {
                512usize << exponent
            }
        };
        let logical = size(exponent);
        let page = if compressed == 0 {
            logical
        } else {
            size(compressed)
        };
        let punches_holes = if is_full {
            flags & 0xE0 != 0
        } else {
            flags & 0x1_0000 != 0
        };
        let checksum = match (is_full, compressed) {
            (true, _) => PageChecksum::Full,
            (false, 0) => PageChecksum::Header,
            (false, _) => PageChecksum::Zip,
        };
        let extent = ((1 << 20) / logical as u64).max(64);
        let is_known =
            is_first && (SMALLEST..=LARGEST).contains(&logical) && (1024..=LARGEST).contains(&page);
        is_known.then_some(Self {
            page,
            extent,
            checksum,
            punches_holes,
        })
    }

    /// Compares a page's number and checksum.
    pub fn state(self, page: &[u8], number: u64) -> PageState {
        let is_valid = match self.checksum {
            PageChecksum::Full => has_full_checksum(page),
            PageChecksum::Header => has_checksum(page),
            PageChecksum::Zip => has_zip_checksum(page),
        };
        if u64::from(be32(page, 4)) == number && is_valid {
            PageState::Valid
        } else if self.checksum != PageChecksum::Full && is_encrypted(page, number) {
            PageState::NotCompared
        } else {
            PageState::Broken
        }
    }

    /// Whether a page describes the extents from here on.
    pub fn has_descriptors(self, number: u64) -> bool {
        number.is_multiple_of(self.page as u64)
    }

    /// Whether the descriptors say that a page is in use.
    pub fn is_used(self, descriptors: &[u8], number: u64) -> bool {
        let index = number % self.page as u64 / self.extent;
        let length = 24 + self.extent / 4;
        let start = DESCRIPTORS + (index * length) as usize;
        let Some(entry) = descriptors.get(start..start + length as usize) else {
            return false;
        };
        // 1 is a free extent, 2 and above belong to a segment or to several.
        let belongs = (2..=5).contains(&be32(entry, 20));
        let bit = number % self.extent * 2;
        belongs && entry[24 + (bit / 8) as usize] >> (bit % 8) & 1 == 0
    }
}

/// Pages of the file, as its first page says.
pub fn file_pages(first: &[u8]) -> u64 {
    be32(first, FSP_HEADER + 8).into()
}

/// Pages from this number on have never been used.
pub fn free_limit(first: &[u8]) -> u64 {
    be32(first, FSP_HEADER + 12).into()
}

/// The pages of the doublewrite buffer, which hold copies of other pages, from page 5 of the system tablespace.
pub fn doublewrite(page: &[u8]) -> Option<[u64; 2]> {
    let place = page.len() - 200;
    let is_there = be32(page, place + 10) == 536_853_855;
    is_there.then(|| [be32(page, place + 14).into(), be32(page, place + 18).into()])
}

fn has_full_checksum(page: &[u8]) -> bool {
    // The type of a compressed page is its length, in units of 256 bytes.
    let length = if kind(page) & 0x8000 == 0 {
        page.len()
    } else {
        usize::from(kind(page) & 0x7FFF) << 8
    };
    (64..=page.len()).contains(&length)
        && crc32c::crc32c(&page[..length - 4]) == be32(page, length - 4)
}

fn has_zip_checksum(page: &[u8]) -> bool {
    let crc = || {
        crc32c::crc32c(&page[4..16]) ^ crc32c::crc32c(&page[24..26]) ^ crc32c::crc32c(&page[34..])
    };
    be32(page, 0) == NO_CHECKSUM || be32(page, 0) == crc()
}

fn has_checksum(page: &[u8]) -> bool {
    let found = be32(page, 0);
    let body = &page[38..page.len() - 8];
    let crc = || crc32c::crc32c(&page[4..26]) ^ crc32c::crc32c(body);
    found == crc() || found == NO_CHECKSUM || found == fold(&page[4..26]).wrapping_add(fold(body))
}

/// The checksum `innodb` of old versions.
fn fold(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0u32, |sum, byte| {
        let byte = u32::from(*byte);
        let mixed = ((sum ^ byte ^ 1_653_893_711) << 8).wrapping_add(sum);
        (mixed ^ 1_463_735_687).wrapping_add(byte)
    })
}

/// Encrypted or compressed pages have a checksum elsewhere. Page 0 never is.
fn is_encrypted(page: &[u8], number: u64) -> bool {
    number != 0 && (be32(page, 26) != 0 || matches!(kind(page), 14..=17 | 34_354 | 37_401))
}
