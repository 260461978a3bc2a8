//! Opens the database: only cowbell's own, never a newer one. A file that is refused is not changed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, bail};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqlSafeStr, SqliteConnection};

use super::paths::{
    APPLICATION_ID, beside, cannot_use, folder_of, has_content, has_folder, has_log, hindrance,
    options,
};
use super::words::in_words;
use super::{TickOrigin, damage, paths};

/// `sqlx::migrate!` would do the same, but its macro makes cargo compile SQLite and most of sqlx a second time.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let schema = Migration::new(
        1,
        "schema".into(),
        MigrationType::Simple,
        include_str!("../../migrations/0001_schema.sql").into_sql_str(),
        false,
    );
    Migrator::with_migrations(vec![schema])
});

/// Bytes of a page of a new database. A commit writes whole pages, and ten ticks of 30 devices have two kB. With pages of
/// 4 KiB, 40 % more would be written (`benches/RESULTS.md`).
pub const PAGE: u32 = 1_024;
/// The table of completed migrations.
const MIGRATIONS_TABLE: &str = "_sqlx_migrations";
/// The ending of a copy from before the schema was changed; the number of its schema follows.
const COPY: &str = ".schema-";

/// A database that is open for writing.
pub struct OpenDatabase {
    pub connection: SqliteConnection,
    /// Sentences for the user, such as on damage.
    pub notes: Vec<String>,
    /// Held as long as the connection.
    pub lock: File,
}

/// The only connection that writes. If our own database is damaged, it is moved aside and a new one is created.
///
/// `is_suspect` if SQLite reported damage while writing: then all pages are checked.
pub async fn for_writing(
    path: &Path,
    holds: TickOrigin,
    is_suspect: bool,
) -> anyhow::Result<OpenDatabase> {
    let named = || cannot_use(path);
    let mut lock = paths::lock(path)?;
    let mut notes = Vec::new();
    if has_content(path).is_ok_and(|has_content| has_content) {
        let set_aside = damage::set_foreign_log_aside(path, &lock).await;
        notes.extend(set_aside.with_context(named)?);
    }
    let mut damage = damage::of(path, &lock, is_suspect)
        .await
        .with_context(named)?;
    let connection = loop {
        if let Some(damage) = damage.take() {
            notes.push(damage::set_aside(path, &damage).await.with_context(named)?);
            lock = paths::lock(path)?;
        }
        match open_and_migrate(path, holds, &MIGRATIONS).await {
            Err(error) if error.is::<OldFormat>() => damage = Some(error.to_string()),
            opened => {
                let (connection, note) = opened.with_context(named)?;
                notes.extend(note);
                break connection;
            }
        }
    };
    Ok(OpenDatabase {
        connection,
        notes,
        lock,
    })
}

/// SQLite reads the header, but it is not cowbell's.
#[derive(Debug, thiserror::Error)]
#[error("{0}; name another file with --db")]
struct Foreign(String);

/// A database of a development version before 0.1.
#[derive(Debug, thiserror::Error)]
#[error("it has a format from before version 0.1")]
struct OldFormat;

/// With a sentence if the database was brought up to date.
async fn open_and_migrate(
    path: &Path,
    holds: TickOrigin,
    migrations: &Migrator,
) -> anyhow::Result<(SqliteConnection, Option<String>)> {
    roll_back_making(path).await?;
    let mut is_new = !has_content(path)?;
    if is_new {
        // A creation that failed half-way may have left zeros.
        File::options().write(true).open(path)?.set_len(0)?;
    } else {
        let found = refuse_foreign(path, holds).await;
        is_new =
            found.map_err(|error| damage::left_alone(path, error))? == DatabaseContent::Nothing;
    }
    let options = options(path)
        .create_if_missing(true)
        .page_size(PAGE)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .auto_vacuum(SqliteAutoVacuum::Incremental);
    let mut connection = options.connect().await?;
    if is_new {
        // Before the schema, so that a database with a schema tells what it holds. A pragma takes no parameters.
        let holds = format!("PRAGMA user_version = {}", holds as i64);
        sqlx::query(AssertSqlSafe(holds))
            .execute(&mut connection)
            .await?;
    }
    let mut note = None;
    if !is_new {
        note = keep_copy(path, &mut connection, migrations).await?;
    }
    match migrations.run(&mut connection).await {
        Err(MigrateError::VersionMismatch(_)) => return Err(OldFormat.into()),
        migrated => migrated?,
    }
    if is_new {
        // The file alone then shows that it is cowbell's. The log shows it too, so a failure does no harm.
        let _ = sqlx::query("PRAGMA wal_checkpoint")
            .execute(&mut connection)
            .await;
    }
    Ok((connection, note))
}

