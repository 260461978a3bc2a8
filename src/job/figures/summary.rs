//! Computes figures from a time series.

use super::*;
use crate::job::Job;
use crate::job::setup::Setup;
use crate::job::statistics::{Sorted, rank_correlation, relation};
use crate::job::time_series::{
    JobMeasure, JobPeriod, JobTick, JobTimeSeries, PvMeasure, TickColumns,
};

/// The share of bytes to skip at either end: listing directories before the backup, and stray reads after it.
const MARGIN_OF_BYTES: f64 = 0.001;
/// The beginning and the end are a tenth each; fewer than ten ticks have neither.
const ENDS: usize = 10;
/// Maximum points of the curve, and pairs of a rank correlation. More add nothing, since neighbouring seconds are alike.
const MOST_POINTS: usize = 480;

impl Figures {
    pub fn of(time_series: &JobTimeSeries, setup: &Setup) -> Self {
        let whole = time_series.during.whole();
        let reading = busy(&whole, &[JobMeasure::SnapshotRead]);
        let active = busy(&whole, &[JobMeasure::SnapshotRead, JobMeasure::Written])
            .unwrap_or_else(|| whole.clone());
        let curve = reading.as_ref().map(curve).unwrap_or_default();
        Self {
            seconds: time_series.took_s.or(whole.end_s()),
            read: reading.as_ref().and_then(read_figures),
            written: write_figures(&whole, &active),
            bi: spread(&active, JobMeasure::Bi),
            bo: spread(&active, JobMeasure::Bo),
            fill: fill_figures(&whole, &active, setup),
            copied: copy_figures(&whole, setup),
            read_by_fill: read_by(&curve, |point| point.fill_percent),
            read_by_first_writes: read_by(&curve, |point| point.first_writes_bytes_per_s),
            fill_by_time: fill_by_time(&curve),
            pvs: time_series
                .during
                .pvs()
                .keys()
                .map(|pv| pv_work(&active, pv, setup))
                .collect(),
            origin: origin_phases(time_series),
            phases: Vec::new(),
            host: host_shares(&active),
            curve,
        }
    }

    /// Adds the phases of the job with this time series.
    pub fn with_phases(self, time_series: &JobTimeSeries, job: &Job) -> Self {
        Self {
            phases: PhaseWork::all(time_series, job),
            ..self
        }
    }
}

/// From the first tick with I/O to the last; `None` without known I/O.
fn busy<'a>(whole: &JobPeriod<'a>, measures: &[JobMeasure]) -> Option<JobPeriod<'a>> {
    let moved = |(place, tick): (usize, &JobTick)| {
        let speeds = measures
            .iter()
            .filter_map(|measure| whole.column(*measure)[place]);
        speeds.sum::<f64>() * tick.seconds
    };
    let bytes: Vec<f64> = whole.ticks().iter().enumerate().map(moved).collect();
    let total: f64 = bytes.iter().sum();
    let place_of = |share: f64| {
        let mut sum = 0.0;
        bytes.iter().position(|bytes| {
            sum += bytes;
            sum > total * share
        })
    };
    let (first, last) = (place_of(MARGIN_OF_BYTES)?, place_of(1.0 - MARGIN_OF_BYTES)?);
    Some(whole.part(first..last + 1))
}

fn read_figures(reading: &JobPeriod) -> Option<ReadFigures> {
    Some(ReadFigures {
        bytes: reading.amount(JobMeasure::SnapshotRead)?,
        seconds: reading.seconds(),
        known_share: reading.known_share(JobMeasure::SnapshotRead)?,
        speed: spread(reading, JobMeasure::SnapshotRead)?,
        ends: ends(reading, |part| part.mean(JobMeasure::SnapshotRead)),
    })
}

fn write_figures(whole: &JobPeriod, active: &JobPeriod) -> Option<WriteFigures> {
    Some(WriteFigures {
        bytes: whole.amount(JobMeasure::Written)?,
        speed: spread(active, JobMeasure::Written)?,
        ends: ends(active, |part| part.mean(JobMeasure::Written)),
    })
}

fn spread(stretch: &JobPeriod, measure: JobMeasure) -> Option<Spread> {
    let sorted = Sorted::new(stretch.column(measure).iter().copied().flatten())?;
    Some(sorted.spread(stretch.mean(measure)?))
}

/// A figure of the first and last tenth; `None` if one is unknown.
fn ends(stretch: &JobPeriod, figure: impl Fn(&JobPeriod) -> Option<f64>) -> Option<EndMeans> {
    let (n, few) = (stretch.len(), stretch.len() / ENDS);
    if few == 0 {
        return None;
    }
    Some(EndMeans {
        first: figure(&stretch.part(0..few))?,
        last: figure(&stretch.part(n - few..n))?,
    })
}

fn fill_figures(whole: &JobPeriod, active: &JobPeriod, setup: &Setup) -> Option<FillFigures> {
    let fills = whole.column(JobMeasure::FillPercent);
    let peak_percent = Sorted::new(fills.iter().copied().flatten())?.most();
    let ends = ends(active, |part| part.mean(JobMeasure::FillPercent));
    Some(FillFigures {
        peak_percent,
        peak_bytes: setup.peak_bytes,
        ends,
    })
}

