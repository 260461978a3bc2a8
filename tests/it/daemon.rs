//! The program as a process: started on a free port with a database of its own, listened to, and ended.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::http::{self, Answer};
use crate::machine::Machine;
use crate::tape::Tape;
use crate::{PATIENCE, wait_at_most, wait_for};

/// Below the ports that the kernel gives to clients, so that no client of a test takes one away.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;
/// Variables of this environment that would change what the program does.
const MEDDLERS: [&str; 12] = [
    "COWBELL_CONFIG",
    "COWBELL_LISTEN",
    "COWBELL_INTERVAL",
    "COWBELL_DB",
    "COWBELL_ROOT",
    "COWBELL_LOG",
    "STATE_DIRECTORY",
    "RUNTIME_DIRECTORY",
    "CREDENTIALS_DIRECTORY",
    "COWBELL_HOOKS",
    "NOTIFY_SOCKET",
    "JOURNAL_STREAM",
];

/// The program, not yet started. Neither variables nor ignored signals of the tests' own process reach it: `nohup`
/// ignores HUP, and a shell that starts a job in the background ignores INT and QUIT.
pub fn cowbell() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cowbell"));
    for name in MEDDLERS {
        command.env_remove(name);
    }
    // As on a host without certificates.
    command
        .env("SSL_CERT_FILE", "/nonexistent")
        .env("SSL_CERT_DIR", "/nonexistent");
    command.env("XDG_RUNTIME_DIR", runtime_folder());
    command.stdin(Stdio::null());
    // SAFETY: `signal` may be called between fork and exec.
    unsafe { command.pre_exec(default_signals) };
    command
}

/// Where daemons of these tests have their control sockets, one for each port.
pub fn runtime_folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!(
        "cowbell-tests-{}",
        rustix::process::geteuid().as_raw()
    ));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(&folder)
        .unwrap();
    folder
}

fn default_signals() -> std::io::Result<()> {
    for number in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default action refers to no code of this program.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    Ok(())
}

/// A port that nobody listens on, and no other test is given.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let number = std::process::id().wrapping_mul(97) as u16 % PORTS;
        let number = (number + NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS;
        if TcpListener::bind(("127.0.0.1", FIRST_PORT + number)).is_ok() {
            return FIRST_PORT + number;
        }
    }
}

/// What a program said that was to end by itself.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs a command that ends by itself.
pub fn said(command: &mut Command) -> Said {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&child);
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output().unwrap()));
    if let Ok(output) = end.recv_timeout(PATIENCE) {
        return output.into();
    }
    kill_process(pid, Signal::KILL).unwrap();
    panic!(
        "{command:?} does not end: {:?}",
        Said::from(end.recv().unwrap())
    );
}

/// A running daemon. It is killed when the test is done with it.
pub struct Daemon {
    child: Child,
    pub port: u16,
    pub folder: TempDir,
    pub db: PathBuf,
    log: Arc<Mutex<String>>,
}

/// How a daemon is to be started; the rest is the same for all.
pub struct Start {
    pub arguments: Vec<String>,
    pub config: String,
    /// The folder of its credentials, if it has any.
    pub credentials: Option<PathBuf>,
    /// Where its database is; in its own folder where nothing is said. A demo chooses the place itself.
    pub db: Option<PathBuf>,
    /// A free one where nothing is said.
    pub port: Option<u16>,
    pub environment: Vec<(&'static str, String)>,
}

impl Start {
    /// Watches a machine in a folder, ten times a second.
    pub fn watching(machine: &Machine) -> Self {
        let root = machine.root().to_str().unwrap().to_string();
        Self::with(&["serve", "--interval", "100ms", "--root", &root])
    }

    /// Plays a recording, `max` for as fast as it goes.
    pub fn playing(tape: &Tape, speed: &str) -> Self {
        Self::with(&[
            "serve",
            "--replay",
            tape.path().to_str().unwrap(),
            "--speed",
            speed,
        ])
    }

    pub fn with(arguments: &[&str]) -> Self {
        let arguments = arguments
            .iter()
            .map(|argument| argument.to_string())
            .collect();
        let (config, environment) = (String::new(), Vec::new());
        Self {
            arguments,
            config,
            credentials: None,
            db: None,
            port: None,
            environment,
        }
    }

    pub fn config(self, config: &str) -> Self {
        Self {
            config: config.into(),
            ..self
        }
    }

