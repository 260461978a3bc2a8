//! What mylvmbackup would find on this machine, below a movable root: configuration, directories, programs. A disk may
//! hang, so a separate thread reads each directory, and is abandoned after a time limit.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::files::Root;
use super::schedule;
use super::slow::{NoAnswer, SlowThread};
use super::{Part, PartReading, ReadResult};
use crate::mylvmbackup::NextSnapshot;

/// mylvmbackup's default configuration file.
pub const CONFIGURATION: &str = "/etc/mylvmbackup.conf";
/// The program's name.
pub const PROGRAM: &str = "mylvmbackup";
/// Size limit of the configuration file, which usually has 4 KiB.
const MAX_CONFIGURATION: u64 = 256 * 1024;
/// The time between two readings of the plan.
const PLAN_PERIOD: Duration = Duration::from_secs(60);
/// Time limit for reading a directory.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// Limit of files to read per directory.
const MAX_FILES: usize = 10_000;
/// Root's PATH.
const PATH: [&str; 6] = [
    "usr/local/sbin",
    "usr/local/bin",
    "usr/sbin",
    "usr/bin",
    "sbin",
    "bin",
];

/// The configuration's text; `None` if the file does not exist.
pub fn configuration(root: &Root) -> Result<Option<String>, String> {
    let file = match fs::File::open(below(root, CONFIGURATION)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut bytes = Vec::new();
    file.take(MAX_CONFIGURATION + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_CONFIGURATION {
        return Err(format!(
            "it is longer than {} KiB",
            MAX_CONFIGURATION / 1024
        ));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The next snapshot as a configuration file with nothing else, since the file also holds a password; empty if there is none.
pub fn next_snapshot(root: &Root) -> Result<String, String> {
    let text = configuration(root).map_err(|why| format!("cannot read {CONFIGURATION}: {why}"))?;
    Ok(text
        .and_then(|text| NextSnapshot::parse(&text))
        .map(|next| next.to_string())
        .unwrap_or_default())
}

/// What only root can read of the next backups: the snapshot that mylvmbackup makes, and when programs start.
///
/// A thread reads the files once a minute, since the disk below them may hang.
pub struct PlanQuery {
    part: Part,
    thread: SlowThread<(), Result<String, String>>,
    last: Option<ReadResult>,
}

impl PlanQuery {
    fn new(
        part: Part,
        root: &Root,
        read: impl Fn(&Root) -> Result<String, String> + Send + 'static,
    ) -> Self {
        let root = root.clone();
        Self {
            part,
            thread: SlowThread::new("backup-plan", move |()| read(&root)),
            last: None,
        }
    }

    pub fn all_below(root: &Root) -> Vec<Self> {
        let zone = schedule::zone(root);
        let starts = move |root: &Root| Ok(schedule::read(root, &zone));
        vec![
            Self::new(Part::BackupPlan, root, next_snapshot),
            Self::new(Part::Schedule, root, starts),
        ]
    }

    /// The text if it is another one than before; starts a new reading if one is due. Never waits.
    pub fn poll(&mut self) -> Option<PartReading> {
        // A late one is no news: the plan may be a minute old anyway.
        let reading = self
            .thread
            .poll_part(self.part, Duration::MAX, CONFIGURATION);
        self.thread.ask_every(PLAN_PERIOD, ());
        let reading = reading?;
        if self.last.as_ref() == Some(&reading.result) {
            return None;
        }
        self.last = Some(reading.result.clone());
        Some(reading)
    }
}

/// Whether a program can be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramState {
    Executable,
    NotExecutable,
    Missing,
}

/// Finds a program by its path, or by its name in root's PATH.
pub fn program(root: &Root, name: &str) -> ProgramState {
    let places = if name.contains('/') {
        vec![below(root, name)]
    } else {
        PATH.map(|folder| root.0.join(folder).join(name)).to_vec()
    };
    let found: Vec<fs::Metadata> = places
        .iter()
        .filter_map(|place| fs::metadata(place).ok())
        .filter(|file| !name.is_empty() && file.is_file())
        .collect();
    let is_executable = |file: &fs::Metadata| file.permissions().mode() & 0o111 != 0;
    if found.is_empty() {
        ProgramState::Missing
    } else if found.iter().any(is_executable) {
        ProgramState::Executable
    } else {
        ProgramState::NotExecutable
    }
}

/// Whether a file exists.
pub fn exists(root: &Root, path: &str) -> bool {
    below(root, path).exists()
}

/// A directory and its file system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directory {
    /// The path with all links resolved.
    pub path: PathBuf,
    /// Bytes available to users other than root, and bytes in use.
    pub free: Option<u64>,
    pub used: Option<u64>,
    pub files: Vec<FileEntry>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FileEntry {
    pub name: String,
    /// `None` for other than regular files.
    pub size: Option<u64>,
    pub changed_at: SystemTime,
}

/// Reads a directory; `None` if it does not exist, or an error after the time limit.
pub async fn folder(root: &Root, path: &str) -> Result<Option<Directory>, String> {
    let (root, place) = (root.0.clone(), below(root, path));
    within_the_limit(path, move || look(&root, &place)).await?
}

/// Runs a function on a thread, which is abandoned after the time limit.
async fn within_the_limit<T: Send + 'static>(
    path: &str,
    mut look: impl FnMut() -> T + Send + 'static,
) -> Result<T, String> {
    let mut thread = SlowThread::new("folder", move |()| look());
    thread.ask(());
    match thread.wait(TIME_LIMIT).await {
        Ok(found) => Ok(found.value),
        Err(NoAnswer::Late(waited)) => {
            Err(format!("{path} did not answer for {} s", waited.as_secs()))
        }
        Err(NoAnswer::Stopped) => Err(format!("cannot read {path}: the thread ended early")),
    }
}

fn look(root: &Path, place: &Path) -> Result<Option<Directory>, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", place.display());
    match fs::metadata(place) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(cannot(error)),
    }
    let system = rustix::fs::statvfs(place).ok();
    let real = fs::canonicalize(place).map_err(cannot)?;
    let root = fs::canonicalize(root).map_err(cannot)?;
    Ok(Some(Directory {
        path: real
            .strip_prefix(root)
            .map_or(real.clone(), |inside| Path::new("/").join(inside)),
        free: system
            .as_ref()
            .map(|system| system.f_bavail.saturating_mul(system.f_frsize)),
        used: system.map(|system| {
            system
                .f_blocks
                .saturating_sub(system.f_bfree)
                .saturating_mul(system.f_frsize)
        }),
        files: files(place),
    }))
}

