//! A tick as the store keeps it: whole numbers by stream.

use std::sync::Arc;

use super::catalog::Catalog;
use super::stream::{Kind, Stream, host_columns, volume_columns, work_columns};
use crate::interval::Interval;

/// What happened up to `at_ms`, of each stream of the layout.
///
/// Most devices do nothing most of the time: those have no numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// 0 for a first tick.
    pub elapsed_us: u64,
    pub layout: Arc<Layout>,
    /// Places in the layout of streams of which nothing is known, ascending.
    pub unknown: Vec<u32>,
    /// Places of streams whose row is not all zero, ascending, and where in `numbers` the row begins.
    pub active: Vec<(u32, u32)>,
    pub numbers: Vec<u64>,
}

/// The streams of a tick, ascending. Most ticks share theirs with the one before.
#[derive(Debug, Default, PartialEq)]
pub struct Layout {
    pub streams: Vec<Stream>,
}

/// What a tick says of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// The stream was not there.
    Absent,
    Unknown,
    /// All columns are zero.
    Zero,
    Row(&'a [u64]),
}

impl Tick {
    /// An empty tick, to be filled in the order of its layout.
    pub fn new(at_ms: i64, elapsed_us: u64, layout: Arc<Layout>) -> Self {
        Self { at_ms, elapsed_us, layout, unknown: Vec::new(), active: Vec::new(), numbers: Vec::new() }
    }

    /// What an interval says; `before` is the tick before it, for its layout.
    pub fn of(interval: &Interval, catalog: &Catalog, before: Option<&Self>) -> Self {
        let mut rows = Vec::with_capacity(interval.devices.len() + interval.volumes.len() + 2);
        rows.push((Stream::HOST, Some(Columns::Host(host_columns(&interval.host)))));
        rows.push((Stream::TOTAL, interval.total().map(|work| Columns::Work(work_columns(&work)))));
        device_rows(interval, catalog, &mut rows);
        volume_rows(interval, catalog, &mut rows);
        rows.sort_unstable_by_key(|(stream, _)| *stream);
        let layout = match before {
            Some(before) if before.layout.streams.iter().eq(rows.iter().map(|(stream, _)| stream)) => {
                Arc::clone(&before.layout)
            }
            _ => Arc::new(Layout { streams: rows.iter().map(|(stream, _)| *stream).collect() }),
        };
        let mut tick = Self::new(interval.at.as_millisecond(), interval.elapsed_us, layout);
        for (place, (_, columns)) in (0..).zip(&rows) {
            tick.push(place, columns.as_ref().map(Columns::numbers));
        }
        tick
    }

    /// Adds the row at the next place of the layout; `None` is not known.
    pub fn push(&mut self, place: u32, row: Option<&[u64]>) {
        match row {
            None => self.unknown.push(place),
            Some(row) if row.iter().any(|number| *number != 0) => {
                self.active.push((place, u32::try_from(self.numbers.len()).unwrap_or(u32::MAX)));
                self.numbers.extend_from_slice(row);
            }
            Some(_) => {}
        }
    }

    pub fn cell(&self, stream: Stream) -> Cell<'_> {
        let Some(place) = self.layout.place(stream) else { return Cell::Absent };
        self.cell_at(place)
    }

    pub fn cell_at(&self, place: u32) -> Cell<'_> {
        if self.unknown.binary_search(&place).is_ok() {
            return Cell::Unknown;
        }
        let Ok(index) = self.active.binary_search_by_key(&place, |(place, _)| *place) else {
            return Cell::Zero;
        };
        let begin = self.active[index].1 as usize;
        let columns = self.layout.streams[place as usize].kind.columns();
        Cell::Row(&self.numbers[begin..begin + columns])
    }
}

impl Layout {
    pub fn place(&self, stream: Stream) -> Option<u32> {
        self.streams.binary_search(&stream).ok().and_then(|place| u32::try_from(place).ok())
    }
}

enum Columns {
    Host([u64; 12]),
    Work([u64; 8]),
    Copying([u64; 2]),
    Volume([u64; 9]),
}

impl Columns {
    fn numbers(&self) -> &[u64] {
        match self {
            Self::Host(numbers) => numbers,
            Self::Work(numbers) => numbers,
            Self::Copying(numbers) => numbers,
            Self::Volume(numbers) => numbers,
        }
    }
}

fn device_rows(interval: &Interval, catalog: &Catalog, rows: &mut Vec<(Stream, Option<Columns>)>) {
    for (device, done) in interval.topology.devices.iter().zip(&interval.devices) {
        let Some(row) = catalog.device(&device.identity) else { continue };
        let work = done.work.map(|work| Columns::Work(work_columns(&work)));
        rows.push((Stream::new(Kind::Device, row), work));
        if device.is_pv
            && interval.may_copy(device)
            && let Some(share) = interval.share(device)
        {
            let columns = Columns::Copying([share.read, share.written]);
            rows.push((Stream::new(Kind::Copying, row), Some(columns)));
        }
    }
}

fn volume_rows(interval: &Interval, catalog: &Catalog, rows: &mut Vec<(Stream, Option<Columns>)>) {
    for (volume, state) in interval.volumes() {
        let Some(row) = catalog.volume(&volume.uuid) else { continue };
        rows.push((Stream::new(Kind::Volume, row), Some(Columns::Volume(volume_columns(state)))));
    }
}
