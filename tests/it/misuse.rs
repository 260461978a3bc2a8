//! An invalid command line is refused in one line, with status 2.

use crate::daemon::{cowbell, said};

#[test]
fn an_invalid_command_line_is_one_line_with_status_2() {
    for (arguments, expected) in [
        (&["foo"][..], "unrecognized subcommand 'foo'"),
        (&["job", "shwo"], "a similar subcommand exists: 'show'"),
        (&["db"], "'cowbell db' requires a subcommand"),
        (&["serve", "--lisen", "x"], "a similar argument exists: '--listen'"),
        (
            &["job", "note"],
            "the following required arguments were not provided: <JOB> <TEXT>; Usage: cowbell job note",
        ),
        (&["demo", "--replay", "x"], "unexpected argument '--replay' found"),
        (&["serve", "--speed", "2"], "not provided: --replay <FILE>"),
        (&["job", "show", "1", "2"], "unexpected argument '2' found"),
        (&["job", "compare", "--set"], "a value is required for '--set <NAME>'"),
        (&["job", "compare", "--json", "--csv", "1"], "'--json' cannot be used with '--csv'"),
        (&["status", "--db", "a", "--db", "b"], "'--db <PATH>' cannot be used multiple times"),
        (&["export", "--format", "xml"], "[possible values: csv, json, sqlite]"),
        (&["export", "--resolution", "\u{1b}[31mred"], "expected tick, 10s or 1min"),
        (&["job", "show", "x"], "invalid value 'x' for '<ID>'"),
        (&["job", "start", "a", "--repeat", "0"], "0 is not in 1..="),
        (&["\u{1b}[31mred"], "unrecognized subcommand"),
        (&["status", &"x".repeat(10_000)], "unexpected argument 'xxx"),
    ] {
        let found = said(cowbell().args(arguments));
        assert_eq!((found.code, &*found.out, found.err.lines().count()), (Some(2), "", 1), "{found:?}");
        assert!(
            found.err.starts_with("cowbell: ") && found.err.contains(expected),
            "{arguments:?}: {found:?}"
        );
        assert!(found.err.len() < 1_100 && !found.err.contains('\u{1b}'), "{arguments:?}: {found:?}");
    }
}

#[test]
fn the_commands_of_jobs_are_named_where_none_was_given() {
    let found = said(cowbell().arg("job"));
    assert_eq!((found.code, found.err.lines().count()), (Some(2), 1), "{found:?}");
    assert!(
        found.err.starts_with("cowbell: 'cowbell job' requires a subcommand")
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
            "-h, --help       Print help\n\nOptions of every command:\n      --config",
        ),
        (&["--version"], "cowbell "),
    ] {
        let found = said(cowbell().args(arguments));
        assert_eq!((found.code, &*found.err), (Some(0), ""), "{arguments:?}");
        assert!(found.out.contains(part), "{arguments:?}: {}", found.out);
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
    assert_eq!((found.code, found.err), (Some(1), format!("cowbell: {expected}\n")));
}

#[test]
fn that_no_daemon_answers_is_said_once() {
    let place = crate::daemon::runtime_folder().join("cowbell/control-1");
    let why = format!(
        "no daemon answers ({}: No such file or directory (os error 2)): is `cowbell serve` running, and with this `listen`?",
        place.display()
    );
    for arguments in [&["job", "list"][..], &["job", "start", "a"], &["job", "note", "a", "b"]] {
        let found = said(cowbell().args(["--listen", "127.0.0.1:1"]).args(arguments));
        assert_eq!((found.code, found.err), (Some(1), format!("cowbell: {why}\n")), "{arguments:?}");
    }
    let found = said(cowbell().args(["--listen", "127.0.0.1:1", "status"]));
    assert_eq!((found.code, found.out), (Some(3), format!("COWBELL UNKNOWN - {why}\n")));
}
