//! Limits connections and closes silent ones, so that clients cannot use up file descriptors and memory.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Concurrent connections; further ones wait. A browser keeps up to six.
const MOST_CONNECTIONS: usize = 128;
/// The time limit for the first byte of a connection.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);

pub struct ConnectionLimit {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

impl ConnectionLimit {
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, permits: Arc::new(Semaphore::new(MOST_CONNECTIONS)) }
    }
}

impl Listener for ConnectionLimit {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // Fails only if the semaphore is closed, which never happens.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let silent = Some(Box::pin(tokio::time::sleep(FIRST_BYTE_TIMEOUT)));
        (Connection { stream, silent, _permit: permit }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with its permit.
pub struct Connection {
    stream: TcpStream,
    /// The timeout, until the first byte arrives.
    silent: Option<Pin<Box<Sleep>>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if read.is_ready() {
            self.silent = None;
        } else if let Some(silent) = &mut self.silent
            && silent.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_closed() {
        let mut limit = ConnectionLimit::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let mut outside = TcpStream::connect(limit.local_addr().unwrap()).await.unwrap();
        let (mut connection, _) = limit.accept().await;
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        outside.write_u8(1).await.unwrap();
    }

    #[tokio::test]
    async fn connections_above_the_limit_wait() {
        let mut limit = ConnectionLimit::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = limit.local_addr().unwrap();
        let mut inside = Vec::new();
        for _ in 0..MOST_CONNECTIONS {
            let outside = TcpStream::connect(address).await.unwrap();
            inside.push((limit.accept().await, outside));
        }
        let _waiting = TcpStream::connect(address).await.unwrap();
        let next = tokio::time::timeout(Duration::from_millis(50), limit.accept()).await;
        assert!(next.is_err(), "one more than there are places");
        inside.pop();
        limit.accept().await;
    }
}
