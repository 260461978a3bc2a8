//! Known values, empty and flat series, and how often chance is taken for more.

use super::*;

fn close(found: f64, expected: f64, within: f64) {
    assert!(
        (found - expected).abs() <= within,
        "expected {expected}, but found {found}"
    );
}

fn sorted(numbers: &[f64]) -> Sorted {
    Sorted::new(numbers.iter().copied()).unwrap()
}

/// 7.2.6.2 of the NIST/SEMATECH e-Handbook of Statistical Methods; by hand, place 0.9 * 11 = 9.9 from 0.
#[test]
fn percentiles_are_those_of_definition_seven() {
    let gauge = [
        95.1772, 95.1567, 95.1937, 95.1959, 95.1442, 95.0610, 95.1591, 95.1195, 95.1065, 95.0925,
        95.1990, 95.1682,
    ];
    close(
        sorted(&gauge).percentile(0.9),
        95.1937 + 0.9 * (95.1959 - 95.1937),
        1e-9,
    );
    // As R's quantile(1:10) has it.
    let ten = sorted(&[10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
    assert_eq!(
        [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| ten.percentile(share)),
        [1.0, 3.25, 5.5, 7.75, 10.0]
    );
    assert_eq!(sorted(&[7.0]).percentile(0.95), 7.0);
}

/// NIST's Statistical Reference Datasets: NumAcc1, and NumAcc4, which has 1,001 numbers.
#[test]
fn small_differences_of_large_numbers_are_kept() {
    let first = Moments::of(&[10_000_001.0, 10_000_003.0, 10_000_002.0]).unwrap();
    assert_eq!((first.mean, first.sd), (10_000_002.0, Some(1.0)));
    let turn = |index: usize| {
        if index % 2 == 1 {
            10_000_000.1
        } else {
            10_000_000.3
        }
    };
    let numbers: Vec<f64> = std::iter::once(10_000_000.2)
        .chain((1..=1000).map(turn))
        .collect();
    let fourth = Moments::of(&numbers).unwrap();
    close(fourth.mean, 10_000_000.2, 1e-7);
    close(fourth.sd.unwrap(), 0.1, 1e-8);
}

/// NIST's Statistical Reference Datasets: Norris, slope 1.00211681802045.
#[test]
fn the_slope_is_that_of_a_certified_regression() {
    #[rustfmt::skip]
    let pairs = [
        (0.2, 0.1),
        (337.4, 338.8),
        (118.2, 118.1),
        (884.6, 888.0),
        (10.1, 9.2),
        (226.5, 228.1),
        (666.3, 668.5),
        (996.3, 998.5),
        (448.6, 449.1),
        (777.0, 778.9),
        (558.2, 559.2),
        (0.4, 0.3),
        (0.6, 0.1),
        (775.5, 778.1),
        (666.9, 668.8),
        (338.0, 339.3),
        (447.5, 448.9),
        (11.6, 10.8),
        (556.0, 557.7),
        (228.1, 228.3),
        (995.8, 998.0),
        (887.6, 888.8),
        (120.2, 119.6),
        (0.3, 0.3),
        (0.3, 0.6),
        (556.8, 557.6),
        (339.1, 339.3),
        (887.2, 888.0),
        (999.0, 998.5),
        (779.0, 778.9),
        (11.1, 10.2),
        (118.3, 117.6),
        (229.2, 228.9),
        (669.1, 668.4),
        (448.9, 449.2),
        (0.5, 0.2),
    ];
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    close(slope(&x, &y).unwrap(), 1.002_116_818_020_45, 1e-12);
}

/// By hand: the sum of squared differences of ranks is 194, so 1 - 6 * 194 / 990. The numbers are those of the worked
/// example in Wikipedia's article on Spearman's coefficient.
#[test]
fn the_rank_correlation_is_that_of_a_worked_example() {
    let iq = [
        106.0, 100.0, 86.0, 101.0, 99.0, 103.0, 97.0, 113.0, 112.0, 110.0,
    ];
    let hours = [7.0, 27.0, 2.0, 50.0, 28.0, 29.0, 20.0, 12.0, 6.0, 17.0];
    close(rank_correlation(&iq, &hours).unwrap(), -29.0 / 165.0, 1e-12);
}

/// By hand: ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4 give 4.5 / sqrt(4.5 * 5).
#[test]
fn equal_numbers_share_the_mean_of_their_ranks() {
    let rank = rank_correlation(&[1.0, 2.0, 2.0, 3.0], &[1.0, 3.0, 2.0, 4.0]).unwrap();
    close(rank, 4.5 / 22.5_f64.sqrt(), 1e-12);
}

/// The tables' values: t(0.975; 1, 2, 3, 4, 10, 30, infinite).
#[test]
fn students_t_agrees_with_the_table() {
    for (freedom, expected) in [
        (1.0, 12.706),
        (2.0, 4.303),
        (3.0, 3.182),
        (4.0, 2.776),
        (10.0, 2.228),
        (30.0, 2.042),
        (1e9, 1.960),
    ] {
        close(student_975(freedom), expected, 0.005);
    }
    assert!(student_975(f64::INFINITY).is_finite());
}

#[test]
fn empty_input_has_no_result() {
    assert_eq!(Sorted::new([]), None);
    assert_eq!(Sorted::new([f64::NAN, f64::INFINITY]), None);
    assert_eq!((Moments::of(&[]), mean(&[])), (None, None));
    assert_eq!(
        Moments::of(&[3.0]),
        Some(Moments {
            n: 1,
            mean: 3.0,
            sd: None
        })
    );
    assert_eq!((slope(&[], &[]), rank_correlation(&[], &[])), (None, None));
    assert_eq!(relation(&[], &[]), Relation::TooFew { n: 0 });
    assert_eq!(
        (
            independent(&[]),
            independent(&[1.0]),
            independent(&[2.0; 50])
        ),
        (0.0, 1.0, 50.0)
    );
    assert_eq!(
        (ratio_of_means(&[], &[1.0]), ratio_of_means(&[1.0], &[0.0])),
        (None, None)
    );
}

#[test]
fn few_and_constant_pairs_have_no_correlation() {
    let rising: Vec<f64> = (0..40).map(f64::from).collect();
    assert_eq!(
        relation(&rising[..19], &rising[..19]),
        Relation::TooFew { n: 19 }
    );
    assert_eq!(relation(&rising, &[5.0; 40]), Relation::Unvaried { n: 40 });
    assert_eq!(relation(&[5.0; 40], &rising), Relation::Unvaried { n: 40 });
}

#[test]
fn a_straight_line_has_rank_correlation_one() {
    let x: Vec<f64> = (0..100).map(f64::from).collect();
    let y: Vec<f64> = x.iter().map(|x| 120.0 - 2.0 * x).collect();
    let found = relation(&x, &y).correlation().unwrap();
    close(found.slope, -2.0, 1e-9);
    close(found.rank, -1.0, 1e-12);
    assert_eq!(found.trend, Trend::Falling);
}

#[test]
fn similar_neighbours_are_worth_fewer_independent_ones() {
    let mut normal = Normal::default();
    let mut worth = |likeness: f64| {
        let found = (0..20).map(|_| independent(&normal.alike(480, likeness)));
        found.sum::<f64>() / 20.0
    };
    // Of an infinite series each keeping a share r of the one before: (1 - r) / (1 + r).
    for (likeness, share) in [(0.0, 1.0), (0.6, 0.25), (0.9, 0.0526)] {
        let found = worth(likeness);
        assert!(
            (0.75..1.6).contains(&(found / (480.0 * share))),
            "{likeness}: {found}"
        );
    }
}

/// In how many of so many simulated jobs something holds.
fn share_of(jobs: usize, mut holds: impl FnMut(&mut Normal) -> bool) -> f64 {
    let mut normal = Normal::default();
    (0..jobs).filter(|_| holds(&mut normal)).count() as f64 / jobs as f64
}

fn is_seen(x: &[f64], y: &[f64]) -> bool {
    relation(x, y).correlation().unwrap().trend != Trend::Unclear
}

#[test]
fn chance_rarely_looks_like_a_trend() {
    let straight: Vec<f64> = (0..200).map(f64::from).collect();
    for likeness in [0.0, 0.6, 0.9] {
        let both = share_of(300, |normal| {
            is_seen(&normal.alike(200, likeness), &normal.alike(200, likeness))
        });
        let fill = share_of(300, |normal| {
            is_seen(&straight, &normal.alike(200, likeness))
        });
        assert!(both <= 0.1 && fill <= 0.1, "{likeness}: {both} {fill}");
    }
    // A slow drift below the noise of each tick.
    let drift = share_of(300, |normal| {
        let noise = normal.alike(200, 0.0);
        let slow = normal.alike(200, 0.98);
        is_seen(
            &straight,
            &noise
                .iter()
                .zip(slow)
                .map(|(noise, slow)| 5.0 * noise + slow)
                .collect::<Vec<_>>(),
        )
    });
    assert!(drift <= 0.15, "{drift}");
}

#[test]
fn a_correlation_is_detected() {
    let straight: Vec<f64> = (0..200).map(f64::from).collect();
    let slowing = share_of(300, |normal| {
        let noise = normal.alike(200, 0.6);
        is_seen(
            &straight,
            &noise
                .iter()
                .zip(&straight)
                .map(|(noise, x)| noise - x / 40.0)
                .collect::<Vec<_>>(),
        )
    });
    let rate = share_of(300, |normal| {
        let (x, noise) = (normal.alike(200, 0.5), normal.alike(200, 0.5));
        is_seen(
            &x,
            &x.iter()
                .zip(noise)
                .map(|(x, noise)| 0.8 * noise - 0.6 * x)
                .collect::<Vec<_>>(),
        )
    });
    assert!(slowing > 0.9 && rate > 0.9, "{slowing} {rate}");
}

#[test]
fn bounds_of_a_ratio_of_five_runs_hold_19_times_in_20() {
    let found = share_of(300, |normal| {
        let mut runs = |mean: f64, sd: f64| {
            (0..5)
                .map(|_| mean + sd * normal.next())
                .collect::<Vec<f64>>()
        };
        let (these, those) = (runs(120.0, 12.0), runs(100.0, 6.0));
        let bounds = ratio_of_means(&these, &those).unwrap().1.unwrap();
        (bounds.low..=bounds.high).contains(&1.2)
    });
    assert!((0.92..=0.985).contains(&found), "{found}");
}

#[test]
fn one_run_each_has_a_ratio_and_no_bounds() {
    assert_eq!(ratio_of_means(&[3.0], &[2.0]), Some((1.5, None)));
    let (ratio, bounds) = ratio_of_means(&[3.0, 3.0], &[2.0, 2.0]).unwrap();
    close(ratio, 1.5, 1e-12);
    close(bounds.unwrap().low, 1.5, 1e-12);
}

#[test]
fn the_same_runs_have_the_same_interval() {
    let runs = [[3.0, 3.5, 2.9], [2.0, 2.1, 2.2]];
    assert_eq!(
        ratio_of_means(&runs[0], &runs[1]),
        ratio_of_means(&runs[0], &runs[1])
    );
}

/// Numbers of the standard normal distribution.
#[derive(Default)]
struct Normal(Random);

impl Normal {
    fn next(&mut self) -> f64 {
        let mut unit = || (self.0.below(1 << 52) as f64 + 0.5) / (1_u64 << 52) as f64;
        let (radius, angle) = (unit(), unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// Each number keeps `likeness` of the one before.
    fn alike(&mut self, n: usize, likeness: f64) -> Vec<f64> {
        let mut last = self.next() / (1.0 - likeness * likeness).sqrt();
        let mut step = || {
            last = likeness * last + self.next();
            last
        };
        (0..n).map(|_| step()).collect()
    }
}
