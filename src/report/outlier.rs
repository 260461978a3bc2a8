//! Runs that are unlike the others of their set, and a first run that was cold. They are named, never left out.

use crate::job::statistics::{Sorted, mean};

/// Of fewer, which one is the odd one out is anybody's guess.
const LEAST_RUNS: usize = 5;
/// Iglewicz and Hoaglin, "How to Detect and Handle Outliers", ASQC, 1993: a modified z-score above 3.5.
const FAR: f64 = 3.5;
/// The median deviation of a normal distribution, in standard deviations.
const NORMAL_MEDIAN_DEVIATION: f64 = 0.6745;
/// The mean deviation of a normal distribution, in standard deviations.
const NORMAL_MEAN_DEVIATION: f64 = 0.7979;
/// Runs that agree to the thousandth make any other look far; a twentieth is worth a word.
const WORTH_A_WORD: f64 = 0.05;
/// Caches that were empty cost more than that.
const COLD: f64 = 0.1;

/// Which way a figure goes when a run is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    More,
    Less,
}

/// Places of numbers that lie far from the others.
pub fn outliers(numbers: &[f64]) -> Vec<usize> {
    (0..numbers.len())
        .filter(|place| numbers.len() >= LEAST_RUNS && is_far(*place, numbers, numbers, WORTH_A_WORD))
        .collect()
}

/// Whether the first was slower by far than those that came after it, which agree with one another.
pub fn is_cold_first(numbers: &[f64], slow: Slow) -> bool {
    let [first, others @ ..] = numbers else { return false };
    let is_slow = others.iter().all(|other| match slow {
        Slow::More => first > other,
        Slow::Less => first < other,
    });
    numbers.len() >= LEAST_RUNS && is_slow && is_far(0, numbers, others, COLD)
}

/// Whether a number lies far from the middle of some, and by more than a share of it.
fn is_far(place: usize, numbers: &[f64], others: &[f64], share: f64) -> bool {
    let Some(sorted) = Sorted::new(others.iter().copied()) else { return false };
    let off = (numbers[place] - sorted.median()).abs();
    off > share * sorted.median().abs() && off > FAR * deviation(&sorted)
}

/// In standard deviations of a normal distribution; where more than half of the numbers are the same the mean tells of
/// the rest.
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
    fn runs_that_agree_closely_do_not_make_a_near_one_far() {
        assert_eq!(outliers(&[100.0, 100.1, 99.9, 103.0, 100.0]), [0; 0]);
    }

    #[test]
    fn one_among_the_same_is_found() {
        let mut same = [100.0; 12];
        same[7] = 50.0;
        assert_eq!(outliers(&same), [7]);
        assert_eq!(outliers(&[100.0; 12]), [0; 0]);
    }

    #[test]
    fn few_runs_have_no_odd_one() {
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
