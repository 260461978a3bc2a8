//! `thin`: mapped sectors of a thin volume. Source: `dm-thin.c`.

use crate::units::Sectors;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thin {
    Mapped(Sectors),
    Failed,
}

/// `<mapped sectors> <highest mapped sector>`, or a word; `-` if the thin device cannot be opened.
pub(super) fn parse(words: &[&str]) -> Option<Thin> {
    match words {
        ["Fail" | "Error" | "-"] => Some(Thin::Failed),
        [mapped, _highest] => Some(Thin::Mapped(Sectors(mapped.parse().ok()?))),
        _ => None,
    }
}
