//! What the devices' table shows of one device: numbers first, then how they are written.

use super::query::{As, Column, Query, Show};
use crate::interval::Work;
use crate::series::Observation;
use crate::series::quantity::DeviceQuantity;
use crate::tally::{Rates, Tally};
use crate::web::pages::text::{self, Writing};

/// What the table shows of one device, as numbers. `None` is what is not known, or has no meaning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    read: Option<f64>,
    written: Option<f64>,
    total: Option<f64>,
    reads: Option<f64>,
    writes: Option<f64>,
    request: Option<f64>,
    read_await: Option<f64>,
    write_await: Option<f64>,
    queue: Option<f64>,
    busy: Option<f64>,
}

impl Figures {
    fn of(work: Option<Work>, elapsed_us: u64) -> Self {
        let value = |quantity: DeviceQuantity| quantity.observe(&work?, elapsed_us).map(Observation::value);
        let bytes = |work: Work| work.sectors_read.bytes() + work.sectors_written.bytes();
        let request = work
            .and_then(|work| Observation::ratio(bytes(work), work.reads + work.writes, 1.0))
            .map(Observation::value);
        Self {
            read: value(DeviceQuantity::ReadBytes),
            written: value(DeviceQuantity::WrittenBytes),
            total: work
                .and_then(|work| Observation::per_second(bytes(work), elapsed_us, 1.0))
                .map(Observation::value),
            reads: value(DeviceQuantity::Reads),
            writes: value(DeviceQuantity::Writes),
            request,
            read_await: value(DeviceQuantity::ReadAwaitMs),
            write_await: value(DeviceQuantity::WriteAwaitMs),
            queue: value(DeviceQuantity::QueueDepth),
            busy: value(DeviceQuantity::Utilisation),
        }
    }

    fn maximum(most: Rates) -> Self {
        Self {
            read: Some(most.read_bytes),
            written: Some(most.written_bytes),
            total: Some(most.total_bytes),
            reads: Some(most.reads),
            writes: Some(most.writes),
            ..Self::default()
        }
    }

    fn sum(sum: Work) -> Self {
        let (read, written) = (sum.sectors_read.bytes() as f64, sum.sectors_written.bytes() as f64);
        Self {
            read: Some(read),
            written: Some(written),
            total: Some(read + written),
            reads: Some(sum.reads as f64),
            writes: Some(sum.writes as f64),
            ..Self::default()
        }
    }

    /// What `show` asks for, of what was done in the last interval and since the start.
    pub fn shown(show: Show, work: Option<Work>, elapsed_us: u64, tally: Option<&Tally>) -> Self {
        match (show, tally) {
            (Show::Rate, _) => Self::of(work, elapsed_us),
            (_, None) => Self::default(),
            (Show::Average, Some(tally)) => Self::of(Some(tally.sum), tally.elapsed_us),
            (Show::Maximum, Some(tally)) => Self::maximum(tally.most),
            (Show::Sum, Some(tally)) => Self::sum(tally.sum),
        }
    }

    /// For a total, of which it has no meaning.
    pub fn without_busy(self) -> Self {
        Self { busy: None, ..self }
    }

    pub fn value(&self, column: Column) -> Option<f64> {
        match column {
            Column::Device => None,
            Column::Read => self.read,
            Column::Written => self.written,
            Column::Total => self.total,
            Column::Reads => self.reads,
            Column::Writes => self.writes,
            Column::Requests => Some(self.reads? + self.writes?),
            Column::Request => self.request,
            Column::ReadAwait => self.read_await,
            Column::WriteAwait => self.write_await,
            Column::Queue => self.queue,
            Column::Busy => self.busy,
        }
    }

    pub fn cells(&self, query: &Query) -> Vec<Cell> {
        let writing = Writing { prefix: query.unit, bits: query.r#as == As::Bits };
        let cell = |column: Column| {
            let value = self.value(column);
            let text = match column {
                Column::Read | Column::Written | Column::Total if query.show == Show::Sum => {
                    writing.amount(value)
                }
                Column::Read | Column::Written | Column::Total => writing.rate(value),
                Column::Request => writing.amount(value),
                Column::Busy => text::percent(value),
                _ => text::count(value),
            };
            let zero = if value.is_none_or(|value| value == 0.0) { " zero" } else { "" };
            Cell { class: format!("{}{zero}", column.class()), text }
        };
        Column::ALL.into_iter().filter(|column| *column != Column::Device).map(cell).collect()
    }
}

/// One number as it is shown.
pub struct Cell {
    pub class: String,
    pub text: String,
}
