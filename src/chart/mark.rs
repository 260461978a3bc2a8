//! Instants at which something happened: a line across the plot, with a sign at its foot.

use super::band::Edges;
use super::svg::{TENTHS, decimal};
use super::{Mark, MarkKind};
use crate::alert::Severity;
use crate::series::Range;

/// Half the width of a sign, in tenths of a pixel.
const HALF: i32 = 4 * TENTHS;

/// Appends the marks inside the range.
pub fn draw(marks: &[Mark], range: Range, edges: &Edges, out: &mut String) {
    for mark in marks.iter().filter(|mark| range.contains(mark.at)) {
        let share = Range {
            from: range.from,
            to: mark.at,
        }
        .seconds()
            / range.seconds().max(0.001);
        let x = edges.left + (share * f64::from(edges.right - edges.left)).round() as i32;
        let (class, sign) = look(mark.kind);
        let (x, top, bottom, half) = (
            decimal(x),
            decimal(edges.top),
            decimal(edges.bottom),
            decimal(HALF),
        );
        out.push_str(&format!(
            r#"<path class="mark {class}" d="M{x} {top}V{bottom}"/><path class="sign {class}" d="M{x} {bottom}m-{half} {sign}z"/>"#
        ));
    }
}

/// The class, and the outline of the sign from its left corner at the foot.
fn look(kind: MarkKind) -> (&'static str, &'static str) {
    const UP: &str = "0h8l-4-7";
    match kind {
        MarkKind::Raised(Severity::Warning) => ("warning", UP),
        MarkKind::Raised(Severity::Critical) => ("critical", UP),
        MarkKind::Cleared => ("ok", "-7h8l-4 7"),
        MarkKind::Change => ("change", "-4l4-4l4 4l-4 4"),
    }
}
