//! `listen`: the address of the pages, and whether it needs a token.

use std::net::SocketAddr;

use serde::Deserialize;

use super::ConfigError;

/// A numeric address and a port.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Listen(pub SocketAddr);

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| {
            format!(
                "expected an address and a port such as \"127.0.0.1:2692\", but found \"{text}\""
            )
        })
    }
}

/// Fails for an address that other machines reach, without a token.
pub fn check_address(address: SocketAddr, has_token: bool) -> Result<(), ConfigError> {
    if address.ip().is_loopback() || has_token {
        return Ok(());
    }
    Err(ConfigError::option(
        "listen",
        &format!(
            "other machines reach {address}, which needs a token: set `token_file` in [changes], or listen on 127.0.0.1 \
             and use `ssh -L`"
        ),
    ))
}
