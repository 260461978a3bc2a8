//! The minute in which each area of a volume was last written, in two bytes. All ages follow from it at once: within the
//! last T minutes as many areas were written as were last written less than T minutes ago.

use std::ops::Range;

use jiff::Timestamp;

use crate::CHUNKS;
use crate::curve::{AGES_MIN, ChunkCurve, Curve};

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
