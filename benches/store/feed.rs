//! A store that a simulated machine is fed to, tick by tick, and what this costs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cowbell::config::Store as Config;
use cowbell::interval::Interval;
use cowbell::store::{StoreReader, StoreWriter, TickOrigin, open};
use futures_util::FutureExt;
use tempfile::TempDir;

use crate::machine::Machine;
use crate::meter::{Process, device_written, process_time, thread_time};

/// Ticks that may wait in the queue before the loop waits for the writer: it must not lose any.
const AHEAD: u64 = 50;

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
            if tick % 25 == 0 {
                self.wait(AHEAD);
            }
            other += thread_time() - waiting;
        }
        self.wait(0);
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

    /// Until the writer is no more than so many behind.
    pub fn wait(&self, behind: u64) {
        loop {
            let (health, lost) = self.inlet.health();
            assert!(
                lost == 0 && health.error.is_none(),
                "{lost} lost, {:?}",
                health.error
            );
            if health.written + behind >= self.handed {
                return;
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    fn journal(&self) -> [PathBuf; 1] {
        [self.path().with_file_name("cowbell.db-ticks")]
    }

    /// Bytes of the journal's two files, which are written as zeros before they are used.
    pub fn journal_size(&self) -> u64 {
        self.journal()
            .iter()
            .map(|path| path.metadata().map_or(0, |metadata| metadata.len()))
            .sum()
    }

    /// By this process, and to the device, so far.
    pub fn wrote(&self) -> (u64, u64) {
        (Process::own().written(), device_written(self.folder.path()))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("cowbell.db")
    }

    /// Everything is in the database then, and nothing else is beside it but the journal's two files.
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
