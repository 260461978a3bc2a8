//! New files: existing ones are never overwritten, and incomplete ones are removed.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

/// A file that is removed when dropped, unless it is kept.
pub struct NewFile {
    path: PathBuf,
    is_kept: bool,
}

impl NewFile {
    /// Creates an empty file; fails if it exists.
    pub fn make(path: &Path) -> anyhow::Result<(Self, File)> {
        Self::make_with(path, 0o666)
    }

    /// Creates an empty file that other users can never open.
    pub fn make_private(path: &Path) -> anyhow::Result<(Self, File)> {
        Self::make_with(path, 0o600)
    }

    fn make_with(path: &Path, mode: u32) -> anyhow::Result<(Self, File)> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        let file = options.open(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => anyhow!(
                "{} exists and is not overwritten; name another file",
                path.display()
            ),
            _ => anyhow!("cannot create the file {}: {error}", path.display()),
        })?;
        let path = path.to_path_buf();
        Ok((
            Self {
                path,
                is_kept: false,
            },
            file,
        ))
    }

    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

/// Writes a new file completely, or not at all; returns a line to print.
pub fn write_new(path: &Path, text: &str) -> anyhow::Result<String> {
    let (made, mut file) = NewFile::make(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    written.with_context(|| format!("cannot write the file {}", path.display()))?;
    made.keep();
    Ok(format!("{} is written\n", path.display()))
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // The original error is reported.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_private_file_is_private_from_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bundle");
        std::thread::scope(|scope| {
            let making = scope
                .spawn(|| (0..2_000).for_each(|_| drop(NewFile::make_private(&path).unwrap())));
            while !making.is_finished() {
                let mode = std::fs::metadata(&path).map(|found| found.permissions().mode() & 0o777);
                assert!(mode.is_err() || mode.is_ok_and(|mode| mode == 0o600));
            }
        });
    }
}
