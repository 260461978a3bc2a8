//! `cowbell run` stands in the way of a command as little as a shell does.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::{Daemon, Start, cowbell, free_port, said, time};
use crate::machine::Machine;
use crate::wait_at_most;

fn run(port: u16, arguments: &[&str]) -> Command {
    let mut command = cowbell();
    command
        .args(["run", "--listen", &format!("127.0.0.1:{port}")])
        .args(arguments);
    command
}

fn watching() -> (Machine, Daemon) {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    (machine, daemon)
}

/// Ticks of a minute: whatever is listed within 2 s did not wait for a tick.
fn watching_slowly() -> (Machine, Daemon) {
    let machine = Machine::new();
    let root = machine.root().to_str().unwrap().to_string();
    let daemon = Start::with(&["serve", "--interval", "60s", "--root", &root]).start();
    (machine, daemon)
}

fn job(daemon: &Daemon, name: &str) -> Option<Value> {
    let jobs = daemon.json("/api/v1/jobs");
    jobs.as_array()
        .unwrap()
        .iter()
        .find(|job| job["name"] == name)
        .cloned()
}

#[test]
fn output_and_exit_status_are_the_commands_own() {
    let (_machine, daemon) = watching();
    for code in [0, 1, 7, 255] {
        let script = format!("printf 'out\\n\\001'; printf err >&2; exit {code}");
        let found = said(&mut run(daemon.port, &["--", "sh", "-c", &script]));
        assert_eq!(
            (found.code, &*found.out, &*found.err),
            (Some(code), "out\n\u{1}", "err")
        );
    }
}

