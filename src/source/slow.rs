//! A thread for calls that may wait as long as a disk does, so that nothing else does.
//!
//! It answers one request at a time. While it does not answer, nothing waits for it and no second thread starts, so a disk
//! that hangs costs one thread. A late answer still counts: the caller decides how old it may be.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::clock::micros;
use super::{Part, PartReading};

/// The threads only read a file or send an ioctl, and all memory of the program may be locked.
const STACK: usize = 256 * 1024;

pub struct SlowThread<Q, A> {
    name: &'static str,
    requests: mpsc::Sender<ChannelItem<Q, A>>,
    /// What the thread does, until the first request starts it.
    idle: Option<IdleThread<Q, A>>,
    pending: Option<PendingAnswer<A>>,
    asked_at: Option<Instant>,
}

struct IdleThread<Q, A> {
    incoming: mpsc::Receiver<ChannelItem<Q, A>>,
    answer: AnswerFunction<Q, A>,
}

type ChannelItem<Q, A> = (Q, oneshot::Sender<Answer<A>>);
type AnswerFunction<Q, A> = Box<dyn FnMut(Q) -> A + Send>;

struct PendingAnswer<A> {
    since: Instant,
    answer: oneshot::Receiver<Answer<A>>,
    /// Whether its lateness was reported.
    is_late: bool,
}

pub struct Answer<A> {
    pub value: A,
    /// When it was complete, and how long that took.
    pub at: Instant,
    pub took: Duration,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// Not yet, after this time.
    Late(Duration),
    /// There will be none.
    Stopped,
}

impl NoAnswer {
    pub fn waited(&self) -> Duration {
        match self {
            Self::Late(waited) => *waited,
            Self::Stopped => Duration::ZERO,
        }
    }

    /// `who` was asked, such as `the device-mapper`.
    pub fn sentence(&self, who: &str) -> String {
        match self {
            Self::Late(waited) => {
                format!("{who} has not answered for {:.1} s", waited.as_secs_f64())
            }
            Self::Stopped => format!("the thread that asks {who} has stopped"),
        }
    }
}

impl<Q: Send + 'static, A: Send + 'static> SlowThread<Q, A> {
    /// The first request starts the thread.
    pub fn new(name: &'static str, answer: impl FnMut(Q) -> A + Send + 'static) -> Self {
        let (requests, incoming) = mpsc::channel();
        Self {
            name,
            requests,
            idle: Some(IdleThread {
                incoming,
                answer: Box::new(answer),
            }),
            pending: None,
            asked_at: None,
        }
    }

    pub fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// Sends a request, unless one is pending.
    pub fn ask(&mut self, request: Q) {
        if self.is_busy() {
            return;
        }
        if let Some(idle) = self.idle.take() {
            let thread = std::thread::Builder::new().name(self.name.into());
            // One that cannot start drops the requests, as one that has ended does.
            let _ = thread.stack_size(STACK).spawn(move || idle.answer_all());
        }
        let (reply, answer) = oneshot::channel();
        // Without a thread the reply is dropped, which the caller sees.
        let _ = self.requests.send((request, reply));
        let since = Instant::now();
        self.asked_at = Some(since);
        self.pending = Some(PendingAnswer {
            since,
            answer,
            is_late: false,
        });
    }

    /// Sends a request, unless one is pending or the last one is younger than `period`.
    pub fn ask_every(&mut self, period: Duration, request: Q) {
        if self.asked_at.is_none_or(|at| at.elapsed() >= period) {
            self.ask(request);
        }
    }

    /// Makes the next request due at once.
    pub fn forget_last(&mut self) {
        self.asked_at = None;
    }

    /// The answer, if it has come; once after `limit`, that it is late. Never waits.
    pub fn poll(&mut self, limit: Duration) -> Option<Result<Answer<A>, NoAnswer>> {
        let pending = self.pending.as_mut()?;
        let result = match pending.answer.try_recv() {
            Ok(answer) => Ok(answer),
            Err(oneshot::error::TryRecvError::Closed) => Err(NoAnswer::Stopped),
            Err(oneshot::error::TryRecvError::Empty) => {
                let waited = pending.since.elapsed();
                if waited <= limit || pending.is_late {
                    return None;
                }
                pending.is_late = true;
                return Some(Err(NoAnswer::Late(waited)));
            }
        };
        self.pending = None;
        Some(result)
    }

    /// Waits for the answer, no longer than `limit`. A late one remains pending.
    pub async fn wait(&mut self, limit: Duration) -> Result<Answer<A>, NoAnswer> {
        let pending = self.pending.as_mut().ok_or(NoAnswer::Stopped)?;
        let result = match tokio::time::timeout(limit, &mut pending.answer).await {
            Ok(answer) => answer.map_err(|_| NoAnswer::Stopped),
            Err(_) => return Err(NoAnswer::Late(pending.since.elapsed())),
        };
        self.pending = None;
        result
    }
}

impl<Q: Send + 'static> SlowThread<Q, Result<String, String>> {
    /// The answer as a part of a reading; once after `limit`, that `who` has not answered. Never waits.
    pub fn poll_part(&mut self, part: Part, limit: Duration, who: &str) -> Option<PartReading> {
        let (result, took) = match self.poll(limit)? {
            Ok(answer) => (answer.value, answer.took),
            Err(none) => (Err(none.sentence(who)), none.waited()),
        };
        Some(PartReading {
            part,
            result: result.into(),
            took_us: micros(took),
        })
    }
}

impl<Q, A> IdleThread<Q, A> {
    fn answer_all(mut self) {
        while let Ok((request, reply)) = self.incoming.recv() {
            let started = Instant::now();
            let value = (self.answer)(request);
            let at = Instant::now();
            // The receiver is gone while the program stops.
            let _ = reply.send(Answer {
                value,
                at,
                took: at - started,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    /// A thread that answers what it is told by the test.
    fn waiting() -> (SlowThread<(), u32>, mpsc::Sender<u32>) {
        let (sender, answers) = mpsc::channel();
        let thread = SlowThread::new("test", move |()| answers.recv().unwrap());
        (thread, sender)
    }

    #[tokio::test]
    async fn a_late_answer_is_reported_once_and_still_counts() {
        let (mut thread, answers) = waiting();
        thread.ask(());
        assert!(thread.poll(LONG).is_none());
        let late = thread.poll(Duration::ZERO).unwrap().err().unwrap();
        assert_eq!(
            late.sentence("the kernel"),
            "the kernel has not answered for 0.0 s"
        );
        assert!(thread.poll(Duration::ZERO).is_none() && thread.is_busy());
        assert!(matches!(
            thread.wait(Duration::ZERO).await,
            Err(NoAnswer::Late(_))
        ));
        answers.send(7).unwrap();
        assert_eq!(thread.wait(LONG).await.unwrap().value, 7);
        assert!(!thread.is_busy());
    }

    #[tokio::test]
    async fn a_thread_that_ended_is_no_late_one() {
        let (mut thread, answers) = waiting();
        drop(answers);
        thread.ask(());
        assert!(matches!(thread.wait(LONG).await, Err(NoAnswer::Stopped)));
        thread.ask(());
        assert!(matches!(
            thread.poll(LONG),
            Some(Err(NoAnswer::Stopped)) | None
        ));
    }
}
