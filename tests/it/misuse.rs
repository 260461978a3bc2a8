//! A command line that cannot be used is refused in one sentence, by the status 2, and nothing is done.

use crate::daemon::{cowbell, said};

fn check(arguments: &[&str], expected: &str) {
    let found = said(cowbell().args(arguments));
    assert_eq!((found.code, &*found.out), (Some(2), ""), "{arguments:?}: {found:?}");
    assert_eq!(found.err, format!("cowbell: {expected}\n"), "{arguments:?}");
}

#[test]
fn a_command_line_that_cannot_be_used_is_said_in_one_sentence() {
    for (arguments, expected) in [
        (&["foo"][..], "there is no command `foo`; `cowbell --help` lists all"),
        (&["statsu"], "there is no command `statsu`; did you mean `status`? `cowbell --help` lists all"),
        (&["job", "shwo"], "there is no command `shwo`; did you mean `show`? `cowbell job --help` lists all"),
        (
            &["db"],
            "expected a command after `cowbell db`: verify, compact, backup; `cowbell db --help` tells more",
        ),
        (
            &["serve", "--lisen", "x"],
            "there is no option `--lisen`; did you mean `--listen`? `cowbell serve --help` lists all",
        ),
        (&["export", "-x"], "there is no option `-x`; `cowbell export --help` lists all"),
        (
            &["run"],
            "expected `cowbell run <COMMAND>...`, but <COMMAND>... is missing; `cowbell run --help` tells more",
        ),
        (
            &["job", "note", "x"],
            "expected `cowbell job note <JOB> <TEXT>`, but <TEXT> is missing; `cowbell job note --help` tells more",
        ),
        (
            &["job", "note"],
            "expected `cowbell job note <JOB> <TEXT>`, but <JOB> and <TEXT> are missing; `cowbell job note --help` \
             tells more",
        ),
        (&["demo", "--replay", "x"], "there is no option `--replay`; `cowbell demo --help` lists all"),
        (
            &["serve", "--speed", "2"],
            "expected `cowbell serve --replay <FILE> --speed <SPEED>`, but --replay <FILE> is missing; `cowbell serve \
             --help` tells more",
        ),
        (
            &["job", "show", "1", "2"],
            "expected `cowbell job show [OPTIONS] <ID>`, but found `2` as well; `cowbell job show --help` tells more",
        ),
        (
            &["status", "extra"],
            "expected `cowbell status [OPTIONS]`, but found `extra` as well; `cowbell status --help` tells more",
        ),
        (&["--listen"], "--listen <ADDR> needs a value, but none was given"),
        (&["job", "compare", "--set"], "--set <NAME> needs a value, but none was given"),
        (&["job", "compare", "--json", "--csv", "1"], "expected one of --json and --csv, but found both"),
        (&["status", "--db", "a", "--db", "b"], "--db <PATH> can be given once only"),
        (&["job", "show", "--json=3", "1"], "--json takes no value; `cowbell job show --help` tells more"),
        (
            &["export", "--format", "xml"],
            "--format <FORMAT> cannot be used: expected one of csv, json, sqlite",
        ),
        (
            &["export", "--resolution", "\u{1b}[31mred"],
            "--resolution <LENGTH> cannot be used: expected tick, 10s or 1min",
        ),
        (&["job", "show", "x"], "<ID> cannot be used: expected a whole number, but found `x`"),
        (
            &["job", "start", "a", "--repeat", "0"],
            "--repeat <K> cannot be used: expected 1 to 4294967295, but found 0",
        ),
        (
            &["--listen", "127.0.0.1:2", "job", "compare"],
            "expected `cowbell job compare <ID>...`, but <ID>... is missing; `cowbell job compare --help` tells more",
        ),
        (&["\u{1b}[31mred"], "there is no command of that name; `cowbell --help` lists all"),
        (&["--\u{1b}[31mred"], "there is no option of that name; `cowbell --help` lists all"),
        (
            &["status", &"x".repeat(10_000)],
            "expected `cowbell status [OPTIONS]`, but found another word as well; `cowbell status --help` tells more",
        ),
    ] {
        check(arguments, expected);
    }
}

#[test]
fn the_commands_of_jobs_are_named_where_none_was_given() {
    let found = said(cowbell().arg("job"));
    assert_eq!((found.code, found.err.lines().count()), (Some(2), 1), "{found:?}");
    assert!(
        found.err.starts_with("cowbell: expected a command after `cowbell job`: list, show, "),
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
    let expected = format!("{there} is there already, and is not overwritten; name another file");
    let found = said(cowbell().args(["record", there]));
    assert_eq!((found.code, found.err), (Some(1), format!("cowbell: {expected}\n")));
}

#[test]
fn that_no_daemon_answers_is_said_once() {
    let why = "no daemon answers at 127.0.0.1:1 (Connection refused (os error 111)): is `cowbell serve` running, and \
               with this `listen`?";
    for arguments in [&["job", "list"][..], &["job", "start", "a"], &["job", "note", "a", "b"]] {
        let found = said(cowbell().args(["--listen", "127.0.0.1:1"]).args(arguments));
        assert_eq!((found.code, found.err), (Some(1), format!("cowbell: {why}\n")), "{arguments:?}");
    }
    let found = said(cowbell().args(["--listen", "127.0.0.1:1", "status"]));
    assert_eq!((found.code, found.out), (Some(3), format!("COWBELL UNKNOWN - {why}\n")));
}
