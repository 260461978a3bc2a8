//! The live stream: server-sent events for ticks and commands.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use futures_util::stream::unfold;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::SharedSite;
use super::answer::Problem;
use super::connections::Peer;
use crate::present::Present;
use crate::quantity::Quantity;
use crate::verdict::Verdict;

/// Keeps proxies and tunnels open between long ticks.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Concurrent streams. A page has one.
pub const MOST_STREAMS: usize = 256;

/// A `tick` event. Unknown values are `null`.
#[derive(Debug, Serialize, ToSchema)]
pub struct TickBody {
    pub at: Timestamp,
    pub interval_ms: u64,
    /// The age of the tick when the event was sent; the first event of a stream may be old.
    pub age_ms: u64,
    /// Whether a recording has ended.
    pub ended: bool,
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
    pub bi_kib_per_s: Option<f64>,
    pub bo_kib_per_s: Option<f64>,
    /// Open alerts.
    pub alerts: usize,
    /// Of the host.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl From<&Present> for TickBody {
    fn from(present: &Present) -> Self {
        let interval = &present.interval;
        let total = interval.total();
        let device = |quantity: Quantity| quantity.of_work(&total, interval.elapsed_us);
        let host = |quantity: Quantity| quantity.value(&interval.host.0, interval.elapsed_us);
        Self {
            at: interval.at,
            interval_ms: u64::try_from(present.interval_length.as_millis()).unwrap_or(u64::MAX),
            age_ms: u64::try_from(present.published.elapsed().as_millis()).unwrap_or(u64::MAX),
            ended: present.ended.is_some(),
            read_bytes_per_s: device(Quantity::ReadBytes),
            written_bytes_per_s: device(Quantity::WrittenBytes),
            bi_kib_per_s: host(Quantity::BiKibPerS),
            bo_kib_per_s: host(Quantity::BoKibPerS),
            alerts: present.alerts.len(),
            verdict: Verdict::of_host(present),
        }
    }
}

/// A stream of `tick` events, the first at once, and `command` events, which are readings as in a recording.
#[utoipa::path(get, path = "/api/v1/live", tag = "live", responses(
    (status = 200, description = "Server-sent events: a `tick` for each tick, and a `command` for each command on a job, as in a recording", content_type = "text/event-stream", body = TickBody)
))]
pub async fn stream(
    State(site): State<SharedSite>,
    Extension(client): Extension<Peer>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let place = Arc::clone(&site.streams).try_acquire_owned().ok();
    // `cowbell record` receives commands here. Connections of operators are few.
    if place.is_none() && !client.is_operator() {
        return Err(Problem::Unavailable(format!(
            "{MOST_STREAMS} live streams are open already: close some pages"
        )));
    }
    let mut presents = site.present.clone();
    presents.mark_changed();
    let (accepted, shutdown) = (site.accepted.subscribe(), site.shutdown.clone());
    let state = (presents, accepted, None, shutdown, place);
    let events = unfold(
        state,
        |(mut presents, mut accepted, last, shutdown, place)| async move {
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return None,
                    Ok(reading) = accepted.recv() => {
                        if let Ok(event) = Event::default().event("command").json_data(&*reading) {
                            return Some((Ok(event), (presents, accepted, last, shutdown, place)));
                        }
                    }
                    changed = presents.changed() => {
                        changed.ok()?;
                        // The present also changes with jobs, but each tick is sent once.
                        let Some(present) = presents.borrow_and_update().clone() else { continue };
                        let tick = Some((present.interval.at, present.ended.is_some()));
                        let event = Event::default().event("tick").json_data(TickBody::from(&*present));
                        if let Ok(event) = event && tick != last {
                            return Some((Ok(event), (presents, accepted, tick, shutdown, place)));
                        }
                    }
                }
            }
        },
    );
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}
