//! A support bundle has everything for a bug report, and no secret.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::daemon::{Said, Start, cowbell, free_port, kept_ticks, said};
use crate::machine::Machine;
use crate::wait_for;

const SECRETS: [&str; 4] = ["0123456789abcdef", "hunter2", "T00/B00", "pass@"];
const MEMBERS: [&str; 8] = [
    "check.txt",
    "configuration.txt",
    "log.txt",
    "recording.cowbell",
    "status.json",
    "status.txt",
    "ticks.csv",
    "version.txt",
];
const RECEIVERS: &str = "[heartbeat]\nurl = \"https://status.example/ping/hunter2\"\n\
    [[notify]]\nkind = \"webhook\"\nurl = \"https://me:pass@hooks.example/T00/B00?key=hunter2\"\n\
    headers = { Authorization = \"Bearer hunter2\" }\nvalues = { key = \"hunter2\" }\ntemplate = '\"hunter2\"'\n\
    [[notify]]\nkind = \"email\"\nto = \"dba@example.com\"\nuser = \"me\"\npassword = \"hunter2\"\n\
    [[notify]]\nkind = \"command\"\ncommand = [\"/bin/true\", \"--key=hunter2\"]\n";

/// A folder with a token, a configuration that has secrets, and a `journalctl`.
fn folder() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    };
    let token = write("token", "0123456789abcdef0123456789abcdef\n", 0o600);
    write("journalctl", "#!/bin/sh\necho a line of the log\n", 0o700);
    let config = format!(
        "{RECEIVERS}[changes]\ntoken_file = \"{}\"\n",
        token.display()
    );
    write("cowbell.toml", &config, 0o600);
    (folder, config)
}

/// A command for a short bundle in the folder, with its configuration and `journalctl`.
fn bundle(folder: &Path, machine: &Machine, port: u16) -> Command {
    let mut command = cowbell();
    command.args(["support-bundle", "--for", "1s", "--interval", "100ms"]);
    command
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .arg("--root")
        .arg(machine.root());
    command.arg("--config").arg(folder.join("cowbell.toml"));
    command.current_dir(folder).env("PATH", folder);
    command
}

/// The members of a bundle by name; the recording is decompressed.
fn members(bundle: &Path) -> BTreeMap<String, String> {
    let unpacked = tempfile::tempdir().unwrap();
    let done = Command::new("tar")
        .arg("-xzf")
        .arg(bundle)
        .arg("-C")
        .arg(unpacked.path())
        .status()
        .unwrap();
    assert!(done.success());
    let folder = fs::read_dir(unpacked.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let files = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        let mut text = String::new();
        if path.extension().unwrap() == "cowbell" {
            flate2::read::MultiGzDecoder::new(&*bytes)
                .read_to_string(&mut text)
                .unwrap();
        } else {
            text = String::from_utf8(bytes).unwrap();
        }
        (
            path.file_name().unwrap().to_str().unwrap().to_string(),
            text,
        )
    };
    let members: BTreeMap<_, _> = files.map(text).collect();
    assert_eq!(
        members.keys().collect::<Vec<_>>(),
        MEMBERS.iter().collect::<Vec<_>>()
    );
    for (name, text) in &members {
        assert!(
            !SECRETS.iter().any(|secret| text.contains(secret)),
            "a secret is in {name}: {text}"
        );
    }
    members
}

fn assert_written(found: &Said) {
    assert!(
        found.code == Some(0) && found.out.ends_with("look at it before you send it\n"),
        "{found:?}"
    );
}

