//! Captured machines of several kernels and versions of LVM: each is understood without a complaint, and its volumes
//! are those that `lvs` showed there.

use cowbell::interval::{HostColumn, Interval};
use cowbell::sample::{Sampler, lvm};
use cowbell::source::{Part, ReadResult};
use cowbell::topology::{State, Volume, VolumeKind, VolumeState};
use serde_json::Value;

use crate::captured::{Captured, Row};
use crate::daemon::Start;
use crate::observer::{Observer, complaint, reading};

#[test]
fn every_captured_machine_is_understood_without_a_complaint() {
    for machine in Captured::all() {
        let reading = &machine.reading;
        let mut observer = Observer::default();
        let interval = observer.observe(reading);
        for text in &reading.texts {
            assert_eq!(complaint(&observer, text.part), None, "{}", machine.name);
        }
        let lines = machine.file("diskstats").unwrap().lines().count();
        assert_eq!(
            interval.topology.devices.len(),
            lines,
            "{}: all devices",
            machine.name
        );
        assert!(
            interval.host[HostColumn::Blocked].is_some(),
            "{}",
            machine.name
        );
        let sample = Sampler::default().sample(reading);
        assert!(
            sample.paging.is_some() && sample.cpu.is_some(),
            "{}",
            machine.name
        );
        assert_eq!(
            sample.pressure_us.is_some(),
            machine.path("pressure-io").exists(),
            "{}",
            machine.name
        );
        assert_eq!(
            sample.slow.policies.is_some(),
            machine.path("lvmconfig.txt").exists(),
            "{}",
            machine.name
        );
        if let Some(mounts) = machine.file("mountinfo") {
            assert_eq!(
                sample.slow.mounts.unwrap().len(),
                mounts.lines().count(),
                "{}",
                machine.name
            );
        }
    }
}

#[test]
fn volumes_are_those_of_lvs_to_the_hundredth() {
    for machine in Captured::with_volumes() {
        let interval = Observer::default().observe(&machine.reading);
        check_rows(machine, &interval, &machine.rows(), |volume, row| {
            // What of a VDO volume is filled its kernel does not say, only what of its pool is.
            if volume.kind == VolumeKind::Vdo {
                None
            } else {
                row.data
            }
        });
    }
}

#[test]
fn volumes_are_those_of_lvs_without_lvms_report() {
    for machine in Captured::with_volumes() {
        let mut reading = machine.reading.clone();
        reading.texts.retain(|text| text.part != Part::Lvm);
        let interval = Observer::default().observe(&reading);
        let rows = machine.rows().into_iter().filter(|row| !is_inactive(row));
        let rows: Vec<Row> = rows
            .map(|row| Row {
                origin: known_to_the_kernel(&row),
                ..row
            })
            .collect();
        check_rows(machine, &interval, &rows, |volume, row| {
            if volume.kind == VolumeKind::Vdo {
                None
            } else {
                row.data
            }
        });
    }
}

#[test]
fn volumes_are_those_of_lvs_without_the_device_mapper() {
    for machine in Captured::with_volumes() {
        let mut reading = machine.reading.clone();
        for text in reading
            .texts
            .iter_mut()
            .filter(|text| text.part == Part::Dm)
        {
            text.result = ReadResult::Error("it does not answer".into());
        }
        let interval = Observer::default().observe(&reading);
        check_rows(machine, &interval, &machine.rows(), |_, row| row.data);
    }
}

/// Between thin volumes there is no link that the kernel knows.
fn known_to_the_kernel(row: &Row) -> Option<String> {
    row.origin
        .clone()
        .filter(|_| row.attributes.starts_with(['s', 'S']))
}

/// A VDO pool is never active by its letters, but its device is there.
fn is_inactive(row: &Row) -> bool {
    row.attributes.as_bytes()[4] == b'-' && !row.attributes.starts_with('d')
}

fn check_rows(
    machine: &Captured,
    interval: &Interval,
    rows: &[Row],
    data: impl Fn(&Volume, &Row) -> Option<f64>,
) {
    let names = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(
        names(
            interval
                .topology
                .volumes
                .iter()
                .map(Volume::full_name)
                .collect()
        ),
        names(
            rows.iter()
                .map(|row| format!("{}/{}", row.vg, row.lv))
                .collect()
        ),
        "{}",
        machine.name
    );
    for row in rows {
        let (volume, state) = interval
            .volumes()
            .find(|(volume, _)| *volume.uuid == *row.uuid)
            .unwrap();
        let known = |is: State| {
            if is == State::Invalid {
                None
            } else {
                data(volume, row)
            }
        };
        let what = format!("{} {row:?}", machine.name);
        assert_eq!(state.state, expected_state(row), "{what}");
        assert_eq!(
            percents(state),
            (known(state.state), row.metadata, row.sync),
            "{what}"
        );
        assert_eq!(
            (&volume.pool, &volume.origin),
            (&row.pool, &row.origin),
            "{what}"
        );
        assert!(
            kinds(row).contains(&volume.kind),
            "{what} is a {:?}",
            volume.kind
        );
    }
}

