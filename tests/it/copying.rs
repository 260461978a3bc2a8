//! What thick snapshots cost, from what the devices counted: what was copied, how many bytes a written one makes, and
//! on which PV.

use std::time::Duration;

use cowbell::interval::Interval;
use cowbell::interval::copying::{Copying, Share};
use cowbell::source::{Part, PartReading, ReadResult};

use crate::cow::Model;
use crate::daemon::Start;
use crate::host::{Host, report, row};
use crate::machine::Done;
use crate::observer::{Observer, reading, volume};
use crate::tape::Tape;

const KIB: u64 = 1024;

fn texts(host: &Host) -> Vec<(Part, ReadResult)> {
    vec![
        (Part::Diskstats, ReadResult::Text(host.diskstats())),
        (Part::Sysfs, ReadResult::Text(host.names())),
        (Part::Dm, ReadResult::Text(host.device_mapper())),
    ]
}

/// What happened between two looks.
fn interval(before: &Host, after: &Host) -> Interval {
    let mut observer = Observer::default();
    observer.observe(&reading(0.0, texts(before)));
    observer.observe(&reading(1.0, texts(after)))
}

fn copying(interval: &Interval, lv: &str) -> Option<Copying> {
    interval.copying(volume(interval, lv).0)
}

fn share(interval: &Interval, pv: &str) -> Option<Share> {
    interval.share(interval.topology.device(pv).unwrap())
}

/// An origin with one snapshot, on these disks.
fn host(of_origin: &[&str], of_cow: &[&str]) -> Host {
    let mut host = Host::new(&["sda", "sdb", "sdc"]);
    let real = host.add_origin("data", of_origin, 614_400);
    host.add_snapshot("snap", &real, of_cow, 130_000, "snapshot 16/130000 16");
    host
}

fn kib(read: u64, written: u64) -> Done {
    Done::sectors(2 * read, 2 * written)
}

#[test]
fn one_write_of_4_kib_is_copied_once_and_costs_three() {
    let before = host(&["sda"], &["sda"]);
    let mut after = before.clone();
    after.layer("data", "").done = kib(0, 4);
    after.layer("data", "real").done = kib(4, 4);
    // A copy, its metadata, and a flush before that.
    after.layer("snap", "cow").done = Done {
        writes: 3,
        ..kib(0, 8)
    };
    let interval = interval(&before, &after);
    let expected = Copying {
        origin_written: 4 * KIB,
        real_written: 4 * KIB,
        copied: 4096,
        cow_written: 8 * KIB,
        into_snapshots: 0,
    };
    for lv in ["data", "snap"] {
        assert_eq!(
            copying(&interval, lv),
            Some(expected),
            "the origin's snapshots share it: {lv}"
        );
    }
    assert_eq!(expected.write_cost(), Some(3.0));
    assert_eq!(
        share(&interval, "sda"),
        Some(Share {
            read: 4 * KIB,
            written: 8 * KIB
        })
    );
}

/// 1000 random writes of 16 KiB each, measured on a real kernel: what the disk read besides, and all that it wrote.
#[test]
fn the_cost_is_that_which_was_measured() {
    for (chunk, read, written, expected) in [
        ("4k, one at a time", 16_000, 36_060, 2.25),
        ("4k, 16 at a time", 16_000, 32_412, 2.03),
        ("16k, one at a time", 16_000, 48_000, 3.0),
        ("64k, one at a time", 54_976, 125_952, 7.87),
        ("512k, one at a time", 157_184, 330_368, 20.65),
    ] {
        let before = host(&["sda"], &["sda"]);
        let mut after = before.clone();
        after.layer("data", "").done = kib(0, 16_000);
        after.layer("data", "real").done = kib(read, 16_000);
        after.layer("snap", "cow").done = kib(0, written - 16_000);
        let copying = copying(&interval(&before, &after), "data").unwrap();
        assert_eq!(copying.copied_bytes(), read * KIB, "{chunk}");
        let cost = copying.write_cost().unwrap();
        assert!((cost - expected).abs() < 0.005, "{chunk}: {cost}");
    }
}

#[test]
fn what_is_read_by_the_origin_and_through_a_snapshot_is_not_copied() {
    let mut model = Model::new(true);
    model.create(8);
    model.write(0, 800, 1);
    let before = model.host.clone();
    model.read(4_000);
    model.read_snapshot(0, 0, 1_600);
    let nothing = copying(&interval(&before, &model.host), "data").unwrap();
    assert_eq!(
        (nothing.copied, nothing.cow_written, nothing.write_cost()),
        (0, 0, None)
    );

    let before = model.host.clone();
    model.read(4_000);
    model.read_snapshot(0, 0, 3_200);
    model.write(800, 160, 1);
    let copying = copying(&interval(&before, &model.host), "data").unwrap();
    assert_eq!(copying.copied, 80 * 1024);
    assert_eq!(
        copying.write_cost(),
        Some(3.0),
        "one chunk, one copy, one metadata"
    );
}

