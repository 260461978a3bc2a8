//! What the files of a database say together. Which zeros are lost data is known only when the redo log has been read, and
//! that can stand anywhere in the archive.

use super::redo;
use super::tablespace::{LostPages, TablespaceReport};
use super::tar::TarMember;
use super::{Examination, base, shown};
use cowbell_units::{count_text, size_text};

/// A snapshot can be taken while pages are being written. InnoDB repairs those from its doublewrite buffer. They are few,
/// since LVM lets the file system finish its writes first.
const MOST_TORN_PAGES: u64 = 16;
/// What InnoDB has not written yet is in the redo log, which stores rows, not pages. More zeros than this, and than this
/// many times the log, are not in it.
const MOST_UNWRITTEN: u64 = 64 << 20;
const MOST_PER_LOGGED: u64 = 4;
/// The redo log may have the content of up to this many bytes, and usually has. More of them are a doubt.
const MOST_USUAL: u64 = 4 << 20;
/// Maximum files of the redo log in memory. MySQL has 32, and MariaDB 100 at most.
const MOST_LOGS: usize = 128;
/// Maximum files in memory that wait for the redo log.
const MOST_PENDING: usize = 1_000;

/// The database's files so far.
#[derive(Default)]
pub struct InnoDb {
    pending: Vec<PendingFile>,
    /// More of them.
    unjudged: u64,
    redo: Vec<redo::RedoReport>,
    /// Whether there are more.
    has_more_redo: bool,
    /// Sentences about broken pages. How many there are decides what they mean.
    broken: Vec<String>,
    broken_pages: u64,
}

/// A file with zeros that may be lost data.
struct PendingFile {
    name: String,
    key: u64,
    /// Whether the redo log names the file if it has changes.
    is_named: bool,
    is_ibdata: bool,
    has_no_head: bool,
    lost: [Option<LostPages>; 2],
    size: u64,
}

impl InnoDb {
    pub fn take(&mut self, member: &TarMember, report: &TablespaceReport, found: &mut Examination) {
        let name = shown(&member.name);
        let figures = &mut found.figures;
        figures.innodb_files += 1;
        figures.pages += report.pages;
        figures.pages_checked += report.checked;
        figures.pages_broken += report.broken;
        figures.zero_bytes += report.zero_bytes;
        if report.is_unknown && !report.has_no_head {
            found.notes.add(format!(
                "{name} does not begin like a file of InnoDB, so its pages were not checked."
            ));
        }
        if report.missing > 0 {
            let missing = size_text(report.missing);
            found
                .findings
                .add(format!("{name} is {missing} shorter than its header says."));
        }
        if let Some(at) = report.cut_at {
            let zeros = size_text(member.size.saturating_sub(at));
            found.findings.add(format!(
                "{name} is zero from byte {at}, in the middle of a page, to its end ({zeros}): tar could not read it."
            ));
        } else if report.broken > 0 {
            self.broken_pages += report.broken;
            let pages = count_text(report.broken, "broken page", "broken pages");
            self.note_broken(format!(
                "{name} has {pages}, the first at byte {}",
                report.first_broken
            ));
        }
        let lost = [report.lost_at_end, report.lost_within];
        if report.has_no_head || lost.iter().any(Option::is_some) {
            self.wait(member, report.has_no_head, lost);
        }
    }

    pub fn take_redo(
        &mut self,
        member: &TarMember,
        report: redo::RedoReport,
        found: &mut Examination,
    ) {
        let name = shown(&member.name);
        if report.has_no_head && base(&member.name) == b"ib_logfile0" {
            found.findings.add(format!(
                "{name}, the redo log, begins with zeros: tar could not read it."
            ));
        }
        if let Some(end) = report.lost_end {
            found.findings.add(format!(
                "{name}, the redo log, is zero before its end at byte {end}: tar could not read it."
            ));
        }
        if self.redo.len() < MOST_LOGS {
            self.redo.push(report);
        } else {
            self.has_more_redo = true;
        }
    }

