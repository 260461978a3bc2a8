//! Builds a job's time series from series in the store. A volume's layers end in `-real` below an origin and in `-cow` below
//! a thick snapshot; copies follow from them, as in `interval/copying.rs`.

use jiff::Timestamp;

use crate::job::setup::Setup;
use crate::job::time_series::{
    JobMeasure, JobPeriod, JobTick, JobTimeSeries, PvMeasure, TickColumns,
};
use crate::job::{Job, JobKind};
use crate::quantity::Quantity;
use crate::series::Range;
use crate::store::{SeriesKey, Subject, TickTable};

/// The longest time before and after a job; otherwise as long as the job.
pub const MOST_AROUND_S: f64 = 600.0;
/// Maximum number of PVs with figures.
pub const MOST_PVS: usize = 16;

const OF_HOST: [(JobMeasure, Quantity); 6] = [
    (JobMeasure::Bi, Quantity::BiKibPerS),
    (JobMeasure::Bo, Quantity::BoKibPerS),
    (JobMeasure::User, Quantity::User),
    (JobMeasure::System, Quantity::System),
    (JobMeasure::Iowait, Quantity::Iowait),
    (JobMeasure::PressureIo, Quantity::PressureIoSome),
];
const OF_ORIGIN: [(JobMeasure, Quantity); 4] = [
    (JobMeasure::OriginRead, Quantity::ReadBytes),
    (JobMeasure::OriginWritten, Quantity::WrittenBytes),
    (JobMeasure::OriginWrites, Quantity::Writes),
    (JobMeasure::OriginWriteAwaitMs, Quantity::WriteAwaitMs),
];
const OF_PV: [(PvMeasure, Quantity); 5] = [
    (PvMeasure::Read, Quantity::ReadBytes),
    (PvMeasure::Written, Quantity::WrittenBytes),
    (PvMeasure::Utilisation, Quantity::Utilisation),
    (PvMeasure::ReadAwaitMs, Quantity::ReadAwaitMs),
    (PvMeasure::ReadRequestBytes, Quantity::ReadRequestBytes),
];

/// The series of a job's time series.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    slots: Vec<Slot>,
    pub wanted: Vec<SeriesKey>,
    /// Whether the origin has only this snapshot; the kernel does not count copies by snapshot.
    is_alone: bool,
}

/// The meaning of a series for the time series.
#[derive(Clone, Debug, PartialEq)]
enum Slot {
    JobMeasure(JobMeasure),
    Pv(String, PvMeasure),
    /// Writes to the snapshot itself.
    IntoSnapshot,
    CowRead,
    CowWritten,
    RealRead,
}

/// The times of a job, and the length of the time before and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobTimes {
    start_ms: i64,
    end_ms: i64,
    around_ms: i64,
    has_ended: bool,
}

impl JobTimes {
    pub fn of(job: &Job, now: Timestamp) -> Self {
        let around_ms = (job.seconds(now).min(MOST_AROUND_S) * 1000.0) as i64;
        let start_ms = job.started_at.as_millisecond();
        let end_ms = job.ended_at.unwrap_or(now).as_millisecond().max(start_ms);
        Self {
            start_ms,
            end_ms,
            around_ms,
            has_ended: job.ended_at.is_some(),
        }
    }

    pub fn range(self) -> Range {
        let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap_or_default();
        Range {
            from: at(self.start_ms - self.around_ms),
            to: at(self.end_ms + self.around_ms),
        }
    }

    /// Whether the time after the job is over.
    pub fn are_over(self, now: Timestamp) -> bool {
        self.has_ended && self.end_ms + self.around_ms < now.as_millisecond()
    }
}

impl Sources {
    /// `pvs` has names and subjects; `identity` returns the identity of a volume's device.
    pub fn of(
        job: &Job,
        setup: &Setup,
        pvs: &[(String, Subject)],
        identity: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut sources = Self {
            is_alone: setup.snapshots == Some(1),
            ..Self::default()
        };
        for (measure, quantity) in OF_HOST {
            sources.add(Slot::JobMeasure(measure), &Subject::Host, quantity);
        }
        for (name, subject) in pvs.iter().take(MOST_PVS) {
            for (measure, quantity) in OF_PV {
                sources.add(Slot::Pv(name.clone(), measure), subject, quantity);
            }
        }
        match job.kind {
            JobKind::Snapshot => sources.snapshot(job, setup, identity),
            JobKind::Command | JobKind::Mark => {
                let of_all = [
                    (JobMeasure::SnapshotRead, Quantity::ReadBytes),
                    (JobMeasure::Written, Quantity::WrittenBytes),
                ];
                for (measure, quantity) in of_all {
                    sources.add(Slot::JobMeasure(measure), &Subject::Total, quantity);
                }
            }
        }
        sources
    }

