//! Commands that talk to a running daemon over its control socket: `cowbell run`, `status`, `job` and `alert`.

pub mod alert;
mod arguments;
pub mod commands;
pub mod compare;
pub mod control;
pub mod file;
pub mod follow;
pub mod job;
mod plain;
pub mod run;
pub mod size;
pub mod status;
pub mod terminal;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::net::{TcpStream, UnixStream};

pub use terminal::complain;

use crate::web::{JobReply, PutJob, StatusBody, escaped};

/// The time limit for quick answers.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The time limit for commands, which the daemon answers within two seconds.
const COMMAND_LIMIT: Duration = Duration::from_secs(3);
/// The time limit for figures of a long job, from a busy disk.
const LONG_LIMIT: Duration = Duration::from_secs(30);
/// The time limit for figures of up to 64 jobs.
const LONGEST_LIMIT: Duration = Duration::from_secs(120);

/// A daemon on this machine, reached over its control socket.
#[derive(Clone)]
pub struct Daemon {
    /// Where its socket may be.
    paths: Vec<PathBuf>,
    http: OnceLock<reqwest::Client>,
}

impl Daemon {
    /// The daemon that listens on `listen`; the service, unless the address is named.
    pub fn at(listen: SocketAddr, is_named: bool) -> Self {
        Self {
            paths: control::paths(listen.port(), is_named),
            http: OnceLock::new(),
        }
    }

    /// Starts or ends a job.
    pub async fn put_job(&self, key: &str, put: &PutJob) -> anyhow::Result<JobReply> {
        self.command(
            "PUT",
            &format!("/api/v1/marks/{}", escaped(key)),
            &serde_json::to_string(put)?,
        )
        .await
    }

    /// The answer of `GET /api/v1/status`.
    pub async fn status_json(&self) -> anyhow::Result<String> {
        self.ask("/api/v1/status", &[], TIME_LIMIT).await
    }

    /// The HTTP client; made when first used, since that takes milliseconds.
    async fn http(&self) -> anyhow::Result<&reqwest::Client> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        let (path, _) = self.connect().await?;
        // The daemon speaks plain HTTP, so the host needs no certificates.
        let http = reqwest::Client::builder()
            .timeout(TIME_LIMIT)
            .no_proxy()
            .tls_certs_only([]);
        let http = http
            .unix_socket(path)
            .build()
            .context("cannot create an HTTP client")?;
        Ok(self.http.get_or_init(|| http))
    }

    /// The first socket at which a daemon listens.
    async fn connect(&self) -> anyhow::Result<(&Path, UnixStream)> {
        let mut problem = None;
        for path in &self.paths {
            match UnixStream::connect(path).await {
                Ok(stream) => return Ok((path, stream)),
                // The reason of a socket that exists is worth more.
                Err(error) if error.kind() != ErrorKind::NotFound || problem.is_none() => {
                    problem = Some((path, error));
                }
                Err(_) => {}
            }
        }
        let (path, error) = problem.context("there is no place for a control socket")?;
        Err(unreachable(&format!("{}: {error}", path.display())))
    }

    /// Sends a command. A refusal is an error with the daemon's sentence.
    async fn command<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> anyhow::Result<T> {
        self.command_within(COMMAND_LIMIT, method, path, body).await
    }

    async fn command_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        method: &str,
        path: &str,
        body: &str,
    ) -> anyhow::Result<T> {
        let (_, stream) = self.connect().await?;
        let answer = tokio::time::timeout(limit, plain::exchange(stream, method, path, body)).await;
        let late = "try again, or look into its log";
        let answer = answer
            .with_context(|| format!("the daemon did not answer within {limit:?}: {late}"))?;
        let (status, text) = answer.map_err(|error| unreachable(&error.to_string()))?;
        parsed(&accepted((200..300).contains(&status), text)?)
    }

    async fn ask(
        &self,
        path: &str,
        query: &[(&str, String)],
        limit: Duration,
    ) -> anyhow::Result<String> {
        Ok(self
            .get(reqwest::Url::parse_with_params(&url(path), query)?, limit)
            .await?
            .0)
    }

    /// An answer, and the path of the next page.
    async fn get(
        &self,
        url: reqwest::Url,
        limit: Duration,
    ) -> anyhow::Result<(String, Option<String>)> {
        let path = url.path().to_string();
        let answer = self.http().await?.get(url).timeout(limit).send().await;
        let answer = answer.map_err(|error| failed(error.into()))?;
        let is_success = answer.status().is_success();
        let link = answer
            .headers()
            .get("link")
            .and_then(|link| link.to_str().ok());
        let next = link.and_then(|link| {
            Some(
                link.strip_prefix('<')?
                    .split_once(">; rel=\"next\"")?
                    .0
                    .to_string(),
            )
        });
        let text = answer
            .text()
            .await
            .with_context(|| format!("the answer to {path} is incomplete"))?;
        Ok((accepted(is_success, text)?, next))
    }
}

/// Whether a cowbell answers over HTTP, however old its figures are. It always listens on loopback too.
pub async fn answers(listen: SocketAddr) -> bool {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if !ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if !ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let exchange = async {
        let stream = TcpStream::connect(SocketAddr::new(ip, listen.port())).await?;
        plain::exchange(stream, "GET", "/api/v1/status", "").await
    };
    let answer = tokio::time::timeout(TIME_LIMIT, exchange).await;
    matches!(answer, Ok(Ok((200, status))) if parsed::<StatusBody>(&status).is_ok())
}

/// The text of an answer, or the sentence of a refusal as an error.
fn accepted(is_success: bool, text: String) -> anyhow::Result<String> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    if !is_success {
        let sentence = serde_json::from_str(&text).map_or(text, |refusal: Refusal| refusal.error);
        bail!("the daemon answers: {sentence}");
    }
    Ok(text)
}

/// Names the root cause only.
fn failed(error: anyhow::Error) -> anyhow::Error {
    unreachable(&error.root_cause().to_string())
}

fn unreachable(why: &str) -> anyhow::Error {
    anyhow!("no daemon answers ({why}): is `cowbell serve` running, and with this `listen`?")
}

/// The host is of no meaning to the control socket.
fn url(path: &str) -> String {
    format!("http://localhost{path}")
}

fn parsed<'a, T: Deserialize<'a>>(answer: &'a str) -> anyhow::Result<T> {
    serde_json::from_str(answer)
        .context("the daemon's answer cannot be parsed: has it the same version?")
}
