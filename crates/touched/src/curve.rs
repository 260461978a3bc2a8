//! How many chunks were written within each age, up to one moment.
//!
//! It follows from the minute in which each area of a volume was last written, in two bytes: within the last T minutes as
//! many areas were written as were last written less than T minutes ago.

use std::ops::Range;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::CHUNKS;

/// The ages in minutes at which the usage of a COW area is kept.
pub const AGES_MIN: [u16; 20] = [
    1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 600, 720, 1080, 1440,
];

/// Bytes by age in seconds, in order of age.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth(pub Vec<(f64, f64)>);

/// A run that ended a little before an age still tells what that age needs: at most as much more as it is longer.
pub const MOST_EXTRAPOLATED: f64 = 1.25;

impl Growth {
    /// The bytes at an age, between known ages on a straight line; `None` beyond the last one.
    pub fn at(&self, age_s: f64) -> Option<f64> {
        let after = self.0.iter().position(|(age, _)| *age >= age_s);
        let Some(after) = after else {
            let (age, bytes) = *self.0.last()?;
            return (age > 0.0 && age_s <= age * MOST_EXTRAPOLATED).then(|| bytes * age_s / age);
        };
        let (x0, y0) = after
            .checked_sub(1)
            .map_or((0.0, 0.0), |before| self.0[before]);
        let (x1, y1) = self.0[after];
        let part = if x1 > x0 {
            (age_s - x0) / (x1 - x0)
        } else {
            1.0
        };
        Some(y0 + (y1 - y0) * part)
    }
}

/// The size of a copied chunk's entry in the COW area's exception tables.
pub const BYTES_OF_AN_EXCEPTION: u64 = 16;
/// The size of a COW area with so many copied chunks: a header, and one chunk of exceptions for each area.
pub fn cow_bytes(chunks: u64, chunk: u64) -> u64 {
    let chunk = chunk.max(BYTES_OF_AN_EXCEPTION);
    let tables = chunks / (chunk / BYTES_OF_AN_EXCEPTION) + 1;
    (1 + chunks).saturating_add(tables).saturating_mul(chunk)
}

/// As stored, an hour apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub at: Timestamp,
    /// Whether the chunks are those of a thin pool, which needs no exception tables of its own.
    pub is_thin: bool,
    /// For how long it was measured without a gap, in minutes.
    pub measured_min: u32,
    /// How long before `at` the volume last had discards, in minutes: they count as writes, but a snapshot copies nothing.
    pub discarded_min: Option<u32>,
    pub chunks: Vec<ChunkCurve>,
}

/// Of one chunk size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChunkCurve {
    pub bytes: u64,
    /// The chunks that were written within each of [`AGES_MIN`], as far as it was measured.
    pub counts: Vec<u64>,
    /// If the counts are estimated, the upper ends of their intervals; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub most: Vec<u64>,
    /// The lower ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub least: Vec<u64>,
}

impl ChunkCurve {
    /// One end of the intervals; the counts themselves if they are exact.
    fn or_counts<'a>(&'a self, end: &'a Vec<u64>) -> &'a Vec<u64> {
        if end.is_empty() { &self.counts } else { end }
    }
}

impl Curve {
    /// The growth of a snapshot with chunks of this size that would have reached each age now. Windows with discards are
    /// left out: they would make it too large. `None` if nothing is known of this size.
    pub fn growth(&self, chunk: u64) -> Option<Growth> {
        self.growth_of(chunk, |of| &of.counts)
    }

    /// The same at the upper end of the interval, if it is estimated.
    pub fn most_growth(&self, chunk: u64) -> Option<Growth> {
        self.growth_of(chunk, |of| of.or_counts(&of.most))
    }

    /// The same at the lower end.
    pub fn least_growth(&self, chunk: u64) -> Option<Growth> {
        self.growth_of(chunk, |of| of.or_counts(&of.least))
    }

    /// Whether it comes from a part of the volume.
    pub fn is_estimated(&self) -> bool {
        self.chunks.iter().any(|of| !of.most.is_empty())
    }

    fn growth_of(&self, chunk: u64, counts: fn(&ChunkCurve) -> &Vec<u64>) -> Option<Growth> {
        let of_chunk = self.chunks.iter().find(|of| of.bytes == chunk)?;
        let ages = AGES_MIN.iter().zip(counts(of_chunk));
        let has_discards = |age: u16| {
            self.discarded_min
                .is_some_and(|before| before < u32::from(age))
        };
        let known = ages.take_while(|(age, _)| !has_discards(**age));
        let point =
            |(age, count): (&u16, &u64)| (f64::from(*age) * 60.0, self.bytes(*count, chunk) as f64);
        Some(Growth(known.map(point).collect()))
    }

