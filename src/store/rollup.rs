//! Roll-ups combine several ticks in one row. Sums and peaks are preserved. Rows of any level become values of quantities
//! here.
//!
//! A row has four columns for each quantity of its stream's kind: exact sums of `over` and `amount`, and the smallest and
//! the largest value of one tick, rounded outward to eight binary digits. Most sums of `over` are the length of the row:
//! such a cell is empty, so that an idle device takes no room.

use std::collections::BTreeMap;

use anyhow::Context;
use sqlx::{Connection, SqliteConnection};

use super::address::{Level, Position, ROLLED_COLUMNS, StoredValue, Stream, TickWindow};
use super::record::{Decoder, Encoder, Rows};
use super::stored::{Gap, rolled_to, ticks_between, watched_ms, write_gap};
use crate::quantity::{Extent, Observation, Quantity};

/// A window counts as at most one day long, so that one wrong length does not make all earlier data look old.
const LONGEST_MS: i64 = 24 * 3600 * 1000;

/// A quantity over several ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RolledSums {
    over: u64,
    amount: u64,
    least: u64,
    most: u64,
}

impl RolledSums {
    fn add(&mut self, other: Self) {
        if other.over == 0 {
            return;
        }
        self.least = if self.over == 0 {
            other.least
        } else {
            self.least.min(other.least)
        };
        self.most = self.most.max(other.most);
        self.over = self.over.saturating_add(other.over);
        self.amount = self.amount.saturating_add(other.amount);
    }

    fn cells(self, elapsed_us: u64) -> [StoredValue; ROLLED_COLUMNS] {
        let over = (self.over != elapsed_us).then_some(self.over);
        [over, Some(self.amount), Some(self.least), Some(self.most)]
    }

    /// `None` if the columns are of a program that did not have the quantity.
    fn of_cells(cells: &[StoredValue], elapsed_us: u64) -> Option<Self> {
        let [over, amount, least, most] = *cells else {
            return None;
        };
        Some(Self {
            over: over.unwrap_or(elapsed_us),
            amount: amount?,
            least: least?,
            most: most?,
        })
    }
}

impl From<Observation> for RolledSums {
    fn from(seen: Observation) -> Self {
        let value = seen.value();
        Self {
            over: seen.over,
            amount: seen.amount,
            least: near(value),
            most: near_above(value),
        }
    }
}

/// Bits of a value's fraction that are dropped: of 52, eight stay.
const DROPPED: u32 = 44;

/// A non-negative value as an integer that sorts like it, less than 0.4 % below it.
fn near(value: f64) -> u64 {
    value.to_bits() >> DROPPED
}

/// As [`near`], but not below the value.
fn near_above(value: f64) -> u64 {
    value.to_bits().div_ceil(1 << DROPPED)
}

/// The value that such an integer encodes.
fn value_of(near: u64) -> f64 {
    f64::from_bits(near << DROPPED)
}

/// The rows of one roll-up, while ticks or finer roll-ups are added.
#[derive(Debug, Default)]
pub struct RollUp {
    streams: BTreeMap<Stream, Vec<RolledSums>>,
    /// The last tick that was added.
    last: Option<Position>,
    elapsed_us: u64,
}

impl RollUp {
    /// Adds the last row of a decoder.
    pub fn add(&mut self, position: Position, decoded: &Decoder) {
        let elapsed_us = decoded.elapsed_us();
        for (stream, row) in decoded.rows() {
            let quantities = stream.kind.quantities();
            let sums = self
                .streams
                .entry(stream)
                .or_insert_with(|| vec![RolledSums::default(); quantities.len()]);
            for (index, (sums, quantity)) in sums.iter_mut().zip(quantities).enumerate() {
                let more = match decoded.level() {
                    Level::Ticks => quantity.observe(row, elapsed_us).map(RolledSums::from),
                    _ => RolledSums::of_cells(of_quantity(row, index), elapsed_us),
                };
                sums.add(more.unwrap_or_default());
            }
        }
        self.extend(position, elapsed_us);
    }

    /// Adds a finer roll-up.
    pub fn add_finer(&mut self, finer: &Self) {
        for (stream, more) in &finer.streams {
            let sums = self
                .streams
                .entry(*stream)
                .or_insert_with(|| vec![RolledSums::default(); more.len()]);
            for (sums, more) in sums.iter_mut().zip(more) {
                sums.add(*more);
            }
        }
        if let Some(last) = finer.last {
            self.extend(last, finer.elapsed_us);
        }
    }

    /// Makes the row end at this tick, whatever it has of it.
    pub fn extend(&mut self, position: Position, elapsed_us: u64) {
        self.last = Some(position);
        self.elapsed_us = self.elapsed_us.saturating_add(elapsed_us);
    }

    /// Whether a tick at this position is of the same row of this length; true for the first.
    pub fn includes(&self, position: Position, row_ms: i64) -> bool {
        // A row covers the time before it, so a tick at the end of a minute is the last of that minute.
        let row = |at: Position| (at.stretch, (at.at_ms - 1).div_euclid(row_ms));
        self.last.is_none_or(|last| row(last) == row(position))
    }

