//! Judges an InnoDB file page by page: which pages are broken, and which zeros stand where data was.
//!
//! Zeros alone prove nothing. New files have them at their end, and pages that are not in use are often zero. The extents'
//! descriptors say which pages are in use. Of a working database, even such pages can be zero: new ones that are not
//! written yet, and freed ones that never were. Then the redo log has the change.

use super::page::{self, HEAD, LARGEST, PageChecksum, PageFormat, PageState, SMALLEST};
use super::{is_zero, used_length};

/// Pages in use that are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPages {
    pub pages: u64,
    pub bytes: u64,
    /// The byte in the file where the first begins.
    pub from: u64,
    /// The oldest log sequence number of descriptors that say that one of them is in use.
    pub since: u64,
}

/// What was found in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TablespaceReport {
    pub pages: u64,
    pub checked: u64,
    /// Pages with a wrong number or checksum, and the byte at which the first begins.
    pub broken: u64,
    pub first_broken: u64,
    pub zero_bytes: u64,
    /// Whether its first page is zero.
    pub has_no_head: bool,
    /// Whether its first page is not one of InnoDB's, or of an unknown format.
    pub is_unknown: bool,
    /// Bytes that are missing at its end.
    pub missing: u64,
    /// LostPages pages in the zeros at its end, and elsewhere.
    pub lost_at_end: Option<LostPages>,
    pub lost_within: Option<LostPages>,
    /// The byte from which on the file is zero, in the middle of a page whose start is there.
    pub cut_at: Option<u64>,
}

pub struct Tablespace {
    is_system: bool,
    size: u64,
    format: Option<PageFormat>,
    /// The start of the next page.
    buffer: Vec<u8>,
    next: u64,
    file_pages: u64,
    free_limit: u64,
    first_lsn: u64,
    /// The last page with descriptors, and its log sequence number.
    descriptors: Option<(Vec<u8>, u64)>,
    /// The pages of the doublewrite buffer.
    doublewrite: Option<[u64; 2]>,
    /// Where the zeros begin if the last page is broken and ends with zeros.
    cut_at: Option<u64>,
    report: TablespaceReport,
}

impl Tablespace {
    /// Of a file of so many bytes.
    pub fn new(is_system: bool, size: u64) -> Self {
        Self {
            is_system,
            size,
            format: None,
            buffer: Vec::with_capacity(LARGEST),
            next: 0,
            file_pages: 0,
            free_limit: 0,
            first_lsn: 0,
            descriptors: None,
            doublewrite: None,
            cut_at: None,
            report: TablespaceReport::default(),
        }
    }

    /// Takes the next part of the file.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.report.is_unknown {
            let wanted = self.format.map_or(SMALLEST, |format| format.page);
            let (part, rest) = bytes.split_at(bytes.len().min(wanted - self.buffer.len()));
            bytes = rest;
            self.buffer.extend_from_slice(part);
            if self.buffer.len() < wanted {
                break;
            }
            match self.format {
                None => self.begin(),
                Some(format) => {
                    let page = std::mem::take(&mut self.buffer);
                    self.page(format, &page);
                    self.buffer = page;
                    self.buffer.clear();
                }
            }
        }
    }

    pub fn finish(mut self) -> TablespaceReport {
        let pages = self
            .format
            .map_or(0, |format| self.file_pages * format.page as u64);
        if !self.is_system {
            self.report.missing = pages.saturating_sub(self.size);
        }
        self.report.pages = self.next;
        self.report.cut_at = self.cut_at;
        self.report
    }

    /// Reads the format from the start of the first page.
    fn begin(&mut self) {
        if is_zero(&self.buffer[..HEAD]) {
            self.report.has_no_head = true;
        } else {
            self.format = PageFormat::of(&self.buffer);
        }
        self.report.is_unknown = self.format.is_none();
        if self.format.is_some_and(|format| format.page <= SMALLEST) {
            // The buffer holds whole pages already.
            let bytes = std::mem::take(&mut self.buffer);
            self.push(&bytes);
        }
    }

    fn page(&mut self, format: PageFormat, page: &[u8]) {
        let number = self.next;
        self.next += 1;
        if is_zero(page) {
            self.zero_page(format, number);
            return;
        }
        let within = (self.report.lost_within, self.report.lost_at_end.take());
        self.report.lost_within = within
            .1
            .map_or(within.0, |lost| Some(joined(within.0, lost)));
        self.cut_at = None;
        if self.is_copy(format, number) {
            return;
        }
        match format.state(page, number) {
            PageState::Broken => self.broken_page(format, page, number),
            PageState::Valid => {
                self.report.checked += 1;
                self.learn(format, page, number);
            }
            PageState::NotCompared => self.learn(format, page, number),
        }
    }

    fn broken_page(&mut self, format: PageFormat, page: &[u8], number: u64) {
        let start = number * format.page as u64;
        if self.report.broken == 0 {
            self.report.first_broken = start;
        }
        self.report.broken += 1;
        self.report.checked += 1;
        if format.has_descriptors(number) {
            self.descriptors = None;
        }
        // A page that is not compressed has its checksum or its log sequence number at its end.
        let used = used_length(page);
        let is_cut =
            used + 8 <= page.len() && format.checksum != PageChecksum::Zip && !format.punches_holes;
        self.cut_at = is_cut.then_some(start + used as u64);
    }

    /// Notes which other pages are in use.
    fn learn(&mut self, format: PageFormat, page: &[u8], number: u64) {
        let lsn = page::lsn(page);
        if number == 0 {
            self.file_pages = page::file_pages(page);
            self.free_limit = page::free_limit(page);
            self.first_lsn = lsn;
        }
        if format.has_descriptors(number) {
            self.descriptors = Some((page.to_vec(), lsn));
        }
        if self.is_system && number == 5 {
            self.doublewrite = page::doublewrite(page);
        }
    }

    fn zero_page(&mut self, format: PageFormat, number: u64) {
        self.report.zero_bytes += format.page as u64;
        let has_descriptors = format.has_descriptors(number);
        if has_descriptors {
            self.descriptors = None;
        }
        if self.is_below_doublewrite(format, number) {
            return;
        }
        let used = match &self.descriptors {
            _ if number >= self.free_limit => None,
            _ if has_descriptors => Some(self.first_lsn),
            Some((page, lsn)) => format.is_used(page, number).then_some(*lsn),
            None => None,
        };
        if let Some(since) = used {
            let bytes = format.page as u64;
            let lost = LostPages {
                pages: 1,
                bytes,
                from: number * bytes,
                since,
            };
            self.report.lost_at_end = Some(joined(self.report.lost_at_end, lost));
        }
    }

    /// Whether a page belongs to the doublewrite buffer.
    fn is_copy(&self, format: PageFormat, number: u64) -> bool {
        let blocks = self.doublewrite.into_iter().flatten();
        blocks
            .into_iter()
            .any(|block| (block..block + format.extent).contains(&number))
    }

    /// The system tablespace has pages before its doublewrite buffer that are in use and never written.
    fn is_below_doublewrite(&self, format: PageFormat, number: u64) -> bool {
        self.doublewrite
            .into_iter()
            .flatten()
            .any(|block| number < block + format.extent)
    }
}

fn joined(before: Option<LostPages>, lost: LostPages) -> LostPages {
    let Some(before) = before else { return lost };
    LostPages {
        pages: before.pages + lost.pages,
        bytes: before.bytes + lost.bytes,
        from: before.from.min(lost.from),
        since: before.since.min(lost.since),
    }
}
