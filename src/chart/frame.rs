//! Where the plot is within the picture of a chart, in pixels.

use super::{Chart, Size};

/// Margins for axis labels and, above, for units and job names.
const TOP: i32 = 22;
const BOTTOM: i32 = 20;
const LEFT: i32 = 52;
const RIGHT_WITH_AXIS: i32 = 48;
const RIGHT: i32 = 14;
/// From this width on, charts with and without a right axis have the same margin, so stacked charts align.
const ALIGNED_FROM: u32 = 560;

/// Top, bottom, left, right.
pub fn margins(chart: &Chart, size: Size) -> [i32; 4] {
    let aligned = chart.right.is_some() || size.width >= ALIGNED_FROM;
    [
        TOP,
        BOTTOM,
        LEFT,
        if aligned { RIGHT_WITH_AXIS } else { RIGHT },
    ]
}

/// The edges of the plot: left, top, right, bottom.
pub fn edges(chart: &Chart, size: Size) -> [i32; 4] {
    let [top, bottom, left, right] = margins(chart, size);
    [
        left,
        top,
        size.width as i32 - right,
        size.height as i32 - bottom,
    ]
}

pub fn width(chart: &Chart, size: Size) -> i32 {
    let [left, _, right, _] = edges(chart, size);
    right - left
}

pub fn height(size: Size) -> i32 {
    size.height as i32 - TOP - BOTTOM
}
