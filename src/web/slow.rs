//! A time limit for request bodies, so that slow clients cannot hold connections.

use std::io;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use tokio::time::{Instant, timeout_at};

/// The time limit for a body. The largest is the file of a job, from a machine nearby.
pub const LONGEST: Duration = Duration::from_secs(30);

/// After the limit, reading the body fails and the connection is closed.
pub async fn limit_body_time(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    next.run(request.map(in_time)).await
}

fn in_time(body: Body) -> Body {
    let until = Instant::now() + LONGEST;
    let part = move |rest: Option<BodyDataStream>| async move {
        let mut rest = rest?;
        match timeout_at(until, rest.next()).await {
            Ok(part) => part.map(|part| (part, Some(rest))),
            Err(_) => Some((
                Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut))),
                None,
            )),
        }
    };
    Body::from_stream(unfold(Some(body.into_data_stream()), part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stalled_body_is_an_error() {
        let first = futures_util::stream::iter([Ok::<_, io::Error>("{")]);
        let stalled = Body::from_stream(first.chain(futures_util::stream::pending()));
        let start = Instant::now();
        assert!(axum::body::to_bytes(in_time(stalled), 100).await.is_err());
        assert_eq!(start.elapsed().as_secs(), LONGEST.as_secs());
    }

    #[tokio::test]
    async fn a_complete_body_is_unchanged() {
        let whole = axum::body::to_bytes(in_time(Body::from("{}")), 100)
            .await
            .unwrap();
        assert_eq!(&*whole, b"{}");
    }
}
