//! The archive of a job, as `cowbell verify-archive` found it. A damaged archive makes a success worthless.

use super::{Job, JobKind, Outcome};
use crate::source::{ArchiveSummary, ArchiveVerdict};

impl Job {
    /// Its damaged archive, unless the job had come to nothing anyway.
    pub fn damaged_archive(&self) -> Option<&ArchiveSummary> {
        let is_doubtful = !matches!(
            self.outcome,
            Some(Outcome::Failed | Outcome::Overflowed | Outcome::Abandoned)
        );
        self.certificate
            .as_ref()
            .filter(|archive| is_doubtful && archive.verdict == ArchiveVerdict::Damaged)
    }

    /// Takes the summary of its archive, which may change its outcome. A sound archive changes it only if the same archive
    /// was damaged before.
    pub(super) fn certify(&mut self, archive: &ArchiveSummary) -> Result<(), String> {
        if let Some(before) = &self.certificate
            && before.verdict == ArchiveVerdict::Damaged
            && before.archive != archive.archive
            && archive.verdict != ArchiveVerdict::Damaged
        {
            let (id, before) = (self.id, &before.archive);
            return Err(format!(
                "job {id} has another archive, which is damaged: {before}"
            ));
        }
        let was_damaged = self.damaged_archive().is_some();
        self.certificate = Some(archive.clone());
        match self.ended_at {
            Some(at) if was_damaged && self.kind == JobKind::Snapshot => {
                self.end(at, self.reported())
            }
            _ => self.distrust_damaged(),
        }
        Ok(())
    }

    /// Changes the outcome of an ended job whose archive is damaged.
    pub(super) fn distrust_damaged(&mut self) {
        if self.outcome.is_some() && self.damaged_archive().is_some() {
            self.outcome = Some(Outcome::Untrustworthy);
        }
    }
}
