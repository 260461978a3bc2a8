//! Reading beside the writer, without waiting for a disk that hangs.
//!
//! A thread that waits in the kernel cannot be interrupted. Such a read continues on its own connection and ends when the
//! disk is back. Their number is limited; further reads fail with a time-out.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use anyhow::Context;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Sqlite, SqlitePool};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::words::of_sqlite;
use super::{Health, in_words};

/// Maximum concurrent reads of pages and API, since the machine has other work to do.
const READERS: u32 = 2;
/// Time limit of a read. Pages usually need hundredths of it (`benches/RESULTS.md`).
const PATIENCE: Duration = Duration::from_secs(2);
/// Time limit while the disk is known to hang: only SQLite's cache can answer.
const LITTLE_PATIENCE: Duration = Duration::from_millis(200);
/// The time limit for opening a connection, too long to matter: an abandoned attempt would leave its thread behind.
const CONNECTING: Duration = Duration::from_secs(365 * 24 * 3600);
/// An idle connection is closed after this time.
const IDLE: Duration = Duration::from_secs(60);

/// A connection that only reads.
pub type Reader = PoolConnection<Sqlite>;

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
#[derive(Clone)]
pub struct Readers {
    /// Held only to clone it, or to put another in its place.
    pool: Arc<Mutex<SqlitePool>>,
    options: Arc<SqliteConnectOptions>,
    places: Arc<Semaphore>,
    /// Start of each ongoing read, which holds it. The lock is held only to add, remove or compare.
    begun: Arc<Mutex<Vec<Weak<Instant>>>>,
    health: watch::Receiver<Health>,
}

impl Readers {
    /// Each connection is opened when it is first needed.
    pub fn new(options: SqliteConnectOptions, health: watch::Receiver<Health>) -> Self {
        let pool = Arc::new(Mutex::new(pool(options.clone())));
        let places = Arc::new(Semaphore::new(READERS as usize));
        Self {
            pool,
            options: Arc::new(options),
            places,
            begun: Arc::default(),
            health,
        }
    }

    /// Closes all connections after the database was lost. Later reads open the file that has its name.
    pub fn reset(&self) {
        *lock(&self.pool) = pool((*self.options).clone());
    }

    /// Reads with a connection of its own; [`ReadError`] where that takes too long.
    pub async fn read<T, Reading>(
        &self,
        reading: impl FnOnce(Reader) -> Reading + Send + 'static,
    ) -> anyhow::Result<T>
    where
        T: Send + 'static,
        Reading: Future<Output = anyhow::Result<T>> + Send,
    {
        let answer = async {
            let place = Arc::clone(&self.places).acquire_owned().await?;
            let pool = lock(&self.pool).clone();
            let begun = self.begin();
            let read = async move {
                let _held = (place, begun);
                reading(pool.acquire().await?).await
            };
            tokio::spawn(read)
                .await
                .context("a read of the database was broken off")?
        };
        match timeout(self.patience(), answer).await {
            Ok(Err(error)) if is_passing(&error) => Err(ReadError::Failed(in_words(&error)).into()),
            Ok(answer) => answer,
            Err(_) => Err(ReadError::Late(self.longest().max(PATIENCE)).into()),
        }
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
    // tokio panics where it cannot start a thread; in a task of its own that is an error.
    let done = tokio::spawn(async { tokio::task::spawn_blocking(work).await }).await;
    done.and_then(|done| done).map_err(|_| ReadError::NoThread)
}

/// Whether the disk or the system caused the error, so that the same read may work later.
fn is_passing(error: &anyhow::Error) -> bool {
    use sqlx::Error::{Io, PoolClosed, PoolTimedOut, WorkerCrashed};
    of_sqlite(error).is_some_and(|(code, _)| PASSING.contains(&code))
        || error.chain().any(|cause| match cause.downcast_ref() {
            Some(Io(_) | PoolClosed | PoolTimedOut | WorkerCrashed) => true,
            _ => cause.is::<tokio::task::JoinError>(),
        })
}

fn pool(options: SqliteConnectOptions) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(READERS)
        .min_connections(0)
        .idle_timeout(IDLE)
        .acquire_timeout(CONNECTING)
        .connect_lazy_with(options)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use sqlx::{ConnectOptions, Connection, SqliteConnection};

    use super::*;
    use crate::store::{TickOrigin, database, paths};

    /// More than there are places for.
    const VISITORS: usize = 10;
    /// For how long SQLite asks for a lock; no test takes as long.
    const LONG: Duration = Duration::from_secs(60);

    async fn tables(mut connection: Reader) -> anyhow::Result<i64> {
        Ok(sqlx::query_scalar("SELECT count(*) FROM sqlite_schema")
            .fetch_one(&mut *connection)
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
        tokio::time::pause();
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
                asked.elapsed() <= most + Duration::from_millis(10),
                "{:?}",
                asked.elapsed()
            );
        }
        tokio::time::resume();
        let left = ongoing(readers);
        assert_eq!(
            (left, lock(&readers.pool).size()),
            (READERS as usize, READERS)
        );
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
