//! The phases of a job, as hooks or somebody else told them, and what each did: one row a phase, one narrow column a PV.
//!
//! When they began is known at once; what they did is there once the job's cost is.

use jiff::Timestamp;

use super::moment;
use super::rows::seconds_between;
use super::text::{DASH, or_dash};
use crate::job::figures::{PhasePv, PhaseWork};
use crate::job::{Job, PhaseSpan};
use crate::report::figure::Unit;
use crate::report::phases::pvs;
use crate::units::Prefix;

/// The table; what no phase has is no column.
pub struct PhaseTable {
    pub rows: Vec<PhaseRow>,
    pub has_work: bool,
    pub has_read: bool,
    pub has_written: bool,
    pub pvs: Vec<String>,
}

/// A phase, how much of the job it took, and what it did.
pub struct PhaseRow {
    pub name: String,
    /// Since the job began.
    pub began: String,
    pub at: String,
    pub took: String,
    /// Where its bar begins and how wide it is, in percent of the job's time.
    pub from: String,
    pub width: String,
    /// The speed, and the amount.
    pub read: (String, String),
    pub written: (String, String),
    /// As many as the table has.
    pub pvs: Vec<PvCell>,
}

pub struct PvCell {
    pub busy: String,
    /// Of its bar, in percent; `None` where it is not known.
    pub width: Option<String>,
    pub speed: String,
}

/// `None` of a job without phases. `work` is what they did, as far as that was computed.
pub fn phases(job: &Job, work: &[PhaseWork], now: Timestamp) -> Option<PhaseTable> {
    let spans = job.phases();
    let names = pvs(work);
    let rows = spans.iter().enumerate().map(|(place, span)| {
        // What was computed a moment ago may have one phase less.
        let work = work.get(place).filter(|work| work.name == span.name);
        row(job, span, work, &names, now)
    });
    (!spans.is_empty()).then(|| PhaseTable {
        rows: rows.collect(),
        has_work: !work.is_empty(),
        has_read: work.iter().any(|work| work.read_bytes.is_some()),
        has_written: work.iter().any(|work| work.written_bytes.is_some()),
        pvs: names.iter().map(|name| name.to_string()).collect(),
    })
}

fn row(job: &Job, span: &PhaseSpan, work: Option<&PhaseWork>, pvs: &[&str], now: Timestamp) -> PhaseRow {
    let whole = job.seconds(now).max(f64::MIN_POSITIVE);
    let percent = |seconds: f64| format!("{:.2}", (seconds / whole * 100.0).clamp(0.0, 100.0));
    let began_s = seconds_between(job.started_at, span.began_at);
    let seconds = seconds_between(span.began_at, span.ended_at.unwrap_or(now)).max(0.0);
    let moved = |speed: Option<f64>, amount: Option<f64>| {
        (text(Unit::Rate, speed), amount.map_or_else(String::new, |bytes| text(Unit::Bytes, Some(bytes))))
    };
    let of = |value: fn(&PhaseWork) -> Option<f64>| work.and_then(value);
    PhaseRow {
        name: span.name.into(),
        began: text(Unit::Seconds, Some(began_s)),
        at: moment(span.began_at, now),
        took: text(Unit::Seconds, Some(seconds)),
        from: percent(began_s),
        width: percent(seconds),
        read: moved(of(|work| work.read_bytes_per_s), of(|work| work.read_bytes)),
        written: moved(of(|work| work.written_bytes_per_s), of(|work| work.written_bytes)),
        pvs: pvs.iter().map(|name| pv(work.and_then(|work| work.pv(name)))).collect(),
    }
}

fn pv(pv: Option<&PhasePv>) -> PvCell {
    let busy = pv.and_then(|pv| pv.utilisation).map(|share| share * 100.0);
    PvCell {
        busy: busy.map_or(DASH.into(), |percent| format!("{percent:.0} %")),
        width: busy.map(|percent| format!("{:.1}", percent.clamp(0.0, 100.0))),
        speed: pv
            .and_then(PhasePv::bytes_per_s)
            .map_or_else(String::new, |speed| text(Unit::Rate, Some(speed))),
    }
}

fn text(unit: Unit, value: Option<f64>) -> String {
    or_dash(value.map(|value| unit.text(value, Prefix::default())))
}
