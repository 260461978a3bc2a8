//! Bad days at the start, and a machine that says nonsense: one sentence each, and nothing is damaged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::daemon::{
    Said, Start, ask_database, change_database, cowbell, free_port, kept_ticks, said,
};
use crate::http;
use crate::machine::{Done, Machine, line};
use crate::wait_for;

/// Runs `cowbell` over a machine of its own with these arguments; it has to end by itself.
fn refusal(arguments: &[&str]) -> Said {
    let machine = Machine::new();
    said(serve(&machine, "127.0.0.1:0").args(arguments))
}

fn serve(machine: &Machine, listen: &str) -> Command {
    let mut command = cowbell();
    command
        .args(["serve", "--listen", listen])
        .arg("--root")
        .arg(machine.root());
    command
}

/// One sentence on standard error that holds all of `parts`, nothing on standard output, and this exit status.
fn check(said: &Said, code: i32, parts: &[&str]) {
    assert_eq!(said.code, Some(code), "{said:?}");
    assert_eq!(
        said.err.trim_end().lines().count(),
        1,
        "expected one line: {said:?}"
    );
    assert!(said.err.starts_with("cowbell: "), "{said:?}");
    assert_eq!(said.out, "", "{said:?}");
    for part in parts {
        assert!(said.err.contains(part), "expected {part:?} in {said:?}");
    }
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_with_file_line_key_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let path = file.to_str().unwrap();
    for (text, line, parts) in [
        (
            "\n\nlisten_on = \"127.0.0.1:1\"\n",
            "line 3",
            ["`listen_on", "expected", "interval"],
        ),
        (
            "interval = \"50ms\"\n",
            "line 1",
            ["interval", "100ms", "60s"],
        ),
        (
            "interval = \"61s\"\n",
            "line 1",
            ["interval", "100ms", "60s"],
        ),
        ("interval = 5\n", "line 1", ["interval", "expected", "1"]),
        (
            "listen = \"example\"\n",
            "line 1",
            ["listen", "expected", "127.0.0.1:2692"],
        ),
        (
            "[alerts]\nsnapshot_fill = { warning = 70, critical = 185 }\n",
            "line 2",
            ["snapshot_fill", "100", "185"],
        ),
        (
            "[alerts]\npool_fill = { warning = 70, critical = 80 }\n",
            "line 2",
            ["pool_fill", "pool_data", "pool_metadata"],
        ),
        (
            "[alerts.pool_data]\nwarning = 70\nlimit = 80\n",
            "line 3",
            ["limit", "warning", "critical"],
        ),
        (
            "[[notify]]\nkind = \"webhook\"\nurl = \"file:///etc\"\n",
            "line ",
            ["url", "http", "credential:NAME"],
        ),
        ("listen = \n", "line 1", ["listen", "mine.toml", ""]),
    ] {
        fs::write(&file, text).unwrap();
        let said = refusal(&["--config", path]);
        check(&said, 2, &[path, line]);
        check(&said, 2, &parts);
    }
}

#[test]
fn a_named_configuration_that_is_missing_is_refused() {
    check(
        &refusal(&["--config", "/nowhere/cowbell.toml"]),
        2,
        &["/nowhere/cowbell.toml", "--config"],
    );
}

#[test]
fn options_out_of_range_are_refused_like_the_keys_that_they_replace() {
    check(
        &refusal(&["--interval", "2m"]),
        2,
        &["--interval", "100ms", "60s", "2m"],
    );
    let machine = Machine::new();
    check(
        &said(&mut serve(&machine, "here")),
        2,
        &["--listen", "127.0.0.1:2692", "here"],
    );
}

#[test]
fn an_address_in_use_is_named() {
    let machine = Machine::new();
    let first = Start::watching(&machine).start();
    let address = format!("127.0.0.1:{}", first.port);
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("second.db");
    check(
        &said(serve(&machine, &address).arg("--db").arg(&db)),
        1,
        &[&address, "--listen"],
    );
    assert!(!db.exists(), "nothing is left behind");
}

