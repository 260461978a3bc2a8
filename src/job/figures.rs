//! The figures of a job, computed from its time series, also while it runs.
//!
//! Figures of reading cover the time from the first read to the last, without waiting for a lock. Means are over time;
//! medians and percentiles are over ticks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Job;
use super::phases::PhaseWork;
use super::setup::Setup;
use super::time_series::{JobMeasure, JobPeriod, JobTimeSeries, PvMeasure, TickColumns};
use crate::statistics::{Correlation, Relation, Sorted, Spread, rank_correlation, relation};

/// The share of bytes to skip at either end: listing directories before the backup, and stray reads after it.
const MARGIN_OF_BYTES: f64 = 0.001;
/// The beginning and the end are a tenth each; fewer than ten ticks have neither.
const ENDS: usize = 10;
/// Maximum points of the curve, and pairs of a rank correlation. More add nothing, since neighbouring seconds are alike.
const MOST_POINTS: usize = 480;
/// Percentage points that the fill must have changed by before read speed is said to depend on it.
const LEAST_FILL_RANGE: f64 = 10.0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    /// The job's duration; while it runs, until its last tick.
    pub seconds: Option<f64>,
    /// `None` if no reads from the snapshot were observed.
    pub read: Option<ReadFigures>,
    /// For a job without a snapshot: writes to all disks.
    pub written: Option<WriteFigures>,
    /// KiB a second paged in.
    pub bi: Option<Spread>,
    /// KiB a second paged out.
    pub bo: Option<Spread>,
    pub fill: Option<FillFigures>,
    pub copied: CopyFigures,
    /// Read speed by fill: bytes a second per percentage point.
    pub read_by_fill: Relation,
    /// Read speed by the rate of first writes: bytes per byte.
    pub read_by_first_writes: Relation,
    /// The rank correlation of fill and elapsed time. Near 1, fill and time cannot be told apart.
    pub fill_by_time: Option<f64>,
    pub pvs: Vec<PvWork>,
    pub origin: OriginPhases,
    /// In order of time.
    pub phases: Vec<PhaseWork>,
    pub host: HostShares,
    /// Read speed, fill and first writes in at most 480 points.
    pub curve: Vec<CurvePoint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadFigures {
    pub bytes: f64,
    /// The time of reading, without the first and last thousandth of the bytes.
    pub seconds: f64,
    /// The share of that time for which the speed is known.
    pub known_share: f64,
    /// Bytes a second.
    pub speed: Spread,
    /// Bytes a second.
    pub ends: Option<EndMeans>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WriteFigures {
    pub bytes: f64,
    /// Bytes a second, from the first tick with I/O to the last.
    pub speed: Spread,
    /// Bytes a second.
    pub ends: Option<EndMeans>,
}

/// Means of the first and last tenth of the time of reading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EndMeans {
    pub first: f64,
    pub last: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FillFigures {
    pub peak_percent: f64,
    /// Of the COW area; `None` if its size is unknown.
    pub peak_bytes: Option<u64>,
    /// Percent.
    pub ends: Option<EndMeans>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CopyFigures {
    /// Bytes a second of chunks that were copied at their first write.
    pub first_writes: Option<Spread>,
    pub chunks_per_s: Option<f64>,
    /// Copies and metadata written to the COW area.
    pub cow_bytes: Option<f64>,
    /// Bytes written to disks per byte written to the origin.
    pub write_cost: Option<f64>,
}

/// A PV's I/O while the snapshot was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PvWork {
    pub name: String,
    pub carries_origin: Option<bool>,
    pub carries_cow: Option<bool>,
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
    /// From 0 to 1.
    pub utilisation: Option<f64>,
    pub read_await_ms: Option<EndMeans>,
    pub read_request_bytes: Option<EndMeans>,
}

impl PvWork {
    /// Whether it carries both the origin and the COW area.
    pub fn is_shared(&self) -> bool {
        self.carries_origin == Some(true) && self.carries_cow == Some(true)
    }
}

/// The origin's I/O before, with and after the snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OriginPhases {
    pub before: OriginWork,
    pub during: OriginWork,
    pub after: OriginWork,
}

