//! The phases of a job, as hooks or a user told them, and what each did: one row a phase, one narrow column a PV.
//!
//! When they began is known at once; what they did is there once the job's cost is.

use jiff::Timestamp;

use super::moment;
use super::rows::seconds_between;
use crate::job::figures::{PhasePv, PhaseWork};
use crate::job::{Job, PhaseSpan};
use crate::report::figure::Unit;
use crate::report::phases::{OF_WHOLE_TICKS, pvs};
use crate::table::{Bar, Cell, Column, Table};
use crate::units::Prefix;

pub struct Phases {
    pub table: Table,
    pub note: Option<String>,
}

/// `None` of a job without phases. `work` is what they did, as far as that was computed; what no phase has is no column.
pub fn phases(job: &Job, work: &[PhaseWork], now: Timestamp) -> Option<Phases> {
    let (spans, names) = (job.phases(), pvs(work));
    let has_read = work.iter().any(|work| work.read_bytes.is_some());
    let has_written = work.iter().any(|work| work.written_bytes.is_some());
    let row = |(place, span): (usize, &PhaseSpan)| {
        // What was computed a moment ago may have one phase less.
        let work = work.get(place).filter(|work| work.name == span.name);
        let of = |value: fn(&PhaseWork) -> Option<f64>| work.and_then(value);
        let read = has_read.then(|| moved(of(|work| work.read_bytes_per_s), of(|work| work.read_bytes)));
        let written =
            has_written.then(|| moved(of(|work| work.written_bytes_per_s), of(|work| work.written_bytes)));
        let pvs = names.iter().map(|name| pv(work.and_then(|work| work.pv(name))));
        times(job, span, now).into_iter().chain(read).chain(written).chain(pvs).collect()
    };
    let mut columns = vec![
        Column::name("Phase"),
        Column::number("Began"),
        Column::number("Took"),
        Column::text("Share").class("less"),
    ];
    columns.extend(has_read.then(|| Column::number("Read")));
    columns.extend(has_written.then(|| Column::number("Written")));
    columns.extend(names.iter().map(|name| Column::number(*name)));
    let of_pvs = if names.is_empty() { "" } else { OF_PVS };
    (!spans.is_empty()).then(|| Phases {
        table: Table::new("Phases", columns, spans.iter().enumerate().map(row)).class("phases"),
        note: (!work.is_empty()).then(|| format!("{OF_WHOLE_TICKS}{of_pvs}")),
    })
}

const OF_PVS: &str = " Of each PV: how busy it was, and what was read and written there together.";

/// Its name, when it began, how long it took and which part of the job that was.
fn times(job: &Job, span: &PhaseSpan, now: Timestamp) -> [Cell; 4] {
    let whole = job.seconds(now).max(f64::MIN_POSITIVE);
    let percent = |seconds: f64| (seconds / whole * 100.0).clamp(0.0, 100.0);
    let began_s = seconds_between(job.started_at, span.began_at);
    let seconds = seconds_between(span.began_at, span.ended_at.unwrap_or(now)).max(0.0);
    let share = Bar { from: percent(began_s), width: percent(seconds), class: "used", mark: None };
    [
        span.name.into(),
        text(Unit::Seconds, Some(began_s)).small(moment(span.began_at, now)),
        text(Unit::Seconds, Some(seconds)),
        Cell::default().bar(share),
    ]
}

/// The speed, and the amount.
fn moved(speed: Option<f64>, amount: Option<f64>) -> Cell {
    let amount = amount.map(|bytes| Unit::Bytes.text(bytes, Prefix::default()));
    text(Unit::Rate, speed).small(amount.unwrap_or_default())
}

fn pv(pv: Option<&PhasePv>) -> Cell {
    let busy = pv.and_then(|pv| pv.utilisation).map(|share| share * 100.0);
    let speed = pv.and_then(PhasePv::bytes_per_s).map(|speed| Unit::Rate.text(speed, Prefix::default()));
    let cell = Cell::known(busy.map(|percent| format!("{percent:.0} %")));
    let bar = busy.map(|percent| Bar { width: percent.clamp(0.0, 100.0), class: "used", ..Bar::default() });
    bar.map_or(cell.clone(), |bar| cell.bar(bar)).small(speed.unwrap_or_default())
}

fn text(unit: Unit, value: Option<f64>) -> Cell {
    Cell::known(value.map(|value| unit.text(value, Prefix::default())))
}
