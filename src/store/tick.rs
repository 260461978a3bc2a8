//! A tick as the store keeps it: whole numbers by stream.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

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

/// The ticks of one segment, in the order of time.
#[derive(Clone, Debug)]
pub struct SegmentTicks {
    pub number: i64,
    pub ticks: Vec<Arc<Tick>>,
}

/// Ticks with the numbers of their segments, segment by segment.
pub fn by_segment(ticks: impl IntoIterator<Item = (i64, Arc<Tick>)>) -> Vec<SegmentTicks> {
    let mut segments: Vec<SegmentTicks> = Vec::new();
    for (number, tick) in ticks {
        match segments.last_mut() {
            Some(segment) if segment.number == number => segment.ticks.push(tick),
            _ => segments.push(SegmentTicks { number, ticks: vec![tick] }),
        }
    }
    segments
}

/// The ticks of the records by segment, and a sentence for those that are not understood.
pub fn segments_of(records: &[(i64, Vec<u8>)]) -> (Vec<SegmentTicks>, Option<String>) {
    let (mut ticks, mut before, mut lost) = (Vec::with_capacity(records.len()), None::<Arc<Tick>>, None);
    for (segment, record) in records {
        match Tick::from_record(record, before.as_deref()) {
            Ok(tick) => {
                let tick = Arc::new(tick);
                before = Some(Arc::clone(&tick));
                ticks.push((*segment, tick));
            }
            Err(error) => lost = Some(error.to_string()),
        }
    }
    (by_segment(ticks), lost)
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

/// A tick as a record of the journal: whole in itself, in integers of variable length.
#[derive(Serialize, Deserialize)]
struct Record {
    at_ms: i64,
    elapsed_us: u64,
    /// Numbers of the streams, each as the difference to the one before.
    layout: Vec<u32>,
    /// Places of streams of which nothing is known, and of those whose row is not all zero: differences likewise.
    unknown: Vec<u32>,
    active: Vec<u32>,
    /// The rows of the active streams.
    numbers: Vec<u64>,
}

/// A record that was not written by this version of the program.
#[derive(Debug, thiserror::Error)]
#[error("a record of the journal is not understood: {0}")]
pub struct NotUnderstood(String);

impl Tick {
    pub fn to_record(&self) -> Vec<u8> {
        let record = Record {
            at_ms: self.at_ms,
            elapsed_us: self.elapsed_us,
            layout: differences(self.layout.streams.iter().map(|stream| stream.number())),
            unknown: differences(self.unknown.iter().copied()),
            active: differences(self.active.iter().map(|(place, _)| *place)),
            numbers: self.numbers.clone(),
        };
        postcard::to_stdvec(&record).unwrap_or_default()
    }

    /// The tick of a record. It shares its layout with `before` where the two are equal.
    pub fn from_record(record: &[u8], before: Option<&Self>) -> Result<Self, NotUnderstood> {
        let Record { at_ms, elapsed_us, layout, unknown, active, numbers } =
            postcard::from_bytes(record).map_err(|error| NotUnderstood(error.to_string()))?;
        let refused = |what: &str| NotUnderstood(what.to_string());
        let streams = sums(&layout).map(Stream::numbered).collect::<Option<Vec<_>>>();
        let layout = Layout { streams: streams.ok_or_else(|| refused("a stream is of no known kind"))? };
        if !layout.streams.is_sorted() {
            return Err(refused("the streams are not in order"));
        }
        let shared = before.map(|before| &before.layout).filter(|shared| ***shared == layout);
        let layout = shared.map_or_else(|| Arc::new(layout), Arc::clone);
        let mut tick = Self::new(at_ms, elapsed_us, Arc::clone(&layout));
        let mut unknown = sums(&unknown).peekable();
        let (mut active, mut rest) = (sums(&active).peekable(), &numbers[..]);
        for (place, stream) in (0..).zip(&layout.streams) {
            if unknown.next_if_eq(&place).is_some() {
                tick.push(place, None);
            } else if active.next_if_eq(&place).is_some() {
                let row = rest.split_at_checked(stream.kind.columns());
                let (row, behind) = row.ok_or_else(|| refused("numbers are missing"))?;
                tick.push(place, Some(row));
                rest = behind;
            }
        }
        match (unknown.next(), active.next(), rest) {
            (None, None, []) => Ok(tick),
            _ => Err(refused("numbers are left over")),
        }
    }
}

fn differences(ascending: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut before = 0u32;
    ascending.map(|number| number.wrapping_sub(std::mem::replace(&mut before, number))).collect()
}

fn sums(differences: &[u32]) -> impl Iterator<Item = u32> + '_ {
    differences.iter().scan(0u32, |sum, difference| {
        *sum = sum.wrapping_add(*difference);
        Some(*sum)
    })
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
