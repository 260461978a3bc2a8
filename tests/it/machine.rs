//! A machine in a folder: `proc` and `sys` as the program reads them, to be changed while it looks.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// What a disk has done: requests and sectors, read and written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub reads: u64,
    pub sectors_read: u64,
    pub writes: u64,
    pub sectors_written: u64,
}

impl Done {
    /// Reads and writes of 8 sectors each.
    pub fn sectors(sectors_read: u64, sectors_written: u64) -> Self {
        Self {
            reads: sectors_read / 8,
            sectors_read,
            writes: sectors_written / 8,
            sectors_written,
        }
    }
}

/// A line of `/proc/diskstats`, of a disk so fast that nothing takes a millisecond.
pub fn line(number: (u32, u32), name: &str, done: Done) -> String {
    let Done {
        reads,
        sectors_read,
        writes,
        sectors_written,
    } = done;
    let (major, minor) = number;
    format!(
        "{major:4} {minor:7} {name} {reads} 0 {sectors_read} 0 {writes} 0 {sectors_written} 0 0 0 0\n"
    )
}

pub const VMSTAT: &str = "nr_free_pages 1000\npgpgin 2000\npgpgout 3000\npswpin 0\n";
pub const STAT: &str = "cpu  100 0 50 1000 10 0 5 0 0 0\ncpu0 100 0 50 1000 10 0 5 0 0 0\nintr 0\nctxt 1\n\
    btime 1700000000\nprocesses 1\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n";
pub const PRESSURE: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n\
    full avg10=0.00 avg60=0.00 avg300=0.00 total=500\n";

pub struct Machine {
    folder: TempDir,
}

impl Machine {
    /// A machine with the disks `sda` and `sdb` that has just been started.
    pub fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        machine.write("proc/vmstat", VMSTAT);
        machine.write("proc/stat", STAT);
        machine.write("proc/pressure/io", PRESSURE);
        machine.has_disk("sda", "8:0");
        machine.has_disk("sdb", "8:16");
        machine.write(
            "proc/diskstats",
            &(line((8, 0), "sda", Done::sectors(800, 1600))
                + &line((8, 16), "sdb", Done::sectors(80, 160))),
        );
        machine
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces a file at once, so that nobody reads half of it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    pub fn has_disk(&self, name: &str, number: &str) {
        for (attribute, value) in [
            ("dev", number),
            ("size", "4194304"),
            ("queue/rotational", "0"),
        ] {
            self.write(&format!("sys/class/block/{name}/{attribute}"), value);
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }
}
