//! How axes are labelled in each unit.

use crate::quantity::Unit;

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
    /// Whether steps are powers of two.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Bytes | Self::BytesPerSecond)
    }

    /// The minimum upper end of an axis, so that tiny values look tiny.
    pub fn least(self) -> f64 {
        match self {
            Self::Bytes | Self::BytesPerSecond => 65_536.0,
            Self::KibPerSecond => 50.0,
            Self::Percent | Self::PerSecond | Self::Count => 1.0,
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
            Self::PerSecond | Self::Count => largest_below(step, 1000.0, &COUNTS),
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
