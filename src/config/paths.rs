//! `[hooks]`, `[changes]` and `[proxy]`, which name files.

use std::path::PathBuf;

use serde::Deserialize;

use super::{ConfigError, Token, secret};

/// Settings for backup hooks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// `None`: a socket in systemd's runtime directory for the service, or no socket without systemd.
    pub socket: Option<AbsolutePath<LONGEST_SOCKET_PATH>>,
}

/// The token for changes over HTTP, and for reading from other machines.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    /// The file with the token. `None`: systemd's credential `token`; without one, only the control socket accepts
    /// changes.
    pub token_file: Option<AbsolutePath<LONGEST_PATH>>,
}

/// A web server in front of cowbell.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Proxy {
    /// A Unix socket for it, besides `listen`.
    pub socket: Option<AbsolutePath<LONGEST_SOCKET_PATH>>,
    /// The path under which it serves the site.
    pub prefix: PathPrefix,
}

/// Empty, or a path such as `/cowbell`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct PathPrefix(pub String);

impl TryFrom<String> for PathPrefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let is_part =
            |part: &str| !part.is_empty() && part.bytes().all(is_allowed) && !part.starts_with('.');
        let is_valid = text
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(is_part));
        match text.is_empty() || is_valid && text.len() <= LONGEST_PREFIX {
            true => Ok(Self(text)),
            false => Err(format!(
                "expected a path such as \"/cowbell\", of letters, digits and -_.~, but found \"{text}\""
            )),
        }
    }
}

impl Changes {
    /// Reads the token file, or else the credential `token` if there is one.
    pub fn token(&self) -> Result<Option<Token>, ConfigError> {
        let named = self.token_file.as_ref().map(|path| path.0.clone());
        let path = named.or_else(|| Some(secret::credential("token")).filter(|path| path.exists()));
        path.map(|path| Token::read(&path)).transpose()
    }
}

/// Longer paths are no prefix.
const LONGEST_PREFIX: usize = 200;
/// `sun_path` without its final NUL.
const LONGEST_SOCKET_PATH: usize = 107;
/// `PATH_MAX` without its final NUL.
pub(super) const LONGEST_PATH: usize = 4095;

/// A path that does not depend on the working directory.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct AbsolutePath<const MOST: usize>(pub PathBuf);

impl<const MOST: usize> TryFrom<String> for AbsolutePath<MOST> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.starts_with('/') && text.len() <= MOST && !text.contains('\0') {
            return Ok(Self(text.into()));
        }
        // It may be the token itself, so it is not repeated.
        Err(format!("expected an absolute path of at most {MOST} bytes"))
    }
}
