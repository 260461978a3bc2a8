//! Reads `/proc` and `/sys` below a root that can be moved, so that a captured machine can be read like this one.
//!
//! What is read is not understood here; only names are compared, to know when the devices have changed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes that are read at once: the diskstats of a hundred devices.
const FIRST_BUFFER: usize = 16 * 1024;

/// Attributes that are the same for all block devices, where they have them.
const ATTRIBUTES: [&str; 15] = [
    "dev",
    "size",
    "partition",
    "dm/name",
    "dm/uuid",
    "md/uuid",
    "wwid",
    "serial",
    "device/wwid",
    "device/serial",
    "device/model",
    "hidden",
    "queue/rotational",
    "queue/scheduler",
    "queue/read_ahead_kb",
];

/// The root below which `/proc` and `/sys` are found.
#[derive(Clone, Debug)]
pub struct Root(pub PathBuf);

impl Root {
    /// A file that is read at every tick.
    pub fn keep(&self, path: &str) -> KeptFile {
        KeptFile { path: self.0.join(path), file: None }
    }

    /// A number that changes when a device comes, goes, or is made anew under the same name.
    ///
    /// A device's folder in sysfs has a new inode each time that it is made; looking that up costs two microseconds.
    pub fn devices_fingerprint(&self, diskstats: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        for name in diskstats.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)) {
            name.hash(&mut hasher);
            if !name.contains('/') {
                let folder = self.0.join("sys/class/block").join(name);
                fs::metadata(folder).map(|folder| folder.ino()).unwrap_or_default().hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// The kernel's name of the block device that the file system of `path` is on; `None` where it is on none.
    pub fn device_below(&self, path: &Path) -> Result<Option<String>, String> {
        let folder = path.ancestors().skip(1).find(|folder| folder.exists()).unwrap_or(Path::new("."));
        let device = fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let link = fs::read_link(self.0.join(format!("sys/dev/block/{major}:{minor}"))).ok();
        Ok(link.and_then(|link| Some(link.file_name()?.to_str()?.to_string())))
    }

    /// Attributes of all block devices, one `name/attribute<TAB>value` a line, in the order of the names.
    pub fn read_block_devices(&self) -> Result<String, String> {
        let folder = self.0.join("sys/class/block");
        let entries =
            fs::read_dir(&folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        let mut text = String::new();
        for name in names {
            describe(&folder.join(&name), &name, &mut text);
        }
        Ok(text)
    }
}

/// A file that stays open, so that it can be read when no other can be opened.
pub struct KeptFile {
    path: PathBuf,
    file: Option<File>,
}

impl KeptFile {
    /// The file's text as it is now, or a sentence.
    pub fn read(&mut self) -> Result<String, String> {
        let read = self.read_from_start();
        if read.is_err() {
            self.file = None;
        }
        read.map_err(|error| format!("cannot read {}: {error}", self.path.display()))
    }

    fn read_from_start(&mut self) -> std::io::Result<String> {
        // Below a root that was moved a file may have been replaced; those of the kernel never are.
        let is_there = |file: &File| file.metadata().is_ok_and(|file| file.nlink() > 0);
        let file = match &mut self.file {
            Some(file) if is_there(file) => file,
            gone => gone.insert(File::open(&self.path)?),
        };
        let (mut bytes, mut length) = (vec![0; FIRST_BUFFER], 0);
        loop {
            match file.read_at(&mut bytes[length..], length as u64)? {
                0 => break,
                more => length += more,
            }
            if length == bytes.len() {
                bytes.resize(2 * length, 0);
            }
        }
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The mounts that this process sees: the host's too, since those propagate into a service's own namespace.
pub struct Mounts {
    file: KeptFile,
}

impl Mounts {
    pub fn below(root: &Root) -> Self {
        Self { file: root.keep("proc/self/mountinfo") }
    }

    /// The mounts of block devices as `mountinfo` has them; `None` while nothing was mounted or unmounted since.
    pub fn read_if_changed(&mut self) -> Option<Result<String, String>> {
        if self.file.file.as_ref().is_some_and(|file| !has_changed(file)) {
            return None;
        }
        // Everything else, of which a host of containers has thousands, is on devices of number 0.
        let of_a_disk = |line: &&str| line.split(' ').nth(2).is_some_and(|number| !number.starts_with("0:"));
        let kept = |text: String| text.lines().filter(of_a_disk).map(|line| format!("{line}\n")).collect();
        Some(self.file.read().map(kept))
    }
}

/// The kernel tells with `POLLPRI` that a table of mounts is another one than when it was last asked.
fn has_changed(file: &File) -> bool {
    let mut asked = [PollFd::new(file, PollFlags::PRI)];
    match poll(&mut asked, Some(&Timespec::default())) {
        Ok(_) => asked[0].revents().intersects(PollFlags::PRI | PollFlags::ERR),
        Err(_) => true,
    }
}

/// A folder's name in a table of mounts: the kernel writes blank, tab, line feed and backslash as three octal digits behind a backslash.
pub fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let letter = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match letter.filter(u8::is_ascii) {
            Some(letter) => plain.extend([char::from(letter).to_string().as_str(), &part[3..]]),
            None => plain.extend(["\\", part]),
        }
    }
    plain
}

fn describe(folder: &Path, name: &str, text: &mut String) {
    for attribute in ATTRIBUTES {
        if let Ok(value) = fs::read_to_string(folder.join(attribute)) {
            let value = value.trim().replace(|c: char| c.is_control(), " ");
            let _ = writeln!(text, "{name}/{attribute}\t{value}");
        }
    }
    if let Ok(folder) = fs::metadata(folder) {
        let _ = writeln!(text, "{name}/inode\t{}", folder.ino());
    }
    if let Some(parent) = parent_of(folder) {
        let _ = writeln!(text, "{name}/parent\t{parent}");
    }
    let mut slaves: Vec<String> = fs::read_dir(folder.join("slaves"))
        .map(|entries| entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
        .unwrap_or_default();
    slaves.sort();
    let _ = writeln!(text, "{name}/slaves\t{}", slaves.join(" "));
}

/// The disk that a partition is on: the folder around its own.
fn parent_of(folder: &Path) -> Option<String> {
    if !folder.join("partition").exists() {
        return None;
    }
    let real = fs::canonicalize(folder).ok()?;
    Some(real.parent()?.file_name()?.to_str()?.to_string())
}
