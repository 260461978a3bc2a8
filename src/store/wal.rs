//! Applies SQLite's log to a database in memory. Source: <https://sqlite.org/fileformat2.html>, section 4.

/// Bytes of the log's header, and of the header of each page in it.
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The last bit tells the order of bytes in checksums.
const MAGIC: u32 = 0x377f_0682;
/// Where the database says that it has a log.
const VERSIONS: std::ops::Range<usize> = 18..20;

/// The database with the committed pages of its log, as one without a log.
pub fn with_log(mut database: Vec<u8>, log: &[u8]) -> Vec<u8> {
    if let Some((pages, page_size)) = committed(log) {
        let mut length = database.len();
        for (number, page, pages_after) in pages {
            let at = (number as usize).saturating_sub(1) * page_size;
            if database.len() < at + page_size {
                database.resize(at + page_size, 0);
            }
            database[at..at + page_size].copy_from_slice(page);
            if pages_after > 0 {
                length = pages_after as usize * page_size;
            }
        }
        database.truncate(length);
    }
    if let Some(versions) = database.get_mut(VERSIONS) {
        versions.fill(1);
    }
    database
}

/// The number of a page, its content, and the number of pages of the database if a commit ends here, else 0.
type Frame<'a> = (u32, &'a [u8], u32);

/// The frames up to the last commit, and the size of a page.
fn committed(log: &[u8]) -> Option<(Vec<Frame<'_>>, usize)> {
    let header = log.get(..LOG_HEADER)?;
    let magic = number(header, 0);
    let page_size = number(header, 8) as usize;
    let salts = &header[16..24];
    let is_big_endian = magic & 1 == 1;
    let mut sums = add_up([0, 0], &header[..24], is_big_endian);
    if magic & !1 != MAGIC || page_size == 0 || sums != [number(header, 24), number(header, 28)] {
        return None;
    }
    let mut frames = Vec::new();
    let mut end = 0;
    for frame in log[LOG_HEADER..].chunks_exact(FRAME_HEADER + page_size) {
        let (head, page) = frame.split_at(FRAME_HEADER);
        sums = add_up(sums, &head[..8], is_big_endian);
        sums = add_up(sums, page, is_big_endian);
        // Later frames are of an earlier round of the log.
        if head[8..16] != *salts || sums != [number(head, 16), number(head, 20)] {
            break;
        }
        frames.push((number(head, 0), page, number(head, 4)));
        if number(head, 4) > 0 {
            end = frames.len();
        }
    }
    frames.truncate(end);
    Some((frames, page_size))
}

fn add_up([mut one, mut two]: [u32; 2], bytes: &[u8], is_big_endian: bool) -> [u32; 2] {
    for pair in bytes.chunks_exact(8) {
        let word = |at: usize| {
            let bytes = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
            if is_big_endian {
                u32::from_be_bytes(bytes)
            } else {
                u32::from_le_bytes(bytes)
            }
        };
        one = one.wrapping_add(word(0)).wrapping_add(two);
        two = two.wrapping_add(word(4)).wrapping_add(one);
    }
    [one, two]
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteOwnedBuf};
    use sqlx::{ConnectOptions, SqliteConnection};

    use super::*;

    async fn count(connection: &mut SqliteConnection) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM one")
            .fetch_one(connection)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn what_only_the_log_has_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cowbell.db");
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal);
        let mut written = options.connect().await.unwrap();
        for statement in [
            "CREATE TABLE one (id INTEGER PRIMARY KEY, text TEXT)",
            "PRAGMA wal_checkpoint",
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 50)
             INSERT INTO one SELECT n, hex(randomblob(500)) FROM n",
        ] {
            sqlx::query(statement).execute(&mut written).await.unwrap();
        }
        let expected = count(&mut written).await;
        assert_eq!(expected, 50);
        let mut log = std::fs::read(folder.path().join("cowbell.db-wal")).unwrap();
        // What was cut off by a crash is not used.
        log.extend([7; 5_000]);
        let content = with_log(std::fs::read(&path).unwrap(), &log);
        let mut memory = SqliteConnectOptions::new()
            .in_memory(true)
            .connect()
            .await
            .unwrap();
        let content = SqliteOwnedBuf::try_from(content.as_slice()).unwrap();
        memory.deserialize(None, content, true).await.unwrap();
        assert_eq!(count(&mut memory).await, expected);
    }
}
