//! Commands that talk to a running daemon over its API: `cowbell run`, `cowbell status` and `cowbell job`.

mod arguments;
pub mod compare;
pub mod file;
pub mod follow;
pub mod job;
mod plain;
pub mod run;
pub mod status;
pub mod commands;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;

use crate::web::{JobReply, PutJob, StatusBody, escaped};

/// The time limit for quick answers.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The time limit for commands, which the daemon answers within two seconds.
const COMMAND_LIMIT: Duration = Duration::from_secs(3);
/// The time limit for figures of a long job, from a busy disk.
const LONG_LIMIT: Duration = Duration::from_secs(30);
/// The time limit for figures of up to 64 jobs.
const LONGEST_LIMIT: Duration = Duration::from_secs(120);

/// A daemon on this machine.
#[derive(Clone)]
pub struct Daemon {
    address: SocketAddr,
    http: OnceLock<reqwest::Client>,
}

impl Daemon {
    /// The daemon that listens on `listen`, reached over loopback, where it always listens too.
    pub fn at(listen: SocketAddr) -> Self {
        let ip = match listen.ip() {
            IpAddr::V4(ip) if !ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if !ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        Self { address: SocketAddr::new(ip, listen.port()), http: OnceLock::new() }
    }

    /// Whether a cowbell answers, however old its figures are.
    pub async fn answers(&self) -> bool {
        let status = self.ask("/api/v1/status", &[], TIME_LIMIT).await;
        status.and_then(|answer| parsed::<StatusBody>(&answer)).is_ok()
    }

    /// Starts or ends a job.
    pub async fn put_job(&self, key: &str, put: &PutJob) -> anyhow::Result<JobReply> {
        self.command("PUT", &format!("/api/v1/jobs/{}", escaped(key)), &serde_json::to_string(put)?).await
    }

    /// The HTTP client; made when first used, since that takes milliseconds.
    fn http(&self) -> anyhow::Result<&reqwest::Client> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        // The daemon speaks plain HTTP, so the host needs no certificates.
        let http = reqwest::Client::builder().timeout(TIME_LIMIT).no_proxy().tls_certs_only([]).build();
        let http = http.context("cannot create an HTTP client")?;
        Ok(self.http.get_or_init(|| http))
    }

    /// Sends a command on a job. A refusal is an error with the daemon's sentence.
    async fn command(&self, method: &str, path: &str, body: &str) -> anyhow::Result<JobReply> {
        let exchange = plain::exchange(self.address, method, path, body);
        let answer = tokio::time::timeout(COMMAND_LIMIT, exchange).await;
        let answer = answer.with_context(|| format!("no daemon answers at {}", self.address))?;
        let (status, text) = answer.map_err(|error| self.unreachable(&error.into()))?;
        parsed(&self.accepted((200..300).contains(&status), text)?)
    }

    async fn ask(&self, path: &str, query: &[(&str, String)], limit: Duration) -> anyhow::Result<String> {
        Ok(self.get(reqwest::Url::parse_with_params(&self.url(path), query)?, limit).await?.0)
    }

    /// An answer, and the path of the next page.
    async fn get(&self, url: reqwest::Url, limit: Duration) -> anyhow::Result<(String, Option<String>)> {
        let path = url.path().to_string();
        let answer = self.http()?.get(url).timeout(limit).send().await;
        let answer = answer.map_err(|error| self.unreachable(&error.into()))?;
        let is_success = answer.status().is_success();
        let link = answer.headers().get("link").and_then(|link| link.to_str().ok());
        let next =
            link.and_then(|link| Some(link.strip_prefix('<')?.split_once(">; rel=\"next\"")?.0.to_string()));
        let text = answer.text().await.with_context(|| format!("the answer to {path} is incomplete"))?;
        Ok((self.accepted(is_success, text)?, next))
    }

    /// The text of an answer, or the sentence of a refusal as an error.
    fn accepted(&self, is_success: bool, text: String) -> anyhow::Result<String> {
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }
        if !is_success {
            let sentence = serde_json::from_str(&text).map_or(text, |refusal: Refusal| refusal.error);
            bail!("the daemon at {} answers: {sentence}", self.address);
        }
        Ok(text)
    }

    /// Names the root cause only.
    fn unreachable(&self, error: &anyhow::Error) -> anyhow::Error {
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

fn parsed<'a, T: Deserialize<'a>>(answer: &'a str) -> anyhow::Result<T> {
    serde_json::from_str(answer).context("the daemon's answer cannot be parsed: has it the same version?")
}

/// Writes a line to standard error. Failure is ignored, so that it does not change the exit status.
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