fn percents(state: &VolumeState) -> (Option<f64>, Option<f64>, Option<f64>) {
    let percent = |fill: Option<cowbell::units::Fill>| fill.map(|fill| fill.percent());
    (
        percent(state.fill),
        percent(state.metadata),
        percent(state.sync),
    )
}

fn expected_state(row: &Row) -> State {
    match row.attributes.as_bytes()[4] {
        _ if is_inactive(row) => State::Inactive,
        b'I' => State::Invalid,
        b'a' | b'-' => State::Ok,
        letter => panic!("no expectation for {:?} in {row:?}", char::from(letter)),
    }
}

fn kinds(row: &Row) -> &'static [VolumeKind] {
    match row.attributes.as_bytes()[0] {
        b's' => &[VolumeKind::Snapshot],
        b't' => &[VolumeKind::ThinPool],
        b'V' if row.origin.is_some() => &[VolumeKind::ThinSnapshot],
        b'V' => &[VolumeKind::Thin],
        b'r' => &[VolumeKind::Raid],
        b'd' => &[VolumeKind::VdoPool],
        b'v' => &[VolumeKind::Vdo],
        b'-' | b'o' => &[VolumeKind::Linear, VolumeKind::Striped],
        letter => panic!("no expectation for {:?} in {row:?}", char::from(letter)),
    }
}

#[test]
fn every_form_of_the_report_says_the_same() {
    let mut compared = 0;
    for machine in Captured::with_volumes() {
        let report = lvm::parse(&machine.file("fullreport.json").unwrap()).unwrap();
        for other in ["fullreport-std.json", "fullreport-log.json"] {
            let Some(text) = machine.file(other) else {
                continue;
            };
            assert_eq!(
                text.contains("\"log\": ["),
                other.contains("log"),
                "{} {other}",
                machine.name
            );
            match serde_json::from_str::<Value>(&text) {
                Ok(_) => check_same(
                    &lvm::parse(&text).unwrap(),
                    &report,
                    &format!("{} {other}", machine.name),
                ),
                // LVM before 2.03.17 ends a log of which rows were left out with a comma too many: that is no JSON.
                Err(_) => {
                    assert!(
                        lvm::parse(&text).unwrap_err().contains("trailing comma"),
                        "{}",
                        machine.name
                    )
                }
            }
            compared += 1;
        }
    }
    assert!(compared > 0);
}

/// Row by row, so that what differs can be seen.
fn check_same(report: &lvm::Report, expected: &lvm::Report, what: &str) {
    for (group, expected) in report.groups.iter().zip(&expected.groups) {
        for (volume, expected) in group.volumes.iter().zip(&expected.volumes) {
            assert_eq!(volume, expected, "{what}");
        }
        assert_eq!(group.pvs, expected.pvs, "{what}");
    }
    assert!(report == expected, "{what}");
}

