//! Values that may be secrets. Each is in the configuration itself, in a credential that systemd passes with
//! `LoadCredential=`, or in a file.
//!
//! A file that other users can read, or that belongs to one of them, is rejected. No error contains the secret, and
//! `Debug` shows where it is, or `…`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

/// Characters of a secret; a webhook has a few hundred.
const LONGEST: usize = 4096;
/// Shorter parts of addresses and arguments are words rather than secrets.
const SHORTEST: usize = 6;
/// Stands for a secret.
const HIDDEN: &str = "…";
/// Begins a value that is in a credential; the credential's name follows.
const CREDENTIAL: &str = "credential:";
/// Begins a value that is in a file; its absolute path follows.
const FILE: &str = "file:";
/// Permission bits of users who are neither owner nor in the group.
const OTHERS: u32 = 0o007;
/// Only systemd can write here. It gives credentials to root, or to the user of the service.
const CREDENTIALS: &str = "/run/credentials";
/// The credentials of the service, which commands of root use too.
const OF_THE_SERVICE: &str = "/run/credentials/cowbell.service";

/// A value that may be in a credential of systemd, or in a file.
pub trait External {
    /// Replaces the place of the value by the value. Errors name its key.
    fn load(&mut self, key: &str) -> Result<(), String>;

    /// What answers must not show.
    fn secrets(&self) -> Vec<String>;
}

/// A text, or its place.
#[derive(Clone, Deserialize, PartialEq)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl External for SecretText {
    fn load(&mut self, key: &str) -> Result<(), String> {
        self.0 = loaded(&self.0).map_err(|why| format!("`{key}`: {why}"))?;
        Ok(())
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.0.clone()]
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(if is_place(&self.0) { &self.0 } else { HIDDEN })
    }
}

/// Headers of requests. A word may precede the place of a value: `Bearer credential:NAME`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Headers(BTreeMap<String, SecretHeader>);

#[derive(Clone, PartialEq)]
struct SecretHeader(String);

impl TryFrom<BTreeMap<String, String>> for Headers {
    type Error = String;

    fn try_from(headers: BTreeMap<String, String>) -> Result<Self, String> {
        for (name, value) in &headers {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_allowed) {
                return Err(format!(
                    "`headers`: expected names of letters, digits, - and _, but found {name:?}"
                ));
            }
            if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                return Err(format!(
                    "`headers`: expected printable ASCII as the value of {name}"
                ));
            }
        }
        let headers = headers.into_iter();
        Ok(Self(
            headers
                .map(|(name, value)| (name, SecretHeader(value)))
                .collect(),
        ))
    }
}

impl Headers {
    pub fn map(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.0 {
            let (Ok(header), Ok(mut value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(&value.0))
            else {
                return Err(format!("`headers`: {name} has no valid value"));
            };
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        Ok(headers)
    }
}

impl External for Headers {
    fn load(&mut self, _: &str) -> Result<(), String> {
        for (name, SecretHeader(value)) in &mut self.0 {
            let refuse = |why| format!("`{name}`: {why}");
            *value = match value.rsplit_once(' ') {
                Some((word, place)) if is_place(place) => {
                    format!("{word} {}", loaded(place).map_err(refuse)?)
                }
                _ => loaded(value).map_err(refuse)?,
            };
        }
        Ok(())
    }

    fn secrets(&self) -> Vec<String> {
        let values = self.0.values().map(|SecretHeader(value)| value);
        // With the word before it, and without.
        let parts = values.flat_map(|value| [Some(&**value), value.rsplit(' ').next()]);
        parts.flatten().map(String::from).collect()
    }
}

impl fmt::Debug for SecretHeader {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
        let is_shown = match self.0.split_once(' ') {
            Some((word, place)) => is_word(word) && is_place(place),
            None => is_place(&self.0),
        };
        formatter.write_str(if is_shown { &self.0 } else { HIDDEN })
    }
}

/// A URL, or its place. Its path and query may be a template, its host may not.
#[derive(Clone, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Address(String);

impl TryFrom<String> for Address {
    type Error = &'static str;

