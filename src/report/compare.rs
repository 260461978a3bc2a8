//! Compares sets of runs: mean, standard deviation, and the ratio to the first set with its 95 % confidence interval. A
//! set is a variant with its repeats. Means include all runs; remarks name outliers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::figure::{DURATION, Figure, FigureUnit, IsSlower, figures, judged, phase_figures};
use super::sets::{ContextDiff, Fact, context_diffs};
use crate::job::figures::Figures;
use crate::statistics::{Bounds, Moments, Sorted, mean, ratio_of_means};

/// With fewer runs, no outlier can be identified.
const LEAST_RUNS: usize = 5;
/// Iglewicz and Hoaglin, "How to Detect and Handle Outliers", ASQC, 1993: a modified z-score above 3.5.
const FAR: f64 = 3.5;
/// The median deviation of a normal distribution, in standard deviations.
const NORMAL_MEDIAN_DEVIATION: f64 = 0.6745;
/// The mean deviation of a normal distribution, in standard deviations.
const NORMAL_MEAN_DEVIATION: f64 = 0.7979;
/// The smallest deviation of an outlier: if the other runs agree closely, a small deviation is still ordinary.
const LEAST_DEVIATION: f64 = 0.05;
/// The least deviation of a run with cold caches.
const COLD: f64 = 0.1;

#[derive(Clone, Debug, PartialEq)]
pub struct ComparedRun {
    pub name: String,
    pub figures: Vec<Figure>,
    pub facts: Vec<Fact>,
}

