//! `cowbell verify-archive`, on archives that real programs made of files of a real MariaDB, whole and broken in every way
//! in which backups break.
//!
//! The database was stopped with SIGSTOP while it worked, as a snapshot stops it: `new.ibd` is not written yet, and only
//! the redo log has its content.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::{Daemon, Said, Start, cowbell, free_port, said};
use crate::machine::Machine;

const FIXTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/mariadb-10.11.19.tar.gz"
);
const OLD: &str = "backup/t/old.ibd";
const PAGE: u64 = 16 * 1024;

/// The unpacked fixture.
fn unpacked() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    sh(
        folder.path(),
        &format!("mkdir data && tar -xzf {FIXTURE} -C data"),
    );
    folder
}

fn sh(folder: &Path, script: &str) {
    let output = Command::new("bash")
        .args(["-ec", script])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// An archive of the changed fixture, made by this script in its folder.
fn archive(change: impl FnOnce(&Path), script: &str) -> (TempDir, PathBuf) {
    let folder = unpacked();
    change(&folder.path().join("data"));
    sh(folder.path(), script);
    let path = folder.path().join("archive");
    (folder, path)
}

const GZIPPED: &str = "tar -C data -cf - backup backup-pos | gzip > archive";

fn verified(path: &Path) -> Said {
    said(cowbell().arg("verify-archive").arg(path))
}

/// The certificate of an archive that could be judged.
fn certificate(path: &Path) -> Value {
    let found = said(cowbell().args(["verify-archive", "--json"]).arg(path));
    assert_eq!(found.err, "", "{found:?}");
    let certificate: Value = serde_json::from_str(&found.out).unwrap();
    let code = if certificate["verdict"] == "sound" {
        0
    } else {
        1
    };
    assert_eq!(found.code, Some(code), "{found:?}");
    let beside = fs::read_to_string(format!("{}.cowbell.json", path.display())).unwrap();
    assert_eq!(beside, found.out);
    certificate
}

fn is_sound(path: &Path) -> Value {
    let certificate = certificate(path);
    assert_eq!(certificate["verdict"], "sound", "{certificate:#}");
    certificate
}

fn is_damaged(path: &Path, finding: &str) -> Value {
    let certificate = certificate(path);
    assert_eq!(
        certificate["verdict"], "damaged",
        "expected {finding:?}: {certificate:#}"
    );
    let findings = certificate["findings"]["list"].to_string();
    assert!(
        findings.contains(finding),
        "expected {finding:?}: {findings}"
    );
    certificate
}

/// Overwrites a file with zeros from here on, as tar does after a read error.
fn zeroed(file: &Path, from: u64) {
    let length = fs::metadata(file).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.set_len(from).unwrap();
    file.set_len(length).unwrap();
}

fn flipped(file: &Path, at: u64) {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(file)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn a_whole_archive_is_sound_whatever_compressed_it() {
    let sums = |path: &Path| {
        let output = Command::new("sha256sum").arg(path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()[..64].to_string()
    };
    for program in ["cat", "gzip", "zstd", "xz", "bzip2", "lz4", "lzop"] {
        if Command::new(program)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .is_err()
        {
            eprintln!("skipped: {program} is not installed");
            continue;
        }
        let script = format!("tar -C data -cf - backup backup-pos | {program} > archive");
        let (_folder, path) = archive(|_| {}, &script);
        let found = is_sound(&path);
        let figures = &found["figures"];
        assert_eq!(
            (&figures["files"], &figures["innodb_files"]),
            (&json!(10), &json!(4)),
            "{program}"
        );
        assert_eq!(
            (&figures["pages_checked"], &figures["pages_broken"]),
            (&json!(40), &json!(0)),
            "{program}"
        );
        assert_eq!(found["sha256"], sums(&path), "{program}");
        let notes = found["notes"]["list"].to_string();
        assert!(
            notes.contains("new.ibd (96.0 KiB) begins with zeros"),
            "{notes}"
        );
        if program != "cat" {
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
            is_damaged(&path, "The compressed data");
        }
    }
}

#[test]
fn every_format_of_tar_is_read() {
    let long = format!("{0}/{0}", "n".repeat(180));
    let change = |data: &Path| {
        fs::create_dir_all(data.join("backup").join(&long)).unwrap();
        fs::write(data.join("backup").join(&long).join("file"), "text").unwrap();
    };
    for format in [
        "gnu",
        "oldgnu",
        "pax",
        "gnu -S",
        "pax -S --sparse-version=1.0",
        "pax -S --sparse-version=0.1",
    ] {
        let script = format!("tar -C data --format={format} -cf archive backup backup-pos");
        let (_folder, path) = archive(change, &script);
        let found = is_sound(&path);
        assert_eq!(found["figures"]["files"], 11, "{format}");
        assert_eq!(found["figures"]["pages_checked"], 40, "{format}");
        let (_folder, path) = archive(|data| zeroed(&data.join(OLD), 9 * PAGE), &script);
        is_damaged(&path, "old.ibd is zero from byte 147456 to its end");
    }
}

#[test]
fn zeros_in_place_of_data_are_found() {
    let check = |file: &str, from: u64, finding: &str| {
        let (_folder, path) = archive(|data| zeroed(&data.join(file), from), GZIPPED);
        is_damaged(&path, finding);
    };
    check(
        OLD,
        0,
        "old.ibd (288 KiB) begins with zeros: tar could not read it",
    );
    check(
        OLD,
        5 * PAGE,
        "old.ibd is zero from byte 81920 to its end, with 12 pages in use",
    );
    check(
        OLD,
        5 * PAGE + 512,
        "old.ibd is zero from byte 82432, in the middle of a page, to its end",
    );
    check(
        "backup/t/paged.ibd",
        5 * PAGE,
        "paged.ibd is zero from byte 81920 to its end",
    );
    check(
        "backup/t/zipped.ibd",
        6 * 8192,
        "zipped.ibd is zero from byte 49152 to its end",
    );
    check("backup/t/new.frm", 0, "new.frm contains only zeros");
    check("backup/ib_logfile0", 0, "the redo log, begins with zeros");
    check(
        "backup/ib_logfile0",
        12_288,
        "the redo log, is zero before its end",
    );
    // The new file's content is lost if the log is.
    let (_folder, path) = archive(
        |data| fs::remove_file(data.join("backup/ib_logfile0")).unwrap(),
        GZIPPED,
    );
    is_damaged(
        &path,
        "new.ibd (96.0 KiB) begins with zeros: tar could not read it",
    );
}

#[test]
fn zeros_that_may_be_there_are_none_of_the_damage() {
    // The last used page of this file is the 17th.
    let (_folder, path) = archive(|data| zeroed(&data.join(OLD), 17 * PAGE), GZIPPED);
    is_sound(&path);
}

#[test]
fn many_zeros_that_the_redo_log_may_have_leave_it_open() {
    let grown = |data: &Path| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(data.join("backup/t/new.ibd"))
            .unwrap();
        file.set_len(8 << 20).unwrap();
    };
    let (_folder, path) = archive(grown, GZIPPED);
    let found = said(cowbell().args(["verify-archive", "--json"]).arg(&path));
    let certificate: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(
        (found.code, &certificate["verdict"]),
        (Some(2), &json!("unknown")),
        "{found:?}"
    );
    let doubts = certificate["doubts"]["list"].to_string();
    assert!(
        doubts.contains("new.ibd (8.00 MiB) begins with zeros"),
        "{doubts}"
    );
    assert!(verified(&path).out.contains("restore it to be sure"));
}

#[test]
fn one_broken_page_may_be_repaired_and_many_may_not() {
    let break_pages = |count: u64| {
        move |data: &Path| (0..count).for_each(|page| flipped(&data.join(OLD), page * PAGE + 5000))
    };
    let (_folder, path) = archive(break_pages(1), GZIPPED);
    let notes = is_sound(&path)["notes"]["list"].to_string();
    assert!(
        notes.contains("old.ibd has 1 broken page, the first at byte 0."),
        "{notes}"
    );
    let (_folder, path) = archive(break_pages(17), GZIPPED);
    is_damaged(&path, "old.ibd has 17 broken pages, the first at byte 0.");
    let shorter = |data: &Path| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(data.join(OLD))
            .unwrap();
        file.set_len(10 * PAGE).unwrap();
    };
    let (_folder, path) = archive(shorter, GZIPPED);
    is_damaged(&path, "old.ibd is 128 KiB shorter than its header says.");
}

#[test]
fn an_archive_without_data_is_damaged() {
    let (_folder, path) = archive(|_| {}, "tar -C data -czf archive backup-pos");
    is_damaged(
        &path,
        "only mylvmbackup's own files and none of the database: is its `relpath` right?",
    );
    let (_folder, path) = archive(|_| {}, "tar -czf archive -T /dev/null");
    is_damaged(&path, "The archive has no files.");
    let (_folder, path) = archive(|_| {}, "> archive");
    is_damaged(&path, "The archive is an empty file.");
    let (_folder, path) = archive(|_| {}, "gzip < /dev/null > archive");
    is_damaged(&path, "The tar archive ends after 0 bytes");
}

#[test]
fn a_stream_that_breaks_off_is_damaged() {
    for (cut, finding) in [
        (
            "head -c 3000000",
            "ends within backup/ib_logfile0, of which",
        ),
        // The header of ib_logfile0 follows that of `backup/`.
        (
            "head -c 512",
            "The tar archive ends after 512 bytes without the blocks of zeros at its end",
        ),
        ("head -c 700", "The tar archive ends after 700 bytes"),
    ] {
        let script =
            format!("tar --sort=name -C data -cf - backup backup-pos | {cut} | gzip > archive");
        let (_folder, path) = archive(|_| {}, &script);
        is_damaged(&path, finding);
    }
    let (_folder, path) = archive(|_| {}, GZIPPED);
    flipped(&path, 40_000);
    is_damaged(&path, "The compressed data is damaged");
    let (_folder, path) = archive(
        |_| {},
        "tar --sort=name -C data -cf archive backup; dd if=/dev/urandom of=archive bs=512 count=3 seek=10242 conv=notrunc",
    );
    is_damaged(&path, "The tar archive is damaged at byte");
}

#[test]
fn bytes_that_gzip_ignores_are_no_damage() {
    let notes = |script: &str| {
        let (_folder, path) = archive(|_| {}, &format!("{GZIPPED}; {script} >> archive"));
        is_sound(&path)["notes"]["list"].to_string()
    };
    let text = "other bytes behind the compressed data, which gzip ignores";
    assert!(!notes("head -c 300000 /dev/zero").contains(text));
    assert!(notes("echo bytes of something else").contains(text));
    // A second member is data.
    let (_folder, path) = archive(
        |_| {},
        "tar -C data -cf whole backup backup-pos; (head -c 99999 whole | gzip; tail -c +100000 whole | gzip) > archive",
    );
    is_sound(&path);
}

/// tar, which waits for its reader in the middle of this file.
fn tar_in_the_middle_of(file: &Path) -> (std::process::Child, Vec<u8>) {
    let mut command = Command::new("tar");
    command
        .arg("-C")
        .arg(file.parent().unwrap())
        .arg("-cf")
        .arg("-")
        .arg(file.file_name().unwrap());
    let mut tar = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = vec![0; 512];
    tar.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    // It fills the pipe, and then sleeps.
    std::thread::sleep(std::time::Duration::from_millis(300));
    (tar, first)
}

#[test]
fn a_real_tar_that_is_killed_or_cannot_read_on_leaves_a_damaged_archive() {
    let folder = unpacked();
    let file = folder.path().join("data").join(OLD);
    for (is_killed, finding) in [
        (true, "ends within old.ibd, of which"),
        (false, "old.ibd is zero from byte"),
    ] {
        let (mut tar, mut bytes) = tar_in_the_middle_of(&file);
        if is_killed {
            tar.kill().unwrap();
        } else {
            fs::OpenOptions::new()
                .write(true)
                .open(&file)
                .unwrap()
                .set_len(5 * PAGE)
                .unwrap();
        }
        tar.stdout
            .as_mut()
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
        assert!(!tar.wait().unwrap().success());
        let path = folder.path().join("archive");
        fs::write(&path, bytes).unwrap();
        sh(folder.path(), "gzip -f archive");
        is_damaged(&folder.path().join("archive.gz"), finding);
    }
}

#[test]
fn what_cannot_be_judged_has_its_own_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let check = |expected: &str| {
        let found = verified(&path);
        assert_eq!((found.code, &*found.out), (Some(2), ""), "{found:?}");
        assert!(
            found.err.contains(expected) && found.err.lines().count() == 1,
            "expected {expected:?}: {found:?}"
        );
        assert!(!folder.path().join("file.cowbell.json").exists());
    };
    check("cannot read");
    fs::write(&path, "no archive at all").unwrap();
    fs::write(&path, "text ".repeat(1000)).unwrap();
    check("its content is not a tar archive");
    sh(folder.path(), "echo text | xz > file");
    let found = said(
        cowbell()
            .arg("verify-archive")
            .arg(&path)
            .env("PATH", folder.path()),
    );
    assert_eq!(found.code, Some(2), "{found:?}");
    assert!(
        found
            .err
            .contains("not installed: apt-get install xz-utils"),
        "{found:?}"
    );
    fs::remove_file(&path).unwrap();
    sh(folder.path(), "mkfifo file");
    check("is not a regular file");
}

