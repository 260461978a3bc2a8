//! A vertical axis's upper end and labels, at distances people count in.

use super::unit::{Multiple, Unit, grouped};

/// Labels above zero at most; more make a grid that is looked at instead of the lines.
const MOST_STEPS: f64 = 5.0;
/// Pixels between two labels at least.
const LEAST_DISTANCE: f64 = 22.0;
/// No quantity here is larger; what claims to be is a mistake and must not break the arithmetic.
const LARGEST: f64 = 1e18;

/// From zero to `most`, labelled every `step`, in the axis's own unit.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub most: f64,
    step: f64,
    multiple: Multiple,
}

impl Scale {
    /// A scale on `height` pixels that holds `largest`, or ends at `fixed`.
    pub fn new(unit: Unit, fixed: Option<f64>, largest: Option<f64>, height: f64) -> Self {
        let fixed = fixed.filter(|most| most.is_finite() && *most > 0.0).map(|most| most.min(LARGEST));
        let wished = fixed.unwrap_or_else(|| largest.unwrap_or(0.0).clamp(unit.least(), LARGEST));
        let steps = (height / LEAST_DISTANCE).floor().clamp(2.0, MOST_STEPS);
        let step = if unit.is_binary() { power_of_two(wished / steps) } else { round_number(wished / steps) };
        let most = fixed.unwrap_or_else(|| (wished / step).ceil() * step);
        Self { most, step, multiple: unit.multiple(step) }
    }

    /// Where labels stand and what they say, from zero up.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let last = (self.most / self.step * (1.0 + 1e-9)).floor() as u32;
        let decimals = decimals(self.step / self.multiple.by);
        (0..=last)
            .map(|number| f64::from(number) * self.step)
            .map(|value| (value, grouped(value / self.multiple.by, if value == 0.0 { 0 } else { decimals })))
            .collect()
    }

    /// What the labels count.
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
