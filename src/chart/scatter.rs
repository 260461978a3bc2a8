//! One quantity against another: points, a line through them, curves, and a band around one.

use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::prelude::IntoDrawingArea;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, TextStyle};

use super::ink::{self, Role};
use super::scale::Scale;
use super::svg::{self, ClassSvg, TENTHS};
use super::{Axis, Look, Size};

/// Margins of the plot in pixels.
const TOP: i32 = 22;
const BOTTOM: i32 = 36;
const LEFT: i32 = 52;
const RIGHT: i32 = 14;
/// Distance of labels from the plot, and radius of a point, in tenths of a pixel.
const LABEL_DISTANCE: i32 = 6 * TENTHS;
const DOT: i32 = 2 * TENTHS;

#[derive(Default)]
pub struct Scatter {
    /// The label for screen readers.
    pub title: String,
    pub size: Size,
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
    let mut picture = svg::opening(&scatter.title, scatter.size);
    // Writing to a string cannot fail, and an incomplete chart is better than none.
    paint(scatter, &mut picture).ok();
    picture.push_str("</svg>");
    picture
}

fn paint(
    scatter: &Scatter,
    out: &mut String,
) -> Result<(), DrawingAreaErrorKind<std::convert::Infallible>> {
    let known = |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
    let points: Vec<(f64, f64)> = scatter.points.iter().filter(known).copied().collect();
    let tops = scatter.band.iter().map(|(at, _, high)| (*at, *high));
    let all = points
        .iter()
        .chain(scatter.curves.iter().flat_map(|(_, curve)| curve))
        .copied()
        .chain(tops);
    let all: Vec<(f64, f64)> = all.filter(|point| known(&point)).collect();
    let most = |value: fn(&(f64, f64)) -> f64| all.iter().map(value).reduce(f64::max);
    let [width, height] = [
        scatter.size.width as i32 - LEFT - RIGHT,
        scatter.size.height as i32 - TOP - BOTTOM,
    ]
    .map(f64::from);
    let x = Scale::new(
        scatter.x.unit,
        scatter.x.max,
        most(|point| point.0),
        width / 2.0,
    );
    let y = Scale::new(scatter.y.unit, scatter.y.max, most(|point| point.1), height);
    let canvas = ClassSvg::new(out, scatter.size).into_drawing_area();
    let inner = canvas.margin(TOP * TENTHS, BOTTOM * TENTHS, LEFT * TENTHS, RIGHT * TENTHS);
    let (across, down) = inner.get_pixel_range();
    let plot = inner.apply_coord_spec(Cartesian2d::<
        plotters::coord::types::RangedCoordf64,
        plotters::coord::types::RangedCoordf64,
    >::new(
        0.0..x.max, 0.0..y.max, (across, down.end..down.start)
    ));
    let tick = ink::plain(Role::Tick);
    let text = |text: &str, at: (i32, i32), across, down| {
        let style = TextStyle::from(("sans-serif", 11).into_font())
            .color(&tick)
            .pos(Pos::new(across, down));
        canvas.draw(&Text::new(text.to_owned(), at, style))
    };
    for (value, label) in y.ticks() {
        let role = if value == 0.0 { Role::Axis } else { Role::Grid };
        plot.draw(&PathElement::new(
            vec![(0.0, value), (x.max, value)],
            ink::plain(role),
        ))?;
        let (left, height) = plot.map_coordinate(&(0.0, value));
        text(
            &label,
            (left - LABEL_DISTANCE, height),
            HPos::Right,
            VPos::Center,
        )?;
    }
    let (left, bottom) = plot.map_coordinate(&(0.0, 0.0));
    text(
        y.name(),
        (left - LABEL_DISTANCE, TENTHS),
        HPos::Right,
        VPos::Top,
    )?;
    for (value, label) in x.ticks() {
        let (at, _) = plot.map_coordinate(&(value, 0.0));
        text(
            &label,
            (at, bottom + LABEL_DISTANCE),
            HPos::Center,
            VPos::Top,
        )?;
    }
    let (right, _) = plot.map_coordinate(&(x.max, 0.0));
    text(
        &scatter.x_name,
        (right, bottom + 3 * LABEL_DISTANCE),
        HPos::Right,
        VPos::Top,
    )?;
    let place = |(at, value): (f64, f64)| (at.clamp(0.0, x.max), value.clamp(0.0, y.max));
    let below = scatter.band.iter().map(|(at, low, _)| place((*at, *low)));
    let above = scatter
        .band
        .iter()
        .rev()
        .map(|(at, _, high)| place((*at, *high)));
    let band: Vec<(f64, f64)> = below.chain(above).collect();
    if band.len() > 2 {
        plot.draw(&Polygon::new(
            band,
            ink::line(Role::Envelope, Look::Read, 0).filled(),
        ))?;
    }
    for (number, (look, curve)) in scatter.curves.iter().enumerate() {
        let curve: Vec<(f64, f64)> = curve
            .iter()
            .filter(known)
            .map(|point| place(*point))
            .collect();
        plot.draw(&PathElement::new(
            curve,
            ink::line(Role::Line, *look, number),
        ))?;
    }
    for (at, value) in points {
        let place = (at.clamp(0.0, x.max), value.clamp(0.0, y.max));
        plot.draw(&Circle::new(
            place,
            DOT,
            ink::line(Role::Dot, Look::Read, 0).filled(),
        ))?;
    }
    if let Some((slope, intercept)) = scatter
        .line
        .filter(|(slope, start)| slope.is_finite() && start.is_finite())
    {
        let place = |at: f64| (at, (intercept + slope * at).clamp(0.0, y.max));
        plot.draw(&PathElement::new(
            vec![place(0.0), place(x.max)],
            ink::line(Role::Line, Look::Fill, 1),
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;

    fn drawn(points: Vec<(f64, f64)>, line: Option<(f64, f64)>) -> String {
        scatter(&Scatter {
            title: "Read speed by fill".into(),
            size: Size {
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
        assert_eq!(picture.matches("<circle").count(), 2);
        assert_eq!(picture.matches("class=\"line kf\"").count(), 1);
        assert!(picture.contains(">fill in %</text>"), "{picture}");
    }

    #[test]
    fn what_is_not_finite_is_left_out() {
        let picture = drawn(
            vec![(f64::NAN, 1.0), (1.0, f64::INFINITY), (1e300, 1e300)],
            Some((f64::NAN, 0.0)),
        );
        assert_eq!(picture.matches("<circle").count(), 1);
        assert!(
            !picture.contains("NaN") && !picture.contains("class=\"line"),
            "{picture}"
        );
        drawn(Vec::new(), None);
    }
}
