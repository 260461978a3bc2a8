//! The door of the site: so many visitors at once, and none that comes in and says nothing.
//!
//! Whoever can reach the address could otherwise take all the files and memory that the watching needs.

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

/// Connections at once; a browser keeps up to six, and the next visitor waits outside.
const PLACES: usize = 128;
/// A visitor begins to speak within this time.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct ConnectionLimit {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl ConnectionLimit {
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(PLACES)) }
    }
}

impl Listener for ConnectionLimit {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // The semaphore is never closed; without it there would be just no limit.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let silent = Some(Box::pin(tokio::time::sleep(PATIENCE)));
        (Connection { stream, silent, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection, with its place.
pub struct Connection {
    stream: TcpStream,
    /// Ends the connection, until the first word has come.
    silent: Option<Pin<Box<Sleep>>>,
    _place: Option<OwnedSemaphorePermit>,
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
    async fn a_visitor_who_says_nothing_is_shown_out() {
        let mut door = ConnectionLimit::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let mut outside = TcpStream::connect(door.local_addr().unwrap()).await.unwrap();
        let (mut visitor, _) = door.accept().await;
        let error = visitor.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        outside.write_u8(1).await.unwrap();
    }

    #[tokio::test]
    async fn when_all_places_are_taken_the_next_visitor_waits() {
        let mut door = ConnectionLimit::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = door.local_addr().unwrap();
        let mut inside = Vec::new();
        for _ in 0..PLACES {
            let outside = TcpStream::connect(address).await.unwrap();
            inside.push((door.accept().await, outside));
        }
        let _waiting = TcpStream::connect(address).await.unwrap();
        let next = tokio::time::timeout(Duration::from_millis(50), door.accept()).await;
        assert!(next.is_err(), "one more than there are places");
        inside.pop();
        door.accept().await;
    }
}
