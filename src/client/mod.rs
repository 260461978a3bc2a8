//! Speaks to a running daemon over its API: `cowbell run`, `cowbell status` and `cowbell job`.

pub mod compare;
pub mod job;
pub mod run;
pub mod status;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;

/// The daemon is on this machine: what it does not answer within this time it does not answer.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// Figures of a long job are read from a disk that may be busy with that very job.
const LONG_ANSWER: Duration = Duration::from_secs(30);

/// Where a daemon is to be found that listens on `listen`: over loopback, where it always listens too.
#[derive(Clone)]
pub struct Daemon {
    address: SocketAddr,
    http: reqwest::Client,
}

impl Daemon {
    pub fn at(listen: SocketAddr) -> anyhow::Result<Self> {
        let ip = match listen.ip() {
            IpAddr::V4(ip) if !ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if !ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        // No proxy has a place between this program and itself.
        let http = reqwest::Client::builder().timeout(TIME_LIMIT).no_proxy().build();
        let http = http.context("cannot prepare to speak to the daemon")?;
        Ok(Self { address: SocketAddr::new(ip, listen.port()), http })
    }

    /// Whether a cowbell answers there, fresh or not.
    pub async fn answers(&self) -> bool {
        let status = self.http.get(self.url("/api/v1/status")).send().await;
        match status {
            Ok(answer) => answer.json::<crate::web::StatusBody>().await.is_ok(),
            Err(_) => false,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
