//! An invalid command line is refused in one line, with status 2.

use std::os::unix::fs::MetadataExt;

use crate::daemon::{cowbell, said};

#[test]
fn an_invalid_command_line_is_one_line_with_status_2() {
    for (arguments, expected) in [
        (&["foo"][..], "unrecognized subcommand 'foo'"),
        (&["job", "shwo"], "a similar subcommand exists: 'show'"),
        (&["db"], "'cowbell db' requires a subcommand"),
        (
            &["serve", "--lisen", "x"],
            "a similar argument exists: '--listen'",
        ),
        (
            &["job", "note"],
            "the following required arguments were not provided: <JOB> <TEXT>; Usage: cowbell job note",
        ),
        (
            &["demo", "--replay", "x"],
            "unexpected argument '--replay' found",
        ),
        (&["serve", "--speed", "2"], "not provided: --replay <FILE>"),
        (&["job", "show", "1", "2"], "unexpected argument '2' found"),
        (
            &["job", "compare", "--set"],
            "a value is required for '--set <NAME>'",
        ),
        (
            &["job", "compare", "--json", "--csv", "1"],
            "'--json' cannot be used with '--csv'",
        ),
        (
            &["check", "--db", "a", "--db", "b"],
            "'--db <PATH>' cannot be used multiple times",
        ),
        (&["status", "--db", "a"], "unexpected argument '--db' found"),
        (
            &["--db", "a", "status"],
            "the subcommand 'status' has no option '--db'",
        ),
        (
            &["export", "--format", "xml"],
            "[possible values: csv, json, openmetrics]",
        ),
        (
            &["export", "--resolution", "\u{1b}[31mred"],
            "expected tick, 10s or 1min",
        ),
        (&["job", "show", "x"], "invalid value 'x' for '<ID>'"),
        (&["job", "start", "a", "--repeat", "0"], "0 is not in 1..="),
        (&["\u{1b}[31mred"], "unrecognized subcommand"),
        (&["status", &"x".repeat(10_000)], "unexpected argument 'xxx"),
    ] {
        let found = said(cowbell().args(arguments));
        assert_eq!(
            (found.code, &*found.out, found.err.lines().count()),
            (Some(2), "", 1),
            "{found:?}"
        );
        assert!(
            found.err.starts_with("cowbell: ") && found.err.contains(expected),
            "{arguments:?}: {found:?}"
        );
        assert!(
            found.err.len() < 1_100 && !found.err.contains('\u{1b}'),
            "{arguments:?}: {found:?}"
        );
    }
}

#[test]
fn the_commands_of_jobs_are_named_where_none_was_given() {
    let found = said(cowbell().arg("job"));
    assert_eq!(
        (found.code, found.err.lines().count()),
        (Some(2), 1),
        "{found:?}"
    );
    assert!(
        found
            .err
            .starts_with("cowbell: 'cowbell job' requires a subcommand")
            && found.err.contains("list, show"),
        "{found:?}"
    );
}

#[test]
fn help_and_version_are_as_they_were() {
    for (arguments, part) in [
        (&["--help"][..], "Usage: cowbell [OPTIONS] [COMMAND]"),
        (&["job", "--help"], "Usage: cowbell job [OPTIONS] <COMMAND>"),
        (
            &["job", "note", "--help"],
            "-h, --help       Print help\n\nCommon options:\n      --config",
        ),
        (&["--version"], "cowbell "),
    ] {
        let found = said(cowbell().args(arguments));
        assert_eq!((found.code, &*found.err), (Some(0), ""), "{arguments:?}");
        assert!(found.out.contains(part), "{arguments:?}: {}", found.out);
    }
}

/// The help of a command and of all commands below it.
fn helps(command: &[String]) -> Vec<(String, String)> {
    let found = said(cowbell().args(command).arg("--help"));
    assert_eq!((found.code, &*found.err), (Some(0), ""), "{command:?}");
    let names = found
        .out
        .split("\n\n")
        .filter_map(|part| part.strip_prefix("Commands:\n"));
    let names = names
        .flat_map(str::lines)
        .filter(|line| !line.starts_with("   "));
    let below = names.flat_map(|line| {
        let name = line.split_whitespace().next().unwrap().to_string();
        helps(&[command, &[name]].concat())
    });
    below
        .chain([(command.join(" "), found.out.clone())])
        .collect()
}

#[test]
fn help_fits_80_columns_and_has_no_option_without_effect() {
    let helps = helps(&[]);
    assert!(helps.len() > 30, "{}", helps.len());
    for (command, help) in helps {
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
        let first = command.split(' ').next().unwrap();
        let on_database = ["export", "db"].contains(&first);
        let watches = ["", "serve", "record", "support-bundle"].contains(&first);
        let reads_machine = watches || ["reader", "run", "check", "guard"].contains(&first);
        for (option, is_used) in [
            ("--config", !on_database),
            (
                "--listen",
                !on_database && !["reader", "guard"].contains(&first),
            ),
            (
                "--interval",
                watches || ["reader", "config"].contains(&first),
            ),
            (
                "--db",
                on_database || ["", "serve", "check", "demo", "support-bundle"].contains(&first),
            ),
            ("--root", reads_machine),
        ] {
            assert_eq!(
                help.contains(&format!("  {option} <")),
                is_used,
                "{command}: {option}"
            );
        }
    }
}

#[test]
fn a_place_that_cannot_be_used_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    std::fs::write(&there, "").unwrap();
    let there = there.to_str().unwrap();
    let expected = format!("{there} exists and is not overwritten; name another file");
    let found = said(cowbell().args(["record", there]));
    assert_eq!(
        (found.code, found.err),
        (Some(1), format!("cowbell: {expected}\n"))
    );
}

/// A shell in a service inherits `JOURNAL_STREAM` and may send standard error elsewhere.
#[test]
fn errors_have_a_priority_only_if_they_go_to_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stderr");
    let written = |stream: &str, out: &std::fs::File| {
        let mut command = cowbell();
        command.args(["record", folder.path().to_str().unwrap()]);
        command.env("JOURNAL_STREAM", stream);
        command.stderr(out.try_clone().unwrap()).status().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        out.set_len(0).unwrap();
        text
    };
    let out = std::fs::File::options()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap();
    let file = out.metadata().unwrap();
    let own = format!("{}:{}", file.dev(), file.ino());
    let found = written(&own, &out);
    assert!(found.starts_with("<3>"), "{found:?}");
    let found = written("1:1", &out);
    assert!(found.starts_with("cowbell: "), "{found:?}");
}

#[test]
fn that_no_daemon_answers_is_said_once() {
    let place = crate::daemon::runtime_folder().join("cowbell/control-1");
    let why = format!(
        "no daemon answers ({}: No such file or directory (os error 2)): is `cowbell serve` running, and with this `listen`?",
        place.display()
    );
    for arguments in [
        &["job", "list"][..],
        &["job", "start", "a"],
        &["job", "note", "a", "b"],
    ] {
        let found = said(cowbell().args(["--listen", "127.0.0.1:1"]).args(arguments));
        assert_eq!(
            (found.code, found.err),
            (Some(1), format!("cowbell: {why}\n")),
            "{arguments:?}"
        );
    }
    let found = said(cowbell().args(["--listen", "127.0.0.1:1", "status"]));
    assert_eq!(
        (found.code, found.out),
        (Some(3), format!("COWBELL UNKNOWN - {why}\n"))
    );
}
