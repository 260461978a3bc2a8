//! One quantity over time. A `Downsampler` reduces ticks to a given number of points, each with minimum, mean and
//! maximum. It stores sums, not rates, so means are exact.

pub mod when;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::quantity::Extent;

/// Default number of points per series, about the width of a chart in pixels.
pub const DEFAULT_POINTS: usize = 600;
/// Maximum points per series: half a megabyte of JSON.
pub const MOST_POINTS: usize = 10_000;

/// One point of a quantity. `None` where nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Point {
    /// The end of the time that the point covers.
    pub t: Timestamp,
    pub min: Option<f64>,
    pub avg: Option<f64>,
    pub max: Option<f64>,
}

/// Points of one quantity of one subject, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub points: Vec<Point>,
}

/// A range of time; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub from: Timestamp,
    pub to: Timestamp,
}

impl Range {
    pub fn new(from: Timestamp, to: Timestamp) -> Self {
        Self { from, to }
    }

    pub fn seconds(self) -> f64 {
        (self.to.as_millisecond() - self.from.as_millisecond()) as f64 / 1000.0
    }

    pub fn contains(self, at: Timestamp) -> bool {
        self.from <= at && at <= self.to
    }

    /// So many seconds later, or earlier.
    pub fn moved(self, seconds: f64) -> Self {
        Self {
            from: saturating_add_seconds(self.from, seconds),
            to: saturating_add_seconds(self.to, seconds),
        }
    }
}

impl Series {
    /// So many seconds later, or earlier.
    pub fn moved(mut self, seconds: f64) -> Self {
        for point in &mut self.points {
            point.t = saturating_add_seconds(point.t, seconds);
        }
        self
    }
}

/// So many seconds later, or earlier. It saturates, since some forecasts are years ahead.
pub fn saturating_add_seconds(at: Timestamp, seconds: f64) -> Timestamp {
    let ms = (seconds * 1000.0) as i64;
    let later = Timestamp::from_millisecond(at.as_millisecond().saturating_add(ms));
    let end = if ms < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    later.unwrap_or(end)
}

/// Reduces ticks to at most `points` points of equal width.
#[derive(Debug)]
pub struct Downsampler {
    range: Range,
    points: usize,
    /// In order of time.
    buckets: Vec<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    span_ms: std::ops::Range<i64>,
    last_ms: i64,
    sum: f64,
    over: f64,
    min: f64,
    max: f64,
}

impl Downsampler {
    pub fn new(range: Range, points: usize) -> Self {
        Self {
            range,
            points: points.clamp(1, MOST_POINTS),
            buckets: Vec::new(),
        }
    }

    /// The width of a point in milliseconds.
    pub fn width_ms(&self) -> i64 {
        self.length_ms() / i64::try_from(self.points).unwrap_or(i64::MAX)
    }

    /// Adds one or more ticks that ended at `at_ms` since 1970. Ignores ticks outside the range. Fastest in order of time.
    pub fn push(&mut self, at_ms: i64, value: Option<Extent>) {
        if let Some(last) = self
            .buckets
            .last_mut()
            .filter(|last| last.span_ms.contains(&at_ms))
        {
            return last.add(at_ms, value);
        }
        if !(self.range.from.as_millisecond()..=self.range.to.as_millisecond()).contains(&at_ms) {
            return;
        }
        let span_ms = self.span_of(at_ms);
        let place = self
            .buckets
            .binary_search_by_key(&span_ms.start, |bucket| bucket.span_ms.start);
        let index = place.unwrap_or_else(|index| {
            self.buckets.insert(index, Bucket::empty(span_ms, at_ms));
            index
        });
        self.buckets[index].add(at_ms, value);
    }

    pub fn finish(self) -> Series {
        Series {
            points: self
                .buckets
                .into_iter()
                .map(|bucket| bucket.point())
                .collect(),
        }
    }

    fn length_ms(&self) -> i64 {
        self.range.to.as_millisecond() - self.range.from.as_millisecond() + 1
    }

    /// The time range of the point that contains this instant.
    fn span_of(&self, at_ms: i64) -> std::ops::Range<i64> {
        let (from_ms, points, length_ms) = (
            self.range.from.as_millisecond(),
            self.points as i64,
            self.length_ms(),
        );
        // No product overflows: all milliseconds that jiff knows, times MOST_POINTS, are 6.4e18.
        let number = (at_ms - from_ms) * points / length_ms;
        let start_of = |number: i64| from_ms + (number * length_ms + points - 1) / points;
        start_of(number)..start_of(number + 1)
    }
}

impl Bucket {
    fn empty(span_ms: std::ops::Range<i64>, last_ms: i64) -> Self {
        Self {
            span_ms,
            last_ms,
            sum: 0.0,
            over: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }

    fn add(&mut self, at_ms: i64, value: Option<Extent>) {
        self.last_ms = self.last_ms.max(at_ms);
        if let Some(Extent { all, min, max }) = value {
            self.sum += all.amount as f64 * all.scale;
            self.over += all.over as f64;
            self.min = self.min.min(min);
            self.max = self.max.max(max);
        }
    }

    fn point(&self) -> Point {
        let known = self.over > 0.0;
        let when_known = |value: f64| known.then_some(value);
        Point {
            t: Timestamp::from_millisecond(self.last_ms).unwrap_or_default(),
            min: when_known(self.min),
            avg: when_known(self.sum / self.over),
            max: when_known(self.max),
        }
    }
}
