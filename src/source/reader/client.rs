//! The unprivileged half: takes the reader's readings. While it does not answer, it reads what every user may read, and
//! says in place of the device-mapper's answer why LVM is unknown.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use tokio::net::UnixStream;
use tokio_util::codec::{Framed, LinesCodec, LinesCodecError};

use super::request;
use crate::source::clock::{Ticker, now};
use crate::source::files::Root;
use crate::source::live::Live;
use crate::source::recording::RecordingHeader;
use crate::source::{Part, PartReading, ReadResult, Reading};

/// Maximum length of a reading, in bytes: some thousand volumes.
const MAX_READING: usize = 64 << 20;
/// A reading may be late by this, at least; otherwise by two intervals.
const MIN_PATIENCE: Duration = Duration::from_secs(2);
/// A local connection needs no time, unless the reader's queue is full.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);

/// Readings of `cowbell reader`.
pub struct Remote {
    path: PathBuf,
    root: Root,
    interval: Duration,
    ticker: Ticker,
    connection: Option<ReaderConnection>,
    heard_at: Instant,
    /// Why there is no reading.
    problem: String,
    /// Its own readings, while the reader does not answer.
    own: Option<Box<Live>>,
    pids: Vec<u32>,
}

struct ReaderConnection {
    lines: Framed<UnixStream, LinesCodec>,
    began: Instant,
    /// The reader's version; `None` before its header.
    version: Option<String>,
}

impl Remote {
    /// The reader at `path`. It may start later.
    pub fn new(path: PathBuf, root: Root, interval: Duration) -> std::io::Result<Self> {
        Ok(Self {
            problem: format!("cowbell-reader did not answer at {} yet", path.display()),
            path,
            root,
            interval,
            ticker: Ticker::every(interval)?,
            connection: None,
            heard_at: Instant::now(),
            own: None,
            pids: Vec::new(),
        })
    }

    /// Waits for the next reading.
    pub async fn next(&mut self) -> Reading {
        loop {
            tokio::select! {
                biased;
                line = next_line(&mut self.connection) => {
                    if let Some(reading) = self.take(line) {
                        return reading;
                    }
                }
                () = self.ticker.tick() => {
                    let patience = MIN_PATIENCE.max(self.interval * 2);
                    let is_late = self.heard_at.elapsed() > patience;
                    if is_late && self.connection.take_if(|it| it.began.elapsed() > patience).is_some() {
                        self.complain(format!("cowbell-reader has not answered for {} s", self.heard_at.elapsed().as_secs()));
                    }
                    if self.connection.is_none() {
                        self.connect().await;
                    }
                    if is_late {
                        return self.read_alone().await;
                    }
                }
            }
        }
    }

    /// Watches these processes of backups, and no others.
    pub async fn watch(&mut self, pids: &[u32]) {
        if self.pids != pids {
            self.pids = pids.to_vec();
            self.send_pids().await;
        }
    }

    async fn connect(&mut self) {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(&self.path));
        match connecting.await {
            Ok(Ok(stream)) => {
                let lines = Framed::new(stream, LinesCodec::new_with_max_length(MAX_READING));
                self.connection = Some(ReaderConnection {
                    lines,
                    began: Instant::now(),
                    version: None,
                });
                self.send_pids().await;
            }
            Ok(Err(error)) => {
                let path = self.path.display();
                self.complain(format!(
                    "cannot connect to cowbell-reader at {path}: {error}; start cowbell-reader.socket"
                ));
            }
            Err(_) => self.complain("cowbell-reader accepts no connection".into()),
        }
    }

    async fn send_pids(&mut self) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let sending =
            tokio::time::timeout(CONNECT_TIMEOUT, connection.lines.send(request(&self.pids)));
        // A broken connection shows when it is read.
        let _ = sending.await;
    }

    /// The reading in a line; the header has none.
    fn take(&mut self, line: Option<Result<String, LinesCodecError>>) -> Option<Reading> {
        let connection = self.connection.as_mut()?;
        let line = match line {
            Some(Ok(line)) => line,
            Some(Err(error)) => {
                return self.disconnect(format!("cannot read from cowbell-reader: {error}"));
            }
            None => return self.disconnect("cowbell-reader closed the connection".into()),
        };
        let Some(version) = &connection.version else {
            match serde_json::from_str::<RecordingHeader>(&line) {
                Ok(header) => connection.version = Some(header.cowbell),
                Err(_) => {
                    return self.disconnect(format!(
                        "cowbell-reader refused the connection: {line:.200}"
                    ));
                }
            }
            return None;
        };
        match serde_json::from_str::<Reading>(&line) {
            Ok(reading) => {
                if self.own.take().is_some() {
                    tracing::info!("cowbell-reader answers again");
                }
                self.problem.clear();
                self.heard_at = Instant::now();
                Some(reading)
            }
            Err(error) => {
                let own = env!("CARGO_PKG_VERSION");
                let error = error.to_string();
                let error = error.split(", expected").next().unwrap_or_default();
                let sentence = format!(
                    "cannot understand cowbell-reader, which is version {version}, while this is version {own} ({error}): \
                     restart both with `systemctl restart cowbell-reader cowbell`"
                );
                self.disconnect(sentence)
            }
        }
    }

    fn disconnect(&mut self, why: String) -> Option<Reading> {
        self.connection = None;
        self.complain(why);
        None
    }

    /// Logs a problem once.
    fn complain(&mut self, why: String) {
        let is_new = |before: &str| {
            before.split(char::is_numeric).next() != why.split(char::is_numeric).next()
        };
        if is_new(&self.problem) {
            tracing::warn!("{why}");
        }
        self.problem = why;
    }

    async fn read_alone(&mut self) -> Reading {
        let result = match &mut self.own {
            Some(_) => Ok(()),
            None => Live::unprivileged(self.root.clone(), self.interval)
                .map(|live| self.own = Some(Box::new(live))),
        };
        let mut reading = match (&mut self.own, result) {
            (Some(own), Ok(())) => own.read().await,
            (_, error) => {
                tracing::warn!("cannot read without cowbell-reader: {error:?}");
                Reading::between_ticks(now(), Vec::new(), Vec::new())
            }
        };
        let result = ReadResult::Error(self.problem.clone());
        reading.texts.push(PartReading {
            part: Part::Dm,
            result,
            took_us: 0,
        });
        reading
    }
}

async fn next_line(
    connection: &mut Option<ReaderConnection>,
) -> Option<Result<String, LinesCodecError>> {
    match connection {
        Some(connection) => connection.lines.next().await,
        None => std::future::pending().await,
    }
}
