//! `cowbell alert`: lists alerts and silences, acknowledges an alert, silences volumes, tests receivers.

use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};

use super::output::{JsonFlag, complain, fitted_table, wrapped};
use crate::alert::{Alert, alike};
use crate::client::{Daemon, LONG_LIMIT, parsed};
use crate::notify::Silence;
use crate::series::Range;
use crate::source::clock;
use crate::table::{Column, Style, Table};
use crate::units::duration_text;
use crate::web::{
    AcknowledgeAlert, AlertBody, AlertReply, LONGEST_SILENCE, PutSilence, StatusBody, TestResult,
    escaped,
};

/// The time limit for a test: the daemon reads certificates for up to 5 s, and receivers have 10 s to answer.
const TEST_LIMIT: Duration = Duration::from_secs(20);

#[derive(Subcommand)]
pub enum AlertArguments {
    /// List the last alerts, the latest first
    List {
        #[command(flatten)]
        format: JsonFlag,
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
        #[arg(long = "for", value_name = "LENGTH", value_parser = length)]
        length: Option<SignedDuration>,
        /// Withdraw the acknowledgement
        #[arg(long, conflicts_with_all = ["length", "note"])]
        withdraw: bool,
    },
    /// List silences that have not ended
    Silences {
        #[command(flatten)]
        format: JsonFlag,
    },
    /// Deliver no alerts of some volumes for a time
    Silence {
        /// A pattern such as 'vg0/mysql_*'
        volumes: String,
        /// How long, such as 2h
        #[arg(long = "for", value_name = "LENGTH", value_parser = length, required_unless_present = "end")]
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
pub async fn run(daemon: &Daemon, arguments: AlertArguments) -> anyhow::Result<String> {
    match arguments {
        AlertArguments::List { format } => list(daemon, &format).await,
        AlertArguments::Silences { format } => silences(daemon, &format).await,
        AlertArguments::Test { receiver } => test(daemon, receiver.as_deref()).await,
        AlertArguments::Acknowledge {
            id,
            note,
            length,
            withdraw,
        } => {
            let path = format!("/api/v1/alerts/{id}/acknowledgement");
            if withdraw {
                return change(daemon, Method::DELETE, &path, String::new()).await;
            }
            let until = length.map(from_now);
            let body = serde_json::to_string(&AcknowledgeAlert { note, until })?;
            change(daemon, Method::PUT, &path, body).await
        }
        AlertArguments::Silence {
            volumes,
            length: Some(length),
            note,
            ..
        } => {
            let silence = PutSilence {
                volumes,
                until: from_now(length),
                note,
            };
            let body = serde_json::to_string(&silence)?;
            change(daemon, Method::PUT, "/api/v1/silences", body).await
        }
        // clap requires a length unless the silence is to end.
        AlertArguments::Silence { volumes, .. } => {
            let path = format!("/api/v1/silences?volumes={}", escaped(&volumes));
            change(daemon, Method::DELETE, &path, String::new()).await
        }
    }
}

async fn test(daemon: &Daemon, receiver: Option<&str>) -> anyhow::Result<String> {
    let mut path = "/api/v1/alerts/test".to_string();
    if let Some(name) = receiver {
        path += &format!("?receiver={}", escaped(name));
    }
    let answer = daemon.send(Method::POST, &path, "", TEST_LIMIT).await?;
    let results: Vec<TestResult> = parsed(&answer.text)?;
    let mut text = String::new();
    for result in &results {
        let word = if result.is_delivered { "ok" } else { "FAILED" };
        text += &format!("{word:<8} {}: {}\n", result.receiver, result.answer);
    }
    if results.iter().all(|result| result.is_delivered) {
        return Ok(wrapped(&text));
    }
    Err(anyhow!(
        "not every receiver got the test message:\n{}",
        text.trim_end()
    ))
}

/// The value of `--for`.
fn length(text: &str) -> Result<SignedDuration, String> {
    let length = text.parse::<SignedDuration>().ok();
    let length = length.filter(|length| length.is_positive() && *length <= LONGEST_SILENCE);
    let most = LONGEST_SILENCE.as_hours();
    length.ok_or_else(|| format!("expected a length such as 2h, above zero and at most {most}h"))
}

fn from_now(length: SignedDuration) -> Timestamp {
    clock::now().checked_add(length).unwrap_or(Timestamp::MAX)
}

/// Returns the daemon's line on what was done.
async fn change(
    daemon: &Daemon,
    method: Method,
    path: &str,
    body: String,
) -> anyhow::Result<String> {
    let reply: AlertReply = daemon.command(method, path, body).await?;
    if let Some(message) = reply.message {
        complain(&message);
    }
    Ok(reply.done + "\n")
}

async fn silences(daemon: &Daemon, format: &JsonFlag) -> anyhow::Result<String> {
    let answer = daemon.text("/api/v1/silences", LONG_LIMIT).await?;
    if format.json {
        return Ok(answer + "\n");
    }
    let silences: Vec<Silence> = parsed(&answer)?;
    if silences.is_empty() {
        return Ok("no volumes are silenced\n".into());
    }
    let table = Table::of("", silences)
        .column(Column::name("Volumes"), |silence| {
            silence.volumes.as_str().to_string()
        })
        .column(Column::text("Until (UTC)"), |silence| {
            silence.until.strftime("%Y-%m-%d %H:%M:%S").to_string()
        })
        .column(Column::text("Note"), |silence| silence.note.clone());
    Ok(table.done().write(Style::Plain))
}

async fn list(daemon: &Daemon, format: &JsonFlag) -> anyhow::Result<String> {
    let answer = daemon.text("/api/v1/alerts", LONG_LIMIT).await?;
    if format.json {
        return Ok(answer + "\n");
    }
    let alerts: Vec<AlertBody> = parsed(&answer)?;
    if alerts.is_empty() {
        return Ok("no alert was raised yet\n".into());
    }
    // The daemon's clock is that of a recording, if it shows one.
    let status: StatusBody = daemon.get("/api/v1/status", LONG_LIMIT).await?;
    let now = status.ticks.last_at;
    let (open, over): (Vec<&Alert>, Vec<&Alert>) = alerts
        .iter()
        .map(|body| &body.alert)
        .partition(|alert| alert.cleared_at.is_none());
    let groups = alike(open, now);
    let in_order = groups.iter().flatten().copied().chain(over);
    let table = fitted_table(&table(in_order, now));
    let mut sentences = String::new();
    for alerts in &groups {
        let ids: Vec<String> = alerts.iter().map(|alert| alert.id.to_string()).collect();
        sentences += &format!("\n{}: {}\n", ids.join(", "), alerts[0].sentence());
    }
    Ok(table + &wrapped(&sentences))
}

fn table<'a>(alerts: impl Iterator<Item = &'a Alert>, now: Timestamp) -> Table {
    Table::of("", alerts)
        .column(Column::name("ID"), |alert| alert.id.to_string())
        .column(Column::text("State"), |alert| state(alert, now))
        .column(Column::text("Rule"), |alert| alert.rule.text())
        .column(Column::text("Volume"), |alert| {
            alert.volume().unwrap_or_else(|| "cowbell".into())
        })
        .column(Column::text("Raised (UTC)"), |alert| {
            alert.raised_at.strftime("%Y-%m-%d %H:%M").to_string()
        })
        .column(Column::number("Lasted").class("least"), |alert| {
            let lasted = Range {
                from: alert.raised_at,
                to: alert.cleared_at.unwrap_or(now),
            };
            duration_text(lasted.seconds().max(0.0))
        })
        .done()
}

fn state(alert: &Alert, now: Timestamp) -> String {
    match alert.cleared_at {
        Some(_) => alert.end_text().into(),
        None if alert.is_acknowledged(now) => format!("{}, acknowledged", alert.severity.text()),
        None => alert.severity.text().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_well_again_is_listed_as_cleared() {
        for (recovered, expected) in [(true, "cleared"), (false, "over")] {
            let alert = serde_json::json!({
                "id": 7, "rule": "snapshot_invalid", "severity": "critical", "vg": "vg0", "lv": "data", "uuid": "u",
                "value": null, "raised_at": "2026-11-23T07:00:00Z", "cleared_at": "2026-11-23T08:00:00Z",
                "recovered": recovered, "worst": "critical", "sentence": "",
            });
            let body: AlertBody = serde_json::from_value(alert).unwrap();
            assert_eq!(state(&body.alert, Timestamp::now()), expected);
        }
    }

    #[test]
    fn alerts_of_one_overflow_are_told_once_and_others_apart() {
        let alert = |id: i64, rule: &str, severity: &str, uuid: &str| -> Alert {
            let alert = serde_json::json!({
                "id": id, "rule": rule, "severity": severity, "vg": "vg0", "lv": "s", "uuid": uuid, "value": null,
                "raised_at": "2026-11-23T07:00:00Z", "cleared_at": null, "recovered": false,
                "worst": severity, "sentence": "",
            });
            serde_json::from_value(alert).unwrap()
        };
        let alerts = [
            alert(1, "snapshot_fill", "warning", "a"),
            alert(2, "full_before_done", "critical", "a"),
            alert(3, "snapshot_fill", "warning", "b"),
            alert(4, "snapshot_age", "warning", "a"),
            alert(5, "time_until_full", "warning", "a"),
        ];
        let ids = |group: Vec<&Alert>| group.iter().map(|alert| alert.id).collect::<Vec<_>>();
        let now = Timestamp::now();
        let groups: Vec<_> = alike(&alerts, now).into_iter().map(ids).collect();
        assert_eq!(groups, [vec![2, 1, 5], vec![3], vec![4]]);
    }

    #[test]
    fn a_length_is_above_zero_and_at_most_a_year() {
        assert_eq!(length("1h 30m"), Ok(SignedDuration::from_mins(90)));
        for text in ["0s", "-2h", "2", "later", "8785h", ""] {
            let error = length(text).unwrap_err();
            assert_eq!(
                error,
                "expected a length such as 2h, above zero and at most 8784h"
            );
        }
    }
}
