//! The task: one live request and one of the backlog at a time. Its only state is what was settled; ticks stay in the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::MissedTickBehavior;

use super::RemoteWriteState;
use super::plan::{self, LIVE_EVERY_MS};
use super::request::{Backoff, Endpoint, ExternalLabels, SendFailure, encoded};
use crate::store::{
    Position, Progress, SampleBatch, Span, StoreReader, TickSamples, in_words, on_a_thread,
};

/// Samples of a request, or one tick. Receivers take some megabytes at once.
const MOST_SAMPLES: usize = 5_000;
/// How often new ticks are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a kind of failure is logged.
const LOG_AGAIN: Duration = Duration::from_secs(3600);
/// After the store could not be read.
const STORE_PAUSE: Duration = Duration::from_secs(1);

pub struct RemoteWriteTask {
    sending: Arc<Sending>,
    progress: Option<Progress>,
    state: RemoteWriteState,
    backoff: Backoff,
    /// When each status, or that there was none, was logged.
    logged: HashMap<Option<StatusCode>, Instant>,
    progresses: watch::Sender<Option<Progress>>,
    states: watch::Sender<RemoteWriteState>,
}

/// What a request needs.
struct Sending {
    endpoint: Endpoint,
    labels: ExternalLabels,
    store: StoreReader,
}

/// One request at a time.
#[derive(Default)]
struct Lane {
    request: JoinSet<anyhow::Result<Sent>>,
    /// The ten minutes of the last request, since the next one is likely to be of them too.
    window: Option<TickSamples>,
    /// Since the store could not be read.
    paused_until: Option<Instant>,
}

/// Ticks that were sent, with how many samples, and whether the receiver took them.
struct Sent {
    span: Span,
    samples: u64,
    result: Result<(), SendFailure>,
    window: Option<TickSamples>,
}

/// The first ticks of a span as the body of a request.
struct Encoded {
    window: TickSamples,
    batch: SampleBatch,
    body: Vec<u8>,
}

impl RemoteWriteTask {
    pub fn new(
        endpoint: Endpoint,
        labels: ExternalLabels,
        store: StoreReader,
        progresses: watch::Sender<Option<Progress>>,
        states: watch::Sender<RemoteWriteState>,
    ) -> Self {
        Self {
            sending: Arc::new(Sending {
                endpoint,
                labels,
                store,
            }),
            progress: None,
            state: RemoteWriteState::default(),
            backoff: Backoff::default(),
            logged: HashMap::new(),
            progresses,
            states,
        }
    }

