//! `cowbell alert`: lists alerts, acknowledges one, silences volumes.

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};

use super::{Daemon, LONG_LIMIT, complain, parsed};
use crate::series::Range;
use crate::table::{Cell, Column, Style, Table};
use crate::units::duration_text;
use crate::web::{AcknowledgeAlert, AlertBody, AlertReply, PutSilence, TestResult, escaped};

/// The time limit for a test: receivers have ten seconds.
const TEST_LIMIT: Duration = Duration::from_secs(12);

#[derive(Subcommand)]
pub enum AlertCommand {
    /// List the last alerts, the latest first
    List {
        /// Print JSON, as in the API
        #[arg(long)]
        json: bool,
    },
    /// Send a test message to receivers, and print their answers
    Test {
        /// The name of one receiver [default: all]
        receiver: Option<String>,
    },
    /// Acknowledge an open alert: it is not repeated
    Acknowledge {
        /// ID in the list
        id: i64,
        /// Who works on it, and how
        #[arg(long, default_value = "")]
        note: String,
        /// Repeat it after this time, such as 2h [default: never]
        #[arg(long = "for", value_name = "LENGTH")]
        length: Option<SignedDuration>,
    },
    /// Deliver no alerts of some volumes for a time
    Silence {
        /// A pattern such as 'vg0/mysql_*'
        volumes: String,
        /// How long, such as 2h
        #[arg(long = "for", value_name = "LENGTH", required_unless_present = "end")]
        length: Option<SignedDuration>,
        /// The reason
        #[arg(long, default_value = "")]
        note: String,
        /// End the silence of this pattern now
        #[arg(long, conflicts_with_all = ["length", "note"])]
        end: bool,
    },
}

/// Runs a command; returns the text to print.
pub async fn run(daemon: &Daemon, command: AlertCommand) -> anyhow::Result<String> {
    match command {
        AlertCommand::List { json } => return list(daemon, json).await,
        AlertCommand::Test { receiver } => return test(daemon, receiver.as_deref()).await,
        AlertCommand::Acknowledge { id, note, length } => {
            let until = length.map(from_now).transpose()?;
            let path = format!("/api/v1/alerts/{id}/acknowledgement");
            send(daemon, "PUT", &path, &serde_json::to_string(&AcknowledgeAlert { note, until })?).await?;
        }
        AlertCommand::Silence { volumes, end: true, .. } => {
            send(daemon, "DELETE", &format!("/api/v1/silences?volumes={}", escaped(&volumes)), "").await?;
        }
        AlertCommand::Silence { volumes, length, note, .. } => {
            let until = from_now(length.unwrap_or_default())?;
            let silence = PutSilence { volumes, until, note };
            send(daemon, "PUT", "/api/v1/silences", &serde_json::to_string(&silence)?).await?;
        }
    }
    Ok(String::new())
}

async fn test(daemon: &Daemon, receiver: Option<&str>) -> anyhow::Result<String> {
    let query = receiver.map_or_else(String::new, |name| format!("?receiver={}", escaped(name)));
    let path = format!("/api/v1/alerts/test{query}");
    let results: Vec<TestResult> = daemon.command_within(TEST_LIMIT, "POST", &path, "").await?;
    let line = |result: &TestResult| {
        let word = if result.is_delivered { "ok      " } else { "FAILED  " };
        format!("{word} {}: {}\n", result.receiver, result.answer)
    };
    let text: String = results.iter().map(line).collect();
    if results.iter().all(|result| result.is_delivered) {
        return Ok(text);
    }
    Err(anyhow!("not every receiver got the test message:\n{}", text.trim_end()))
}

fn from_now(length: SignedDuration) -> anyhow::Result<Timestamp> {
    let until = crate::source::clock::now().checked_add(length);
    until.with_context(|| format!("expected a length such as 2h, but found {length:#}"))
}

async fn send(daemon: &Daemon, method: &str, path: &str, body: &str) -> anyhow::Result<()> {
    let reply: AlertReply = daemon.command(method, path, body).await?;
    reply.message.iter().for_each(|message| complain(message));
    Ok(())
}

async fn list(daemon: &Daemon, json: bool) -> anyhow::Result<String> {
    let answer = daemon.ask("/api/v1/alerts", &[], LONG_LIMIT).await?;
    if json {
        return Ok(answer + "\n");
    }
    let alerts: Vec<AlertBody> = parsed(&answer)?;
    if alerts.is_empty() {
        return Ok("no alert was raised yet\n".into());
    }
    let columns = [
        Column::name("ID"),
        Column::text("State"),
        Column::text("Rule"),
        Column::text("Volume"),
        Column::text("Raised (UTC)"),
        Column::number("Lasted"),
    ];
    let now = crate::source::clock::now();
    let text = Table::new("", columns, alerts.iter().map(|body| row(body, now))).write(Style::Plain);
    let open = alerts.iter().filter(|body| body.alert.cleared_at.is_none());
    let sentences = open.map(|body| format!("\n{}: {}\n", body.alert.id, body.alert.sentence));
    Ok(text + &sentences.collect::<String>())
}

fn row(body: &AlertBody, now: Timestamp) -> Vec<Cell> {
    let alert = &body.alert;
    let state = match alert.cleared_at {
        Some(_) => "cleared".to_string(),
        None if alert.is_acknowledged(now) => format!("{}, acknowledged", alert.severity.text()),
        None => alert.severity.text().into(),
    };
    let lasted = Range { from: alert.raised_at, to: alert.cleared_at.unwrap_or(now) };
    vec![
        alert.id.to_string().into(),
        state.into(),
        alert.rule.text().into(),
        alert.volume().unwrap_or_else(|| "cowbell".into()).into(),
        alert.raised_at.strftime("%Y-%m-%d %H:%M:%S").to_string().into(),
        duration_text(lasted.seconds().max(0.0)).into(),
    ]
}
