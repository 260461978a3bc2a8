//! Reads the rows of a range of time, portion by portion: ticks, and roll-ups where ticks are deleted or not wanted.

use sqlx::{AssertSqlSafe, SqliteConnection};

use super::address::{Level, Position, TickWindow};
use super::stored::{numbers_between, rolled_to};
use super::words::is_malformed;

/// Rows that are read at once, which is about half a megabyte with 30 devices.
const PORTION: i64 = 2_000;

/// A row as it is stored.
#[derive(Debug)]
pub struct StoredRow {
    pub position: Position,
    pub record: Vec<u8>,
    /// Whether finer rows cover it. It is needed only to decode the next one.
    pub is_covered: bool,
}

/// Rows of one level, read portion by portion.
#[derive(Debug)]
pub struct RowQuery {
    sql: String,
    /// Numbers from-to, inclusive, in the order of writing.
    ranges: Vec<(i64, i64)>,
    /// Whether windows on damaged pages are left out; otherwise such a page is an error.
    leaves_out: bool,
    /// A page is damaged, so windows are read one by one.
    is_careful: bool,
    /// The last times of the windows that were left out.
    pub left_out_ms: Vec<i64>,
}

/// All rows of a range of time: those of the wanted level, and coarser ones where finer ones are deleted.
///
/// Roll-ups come first, since where both are needed they are older.
#[derive(Debug)]
pub struct RangeScan {
    wanted: Level,
    times: (i64, i64),
    /// The first tick that memory has. Ticks from there on are not read.
    in_memory: Option<Position>,
    /// The last tick that is part of roll-ups.
    pub rolled: Option<Position>,
    /// The levels that are left to read, the next one last.
    levels: Vec<Level>,
    query: Option<RowQuery>,
    leaves_out: bool,
    /// The last times of the windows that were left out, since a page of the database is damaged.
    pub left_out_ms: Vec<i64>,
}

impl RangeScan {
    pub async fn new(
        connection: &mut SqliteConnection,
        wanted: Level,
        times: (i64, i64),
        in_memory: Option<Position>,
    ) -> anyhow::Result<Self> {
        let levels = Level::ALL.into_iter();
        Ok(Self {
            wanted,
            times,
            in_memory,
            rolled: rolled_to(connection).await?,
            levels: levels
                .filter(|level| *level == Level::Ticks || *level >= wanted)
                .collect(),
            query: None,
            leaves_out: false,
            left_out_ms: Vec::new(),
        })
    }

    /// Leaves out windows on damaged pages, which would otherwise be an error.
    pub fn leaving_out_damage(mut self) -> Self {
        self.leaves_out = true;
        self
    }

    /// The next rows and their level; `None` at the end. The caller needs a new decoder for each level.
    pub async fn next(
        &mut self,
        connection: &mut SqliteConnection,
    ) -> anyhow::Result<Option<(Level, Vec<StoredRow>)>> {
        while let Some(level) = self.levels.last().copied() {
            let query = match &mut self.query {
                Some(query) => query,
                None => {
                    let query = self.query_of(connection, level).await?;
                    self.query.insert(query)
                }
            };
            let rows = query.next(connection).await?;
            if !rows.is_empty() {
                return Ok(Some((level, rows)));
            }
            self.left_out_ms.append(&mut query.left_out_ms);
            self.query = None;
            self.levels.pop();
        }
        Ok(None)
    }

    async fn query_of(
        &self,
        connection: &mut SqliteConnection,
        level: Level,
    ) -> anyhow::Result<RowQuery> {
        let (after, before) = match level {
            // Ticks without a roll-up.
            Level::Ticks if self.wanted > Level::Ticks => {
                (self.rolled.map(Position::window), self.in_memory)
            }
            // Where ticks are wanted, those in memory replace their roll-ups.
            _ if self.wanted == Level::Ticks => (None, self.in_memory),
            _ => (None, None),
        };
        let levels = (self.wanted, level);
        let query = RowQuery::new(connection, levels, self.times, after, before).await?;
        Ok(RowQuery {
            leaves_out: self.leaves_out,
            ..query
        })
    }
}

impl RowQuery {
    /// The rows of a level that end in this range of time, after one window and before a position. Rows of a coarser level
    /// than the `wanted` one fill in where finer ones are deleted.
    ///
    /// The first rows may end before the range: they are of the window's beginning, since later ones depend on them.
    async fn new(
        connection: &mut SqliteConnection,
        (wanted, level): (Level, Level),
        times: (i64, i64),
        after: Option<TickWindow>,
        before: Option<Position>,
    ) -> anyhow::Result<Self> {
        let first = after.map_or(0, |window| window.numbers().1 + 1);
        let end = before.map_or(i64::MAX, |before| before.number() - 1);
        let mut ranges = Vec::new();
        for (from, to) in numbers_between(connection, level, times).await? {
            let window = Position::numbered(from.max(first)).window();
            let begin = window.numbers().0;
            let last = to.min(end);
            if begin <= last {
                ranges.push((begin, last));
            }
        }
        let table = level.table();
        let mut is_covered = String::from("0");
        for finer in Level::ALL {
            if (wanted..level).contains(&finer) {
                let finer = finer.table();
                is_covered +=
                    &format!(" OR EXISTS (SELECT 1 FROM {finer} WHERE {finer}.id = {table}.id)");
            }
        }
        let sql = format!(
            "SELECT id, record, {is_covered} FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
        );
        Ok(Self {
            sql,
            ranges,
            leaves_out: false,
            is_careful: false,
            left_out_ms: Vec::new(),
        })
    }

    /// All rows of a level, but for windows on damaged pages.
    pub async fn all(connection: &mut SqliteConnection, level: Level) -> anyhow::Result<Self> {
        let all = (0, Position::LATEST_MS);
        let query = Self::new(connection, (level, level), all, None, None).await?;
        Ok(Self {
            leaves_out: true,
            ..query
        })
    }

    /// The next rows; empty at the end.
    pub async fn next(
        &mut self,
        connection: &mut SqliteConnection,
    ) -> anyhow::Result<Vec<StoredRow>> {
        while let Some((first, last)) = self.ranges.first().copied() {
            let window_end = Position::numbered(first).window().numbers().1;
            let end = if self.is_careful {
                last.min(window_end)
            } else {
                last
            };
            let rows = match self.portion(connection, first, end).await {
                Err(error) if self.leaves_out && is_malformed(&error) => {
                    if self.is_careful {
                        self.left_out_ms.push(Position::numbered(end).at_ms);
                        self.go_on_after(end);
                    }
                    self.is_careful = true;
                    continue;
                }
                rows => rows?,
            };
            match rows.last() {
                Some(row) if rows.len() == PORTION as usize => {
                    self.go_on_after(row.position.number());
                }
                _ => self.go_on_after(end),
            }
            if !rows.is_empty() {
                return Ok(rows);
            }
        }
        Ok(Vec::new())
    }

    async fn portion(
        &self,
        connection: &mut SqliteConnection,
        first: i64,
        last: i64,
    ) -> anyhow::Result<Vec<StoredRow>> {
        let rows: Vec<(i64, Vec<u8>, bool)> = sqlx::query_as(AssertSqlSafe(self.sql.clone()))
            .bind(first)
            .bind(last)
            .bind(PORTION)
            .fetch_all(connection)
            .await?;
        let row = |(number, record, is_covered)| StoredRow {
            position: Position::numbered(number),
            record,
            is_covered,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    fn go_on_after(&mut self, number: i64) {
        let (first, last) = &mut self.ranges[0];
        *first = number + 1;
        if *first > *last {
            self.ranges.remove(0);
        }
    }
}
