//! The upper end and the labels of a vertical axis, at round values.

use super::unit::Multiple;
use crate::quantity::Unit;
use crate::units::grouped;

/// Maximum number of labels above zero; more would distract from the lines.
const MAX_STEPS: f64 = 5.0;
/// Minimum distance of labels in pixels.
const MIN_DISTANCE: f64 = 22.0;
/// Upper limit of values, which keeps the arithmetic finite.
const MAX_VALUE: f64 = 1e18;

/// From zero to `max`, labelled every `step`, in the axis's own unit.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub max: f64,
    step: f64,
    multiple: Multiple,
}

impl Scale {
    /// A scale on `height` pixels that holds `largest`, or ends at `fixed`.
    pub fn new(unit: Unit, fixed: Option<f64>, largest: Option<f64>, height: f64) -> Self {
        let fixed = fixed
            .filter(|max| max.is_finite() && *max > 0.0)
            .map(|max| max.min(MAX_VALUE));
        let preferred =
            fixed.unwrap_or_else(|| largest.unwrap_or(0.0).clamp(unit.least(), MAX_VALUE));
        let steps = (height / MIN_DISTANCE).floor().clamp(2.0, MAX_STEPS);
        let step = if unit.is_binary() {
            power_of_two(preferred / steps)
        } else {
            round_number(preferred / steps)
        };
        let max = fixed.unwrap_or_else(|| (preferred / step).ceil() * step);
        Self {
            max,
            step,
            multiple: unit.multiple(step),
        }
    }

    /// Positions and texts of the labels, from zero up.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let last = (self.max / self.step * (1.0 + 1e-9)).floor() as u32;
        let decimals = decimals(self.step / self.multiple.by);
        (0..=last)
            .map(|number| f64::from(number) * self.step)
            .map(|value| {
                (
                    value,
                    grouped(
                        value / self.multiple.by,
                        if value == 0.0 { 0 } else { decimals },
                    ),
                )
            })
            .collect()
    }

    /// Decimals of a value beside the axis: three figures at its upper end.
    pub fn decimals(&self) -> usize {
        match self.max / self.multiple.by {
            ..10.0 => 2,
            ..=100.0 => 1,
            _ => 0,
        }
    }

    /// A value in steps of its last decimal.
    pub fn steps(&self, value: f64) -> i64 {
        (value / self.multiple.by * 10_f64.powi(self.decimals() as i32)).round() as i64
    }

    /// A value in the unit of the labels: `3.12 MiB/s`.
    pub fn text(&self, value: f64) -> String {
        let number = grouped(
            (value / self.multiple.by).clamp(f64::MIN, f64::MAX),
            self.decimals(),
        );
        format!("{number} {}", self.multiple.name)
            .trim_end()
            .to_string()
    }

    /// The unit of the labels.
    pub fn name(&self) -> &'static str {
        self.multiple.name
    }
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

fn decimals(step: f64) -> usize {
    let whole_with = |decimals: &usize| {
        let shifted = step * 10_f64.powi(*decimals as i32);
        (shifted - shifted.round()).abs() < 1e-6
    };
    (0..=4).find(whole_with).unwrap_or(4)
}
