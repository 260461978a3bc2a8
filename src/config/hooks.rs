//! `[hooks]`: the socket that receives messages from backup hooks.

use std::path::PathBuf;

use serde::Deserialize;

/// Settings for backup hooks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// `None`: a socket in systemd's runtime directory for the service, or no socket without systemd.
    pub socket: Option<SocketPath>,
}

/// An absolute path, short enough for a Unix socket.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct SocketPath(pub PathBuf);

/// `sun_path` without its final NUL.
const LONGEST_SOCKET_PATH: usize = 107;

impl TryFrom<String> for SocketPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.starts_with('/') && text.len() <= LONGEST_SOCKET_PATH && !text.contains('\0') {
            return Ok(Self(text.into()));
        }
        Err(format!(
            "expected a path such as \"/run/cowbell/hooks\", of {LONGEST_SOCKET_PATH} bytes at most, but found \"{text}\""
        ))
    }
}
