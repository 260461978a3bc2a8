//! A job's time series: one value per tick of each quantity, before, during and after the job. The caller provides the
//! values, and knows which device is the origin's.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

/// The largest possible value in any unit: a petabyte a second. Larger ones count as unknown.
const MOST: f64 = 1e15;
/// The smallest value above 0. With these limits, no sum or ratio overflows.
const LEAST: f64 = 1e-12;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobTick {
    /// Seconds from the job's start to the tick's end; below 0 before the job.
    pub end_s: f64,
    pub seconds: f64,
}

/// A quantity of the job's snapshot, its origin, or the host; of bytes, a rate per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobMeasure {
    /// Read from the snapshot; for a job without one, from all disks.
    SnapshotRead,
    /// Written to all disks; only for a job without a snapshot.
    Written,
    /// At the tick's end; the maximum of a roll-up.
    FillPercent,
    /// Copies and metadata written to the COW area, without writes to the snapshot itself.
    CowWritten,
    /// Chunks that were copied at their first write.
    Copied,
    OriginRead,
    OriginWritten,
    /// Requests a second.
    OriginWrites,
    OriginWriteAwaitMs,
    /// KiB a second paged in.
    Bi,
    /// KiB a second paged out.
    Bo,
    /// A share of all processors, from 0 to 1.
    User,
    System,
    Iowait,
    /// The share of time during which at least one process waited for I/O.
    PressureIo,
}

/// A quantity of a PV; of bytes, a rate per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PvMeasure {
    Read,
    Written,
    /// From 0 to 1.
    Utilisation,
    ReadAwaitMs,
    ReadRequestBytes,
}

/// Ticks with their values.
#[derive(Clone, Debug, PartialEq)]
pub struct TickColumns {
    ticks: Vec<JobTick>,
    columns: BTreeMap<JobMeasure, JobColumn>,
    pvs: BTreeMap<String, BTreeMap<PvMeasure, JobColumn>>,
    /// Replaces every missing column, to save memory.
    unknown: JobColumn,
}

pub type JobColumn = Vec<Option<f64>>;

#[derive(Clone, Debug, PartialEq)]
pub struct JobTimeSeries {
    pub before: Option<TickColumns>,
    pub during: TickColumns,
    pub after: Option<TickColumns>,
    /// The job's duration once it has ended; its last tick rarely ends at the same time.
    pub took_s: Option<f64>,
}

/// Neighbouring ticks of a span.
#[derive(Clone, Debug)]
pub struct JobPeriod<'a> {
    span: &'a TickColumns,
    ticks: Range<usize>,
}

impl JobMeasure {
    /// The maximum, which jitter of a tick may exceed.
    pub fn most(self) -> f64 {
        match self {
            Self::FillPercent => 100.0,
            Self::User | Self::System | Self::Iowait | Self::PressureIo => 1.0,
            _ => MOST,
        }
    }
}

impl PvMeasure {
    pub fn most(self) -> f64 {
        if self == Self::Utilisation { 1.0 } else { MOST }
    }
}

impl TickColumns {
    /// Ticks without values.
    pub fn new(ticks: Vec<JobTick>) -> anyhow::Result<Self> {
        let mut before_s = -MOST;
        for (index, tick) in ticks.iter().enumerate() {
            ensure!(
                (before_s..=MOST).contains(&tick.end_s) && (LEAST..=MOST).contains(&tick.seconds),
                "expected ticks in the order of time, each of some length, but tick {index} has none or is too early"
            );
            before_s = tick.end_s;
        }
        Ok(Self {
            columns: BTreeMap::new(),
            pvs: BTreeMap::new(),
            unknown: vec![None; ticks.len()],
            ticks,
        })
    }

    /// Adds the values of a quantity; impossible numbers become `None`.
    pub fn with(mut self, measure: JobMeasure, values: JobColumn) -> anyhow::Result<Self> {
        let values = fit(&format!("{measure:?}"), self.ticks.len(), values)?;
        self.columns.insert(measure, values);
        Ok(self)
    }

    /// Adds the values of a quantity of a PV.
    pub fn with_pv(
        mut self,
        pv: &str,
        measure: PvMeasure,
        values: JobColumn,
    ) -> anyhow::Result<Self> {
        let values = fit(&format!("{measure:?} of {pv}"), self.ticks.len(), values)?;
        self.pvs
            .entry(pv.into())
            .or_default()
            .insert(measure, values);
        Ok(self)
    }

    pub fn whole(&self) -> JobPeriod<'_> {
        JobPeriod {
            span: self,
            ticks: 0..self.ticks.len(),
        }
    }

    pub fn columns(&self) -> &BTreeMap<JobMeasure, JobColumn> {
        &self.columns
    }

    pub fn pvs(&self) -> &BTreeMap<String, BTreeMap<PvMeasure, JobColumn>> {
        &self.pvs
    }
}

impl<'a> JobPeriod<'a> {
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    pub fn len(&self) -> usize {
        self.ticks.len()
    }

