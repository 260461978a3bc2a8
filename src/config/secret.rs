//! Secrets in files, and in the credentials that systemd passes with `LoadCredential=`.
//!
//! A file that other users can read, or that belongs to one of them, is rejected. No error contains the secret.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Characters of a secret; a webhook has a few hundred.
const LONGEST: usize = 4096;
/// Permission bits of users who are neither owner nor in the group.
const OTHERS: u32 = 0o007;
/// Only systemd can write here. It gives credentials to root, or to the user of the service.
const CREDENTIALS: &str = "/run/credentials";
/// The credentials of the service, which commands of root use too.
const OF_THE_SERVICE: &str = "/run/credentials/cowbell.service";

/// The file of a credential, whether it exists or not.
pub fn credential(name: &str) -> PathBuf {
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY").filter(|folder| !folder.is_empty());
    Path::new(&folder.unwrap_or_else(|| OF_THE_SERVICE.into())).join(name)
}

/// Reads a file with a single line of ASCII, without its line break. Errors name the file; `way_out` tells how to make a
/// missing one.
pub fn read(path: &Path, way_out: impl fmt::Display) -> Result<String, String> {
    let shown = path.display();
    let refuse = |why: String| format!("{shown} {why}");
    let cannot = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => refuse(format!("does not exist: {way_out}")),
        _ => refuse(format!("cannot be read: {error}")),
    };
    // An open file cannot be replaced after the checks. Opening a FIFO does not wait.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(cannot)?;
    let about = file.metadata().map_err(cannot)?;
    if !about.is_file() {
        return Err(refuse(
            "is not a regular file: name a file that holds the secret".into(),
        ));
    }
    let own = rustix::process::geteuid().as_raw();
    if ![0, own].contains(&about.uid()) && !path.starts_with(CREDENTIALS) {
        return Err(refuse(format!(
            "belongs to user {}: run `chown root {shown}`",
            about.uid()
        )));
    }
    if about.permissions().mode() & OTHERS != 0 {
        return Err(refuse(format!(
            "is accessible to every user: run `chmod o= {shown}`"
        )));
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(LONGEST + 3).unwrap_or(u64::MAX);
    file.take(most).read_to_end(&mut bytes).map_err(cannot)?;
    line(&bytes).map_err(|found| {
        refuse(format!(
            "holds no secret: expected one line of at most {LONGEST} letters, digits and signs, but found {found}"
        ))
    })
}

/// The only line of a file, or what was found instead.
fn line(bytes: &[u8]) -> Result<String, &'static str> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.len() {
        0 => Err("nothing"),
        _ if !line.iter().all(u8::is_ascii_graphic) => {
            Err("spaces, line breaks or other characters")
        }
        1..=LONGEST => Ok(line.iter().map(|byte| char::from(*byte)).collect()),
        _ => Err("more characters"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], mode: u32, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let found = format!("{:?}", read(&path, ""));
        assert!(
            found.contains(expected) && found.lines().count() == 1,
            "expected {expected:?} in {found:?}"
        );
        assert!(
            found.starts_with("Ok") || !found.contains("hunter"),
            "the secret appears in {found}"
        );
    }

    #[test]
    fn a_secret_is_one_line_in_a_file_that_others_cannot_read() {
        check(b"hunter2", 0o600, "Ok(\"hunter2\")");
        check(b"hunter2\n", 0o440, "Ok(\"hunter2\")");
        check(b"hunter2\r\n", 0o400, "Ok(\"hunter2\")");
        check(b"hunter2", 0o604, "run `chmod o= ");
        check(b"hunter2", 0o602, "is accessible to every user");
        check(b"", 0o600, "but found nothing");
        check(b"\n", 0o600, "but found nothing");
        check(b"hunter2\n\n", 0o600, "but found spaces, line breaks");
        check(b"hunter 2", 0o600, "but found spaces, line breaks");
        check(
            "hunter2ä".as_bytes(),
            0o600,
            "but found spaces, line breaks or other characters",
        );
        check(b"hunter2\xff", 0o600, "or other characters");
        check(
            &b"hunter2".repeat(1_000),
            0o600,
            "but found more characters",
        );
    }

    #[test]
    fn a_missing_or_special_file_is_rejected() {
        let missing = read(Path::new("/does/not/exist"), "write it").unwrap_err();
        assert_eq!(missing, "/does/not/exist does not exist: write it");
        assert!(
            read(Path::new("/dev/null"), "")
                .unwrap_err()
                .contains("is not a regular file")
        );
    }

    #[test]
    fn what_is_read_is_what_was_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let replace = |text: &str, mode: u32| {
            let new = folder.path().join("new");
            std::fs::write(&new, text).unwrap();
            std::fs::set_permissions(&new, std::fs::Permissions::from_mode(mode)).unwrap();
            std::fs::rename(new, &path).unwrap();
        };
        replace("private", 0o600);
        std::thread::scope(|scope| {
            let replacing = scope.spawn(|| {
                for _ in 0..2_000 {
                    replace("public", 0o644);
                    replace("private", 0o600);
                }
            });
            while !replacing.is_finished() {
                assert_ne!(read(&path, ""), Ok("public".into()));
            }
        });
    }

    /// Only root can make files of other users.
    #[test]
    fn a_file_of_another_user_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "hunter2").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            assert!(
                read(&path, "")
                    .unwrap_err()
                    .contains("belongs to user 65534: run `chown root")
            );
        }
    }
}
