//! Lines that are drawn on top of each other, so that the uppermost is their sum.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Chart;
use crate::series::{Point, Series};

/// What is drawn of each line: its series, or in a stacked chart the layer from the sum of the lines before (`min`) to
/// the sum with it (`avg` and `max`).
pub fn drawn(chart: &Chart) -> Vec<Cow<'_, Series>> {
    let all = chart.lines.iter().map(|line| &line.series);
    if !chart.stacked {
        return all.map(Cow::Borrowed).collect();
    }
    let mut sums = BTreeMap::new();
    let mut layer = |point: &Point| {
        let avg = point.avg.filter(|value| value.is_finite());
        let sum = sums.entry(point.t).or_insert(0.0);
        let below = *sum;
        *sum += avg.unwrap_or_default();
        Point {
            min: avg.map(|_| below),
            avg: avg.map(|_| *sum),
            max: avg.map(|_| *sum),
            ..*point
        }
    };
    all.map(|series| {
        Cow::Owned(Series {
            points: series.points.iter().map(&mut layer).collect(),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::percent_chart;
    use super::*;

    #[test]
    fn layers_lie_on_each_other_and_a_gap_is_a_gap() {
        let mut chart = percent_chart(3, &[(0, Some(5.0)), (1, None), (2, Some(2.0))]);
        chart.lines.push(chart.lines[0].clone());
        chart.lines[1].series.points[1].avg = Some(1.0);
        chart.stacked = true;
        let layers = drawn(&chart);
        let of = |layer: usize| -> Vec<_> {
            layers[layer]
                .points
                .iter()
                .map(|point| point.min.zip(point.avg))
                .collect()
        };
        assert_eq!(of(0), [Some((0.0, 5.0)), None, Some((0.0, 2.0))]);
        assert_eq!(
            of(1),
            [Some((5.0, 10.0)), Some((0.0, 1.0)), Some((2.0, 4.0))]
        );
    }
}
