//! `cowbell support-bundle`: what a bug report needs, in one file, without secrets.
//!
//! A part that fails is a sentence in that part's file. Stored ticks have no raw readings, so a new recording is made.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use jdx_tar::{Builder, EntryType, Header};
use jiff::Timestamp;
use tokio::process::Command;

use super::output::{NewFile, complain, print};
use super::record::{self, Recorded};
use super::serve::signalled;
use super::{export, status};
use crate::check;
use crate::client::{Daemon, QUICK_LIMIT};
use crate::config::{Config, ConfigError};
use crate::source::files::Root;
use crate::source::recording::RecordingHeader;
use crate::store::{self, in_words};

/// The length of the recording, and of long ticks their number.
const RECORD_FOR: Duration = Duration::from_secs(15);
const FEWEST_TICKS: u32 = 3;
/// The age of the oldest stored tick.
const TICKS_FROM: &str = "-10m";
/// The time limit for reading the log.
const LOG_LIMIT: Duration = Duration::from_secs(20);
const LOG_COMMAND: &str = "journalctl -u cowbell -u cowbell-reader -n 2000 -o short-iso --no-pager";
/// Characters of a host's name in the name of the file.
const LONGEST_HOST: usize = 40;

#[derive(Args)]
pub struct BundleArguments {
    /// A new file [default: cowbell-HOST-DATE.tar.gz in this directory]
    file: Option<PathBuf>,
    /// The length of the recording [default: 15s]
    #[arg(long = "for", value_name = "LENGTH", value_parser = record::duration)]
    length: Option<Duration>,
}

/// What the parts are about.
struct BundledHost {
    config: Config,
    /// Why the configuration cannot be used.
    problem: Option<ConfigError>,
    daemon: Daemon,
    root: Root,
    db: Option<PathBuf>,
    length: Duration,
    /// For files until they are in the bundle.
    folder: tempfile::TempDir,
}

/// Writes the bundle, with the defaults if the configuration is invalid; a signal removes it.
pub async fn support_bundle(
    arguments: BundleArguments,
    config: Result<Config, ConfigError>,
    daemon: impl Fn(&Config) -> Daemon,
    root: Root,
    db: Option<PathBuf>,
) -> anyhow::Result<()> {
    let (config, problem) = match config {
        Ok(config) => (config, None),
        Err(error) => (Config::default(), Some(error)),
    };
    let usual = RECORD_FOR.max(config.interval.0 * FEWEST_TICKS);
    let length = arguments.length.unwrap_or(usual);
    let header = RecordingHeader::of_this_machine(config.interval.0);
    let name = name(&header);
    let path = arguments
        .file
        .unwrap_or_else(|| format!("{name}.tar.gz").into());
    let host = BundledHost {
        daemon: daemon(&config),
        config,
        problem,
        root,
        db: db.or_else(|| store::existing_path(None).ok().filter(|db| db.exists())),
        length,
        folder: tempfile::tempdir().context("cannot make a temporary directory")?,
    };
    let (made, file) = NewFile::make_private(&path)?;
    complain(&format!("recording for {} s", length.as_secs_f64()));
    let shutdown = signalled()?;
    let parts = tokio::select! {
        parts = parts(&host, &header) => parts,
        () = shutdown.cancelled() => bail!("interrupted; {} is removed", path.display()),
    };
    pack(&file, &name, header.started_at, &parts)
        .with_context(|| format!("cannot write the file {}", path.display()))?;
    made.keep();
    print(&format!(
        "{} is written; look at it before you send it\n",
        path.display()
    ))
}

/// Such as `cowbell-db1-20261122T020000`.
fn name(header: &RecordingHeader) -> String {
    let signs = header.host.chars();
    let host = signs.filter(|sign| sign.is_ascii_alphanumeric() || *sign == '-');
    let host: String = host.take(LONGEST_HOST).collect();
    let started_at = header.started_at.strftime("%Y%m%dT%H%M%S");
    format!("cowbell-{host}-{started_at}")
}

/// Names and contents. The recording is first: what is wrong now may be over soon.
async fn parts(host: &BundledHost, header: &RecordingHeader) -> Vec<(&'static str, Vec<u8>)> {
    let recording = recording(host).await;
    let version = format!("cowbell {}\nLinux {}\n", header.cowbell, header.kernel);
    let (check_text, _) = check::check(&host.config, &host.root, host.db.as_deref()).await;
    let (status_text, _) = status::status(&host.daemon, false).await;
    let status_json = host.daemon.text("/api/v1/status", QUICK_LIMIT).await;
    vec![
        ("recording.cowbell", or_sentence(recording)),
        ("version.txt", version.into()),
        ("configuration.txt", configuration(host).into()),
        ("check.txt", check_text.into()),
        ("status.txt", status_text.into()),
        ("status.json", or_sentence(status_json.map(Vec::from))),
        ("ticks.csv", or_sentence(ticks(host).await)),
        ("log.txt", or_sentence(log().await)),
    ]
}

fn or_sentence(part: anyhow::Result<Vec<u8>>) -> Vec<u8> {
    part.unwrap_or_else(|error| format!("{}\n", in_words(&error)).into())
}

fn configuration(host: &BundledHost) -> String {
    let problem = match &host.problem {
        Some(why) => format!("{why}; these are the defaults:\n\n"),
        None => String::new(),
    };
    format!("{problem}{}", host.config.shown())
}

/// Without hooks, whose socket belongs to the daemon.
async fn recording(host: &BundledHost) -> anyhow::Result<Vec<u8>> {
    let path = host.folder.path().join("recording");
    let recorded = Recorded {
        config: &host.config,
        daemon: host.daemon.clone(),
        root: host.root.clone(),
        hooks: None,
    };
    let over = tokio::time::sleep(host.length);
    record::write(recorded, File::create_new(&path)?, over)
        .await
        .context("cannot record")?;
    Ok(std::fs::read(path)?)
}

async fn ticks(host: &BundledHost) -> anyhow::Result<Vec<u8>> {
    let path = host.folder.path().join("ticks.csv");
    export::ticks(&store::path(host.db.as_deref())?, TICKS_FROM, &path).await?;
    Ok(std::fs::read(path)?)
}

/// The log of both services.
async fn log() -> anyhow::Result<Vec<u8>> {
    let mut words = LOG_COMMAND.split(' ');
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LOG_LIMIT, output)
        .await
        .context("journalctl does not end")?
        .context("cannot run journalctl, which reads the log")?;
    Ok([output.stdout, output.stderr].concat())
}

/// Files that only their owner can read.
fn pack(
    file: &File,
    folder: &str,
    at: Timestamp,
    parts: &[(&str, Vec<u8>)],
) -> std::io::Result<()> {
    let mut archive = Builder::new(GzEncoder::new(file, Compression::default()));
    for (name, content) in parts {
        let mut header = Header::new_gnu(EntryType::File);
        header.set_mode(0o600);
        header.set_mtime(at.as_second());
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, format!("{folder}/{name}"), &**content)?;
    }
    archive.into_inner()?.finish()?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_is_no_path() {
        let at = Timestamp::from_second(1_772_330_400).unwrap();
        let usual = RecordingHeader::of_this_machine(std::time::Duration::ZERO);
        for (host, expected) in [
            ("db-1", "cowbell-db-1-20260301T020000"),
            ("../../etc/<b>\n\"$(x)", "cowbell-etcbx-20260301T020000"),
        ] {
            assert_eq!(
                name(&RecordingHeader {
                    host: host.into(),
                    started_at: at,
                    ..usual.clone()
                }),
                expected
            );
        }
    }
}
