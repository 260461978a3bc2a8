//! The token for changes over HTTP, and for reading from other machines.
//!
//! A short token is rejected.

use std::fmt;
use std::path::Path;

use subtle::ConstantTimeEq;

use super::ConfigError;
use crate::channel::secret;

/// Characters of a token: enough to resist guessing, and few enough for an HTTP header.
const SHORTEST: usize = 32;
const LONGEST: usize = 512;

/// A secret; neither logs nor errors contain it.
pub struct Token(String);

impl Token {
    /// Reads the token from a file with a single line.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let shown = path.display();
        let way_out = format!(
            "make it with `openssl rand -hex 24 | install -m 640 -g cowbell /dev/stdin {shown}`"
        );
        let token = secret::read(path, way_out)
            .and_then(|text| Self::parse(&text).map_err(|why| format!("{shown} {why}")));
        token.map_err(|why| ConfigError(format!("in the token of [changes]: {why}")))
    }

    /// Parses the file's line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let found = match text.len() {
            ..SHORTEST => "fewer",
            SHORTEST..=LONGEST => return Ok(Self(text.into())),
            _ => "more",
        };
        Err(format!(
            "holds no token: expected one line of {SHORTEST} to {LONGEST} letters and digits, but found {found} characters"
        ))
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

/// Keeps the secret out of logs.
impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "0123456789abcdef0123456789abcdef";

    fn check(text: &str, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let found = match Token::read(&path) {
            Ok(token) => format!("{token:?} {}", token.is(GOOD.as_bytes())),
            Err(error) => error.to_string(),
        };
        assert!(
            found.contains(expected) && found.lines().count() == 1,
            "expected {expected:?} in {found:?}"
        );
        assert!(
            !found.contains("0123456789"),
            "the token appears in {found}"
        );
    }

    #[test]
    fn a_token_is_one_long_line() {
        check(GOOD, "Token(…) true");
        check(&format!("{GOOD}\n"), "Token(…) true");
        for (text, found) in [
            ("", "but found nothing"),
            ("0123456789abcde", "but found fewer characters"),
            ("0123456789 abcdef", "but found spaces, line breaks"),
            (&"x".repeat(513), "but found more characters"),
        ] {
            check(text, found);
        }
    }

    #[test]
    fn a_missing_file_is_rejected_with_a_command_that_makes_it() {
        let missing = Token::read(Path::new("/does/not/exist"))
            .unwrap_err()
            .to_string();
        assert!(
            missing.contains("/does/not/exist does not exist: make it with `openssl"),
            "{missing}"
        );
    }

    #[test]
    fn only_the_exact_token_matches() {
        let token = Token(GOOD.into());
        for offered in [
            "",
            "0",
            "0123456789abcde",
            "0123456789abcdeF",
            "0123456789abcdef0",
            "0123456789abcdef\0",
        ] {
            assert!(!token.is(offered.as_bytes()), "{offered:?}");
        }
        assert!(token.is(GOOD.as_bytes()));
    }
}