#[test]
fn only_a_certificate_is_replaced() {
    let (folder, path) = archive(|_| {}, &format!("{GZIPPED}; chmod 640 archive"));
    is_sound(&path);
    is_sound(&path);
    let beside = folder.path().join("archive.cowbell.json");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&beside).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o640);
    for text in ["{}", "", "my notes"] {
        fs::write(&beside, text).unwrap();
        let found = verified(&path);
        assert_eq!(found.code, Some(0), "{found:?}");
        assert!(
            found.out.starts_with("sound: ") && found.err.contains("is no certificate of cowbell"),
            "{found:?}"
        );
        assert_eq!(fs::read_to_string(&beside).unwrap(), text);
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        3,
        "no other file remains"
    );
}

#[test]
fn an_archive_that_grows_is_not_judged() {
    let (_folder, path) = archive(
        |_| {},
        "mkfifo pipe; tar -C data -cf archive backup; cat archive archive archive archive archive archive archive archive > big; mv big archive",
    );
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..200 {
            file.write_all(&[0; 512]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    let found = verified(&path);
    writer.join().unwrap();
    assert_eq!(found.code, Some(2), "{found:?}");
    assert!(found.err.contains("changed while it was read"), "{found:?}");
}

/// A daemon with ticks of a minute, and the archives of a good and a bad backup.
fn watching() -> (Machine, Daemon) {
    let machine = Machine::new();
    let root = machine.root().to_str().unwrap().to_string();
    (
        machine,
        Start::with(&["serve", "--interval", "60s", "--root", &root]).start(),
    )
}

fn on(daemon: &Daemon, arguments: &[&str]) -> Said {
    said(
        cowbell()
            .args(arguments)
            .args(["--listen", &format!("127.0.0.1:{}", daemon.port)]),
    )
}

#[test]
fn a_damaged_archive_makes_a_success_untrustworthy_and_a_sound_one_changes_nothing() {
    let (_machine, daemon) = watching();
    let (_good_folder, good) = archive(|_| {}, GZIPPED);
    let (_bad_folder, bad) = archive(|data| zeroed(&data.join(OLD), 0), GZIPPED);
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    let outcome = |id: i64| daemon.json(&format!("/api/v1/jobs/{id}"))["outcome"].clone();
    let alerts = || daemon.json("/api/v1/alerts").as_array().unwrap().len();

    on(&daemon, &["job", "start", "nightly"]);
    on(&daemon, &["job", "stop", "nightly"]);
    assert_eq!(
        on(&daemon, &["verify-archive", good, "--job", "nightly"]).code,
        Some(0)
    );
    assert_eq!((outcome(1), alerts()), (json!("succeeded"), 0));
    let shown = on(&daemon, &["job", "show", "1"]).out;
    assert!(
        shown.contains(&format!("Archive {good} was read through at ")),
        "{shown}"
    );
    assert!(
        shown.contains(" UTC: sound, 10 files, 5.66 MiB."),
        "{shown}"
    );
    assert!(
        shown.contains(&format!("Certificate: {good}.cowbell.json")),
        "{shown}"
    );

    let found = on(&daemon, &["verify-archive", bad, "--job", "1"]);
    assert_eq!((found.code, &*found.err), (Some(1), ""), "{found:?}");
    assert_eq!((outcome(1), alerts()), (json!("untrustworthy"), 1));
    let shown = on(&daemon, &["job", "show", "1"]).out;
    assert!(
        shown.contains("nightly: untrustworthy, its archive is damaged"),
        "{shown}"
    );
    assert!(shown.contains(": damaged, 10 files"), "{shown}");
    let page = daemon.get("/jobs/1").body;
    assert!(page.contains("its archive is damaged"), "{page}");
    let sentence = daemon.json("/api/v1/alerts")[0]["sentence"].to_string();
    assert!(
        sentence.contains("is damaged, as its archive") && sentence.contains("backup/t/old.ibd"),
        "{sentence}"
    );
    // A sound archive does not undo that, nor hide it.
    let found = on(&daemon, &["verify-archive", good, "--job", "1"]);
    assert!(
        found.code == Some(2) && found.err.contains("has another archive, which is damaged"),
        "{found:?}"
    );
    assert_eq!(
        daemon.json("/api/v1/jobs/1")["certificate"]["verdict"],
        "damaged"
    );

    // In a hook, the job is still running.
    on(&daemon, &["job", "start", "running"]);
    on(&daemon, &["verify-archive", bad, "--job", "running"]);
    assert_eq!((outcome(2), alerts()), (json!("untrustworthy"), 2));
    on(&daemon, &["job", "stop", "running"]);
    assert_eq!((outcome(2), alerts()), (json!("untrustworthy"), 2));

    // A failure remains one.
    on(&daemon, &["job", "start", "failed"]);
    on(&daemon, &["job", "stop", "failed", "--failed"]);
    on(&daemon, &["verify-archive", bad, "--job", "failed"]);
    assert_eq!((outcome(3), alerts()), (json!("failed"), 2));
}

#[test]
fn without_a_daemon_the_archive_is_judged_all_the_same() {
    let (_folder, path) = archive(|_| {}, GZIPPED);
    let listen = format!("127.0.0.1:{}", free_port());
    let path = path.to_str().unwrap();
    let found = said(cowbell().args(["verify-archive", path, "--job", "1", "--listen", &listen]));
    assert_eq!(found.code, Some(2), "its job does not know it: {found:?}");
    assert!(
        found.out.starts_with("sound: ") && found.err.contains("no daemon answers"),
        "{found:?}"
    );
    assert_eq!(found.err.lines().count(), 1, "{found:?}");
}
