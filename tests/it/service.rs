//! What a service tells systemd, and how it takes a new configuration.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use crate::daemon::{Daemon, Start};
use crate::machine::Machine;
use crate::{http, wait_for};

/// In place of systemd.
struct Supervisor {
    socket: UnixDatagram,
    _folder: tempfile::TempDir,
    path: String,
}

impl Supervisor {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { socket, path: path.to_str().unwrap().into(), _folder: folder }
    }

    /// The next message with this part.
    fn hears(&self, part: &str) -> String {
        loop {
            let mut bytes = [0; 4096];
            let length = self.socket.recv(&mut bytes).unwrap_or_else(|error| panic!("{part:?}: {error}"));
            let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if message.contains(part) {
                return message;
            }
        }
    }
}

fn reload(daemon: &Daemon, config: &str) {
    std::fs::write(daemon.folder.path().join("cowbell.toml"), config).unwrap();
    kill_process(daemon.pid(), Signal::HUP).unwrap();
}

/// Whether it answers under a name.
fn answers_as(daemon: &Daemon, name: &str) -> bool {
    let request = format!("GET /api/v1/status HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    http::send(daemon.port, request.as_bytes()).unwrap().status == 200
}

#[test]
fn the_loop_feeds_the_watchdog_though_a_tick_takes_a_minute() {
    let (machine, systemd) = (Machine::new(), Supervisor::new());
    let root = machine.root().to_str().unwrap().to_string();
    let start = Start::with(&["serve", "--interval", "60s", "--root", &root]);
    let _daemon = start.environment("NOTIFY_SOCKET", &systemd.path).start();
    let ready = systemd.hears("READY=1");
    assert!(ready.contains("\nSTATUS=watching "), "{ready}");
    assert_eq!(systemd.hears("WATCHDOG=1"), "WATCHDOG=1");
}

#[test]
fn a_new_configuration_is_taken_and_a_wrong_one_is_not() {
    let (machine, systemd) = (Machine::new(), Supervisor::new());
    let daemon = Start::watching(&machine).environment("NOTIFY_SOCKET", &systemd.path).start();
    systemd.hears("READY=1");
    assert!(!answers_as(&daemon, "db1.example"));
    reload(&daemon, "hosts = [\"db1.example\"]\nlisten = \"127.0.0.1:1\"\n[store]\nticks = \"1d\"\n");
    systemd.hears("RELOADING=1");
    assert!(systemd.hears("READY=1").contains("STATUS=took the new configuration"));
    assert!(answers_as(&daemon, "db1.example"));
    assert!(daemon.log().contains("a restart is needed for [store]\n"), "{}", daemon.log());
    reload(&daemon, "hosts = [\"db2.example\"]\n[alerts]\nsnapshot_fill = 3\n");
    let kept = systemd.hears("READY=1");
    assert!(kept.contains("STATUS=kept the old configuration: in the configuration"), "{kept}");
    assert!(kept.contains("line 3, `snapshot_fill = 3`"), "{kept}");
    assert!(answers_as(&daemon, "db1.example") && !answers_as(&daemon, "db2.example"));
}

#[test]
fn without_systemd_a_closed_terminal_ends_it() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    assert_eq!(daemon.stop(Signal::HUP).0.code(), Some(0));
}

#[test]
fn jobs_are_logged_when_they_begin_and_end() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let put = |end: &str| {
        let body = format!("{{\"name\":\"nightly\",\"started_at\":\"2026-03-01T02:00:01Z\"{end}}}");
        http::put(daemon.port, "/api/v1/jobs/a", &[crate::hostile::JSON], &body)
    };
    put("");
    put("");
    put(",\"ended_at\":\"2026-03-01T02:00:02Z\",\"succeeded\":false");
    let lines = wait_for("the end in the log", || {
        let log = daemon.log();
        log.contains("`nightly` ended").then_some(log)
    });
    let said: Vec<&str> = lines.lines().filter_map(|line| Some(line.split_once(" job ")?.1)).collect();
    assert_eq!(said, ["1 `nightly` began", "1 `nightly` ended: failed"]);
}