#[test]
fn a_state_directory_that_cannot_be_made_is_reported_and_made_as_soon_as_it_can_be() {
    for variable in ["STATE_DIRECTORY", "XDG_STATE_HOME"] {
        let folder = tempfile::tempdir().unwrap();
        let (file, machine, port) = (folder.path().join("file"), Machine::new(), free_port());
        fs::write(&file, "in the way").unwrap();
        let mut command = serve(&machine, &format!("127.0.0.1:{port}"));
        let mut child = command
            .env(variable, file.join("below"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let store = || {
            let status = http::try_get(port, "/api/v1/status")
                .ok()
                .filter(|answer| answer.status == 200)?;
            let status = status.json();
            status["parts"]
                .as_array()?
                .iter()
                .find(|part| part["name"] == "store")
                .cloned()
        };
        wait_for("the reason", || {
            let error = store()?["error"].as_str()?.to_string();
            (error.contains(file.to_str().unwrap()) && error.contains("--db")).then_some(())
        });
        fs::remove_file(&file).unwrap();
        wait_for("the store to be well", || {
            store()?["ok"].as_bool().filter(|ok| *ok)
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Watches from memory, and says why in the log and on the status page; gives the sentence.
fn watches_from_memory(db: &Path, parts: &[&str]) {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).db(db).start();
    wait_for("ticks", || (daemon.taken() >= 3).then_some(()));
    let store = daemon.part("store");
    assert_eq!(store["ok"], false, "{store}");
    let said = store["error"].as_str().unwrap_or_default().to_string();
    for part in parts {
        assert!(said.contains(part), "expected `{part}` in: {said}");
    }
    assert!(
        daemon.log().contains("continuing from memory: "),
        "{}",
        daemon.log()
    );
    assert!(
        daemon.series("device:sda", "read_bytes").len() >= 2,
        "what is in memory is drawn"
    );
    daemon.stop(rustix::process::Signal::TERM);
}

#[test]
fn a_state_directory_without_the_right_to_write_is_named_and_watching_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    // Root may write anywhere, but not into /proc.
    let (db, parts) = match rustix::process::geteuid().is_root() {
        true => (
            std::path::PathBuf::from("/proc/cowbell.db"),
            ["/proc/cowbell.db"],
        ),
        false => (
            folder.path().join("cowbell.db"),
            ["this user may not write in its folder"],
        ),
    };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    watches_from_memory(&db, &parts);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn a_database_in_a_folder_that_does_not_exist_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("missing/cowbell.db");
    watches_from_memory(&db, &[db.to_str().unwrap(), "there is no folder"]);
    assert!(
        !folder.path().join("missing").exists(),
        "nothing is made that was not asked for"
    );
    let machine = Machine::new();
    let daemon = Start::watching(&machine).db(&db).start();
    wait_for("ticks", || (daemon.taken() >= 3).then_some(()));
    fs::create_dir(folder.path().join("missing")).unwrap();
    wait_for("the store to be well", || {
        daemon.part("store")["ok"].as_bool().filter(|ok| *ok)
    });
    assert_eq!(
        fs::metadata(&db).unwrap().permissions().mode() & 0o777,
        0o600,
        "for its owner alone"
    );
}

#[test]
fn a_file_that_is_no_database_of_ours_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letters.txt");
    for bytes in [b"Dear Sir or Madam,\n".to_vec(), vec![0xff; 100]] {
        fs::write(&file, &bytes).unwrap();
        watches_from_memory(&file, &[file.to_str().unwrap(), "--db"]);
        assert_eq!(fs::read(&file).unwrap(), bytes);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing beside it"
        );
    }
}

/// A named pipe would be waited at for ever.
#[test]
fn a_database_that_is_no_file_is_refused_by_all_who_would_open_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (pipe, copy) = (at("pipe"), at("copy"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &*pipe,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    for (path, found) in [
        (&*pipe, "a named pipe"),
        (&*at(""), "a folder"),
        ("/dev/zero", "a device"),
    ] {
        let expected = format!("expected a regular file, but found {found}; name a file with --db");
        let parts = [path.trim_end_matches('/'), &expected];
        watches_from_memory(Path::new(path), &parts);
        for arguments in [
            &["export"][..],
            &["db", "verify"],
            &["db", "compact"],
            &["db", "backup", &copy],
        ] {
            check(
                &said(cowbell().args(arguments).args(["--db", path])),
                1,
                &parts,
            );
        }
        let machine = Machine::new();
        let found = said(
            cowbell()
                .arg("check")
                .arg("--root")
                .arg(machine.root())
                .args(["--db", path]),
        );
        assert!(found.out.contains(&format!(": {expected}\n")), "{found:?}");
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing is made"
    );
}

#[test]
fn another_programs_database_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("other.db");
    fs::write(&db, "").unwrap();
    change_database(&db, "CREATE TABLE diary (page TEXT)");
    let bytes = fs::read(&db).unwrap();
    watches_from_memory(&db, &[db.to_str().unwrap(), "--db"]);
    assert_eq!(
        fs::read(&db).unwrap(),
        bytes,
        "a database without our number, but with tables, is not ours"
    );
}

#[test]
fn a_database_of_a_newer_version_is_not_touched() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    daemon.stop(rustix::process::Signal::TERM);
    let db = daemon.db.clone();
    change_database(
        &db,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', 1, x'00', 1)",
    );
    let bytes = fs::read(&db).unwrap();
    watches_from_memory(&db, &[db.to_str().unwrap(), "newer", "9999"]);
    assert_eq!(fs::read(&db).unwrap(), bytes);
}

#[test]
fn a_damaged_database_is_set_aside_and_said_and_collecting_goes_on() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    wait_for("some ticks", || (daemon.taken() > 5).then_some(()));
    daemon.stop(rustix::process::Signal::TERM);
    let db = daemon.db.clone();
    let whole = fs::read(&db).unwrap();
    let damaged_in_the_middle = || {
        let mut bytes = whole.clone();
        bytes[4096..8192].fill(0xaa);
        bytes
    };
    for (bytes, said) in [
        (damaged_in_the_middle(), "it held"),
        (whole[..whole.len() / 2].to_vec(), "malformed"),
    ] {
        fs::write(&db, &bytes).unwrap();
        let mut second = Start::watching(&machine).db(&db).start();
        let log = second.log();
        assert!(log.contains("was damaged") && log.contains(said), "{log}");
        assert!(
            second.json("/api/v1/status")["store"]["notes"][0]
                .as_str()
                .unwrap()
                .contains("was damaged")
        );
        wait_for("ticks", || {
            (second.series("device:sda", "read_bytes").len() > 3).then_some(())
        });
        second.stop(rustix::process::Signal::TERM);
        let set_aside = fs::read_dir(db.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let set_aside: Vec<_> = set_aside
            .filter(|path| path.to_str().unwrap().contains(".damaged-"))
            .filter(|path| fs::read(path).unwrap() == bytes)
            .collect();
        assert_eq!(set_aside.len(), 1, "what was damaged is kept as it was");
    }
}

#[test]
fn a_second_daemon_on_the_same_database_is_refused_in_a_sentence() {
    let machine = Machine::new();
    let first = Start::watching(&machine).start();
    let db = first.db.to_str().unwrap().to_string();
    check(
        &refusal(&["--db", &db]),
        1,
        &[&db, "another cowbell", "--db"],
    );
    let taken = first.taken();
    wait_for("the first to go on", || {
        (first.taken() > taken + 2).then_some(())
    });
}

/// A file system that is full to the last byte; it goes with this value.
struct FullDisk(tempfile::TempDir);

impl FullDisk {
    /// `None` where this user may mount nothing, which is no excuse in CI.
    fn new(prepare: impl FnOnce(&Path)) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "cowbell-test"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI is expected to run as root, with the right to mount"
            );
            eprintln!("left out: no right to mount a small file system");
            return None;
        }
        let disk = Self(folder);
        prepare(disk.0.path());
        disk.fill();
        Some(disk)
    }

    /// It is full when not even a byte fits any more.
    fn fill(&self) {
        let mut ballast = fs::File::create(self.0.path().join("ballast")).unwrap();
        while std::io::Write::write_all(&mut ballast, &[0; 512]).is_ok() {}
    }

    fn make_room(&self) {
        fs::remove_file(self.0.path().join("ballast")).unwrap();
    }

    fn db(&self) -> std::path::PathBuf {
        self.0.path().join("cowbell.db")
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// A sentence of a full disk, in whatever words SQLite finds for it, said once and without its codes.
fn is_plain(error: &str) -> bool {
    let is_said = error.contains("no room is left on its disk") || error.contains("disk is full");
    is_said
        && error.matches("disk is full").count() < 2
        && !error.contains("code")
        && !error.contains("returned")
}

/// Goes on live without room, says so, and keeps all from the start once there is room.
fn goes_on_and_recovers(disk: &FullDisk, machine: &Machine, kept_before: usize) {
    let mut daemon = Start::watching(machine).db(&disk.db()).start();
    wait_for("ticks", || (daemon.taken() >= 10).then_some(()));
    assert_eq!(daemon.get("/").status, 200);
    assert_eq!(daemon.get("/jobs").status, 200);
    // At the first commit at the latest.
    let error = wait_for("the store to say so", || {
        daemon.part("store")["error"].as_str().map(String::from)
    });
    assert!(is_plain(&error), "{error}");
    assert!(
        daemon.log().contains("continuing from memory"),
        "{}",
        daemon.log()
    );
    assert!(
        daemon.series("device:sda", "read_bytes").len() >= 9,
        "what is in memory is drawn"
    );
    disk.make_room();
    wait_for("the store to be well", || {
        daemon.part("store")["ok"].as_bool().filter(|ok| *ok)
    });
    let taken = daemon.taken() as usize;
    daemon.stop(rustix::process::Signal::TERM);
    let kept = kept_ticks(&disk.db()).len();
    assert!(
        kept >= kept_before + taken,
        "{kept} are kept of {kept_before} and {taken}"
    );
}

#[test]
fn a_full_disk_at_the_start_is_gone_on_without() {
    let Some(disk) = FullDisk::new(|_| {}) else {
        return;
    };
    goes_on_and_recovers(&disk, &Machine::new(), 0);
}

#[test]
fn a_full_disk_loses_nothing_of_the_database_that_is_there() {
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).start();
    wait_for("ticks", || (daemon.taken() >= 3).then_some(()));
    daemon.stop(rustix::process::Signal::TERM);
    let before = kept_ticks(&daemon.db).len();
    let Some(disk) = FullDisk::new(|folder| {
        fs::copy(&daemon.db, folder.join("cowbell.db")).unwrap();
    }) else {
        return;
    };
    goes_on_and_recovers(&disk, &machine, before);
}

