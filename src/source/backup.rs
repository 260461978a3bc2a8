//! What a backup by mylvmbackup would find on this machine: its configuration's text, its folders, its programs.
//!
//! All below the root that can be moved. A folder may lie on a disk or a server that does not answer, so each is looked
//! at by a thread of its own, which is left alone when its time is over.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;

use super::files::Root;

/// Where mylvmbackup looks for its configuration when its command line names no other.
pub const CONFIGURATION: &str = "/etc/mylvmbackup.conf";
/// The program's name, wherever it is.
pub const PROGRAM: &str = "mylvmbackup";
/// A configuration has some four thousand bytes; a file longer than this is none.
const LONGEST: u64 = 256 * 1024;
/// A folder that does not answer within this time is not known.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// So many of a folder's files are looked at.
const MOST_FILES: usize = 10_000;
/// Where root's commands are looked for, in this order.
const PATH: [&str; 6] = ["usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"];

/// The configuration's text; `None` where there is no such file.
pub fn configuration(root: &Root) -> Result<Option<String>, String> {
    let file = match fs::File::open(below(root, CONFIGURATION)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("it is longer than {} KiB, which no configuration is", LONGEST / 1024));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Whether something can be run under this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Runs,
    NotExecutable,
    NotThere,
}

/// Looks for a program by its path, or by its name where root's commands are.
pub fn program(root: &Root, name: &str) -> Standing {
    let places: Vec<PathBuf> = match name.contains('/') {
        true => vec![below(root, name)],
        false => PATH.iter().map(|folder| root.0.join(folder).join(name)).collect(),
    };
    let found: Vec<fs::Metadata> = places
        .iter()
        .filter_map(|place| fs::metadata(place).ok())
        .filter(|file| !name.is_empty() && file.is_file())
        .collect();
    match found.iter().any(|file| file.permissions().mode() & 0o111 != 0) {
        true => Standing::Runs,
        false if found.is_empty() => Standing::NotThere,
        false => Standing::NotExecutable,
    }
}

/// Whether there is such a file.
pub fn exists(root: &Root, path: &str) -> bool {
    below(root, path).exists()
}

/// A folder that was looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folder {
    /// Its own name, when all links are followed.
    pub path: PathBuf,
    /// What its file system has left for who is not root, and what it holds, in bytes.
    pub free: Option<u64>,
    pub used: Option<u64>,
    pub files: Vec<File>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct File {
    pub name: String,
    /// `None` of what is no plain file.
    pub size: Option<u64>,
    pub changed_at: SystemTime,
}

/// Looks at a folder; `None` where there is none. A sentence where it cannot be looked at in time.
pub async fn folder(root: &Root, path: &str) -> Result<Option<Folder>, String> {
    let (root, place) = (root.0.clone(), below(root, path));
    within_the_limit(path, move || look(&root, &place)).await?
}

/// Does it on a thread that is left alone when the time is over.
async fn within_the_limit<T: Send + 'static>(
    path: &str,
    look: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("folder".into());
    // Nobody waits for it any more when it cannot tell.
    let begun = thread.spawn(move || drop(tell.send(look())));
    begun.map_err(|error| format!("cannot look at {path}: {error}"))?;
    match tokio::time::timeout(TIME_LIMIT, told).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(_)) => Err(format!("cannot look at {path}: the look ended early")),
        Err(_) => Err(format!("{path} gave no answer for {} s", TIME_LIMIT.as_secs())),
    }
}

fn look(root: &Path, place: &Path) -> Result<Option<Folder>, String> {
    let cannot = |error: std::io::Error| format!("cannot look at {}: {error}", place.display());
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
    Ok(Some(Folder {
        path: real.strip_prefix(root).map_or(real.clone(), |inside| Path::new("/").join(inside)),
        free: system.as_ref().map(|system| system.f_bavail.saturating_mul(system.f_frsize)),
        used: system
            .map(|system| system.f_blocks.saturating_sub(system.f_bfree).saturating_mul(system.f_frsize)),
        files: files(place),
    }))
}

fn files(folder: &Path) -> Vec<File> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let file = |entry: fs::DirEntry| {
        let found = entry.metadata().ok()?;
        let size = found.is_file().then_some(found.len());
        Some(File { name: entry.file_name().into_string().ok()?, size, changed_at: found.modified().ok()? })
    };
    entries.take(MOST_FILES).filter_map(|entry| file(entry.ok()?)).collect()
}

/// What a script in a folder of hooks is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// It tells cowbell, or names it.
    Ours,
    Another,
    NotExecutable,
    NotThere,
}

/// Looks at a hook's script, and whether a Perl form stands beside it, which wins.
pub async fn hook(root: &Root, folder: &str, name: &str) -> Result<(Hook, bool), String> {
    let script = below(root, folder).join(name);
    within_the_limit(folder, move || (script_at(&script), script.with_extension("pm").exists())).await
}

fn script_at(script: &Path) -> Hook {
    let Ok(found) = fs::metadata(script) else { return Hook::NotThere };
    if found.permissions().mode() & 0o111 == 0 {
        return Hook::NotExecutable;
    }
    let mut start = Vec::new();
    let read = fs::File::open(script).and_then(|file| file.take(LONGEST).read_to_end(&mut start));
    let names_us = String::from_utf8_lossy(&start).contains("cowbell");
    if read.is_ok() && names_us { Hook::Ours } else { Hook::Another }
}

fn below(root: &Root, path: &str) -> PathBuf {
    root.0.join(path.trim_start_matches('/'))
}