    fn snapshot(&mut self, job: &Job, setup: &Setup, identity: impl Fn(&str) -> Option<String>) {
        let snapshot = Subject::Volume(job.key.clone());
        self.add(
            Slot::JobMeasure(JobMeasure::SnapshotRead),
            &snapshot,
            Quantity::ReadBytes,
        );
        let origin = job.origin_name();
        if let Some(origin) = &origin {
            let subject = Subject::Volume(origin.clone());
            for (measure, quantity) in OF_ORIGIN {
                self.add(Slot::JobMeasure(measure), &subject, quantity);
            }
        }
        if !setup.is_thick() {
            return;
        }
        let fill = Quantity::FillPercent;
        self.add(Slot::JobMeasure(JobMeasure::FillPercent), &snapshot, fill);
        self.add(Slot::IntoSnapshot, &snapshot, Quantity::WrittenBytes);
        if let Some(identity) = identity(&job.key) {
            let cow = Subject::Device(format!("{identity}-cow"));
            self.add(Slot::CowWritten, &cow, Quantity::WrittenBytes);
            self.add(Slot::CowRead, &cow, Quantity::ReadBytes);
        }
        if let Some(identity) = origin.and_then(|origin| identity(&origin)) {
            let real = Subject::Device(format!("{identity}-real"));
            self.add(Slot::RealRead, &real, Quantity::ReadBytes);
        }
    }

    fn add(&mut self, slot: Slot, subject: &Subject, quantity: Quantity) {
        self.slots.push(slot);
        self.wanted.push(SeriesKey {
            subject: subject.clone(),
            quantity,
        });
    }

    /// The time series of a job, from the stored [`Self::wanted`].
    pub fn time_series(&self, every: &TickTable, times: JobTimes) -> anyhow::Result<JobTimeSeries> {
        let ticks: Vec<JobTick> = ticks(every, times.start_ms);
        let length_s = (times.end_ms - times.start_ms) as f64 / 1000.0;
        let middle = |tick: &JobTick| tick.end_s - tick.seconds / 2.0;
        let span = |is_in: &dyn Fn(&JobTick) -> bool| self.span(every, &ticks, is_in);
        let around = |span: TickColumns| (!span.whole().is_empty()).then_some(span);
        Ok(JobTimeSeries {
            before: around(span(&|tick| tick.end_s <= 0.0)?),
            during: span(&|tick| tick.end_s > 0.0 && (0.0..length_s).contains(&middle(tick)))?,
            after: around(span(&|tick| {
                times.has_ended && tick.end_s - tick.seconds >= length_s
            })?),
            took_s: times.has_ended.then_some(length_s),
        })
    }

    fn span(
        &self,
        every: &TickTable,
        ticks: &[JobTick],
        is_in: &dyn Fn(&JobTick) -> bool,
    ) -> anyhow::Result<TickColumns> {
        let mut places: Vec<usize> = (0..ticks.len()).collect();
        places.retain(|place| is_in(&ticks[*place]));
        let here = |column: &[Option<f64>]| places.iter().map(|place| column[*place]).collect();
        let mut span = TickColumns::new(places.iter().map(|place| ticks[*place]).collect())?;
        for (slot, column) in self.slots.iter().zip(&every.columns) {
            let Some(column) = column else { continue };
            span = match slot {
                Slot::JobMeasure(measure) => span.with(*measure, here(column))?,
                Slot::Pv(name, measure) => span.with_pv(name, *measure, here(column))?,
                _ => span,
            };
        }
        if let Some(written) = self.cow_written(every) {
            span = span.with(JobMeasure::CowWritten, here(&written))?;
        }
        if let Some(copied) = self.copied(every).filter(|_| self.is_alone) {
            span = span.with(JobMeasure::Copied, here(&copied))?;
        }
        Ok(span)
    }

    /// Writes to the COW area, without those to the snapshot itself.
    fn cow_written(&self, every: &TickTable) -> Option<Vec<Option<f64>>> {
        let written = self.column(every, &Slot::CowWritten)?;
        let into = self.column(every, &Slot::IntoSnapshot)?;
        Some(above_zero(every, |row| Some(written[row]? - into[row]?)))
    }