#[test]
fn a_disk_that_fills_while_the_program_runs_is_recovered_from() {
    let Some(disk) = FullDisk::new(|_| {}) else {
        return;
    };
    disk.make_room();
    let machine = Machine::new();
    let mut daemon = Start::watching(&machine).db(&disk.db()).start();
    wait_for("ticks", || (daemon.taken() >= 3).then_some(()));
    disk.fill();
    for number in 0..300 {
        let name = format!("job{number:0>197}");
        let job = format!(r#"{{"name":"{name}","started_at":"2026-03-01T02:00:00Z"}}"#);
        let json = [("Content-Type", "application/json"), ("Host", "127.0.0.1")];
        let answer = http::put(
            daemon.port,
            &format!("/api/v1/marks/full-{number}"),
            &json,
            &job,
        );
        let message = answer.json()["message"]
            .as_str()
            .unwrap_or_default()
            .to_string();
        match answer.status {
            201 => assert_eq!(message, "", "{answer:?}"),
            202 => {
                assert!(
                    message.starts_with("held in memory, not stored: "),
                    "{answer:?}"
                );
                assert!(message.contains("disk is full"), "{answer:?}");
            }
            _ => panic!("{answer:?}"),
        }
    }
    let error = wait_for("the store to say so", || {
        daemon.part("store")["error"]
            .as_str()
            .filter(|error| error.contains("full"))
            .map(str::to_string)
    });
    assert!(
        error.starts_with("cannot write to the database: ") && is_plain(&error),
        "{error}"
    );
    let taken = daemon.taken();
    wait_for("more ticks", || (daemon.taken() >= taken + 5).then_some(()));
    disk.make_room();
    wait_for("the store to be well", || {
        daemon.part("store")["ok"].as_bool().filter(|ok| *ok)
    });
    let taken = daemon.taken() as usize;
    daemon.stop(rustix::process::Signal::TERM);
    assert_eq!(ask_database(&disk.db(), "SELECT count(*) FROM job"), 300);
    let kept = kept_ticks(&disk.db()).len();
    assert!(kept >= taken, "{kept} are kept of {taken}");
}

#[test]
fn a_recording_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letters.txt");
    fs::write(&file, "Dear Sir or Madam,\n").unwrap();
    check(
        &refusal(&["--replay", file.to_str().unwrap()]),
        1,
        &[file.to_str().unwrap(), "not a recording"],
    );
    check(
        &refusal(&["--replay", "/nowhere/at.all"]),
        1,
        &["/nowhere/at.all"],
    );
}

