//! `/metrics`: what Prometheus reads of a tick, in both formats, and what it does not read because it is not known.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::access::{BEARER, with_token};
use crate::daemon::{Daemon, Start};
use crate::hostile::HOST;
use crate::http::{Answer, request, send};
use crate::machine::Machine;
use crate::{PATIENCE, wait_for};

const OPENMETRICS: &str =
    "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
const MOST_OF_DEVICE: usize = 40;
const MOST_OF_VOLUME: usize = 25;

/// A line with a value: its name, its labels and the value.
#[derive(Debug)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

pub fn scrape(daemon: &Daemon, headers: &[(&str, &str)]) -> Answer {
    send(
        daemon.port,
        request("GET", "/metrics", headers, "").as_bytes(),
    )
    .unwrap()
}

pub fn samples(text: &str) -> Vec<Sample> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(sample)
        .collect()
}

fn sample(line: &str) -> Sample {
    let (name, rest) = line.split_once('{').unwrap();
    let (labels, value) = rest.rsplit_once("} ").unwrap();
    let mut parsed = BTreeMap::new();
    let mut rest = labels;
    while let Some((key, quoted)) = rest.split_once("=\"") {
        let (value, length) = unescaped(quoted);
        assert_eq!(
            parsed.insert(key.trim_start_matches(',').into(), value),
            None,
            "{line}"
        );
        rest = &quoted[length..];
    }
    Sample {
        name: name.into(),
        labels: parsed,
        value: value.parse().unwrap(),
    }
}

/// A label's value up to its closing quote, and the bytes that it takes with it.
fn unescaped(quoted: &str) -> (String, usize) {
    let (mut value, mut letters) = (String::new(), quoted.char_indices());
    while let Some((index, letter)) = letters.next() {
        match letter {
            '"' => return (value, index + 1),
            '\\' => match letters.next().unwrap().1 {
                'n' => value.push('\n'),
                letter => value.push(letter),
            },
            letter => value.push(letter),
        }
    }
    panic!("no end of {quoted}");
}

/// The value of a metric whose labels include these.
pub fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let has = |sample: &Sample| {
        labels
            .iter()
            .all(|(key, value)| sample.labels.get(*key).is_some_and(|own| own == value))
    };
    let mut found = samples
        .iter()
        .filter(|sample| sample.name == name && has(sample));
    let value = found.next()?.value;
    assert!(found.next().is_none(), "several {name} with {labels:?}");
    Some(value)
}

/// The greatest number of samples with the same value of a label.
fn most_with(samples: &[Sample], prefix: &str, label: &str) -> usize {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in samples
        .iter()
        .filter(|sample| sample.name.starts_with(prefix) == (label == "device"))
    {
        if let Some(value) = sample.labels.get(label) {
            *counts.entry(value).or_default() += 1;
        }
    }
    counts.into_values().max().unwrap_or_default()
}

/// Plays the demo, and looks at each scrape until it has seen enough. A minute of the demo passes in less than half a
/// second, which a busy machine may miss: then it is played again.
fn watch_demo(mut look: impl FnMut(&[Sample]) -> bool) {
    for _ in 0..3 {
        let daemon = Start::with(&["demo", "--speed", "150"]).start();
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if look(&samples(&scrape(&daemon, &[HOST]).body)) {
                return;
            }
        }
    }
    panic!("the demo does not show it");
}

#[test]
fn a_backup_that_fails_is_followed_to_its_end() {
    const SNAPSHOT: [(&str, &str); 2] = [("kind", "snapshot"), ("origin", "data")];
    let origin = [("vg", "vg0"), ("lv", "data")];
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    watch_demo(|samples| {
        let device = most_with(samples, "cowbell_device_", "device");
        let volume = most_with(samples, "cowbell_device_", "uuid");
        assert!(
            device <= MOST_OF_DEVICE && volume <= MOST_OF_VOLUME,
            "{device} {volume}"
        );
        let of_snapshot = |name: &str| value(samples, name, &SNAPSHOT);
        let state = |state| {
            value(
                samples,
                "cowbell_volume_state",
                &[SNAPSHOT[0], ("cowbell_volume_state", state)],
            )
        };
        let fill = of_snapshot("cowbell_volume_fill_ratio");
        if let (Some(fill), Some(used), Some(size)) = (
            fill,
            of_snapshot("cowbell_volume_used_bytes"),
            of_snapshot("cowbell_volume_size_bytes"),
        ) {
            assert!((fill - used / size).abs() < 2e-4, "{fill} {used} {size}");
            seen.insert("fill");
        }
        let times = ["", "_soonest", "_latest"]
            .map(|bound| of_snapshot(&format!("cowbell_volume_until_full{bound}_seconds")));
        if let [Some(likely), Some(soonest), Some(latest)] = times {
            assert!(soonest <= likely && likely <= latest, "{times:?}");
            seen.insert("until full");
        }
        if value(samples, "cowbell_backup_until_done_seconds", &origin).is_some() {
            assert!(value(samples, "cowbell_backup_started_timestamp_seconds", &origin).is_some());
            seen.insert("until done");
        }
        if state("invalid") == Some(1.0) {
            assert_eq!(
                (fill, state("ok")),
                (None, Some(0.0)),
                "an invalid snapshot has no fill"
            );
            assert_eq!(times, [None; 3]);
            seen.insert("invalid");
        }
        let outcome = [
            origin[0],
            origin[1],
            ("cowbell_backup_last_outcome", "untrustworthy"),
        ];
        if value(samples, "cowbell_backup_last_outcome", &outcome) == Some(1.0) {
            assert_eq!(
                value(samples, "cowbell_backup_last_trustworthy", &origin),
                Some(0.0)
            );
            assert!(
                value(samples, "cowbell_backup_last_peak_fill_ratio", &origin)
                    .is_some_and(|peak| peak > 0.9)
            );
            assert!(
                value(samples, "cowbell_backup_last_duration_seconds", &origin)
                    .is_some_and(|took| took > 60.0)
            );
            let failed = [
                ("rule", "backup_failed"),
                ("severity", "critical"),
                ("volume", "vg0/data"),
            ];
            assert_eq!(value(samples, "cowbell_alert", &failed), Some(1.0));
            seen.insert("outcome");
        }
        seen.len() == 5
    });
}

