//! `cowbell support-bundle`: what a bug report needs, in one file, without secrets.
//!
//! A part that fails is a sentence in that part's file. Stored ticks have no raw readings, so a new recording is made.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::{SignedDuration, Timestamp};
use tokio::process::Command;

use super::new_file::NewFile;
use super::printing::print;
use super::record::{self, Recorded};
use super::serve::signalled;
use super::{export, tar};
use crate::check;
use crate::client::{Daemon, complain, status};
use crate::config::Config;
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
const LOG_COMMAND: [&str; 9] = [
    "-u",
    "cowbell",
    "-u",
    "cowbell-reader",
    "-n",
    "2000",
    "-o",
    "short-iso",
    "--no-pager",
];
/// Characters of a host's name in the name of the file.
const LONGEST_HOST: usize = 40;

#[derive(Args)]
pub struct SupportBundle {
    /// A new file [default: cowbell-HOST-DATE.tar.gz in this directory]
    file: Option<PathBuf>,
    /// The length of the recording [default: 15s]
    #[arg(long = "for", value_name = "LENGTH")]
    length: Option<SignedDuration>,
    /// Why the configuration cannot be used.
    #[arg(skip)]
    pub problem: Option<String>,
}

/// What the parts are about.
struct Scene {
    config: Config,
    daemon: Daemon,
    root: PathBuf,
    db: Option<PathBuf>,
    length: Duration,
    /// For files until they are in the bundle.
    folder: tempfile::TempDir,
}

/// Writes the bundle; a signal removes it.
pub async fn support_bundle(
    bundle: SupportBundle,
    config: Config,
    daemon: Daemon,
    root: PathBuf,
    db: Option<PathBuf>,
) -> anyhow::Result<()> {
    let usual = RECORD_FOR.max(config.interval.0 * FEWEST_TICKS);
    let length = bundle.length.map_or(Ok(usual), record::limit)?;
    let header = RecordingHeader::of_this_machine(config.interval.0);
    let name = name(&header);
    let path = bundle
        .file
        .unwrap_or_else(|| format!("{name}.tar.gz").into());
    let db = db.or_else(|| store::existing_path(None).ok().filter(|db| db.exists()));
    let folder = tempfile::tempdir().context("cannot make a temporary directory")?;
    let (made, file) = NewFile::make_private(&path)?;
    complain(&format!("recording for {} s", length.as_secs_f64()));
    let shutdown = signalled()?;
    let scene = Scene {
        config,
        daemon,
        root,
        db,
        length,
        folder,
    };
    let parts = tokio::select! {
        parts = parts(&scene, &header, bundle.problem) => parts,
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
    let host = header
        .host
        .chars()
        .filter(|sign| sign.is_ascii_alphanumeric() || *sign == '-');
    let host: String = host.take(LONGEST_HOST).collect();
    format!(
        "cowbell-{host}-{}",
        header.started_at.strftime("%Y%m%dT%H%M%S")
    )
}

/// Names and contents. The recording is first: what is wrong now may be over soon.
async fn parts(
    scene: &Scene,
    header: &RecordingHeader,
    problem: Option<String>,
) -> Vec<(&'static str, Vec<u8>)> {
    let recording = recording(scene).await;
    let (status_text, _) = status::status(&scene.daemon).await;
    let (check_text, _) = check::check(
        &scene.config,
        &Root(scene.root.clone()),
        scene.db.as_deref(),
    )
    .await;
    vec![
        ("recording.cowbell", or_sentence(recording)),
        (
            "version.txt",
            format!("cowbell {}\nLinux {}\n", header.cowbell, header.kernel).into(),
        ),
        (
            "configuration.txt",
            configuration(&scene.config, problem).into(),
        ),
        ("check.txt", check_text.into()),
        ("status.txt", status_text.into()),
        (
            "status.json",
            or_sentence(scene.daemon.status_json().await.map(String::into_bytes)),
        ),
        ("ticks.csv", or_sentence(ticks(scene).await)),
        ("log.txt", or_sentence(log().await)),
    ]
}

fn or_sentence(part: anyhow::Result<Vec<u8>>) -> Vec<u8> {
    part.unwrap_or_else(|error| format!("{}\n", in_words(&error)).into())
}

fn configuration(config: &Config, problem: Option<String>) -> String {
    let problem = problem.map_or_else(String::new, |why| {
        format!("{why}; these are the defaults:\n\n")
    });
    format!("{problem}{config:#?}\n")
}

/// Without hooks, whose socket belongs to the daemon.
async fn recording(scene: &Scene) -> anyhow::Result<Vec<u8>> {
    let path = scene.folder.path().join("recording");
    let (config, daemon, root) = (
        &scene.config,
        scene.daemon.clone(),
        Root(scene.root.clone()),
    );
    let recorded = Recorded {
        config,
        daemon,
        root,
        hooks: None,
    };
    let over = tokio::time::sleep(scene.length);
    record::write(recorded, File::create_new(&path)?, over)
        .await
        .context("cannot record")?;
    Ok(std::fs::read(path)?)
}

async fn ticks(scene: &Scene) -> anyhow::Result<Vec<u8>> {
    let path = scene.folder.path().join("ticks.csv");
    export::ticks(&store::path(scene.db.as_deref())?, TICKS_FROM, &path).await?;
    Ok(std::fs::read(path)?)
}

/// The log of both services.
async fn log() -> anyhow::Result<Vec<u8>> {
    let mut command = Command::new("journalctl");
    let output = command
        .args(LOG_COMMAND)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LOG_LIMIT, output)
        .await
        .context("journalctl does not end")?;
    let output = output.context("cannot run journalctl, which reads the log")?;
    Ok([output.stdout, output.stderr].concat())
}

fn pack(
    file: &File,
    folder: &str,
    at: Timestamp,
    parts: &[(&str, Vec<u8>)],
) -> std::io::Result<()> {
    let mut archive = GzEncoder::new(file, Compression::default());
    for (name, content) in parts {
        tar::write_member(&mut archive, &format!("{folder}/{name}"), at, content)?;
    }
    archive.write_all(&tar::END)?;
    archive.finish()?.sync_all()
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
