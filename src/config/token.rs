//! The token by which other machines may tell of jobs: read from a file, once, when the program starts.
//!
//! What cannot be guessed has to be long, and what others may read is no secret: such a file is refused.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Unusable;

/// Letters of a token: as many as nobody guesses, and no more than a header holds.
const SHORTEST: usize = 16;
const LONGEST: usize = 512;
/// What users who are neither owner nor of the group may do with a file.
const OTHERS: u32 = 0o007;

/// A secret that is never shown.
pub struct Token(String);

impl Token {
    /// The token in this file, alone on its line.
    pub fn read(path: &Path) -> Result<Self, Unusable> {
        let shown = path.display();
        let refuse =
            |why: String| Unusable(format!("in the option `token_file` of [changes]: {shown} {why}"));
        let cannot = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => refuse(format!(
                "is not there: make it with `openssl rand -hex 24 | install -m 600 /dev/stdin {shown}`"
            )),
            _ => refuse(format!("cannot be read: {error}")),
        };
        let about = std::fs::metadata(path).map_err(cannot)?;
        if !about.is_file() {
            return Err(refuse("is no file: name one that holds a token".into()));
        }
        if about.permissions().mode() & OTHERS != 0 {
            return Err(refuse(format!("is open to every user: close it with `chmod o= {shown}`")));
        }
        let mut text = String::new();
        let most = u64::try_from(LONGEST + 3).unwrap_or(u64::MAX);
        let read = std::fs::File::open(path).and_then(|file| file.take(most).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(refuse(expected("other letters"))),
            Err(error) => Err(cannot(error)),
            Ok(_) => Self::understood(&text).map_err(|found| refuse(expected(found))),
        }
    }

    /// A token of a file's text; an error is what was found instead.
    fn understood(text: &str) -> Result<Self, &'static str> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        match text.len() {
            0 => Err("nothing"),
            _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => Err("spaces, lines or other letters"),
            1..SHORTEST => Err("a shorter one"),
            SHORTEST..=LONGEST => Ok(Self(text.into())),
            _ => Err("a longer one"),
        }
    }

    /// Whether somebody knows it. How long that takes does not tell how much of it was right.
    pub fn is(&self, offered: &[u8]) -> bool {
        let padded = offered.iter().copied().chain(std::iter::repeat(0));
        let unlike = self.0.bytes().zip(padded).fold(0, |unlike, (ours, theirs)| unlike | (ours ^ theirs));
        std::hint::black_box(unlike) == 0 && offered.len() == self.0.len()
    }
}

fn expected(found: &str) -> String {
    format!(
        "holds no token: expected one line of {SHORTEST} to {LONGEST} letters and digits, but found {found}"
    )
}

/// A secret is not written into any log.
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
        assert!(!found.contains("0123456789"), "it is never shown: {found}");
    }

    #[test]
    fn a_token_is_one_long_word_in_a_file_that_others_cannot_read() {
        check(GOOD.as_bytes(), 0o600, "Token(…) true");
        check(format!("{GOOD}\n").as_bytes(), 0o640, "Token(…) true");
        check(format!("{GOOD}\r\n").as_bytes(), 0o400, "Token(…) true");
        check(GOOD.as_bytes(), 0o604, "close it with `chmod o= ");
        check(GOOD.as_bytes(), 0o602, "is open to every user");
        for (text, found) in [
            ("", "but found nothing"),
            ("\n", "but found nothing"),
            ("0123456789abcde", "but found a shorter one"),
            ("0123456789 abcdef", "but found spaces, lines"),
            ("0123456789abcdef\n\n", "but found spaces, lines"),
            ("0123456789abcdef\t", "but found spaces, lines"),
            ("0123456789abcdefä", "but found spaces, lines"),
            (&"x".repeat(513), "but found a longer one"),
            (&"x".repeat(100_000), "but found a longer one"),
        ] {
            check(text.as_bytes(), 0o600, found);
        }
        check(b"0123456789abcdef\xff", 0o600, "but found other letters");
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        let missing = Token::read(Path::new("/does/not/exist")).unwrap_err().to_string();
        assert!(missing.contains("/does/not/exist is not there: make it with"), "{missing}");
        assert!(Token::read(Path::new("/dev/null")).unwrap_err().to_string().contains("is no file"));
    }

    #[test]
    fn only_the_whole_token_is_it() {
        let token = Token(GOOD.into());
        for offered in
            ["", "0", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", "0123456789abcdef\0"]
        {
            assert!(!token.is(offered.as_bytes()), "{offered:?}");
        }
        assert!(token.is(GOOD.as_bytes()));
    }
}
