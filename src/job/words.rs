//! Formats numbers for diagnosis, advice and forecasts.

use crate::units::{Prefix, bytes_text, three_figures};

/// `120 MB/s`.
pub fn speed(bytes_per_s: f64, prefix: Prefix) -> String {
    format!("{}/s", bytes_text(bytes_per_s, prefix))
}

/// In powers of two: `16.0 KiB`.
pub fn size(bytes: f64) -> String {
    bytes_text(bytes, Prefix::Binary)
}

/// A share from 0 to 1 as a percentage: `98 %`.
pub fn share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `9.00 ms`.
pub fn ms(ms: f64) -> String {
    format!("{} ms", three_figures(ms))
}
