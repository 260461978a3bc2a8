//! The numbers of the devices' table.

use super::query::{Column, Query, Show};
use crate::averages::DeviceAverages;
use crate::interval::Work;
use crate::quantity::Unit;
use crate::web::pages::text;

/// The numbers of one row are computed from these.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    pub show: Show,
    /// In the last interval.
    pub work: Work,
    pub elapsed_us: u64,
    /// Since the start.
    pub averages: Option<&'a DeviceAverages>,
}

impl Figures<'_> {
    /// `None` if unknown, or meaningless.
    pub fn value(&self, column: Column) -> Option<f64> {
        let quantity = column.quantity()?;
        match self.show {
            Show::Rate => quantity.of_work(&self.work, self.elapsed_us),
            Show::Average => self.averages?.mean(quantity),
            Show::Maximum => self.averages?.max(quantity),
            Show::Sum => self.averages?.sum(quantity),
        }
    }

    /// All cells after the first. A total has no `busy`, since shares of time do not add up.
    pub fn cells(&self, query: &Query, is_total: bool) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (column, _, _, class) in Column::ALL {
            let Some(quantity) = column.quantity() else {
                continue;
            };
            let value = self
                .value(column)
                .filter(|_| !is_total || column != Column::Busy);
            let text = match quantity.unit() {
                Unit::BytesPerSecond if query.show != Show::Sum => text::rate(value),
                Unit::Bytes | Unit::BytesPerSecond => text::amount(value),
                Unit::Share => text::share(value),
                _ => text::count(value),
            };
            let zero = if value.is_none_or(|value| value == 0.0) {
                " zero"
            } else {
                ""
            };
            cells.push(Cell {
                class: format!("{class}{zero}"),
                text,
            });
        }
        cells
    }
}

/// One number for display.
pub struct Cell {
    pub class: String,
    pub text: String,
}
