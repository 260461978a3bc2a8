//! The tables of the file that have a few keys: `[lvm]`, `[store]`, `[hooks]`, `[changes]`, `[proxy]`, `[tls]`,
//! `[remote_write]`, `[fleet]`.

use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::values::{AbsolutePath, Age, PathPrefix, ShortName, Size, USERS, user_numbers};
use super::{ConfigError, Token};
use crate::channel::secret::{self, Address, External, Headers};

/// `sun_path` without its final NUL.
const LONGEST_SOCKET_PATH: usize = 107;
/// `PATH_MAX` without its final NUL.
const LONGEST_PATH: usize = 4095;

/// Settings for reading volumes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Lvm {
    pub source: LvmSource,
}

/// The source of volumes, their usage and their groups.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LvmSource {
    /// The device-mapper at every tick, and LVM after changes and every minute. If the device-mapper does not answer,
    /// LVM reports usage every 10 s.
    #[default]
    Auto,
    /// The device-mapper only; `lvm` never runs.
    Dm,
    /// LVM only, every 10 s, for hosts that forbid device-mapper ioctls.
    Lvs,
}

impl LvmSource {
    pub fn uses_dm(self) -> bool {
        self != Self::Lvs
    }

    pub fn uses_lvm(self) -> bool {
        self != Self::Dm
    }
}

/// Retention by resolution, and the size limit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// Every tick.
    pub ticks: Age,
    /// One-minute and ten-minute roll-ups.
    pub minutes: Age,
    /// Every tick while a job ran.
    pub jobs: Age,
    /// The limit on disk; the oldest and finest data is deleted first.
    pub size: Size,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            ticks: Age::days(30),
            minutes: Age::days(730),
            jobs: Age::days(365),
            size: Size(1 << 30),
        }
    }
}

impl Store {
    /// Refuses times that contradict each other.
    pub fn checked<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let store = Self::deserialize(deserializer)?;
        if store.ticks > store.minutes {
            return Err(D::Error::custom(
                "expected ticks <= minutes, since sums are stored for longer",
            ));
        }
        Ok(store)
    }

    /// The limit of ticks and roll-ups together. Beyond it, the oldest are deleted.
    pub fn bytes_for_ticks(&self) -> u64 {
        self.size.0 / 4 * 3
    }

    /// The limit of jobs and imported files together. Beyond it, new ones are refused, so that they never displace ticks.
    pub fn bytes_for_jobs(&self) -> u64 {
        self.size.0 / 4
    }
}

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
    /// The file with a token that reads, and changes nothing. `None`: the credential `read-token`, if there is one.
    pub read_token_file: Option<AbsolutePath<LONGEST_PATH>>,
}

impl Changes {
    /// Reads the token file, or else the credential if there is one.
    pub fn token(&self) -> Result<Option<Token>, ConfigError> {
        token_of(self.token_file.as_ref(), "token")
    }

    /// The same of the token that only reads.
    pub fn read_token(&self) -> Result<Option<Token>, ConfigError> {
        token_of(self.read_token_file.as_ref(), "read-token")
    }
}

fn token_of(
    file: Option<&AbsolutePath<LONGEST_PATH>>,
    credential: &str,
) -> Result<Option<Token>, ConfigError> {
    if let Some(path) = file {
        return Token::read(&path.0).map(Some);
    }
    let credential = secret::credential(credential);
    if !credential.exists() {
        return Ok(None);
    }
    Token::read(&credential).map(Some)
}

/// HTTPS on `listen`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// The certificate and those between it and its authority, as PEM.
    pub certificate: AbsolutePath<LONGEST_PATH>,
    /// Its private key, as PEM.
    pub key: AbsolutePath<LONGEST_PATH>,
    /// The authorities of clients: only those with a certificate of theirs can connect.
    pub clients: Option<AbsolutePath<LONGEST_PATH>>,
}

impl TlsSettings {
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [
            Some(&self.certificate),
            Some(&self.key),
            self.clients.as_ref(),
        ];
        files.into_iter().flatten().map(|file| &*file.0)
    }
}

/// A web server in front of cowbell.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Proxy {
    /// A Unix socket for it, besides `listen`.
    pub socket: Option<AbsolutePath<LONGEST_SOCKET_PATH>>,
    /// The user that it runs as: only then is an address believed that it forwards.
    pub user: Option<String>,
    /// The path under which it serves the site.
    pub prefix: PathPrefix,
}

impl Proxy {
    /// The number of its user, as this machine knows it.
    pub fn user_number(&self) -> Result<Option<u32>, ConfigError> {
        let Some(name) = &self.user else {
            return Ok(None);
        };
        let Some((number, _)) = user_numbers(name) else {
            return Err(ConfigError(format!(
                "`user` in [proxy]: {USERS} has no user {name:?}; name the one that the proxy runs as, such as \"www-data\""
            )));
        };
        Ok(Some(number))
    }
}

/// A receiver to which every stored tick is sent.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RemoteWriteSettings {
    pub url: Address,
    #[serde(default)]
    pub headers: Headers,
    /// The label `instance`; the host's name if `None`.
    pub instance: Option<ShortName<255>>,
}

/// A Prometheus or VictoriaMetrics that has the metrics of all servers.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FleetSettings {
    /// Its address, without `/api/v1`.
    pub prometheus: Address,
    #[serde(default)]
    pub headers: Headers,
    /// The page of a server, with `{instance}` and `{host}`. `None`: the address that is scraped.
    pub link: Option<String>,
}

impl FleetSettings {
    /// Reads what is in credentials and files.
    pub fn load(&mut self) -> Result<(), String> {
        self.prometheus.load("prometheus")?;
        self.headers.load("headers")
    }
}

impl RemoteWriteSettings {
    /// Reads what is in credentials and files.
    pub fn load(&mut self) -> Result<(), String> {
        self.url.load("url")?;
        self.headers.load("headers")
    }
}
