//! Reading beside the writer, without waiting for a disk that hangs.
//!
//! A thread that waits in the kernel cannot be interrupted. Such a read continues on its own connection and ends when the
//! disk is back. Their number is limited; further reads fail with a time-out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::words::of_sqlite;
use super::{Health, in_words};

/// Maximum concurrent reads of pages and API, since the machine has other work to do.
const READERS: usize = 2;
/// Time limit of a read. Pages usually need hundredths of it (`benches/RESULTS.md`).
const PATIENCE: Duration = Duration::from_secs(2);
/// Time limit while the disk is known to hang: only SQLite's cache can answer.
const LITTLE_PATIENCE: Duration = Duration::from_millis(200);

/// SQLite's primary codes for transient errors: BUSY, LOCKED, NOMEM, READONLY, IOERR, FULL, CANTOPEN and PROTOCOL.
const PASSING: [i32; 8] = [5, 6, 7, 8, 10, 13, 14, 15];

/// Why stored data cannot be read now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("the database has not answered for {} s, since its disk hangs or has too much to do", .0.as_secs())]
    Late(Duration),
    #[error("the database cannot be read now: {0}")]
    Failed(String),
    #[error("the system has no thread for it now")]
    NoThread,
}

/// Connections that only read. Cheap to clone.
///
/// sqlx's own pool asks SQLite's thread for a sign of life before and after each read: twice the work of a short read.
#[derive(Clone)]
pub struct Readers {
    options: Arc<SqliteConnectOptions>,
    places: Arc<Semaphore>,
    /// The lock is held only to take a connection, or to put one back.
    idle: Arc<Mutex<IdleConnections>>,
    /// Start of each ongoing read, which holds it. The lock is held only to add, remove or compare.
    begun: Arc<Mutex<Vec<Weak<Instant>>>>,
    health: watch::Receiver<Health>,
}

#[derive(Default)]
struct IdleConnections {
    connections: Vec<SqliteConnection>,
    /// How often the database was lost. A connection from before is not used again.
    resets: u64,
}

impl Readers {
    /// Each connection is opened when it is first needed.
    pub fn new(options: SqliteConnectOptions, health: watch::Receiver<Health>) -> Self {
        Self {
            options: Arc::new(options),
            places: Arc::new(Semaphore::new(READERS)),
            idle: Arc::default(),
            begun: Arc::default(),
            health,
        }
    }

    /// Closes all connections after the database was lost. Later reads open the file that has its name.
    pub fn reset(&self) {
        let mut idle = lock(&self.idle);
        idle.connections.clear();
        idle.resets += 1;
    }

    /// Reads on a thread of its own, which may also decode what it read; [`ReadError`] where that takes too long.
    pub async fn read<T: Send + 'static>(
        &self,
        reading: impl AsyncFnOnce(&mut SqliteConnection) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let answer = async {
            let place = Arc::clone(&self.places).acquire_owned().await?;
            let held = Arc::new(Mutex::new(Some((place, self.begin()))));
            let taken = Arc::clone(&held);
            let readers = self.clone();
            let runtime = Handle::current();
            let read = on_a_thread(move || {
                let _held = lock(&taken).take();
                runtime.block_on(readers.read_here(reading))
            });
            let read = read.await;
            // Without a thread, tokio still has the closure.
            drop(lock(&held).take());
            read?
        };
        match timeout(self.patience(), answer).await {
            Ok(Err(error)) if is_passing(&error) => Err(ReadError::Failed(in_words(&error)).into()),
            Ok(answer) => answer,
            Err(_) => Err(ReadError::Late(self.longest().max(PATIENCE)).into()),
        }
    }

    /// A connection whose read failed is not used again.
    async fn read_here<T>(
        &self,
        reading: impl AsyncFnOnce(&mut SqliteConnection) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let resets = lock(&self.idle).resets;
        let idle = lock(&self.idle).connections.pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        let found = reading(&mut connection).await?;
        let mut idle = lock(&self.idle);
        if idle.resets == resets {
            idle.connections.push(connection);
        }
        Ok(found)
    }

    fn patience(&self) -> Duration {
        let hangs = self.longest() >= PATIENCE || self.health.borrow().hang().is_some();
        if hangs { LITTLE_PATIENCE } else { PATIENCE }
    }

    /// The start of a read that begins now.
    fn begin(&self) -> Arc<Instant> {
        let begun = Arc::new(Instant::now());
        let mut all = lock(&self.begun);
        all.retain(|begun| begun.strong_count() > 0);
        all.push(Arc::downgrade(&begun));
        begun
    }

    /// For how long the oldest read has gone on.
    fn longest(&self) -> Duration {
        let begun = lock(&self.begun).iter().filter_map(Weak::upgrade).min();
        begun.map(|begun| begun.elapsed()).unwrap_or_default()
    }
}

