//! A running daemon, as commands see it: requests over its control socket, in HTTP.
//!
//! Each request has a connection of its own, which costs less than a client with a pool: `cowbell run` must not slow down
//! short commands.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::body::{Body, BodyDataStream, to_bytes};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::header::{CONTENT_TYPE, HOST, LINK};
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::sizing::SizeAdvice;
use crate::web::{JobReply, PutJob, escaped};

/// The name of the service's socket, which systemd makes. A daemon that is started by hand has one of its own for its port.
pub const CONTROL_SOCKET: &str = "control";
/// The folder of the service's sockets.
const SYSTEM: &str = "/run/cowbell";
/// Permission bits of other users who may write.
const OTHERS_WRITE: u32 = 0o022;

/// The time limit for quick answers.
pub const QUICK_LIMIT: Duration = Duration::from_secs(2);
/// The time limit for figures of a long job, from a busy disk.
pub const LONG_LIMIT: Duration = Duration::from_secs(30);
/// The time limit for figures of up to 64 jobs.
pub const LONGEST_LIMIT: Duration = Duration::from_secs(120);
/// The time limit for commands, which the daemon answers within two seconds.
const COMMAND_LIMIT: Duration = Duration::from_secs(3);
/// Bytes of an answer at most. A job's file or a report of 64 jobs has some megabytes.
const LONGEST_ANSWER: usize = 256 * 1024 * 1024;

/// A daemon on this machine.
#[derive(Clone)]
pub struct Daemon {
    /// Where its socket may be, the likelier first.
    paths: Vec<PathBuf>,
}

/// The answer to a request that was not refused.
pub struct DaemonAnswer {
    pub status: StatusCode,
    pub text: String,
    /// The address of the next page.
    next: Option<String>,
}

impl Daemon {
    /// The daemon that listens on `listen`; the service, unless the address is named.
    pub fn at(listen: SocketAddr, is_named: bool) -> Self {
        let port = listen.port();
        let by_root = PathBuf::from(format!("{SYSTEM}/{CONTROL_SOCKET}-{port}"));
        let mut paths = vec![own_socket(port), by_root];
        paths.dedup();
        if !is_named {
            paths.push(format!("{SYSTEM}/{CONTROL_SOCKET}").into());
        }
        Self { paths }
    }

    /// The text of an answer.
    pub async fn text(&self, path: &str, limit: Duration) -> anyhow::Result<String> {
        Ok(self.send(Method::GET, path, "", limit).await?.text)
    }

