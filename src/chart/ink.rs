//! Maps each shape's class names (role and look) to a colour and back.
//!
//! plotters supports colours only, so each class has a colour of its own, with the number of its line. The backend turns
//! it back into class names.

use plotters::style::RGBColor;
use plotters_backend::BackendColor;

use crate::alert::Severity;

const ROLES: [&str; 9] = [
    "grid", "axis", "tick", "envelope", "area", "line", "dot", "level", "ahead",
];
const LOOKS: [&str; 12] = [
    "", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "kf", "warning", "critical",
];

/// The number of looks for lines that show neither reads, writes nor a fill.
const OTHERS: u8 = 6;

/// Colour and dash of a line: reads are solid, writes are dashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Read,
    Write,
    /// Usage.
    Fill,
    /// One of six further looks, by number modulo six.
    Other(u8),
}

impl Look {
    /// The class in the style sheet.
    pub fn class(self) -> &'static str {
        LOOKS[usize::from(self.number())]
    }

    fn number(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::Other(number) => 3 + number % OTHERS,
            Self::Fill => 9,
        }
    }
}

/// The purpose of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Grid,
    Axis,
    Tick,
    Envelope,
    Area,
    Line,
    Dot,
    Threshold,
    /// A forecast.
    Ahead,
}

/// The colour of a shape without look.
pub fn plain(role: Role) -> RGBColor {
    RGBColor(role as u8, 0, 0)
}

/// The colour of a shape of a chart's n-th line.
pub fn line(role: Role, look: Look, number: usize) -> RGBColor {
    RGBColor(
        role as u8,
        u8::try_from(number + 1).unwrap_or(0),
        look.number(),
    )
}

/// The number of the line that a shape belongs to.
pub fn line_number(colour: BackendColor) -> Option<u8> {
    colour.rgb.1.checked_sub(1)
}

/// The colour of a shape of a forecast.
pub fn forecast(role: Role, look: Look) -> RGBColor {
    RGBColor(role as u8, 0, look.number())
}

pub fn threshold(severity: Severity) -> RGBColor {
    let look = match severity {
        Severity::Warning => 10,
        Severity::Critical => 11,
    };
    RGBColor(Role::Threshold as u8, 0, look)
}

/// The class names of a colour.
pub fn classes(colour: BackendColor) -> String {
    let (role, _, look) = colour.rgb;
    let name = |names: &[&'static str], number: u8| {
        names.get(usize::from(number)).copied().unwrap_or_default()
    };
    match name(&LOOKS, look) {
        "" => name(&ROLES, role).to_owned(),
        look => format!("{} {look}", name(&ROLES, role)),
    }
}

/// Whether whole pixels are precise enough for a shape, as for tints.
pub fn is_coarse(colour: BackendColor) -> bool {
    colour.rgb.0 == Role::Envelope as u8
}

/// Whether the points of a path are not connected.
pub fn is_dots(colour: BackendColor) -> bool {
    colour.rgb.0 == Role::Dot as u8
}
