//! Writes the SVG: shapes with classes in place of colours, relative paths and escaped text.

use std::fmt::{self, Write};

use super::PictureSize;

/// Places are integers, as plotters computes them. A tenth of a pixel is finer than can be seen.
pub const TENTHS: i32 = 10;

/// Distances from the left and the upper edge of the picture, in tenths of a pixel.
pub type Place = (i32, i32);

/// What the style sheet calls a shape: a role and, for lines and severities, a look, such as `line k1`.
#[derive(Clone, Copy)]
pub struct Class {
    pub role: &'static str,
    pub look: &'static str,
    /// The number of the line that the shape belongs to, by which a legend hides it.
    pub line: Option<usize>,
}

impl From<&'static str> for Class {
    fn from(role: &'static str) -> Self {
        Self {
            role,
            look: "",
            line: None,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(self.role)?;
        if !self.look.is_empty() {
            write!(out, " {}", self.look)?;
        }
        Ok(())
    }
}

/// How a text lies at its place, across and down.
#[derive(Clone, Copy)]
pub enum Across {
    Left,
    Middle,
    Right,
}

#[derive(Clone, Copy)]
pub enum Down {
    Below,
    Middle,
    Above,
}

/// A picture in progress.
pub struct Svg(String);

impl Svg {
    /// The title is the label for screen readers.
    pub fn new(title: &str, PictureSize { width, height }: PictureSize) -> Self {
        let title = escaped(title);
        Self(format!(
            r#"<svg class="chart" role="img" aria-label="{title}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">"#
        ))
    }

    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>");
        self.0
    }

    /// A line through these points, if there are two.
    pub fn stroke(&mut self, class: impl Into<Class>, points: &[Place]) {
        if points.len() > 1 {
            self.path(class.into(), &connected(points));
        }
    }

    /// A filled area with these corners.
    pub fn area(&mut self, class: impl Into<Class>, corners: &[Place]) {
        if !corners.is_empty() {
            self.path(class.into(), &format!("{}z", connected(corners)));
        }
    }

    /// An area whose outline is not looked at closely: whole pixels make it shorter.
    pub fn tint(&mut self, class: impl Into<Class>, corners: &[Place]) {
        let whole = |tenths: i32| (tenths + TENTHS / 2).div_euclid(TENTHS) * TENTHS;
        let corners: Vec<Place> = corners
            .iter()
            .map(|(x, y)| (whole(*x), whole(*y)))
            .collect();
        self.area(class, &corners);
    }

    /// A dot at each point: a line without length, whose round ends are seen.
    pub fn dots(&mut self, class: impl Into<Class>, points: &[Place]) {
        let Some(&first) = points.first() else {
            return;
        };
        let mut data = format!("M{} {}h0", decimal(first.0), decimal(first.1));
        for pair in points.windows(2) {
            let (right, down) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            data.push_str(&format!("m{} {}h0", decimal(right), decimal(down)));
        }
        self.path(class.into(), &data);
    }

    pub fn text(
        &mut self,
        class: impl Into<Class>,
        (x, y): Place,
        (across, down): (Across, Down),
        text: &str,
    ) {
        let across = match across {
            Across::Left => "",
            Across::Middle => r#" text-anchor="middle""#,
            Across::Right => r#" text-anchor="end""#,
        };
        let down = match down {
            Down::Below => r#" dy=".8em""#,
            Down::Middle => r#" dy=".35em""#,
            Down::Above => "",
        };
        self.0.push_str(&format!(
            r#"<text class="{}" x="{}" y="{}"{across}{down}>{}</text>"#,
            class.into(),
            decimal(x),
            decimal(y),
            escaped(text)
        ));
    }

    /// Numbers for scripts; `<` and `&` are written as JSON escapes.
    pub fn metadata(&mut self, json: &str) {
        let json = json
            .replace('&', "\\u0026")
            .replace('<', "\\u003c")
            .replace('>', "\\u003e");
        self.0.push_str(&format!("<metadata>{json}</metadata>"));
    }

    fn path(&mut self, class: Class, data: &str) {
        let line = match class.line {
            Some(line) => format!(r#" data-line="{line}""#),
            None => String::new(),
        };
        self.0
            .push_str(&format!(r#"<path class="{class}" d="{data}"{line}/>"#));
    }
}

/// Path data: an absolute start and relative steps, `M52 122l333.6-100`. Points on their predecessor are left out.
fn connected(points: &[Place]) -> String {
    let (x, y) = points[0];
    let mut data = format!("M{} {}l", decimal(x), decimal(y));
    for pair in points.windows(2).filter(|pair| pair[0] != pair[1]) {
        push_step(&mut data, pair[1].0 - pair[0].0);
        push_step(&mut data, pair[1].1 - pair[0].1);
    }
    if data.ends_with('l') {
        // All at one place: a line needs a step.
        data.push_str("0 0");
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

/// Tenths as a short decimal: `12`, `-.5`.
fn decimal(tenths: i32) -> String {
    let mut text = String::new();
    push_decimal(&mut text, tenths);
    text
}

fn push_decimal(text: &mut String, tenths: i32) {
    if tenths < 0 {
        text.push('-');
    }
    let whole = tenths.unsigned_abs() / 10;
    let tenth = tenths.unsigned_abs() % 10;
    if whole > 0 || tenth == 0 {
        write!(text, "{whole}").ok();
    }
    if tenth > 0 {
        text.push('.');
        text.push(char::from(b'0' + tenth as u8));
    }
}

/// Escapes text for elements and quoted attributes, and drops control characters.
fn escaped(text: &str) -> String {
    let text = text.replace(char::is_control, "");
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let text = text.replace('>', "&gt;").replace('"', "&quot;");
    text.replace('\'', "&#39;")
}
