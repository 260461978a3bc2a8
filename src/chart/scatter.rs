//! One quantity against another: points, a line through them, curves, and a band around one.

use super::plot::{Edges, LABEL_DISTANCE, Plot};
use super::scale::{Reach, Scale};
use super::svg::{Across, Class, Down, Svg};
use super::{Axis, Look, PictureSize, Side};

/// Top, right, bottom and left margin of the plot, in pixels.
const MARGINS: [i32; 4] = [22, 14, 36, 52];
/// Labels below the plot need more room than those beside it, as a factor of the usual distance.
const LABELS_APART: f64 = 2.0;

#[derive(Default)]
pub struct Scatter {
    /// The label for screen readers.
    pub title: String,
    pub size: PictureSize,
    pub x: Axis,
    /// Below the horizontal axis.
    pub x_name: String,
    pub y: Axis,
    pub points: Vec<(f64, f64)>,
    /// Slope and intercept.
    pub line: Option<(f64, f64)>,
    /// In the order of the horizontal axis.
    pub curves: Vec<(Look, Vec<(f64, f64)>)>,
    /// The lower and the upper value at each place.
    pub band: Vec<(f64, f64, f64)>,
}

/// The chart as one `<svg>` element. Points that are not finite are left out.
pub fn scatter(scatter: &Scatter) -> String {
    let edges = Edges::new(scatter.size, MARGINS);
    let upper = scatter.band.iter().map(|(at, _, high)| (*at, *high));
    let curves = scatter.curves.iter().flat_map(|(_, curve)| curve);
    let all = scatter.points.iter().chain(curves).copied().chain(upper);
    let finite = all.filter(|(at, value)| at.is_finite() && value.is_finite());
    let (ats, values): (Vec<f64>, Vec<f64>) = finite.unzip();
    let x = Scale::new(
        scatter.x,
        Reach::up_to(ats.into_iter().reduce(f64::max)),
        edges.width() / LABELS_APART,
    );
    let y = Scale::new(
        scatter.y,
        Reach::up_to(values.into_iter().reduce(f64::max)),
        edges.height(),
    );
    let plot = Plot::new(edges, x.max, y);
    let mut svg = Svg::new(&scatter.title, scatter.size);
    plot.grid(&mut svg);
    plot.labels(Side::Left, &mut svg);
    let row = edges.bottom + LABEL_DISTANCE;
    for (at, label) in x.ticks() {
        let (x, _) = plot.place(at, 0.0);
        svg.text("tick", (x, row), (Across::Middle, Down::Below), &label);
    }
    let name = (edges.right, edges.bottom + 3 * LABEL_DISTANCE);
    svg.text("tick", name, (Across::Right, Down::Below), &scatter.x_name);
    let lower = scatter.band.iter().map(|(at, low, _)| (*at, *low));
    let upper = scatter.band.iter().map(|(at, _, high)| (*at, *high));
    let band: Vec<(f64, f64)> = lower.chain(upper.rev()).collect();
    svg.tint(class("envelope", Look::Read), &plot.places(&band));
    for (look, curve) in &scatter.curves {
        svg.stroke(class("line", *look), &plot.places(curve));
    }
    svg.dots(class("dot", Look::Read), &plot.places(&scatter.points));
    if let Some((slope, intercept)) = scatter.line {
        let ends = [(0.0, intercept), (x.max, intercept + slope * x.max)];
        svg.stroke(class("line", Look::Fill), &plot.places(&ends));
    }
    svg.finish()
}

fn class(role: &'static str, look: Look) -> Class {
    Class {
        look: look.class(),
        ..Class::from(role)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;

    fn drawn(points: Vec<(f64, f64)>, line: Option<(f64, f64)>) -> String {
        scatter(&Scatter {
            title: "Read speed by fill".into(),
            size: PictureSize {
                width: 400,
                height: 200,
            },
            x: Axis {
                unit: Unit::Percent,
                max: Some(100.0),
            },
            x_name: "fill in %".into(),
            y: Axis {
                unit: Unit::BytesPerSecond,
                max: None,
            },
            points,
            line,
            ..Scatter::default()
        })
    }

    #[test]
    fn each_pair_is_a_point_and_the_line_runs_through_the_plot() {
        let picture = drawn(vec![(10.0, 1000.0), (90.0, 200.0)], Some((-10.0, 1100.0)));
        assert_eq!(picture.matches("h0").count(), 2);
        assert_eq!(picture.matches("class=\"line kf\"").count(), 1);
        assert!(picture.contains(">fill in %</text>"), "{picture}");
    }

    #[test]
    fn values_that_are_not_finite_are_left_out() {
        let points = vec![(f64::NAN, 1.0), (1.0, f64::INFINITY), (1e300, 1e300)];
        let picture = drawn(points, Some((f64::NAN, f64::NAN)));
        assert_eq!(picture.matches("h0").count(), 1);
        assert!(
            !picture.contains("NaN") && !picture.contains("class=\"line"),
            "{picture}"
        );
        drawn(Vec::new(), None);
    }
}
