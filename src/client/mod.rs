//! Speaks to a running daemon over its API: `cowbell run`, `cowbell status` and `cowbell job`.

pub mod compare;
pub mod file;
pub mod follow;
pub mod job;
mod plain;
pub mod report;
pub mod run;
pub mod status;
pub mod commands;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;

use crate::web::{PutJob, ToldJob};

/// The daemon is on this machine: what it does not answer within this time it does not answer.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The daemon answers a command within two seconds, whatever its disk does.
const COMMAND_LIMIT: Duration = Duration::from_secs(3);
/// Figures of a long job are read from a disk that may be busy with that very job.
const LONG_ANSWER: Duration = Duration::from_secs(30);

/// Where a daemon is to be found that listens on `listen`: over loopback, where it always listens too.
#[derive(Clone)]
pub struct Daemon {
    address: SocketAddr,
    http: OnceLock<reqwest::Client>,
}

impl Daemon {
    pub fn at(listen: SocketAddr) -> anyhow::Result<Self> {
        let ip = match listen.ip() {
            IpAddr::V4(ip) if !ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if !ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let address = SocketAddr::new(ip, listen.port());
        Ok(Self { address, http: OnceLock::new() })
    }

    /// What asks; made when it is first asked for, since that takes milliseconds.
    fn http(&self) -> anyhow::Result<&reqwest::Client> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        // No proxy has a place between this program and itself.
        let http = reqwest::Client::builder().timeout(TIME_LIMIT).no_proxy().build();
        let http = http.context("cannot prepare to speak to the daemon")?;
        Ok(self.http.get_or_init(|| http))
    }

    /// Whether a cowbell answers there, fresh or not.
    pub async fn answers(&self) -> bool {
        let Ok(http) = self.http() else { return false };
        let status = http.get(self.url("/api/v1/status")).send().await;
        match status {
            Ok(answer) => answer.json::<crate::web::StatusBody>().await.is_ok(),
            Err(_) => false,
        }
    }

    /// Begins or ends a job.
    pub async fn put_job(&self, key: &str, put: &PutJob) -> anyhow::Result<ToldJob> {
        let path = format!("/api/v1/jobs/{}", plain::part_of_path(key));
        self.command("PUT", &path, &serde_json::to_string(put)?).await
    }

    /// Sends a command on a job. A refusal is an error with the daemon's sentence.
    async fn command(&self, method: &str, path: &str, body: &str) -> anyhow::Result<ToldJob> {
        let exchange = plain::exchange(self.address, method, path, body);
        let answer = tokio::time::timeout(COMMAND_LIMIT, exchange).await;
        let answer = answer.with_context(|| format!("no daemon answers at {}", self.address))?;
        let (status, text) = answer.map_err(|error| self.unheard(&error.into()))?;
        if !(200..300).contains(&status) {
            bail!("the daemon at {} answers: {}", self.address, said(text));
        }
        job::understood(&text)
    }

    /// Nobody answers: of what hindered it the cause alone is told.
    fn unheard(&self, error: &anyhow::Error) -> anyhow::Error {
        anyhow!(
            "no daemon answers at {} ({}): is `cowbell serve` running, and with this `listen`?",
            self.address,
            error.root_cause()
        )
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A line on standard error. That nobody reads it, or it is full, is no reason to end otherwise.
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A refusal of the daemon.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// The sentence of a refusal.
fn said(text: String) -> String {
    serde_json::from_str(&text).map_or(text, |refusal: Refusal| refusal.error)
}
