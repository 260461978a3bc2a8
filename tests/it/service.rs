//! What a service tells systemd, and how it takes a new configuration.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use crate::daemon::{Daemon, Start, cowbell, said};
use crate::hostile::{HOST, JSON};
use crate::machine::Machine;
use crate::{http, wait_for};

/// In place of systemd.
pub struct Supervisor {
    socket: UnixDatagram,
    _folder: tempfile::TempDir,
    pub path: String,
}

impl Supervisor {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self {
            socket,
            path: path.to_str().unwrap().into(),
            _folder: folder,
        }
    }

    /// The next message with this part.
    pub fn hears(&self, part: &str) -> String {
        loop {
            let mut bytes = [0; 4096];
            let length = self
                .socket
                .recv(&mut bytes)
                .unwrap_or_else(|error| panic!("{part:?}: {error}"));
            let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if message.contains(part) {
                return message;
            }
        }
    }
}

pub fn reload(daemon: &Daemon, config: &str) {
    std::fs::write(daemon.folder.path().join("cowbell.toml"), config).unwrap();
    kill_process(daemon.pid(), Signal::HUP).unwrap();
}

/// Whether it answers under a name.
fn answers_as(daemon: &Daemon, name: &str) -> bool {
    let request =
        format!("GET /api/v1/status HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
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
    let daemon = Start::watching(&machine)
        .environment("NOTIFY_SOCKET", &systemd.path)
        .start();
    systemd.hears("READY=1");
    assert!(!answers_as(&daemon, "db1.example"));
    reload(
        &daemon,
        "hosts = [\"db1.example\"]\nlisten = \"127.0.0.1:1\"\n[store]\nticks = \"1d\"\n",
    );
    systemd.hears("RELOADING=1");
    assert!(
        systemd
            .hears("READY=1")
            .contains("STATUS=took the new configuration")
    );
    assert!(answers_as(&daemon, "db1.example"));
    assert!(
        daemon.log().contains("a restart is needed for [store]\n"),
        "{}",
        daemon.log()
    );
    reload(
        &daemon,
        "hosts = [\"db2.example\"]\n[alerts]\nsnapshot_fill = 3\n",
    );
    let kept = systemd.hears("READY=1");
    assert!(
        kept.contains("STATUS=kept the old configuration: in the configuration"),
        "{kept}"
    );
    assert!(kept.contains("line 3, `snapshot_fill = 3`"), "{kept}");
    assert!(answers_as(&daemon, "db1.example") && !answers_as(&daemon, "db2.example"));
}

#[test]
fn new_credentials_are_taken_and_wrong_ones_are_not() {
    let (machine, systemd) = (Machine::new(), Supervisor::new());
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    };
    let tokens = [
        "hunter2-hunter2-hunter2-hunter2-hunter2",
        "hunter3-hunter3-hunter3-hunter3-hunter3",
    ];
    write("token", tokens[0]);
    write("webhook", "http://127.0.0.1:9/hunter4");
    let config = "[[notify]]\nkind = \"webhook\"\nurl = \"credential:webhook\"\n";
    let mut start = Start::watching(&machine).config(config);
    start.credentials = Some(folder.path().into());
    let daemon = start.environment("NOTIFY_SOCKET", &systemd.path).start();
    systemd.hears("READY=1");
    let statuses = || {
        tokens.map(|token| {
            let bearer = format!("Bearer {token}");
            let headers = [HOST, JSON, ("Authorization", &*bearer)];
            let request = http::request("DELETE", "/api/v1/jobs/1", &headers, "");
            http::send(daemon.port, request.as_bytes()).unwrap().status
        })
    };
    assert_eq!(statuses(), [404, 401]);
    write("token", tokens[1]);
    reload(&daemon, config);
    assert!(
        systemd
            .hears("READY=1")
            .contains("STATUS=took the new configuration")
    );
    assert_eq!(statuses(), [401, 404]);
    write("token", "hunter5");
    reload(&daemon, config);
    let kept = systemd.hears("READY=1");
    assert!(
        kept.contains("kept the old configuration: in the token of [changes]"),
        "{kept}"
    );
    write("token", tokens[0]);
    std::fs::remove_file(folder.path().join("webhook")).unwrap();
    reload(&daemon, config);
    let kept = systemd.hears("READY=1");
    assert!(
        kept.contains("kept the old configuration") && kept.contains("webhook does not exist"),
        "{kept}"
    );
    // The next start would fail.
    write("webhook", "http://127.0.0.1:1/hook");
    let unknown = format!("{config}[proxy]\nuser = \"nobody-of-this-name\"\n");
    reload(&daemon, &unknown);
    let kept = systemd.hears("READY=1");
    assert!(
        kept.contains("kept the old configuration") && kept.contains("has no user"),
        "{kept}"
    );
    assert_eq!(
        statuses(),
        [401, 404],
        "nothing of a wrong configuration is taken"
    );
    std::fs::remove_file(folder.path().join("token")).unwrap();
    reload(&daemon, "");
    systemd.hears("READY=1");
    assert_eq!(statuses(), [403, 403], "there is no token");
    assert!(!daemon.log().contains("hunter"), "{}", daemon.log());
}

