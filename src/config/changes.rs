//! `[changes]`: who may tell of jobs from other machines. What a token has to be is `token`'s to say.

use std::path::PathBuf;

use serde::Deserialize;

use super::{Token, Unusable};

/// Who may change something, which is to tell of jobs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    /// Holds the token of other machines; `None` where changes come from this one alone.
    pub token_file: Option<WholePath>,
}

impl Changes {
    /// The token, read now.
    pub fn token(&self) -> Result<Option<Token>, Unusable> {
        self.token_file.as_ref().map(|path| Token::read(&path.0)).transpose()
    }
}

/// A path that means the same wherever the program is started.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct WholePath(pub PathBuf);

impl TryFrom<String> for WholePath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_whole = text.starts_with('/') && !text.contains('\0');
        is_whole.then(|| Self(PathBuf::from(&text))).ok_or_else(|| {
            format!("expected a whole path such as \"/etc/cowbell/token\", but found \"{text}\"")
        })
    }
}
