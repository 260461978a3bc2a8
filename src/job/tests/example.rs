//! A constructed backup for tests: it slows from 120 to 14 MiB/s while its snapshot fills from 0 to 60 %.

use std::sync::LazyLock;

use crate::job::figures::Figures;
use crate::job::setup::{Setup, SnapshotKind};
use crate::job::time_series::{JobMeasure, JobTick, JobTimeSeries, PvMeasure, TickColumns};
use crate::statistics::Random;

pub const MIB: f64 = 1024.0 * 1024.0;
pub const KIB: f64 = 1024.0;
const MIB_BYTES: u64 = 1024 * 1024;

pub const MEASURES: [JobMeasure; 15] = [
    JobMeasure::SnapshotRead,
    JobMeasure::Written,
    JobMeasure::FillPercent,
    JobMeasure::CowWritten,
    JobMeasure::Copied,
    JobMeasure::OriginRead,
    JobMeasure::OriginWritten,
    JobMeasure::OriginWrites,
    JobMeasure::OriginWriteAwaitMs,
    JobMeasure::Bi,
    JobMeasure::Bo,
    JobMeasure::User,
    JobMeasure::System,
    JobMeasure::Iowait,
    JobMeasure::PressureIo,
];
pub const PV_MEASURES: [PvMeasure; 5] = [
    PvMeasure::Read,
    PvMeasure::Written,
    PvMeasure::Utilisation,
    PvMeasure::ReadAwaitMs,
    PvMeasure::ReadRequestBytes,
];

/// Ticks of a second, from so many seconds after the job's start.
pub fn ticks(n: usize, from_s: f64) -> Vec<JobTick> {
    (0..n)
        .map(|index| JobTick {
            end_s: from_s + (index + 1) as f64,
            seconds: 1.0,
        })
        .collect()
}

/// From the first value to the last, with a little noise that is the same each time.
pub fn slope(n: usize, first: f64, last: f64) -> Vec<Option<f64>> {
    let mut random = Random::default();
    let mut noise = || 1.0 + (random.below(2001) as f64 - 1000.0) / 10_000.0;
    let step = |index: usize| first + (last - first) * index as f64 / (n.max(2) - 1) as f64;
    (0..n).map(|index| Some(step(index) * noise())).collect()
}

pub fn steady(n: usize, value: f64) -> Vec<Option<f64>> {
    vec![Some(value); n]
}

/// One of the two PVs, `sda`, carries both the origin and the COW area and is busy all the time.
pub fn slowing(n: usize) -> JobTimeSeries {
    let during = span(n, 0.0, 9.0)
        .with(JobMeasure::SnapshotRead, slope(n, 120.0 * MIB, 14.0 * MIB))
        .and_then(|span| span.with(JobMeasure::FillPercent, straight(n, 0.0, 60.0)))
        .and_then(|span| span.with(JobMeasure::CowWritten, steady(n, 1.9 * MIB)))
        .and_then(|span| span.with(JobMeasure::Copied, slope(n, 1.6 * MIB, 1.6 * MIB)))
        .and_then(|span| span.with_pv("sda", PvMeasure::Read, slope(n, 120.0 * MIB, 14.0 * MIB)))
        .and_then(|span| span.with_pv("sda", PvMeasure::Written, steady(n, 2.9 * MIB)))
        .and_then(|span| span.with_pv("sda", PvMeasure::Utilisation, steady(n, 0.98)))
        .and_then(|span| span.with_pv("sda", PvMeasure::ReadAwaitMs, straight(n, 2.0, 12.0)))
        .and_then(|span| {
            span.with_pv(
                "sda",
                PvMeasure::ReadRequestBytes,
                straight(n, 512.0 * KIB, 16.0 * KIB),
            )
        })
        .and_then(|span| span.with_pv("sdb", PvMeasure::Utilisation, steady(n, 0.02)));
    JobTimeSeries {
        before: Some(span(60, -60.0, 2.0)),
        during: during.unwrap(),
        after: Some(span(60, n as f64, 2.0)),
        took_s: Some(n as f64),
    }
}

/// Of 2,000 seconds of it, made once for all tests.
pub fn slow_figures() -> &'static Figures {
    static FIGURES: LazyLock<Figures> = LazyLock::new(|| Figures::of(&slowing(2000), &setup()));
    &FIGURES
}

pub fn setup() -> Setup {
    Setup {
        kind: Some(SnapshotKind::Thick),
        chunk_bytes: Some(64 * 1024),
        cow_bytes: Some(1024 * MIB_BYTES),
        peak_bytes: Some(600 * MIB_BYTES),
        origin_bytes: Some(100 * 1024 * MIB_BYTES),
        snapshots: Some(1),
        origin_pvs: Some(vec!["sda".into()]),
        cow_pvs: Some(vec!["sda".into()]),
        processors: Some(4),
        ..Setup::default()
    }
}

/// A span in which the origin is written to in requests of 16 KiB that take so many milliseconds each.
fn span(n: usize, from_s: f64, await_ms: f64) -> TickColumns {
    TickColumns::new(ticks(n, from_s))
        .and_then(|span| span.with(JobMeasure::OriginWritten, steady(n, MIB)))
        .and_then(|span| span.with(JobMeasure::OriginWrites, steady(n, MIB / (16.0 * KIB))))
        .and_then(|span| span.with(JobMeasure::OriginWriteAwaitMs, steady(n, await_ms)))
        .and_then(|span| span.with(JobMeasure::User, steady(n, 0.1)))
        .and_then(|span| span.with(JobMeasure::System, steady(n, 0.05)))
        .and_then(|span| span.with(JobMeasure::Iowait, steady(n, 0.3)))
        .and_then(|span| span.with(JobMeasure::PressureIo, steady(n, 0.7)))
        .unwrap()
}

pub fn straight(n: usize, first: f64, last: f64) -> Vec<Option<f64>> {
    (0..n)
        .map(|index| Some(first + (last - first) * index as f64 / (n.max(2) - 1) as f64))
        .collect()
}
