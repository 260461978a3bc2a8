//! Recordings made by hand: an LVM host on which a snapshot lives as the test wishes.
//!
//! The texts are those that the program's own readers write; names and UUIDs are those of the lab's machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cowbell::source::recording::{Recorder, RecordingHeader};
use cowbell::source::{Part, PartReading, ReadResult, Reading};
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;

use crate::machine::{Done, PRESSURE, STAT, VMSTAT, line};

/// 2026-03-01T02:00:00Z
pub const BEGIN: Timestamp = Timestamp::constant(1_772_330_400, 0);

const VG: &str = "ItZNPisw1YqMR0M1uiKz8lnAXbZGUKiO";
const DATA: &str = "Awjex8GFrOcwLcVpnJPutSGr7JdKI9hT";
/// The device-mapper's UUID of `vg0/data`.
pub const DATA_DM_UUID: &str =
    "LVM-ItZNPisw1YqMR0M1uiKz8lnAXbZGUKiOAwjex8GFrOcwLcVpnJPutSGr7JdKI9hT";
const SNAPSHOT: &str = "YSAcT6J7pWWXJAvygnkLAzEHyRzaUS5D";
/// As `lvs` writes the snapshot's UUID.
pub const SNAPSHOT_UUID: &str = "YSAcT6-J7pW-WXJA-vygn-kLAz-EHyR-zaUS5D";

/// Sectors of the snapshot's COW area: a hundredth of a percent is a whole number of them.
const COW_SECTORS: u64 = 130_000;

/// How the snapshot `vg0/data_snapshot` of `vg0/data` is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Snapshot {
    Absent,
    /// In percent.
    Filled(f64),
    Invalid,
}

/// A recording in a file of its own, and the readings that are in it.
pub struct Tape {
    folder: TempDir,
    pub readings: Vec<Reading>,
    interval: Duration,
    names: String,
}

