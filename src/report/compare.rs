//! Sets of runs side by side: mean, standard deviation, and the ratio to the first set with how sure it is.
//!
//! A set is a variant with its repeats. Nothing is left out of a mean: what looks odd is named in a remark. With many
//! figures at 95 %, one in twenty differs by chance alone; whoever shows the table says so.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::facts::{ContextDiff, Fact, context_diffs};
use super::figure::{DURATION, Figure, Unit, figures};
use super::outlier::{Slow, is_cold_first, outliers};
use super::phases;
use crate::job::figures::Figures;
use crate::job::statistics::{Bounds, Moments, ratio_of_means};

/// Figures in which odd runs are looked for; in all of them some run would be odd by chance.
const JUDGED: [(&str, Slow); 2] = [("duration", Slow::More), ("read speed mean", Slow::Less)];

/// One job of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub name: String,
    pub figures: Vec<Figure>,
    /// What it ran on.
    pub facts: Vec<Fact>,
}

/// A variant with its repeats, in the order in which they ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    pub name: String,
    pub runs: Vec<Run>,
}

/// Sets side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Comparison {
    pub sets: Vec<SetBody>,
    /// One for each figure that any run has, in the order of the first run that has it.
    pub rows: Vec<Row>,
    pub remarks: Vec<Remark>,
    /// What else is not the same in all runs.
    pub besides: Vec<ContextDiff>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetBody {
    pub name: String,
    pub runs: usize,
}

/// One figure of every set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Row {
    pub figure: String,
    pub unit: Unit,
    /// As many as there are sets.
    pub cells: Vec<Cell>,
}

/// One figure of one set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cell {
    /// Of the runs of which it is known; `None` where it is of none.
    pub moments: Option<Moments>,
    /// Against the first set; `None` of that set itself, and where one of the two is unknown or not above 0.
    pub ratio: Option<Ratio>,
}

/// How many times as large a mean is as that of the first set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ratio {
    pub ratio: f64,
    /// 95 %; `None` where a set has a single run.
    pub bounds: Option<Bounds>,
    pub difference: Difference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    Larger,
    Smaller,
    /// It may as well be chance.
    NotSeen,
    /// A single run says nothing of chance.
    OneRun,
}

/// A run that looks odd.
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

impl Run {
    pub fn new(name: &str, of: &Figures, facts: Vec<Fact>) -> Self {
        Self { name: name.into(), figures: figures(of), facts }
    }

    /// With figures of these phases of its.
    pub fn with_phases(mut self, of: &Figures, phases: &[String]) -> Self {
        self.figures.extend(phases::figures(&of.phases, phases));
        self
    }

    fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name)?.value
    }
}

impl Set {
    /// Runs of which a figure is known, with it.
    fn known(&self, figure: &str) -> (Vec<&Run>, Vec<f64>) {
        self.runs.iter().filter_map(|run| Some((run, run.figure(figure)?))).unzip()
    }

    fn facts(&self) -> Vec<&Fact> {
        self.runs.iter().flat_map(|run| &run.facts).collect()
    }
}

impl Comparison {
    /// Whether there is anything to compare: a figure that is known of two sets, or of two runs of the only one.
    pub fn has_common_figures(&self) -> bool {
        self.common().next().is_some()
    }

    /// Whether they ran for some time, and nothing else is known of two of them.
    pub fn has_durations_alone(&self) -> bool {
        self.has_common_figures() && self.common().all(|row| row.figure == DURATION)
    }

    fn common(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| {
            let known = || row.cells.iter().filter_map(|cell| cell.moments);
            known().count() > 1 || (self.sets.len() == 1 && known().any(|moments| moments.n > 1))
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

/// Every figure of every set, against the first of them.
pub fn compare(sets: &[Set]) -> Comparison {
    let bodies = sets.iter().map(|set| SetBody { name: set.name.clone(), runs: set.runs.len() });
    Comparison {
        sets: bodies.collect(),
        rows: names(sets).into_iter().map(|(figure, unit)| row(sets, figure, unit)).collect(),
        remarks: sets.iter().flat_map(remarks).collect(),
        besides: context_diffs(&sets.iter().map(Set::facts).collect::<Vec<_>>()),
    }
}

/// Figures of which a value is known in any run.
fn names(sets: &[Set]) -> Vec<(&str, Unit)> {
    let mut names: Vec<(&str, Unit)> = Vec::new();
    let all = sets.iter().flat_map(|set| &set.runs).flat_map(|run| &run.figures);
    for figure in all.filter(|figure| figure.value.is_some()) {
        if !names.iter().any(|(name, _)| *name == figure.name) {
            names.push((&figure.name, figure.unit));
        }
    }
    names
}

fn row(sets: &[Set], figure: &str, unit: Unit) -> Row {
    let values: Vec<Vec<f64>> = sets.iter().map(|set| set.known(figure).1).collect();
    let cell = |(place, these): (usize, &Vec<f64>)| Cell {
        moments: Moments::of(these),
        ratio: (place > 0).then(|| ratio(these, &values[0])).flatten(),
    };
    Row { figure: figure.into(), unit, cells: values.iter().enumerate().map(cell).collect() }
}

fn ratio(these: &[f64], first: &[f64]) -> Option<Ratio> {
    let is_scale = |numbers: &[f64]| numbers.iter().all(|number| *number >= 0.0);
    let (ratio, bounds) = (is_scale(these) && is_scale(first)).then(|| ratio_of_means(these, first))??;
    Some(Ratio { ratio, bounds, difference: Difference::of(bounds) })
}

fn remarks(set: &Set) -> Vec<Remark> {
    JUDGED.into_iter().flat_map(|(figure, slow)| odd_runs(set, figure, slow)).collect()
}

fn odd_runs(set: &Set, figure: &str, slow: Slow) -> Vec<Remark> {
    let (runs, values) = set.known(figure);
    // What is known from a later run on has no first.
    let is_cold =
        set.runs.first().is_some_and(|run| run.figure(figure).is_some()) && is_cold_first(&values, slow);
    let mut odd: Vec<(usize, Oddity)> =
        outliers(&values).into_iter().map(|place| (place, Oddity::Outlier)).collect();
    if is_cold {
        odd.retain(|(place, _)| *place != 0);
        odd.insert(0, (0, Oddity::ColdFirst));
    }
    let remark = |(place, oddity): (usize, Oddity)| Remark {
        set: set.name.clone(),
        run: runs[place].name.clone(),
        figure: figure.into(),
        oddity,
    };
    odd.into_iter().map(remark).collect()
}

#[cfg(test)]
mod tests;
