//! Texts, and what mylvmbackup makes of them.

use proptest::prelude::*;

use super::plan::Plan;
use super::size::size_bytes;
use super::{Configuration, parse};

const PACKAGED: &str = include_str!("../../../tests/fixtures/mylvmbackup-0.15.conf");

fn plan(text: &str) -> Plan {
    Plan::of(&parse(text))
}

#[test]
fn the_packaged_file_says_what_holds_without_one() {
    let found = parse(PACKAGED);
    assert_eq!((&found.not_understood, &found.twice, &found.passed_over), (&vec![], &vec![], &vec![]));
    assert_eq!(Plan::of(&found), Plan::of(&Configuration::default()));
    let plan = Plan::of(&found);
    assert_eq!((&*plan.group, &*plan.snapshot, &*plan.size), ("mysql", "data_snapshot", "5G"));
    assert_eq!((&*plan.mountdir, plan.is_thin), ("/var/cache/mylvmbackup/mnt", false));
    let tools: Vec<&str> = plan.tools.iter().map(|tool| &*tool.program).collect();
    assert_eq!(tools, ["lvcreate", "lvremove", "lvs", "mount", "umount", "tar", "gzip"]);
    assert_eq!(plan.mycnf.as_deref(), Some("/etc/mysql/my.cnf"));
}

#[test]
fn lines_end_as_the_first_one_does() {
    for text in
        ["[lvm]\r\nvgname=a\r\nlvname=b\r\n", "[lvm]\rvgname=a\rlvname=b", "[lvm]\nvgname=a\r\nlvname=b\n"]
    {
        let plan = plan(text);
        assert_eq!((&*plan.group, &*plan.origin), ("a", "b"), "{text:?}");
    }
    assert_eq!(parse("[lvm]\r\nvgname=a\nlvname=b\r\n").not_understood, [2]);
}

#[test]
fn a_line_that_ends_mylvmbackup_is_told_by_its_number_alone() {
    for (text, lines) in [
        ("\u{feff}[lvm]\nvgname=a\n", vec![1, 2]),
        ("[lvm]\nrubbish\nvgname=a\nmore rubbish", vec![2, 4]),
        ("vgname=a\n[lvm]\n", vec![1]),
        ("[lvm] # mine\nvgname=a\n", vec![1, 2]),
        ("[lvm]\n=a\n", vec![2]),
        ("\u{0}\u{1}\u{fffd}\n", vec![1]),
    ] {
        assert_eq!(parse(text).not_understood, lines, "{text:?}");
    }
    assert!(parse("# nothing\n").is_empty && !parse("[x]").is_empty);
}

#[test]
fn values_are_taken_with_all_that_stands_behind_them() {
    let found = parse("[lvm]\nvgname = \"a\" \nlvsize=1G # small\nlvsize=2G\n[lvm]\nlvname=<<END\nb\nEND\n");
    let plan = Plan::of(&found);
    assert_eq!((&*plan.group, &*plan.size, &*plan.origin), ("\"a\" ", "1G # small\n2G", "b"));
    assert_eq!(found.twice, ["lvsize"]);
}

#[test]
fn keys_that_are_passed_over_are_named_but_never_a_secret() {
    let found = parse("[mysql]\nhunter2=x\n[lvm]\nthin=1\nlvsise=2G\nmy secret=3\n[other]\nprefix=b\n");
    assert_eq!(
        found.passed_over,
        [
            "`thin` in line 4, which belongs under [misc]",
            "`lvsise` in line 5",
            "line 6",
            "`prefix` in line 8, which belongs under [misc]"
        ]
    );
    assert!(!Plan::of(&found).is_thin);
}

#[test]
fn only_programs_that_the_backup_uses_are_named() {
    let programs = |text: &str| -> Vec<String> {
        plan(text).tools.into_iter().skip(5).map(|tool| tool.program).collect()
    };
    assert_eq!(programs("[tools]\ncompress=\n"), ["tar"]);
    assert_eq!(programs("[tools]\ncompress=nice -n 19 pigz\n"), ["tar", "nice"]);
    assert_eq!(programs("[tools]\ncompress=$HOME/bin/zip\n"), ["tar"]);
    assert_eq!(programs("[misc]\nbackuptype=rsync\ninnodb_recover=1\n"), ["rsync", "mysqld_safe"]);
    assert_eq!(programs("[misc]\nbackuptype=zbackup\n"), ["tar", "zbackup"]);
    assert_eq!(programs("[misc]\nbackuptype=Tar\n"), [""; 0]);
}

#[test]
fn what_is_told_to_lvcreate_decides_whether_its_snapshot_is_active() {
    for (lvcreate, expected) in [
        ("lvcreate", false),
        ("lvcreate -kn", true),
        ("/sbin/lvcreate -k n", true),
        ("lvcreate --setactivationskip n", true),
        ("lvcreate --setactivationskip=n", true),
        ("lvcreate -ky", false),
    ] {
        assert_eq!(
            plan(&format!("[tools]\nlvcreate={lvcreate}\n")).asks_for_activation(),
            expected,
            "{lvcreate}"
        );
    }
}

#[test]
fn another_machine_is_told_from_a_folder_of_this_one() {
    let is_remote = |kind: &str, dir: &str| {
        plan(&format!("[misc]\nbackuptype={kind}\n[fs]\nbackupdir={dir}")).is_remote()
    };
    assert!(
        is_remote("rsync", "nas:/backup") && !is_remote("rsync", "/mnt/a:b") && !is_remote("tar", "nas:/b")
    );
}

#[test]
fn a_megabyte_of_anything_is_read_in_no_time() {
    let text = "[lvm]\n".to_string() + &"key=value\n".repeat(100_000);
    assert_eq!(parse(&text).not_understood, [0; 0]);
    assert_eq!(parse(&"x".repeat(1 << 20)).not_understood, [1]);
}

proptest! {
    #[test]
    fn no_text_stops_the_program(text in "(\\PC|\r|\n|\\[|=|<<|#)*") {
        let found = parse(&text);
        Plan::of(&found);
        size_bytes(&text);
    }
}