    /// Until it is aborted.
    pub async fn serve(mut self) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut live, mut backlog) = (Lane::default(), Lane::default());
        loop {
            let newest = self.sending.store.newest(LIVE_EVERY_MS);
            if let Some((newest, before)) = newest {
                self.begin(newest).await;
                self.start(&mut live, &mut backlog, newest, before);
            }
            self.publish(newest.map(|(newest, _)| newest));
            tokio::select! {
                _ = looks.tick() => {}
                Some(ended) = live.request.join_next() => self.settle(ended, &mut live),
                Some(ended) = backlog.request.join_next() => self.settle(ended, &mut backlog),
            }
        }
    }

    /// Finds out what an earlier process sent. Without one, ticks are sent from the newest on.
    async fn begin(&mut self, newest: Position) {
        if self.progress.is_some() {
            return;
        }
        match self.sending.store.progress().await {
            // After a power cut, the store may lack ticks that were sent.
            Ok(Some(stored)) if plan::end(&stored) > newest => {
                self.progress = Some(plan::begun_at(newest))
            }
            Ok(Some(stored)) => {
                self.progress = Some(stored);
                // It needs not be stored again.
                self.progresses.send_if_modified(|progress| {
                    progress.clone_from(&self.progress);
                    false
                });
            }
            Ok(None) => {
                let before_newest = Position {
                    at_ms: newest.at_ms - 1,
                    ..newest
                };
                self.progress = Some(plan::begun_at(before_newest));
            }
            Err(error) => self.state.failure = Some(in_words(&error)),
        }
    }

    fn start(
        &self,
        live: &mut Lane,
        backlog: &mut Lane,
        newest: Position,
        before: Option<Position>,
    ) {
        let (Some(progress), now) = (&self.progress, Instant::now()) else {
            return;
        };
        if self.backoff.allows_live(now) && live.is_free(now) {
            live.start(plan::live(progress, newest, before), &self.sending);
        }
        if self.backoff.allows_backlog(now) && backlog.is_free(now) {
            backlog.start(plan::backlog(progress), &self.sending);
        }
    }

    /// Takes the end of a request.
    fn settle(&mut self, ended: Result<anyhow::Result<Sent>, JoinError>, lane: &mut Lane) {
        let sent = match ended.map_err(anyhow::Error::from).flatten() {
            Ok(sent) => sent,
            Err(error) => {
                lane.paused_until = Some(Instant::now() + STORE_PAUSE);
                self.state.failure = Some(in_words(&error));
                return;
            }
        };
        lane.window = sent.window;
        if let Err(failure) = &sent.result {
            self.fail(failure, sent.samples);
            if !failure.is_final() {
                return;
            }
        } else {
            self.state.sent_samples += sent.samples;
            self.state.failure = None;
        }
        if let Some(progress) = &mut self.progress {
            plan::settle(progress, sent.span);
        }
        self.backoff.succeed();
    }

    /// Counts and shows a failure, and logs each kind once an hour: a receiver that is down fails every few seconds.
    fn fail(&mut self, failure: &SendFailure, samples: u64) {
        let now = Instant::now();
        if failure.is_final() {
            self.state.refused_requests += 1;
            self.state.dropped_samples += samples;
        } else {
            self.state.failed_requests += 1;
            self.backoff.fail(now, failure.pause);
        }
        let sentence = &failure.sentence;
        self.state.failure = Some(sentence.clone());
        let before = self.logged.get(&failure.status);
        if before.is_some_and(|before| now.duration_since(*before) < LOG_AGAIN) {
            return;
        }
        self.logged.insert(failure.status, now);
        if failure.is_final() {
            tracing::error!(
                "the receiver of [remote_write] refuses ticks, which are dropped: {sentence}"
            );
        } else {
            tracing::warn!(
                "cannot send ticks to the receiver of [remote_write], trying again: {sentence}"
            );
        }
    }

    fn publish(&mut self, newest: Option<Position>) {
        if let (Some(progress), Some(newest)) = (&self.progress, newest) {
            let behind = |position: Position| Some((newest.at_ms - position.at_ms).max(0));
            self.state.behind_ms = behind(progress.done);
            self.state.newest_behind_ms = behind(plan::end(progress));
        }
        self.states
            .send_if_modified(|state| replace(state, &self.state));
        self.progresses
            .send_if_modified(|progress| replace(progress, &self.progress));
    }
}

/// Whether it was another one.
fn replace<T: Clone + PartialEq>(old: &mut T, new: &T) -> bool {
    let is_new = old != new;
    if is_new {
        old.clone_from(new);
    }
    is_new
}

impl Lane {
    fn is_free(&self, now: Instant) -> bool {
        self.request.is_empty() && self.paused_until.is_none_or(|until| until <= now)
    }

    fn start(&mut self, span: Option<Span>, sending: &Arc<Sending>) {
        let window = self.window.take();
        if let Some(span) = span {
            let sending = Arc::clone(sending);
            self.request
                .spawn(async move { sending.send(span, window).await });
        }
    }
}

impl Sending {
    /// Sends the first ticks of a span. `window` is used if it continues there.
    async fn send(&self, span: Span, window: Option<TickSamples>) -> anyhow::Result<Sent> {
        let held = window.filter(|held| held.continues(span.after));
        let mut encoded = self.encoded(span, held).await?;
        if encoded.is_none() {
            let next = self.store.samples_after(span.after).await?;
            encoded = self.encoded(span, next).await?;
        }
        let Some(Encoded {
            window,
            batch,
            body,
        }) = encoded
        else {
            // Ticks that retention has deleted, or none at all.
            return Ok(Sent {
                span,
                samples: 0,
                result: Ok(()),
                window: None,
            });
        };
        let result = if batch.samples > 0 {
            self.endpoint.send(body).await
        } else {
            Ok(())
        };
        Ok(Sent {
            span: Span {
                after: span.after,
                to: batch.to,
            },
            samples: batch.samples as u64,
            result,
            window: Some(window),
        })
    }

    /// `None` if the window has no tick of the span.
    async fn encoded(
        &self,
        span: Span,
        window: Option<TickSamples>,
    ) -> anyhow::Result<Option<Encoded>> {
        let Some(window) = window else {
            return Ok(None);
        };
        let labels = self.labels.clone();
        let work = on_a_thread(move || {
            let Some(batch) = window.batch(span, MOST_SAMPLES) else {
                return Ok(None);
            };
            let body = encoded(&batch.series, &labels)?;
            Ok(Some(Encoded {
                window,
                batch,
                body,
            }))
        });
        work.await?
    }
}
