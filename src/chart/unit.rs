//! Units of axes and of values in the legend.

use crate::units::{Prefix, bytes_text, three_figures};

/// The unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    BytesPerSecond(Prefix),
    /// KiB per second, as in `vmstat`'s `bi` and `bo`.
    KibPerSecond,
    /// Values from 0 to 100.
    Percent,
    /// Values from 0 to 1, shown as percent.
    Share,
    Milliseconds,
    Count,
    /// Requests per second.
    Requests,
}

/// A multiple of the unit: labels show `value / by`, with `name` above them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Multiple {
    pub by: f64,
    pub name: &'static str,
}

const BINARY: [&str; 5] = ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"];
const DECIMAL: [&str; 5] = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
const COUNTS: [&str; 4] = ["", "thousand", "million", "billion"];
const REQUESTS: [&str; 4] = ["req/s", "k req/s", "M req/s", "G req/s"];

impl Unit {
    /// A value for display: `312 MiB/s`, `41.0 %`.
    pub fn value_text(self, value: f64) -> String {
        match self {
            Self::BytesPerSecond(prefix) => format!("{}/s", bytes_text(value, prefix)),
            Self::KibPerSecond => format!("{} KiB/s", grouped(value, 0)),
            Self::Percent => format!("{value:.1} %"),
            Self::Share => format!("{:.1} %", value * 100.0),
            Self::Milliseconds => format!("{} ms", three_figures(value)),
            Self::Count => counted(value),
            Self::Requests => format!("{} req/s", counted(value)),
        }
    }

    /// Whether steps are powers of two.
    pub fn is_binary(self) -> bool {
        self == Self::BytesPerSecond(Prefix::Binary)
    }

    /// The minimum upper end of an axis, so that tiny values look tiny.
    pub fn least(self) -> f64 {
        match self {
            Self::BytesPerSecond(Prefix::Binary) => 65_536.0,
            Self::BytesPerSecond(Prefix::Decimal) => 50_000.0,
            Self::KibPerSecond => 50.0,
            Self::Percent | Self::Count => 1.0,
            Self::Share => 0.01,
            Self::Milliseconds => 0.1,
            Self::Requests => 5.0,
        }
    }

    /// The multiple that gives labels at this `step` short, preferably whole numbers.
    pub fn multiple(self, step: f64) -> Multiple {
        match self {
            Self::BytesPerSecond(Prefix::Binary) => largest_below(step, 1024.0, &BINARY),
            Self::BytesPerSecond(Prefix::Decimal) => largest_below(step, 1000.0, &DECIMAL),
            // Uses vmstat's unit as long as the labels fit beside the plot.
            Self::KibPerSecond if step < 2e5 => Multiple { by: 1.0, name: "KiB/s" },
            Self::KibPerSecond if step < 2e8 => Multiple { by: 1e3, name: "k KiB/s" },
            Self::KibPerSecond => Multiple { by: 1e6, name: "M KiB/s" },
            Self::Percent => Multiple { by: 1.0, name: "%" },
            Self::Share => Multiple { by: 0.01, name: "%" },
            Self::Milliseconds if step >= 1000.0 => Multiple { by: 1000.0, name: "s" },
            Self::Milliseconds => Multiple { by: 1.0, name: "ms" },
            Self::Count => largest_below(step, 1000.0, &COUNTS),
            Self::Requests => largest_below(step, 1000.0, &REQUESTS),
        }
    }
}

fn largest_below(step: f64, base: f64, names: &[&'static str]) -> Multiple {
    let mut multiple = Multiple { by: 1.0, name: names[0] };
    for &name in &names[1..] {
        if step < multiple.by * base {
            break;
        }
        multiple = Multiple { by: multiple.by * base, name };
    }
    multiple
}

fn counted(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 100.0 { grouped(value, 0) } else { three_figures(value) }
}

/// A number with commas between thousands.
pub fn grouped(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let digits = plain.find('.').unwrap_or(plain.len());
    let first = usize::from(plain.starts_with('-'));
    let mut text = String::with_capacity(plain.len() + digits / 3);
    for (place, character) in plain.char_indices() {
        if place > first && place < digits && (digits - place) % 3 == 0 {
            text.push(',');
        }
        text.push(character);
    }
    text
}
