//! Positions in time that do not depend on where a chart begins.
//!
//! A chart drawn a second later is then the same one, shifted by whole pixels, and only its ends have to be sent.

use crate::series::Range;

const TENTHS: f64 = 10.0;
/// Width of the columns of an envelope in pixels; a narrower one would make the SVG long.
const COLUMN: f64 = 3.0;
/// Distance of origins in pixels.
const ORIGINS: f64 = 4_000.0;

/// Pixels since 1970, at the scale of a chart.
#[derive(Clone, Copy)]
pub struct Grid {
    /// In seconds.
    pixel: f64,
    /// Seconds since 1970.
    from: f64,
    /// The first pixel.
    start: f64,
}

impl Grid {
    /// A pixel is this many seconds.
    pub fn new(range: Range, pixel: f64) -> Self {
        let from = range.from.as_millisecond() as f64 / 1000.0;
        Self {
            pixel,
            from,
            start: (from / pixel).round(),
        }
    }

    /// The nearest tenth of a pixel; both in seconds from the start of the range.
    pub fn nearest(&self, at: f64) -> f64 {
        let pixels = ((self.from + at) / self.pixel * TENTHS).round() / TENTHS;
        (pixels - self.start).max(0.0) * self.pixel
    }

    /// Where the chart begins, and a place, in tenths of a pixel from the same origin, which seldom moves. The place is in
    /// seconds from the start of the range.
    pub fn anchored(&self, at: f64) -> (i32, i32) {
        let origin = (self.start / ORIGINS).floor() * ORIGINS;
        let tenths = |pixels: f64| (pixels * TENTHS).round() as i32;
        (
            tenths(self.start - origin),
            tenths((self.from + at) / self.pixel - origin),
        )
    }

    /// The number of the column with a place from `nearest`.
    pub fn column(&self, at: f64) -> i64 {
        // Between two tenths, since the place itself is not exact.
        ((self.start + at / self.pixel + 0.5 / TENTHS) / COLUMN).floor() as i64
    }
}
