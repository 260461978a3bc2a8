//! An error as one sentence, without repetition and without SQLite's codes.
//!
//! sqlx includes the cause in its message and again as the source, and adds SQLite's code. Every error that may come from
//! the store is therefore shown and logged through this function.

/// SQLite's primary codes of a malformed file, and of a file that is not a database.
const MALFORMED: [i32; 2] = [11, 26];

/// The sentence: what was being done, to what, and why it failed.
pub fn in_words(error: &anyhow::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    for cause in error.chain() {
        if let Some(sqlx::Error::Database(of_sqlite)) = cause.downcast_ref() {
            words.push(of_sqlite.message().to_string());
            break;
        }
        let own = own_words(cause);
        if !own.is_empty() {
            words.push(own);
        }
    }
    words.join(": ")
}

/// SQLite's primary code and its message, if it reported the error.
pub fn of_sqlite(error: &anyhow::Error) -> Option<(i32, &str)> {
    error.chain().find_map(|cause| match cause.downcast_ref()? {
        // The low byte of an extended code is the primary one.
        sqlx::Error::Database(error) => {
            Some((error.code()?.parse::<i32>().ok()? & 0xff, error.message()))
        }
        _ => None,
    })
}

/// Whether SQLite found content that is no database's, or could not read a page: it does not tell the two apart.
pub fn is_malformed(error: &anyhow::Error) -> bool {
    of_sqlite(error).is_some_and(|(code, _)| MALFORMED.contains(&code))
}

/// An error's own message, without that of its source.
fn own_words(error: &(dyn std::error::Error + 'static)) -> String {
    let said = error.to_string();
    let repeated = error
        .source()
        .map(ToString::to_string)
        .filter(|source| !source.is_empty());
    match repeated.and_then(|source| said.strip_suffix(&source).map(str::to_string)) {
        Some(own) => own.trim_end_matches([' ', ':']).to_string(),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use sqlx::{Connection, SqliteConnection};

    use super::*;

    async fn failed(statement: &'static str) -> sqlx::Error {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        for statement in [
            "PRAGMA max_page_count = 2",
            "CREATE TABLE one (id INTEGER CHECK (id > 0)) STRICT",
        ] {
            sqlx::query(statement)
                .execute(&mut connection)
                .await
                .unwrap();
        }
        sqlx::query(statement)
            .execute(&mut connection)
            .await
            .unwrap_err()
    }

    const FILL: &str = "CREATE TABLE two AS SELECT zeroblob(100000) AS weight";

    #[tokio::test]
    async fn what_sqlite_says_is_said_once_without_its_code() {
        for (statement, expected) in [
            (FILL, "cannot write: database or disk is full"),
            (
                "INSERT INTO one VALUES (0)",
                "cannot write: CHECK constraint failed: id > 0",
            ),
            ("SELECT * FROM three", "cannot write: no such table: three"),
        ] {
            let error = Err::<(), _>(failed(statement).await)
                .context("cannot write")
                .unwrap_err();
            assert_eq!(in_words(&error), expected);
        }
    }

    #[tokio::test]
    async fn errors_that_hold_their_causes_words_say_them_once() {
        let full = sqlx::migrate::MigrateError::ExecuteMigration(failed(FILL).await, 3);
        let error = Err::<(), _>(full).context("cannot use x").unwrap_err();
        assert_eq!(
            in_words(&error),
            "cannot use x: while executing migration 3: database or disk is full"
        );
        let decoded = sqlx::Error::Decode("`x` is no word for outcome".into());
        let error = Err::<(), _>(decoded).context("cannot read y").unwrap_err();
        assert_eq!(
            in_words(&error),
            "cannot read y: error occurred while decoding: `x` is no word for outcome"
        );
    }

    #[test]
    fn other_errors_are_said_as_they_are() {
        let error = std::fs::read("/nowhere/at.all")
            .context("cannot read it")
            .unwrap_err();
        assert_eq!(in_words(&error), format!("{error:#}"));
        assert_eq!(in_words(&anyhow::anyhow!("in short")), "in short");
    }
}