    pub fn ticks(&self) -> &'a [JobTick] {
        &self.span.ticks[self.ticks.clone()]
    }

    /// The length of all its ticks.
    pub fn seconds(&self) -> f64 {
        self.ticks().iter().map(|tick| tick.seconds).sum()
    }

    /// Seconds from the job's start to its end; `None` without ticks.
    pub fn end_s(&self) -> Option<f64> {
        self.ticks().last().map(|tick| tick.end_s)
    }

    /// A part, by the indices of its ticks.
    pub fn part(&self, part: Range<usize>) -> Self {
        let end = (self.ticks.start + part.end).min(self.ticks.end);
        Self {
            span: self.span,
            ticks: (self.ticks.start + part.start).min(end)..end,
        }
    }

    /// Its parts of at most `most` ticks each.
    pub fn parts(&self, most: usize) -> impl Iterator<Item = Self> + '_ {
        let most = most.max(1);
        (0..self.len())
            .step_by(most)
            .map(move |start| self.part(start..start + most))
    }

    pub fn column(&self, measure: JobMeasure) -> &'a [Option<f64>] {
        &self
            .span
            .columns
            .get(&measure)
            .unwrap_or(&self.span.unknown)[self.ticks.clone()]
    }

    pub fn pv_column(&self, pv: &str, measure: PvMeasure) -> &'a [Option<f64>] {
        let column = self
            .span
            .pvs
            .get(pv)
            .and_then(|columns| columns.get(&measure));
        &column.unwrap_or(&self.span.unknown)[self.ticks.clone()]
    }

    /// The sum of known values, each times the length of its tick, and the sum of these lengths.
    fn sums(&self, column: &[Option<f64>]) -> (f64, f64) {
        let mut amount = 0.0;
        let mut seconds = 0.0;
        for (value, tick) in column.iter().zip(self.ticks()) {
            if let Some(value) = value {
                amount += value * tick.seconds;
                seconds += tick.seconds;
            }
        }
        (amount, seconds)
    }

    /// The mean over time; `None` without known values.
    pub fn mean(&self, measure: JobMeasure) -> Option<f64> {
        self.mean_of(self.column(measure))
    }

    pub fn pv_mean(&self, pv: &str, measure: PvMeasure) -> Option<f64> {
        self.mean_of(self.pv_column(pv, measure))
    }

    /// The sum of a rate over time; `None` without known values.
    pub fn amount(&self, measure: JobMeasure) -> Option<f64> {
        let (amount, seconds) = self.sums(self.column(measure));
        (seconds > 0.0).then_some(amount)
    }

    /// The share of time for which a quantity is known; `None` without ticks.
    pub fn known_share(&self, measure: JobMeasure) -> Option<f64> {
        let (_, seconds) = self.sums(self.column(measure));
        (!self.is_empty()).then(|| seconds / self.seconds())
    }

    fn mean_of(&self, column: &[Option<f64>]) -> Option<f64> {
        let (amount, seconds) = self.sums(column);
        (seconds > 0.0).then(|| amount / seconds)
    }
}

fn fit(of: &str, expected: usize, mut values: JobColumn) -> anyhow::Result<JobColumn> {
    let found = values.len();
    ensure!(
        found == expected,
        "expected a value of {of} for each of {expected} ticks, but found {found}: read both over the same range"
    );
    for value in &mut values {
        *value = value.filter(|value| *value == 0.0 || (LEAST..=MOST).contains(value));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(seconds: &[f64]) -> TickColumns {
        let mut end_s = 0.0;
        let tick = |seconds: &f64| {
            end_s += seconds;
            JobTick {
                end_s,
                seconds: *seconds,
            }
        };
        TickColumns::new(seconds.iter().map(tick).collect()).unwrap()
    }

    #[test]
    fn means_are_weighted_by_the_length_of_ticks() {
        let span = span(&[1.0, 3.0, 1.0])
            .with(JobMeasure::SnapshotRead, vec![Some(10.0), Some(2.0), None])
            .unwrap();
        let whole = span.whole();
        assert_eq!(whole.mean(JobMeasure::SnapshotRead), Some(4.0));
        assert_eq!(whole.amount(JobMeasure::SnapshotRead), Some(16.0));
        assert_eq!(whole.known_share(JobMeasure::SnapshotRead), Some(0.8));
        assert_eq!(whole.part(1..9).mean(JobMeasure::SnapshotRead), Some(2.0));
    }

    #[test]
    fn a_missing_column_is_unknown_and_not_zero() {
        let span = span(&[1.0, 1.0]);
        assert_eq!(
            (
                span.whole().mean(JobMeasure::Bi),
                span.whole().amount(JobMeasure::Bi)
            ),
            (None, None)
        );
        assert_eq!(span.whole().pv_mean("sda", PvMeasure::Read), None);
    }

    #[test]
    fn impossible_numbers_are_unknown() {
        let values = vec![
            Some(f64::NAN),
            Some(1e300),
            Some(1e-300),
            Some(-1.0),
            Some(0.0),
        ];
        let span = span(&[1.0; 5]).with(JobMeasure::Bi, values).unwrap();
        assert_eq!(
            span.whole().column(JobMeasure::Bi),
            [None, None, None, None, Some(0.0)]
        );
    }

    #[test]
    fn a_column_of_another_length_is_refused() {
        let refused = span(&[1.0; 3])
            .with_pv("sda", PvMeasure::Read, vec![None])
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "expected a value of Read of sda for each of 3 ticks, but found 1: read both over the same range"
        );
    }

    #[test]
    fn ticks_out_of_order_are_refused() {
        let tick = |end_s, seconds| JobTick { end_s, seconds };
        let refused = |ticks| TickColumns::new(ticks).unwrap_err().to_string();
        assert!(refused(vec![tick(2.0, 1.0), tick(1.0, 1.0)]).contains("tick 1 "));
        assert!(refused(vec![tick(1.0, 0.0)]).contains("tick 0 "));
        assert!(TickColumns::new(Vec::new()).unwrap().whole().is_empty());
    }
}