    /// The value of an answer.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, limit: Duration) -> anyhow::Result<T> {
        parsed(&self.text(path, limit).await?)
    }

    /// Sends a command with a JSON body, or an empty one.
    pub async fn command<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Body>,
    ) -> anyhow::Result<T> {
        parsed(&self.send(method, path, body, COMMAND_LIMIT).await?.text)
    }

    /// Sends any request. A refusal is an error with the daemon's sentence.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Body>,
        limit: Duration,
    ) -> anyhow::Result<DaemonAnswer> {
        let answer = async {
            let stream = self.connect().await?;
            DaemonAnswer::read(exchange(stream, method, path, body.into()).await?).await
        };
        tokio::time::timeout(limit, answer).await.with_context(|| {
            format!("the daemon did not answer within {limit:?}: try again, or look into its log")
        })?
    }

    /// An answer that goes on until one side ends it.
    pub async fn stream(&self, path: &str) -> anyhow::Result<BodyDataStream> {
        let stream = self.connect().await?;
        let answer = exchange(stream, Method::GET, path, Body::empty()).await?;
        if !answer.status().is_success() {
            bail!("the daemon refuses {path}");
        }
        Ok(Body::new(answer.into_body()).into_data_stream())
    }

    /// Starts or ends a job.
    pub async fn put_job(&self, key: &str, put: &PutJob) -> anyhow::Result<JobReply> {
        let path = format!("/api/v1/marks/{}", escaped(key));
        self.command(Method::PUT, &path, serde_json::to_string(put)?)
            .await
    }

    /// The jobs since `from` as JSON, the latest first. The daemon answers page by page.
    pub async fn jobs(&self, from: &str) -> anyhow::Result<String> {
        let mut next = Some(format!("/api/v1/jobs?from={}", escaped(from)));
        let mut jobs: Vec<Box<RawValue>> = Vec::new();
        while let Some(path) = next {
            let page = self.send(Method::GET, &path, "", LONG_LIMIT).await?;
            jobs.extend(parsed::<Vec<_>>(&page.text)?);
            next = page.next;
        }
        Ok(serde_json::to_string(&jobs)?)
    }

    /// How large a snapshot of a volume, `VG/LV` or its path, has to be; `planned` is the size of the next one in bytes.
    pub async fn size_advice(
        &self,
        volume: &str,
        planned: Option<u64>,
    ) -> anyhow::Result<SizeAdvice> {
        let name = volume.strip_prefix("/dev/").unwrap_or(volume);
        let Some((vg, lv)) = name
            .split_once('/')
            .filter(|(vg, lv)| !vg.is_empty() && !lv.is_empty())
        else {
            bail!(
                "cannot tell the size of a snapshot of `{volume}`: expected a volume such as vg0/mysql"
            );
        };
        let mut path = format!("/api/v1/volumes/{}/{}/size", escaped(vg), escaped(lv));
        if let Some(bytes) = planned {
            path += &format!("?planned={bytes}");
        }
        self.get(&path, QUICK_LIMIT).await
    }

    /// Connects to the first socket at which a daemon listens.
    async fn connect(&self) -> anyhow::Result<UnixStream> {
        let mut problem = None;
        for path in &self.paths {
            match UnixStream::connect(path).await {
                Ok(stream) => return Ok(stream),
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
}

impl DaemonAnswer {
    async fn read(response: hyper::Response<Incoming>) -> anyhow::Result<Self> {
        let status = response.status();
        let link = response.headers().get(LINK);
        let next = link.and_then(|link| next_page(link.to_str().ok()?));
        let body = to_bytes(Body::new(response.into_body()), LONGEST_ANSWER).await;
        let body = body.context("the daemon's answer is incomplete")?;
        let text = String::from_utf8_lossy(&body).into_owned();
        if !status.is_success() {
            bail!("the daemon answers: {}", refusal(text));
        }
        Ok(Self { status, text, next })
    }
}

/// The control socket of a daemon that this user starts by hand.
pub fn own_socket(port: u16) -> PathBuf {
    folder(std::env::var_os("XDG_RUNTIME_DIR")).join(format!("{CONTROL_SOCKET}-{port}"))
}

/// Below this user's runtime directory. After `su`, the variable may name that of another user, who could replace the socket.
fn folder(runtime: Option<OsString>) -> PathBuf {
    let is_own = |folder: &Path| {
        let own = rustix::process::geteuid().as_raw();
        folder
            .symlink_metadata()
            .is_ok_and(|it| it.is_dir() && it.uid() == own && it.mode() & OTHERS_WRITE == 0)
    };
    let runtime = runtime.map(PathBuf::from).filter(|folder| is_own(folder));
    runtime.map_or_else(|| SYSTEM.into(), |runtime| runtime.join("cowbell"))
}

/// An address of loopback as it is, or else that of its kind.
pub fn loopback(ip: IpAddr) -> IpAddr {
    match ip {
        ip if ip.is_loopback() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Sends one request; the answer's body may still be on its way.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    method: Method,
    path: &str,
    body: Body,
) -> anyhow::Result<hyper::Response<Incoming>> {
    let request = hyper::Request::builder()
        .method(method)
        .uri(path)
        // The host is of no meaning to the control socket.
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .body(body)?;
    let answer = async {
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        sender.send_request(request).await
    };
    answer
        .await
        .map_err(|error| unreachable(&anyhow::Error::from(error).root_cause().to_string()))
}

/// The address in `</api/v1/jobs?before=7>; rel="next"`.
fn next_page(link: &str) -> Option<String> {
    let (path, _) = link.strip_prefix('<')?.split_once(">; rel=\"next\"")?;
    Some(path.into())
}

/// The sentence of a refusal.
fn refusal(text: String) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    serde_json::from_str(&text).map_or(text, |refusal: Refusal| refusal.error)
}

fn unreachable(why: &str) -> anyhow::Error {
    anyhow!("no daemon answers ({why}): is `cowbell serve` running, and with this `listen`?")
}

/// The value of an answer in JSON.
pub fn parsed<T: DeserializeOwned>(answer: &str) -> anyhow::Result<T> {
    serde_json::from_str(answer)
        .context("the daemon's answer cannot be parsed: has it the same version?")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn only_a_runtime_directory_of_this_user_is_used() {
        let own = tempfile::tempdir().unwrap();
        let found = || folder(Some(own.path().into()));
        assert_eq!(found(), own.path().join("cowbell"));
        std::fs::set_permissions(own.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        assert_eq!(found(), Path::new(SYSTEM));
        std::fs::set_permissions(own.path(), PermissionsExt::from_mode(0o700)).unwrap();
        // Only root can give it away.
        if chown(own.path(), Some(65_534), None).is_ok() {
            assert_eq!(found(), Path::new(SYSTEM));
        }
        for other in [None, Some("".into()), Some("/does/not/exist".into())] {
            assert_eq!(folder(other), Path::new(SYSTEM));
        }
    }
}
