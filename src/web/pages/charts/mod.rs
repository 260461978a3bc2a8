//! The charts of all pages: their titles, axes and series.

mod draw;
mod marks;
mod nearest;
mod view;

use crate::alert::Severity;
use crate::chart::{Axis, Look, Side, Threshold, Unit};
use crate::config::Thresholds;
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::quantity::Quantity;
use crate::store::{SeriesKey, Subject};
use crate::topology::{Device, Volume};
pub use draw::{Charts, Figure, RelationView, draw};
pub use view::{ChoiceLink, RangeTools, View};

pub const BYTES: Axis = Axis {
    unit: Unit::BytesPerSecond,
    max: None,
};
const PERCENT: Axis = Axis {
    unit: Unit::Percent,
    max: Some(100.0),
};

/// A line before its series is read.
pub struct Trace {
    pub label: String,
    pub wanted: SeriesKey,
    pub look: Look,
    pub side: Side,
    pub area: bool,
}

/// A chart before its series are read.
pub struct Sketch {
    pub title: String,
    pub left: Axis,
    pub right: Option<Axis>,
    pub traces: Vec<Trace>,
    pub thresholds: Vec<Threshold>,
    /// Whether the lines lie on each other; then each label has its share of the sum.
    pub stacked: bool,
    /// In pixels.
    pub height: u32,
}

const HEIGHT: u32 = 140;

impl Sketch {
    pub fn new(title: impl Into<String>, left: Axis, traces: Vec<Trace>) -> Self {
        Self {
            title: title.into(),
            left,
            right: None,
            traces,
            thresholds: Vec::new(),
            stacked: false,
            height: HEIGHT,
        }
    }
}

pub fn trace(label: impl Into<String>, subject: &Subject, quantity: Quantity, look: Look) -> Trace {
    let wanted = SeriesKey {
        subject: subject.clone(),
        quantity,
    };
    Trace {
        label: label.into(),
        wanted,
        look,
        side: Side::Left,
        area: false,
    }
}

pub fn throughput(title: &str, subject: &Subject) -> Sketch {
    let read = trace("read", subject, Quantity::ReadBytes, Look::Read);
    let written = trace("written", subject, Quantity::WrittenBytes, Look::Write);
    Sketch::new(title, BYTES, vec![Trace { area: true, ..read }, written])
}

/// What each PV reads or writes, on top of each other.
pub fn by_pv(title: &str, pvs: &[&Device], quantity: Quantity) -> Sketch {
    let trace = |(pv, number): (&&Device, u8)| {
        let subject = Subject::Device(pv.identity.to_string());
        trace(&*pv.name, &subject, quantity, Look::Other(number))
    };
    let traces = pvs.iter().zip(0_u8..).map(trace).collect();
    Sketch {
        stacked: true,
        ..Sketch::new(title, BYTES, traces)
    }
}

/// Whether there is or was a thick snapshot, and so COW copying.
pub fn may_copy(present: &Present, jobs: &[Job]) -> bool {
    let is_snapshot = |volume: &Volume| volume.kind.is_thick_snapshot();
    present.interval.topology.volumes.iter().any(is_snapshot)
        || jobs.iter().any(|job| job.kind == JobKind::Snapshot)
}

/// The COW copying of PVs: reads of chunks before they are overwritten, and writes to COW areas.
pub fn copying<'a>(pvs: impl Iterator<Item = &'a Device>) -> Sketch {
    let traces = pvs.zip(0_u8..).flat_map(|(pv, number)| {
        let subject = Subject::Device(pv.identity.to_string());
        let looks = disk_looks(number);
        let trace = |what: &str, quantity, look| {
            trace(format!("{} {what}", pv.name), &subject, quantity, look)
        };
        [
            trace("copied from", Quantity::CopyReadBytes, looks[0]),
            trace("COW written", Quantity::CopyWrittenBytes, looks[1]),
        ]
    });
    Sketch::new("COW copying", BYTES, traces.collect())
}