    /// Reads below the origin that came neither from it nor through the snapshot.
    fn copied(&self, every: &TickTable) -> Option<Vec<Option<f64>>> {
        let real = self.column(every, &Slot::RealRead)?;
        let origin = self.column(every, &Slot::JobMeasure(JobMeasure::OriginRead))?;
        let snapshot = self.column(every, &Slot::JobMeasure(JobMeasure::SnapshotRead))?;
        let cow = self.column(every, &Slot::CowRead)?;
        Some(above_zero(every, |row| {
            Some(real[row]? - origin[row]? - (snapshot[row]? - cow[row]?))
        }))
    }

    fn column<'a>(&self, every: &'a TickTable, slot: &Slot) -> Option<&'a [Option<f64>]> {
        let place = self.slots.iter().position(|other| other == slot)?;
        every.columns.get(place)?.as_deref()
    }
}

fn ticks(every: &TickTable, start_ms: i64) -> Vec<JobTick> {
    let tick = |(end_ms, elapsed_us): (&i64, &u64)| JobTick {
        end_s: (end_ms - start_ms) as f64 / 1000.0,
        seconds: *elapsed_us as f64 / 1e6,
    };
    let ticks = every.ends_ms.iter().zip(&every.elapsed_us);
    ticks.map(tick).collect()
}

/// A rate for each row. Layers count a request at different instants, so a rate may be slightly negative and the next too
/// high: a negative amount is subtracted from the next.
fn above_zero(every: &TickTable, rate: impl Fn(usize) -> Option<f64>) -> Vec<Option<f64>> {
    let mut owed = 0.0;
    let mut rates = Vec::new();
    for (row, elapsed_us) in every.elapsed_us.iter().enumerate() {
        let seconds = *elapsed_us as f64 / 1e6;
        let amount = rate(row).map(|rate| rate * seconds + owed);
        owed = amount.map_or(0.0, |amount| amount.min(0.0));
        rates.push(amount.map(|amount| amount.max(0.0) / seconds));
    }
    rates
}

/// Maximum points of a timeline, four pixels each in a wide chart.
const MOST_TIMELINE_POINTS: usize = 250;

/// A time series in few points by elapsed time, for charts of several jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The job's duration; while it runs, until its last tick.
    pub seconds: f64,
    pub points: Vec<TimelinePoint>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimelinePoint {
    /// Seconds from the job's start to the end of the point.
    pub end_s: f64,
    /// Bytes a second.
    pub read: Option<f64>,
    /// The maximum.
    pub fill_percent: Option<f64>,
    /// Bytes a second written to all disks, for a job without a snapshot.
    pub written: Option<f64>,
}

impl Timeline {
    pub fn of(time_series: &JobTimeSeries) -> Self {
        let whole = time_series.during.whole();
        let parts = whole.parts(whole.len().div_ceil(MOST_TIMELINE_POINTS));
        Self {
            seconds: time_series.took_s.or(whole.end_s()).unwrap_or_default(),
            points: parts.filter_map(|part| timeline_point(&part)).collect(),
        }
    }

    pub fn has(&self, value: fn(&TimelinePoint) -> Option<f64>) -> bool {
        self.points.iter().any(|point| value(point).is_some())
    }
}

fn timeline_point(part: &JobPeriod) -> Option<TimelinePoint> {
    let fills = part.column(JobMeasure::FillPercent).iter().flatten();
    Some(TimelinePoint {
        end_s: part.end_s()?,
        read: part.mean(JobMeasure::SnapshotRead),
        fill_percent: fills.copied().reduce(f64::max),
        written: part.mean(JobMeasure::Written),
    })
}

#[cfg(test)]
mod tests {
    //! Rows of a store into a time series.

    use super::*;
    use crate::job::setup::SnapshotKind;
    use crate::job::time_series::JobMeasure;

    const START_MS: i64 = 1_772_330_400_000;

    /// Ticks of a second, the first one ending so many seconds after the job's start; each column the same in all of them.
    fn every(
        sources: &Sources,
        ticks: std::ops::Range<i64>,
        value: impl Fn(&Slot, i64) -> Option<f64>,
    ) -> TickTable {
        let column = |slot: &Slot| Some(ticks.clone().map(|second| value(slot, second)).collect());
        TickTable {
            ends_ms: ticks
                .clone()
                .map(|second| START_MS + second * 1000)
                .collect(),
            elapsed_us: ticks.clone().map(|_| 1_000_000).collect(),
            columns: sources.slots.iter().map(column).collect(),
        }
    }

    fn job(seconds: i64) -> (Job, Timestamp) {
        let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap();
        let mut job = Job::new(1, JobKind::Snapshot, "uuid", "backup", at(START_MS));
        (job.vg, job.origin) = (Some("vg0".into()), Some("data".into()));
        job.ended_at = Some(at(START_MS + seconds * 1000));
        (job, at(START_MS + 10_000_000))
    }

