//! What many snapshots cost: four times as many volumes take about four times as long, not sixteen times.

use std::time::{Duration, Instant};

use cowbell::source::{Part, PartReading, ReadResult};

use crate::daemon::Start;
use crate::host::Host;
use crate::tape::Tape;

/// The shortest of some answers to this request on a host with so many snapshots, half of them of one origin.
fn answer_time(snapshots: usize, path: &str) -> Duration {
    let mut host = Host::new(&["sda"]);
    let mut real = host.add_origin("data", &["sda"], 1 << 20);
    for number in 0..snapshots {
        if number >= snapshots / 2 {
            real = host.add_origin(&format!("data{number}"), &["sda"], 1 << 20);
        }
        let lv = format!("data{number}_snapshot");
        host.add_snapshot(&lv, &real, &["sda"], 8192, "snapshot 16/8192 16");
    }
    let mut tape = Tape::new(Duration::from_secs(1));
    for _ in 0..2 {
        let texts = [
            (Part::Diskstats, host.diskstats()),
            (Part::Sysfs, host.names()),
            (Part::Dm, host.device_mapper()),
        ];
        tape.add(Vec::from(texts.map(|(part, text)| PartReading {
            part,
            result: ReadResult::Text(text),
            took_us: 10,
        })));
    }
    let daemon = Start::playing(&tape.saved(), "max").start();
    daemon.has_played(2);
    let times = (0..5).map(|_| {
        let began = Instant::now();
        assert_eq!(daemon.get(path).status, 200);
        began.elapsed()
    });
    times.min().unwrap()
}

#[test]
fn the_list_of_volumes_takes_as_long_as_it_is() {
    let path = "/api/v1/volumes";
    let (few, many) = (answer_time(150, path), answer_time(600, path));
    assert!(many < few * 9, "150: {few:?}, 600: {many:?}");
}
