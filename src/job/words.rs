//! Numbers as diagnosis, advice and forecasts say them.

use super::statistics::Bounds;
use crate::units::{Prefix, bytes_text, three_figures};

/// `120 MB/s`.
pub fn speed(bytes_per_s: f64, prefix: Prefix) -> String {
    format!("{}/s", bytes_text(bytes_per_s, prefix))
}

/// Request sizes are powers of two and said so: `16.0 KiB`.
pub fn size(bytes: f64) -> String {
    bytes_text(bytes, Prefix::Binary)
}

/// Of a share from 0 to 1: `98 %`.
pub fn share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `9.00 ms`.
pub fn ms(ms: f64) -> String {
    format!("{} ms", three_figures(ms))
}

/// Of amounts that may be below 0: `1.20 MB/s to 2.40 MB/s`, the smaller first.
pub fn speeds(bounds: Bounds, prefix: Prefix) -> String {
    format!("{} to {}", speed(bounds.low, prefix), speed(bounds.high, prefix))
}
