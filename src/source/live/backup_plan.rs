//! The snapshot that mylvmbackup makes next, from its configuration file, which only root can read. It also holds a
//! password, so `source::backup` leaves nothing else of it.
//!
//! A thread reads the file once a minute, since the disk below it may hang. Nothing waits for the thread, and no second one
//! starts meanwhile.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::{Part, PartReading, ReadResult, timed};
use crate::source::backup::next_snapshot;
use crate::source::files::Root;

/// The time between two readings.
const PERIOD: Duration = Duration::from_secs(60);

/// The readings of the file.
pub struct BackupPlanQuery {
    root: Root,
    asked_at: Option<Instant>,
    pending: Option<Receiver<PartReading>>,
    last: Option<ReadResult>,
}

impl BackupPlanQuery {
    pub fn below(root: &Root) -> Self {
        Self {
            root: root.clone(),
            asked_at: None,
            pending: None,
            last: None,
        }
    }

    /// The text if it is another one than before; starts a new reading if one is due. Never waits.
    pub fn poll(&mut self) -> Option<PartReading> {
        let answer = self.pending.as_ref().map(Receiver::try_recv);
        if !matches!(answer, Some(Err(TryRecvError::Empty))) {
            self.pending = None;
            if self.asked_at.is_none_or(|at| at.elapsed() >= PERIOD) {
                self.start();
            }
        }
        let reading = answer?
            .ok()
            .filter(|reading| self.last.as_ref() != Some(&reading.result))?;
        self.last = Some(reading.result.clone());
        Some(reading)
    }

    fn start(&mut self) {
        self.asked_at = Some(Instant::now());
        let (sender, answer) = channel();
        let root = self.root.clone();
        // The receiver is gone while the program stops.
        let reading = move || drop(sender.send(timed(Part::BackupPlan, || next_snapshot(&root))));
        let thread = std::thread::Builder::new()
            .name("backup-plan".into())
            .spawn(reading);
        self.pending = thread.is_ok().then_some(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next text, if it is new.
    fn next(query: &mut BackupPlanQuery) -> Option<ReadResult> {
        query.asked_at = None;
        let mut reading = query.poll();
        while reading.is_none() && query.pending.is_some() {
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

    #[test]
    fn a_reading_that_hangs_is_the_only_one() {
        let mut query = BackupPlanQuery::below(&Root("/".into()));
        let (sender, answer) = channel();
        query.pending = Some(answer);
        assert_eq!(
            (query.poll(), query.asked_at),
            (None, None),
            "no second thread starts"
        );
        drop(sender);
        assert_eq!(
            (query.poll(), query.pending.is_some()),
            (None, true),
            "another one starts"
        );
    }
}
