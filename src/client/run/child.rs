//! The command as a child: started with this program's terminal, waited for, and its end handed on.

use std::ffi::OsStr;
use std::future::poll_fn;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::task::Poll;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as TokioSignal, SignalKind, signal};

use super::came;

/// What would end this program and leave its command behind.
const CAUGHT: [Signal; 6] =
    [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2];

/// The signals that would end this program while its command runs. They are caught before the command is started,
/// except those that were ignored when this program was: the command is to find them so.
pub struct Signals {
    caught: Vec<(Signal, TokioSignal)>,
    /// The last one that came and asks for an end.
    pub received: Option<Signal>,
}

pub fn start(command: &[impl AsRef<OsStr>]) -> std::io::Result<Child> {
    let mut process = std::process::Command::new(&command[0]);
    process.args(&command[1..]).stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    // What is set before the command costs a millisecond; mostly there is nothing.
    if came::is_changed() {
        // SAFETY: it makes system calls and nothing else.
        unsafe { process.pre_exec(came::restore) };
    }
    Command::from(process).spawn()
}

impl Signals {
    pub fn caught() -> std::io::Result<Self> {
        came::wait_for_children();
        let mut caught = Vec::new();
        for number in CAUGHT.into_iter().filter(|number| !came::is_ignored(number.as_raw())) {
            caught.push((number, signal(SignalKind::from_raw(number.as_raw()))?));
            came::note_senders(number.as_raw());
        }
        Ok(Self { caught, received: None })
    }

    /// Waits for the child, and hands on to it what came for this program. What is typed at a terminal reaches the
    /// child by itself.
    pub async fn wait(&mut self, child: &mut Child) -> std::io::Result<ExitStatus> {
        loop {
            let received = tokio::select! {
                status = child.wait() => return status,
                received = self.next() => received,
            };
            let is_from_a_process = came::was_sent(received.as_raw());
            if matches!(received, Signal::INT | Signal::QUIT) && !is_from_a_process {
                continue;
            }
            let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            if let Some(pid) = pid {
                // It may have ended just now.
                let _ = kill_process(pid, received);
            }
        }
    }

    /// Waits for so long; gives the signal that came before or meanwhile.
    pub async fn settle(&mut self, length: Duration) -> Option<Signal> {
        tokio::select! {
            biased;
            received = self.ending() => Some(received),
            () = tokio::time::sleep(length) => None,
        }
    }

    /// Waits for a signal that asks for an end. The others mean something to the command alone, and it does not run.
    pub async fn ending(&mut self) -> Signal {
        loop {
            let received = self.next().await;
            if is_ending(received) {
                return received;
            }
        }
    }

    async fn next(&mut self) -> Signal {
        let caught = &mut self.caught;
        let received = poll_fn(|context| {
            let mut ready = caught
                .iter_mut()
                .filter_map(|(number, signal)| signal.poll_recv(context).is_ready().then_some(*number));
            ready.next().map_or(Poll::Pending, Poll::Ready)
        });
        let received = received.await;
        if is_ending(received) {
            self.received = Some(received);
        }
        received
    }
}

fn is_ending(signal: Signal) -> bool {
    !matches!(signal, Signal::USR1 | Signal::USR2)
}

/// The child's exit status; a child that a signal ended ends this program by the same signal.
pub fn hand_on(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => u8::try_from(code & 0xff).unwrap_or(1),
        None => end_by(status.signal().unwrap_or_default()),
    }
}

/// Ends this program by a signal.
pub fn end_by(number: i32) -> u8 {
    // SAFETY: the signal's own effect is restored, and nothing is left to be done by this program but to end.
    unsafe {
        libc::signal(number, libc::SIG_DFL);
        libc::raise(number);
    }
    // Where the signal is blocked, as a shell puts it.
    u8::try_from(128 + number).unwrap_or(1)
}
