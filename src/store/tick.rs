//! A tick as it is stored: integers by stream.

use std::sync::Arc;

use anyhow::ensure;

use super::catalog::Catalog;
use super::codec::Presence;
use super::journal::JournalContent;
use super::position::Position;
use super::stream::{Kind, Stream, stored};
use crate::interval::Interval;
use crate::quantity::{copying_row, volume_row};

/// The values of each stream of the layout, in the tick that ended at `at_ms`.
///
/// Most devices are idle most of the time; they have no numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// 0 for a first tick.
    pub elapsed_us: u64,
    pub layout: Arc<Layout>,
    /// Places of unknown streams in the layout, ascending.
    pub unknown: Vec<u32>,
    /// Places of streams whose row is not all zero, ascending, and where the row begins in `numbers`.
    pub active: Vec<(u32, u32)>,
    pub numbers: Vec<u64>,
}

/// The streams of a tick, ascending. Most ticks share the layout of the previous one.
pub type Layout = Vec<Stream>;

/// The ticks of one segment, in the order of time.
#[derive(Clone, Debug)]
pub struct SegmentTicks {
    pub number: i64,
    pub ticks: Vec<Arc<Tick>>,
}

impl SegmentTicks {
    /// Of one of its ticks.
    pub fn position(&self, tick: &Tick) -> Position {
        Position {
            segment: self.number,
            at_ms: tick.at_ms,
        }
    }
}

/// Adds a tick to its segment, the last one or a new one.
pub fn add(segments: &mut Vec<SegmentTicks>, number: i64, tick: Arc<Tick>) {
    match segments.last_mut() {
        Some(segment) if segment.number == number => segment.ticks.push(tick),
        _ => segments.push(SegmentTicks {
            number,
            ticks: vec![tick],
        }),
    }
}

/// The ticks of a journal by segment, and a sentence for each damaged place.
pub fn segments_of(journal: JournalContent) -> (Vec<SegmentTicks>, Vec<String>) {
    let (mut segments, mut before, mut lost) = (Vec::new(), None::<Arc<Tick>>, None);
    for (segment, record) in journal.records {
        match Tick::from_record(&record, before.as_deref()) {
            Ok(tick) => {
                let tick = Arc::new(tick);
                before = Some(Arc::clone(&tick));
                add(&mut segments, segment, tick);
            }
            Err(error) => {
                lost = Some(format!(
                    "a record of the journal cannot be decoded: {error}"
                ))
            }
        }
    }
    (segments, journal.damage.into_iter().chain(lost).collect())
}

