//! Accepts connections, with limits on their number and on the time for a request's head, so that clients cannot use up
//! file descriptors and memory, or keep others out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use axum::extract::connect_info::ConnectInfo;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Concurrent connections; further ones are closed. A browser keeps up to six.
const MOST_CONNECTIONS: usize = 128;
/// Of these, connections from other machines: the rest remains for this one.
const MOST_REMOTE: usize = 112;
/// The time limit for the head of a request, and for the pause before the next one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after an error of `accept(2)`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Places for connections.
#[derive(Clone)]
struct Places {
    all: Arc<Semaphore>,
    remote: Arc<Semaphore>,
}

impl Places {
    fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
            remote: Arc::new(Semaphore::new(MOST_REMOTE)),
        }
    }

    /// `None` if there is none for this client.
    fn take(&self, client: SocketAddr) -> Option<(OwnedSemaphorePermit, Option<OwnedSemaphorePermit>)> {
        let is_remote = !client.ip().to_canonical().is_loopback();
        let remote = is_remote.then(|| Arc::clone(&self.remote).try_acquire_owned()).transpose().ok()?;
        Some((Arc::clone(&self.all).try_acquire_owned().ok()?, remote))
    }
}

/// Serves until the token is cancelled, and then completes pending responses.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let (places, open) = (Places::new(), GracefulShutdown::new());
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, client)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if let Some(place) = places.take(client) {
            let connection = open.watch(connection(stream, client, router.clone()));
            tokio::spawn(async move {
                // After a client's error the other connections go on.
                let _ = connection.await;
                drop(place);
            });
        }
    }
    drop(listener);
    open.shutdown().await;
}

type Http1 = http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>>;

fn connection(stream: TcpStream, client: SocketAddr, router: Router) -> Http1 {
    let service = TowerToHyperService::new(router.layer(Extension(ConnectInfo(client))));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.serve_connection(TokioIo::new(stream), service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_kept_for_this_machine() {
        let places = Places::new();
        let take = |ip: &str| places.take(SocketAddr::new(ip.parse().unwrap(), 1));
        let mut taken: Vec<_> = std::iter::from_fn(|| take("10.0.0.5")).collect();
        assert_eq!(taken.len(), MOST_REMOTE);
        taken.extend(std::iter::from_fn(|| take("127.0.0.1")));
        assert_eq!(taken.len(), MOST_CONNECTIONS);
        assert!(take("::1").is_none());
        taken.pop();
        assert!(take("10.0.0.5").is_none() && take("::ffff:127.0.0.1").is_some());
    }
}
