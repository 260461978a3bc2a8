//! What breaks a constraint is left out, and nothing else with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::config;
use crate::job::{Job, JobKind, Outcome};
use crate::store::address::{Kind, Level, Position, Stream};
use crate::store::catalog::{CatalogRows, DeviceRow, VolumeRow, catalog_rows, write_rows};
use crate::store::database::for_writing;
use crate::store::record::{Encoder, Rows as StreamRows};
use crate::store::stored::write_tick;
use crate::store::{TickOrigin, WriteOp, inventory, open};

fn job(id: i64) -> Job {
    let mut job = Job::new(
        id,
        JobKind::Command,
        &format!("key{id}"),
        "dd",
        Timestamp::UNIX_EPOCH,
    );
    (job.ended_at, job.outcome) = (Some(Timestamp::UNIX_EPOCH), Some(Outcome::Succeeded));
    job
}

#[tokio::test]
async fn a_job_that_breaks_a_constraint_is_left_out_and_those_around_it_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cowbell.db");
    let (mut inlet, reader) = open(&path, TickOrigin::ThisMachine, config::Store::default())
        .await
        .unwrap();
    let bad = |id| Job {
        started_at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1),
        ..job(id)
    };
    inlet.append(WriteOp::Job(Box::new(job(1)))).await;
    inlet.append(WriteOp::Job(Box::new(bad(2)))).await;
    inlet
        .append(WriteOp::Import(Box::new(bad(3)), Arc::from(&b"file"[..])))
        .await;
    inlet.append(WriteOp::Job(Box::new(job(4)))).await;
    let began = Instant::now();
    while inlet.health().0.written < 2 && began.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (health, lost) = inlet.health();
    assert_eq!((health.written, lost, health.error), (2, 2, None));
    for (key, is_kept) in [
        ("key1", true),
        ("key2", false),
        ("key3", false),
        ("key4", true),
    ] {
        assert_eq!(
            reader.job_of(key).await.unwrap().is_some(),
            is_kept,
            "{key}"
        );
    }
    inlet.close().await;
}

fn device(id: u32, identity: &str) -> DeviceRow {
    let (name, label, kind) = (format!("sd{id}"), format!("sd{id}"), "disk".to_string());
    DeviceRow {
        id,
        identity: identity.into(),
        name,
        label,
        kind,
        counts: true,
        last_seen_ms: 0,
    }
}

fn volume(id: u32, uuid: &str) -> VolumeRow {
    let (vg, lv) = ("vg0".to_string(), format!("lv{id}"));
    VolumeRow {
        id,
        uuid: uuid.into(),
        vg,
        lv,
        device_identity: None,
        last_seen_ms: 0,
    }
}

#[tokio::test]
async fn of_devices_and_volumes_that_come_together_only_those_that_break_a_constraint_are_left_out()
{
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cowbell.db");
    let (mut inlet, _) = open(&path, TickOrigin::ThisMachine, config::Store::default())
        .await
        .unwrap();
    // Twice the same, which a machine is not to say, and one without a name of its own.
    let devices = vec![device(1, "a"), device(2, "a"), device(3, "c")];
    let volumes = vec![volume(1, ""), volume(2, "b")];
    inlet
        .append(WriteOp::Catalog(CatalogRows { devices, volumes }))
        .await;
    // It is not committed with the next ticks, but at once.
    inlet.append(WriteOp::Job(Box::new(job(1)))).await;
    let began = Instant::now();
    while inlet.health().1 < 2 && began.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((inlet.health().1, inlet.health().0.error), (2, None));
    inlet.close().await;
    let mut connection = for_writing(&path, TickOrigin::ThisMachine, false)
        .await
        .unwrap()
        .connection;
    let kept = catalog_rows(&mut connection).await.unwrap();
    assert_eq!(kept.devices, [device(1, "a"), device(3, "c")]);
    assert_eq!(kept.volumes, [volume(2, "b")]);
}

#[tokio::test]
async fn ticks_of_a_device_that_was_refused_are_named_by_whoever_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cowbell.db");
    let mut connection = for_writing(&path, TickOrigin::ThisMachine, false)
        .await
        .unwrap()
        .connection;
    let rows = CatalogRows {
        devices: vec![device(1, "a")],
        volumes: vec![],
    };
    write_rows(&mut connection, &rows).await.unwrap();
    let rows = StreamRows::collect(Level::Ticks, |push| {
        for row in 0..3 {
            let stream = Stream::new(Kind::Device, row);
            push(stream, &vec![Some(1); stream.kind.columns()]);
        }
    });
    let position = Position::default();
    let record = Encoder::new(Level::Ticks).encode(position, 1_000_000, &rows);
    write_tick(&mut connection, position, &record)
        .await
        .unwrap();
    drop(connection);
    let found = inventory(&path).await.unwrap().damage;
    assert_eq!(found, ["there are ticks of device 2, whose row is missing"]);
}
