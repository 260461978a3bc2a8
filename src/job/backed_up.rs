//! What a job backs up, and whether that is a good backup.

use super::{Job, JobKind, Outcome};

impl Job {
    /// The group and the volume that was backed up: the origin, or the snapshot if the origin is unknown. For a command that
    /// created no snapshot, its name.
    pub fn backed_up(&self) -> (String, String) {
        let of_command = self
            .backup_of
            .as_deref()
            .and_then(|volume| volume.split_once('/'));
        let volume = self.origin.as_deref().or(self.lv.as_deref());
        let of_snapshot = self.vg.as_deref().zip(volume);
        let (vg, lv) = of_command.or(of_snapshot).unwrap_or(("", &self.name));
        (vg.into(), lv.into())
    }

    /// Whether it decides on a backup of this host. If a command created a snapshot, the snapshot's job does: it knows more
    /// than the exit status.
    pub fn is_own_backup(&self) -> bool {
        let is_decisive = self.kind == JobKind::Snapshot || self.backup_of.is_none();
        is_decisive && !self.is_imported() && self.is_backup()
    }

    /// Whether it is a good backup of this host.
    pub fn is_good_backup(&self) -> bool {
        self.outcome == Some(Outcome::Succeeded)
            && self.damaged_archive().is_none()
            && self.is_own_backup()
    }
}
