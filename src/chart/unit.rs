//! Units of axes and of values in the legend.

use crate::units::{Prefix, bytes_text, grouped, number_text, three_figures};

/// The unit of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// In multiples of 1024.
    Bytes,
    /// In multiples of 1024.
    BytesPerSecond,
    /// KiB per second, as in `vmstat`'s `bi` and `bo`.
    KibPerSecond,
    /// Values from 0 to 100.
    Percent,
    /// Values from 0 to 1, shown as percent.
    Share,
    Milliseconds,
    #[default]
    Count,
}

/// A multiple of the unit: labels show `value / by`, with `name` above them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Multiple {
    pub by: f64,
    pub name: &'static str,
}

const SIZES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
const BYTES: [&str; 5] = ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"];
const COUNTS: [&str; 4] = ["", "thousand", "million", "billion"];

impl Unit {
    /// A value for display: `312 MiB/s`, `41.0 %`.
    pub fn value_text(self, value: f64) -> String {
        match self {
            Self::Bytes => bytes_text(value, Prefix::Binary),
            Self::BytesPerSecond => format!("{}/s", bytes_text(value, Prefix::Binary)),
            Self::KibPerSecond => format!("{} KiB/s", grouped(value, 0)),
            Self::Percent => format!("{value:.1} %"),
            Self::Share => format!("{:.1} %", (value * 100.0).clamp(f64::MIN, f64::MAX)),
            Self::Milliseconds => format!("{} ms", three_figures(value)),
            Self::Count => number_text(value),
        }
    }

    /// Whether steps are powers of two.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Bytes | Self::BytesPerSecond)
    }

    /// The minimum upper end of an axis, so that tiny values look tiny.
    pub fn least(self) -> f64 {
        match self {
            Self::Bytes | Self::BytesPerSecond => 65_536.0,
            Self::KibPerSecond => 50.0,
            Self::Percent | Self::Count => 1.0,
            Self::Share => 0.01,
            Self::Milliseconds => 0.1,
        }
    }

    /// The multiple that gives labels at this `step` short, preferably whole numbers.
    pub fn multiple(self, step: f64) -> Multiple {
        match self {
            Self::Bytes => largest_below(step, 1024.0, &SIZES),
            Self::BytesPerSecond => largest_below(step, 1024.0, &BYTES),
            // Uses vmstat's unit as long as the labels fit beside the plot.
            Self::KibPerSecond if step < 2e5 => Multiple {
                by: 1.0,
                name: "KiB/s",
            },
            Self::KibPerSecond if step < 2e8 => Multiple {
                by: 1e3,
                name: "k KiB/s",
            },
            Self::KibPerSecond => Multiple {
                by: 1e6,
                name: "M KiB/s",
            },
            Self::Percent => Multiple { by: 1.0, name: "%" },
            Self::Share => Multiple {
                by: 0.01,
                name: "%",
            },
            Self::Milliseconds if step >= 1000.0 => Multiple {
                by: 1000.0,
                name: "s",
            },
            Self::Milliseconds => Multiple {
                by: 1.0,
                name: "ms",
            },
            Self::Count => largest_below(step, 1000.0, &COUNTS),
        }
    }
}

fn largest_below(step: f64, base: f64, names: &[&'static str]) -> Multiple {
    let mut multiple = Multiple {
        by: 1.0,
        name: names[0],
    };
    for &name in &names[1..] {
        if step < multiple.by * base {
            break;
        }
        multiple = Multiple {
            by: multiple.by * base,
            name,
        };
    }
    multiple
}