#[test]
fn input_and_options_reach_the_command() {
    let (_machine, daemon) = watching();
    let mut child = run(
        daemon.port,
        &[
            "--",
            "sh",
            "-c",
            "cat; echo \"$@\"",
            "sh",
            "--name",
            "-x",
            "--",
        ],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    child.stdin.take().unwrap().write_all(b"in\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "in\n--name -x --\n"
    );
}

#[test]
fn a_command_that_a_signal_ends_ends_this_program_by_the_same_signal() {
    let (_machine, daemon) = watching();
    for (name, number) in [
        ("KILL", 9),
        ("TERM", 15),
        ("HUP", 1),
        ("INT", 2),
        ("USR1", 10),
    ] {
        let mut command = run(
            daemon.port,
            &[
                "--name",
                name,
                "--",
                "sh",
                "-c",
                &format!("kill -{name} $$"),
            ],
        );
        let status = command.status().unwrap();
        assert_eq!(status.signal(), Some(number), "SIG{name}: {status:?}");
        let outcome = wait_at_most(Duration::from_secs(2), "an outcome", || {
            job(&daemon, name)?["outcome"].as_str().map(String::from)
        });
        assert_eq!(outcome, "failed", "SIG{name}");
    }
}

#[test]
fn a_command_that_cannot_be_started_is_said_as_a_shell_says_it() {
    let (_machine, daemon) = watching();
    let found = said(&mut run(daemon.port, &["--", "/nowhere/at-all"]));
    assert_eq!((found.code, &*found.out), (Some(127), ""));
    assert!(found.err.contains("/nowhere/at-all"), "{found:?}");
    let found = said(&mut run(daemon.port, &["--", "/etc/passwd"]));
    assert_eq!((found.code, &*found.out), (Some(126), ""));
}

#[test]
fn without_a_daemon_the_command_runs_all_the_same() {
    let port = free_port();
    let found = said(&mut run(port, &["--", "sh", "-c", "echo out; exit 7"]));
    assert_eq!((found.code, &*found.out), (Some(7), "out\n"));
    assert!(
        found.err.starts_with("cowbell run: ") && found.err.lines().count() == 1,
        "{found:?}"
    );
    assert!(found.err.contains(&format!("control-{port}")), "{found:?}");
}

#[test]
fn a_daemon_that_is_stopped_holds_nothing_up_for_long() {
    let (_machine, mut daemon) = watching();
    kill_process(daemon.pid(), Signal::STOP).unwrap();
    let began = Instant::now();
    let found = said(&mut run(
        daemon.port,
        &["--", "sh", "-c", "echo out; exit 7"],
    ));
    let took = began.elapsed();
    kill_process(daemon.pid(), Signal::CONT).unwrap();
    assert_eq!((found.code, &*found.out), (Some(7), "out\n"));
    assert!(found.err.starts_with("cowbell run: "), "{found:?}");
    assert!(took < Duration::from_secs(4), "it took {took:?}");
    daemon.stop(Signal::TERM);
}

/// Accepts at the control socket of this port, and never answers.
fn mute() -> (u16, UnixListener) {
    let port = free_port();
    let place = crate::daemon::runtime_folder().join(format!("cowbell/control-{port}"));
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    let _ = std::fs::remove_file(&place);
    (port, UnixListener::bind(place).unwrap())
}

#[test]
fn a_daemon_that_is_mute_is_waited_for_once_at_a_beginning_and_once_at_an_end() {
    let (port, _mute) = mute();
    let began = Instant::now();
    let found = said(&mut run(
        port,
        &["--repeat", "5", "--", "sh", "-c", "echo out"],
    ));
    let took = began.elapsed();
    assert_eq!(
        (found.code, &*found.out),
        (Some(0), "out\nout\nout\nout\nout\n")
    );
    assert!(took < Duration::from_secs(4), "it took {took:?}");
    assert!(
        found
            .err
            .starts_with("cowbell run: the job may not be recorded: "),
        "{found:?}"
    );
}

#[test]
fn a_signal_ends_the_telling_at_once_and_the_status_is_the_commands() {
    let (port, _mute) = mute();
    let mut child = run(port, &["--", "sh", "-c", "exit 7"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let began = Instant::now();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(
        began.elapsed() < Duration::from_millis(600),
        "it took {:?}",
        began.elapsed()
    );
}

#[test]
fn a_command_shorter_than_a_tick_is_listed_within_two_seconds() {
    let (_machine, daemon) = watching_slowly();
    for (name, command, outcome) in [("good", "true", "succeeded"), ("bad", "false", "failed")] {
        said(&mut run(daemon.port, &["--name", name, "--", command]));
        let job = wait_at_most(Duration::from_secs(2), "the job with its outcome", || {
            job(&daemon, name).filter(|job| !job["outcome"].is_null())
        });
        assert_eq!(
            (job["kind"].as_str(), job["outcome"].as_str()),
            (Some("command"), Some(outcome)),
            "{job}"
        );
        assert!(time(&job["ended_at"]) >= time(&job["started_at"]), "{job}");
        for key in ["vg", "lv", "origin", "peak_fill_percent"] {
            assert_eq!(job[key], Value::Null, "{key} is not known");
        }
    }
}

#[test]
fn a_job_is_called_by_its_command_where_no_name_is_given_and_runs_while_it_runs() {
    let (_machine, daemon) = watching();
    let mut child = run(daemon.port, &["--", "/bin/sh", "-c", "read line; exit 0"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let running = wait_at_most(Duration::from_secs(5), "a running job", || {
        job(&daemon, "sh")
    });
    assert_eq!(
        (&running["ended_at"], &running["outcome"]),
        (&Value::Null, &Value::Null),
        "{running}"
    );
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let ended = wait_at_most(Duration::from_secs(2), "its end", || {
        job(&daemon, "sh").filter(|job| !job["ended_at"].is_null())
    });
    assert_eq!(ended["id"], running["id"], "one run, one job");
}

#[test]
fn a_command_of_any_bytes_is_run() {
    let (_machine, daemon) = watching();
    let folder = tempfile::tempdir().unwrap();
    for (bytes, name) in [
        (&b"p\xffq"[..], "p\u{fffd}q"),
        (b"a\nb", "a_b"),
        (b"\n\x07", "command"),
    ] {
        let program = folder.path().join(OsStr::from_bytes(bytes));
        std::os::unix::fs::symlink("/bin/echo", &program).unwrap();
        let mut command = run(daemon.port, &["--"]);
        let output = command
            .arg(&program)
            .arg(OsStr::from_bytes(b"a\xfe\xff"))
            .output()
            .unwrap();
        assert_eq!(
            (&*output.stdout, &*output.stderr),
            (&b"a\xfe\xff\n"[..], &b""[..]),
            "{name}"
        );
        wait_at_most(Duration::from_secs(2), "the job", || job(&daemon, name));
    }
}

#[test]
fn the_daemon_is_found_by_the_configuration() {
    let (_machine, daemon) = watching();
    let config = daemon.folder.path().join("of-the-client.toml");
    std::fs::write(&config, format!("listen = \"127.0.0.1:{}\"\n", daemon.port)).unwrap();
    let mut command = cowbell();
    command
        .arg("run")
        .arg("--config")
        .arg(&config)
        .args(["--name", "found", "--", "true"]);
    assert_eq!(said(&mut command).err, "");
    wait_at_most(Duration::from_secs(2), "the job", || job(&daemon, "found"));
}

#[test]
fn signals_to_the_program_reach_the_command() {
    let (_machine, daemon) = watching();
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let script = format!(
            "trap 'echo got {name}; exit 5' {name}; echo ready; for i in $(seq 250); do sleep 0.02; done"
        );
        let mut child = run(daemon.port, &["--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(lines.next().as_deref(), Some(&*format!("got {name}")));
        assert_eq!(child.wait().unwrap().code(), Some(5));
    }
}

/// What a command says that a shell starts, after these words of the shell, with and without `cowbell run`.
fn under_a_shell(words: &str, after: &str, command: &str) -> (String, String) {
    let run = format!(
        "{} run --listen 127.0.0.1:{} --",
        env!("CARGO_BIN_EXE_cowbell"),
        free_port()
    );
    let said = |program: &str| {
        let script = format!("{words}; {program} {command} {after}; exit 0");
        String::from_utf8(
            Command::new("sh")
                .args(["-c", &script])
                .output()
                .unwrap()
                .stdout,
        )
        .unwrap()
    };
    (said(&run), said(""))
}

#[test]
fn a_command_finds_signals_ignored_and_files_closed_as_they_came() {
    // Up to 31; those above are libc's own.
    let status = "/bin/grep -oE '^Sig(Ign|Blk)|[0-9a-f]{8}$' /proc/self/status";
    for words in [
        "trap '' HUP INT QUIT",
        "trap '' PIPE USR1",
        "trap '' CHLD TERM",
        ":",
    ] {
        let (found, expected) = under_a_shell(words, "", status);
        assert!(expected.contains("SigIgn\n"), "{expected}");
        assert_eq!(found, expected, "{words}");
    }
    let (found, expected) = under_a_shell(":", "& wait", status);
    assert_eq!(
        found, expected,
        "INT and QUIT are ignored in the background"
    );
    for after in ["<&-", "2>&-", "<&- 2>&-"] {
        let (found, expected) = under_a_shell(":", after, "/bin/ls /proc/self/fd");
        assert_eq!(found, expected, "{after}");
    }
}

#[test]
fn a_hang_up_that_was_ignored_does_not_end_the_command() {
    let line = format!(
        "trap '' HUP; exec {} run --listen 127.0.0.1:{} -- sh -c 'echo ready; read line; echo {{}}'",
        env!("CARGO_BIN_EXE_cowbell"),
        free_port()
    );
    let mut child = Command::new("sh")
        .args(["-c", &line])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    drop(child.stdin.take());
    assert_eq!(lines.next().as_deref(), Some("{}"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_program_ends_with_its_command_though_a_grandchild_holds_its_output() {
    let (_machine, daemon) = watching();
    let began = Instant::now();
    let status = run(daemon.port, &["--", "sh", "-c", "sleep 20 & exit 3"])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "it waited {:?}",
        began.elapsed()
    );
}

fn jobs(daemon: &Daemon, name: &str) -> Vec<Value> {
    let jobs = daemon.json("/api/v1/jobs");
    jobs.as_array()
        .unwrap()
        .iter()
        .filter(|job| job["name"] == name)
        .rev()
        .cloned()
        .collect()
}

/// Waits until so many jobs of this name have ended.
fn ended(daemon: &Daemon, name: &str, count: usize) -> Vec<Value> {
    wait_at_most(Duration::from_secs(5), "the jobs' ends", || {
        let jobs = jobs(daemon, name);
        (jobs.len() == count && jobs.iter().all(|job| !job["outcome"].is_null())).then_some(jobs)
    })
}

#[test]
fn repeats_are_jobs_of_one_set_each_after_its_pause() {
    let (_machine, daemon) = watching();
    let options = [
        "--name",
        "copy",
        "--variant",
        "gzip",
        "--repeat",
        "3",
        "--settle",
        "300ms",
    ];
    let began = Instant::now();
    let found = said(run(daemon.port, &options).args(["--", "echo", "done"]));
    assert_eq!(
        (found.code, &*found.out, &*found.err),
        (Some(0), "done\ndone\ndone\n", "")
    );
    assert!(
        began.elapsed() > Duration::from_millis(900),
        "{:?}",
        began.elapsed()
    );
    for (job, repeat) in ended(&daemon, "copy", 3).iter().zip(1..) {
        let label = serde_json::json!({"set": "copy", "variant": "gzip", "repeat": repeat});
        assert_eq!(
            (&job["label"], job["outcome"].as_str()),
            (&label, Some("succeeded"))
        );
    }
    said(&mut run(
        daemon.port,
        &[
            "--name", "alone", "--set", "nights", "--repeat", "1", "--", "true",
        ],
    ));
    assert_eq!(
        ended(&daemon, "alone", 1)[0]["label"],
        serde_json::json!({"set": "nights"})
    );
    said(&mut run(daemon.port, &["--name", "plain", "--", "true"]));
    assert_eq!(ended(&daemon, "plain", 1)[0]["label"], Value::Null);
}

#[test]
fn the_first_run_that_fails_is_the_last() {
    let (machine, daemon) = watching();
    let file = machine.root().join("runs").to_str().unwrap().to_string();
    let script = format!("echo run >> {file}; test $(wc -l < {file}) -lt 2 || exit 7");
    let found = said(&mut run(
        daemon.port,
        &["--name", "two", "--repeat", "5", "--", "sh", "-c", &script],
    ));
    assert_eq!(
        (found.code, &*found.err),
        (
            Some(7),
            "cowbell run: the command failed in run 2 of 5; no further run is started\n"
        )
    );
    let outcomes: Vec<Value> = ended(&daemon, "two", 2)
        .iter()
        .map(|job| job["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["succeeded", "failed"]);
}

#[test]
fn a_signal_ends_the_repeats_also_between_two_runs() {
    let (_machine, daemon) = watching();
    let options = [
        "--name", "many", "--repeat", "5", "--settle", "60s", "--", "true",
    ];
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        let mut child = run(daemon.port, &options)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(number));
        let mut said = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
        assert_eq!(
            said,
            "cowbell run: a signal arrived before run 1 of 5, which is not started\n"
        );
    }
    let script = "trap 'exit 0' TERM; echo ready; for i in $(seq 250); do sleep 0.02; done";
    let mut child = run(
        daemon.port,
        &[
            "--name", "trapped", "--repeat", "5", "--", "sh", "-c", script,
        ],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(
        (
            jobs(&daemon, "many").len(),
            ended(&daemon, "trapped", 1).len()
        ),
        (0, 1)
    );
}

/// `/proc/PID/stat` of a process of this name.
fn process_stat(pid: u32, name: &str) -> String {
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, rest) = own.rsplit_once(") ").unwrap();
    format!("{pid} ({name}) {rest}")
}

/// A machine on which these programs run, as `cowbell run` sees it.
fn drop_caches(machine: &Machine, option: &str) -> crate::daemon::Said {
    let mut command = cowbell();
    command
        .args([
            "run",
            "--listen",
            &format!("127.0.0.1:{}", free_port()),
            "--root",
        ])
        .arg(machine.root());
    said(command.args([option, "--", "echo", "done"]))
}

#[test]
fn caches_are_dropped_before_a_run_but_not_beside_a_database() {
    let machine = Machine::new();
    let found = drop_caches(&machine, "--drop-caches");
    assert_eq!(
        (found.code, &*found.out),
        (Some(2), ""),
        "there is no such file: {found:?}"
    );
    assert!(
        found.err.contains("cannot drop caches by") && found.err.lines().count() == 1,
        "{found:?}"
    );
    let dropped =
        || std::fs::read_to_string(machine.root().join("proc/sys/vm/drop_caches")).unwrap();
    machine.write("proc/sys/vm/drop_caches", "");
    machine.write("proc/1/stat", &process_stat(1, "systemd"));
    let found = drop_caches(&machine, "--drop-caches");
    assert_eq!(
        (found.code, &*found.out, &*dropped()),
        (Some(0), "done\n", "3\n")
    );
    for server in [
        "mysqld",
        "mariadbd",
        "postgres",
        "mongod",
        "redis-server",
        "ora_pmon_XE",
    ] {
        machine.write("proc/sys/vm/drop_caches", "");
        machine.write("proc/77/stat", &process_stat(77, server));
        let found = drop_caches(&machine, "--drop-caches");
        assert_eq!(
            (found.code, &*found.out, &*dropped()),
            (Some(2), "", ""),
            "{server}"
        );
        assert!(
            found.err.contains(&format!("`{server}` runs here")),
            "{found:?}"
        );
        assert_eq!(found.err.lines().count(), 1, "{found:?}");
    }
    let found = drop_caches(&machine, "--force-drop-caches");
    assert_eq!(
        (found.code, &*found.out, &*dropped()),
        (Some(0), "done\n", "3\n")
    );
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_run() {
    let long = "x".repeat(10_000);
    for (option, value, part) in [
        ("--name", &*long, "1 to 200 letters"),
        ("--name", "a\u{7}b", "without control characters"),
        ("--set", "", "1 to 200 letters"),
        ("--variant", "\n", "without control characters"),
        ("--repeat", "0", "0 is not in 1..=10000"),
        ("--repeat", "many", "--repeat"),
        ("--settle", "-1s", "expected a duration from 0s to 24h"),
        ("--settle", "soon", "expected a duration from 0s to 24h"),
    ] {
        let argument = format!("{option}={value}");
        let found = said(&mut run(free_port(), &[&argument, "--", "echo", "done"]));
        assert_eq!(
            (found.code, &*found.out),
            (Some(2), ""),
            "{option} {found:?}"
        );
        assert!(found.err.contains(part), "{option}: {found:?}");
    }
}

#[test]
fn two_at_a_time_are_two_jobs_also_under_one_name() {
    let (_machine, daemon) = watching();
    let start = || {
        run(
            daemon.port,
            &["--name", "same", "--", "sh", "-c", "sleep 0.3"],
        )
        .spawn()
        .unwrap()
    };
    let mut children = [start(), start()];
    assert!(
        children
            .iter_mut()
            .all(|child| child.wait().unwrap().success())
    );
    let jobs = ended(&daemon, "same", 2);
    assert_ne!(jobs[0]["id"], jobs[1]["id"]);
}

#[test]
fn a_daemon_that_is_restarted_meanwhile_goes_on_with_the_same_job() {
    let machine = Machine::new();
    let mut first = Start::watching(&machine).start();
    let mut child = run(
        first.port,
        &["--name", "long", "--", "sh", "-c", "read line"],
    )
    .stdin(Stdio::piped())
    .spawn()
    .unwrap();
    let begun = wait_at_most(Duration::from_secs(5), "a running job", || {
        job(&first, "long")
    });
    first.stop(Signal::KILL);
    let mut again = Start::watching(&machine).db(&first.db);
    again.port = Some(first.port);
    let second = again.start();
    drop(child.stdin.take());
    child.wait().unwrap();
    let jobs = ended(&second, "long", 1);
    assert_eq!(
        (&jobs[0]["id"], &jobs[0]["started_at"]),
        (&begun["id"], &begun["started_at"])
    );
    assert_eq!(jobs[0]["partly_seen"], true);
}

#[test]
fn a_run_that_began_before_the_daemon_is_seen_in_part() {
    let machine = Machine::new();
    let port = free_port();
    let mut child = run(port, &["--name", "early", "--", "sh", "-c", "read line"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut start = Start::watching(&machine);
    start.port = Some(port);
    let daemon = start.start();
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(ended(&daemon, "early", 1)[0]["partly_seen"], true);
}

#[test]
fn invalid_values_are_refused_in_one_line() {
    let (long, coloured) = ("x".repeat(10_000), "a\u{1b}[31mb");
    for (arguments, expected) in [
        (
            ["--name", &long],
            "for '--name <NAME>': expected a name to be 1 to 200 letters",
        ),
        (
            ["--set", coloured],
            "for '--set <SET>': expected a name to be 1 to 200 letters",
        ),
        (
            ["--settle", "soon"],
            "for '--settle <LENGTH>': expected a duration from 0s to 24h",
        ),
        (["--repeat", "-1"], "for '--repeat <K>': "),
        (["--repeat", "many"], "for '--repeat <K>': invalid digit"),
    ] {
        let found = said(run(free_port(), &arguments).args(["--", "echo", "it ran"]));
        assert_eq!(
            (found.code, &*found.out, found.err.lines().count()),
            (Some(2), "", 1),
            "{}",
            found.err
        );
        assert!(
            found.err.contains(expected) && !found.err.contains(['\u{1b}']),
            "{}",
            found.err
        );
        assert!(found.err.len() < 300, "{}", found.err);
    }
}