#[test]
fn a_bundle_has_every_part_and_no_secret() {
    let (folder, config) = folder();
    let machine = Machine::new();
    let daemon = Start::watching(&machine).config(&config).start();
    wait_for("a stored tick", || {
        (!kept_ticks(&daemon.db).is_empty()).then_some(())
    });
    let written = said(
        bundle(folder.path(), &machine, daemon.port)
            .arg("b.tar.gz")
            .arg("--db")
            .arg(&daemon.db),
    );
    assert_written(&written);
    let file = folder.path().join("b.tar.gz");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let members = members(&file);
    for (name, part) in [
        ("check.txt", "/proc/diskstats shows"),
        ("configuration.txt", "url = \"https://hooks.example/…\""),
        ("configuration.txt", "Authorization = \"…\""),
        ("configuration.txt", "https://status.example/…"),
        ("configuration.txt", "command = [\"/bin/true\", \"…\"]"),
        ("log.txt", "a line of the log"),
        ("status.txt", "COWBELL "),
        ("status.json", "\"ticks\":"),
        ("ticks.csv", ",device,sda,"),
        (
            "version.txt",
            concat!("cowbell ", env!("CARGO_PKG_VERSION")),
        ),
    ] {
        assert!(
            members[name].contains(part),
            "expected {part:?} in {name}: {}",
            members[name]
        );
    }
    assert!(members["recording.cowbell"].lines().count() > 3);
}

#[test]
fn the_recording_of_a_bundle_can_be_played() {
    let (folder, _) = folder();
    let machine = Machine::new();
    assert_written(&said(
        bundle(folder.path(), &machine, free_port()).arg("b.tar.gz"),
    ));
    let unpack = [
        "-xzf",
        "b.tar.gz",
        "--strip-components=1",
        "--wildcards",
        "*/recording.cowbell",
    ];
    assert!(
        Command::new("tar")
            .args(unpack)
            .current_dir(folder.path())
            .status()
            .unwrap()
            .success()
    );
    let file = folder.path().join("recording.cowbell");
    let played = Start::with(&[
        "serve",
        "--replay",
        file.to_str().unwrap(),
        "--speed",
        "max",
    ])
    .start();
    wait_for("some ticks", || (played.taken() >= 2).then_some(()));
    assert_eq!(played.json("/api/v1/devices")[0]["device"], "sda");
}

#[test]
fn parts_that_fail_are_sentences() {
    let (folder, _) = folder();
    fs::remove_file(folder.path().join("journalctl")).unwrap();
    fs::write(
        folder.path().join("cowbell.toml"),
        "[[notify]]\nurl = \"https://hooks.example/hunter2\n",
    )
    .unwrap();
    let db = folder.path().join("none.db");
    let written = said(
        bundle(folder.path(), &Machine::new(), free_port())
            .arg("b.tar.gz")
            .arg("--db")
            .arg(&db),
    );
    assert_written(&written);
    let members = members(&folder.path().join("b.tar.gz"));
    for (name, part) in [
        ("configuration.txt", "cowbell.toml, line 2, `url = …`"),
        ("configuration.txt", "these are the defaults:\n\nhosts = []"),
        ("log.txt", "cannot run journalctl"),
        ("status.txt", "no daemon answers"),
        ("status.json", "no daemon answers"),
        ("ticks.csv", "none.db"),
    ] {
        assert!(
            members[name].contains(part),
            "expected {part:?} in {name}: {}",
            members[name]
        );
    }
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let (folder, _) = folder();
    fs::write(folder.path().join("b.tar.gz"), "mine").unwrap();
    let refused = said(bundle(folder.path(), &Machine::new(), free_port()).arg("b.tar.gz"));
    assert!(
        refused.code == Some(1) && refused.err.contains("exists and is not overwritten"),
        "{refused:?}"
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("b.tar.gz")).unwrap(),
        "mine"
    );
}

#[test]
fn a_bundle_without_a_name_is_named_after_host_and_time() {
    let (folder, _) = folder();
    assert_written(&said(&mut bundle(
        folder.path(),
        &Machine::new(),
        free_port(),
    )));
    let names = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names
        .map(|name| name.to_str().unwrap().to_string())
        .collect();
    let is_named = |name: &String| name.starts_with("cowbell-") && name.ends_with(".tar.gz");
    assert_eq!(
        names.iter().filter(|name| is_named(name)).count(),
        1,
        "{names:?}"
    );
}
