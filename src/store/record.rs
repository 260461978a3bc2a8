//! A tick as a record of the journal: what changed since the tick before, in small integers of variable length.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::journal::Segment;
use super::stream::Stream;
use super::tick::{Cell, Layout, Tick};

/// Writes or reads the records of one segment, from its first on.
#[derive(Debug, Default)]
pub struct Recorder {
    before: Option<Arc<Tick>>,
}

/// A record that cannot be one: of another version, or not written by this program.
#[derive(Debug, thiserror::Error)]
#[error("a record of the journal is not understood: {0}")]
pub struct NotUnderstood(String);

#[derive(Serialize, Deserialize)]
struct Record {
    /// Since the tick before; since 1970 for the first.
    at_ms: i64,
    elapsed_us: u64,
    /// Numbers of the streams, each as the difference to the one before; `None` where they are as before.
    layout: Option<Vec<u32>>,
    /// Places, each as the difference to the one before.
    unknown: Vec<u32>,
    /// Places of rows that are not as foretold, each as the difference to the one before.
    told: Vec<u32>,
    /// Their rows, less what is foretold of them.
    numbers: Vec<i64>,
}

impl Recorder {
    /// The record of the next tick. Not yet remembered: see [`Self::remember`].
    pub fn record(&self, tick: &Tick) -> Vec<u8> {
        let before = self.before.as_deref();
        let same_layout = before.is_some_and(|before| before.layout == tick.layout);
        let (mut told, mut numbers) = (Vec::new(), Vec::new());
        for (place, stream) in (0..).zip(&tick.layout.streams) {
            let foretold = foretold(before.filter(|_| same_layout), place, *stream);
            let zeros = vec![0; stream.kind.columns()];
            let row = match tick.cell_at(place) {
                Cell::Row(row) => row,
                Cell::Zero => &zeros,
                Cell::Absent | Cell::Unknown => continue,
            };
            if row != foretold {
                told.push(place);
                numbers.extend(
                    row.iter().zip(foretold).map(|(now, before)| now.wrapping_sub(*before).cast_signed()),
                );
            }
        }
        let record = Record {
            at_ms: tick.at_ms - before.map_or(0, |before| before.at_ms),
            elapsed_us: tick.elapsed_us,
            layout: (!same_layout)
                .then(|| differences(tick.layout.streams.iter().map(|stream| stream.number()))),
            unknown: differences(tick.unknown.iter().copied()),
            told: differences(told.into_iter()),
            numbers,
        };
        postcard::to_stdvec(&record).unwrap_or_default()
    }

    /// The tick that the next record was made of.
    pub fn tick(&self, record: &[u8]) -> Result<Tick, NotUnderstood> {
        let record: Record =
            postcard::from_bytes(record).map_err(|error| NotUnderstood(error.to_string()))?;
        let before = self.before.as_deref();
        let layout = match (&record.layout, before) {
            (Some(numbers), _) => Arc::new(layout_of(numbers)?),
            (None, Some(before)) => Arc::clone(&before.layout),
            (None, None) => return Err(NotUnderstood("the first has no layout".into())),
        };
        let before_row = before.filter(|_| record.layout.is_none());
        let at_ms = before.map_or(0, |before| before.at_ms).wrapping_add(record.at_ms);
        let mut tick = Tick::new(at_ms, record.elapsed_us, Arc::clone(&layout));
        let unknown = sums(&record.unknown);
        let mut told = sums(&record.told).into_iter().peekable();
        let mut numbers = record.numbers.iter();
        for (place, stream) in (0..).zip(&layout.streams) {
            if unknown.binary_search(&place).is_ok() {
                tick.push(place, None);
                continue;
            }
            let foretold = foretold(before_row, place, *stream);
            if told.next_if_eq(&place).is_none() {
                tick.push(place, Some(foretold));
                continue;
            }
            let row: Vec<u64> = foretold
                .iter()
                .zip(&mut numbers)
                .map(|(before, difference)| before.wrapping_add(difference.cast_unsigned()))
                .collect();
            if row.len() < foretold.len() {
                return Err(NotUnderstood("numbers are missing".into()));
            }
            tick.push(place, Some(&row));
        }
        Ok(tick)
    }

    /// The next record follows this tick.
    pub fn remember(&mut self, tick: &Arc<Tick>) {
        self.before = Some(Arc::clone(tick));
    }
}

/// A gauge stays as it was, whatever else is zero.
fn foretold(before: Option<&Tick>, place: u32, stream: Stream) -> &[u64] {
    const ZEROS: [u64; 16] = [0; 16];
    match before.filter(|_| stream.kind.is_gauge()).map(|before| before.cell_at(place)) {
        Some(Cell::Row(row)) => row,
        _ => &ZEROS[..stream.kind.columns()],
    }
}

fn layout_of(numbers: &[u32]) -> Result<Layout, NotUnderstood> {
    let streams = sums(numbers).into_iter().map(Stream::numbered).collect::<Option<Vec<_>>>();
    let mut streams = streams.ok_or_else(|| NotUnderstood("a stream is of no known kind".into()))?;
    streams.sort_unstable();
    Ok(Layout { streams })
}

fn differences(ascending: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut before = 0u32;
    ascending.map(|number| number.wrapping_sub(std::mem::replace(&mut before, number))).collect()
}

fn sums(differences: &[u32]) -> Vec<u32> {
    let mut sum = 0u32;
    differences
        .iter()
        .map(|difference| {
            sum = sum.wrapping_add(*difference);
            sum
        })
        .collect()
}

/// The ticks of a segment in the journal, and what is lost: behind a record that is not understood none can be.
pub fn ticks_of(segment: &Segment) -> (Vec<Arc<Tick>>, Option<String>) {
    let records = &segment.records;
    let (mut recorder, mut ticks) = (Recorder::default(), Vec::with_capacity(records.len()));
    for record in records {
        match recorder.tick(record) {
            Ok(tick) => {
                let tick = Arc::new(tick);
                recorder.remember(&tick);
                ticks.push(tick);
            }
            Err(error) => {
                let (lost, all, number) = (records.len() - ticks.len(), records.len(), segment.number);
                let said =
                    format!("{lost} of {all} ticks of segment {number} in the journal are lost: {error}");
                return (ticks, Some(said));
            }
        }
    }
    (ticks, None)
}