    fn try_from(url: String) -> Result<Self, Self::Error> {
        // `file:///PATH` is an address of another scheme.
        let is_file = url
            .strip_prefix(FILE)
            .is_some_and(|path| path.starts_with('/') && !path.starts_with("//"));
        let is_credential = url.strip_prefix(CREDENTIAL).is_some_and(is_name);
        if is_address(&url) || is_file || is_credential {
            return Ok(Self(url));
        }
        Err(
            "`url`: expected an http:// or https:// address, \"file:/PATH\", or \"credential:NAME\" with a name of letters, digits and -_.",
        )
    }
}

impl Address {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Holds no secret: its host, or the name of its place.
    pub fn name(&self) -> String {
        if let Some((_, place)) = self.0.split_once(':').filter(|_| is_place(&self.0)) {
            return place.into();
        }
        let url = self.0.parse::<Url>().ok();
        let host = url.as_ref().and_then(Url::host_str);
        format!("at {}", host.unwrap_or_default())
    }

    /// The part before the first template: scheme, host, and perhaps more.
    pub fn fixed(&self) -> &str {
        fixed(&self.0)
    }
}

impl External for Address {
    fn load(&mut self, key: &str) -> Result<(), String> {
        let refuse = |why| format!("`{key}`: {why}");
        let url = loaded(&self.0).map_err(refuse)?;
        if !is_address(&url) {
            return Err(refuse(format!(
                "{} holds no http:// or https:// address",
                self.0
            )));
        }
        self.0 = url;
        Ok(())
    }

    /// Whatever follows the host, and what precedes it.
    fn secrets(&self) -> Vec<String> {
        let Ok(url) = self.0.parse::<Url>() else {
            return Vec::new();
        };
        let mut parts = vec![
            url.path(),
            url.username(),
            url.password().unwrap_or_default(),
        ];
        parts.extend(url.path().split('/'));
        let mut parts: Vec<String> = parts.into_iter().map(String::from).collect();
        parts.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
        parts
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        if is_place(&self.0) {
            return formatter.write_str(&self.0);
        }
        let Ok(url) = self.0.parse::<Url>() else {
            return formatter.write_str(HIDDEN);
        };
        let host = url.host_str().unwrap_or_default();
        write!(formatter, "{}://{host}", url.scheme())?;
        if let Some(port) = url.port() {
            write!(formatter, ":{port}")?;
        }
        write!(formatter, "/{HIDDEN}")
    }
}

/// Removes a receiver's secrets from what it answers: some quote the request.
pub struct Secrets(Vec<String>);

impl Secrets {
    pub fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = texts.into_iter().collect();
        secrets.retain(|secret| secret.len() >= SHORTEST);
        // The longest first, since one may hold another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    pub fn hide(&self, text: &str) -> String {
        let mut text = text.to_string();
        for secret in &self.0 {
            text = text.replace(secret, HIDDEN);
        }
        text
    }
}

/// What of a value may be shown: its place, the host of an address, or nothing.
pub fn shown(value: &str) -> String {
    match Address::try_from(value.to_string()) {
        Ok(address) => format!("{address:?}"),
        Err(_) => format!("{:?}", SecretHeader(value.into())),
    }
}

/// Whether it names the place of a value, and so is no secret.
fn is_place(value: &str) -> bool {
    value.starts_with(CREDENTIAL) || value.starts_with(FILE)
}

/// The value itself, or the content of the credential or file that it names.
fn loaded(value: &str) -> Result<String, String> {
    if let Some(name) = value.strip_prefix(CREDENTIAL) {
        if !is_name(name) {
            return Err(
                "expected \"credential:NAME\" with a name of letters, digits and -_.".into(),
            );
        }
        let way_out = format!(
            "set `LoadCredential={name}:FILE` in cowbell.service; before systemd 247, write \"file:/etc/cowbell/{name}\" in place of \"{value}\""
        );
        return read(&credential(name), way_out);
    }
    if let Some(path) = value.strip_prefix(FILE) {
        let path = Path::new(path);
        if !path.is_absolute() {
            return Err("expected \"file:/PATH\" with an absolute path".into());
        }
        return read(path, "write the secret to it");
    }
    Ok(value.into())
}

