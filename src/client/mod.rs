//! Speaks to a running daemon over its API: `cowbell run`, `cowbell status` and `cowbell job`.

pub mod compare;
pub mod job;
pub mod report;
pub mod run;
pub mod status;
pub mod word;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::web::{PutJob, ToldJob};

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

    /// Tells of a job that began or ended.
    pub async fn put_job(&self, key: &str, put: &PutJob) -> anyhow::Result<ToldJob> {
        let answer = self.tell(Method::PUT, &format!("/api/v1/jobs/{key}"), Some(put)).await?;
        job::understood(&answer)
    }

    /// Changes something; gives the answer. A refusal is an error, with the daemon's sentence.
    async fn tell(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> anyhow::Result<String> {
        // Without a body too: only JSON changes anything.
        let request = self.http.request(method, self.url(path)).header("Content-Type", "application/json");
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer =
            request.send().await.with_context(|| format!("no daemon answers at {}", self.address))?;
        let is_refused = !answer.status().is_success();
        let text = answer.text().await.unwrap_or_default();
        if is_refused {
            bail!("the daemon at {} answers: {}", self.address, said(text));
        }
        Ok(text)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
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
