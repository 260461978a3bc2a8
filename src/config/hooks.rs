//! `[hooks]`: where the words of backups' hooks are heard.

use std::path::PathBuf;

use serde::Deserialize;

/// Where backups' hooks are heard.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// `None` where nothing is said: in the folder that systemd makes for the service, else nowhere.
    pub socket: Option<SocketPath>,
}

/// A whole path that the kernel takes for a socket.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct SocketPath(pub PathBuf);

/// The kernel's limit, without the byte that ends it.
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
