//! The charts of all pages: their titles, axes and series.

mod draw;
mod marks;
mod view;

use crate::alert::Severity;
use crate::chart::{Axis, Look, Side, Threshold, Unit};
use crate::config::Thresholds;
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::quantity::Quantity;
use crate::store::{SeriesKey, Subject};
use crate::topology::Device;
pub use draw::{ChartFigure, Charts, RelationView, draw};
pub use view::{ChoiceLink, RangeTools, View};

const HEIGHT: u32 = 140;
pub const BYTES: Axis = axis(Unit::BytesPerSecond);

/// An axis up to the largest value.
pub const fn axis(unit: Unit) -> Axis {
    Axis { unit, max: None }
}

/// A line before its series is read.
pub struct Trace {
    pub label: String,
    pub wanted: SeriesKey,
    pub look: Look,
    pub side: Side,
    pub area: bool,
    /// Drawn downwards.
    pub is_below: bool,
    /// Of an earlier run: the seconds by which its points are moved, the same for all traces of a page.
    pub moved_s: Option<f64>,
}

/// A chart before its series are read.
pub struct Sketch {
    pub title: String,
    pub traces: Vec<Trace>,
    pub thresholds: Vec<Threshold>,
    /// Whether the lines lie on each other; then each label has its share of the sum.
    pub stacked: bool,
    /// In pixels.
    pub height: u32,
}

impl Sketch {
    pub fn new(title: impl Into<String>, traces: Vec<Trace>) -> Self {
        Self {
            title: title.into(),
            traces,
            thresholds: Vec::new(),
            stacked: false,
            height: HEIGHT,
        }
    }

    /// Adds the lines of the same chart of an earlier run, in quiet looks.
    pub fn add_earlier(&mut self, earlier: Sketch, named: &str, moved_s: f64) {
        for trace in earlier.traces {
            self.traces.push(Trace {
                label: format!("{}, {named}", trace.label),
                look: trace.look.of_earlier(),
                area: false,
                moved_s: Some(moved_s),
                ..trace
            });
        }
    }

    /// The axis of a side, in the unit of its first line; `None` without lines. What is a part of a whole ends at it.
    fn axis(&self, side: Side) -> Option<Axis> {
        let first = self.traces.iter().find(|trace| trace.side == side)?;
        let unit = first.wanted.quantity.unit();
        let max = match unit {
            Unit::Percent => Some(100.0),
            Unit::Share => Some(1.0),
            _ => None,
        };
        Some(Axis { unit, max })
    }
}

impl Trace {
    fn with_area(self) -> Self {
        Self { area: true, ..self }
    }

    /// As an area below the axis: what is written, beside what is read above it.
    fn downwards(self) -> Self {
        Self {
            area: true,
            is_below: true,
            ..self
        }
    }

    fn on_the_right(self) -> Self {
        let side = Side::Right;
        Self { side, ..self }
    }
}

pub fn trace(label: impl Into<String>, subject: &Subject, quantity: Quantity, look: Look) -> Trace {
    Trace {
        label: label.into(),
        wanted: SeriesKey {
            subject: subject.clone(),
            quantity,
        },
        look,
        side: Side::Left,
        area: false,
        is_below: false,
        moved_s: None,
    }
}

pub fn throughput(title: &str, subject: &Subject) -> Sketch {
    let read = trace("read", subject, Quantity::ReadBytes, Look::Read).with_area();
    let written = trace("written", subject, Quantity::WrittenBytes, Look::Write);
    Sketch::new(title, vec![read, written.downwards()])
}

pub fn throughput_of_all() -> Sketch {
    throughput("Throughput of all disks, each byte once", &Subject::Total)
}

/// What each PV reads or writes, on top of each other.
pub fn by_pv(title: &str, pvs: &[&Device], quantity: Quantity) -> Sketch {
    let mut traces = Vec::new();
    for (pv, number) in pvs.iter().zip(0_u8..) {
        let subject = Subject::Device(pv.identity.to_string());
        traces.push(trace(&*pv.name, &subject, quantity, Look::Other(number)));
    }
    Sketch {
        stacked: true,
        ..Sketch::new(title, traces)
    }
}

/// Whether there is or was a thick snapshot, and so COW copying.
pub fn may_copy(present: &Present, jobs: &[Job]) -> bool {
    let mut volumes = present.interval.topology.volumes.iter();
    volumes.any(|volume| volume.kind.is_thick_snapshot())
        || jobs.iter().any(|job| job.kind == JobKind::Snapshot)
}

