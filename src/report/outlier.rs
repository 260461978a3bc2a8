//! Outliers among the runs of a set, and a first run with cold caches. Means include them.

use crate::job::statistics::{Sorted, mean};

/// With fewer runs, no outlier can be identified.
const LEAST_RUNS: usize = 5;
/// Iglewicz and Hoaglin, "How to Detect and Handle Outliers", ASQC, 1993: a modified z-score above 3.5.
const FAR: f64 = 3.5;
/// The median deviation of a normal distribution, in standard deviations.
const NORMAL_MEDIAN_DEVIATION: f64 = 0.6745;
/// The mean deviation of a normal distribution, in standard deviations.
const NORMAL_MEAN_DEVIATION: f64 = 0.7979;
/// The least deviation of an outlier: if the other runs agree closely, a small one is still ordinary.
const LEAST_DEVIATION: f64 = 0.05;
/// The least deviation of a run with cold caches.
const COLD: f64 = 0.1;

/// Whether a slow run has more or less of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    More,
    Less,
}

/// The indices of numbers that are far from the others.
pub fn outliers(numbers: &[f64]) -> Vec<usize> {
    (0..numbers.len())
        .filter(|place| numbers.len() >= LEAST_RUNS && is_far(*place, numbers, numbers, LEAST_DEVIATION))
        .collect()
}

/// Whether the first was much slower than all others, which agree.
pub fn is_cold_first(numbers: &[f64], slow: Slow) -> bool {
    let [first, others @ ..] = numbers else { return false };
    let is_slow = others.iter().all(|other| match slow {
        Slow::More => first > other,
        Slow::Less => first < other,
    });
    numbers.len() >= LEAST_RUNS && is_slow && is_far(0, numbers, others, COLD)
}

/// Whether a number is far from the median of others, and by more than a share of it.
fn is_far(place: usize, numbers: &[f64], others: &[f64], share: f64) -> bool {
    let Some(sorted) = Sorted::new(others.iter().copied()) else { return false };
    let off = (numbers[place] - sorted.median()).abs();
    off > share * sorted.median().abs() && off > FAR * deviation(&sorted)
}

/// The standard deviation if the distribution were normal. From the mean deviation if more than half of the numbers are
/// equal.
fn deviation(sorted: &Sorted) -> f64 {
    let median = sorted.median();
    match sorted.median_deviation() {
        typical if typical > 0.0 => typical / NORMAL_MEDIAN_DEVIATION,
        _ => {
            let offs: Vec<f64> = sorted.numbers().iter().map(|number| (number - median).abs()).collect();
            mean(&offs).unwrap_or_default() / NORMAL_MEAN_DEVIATION
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_unlike_the_others_is_found() {
        assert_eq!(outliers(&[100.0, 102.0, 99.0, 60.0, 101.0]), [3]);
        assert_eq!(outliers(&[100.0, 104.0, 96.0, 108.0, 92.0]), [0; 0]);
    }

    #[test]
    fn a_small_deviation_from_close_runs_is_no_outlier() {
        assert_eq!(outliers(&[100.0, 100.1, 99.9, 103.0, 100.0]), [0; 0]);
    }

    #[test]
    fn one_among_equal_runs_is_found() {
        let mut same = [100.0; 12];
        same[7] = 50.0;
        assert_eq!(outliers(&same), [7]);
        assert_eq!(outliers(&[100.0; 12]), [0; 0]);
    }

    #[test]
    fn few_runs_have_no_outlier() {
        assert_eq!((outliers(&[1.0, 1.0, 1.0, 9.0]).len(), outliers(&[]).len()), (0, 0));
    }

    #[test]
    fn a_first_run_over_empty_caches_is_cold() {
        let speeds = |first: f64| [first, 118.0, 121.0, 120.0, 119.0];
        assert!(is_cold_first(&speeds(60.0), Slow::Less));
        assert!(!is_cold_first(&speeds(115.0), Slow::Less));
        assert!(!is_cold_first(&speeds(200.0), Slow::Less) && is_cold_first(&speeds(200.0), Slow::More));
        assert!(!is_cold_first(&[118.0, 60.0, 121.0, 120.0, 119.0], Slow::Less));
        assert!(!is_cold_first(&[60.0, 118.0], Slow::Less) && !is_cold_first(&[], Slow::Less));
    }
}
