//! Commands on jobs: what clients send, what a recording holds, and what the loop carries out.

pub use cowbell_archive::ArchiveVerdict;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A command on a job, by the job's key. The name of the key in a recording tells the commands apart.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum JobCommand {
    /// Begins or ends a job.
    Mark(Mark),
    /// Adds a note.
    Note {
        #[serde(rename = "noted")]
        key: String,
        #[serde(flatten)]
        note: Note,
    },
    /// Begins a phase, by default at the time of the reading.
    Phase {
        #[serde(rename = "phased")]
        key: String,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// Deletes an ended job.
    Remove {
        #[serde(rename = "removed")]
        key: String,
    },
    /// Accepts the result of a backup that left files out on purpose.
    Accept {
        #[serde(rename = "accepted")]
        key: String,
    },
    /// Stores the summary of a certificate.
    Certify {
        #[serde(rename = "certified")]
        key: String,
        certificate: ArchiveSummary,
    },
}

/// The beginning of a phase, which lasts until the next one or the job's end.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct PhaseMark {
    pub at: Timestamp,
    pub name: String,
}

/// A note on a job, and the time that it refers to.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
pub struct Note {
    pub at: Timestamp,
    pub text: String,
}

/// The set that a run belongs to. Runs of a set are compared by variant, each with its repeats.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
#[schema(as = Label)]
pub struct JobLabel {
    pub set: String,
    /// `null` in a set of a single variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// From 1; `null` if not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
}

impl JobLabel {
    /// Set, variant and repeat, without a set that has the job's own name.
    pub fn short_text(&self, name: &str) -> String {
        let set = Some(self.set.clone()).filter(|set| set != name);
        let repeat = self.repeat.map(|repeat| format!("#{repeat}"));
        [set, self.variant.clone(), repeat]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" · ")
    }
}

/// Maximum number of characters in the name of a job, a phase, a set or a variant.
pub const LONGEST_NAME: usize = 200;

/// Checks that a text can be shown as one line: visible, at most `most` characters, without control characters and without
/// those that change the direction of text. The error names `what`.
pub fn check_letters(what: &str, text: &str, most: usize) -> Result<(), String> {
    let is_invisible = |letter: char| {
        letter.is_whitespace()
            || matches!(letter, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
    };
    let is_invalid = |letter: char| {
        letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.chars().all(is_invisible) || text.chars().count() > most || text.chars().any(is_invalid)
    {
        return Err(format!(
            "expected {what} to be 1 to {most} letters without control characters"
        ));
    }
    Ok(())
}

/// Begins or ends a job. A mark may be repeated.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Mark {
    /// Identifies the job; chosen by the client.
    pub key: String,
    pub kind: MarkKind,
    pub name: String,
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub label: Option<JobLabel>,
    pub started_at: Timestamp,
    #[serde(default, rename = "ended", skip_serializing_if = "Option::is_none")]
    pub end: Option<MarkEnd>,
    /// The PID of `cowbell run`, if it runs on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Whether a command is a backup, by its program or as its user says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_backup: bool,
}

/// The kind of job that a mark begins.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A span between two marks.
    #[default]
    Mark,
    /// A command under `cowbell run`.
    Command,
}

/// The end of a job, as its client reports it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct MarkEnd {
    pub at: Timestamp,
    pub succeeded: bool,
    /// For a command that exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// For a command that exited with success: how a program below it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What was found when the archive of a backup was read through: the summary of a certificate, which is a file beside the
/// archive. `cowbell verify-archive` reports it to the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArchiveSummary {
    /// The path of the archive.
    #[schema(min_length = 1, max_length = 4096)]
    pub archive: String,
    pub verdict: ArchiveVerdict,
    pub checked_at: Timestamp,
    /// SHA-256 of the archive, in hexadecimal digits.
    #[schema(min_length = 1, max_length = 200)]
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