fn files(folder: &Path) -> Vec<FileEntry> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let file = |entry: fs::DirEntry| {
        let found = entry.metadata().ok()?;
        let size = found.is_file().then_some(found.len());
        Some(FileEntry {
            name: entry.file_name().into_string().ok()?,
            size,
            changed_at: found.modified().ok()?,
        })
    };
    entries
        .take(MAX_FILES)
        .filter_map(|entry| file(entry.ok()?))
        .collect()
}

/// The kind of a script in mylvmbackup's hooks directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookScript {
    /// It mentions cowbell.
    Ours,
    Another,
    NotExecutable,
    Missing,
}

/// Inspects a hook's script, and whether a Perl hook beside it takes precedence.
pub async fn hook(root: &Root, folder: &str, name: &str) -> Result<(HookScript, bool), String> {
    let script = below(root, folder).join(name);
    within_the_limit(folder, move || {
        (script_at(&script), script.with_extension("pm").exists())
    })
    .await
}

fn script_at(script: &Path) -> HookScript {
    let Ok(found) = fs::metadata(script) else {
        return HookScript::Missing;
    };
    if found.permissions().mode() & 0o111 == 0 {
        return HookScript::NotExecutable;
    }
    let mut start = Vec::new();
    let read = fs::File::open(script)
        .and_then(|file| file.take(MAX_CONFIGURATION).read_to_end(&mut start));
    let names_us = String::from_utf8_lossy(&start).contains("cowbell");
    if read.is_ok() && names_us {
        HookScript::Ours
    } else {
        HookScript::Another
    }
}

fn below(root: &Root, path: &str) -> PathBuf {
    root.0.join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next text, if it is new.
    fn next(query: &mut PlanQuery) -> Option<ReadResult> {
        query.thread.forget_last();
        let mut reading = query.poll();
        while reading.is_none() && query.thread.is_busy() {
            std::thread::sleep(Duration::from_millis(1));
            reading = query.poll();
        }
        reading.map(|reading| reading.result)
    }

    #[test]
    fn the_file_is_reported_when_it_changes_and_without_its_password() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("etc/mylvmbackup.conf");
        let mut query = PlanQuery::all_below(&Root(folder.path().into())).remove(0);
        let text = |text: &str| Some(ReadResult::Text(text.into()));
        assert_eq!(next(&mut query), text(""), "there is no file");
        std::fs::create_dir(folder.path().join("etc")).unwrap();
        std::fs::write(
            &file,
            "[mysql]\npassword=secret\n[lvm]\nvgname=vg0\nlvname=mysql\nbackuplv=mysql_snapshot\nlvsize=5G\n",
        )
        .unwrap();
        assert_eq!(
            next(&mut query),
            text("[lvm]\nvgname=vg0\nlvname=mysql\nbackuplv=mysql_snapshot\nlvsize=5G\n")
        );
        assert_eq!(next(&mut query), None, "nothing is new");
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        let Some(ReadResult::Error(error)) = next(&mut query) else {
            panic!()
        };
        assert!(
            error.starts_with("cannot read /etc/mylvmbackup.conf: Is a directory"),
            "{error}"
        );
    }
}
