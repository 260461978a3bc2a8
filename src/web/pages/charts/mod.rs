//! Which series make which chart. What is asked for stands in `view`, and how it is read and drawn in `draw`.

mod draw;
mod view;

use crate::alert::Severity;
use crate::chart::{Axis, Look, Side, Threshold, Unit};
use crate::config::Thresholds;
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::series::quantity::{DeviceQuantity, HostQuantity, Quantity, ShareQuantity, VolumeQuantity};
use crate::store::{Subject, Wanted};
use crate::topology::{Device, Volume, VolumeKind};
use crate::units::Prefix;
pub use draw::{Figure, draw};
pub use view::{RangeLink, View};

pub const BYTES: Axis = Axis { unit: Unit::BytesPerSecond(Prefix::Binary), max: None };
const PERCENT: Axis = Axis { unit: Unit::Percent, max: Some(100.0) };

/// A line before its series is read.
pub struct Trace {
    pub label: String,
    pub wanted: Wanted,
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
}

pub fn trace(label: impl Into<String>, subject: &Subject, quantity: Quantity, look: Look) -> Trace {
    let wanted = Wanted { subject: subject.clone(), quantity };
    Trace { label: label.into(), wanted, look, side: Side::Left, area: false }
}

/// Reading and writing of one subject.
pub fn throughput(title: &str, subject: &Subject) -> Sketch {
    let read = trace("read", subject, Quantity::Device(DeviceQuantity::ReadBytes), Look::Read);
    let written = trace("written", subject, Quantity::Device(DeviceQuantity::WrittenBytes), Look::Write);
    Sketch {
        title: title.into(),
        left: BYTES,
        right: None,
        traces: vec![Trace { area: true, ..read }, written],
        thresholds: Vec::new(),
    }
}

/// Whether anything may have been copied aside in what is shown: there is a thick snapshot, or there was.
pub fn may_copy(present: &Present, jobs: &[Job]) -> bool {
    let is_snapshot = |volume: &Volume| volume.kind == VolumeKind::Snapshot;
    present.interval.topology.volumes.iter().any(is_snapshot)
        || jobs.iter().any(|job| job.kind == JobKind::Snapshot)
}

/// What PVs did for thick snapshots: reading what is about to be overwritten, and writing COW areas.
pub fn copying<'a>(pvs: impl Iterator<Item = &'a Device>) -> Sketch {
    let traces = pvs.zip(0_u8..).flat_map(|(pv, number)| {
        let subject = Subject::Device(pv.identity.to_string());
        let looks = disk_looks(number);
        let trace = |what: &str, quantity, look| {
            trace(format!("{} {what}", pv.name), &subject, Quantity::Share(quantity), look)
        };
        [
            trace("copied from", ShareQuantity::CopyReadBytes, looks[0]),
            trace("COW written", ShareQuantity::CopyWrittenBytes, looks[1]),
        ]
    });
    Sketch {
        title: "Of that, COW copying".into(),
        left: BYTES,
        right: None,
        traces: traces.collect(),
        thresholds: Vec::new(),
    }
}

/// The colours of reading and writing of the n-th disk in a chart.
pub fn disk_looks(number: u8) -> [Look; 2] {
    match number {
        0 => [Look::Read, Look::Write],
        number => [Look::Other(2 * number - 2), Look::Other(2 * number - 1)],
    }
}

pub fn latency(subject: &Subject) -> Sketch {
    let traces = vec![
        trace("read", subject, Quantity::Device(DeviceQuantity::ReadAwaitMs), Look::Read),
        trace("written", subject, Quantity::Device(DeviceQuantity::WriteAwaitMs), Look::Write),
    ];
    let left = Axis { unit: Unit::Milliseconds, max: None };
    Sketch { title: "Latency (await)".into(), left, right: None, traces, thresholds: Vec::new() }
}

pub fn utilisation(subject: &Subject) -> Sketch {
    let busy = trace("busy", subject, Quantity::Device(DeviceQuantity::Utilisation), Look::Other(0));
    let queue = trace("queue depth", subject, Quantity::Device(DeviceQuantity::QueueDepth), Look::Other(1));
    Sketch {
        title: "Busy and queue depth".into(),
        left: Axis { unit: Unit::Share, max: Some(1.0) },
        right: Some(Axis { unit: Unit::Count, max: None }),
        traces: vec![Trace { area: true, ..busy }, Trace { side: Side::Right, ..queue }],
        thresholds: Vec::new(),
    }
}

/// `vmstat`'s bi and bo.
pub fn paging() -> Sketch {
    let traces = vec![
        trace("bi", &Subject::Host, Quantity::Host(HostQuantity::BiKibPerS), Look::Read),
        trace("bo", &Subject::Host, Quantity::Host(HostQuantity::BoKibPerS), Look::Write),
    ];
    let left = Axis { unit: Unit::KibPerSecond, max: None };
    Sketch {
        title: "Paged in and out (vmstat's bi and bo)".into(),
        left,
        right: None,
        traces,
        thresholds: Vec::new(),
    }
}

/// Fills, with the levels at which an alert is raised.
pub fn fills(traces: Vec<Trace>, thresholds: Thresholds) -> Sketch {
    Sketch {
        title: "Fill".into(),
        left: PERCENT,
        right: None,
        traces,
        thresholds: threshold_lines(thresholds, Side::Left),
    }
}

/// The picture that this program exists for: how full the snapshot was, and how fast it could be read.
pub fn fill_and_read_speed(subject: &Subject, thresholds: Thresholds) -> Sketch {
    let read = trace("read speed", subject, Quantity::Device(DeviceQuantity::ReadBytes), Look::Read);
    let fill = trace("fill", subject, Quantity::Volume(VolumeQuantity::FillPercent), Look::Fill);
    Sketch {
        title: "Fill and read speed".into(),
        left: BYTES,
        right: Some(PERCENT),
        traces: vec![Trace { area: true, ..read }, Trace { side: Side::Right, ..fill }],
        thresholds: threshold_lines(thresholds, Side::Right),
    }
}

/// Fill of a volume, and of its metadata where it has any.
pub fn fill_traces(name: &str, subject: &Subject, has_metadata: bool, number: u8) -> Vec<Trace> {
    let look = if number == 0 { Look::Fill } else { Look::Other(number - 1) };
    let mut traces = vec![trace(name, subject, Quantity::Volume(VolumeQuantity::FillPercent), look)];
    if has_metadata {
        let quantity = Quantity::Volume(VolumeQuantity::MetadataPercent);
        traces.push(trace(format!("{name} metadata"), subject, quantity, Look::Other(number + 2)));
    }
    traces
}

fn threshold_lines(thresholds: Thresholds, side: Side) -> Vec<Threshold> {
    let line = |value: f64, severity: Severity| {
        let label = format!("{} {value} %", severity.text());
        Threshold { value, side, label, severity }
    };
    vec![line(thresholds.warning, Severity::Warning), line(thresholds.critical, Severity::Critical)]
}