/// Sizes and latencies are means per request; `None` without writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OriginWork {
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
    pub writes_per_s: Option<f64>,
    pub write_request_bytes: Option<f64>,
    pub write_await_ms: Option<f64>,
}

/// Shares of time from 0 to 1 while the snapshot was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostShares {
    /// Of all processors together.
    pub user: Option<f64>,
    pub system: Option<f64>,
    pub iowait: Option<f64>,
    /// With at least one process waiting for I/O.
    pub pressure_io: Option<f64>,
}

/// Means of consecutive ticks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CurvePoint {
    /// Seconds from the job's start to the end of these ticks.
    pub end_s: f64,
    pub read_bytes_per_s: Option<f64>,
    pub fill_percent: Option<f64>,
    pub first_writes_bytes_per_s: Option<f64>,
}

impl Figures {
    pub fn of(time_series: &JobTimeSeries, setup: &Setup) -> Self {
        let whole = time_series.during.whole();
        let reading = busy(&whole, &[JobMeasure::SnapshotRead]);
        let active = busy(&whole, &[JobMeasure::SnapshotRead, JobMeasure::Written])
            .unwrap_or_else(|| whole.clone());
        let curve = reading.as_ref().map(curve).unwrap_or_default();
        let pvs = time_series.during.pvs().keys();
        Self {
            seconds: time_series.took_s.or(whole.end_s()),
            read: reading.as_ref().and_then(read_figures),
            written: write_figures(&whole, &active),
            bi: spread(&active, JobMeasure::Bi),
            bo: spread(&active, JobMeasure::Bo),
            fill: fill_figures(&whole, &active, setup),
            copied: copy_figures(&whole, setup),
            read_by_fill: read_by_fill(&curve),
            read_by_first_writes: read_by(&curve, |point| point.first_writes_bytes_per_s),
            fill_by_time: fill_by_time(&curve),
            pvs: pvs.map(|pv| pv_work(&active, pv, setup)).collect(),
            origin: origin_phases(time_series),
            phases: Vec::new(),
            host: host_shares(&active),
            curve,
        }
    }

    /// Adds the phases of the job with this time series.
    pub fn with_phases(mut self, time_series: &JobTimeSeries, job: &Job) -> Self {
        self.phases = PhaseWork::all(time_series, job);
        self
    }
}

/// From the first tick with I/O to the last; `None` without known I/O.
fn busy<'a>(whole: &JobPeriod<'a>, measures: &[JobMeasure]) -> Option<JobPeriod<'a>> {
    let mut bytes = Vec::new();
    for (place, tick) in whole.ticks().iter().enumerate() {
        let speeds = measures.iter().filter_map(|it| whole.column(*it)[place]);
        bytes.push(speeds.sum::<f64>() * tick.seconds);
    }
    let total: f64 = bytes.iter().sum();
    let place_of = |share: f64| {
        let mut sum = 0.0;
        bytes.iter().position(|bytes| {
            sum += bytes;
            sum > total * share
        })
    };
    let first = place_of(MARGIN_OF_BYTES)?;
    let last = place_of(1.0 - MARGIN_OF_BYTES)?;
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

fn spread(period: &JobPeriod, measure: JobMeasure) -> Option<Spread> {
    let sorted = Sorted::new(period.column(measure).iter().copied().flatten())?;
    Some(sorted.spread(period.mean(measure)?))
}

