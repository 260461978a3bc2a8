//! The phases of a job: a row each, with a column for each PV.

use jiff::Timestamp;

use super::moment;
use crate::job::figures::{PhasePv, PhaseWork};
use crate::job::{Job, PhaseSpan};
use crate::report::figure::FigureUnit;
use crate::report::phases::{OF_WHOLE_TICKS, pvs};
use crate::series::Range;
use crate::table::{Bar, Cell, Column, Table};

pub struct Phases {
    pub table: Table,
    pub note: Option<&'static str>,
}

/// `None` without phases. `work` is empty until it is computed; columns without values are left out.
pub fn phases(job: &Job, work: &[PhaseWork], now: Timestamp) -> Option<Phases> {
    let (spans, names) = (job.phases(), pvs(work));
    let has_read = work.iter().any(|work| work.read_bytes.is_some());
    let has_written = work.iter().any(|work| work.written_bytes.is_some());
    let row = |(place, span): (usize, &PhaseSpan)| {
        // `work` may be older and lack the last phase.
        let work = work.get(place).filter(|work| work.name == span.name);
        let of = |value: fn(&PhaseWork) -> Option<f64>| work.and_then(value);
        let read =
            has_read.then(|| moved(of(|work| work.read_bytes_per_s), of(|work| work.read_bytes)));
        let written = has_written.then(|| {
            moved(
                of(|work| work.written_bytes_per_s),
                of(|work| work.written_bytes),
            )
        });
        let pvs = names
            .iter()
            .map(|name| pv(work.and_then(|work| work.pv(name))));
        times(job, span, now)
            .into_iter()
            .chain(read)
            .chain(written)
            .chain(pvs)
            .collect()
    };
    let mut columns = vec![
        Column::name("Phase"),
        Column::number("Started"),
        Column::number("Took"),
        Column::text("Share").class("less"),
    ];
    columns.extend(has_read.then(|| Column::number("Read")));
    columns.extend(has_written.then(|| Column::number("Written")));
    columns.extend(
        names
            .iter()
            .map(|name| Column::number(format!("{name} busy"))),
    );
    (!spans.is_empty()).then(|| Phases {
        table: Table::new("Phases", columns, spans.iter().enumerate().map(row)).class("phases"),
        note: (!work.is_empty()).then_some(OF_WHOLE_TICKS),
    })
}

/// Name, start, duration, and share of the job.
fn times(job: &Job, span: &PhaseSpan, now: Timestamp) -> [Cell; 4] {
    let whole = job.seconds(now).max(f64::MIN_POSITIVE);
    let percent = |seconds: f64| (seconds / whole * 100.0).clamp(0.0, 100.0);
    let began_s = Range {
        from: job.started_at,
        to: span.began_at,
    }
    .seconds();
    let seconds = Range {
        from: span.began_at,
        to: span.ended_at.unwrap_or(now),
    }
    .seconds()
    .max(0.0);
    let share = Bar {
        from: percent(began_s),
        width: percent(seconds),
        class: "used",
        mark: None,
    };
    [
        span.name.into(),
        text(FigureUnit::Seconds, Some(began_s)).small(moment(span.began_at, now)),
        text(FigureUnit::Seconds, Some(seconds)),
        Cell::default().bar(share),
    ]
}

/// Speed and amount.
fn moved(speed: Option<f64>, amount: Option<f64>) -> Cell {
    let amount = amount.map(|bytes| FigureUnit::Bytes.text(bytes));
    text(FigureUnit::Rate, speed).small(amount.unwrap_or_default())
}

fn pv(pv: Option<&PhasePv>) -> Cell {
    let busy = pv.and_then(|pv| pv.utilisation).map(|share| share * 100.0);
    let speed = pv
        .and_then(PhasePv::bytes_per_s)
        .map(|speed| FigureUnit::Rate.text(speed));
    let cell = Cell::known(busy.map(|percent| format!("{percent:.0} %")));
    let bar = busy.map(|percent| Bar {
        width: percent.clamp(0.0, 100.0),
        class: "used",
        ..Bar::default()
    });
    bar.map_or(cell.clone(), |bar| cell.bar(bar))
        .small(speed.unwrap_or_default())
}

fn text(unit: FigureUnit, value: Option<f64>) -> Cell {
    Cell::known(value.map(|value| unit.text(value)))
}
