//! Status lines of the kernel and their meaning.

use super::*;

fn only(status: &str) -> Option<Status> {
    let found = parse(&format!(
        "253:0\tvg0-x\tLVM-x\tactive\n\tstatus 0 409600 {status}\n"
    ));
    found.devices[0]
        .targets
        .first()
        .map(|target| target.status.clone())
}

fn percent(status: &str) -> Option<f64> {
    match only(status)? {
        Status::Snapshot(CowArea::Filled(fill)) | Status::SnapshotMerge(CowArea::Filled(fill)) => {
            Some(fill.percent())
        }
        Status::Filled { data, .. } => data.map(Fill::percent),
        _ => None,
    }
}

#[test]
fn fills_match_lvs() {
    for (status, lvs) in [
        ("snapshot 16/81920 16", Some(0.0)),
        ("snapshot 24/81920 16", Some(0.03)),
        ("snapshot 8248/81920 48", Some(10.07)),
        ("snapshot 30856/40960 136", Some(75.33)),
        ("snapshot 8248/81920", Some(10.07)),
        ("snapshot-merge 16/40960 16", Some(0.0)),
        ("snapshot Invalid", None),
        ("snapshot Merge failed", None),
        (
            "cache 8 27/2048 128 10/100 0 0 0 0 0 0 0 1 writethrough 2 migration_threshold 2048 smq 0 rw -",
            Some(10.0),
        ),
        ("writecache 0 1000 250 0", Some(75.0)),
    ] {
        assert_eq!(percent(status), lvs, "{status}");
    }
}

#[test]
fn an_overflowed_snapshot_is_invalid() {
    for word in ["Invalid", "Overflow"] {
        assert_eq!(
            only(&format!("snapshot {word}")),
            Some(Status::Snapshot(CowArea::Invalid))
        );
    }
}

#[test]
fn a_pool_counts_data_in_chunks_and_metadata_in_blocks() {
    let text = "253:0\tp-tpool\tLVM-x-tpool\tactive\n\
        \tstatus 0 131072 thin-pool 1 112/1024 162/1024 - rw no_discard_passdown queue_if_no_space - 256 \n\
        \ttable 0 131072 thin-pool 253:1 253:2 128 0 0 \n";
    let Status::ThinPool(Pool::Working {
        data,
        metadata,
        mode,
        needs_check,
    }) = parse(text).devices[0].targets[0].status
    else {
        panic!("expected a working pool")
    };
    assert_eq!(
        (data.percent(), data.used_bytes()),
        (15.82, 162 * 64 * 1024)
    );
    assert_eq!(
        (metadata.percent(), metadata.total_bytes()),
        (10.94, 4 << 20)
    );
    assert_eq!((mode, needs_check), (PoolMode::ReadWrite, false));
}

#[test]
fn pool_flags_may_come_in_any_order() {
    let mode = |status: &str| match only(status) {
        Some(Status::ThinPool(Pool::Working {
            mode, needs_check, ..
        })) => Some((mode, needs_check)),
        _ => None,
    };
    assert_eq!(
        mode(
            "thin-pool 3 117/1024 1024/1024 - out_of_data_space no_discard_passdown error_if_no_space - 256"
        ),
        Some((PoolMode::OutOfDataSpace, false))
    );
    assert_eq!(
        mode("thin-pool 3 117/1024 4/1024 17 ro discard_passdown queue_if_no_space needs_check"),
        Some((PoolMode::ReadOnly, true))
    );
    assert_eq!(only("thin-pool Fail"), Some(Status::ThinPool(Pool::Failed)));
}

#[test]
fn an_unknown_word_is_quoted_and_affects_no_other_line() {
    let found = parse(
        "253:0\ta\tLVM-a\tactive\n\tstatus 0 8 snapshot Melted\n253:1\tb\tLVM-b\tsuspended\n\tstatus 0 8 linear \n",
    );
    assert_eq!(found.unparsed, ["status 0 8 snapshot Melted"]);
    assert_eq!(
        found.devices[0].targets[0].status,
        Status::Unparsed("snapshot".into())
    );
    assert!(found.devices[1].is_suspended);
    assert_eq!(found.devices[1].kind(), Some("linear"));
}

#[test]
fn sync_of_raids_and_mirrors_matches_lvs() {
    let sync = |status: &str| match only(status) {
        Some(Status::InSync { sync, health, .. }) => Some((sync.percent(), health)),
        _ => None,
    };
    for (status, expected) in [
        (
            "raid raid1 2 AA 65536/65536 idle 0 0 -",
            Some((100.0, Health::Working)),
        ),
        (
            "raid raid1 2 AA 65536/65536 idle 256 0 -",
            Some((100.0, Health::Mismatches)),
        ),
        (
            "raid raid1 2 aa 16384/65536 resync 0 0 -",
            Some((25.0, Health::Working)),
        ),
        (
            "raid raid1 2 Aa 65536/65536 recover 0 0 -",
            Some((99.99, Health::Rebuilding)),
        ),
        (
            "raid raid1 2 AD 65536/65536 idle 0",
            Some((100.0, Health::Degraded)),
        ),
        ("raid raid5_ls 3 ADD 100/400", Some((25.0, Health::Failed))),
        ("raid raid0 2 AD 400/400", Some((100.0, Health::Failed))),
        (
            "raid raid10 4 A-AA 400/400",
            Some((100.0, Health::Degraded)),
        ),
        ("raid raid5_ls 3 AAA 100/400", Some((25.0, Health::Working))),
        (
            "mirror 2 253:1 253:2 64/128 1 AA 3 disk 253:0 A",
            Some((50.0, Health::Working)),
        ),
        (
            "mirror 2 253:1 253:2 128/128 1 AD 1 core",
            Some((100.0, Health::Degraded)),
        ),
        ("mirror 99999999999999999999 1", None),
    ] {
        assert_eq!(sync(status), expected, "{status}");
    }
}

#[test]
fn devices_missing_from_a_partial_update_lose_their_status() {
    let first = parse(
        "253:0\tp-tpool\tLVM-p-tpool\tactive\n\tstatus 0 64 thin-pool 1 1/1024 100/1024 - rw - -\n\
         \ttable 0 64 thin-pool 253:1 253:2 128 0 0\n253:4\tlinear\tLVM-l\tactive\n\tstatus 0 8 linear \n",
    );
    let again = parse(
        "again\n253:0\tp-tpool\tLVM-p-tpool\tsuspended\n\tstatus 0 64 thin-pool 1 1/1024 200/1024 - rw - -\n",
    );
    assert!(again.is_partial && again.unparsed.is_empty());
    let now = again.updating(first.devices.clone());
    assert_eq!(now[1], first.devices[1]);
    let Status::ThinPool(Pool::Working { data, .. }) = now[0].targets[0].status else {
        panic!("a pool")
    };
    assert_eq!(
        (data.used_bytes(), now[0].is_suspended),
        (200 * 64 * 1024, true)
    );

    let none = parse("again\n253:0 could not be asked: no memory\n");
    assert_eq!(none.unparsed.len(), 1);
    assert_eq!(
        none.updating(first.devices)[0].targets[0].status,
        Status::Unparsed("thin-pool".into())
    );
}

proptest::proptest! {
    #[test]
    fn any_text_parses_without_panic(text in "(\\PC|\t|\n)*") {
        parse(&text);
    }

    #[test]
    fn any_status_parses_without_panic(kind in "snapshot|thin-pool|thin|cache|vdo|writecache|raid|mirror", rest in "[0-9/ a-zA-Z-]*") {
        only(&format!("{kind} {rest}"));
    }
}
