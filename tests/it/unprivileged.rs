//! Without root: throughput is shown, usage is unknown, and every place says what is needed.

use std::time::Duration;

use cowbell::source::{Part, PartReading, ReadResult};
use serde_json::Value;

use crate::cow::Model;
use crate::daemon::{Daemon, Start, cowbell, said};
use crate::tape::Tape;

const ROOT_NEEDED: &str =
    "Only root can read snapshot and pool usage: run cowbell as root, or install the service.";

/// A snapshot that is made and filled while the device-mapper refuses to answer.
fn refused() -> (Daemon, String) {
    let mut model = Model::new(true);
    let mut tape = Tape::new(Duration::from_secs(1));
    let mut look = |model: &Model| {
        let texts = [
            (Part::Diskstats, ReadResult::Text(model.host.diskstats())),
            (Part::Sysfs, ReadResult::Text(model.host.names())),
            (Part::Dm, ReadResult::NotRoot),
        ];
        tape.add(
            texts
                .map(|(part, result)| PartReading {
                    part,
                    result,
                    took_us: 10,
                })
                .into(),
        );
    };
    look(&model);
    let snapshot = model.create(8);
    look(&model);
    model.write(0, 16_000, 4);
    look(&model);
    let daemon = Start::playing(&tape.saved(), "max").start();
    daemon.has_played(3);
    (daemon, snapshot)
}

#[test]
fn without_root_throughput_is_shown_and_usage_is_unknown() {
    let (daemon, snapshot) = refused();
    let volumes = daemon.json("/api/v1/volumes");
    let volume = volumes
        .as_array()
        .unwrap()
        .iter()
        .find(|volume| volume["lv"] == *snapshot)
        .unwrap();
    assert_eq!(volume["state"], "unknown", "{volume}");
    for key in ["fill_percent", "used_bytes", "metadata_percent"] {
        assert_eq!(volume[key], Value::Null, "{key}: {volume}");
    }
    let devices = daemon.json("/api/v1/devices");
    let written = |device: &&Value| {
        device["written_bytes_per_s"]
            .as_f64()
            .is_some_and(|rate| rate > 0.0)
    };
    assert!(
        devices
            .as_array()
            .unwrap()
            .iter()
            .any(|device| written(&device)),
        "{devices}"
    );
}

#[test]
fn pages_status_and_api_say_that_root_is_needed() {
    let (daemon, snapshot) = refused();
    let volumes = daemon.json("/api/v1/volumes");
    let vg = volumes[0]["vg"].as_str().unwrap();
    for page in ["/", "/status", &format!("/volumes/{vg}/{snapshot}")] {
        let text = daemon.get(page).body;
        assert!(text.contains(ROOT_NEEDED), "{page}: {text}");
    }
    let status = daemon.json("/api/v1/status");
    assert!(
        status["notes"]
            .as_array()
            .unwrap()
            .contains(&ROOT_NEEDED.into()),
        "{status}"
    );
    let printed =
        said(cowbell().args(["status", "--listen", &format!("127.0.0.1:{}", daemon.port)]));
    assert_eq!(printed.code, Some(3), "{printed:?}");
    assert!(
        printed.out.starts_with(&format!(
            "COWBELL UNKNOWN - Not everything can be seen. {ROOT_NEEDED}"
        )),
        "{}",
        printed.out
    );
}
