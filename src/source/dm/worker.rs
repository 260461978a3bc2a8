//! The device-mapper's own thread, since a call can wait in the kernel as long as a disk does.
//!
//! A late answer still counts: the status of a thin pool waits for a commit, and so for the disk. The tick continues
//! without it, and the next one uses it.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{DeviceMapper, Scope};

/// A late answer is used for this long.
const LATE_ANSWER_AGE: Duration = Duration::from_secs(1);

pub struct Worker {
    requests: mpsc::Sender<Request>,
    pending: Option<PendingRequest>,
    /// A late answer for this tick.
    late: Option<(Scope, Result<String, String>)>,
}

struct Request {
    scope: Scope,
    reply: oneshot::Sender<DmAnswer>,
}

/// A request without an answer yet.
struct PendingRequest {
    asked_at: Instant,
    scope: Scope,
    reply: oneshot::Receiver<DmAnswer>,
}

/// An answer and when it was complete.
struct DmAnswer {
    at: Instant,
    text: Result<String, String>,
}

impl Worker {
    pub fn start() -> std::io::Result<Self> {
        let (requests, incoming) = mpsc::channel::<Request>();
        std::thread::Builder::new()
            .name("device-mapper".into())
            .spawn(move || {
                let mut device_mapper = DeviceMapper::default();
                while let Ok(Request { scope, reply }) = incoming.recv() {
                    let text = device_mapper.read(scope);
                    // The receiver is gone while the program stops.
                    let _ = reply.send(DmAnswer {
                        at: Instant::now(),
                        text,
                    });
                }
            })?;
        Ok(Self {
            requests,
            pending: None,
            late: None,
        })
    }

    /// Sends a request, unless an old one is pending. An answer to that one that arrived since is kept for [`Self::read`].
    pub fn request(&mut self, scope: Scope) {
        let pending = match self.pending.take() {
            Some(mut old) => match old.reply.try_recv() {
                Ok(late) if late.at.elapsed() < LATE_ANSWER_AGE => {
                    self.late = Some((old.scope, late.text));
                    return;
                }
                Err(oneshot::error::TryRecvError::Empty) => old,
                // The dropped answer may have been one about all devices.
                _ => self.send(Scope::All),
            },
            None => self.send(scope),
        };
        self.pending = Some(pending);
    }

    /// Waits for the answer until the deadline; returns the scope that was read.
    pub async fn read(&mut self, deadline: Duration) -> (Scope, Result<String, String>) {
        if let Some(late) = self.late.take() {
            return late;
        }
        let Some(mut question) = self.pending.take() else {
            return (Scope::All, Err("the device-mapper was not asked".into()));
        };
        let scope = question.scope;
        let answer = match tokio::time::timeout(deadline, &mut question.reply).await {
            Ok(Ok(answered)) => answered.text,
            Ok(Err(_)) => Err("the device-mapper's thread has stopped".into()),
            Err(_) => {
                let waited = question.asked_at.elapsed().as_secs_f64();
                self.pending = Some(question);
                Err(format!(
                    "the device-mapper has not answered for {waited:.1} s"
                ))
            }
        };
        (scope, answer)
    }

    fn send(&self, scope: Scope) -> PendingRequest {
        let (reply, answer) = oneshot::channel();
        // If the thread has ended, the reply is dropped, which the caller sees.
        let _ = self.requests.send(Request { scope, reply });
        PendingRequest {
            asked_at: Instant::now(),
            scope,
            reply: answer,
        }
    }
}
