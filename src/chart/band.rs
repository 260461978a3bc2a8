//! Jobs as bands behind the lines, with their names above.

use super::Band;
use super::svg::{TENTHS, decimal, escaped};
use crate::series::Range;

/// The approximate width of a character, in tenths of a pixel.
const CHARACTER: f64 = 62.0;
/// Shorter labels are omitted.
const SHORTEST: usize = 3;
/// The distance of a label's baseline from the plot, in tenths of a pixel.
const ABOVE: i32 = 5 * TENTHS;

/// The edges of the plot, in tenths of a pixel.
pub struct Edges {
    pub left: i32,
    pub right: i32,
    pub top: i32,
    pub bottom: i32,
}

/// A band inside the range, in tenths of a pixel.
struct Shape<'a> {
    left: i32,
    right: i32,
    band: &'a Band,
}

/// Appends the bands that touch the range.
pub fn draw(bands: &[Band], range: Range, edges: &Edges, out: &mut String) {
    let mut shapes: Vec<Shape> = bands
        .iter()
        .filter_map(|band| shape(band, range, edges))
        .collect();
    shapes.sort_by_key(|shape| shape.left);
    for (number, shape) in shapes.iter().enumerate() {
        let next = shapes.get(number + 1).map_or(edges.right, |next| next.left);
        let room = f64::from(next - shape.left) / CHARACTER;
        out.push_str(&markup(
            shape,
            edges,
            &shortened(&shape.band.label, room as usize),
        ));
    }
}

fn shape<'a>(band: &'a Band, range: Range, edges: &Edges) -> Option<Shape<'a>> {
    let (since, until) = (
        band.from.max(range.from),
        band.to.unwrap_or(range.to).min(range.to),
    );
    let x = |to| {
        let share = Range {
            from: range.from,
            to,
        }
        .seconds()
            / range.seconds();
        edges.left + (share * f64::from(edges.right - edges.left)).round() as i32
    };
    (since < until).then(|| Shape {
        left: x(since),
        right: x(until),
        band,
    })
}

fn shortened(label: &str, room: usize) -> String {
    match label.chars().count() {
        length if length <= room => label.to_owned(),
        _ if room < SHORTEST => String::new(),
        _ => label.chars().take(room - 1).chain(['…']).collect(),
    }
}

fn markup(shape: &Shape, edges: &Edges, label: &str) -> String {
    let (x, width) = (
        decimal(shape.left),
        decimal((shape.right - shape.left).max(TENTHS)),
    );
    let (y, height, label_y) = (
        decimal(edges.top),
        decimal(edges.bottom - edges.top),
        decimal(edges.top - ABOVE),
    );
    let label = escaped(label);
    format!(
        r#"<rect class="band" x="{x}" y="{y}" width="{width}" height="{height}"/><path class="edge" d="M{x} {y}v{height}"/><text class="name" x="{x}" y="{label_y}">{label}</text>"#
    )
}