/// The part of a URL before the first template.
fn fixed(url: &str) -> &str {
    let begins = ["{{", "{%", "{#"].into_iter();
    let begin = begins.filter_map(|sign| url.find(sign)).min();
    begin.map_or(url, |begin| &url[..begin])
}

/// Whether it is an HTTP address. Its path and query may be a template, its host may not.
fn is_address(text: &str) -> bool {
    let fixed = fixed(text);
    let has_path = fixed.splitn(4, '/').count() == 4;
    let url = fixed.parse::<Url>();
    let is_http = url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    is_http && (fixed.len() == text.len() || has_path)
}

/// Whether systemd may have a credential of this name, which becomes a file name.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_allowed)
}

/// The file of a credential, whether it exists or not.
pub fn credential(name: &str) -> PathBuf {
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY").filter(|folder| !folder.is_empty());
    Path::new(&folder.unwrap_or_else(|| OF_THE_SERVICE.into())).join(name)
}

/// Reads a file with a single line of ASCII, without its line break. Errors name the file; `way_out` tells how to make a
/// missing one.
pub fn read(path: &Path, way_out: impl fmt::Display) -> Result<String, String> {
    let most = u64::try_from(LONGEST + 3).unwrap_or(u64::MAX);
    line(&read_file(path, way_out, most)?).map_err(|found| {
        format!(
            "{} holds no secret: expected one line of at most {LONGEST} letters, digits and signs, but found {found}",
            path.display()
        )
    })
}

/// Reads the first `most` bytes of a file that only its owner and group can read.
pub fn read_file(path: &Path, way_out: impl fmt::Display, most: u64) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let refuse = |why: String| format!("{shown} {why}");
    let cannot = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => refuse(format!("does not exist: {way_out}")),
        _ => refuse(format!("cannot be read: {error}")),
    };
    let file = open_regular(path).map_err(cannot)?;
    // An open file cannot be replaced after the checks.
    let about = file.metadata().map_err(cannot)?;
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
    file.take(most).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

/// Opens a regular file. Others are refused: a FIFO may wait for ever, and a device may have no end.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // With this flag, opening a FIFO does not wait either.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file; name one"));
    }
    Ok(file)
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
                .contains("cannot be read: it is not a regular file")
        );
    }

    #[test]
    fn a_fifo_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(open_regular(&path).is_err());
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

    #[test]
    fn a_name_of_a_credential_names_no_other_file() {
        for name in ["webhook", "on-call_2.url"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "../token", "a/b", "a b", "ä"] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn the_host_of_an_address_is_fixed() {
        for (url, expected) in [
            ("https://hooks.example/a{{ key }}", true),
            (
                "https://hooks.example/{% if cleared_at %}b{% endif %}",
                true,
            ),
            ("https://{{ host }}/a", false),
            ("https://hooks{{ host }}.example/", false),
            ("https://hooks.example", true),
            ("https://hooks.example?a={b}", true),
            ("https://hooks.example?a={b}{{ key }}", false),
            ("https://hooks.example/{a}{# note #}", true),
            ("ftp://hooks.example/", false),
        ] {
            assert_eq!(is_address(url), expected, "{url}");
        }
    }

    #[test]
    fn a_value_is_read_from_its_file_also_after_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "hunter2\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let place = format!("Bearer file:{}", path.display());
        let mut headers =
            Headers::try_from(BTreeMap::from([("X-Key".into(), place.clone())])).unwrap();
        assert!(format!("{headers:?}").contains(&place));
        headers.load("headers").unwrap();
        assert_eq!(headers.map().unwrap()["X-Key"], "Bearer hunter2");
        assert_eq!(format!("{headers:?}"), "Headers({\"X-Key\": …})");
        let error = SecretText("file:key".into()).load("password");
        assert!(error.unwrap_err().contains("an absolute path"));
    }
}