/// The COW copying of PVs: reads of chunks before they are overwritten, and writes to COW areas.
pub fn copying<'a>(pvs: impl Iterator<Item = &'a Device>) -> Sketch {
    let quantities = [
        ("copied from", Quantity::CopyReadBytes),
        ("COW written", Quantity::CopyWrittenBytes),
    ];
    Sketch::new("COW copying", disk_traces(pvs, quantities))
}

/// Two traces of each disk: upwards, such as what is read, and downwards, such as what is written.
pub fn disk_traces<'a>(
    disks: impl Iterator<Item = &'a Device>,
    quantities: [(&str, Quantity); 2],
) -> Vec<Trace> {
    let mut traces = Vec::new();
    for (disk, number) in disks.zip(0_u8..) {
        let subject = Subject::Device(disk.identity.to_string());
        let looks = match number {
            0 => [Look::Read, Look::Write],
            number => [Look::Other(2 * number - 2), Look::Other(2 * number - 1)],
        };
        for (place, (what, quantity)) in quantities.into_iter().enumerate() {
            let label = format!("{} {what}", disk.name);
            traces.push(Trace {
                is_below: place == 1,
                ..trace(label, &subject, quantity, looks[place])
            });
        }
    }
    traces
}

pub fn latency(subject: &Subject) -> Sketch {
    let traces = vec![
        trace("read", subject, Quantity::ReadAwaitMs, Look::Read),
        trace("written", subject, Quantity::WriteAwaitMs, Look::Write),
    ];
    Sketch::new("Latency (await)", traces)
}

pub fn utilisation(subject: &Subject) -> Sketch {
    let busy = trace("busy", subject, Quantity::Utilisation, Look::Other(0));
    let queue = trace("queue depth", subject, Quantity::QueueDepth, Look::Other(1));
    let traces = vec![busy.with_area(), queue.on_the_right()];
    Sketch::new("Busy and queue depth", traces)
}

/// All that is drawn of a device. A new chart of it goes here.
pub fn of_device(subject: &Subject, copied: Option<&Device>) -> Vec<Sketch> {
    vec![
        throughput("Throughput", subject),
        copying(copied.into_iter()),
        latency(subject),
        utilisation(subject),
    ]
}

/// `vmstat`'s bi and bo.
pub fn paging() -> Sketch {
    let traces = vec![
        trace("bi", &Subject::Host, Quantity::BiKibPerS, Look::Read).with_area(),
        trace("bo", &Subject::Host, Quantity::BoKibPerS, Look::Write).downwards(),
    ];
    let title = "Paged in and out (vmstat's bi and bo)";
    Sketch::new(title, traces)
}

/// Fills with alert thresholds.
pub fn fills(traces: Vec<Trace>, thresholds: Option<Thresholds>) -> Sketch {
    Sketch {
        thresholds: threshold_lines(thresholds, Side::Left),
        ..Sketch::new("Fill", traces)
    }
}

/// Fill and read speed of a snapshot: the chart that cowbell was made for.
pub fn fill_and_read_speed(subject: &Subject, thresholds: Option<Thresholds>) -> Sketch {
    let read = trace("read speed", subject, Quantity::ReadBytes, Look::Read);
    let fill = trace("fill", subject, Quantity::FillPercent, Look::Fill);
    let traces = vec![read.with_area(), fill.on_the_right()];
    Sketch {
        thresholds: threshold_lines(thresholds, Side::Right),
        ..Sketch::new("Fill and read speed", traces)
    }
}

/// Fill of a volume, and of its metadata if any.
pub fn fill_traces(name: &str, subject: &Subject, has_metadata: bool, number: u8) -> Vec<Trace> {
    let look = match number {
        0 => Look::Fill,
        number => Look::Other(number - 1),
    };
    let mut traces = vec![trace(name, subject, Quantity::FillPercent, look)];
    if has_metadata {
        let (label, look) = (format!("{name} metadata"), Look::Other(number + 2));
        traces.push(trace(label, subject, Quantity::MetadataPercent, look));
    }
    traces
}

fn threshold_lines(thresholds: Option<Thresholds>, side: Side) -> Vec<Threshold> {
    let Some(Thresholds {
        warning, critical, ..
    }) = thresholds
    else {
        return Vec::new();
    };
    let line = |(value, severity): (f64, Severity)| Threshold {
        value,
        side,
        label: format!("{} {value} %", severity.text()),
        severity,
    };
    let lines = [(warning, Severity::Warning), (critical, Severity::Critical)];
    lines.map(line).into()
}
