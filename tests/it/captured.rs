//! Captured machines: what the readers would have read there, from the files of a folder in `tests/fixtures`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cowbell::source::files::Root;
use cowbell::source::{Part, ReadResult, Reading};
use tempfile::TempDir;

use crate::observer::reading;

pub struct Captured {
    pub name: String,
    folder: PathBuf,
    /// One reading of everything that was captured.
    pub reading: Reading,
}

/// Every folder of a machine, so that a new one needs no line here.
static ALL: LazyLock<Vec<Captured>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut all: Vec<Captured> = entries
        .filter(|path| path.join("diskstats").exists())
        .map(Captured::of)
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!all.is_empty());
    all
});

/// A row of the text that `lvs` printed there.
#[derive(Debug, Default)]
pub struct Row {
    pub lv: String,
    pub vg: String,
    pub attributes: String,
    pub uuid: String,
    pub pool: Option<String>,
    pub origin: Option<String>,
    pub data: Option<f64>,
    pub metadata: Option<f64>,
    pub sync: Option<f64>,
}

const COLUMNS: [&str; 15] = [
    "LV", "VG", "Attr", "LSize", "Pool", "Origin", "Data%", "Meta%", "Move", "Log", "Cpy%Sync",
    "Convert", "LV UUID", "Data%", "Meta%",
];

impl Captured {
    pub fn all() -> &'static [Self] {
        &ALL
    }

    /// Those with LVM.
    pub fn with_volumes() -> Vec<&'static Self> {
        let all: Vec<&Self> = ALL
            .iter()
            .filter(|machine| machine.path("lvs").exists())
            .collect();
        assert!(!all.is_empty());
        all
    }

    fn of(folder: PathBuf) -> Self {
        let name = folder.file_name().unwrap().to_str().unwrap().into();
        let mut machine = Self {
            name,
            folder,
            reading: reading(0.0, Vec::new()),
        };
        machine.reading = machine.read();
        machine
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    pub fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn needed(&self, name: &str) -> String {
        self.file(name)
            .unwrap_or_else(|| panic!("{} has no {name}", self.name))
    }

    fn read(&self) -> Reading {
        let files = [
            (Part::Diskstats, self.file("diskstats")),
            (Part::Vmstat, self.file("vmstat")),
            (Part::Stat, self.file("stat")),
            (Part::Pressure, self.file("pressure-io")),
            (Part::Sysfs, self.sysfs()),
            (Part::Mounts, self.file("mountinfo")),
            (
                Part::Dm,
                self.path("dmsetup-status")
                    .exists()
                    .then(|| self.device_mapper()),
            ),
            (Part::Lvm, self.file("fullreport.json")),
            (
                Part::LvmConfig,
                self.file("lvmconfig.txt")
                    .map(|text| text + "\ndmeventd=absent\n"),
            ),
        ];
        reading(
            0.0,
            files
                .into_iter()
                .filter_map(|(part, text)| Some((part, ReadResult::Text(text?))))
                .collect(),
        )
    }

    /// What the program's own reader makes of `/sys/block` as it was.
    fn sysfs(&self) -> Option<String> {
        let captured = self.file("sysfs")?;
        let root = TempDir::new().unwrap();
        for line in captured.lines() {
            let (path, value) = line.split_once('\t').unwrap_or_else(|| panic!("{line:?}"));
            let path = root
                .path()
                .join("sys/class/block")
                .join(path.strip_prefix("/sys/block/").unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value.trim_end().to_string() + "\n").unwrap();
        }
        Some(Root(root.path().into()).read_block_devices().unwrap())
    }

    /// The device-mapper's answer, put together from what `dmsetup` printed.
    pub fn device_mapper(&self) -> String {
        let lines_of = |word: &str, of: &str, keep: fn(&str) -> bool| -> String {
            let text = self.needed(&format!("dmsetup-{word}"));
            let lines = text.lines().filter_map(|line| line.split_once(": "));
            let lines = lines.filter(|(name, rest)| *name == of && keep(rest));
            lines
                .map(|(_, rest)| format!("\t{word} {rest}\n"))
                .collect()
        };
        let mut text = String::new();
        for line in self.needed("dmsetup-info").lines() {
            let [major, minor, name, uuid] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line:?}")
            };
            text += &format!("{major}:{minor}\t{name}\t{uuid}\tactive\n");
            text += &lines_of("status", name, |_| true);
            text += &lines_of("table", name, |rest| {
                rest.split(' ').nth(2) == Some("thin-pool")
            });
        }
        text
    }

    pub fn rows(&self) -> Vec<Row> {
        let text = self.needed("lvs");
        let mut lines = text.lines();
        let columns = columns(lines.next().unwrap());
        lines.map(|line| row(line, &columns)).collect()
    }
}

/// Where each column begins and ends.
fn columns(header: &str) -> Vec<(usize, usize)> {
    let mut starts = Vec::new();
    for name in COLUMNS {
        let from = starts.last().map_or(0, |start| start + 1);
        starts.push(
            from + header[from..]
                .find(name)
                .unwrap_or_else(|| panic!("no {name} in {header:?}")),
        );
    }
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    starts.iter().copied().zip(ends).collect()
}

fn row(line: &str, columns: &[(usize, usize)]) -> Row {
    let cell = |column: usize| -> Option<String> {
        let (start, end) = columns[column];
        let cell = line.get(start..end.min(line.len()))?.trim();
        (!cell.is_empty()).then(|| cell.to_string())
    };
    let number = |column: usize| cell(column).map(|cell| cell.parse().unwrap());
    let row = Row {
        lv: cell(0).unwrap(),
        vg: cell(1).unwrap(),
        attributes: cell(2).unwrap(),
        uuid: cell(12).unwrap(),
        pool: cell(4),
        origin: cell(5),
        data: number(6),
        metadata: number(7),
        sync: number(10),
    };
    assert_eq!(
        (row.data, row.metadata),
        (number(13), number(14)),
        "the columns are found: {line:?}"
    );
    row
}
