//! What a scrape of `/metrics` costs: `cargo bench --bench scrape`.
//!
//! Renders a tick of 100 devices and 200 volumes, of which ten are read by a backup, in both formats. Nothing here is
//! asserted: machines differ. Results are kept in `benches/RESULTS.md`.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cowbell::alert::{Pace, Race};
use cowbell::config;
use cowbell::forecast::{Eta, EtaBasis, OutlookVerdict, Risk};
use cowbell::interval::{DeviceInterval, Host, Interval, Work};
use cowbell::present::{Present, RecordingEnd, Ticks};
use cowbell::prometheus::{ExpositionFormat, metrics};
use cowbell::sample::diskstats::{Counters, Number};
use cowbell::store::Health;
use cowbell::topology::{
    Device, DeviceKind, LvDevice, State, Topology, Volume, VolumeKind, VolumeState,
};
use cowbell::units::{Fill, Sectors};
use jiff::Timestamp;

const DEVICES: usize = 100;
const VOLUMES: usize = 200;
const BACKUPS: usize = 10;
const TIMES: usize = 500;
const KINDS: [VolumeKind; 4] = [
    VolumeKind::Linear,
    VolumeKind::Snapshot,
    VolumeKind::ThinPool,
    VolumeKind::Thin,
];

fn main() {
    println!("| format | series | bytes | median | 99th percentile |");
    println!("|---|---|---|---|---|");
    let present = Arc::new(present());
    for (name, format) in [
        ("OpenMetrics 1.0", ExpositionFormat::OpenMetrics),
        ("Prometheus 0.0.4", ExpositionFormat::Classic),
    ] {
        let text = metrics(&present, format);
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        let mut times: Vec<Duration> = (0..TIMES).map(|_| time(&present, format)).collect();
        times.sort_unstable();
        let (median, slow) = (times[TIMES / 2], times[TIMES * 99 / 100]);
        println!(
            "| {name} | {series} | {} | {median:.2?} | {slow:.2?} |",
            text.len()
        );
    }
}

fn time(present: &Arc<Present>, format: ExpositionFormat) -> Duration {
    let present = Arc::clone(present);
    let began = Instant::now();
    std::hint::black_box(metrics(&present, format));
    began.elapsed()
}

fn present() -> Present {
    let growing = || (0..VOLUMES).filter(|index| kind(*index).can_overflow());
    let eta = Eta {
        likely_s: Some(812.25),
        soonest_s: 701.5,
        latest_s: Some(1_002.125),
        basis: EtaBasis::Tested,
        seen_s: 90.0,
    };
    let pace = Pace {
        bytes_per_s: 1e6,
        full: Some(eta),
        why_not: "",
    };
    let race = Race {
        verdict: OutlookVerdict::Open,
        risk: Risk::Race,
    };
    Present {
        host: "db1".into(),
        started_at: Timestamp::UNIX_EPOCH,
        interval_length: Duration::from_secs(1),
        interval: Arc::new(interval()),
        thresholds: config::Alerts::default(),
        averages: Arc::default(),
        jobs: Vec::new(),
        curves: Arc::default(),
        outlooks: OnceLock::new(),
        running: OnceLock::new(),
        measured: Arc::default(),
        alerts: Vec::new(),
        paces: growing().map(|index| (uuid(index), pace)).collect(),
        races: growing()
            .take(BACKUPS)
            .map(|index| (uuid(index), race))
            .collect::<HashMap<_, _>>(),
        deliveries: Arc::default(),
        silences: Vec::new(),
        receivers: Arc::new([]),
        ticks: Ticks::default(),
        parts: Default::default(),
        store: Health::default(),
        keep: config::Store::default(),
        remote_write: None,
        notes: Vec::new(),
        configuration: Default::default(),
        attempts: Default::default(),
        lost: 0,
        published: Instant::now(),
        // Otherwise it would soon be too old to show.
        ended: Some(RecordingEnd::Complete),
    }
}

fn interval() -> Interval {
    // As long as those of a disk that is used for years.
    let counters = Counters(std::array::from_fn(|place| {
        Some(123_456_789 * (place as u64 + 1))
    }));
    Interval {
        at: Timestamp::UNIX_EPOCH,
        elapsed_us: 1_000_000,
        topology: Arc::new(Topology::new(
            (0..DEVICES).map(device).collect(),
            Vec::new(),
            (0..VOLUMES).map(volume).collect(),
        )),
        devices: vec![
            DeviceInterval {
                work: Work::default(),
                counters: Some(counters)
            };
            DEVICES
        ],
        volumes: (0..VOLUMES).map(state).collect(),
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

fn device(index: usize) -> Device {
    let lv = LvDevice {
        name: format!("mysql_{index}"),
        uuid: uuid(index),
        layer: Some("cow".into()),
    };
    Device {
        number: Number {
            major: 253,
            minor: u32::try_from(index).expect("a small number"),
        },
        name: format!("dm-{index}").into(),
        identity: uuid(index),
        generation: None,
        label: format!("vg0/mysql_{index}"),
        kind: DeviceKind::Dm,
        vg: Some("vg0".into()),
        lv: Some(lv),
        is_pv: false,
        slaves: Vec::new(),
        paths: Vec::new(),
        size: Some(Sectors(1 << 30)),
        model: Some("a model".into()),
        rotational: Some(false),
        scheduler: Some("none".into()),
        read_ahead_kib: Some(128),
        block_size: None,
        counts: false,
    }
}

fn volume(index: usize) -> Volume {
    Volume {
        vg: "vg0".into(),
        lv: format!("mysql_{index}"),
        uuid: uuid(index),
        device: Some(index % DEVICES),
        kind: kind(index),
        origin: Some("mysql".into()).filter(|_| kind(index) == VolumeKind::Snapshot),
        size: Some(1 << 40),
        created_at: Some(Timestamp::UNIX_EPOCH),
        ..Volume::default()
    }
}

fn state(index: usize) -> VolumeState {
    let fill = Some(Fill {
        used: 1_234_567,
        total: 2_621_440,
        unit: 512,
    })
    .filter(|_| kind(index).fills());
    let metadata = fill.filter(|_| kind(index) == VolumeKind::ThinPool);
    VolumeState {
        fill,
        metadata,
        ..VolumeState::only(State::Ok)
    }
}

fn kind(index: usize) -> VolumeKind {
    KINDS[index % KINDS.len()]
}

fn uuid(index: usize) -> Arc<str> {
    format!("zwUOvY-k1lx-IC7T-BFos-hFEK-HXVC-{index:06}").into()
}
