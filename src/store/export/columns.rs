//! Columns of exported rows: each quantity's mean, and for rows of several ticks the smallest and the largest too.

use super::topics::Topics;
use super::{Line, Resolution};
use crate::series::Extent;
use crate::series::quantity::Quantity;

/// The columns of a table, and where each topic's quantities stand.
#[derive(Default)]
pub struct Columns {
    pub names: Vec<String>,
    /// Columns of a quantity.
    pub width: usize,
    /// For each topic the first column of each of its quantities.
    places: Vec<Vec<usize>>,
}

impl Columns {
    pub fn of(quantities: &[Quantity], topics: &Topics, resolution: Resolution) -> Self {
        let width = if resolution == Resolution::Tick { 1 } else { 3 };
        let place = |(_, quantity): &(usize, Quantity)| {
            quantities.iter().position(|other| other == quantity).unwrap_or_default() * width
        };
        Self {
            names: quantities.iter().flat_map(|quantity| names(*quantity).into_iter().take(width)).collect(),
            width,
            places: topics.list.iter().map(|topic| topic.quantities.iter().map(place).collect()).collect(),
        }
    }

    /// The cells of a row; unknown are those of other topics' quantities.
    pub fn cells(&self, line: &Line) -> Vec<Option<f64>> {
        let mut cells = vec![None; self.names.len()];
        for (place, extent) in self.places[line.place].iter().zip(line.values) {
            let room = cells[*place..].iter_mut().take(self.width);
            room.zip(values(extent.as_ref())).for_each(|(cell, value)| *cell = value);
        }
        cells
    }
}

/// The mean, the smallest and the largest.
pub fn values(extent: Option<&Extent>) -> [Option<f64>; 3] {
    extent.map_or([None; 3], |extent| [extent.all.value(), extent.min, extent.max].map(Some))
}

/// The names of a quantity's mean, smallest and largest.
pub fn names(quantity: Quantity) -> [String; 3] {
    let name = quantity.name();
    let [min, max] = ["min", "max"].map(|which| format!("{name}_{which}"));
    [name, min, max]
}
