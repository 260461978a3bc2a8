//! The command as a child: started with this program's terminal, waited for, and its end handed on.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as TokioSignal, SignalKind, signal};

pub fn start(command: &[String]) -> std::io::Result<Child> {
    let mut process = std::process::Command::new(&command[0]);
    process.args(&command[1..]).stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    Command::from(process).spawn()
}

/// The signals that would end this program while its command runs. They are caught before the command is started.
pub struct Signals {
    terminate: TokioSignal,
    hang_up: TokioSignal,
    interrupt: TokioSignal,
    quit: TokioSignal,
    /// The last one that came.
    pub received: Option<Signal>,
}

impl Signals {
    pub fn caught() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            received: None,
        })
    }

    /// Waits for the child, and hands on to it what would end this program. What is typed at a terminal reaches the
    /// child by itself.
    pub async fn wait(&mut self, child: &mut Child) -> std::io::Result<ExitStatus> {
        loop {
            let received = tokio::select! {
                status = child.wait() => return status,
                received = self.next() => received,
            };
            if matches!(received, Signal::INT | Signal::QUIT) {
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
            received = self.next() => Some(received),
            () = tokio::time::sleep(length) => None,
        }
    }

    /// Waits for a signal.
    pub async fn next(&mut self) -> Signal {
        let received = tokio::select! {
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hang_up.recv() => Signal::HUP,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.quit.recv() => Signal::QUIT,
        };
        self.received = Some(received);
        received
    }
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