#[test]
fn a_partial_report_names_the_missing_pvs_and_all_volumes_stay() {
    for machine in Captured::with_volumes() {
        let Some(text) = machine.file("partial-fullreport.json") else {
            continue;
        };
        let said = machine.file("partial-fullreport.txt").unwrap();
        let missing = said
            .lines()
            .filter(|line| line.contains("is missing PV"))
            .count();
        let report = lvm::parse(&text).unwrap();
        let group = report
            .groups
            .iter()
            .find(|group| group.missing_pvs > 0)
            .unwrap();
        assert!(
            missing > 0 && group.missing_pvs as usize == missing,
            "{}: {group:?}",
            machine.name
        );
        assert_eq!(
            group.pvs.iter().filter(|pv| pv.is_missing).count(),
            missing,
            "{}",
            machine.name
        );
        let lies_on_it = |volume: &&lvm::ReportedVolume| {
            volume
                .segments
                .iter()
                .flat_map(|segment| &segment.pv_extents)
                .any(|(pv, _)| pv == "[unknown]")
        };
        let on_it: Vec<&lvm::ReportedVolume> = group.volumes.iter().filter(lies_on_it).collect();
        assert!(!on_it.is_empty(), "{}", machine.name);
        assert!(
            on_it
                .iter()
                .all(|volume| volume.health.as_deref() == Some("partial")),
            "{on_it:?}"
        );

        let mut observer = Observer::default();
        let before = observer.observe(&machine.reading);
        let mut texts = machine.reading.texts.clone();
        texts.retain(|text| text.part == Part::Diskstats || text.part == Part::Dm);
        let mut texts: Vec<(Part, ReadResult)> = texts
            .into_iter()
            .map(|text| (text.part, text.result))
            .collect();
        texts.push((Part::Lvm, ReadResult::Text(text)));
        let after = observer.observe(&reading(1.0, texts));
        for ((volume, now), before) in after.volumes().zip(&before.volumes) {
            let fills = |state: &VolumeState| (state.fill, state.metadata, state.sync);
            assert_eq!(fills(now), fills(before), "{}", volume.full_name());
            if now.state == before.state {
                assert_eq!(volume.health, None, "{}", volume.full_name());
            } else {
                let lost = matches!(now.state, State::Partial | State::Degraded);
                assert!(lost, "{} is {:?}", volume.full_name(), now.state);
            }
        }
        let group = after.topology.group(&group.name).unwrap();
        assert_eq!(group.missing_pvs as usize, missing, "{}", machine.name);
        let health = |lv: &str| after.topology.volume(lv).unwrap().health.clone();
        assert_eq!(
            (health("vg0/striped").as_deref(), health("vg0/linear")),
            (Some("partial"), None)
        );
    }
}

#[test]
fn a_recording_of_the_machine_gives_the_volumes_of_lvs() {
    for machine in Captured::with_volumes() {
        let recording = machine.path("record.cowbell");
        if !recording.exists() {
            continue;
        }
        let daemon = Start::with(&[
            "serve",
            "--replay",
            recording.to_str().unwrap(),
            "--speed",
            "max",
        ])
        .start();
        crate::wait_for("the recording's end", || {
            daemon.log().contains("is at its end").then_some(())
        });
        daemon.has_played(daemon.taken() as usize);
        let volumes = daemon.json("/api/v1/volumes");
        let volumes = volumes.as_array().unwrap();
        assert_eq!(volumes.len(), machine.rows().len(), "{}", machine.name);
        for row in machine.rows() {
            let volume = volumes
                .iter()
                .find(|volume| volume["uuid"] == *row.uuid)
                .unwrap();
            let what = format!("{} {row:?} {volume}", machine.name);
            assert_eq!(
                (&volume["vg"], &volume["lv"]),
                (&row.vg.as_str().into(), &row.lv.as_str().into())
            );
            assert_eq!(
                volume["state"],
                serde_json::to_value(expected_state(&row)).unwrap(),
                "{what}"
            );
            assert_eq!(volume["metadata_percent"].as_f64(), row.metadata, "{what}");
            assert_eq!(volume["sync_percent"].as_f64(), row.sync, "{what}");
            assert_eq!(volume["origin"].as_str(), row.origin.as_deref(), "{what}");
            assert_eq!(volume["pool"].as_str(), row.pool.as_deref(), "{what}");
            let fills = daemon.series(&format!("volume:{}/{}", row.vg, row.lv), "fill_percent");
            let data = row.data.filter(|_| volume["state"] != "invalid");
            assert_eq!(
                fills.first().and_then(|fill| fill["avg"].as_f64()),
                data,
                "at first: {what}"
            );
            // What is written to while it is recorded fills, and nothing else.
            let later = after_it(machine, &row).or(data);
            let at_last = volume["fill_percent"].as_f64();
            assert!(
                data <= at_last && at_last <= later,
                "{data:?} {at_last:?} {later:?}: {what}"
            );
        }
        let complaints = complaints(&daemon.json("/api/v1/status"));
        assert!(
            complaints
                .iter()
                .all(|complaint| complaint.starts_with("pressure:")),
            "{complaints:?}"
        );
    }
}

/// LVM's word on the volume that filled, some time after the recording.
fn after_it(machine: &Captured, row: &Row) -> Option<f64> {
    let report = lvm::parse(&machine.file("partial-fullreport.json")?).unwrap();
    let volumes = report.groups.iter().flat_map(|group| &group.volumes);
    let volume = volumes.into_iter().find(|volume| volume.uuid == row.uuid)?;
    volume
        .data
        .filter(|_| row.attributes.as_bytes()[4] != b'I')
        .map(|fill| fill.percent())
}

fn complaints(status: &Value) -> Vec<String> {
    let parts = status["parts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|part| part["ok"] == false);
    parts
        .map(|part| format!("{}: {}", part["name"].as_str().unwrap(), part["error"]))
        .collect()
}
