//! A plotters backend that writes SVG with CSS classes instead of colours, relative paths and escaped text.
//!
//! plotters uses integer coordinates; here they are tenths of a pixel.

use std::convert::Infallible;
use std::fmt::Write;

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

use super::Size;
use super::ink::{classes, is_coarse, is_dots, line_number};

/// Backend units per pixel.
pub const TENTHS: i32 = 10;

type SvgResult = Result<(), DrawingErrorKind<Infallible>>;

/// Appends shapes to `out`.
pub struct ClassSvg<'a> {
    out: &'a mut String,
    size: Size,
}

/// The start tag, with a label for screen readers.
pub fn opening(title: &str, Size { width, height }: Size) -> String {
    let title = escaped(title);
    format!(
        r#"<svg class="chart" role="img" aria-label="{title}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">"#
    )
}

/// Escapes text for elements and quoted attributes, and drops control characters.
pub fn escaped(text: &str) -> String {
    let text = text
        .replace(char::is_control, "")
        .replace('&', "&amp;")
        .replace('<', "&lt;");
    text.replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Tenths of a pixel as a short decimal: `12`, `-.5`.
pub fn decimal(tenths: i32) -> String {
    let mut text = String::new();
    push_decimal(&mut text, tenths);
    text
}

fn push_decimal(text: &mut String, tenths: i32) {
    if tenths < 0 {
        text.push('-');
    }
    let (whole, tenth) = (tenths.unsigned_abs() / 10, tenths.unsigned_abs() % 10);
    if whole > 0 || tenth == 0 {
        write!(text, "{whole}").ok();
    }
    if tenth > 0 {
        text.push('.');
        text.push(char::from(b'0' + tenth as u8));
    }
}

impl<'a> ClassSvg<'a> {
    pub fn new(out: &'a mut String, size: Size) -> Self {
        Self { out, size }
    }

    fn path(
        &mut self,
        points: impl Iterator<Item = BackendCoord>,
        colour: BackendColor,
        end: &str,
    ) -> SvgResult {
        let points = points.map(|point| {
            if is_coarse(colour) {
                whole_pixel(point)
            } else {
                point
            }
        });
        let (class, line) = (classes(colour), line_attribute(colour));
        let d = if is_dots(colour) {
            dots(points)
        } else {
            relative(points)
        };
        write!(self.out, r#"<path class="{class}" d="{d}{end}"{line}/>"#).ok();
        Ok(())
    }
}

/// The number of a shape's line, by which a legend hides it.
fn line_attribute(colour: BackendColor) -> String {
    line_number(colour).map_or_else(String::new, |number| format!(r#" data-line="{number}""#))
}

fn whole_pixel((x, y): BackendCoord) -> BackendCoord {
    let rounded = |tenths: i32| (tenths + TENTHS / 2).div_euclid(TENTHS) * TENTHS;
    (rounded(x), rounded(y))
}

/// Path data: an absolute start and relative steps.
fn relative(points: impl Iterator<Item = BackendCoord>) -> String {
    let mut data = String::new();
    let mut before: Option<BackendCoord> = None;
    for (x, y) in points {
        match before {
            None => write!(data, "M{} {}l", decimal(x), decimal(y)).ok(),
            Some(last) if last == (x, y) => None,
            Some((x0, y0)) => {
                push_step(&mut data, x - x0);
                push_step(&mut data, y - y0);
                None
            }
        };
        before = Some((x, y));
    }
    data
}

/// Path data of a line without length at each point, whose round ends are dots.
fn dots(points: impl Iterator<Item = BackendCoord>) -> String {
    let mut data = String::new();
    let mut before: Option<BackendCoord> = None;
    for (x, y) in points {
        match before {
            None => write!(data, "M{} {}h0", decimal(x), decimal(y)).ok(),
            Some((x0, y0)) => write!(data, "m{} {}h0", decimal(x - x0), decimal(y - y0)).ok(),
        };
        before = Some((x, y));
    }
    data
}

/// Appends a number, after a space if two numbers would join.
fn push_step(data: &mut String, tenths: i32) {
    if !data.ends_with('l') && tenths >= 0 {
        data.push(' ');
    }
    push_decimal(data, tenths);
}

impl DrawingBackend for ClassSvg<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (
            self.size.width * TENTHS as u32,
            self.size.height * TENTHS as u32,
        )
    }

    fn ensure_prepared(&mut self) -> SvgResult {
        Ok(())
    }

    fn present(&mut self) -> SvgResult {
        Ok(())
    }

    /// Required by the trait; no shape of a chart uses it.
    fn draw_pixel(&mut self, point: BackendCoord, colour: BackendColor) -> SvgResult {
        self.path([point].into_iter(), colour, "")
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> SvgResult {
        self.path(path.into_iter(), style.color(), "")
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> SvgResult {
        self.path(corners.into_iter(), style.color(), "z")
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        _fill: bool,
    ) -> SvgResult {
        let (class, line) = (classes(style.color()), line_attribute(style.color()));
        let (x, y, r) = (decimal(x), decimal(y), decimal(radius as i32));
        write!(
            self.out,
            r#"<circle class="{class}" cx="{x}" cy="{y}" r="{r}"{line}/>"#
        )
        .ok();
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> SvgResult {
        let anchor = match style.anchor().h_pos {
            HPos::Left => "",
            HPos::Center => r#" text-anchor="middle""#,
            HPos::Right => r#" text-anchor="end""#,
        };
        let down = match style.anchor().v_pos {
            VPos::Top => r#" dy=".8em""#,
            VPos::Center => r#" dy=".35em""#,
            VPos::Bottom => "",
        };
        let (x, y, class, text) = (
            decimal(x),
            decimal(y),
            classes(style.color()),
            escaped(text),
        );
        write!(
            self.out,
            r#"<text class="{class}" x="{x}" y="{y}"{anchor}{down}>{text}</text>"#
        )
        .ok();
        Ok(())
    }
}
