//! `cowbell verify-archive`: reads the archive of a backup through, and certifies what it found.

use std::path::PathBuf;
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
use crate::source::{clock, recording};
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
    // Another job of this name may begin meanwhile.
    let id = match &arguments.job {
        Some(job) => told(id_of(daemon, job).await),
        None => None,
    };
    let certificate = match read_through(arguments) {
        Ok(certificate) => Certificate {
            job: id,
            ..certificate
        },
        Err(error) => {
            log::fatal(&error);
            return ExitCode::from(UNKNOWN);
        }
    };
    let printed = certified(daemon, arguments, certificate).await;
    printed
        .inspect_err(log::fatal)
        .unwrap_or(ExitCode::from(UNKNOWN))
}

fn read_through(arguments: &ArchiveArguments) -> anyhow::Result<Certificate> {
    let began = Instant::now();
    let path = std::path::absolute(&arguments.archive)?;
    let mut progress = ProgressBar::new();
    let verified = compression::verify(&path, |share| progress.show(share))?;
    Ok(Certificate::new(
        &path,
        verified,
        clock::now(),
        began.elapsed().as_secs_f64(),
    ))
}

/// Writes, reports and prints a certificate. Only a failure to print it is an error.
async fn certified(
    daemon: &Daemon,
    arguments: &ArchiveArguments,
    mut certificate: Certificate,
) -> anyhow::Result<ExitCode> {
    certificate.host = Some(recording::RecordingHeader::of_this_machine(Duration::ZERO).host);
    let written = told(certificate.write());
    let mut is_told = arguments.job.is_none();
    if let Some(id) = certificate.job {
        let path = written.as_ref().map(|path| path.display().to_string());
        is_told = told(certify(daemon, id, &summary(&certificate, path)).await).is_some();
    }
    let text = if arguments.json {
        certificate.json()?
    } else {
        text(&certificate)
    };
    let place = written
        .filter(|_| !arguments.json)
        .map(|path| format!("\nCertificate: {}\n", path.display()));
    print(&(text + &place.unwrap_or_default()))?;
    Ok(ExitCode::from(match certificate.verdict {
        ArchiveVerdict::Damaged => 1,
        ArchiveVerdict::Sound if is_told => 0,
        ArchiveVerdict::Sound | ArchiveVerdict::Unknown => UNKNOWN,
    }))
}

/// The value, or a sentence on standard error.
fn told<T>(result: anyhow::Result<T>) -> Option<T> {
    result
        .inspect_err(|error| complain(&format!("cowbell: {}", in_words(error))))
        .ok()
}

fn summary(certificate: &Certificate, path: Option<String>) -> ArchiveSummary {
    let finding = certificate
        .findings
        .list
        .first()
        .or(certificate.doubts.list.first());
    ArchiveSummary {
        archive: certificate.archive.display().to_string(),
        verdict: certificate.verdict,
        checked_at: certificate.checked_at,
        sha256: certificate.sha256.clone(),
        files: certificate.figures.files,
        bytes: certificate.figures.bytes,
        finding: finding.map(|finding| finding.chars().take(LONGEST_FINDING).collect()),
        certificate: path,
    }
}

/// The verdict, the figures, and what was found.
fn text(certificate: &Certificate) -> String {
    let Certificate {
        verdict,
        archive,
        size,
        sha256,
        compression,
        took_s,
        figures,
        ..
    } = certificate;
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
    let pages = format!(
        "{} compared, {} wrong; {} of pages are zero",
        number(figures.pages_checked),
        number(figures.pages_broken),
        size_text(figures.zero_bytes)
    );
    let read = format!(
        "{} in {}, compression: {compression}",
        size_text(*size),
        took_text(*took_s)
    );
    let rows = [
        ("files", files),
        ("InnoDB", innodb),
        ("checksums", pages),
        ("archive", read),
        ("SHA-256", sha256.clone()),
    ];
    let mut text = format!("{}: {}\n\n", verdict.text(), archive.display());
    text.extend(
        rows.iter()
            .map(|(name, value)| format!("{name:<10} {value}\n")),
    );
    for sentences in [
        &certificate.findings,
        &certificate.doubts,
        &certificate.notes,
    ] {
        text.extend(sentences.list.first().map(|_| "\n"));
        text.extend(
            sentences
                .list
                .iter()
                .map(|sentence| format!("{sentence}\n")),
        );
        text.extend((sentences.more > 0).then(|| format!("… and {} more\n", sentences.more)));
    }
    text
}