#[test]
fn each_format_goes_to_those_who_want_it() {
    let daemon = Start::watching(&Machine::new()).start();
    let of_devices = |text: &str| {
        let samples = samples(text)
            .into_iter()
            .filter(|sample| sample.name.starts_with("cowbell_device_"));
        samples
            .map(|sample| (sample.name, sample.labels))
            .collect::<Vec<_>>()
    };
    // Samples of an interval come with the second tick, perhaps between the two.
    let (open, classic) = wait_for("the same samples of devices", || {
        let open = scrape(&daemon, &[HOST, ("Accept", OPENMETRICS)]);
        let classic = scrape(&daemon, &[HOST]);
        let found = of_devices(&open.body);
        (!found.is_empty() && found == of_devices(&classic.body)).then_some((open, classic))
    });
    for (answer, kind) in [
        (
            &open,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        (&classic, "text/plain; version=0.0.4; charset=utf-8"),
    ] {
        assert!(
            answer.status == 200 && answer.head.contains(kind),
            "{answer:?}"
        );
    }
    for (line, is_open) in [
        ("# TYPE cowbell_device_read_bytes counter\n", true),
        ("# UNIT cowbell_device_read_bytes bytes\n", true),
        ("# TYPE cowbell_volume_state stateset\n", true),
        ("# TYPE cowbell_host info\n", true),
        ("# TYPE cowbell_device_read_bytes_total counter\n", false),
        ("# TYPE cowbell_volume_state gauge\n", false),
        ("# TYPE cowbell_host_info gauge\n", false),
    ] {
        assert_eq!(
            (open.body.contains(line), classic.body.contains(line)),
            (is_open, !is_open),
            "{line}"
        );
    }
    assert!(open.body.ends_with("\n# EOF\n") && !classic.body.contains("EOF"));
}

#[test]
fn what_is_not_known_has_no_sample() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let read = |samples: &[Sample]| {
        value(
            samples,
            "cowbell_device_read_bytes_total",
            &[("device", "sda")],
        )
    };
    assert!(read(&samples(&scrape(&daemon, &[HOST]).body)).is_some());
    std::fs::write(machine.root().join("proc/diskstats"), "nonsense\n").unwrap();
    wait_for("counters that are gone", || {
        let samples = samples(&scrape(&daemon, &[HOST]).body);
        read(&samples).is_none().then_some(())?;
        let failed = value(&samples, "cowbell_part_failed", &[("part", "diskstats")]);
        (failed == Some(1.0)).then_some(())
    });
}

#[test]
fn prometheus_needs_the_token_from_elsewhere() {
    let (_folder, config) = with_token();
    let daemon = Start::watching(&Machine::new()).config(&config).start();
    let elsewhere = ("Host", "db1.example:2692");
    let status = |headers: &[(&str, &str)]| scrape(&daemon, headers).status;
    assert_eq!(status(&[HOST]), 200);
    assert_eq!(status(&[elsewhere]), 403);
    assert_eq!(status(&[elsewhere, BEARER]), 200);
    assert_eq!(status(&[elsewhere, ("Authorization", "Bearer wrong")]), 403);
}

#[test]
fn charts_lead_to_the_board_of_the_host_at_their_range() {
    let machine = Machine::new();
    let board = "https://grafana.example/d/cowbell-host?var-instance=db1:2692";
    let daemon = Start::watching(&machine)
        .config(&format!("grafana = \"{board}\"\n"))
        .start();
    let page = daemon
        .get("/devices/sda?from=2026-03-01T02:00:00Z&to=2026-03-01T03:00:00Z")
        .body;
    let link = format!(
        "{}&#38;from=1772330400000&#38;to=1772334000000",
        board.replace('&', "&#38;")
    );
    assert!(
        page.contains(&format!("<a href=\"{link}\">This range in Grafana</a>")),
        "{page}"
    );
}
