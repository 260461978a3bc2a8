//! How much a snapshot's file system holds: told now and then, and true while it is mounted. And what overflows with it.

use cowbell::job::progress::overflows;
use cowbell::source::{Part, ReadResult};
use cowbell::topology::VolumeKind;

use crate::host::{Host, report, row};
use crate::observer::{Observer, complaint, reading, volume};

const MOUNTS: &str = "36 35 253:3 / /mnt/my\\040snap ro shared:1 - xfs /dev/mapper/vg0-snap ro\n";
const USAGE: &str = "253:3\t/mnt/my\\040snap\t1000\t400\t4096\n";

fn host() -> Host {
    let mut host = Host::new(&["sda"]);
    let real = host.add_origin("data", &["sda"], 614_400);
    host.add_snapshot("snap", &real, &["sda"], 130_000, "snapshot 13000/130000 16");
    host
}

#[test]
fn what_a_snapshot_holds_is_known_while_it_is_mounted() {
    let (host, mut observer) = (host(), Observer::default());
    let mut held = |seconds: f64, more: &[(Part, &str)]| {
        let texts = [
            (Part::Diskstats, host.diskstats()),
            (Part::Sysfs, host.names()),
            (Part::Dm, host.device_mapper()),
        ];
        let more = more.iter().map(|(part, text)| (*part, text.to_string()));
        let texts = texts
            .into_iter()
            .chain(more)
            .map(|(part, text)| (part, ReadResult::Text(text)));
        let interval = observer.observe(&reading(seconds, texts.collect()));
        let of = |lv| interval.used_bytes_on(volume(&interval, lv).0);
        assert_eq!(of("data"), None, "its origin's file system is another");
        (
            of("snap"),
            complaint(&observer, Part::Usage).map(String::from),
        )
    };
    let known = Some(600 * 4096);
    assert_eq!(held(0.0, &[(Part::Usage, "")]), (None, None));
    assert_eq!(
        held(1.0, &[(Part::Mounts, MOUNTS)]),
        (None, None),
        "it is not zero until it is told"
    );
    assert_eq!(held(2.0, &[(Part::Usage, USAGE)]), (known, None));
    assert_eq!(held(3.0, &[]), (known, None), "it is told rarely");
    assert_eq!(held(4.0, &[(Part::Mounts, "")]), (None, None));
    assert_eq!(
        held(5.0, &[(Part::Mounts, MOUNTS)]),
        (None, None),
        "what is mounted there now may be another"
    );
    let refused = "253:3\t/mnt/my\\040snap\tPermission denied (os error 13)\n";
    let (bytes, complaint) = held(6.0, &[(Part::Usage, refused)]);
    assert_eq!(bytes, None);
    assert!(
        complaint
            .unwrap()
            .contains("on /mnt/my snap (device 253:3) is unknown: Permission denied")
    );
}

#[test]
fn a_thin_snapshot_overflows_with_its_pool_and_a_thick_one_by_itself() {
    let mut host = host();
    let pool = host.add(
        "pool",
        "tpool",
        &["sda"],
        131_072,
        "thin-pool 1 112/1024 162/1024 - rw - -",
    );
    host.layer("pool", "tpool").table = Some("253:1 253:2 128 0 0".into());
    host.add("thin_snap", "", &[&pool], 65_536, "thin 2048 65535");
    let mut thin_snap = row("thin_snap", "Vwi-a-tz-k");
    (thin_snap["origin"], thin_snap["pool_lv"]) = ("thin".into(), "pool".into());
    let texts = [
        (Part::Diskstats, host.diskstats()),
        (Part::Sysfs, host.names()),
        (Part::Dm, host.device_mapper()),
        (Part::Lvm, report(&[thin_snap])),
    ];
    let texts = texts
        .into_iter()
        .map(|(part, text)| (part, ReadResult::Text(text)));
    let interval = Observer::default().observe(&reading(0.0, texts.collect()));
    let of = |lv| {
        let (full, state) = overflows(&interval, volume(&interval, lv).0).unwrap();
        (full.lv.clone(), full.kind, state.fill.unwrap().used_bytes())
    };
    assert_eq!(
        of("thin_snap"),
        ("pool".into(), VolumeKind::ThinPool, 162 * 64 * 1024)
    );
    assert_eq!(
        of("snap"),
        ("snap".into(), VolumeKind::Snapshot, 13_000 * 512)
    );
}