/// Whether all constant parts of the program's file are in memory; `None` if it may lock none.
fn is_in_memory(daemon: &Daemon) -> Option<bool> {
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/{}/{name}", daemon.pid().as_raw_pid())).unwrap()
    };
    if read("status")
        .lines()
        .any(|line| line.starts_with("VmLck:") && line.ends_with("\t       0 kB"))
    {
        return None;
    }
    let (mut is_constant, mut size, mut is_whole) = (false, "", true);
    let maps = read("smaps");
    for line in maps.lines() {
        match line.split_once(':') {
            Some(("Size", text)) => size = text.trim(),
            Some(("Rss", text)) => is_whole &= !is_constant || text.trim() == size,
            _ if line.contains(" r-xp ") => is_constant = line.ends_with("/cowbell"),
            _ if line.contains("-p ") => is_constant = false,
            _ => {}
        }
    }
    Some(is_whole)
}

#[test]
fn the_program_is_in_memory_once_the_first_receiver_is_new() {
    let (machine, systemd) = (Machine::new(), Supervisor::new());
    let daemon = Start::watching(&machine)
        .environment("NOTIFY_SOCKET", &systemd.path)
        .start();
    systemd.hears("READY=1");
    let Some(is_in_memory_before) = is_in_memory(&daemon) else {
        return eprintln!("skipped: this user may not lock memory");
    };
    assert!(!is_in_memory_before);
    reload(
        &daemon,
        "[[notify]]\nkind = \"command\"\ncommand = [\"/bin/true\"]\n",
    );
    wait_for("the program in memory", || {
        is_in_memory(&daemon).filter(|is_there| *is_there)
    });
}

#[test]
fn the_loop_does_not_wait_for_a_new_configuration() {
    let (machine, systemd) = (Machine::new(), Supervisor::new());
    let daemon = Start::watching(&machine)
        .environment("NOTIFY_SOCKET", &systemd.path)
        .start();
    systemd.hears("READY=1");
    // In place of a file on a disk that hangs.
    let file = daemon.folder.path().join("cowbell.toml");
    std::fs::remove_file(&file).unwrap();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&file)
            .status()
            .unwrap()
            .success()
    );
    kill_process(daemon.pid(), Signal::HUP).unwrap();
    let taken = daemon.taken();
    wait_for("ticks", || (daemon.taken() > taken + 10).then_some(()));
    std::fs::write(&file, "hosts = [\"db1.example\"]\n").unwrap();
    assert!(
        systemd
            .hears("READY=1")
            .contains("STATUS=took the new configuration")
    );
    assert!(answers_as(&daemon, "db1.example"));
}

#[test]
fn without_systemd_a_closed_terminal_ends_it() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine)
        .environment("NOTIFY_SOCKET", "")
        .start();
    assert_eq!(daemon.stop(Signal::HUP).0.code(), Some(0));
}

#[test]
fn jobs_are_logged_when_they_begin_and_end() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let put = |end: &str| {
        let body = format!("{{\"name\":\"nightly\",\"started_at\":\"2026-03-01T02:00:01Z\"{end}}}");
        http::put(daemon.port, "/api/v1/marks/a", &[JSON], &body)
    };
    put("");
    put("");
    put(",\"ended_at\":\"2026-03-01T02:00:02Z\",\"succeeded\":false");
    let lines = wait_for("the end in the log", || {
        let log = daemon.log();
        log.contains("`nightly` ended").then_some(log)
    });
    let said: Vec<&str> = lines
        .lines()
        .filter_map(|line| Some(line.split_once(" job ")?.1))
        .collect();
    assert_eq!(said, ["1 `nightly` began", "1 `nightly` ended: failed"]);
}

#[test]
fn a_file_alone_is_checked_before_it_is_rolled_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.toml");
    let path = file.to_str().unwrap();
    for (config, code, part) in [
        ("interval = \"2s\"\n", 0, "is a valid configuration"),
        // The secrets of another host are not here.
        ("[changes]\ntoken_file = \"/not/here\"\n", 0, "is a valid"),
        ("hostz = []\n", 1, "line 1, `hostz = []`: unknown field"),
        (
            "[[notify]]\nkind = \"webhook\"\nurl = \"http://h/\"\ntemplate = '{{'\n",
            1,
            "`template`",
        ),
    ] {
        std::fs::write(&file, config).unwrap();
        let found = said(cowbell().args(["check", "--config", path]));
        let all = format!("{}{}", found.out, found.err);
        assert!(
            found.code == Some(code) && all.lines().count() == 1 && all.contains(part),
            "{found:?}"
        );
    }
}
