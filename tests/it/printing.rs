//! What is printed to where there is no room for it is an error, and to somebody who went away it is none.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::daemon::{Daemon, Start, cowbell, free_port, said};
use crate::machine::{Done, Machine};
use crate::tape::{Snapshot, Tape};

/// A host whose snapshot was there for a while.
fn night() -> (Tape, Daemon) {
    let mut tape = Tape::new(std::time::Duration::from_secs(1));
    for second in 0..60_u32 {
        let snapshot = if second < 40 {
            Snapshot::Filled(f64::from(second))
        } else {
            Snapshot::Absent
        };
        tape.tick(snapshot, Done::default(), Done::default());
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(60);
    (tape, daemon)
}

/// Every command that prints something, with a new file in this folder where it makes one.
fn commands(daemon: &Daemon) -> Vec<Command> {
    let new = |name: &str| {
        daemon
            .folder
            .path()
            .join(name)
            .to_str()
            .unwrap()
            .to_string()
    };
    let lines: [Vec<String>; 13] = [
        vec!["status".into()],
        words("job list"),
        words("job list --json"),
        words("job show 1"),
        words("job show 1 --markdown"),
        words("job show 1 --json"),
        [words("job report 1 -o"), vec![new("report.html")]].concat(),
        [words("job export 1 -o"), vec![new("job.json")]].concat(),
        words("check"),
        words("db verify"),
        [words("db backup"), vec![new("copy.db")]].concat(),
        words("export"),
        [words("export --output"), vec![new("export.csv")]].concat(),
    ];
    let listen = format!("127.0.0.1:{}", daemon.port);
    let command = |line: &Vec<String>| {
        let mut command = cowbell();
        command
            .args(line)
            .env("COWBELL_LISTEN", &listen)
            .env("COWBELL_DB", &daemon.db);
        command
    };
    lines.iter().map(command).collect()
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

/// How it ends, and what it says on standard error.
fn ended(command: &mut Command, out: Stdio) -> (Option<i32>, String) {
    let mut child = command.stdout(out).stderr(Stdio::piped()).spawn().unwrap();
    // Nothing else here holds the other end.
    command.stdout(Stdio::null());
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    (child.wait().unwrap().code(), err)
}

fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

#[test]
fn what_cannot_be_printed_is_an_error_in_one_sentence() {
    let (_tape, daemon) = night();
    for mut command in commands(&daemon) {
        let (code, err) = ended(&mut command, full());
        assert!(
            code.is_some_and(|code| (1..=3).contains(&code)),
            "{command:?}: {code:?}, {err}"
        );
        assert_eq!(err.lines().count(), 1, "{command:?}: {err}");
        let is_said = err.starts_with("cowbell: cannot ")
            && err.ends_with("No space left on device (os error 28)\n");
        assert!(is_said, "{command:?}: {err}");
    }
}

#[test]
fn an_export_that_is_made_is_no_failed_one_where_nobody_can_be_told() {
    let (_tape, daemon) = night();
    let file = daemon.folder.path().join("export.csv");
    let (code, err) = ended(
        cowbell()
            .arg("export")
            .arg("--db")
            .arg(&daemon.db)
            .arg("--output")
            .arg(&file),
        full(),
    );
    let expected =
        "cowbell: cannot write to standard output: No space left on device (os error 28)\n";
    assert_eq!((code, &*err, file.exists()), (Some(1), expected, true));
}

#[test]
fn who_reads_and_goes_away_hears_of_no_error() {
    let (_tape, daemon) = night();
    for mut command in commands(&daemon) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, err) = ended(&mut command, writer.into());
        // Some exit by what they found, as without a pipe.
        assert!(
            code.is_some_and(|code| code <= 3) && err.is_empty(),
            "{command:?}: {code:?}, {err}"
        );
    }
}

#[test]
fn a_plugin_whose_word_is_not_heard_does_not_say_that_all_is_well() {
    let (_tape, daemon) = night();
    let listen = format!("127.0.0.1:{}", daemon.port);
    let status = || {
        let mut command = cowbell();
        command.args(["status", "--listen", &listen]);
        command
    };
    let heard = said(&mut status()).code;
    let unheard = ended(&mut status(), full()).0;
    assert_eq!(unheard, if heard == Some(0) { Some(3) } else { heard });
    let misconfigured = ended(status().args(["--config", "/nowhere"]), full());
    assert_eq!(misconfigured.0, Some(3), "{misconfigured:?}");
}

#[test]
fn a_full_standard_error_changes_no_exit_status() {
    let exits = |arguments: &[&str]| {
        cowbell()
            .args(arguments)
            .stderr(full())
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .code()
    };
    let nobody = format!("127.0.0.1:{}", free_port());
    assert_eq!(exits(&["foo"]), Some(2));
    assert_eq!(exits(&["job", "list", "--listen", &nobody]), Some(1));
    assert_eq!(
        exits(&["run", "--listen", &nobody, "--", "sh", "-c", "exit 7"]),
        Some(7)
    );
    assert_eq!(
        exits(&["run", "--listen", &nobody, "--", "/nowhere"]),
        Some(127)
    );
}

#[test]
fn a_daemon_whose_output_is_full_goes_on_watching() {
    let machine = Machine::new();
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let mut command = cowbell();
    command
        .args(["serve", "--root"])
        .arg(machine.root())
        .arg("--db")
        .arg(folder.path().join("cowbell.db"));
    command.args([
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--interval",
        "100ms",
    ]);
    // A control socket that cannot be made is logged as a warning.
    command.env("XDG_RUNTIME_DIR", "/proc");
    let mut child = command.stdout(full()).stderr(full()).spawn().unwrap();
    let answers = || {
        crate::http::try_get(port, "/api/v1/status")
            .ok()
            .filter(|answer| answer.status == 200)
    };
    crate::wait_for("the first tick", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        answers()
    });
    child.kill().unwrap();
    child.wait().unwrap();
}
