//! `cowbell run`: makes a job of a command, and gets in its way as little as a shell does.
//!
//! The command has this program's terminal, input and output, and its exit status becomes ours. Own words go to
//! standard error only. Without a daemon the command runs all the same.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as TokioSignal, SignalKind, signal};

use super::Daemon;
use crate::source::MarkKind;
use crate::web::PutJob;

/// Before the end of a job is told again, for a daemon that is just being restarted.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];
/// The status of a shell that cannot find, or cannot start, a command.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// Runs the command and tells the daemon of it; gives the status to exit with.
pub async fn run(daemon: &Daemon, name: Option<String>, command: &[String]) -> anyhow::Result<u8> {
    let program = &command[0];
    let name = name.unwrap_or_else(|| program.rsplit('/').next().unwrap_or(program).to_string());
    let started_at = crate::source::live::now();
    let key = format!("run-{}-{}", std::process::id(), started_at.as_millisecond());
    let mut signals = Signals::caught()?;
    let mut child = match start(command) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cowbell run: cannot start `{program}`: {error}");
            let ended_at = Some(started_at);
            let succeeded = Some(false);
            let kind = MarkKind::Command;
            let failed = PutJob { name, kind, started_at, ended_at, succeeded, ..PutJob::default() };
            if let Err(error) = tell(daemon.clone(), key, failed).await {
                eprintln!("cowbell run: the job was not recorded: {error:#}");
            }
            let is_missing = error.kind() == std::io::ErrorKind::NotFound;
            return Ok(if is_missing { NOT_FOUND } else { NOT_STARTED });
        }
    };
    let begun = PutJob { name, kind: MarkKind::Command, started_at, ..PutJob::default() };
    let told = tokio::spawn(tell(daemon.clone(), key.clone(), begun.clone()));
    let status = signals.wait(&mut child).await.with_context(|| format!("cannot wait for `{program}`"))?;
    let ended_at = crate::source::live::now().max(started_at);
    let (succeeded, code) = (status.success(), status.code().and_then(|code| u8::try_from(code).ok()));
    let ended = PutJob { ended_at: Some(ended_at), succeeded: Some(succeeded), status: code, ..begun };
    // The end says all that the beginning said. It is tried again only where somebody listened before.
    let listened = told.await?.is_ok();
    let mut heard = tell(daemon.clone(), key.clone(), ended.clone()).await;
    for pause in PAUSES.into_iter().filter(|_| listened) {
        if heard.is_ok() {
            break;
        }
        tokio::time::sleep(pause).await;
        heard = tell(daemon.clone(), key.clone(), ended.clone()).await;
    }
    if let Err(error) = heard {
        eprintln!("cowbell run: the job was not recorded: {error:#}");
    }
    Ok(hand_on(status))
}

fn start(command: &[String]) -> std::io::Result<Child> {
    let mut process = std::process::Command::new(&command[0]);
    process.args(&command[1..]).stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    Command::from(process).spawn()
}

/// The signals that would end this program while its command runs. They are caught before the command is started.
struct Signals {
    terminate: TokioSignal,
    hang_up: TokioSignal,
    interrupt: TokioSignal,
    quit: TokioSignal,
}

impl Signals {
    fn caught() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for the child, and hands on to it what would end this program. What is typed at a terminal reaches the
    /// child by itself.
    async fn wait(&mut self, child: &mut Child) -> std::io::Result<ExitStatus> {
        loop {
            let received = tokio::select! {
                status = child.wait() => return status,
                _ = self.terminate.recv() => Signal::TERM,
                _ = self.hang_up.recv() => Signal::HUP,
                _ = self.interrupt.recv() => continue,
                _ = self.quit.recv() => continue,
            };
            let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            if let Some(pid) = pid {
                // It may have ended just now.
                let _ = kill_process(pid, received);
            }
        }
    }
}

async fn tell(daemon: Daemon, key: String, put: PutJob) -> anyhow::Result<()> {
    let url = daemon.url(&format!("/api/v1/jobs/{key}"));
    let answer = daemon.http.put(&url).json(&put).send().await;
    let answer = answer.with_context(|| format!("no daemon answers at {}", daemon.address))?;
    if !answer.status().is_success() {
        anyhow::bail!(
            "the daemon at {} answers: {}",
            daemon.address,
            answer.text().await.unwrap_or_default()
        );
    }
    Ok(())
}

/// The child's exit status; a child that a signal ended ends this program by the same signal.
fn hand_on(status: ExitStatus) -> u8 {
    if let Some(code) = status.code() {
        return u8::try_from(code & 0xff).unwrap_or(1);
    }
    let number = status.signal().unwrap_or_default();
    // SAFETY: the signal's own effect is restored, and nothing is left to be done by this program but to end.
    unsafe {
        libc::signal(number, libc::SIG_DFL);
        libc::raise(number);
    }
    // Where the signal is blocked, as a shell puts it.
    u8::try_from(128 + number).unwrap_or(1)
}
