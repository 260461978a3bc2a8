//! Groups that another host may change: what is said of a snapshot in one, in place of a command that LVM refuses.

use cowbell::advice::{Extensible, PoolPart};
use cowbell::source::{Part, ReadResult};

use crate::host::{Host, report, row};
use crate::observer::{Observer, reading, volume};

const POLICIES: &str = "monitoring=1\nsnapshot_autoextend_threshold=100\nsnapshot_autoextend_percent=20\n\
    thin_pool_autoextend_threshold=100\nthin_pool_autoextend_percent=20\n\ndmeventd=absent\n";

/// Why LVM refuses to extend a snapshot in a group with these attributes and system ID, on a host with this one.
fn refusal(attributes: &str, system_id: &str, own: &str) -> String {
    let mut host = Host::new(&["sda"]);
    let real = host.add_origin("data", &["sda"], 614_400);
    host.add_snapshot("snap", &real, &["sda"], 130_000, "snapshot 13000/130000 16");
    let mut snap = row("snap", "swi-a-s---");
    snap["origin"] = "data".into();
    let of_group = format!(r#""vg_attr": "{attributes}", "vg_systemid": "{system_id}", "vg_tags""#);
    let report = report(&[row("data", "owi-a-s---"), snap]).replace(r#""vg_tags""#, &of_group);
    let texts = [
        (Part::Diskstats, host.diskstats()),
        (Part::Sysfs, host.names()),
        (Part::Dm, host.device_mapper()),
        (Part::LvmConfig, format!("{POLICIES}{own}")),
        (Part::Lvm, report),
    ];
    let texts = texts
        .into_iter()
        .map(|(part, text)| (part, ReadResult::Text(text)));
    let interval = Observer::default().observe(&reading(0.0, texts.collect()));
    let (snap, state) = volume(&interval, "snap");
    assert!(state.fill.is_some(), "its usage is seen all the same");
    let extensible = Extensible::new(snap, &interval.topology, PoolPart::Data);
    extensible
        .refusal
        .map(|it| it.to_string())
        .unwrap_or_default()
}

#[test]
fn a_group_of_another_host_has_no_commands() {
    let foreign = "VG vg0 has the system ID of another host, there: change it on that host";
    for (attributes, system_id, own, expected) in [
        ("wz--n-", "", "  system ID: \n", ""),
        ("wz--n-", "here", "  system ID: here\n", ""),
        ("wz--n-", "there", "  system ID: here\n", foreign),
        ("wz--n-", "there", "  system ID: \n", foreign),
        ("wz--n-", "there", "", ""),
        (
            "wzx-n-",
            "",
            "",
            "VG vg0 is exported: import it with `vgimport vg0`",
        ),
        (
            "wz--ns",
            "",
            "",
            "VG vg0 is shared: change it on the host that holds its lock",
        ),
    ] {
        let found = refusal(attributes, system_id, own);
        assert_eq!(found, expected, "{attributes} {system_id:?} on {own:?}");
    }
}

/// A group that appears while LVM cannot be asked is no other host's, and one that LVM did not report remains one.
#[test]
fn a_group_is_unreported_only_if_lvm_was_asked_about_it() {
    let mut host = Host::new(&["sda"]);
    let mut observer = Observer::default();
    let empty = ReadResult::Text(r#"{"report": []}"#.into());
    let locked = ReadResult::Error("Can't get lock for vg0.".into());
    let mut refuses = |host: &Host, seconds, lvm: &ReadResult| {
        let texts = [
            (Part::Diskstats, ReadResult::Text(host.diskstats())),
            (Part::Sysfs, ReadResult::Text(host.names())),
            (Part::Dm, ReadResult::Text(host.device_mapper())),
            (Part::Lvm, lvm.clone()),
        ];
        let interval = observer.observe(&reading(seconds, texts.into()));
        let snap = interval.topology.volume("vg0/snap")?;
        let extensible = Extensible::new(snap, &interval.topology, PoolPart::Data);
        Some(extensible.refusal.is_some())
    };
    assert_eq!(refuses(&host, 0.0, &empty), None);
    let real = host.add_origin("data", &["sda"], 614_400);
    host.add_snapshot("snap", &real, &["sda"], 130_000, "snapshot 13000/130000 16");
    for (seconds, lvm, expected) in [
        (1.0, &locked, false),
        (2.0, &empty, true),
        (3.0, &locked, true),
    ] {
        assert_eq!(refuses(&host, seconds, lvm), Some(expected), "{seconds}");
    }
}

/// LVM refuses PVs with other logical blocks, and takes nothing from one that is smaller than an extent of 4 MiB.
#[test]
fn the_free_pv_that_is_named_is_the_largest_that_fits() {
    let host = Host::new(&["sda", "sdb", "sdc", "sdd"]);
    let blocks = |sda: u32, sdc: u32| {
        let of = |(name, size)| format!("{name}/queue/logical_block_size\t{size}\n");
        [("sda", sda), ("sdb", 512), ("sdc", sdc), ("sdd", 512)]
            .map(of)
            .concat()
    };
    let free = |name: &str, minor: u32, mib: u64| {
        format!(
            r#"{{"pv_name": "/dev/{name}", "pv_major": "8", "pv_minor": "{minor}", "pv_size": "{}"}}"#,
            mib << 20
        )
    };
    for (blocks, sdb_mib, expected) in [
        (blocks(512, 512), 100, Some("/dev/sdc")),
        (blocks(512, 4096), 100, Some("/dev/sdb")),
        (blocks(512, 4096), 4, Some("/dev/sdd")),
        (blocks(4096, 4096), 100, Some("/dev/sdc")),
        (blocks(2048, 4096), 100, None),
        (String::new(), 100, Some("/dev/sdc")),
    ] {
        let free = [
            free("sdb", 16, sdb_mib),
            free("sdc", 32, 900),
            free("sdd", 48, 50),
        ];
        let without_group = format!(r#"{{"report": [{{"pv": [{}]}}]}}"#, free.join(","));
        let texts = [
            (Part::Diskstats, host.diskstats()),
            (Part::Sysfs, host.names() + &blocks),
            (Part::Lvm, report(&[]) + &without_group),
        ];
        let texts = texts
            .into_iter()
            .map(|(part, text)| (part, ReadResult::Text(text)));
        let interval = Observer::default().observe(&reading(0.0, texts.collect()));
        let group = interval.topology.group("vg0").unwrap();
        assert_eq!(group.free_pv.as_deref(), expected, "{blocks}");
    }
}
