//! Reads the rows of a range of time, portion by portion: ticks, and roll-ups where ticks are deleted or not wanted.

use std::collections::VecDeque;

use sqlx::{AssertSqlSafe, SqliteConnection};

use super::address::{Level, Position};
use super::stored::{Stretch, stretches};
use super::words::is_malformed;

/// Rows that are read at once, which is about half a megabyte with 30 devices.
const PORTION: i64 = 2_000;

/// A row as it is stored.
#[derive(Debug)]
pub struct StoredRow {
    pub position: Position,
    pub record: Vec<u8>,
}

/// Rows of one level by their numbers, from-to, inclusive.
#[derive(Debug)]
struct RowRange {
    level: Level,
    first: i64,
    last: i64,
}

/// All rows of a range of time: those of the wanted level, and coarser ones where finer ones are deleted.
///
/// The first rows may end before the range: later ones of their window depend on them.
#[derive(Debug)]
pub struct RangeScan {
    wanted: Level,
    /// The last tick that is part of roll-ups.
    pub rolled: Option<Position>,
    /// What is left to read. Coarse roll-ups come first, since where both are needed they are older.
    left: VecDeque<RowRange>,
    /// Whether windows on damaged pages are left out; otherwise such a page is an error.
    leaves_out: bool,
    /// A page is damaged, so the windows of the first range are read one by one.
    is_careful: bool,
    /// The last times of the windows that were left out.
    pub left_out_ms: Vec<i64>,
}

impl RangeScan {
    /// `in_memory` is the first tick that memory has. Ticks from there on are not read.
    pub async fn new(
        connection: &mut SqliteConnection,
        wanted: Level,
        times: (i64, i64),
        in_memory: Option<Position>,
    ) -> anyhow::Result<Self> {
        let mut scan = Self::empty(wanted);
        let stretches = stretches(connection).await?;
        let rolled = stretches
            .iter()
            .filter(|stretch| stretch.level == Level::TenMinutes);
        scan.rolled = rolled.map(|stretch| stretch.last).max();
        let end = in_memory.map_or(i64::MAX, |first| first.number() - 1);
        for stretch in stretches {
            match stretch.level {
                // Ticks without a roll-up.
                Level::Ticks if wanted > Level::Ticks => {
                    let rolled = scan.rolled.map_or(-1, |last| last.window().numbers().1);
                    scan.add(stretch, times, (rolled + 1, end));
                }
                // Where ticks are wanted, those in memory replace their roll-ups.
                _ if wanted == Level::Ticks => scan.add(stretch, times, (0, end)),
                level if level >= wanted => scan.add(stretch, times, (0, i64::MAX)),
                _ => {}
            }
        }
        Ok(scan)
    }

    /// All rows of a level, but for windows on damaged pages.
    pub async fn all(connection: &mut SqliteConnection, level: Level) -> anyhow::Result<Self> {
        let mut scan = Self::empty(level).leaving_out_damage();
        for stretch in stretches(connection).await? {
            if stretch.level == level {
                scan.add(stretch, (0, Position::LATEST_MS), (0, i64::MAX));
            }
        }
        Ok(scan)
    }

    fn empty(wanted: Level) -> Self {
        Self {
            wanted,
            rolled: None,
            left: VecDeque::new(),
            leaves_out: false,
            is_careful: false,
            left_out_ms: Vec::new(),
        }
    }

    /// Leaves out windows on damaged pages, which would otherwise be an error.
    pub fn leaving_out_damage(mut self) -> Self {
        self.leaves_out = true;
        self
    }

    /// Adds the rows of a stretch that end in this range of time and have these numbers.
    fn add(&mut self, stretch: Stretch, (from_ms, to_ms): (i64, i64), (least, most): (i64, i64)) {
        let first = stretch.number_at(from_ms).max(least);
        let first = Position::numbered(first.max(stretch.first.number()));
        let last = stretch.number_at(to_ms).min(most);
        let range = RowRange {
            level: stretch.level,
            first: first.window().numbers().0,
            last: last.min(stretch.last.number()),
        };
        if range.first <= range.last {
            self.left.push_back(range);
        }
    }

    /// The next rows and their level; `None` at the end. The caller needs a new decoder for each level.
    pub async fn next(
        &mut self,
        connection: &mut SqliteConnection,
    ) -> anyhow::Result<Option<(Level, Vec<StoredRow>)>> {
        while let Some(range) = self.left.front() {
            let level = range.level;
            let mut end = range.last;
            if self.is_careful {
                end = end.min(Position::numbered(range.first).window().numbers().1);
            }
            let rows = match self.portion(connection, range, end).await {
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
            let last = rows.last().filter(|_| rows.len() == PORTION as usize);
            self.go_on_after(last.map_or(end, |row| row.position.number()));
            if !rows.is_empty() {
                return Ok(Some((level, rows)));
            }
        }
        Ok(None)
    }

    /// Rows that finer ones replace are left out: all of a window, since retention deletes whole windows.
    async fn portion(
        &self,
        connection: &mut SqliteConnection,
        range: &RowRange,
        end: i64,
    ) -> anyhow::Result<Vec<StoredRow>> {
        let table = range.level.table();
        let mut sql = format!("SELECT id, record FROM {table} WHERE id BETWEEN ? AND ?");
        for finer in Level::ALL {
            if (self.wanted..range.level).contains(&finer) {
                let finer = finer.table();
                sql += &format!(
                    " AND NOT EXISTS (SELECT 1 FROM {finer} WHERE {finer}.id = {table}.id)"
                );
            }
        }
        let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(AssertSqlSafe(sql + " ORDER BY id LIMIT ?"))
            .bind(range.first)
            .bind(end)
            .bind(PORTION)
            .fetch_all(connection)
            .await?;
        let rows = rows.into_iter().map(|(number, record)| StoredRow {
            position: Position::numbered(number),
            record,
        });
        Ok(rows.collect())
    }

    fn go_on_after(&mut self, number: i64) {
        if let Some(range) = self.left.front_mut() {
            range.first = number + 1;
            if range.first > range.last {
                self.left.pop_front();
                self.is_careful = false;
            }
        }
    }
}
