//! `[changes]`: the token that lets other machines change jobs.

use std::path::PathBuf;

use serde::Deserialize;

use super::{ConfigError, Token};

/// Access for requests that change jobs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    /// The file with the token for other machines. `None` accepts changes from this machine only.
    pub token_file: Option<AbsolutePath>,
}

impl Changes {
    /// Reads the token file.
    pub fn token(&self) -> Result<Option<Token>, ConfigError> {
        self.token_file.as_ref().map(|path| Token::read(&path.0)).transpose()
    }
}

/// An absolute path, independent of the working directory.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct AbsolutePath(pub PathBuf);

impl TryFrom<String> for AbsolutePath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_absolute = text.starts_with('/') && !text.contains('\0');
        is_absolute.then(|| Self(PathBuf::from(&text))).ok_or_else(|| {
            format!("expected an absolute path such as \"/etc/cowbell/token\", but found \"{text}\"")
        })
    }
}
