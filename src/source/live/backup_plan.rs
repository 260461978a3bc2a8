//! The snapshot that mylvmbackup makes next, from its configuration file, which only root can read. It also holds a
//! password, so `source::backup` leaves nothing else of it.
//!
//! A thread reads the file once a minute, since the disk below it may hang. Nothing waits for the thread, and no second one
//! starts meanwhile.

use std::time::{Duration, Instant};

use super::{Part, PartReading, ReadResult, timed};
use crate::source::backup::next_snapshot;
use crate::source::files::Root;
use crate::source::slow::SlowThread;

/// The time between two readings.
const PERIOD: Duration = Duration::from_secs(60);

/// The readings of the file.
pub struct BackupPlanQuery {
    thread: SlowThread<(), PartReading>,
    asked_at: Option<Instant>,
    last: Option<ReadResult>,
}

impl BackupPlanQuery {
    pub fn below(root: &Root) -> Self {
        let root = root.clone();
        Self {
            thread: SlowThread::new("backup-plan", move |()| {
                timed(Part::BackupPlan, || next_snapshot(&root))
            }),
            asked_at: None,
            last: None,
        }
    }

    /// The text if it is another one than before; starts a new reading if one is due. Never waits.
    pub fn poll(&mut self) -> Option<PartReading> {
        // A late one is no news: the plan may be a minute old anyway.
        let answer = self.thread.poll(Duration::MAX);
        if self.asked_at.is_none_or(|at| at.elapsed() >= PERIOD) && !self.thread.is_busy() {
            self.asked_at = Some(Instant::now());
            self.thread.ask(());
        }
        let reading = answer?.ok()?.value;
        if self.last.as_ref() == Some(&reading.result) {
            return None;
        }
        self.last = Some(reading.result.clone());
        Some(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next text, if it is new.
    fn next(query: &mut BackupPlanQuery) -> Option<ReadResult> {
        query.asked_at = None;
        let mut reading = query.poll();
        while reading.is_none() && query.thread.is_busy() {
            std::thread::sleep(Duration::from_millis(1));
            reading = query.poll();
        }
        reading.map(|reading| reading.result)
    }

    #[test]
    fn the_file_is_reported_when_it_changes_and_without_its_password() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("etc/mylvmbackup.conf");
        let mut query = BackupPlanQuery::below(&Root(folder.path().into()));
        let text = |text: &str| Some(ReadResult::Text(text.into()));
        assert_eq!(next(&mut query), text(""), "there is no file");
        std::fs::create_dir(folder.path().join("etc")).unwrap();
        std::fs::write(
            &file,
            "[mysql]\npassword=secret\n[lvm]\nvgname=vg0\nlvname=mysql\nlvsize=5G\n",
        )
        .unwrap();
        assert_eq!(
            next(&mut query),
            text("[lvm]\nvgname=vg0\nlvname=mysql\nlvsize=5G\n")
        );
        assert_eq!(next(&mut query), None, "nothing is new");
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        let Some(ReadResult::Error(error)) = next(&mut query) else {
            panic!()
        };
        assert!(
            error.starts_with("cannot read /etc/mylvmbackup.conf: Is a directory"),
            "{error}"
        );
    }
}
