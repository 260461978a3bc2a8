//! A file that is made by the program: never over another one, and never left behind half.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A file that goes again unless it is kept.
pub struct NewFile {
    path: PathBuf,
    is_kept: bool,
}

impl NewFile {
    /// Makes an empty file. What is there already is left as it is, and refused.
    pub fn make(path: &Path) -> anyhow::Result<(Self, File)> {
        match File::create_new(path) {
            Ok(file) => Ok((Self { path: path.to_path_buf(), is_kept: false }, file)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                bail!("{} is there already, and is not overwritten; name another file", path.display())
            }
            Err(error) => Err(error).with_context(|| format!("cannot make the file {}", path.display())),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

/// Writes a new file whole, or not at all.
pub fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let (made, mut file) = NewFile::make(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.with_context(|| format!("cannot write the file {}", path.display()))?;
    made.keep();
    Ok(())
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // It has failed already, and why is said.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
