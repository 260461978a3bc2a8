//! `[hooks]` and `[changes]`, which name files.

use std::path::PathBuf;

use serde::Deserialize;

use super::{ConfigError, Token};

/// Settings for backup hooks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// `None`: a socket in systemd's runtime directory for the service, or no socket without systemd.
    pub socket: Option<AbsolutePath<LONGEST_SOCKET_PATH>>,
}

/// Access for requests that change jobs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    /// The file with the token for other machines. `None` accepts changes from this machine only.
    pub token_file: Option<AbsolutePath<LONGEST_PATH>>,
}

impl Changes {
    /// Reads the token file.
    pub fn token(&self) -> Result<Option<Token>, ConfigError> {
        self.token_file.as_ref().map(|path| Token::read(&path.0)).transpose()
    }
}

/// `sun_path` without its final NUL.
const LONGEST_SOCKET_PATH: usize = 107;
/// `PATH_MAX` without its final NUL.
const LONGEST_PATH: usize = 4095;

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
        Err(format!("expected an absolute path of at most {MOST} bytes, but found \"{text}\""))
    }
}