/// Copies a database whose schema will be changed, so that an older cowbell can go on with the copy. One copy is kept.
async fn keep_copy(
    path: &Path,
    connection: &mut SqliteConnection,
    migrations: &Migrator,
) -> anyhow::Result<Option<String>> {
    let (found, newest) = (schema_of(connection).await?, newest_of(migrations));
    let Some(found) = found.filter(|found| Some(*found) < newest) else {
        return Ok(None);
    };
    let copy = beside(path, &format!("{COPY}{found}"));
    // Of an attempt whose migration failed.
    let _ = std::fs::remove_file(&copy);
    let copied = sqlx::query("VACUUM INTO ?")
        .bind(copy.to_str().context("its name is no text")?)
        .execute(connection)
        .await;
    Ok(Some(match copied {
        Ok(_) => {
            for (schema, earlier) in kept_copies(path) {
                if schema != found {
                    let _ = std::fs::remove_file(earlier);
                }
            }
            format!(
                "the database gets a new schema; as it was, it is now {}",
                copy.display()
            )
        }
        Err(error) => {
            // A full disk, say. The migration itself changes all or nothing.
            let _ = std::fs::remove_file(&copy);
            let why = in_words(&error.into());
            format!("the database gets a new schema, and no copy of it could be kept: {why}")
        }
    }))
}

/// The copies that were kept before the schema was changed, with the number of their schema.
fn kept_copies(path: &Path) -> Vec<(i64, PathBuf)> {
    let mut copies = Vec::new();
    let start = beside(path, COPY);
    for entry in std::fs::read_dir(folder_of(path))
        .into_iter()
        .flatten()
        .flatten()
    {
        let found = folder_of(path).join(entry.file_name());
        let number = found.to_str().zip(start.to_str());
        let number = number.and_then(|(found, start)| found.strip_prefix(start)?.parse().ok());
        copies.extend(number.map(|number| (number, found)));
    }
    copies
}

/// Rolls back a first page that the program did not finish. Later pages are in the log, which needs no rollback.
async fn roll_back_making(path: &Path) -> anyhow::Result<()> {
    let is_first_page = path
        .metadata()
        .is_ok_and(|metadata| (1..=u64::from(PAGE)).contains(&metadata.len()));
    if is_first_page && beside(path, "-journal").exists() && has_content(path)? {
        let mut connection = options(path).connect().await?;
        sqlx::query("SELECT count(*) FROM sqlite_schema")
            .execute(&mut connection)
            .await?;
        connection.close().await?;
    }
    Ok(())
}

/// One connection that writes, to a database that no other program has open.
pub async fn to_rewrite(path: &Path) -> anyhow::Result<SqliteConnection> {
    let options = options(path).synchronous(SqliteSynchronous::Full);
    options
        .connect()
        .await
        .with_context(|| format!("cannot open the database {}", path.display()))
}

/// One connection that only reads, to a database of this version.
pub async fn to_look_at(path: &Path) -> anyhow::Result<SqliteConnection> {
    let named = || format!("cannot read the database {}", path.display());
    if !has_content(path).with_context(named)? {
        bail!("{}: there is none", named());
    }
    let opened = reader(options(path).read_only(true)).await;
    match opened {
        Ok(connection) => Ok(connection),
        // SQLite indexes its log, which fails on a full or read-only disk. An empty log needs no index.
        Err(error) if !has_log(path) => reader(options(path).immutable(true))
            .await
            .map_err(|_| error)
            .with_context(named),
        Err(error) => Err(error).with_context(named),
    }
}

/// A connection that can read.
async fn reader(options: SqliteConnectOptions) -> sqlx::Result<SqliteConnection> {
    let mut connection = options.connect().await?;
    sqlx::query("SELECT count(*) FROM sqlite_schema")
        .fetch_one(&mut connection)
        .await?;
    Ok(connection)
}

/// What a database of ours has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatabaseContent {
    /// No schema yet: its creation failed half-way.
    Nothing,
    Schema,
}

/// Refuses a copy that cannot take the place of a database: of another program, of a newer cowbell, or damaged.
pub async fn refuse_copy(file: &Path) -> anyhow::Result<()> {
    if !file.exists() {
        bail!("there is none");
    }
    if !has_content(file)? {
        bail!("it is empty");
    }
    if let Some(damage) = damage::check(file, true).await {
        bail!("it is damaged: {damage}");
    }
    if refuse_foreign(file, None).await? == DatabaseContent::Nothing {
        bail!("it is empty");
    }
    Ok(())
}

