//! Recordings: a gzip file of JSON lines, first a [`RecordingHeader`], then one [`Reading`] per line. `zcat FILE | jq .` shows
//! it. A user's recording serves as bug report, test and demo.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Reading, Source};

const FORMAT: &str = "cowbell recording";
/// Incremented when older programs cannot parse new recordings.
const VERSION: u32 = 1;
/// Maximum length of a line.
const MAX_LINE: u64 = 64 * 1024 * 1024;
/// Readings between flushes, which limit the loss after a power cut.
const FLUSH_EVERY: u32 = 10;

/// The first line of a recording: its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordingHeader {
    pub format: String,
    pub version: u32,
    pub host: String,
    /// As in `uname -r`.
    pub kernel: String,
    /// The version of cowbell that wrote the recording.
    pub cowbell: String,
    pub interval_ms: u64,
    pub started_at: Timestamp,
}

impl RecordingHeader {
    /// The header of a recording of this machine that starts now.
    pub fn of_this_machine(interval: Duration) -> Self {
        let system = rustix::system::uname();
        Self {
            format: FORMAT.into(),
            version: VERSION,
            host: system.nodename().to_string_lossy().into_owned(),
            kernel: system.release().to_string_lossy().into_owned(),
            cowbell: env!("CARGO_PKG_VERSION").into(),
            interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
            started_at: super::clock::now(),
        }
    }
}

/// Writes a recording.
pub struct Recorder<W: Write> {
    lines: GzEncoder<W>,
    since_flush: u32,
}

impl<W: Write> Recorder<W> {
    pub fn new(output: W, header: &RecordingHeader) -> std::io::Result<Self> {
        let mut recorder = Self {
            lines: GzEncoder::new(output, Compression::default()),
            since_flush: 0,
        };
        recorder.line(header)?;
        Ok(recorder)
    }

    pub fn write(&mut self, reading: &Reading) -> std::io::Result<()> {
        self.line(reading)?;
        self.since_flush += 1;
        if self.since_flush >= FLUSH_EVERY {
            self.since_flush = 0;
            self.lines.flush()?;
        }
        Ok(())
    }

    pub fn finish(self) -> std::io::Result<W> {
        self.lines.finish()
    }

    fn line(&mut self, value: &impl Serialize) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.lines, value)?;
        self.lines.write_all(b"\n")
    }
}

/// The speed of playback.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// Recorded seconds per second.
    Times(f64),
    /// As fast as readings are processed.
    Unbounded,
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "max" => Ok(Self::Unbounded),
            Ok(times) if (0.01..=10_000.0).contains(&times) => Ok(Self::Times(times)),
            _ => Err("expected a number from 0.01 to 10000, or `max`".into()),
        }
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, text: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Times(1.0) => text.write_str("in real time"),
            Self::Times(times) => write!(text, "{times} times as fast"),
            Self::Unbounded => text.write_str("as fast as possible"),
        }
    }
}

/// Plays a recording: returns each reading at its time.
pub struct Player {
    header: RecordingHeader,
    lines: Box<dyn BufRead + Send>,
    speed: Speed,
    /// When the first reading was returned, and its recorded time.
    began: Option<(Instant, u64)>,
    upcoming: Option<Reading>,
    error: Option<String>,
}

impl Player {
    pub fn open(path: &Path, speed: Speed) -> anyhow::Result<Self> {
        let file = File::open(path)
            .with_context(|| format!("cannot open the recording {}", path.display()))?;
        Self::play(BufReader::new(file), speed)
            .with_context(|| format!("cannot play {}", path.display()))
    }

    pub fn of_bytes(bytes: &'static [u8], speed: Speed) -> anyhow::Result<Self> {
        Self::play(Cursor::new(bytes), speed)
    }

    fn play(input: impl Read + Send + 'static, speed: Speed) -> anyhow::Result<Self> {
        let mut lines = BufReader::new(MultiGzDecoder::new(input));
        let line =
            next_line(&mut lines).context("this is not a recording: expected a gzip file")?;
        let header: RecordingHeader = serde_json::from_str(line.as_deref().unwrap_or_default())
            .context("this is not a recording: its first line is no header")?;
        if header.format != FORMAT || header.version > VERSION {
            bail!(
                "expected `{FORMAT}` of version {VERSION}, but found `{}` of version {}; use a newer cowbell",
                header.format,
                header.version
            );
        }
        Ok(Self {
            header,
            lines: Box::new(lines),
            speed,
            began: None,
            upcoming: None,
            error: None,
        })
    }

