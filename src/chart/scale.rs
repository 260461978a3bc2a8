//! The upper end and the labels of a vertical axis, at round values. plotters steps in tens only; sizes are round in
//! powers of two.

use super::{Axis, Unit};
use crate::units::grouped;

/// Maximum number of labels above zero; more would distract from the lines.
const MAX_STEPS: f64 = 5.0;
/// Minimum distance of labels in pixels.
const MIN_DISTANCE: f64 = 22.0;
/// Upper limit of values, which keeps the arithmetic finite.
const MAX_VALUE: f64 = 1e18;

const SIZES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
const RATES: [&str; 5] = ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"];
const COUNTS: [&str; 4] = ["", "thousand", "million", "billion"];

/// From zero to `max`, labelled every `step`, in the axis's own unit.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub max: f64,
    step: f64,
    /// Labels show a value divided by this, in the unit of this name.
    divisor: f64,
    name: &'static str,
    unit: Unit,
}

impl Scale {
    /// A scale on `height` pixels that holds `largest`, if the axis has no fixed end.
    pub fn new(axis: Axis, largest: Option<f64>, height: f64) -> Self {
        let unit = axis.unit;
        let fixed = axis.max.filter(|max| max.is_finite() && *max > 0.0);
        let preferred = match fixed {
            Some(max) => max.min(MAX_VALUE),
            None => largest.unwrap_or(0.0).clamp(least(unit), MAX_VALUE),
        };
        let steps = (height / MIN_DISTANCE).floor().clamp(2.0, MAX_STEPS);
        let step = match unit {
            Unit::Bytes | Unit::BytesPerSecond => power_of_two(preferred / steps),
            _ => round_number(preferred / steps),
        };
        let max = match fixed {
            Some(_) => preferred,
            None => (preferred / step).ceil() * step,
        };
        let (divisor, name) = multiple(unit, step);
        Self {
            max,
            step,
            divisor,
            name,
            unit,
        }
    }

    /// The labelled values, from zero up, with their labels.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        // Rounding must not cost the last one.
        let last = (self.max / self.step * (1.0 + 1e-9)).floor() as u32;
        let decimals = decimals(self.step / self.divisor);
        let mut ticks = vec![(0.0, "0".to_owned())];
        for number in 1..=last {
            let value = f64::from(number) * self.step;
            ticks.push((value, grouped(value / self.divisor, decimals)));
        }
        ticks
    }

    /// Decimals of a value beside the axis: three figures at its upper end, but a percentage as tables have it.
    pub fn decimals(&self) -> usize {
        if matches!(self.unit, Unit::Percent | Unit::Share) {
            return 2;
        }
        match self.max / self.divisor {
            ..10.0 => 2,
            ..=100.0 => 1,
            _ => 0,
        }
    }

    /// A value in steps of its last decimal.
    pub fn steps(&self, value: f64) -> i64 {
        (value / self.divisor * 10_f64.powi(self.decimals() as i32)).round() as i64
    }

    /// A value in the unit of the labels: `3.12 MiB/s`.
    pub fn text(&self, value: f64) -> String {
        // Dividing by a part, as of percent, may exceed what is finite.
        let number = (value / self.divisor).clamp(f64::MIN, f64::MAX);
        let number = grouped(number, self.decimals());
        let text = format!("{number} {}", self.name);
        text.trim_end().to_string()
    }

    /// The unit of the labels.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// The minimum upper end of an axis, so that tiny values look tiny.
fn least(unit: Unit) -> f64 {
    match unit {
        Unit::Bytes | Unit::BytesPerSecond => 65_536.0,
        Unit::KibPerSecond => 50.0,
        Unit::Percent | Unit::PerSecond | Unit::Count => 1.0,
        Unit::Share => 0.01,
        Unit::Milliseconds => 0.1,
    }
}

/// The multiple of a unit, and its name, that gives labels at this `step` short, preferably whole numbers.
fn multiple(unit: Unit, step: f64) -> (f64, &'static str) {
    match unit {
        Unit::Bytes => largest_below(step, 1024.0, &SIZES),
        Unit::BytesPerSecond => largest_below(step, 1024.0, &RATES),
        // vmstat's unit as long as the labels fit beside the plot.
        Unit::KibPerSecond if step < 2e5 => (1.0, "KiB/s"),
        Unit::KibPerSecond if step < 2e8 => (1e3, "k KiB/s"),
        Unit::KibPerSecond => (1e6, "M KiB/s"),
        Unit::Percent => (1.0, "%"),
        Unit::Share => (0.01, "%"),
        Unit::Milliseconds if step >= 1000.0 => (1000.0, "s"),
        Unit::Milliseconds => (1.0, "ms"),
        Unit::PerSecond | Unit::Count => largest_below(step, 1000.0, &COUNTS),
    }
}

fn largest_below(step: f64, base: f64, names: &[&'static str]) -> (f64, &'static str) {
    let mut multiple = 1.0;
    let mut name = names[0];
    for larger in &names[1..] {
        if step < multiple * base {
            break;
        }
        multiple *= base;
        name = larger;
    }
    (multiple, name)
}

fn power_of_two(least: f64) -> f64 {
    least.log2().ceil().exp2()
}

/// The smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is not below `least`.
fn round_number(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let fits = |multiple: &f64| multiple * power >= least * (1.0 - 1e-9);
    [1.0, 2.0, 2.5, 5.0].into_iter().find(fits).unwrap_or(10.0) * power
}

/// As few decimals as write a step exactly, four at most.
fn decimals(step: f64) -> usize {
    for decimals in 0..4 {
        let shifted = step * 10_f64.powi(decimals);
        if (shifted - shifted.round()).abs() < 1e-6 {
            return decimals as usize;
        }
    }
    4
}
