//! What Prometheus and its kin read: the last tick as metrics.
//!
//! A scrape renders what is in memory: no LVM call, no query. An unknown value has no sample, never 0. If ticks do not
//! arrive, the machine has no samples either, since old values would look like new ones. Each name ends in its base unit.

mod backups;
mod devices;
mod exposition;
mod own;
use exposition::Exposition;
pub use exposition::ExpositionFormat;

use crate::present::Present;

/// About as long is the text of a device and of a volume.
const DEVICE_BYTES: usize = 2_000;
const VOLUME_BYTES: usize = 2_500;

/// The last tick as text.
pub fn metrics(present: &Present, format: ExpositionFormat) -> String {
    let topology = &present.interval.topology;
    let size = topology.devices.len() * DEVICE_BYTES + topology.volumes.len() * VOLUME_BYTES;
    let mut out = Exposition::new(format, size);
    own::write(present, &mut out);
    if present.is_fresh() {
        devices::write_devices(&present.interval, &mut out);
        devices::write_volumes(present, &mut out);
        backups::write(present, &mut out);
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    //! What all families have in common, how many series a device and a volume have at most, and labels of any letters.

    use std::collections::{BTreeMap, HashMap};
    use std::sync::{Arc, OnceLock};
    use std::time::{Duration, Instant};

    use jiff::Timestamp;

    use super::*;
    use crate::alert::{Pace, Race};
    use crate::config;
    use crate::forecast::{Eta, EtaBasis, Outlook, OutlookVerdict, PastRuns, RemainingReads, Risk};
    use crate::interval::{DeviceInterval, Host, Interval, Work};
    use crate::job::{Job, JobKind, Outcome};
    use crate::present::Ticks;
    use crate::sample::diskstats::{Counter, Counters, Number};
    use crate::sentence::Sentence;
    use crate::store::Health;
    use crate::topology::{
        Device, DeviceKind, LvDevice, State, Topology, Volume, VolumeKind, VolumeState,
    };
    use crate::units::{Fill, Sectors};

    const MOST_OF_DEVICE: usize = 40;
    const MOST_OF_VOLUME: usize = 25;
    /// What the names of numbers end in, except flags, which are 0 or 1.
    const UNITS: [&str; 12] = [
        "pvs",
        "bytes",
        "seconds",
        "ratio",
        "requests",
        "ticks",
        "entries",
        "samples",
        "jobs",
        "reloads",
        "deliveries",
        "alerts",
    ];
    const FLAGS: [&str; 5] = [
        "cowbell_alert",
        "cowbell_configuration_refused",
        "cowbell_store_failed",
        "cowbell_part_failed",
        "cowbell_backup_last_trustworthy",
    ];

    const KINDS: [VolumeKind; 13] = [
        VolumeKind::Linear,
        VolumeKind::Striped,
        VolumeKind::Mirror,
        VolumeKind::Raid,
        VolumeKind::Snapshot,
        VolumeKind::ThinPool,
        VolumeKind::Thin,
        VolumeKind::ThinSnapshot,
        VolumeKind::Cache,
        VolumeKind::Writecache,
        VolumeKind::VdoPool,
        VolumeKind::Vdo,
        VolumeKind::Other,
    ];

    fn uuid(kind: VolumeKind) -> String {
        format!("{kind:?}")
    }

    fn volume(kind: VolumeKind) -> Volume {
        Volume {
            vg: "vg0".into(),
            lv: uuid(kind),
            uuid: uuid(kind).into(),
            device: Some(0),
            kind,
            origin: Some("origin".into()),
            size: Some(1 << 30),
            created_at: Some(Timestamp::UNIX_EPOCH),
            ..Volume::default()
        }
    }

    /// All that the kernel and LVM say of such a volume.
    fn state(kind: VolumeKind) -> VolumeState {
        use VolumeKind as Kind;
        let fill = Some(Fill {
            used: 1,
            total: 2,
            unit: 512,
        });
        let is_plain = matches!(
            kind,
            Kind::Linear | Kind::Striped | Kind::Mirror | Kind::Raid
        );
        let has_metadata = matches!(
            kind,
            Kind::ThinPool | Kind::Cache | Kind::Writecache | Kind::VdoPool | Kind::Other
        );
        VolumeState {
            fill: fill.filter(|_| !is_plain),
            metadata: fill.filter(|_| has_metadata),
            sync: fill.filter(|_| matches!(kind, Kind::Mirror | Kind::Raid)),
            ..VolumeState::only(State::Ok)
        }
    }

    fn device() -> Device {
        let lv = LvDevice {
            name: "data".into(),
            uuid: "of a device".into(),
            layer: Some("cow".into()),
        };
        Device {
            number: Number {
                major: 253,
                minor: 0,
            },
            name: "dm-0".into(),
            identity: "LVM-0".into(),
            generation: None,
            label: "vg0/data".into(),
            kind: DeviceKind::Dm,
            vg: Some("vg0".into()),
            lv: Some(lv),
            is_pv: true,
            slaves: Vec::new(),
            paths: Vec::new(),
            size: Some(Sectors(1)),
            model: Some("a model".into()),
            rotational: Some(false),
            scheduler: Some("none".into()),
            read_ahead_kib: Some(128),
            block_size: None,
            counts: true,
        }
    }

    /// What a backup can be of.
    fn is_backed_up(kind: &VolumeKind) -> bool {
        !matches!(
            kind,
            VolumeKind::Snapshot | VolumeKind::ThinPool | VolumeKind::VdoPool
        )
    }

    /// A good backup that ended, and one that runs.
    fn backups(kind: VolumeKind, id: i64) -> [Job; 2] {
        let job = Job {
            kind: JobKind::Snapshot,
            vg: Some("vg0".into()),
            lv: Some("data_snapshot".into()),
            origin: Some(uuid(kind)),
            command_key: Some("nightly".into()),
            ..Job::default()
        };
        let at = Some(Timestamp::UNIX_EPOCH);
        let ended = Job {
            id,
            ended_at: at,
            outcome: Some(Outcome::Succeeded),
            peak_fill_percent: Some(1.0),
            ..job.clone()
        };
        [ended, Job { id: id + 1, ..job }]
    }

    fn outlook(eta: Eta) -> Outlook {
        Outlook {
            left: RemainingReads::of(None, None, &PastRuns::default()),
            overflows: None,
            free_bytes: None,
            cannot_overflow: false,
            done: Some(eta),
            full: None,
            growth: None,
            verdict: OutlookVerdict::Open,
            risk: Risk::Race,
            remedy: None,
            guard: None,
            text: Sentence::default(),
        }
    }

    /// A volume of each kind, of which everything is known that can be.
    fn present() -> Present {
        let eta = Eta {
            likely_s: Some(2.0),
            soonest_s: 1.0,
            latest_s: Some(3.0),
            basis: EtaBasis::Tested,
            seen_s: 90.0,
        };
        let backed_up = KINDS.into_iter().filter(is_backed_up).zip((0..).step_by(2));
        let jobs: Vec<Arc<Job>> = backed_up
            .flat_map(|(kind, id)| backups(kind, id))
            .map(Arc::new)
            .collect();
        let uuids = || KINDS.map(|kind| Arc::from(uuid(kind))).into_iter();
        let race = Race {
            verdict: OutlookVerdict::Open,
            risk: Risk::Race,
        };
        let reads_pool = |kind: &VolumeKind| kind.can_overflow();
        let topology = Topology::new(vec![device()], Vec::new(), KINDS.map(volume).into());
        Present {
            host: "db1".into(),
            started_at: Timestamp::UNIX_EPOCH,
            interval_length: Duration::from_secs(1),
            interval: Arc::new(Interval {
                at: Timestamp::UNIX_EPOCH,
                elapsed_us: 1_000_000,
                topology: Arc::new(topology),
                devices: vec![DeviceInterval {
                    work: Work::default(),
                    counters: Some(Counters([Some(0); Counter::COUNT])),
                }],
                volumes: KINDS.map(state).into(),
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
            }),
            thresholds: config::Alerts::default(),
            averages: Arc::default(),
            running: OnceLock::new(),
            outlooks: OnceLock::from(
                jobs.iter()
                    .map(|job| (job.id, outlook(eta)))
                    .collect::<HashMap<_, _>>(),
            ),
            measured: Arc::default(),
            jobs,
            curves: Arc::default(),
            alerts: Vec::new(),
            paces: uuids()
                .map(|uuid| {
                    (
                        uuid,
                        Pace {
                            bytes_per_s: 1.0,
                            full: Some(eta),
                            why_not: "",
                        },
                    )
                })
                .collect(),
            races: KINDS
                .into_iter()
                .filter(reads_pool)
                .map(|kind| (uuid(kind).into(), race))
                .collect(),
            deliveries: Arc::default(),
            silences: Vec::new(),
            receivers: Arc::new([]),
            ticks: Ticks::default(),
            parts: BTreeMap::new(),
            store: Health::default(),
            keep: config::Store::default(),
            remote_write: None,
            notes: Vec::new(),
            configuration: Default::default(),
            attempts: Default::default(),
            lost: 0,
            published: Instant::now(),
            ended: None,
        }
    }

    #[test]
    fn a_device_and_a_volume_of_any_kind_have_few_series() {
        let text = metrics(&present(), ExpositionFormat::OpenMetrics);
        let count = |label: String, is_device: bool| {
            let of_it = |line: &&str| {
                line.starts_with("cowbell_device_") == is_device && line.contains(&label)
            };
            text.lines().filter(of_it).count()
        };
        let of_device = count("device=\"dm-0\"".into(), true);
        assert!(
            (8..=MOST_OF_DEVICE).contains(&of_device),
            "{of_device}: {text}"
        );
        for kind in KINDS {
            let series = count(format!("uuid=\"{}\"", uuid(kind)), false);
            assert!(
                (10..=MOST_OF_VOLUME).contains(&series),
                "{kind:?} has {series}: {text}"
            );
        }
    }

    #[test]
    fn each_family_has_a_type_a_sentence_and_its_unit() {
        let text = metrics(&present(), ExpositionFormat::OpenMetrics);
        let mut described: BTreeMap<&str, [Option<&str>; 3]> = BTreeMap::new();
        for line in text
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter(|line| *line != "EOF")
        {
            let [keyword, name, rest] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let place = ["HELP", "TYPE", "UNIT"]
                .iter()
                .position(|known| *known == keyword)
                .unwrap();
            assert_eq!(
                described.entry(name).or_default()[place].replace(rest),
                None,
                "{line}"
            );
        }
        assert!(described.len() > 40, "{described:?}");
        for (name, [help, kind, unit]) in described {
            assert!(
                help.is_some_and(|help| help.ends_with('.')),
                "{name}: {help:?}"
            );
            let has_unit = unit
                .is_some_and(|unit| UNITS.contains(&unit) && name.ends_with(&format!("_{unit}")));
            let has_none = matches!(kind, Some("info" | "stateset")) || FLAGS.contains(&name);
            assert_eq!(
                (has_unit, unit.is_some()),
                (!has_none, !has_none),
                "{name} is a {kind:?} in {unit:?}"
            );
        }
    }

    /// The letters that LVM allows in names, and those that the kernel allows in names of devices and models.
    #[test]
    fn labels_of_any_letters_come_back() {
        let lvm = "aZ09+_.-snap";
        let kernel = "# HELP !\u{1}\t\n\"\\n\\{}=,'#\u{7f}é\u{fffd}\u{1F514}/dm-3 # EOF";
        let mut present = present();
        let interval = Arc::get_mut(&mut present.interval).unwrap();
        let topology = Arc::get_mut(&mut interval.topology).unwrap();
        topology.volumes[0].lv = lvm.into();
        topology.devices[0].name = kernel.into();
        topology.devices[0].model = Some(kernel.into());
        let plain = metrics(&self::present(), ExpositionFormat::OpenMetrics);
        for format in [ExpositionFormat::OpenMetrics, ExpositionFormat::Classic] {
            let text = metrics(&present, format);
            let escaped = kernel
                .replace('\\', r"\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            for (label, value) in [("device", &*escaped), ("model", &escaped), ("lv", lvm)] {
                assert!(
                    text.contains(&format!("{label}=\"{value}\"")),
                    "{label} in {text}"
                );
            }
            let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
            assert_eq!(samples(&text), samples(&plain));
        }
    }
}