/// A figure of the first and last tenth; `None` if one is unknown.
fn ends(period: &JobPeriod, figure: impl Fn(&JobPeriod) -> Option<f64>) -> Option<EndMeans> {
    let n = period.len();
    let few = n / ENDS;
    if few == 0 {
        return None;
    }
    Some(EndMeans {
        first: figure(&period.part(0..few))?,
        last: figure(&period.part(n - few..n))?,
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
    let origin = whole.column(JobMeasure::OriginWritten);
    let cow = whole.column(JobMeasure::CowWritten);
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
    let parts = reading.parts(reading.len().div_ceil(MOST_POINTS));
    parts.filter_map(point).collect()
}

fn read_by(curve: &[CurvePoint], what: fn(&CurvePoint) -> Option<f64>) -> Relation {
    let points = curve.iter();
    let pairs = points.filter_map(|point| Some((what(point)?, point.read_bytes_per_s?)));
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.unzip();
    relation(&x, &y)
}

/// Over a few points of fill, whatever else changed in that time looks like a slope.
fn read_by_fill(curve: &[CurvePoint]) -> Relation {
    let fills = Sorted::new(curve.iter().filter_map(|point| point.fill_percent));
    match read_by(curve, |point| point.fill_percent) {
        Relation::Correlation(Correlation { n, .. })
            if fills.is_none_or(|fills| fills.most() - fills.least() < LEAST_FILL_RANGE) =>
        {
            Relation::Narrow { n }
        }
        relation => relation,
    }
}

fn fill_by_time(curve: &[CurvePoint]) -> Option<f64> {
    let points = curve.iter();
    let pairs = points.filter_map(|point| Some((point.end_s, point.fill_percent?)));
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
    let mut amount = 0.0;
    let mut over = 0.0;
    for (place, tick) in part.ticks().iter().enumerate() {
        if let Some((of, by)) = rates(place) {
            amount += of * tick.seconds;
            over += by * tick.seconds;
        }
    }
    (over > 0.0).then(|| amount / over)
}

fn origin_phases(time_series: &JobTimeSeries) -> OriginPhases {
    let of = |span: &Option<TickColumns>| match span {
        Some(span) => origin_work(&span.whole()),
        None => OriginWork::default(),
    };
    OriginPhases {
        before: of(&time_series.before),
        during: origin_work(&time_series.during.whole()),
        after: of(&time_series.after),
    }
}

fn origin_work(whole: &JobPeriod) -> OriginWork {
    let written = whole.column(JobMeasure::OriginWritten);
    let writes = whole.column(JobMeasure::OriginWrites);
    let awaits = whole.column(JobMeasure::OriginWriteAwaitMs);
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

#[cfg(test)]
mod tests {
    //! Figures of constructed time series, and of such of which little is known.

    use proptest::prelude::*;

    use super::*;
    use crate::job::setup::Setup;
    use crate::job::tests::example::{
        KIB, MEASURES, MIB, PV_MEASURES, setup, slope, slow_figures, slowing, steady, straight,
        ticks,
    };
    use crate::job::time_series::{JobMeasure, JobTimeSeries, PvMeasure, TickColumns};
    use crate::statistics::{Relation, Trend};

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() <= expected.abs() * 0.05,
            "expected {expected}, but found {found}"
        );
    }

    fn only(span: TickColumns) -> JobTimeSeries {
        JobTimeSeries {
            before: None,
            during: span,
            after: None,
            took_s: None,
        }
    }

    fn reading(speeds: Vec<Option<f64>>) -> Figures {
        let span = TickColumns::new(ticks(speeds.len(), 0.0))
            .unwrap()
            .with(JobMeasure::SnapshotRead, speeds)
            .unwrap();
        Figures::of(&only(span), &Setup::default())
    }

    #[test]
    fn a_backup_slows_while_its_snapshot_fills() {
        let figures = slow_figures();
        let read = figures.read.unwrap();
        close(read.speed.mean, 67.0 * MIB);
        let ends = read.ends.unwrap();
        close(ends.first, 115.0 * MIB);
        close(ends.last, 19.8 * MIB);
        let by_fill = figures.read_by_fill.correlation().unwrap();
        close(by_fill.slope, -106.0 / 60.0 * MIB);
        assert_eq!(by_fill.trend, Trend::Falling, "{by_fill:?}");
        assert!(by_fill.n <= 480 && figures.curve.len() == by_fill.n);
        close(figures.fill_by_time.unwrap(), 1.0);
        assert_eq!(
            figures.read_by_first_writes.correlation().unwrap().trend,
            Trend::Unclear,
            "those were steady"
        );
    }

    #[test]
    fn the_write_cost_includes_copies() {
        let figures = slow_figures();
        let fill = figures.fill.unwrap();
        assert_eq!(
            (fill.peak_percent, fill.peak_bytes),
            (60.0, Some(600 << 20))
        );
        close(figures.copied.write_cost.unwrap(), 2.9);
        close(figures.copied.cow_bytes.unwrap(), 2000.0 * 1.9 * MIB);
        close(
            figures.copied.chunks_per_s.unwrap(),
            1.6 * MIB / (64.0 * KIB),
        );
    }

    #[test]
    fn production_is_measured_before_during_and_after() {
        let origin = Figures::of(&slowing(600), &setup()).origin;
        let awaits =
            [origin.before, origin.during, origin.after].map(|work| work.write_await_ms.unwrap());
        assert!(
            awaits[0] < 2.01 && awaits[1] > 8.99 && awaits[2] < 2.01,
            "{awaits:?}"
        );
        close(origin.during.write_request_bytes.unwrap(), 16.0 * KIB);
    }

    #[test]
    fn pvs_have_the_volumes_that_they_carry() {
        let figures = slow_figures();
        let [sda, sdb] = &figures.pvs[..] else {
            panic!("{:?}", figures.pvs)
        };
        assert_eq!(
            (sda.carries_origin, sda.carries_cow, sdb.carries_cow),
            (Some(true), Some(true), Some(false))
        );
        close(sda.utilisation.unwrap(), 0.98);
        let sizes = sda.read_request_bytes.unwrap();
        assert!(
            sizes.first > 480.0 * KIB && sizes.last < 50.0 * KIB,
            "{sizes:?}"
        );
        assert_eq!((sdb.read_bytes_per_s, sdb.read_request_bytes), (None, None));
    }

    #[test]
    fn means_are_per_request() {
        let n = 10;
        let pair = |a: f64, b: f64| {
            (0..n)
                .map(|index| Some(if index % 2 == 0 { a } else { b }))
                .collect::<Vec<_>>()
        };
        let span = TickColumns::new(ticks(n, 0.0))
            .and_then(|span| span.with(JobMeasure::OriginWrites, pair(1.0, 99.0)))
            .and_then(|span| span.with(JobMeasure::OriginWriteAwaitMs, pair(100.0, 1.0)))
            .and_then(|span| span.with_pv("sda", PvMeasure::Read, steady(n, KIB)))
            .unwrap();
        let figures = Figures::of(&only(span), &Setup::default());
        close(figures.origin.during.write_await_ms.unwrap(), 1.99);
        assert_eq!(
            figures.pvs[0].read_request_bytes, None,
            "their sizes are not known"
        );
    }

    #[test]
    fn waiting_before_and_after_reading_does_not_slow_it() {
        let mut speeds = vec![Some(0.0); 300];
        speeds.extend(slope(100, 50.0 * MIB, 50.0 * MIB));
        speeds.extend(vec![Some(0.0); 600]);
        let read = reading(speeds).read.unwrap();
        close(read.speed.mean, 50.0 * MIB);
        assert!(read.seconds >= 98.0 && read.seconds <= 100.0, "{read:?}");
    }

    #[test]
    fn an_empty_course_has_no_figures() {
        let figures = Figures::of(
            &only(TickColumns::new(Vec::new()).unwrap()),
            &Setup::default(),
        );
        assert_eq!(
            (
                figures.seconds,
                figures.read,
                figures.fill,
                figures.curve.len()
            ),
            (None, None, None, 0)
        );
        assert_eq!(figures.read_by_fill, Relation::TooFew { n: 0 });
        assert_eq!(figures.origin.during, OriginWork::default());
    }

    #[test]
    fn unobserved_values_are_unknown_and_not_zero() {
        let figures = reading(vec![None; 500]);
        assert_eq!((figures.seconds, figures.read), (Some(500.0), None));
        assert_eq!(
            (figures.bi, figures.copied.write_cost, figures.host.user),
            (None, None, None)
        );
        assert_eq!(reading(vec![Some(0.0); 500]).read, None, "nothing was read");
    }

    #[test]
    fn one_tick_has_a_speed_but_no_ends() {
        let figures = reading(vec![Some(5.0)]);
        let read = figures.read.unwrap();
        assert_eq!((read.speed.median, read.bytes, read.ends), (5.0, 5.0, None));
        assert_eq!(figures.read_by_fill, Relation::TooFew { n: 0 });
    }

    #[test]
    fn a_few_points_of_fill_show_no_slope() {
        for (last, is_known) in [(3.0, false), (12.0, true)] {
            let span = TickColumns::new(ticks(180, 0.0)).unwrap();
            let span = span.with(JobMeasure::SnapshotRead, slope(180, 20.0 * MIB, 14.0 * MIB));
            let span = span.unwrap();
            let span = span.with(JobMeasure::FillPercent, straight(180, 0.0, last));
            let figures = Figures::of(&only(span.unwrap()), &Setup::default());
            let found = figures.read_by_fill;
            assert_eq!(found.correlation().is_some(), is_known, "{found:?}");
            assert_eq!(found == Relation::Narrow { n: 180 }, !is_known, "{found:?}");
        }
    }

    #[test]
    fn gaps_are_reported_and_not_filled() {
        let mut speeds = steady(100, MIB);
        speeds[20..60].fill(None);
        let read = reading(speeds).read.unwrap();
        assert_eq!(read.known_share, 0.6);
        close(read.speed.mean, MIB);
        close(read.bytes, 60.0 * MIB);
    }

    #[test]
    fn a_constant_fill_has_no_correlation() {
        let n = 500;
        let span = TickColumns::new(ticks(n, 0.0))
            .and_then(|span| span.with(JobMeasure::SnapshotRead, slope(n, MIB, MIB)))
            .and_then(|span| span.with(JobMeasure::FillPercent, steady(n, 3.0)))
            .unwrap();
        let figures = Figures::of(&only(span), &Setup::default());
        assert!(
            matches!(figures.read_by_fill, Relation::Unvaried { .. }),
            "{:?}",
            figures.read_by_fill
        );
        assert_eq!(
            (figures.fill_by_time, figures.fill.unwrap().peak_bytes),
            (None, None)
        );
    }

    #[test]
    fn figures_survive_json() {
        let figures = Figures::of(&slowing(100), &setup());
        let read: Figures =
            serde_json::from_str(&serde_json::to_string(&figures).unwrap()).unwrap();
        assert_eq!(
            (read.curve.len(), read.fill, read.bi),
            (figures.curve.len(), figures.fill, None)
        );
        close(
            read.read_by_fill.correlation().unwrap().slope,
            figures.read_by_fill.correlation().unwrap().slope,
        );
    }

    #[test]
    fn the_schema_lists_the_kinds_of_relations() {
        let schema = serde_json::to_string(&<Relation as utoipa::PartialSchema>::schema()).unwrap();
        for word in ["says", "too_few", "unvaried", "known"] {
            assert!(schema.contains(word), "{word}: {schema}");
        }
    }

    /// What a reader may hand over: nothing, a count, and numbers that no machine says.
    fn any_column(n: usize) -> impl Strategy<Value = Vec<Option<f64>>> {
        let value = prop_oneof![
            Just(None),
            (0.0..1e9).prop_map(Some),
            Just(Some(0.0)),
            any::<f64>().prop_map(Some)
        ];
        prop::collection::vec(value, n)
    }

    fn any_time_series() -> impl Strategy<Value = JobTimeSeries> {
        let columns =
            |n: usize| prop::collection::vec(any_column(n), MEASURES.len() + PV_MEASURES.len());
        let span = |columns: Vec<Vec<Option<f64>>>| {
            let mut span = TickColumns::new(ticks(columns[0].len(), 0.0)).unwrap();
            let mut columns = columns.into_iter();
            for measure in MEASURES {
                span = span.with(measure, columns.next().unwrap()).unwrap();
            }
            for measure in PV_MEASURES {
                span = span
                    .with_pv("sda", measure, columns.next().unwrap())
                    .unwrap();
            }
            span
        };
        (0_usize..60)
            .prop_flat_map(columns)
            .prop_map(span)
            .prop_map(only)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// JSON has no word for what is not a number: a figure that were one would not be read back.
        #[test]
        fn figures_are_always_finite(time_series in any_time_series()) {
            let text = serde_json::to_string(&Figures::of(&time_series, &setup())).unwrap();
            prop_assert!(serde_json::from_str::<Figures>(&text).is_ok(), "{}", text);
        }
    }

    #[test]
    fn the_duration_of_an_ended_job_is_not_rounded_to_ticks() {
        let time_series = JobTimeSeries {
            took_s: Some(9.7),
            ..only(TickColumns::new(Vec::new()).unwrap())
        };
        assert_eq!(
            Figures::of(&time_series, &Setup::default()).seconds,
            Some(9.7)
        );
    }
}