/// The looks of reads and writes of the n-th disk in a chart.
pub fn disk_looks(number: u8) -> [Look; 2] {
    match number {
        0 => [Look::Read, Look::Write],
        number => [Look::Other(2 * number - 2), Look::Other(2 * number - 1)],
    }
}

pub fn latency(subject: &Subject) -> Sketch {
    let traces = vec![
        trace("read", subject, Quantity::ReadAwaitMs, Look::Read),
        trace("written", subject, Quantity::WriteAwaitMs, Look::Write),
    ];
    Sketch::new(
        "Latency (await)",
        Axis {
            unit: Unit::Milliseconds,
            max: None,
        },
        traces,
    )
}

pub fn utilisation(subject: &Subject) -> Sketch {
    let busy = trace("busy", subject, Quantity::Utilisation, Look::Other(0));
    let queue = trace("queue depth", subject, Quantity::QueueDepth, Look::Other(1));
    let traces = vec![
        Trace { area: true, ..busy },
        Trace {
            side: Side::Right,
            ..queue
        },
    ];
    let right = Some(Axis {
        unit: Unit::Count,
        max: None,
    });
    Sketch {
        right,
        ..Sketch::new(
            "Busy and queue depth",
            Axis {
                unit: Unit::Share,
                max: Some(1.0),
            },
            traces,
        )
    }
}

/// `vmstat`'s bi and bo.
pub fn paging() -> Sketch {
    let traces = vec![
        trace("bi", &Subject::Host, Quantity::BiKibPerS, Look::Read),
        trace("bo", &Subject::Host, Quantity::BoKibPerS, Look::Write),
    ];
    let left = Axis {
        unit: Unit::KibPerSecond,
        max: None,
    };
    Sketch::new("Paged in and out (vmstat's bi and bo)", left, traces)
}

/// Fills with alert thresholds.
pub fn fills(traces: Vec<Trace>, thresholds: Option<Thresholds>) -> Sketch {
    Sketch {
        thresholds: threshold_lines(thresholds, Side::Left),
        ..Sketch::new("Fill", PERCENT, traces)
    }
}

/// Fill and read speed of a snapshot: the chart that cowbell was made for.
pub fn fill_and_read_speed(subject: &Subject, thresholds: Option<Thresholds>) -> Sketch {
    let read = trace("read speed", subject, Quantity::ReadBytes, Look::Read);
    let fill = trace("fill", subject, Quantity::FillPercent, Look::Fill);
    let traces = vec![
        Trace { area: true, ..read },
        Trace {
            side: Side::Right,
            ..fill
        },
    ];
    let thresholds = threshold_lines(thresholds, Side::Right);
    Sketch {
        right: Some(PERCENT),
        thresholds,
        ..Sketch::new("Fill and read speed", BYTES, traces)
    }
}

/// Fill of a volume, and of its metadata if any.
pub fn fill_traces(name: &str, subject: &Subject, has_metadata: bool, number: u8) -> Vec<Trace> {
    let look = if number == 0 {
        Look::Fill
    } else {
        Look::Other(number - 1)
    };
    let mut traces = vec![trace(name, subject, Quantity::FillPercent, look)];
    if has_metadata {
        let quantity = Quantity::MetadataPercent;
        traces.push(trace(
            format!("{name} metadata"),
            subject,
            quantity,
            Look::Other(number + 2),
        ));
    }
    traces
}

fn threshold_lines(thresholds: Option<Thresholds>, side: Side) -> Vec<Threshold> {
    let Some(thresholds) = thresholds else {
        return Vec::new();
    };
    let line = |value: f64, severity: Severity| {
        let label = format!("{} {value} %", severity.text());
        Threshold {
            value,
            side,
            label,
            severity,
        }
    };
    vec![
        line(thresholds.warning, Severity::Warning),
        line(thresholds.critical, Severity::Critical),
    ]
}
