//! The device-mapper on a thread of its own, since a call can wait in the kernel for as long as a disk does.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{DeviceMapper, Scope};

/// An answer that came after its deadline is as good as a new one for this long.
const STILL_NEW: Duration = Duration::from_secs(1);

pub struct Worker {
    questions: mpsc::Sender<Question>,
    unanswered: Option<Unanswered>,
}

struct Question {
    scope: Scope,
    reply: oneshot::Sender<DmAnswer>,
}

/// A question that the kernel has not answered.
struct Unanswered {
    asked_at: Instant,
    scope: Scope,
    reply: oneshot::Receiver<DmAnswer>,
}

/// An answer, and when it was complete.
struct DmAnswer {
    at: Instant,
    text: Result<String, String>,
}

impl Worker {
    pub fn start() -> std::io::Result<Self> {
        let (questions, asked) = mpsc::channel::<Question>();
        std::thread::Builder::new().name("device-mapper".into()).spawn(move || {
            let mut device_mapper = DeviceMapper::default();
            while let Ok(Question { scope, reply }) = asked.recv() {
                let text = device_mapper.read(scope);
                // Nobody waits any more where the program ends.
                let _ = reply.send(DmAnswer { at: Instant::now(), text });
            }
        })?;
        Ok(Self { questions, unanswered: None })
    }

    /// Asks, and waits for the answer until the deadline; gives it with the scope that was asked for. While an old
    /// question hangs no new one is put; an answer that came since the last tick is taken as this one's.
    pub async fn read(&mut self, scope: Scope, deadline: Duration) -> (Scope, Result<String, String>) {
        let mut question = match self.unanswered.take() {
            Some(mut old) => match old.reply.try_recv() {
                Ok(late) if late.at.elapsed() < STILL_NEW => return (old.scope, late.text),
                Err(oneshot::error::TryRecvError::Empty) => old,
                // What nobody took may have told of all devices.
                _ => self.ask(Scope::All),
            },
            None => self.ask(scope),
        };
        let answer = match tokio::time::timeout(deadline, &mut question.reply).await {
            Ok(Ok(answered)) => answered.text,
            Ok(Err(_)) => Err("the device-mapper's reader has ended".into()),
            Err(_) => {
                let waited = question.asked_at.elapsed().as_secs_f64();
                let scope = question.scope;
                self.unanswered = Some(question);
                return (scope, Err(format!("the device-mapper has not answered for {waited:.1} s")));
            }
        };
        (question.scope, answer)
    }

    fn ask(&self, scope: Scope) -> Unanswered {
        let (reply, answer) = oneshot::channel();
        // Where the thread has ended the reply is dropped, and that is the answer.
        let _ = self.questions.send(Question { scope, reply });
        Unanswered { asked_at: Instant::now(), scope, reply: answer }
    }
}
