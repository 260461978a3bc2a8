//! A job's time series in few points by elapsed time, for charts of several jobs.

use crate::job::time_series::{JobMeasure, JobPeriod, JobTimeSeries};

/// Maximum points of an outline, four pixels each in a wide chart.
const MOST_POINTS: usize = 250;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outline {
    /// The job's duration; while it runs, until its last tick.
    pub seconds: f64,
    pub points: Vec<OutlinePoint>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutlinePoint {
    /// Seconds from the job's start to the end of the point.
    pub end_s: f64,
    /// Bytes a second.
    pub read: Option<f64>,
    /// The maximum.
    pub fill_percent: Option<f64>,
    /// Bytes a second written to all disks, for a job without a snapshot.
    pub written: Option<f64>,
}

impl Outline {
    pub fn of(time_series: &JobTimeSeries) -> Self {
        let whole = time_series.during.whole();
        let parts = whole.parts(whole.len().div_ceil(MOST_POINTS));
        Self {
            seconds: time_series.took_s.or(whole.end_s()).unwrap_or_default(),
            points: parts.filter_map(|part| point(&part)).collect(),
        }
    }

    pub fn has(&self, value: fn(&OutlinePoint) -> Option<f64>) -> bool {
        self.points.iter().any(|point| value(point).is_some())
    }
}

fn point(part: &JobPeriod) -> Option<OutlinePoint> {
    let fills = part
        .column(JobMeasure::FillPercent)
        .iter()
        .copied()
        .flatten();
    Some(OutlinePoint {
        end_s: part.end_s()?,
        read: part.mean(JobMeasure::SnapshotRead),
        fill_percent: fills.reduce(f64::max),
        written: part.mean(JobMeasure::Written),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::time_series::{JobTick, TickColumns};

    #[test]
    fn an_outline_is_short_and_keeps_peaks() {
        let ticks = (1..=2_000)
            .map(|second| JobTick {
                end_s: f64::from(second),
                seconds: 1.0,
            })
            .collect();
        let mut fills = vec![Some(5.0); 2_000];
        fills[777] = Some(90.0);
        fills[..8].fill(None);
        let during = TickColumns::new(ticks)
            .unwrap()
            .with(JobMeasure::FillPercent, fills)
            .unwrap();
        let outline = Outline::of(&JobTimeSeries {
            before: None,
            during,
            after: None,
            took_s: None,
        });
        assert_eq!((outline.points.len(), outline.seconds), (250, 2_000.0));
        assert_eq!(
            outline
                .points
                .iter()
                .filter_map(|point| point.fill_percent)
                .fold(0.0, f64::max),
            90.0
        );
        assert_eq!(
            (outline.points[0].fill_percent, outline.points[0].read),
            (None, None)
        );
        assert!(outline.has(|point| point.fill_percent) && !outline.has(|point| point.written));
    }
}