    /// The last tick, which names the roll-up, its length and its rows. `None` if nothing was added.
    pub fn finish(self) -> Option<(Position, u64, Rows)> {
        let rows = Rows::collect(Level::Minutes, |push| {
            for (stream, sums) in &self.streams {
                let cells: Vec<StoredValue> = sums
                    .iter()
                    .flat_map(|sums| sums.cells(self.elapsed_us))
                    .collect();
                push(*stream, &cells);
            }
        });
        Some((self.last?, self.elapsed_us, rows))
    }
}

/// A row's values of a quantity; `None` if unknown.
pub fn extent(
    level: Level,
    stream: Stream,
    quantity: Quantity,
    row: &[StoredValue],
    elapsed_us: u64,
) -> Option<Extent> {
    if level == Level::Ticks {
        return quantity.observe(row, elapsed_us).map(Extent::from);
    }
    let quantities = stream.kind.quantities();
    let index = quantities.iter().position(|other| *other == quantity)?;
    let sums = RolledSums::of_cells(of_quantity(row, index), elapsed_us)?;
    let all = Observation::ratio(sums.amount, sums.over, quantity.scale())?;
    Some(Extent {
        all,
        min: value_of(sums.least),
        max: value_of(sums.most),
    })
}

fn of_quantity(row: &[StoredValue], index: usize) -> &[StoredValue] {
    row.get(index * ROLLED_COLUMNS..(index + 1) * ROLLED_COLUMNS)
        .unwrap_or_default()
}

/// Rolls up the windows that are complete: those with a later tick behind them.
pub async fn roll_up(connection: &mut SqliteConnection) -> anyhow::Result<()> {
    let mut encoder = Encoder::new(Level::Minutes);
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    while let Some(window) = next_window(&mut transaction).await? {
        roll(&mut transaction, window, &mut encoder)
            .await
            .context("cannot roll up ticks")?;
    }
    Ok(transaction.commit().await?)
}

/// The first window after the last roll-up; `None` until it is complete.
async fn next_window(connection: &mut SqliteConnection) -> anyhow::Result<Option<TickWindow>> {
    let rolled = rolled_to(connection).await?;
    let first: Option<i64> = sqlx::query_scalar("SELECT min(id) FROM tick WHERE id > ?")
        .bind(rolled.map_or(-1, Position::number))
        .fetch_one(&mut *connection)
        .await?;
    let Some(window) = first.map(|first| Position::numbered(first).window()) else {
        return Ok(None);
    };
    let is_complete: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM tick WHERE id > ?)")
        .bind(window.numbers().1)
        .fetch_one(connection)
        .await?;
    Ok(is_complete.then_some(window))
}

async fn roll(
    connection: &mut SqliteConnection,
    window: TickWindow,
    encoder: &mut Encoder,
) -> anyhow::Result<()> {
    let (first, last) = window.numbers();
    let rows = ticks_between(connection, first, last).await?;
    let mut minutes = Vec::new();
    let mut minute = RollUp::default();
    let mut damaged = Vec::new();
    let mut decoder = Decoder::new(Level::Ticks);
    for (number, record) in &rows {
        let position = Position::numbered(*number);
        if !minute.includes(position, Level::Minutes.row_ms()) {
            minutes.push(std::mem::take(&mut minute));
        }
        match decoder.decode(position, record) {
            Ok(()) => minute.add(position, &decoder),
            Err(_) => {
                minute.extend(position, 0);
                damaged.push(position.at_ms);
            }
        }
    }
    minutes.push(minute);
    let mut ten_minutes = RollUp::default();
    for minute in minutes {
        ten_minutes.add_finer(&minute);
        if let Some((position, elapsed_us, rows)) = minute.finish() {
            let record = encoder.encode(position, elapsed_us, &rows);
            sqlx::query("INSERT INTO minute (id, record) VALUES (?, ?)")
                .bind(position.number())
                .bind(record)
                .execute(&mut *connection)
                .await?;
        }
    }
    if let (Some(from_ms), Some(to_ms)) = (damaged.first(), damaged.last()) {
        tracing::warn!("{} ticks are damaged and become a gap", damaged.len());
        let gap = Gap {
            from_ms: *from_ms,
            to_ms: *to_ms,
            ticks: damaged.len() as i64,
            reason: "what the database had of them is damaged".into(),
        };
        write_gap(connection, &gap).await?;
    }
    let Some((position, elapsed_us, rows)) = ten_minutes.finish() else {
        return Ok(());
    };
    let length_ms = i64::try_from(elapsed_us / 1000).unwrap_or(i64::MAX);
    let watched_ms = watched_ms(connection)
        .await?
        .saturating_add(length_ms.min(LONGEST_MS));
    let record = Encoder::new(Level::TenMinutes).encode(position, elapsed_us, &rows);
    sqlx::query("INSERT INTO ten_minute (id, watched_ms, record) VALUES (?, ?, ?)")
        .bind(position.number())
        .bind(watched_ms)
        .bind(record)
        .execute(connection)
        .await?;
    Ok(())
}
