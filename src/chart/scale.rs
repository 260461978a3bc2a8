//! The ends and the labels of a vertical axis, at round values. plotters steps in tens only; sizes are round in powers of
//! two.

use super::{Axis, Unit};
use crate::units::grouped;

/// Maximum number of labels above zero; more would distract from the lines.
const MAX_STEPS: f64 = 5.0;
/// Minimum distance of labels in pixels.
const MIN_DISTANCE: f64 = 22.0;
/// Upper limit of values, which keeps the arithmetic finite.
const MAX_VALUE: f64 = 1e18;

/// An axis shows at least so many significant figures of a value that is small on it, but not more decimals than these.
const LEAST_STEPS: f64 = 10.0;
const MOST_DECIMALS: usize = 6;

const SIZES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
const RATES: [&str; 5] = ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"];
const COUNTS: [&str; 4] = ["", "thousand", "million", "billion"];

/// What an axis has to hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reach {
    pub highest: Option<f64>,
    /// How far lines reach that are drawn downwards.
    pub below: f64,
    /// The smallest and the largest value, if they are decades apart: then the axis is logarithmic.
    pub decades: Option<(f64, f64)>,
}

impl Reach {
    pub fn up_to(highest: Option<f64>) -> Self {
        Self {
            highest,
            ..Self::default()
        }
    }
}

/// From `min` to `max`, labelled every `step`, in the axis's own unit.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Zero; below zero with lines that are drawn downwards; above zero on a logarithmic axis.
    pub min: f64,
    pub max: f64,
    /// A factor on a logarithmic axis.
    step: f64,
    /// Labels show a value divided by this, in the unit of this name.
    divisor: f64,
    name: &'static str,
    unit: Unit,
}

impl Scale {
    /// A scale on `height` pixels that holds `reach`, if the axis has no fixed end.
    pub fn new(axis: Axis, reach: Reach, height: f64) -> Self {
        let unit = axis.unit;
        let steps = (height / MIN_DISTANCE).floor().clamp(2.0, MAX_STEPS);
        if let Some((smallest, largest)) = reach.decades {
            let first = smallest.min(MAX_VALUE).log10().floor();
            let decades = (largest.min(MAX_VALUE).log10().ceil() - first).max(1.0);
            let decades_a_step = (decades / steps).ceil();
            let labels = (decades / decades_a_step).ceil();
            return Self {
                min: 10_f64.powi(first as i32),
                max: 10_f64.powi((first + labels * decades_a_step) as i32),
                step: 10_f64.powi(decades_a_step as i32),
                divisor: 1.0,
                name: multiple(unit, 1.0).1,
                unit,
            };
        }
        let fixed = axis.max.filter(|max| max.is_finite() && *max > 0.0);
        let preferred = match fixed {
            Some(max) => max.min(MAX_VALUE),
            None => reach.highest.unwrap_or(0.0).clamp(least(unit), MAX_VALUE),
        };
        let below = reach.below.clamp(0.0, MAX_VALUE);
        let least = (preferred + below) / steps;
        let step = match unit {
            Unit::Bytes | Unit::BytesPerSecond => power_of_two(least),
            _ => round_number(least),
        };
        let max = match fixed {
            Some(_) => preferred,
            None => (preferred / step).ceil() * step,
        };
        let (divisor, name) = multiple(unit, step);
        Self {
            min: -(below / step).ceil() * step,
            max,
            step,
            divisor,
            name,
            unit,
        }
    }

    /// The labelled values, from the lowest up, with their labels. What is drawn downwards is not negative.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let label = |value: f64, step: f64| {
            let decimals = decimals(step / self.divisor);
            grouped(value.abs() / self.divisor, decimals)
        };
        if self.is_logarithmic() {
            let [first, last, step] =
                [self.min, self.max, self.step].map(|end| end.log10().round());
            let powers = (first as i32..=last as i32).step_by(step as usize);
            let values = powers.map(|power| 10_f64.powi(power));
            return values.map(|value| (value, label(value, value))).collect();
        }
        // Rounding must not cost the last one.
        let last = (self.max / self.step * (1.0 + 1e-9)).floor() as i32;
        let first = (self.min / self.step).round() as i32;
        let mut ticks = Vec::new();
        for number in first..=last {
            let value = f64::from(number) * self.step;
            let label = match number {
                0 => "0".to_owned(),
                _ => label(value, self.step),
            };
            ticks.push((value, label));
        }
        ticks
    }

    pub fn is_logarithmic(&self) -> bool {
        self.min > 0.0
    }

    /// Where the axis of time lies: at zero, or at the lower end.
    pub fn base(&self) -> f64 {
        self.min.max(0.0)
    }

    /// How far up a value lies, in a measure of the scale's own. What is beyond an end lies on it.
    pub fn position(&self, value: f64) -> f64 {
        let inside = value.clamp(self.min, self.max);
        if self.is_logarithmic() {
            inside.log10()
        } else {
            inside
        }
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

    /// A value in steps of the last decimal; a small one keeps two significant figures.
    pub fn steps(&self, value: f64) -> f64 {
        let (number, decimals) = self.number(value);
        let last = 10_f64.powi(self.decimals() as i32);
        let finer = 10_f64.powi(decimals.saturating_sub(self.decimals()) as i32);
        (number * last * finer).round() / finer
    }

    /// A value in the unit of the labels: `3.12 MiB/s`. A small one keeps two significant figures: `0.063 MiB/s`.
    pub fn text(&self, value: f64) -> String {
        let (number, decimals) = self.number(value);
        let text = format!("{} {}", grouped(number, decimals), self.name);
        text.trim_end().to_string()
    }

    /// A value in the unit of the labels, and its decimals.
    fn number(&self, value: f64) -> (f64, usize) {
        // Dividing by a part, as of percent, may exceed what is finite.
        let number = (value / self.divisor).clamp(f64::MIN, f64::MAX);
        let mut decimals = self.decimals();
        if matches!(self.unit, Unit::Percent | Unit::Share) {
            return (number, decimals);
        }
        if number == 0.0 {
            return (number, 0);
        }
        while number.abs() * 10_f64.powi(decimals as i32) < LEAST_STEPS && decimals < MOST_DECIMALS
        {
            decimals += 1;
        }
        (number, decimals)
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
