//! The token for changes over HTTP, and for reading from other machines.
//!
//! A short token and a file that every user can read are rejected.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use subtle::ConstantTimeEq;

use super::ConfigError;

/// Characters of a token: enough to resist guessing, and few enough for an HTTP header.
const SHORTEST: usize = 16;
const LONGEST: usize = 512;
/// Permission bits of users who are neither owner nor in the group.
const OTHERS: u32 = 0o007;

/// A secret; neither logs nor errors contain it.
pub struct Token(String);

impl Token {
    /// Reads the token from a file with a single line.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let shown = path.display();
        let refuse =
            |why: String| ConfigError(format!("in the option `token_file` of [changes]: {shown} {why}"));
        let cannot = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => refuse(format!(
                "does not exist: make it with `openssl rand -hex 24 | install -m 640 -g cowbell /dev/stdin {shown}`"
            )),
            _ => refuse(format!("cannot be read: {error}")),
        };
        let about = std::fs::metadata(path).map_err(cannot)?;
        if !about.is_file() {
            return Err(refuse("is not a regular file: name a file that holds a token".into()));
        }
        let own = rustix::process::geteuid().as_raw();
        if ![0, own].contains(&about.uid()) {
            return Err(refuse(format!("belongs to user {}: run `chown root {shown}`", about.uid())));
        }
        if about.permissions().mode() & OTHERS != 0 {
            return Err(refuse(format!("is accessible to every user: run `chmod o= {shown}`")));
        }
        let mut text = String::new();
        let most = u64::try_from(LONGEST + 3).unwrap_or(u64::MAX);
        let read = std::fs::File::open(path).and_then(|file| file.take(most).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(refuse(expected("other characters"))),
            Err(error) => Err(cannot(error)),
            Ok(_) => Self::parse(&text).map_err(|found| refuse(expected(found))),
        }
    }

    /// Parses the file's text; an error says what was found instead.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        match text.len() {
            0 => Err("nothing"),
            _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err("spaces, line breaks or other characters")
            }
            1..SHORTEST => Err("fewer characters"),
            SHORTEST..=LONGEST => Ok(Self(text.into())),
            _ => Err("more characters"),
        }
    }

    pub fn is(&self, offered: &[u8]) -> bool {
        is_equal(offered, self.bytes())
    }

    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Compares secrets in constant time, so that the duration reveals nothing about them.
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

fn expected(found: &str) -> String {
    format!(
        "holds no token: expected one line of {SHORTEST} to {LONGEST} letters and digits, but found {found}"
    )
}

/// Keeps the secret out of logs.
impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "0123456789abcdef";

    fn check(text: &[u8], mode: u32, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let found = match Token::read(&path) {
            Ok(token) => format!("{token:?} {}", token.is(GOOD.as_bytes())),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected) && found.lines().count() == 1, "expected {expected:?} in {found:?}");
        assert!(!found.contains("0123456789"), "the token appears in {found}");
    }

    #[test]
    fn a_token_is_one_long_line_in_a_file_that_others_cannot_read() {
        check(GOOD.as_bytes(), 0o600, "Token(…) true");
        check(format!("{GOOD}\n").as_bytes(), 0o640, "Token(…) true");
        check(format!("{GOOD}\r\n").as_bytes(), 0o400, "Token(…) true");
        check(GOOD.as_bytes(), 0o604, "run `chmod o= ");
        check(GOOD.as_bytes(), 0o602, "is accessible to every user");
        for (text, found) in [
            ("", "but found nothing"),
            ("\n", "but found nothing"),
            ("0123456789abcde", "but found fewer characters"),
            ("0123456789 abcdef", "but found spaces, line breaks"),
            ("0123456789abcdef\n\n", "but found spaces, line breaks"),
            ("0123456789abcdef\t", "but found spaces, line breaks"),
            ("0123456789abcdefä", "but found spaces, line breaks"),
            (&"x".repeat(513), "but found more characters"),
            (&"x".repeat(100_000), "but found more characters"),
        ] {
            check(text.as_bytes(), 0o600, found);
        }
        check(b"0123456789abcdef\xff", 0o600, "but found other characters");
    }

    #[test]
    fn a_missing_or_special_file_is_rejected() {
        let missing = Token::read(Path::new("/does/not/exist")).unwrap_err().to_string();
        assert!(missing.contains("/does/not/exist does not exist: make it with"), "{missing}");
        assert!(
            Token::read(Path::new("/dev/null")).unwrap_err().to_string().contains("is not a regular file")
        );
    }

    #[test]
    fn only_the_exact_token_matches() {
        let token = Token(GOOD.into());
        for offered in
            ["", "0", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", "0123456789abcdef\0"]
        {
            assert!(!token.is(offered.as_bytes()), "{offered:?}");
        }
        assert!(token.is(GOOD.as_bytes()));
    }
}