    /// Judges what waits.
    pub fn conclude(mut self, found: &mut Examination) {
        for file in std::mem::take(&mut self.pending) {
            self.judge(&file, found);
        }
        if self.unjudged > 0 {
            let files = count_text(self.unjudged, "more file has", "more files have");
            found
                .notes
                .add(format!("{files} zeros that were not judged."));
        }
        let is_damage = self.broken_pages > MOST_TORN_PAGES;
        for sentence in self.broken {
            if is_damage {
                found.findings.add(sentence + ".");
            } else {
                found.notes.add(sentence + ". So few may be pages that were being written, which InnoDB repairs when it starts.");
            }
        }
    }

    fn wait(&mut self, member: &TarMember, has_no_head: bool, lost: [Option<LostPages>; 2]) {
        if self.pending.len() == MOST_PENDING {
            self.unjudged += 1;
            return;
        }
        self.pending.push(PendingFile {
            name: shown(&member.name),
            key: redo::key(&member.name),
            is_named: member.name.ends_with(b".ibd"),
            is_ibdata: base(&member.name).starts_with(b"ibdata"),
            has_no_head,
            lost,
            size: member.size,
        });
    }

    fn note_broken(&mut self, sentence: String) {
        if self.broken.len() < MOST_PENDING {
            self.broken.push(sentence);
        }
    }

    fn judge(&mut self, file: &PendingFile, found: &mut Examination) {
        let name = &file.name;
        if file.has_no_head {
            let text = format!("{name} ({}) begins with zeros", size_text(file.size));
            self.judge_zeros(file, None, text, found);
        }
        let [at_end, within] = file.lost;
        if let Some(lost) = at_end {
            let (pages, from) = (count_text(lost.pages, "page", "pages"), lost.from);
            let text = format!("{name} is zero from byte {from} to its end, with {pages} in use");
            self.judge_zeros(file, Some(lost), text, found);
        }
        let Some(lost) = within else { return };
        let pages = count_text(lost.pages, "page", "pages");
        let text = format!(
            "{name} has {pages} in use that are zero, the first at byte {}",
            lost.from
        );
        if self.is_lost(file, within) {
            self.broken_pages += lost.pages;
            self.note_broken(text);
        } else if lost.bytes > MOST_USUAL {
            self.judge_zeros(file, within, text, found);
        }
    }

    /// Judges zeros at a file's beginning or end.
    fn judge_zeros(
        &self,
        file: &PendingFile,
        lost: Option<LostPages>,
        text: String,
        found: &mut Examination,
    ) {
        if self.is_lost(file, lost) {
            return found
                .findings
                .add(format!("{text}: tar could not read it."));
        }
        if lost.map_or(file.size, |lost| lost.bytes) <= MOST_USUAL {
            return found
                .notes
                .add(format!("{text}. The redo log may have the content."));
        }
        found.doubts.add(format!(
            "{text}. The redo log may have the content, or tar could not read it: restore it to be sure."
        ));
    }

    /// Whether recovery cannot bring back a file's first page, or other pages.
    fn is_lost(&self, file: &PendingFile, lost: Option<LostPages>) -> bool {
        let is_unchanged = |log: &redo::RedoReport| {
            file.is_named
                && log
                    .changed
                    .as_ref()
                    .is_some_and(|changed| !changed.contains(&file.key))
        };
        // MySQL writes new and freed pages before its checkpoint, and the first page of a file at once.
        let is_older = |log: &redo::RedoReport| {
            log.is_of_mysql
                && lost.is_none_or(|lost| {
                    log.checkpoint
                        .is_some_and(|checkpoint| lost.since <= checkpoint)
                })
        };
        let bytes = lost.map_or(file.size, |lost| lost.bytes);
        let is_more = |log: &redo::RedoReport| bytes > MOST_UNWRITTEN + MOST_PER_LOGGED * log.size;
        let is_head_of_ibdata = file.is_ibdata && lost.is_none();
        let mut logs = self
            .redo
            .iter()
            .filter(|log| log.checkpoint.is_some())
            .peekable();
        // Without a redo log in the archive nothing can bring it back.
        !self.has_more_redo
            && (self.redo.is_empty() || logs.peek().is_some())
            && logs
                .all(|log| is_head_of_ibdata || is_unchanged(log) || is_older(log) || is_more(log))
    }
}