    pub fn header(&self) -> &RecordingHeader {
        &self.header
    }

    /// Why playback ended early, if it did.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The next reading, at its time. Cancel-safe.
    pub async fn next(&mut self) -> Option<Reading> {
        if self.upcoming.is_none() {
            self.upcoming = self.read_next();
        }
        let uptime_us = self.upcoming.as_ref()?.uptime_us;
        let (began, first_us) = *self.began.get_or_insert((Instant::now(), uptime_us));
        match self.speed {
            Speed::Times(times) => {
                let recorded = Duration::from_micros(uptime_us.saturating_sub(first_us));
                tokio::time::sleep_until(began + recorded.div_f64(times)).await;
            }
            Speed::Unbounded => tokio::task::yield_now().await,
        }
        self.upcoming.take()
    }

    fn read_next(&mut self) -> Option<Reading> {
        let line = match next_line(&mut self.lines) {
            Ok(line) => line?,
            Err(error) => return self.give_up(format!("the recording ends early: {error}")),
        };
        match serde_json::from_str(&line) {
            Ok(reading) => Some(reading),
            Err(error) => self.give_up(format!("the recording has an invalid line: {error}")),
        }
    }

    fn give_up(&mut self, why: String) -> Option<Reading> {
        self.error = Some(why);
        None
    }
}

impl From<Player> for Source {
    fn from(player: Player) -> Self {
        Self::Recorded(Box::new(player))
    }
}

/// The next line, without its newline; `None` at the end of the file.
fn next_line(lines: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    let length = lines.take(MAX_LINE).read_line(&mut line)?;
    if length > 0 && !line.ends_with('\n') {
        return Err(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "its last line is incomplete",
        ));
    }
    Ok((length > 0).then(|| line.trim_end().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Part, PartReading, ReadResult};

    fn reading(second: i64) -> Reading {
        let result = ReadResult::Text("   8       0 sda 1 2 3\n".into());
        Reading {
            at: Timestamp::from_second(1_700_000_000 + second).unwrap(),
            uptime_us: 1_000_000 * second as u64,
            took_us: 5,
            texts: vec![PartReading {
                part: Part::Diskstats,
                result,
                took_us: 3,
            }],
            commands: Vec::new(),
            hooks: Vec::new(),
        }
    }

    fn recorded(readings: i64) -> Vec<u8> {
        let header = RecordingHeader::of_this_machine(Duration::from_secs(1));
        let mut recorder = Recorder::new(Vec::new(), &header).unwrap();
        (0..readings).for_each(|second| recorder.write(&reading(second)).unwrap());
        recorder.finish().unwrap()
    }

    async fn played(bytes: Vec<u8>) -> (Vec<Reading>, Option<String>) {
        let mut player = Player::play(Cursor::new(bytes), Speed::Unbounded).unwrap();
        let mut readings = Vec::new();
        while let Some(reading) = player.next().await {
            readings.push(reading);
        }
        (readings, player.error().map(String::from))
    }

    #[tokio::test]
    async fn playback_returns_the_recorded_readings() {
        let (readings, error) = played(recorded(25)).await;
        assert_eq!(readings, (0..25).map(reading).collect::<Vec<_>>());
        assert_eq!(error, None);
    }

    #[tokio::test]
    async fn a_truncated_recording_is_played_to_its_end() {
        let mut bytes = recorded(200);
        bytes.truncate(bytes.len() / 2);
        let (readings, error) = played(bytes).await;
        assert!(
            !readings.is_empty() && readings.len() < 200,
            "{}",
            readings.len()
        );
        assert!(error.unwrap().starts_with("the recording ends early"));
    }

    #[test]
    fn other_files_are_rejected() {
        let error = Player::play(Cursor::new(b"hello".to_vec()), Speed::Unbounded)
            .err()
            .unwrap();
        assert!(
            format!("{error:#}").contains("this is not a recording"),
            "{error:#}"
        );
    }
}
