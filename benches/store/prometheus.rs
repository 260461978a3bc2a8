//! Prometheus beside the store, where it is installed: the same values scraped each second, and a day of them as blocks.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use crate::exposed;
use crate::machine::Machine;
use crate::meter::{Process, size_of, thread_time};

/// A block of Prometheus is two hours long.
const BLOCK: u64 = 7_200;

pub fn is_installed() -> bool {
    let runs = |name| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    };
    ["prometheus", "promtool"]
        .into_iter()
        .all(|name| runs(name).is_ok_and(|status| status.success()))
}

/// Bytes on disk of so many ticks as blocks, as `promtool` makes them, and how many of them are samples' own.
pub fn blocks(mut machine: Machine, ticks: u64) -> (u64, u64) {
    let folder = TempDir::new().expect("a folder for blocks");
    let (input, output) = (
        folder.path().join("openmetrics"),
        folder.path().join("blocks"),
    );
    let start = machine.at().as_second();
    for first in (0..ticks).step_by(BLOCK as usize) {
        let mut text = String::new();
        for tick in first..(first + BLOCK).min(ticks) {
            machine.tick();
            exposed::add(&mut text, &machine, Some(start + tick as i64));
        }
        text.push_str("# EOF\n");
        std::fs::write(&input, text).expect("room for two hours as text");
        import(&input, &output);
    }
    let blocks = std::fs::read_dir(&output).into_iter().flatten().flatten();
    let chunks = blocks
        .map(|block| size_of(&block.path().join("chunks")))
        .sum();
    (size_of(&output), chunks)
}

fn import(input: &Path, output: &Path) {
    let made = Command::new("promtool")
        .args(["tsdb", "create-blocks-from", "openmetrics", "--quiet"])
        .args([input, output])
        .stdout(Stdio::null())
        .status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "promtool makes blocks"
    );
}

/// A Prometheus that scrapes what it is shown, each second.
pub struct Scraper {
    child: Child,
    folder: TempDir,
    text: Arc<Mutex<String>>,
    /// Processor time of the thread that answers.
    answering: Arc<Mutex<Duration>>,
}

impl Scraper {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().map_or(0, |address| address.port());
        let (text, answering) = (Arc::default(), Arc::default());
        let (shown, ran) = (Arc::clone(&text), Arc::clone(&answering));
        std::thread::spawn(move || answer(&listener, &shown, &ran));
        // Not where the store's is: the counter of that one's device is for the store alone.
        let folder = TempDir::new();
        let folder = folder.expect("a folder for Prometheus");
        let child = start(folder.path(), port);
        Self {
            child,
            folder,
            text,
            answering,
        }
    }

    pub fn show(&self, machine: &Machine) {
        let mut text = String::new();
        exposed::add(&mut text, machine, None);
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    pub fn size(&self) -> u64 {
        size_of(self.folder.path())
    }

    pub fn answering(&self) -> Duration {
        *self
            .answering
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        // A child that is gone already is what is wanted.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn start(folder: &Path, port: u16) -> Child {
    let config = folder.join("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\nscrape_configs:\n  - job_name: bench\n    \
         static_configs:\n      - targets: ['127.0.0.1:{port}']\n"
    );
    std::fs::write(&config, text).expect("room for a configuration");
    Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("tsdb").display()
        ))
        .arg("--web.listen-address=127.0.0.1:29090")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("prometheus starts")
}

/// One connection, which is kept alive.
fn answer(listener: &TcpListener, text: &Mutex<String>, ran: &Mutex<Duration>) {
    while let Ok((mut stream, _)) = listener.accept() {
        let mut request = [0; 4096];
        while stream.read(&mut request).is_ok_and(|count| count > 0) {
            let text = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length:";
            if write!(stream, "{head} {}\r\n\r\n{text}", text.len()).is_err() {
                break;
            }
            *ran.lock().unwrap_or_else(PoisonError::into_inner) = thread_time();
        }
    }
}
