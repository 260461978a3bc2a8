//! The numbers of the devices' table.

use super::query::{Column, Query, Show};
use crate::interval::Work;
use crate::series::quantity::DeviceQuantity;
use crate::series::{Observation, per_second};
use crate::tally::{Rates, Tally};
use crate::web::pages::text;

/// The numbers of one row, computed from these.
#[derive(Clone, Copy, Debug)]
pub enum Figures {
    /// Work, and the microseconds that it took.
    Mean(Work, u64),
    Maximum(Rates),
    Sum(Work),
    Unknown,
}

impl Figures {
    /// The numbers for `show`, from the last interval or since the start.
    pub fn of(show: Show, work: Option<Work>, elapsed_us: u64, tally: Option<&Tally>) -> Self {
        match (show, work, tally) {
            (Show::Rate, Some(work), _) => Self::Mean(work, elapsed_us),
            (Show::Average, _, Some(tally)) => Self::Mean(tally.sum, tally.elapsed_us),
            (Show::Maximum, _, Some(tally)) => Self::Maximum(tally.most),
            (Show::Sum, _, Some(tally)) => Self::Sum(tally.sum),
            _ => Self::Unknown,
        }
    }

    /// `None` if unknown, or meaningless.
    pub fn value(&self, column: Column) -> Option<f64> {
        match (column, *self) {
            (_, Self::Mean(work, elapsed_us)) => mean(column, work, elapsed_us),
            (Column::Read, Self::Maximum(most)) => Some(most.read_bytes),
            (Column::Written, Self::Maximum(most)) => Some(most.written_bytes),
            (Column::Total, Self::Maximum(most)) => Some(most.total_bytes),
            (Column::Reads, Self::Maximum(most)) => Some(most.reads),
            (Column::Writes, Self::Maximum(most)) => Some(most.writes),
            (
                Column::Read | Column::Written | Column::Total | Column::Reads | Column::Writes,
                Self::Sum(sum),
            ) => mean(column, sum, 1_000_000),
            _ => None,
        }
    }

    /// All cells after the first. A total has no `busy`, since shares of time do not add up.
    pub fn cells(&self, query: &Query, is_total: bool) -> Vec<Cell> {
        let cell = |(column, _, _, class): (Column, &str, &str, &str)| {
            let value = self
                .value(column)
                .filter(|_| !is_total || column != Column::Busy);
            let text = match column {
                Column::Request => text::amount(value),
                Column::Read | Column::Written | Column::Total if query.show == Show::Sum => {
                    text::amount(value)
                }
                Column::Read | Column::Written | Column::Total => text::rate(value),
                Column::Busy => text::share(value),
                _ => text::count(value),
            };
            let zero = if value.is_none_or(|value| value == 0.0) {
                " zero"
            } else {
                ""
            };
            Cell {
                class: format!("{class}{zero}"),
                text,
            }
        };
        Column::ALL.into_iter().skip(1).map(cell).collect()
    }
}

fn mean(column: Column, work: Work, elapsed_us: u64) -> Option<f64> {
    let quantity = match column {
        Column::Total => return per_second(bytes(work), elapsed_us),
        Column::Request => {
            return Observation::ratio(bytes(work), work.reads + work.writes, 1.0)
                .map(Observation::value);
        }
        Column::Device => return None,
        Column::Read => DeviceQuantity::ReadBytes,
        Column::Written => DeviceQuantity::WrittenBytes,
        Column::Reads => DeviceQuantity::Reads,
        Column::Writes => DeviceQuantity::Writes,
        Column::ReadAwait => DeviceQuantity::ReadAwaitMs,
        Column::WriteAwait => DeviceQuantity::WriteAwaitMs,
        Column::Queue => DeviceQuantity::QueueDepth,
        Column::Busy => DeviceQuantity::Utilisation,
    };
    quantity.value(Some(work), elapsed_us)
}

fn bytes(work: Work) -> u64 {
    work.sectors_read.bytes() + work.sectors_written.bytes()
}

/// One number for display.
pub struct Cell {
    pub class: String,
    pub text: String,
}