    fn sources(job: &Job, snapshots: u32) -> Sources {
        let setup = Setup {
            kind: Some(SnapshotKind::Thick),
            snapshots: Some(snapshots),
            ..Setup::default()
        };
        let pvs = [("sda".to_string(), Subject::Device("S1".into()))];
        Sources::of(job, &setup, &pvs, |volume| Some(format!("LVM-{volume}")))
    }

    fn usual(slot: &Slot, second: i64) -> Option<f64> {
        Some(match slot {
            Slot::JobMeasure(JobMeasure::SnapshotRead) => 100.0,
            Slot::JobMeasure(JobMeasure::OriginRead) => 10.0,
            Slot::CowRead => 30.0,
            // Every other second the copier's read is counted late.
            Slot::RealRead => 80.0 + if second % 2 == 0 { 40.0 } else { -20.0 },
            Slot::CowWritten => 25.0,
            Slot::IntoSnapshot => 5.0,
            _ => 1.0,
        })
    }

    #[test]
    fn a_course_has_equal_times_before_and_after() {
        let (job, now) = job(60);
        let times = JobTimes::of(&job, now);
        assert_eq!(times.range().seconds(), 180.0);
        let sources = sources(&job, 1);
        let time_series = sources
            .time_series(&every(&sources, -59..121, usual), times)
            .unwrap();
        let lengths = [
            time_series.before.unwrap(),
            time_series.during,
            time_series.after.unwrap(),
        ]
        .map(|span| span.whole().len());
        assert_eq!(lengths, [60, 60, 60]);
    }

    #[test]
    fn a_long_job_has_ten_minutes_around_it() {
        let (job, now) = job(7200);
        assert_eq!(
            JobTimes::of(&job, now).range().seconds(),
            7200.0 + 2.0 * MOST_AROUND_S
        );
    }

    #[test]
    fn late_counts_are_carried_to_the_next_tick() {
        let (job, now) = job(60);
        let sources = sources(&job, 1);
        let time_series = sources
            .time_series(&every(&sources, 1..61, usual), JobTimes::of(&job, now))
            .unwrap();
        let whole = time_series.during.whole();
        // 90 of 120 below the origin in the mean, less 10 by the origin and 70 through the snapshot.
        assert_eq!(whole.amount(JobMeasure::Copied), Some(600.0));
        assert_eq!(whole.mean(JobMeasure::CowWritten), Some(20.0));
    }

    #[test]
    fn with_several_snapshots_copies_are_unknown() {
        let (job, now) = job(60);
        let sources = sources(&job, 2);
        let time_series = sources
            .time_series(&every(&sources, 1..61, usual), JobTimes::of(&job, now))
            .unwrap();
        assert_eq!(time_series.during.whole().mean(JobMeasure::Copied), None);
        assert_eq!(
            time_series.during.whole().mean(JobMeasure::CowWritten),
            Some(20.0)
        );
    }

    #[test]
    fn copies_are_unknown_if_one_layer_is() {
        let (job, now) = job(60);
        let sources = sources(&job, 1);
        let unread =
            |slot: &Slot, second: i64| usual(slot, second).filter(|_| *slot != Slot::CowRead);
        let time_series = sources
            .time_series(&every(&sources, 1..61, unread), JobTimes::of(&job, now))
            .unwrap();
        assert_eq!(time_series.during.whole().mean(JobMeasure::Copied), None);
        assert_eq!(
            time_series.during.whole().mean(JobMeasure::SnapshotRead),
            Some(100.0)
        );
    }

    #[test]
    fn a_timeline_is_short_and_keeps_peaks() {
        let ticks = (1..=2_000)
            .map(|second| JobTick {
                end_s: f64::from(second),
                seconds: 1.0,
            })
            .collect();
        let mut fills = vec![Some(5.0); 2_000];
        fills[777] = Some(90.0);
        fills[..8].fill(None);
        let during = TickColumns::new(ticks)
            .unwrap()
            .with(JobMeasure::FillPercent, fills)
            .unwrap();
        let timeline = Timeline::of(&JobTimeSeries {
            before: None,
            during,
            after: None,
            took_s: None,
        });
        assert_eq!((timeline.points.len(), timeline.seconds), (250, 2_000.0));
        assert_eq!(
            timeline
                .points
                .iter()
                .filter_map(|point| point.fill_percent)
                .fold(0.0, f64::max),
            90.0
        );
        assert_eq!(
            (timeline.points[0].fill_percent, timeline.points[0].read),
            (None, None)
        );
        assert!(timeline.has(|point| point.fill_percent) && !timeline.has(|point| point.written));
    }
}