#[test]
fn a_line_of_diskstats_that_is_nonsense_is_counted_logged_once_and_stops_no_other() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let good = |sectors| line((8, 0), "sda", Done::sectors(sectors, 0));
    let nonsense = |number| format!("   8      48 sdd {number} three many\n");
    for tick in 0..10 {
        machine.write(
            "proc/diskstats",
            &(nonsense(tick) + &good(8_000 * (tick + 1))),
        );
        let now = daemon.taken();
        wait_for("two more ticks", || {
            (daemon.taken() >= now + 2).then_some(())
        });
    }
    let part = daemon.part("diskstats");
    assert_eq!(part["ok"], false);
    let error = part["error"].as_str().unwrap();
    assert!(
        error.contains('1') && error.contains("sdd 9 three many"),
        "{error}"
    );
    assert_eq!(daemon.part("vmstat")["ok"], true);
    let logged = daemon
        .log()
        .lines()
        .filter(|line| line.contains("three many"))
        .count();
    assert_eq!(logged, 1, "logged once, with the line: {}", daemon.log());
    let devices = daemon.json("/api/v1/devices");
    assert_eq!(devices.as_array().unwrap().len(), 1, "{devices}");
    assert_eq!(devices[0]["device"], "sda");
    let moved = wait_for("a series with the reads", || {
        let series = daemon.series("device:sda", "read_bytes");
        series
            .iter()
            .any(|point| point["max"].as_f64() > Some(0.0))
            .then_some(series)
    });
    assert!(!moved.is_empty());
    machine.write("proc/diskstats", &good(1_000_000));
    wait_for("the part to be well again", || {
        (daemon.part("diskstats")["ok"] == true).then_some(())
    });
}