impl Tape {
    pub fn new(interval: Duration) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            readings: Vec::new(),
            interval,
            names: String::new(),
        }
    }

    /// A tick on a host whose snapshot goes through these states, one per tick.
    pub fn of(interval: Duration, course: &[Snapshot]) -> Self {
        let mut tape = Self::new(interval);
        for snapshot in course {
            tape.tick(*snapshot, Done::default(), Done::default());
        }
        tape.saved()
    }

    /// Adds a tick, at its due time: what the disk `sda` and the snapshot's device have done until now.
    pub fn tick(&mut self, snapshot: Snapshot, sda: Done, read: Done) -> &mut Reading {
        let mut texts = vec![
            said(Part::Diskstats, diskstats(snapshot, sda, read)),
            said(Part::Vmstat, VMSTAT),
            said(Part::Stat, STAT),
            said(Part::Pressure, PRESSURE),
            said(Part::Dm, device_mapper(snapshot)),
        ];
        let names = names(snapshot);
        if names != self.names || self.readings.len().is_multiple_of(60) {
            texts.push(said(Part::Lvm, report(snapshot, self.created())));
        }
        if names != self.names {
            texts.push(said(Part::Sysfs, names.clone()));
            self.names = names;
        }
        self.add(texts)
    }

    /// Adds a tick of a machine that has nothing but these lines of `/proc/diskstats`, and these names.
    pub fn bare_tick(&mut self, diskstats: &str, names: &str) -> &mut Reading {
        let mut texts = vec![said(Part::Diskstats, diskstats)];
        if names != self.names {
            texts.push(said(Part::Sysfs, names));
            self.names = names.into();
        }
        self.add(texts)
    }

    /// Adds a tick with these texts, at its due time.
    pub fn add(&mut self, texts: Vec<PartReading>) -> &mut Reading {
        let passed = self.interval * u32::try_from(self.readings.len()).unwrap();
        self.readings.push(Reading {
            at: self.due(),
            uptime_us: 1_000_000 + u64::try_from(passed.as_micros()).unwrap(),
            took_us: 200,
            texts,
            commands: Vec::new(),
            hooks: Vec::new(),
        });
        self.readings.last_mut().unwrap()
    }

    /// When a snapshot was made that is seen in the next reading for the first time: a minute before the first one.
    fn created(&self) -> Timestamp {
        match self.readings.len() {
            0 => BEGIN - SignedDuration::from_secs(60),
            _ => self.due(),
        }
    }

    fn due(&self) -> Timestamp {
        let passed = self.interval * u32::try_from(self.readings.len()).unwrap();
        BEGIN + SignedDuration::try_from(passed).unwrap()
    }

    /// Writes the file.
    pub fn saved(self) -> Self {
        let header = RecordingHeader {
            host: "lab".into(),
            started_at: BEGIN,
            ..RecordingHeader::of_this_machine(self.interval)
        };
        let file = std::fs::File::create(self.path()).unwrap();
        let mut recorder = Recorder::new(file, &header).unwrap();
        for reading in &self.readings {
            recorder.write(reading).unwrap();
        }
        recorder.finish().unwrap();
        self
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("recording.cowbell")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn said(part: Part, text: impl Into<String>) -> PartReading {
    PartReading {
        part,
        result: ReadResult::Text(text.into()),
        took_us: 10,
    }
}

/// Makes a part of the reading fail.
pub fn fails(reading: &mut Reading, part: Part) {
    for text in reading.texts.iter_mut().filter(|text| text.part == part) {
        text.result = ReadResult::Error("it was not there".into());
    }
}

fn diskstats(snapshot: Snapshot, sda: Done, read: Done) -> String {
    let mut text = line((8, 0), "sda", sda);
    let mut add = |minor, done| text.push_str(&line((253, minor), &format!("dm-{minor}"), done));
    add(0, Done::default());
    if snapshot != Snapshot::Absent {
        add(1, Done::default());
        add(2, Done::default());
        add(3, read);
    }
    text
}

fn device_mapper(snapshot: Snapshot) -> String {
    let mut text = String::new();
    let mut add = |minor: u32, name: &str, uuid: &str, status: &str| {
        text.push_str(&format!(
            "253:{minor}\tvg0-{name}\tLVM-{VG}{uuid}\tactive\n\tstatus 0 614400 {status}\n"
        ));
    };
    let status = match snapshot {
        Snapshot::Absent => {
            add(0, "data", DATA, "linear ");
            return text;
        }
        Snapshot::Invalid => "snapshot Invalid".to_string(),
        Snapshot::Filled(percent) => {
            let used = (percent * 100.0).round() as u64 * (COW_SECTORS / 10_000);
            format!("snapshot {}/{COW_SECTORS} 16", used.max(16))
        }
    };
    add(0, "data", DATA, "snapshot-origin ");
    add(1, "data-real", &format!("{DATA}-real"), "linear ");
    add(
        2,
        "data_snapshot-cow",
        &format!("{SNAPSHOT}-cow"),
        "linear ",
    );
    add(3, "data_snapshot", SNAPSHOT, &status);
    text
}

fn names(snapshot: Snapshot) -> String {
    let mut text = "sda/dev\t8:0\nsda/size\t4194304\nsda/serial\tS1\nsda/slaves\t\n".to_string();
    let mut add = |minor: u32, name: &str, uuid: &str, sectors: u64, slaves: &str| {
        text.push_str(&format!(
            "dm-{minor}/dev\t253:{minor}\ndm-{minor}/size\t{sectors}\ndm-{minor}/dm/name\tvg0-{name}\n\
             dm-{minor}/dm/uuid\tLVM-{VG}{uuid}\ndm-{minor}/slaves\t{slaves}\n"
        ));
    };
    if snapshot == Snapshot::Absent {
        add(0, "data", DATA, 614_400, "sda");
    } else {
        add(0, "data", DATA, 614_400, "dm-1");
        add(1, "data-real", &format!("{DATA}-real"), 614_400, "sda");
        add(
            2,
            "data_snapshot-cow",
            &format!("{SNAPSHOT}-cow"),
            COW_SECTORS,
            "sda",
        );
        add(3, "data_snapshot", SNAPSHOT, 614_400, "dm-1 dm-2");
    }
    text
}

/// LVM's report: 1 GiB is free in vg0.
fn report(snapshot: Snapshot, created: Timestamp) -> String {
    let data = r#"{"lv_name":"data","lv_uuid":"Awjex8-GFrO-cwLc-VpnJ-PutS-Gr7J-dKI9hT","lv_attr":"owi-a-s---","lv_size":"314572800","origin":"","pool_lv":"","lv_time":"1772000000"}"#;
    let volume = format!(
        r#",{{"lv_name":"data_snapshot","lv_uuid":"{SNAPSHOT_UUID}","lv_attr":"swi-a-s---","lv_size":"66560000","origin":"data","pool_lv":"","lv_time":"{}"}}"#,
        created.as_second()
    );
    let volume = if snapshot == Snapshot::Absent {
        ""
    } else {
        &volume
    };
    format!(
        r#"{{"report":[{{"vg":[{{"vg_name":"vg0","vg_uuid":"ItZNPi-sw1Y-qMR0-M1ui-Kz8l-nAXb-ZGUKiO","vg_size":"2139095040","vg_free":"1073741824","vg_extent_size":"4194304","vg_missing_pv_count":"0"}}],"pv":[{{"pv_name":"/dev/sda","pv_major":"8","pv_minor":"0","pv_size":"2139095040","pv_free":"1073741824"}}],"lv":[{data}{volume}],"seg":[]}}]}}"#
    )
}
