//! Two processes: `cowbell reader` reads the machine, and the daemon takes its readings. Whatever happens to the reader,
//! the daemon goes on, and says why LVM is unknown.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::daemon::{Daemon, Start, cowbell, said};
use crate::machine::Machine;
use crate::wait_for;

/// A reader of a machine in a folder. It is killed when the test is done with it.
struct Reader(Child);

impl Reader {
    fn of(machine: &Machine, socket: &Path) -> Self {
        let mut command = cowbell();
        command
            .args(["reader", "--interval", "100ms", "--root"])
            .arg(machine.root())
            .arg("--socket")
            .arg(socket);
        let reader = Self(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        wait_for("the reader's socket", || {
            UnixStream::connect(socket).ok().map(drop)
        });
        reader
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.0.wait().unwrap();
    }
}

fn daemon(machine: &Machine, socket: &Path) -> Daemon {
    let mut start = Start::watching(machine);
    start
        .arguments
        .extend(["--reader".into(), socket.to_str().unwrap().into()]);
    start.start()
}

fn socket() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reader");
    (folder, path)
}

/// Waits until the device-mapper's error has these words; `None` for the machine's own answer.
fn dm_says(daemon: &Daemon, words: Option<&str>) {
    wait_for(&format!("dm: {words:?}"), || {
        let status = daemon.json("/api/v1/status");
        let dm = status["parts"]
            .as_array()?
            .iter()
            .find(|part| part["name"] == "dm")?
            .clone();
        let error = dm["error"].as_str().unwrap_or_default().to_string();
        match words {
            Some(words) => error.contains(words),
            None => !error.contains("cowbell-reader"),
        }
        .then_some(())
    });
}

fn ticks(daemon: &Daemon) -> u64 {
    daemon.json("/api/v1/status")["ticks"]["taken"]
        .as_u64()
        .unwrap()
}

fn ticks_go_on(daemon: &Daemon) {
    let before = ticks(daemon);
    wait_for("ticks", || (ticks(daemon) > before + 2).then_some(()));
}

#[test]
fn whatever_happens_to_the_reader_the_daemon_goes_on() {
    let (machine, (_folder, path)) = (Machine::new(), socket());
    let daemon = daemon(&machine, &path);
    dm_says(&daemon, Some("cannot connect to cowbell-reader"));
    ticks_go_on(&daemon);
    let reader = Reader::of(&machine, &path);
    dm_says(&daemon, None);
    reader.signal(Signal::STOP);
    dm_says(&daemon, Some("cowbell-reader has not answered for "));
    ticks_go_on(&daemon);
    reader.signal(Signal::CONT);
    dm_says(&daemon, None);
    drop(reader);
    dm_says(&daemon, Some("cowbell-reader"));
    let _reader = Reader::of(&machine, &path);
    dm_says(&daemon, None);
    ticks_go_on(&daemon);
}

#[test]
fn a_reader_of_another_version_is_a_sentence() {
    let (machine, (_folder, path)) = (Machine::new(), socket());
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let header = r#"{"format":"cowbell recording","version":1,"host":"db1","kernel":"6.1","cowbell":"9.9.9","interval_ms":100,"started_at":"2026-03-01T02:00:00Z"}"#;
            let reading = r#"{"at":"2026-03-01T02:00:00Z","uptime_us":1,"took_us":1,"texts":[{"part":"tea_leaves","text":"","took_us":1}]}"#;
            // The daemon closes the connection at the second line.
            let _ = writeln!(client, "{header}\n{reading}");
            let _ = client.read_to_end(&mut Vec::new());
        }
    });
    let daemon = daemon(&machine, &path);
    dm_says(
        &daemon,
        Some("which is version 9.9.9, while this is version "),
    );
    ticks_go_on(&daemon);
}

#[test]
fn a_path_that_is_in_use_is_left_alone() {
    let (machine, (folder, path)) = (Machine::new(), socket());
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let _reader = Reader::of(&machine, &path);
    for (taken, part) in [
        (&file, "a file that is no socket exists there"),
        (&path, "another program listens there"),
    ] {
        let found = said(
            cowbell()
                .args(["reader", "--root"])
                .arg(machine.root())
                .arg("--socket")
                .arg(taken),
        );
        assert_eq!(found.code, Some(1), "{found:?}");
        assert!(
            found.err.contains("cannot listen for the daemon at ") && found.err.contains(part),
            "{found:?}"
        );
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
    assert!(UnixStream::connect(&path).is_ok());
}

#[test]
fn a_client_gets_readings_and_nothing_else() {
    let (machine, (_folder, path)) = (Machine::new(), socket());
    let _reader = Reader::of(&machine, &path);
    for rubbish in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"/etc/shadow\n",
        &[0xff; 100_000],
        &b"1 ".repeat(600),
    ] {
        let mut client = UnixStream::connect(&path).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        // It may close the connection before all is written.
        let _ = client.write_all(rubbish);
        let _ = client.write_all(b"\n");
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let is_reading =
            |line: &&str| line.starts_with("{\"format\"") || line.starts_with("{\"at\"");
        // The last line may be cut.
        assert!(
            answer.lines().rev().skip(1).all(|line| is_reading(&line)),
            "{answer:.500}"
        );
    }
    let first = UnixStream::connect(&path).unwrap();
    let mut lines = BufReader::new(first).lines();
    assert!(lines.next().unwrap().unwrap().contains("cowbell recording"));
    let mut second = String::new();
    UnixStream::connect(&path)
        .unwrap()
        .read_to_string(&mut second)
        .unwrap();
    assert_eq!(second, "another client is connected\n");
    assert!(lines.next().unwrap().unwrap().contains("diskstats"));
}
