//! A store that a simulated machine is fed to, tick by tick, and what this costs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cowbell::commands::Note;
use cowbell::config::Store as Config;
use cowbell::interval::Interval;
use cowbell::store::{StoreReader, StoreWriter, TickOrigin, WriteOp, open};
use futures_util::FutureExt;
use jiff::Timestamp;
use tempfile::TempDir;

use crate::machine::Machine;
use crate::meter::{Process, device_written, process_time, thread_time};

/// Ticks of a commit: those of ten seconds, at one a second.
const COMMITTED: u64 = 10;

/// A database of its own, in `$FOLDER` or where temporary files are.
pub struct Store {
    pub folder: TempDir,
    pub inlet: StoreWriter,
    pub reader: StoreReader,
    /// Loads that were handed over.
    handed: u64,
}

/// What feeding cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub ticks: u64,
    /// Of all threads, less what made the ticks.
    pub storing: Duration,
    /// The part of it that the loop itself spent in `append`.
    pub appending: Duration,
    pub longest_append: Duration,
    /// Without what other processes and threads took meanwhile.
    pub longest_append_ran: Duration,
    /// Pages made dirty, and what reached the device; each in bytes.
    pub written: u64,
    pub device_written: u64,
}

impl Cost {
    pub fn per_tick_us(&self) -> f64 {
        crate::meter::us(self.storing) / self.ticks as f64
    }
}

impl Store {
    pub async fn new() -> Self {
        Self::keeping(Config::default()).await
    }

    pub async fn keeping(keep: Config) -> Self {
        let folder = match std::env::var_os("FOLDER") {
            Some(named) => TempDir::new_in(named),
            None => TempDir::new(),
        };
        let folder = folder.expect("a folder for the database");
        let (inlet, reader) = opened(folder.path(), keep).await;
        Self {
            folder,
            inlet,
            reader,
            handed: 0,
        }
    }

    /// As fast as it goes.
    pub fn feed(&mut self, machine: &mut Machine, ticks: u64) -> Cost {
        let mut cost = Cost::default();
        let (began, wrote) = (process_time(), self.wrote());
        let mut other = Duration::ZERO;
        for tick in 0..ticks {
            let making = thread_time();
            let interval = Arc::new(machine.tick());
            other += thread_time() - making;
            self.append(&interval, &mut cost);
            let waiting = thread_time();
            if tick % COMMITTED == COMMITTED - 1 {
                self.commit();
            }
            other += thread_time() - waiting;
        }
        self.commit();
        let wrote_now = self.wrote();
        (cost.written, cost.device_written) = (wrote_now.0 - wrote.0, wrote_now.1 - wrote.1);
        cost.storing = (process_time() - began).saturating_sub(other);
        cost
    }

    pub fn append(&mut self, interval: &Interval, cost: &mut Cost) {
        // What is new of devices and volumes goes before the first tick.
        self.handed += if self.handed == 0 { 2 } else { 1 };
        let (started, ran) = (Instant::now(), thread_time());
        self.inlet
            .append_tick(interval)
            .now_or_never()
            .expect("watching never waits for room");
        let ran = thread_time() - ran;
        cost.appending += ran;
        cost.longest_append_ran = cost.longest_append_ran.max(ran);
        cost.longest_append = cost.longest_append.max(started.elapsed());
        cost.ticks += 1;
    }

    /// Waits until all ticks are committed. A note is committed at once, and this one is of no job.
    pub fn commit(&mut self) {
        self.handed += 1;
        let note = Note {
            at: Timestamp::UNIX_EPOCH,
            text: String::new(),
        };
        let queued = self
            .inlet
            .append(WriteOp::Note("none".into(), note))
            .now_or_never();
        queued.expect("watching never waits for room");
        loop {
            let (health, lost) = self.inlet.health();
            assert!(
                lost == 0 && health.error.is_none(),
                "{lost} lost, {:?}",
                health.error
            );
            if health.written >= self.handed {
                return;
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// By this process, and to the device, so far.
    pub fn wrote(&self) -> (u64, u64) {
        (Process::own().written(), device_written(self.folder.path()))
    }

    /// Everything is in the database then, and nothing else is beside it.
    pub async fn close(self) -> TempDir {
        let Self {
            folder,
            inlet,
            reader,
            ..
        } = self;
        drop(reader);
        inlet.close().await;
        folder
    }
}

/// Opens the database in this folder.
pub async fn opened(folder: &Path, keep: Config) -> (StoreWriter, StoreReader) {
    open(&folder.join("cowbell.db"), TickOrigin::ThisMachine, keep)
        .await
        .expect("the store opens")
}
