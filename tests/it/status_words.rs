//! Every word that a target of the device-mapper has for how it is, the lab's and the others: what a person sees.

use std::time::Duration;

use cowbell::source::{Part, PartReading, ReadResult};
use serde_json::Value;

use crate::daemon::{Daemon, Start};
use crate::host::Host;
use crate::machine::{PRESSURE, STAT, VMSTAT};
use crate::tape::Tape;

/// A line of the table.
struct Word {
    status: String,
    state: String,
    data: Option<f64>,
    metadata: Option<f64>,
    sync: Option<f64>,
    is_strange: bool,
}

fn words() -> Vec<Word> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/constructed-status-words"
    );
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(word)
        .collect()
}

fn word(line: &str) -> Word {
    let columns: Vec<&str> = line.split('\t').collect();
    let percent = |column: usize| match columns[column] {
        "-" => None,
        percent => Some(percent.parse().unwrap()),
    };
    assert!((5..=6).contains(&columns.len()), "{line:?}");
    Word {
        status: columns[0].into(),
        state: columns[1].into(),
        data: percent(2),
        metadata: percent(3),
        sync: percent(4),
        is_strange: columns.get(5) == Some(&"complaint"),
    }
}

/// A volume for each word, each with the layers that LVM gives to its kind.
fn host(words: &[&Word]) -> Host {
    let mut host = Host::new(&["sda"]);
    let real = host.add_origin("data", &["sda"], 614_400);
    let pool = host.add(
        "pool",
        "tpool",
        &["sda"],
        131_072,
        "thin-pool 1 112/1024 162/1024 - rw - -",
    );
    host.layer("pool", "tpool").table = Some("253:1 253:2 128 0 0".into());
    for (index, word) in words.iter().enumerate() {
        let (lv, sectors) = (name(index), 409_600);
        match word.status.split(' ').next().unwrap() {
            "snapshot" => host.add_snapshot(&lv, &real, &["sda"], 81_920, &word.status),
            "snapshot-merge" => add_merging(&mut host, &lv, &word.status),
            "thin-pool" => {
                host.add(&lv, "tpool", &["sda"], sectors, &word.status);
                host.layer(&lv, "tpool").table = Some("253:1 253:2 128 0 0".into());
            }
            "thin" => drop(host.add(&lv, "", &[&pool], sectors, &word.status)),
            "vdo" => drop(host.add(&lv, "vpool", &["sda"], sectors, &word.status)),
            _ => drop(host.add(&lv, "", &["sda"], sectors, &word.status)),
        }
    }
    host
}

/// While a snapshot is merged into its origin, what was its own device gives only errors.
fn add_merging(host: &mut Host, lv: &str, status: &str) {
    let merged = format!("{lv}merged");
    let real = host.add(lv, "real", &["sda"], 409_600, "linear ");
    let cow = host.add(&merged, "cow", &["sda"], 40_960, "linear ");
    host.add(lv, "", &[&real, &cow], 409_600, status);
    host.add(&merged, "", &[], 409_600, "error ");
}

fn name(index: usize) -> String {
    format!("word{index:03}")
}

/// Plays one tick of the host to the whole program.
fn play(host: &Host) -> Daemon {
    let text = |part, text: String| PartReading {
        part,
        result: ReadResult::Text(text),
        took_us: 10,
    };
    let mut tape = Tape::new(Duration::from_secs(1));
    tape.add(vec![
        text(Part::Diskstats, host.diskstats()),
        text(Part::Vmstat, VMSTAT.into()),
        text(Part::Stat, STAT.into()),
        text(Part::Pressure, PRESSURE.into()),
        text(Part::Dm, host.device_mapper()),
        text(Part::Sysfs, host.names()),
    ]);
    let daemon = Start::playing(&tape.saved(), "max").start();
    daemon.has_played(1);
    daemon
}

fn check(words: &[&Word], volumes: &Value) {
    let volumes = volumes.as_array().unwrap();
    let find = |lv: &str| {
        volumes
            .iter()
            .find(|volume| volume["lv"] == lv)
            .unwrap_or_else(|| panic!("no {lv}"))
    };
    for (index, word) in words.iter().enumerate() {
        let volume = find(&name(index));
        let percent = |key: &str| volume[key].as_f64();
        let seen = (
            percent("fill_percent"),
            percent("metadata_percent"),
            percent("sync_percent"),
        );
        let what = format!("{:?}: {volume}", word.status);
        assert_eq!(volume["state"], word.state.as_str(), "{what}");
        assert_eq!(seen, (word.data, word.metadata, word.sync), "{what}");
    }
    assert_eq!(
        volumes.len(),
        words.len() + 2,
        "nothing is shown that people have not made"
    );
    assert_eq!(
        (&find("data")["state"], &find("pool")["state"]),
        (&"ok".into(), &"ok".into())
    );
    assert_eq!(
        find("pool")["fill_percent"].as_f64(),
        Some(15.82),
        "words of one stop no other"
    );
}

#[test]
fn every_word_is_seen_as_what_it_means() {
    let words = words();
    let known: Vec<&Word> = words.iter().filter(|word| !word.is_strange).collect();
    let daemon = play(&host(&known));
    check(&known, &daemon.json("/api/v1/volumes"));
    assert_eq!(daemon.part("dm")["ok"], true, "{}", daemon.part("dm"));
}

#[test]
fn a_strange_word_is_quoted_and_nothing_is_made_of_it() {
    let words = words();
    let all: Vec<&Word> = words.iter().collect();
    let strange: Vec<&Word> = words.iter().filter(|word| word.is_strange).collect();
    let daemon = play(&host(&all));
    check(&all, &daemon.json("/api/v1/volumes"));
    let part = daemon.part("dm");
    assert_eq!(part["ok"], false);
    let error = part["error"].as_str().unwrap();
    assert!(
        error.starts_with(&format!("{} lines could not be parsed", strange.len())),
        "{error}"
    );
    assert!(error.contains(strange[0].status.trim()), "{error}");
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}