impl Tick {
    /// An empty tick, to be filled in the order of its layout.
    pub fn new(at_ms: i64, elapsed_us: u64, layout: Arc<Layout>) -> Self {
        Self {
            at_ms,
            elapsed_us,
            layout,
            unknown: Vec::new(),
            active: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// The tick of an interval. It shares the layout of the tick `before` if both are equal.
    pub fn of(interval: &Interval, catalog: &Catalog, before: Option<&Self>) -> Self {
        let mut rows: Vec<(Stream, Option<Vec<u64>>)> =
            Vec::with_capacity(interval.devices.len() + interval.volumes.len() + 2);
        rows.push((Stream::HOST, stored(&interval.host.0)));
        rows.push((Stream::TOTAL, stored(&interval.total().0)));
        for (device, done) in interval.topology.devices.iter().zip(&interval.devices) {
            let Some(row) = catalog.device(&device.identity) else {
                continue;
            };
            rows.push((Stream::new(Kind::Device, row), stored(&done.work.0)));
            if device.is_pv
                && interval.may_copy(device)
                && let Some(share) = interval.share(device)
            {
                rows.push((
                    Stream::new(Kind::Copying, row),
                    stored(&copying_row(&share)),
                ));
            }
        }
        for (volume, state) in interval.volumes() {
            let Some(row) = catalog.volume(&volume.uuid) else {
                continue;
            };
            let columns = volume_row(state).map(|value| value.unwrap_or(u64::MAX));
            rows.push((Stream::new(Kind::Volume, row), Some(columns.to_vec())));
        }
        rows.sort_unstable_by_key(|(stream, _)| *stream);
        let layout = match before {
            Some(before)
                if before
                    .layout
                    .iter()
                    .eq(rows.iter().map(|(stream, _)| stream)) =>
            {
                Arc::clone(&before.layout)
            }
            _ => Arc::new(rows.iter().map(|(stream, _)| *stream).collect()),
        };
        let mut tick = Self::new(interval.at.as_millisecond(), interval.elapsed_us, layout);
        for (place, (_, columns)) in (0..).zip(&rows) {
            tick.push(place, columns.as_deref());
        }
        tick
    }

    /// Adds the row at the next place of the layout; `None` if unknown.
    pub fn push(&mut self, place: u32, row: Option<&[u64]>) {
        match row {
            None => self.unknown.push(place),
            Some(row) if row.iter().any(|number| *number != 0) => {
                self.active
                    .push((place, u32::try_from(self.numbers.len()).unwrap_or(u32::MAX)));
                self.numbers.extend_from_slice(row);
            }
            Some(_) => {}
        }
    }

    /// The row of a stream; empty if it is not known, or all columns are zero.
    pub fn row(&self, stream: Stream) -> (Presence, &[u64]) {
        let Ok(place) = self.layout.binary_search(&stream) else {
            return (Presence::Absent, &[]);
        };
        let place = place as u32;
        if self.unknown.binary_search(&place).is_ok() {
            return (Presence::Unknown, &[]);
        }
        let Ok(index) = self
            .active
            .binary_search_by_key(&place, |(place, _)| *place)
        else {
            return (Presence::Known, &[]);
        };
        let begin = self.active[index].1 as usize;
        (
            Presence::Known,
            &self.numbers[begin..begin + stream.kind.columns()],
        )
    }
}

/// The fields of a tick in a record of the journal, encoded by postcard. No record depends on another.
type Record = (i64, u64, Vec<Stream>, Vec<u32>, Vec<(u32, u32)>, Vec<u64>);

impl Tick {
    pub fn to_record(&self) -> Vec<u8> {
        let Self {
            at_ms,
            elapsed_us,
            layout,
            unknown,
            active,
            numbers,
        } = self;
        let record = (at_ms, elapsed_us, &**layout, unknown, active, numbers);
        postcard::to_stdvec(&record).unwrap_or_default()
    }

    /// The tick of a record. It shares its layout with `before` if both are equal.
    pub fn from_record(record: &[u8], before: Option<&Self>) -> anyhow::Result<Self> {
        let (at_ms, elapsed_us, streams, unknown, active, numbers): Record =
            postcard::from_bytes(record)?;
        let shared = before
            .map(|before| &before.layout)
            .filter(|shared| ***shared == streams);
        let layout = shared.map_or_else(|| Arc::new(streams), Arc::clone);
        let tick = Self {
            at_ms,
            elapsed_us,
            layout,
            unknown,
            active,
            numbers,
        };
        ensure!(tick.is_sound(), "its parts do not fit together");
        Ok(tick)
    }

    /// Whether every place is in the layout and every row in the numbers.
    fn is_sound(&self) -> bool {
        let mut end = 0;
        let rows_fit = self.active.iter().all(|(place, begin)| {
            let stream = self.layout.get(*place as usize);
            let begins_there = *begin as usize == end;
            end += stream.map_or(0, |stream| stream.kind.columns());
            stream.is_some() && begins_there
        });
        rows_fit
            && end == self.numbers.len()
            && self.layout.is_sorted()
            && self.unknown.is_sorted()
            && self.active.is_sorted()
            && self
                .unknown
                .last()
                .is_none_or(|place| (*place as usize) < self.layout.len())
    }
}
