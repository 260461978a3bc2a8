//! `cowbell run` stands in the way of a command as little as a shell does.

use std::io::{BufRead, BufReader, Write};
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
    command.args(["run", "--listen", &format!("127.0.0.1:{port}")]).args(arguments);
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
    jobs.as_array().unwrap().iter().find(|job| job["name"] == name).cloned()
}

#[test]
fn output_and_exit_status_are_the_commands_own() {
    let (_machine, daemon) = watching();
    for code in [0, 1, 7, 255] {
        let script = format!("printf 'out\\n\\001'; printf err >&2; exit {code}");
        let found = said(&mut run(daemon.port, &["--", "sh", "-c", &script]));
        assert_eq!((found.code, &*found.out, &*found.err), (Some(code), "out\n\u{1}", "err"));
    }
}

#[test]
fn input_and_options_reach_the_command() {
    let (_machine, daemon) = watching();
    let mut child = run(daemon.port, &["--", "sh", "-c", "cat; echo \"$@\"", "sh", "--name", "-x", "--"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"in\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "in\n--name -x --\n");
}

#[test]
fn a_command_that_a_signal_ends_ends_this_program_by_the_same_signal() {
    let (_machine, daemon) = watching();
    for (name, number) in [("KILL", 9), ("TERM", 15), ("HUP", 1), ("INT", 2), ("USR1", 10)] {
        let mut command = run(daemon.port, &["--name", name, "--", "sh", "-c", &format!("kill -{name} $$")]);
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
    assert!(found.err.starts_with("cowbell run: ") && found.err.lines().count() == 1, "{found:?}");
    assert!(found.err.contains(&format!("127.0.0.1:{port}")), "{found:?}");
}

#[test]
fn a_daemon_that_is_stopped_holds_nothing_up_for_long() {
    let (_machine, mut daemon) = watching();
    kill_process(daemon.pid(), Signal::STOP).unwrap();
    let began = Instant::now();
    let found = said(&mut run(daemon.port, &["--", "sh", "-c", "echo out; exit 7"]));
    let took = began.elapsed();
    kill_process(daemon.pid(), Signal::CONT).unwrap();
    assert_eq!((found.code, &*found.out), (Some(7), "out\n"));
    assert!(found.err.starts_with("cowbell run: "), "{found:?}");
    assert!(took < Duration::from_secs(6), "it took {took:?}");
    daemon.stop(Signal::TERM);
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
    let running = wait_at_most(Duration::from_secs(5), "a running job", || job(&daemon, "sh"));
    assert_eq!((&running["ended_at"], &running["outcome"]), (&Value::Null, &Value::Null), "{running}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let ended = wait_at_most(Duration::from_secs(2), "its end", || {
        job(&daemon, "sh").filter(|job| !job["ended_at"].is_null())
    });
    assert_eq!(ended["id"], running["id"], "one run, one job");
}

#[test]
fn the_daemon_is_found_by_the_configuration() {
    let (_machine, daemon) = watching();
    let config = daemon.folder.path().join("of-the-client.toml");
    std::fs::write(&config, format!("listen = \"127.0.0.1:{}\"\n", daemon.port)).unwrap();
    let mut command = cowbell();
    command.arg("run").arg("--config").arg(&config).args(["--name", "found", "--", "true"]);
    assert_eq!(said(&mut command).err, "");
    wait_at_most(Duration::from_secs(2), "the job", || job(&daemon, "found"));
}

#[test]
fn signals_to_the_program_reach_the_command() {
    let (_machine, daemon) = watching();
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::HUP, "HUP")] {
        let script = format!(
            "trap 'echo got {name}; exit 5' {name}; echo ready; for i in $(seq 250); do sleep 0.02; done"
        );
        let mut child =
            run(daemon.port, &["--", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(lines.next().as_deref(), Some(&*format!("got {name}")));
        assert_eq!(child.wait().unwrap().code(), Some(5));
    }
}

#[test]
fn the_program_ends_with_its_command_though_a_grandchild_holds_its_output() {
    let (_machine, daemon) = watching();
    let began = Instant::now();
    let status =
        run(daemon.port, &["--", "sh", "-c", "sleep 20 & exit 3"]).stdout(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(began.elapsed() < Duration::from_secs(10), "it waited {:?}", began.elapsed());
}