/// Refuses the database of another program or of a newer cowbell, and one that does not hold the expected ticks. It is
/// opened read-only.
async fn refuse_foreign(
    path: &Path,
    holds: impl Into<Option<TickOrigin>>,
) -> anyhow::Result<DatabaseContent> {
    let mut connection = options(path).read_only(true).connect().await?;
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'table'")
            .fetch_all(&mut connection)
            .await?;
    let has_table = |name: &str| tables.iter().any(|table| table == name);
    let id: i64 = sqlx::query_scalar("PRAGMA application_id")
        .fetch_one(&mut connection)
        .await?;
    if tables.iter().all(|table| table == MIGRATIONS_TABLE) && [0, APPLICATION_ID].contains(&id) {
        connection.close().await?;
        return Ok(DatabaseContent::Nothing);
    }
    if id != APPLICATION_ID {
        return Err(Foreign("it is another program's database".into()).into());
    }
    if !has_table("ten_minute") && has_table(MIGRATIONS_TABLE) {
        return Err(OldFormat.into());
    }
    let held: i64 = sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(&mut connection)
        .await?;
    if holds.into().is_some_and(|holds| held != holds as i64) {
        let holder = match held {
            0 => "this machine's own ticks",
            1 => "a recording",
            _ => {
                return Err(Foreign(format!(
                    "its user_version is {held}, which no cowbell gives"
                ))
                .into());
            }
        };
        bail!("it holds {holder}, and the two are not mixed; name another file with --db");
    }
    refuse_newer(path, schema_of(&mut connection).await?)?;
    connection.close().await?;
    Ok(DatabaseContent::Schema)
}

/// The number of the schema of a database.
pub async fn schema_of(connection: &mut SqliteConnection) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(connection)
        .await
}

/// The number of this program's schema.
pub fn newest_schema() -> Option<i64> {
    newest_of(&MIGRATIONS)
}

fn newest_of(migrations: &Migrator) -> Option<i64> {
    migrations.iter().map(|migration| migration.version).max()
}

/// Refuses a schema that only a newer cowbell knows, and names the way back.
pub fn refuse_newer(path: &Path, found: Option<i64>) -> anyhow::Result<()> {
    let ours = newest_schema();
    let Some(found) = found.filter(|found| Some(*found) > ours) else {
        return Ok(());
    };
    let mut way_back = String::from("install that one, or name another file with --db");
    let copies = kept_copies(path).into_iter();
    if let Some((_, copy)) = copies.filter(|(schema, _)| Some(*schema) <= ours).max() {
        way_back = format!(
            "install that one, or go back to the copy from before: stop cowbell, then `cowbell db restore {}`",
            copy.display()
        );
    }
    bail!("it is of a newer cowbell (its schema is {found}); {way_back}")
}

/// Whether `serve` could use the database; nothing is changed or left behind.
pub async fn try_out(path: &Path, is_named: bool) -> anyhow::Result<()> {
    let named = || cannot_use(path);
    if has_content(path).with_context(named)? {
        let refused = refuse_foreign(path, TickOrigin::ThisMachine).await;
        refused
            .map(drop)
            .map_err(|error| damage::left_alone(path, error))
            .with_context(named)?;
        File::options()
            .append(true)
            .open(path)
            .with_context(named)?;
    }
    if is_named {
        has_folder(path).with_context(named)?;
    }
    if !hindrance(path).is_empty() && folder_of(path).is_dir() {
        bail!("{}", named());
    }
    // The state directory is created when it is needed.
    let folder = path
        .ancestors()
        .skip(1)
        .find(|folder| folder.is_dir())
        .unwrap_or(Path::new("."));
    let made = tempfile::Builder::new()
        .prefix(".cowbell-")
        .tempfile_in(folder);
    made.map(drop).with_context(|| {
        format!(
            "cannot write in {}; name a database elsewhere with --db",
            folder.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a next version would have it.
    fn next_migrations() -> Migrator {
        let mut migrations: Vec<Migration> = MIGRATIONS.iter().cloned().collect();
        migrations.push(Migration::new(
            2,
            "more".into(),
            MigrationType::Simple,
            "CREATE TABLE more (one INTEGER) STRICT".into_sql_str(),
            false,
        ));
        Migrator::with_migrations(migrations)
    }

    #[tokio::test]
    async fn a_copy_is_kept_before_the_schema_changes_and_it_is_the_way_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cowbell.db");
        let holds = TickOrigin::ThisMachine;
        drop(for_writing(&path, holds, false).await.unwrap());
        let copy = beside(&path, ".schema-1");
        let open = async |migrations: &Migrator| {
            let (connection, note) = open_and_migrate(&path, holds, migrations).await?;
            connection.close().await?;
            anyhow::Ok(note)
        };
        assert_eq!(open(&MIGRATIONS).await.unwrap(), None);
        assert!(!copy.exists(), "nothing changed");
        let note = open(&next_migrations()).await.unwrap().unwrap();
        assert!(note.ends_with("cowbell.db.schema-1"), "{note}");

        // The version before refuses it, and says how to go back.
        let refused = format!("{:#}", open(&MIGRATIONS).await.unwrap_err());
        assert!(refused.contains("its schema is 2"), "{refused}");
        let way_back = format!("`cowbell db restore {}`", copy.display());
        assert!(refused.contains(&way_back), "{refused}");
        let replaced = crate::store::restore(&path, &copy).await.unwrap();
        assert!(replaced.is_some_and(|replaced| replaced.exists()));
        assert_eq!(open(&MIGRATIONS).await.unwrap(), None);
    }
}