#[test]
fn every_snapshot_of_an_origin_costs_its_own_copy() {
    for snapshots in 1..=3_u32 {
        let mut model = Model::new(true);
        (0..snapshots).for_each(|_| drop(model.create(8)));
        let before = model.host.clone();
        model.write(0, 80, 1);
        let interval = interval(&before, &model.host);
        let copying = copying(&interval, "data").unwrap();
        assert_eq!(copying.copied_bytes(), u64::from(snapshots) * 40 * KIB);
        assert_eq!(copying.write_cost(), Some(1.0 + 2.0 * f64::from(snapshots)));
        assert_eq!(
            self::copying(&interval, "snap1"),
            Some(copying),
            "it is told of all together"
        );
        // What was copied already costs nothing again.
        let before = model.host.clone();
        model.write(0, 80, 1);
        let copying = self::copying(&self::interval(&before, &model.host), "data").unwrap();
        assert_eq!((copying.copied, copying.write_cost()), (0, Some(1.0)));
    }
}

#[test]
fn what_is_written_into_a_snapshot_is_told_apart() {
    let mut model = Model::new(true);
    model.create(32);
    let before = model.host.clone();
    // A whole chunk of 16 KiB, and 4 KiB of another, which is copied first.
    model.write_snapshot(0, 0, 32);
    model.write_snapshot(0, 64, 8);
    let only_into_it = copying(&interval(&before, &model.host), "data").unwrap();
    assert_eq!(
        (only_into_it.into_snapshots, only_into_it.copied),
        (20 * KIB, 16 * 1024)
    );
    assert_eq!(
        only_into_it.cow_written,
        (16 + 16) * KIB + (16 + 4 + 16) * KIB
    );
    assert_eq!(
        only_into_it.write_cost(),
        None,
        "nothing was written to the origin"
    );

    let before = model.host.clone();
    model.write_snapshot(0, 0, 32);
    model.write(320, 32, 1);
    let both = copying(&interval(&before, &model.host), "data").unwrap();
    assert_eq!(both.into_snapshots, 16 * KIB);
    assert_eq!(
        both.write_cost(),
        Some(3.0),
        "what is written into a snapshot is no cost of the origin"
    );
}

#[test]
fn where_it_is_not_known_nothing_is_said() {
    let host = host(&["sda"], &["sda"]);
    let mut observer = Observer::default();
    let first = observer.observe(&reading(0.0, texts(&host)));
    assert_eq!(
        copying(&first, "data"),
        None,
        "nothing is before the first look"
    );
    assert_eq!(
        copying(&observer.observe(&reading(1.0, texts(&host))), "data").map(|it| it.copied),
        Some(0)
    );
    let nothing = vec![(
        Part::Diskstats,
        ReadResult::Error("it was not there".into()),
    )];
    let blind = observer.observe(&reading(2.0, nothing));
    assert_eq!(copying(&blind, "data"), None);
    assert_eq!(
        copying(&observer.observe(&reading(3.0, texts(&host))), "data"),
        None,
        "nor after a gap"
    );

    let mut plain = Host::new(&["sda"]);
    plain.add("plain", "", &["sda"], 8_192, "linear ");
    assert_eq!(
        copying(&interval(&plain, &plain), "plain"),
        None,
        "it has no snapshots"
    );
}

#[test]
fn while_a_snapshot_is_merged_what_is_read_is_no_copying() {
    let mut before = host(&["sda"], &["sda"]);
    before.layer("data", "").status = "snapshot-merge 20504/40960 96".into();
    before.layer("snap", "").status = "error ".into();
    let mut after = before.clone();
    after.layer("data", "real").done = kib(500, 500);
    assert_eq!(copying(&interval(&before, &after), "data"), None);
}

