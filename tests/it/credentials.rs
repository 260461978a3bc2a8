//! Secrets that systemd passes with `LoadCredential=`: cowbell uses them, and shows them nowhere.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::daemon::{Said, cowbell, free_port, said};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const WEBHOOK: &str = "[[notify]]\nkind = \"webhook\"\nurl = \"credential:webhook\"\n";

/// A folder with a configuration and these credentials, as systemd makes them.
fn credentials(config: &str, files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cowbell.toml"), config).unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o440)).unwrap();
    }
    folder
}

fn run(command: &str, folder: &Path) -> Said {
    let mut line = cowbell();
    line.arg(command)
        .args(["--listen", &format!("0.0.0.0:{}", free_port())]);
    line.arg("--config")
        .arg(folder.join("cowbell.toml"))
        .arg("--db")
        .arg(folder.join("cowbell.db"));
    said(line.env("CREDENTIALS_DIRECTORY", folder))
}

#[test]
fn the_credential_is_the_token_without_a_key_in_the_configuration() {
    let folder = credentials("", &[("token", TOKEN)]);
    let check = run("check", folder.path());
    assert!(
        check.out.contains("ok       the token can be read"),
        "{check:?}"
    );
    let folder = credentials("", &[]);
    let check = run("check", folder.path());
    assert!(
        check.code == Some(1) && check.out.contains("which needs a token"),
        "{check:?}"
    );
}

#[test]
fn a_token_file_precedes_the_credential() {
    let folder = credentials(
        "[changes]\ntoken_file = \"/does/not/exist\"\n",
        &[("token", TOKEN)],
    );
    let check = run("check", folder.path());
    assert!(
        check.code == Some(1) && check.out.contains("/does/not/exist does not exist"),
        "{check:?}"
    );
}

#[test]
fn an_invalid_credential_ends_the_daemon_with_a_sentence_without_it() {
    for (files, expected) in [
        (&[("token", "hunter2")][..], "but found fewer characters"),
        (
            &[("token", TOKEN)],
            "webhook does not exist: set `LoadCredential=webhook:FILE` in cowbell.service; before systemd 247, write \"file:/etc/cowbell/webhook\" in place of \"credential:webhook\"",
        ),
        (
            &[("token", TOKEN), ("webhook", "htp://hunter2")],
            "webhook holds no http:// or https:// address",
        ),
    ] {
        let folder = credentials(WEBHOOK, files);
        for command in ["serve", "check"] {
            let refused = run(command, folder.path());
            let all = refused.out + &refused.err;
            assert!(
                refused.code != Some(0) && all.contains(expected),
                "expected {expected:?} in {all}"
            );
            assert!(!all.contains("hunter2") && !all.contains(TOKEN), "{all}");
        }
    }
}

/// Before systemd 247 there are no credentials.
#[test]
fn each_shipped_receiver_takes_a_file_in_place_of_a_credential() {
    let folder = credentials("", &[]);
    let mut count = 0;
    for entry in std::fs::read_dir("systemd/receivers").unwrap() {
        let shipped = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let text: String = shipped
            .lines()
            .filter(|line| !line.starts_with('#'))
            .fold(String::new(), |all, line| all + line + "\n");
        for place in text.split("credential:").skip(1) {
            let name = place.split(['"', ' ']).next().unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, "https://example.com/0123456789abcdef").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
            count += 1;
        }
        let place = format!("file:{}/", folder.path().display());
        let config = folder.path().join("cowbell.toml");
        std::fs::write(&config, text.replace("credential:", &place)).unwrap();
        let check = said(cowbell().arg("check").arg("--config").arg(&config));
        assert_eq!(check.code, Some(0), "{text}: {check:?}");
    }
    assert!(count >= 7, "{count}");
}
