//! Threads on which pages are drawn: the one that answers requests has no time for that.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::answer::Problem;
use super::zone;
use crate::store;

/// Pages that are drawn at a time. Few need the processor: most wait for the database.
const MOST_DRAWINGS: usize = 32;

/// Answers another request on a thread of its own.
pub async fn on_its_own_thread(request: Request, next: Next) -> Response {
    let answer = on_a_thread(next.run(request)).await;
    answer.unwrap_or_else(Problem::into_response)
}

/// Runs a handler that draws on a thread, so that `/healthz` and ticks of other windows need not wait for it.
pub async fn on_a_thread<T: Send + 'static>(
    drawing: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    static PLACES: Semaphore = Semaphore::const_new(MOST_DRAWINGS);
    let place = PLACES.acquire().await;
    let (runtime, drawing) = (Handle::current(), zone::keep(drawing));
    let drawn = store::on_a_thread(move || {
        let drawn = runtime.block_on(drawing);
        // The thread goes on if the client disconnects.
        drop(place);
        drawn
    });
    Ok(drawn.await?)
}
