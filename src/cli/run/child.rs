//! The command as a child process: signals are passed on to it, and its exit status back. How the programs below it end is
//! learnt from the kernel.

use std::ffi::OsStr;
use std::future::poll_fn;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::task::Poll;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as TokioSignal, SignalKind, signal};

use super::inherited;
use crate::commands::{LONGEST_NAME, check_letters};
use crate::job::maker::MakerRun;
use crate::sample::processes::parse_exits;
use crate::source::clock;
use crate::source::files::Root;
use crate::source::live::exits::ExitsBelow;

/// Signals that would end this program but not its command.
const CAUGHT: [Signal; 6] = [
    Signal::TERM,
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];

/// How often the exits of programs are taken from the kernel, which keeps some thousands.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Caught signals. Those that were ignored at start stay ignored, also for the command.
pub struct Signals {
    caught: Vec<(Signal, TokioSignal)>,
    /// The last one that requests an end.
    pub received: Option<Signal>,
}

/// How the programs below the command ended.
pub struct Programs {
    exits: ExitsBelow,
    run: MakerRun,
}

impl Programs {
    /// To be called before the command starts: a program may fail at once.
    pub fn watch(root: &Root, is_wanted: bool) -> Self {
        Self {
            exits: ExitsBelow::listen(root, is_wanted),
            run: MakerRun::of_command(std::process::id()),
        }
    }

    fn look(&mut self) {
        let text = self.exits.read_new(clock::now()).unwrap_or_default();
        for exit in parse_exits(&text).0 {
            self.run.learn_exit(&exit);
        }
    }

    /// Whether one of them was a backup tool.
    pub fn had_backup_tool(&self) -> bool {
        self.run.ran_tool
    }

    /// How one of them failed that reads or writes backups.
    pub fn failure(&self) -> Option<String> {
        let text = self.run.failure()?;
        // A program may have any name.
        let is_fit = check_letters("a failure", &text, LONGEST_NAME).is_ok();
        Some(if is_fit {
            text
        } else {
            "a program failed".into()
        })
    }
}

pub fn start(command: &[impl AsRef<OsStr>]) -> std::io::Result<Child> {
    let mut process = std::process::Command::new(&command[0]);
    process
        .args(&command[1..])
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit());
    // `pre_exec` costs a millisecond and is rarely needed.
    if inherited::is_changed() {
        // SAFETY: it makes async-signal-safe calls only.
        unsafe { process.pre_exec(inherited::restore) };
    }
    Command::from(process).spawn()
}

impl Signals {
    pub fn caught() -> std::io::Result<Self> {
        inherited::wait_for_children();
        let mut caught = Vec::new();
        for number in CAUGHT
            .into_iter()
            .filter(|number| !inherited::is_ignored(number.as_raw()))
        {
            caught.push((number, signal(SignalKind::from_raw(number.as_raw()))?));
            inherited::note_senders(number.as_raw());
        }
        Ok(Self {
            caught,
            received: None,
        })
    }

    /// Waits for the child and passes signals on to it. Signals from a terminal reach the child directly.
    pub async fn wait(
        &mut self,
        child: &mut Child,
        programs: &mut Programs,
    ) -> std::io::Result<ExitStatus> {
        loop {
            let received = tokio::select! {
                status = child.wait() => {
                    programs.look();
                    return status;
                }
                received = self.next() => received,
                () = tokio::time::sleep(LOOK_EVERY) => {
                    programs.look();
                    continue;
                }
            };
            let is_from_a_process = inherited::was_sent(received.as_raw());
            if matches!(received, Signal::INT | Signal::QUIT) && !is_from_a_process {
                continue;
            }
            let pid = child
                .id()
                .and_then(|id| i32::try_from(id).ok())
                .and_then(Pid::from_raw);
            if let Some(pid) = pid {
                // It may have ended just now.
                let _ = kill_process(pid, received);
            }
        }
    }

    /// Waits for a time; returns a signal that ends the wait.
    pub async fn settle(&mut self, length: Duration) -> Option<Signal> {
        tokio::select! {
            biased;
            received = self.ending() => Some(received),
            () = tokio::time::sleep(length) => None,
        }
    }

    /// Waits for a signal that requests an end, while no command runs; ignores the others.
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
            let mut ready = caught.iter_mut().filter_map(|(number, signal)| {
                signal.poll_recv(context).is_ready().then_some(*number)
            });
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

/// Returns the child's exit status, or ends this program by the same signal.
pub fn exit_like(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => u8::try_from(code & 0xff).unwrap_or(1),
        None => end_by(status.signal().unwrap_or_default()),
    }
}

/// Ends this program by a signal.
pub fn end_by(number: i32) -> u8 {
    // SAFETY: it restores the default action, and the program has nothing left to do.
    unsafe {
        libc::signal(number, libc::SIG_DFL);
        libc::raise(number);
    }
    // If the signal is blocked: the exit status that a shell would return.
    u8::try_from(128 + number).unwrap_or(1)
}
