//! Commands: a program with a message on its standard input and in its environment, never through a shell.

use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::task::spawn_blocking;

use super::secret::{External, SecretText};
use super::{Delivers, Failure, Message, ReceiverKind};

/// This many bytes at the end of its standard error are read for the reason of a failure.
const LONGEST_ERROR: usize = 4_096;
/// The time for the rest of its standard error after its end: a program that it leaves behind may keep that open.
const REST_TIMEOUT: Duration = Duration::from_millis(100);

/// A program and its arguments. It gets the message as JSON on its standard input.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Program {
    command: CommandLine,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "Vec<String>")]
struct CommandLine(String, Vec<SecretText>);

impl TryFrom<Vec<String>> for CommandLine {
    type Error = &'static str;

    fn try_from(command: Vec<String>) -> Result<Self, Self::Error> {
        let mut words = command.into_iter();
        match words.next() {
            Some(program) if !program.is_empty() => {
                Ok(Self(program, words.map(SecretText).collect()))
            }
            _ => Err(
                "`command`: expected a program and its arguments such as [\"/path\", \"argument\"]",
            ),
        }
    }
}

impl External for CommandLine {
    /// An argument such as `file:/PATH` is the program's own.
    fn load(&mut self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn secrets(&self) -> Vec<String> {
        self.1.iter().map(|argument| argument.0.clone()).collect()
    }
}

impl ReceiverKind for Program {
    fn usual_name(&self) -> String {
        format!("command {}", self.command.0)
    }

    fn external(&mut self) -> Vec<(&str, &mut dyn External)> {
        vec![("command", &mut self.command)]
    }

    fn connect(&self, _: &str) -> Result<Box<dyn Delivers>, String> {
        Ok(Box::new(self.clone()))
    }
}

impl Delivers for Program {
    fn deliver<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(run(&self.command, message))
    }
}

async fn run(command: &CommandLine, message: &Message) -> Result<String, Failure> {
    let input = serde_json::to_vec(message).map_err(Failure::refused)?;
    let (command, environment) = (command.clone(), environment(message));
    // The disk of the program may hang. A program that starts after the time limit is killed.
    let started = spawn_blocking(move || start(&command, environment)).await;
    let started = started.map_err(Failure::unsure)?;
    let (mut child, group) =
        started.map_err(|error| Failure::refused(format!("cannot start it: {error}")))?;
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
    let status = status.map_err(Failure::unsure)?;
    group.ended();
    if status.success() {
        return Ok(status.to_string());
    }
    let said = last_line(&said.lock().unwrap_or_else(PoisonError::into_inner));
    let colon = if said.is_empty() { "" } else { ": " };
    Err(Failure::refused(format!(
        "it ended with {status}{colon}{said}"
    )))
}

fn start(
    CommandLine(program, arguments): &CommandLine,
    environment: Vec<(String, String)>,
) -> std::io::Result<(Child, ProcessGroup)> {
    let child = Command::new(program)
        .args(arguments.iter().map(|argument| &argument.0))
        .envs(environment)
        // systemd would believe that it speaks for cowbell.
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let group = ProcessGroup(child.id());
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

/// The most important alert with all its fields, for programs that read no JSON.
fn environment(message: &Message) -> Vec<(String, String)> {
    let alert = &message.first;
    let mut variables = vec![
        ("COWBELL_HOST".into(), message.host.clone()),
        ("COWBELL_KEY".into(), alert.key.clone()),
        ("COWBELL_TITLE".into(), message.title.clone()),
        (
            "COWBELL_ALERTS".into(),
            (1 + message.others.len()).to_string(),
        ),
        ("COWBELL_TEST".into(), u8::from(message.is_test).to_string()),
    ];
    for (field, value) in &alert.fields {
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            // `75`, not `75.0`.
            Value::Number(number) => number.as_f64().unwrap_or_default().to_string(),
            other => other.to_string(),
        };
        variables.push((format!("COWBELL_{}", field.to_uppercase()), text));
    }
    // A variable cannot hold NUL.
    for (_, value) in &mut variables {
        value.retain(|letter| letter != '\0');
    }
    variables
}

/// A process group, which is killed when dropped.
struct ProcessGroup(Option<u32>);

impl ProcessGroup {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
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
    use super::super::tests::message;
    use super::*;

    async fn failure(script: &str) -> String {
        let command = ["/bin/sh", "-c", script].map(String::from).to_vec();
        run(&command.try_into().unwrap(), &message("db1", "vg0/data"))
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
        let message = message("db1", "a\0b\nc=d");
        let found = environment(&message);
        for (name, value) in [("LV", "ab\nc=d"), ("VALUE", "70.5"), ("CLEARED_AT", "")] {
            assert!(
                found.contains(&(format!("COWBELL_{name}"), value.into())),
                "{name} in {found:?}"
            );
        }
    }
}
