//! The live stream: server-sent events for ticks and commands, until the client or the daemon goes.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use futures_util::stream::unfold;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::Site;
use crate::present::Present;
use crate::series::Observation;
use crate::series::quantity::{DeviceQuantity, HostQuantity};

/// Between ticks of a minute a sign of life keeps proxies and tunnels from hanging up.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// What an event of the stream says. `null` is what is not known.
#[derive(Debug, Serialize, ToSchema)]
pub struct TickBody {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    pub interval_ms: u64,
    /// How long ago the tick was, when this was sent: not 0 for the first event of a stream.
    pub age_ms: u64,
    /// Whether a recording is at its end, so that nothing more comes.
    pub ended: bool,
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
    pub bi_kib_per_s: Option<f64>,
    pub bo_kib_per_s: Option<f64>,
    /// Alerts that are raised now.
    pub alerts: usize,
}

impl From<&Present> for TickBody {
    fn from(present: &Present) -> Self {
        let interval = &present.interval;
        let total = interval.total();
        let device =
            |quantity: DeviceQuantity| quantity.observe(&total?, interval.elapsed_us).map(Observation::value);
        let host = |quantity: HostQuantity| {
            quantity.observe(&interval.host, interval.elapsed_us).map(Observation::value)
        };
        Self {
            at: interval.at,
            interval_ms: u64::try_from(present.interval_length.as_millis()).unwrap_or(u64::MAX),
            age_ms: u64::try_from(present.published.elapsed().as_millis()).unwrap_or(u64::MAX),
            ended: present.ended.is_some(),
            read_bytes_per_s: device(DeviceQuantity::ReadBytes),
            written_bytes_per_s: device(DeviceQuantity::WrittenBytes),
            bi_kib_per_s: host(HostQuantity::BiKibPerS),
            bo_kib_per_s: host(HostQuantity::BoKibPerS),
            alerts: present.alerts.len(),
        }
    }
}

/// The stream of `tick` events, the first of which comes at once, and of `command` events: those on jobs that were carried
/// out, each as the reading that a recording keeps of it.
#[utoipa::path(get, path = "/api/v1/live", tag = "live", responses(
    (status = 200, description = "Server-sent events: a `tick` for each tick, and a `command` for each command on a job, as a line of a recording", content_type = "text/event-stream", body = TickBody)
))]
pub async fn stream(State(mut site): State<Site>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    site.present.mark_changed();
    let accepted = site.accepted.subscribe();
    let events = unfold((site, accepted, None), |(mut site, mut accepted, last)| async move {
        loop {
            tokio::select! {
                () = site.shutdown.cancelled() => return None,
                Ok(reading) = accepted.recv() => {
                    if let Ok(event) = Event::default().event("command").json_data(&*reading) {
                        return Some((Ok(event), (site, accepted, last)));
                    }
                }
                changed = site.present.changed() => {
                    changed.ok()?;
                    // Jobs and ends of recordings are news too, but a tick is sent once.
                    let Some(present) = site.present.borrow_and_update().clone() else { continue };
                    let tick = Some((present.interval.at, present.ended.is_some()));
                    if let Some(event) = event(&present).filter(|_| tick != last) {
                        return Some((Ok(event), (site, accepted, tick)));
                    }
                }
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE))
}

fn event(present: &Present) -> Option<Event> {
    Event::default().event("tick").json_data(TickBody::from(present)).ok()
}
