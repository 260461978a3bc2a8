//! Runs a program with a message on its standard input and in its environment, never through a shell.

use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::task::spawn_blocking;

use super::super::message::Message;
use super::Failed;

/// The last bytes of its standard error, which are kept.
const LONGEST_ERROR: usize = 4_096;
/// The time for the rest of its standard error after its end: a program that it leaves behind may keep that open.
const REST_TIMEOUT: Duration = Duration::from_millis(100);

pub async fn run(command: &[String], message: &Message) -> Result<String, Failed> {
    let input = serde_json::to_vec(message).map_err(|error| Failed::refused(error.to_string()))?;
    let (command, environment) = (command.to_vec(), environment(message));
    // The program's disk may hang. If it starts after all when nobody waits any more, it is killed.
    let started = spawn_blocking(move || start(&command, environment)).await;
    let started = started.map_err(|error| Failed::unsure(error.to_string()))?;
    let (mut child, group) =
        started.map_err(|error| Failed::refused(format!("cannot start it: {error}")))?;
    let said = Mutex::new(Vec::new());
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let end = async { tokio::join!(write(stdin, &input), child.wait()).1 };
    let (mut end, mut reading) = (std::pin::pin!(end), std::pin::pin!(read_end(stderr, &said)));
    let status = tokio::select! {
        status = &mut end => {
            let _ = tokio::time::timeout(REST_TIMEOUT, reading).await;
            status
        }
        () = &mut reading => end.await,
    };
    let status = status.map_err(|error| Failed::unsure(error.to_string()))?;
    group.ended();
    if status.success() {
        return Ok(status.to_string());
    }
    let said = last_line(&said.lock().unwrap_or_else(PoisonError::into_inner));
    let colon = if said.is_empty() { "" } else { ": " };
    Err(Failed::refused(format!(
        "it ended with {status}{colon}{said}"
    )))
}

fn start(
    command: &[String],
    environment: Vec<(&'static str, String)>,
) -> std::io::Result<(Child, Group)> {
    let child = Command::new(&command[0])
        .args(&command[1..])
        .envs(environment)
        // systemd would believe that it speaks for cowbell.
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let group = Group(child.id());
    Ok((child, group))
}

async fn write(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        // A program that does not read its input may have closed it already.
        let _ = stdin.write_all(input).await;
    }
}

/// Reads to the end, and keeps the last bytes.
async fn read_end(stderr: Option<ChildStderr>, said: &Mutex<Vec<u8>>) {
    let Some(mut stderr) = stderr else { return };
    let mut part = [0; LONGEST_ERROR];
    while let Ok(length @ 1..) = stderr.read(&mut part).await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(&part[..length]);
        let excess = said.len().saturating_sub(LONGEST_ERROR);
        said.drain(..excess);
    }
}

fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .unwrap_or_default()
        .into()
}

/// The most important alert, for programs that read no JSON.
fn environment(message: &Message) -> Vec<(&'static str, String)> {
    let (state, alert) = (&message.first, &message.first.alert);
    let value = alert
        .value
        .map_or_else(String::new, |value| value.to_string());
    let cleared_at = alert
        .cleared_at
        .map_or_else(String::new, |at| at.to_string());
    let variables = [
        ("COWBELL_HOST", message.host.clone()),
        ("COWBELL_STATUS", state.status.text().into()),
        ("COWBELL_SEVERITY", alert.severity.text().into()),
        ("COWBELL_WORST", alert.worst.text().into()),
        ("COWBELL_RULE", alert.rule.name().into()),
        ("COWBELL_VG", alert.vg.clone()),
        ("COWBELL_LV", alert.lv.clone()),
        ("COWBELL_ID", alert.id.to_string()),
        ("COWBELL_KEY", message.key(state)),
        ("COWBELL_VALUE", value),
        ("COWBELL_RAISED_AT", alert.raised_at.to_string()),
        ("COWBELL_CLEARED_AT", cleared_at),
        ("COWBELL_TITLE", message.title()),
        ("COWBELL_SENTENCE", alert.sentence().to_string()),
        ("COWBELL_ALERTS", message.alerts().count().to_string()),
        ("COWBELL_TEST", u8::from(message.is_test).to_string()),
    ];
    // A variable cannot hold NUL.
    variables
        .into_iter()
        .map(|(name, value)| (name, value.replace('\0', "")))
        .collect()
}

/// A process group, which is killed when dropped.
struct Group(Option<u32>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self
            .0
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended just now.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_message;
    use super::*;

    async fn failure(script: &str) -> String {
        let command = ["/bin/sh", "-c", script].map(String::from);
        run(&command, &test_message("db1"))
            .await
            .unwrap_err()
            .sentence
    }

    #[tokio::test]
    async fn a_failure_ends_with_the_last_line_of_standard_error() {
        let all = "it ended with exit status: 3";
        assert_eq!(failure("exit 3").await, all);
        assert_eq!(
            failure("echo first >&2; echo no paper >&2; echo >&2; exit 3").await,
            format!("{all}: no paper")
        );
        // More than a pipe holds.
        let many =
            "head -c 200000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo no paper >&2; exit 3";
        assert_eq!(failure(many).await, format!("{all}: no paper"));
        // What it leaves behind keeps standard error open.
        assert_eq!(
            failure("echo no paper >&2; sleep 5 & exit 3").await,
            format!("{all}: no paper")
        );
    }

    #[test]
    fn a_name_with_any_byte_is_a_variable() {
        let mut message = test_message("db1");
        message.first.alert.lv = "a\0b\nc=d".into();
        assert!(environment(&message).contains(&("COWBELL_LV", "ab\nc=d".into())));
    }
}