/// A variant with its repeats, in the order of the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedSet {
    pub name: String,
    pub runs: Vec<ComparedRun>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Comparison {
    pub sets: Vec<SetBody>,
    /// One for each known figure, in the order of the first run that has it.
    pub rows: Vec<ComparedRow>,
    pub remarks: Vec<Remark>,
    /// Facts that are not the same in all runs.
    pub other_differences: Vec<ContextDiff>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetBody {
    pub name: String,
    pub runs: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ComparedRow {
    pub figure: String,
    pub unit: FigureUnit,
    /// One for each set.
    pub cells: Vec<ComparedCell>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ComparedCell {
    /// Of the runs with this figure; `None` without any.
    pub moments: Option<Moments>,
    /// The ratio to the first set; `None` for that set, and if a mean is unknown or not above 0.
    pub ratio: Option<Ratio>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ratio {
    pub ratio: f64,
    /// 95 %; `None` if a set has a single run.
    pub bounds: Option<Bounds>,
    pub difference: Difference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    Larger,
    Smaller,
    /// It may be chance.
    NotSeen,
    /// A set has a single run.
    OneRun,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Remark {
    pub set: String,
    pub run: String,
    pub figure: String,
    pub oddity: Oddity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Oddity {
    ColdFirst,
    Outlier,
}

impl ComparedRun {
    pub fn new(name: &str, of: &Figures, facts: Vec<Fact>) -> Self {
        Self {
            name: name.into(),
            figures: figures(of),
            facts,
        }
    }

    /// Adds the figures of these phases.
    pub fn with_phases(mut self, of: &Figures, phases: &[String]) -> Self {
        self.figures.extend(phase_figures(&of.phases, phases));
        self
    }

    fn figure(&self, name: &str) -> Option<f64> {
        let mut figures = self.figures.iter();
        figures.find(|figure| figure.name == name)?.value
    }
}

impl ComparedSet {
    /// The runs with a figure, and its values.
    fn known(&self, figure: &str) -> (Vec<&ComparedRun>, Vec<f64>) {
        let runs = self.runs.iter();
        runs.filter_map(|run| Some((run, run.figure(figure)?)))
            .unzip()
    }

    fn facts(&self) -> Vec<&Fact> {
        self.runs.iter().flat_map(|run| &run.facts).collect()
    }
}

impl Comparison {
    /// Removes figures that are zero in all runs; for people they are noise.
    pub fn drop_zeros(&mut self) {
        self.rows.retain(|row| !row.is_zero());
    }

    /// Whether any figure is known in two sets, or in two runs of the only set.
    pub fn has_common_figures(&self) -> bool {
        self.common().next().is_some()
    }

    /// Whether the duration is the only common figure.
    pub fn has_durations_alone(&self) -> bool {
        self.has_common_figures() && self.common().all(|row| row.figure == DURATION)
    }

    fn common(&self) -> impl Iterator<Item = &ComparedRow> {
        self.rows.iter().filter(|row| {
            let known: Vec<Moments> = row.cells.iter().filter_map(|cell| cell.moments).collect();
            known.len() > 1 || self.sets.len() == 1 && known.iter().any(|moments| moments.n > 1)
        })
    }
}

impl ComparedRow {
    /// Whether the figure is zero in every run of every set.
    fn is_zero(&self) -> bool {
        self.cells.iter().all(|cell| {
            let moments = cell.moments;
            moments.is_some_and(|it| it.mean == 0.0 && it.sd.unwrap_or_default() == 0.0)
        })
    }
}

impl Difference {
    fn of(bounds: Option<Bounds>) -> Self {
        match bounds {
            None => Self::OneRun,
            Some(bounds) if bounds.low > 1.0 => Self::Larger,
            Some(bounds) if bounds.high < 1.0 => Self::Smaller,
            Some(_) => Self::NotSeen,
        }
    }
}

/// Compares every figure of every set with the first set.
pub fn compare(sets: &[ComparedSet]) -> Comparison {
    let body = |set: &ComparedSet| SetBody {
        name: set.name.clone(),
        runs: set.runs.len(),
    };
    let facts: Vec<_> = sets.iter().map(ComparedSet::facts).collect();
    let figures = names(sets).into_iter();
    Comparison {
        sets: sets.iter().map(body).collect(),
        rows: figures
            .map(|(figure, unit)| row(sets, figure, unit))
            .collect(),
        remarks: sets.iter().flat_map(remarks).collect(),
        other_differences: context_diffs(&facts),
    }
}

/// The figures that any run has.
fn names(sets: &[ComparedSet]) -> Vec<(&str, FigureUnit)> {
    let mut names: Vec<(&str, FigureUnit)> = Vec::new();
    let runs = sets.iter().flat_map(|set| &set.runs);
    for figure in runs.flat_map(|run| &run.figures) {
        if figure.value.is_some() && !names.iter().any(|(name, _)| *name == figure.name) {
            names.push((&figure.name, figure.unit));
        }
    }
    names
}

fn row(sets: &[ComparedSet], figure: &str, unit: FigureUnit) -> ComparedRow {
    let values: Vec<Vec<f64>> = sets.iter().map(|set| set.known(figure).1).collect();
    let cell = |(place, these): (usize, &Vec<f64>)| ComparedCell {
        moments: Moments::of(these),
        ratio: (place > 0).then(|| ratio(these, &values[0])).flatten(),
    };
    ComparedRow {
        figure: figure.into(),
        unit,
        cells: values.iter().enumerate().map(cell).collect(),
    }
}

fn ratio(these: &[f64], first: &[f64]) -> Option<Ratio> {
    if these.iter().chain(first).any(|number| *number < 0.0) {
        return None;
    }
    let (ratio, bounds) = ratio_of_means(these, first)?;
    Some(Ratio {
        ratio,
        bounds,
        difference: Difference::of(bounds),
    })
}

fn remarks(set: &ComparedSet) -> Vec<Remark> {
    judged()
        .flat_map(|(figure, is_slower)| odd_runs(set, &figure, is_slower))
        .collect()
}

fn odd_runs(set: &ComparedSet, figure: &str, is_slower: IsSlower) -> Vec<Remark> {
    let (runs, values) = set.known(figure);
    // Without the first run's value, there is no first.
    let has_first = set
        .runs
        .first()
        .is_some_and(|run| run.figure(figure).is_some());
    let is_cold = has_first && is_cold_first(&values, is_slower);
    let outliers = outliers(&values);
    let mut remarks = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        let oddity = if place == 0 && is_cold {
            Oddity::ColdFirst
        } else if outliers.contains(&place) {
            Oddity::Outlier
        } else {
            continue;
        };
        remarks.push(Remark {
            set: set.name.clone(),
            run: run.name.clone(),
            figure: figure.into(),
            oddity,
        });
    }
    remarks
}

/// The indices of numbers that are far from the others.
fn outliers(numbers: &[f64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..numbers.len()).collect();
    places.retain(|place| {
        numbers.len() >= LEAST_RUNS && is_far(*place, numbers, numbers, LEAST_DEVIATION)
    });
    places
}

/// Whether the first run was much slower than all others, while the others agree.
fn is_cold_first(numbers: &[f64], is_slower: fn(&f64, &f64) -> bool) -> bool {
    let [first, others @ ..] = numbers else {
        return false;
    };
    let is_slow = others.iter().all(|other| is_slower(first, other));
    numbers.len() >= LEAST_RUNS && is_slow && is_far(0, numbers, others, COLD)
}

/// Whether a number is far from the median of others, and by more than a share of it.
fn is_far(place: usize, numbers: &[f64], others: &[f64], share: f64) -> bool {
    let Some(sorted) = Sorted::new(others.iter().copied()) else {
        return false;
    };
    let off = (numbers[place] - sorted.median()).abs();
    off > share * sorted.median().abs() && off > FAR * deviation(&sorted)
}

/// The standard deviation if the distribution were normal. From the mean deviation if more than half of the numbers are
/// equal.
fn deviation(sorted: &Sorted) -> f64 {
    let median = sorted.median();
    let typical = sorted.median_deviation();
    if typical > 0.0 {
        return typical / NORMAL_MEDIAN_DEVIATION;
    }
    let offs = sorted
        .numbers()
        .iter()
        .map(|number| (number - median).abs());
    mean(&offs.collect::<Vec<_>>()).unwrap_or_default() / NORMAL_MEAN_DEVIATION
}

#[cfg(test)]
mod tests {
    //! Comparisons of constructed sets.

    use super::*;

    fn set(name: &str, speeds_mb: &[f64]) -> ComparedSet {
        let figure = |name: &str, unit, value| Figure {
            name: name.into(),
            unit,
            value: Some(value),
        };
        let run = |(index, mb): (usize, &f64)| ComparedRun {
            name: format!("{name}-{}", index + 1),
            figures: vec![
                figure("duration", FigureUnit::Seconds, 60_000.0 / mb),
                figure("read speed mean", FigureUnit::Rate, mb * 1e6),
                Figure {
                    name: "peak fill".into(),
                    unit: FigureUnit::Percent,
                    value: None,
                },
            ],
            facts: Vec::new(),
        };
        ComparedSet {
            name: name.into(),
            runs: speeds_mb.iter().enumerate().map(run).collect(),
        }
    }

    fn speeds(sets: &[ComparedSet]) -> ComparedRow {
        compare(sets)
            .rows
            .into_iter()
            .find(|row| row.figure == "read speed mean")
            .unwrap()
    }

    #[test]
    fn a_faster_variant_is_detected() {
        let sets = [
            set("64k", &[98.0, 100.0, 102.0, 101.0, 99.0]),
            set("16k", &[118.0, 122.0, 120.0, 121.0, 119.0]),
        ];
        let row = speeds(&sets);
        let ratio = row.cells[1].ratio.unwrap();
        assert!(
            (ratio.ratio - 1.2).abs() < 1e-9 && ratio.difference == Difference::Larger,
            "{ratio:?}"
        );
        let bounds = ratio.bounds.unwrap();
        assert!(bounds.low > 1.15 && bounds.high < 1.25, "{bounds:?}");
        assert_eq!(
            row.cells[0].ratio, None,
            "the first is what others are compared with"
        );
        assert_eq!(row.cells[0].moments.unwrap().n, 5);
    }

    #[test]
    fn no_difference_is_seen_if_runs_vary_as_much_as_sets() {
        let sets = [
            set("a", &[80.0, 120.0, 100.0]),
            set("b", &[90.0, 130.0, 95.0]),
        ];
        assert_eq!(
            speeds(&sets).cells[1].ratio.unwrap().difference,
            Difference::NotSeen
        );
    }

    #[test]
    fn single_runs_have_a_ratio_without_bounds() {
        let ratio = speeds(&[set("a", &[100.0]), set("b", &[150.0])]).cells[1]
            .ratio
            .unwrap();
        assert_eq!(
            (ratio.ratio, ratio.bounds, ratio.difference),
            (1.5, None, Difference::OneRun)
        );
    }

    #[test]
    fn an_unknown_figure_has_no_row() {
        let found = compare(&[set("a", &[100.0, 101.0])]);
        assert_eq!(
            found
                .rows
                .iter()
                .map(|row| &*row.figure)
                .collect::<Vec<_>>(),
            ["duration", "read speed mean"]
        );
    }

    #[test]
    fn figures_that_are_zero_in_all_runs_are_dropped() {
        let zero = |name: &str, value| Figure {
            name: name.into(),
            unit: FigureUnit::Number,
            value,
        };
        let mut sets = [set("a", &[100.0, 101.0]), set("b", &[100.0])];
        for run in sets.iter_mut().flat_map(|set| &mut set.runs) {
            run.figures.push(zero("never", Some(0.0)));
            run.figures
                .push(zero("once", Some(f64::from(u8::from(run.name == "a-2")))));
        }
        for run in &mut sets[0].runs {
            run.figures.push(zero("unknown in b", Some(0.0)));
        }
        let mut found = compare(&sets);
        found.drop_zeros();
        let kept: Vec<&str> = found.rows.iter().map(|row| &*row.figure).collect();
        assert_eq!(
            kept,
            ["duration", "read speed mean", "once", "unknown in b"]
        );
    }

    #[test]
    fn an_empty_set_is_unknown_and_not_zero() {
        let row = speeds(&[set("a", &[100.0, 101.0]), set("none", &[])]);
        assert_eq!(
            row.cells[1],
            ComparedCell {
                moments: None,
                ratio: None
            }
        );
        assert_eq!(
            compare(&[]),
            Comparison {
                sets: vec![],
                rows: vec![],
                remarks: vec![],
                other_differences: vec![]
            }
        );
    }

    #[test]
    fn a_negative_figure_has_no_ratio() {
        assert_eq!(ratio(&[-1.0, 3.0], &[2.0, 2.0]), None);
        assert_eq!(ratio(&[1.0, 3.0], &[0.0, 0.0]), None);
    }

    #[test]
    fn a_cold_first_run_and_an_outlier_are_named_and_kept() {
        let set = set("a", &[60.0, 118.0, 121.0, 120.0, 119.0, 40.0, 120.0]);
        let found = compare(std::slice::from_ref(&set));
        let odd = |figure: &str| -> Vec<(String, Oddity)> {
            let remarks = found
                .remarks
                .iter()
                .filter(|remark| remark.figure == figure);
            remarks
                .map(|remark| (remark.run.clone(), remark.oddity))
                .collect()
        };
        // The sixth was slower than the first, which is so not the only one, but slow all the same.
        assert_eq!(
            odd("read speed mean"),
            [
                ("a-1".into(), Oddity::Outlier),
                ("a-6".into(), Oddity::Outlier)
            ]
        );
        assert_eq!(found.rows[0].cells[0].moments.unwrap().n, 7);
        let found = compare(&[ComparedSet {
            runs: set.runs[..5].to_vec(),
            ..set.clone()
        }]);
        assert_eq!(found.remarks.len(), 2, "of the duration and of the speed");
        assert!(
            found
                .remarks
                .iter()
                .all(|remark| remark.run == "a-1" && remark.oddity == Oddity::ColdFirst)
        );
    }

    #[test]
    fn a_common_figure_is_known_in_two_sets() {
        let nothing = |name: &str| ComparedSet {
            name: name.into(),
            runs: vec![
                ComparedRun {
                    name: "1".into(),
                    figures: Vec::new(),
                    facts: Vec::new()
                };
                2
            ],
        };
        let has = |sets: &[ComparedSet]| compare(sets).has_common_figures();
        assert!(has(&[set("a", &[100.0]), set("b", &[90.0])]) && has(&[set("a", &[100.0, 90.0])]));
        assert!(
            !has(&[set("a", &[100.0, 90.0]), nothing("b")]),
            "a figure of one alone is compared with nothing"
        );
        let lasted = |name: &str| {
            let mut set = set(name, &[100.0]);
            set.runs[0]
                .figures
                .retain(|figure| figure.name == "duration");
            set
        };
        let alone = |sets: &[ComparedSet]| compare(sets).has_durations_alone();
        assert!(
            alone(&[lasted("a"), set("b", &[90.0])])
                && !alone(&[set("a", &[100.0]), set("b", &[90.0])])
        );
        assert!(
            !alone(&[nothing("a"), nothing("b")]),
            "nothing at all is another matter"
        );
        assert!(!has(&[nothing("a"), nothing("b")]) && !has(&[set("a", &[100.0])]) && !has(&[]));
    }

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
        assert_eq!(
            (outliers(&[1.0, 1.0, 1.0, 9.0]).len(), outliers(&[]).len()),
            (0, 0)
        );
    }

    #[test]
    fn a_first_run_over_empty_caches_is_cold() {
        let speeds = |first: f64| [first, 118.0, 121.0, 120.0, 119.0];
        assert!(is_cold_first(&speeds(60.0), f64::lt));
        assert!(!is_cold_first(&speeds(115.0), f64::lt));
        assert!(!is_cold_first(&speeds(200.0), f64::lt) && is_cold_first(&speeds(200.0), f64::gt));
        assert!(!is_cold_first(&[118.0, 60.0, 121.0, 120.0, 119.0], f64::lt));
        assert!(!is_cold_first(&[60.0, 118.0], f64::lt) && !is_cold_first(&[], f64::lt));
    }
}