#[test]
fn a_pvs_share_is_exact_where_the_volume_lies_on_it_alone() {
    let copied = |mut after: Host| {
        after.layer("data", "").done = kib(0, 4);
        after.layer("data", "real").done = kib(4, 4);
        after.layer("snap", "cow").done = kib(0, 8);
        after
    };
    let both = Share {
        read: 4 * KIB,
        written: 8 * KIB,
    };
    let (read, written) = (Share { written: 0, ..both }, Share { read: 0, ..both });
    let nothing = Share::default();
    type Shares = [Option<Share>; 3];
    let table: [(&[&str], &[&str], Shares); 5] = [
        (
            &["sda"],
            &["sda"],
            [Some(both), Some(nothing), Some(nothing)],
        ),
        (
            &["sda"],
            &["sdb"],
            [Some(read), Some(written), Some(nothing)],
        ),
        // Of what lies on two nobody knows how much was on which.
        (&["sda", "sdb"], &["sdc"], [None, None, Some(written)]),
        (&["sda"], &["sdb", "sdc"], [Some(read), None, None]),
        (
            &["sda", "sdb"],
            &["sda", "sdb"],
            [None, None, Some(nothing)],
        ),
    ];
    for (of_origin, of_cow, expected) in table {
        let before = host(of_origin, of_cow);
        let shares = |after: &Host| {
            let interval = interval(&before, after);
            ["sda", "sdb", "sdc"].map(|pv| share(&interval, pv))
        };
        assert_eq!(
            shares(&copied(before.clone())),
            expected,
            "{of_origin:?} {of_cow:?}"
        );
        assert_eq!(
            shares(&before),
            [Some(nothing); 3],
            "that nothing was copied is known: {of_origin:?}"
        );
    }
}

#[test]
fn the_shares_of_two_origins_add_up_on_their_pv() {
    let mut before = host(&["sda"], &["sda"]);
    let real = before.add_origin("other", &["sda"], 614_400);
    before.add_snapshot("theirs", &real, &["sdb"], 130_000, "snapshot 16/130000 16");
    before.add("plain", "", &["sdc"], 8_192, "linear ");
    let mut after = before.clone();
    for (lv, snapshot) in [("data", "snap"), ("other", "theirs")] {
        after.layer(lv, "").done = kib(0, 4);
        after.layer(lv, "real").done = kib(4, 4);
        after.layer(snapshot, "cow").done = kib(0, 8);
    }
    after.layer("plain", "").done = kib(300, 300);
    let interval = interval(&before, &after);
    assert_eq!(
        share(&interval, "sda"),
        Some(Share {
            read: 8 * KIB,
            written: 8 * KIB
        })
    );
    assert_eq!(
        share(&interval, "sdb"),
        Some(Share {
            read: 0,
            written: 8 * KIB
        })
    );
    assert_eq!(
        share(&interval, "sdc"),
        Some(Share::default()),
        "there are no snapshots on it"
    );
}

#[test]
fn visitors_see_it_per_second() {
    let before = host(&["sda"], &["sdb"]);
    let mut after = before.clone();
    after.layer("data", "").done = kib(0, 40);
    after.layer("data", "real").done = kib(32, 40);
    after.layer("snap", "").done = kib(0, 6);
    after.layer("snap", "cow").done = kib(0, 70);
    let mut tape = Tape::new(Duration::from_secs(2));
    let lvm = report(&[row("data", "owi-a-s---"), row("snap", "swi-a-s---")]);
    for host in [&before, &after] {
        let mut texts = texts(host);
        texts.push((Part::Lvm, ReadResult::Text(lvm.clone())));
        tape.add(
            texts
                .into_iter()
                .map(|(part, result)| PartReading {
                    part,
                    result,
                    took_us: 10,
                })
                .collect(),
        );
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(2);
    let volumes = daemon.json("/api/v1/volumes");
    for volume in volumes.as_array().unwrap() {
        let copying = &volume["copying"];
        for (key, expected) in [
            ("copied_bytes_per_s", 16.0 * 1024.0),
            ("cow_written_bytes_per_s", 35.0 * 1024.0),
            ("into_snapshots_bytes_per_s", 3.0 * 1024.0),
            ("write_cost", 2.6),
        ] {
            assert_eq!(copying[key].as_f64(), Some(expected), "{key}: {volume}");
        }
    }
    let devices = daemon.json("/api/v1/devices");
    let of = |name: &str| {
        let device = devices
            .as_array()
            .unwrap()
            .iter()
            .find(|device| device["device"] == name)
            .unwrap();
        let copying = &device["copying"];
        (
            copying["read_bytes_per_s"].as_f64(),
            copying["written_bytes_per_s"].as_f64(),
        )
    };
    assert_eq!(of("sda"), (Some(16.0 * 1024.0), Some(0.0)));
    // What is written into the snapshot itself is no copying.
    assert_eq!(of("sdb"), (Some(0.0), Some(32.0 * 1024.0)));
}