/// Does long work on a thread of its own.
pub async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ReadError> {
    // tokio panics where it cannot start a thread.
    let started = catch_unwind(AssertUnwindSafe(|| tokio::task::spawn_blocking(work)));
    let done = started.map_err(|_| ReadError::NoThread)?.await;
    done.map_err(|_| ReadError::NoThread)
}

/// Whether the disk or the system caused the error, so that the same read may work later.
fn is_passing(error: &anyhow::Error) -> bool {
    of_sqlite(error).is_some_and(|(code, _)| PASSING.contains(&code))
        || error.chain().any(|cause| {
            matches!(
                cause.downcast_ref(),
                Some(sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed)
            )
        })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use sqlx::Connection;

    use super::*;
    use crate::store::{TickOrigin, database, paths};

    /// More than there are places for.
    const VISITORS: usize = 10;
    /// For how long SQLite asks for a lock; no test takes as long.
    const LONG: Duration = Duration::from_secs(60);

    async fn tables(connection: &mut SqliteConnection) -> anyhow::Result<i64> {
        Ok(sqlx::query_scalar("SELECT count(*) FROM sqlite_schema")
            .fetch_one(connection)
            .await?)
    }

    fn readers(options: SqliteConnectOptions) -> Readers {
        Readers::new(options, watch::channel(Health::default()).1)
    }

    fn ongoing(readers: &Readers) -> usize {
        lock(&readers.begun)
            .iter()
            .filter(|begun| begun.strong_count() > 0)
            .count()
    }

    /// While the disk hangs, each read fails soon, and the number of abandoned reads stays within the limit.
    async fn check_that_nobody_waits(readers: &Readers) {
        for visitor in 0..VISITORS {
            let asked = Instant::now();
            let error = readers.read(tables).await.unwrap_err();
            assert!(error.is::<ReadError>(), "{error:#}");
            let most = if visitor == 0 {
                PATIENCE
            } else {
                LITTLE_PATIENCE
            };
            assert!(
                asked.elapsed() <= most + Duration::from_millis(500),
                "{:?}",
                asked.elapsed()
            );
        }
        assert_eq!(ongoing(readers), READERS);
        assert!(lock(&readers.idle).connections.is_empty());
    }

    async fn check_that_all_is_well_again(readers: &Readers) {
        while ongoing(readers) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for _ in 0..VISITORS {
            assert!(readers.read(tables).await.unwrap() > 0);
        }
    }

    #[tokio::test]
    async fn a_database_that_cannot_be_opened_is_no_fault_of_the_question() {
        let folder = tempfile::tempdir().unwrap();
        let readers = readers(paths::options(folder.path()).read_only(true));
        let error = readers.read(tables).await.unwrap_err();
        let Some(ReadError::Failed(sentence)) = error.downcast_ref() else {
            panic!("{error:#}")
        };
        assert_eq!(sentence, "disk I/O error");
    }

    /// Opening a FIFO blocks in the kernel until another process writes to it, like opening a file on a disk that hangs.
    #[tokio::test]
    async fn a_connection_that_hangs_is_not_waited_for_and_no_thread_is_added() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("real.db");
        let fifo = folder.path().join("cowbell.db");
        database::for_writing(&path, TickOrigin::ThisMachine, false)
            .await
            .unwrap()
            .connection
            .close()
            .await
            .unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let readers = readers(paths::options(&fifo).read_only(true));
        check_that_nobody_waits(&readers).await;
        let _writer = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&fifo)
            .unwrap();
        std::fs::rename(&path, &fifo).unwrap();
        check_that_all_is_well_again(&readers).await;
    }

    /// A lock keeps SQLite within a read as a disk does, and is let go of by itself.
    #[tokio::test]
    async fn a_read_that_hangs_is_not_waited_for_and_its_connection_is_not_used_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let options = paths::options(&folder.path().join("cowbell.db")).busy_timeout(LONG);
        let mut holder: SqliteConnection = options
            .clone()
            .create_if_missing(true)
            .connect()
            .await
            .unwrap();
        sqlx::query("CREATE TABLE one (id INTEGER)")
            .execute(&mut holder)
            .await
            .unwrap();
        let readers = readers(options.read_only(true));
        check_that_all_is_well_again(&readers).await;
        let transaction = holder.begin_with("BEGIN EXCLUSIVE").await.unwrap();
        check_that_nobody_waits(&readers).await;
        transaction.rollback().await.unwrap();
        check_that_all_is_well_again(&readers).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_sentence_says_for_how_long() {
        assert_eq!(
            ReadError::Late(Duration::from_secs(34)).to_string(),
            "the database has not answered for 34 s, since its disk hangs or has too much to do"
        );
    }
}