#[test]
fn a_machine_without_diskstats_says_so_and_goes_on() {
    let machine = Machine::new();
    fs::remove_file(machine.root().join("proc/diskstats")).unwrap();
    let daemon = Start::watching(&machine).start();
    let part = daemon.part("diskstats");
    assert_eq!(part["ok"], false);
    assert!(
        part["error"].as_str().unwrap().contains("proc/diskstats"),
        "{part}"
    );
    assert_eq!(daemon.json("/api/v1/devices"), serde_json::json!([]));
    assert_eq!(daemon.part("vmstat")["ok"], true);
}

/// The limit is lowered below a running daemon, which has most of them open.
#[test]
fn with_few_file_descriptors_clients_do_not_keep_it_from_reading() {
    use rustix::process::{Resource, Rlimit, prlimit};
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let open = fs::read_dir(format!("/proc/{}/fd", daemon.pid().as_raw_nonzero()))
        .unwrap()
        .count() as u64;
    let most = (open + 20).max(40);
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    prlimit(Some(daemon.pid()), Resource::Nofile, limit).unwrap();
    // They stay open, and are closed or answered.
    let clients: Vec<_> = (0..60)
        .filter_map(|_| std::net::TcpStream::connect(("127.0.0.1", daemon.port)).ok())
        .collect();
    let before = daemon.log().len();
    let taken = clients.len();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let log = daemon.log()[before..].to_owned();
    assert!(
        !log.contains("Too many open files"),
        "{taken} clients: {log}"
    );
    drop(clients);
    wait_for("an answer", || (daemon.taken() > 25).then_some(()));
    let parts = daemon.json("/api/v1/status")["parts"].to_string();
    assert!(!parts.contains("Too many open files"), "{parts}");
}

#[test]
fn a_thread_that_cannot_start_is_a_sentence() {
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::daemon::cowbell();
    command
        .args(["serve", "--db"])
        .arg(folder.path().join("cowbell.db"));
    if rustix::process::geteuid().is_root() {
        // The limit does not bind root.
        command.uid(65_533).gid(65_533);
    }
    // SAFETY: `setrlimit` may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit {
                rlim_cur: 1,
                rlim_max: 1,
            };
            match libc::setrlimit(libc::RLIMIT_NPROC, &raw const none) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let said = crate::daemon::said(&mut command);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.err.contains("cannot start threads") && said.err.lines().count() == 1,
        "{said:?}"
    );
}
