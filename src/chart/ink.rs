//! What is drawn with what: a role and a look, carried through plotters as a colour that nobody sees.
//!
//! plotters knows colours only. Each ink has a colour of its own; the backend turns it back into class names.

use plotters::style::{RGBColor, ShapeStyle};
use plotters_backend::BackendColor;

use super::Grade;

const ROLES: [&str; 8] = ["grid", "axis", "tick", "envelope", "area", "line", "dot", "level"];
const LOOKS: [&str; 12] = ["", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "kf", "warning", "critical"];

/// Looks that are neither reading, writing nor a fill.
const OTHERS: u8 = 6;

/// Colour and dash of a line. Reading is a whole line, writing a dashed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Read,
    Write,
    /// How full something is.
    Fill,
    /// Six further looks, counted from 0, then again from the first.
    Other(u8),
}

impl Look {
    /// The class of the style sheet.
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

/// What a shape is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Grid,
    Axis,
    Tick,
    Envelope,
    Area,
    Line,
    Dot,
    Level,
}

/// A role with its look.
#[derive(Clone, Copy, Debug)]
pub struct Ink {
    role: Role,
    look: u8,
}

impl Ink {
    pub fn plain(role: Role) -> Self {
        Self { role, look: 0 }
    }

    pub fn line(role: Role, look: Look) -> Self {
        Self { role, look: look.number() }
    }

    pub fn level(grade: Grade) -> Self {
        let look = match grade {
            Grade::Warning => 10,
            Grade::Critical => 11,
        };
        Self { role: Role::Level, look }
    }

    pub fn colour(self) -> RGBColor {
        RGBColor(self.role as u8, 0, self.look)
    }

    pub fn stroke(self) -> ShapeStyle {
        ShapeStyle::from(self.colour())
    }

    pub fn fill(self) -> ShapeStyle {
        self.stroke().filled()
    }
}

/// The class names of an ink's colour.
pub fn classes(colour: BackendColor) -> String {
    let (role, _, look) = colour.rgb;
    let name =
        |names: &[&'static str], number: u8| names.get(usize::from(number)).copied().unwrap_or_default();
    match name(&LOOKS, look) {
        "" => name(&ROLES, role).to_owned(),
        look => format!("{} {look}", name(&ROLES, role)),
    }
}

/// Whether a shape is only a tint, for which whole pixels are fine enough.
pub fn is_coarse(colour: BackendColor) -> bool {
    colour.rgb.0 == Role::Envelope as u8
}
