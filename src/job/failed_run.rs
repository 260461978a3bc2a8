//! A run of mylvmbackup that came to its end without a snapshot, as when LVM had no room for one: a job of its own, since
//! there is no snapshot whose job it could be.

use super::phase::BackupRun;
use super::setup::Setup;
use super::{Job, JobKind, Outcome};
use crate::topology::Topology;

/// What mylvmbackup puts behind a volume's name where nobody chose the snapshot's.
const SUFFIX: &str = "_snapshot";
/// Of a run of which not even the snapshot's name was told.
const NAMELESS: &str = "mylvmbackup";

/// What people are told of such a job.
pub const SENTENCE: &str = "No snapshot was made, as far as was seen, and so nothing was backed up: mylvmbackup's own log \
                            says why. Often the volume group has no room, or a snapshot of that name is there already.";

/// A run that is over, and the name of the snapshot that it was to make, where it is known.
#[derive(Debug)]
pub struct FailedRun {
    pub heard: BackupRun,
    pub snapshot: Option<String>,
}

impl FailedRun {
    /// Its job, which is over. The volume that was to be backed up is known where there is one of the usual name.
    pub fn job(self, id: i64, machine: &Setup, topology: &Topology) -> Job {
        let Self { heard, snapshot } = self;
        let (vg, lv) = snapshot.as_deref().and_then(|name| name.split_once('/')).unzip();
        let key = format!("{NAMELESS}:{}:{}", heard.run, heard.first_at.as_millisecond());
        let mut job = Job::new(id, JobKind::Snapshot, &key, lv.unwrap_or(NAMELESS), heard.first_at);
        (job.vg, job.lv) = (vg.map(String::from), lv.map(String::from));
        let origin = lv.and_then(|lv| lv.strip_suffix(SUFFIX));
        let is_there = |vg: &str, origin: &str| topology.volume(&format!("{vg}/{origin}")).is_some();
        job.origin = vg.zip(origin).filter(|(vg, lv)| is_there(vg, lv)).map(|(_, origin)| origin.into());
        job.setup = Setup { snapshots: Some(0), ..machine.clone() };
        let ended_at = heard.last_at;
        job.heard = Some(heard);
        job.end(ended_at, Outcome::Failed);
        job
    }
}

impl Job {
    /// Whether it is a run that ended without a snapshot.
    pub fn made_no_snapshot(&self) -> bool {
        self.setup.made_no_snapshot()
    }
}

impl Setup {
    pub fn made_no_snapshot(&self) -> bool {
        self.snapshots == Some(0)
    }
}
