//! `cowbell verify-archive`: reads the archive of a backup through, and certifies what it found.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use cowbell_archive::certificate::Certificate;
use cowbell_archive::{ArchiveVerdict, compression};

use super::log;
use super::mark::{certify, id_of};
use super::output::{ProgressBar, complain, print};
use crate::client::Daemon;
use crate::commands::ArchiveSummary;
use crate::source::clock;
use crate::source::recording::RecordingHeader;
use crate::store::in_words;
use crate::units::{count_text, grouped, size_text, took_text};

/// The exit status if an archive cannot be judged, or if its job does not know it.
const UNKNOWN: u8 = 2;
/// Maximum characters of a finding that goes to the daemon.
const LONGEST_FINDING: usize = 1_000;

#[derive(Args)]
pub struct ArchiveArguments {
    /// A tar archive, plain or compressed
    archive: PathBuf,
    /// The job that made it: ID or name; of several, the running one or the last
    #[arg(long)]
    job: Option<String>,
    /// Print the certificate as JSON
    #[arg(long)]
    json: bool,
}

pub async fn verify_archive(daemon: &Daemon, arguments: &ArchiveArguments) -> ExitCode {
    let verified = verify(daemon, arguments).await.inspect_err(log::fatal);
    verified.unwrap_or(ExitCode::from(UNKNOWN))
}

/// Reads the archive through, and writes, reports and prints its certificate. Fails if it cannot be read or printed.
async fn verify(daemon: &Daemon, arguments: &ArchiveArguments) -> anyhow::Result<ExitCode> {
    let mut is_told = true;
    let mut job = None;
    if let Some(which) = &arguments.job {
        // Before reading, since another job of this name may begin meanwhile.
        job = told(id_of(daemon, which).await);
        is_told = job.is_some();
    }
    let mut certificate = read_through(arguments)?;
    certificate.job = job;
    certificate.host = Some(RecordingHeader::of_this_machine(Duration::ZERO).host);
    let written = told(certificate.write());
    if let Some(id) = job {
        let summary = summary(&certificate, written.as_deref());
        is_told = told(certify(daemon, id, &summary).await).is_some();
    }
    let mut text = if arguments.json {
        certificate.json()?
    } else {
        text(&certificate)
    };
    if let Some(path) = written
        && !arguments.json
    {
        text += &format!("\nCertificate: {}\n", path.display());
    }
    print(&text)?;
    Ok(ExitCode::from(match certificate.verdict {
        ArchiveVerdict::Damaged => 1,
        ArchiveVerdict::Sound if is_told => 0,
        ArchiveVerdict::Sound | ArchiveVerdict::Unknown => UNKNOWN,
    }))
}

fn read_through(arguments: &ArchiveArguments) -> anyhow::Result<Certificate> {
    let began = Instant::now();
    let path = std::path::absolute(&arguments.archive)?;
    let mut progress = ProgressBar::new();
    let verified = compression::verify(&path, |share| progress.show(share))?;
    let took_s = began.elapsed().as_secs_f64();
    Ok(Certificate::new(&path, verified, clock::now(), took_s))
}

/// The value, or a sentence on standard error.
fn told<T>(result: anyhow::Result<T>) -> Option<T> {
    result
        .inspect_err(|error| complain(&format!("cowbell: {}", in_words(error))))
        .ok()
}

fn summary(certificate: &Certificate, written: Option<&Path>) -> ArchiveSummary {
    let findings = certificate.findings.list.iter();
    let finding = findings.chain(&certificate.doubts.list).next();
    ArchiveSummary {
        archive: certificate.archive.display().to_string(),
        verdict: certificate.verdict,
        checked_at: certificate.checked_at,
        sha256: certificate.sha256.clone(),
        files: certificate.figures.files,
        bytes: certificate.figures.bytes,
        finding: finding.map(|finding| finding.chars().take(LONGEST_FINDING).collect()),
        certificate: written.map(|path| path.display().to_string()),
    }
}

/// The verdict, the figures, and what was found.
fn text(certificate: &Certificate) -> String {
    let figures = &certificate.figures;
    let number = |count: u64| grouped(count as f64, 0);
    let files = format!(
        "{} of {}, {}",
        number(figures.files),
        count_text(figures.members, "member", "members"),
        size_text(figures.bytes)
    );
    let innodb = format!(
        "{}, {}",
        count_text(figures.innodb_files, "file", "files"),
        count_text(figures.pages, "page", "pages")
    );
    let checksums = format!(
        "{} compared, {} wrong; {} of pages are zero",
        number(figures.pages_checked),
        number(figures.pages_broken),
        size_text(figures.zero_bytes)
    );
    let archive = format!(
        "{} in {}, compression: {}",
        size_text(certificate.size),
        took_text(certificate.took_s),
        certificate.compression
    );
    let verdict = certificate.verdict.text();
    let mut text = format!("{verdict}: {}\n\n", certificate.archive.display());
    for (name, value) in [
        ("files", &files),
        ("InnoDB", &innodb),
        ("checksums", &checksums),
        ("archive", &archive),
        ("SHA-256", &certificate.sha256),
    ] {
        text += &format!("{name:<10} {value}\n");
    }
    for sentences in [
        &certificate.findings,
        &certificate.doubts,
        &certificate.notes,
    ] {
        if !sentences.list.is_empty() {
            text += "\n";
        }
        for sentence in &sentences.list {
            text += &format!("{sentence}\n");
        }
        if sentences.more > 0 {
            text += &format!("… and {} more\n", sentences.more);
        }
    }
    text
}
