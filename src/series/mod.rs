//! One quantity over time: what job, store and chart share.
//!
//! A `Thinner` takes one observation per tick and gives at most a wished number of points, each with the smallest,
//! mean and largest of what it covers. Sums are kept, not rates, so a mean over many ticks is exact.

pub mod quantity;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Points per series that are given when nothing else is asked for; a chart is about as many pixels wide.
pub const DEFAULT_POINTS: usize = 600;
/// Points per series at most: what a browser draws without effort, and half a megabyte of JSON.
pub const MOST_POINTS: usize = 10_000;

/// What a point of time says of one quantity. `None` where nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Point {
    /// The end of what the point covers.
    #[schema(value_type = String, format = DateTime)]
    pub t: Timestamp,
    pub min: Option<f64>,
    pub avg: Option<f64>,
    pub max: Option<f64>,
}

/// One quantity of one subject, in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub points: Vec<Point>,
}

/// One tick's word on a quantity: `amount` per `over`.
///
/// A rate is bytes over seconds, a latency milliseconds over requests, a gauge its value over one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    pub amount: f64,
    pub over: f64,
}

impl Observation {
    /// `None` where there is nothing to divide by: no time has passed, or no request was made.
    pub fn ratio(amount: f64, over: f64) -> Option<Self> {
        (over > 0.0).then_some(Self { amount, over })
    }

    pub fn gauge(value: f64) -> Self {
        Self { amount: value, over: 1.0 }
    }

    pub fn value(self) -> f64 {
        self.amount / self.over
    }
}

/// A span of time, from its first instant to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub from: Timestamp,
    pub to: Timestamp,
}

impl Range {
    pub fn seconds(self) -> f64 {
        (self.to.as_millisecond() - self.from.as_millisecond()) as f64 / 1000.0
    }

    pub fn contains(self, at: Timestamp) -> bool {
        self.from <= at && at <= self.to
    }
}

/// Collects ticks into at most `points` points of equal width in time.
#[derive(Debug)]
pub struct Thinner {
    range: Range,
    points: usize,
    done: Vec<Point>,
    open: Option<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    number: i64,
    last_at: Timestamp,
    sum: f64,
    over: f64,
    min: f64,
    max: f64,
}

impl Thinner {
    pub fn new(range: Range, points: usize) -> Self {
        Self { range, points: points.clamp(1, MOST_POINTS), done: Vec::new(), open: None }
    }

    /// Takes the next tick; ticks come in the order of time, those outside of the range are passed over.
    pub fn push(&mut self, at: Timestamp, observation: Option<Observation>) {
        if !self.range.contains(at) {
            return;
        }
        let number = self.bucket_of(at);
        if self.open.as_ref().is_none_or(|open| open.number != number) {
            self.seal();
            self.open = Some(Bucket::empty(number, at));
        }
        if let Some(open) = &mut self.open {
            open.add(at, observation);
        }
    }

    pub fn finish(mut self) -> Series {
        self.seal();
        Series { points: self.done }
    }

    fn bucket_of(&self, at: Timestamp) -> i64 {
        let (from, to) = (self.range.from.as_millisecond(), self.range.to.as_millisecond());
        let width = i128::from(to - from + 1);
        let number = i128::from(at.as_millisecond() - from) * self.points as i128 / width;
        i64::try_from(number).unwrap_or(i64::MAX)
    }

    fn seal(&mut self) {
        self.done.extend(self.open.take().map(|bucket| bucket.point()));
    }
}

impl Bucket {
    fn empty(number: i64, at: Timestamp) -> Self {
        Self { number, last_at: at, sum: 0.0, over: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }

    fn add(&mut self, at: Timestamp, observation: Option<Observation>) {
        self.last_at = at;
        if let Some(seen) = observation {
            self.sum += seen.amount;
            self.over += seen.over;
            self.min = self.min.min(seen.value());
            self.max = self.max.max(seen.value());
        }
    }

    fn point(&self) -> Point {
        let known = self.over > 0.0;
        let when_known = |value: f64| known.then_some(value);
        Point {
            t: self.last_at,
            min: when_known(self.min),
            avg: when_known(self.sum / self.over),
            max: when_known(self.max),
        }
    }
}