    pub fn environment(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    pub fn db(self, db: &Path) -> Self {
        Self {
            db: Some(db.into()),
            ..self
        }
    }

    /// Starts it and waits for its first tick.
    pub fn start(self) -> Daemon {
        let (folder, port) = (
            tempfile::tempdir().unwrap(),
            self.port.unwrap_or_else(free_port),
        );
        std::fs::write(folder.path().join("cowbell.toml"), &self.config).unwrap();
        let has_own_db = self.db.is_none() && self.arguments[0] == "demo";
        let db = self.db.unwrap_or_else(|| folder.path().join("cowbell.db"));
        let named_db = if has_own_db {
            vec![]
        } else {
            vec![OsStr::new("--db"), db.as_os_str()]
        };
        let mut child = cowbell()
            .args(&self.arguments)
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .arg("--config")
            .arg(folder.path().join("cowbell.toml"))
            .args(named_db)
            // What it leaves lying about when it is killed goes with the folder.
            .env("TMPDIR", folder.path())
            .env("RUNTIME_DIRECTORY", folder.path())
            .env(
                "CREDENTIALS_DIRECTORY",
                self.credentials.as_deref().unwrap_or(folder.path()),
            )
            .envs(self.environment)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        listen_to(child.stdout.take().unwrap(), &log);
        listen_to(child.stderr.take().unwrap(), &log);
        let mut daemon = Daemon {
            child,
            port,
            folder,
            db,
            log,
        };
        wait_for("the first tick", || {
            let ended = daemon.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "the daemon ended with {ended:?}: {}",
                daemon.log()
            );
            http::try_get(port, "/api/v1/status")
                .ok()
                .filter(|answer| answer.status == 200)
        });
        daemon
    }
}

fn listen_to(output: impl Read + Send + 'static, log: &Arc<Mutex<String>>) {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            log.lock().unwrap().push_str(&(line + "\n"));
        }
    });
}

impl Daemon {
    /// Everything that it has printed until now.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub fn get(&self, target: &str) -> Answer {
        http::get(self.port, target)
    }

    /// An answer that has to be 200 and JSON.
    pub fn json(&self, target: &str) -> Value {
        let answer = self.get(target);
        assert_eq!(answer.status, 200, "GET {target}: {answer:?}");
        answer.json()
    }

    pub fn taken(&self) -> u64 {
        self.json("/api/v1/status")["ticks"]["taken"]
            .as_u64()
            .unwrap()
    }

    /// The part of this name, of `status`.
    pub fn part(&self, name: &str) -> Value {
        let status = self.json("/api/v1/status");
        let parts = status["parts"].as_array().unwrap();
        parts
            .iter()
            .find(|part| part["name"] == name)
            .unwrap_or_else(|| panic!("{name} in {parts:?}"))
            .clone()
    }

    /// Waits until a recording of so many ticks was played to its end and everything is in the store.
    pub fn has_played(&self, ticks: usize) {
        // Beside other tests, an hour may take more than half a minute on two cores.
        wait_at_most(4 * PATIENCE, "the recording's end", || {
            (self.taken() == ticks as u64).then_some(())
        });
        wait_for("the ticks in the store", || {
            (kept_ticks(&self.db).len() >= ticks).then_some(())
        });
    }

    /// Stores a job, and with it all ticks before: those that are not committed yet would wait for ten seconds.
    pub fn commit(&self) {
        let headers = [("Content-Type", "application/json"), ("Host", "127.0.0.1")];
        let job = r#"{"name": "commit", "started_at": "2026-03-01T02:00:00Z", "ended_at": "2026-03-01T02:00:01Z", "succeeded": true}"#;
        let answer = http::put(self.port, "/api/v1/marks/commit", &headers, job);
        assert!([200, 201].contains(&answer.status), "{answer:?}");
    }

    /// The last points of a series, one per tick.
    pub fn series(&self, of: &str, metric: &str) -> Vec<Value> {
        self.series_of(&format!("of={of}&metric={metric}&from=-90s&points=10000"))
    }

    pub fn series_of(&self, query: &str) -> Vec<Value> {
        self.json(&format!("/api/v1/series?{query}"))
            .as_array()
            .unwrap()
            .clone()
    }

    /// Where it hears hooks.
    pub fn hooks(&self) -> PathBuf {
        self.folder.path().join("hooks")
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal and waits for the end; gives how it ended and how long that took.
    pub fn stop(&mut self, signal: Signal) -> (ExitStatus, Duration) {
        let began = Instant::now();
        kill_process(self.pid(), signal).unwrap();
        let status = wait_for("the daemon's end", || self.child.try_wait().unwrap());
        (status, began.elapsed())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the daemon's log:\n{}", self.log());
        }
    }
}

/// A time of the API. As texts they do not compare: what is a whole tenth of a second is shorter.
pub fn time(value: &Value) -> jiff::Timestamp {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{value} is no time"))
}

/// When each tick that a database holds ended, and how many microseconds it was long.
pub fn kept_ticks(db: &Path) -> Vec<(jiff::Timestamp, u64)> {
    let inventory = block_on(cowbell::store::inventory(db)).unwrap();
    assert_eq!(inventory.damage, Vec::<String>::new());
    inventory.ticks
}

/// Asks a database, also one that a daemon uses.
pub fn ask_database(db: &Path, question: &'static str) -> i64 {
    let answer = async {
        let mut connection = connect(db).await;
        let answer = sqlx::query_scalar(question)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        sqlx::Connection::close(connection).await.unwrap();
        answer
    };
    block_on(answer)
}

/// Changes a database that no daemon uses.
pub fn change_database(db: &Path, statement: &'static str) {
    let change = async {
        let mut connection = connect(db).await;
        sqlx::query(statement)
            .execute(&mut connection)
            .await
            .unwrap();
        sqlx::Connection::close(connection).await.unwrap();
    };
    block_on(change);
}

/// Waits for what is asked of the store itself.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

async fn connect(db: &Path) -> sqlx::SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(db);
    sqlx::ConnectOptions::connect(&options).await.unwrap()
}
