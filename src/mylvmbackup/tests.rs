//! Configuration files and what mylvmbackup does with them.

use proptest::prelude::*;

use super::plan::{BackupPlan, size_bytes};
use super::{Configuration, parse};

const PACKAGED: &str = include_str!("../../tests/fixtures/mylvmbackup-0.15.conf");

fn plan(text: &str) -> BackupPlan {
    BackupPlan::of(&parse(text))
}

#[test]
fn the_packaged_file_has_the_default_values() {
    let found = parse(PACKAGED);
    assert_eq!(
        (
            &found.invalid_lines,
            &found.duplicate_keys,
            &found.ignored_keys
        ),
        (&vec![], &vec![], &vec![])
    );
    assert_eq!(
        BackupPlan::of(&found),
        BackupPlan::of(&Configuration::default())
    );
    let plan = BackupPlan::of(&found);
    assert_eq!(
        (&*plan.group, &*plan.snapshot, &*plan.size),
        ("mysql", "data_snapshot", "5G")
    );
    assert_eq!(
        (&*plan.mountdir, plan.is_thin),
        ("/var/cache/mylvmbackup/mnt", false)
    );
    let tools: Vec<&str> = plan.tools.iter().map(|tool| &*tool.program).collect();
    assert_eq!(
        tools,
        [
            "lvcreate", "lvremove", "lvs", "mount", "umount", "tar", "gzip"
        ]
    );
    assert_eq!(plan.mycnf.as_deref(), Some("/etc/mysql/my.cnf"));
}

#[test]
fn the_first_line_ending_applies_to_the_file() {
    for text in [
        "[lvm]\r\nvgname=a\r\nlvname=b\r\n",
        "[lvm]\rvgname=a\rlvname=b",
        "[lvm]\nvgname=a\r\nlvname=b\n",
    ] {
        let plan = plan(text);
        assert_eq!((&*plan.group, &*plan.origin), ("a", "b"), "{text:?}");
    }
    assert_eq!(parse("[lvm]\r\nvgname=a\nlvname=b\r\n").invalid_lines, [2]);
}

#[test]
fn a_syntax_error_is_reported_by_line_number_only() {
    for (text, lines) in [
        ("\u{feff}[lvm]\nvgname=a\n", vec![1, 2]),
        ("[lvm]\nrubbish\nvgname=a\nmore rubbish", vec![2, 4]),
        ("vgname=a\n[lvm]\n", vec![1]),
        ("[lvm] # mine\nvgname=a\n", vec![1, 2]),
        ("[lvm]\n=a\n", vec![2]),
        ("\u{0}\u{1}\u{fffd}\n", vec![1]),
    ] {
        assert_eq!(parse(text).invalid_lines, lines, "{text:?}");
    }
    assert!(parse("# nothing\n").is_empty && !parse("[x]").is_empty);
}

#[test]
fn values_include_quotes_and_trailing_comments() {
    let found = parse(
        "[lvm]\nvgname = \"a\" \nlvsize=1G # small\nlvsize=2G\n[lvm]\nlvname=<<END\nb\nEND\n",
    );
    let plan = BackupPlan::of(&found);
    assert_eq!(
        (&*plan.group, &*plan.size, &*plan.origin),
        ("\"a\" ", "1G # small\n2G", "b")
    );
    assert_eq!(found.duplicate_keys, ["lvsize"]);
}

#[test]
fn ignored_keys_are_named_but_secrets_are_not() {
    let found =
        parse("[mysql]\nhunter2=x\n[lvm]\nthin=1\nlvsise=2G\nmy secret=3\n[other]\nprefix=b\n");
    assert_eq!(
        found.ignored_keys,
        [
            "`thin` in line 4, which belongs under [misc]",
            "`lvsise` in line 5",
            "line 6",
            "`prefix` in line 8, which belongs under [misc]"
        ]
    );
    assert!(!BackupPlan::of(&found).is_thin);
}

#[test]
fn only_programs_of_the_backup_type_are_listed() {
    let programs = |text: &str| -> Vec<String> {
        plan(text)
            .tools
            .into_iter()
            .skip(5)
            .map(|tool| tool.program)
            .collect()
    };
    assert_eq!(programs("[tools]\ncompress=\n"), ["tar"]);
    assert_eq!(
        programs("[tools]\ncompress=nice -n 19 pigz\n"),
        ["tar", "nice"]
    );
    assert_eq!(programs("[tools]\ncompress=$HOME/bin/zip\n"), ["tar"]);
    assert_eq!(
        programs("[misc]\nbackuptype=rsync\ninnodb_recover=1\n"),
        ["rsync", "mysqld_safe"]
    );
    assert_eq!(programs("[misc]\nbackuptype=zbackup\n"), ["tar", "zbackup"]);
    assert_eq!(programs("[misc]\nbackuptype=Tar\n"), [""; 0]);
}

#[test]
fn lvcreate_arguments_decide_about_activation() {
    for (lvcreate, expected) in [
        ("lvcreate", false),
        ("lvcreate -kn", true),
        ("/sbin/lvcreate -k n", true),
        ("lvcreate --setactivationskip n", true),
        ("lvcreate --setactivationskip=n", true),
        ("lvcreate -ky", false),
    ] {
        assert_eq!(
            plan(&format!("[tools]\nlvcreate={lvcreate}\n")).activates_snapshot(),
            expected,
            "{lvcreate}"
        );
    }
}

#[test]
fn remote_directories_are_distinguished_from_local_ones() {
    let is_remote = |kind: &str, dir: &str| {
        plan(&format!("[misc]\nbackuptype={kind}\n[fs]\nbackupdir={dir}")).is_remote()
    };
    assert!(
        is_remote("rsync", "nas:/backup")
            && !is_remote("rsync", "/mnt/a:b")
            && !is_remote("tar", "nas:/b")
    );
}

#[test]
fn a_megabyte_parses_quickly() {
    let text = "[lvm]\n".to_string() + &"key=value\n".repeat(100_000);
    assert_eq!(parse(&text).invalid_lines, [0; 0]);
    assert_eq!(parse(&"x".repeat(1 << 20)).invalid_lines, [1]);
}

proptest! {
    #[test]
    fn any_text_parses_without_panic(text in "(\\PC|\r|\n|\\[|=|<<|#)*") {
        let found = parse(&text);
        BackupPlan::of(&found);
        size_bytes(&text);
    }
}