fn copy_figures(whole: &JobPeriod, setup: &Setup) -> CopyFigures {
    let first_writes = spread(whole, JobMeasure::Copied);
    let chunk = setup.chunk_bytes.filter(|bytes| *bytes > 0);
    CopyFigures {
        first_writes,
        chunks_per_s: first_writes
            .zip(chunk)
            .map(|(rate, chunk)| rate.mean / chunk as f64),
        cow_bytes: whole.amount(JobMeasure::CowWritten),
        write_cost: write_cost(whole),
    }
}

/// Bytes written to disks per byte written to the origin: the write, copies and metadata.
fn write_cost(whole: &JobPeriod) -> Option<f64> {
    let (origin, cow) = (
        whole.column(JobMeasure::OriginWritten),
        whole.column(JobMeasure::CowWritten),
    );
    ratio(whole, |tick| {
        Some((origin[tick]? + cow[tick]?, origin[tick]?))
    })
}

fn curve(reading: &JobPeriod) -> Vec<CurvePoint> {
    let point = |part: JobPeriod| {
        Some(CurvePoint {
            end_s: part.end_s()?,
            read_bytes_per_s: part.mean(JobMeasure::SnapshotRead),
            fill_percent: part.mean(JobMeasure::FillPercent),
            first_writes_bytes_per_s: part.mean(JobMeasure::Copied),
        })
    };
    reading
        .parts(reading.len().div_ceil(MOST_POINTS))
        .filter_map(point)
        .collect()
}

fn read_by(curve: &[CurvePoint], what: impl Fn(&CurvePoint) -> Option<f64>) -> Relation {
    let pairs = curve
        .iter()
        .filter_map(|point| what(point).zip(point.read_bytes_per_s));
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.unzip();
    relation(&x, &y)
}

fn fill_by_time(curve: &[CurvePoint]) -> Option<f64> {
    let pairs = curve
        .iter()
        .filter_map(|point| Some((point.end_s, point.fill_percent?)));
    let (times, fills): (Vec<f64>, Vec<f64>) = pairs.unzip();
    rank_correlation(&times, &fills)
}

fn pv_work(active: &JobPeriod, pv: &str, setup: &Setup) -> PvWork {
    let (carries_origin, carries_cow) = setup.carries(pv);
    PvWork {
        name: pv.to_string(),
        carries_origin,
        carries_cow,
        read_bytes_per_s: active.pv_mean(pv, PvMeasure::Read),
        written_bytes_per_s: active.pv_mean(pv, PvMeasure::Written),
        utilisation: active.pv_mean(pv, PvMeasure::Utilisation),
        read_await_ms: ends(active, |part| per_read(part, pv, PvMeasure::ReadAwaitMs)),
        read_request_bytes: ends(active, |part| {
            per_read(part, pv, PvMeasure::ReadRequestBytes)
        }),
    }
}

/// The mean over all read requests of a PV, so that a tick with few requests counts less.
fn per_read(part: &JobPeriod, pv: &str, measure: PvMeasure) -> Option<f64> {
    let [read, sizes, values] = [PvMeasure::Read, PvMeasure::ReadRequestBytes, measure]
        .map(|measure| part.pv_column(pv, measure));
    ratio(part, |tick| {
        let requests = read[tick]? / sizes[tick].filter(|size| *size > 0.0)?;
        Some((values[tick]? * requests, requests))
    })
}

/// The ratio of two rates, over the ticks in which both are known. `None` if the second is 0.
fn ratio(part: &JobPeriod, rates: impl Fn(usize) -> Option<(f64, f64)>) -> Option<f64> {
    let (mut amount, mut over) = (0.0, 0.0);
    for (place, tick) in part.ticks().iter().enumerate() {
        let (of, by) = rates(place).unwrap_or_default();
        (amount, over) = (amount + of * tick.seconds, over + by * tick.seconds);
    }
    (over > 0.0).then(|| amount / over)
}

fn origin_phases(time_series: &JobTimeSeries) -> OriginPhases {
    let of = |span: Option<&TickColumns>| {
        span.map(|span| origin_work(&span.whole()))
            .unwrap_or_default()
    };
    OriginPhases {
        before: of(time_series.before.as_ref()),
        during: of(Some(&time_series.during)),
        after: of(time_series.after.as_ref()),
    }
}

fn origin_work(whole: &JobPeriod) -> OriginWork {
    let [written, writes, awaits] = [
        JobMeasure::OriginWritten,
        JobMeasure::OriginWrites,
        JobMeasure::OriginWriteAwaitMs,
    ]
    .map(|measure| whole.column(measure));
    OriginWork {
        read_bytes_per_s: whole.mean(JobMeasure::OriginRead),
        written_bytes_per_s: whole.mean(JobMeasure::OriginWritten),
        writes_per_s: whole.mean(JobMeasure::OriginWrites),
        write_request_bytes: ratio(whole, |tick| written[tick].zip(writes[tick])),
        write_await_ms: ratio(whole, |tick| {
            Some((awaits[tick]? * writes[tick]?, writes[tick]?))
        }),
    }
}

fn host_shares(active: &JobPeriod) -> HostShares {
    HostShares {
        user: active.mean(JobMeasure::User),
        system: active.mean(JobMeasure::System),
        iowait: active.mean(JobMeasure::Iowait),
        pressure_io: active.mean(JobMeasure::PressureIo),
    }
}