    fn bytes(&self, chunks: u64, chunk: u64) -> u64 {
        if self.is_thin {
            chunks.saturating_mul(chunk)
        } else {
            cow_bytes(chunks, chunk)
        }
    }
}

/// Older minutes are forgotten.
const LONGEST_MIN: u16 = AGES_MIN[AGES_MIN.len() - 1];
/// Minutes are numbered from this one on again before their number exceeds two bytes.
const RENUMBER_AT: u16 = u16::MAX - 1;

/// Areas of equal size, measured without a gap.
#[derive(Clone, Debug)]
pub struct Areas {
    /// In bytes.
    step: u64,
    is_thin: bool,
    /// The number of the minute; 0 if it was not written within the longest age.
    written: Vec<u16>,
    /// The number of the current minute.
    now: u16,
    measured_min: u32,
    /// The last minute with discards; 0 if there was none.
    discarded: u16,
}

impl Areas {
    /// Nothing is known before now.
    pub fn new(count: usize, step: u64, is_thin: bool) -> Self {
        let written = vec![0; count];
        Self {
            step,
            is_thin,
            written,
            now: 1,
            measured_min: 0,
            discarded: 0,
        }
    }

    /// So many minutes have passed, in which these areas were written.
    pub fn advance(&mut self, minutes: u32, written: &[Range<usize>], had_discards: bool) {
        for _ in 0..minutes.min(u32::from(LONGEST_MIN)) {
            if self.now == RENUMBER_AT {
                self.renumber();
            }
            self.now += 1;
        }
        self.measured_min = self.measured_min.saturating_add(minutes);
        for range in written {
            let end = range.end.min(self.written.len());
            if let Some(areas) = self.written.get_mut(range.start..end) {
                areas.fill(self.now);
            }
        }
        if had_discards {
            self.discarded = self.now;
        }
    }

    /// Numbers the last minutes from 1 on.
    fn renumber(&mut self) {
        let dropped = self.now - LONGEST_MIN - 1;
        let renumbered = |minute: u16| minute.saturating_sub(dropped);
        self.written
            .iter_mut()
            .for_each(|minute| *minute = renumbered(*minute));
        self.discarded = renumbered(self.discarded);
        self.now -= dropped;
    }

    /// The curves of the areas themselves, and of all chunk sizes that are multiples of them; of a thin pool, of the areas
    /// alone.
    pub fn curve(&self, at: Timestamp) -> Curve {
        let measured = self.measured_min;
        let is_possible = |chunk: &u64| *chunk >= self.step && chunk.is_multiple_of(self.step);
        let mut sizes: Vec<u64> = CHUNKS.into_iter().filter(is_possible).collect();
        if self.is_thin {
            sizes.clear();
        }
        if !sizes.contains(&self.step) {
            sizes.insert(0, self.step);
        }
        let of_size = |bytes: u64| ChunkCurve {
            bytes,
            counts: self.counts(bytes),
            ..ChunkCurve::default()
        };
        Curve {
            at,
            is_thin: self.is_thin,
            measured_min: measured,
            discarded_min: (self.discarded > 0).then(|| u32::from(self.now - self.discarded)),
            chunks: sizes.into_iter().map(of_size).collect(),
        }
    }

    /// The chunks of so many bytes that were written within each age. A chunk was written if one of its areas was.
    fn counts(&self, bytes: u64) -> Vec<u64> {
        let areas = usize::try_from(bytes / self.step)
            .unwrap_or(usize::MAX)
            .max(1);
        // By the number of minutes since the last write.
        let mut by_age = [0_u64; LONGEST_MIN as usize];
        for chunk in self.written.chunks(areas) {
            let last = chunk.iter().copied().max().unwrap_or_default();
            if last > 0
                && let Some(count) = by_age.get_mut(usize::from(self.now - last))
            {
                *count += 1;
            }
        }
        let measured = AGES_MIN
            .iter()
            .take_while(|age| u32::from(**age) <= self.measured_min);
        measured
            .map(|age| by_age[..usize::from(*age)].iter().sum())
            .collect()
    }
}
