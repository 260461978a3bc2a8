//! Jobs behind the lines: where their bands lie, how much of their names fits, where they lead.

use plotters::element::{Drawable, PointCollection};
use plotters_backend::{BackendCoord, DrawingErrorKind};

use super::Band;
use super::svg::{ClassSvg, TENTHS, decimal, escaped};
use crate::series::Range;

/// Pixels that a character of a label takes, about.
const CHARACTER: f64 = 6.2;
/// Characters below which a label says nothing.
const SHORTEST: usize = 3;
/// How far above the plot the baseline of a label is, in tenths of a pixel.
const ABOVE: i32 = 5 * TENTHS;

/// A band inside the range: seconds from its start, and the part of the label for which there is room.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown<'a> {
    pub from: f64,
    pub to: f64,
    title: &'a str,
    label: String,
    href: Option<&'a str>,
}

/// A band as plotters draws it: its upper left and lower right corner, and what it says.
pub struct BandShape<'a> {
    pub corners: [(f64, f64); 2],
    pub band: Shown<'a>,
}

/// The bands that touch the range, on a plot of `width` pixels.
pub fn shapes(bands: &[Band], range: Range, width: f64) -> Vec<Shown<'_>> {
    let mut shown: Vec<Shown> = bands.iter().filter_map(|band| shown(band, range)).collect();
    shown.sort_by(|a, b| a.from.total_cmp(&b.from));
    let starts: Vec<f64> = shown.iter().map(|band| band.from).skip(1).chain([range.seconds()]).collect();
    for (band, next) in shown.iter_mut().zip(starts) {
        let room = (next - band.from) / range.seconds() * width;
        band.label = shortened(band.title, (room / CHARACTER) as usize);
    }
    shown
}

fn shown(band: &Band, range: Range) -> Option<Shown<'_>> {
    let until = band.to.unwrap_or(range.to).min(range.to);
    let since = band.from.max(range.from);
    let seconds = |to| Range { from: range.from, to }.seconds();
    (since < until).then(|| Shown {
        from: seconds(since),
        to: seconds(until),
        title: &band.label,
        label: String::new(),
        href: band.href.as_deref().filter(|href| is_on_this_site(href)),
    })
}

/// A path from the root: not another host's, and nothing that a browser would run.
fn is_on_this_site(href: &str) -> bool {
    href.starts_with('/') && !href.starts_with("//") && !href.contains(['\\', '\t', '\n', '\r'])
}

fn shortened(label: &str, room: usize) -> String {
    match label.chars().count() {
        length if length <= room => label.to_owned(),
        _ if room < SHORTEST => String::new(),
        _ => label.chars().take(room - 1).chain(['…']).collect(),
    }
}

impl<'a> PointCollection<'a, (f64, f64)> for &'a BandShape<'_> {
    type Point = &'a (f64, f64);
    type IntoIter = &'a [(f64, f64); 2];

    fn point_iter(self) -> Self::IntoIter {
        &self.corners
    }
}

impl<'a> Drawable<ClassSvg<'a>> for BandShape<'_> {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        mut corners: I,
        svg: &mut ClassSvg<'a>,
        _: (u32, u32),
    ) -> Result<(), DrawingErrorKind<std::convert::Infallible>> {
        if let (Some(upper_left), Some(lower_right)) = (corners.next(), corners.next()) {
            svg.raw(&markup(&self.band, upper_left, lower_right));
        }
        Ok(())
    }
}

/// The pointer reaches the link; the keyboard goes by the page's own list of jobs, once, and not chart by chart.
fn markup(band: &Shown, (left, top): BackendCoord, (right, bottom): BackendCoord) -> String {
    let (x, y, width, height) =
        (decimal(left), decimal(top), decimal((right - left).max(TENTHS)), decimal(bottom - top));
    let (title, label, label_y) = (escaped(band.title), escaped(&band.label), decimal(top - ABOVE));
    let shape = format!(
        r#"<title>{title}</title><rect class="band" x="{x}" y="{y}" width="{width}" height="{height}"/><path class="edge" d="M{x} {y}v{height}"/><text class="name" x="{x}" y="{label_y}">{label}</text>"#
    );
    match band.href {
        Some(href) => format!(r#"<a href="{}" tabindex="-1">{shape}</a>"#, escaped(href)),
        None => format!("<g>{shape}</g>"),
    }
}
