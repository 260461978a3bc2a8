//! What is known of the archive of a backup after it was read through. `cowbell verify-archive` reports it to the daemon.

pub use cowbell_archive::ArchiveVerdict;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The summary of a certificate, which is a file beside the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArchiveSummary {
    /// The path of the archive.
    pub archive: String,
    pub verdict: ArchiveVerdict,
    pub checked_at: Timestamp,
    /// SHA-256 of the archive, in hexadecimal digits.
    pub sha256: String,
    /// Files in the archive.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// The first damage, or possible damage, that was found.
    pub finding: Option<String>,
    /// The certificate; `null` if it could not be written.
    pub certificate: Option<String>,
}

/// Stores the summary of a certificate with a job.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct CertificateCommand {
    #[serde(rename = "certified")]
    pub key: String,
    pub certificate: ArchiveSummary,
}
