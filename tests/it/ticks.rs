//! Ticks made by hand, and a store without a daemon around it: so many ticks pass in no time.

use std::path::Path;
use std::sync::Arc;

use cowbell::interval::{DeviceInterval, Host, Interval, Work};
use cowbell::quantity::Quantity;
use cowbell::sample::diskstats::Counter;
use cowbell::sample::diskstats::Number;
use cowbell::series::{Point, Range};
use cowbell::store::{SeriesKey, StoreReader, StoreWriter, Subject, TickOrigin, WriteOp};
use cowbell::topology::{Device, DeviceKind, Topology};
use jiff::{SignedDuration, Timestamp};

/// 2026-03-01T02:00:00Z
pub const BEGIN: Timestamp = Timestamp::constant(1_772_330_400, 0);

/// A tick of the disk `sda`, by what it read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    pub at: Timestamp,
    pub elapsed: SignedDuration,
    pub sectors: u64,
}

impl Tick {
    /// The ticks of a machine that is seen once a minute, each with a number of its own.
    pub fn of_minute(number: u64) -> Self {
        let elapsed = SignedDuration::from_mins(1);
        let sectors = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        Self {
            at: BEGIN + elapsed * i32::try_from(number).unwrap(),
            elapsed,
            sectors,
        }
    }

    pub fn interval(self, topology: &Arc<Topology>) -> Interval {
        let work = Work::IDLE
            .with(Counter::Reads, 1)
            .with(Counter::SectorsRead, self.sectors);
        let idle = DeviceInterval {
            work: Work::IDLE,
            counters: None,
        };
        let mut devices = vec![idle; topology.devices.len()];
        devices[0].work = work;
        Interval {
            at: self.at,
            elapsed_us: u64::try_from(self.elapsed.as_micros()).unwrap(),
            topology: Arc::clone(topology),
            devices,
            volumes: Vec::new(),
            host: Host::default(),
            devices_listed: true,
            policies: None,
            usages: Arc::default(),
            makers: Vec::new(),
            backups: Arc::default(),
            exits: Vec::new(),
            read_errors: Vec::new(),
            invalidation: None,
            touched: None,
            next_snapshot: None,
            schedule: Default::default(),
            guard: None,
        }
    }
}

/// A machine with these disks, each of which counts.
pub fn disks(names: &[&str]) -> Arc<Topology> {
    let devices = (0..).zip(names).map(|(minor, name)| Device {
        number: Number { major: 8, minor },
        name: (*name).into(),
        identity: (*name).into(),
        generation: None,
        label: (*name).into(),
        kind: DeviceKind::Disk,
        vg: None,
        lv: None,
        is_pv: false,
        slaves: Vec::new(),
        paths: Vec::new(),
        size: None,
        model: None,
        rotational: None,
        scheduler: None,
        read_ahead_kib: None,
        block_size: None,
        counts: true,
    });
    Topology::new(devices.collect(), Vec::new(), Vec::new()).into()
}

pub async fn open(db: &Path) -> (StoreWriter, StoreReader) {
    cowbell::store::open(
        db,
        TickOrigin::ThisMachine,
        cowbell::config::Store::default(),
    )
    .await
    .unwrap()
}

/// Keeps the ticks in one life of the program, which ends as it should.
pub async fn keep(db: &Path, ticks: &[Tick]) -> StoreReader {
    keep_in(open(db).await, ticks).await
}

/// The same in a store that is open.
pub async fn keep_in(
    (mut inlet, store): (StoreWriter, StoreReader),
    ticks: &[Tick],
) -> StoreReader {
    let topology = disks(&["sda"]);
    for tick in ticks {
        inlet.append_tick(&tick.interval(&topology)).await;
    }
    // A stop gives up after some seconds, and a busy disk may need more for thousands of ticks.
    let began = std::time::Instant::now();
    while inlet.health().0.written + 1_000 < ticks.len() as u64
        && began.elapsed() < crate::PATIENCE * 4
    {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    inlet.close().await;
    store
}

/// Commits all ticks, as any change of a job does.
pub async fn commit(inlet: &mut StoreWriter) {
    let stored = inlet
        .append_acknowledged(WriteOp::Remove("none".into()))
        .await;
    stored.await.unwrap().unwrap();
}

/// Bytes that the disk read per second, in at most so many points.
pub async fn read_bytes(
    store: &StoreReader,
    from: Timestamp,
    to: Timestamp,
    points: usize,
) -> Vec<Point> {
    let quantity = Quantity::ReadBytes;
    let wanted = SeriesKey {
        subject: Subject::Device("sda".into()),
        quantity,
    };
    let series = store
        .series(&[wanted], Range { from, to }, points)
        .await
        .unwrap();
    series
        .into_iter()
        .next()
        .unwrap()
        .expect("sda is known")
        .points
}

/// Each tick's instant and the sectors that were read, where a point is of one tick of that length.
pub fn sectors(points: &[Point], elapsed: SignedDuration) -> Vec<(Timestamp, u64)> {
    let of = |bytes_per_s: f64| (bytes_per_s * elapsed.as_secs_f64() / 512.0).round() as u64;
    points
        .iter()
        .map(|point| (point.t, of(point.avg.expect("it is known"))))
        .collect()
}
