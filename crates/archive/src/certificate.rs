//! The certificate of an archive: a JSON file beside it.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::compression::Verified;
use super::{ArchiveFigures, ArchiveVerdict, SentenceList};

/// The version of the format.
const VERSION: u32 = 1;
/// Certificates are shorter.
const LONGEST: u64 = 256 * 1024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// The version of this format. Other files do not have it.
    pub cowbell_certificate: u32,
    pub verdict: ArchiveVerdict,
    pub archive: PathBuf,
    pub size: u64,
    pub sha256: String,
    pub compression: String,
    pub checked_at: Timestamp,
    pub took_s: f64,
    /// The job's ID on `host`.
    pub job: Option<i64>,
    pub host: Option<String>,
    pub figures: ArchiveFigures,
    pub findings: SentenceList,
    /// Certificates of earlier versions have none.
    #[serde(default)]
    pub doubts: SentenceList,
    pub notes: SentenceList,
}

impl Certificate {
    pub fn new(archive: &Path, verified: Verified, checked_at: Timestamp, took_s: f64) -> Self {
        let Verified {
            size,
            sha256,
            compression,
            examination,
        } = verified;
        Self {
            cowbell_certificate: VERSION,
            verdict: examination.verdict(),
            archive: archive.into(),
            size,
            sha256,
            compression: compression.into(),
            checked_at,
            took_s,
            job: None,
            host: None,
            figures: examination.figures,
            findings: examination.findings,
            doubts: examination.doubts,
            notes: examination.notes,
        }
    }

    pub fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Writes it beside its archive, completely or not at all; returns its path.
    pub fn write(&self) -> anyhow::Result<PathBuf> {
        let path = path(&self.archive);
        let named = || format!("cannot write the certificate {}", path.display());
        check_replaceable(&path)?;
        let folder = self
            .archive
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let rights = std::fs::metadata(&self.archive)
            .with_context(named)?
            .permissions()
            .mode()
            & 0o666;
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
            .with_context(named)?;
        file.write_all(self.json()?.as_bytes())
            .with_context(named)?;
        file.as_file()
            .set_permissions(Permissions::from_mode(rights))
            .with_context(named)?;
        file.as_file().sync_all().with_context(named)?;
        file.persist(&path).with_context(named)?;
        Ok(path)
    }
}

/// `/backup/x.tar.gz.cowbell.json`
pub fn path(archive: &Path) -> PathBuf {
    let mut name = OsString::from(archive);
    name.push(".cowbell.json");
    name.into()
}

/// Only a certificate is replaced.
fn check_replaceable(path: &Path) -> anyhow::Result<()> {
    let metadata = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let read = || {
        let mut text = String::new();
        std::fs::File::open(path)
            .ok()?
            .take(LONGEST)
            .read_to_string(&mut text)
            .ok()?;
        serde_json::from_str::<Certificate>(&text).ok()
    };
    if !metadata.is_file() || read().is_none() {
        bail!(
            "{} exists and is no certificate of cowbell, so it is not replaced",
            path.display()
        );
    }
    Ok(())
}
