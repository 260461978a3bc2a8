//! `cowbell alert`: lists alerts and silences, acknowledges an alert, silences volumes.

use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};

use super::terminal::{self, wrapped};
use super::{Daemon, LONG_LIMIT, complain, parsed};
use crate::alert::alike;
use crate::notify::Silence;
use crate::series::Range;
use crate::table::{Cell, Column, Style, Table};
use crate::units::duration_text;
use crate::web::{
    AcknowledgeAlert, AlertBody, AlertReply, LONGEST_SILENCE, PutSilence, TestResult, escaped,
};

/// The time limit for a test: the daemon reads certificates for up to 5 s, and receivers have 10 s to answer.
const TEST_LIMIT: Duration = Duration::from_secs(20);

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
        #[arg(long = "for", value_name = "LENGTH", value_parser = length)]
        length: Option<SignedDuration>,
        /// Withdraw the acknowledgement
        #[arg(long, conflicts_with_all = ["length", "note"])]
        withdraw: bool,
    },
    /// List silences that have not ended
    Silences {
        /// Print JSON, as in the API
        #[arg(long)]
        json: bool,
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
pub async fn run(daemon: &Daemon, command: AlertCommand) -> anyhow::Result<String> {
    match command {
        AlertCommand::List { json } => list(daemon, json).await,
        AlertCommand::Silences { json } => silences(daemon, json).await,
        AlertCommand::Test { receiver } => test(daemon, receiver.as_deref()).await,
        AlertCommand::Acknowledge {
            id, withdraw: true, ..
        } => {
            send(
                daemon,
                "DELETE",
                &format!("/api/v1/alerts/{id}/acknowledgement"),
                "",
            )
            .await
        }
        AlertCommand::Acknowledge {
            id, note, length, ..
        } => {
            let body = AcknowledgeAlert {
                note,
                until: length.map(from_now),
            };
            let path = format!("/api/v1/alerts/{id}/acknowledgement");
            send(daemon, "PUT", &path, &serde_json::to_string(&body)?).await
        }
        AlertCommand::Silence {
            volumes, end: true, ..
        } => {
            send(
                daemon,
                "DELETE",
                &format!("/api/v1/silences?volumes={}", escaped(&volumes)),
                "",
            )
            .await
        }
        AlertCommand::Silence {
            volumes,
            length,
            note,
            ..
        } => {
            let silence = PutSilence {
                volumes,
                until: from_now(length.unwrap_or_default()),
                note,
            };
            send(
                daemon,
                "PUT",
                "/api/v1/silences",
                &serde_json::to_string(&silence)?,
            )
            .await
        }
    }
}

async fn test(daemon: &Daemon, receiver: Option<&str>) -> anyhow::Result<String> {
    let query = receiver.map_or_else(String::new, |name| format!("?receiver={}", escaped(name)));
    let path = format!("/api/v1/alerts/test{query}");
    let results: Vec<TestResult> = daemon.command_within(TEST_LIMIT, "POST", &path, "").await?;
    let line = |result: &TestResult| {
        let word = if result.is_delivered {
            "ok      "
        } else {
            "FAILED  "
        };
        format!("{word} {}: {}\n", result.receiver, result.answer)
    };
    let text: String = results.iter().map(line).collect();
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
    let now = crate::source::clock::now();
    now.checked_add(length).unwrap_or(Timestamp::MAX)
}

/// Returns the daemon's line on what was done.
async fn send(daemon: &Daemon, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
    let reply: AlertReply = daemon.command(method, path, body).await?;
    reply.message.iter().for_each(|message| complain(message));
    Ok(reply.done + "\n")
}

async fn silences(daemon: &Daemon, json: bool) -> anyhow::Result<String> {
    let answer = daemon.ask("/api/v1/silences", &[], LONG_LIMIT).await?;
    if json {
        return Ok(answer + "\n");
    }
    let silences: Vec<Silence> = parsed(&answer)?;
    if silences.is_empty() {
        return Ok("no volumes are silenced\n".into());
    }
    let columns = [
        Column::name("Volumes"),
        Column::text("Until (UTC)"),
        Column::text("Note"),
    ];
    let row = |silence: &Silence| {
        vec![
            silence.volumes.as_str().into(),
            silence
                .until
                .strftime("%Y-%m-%d %H:%M:%S")
                .to_string()
                .into(),
            silence.note.clone().into(),
        ]
    };
    Ok(Table::new("", columns, silences.iter().map(row)).write(Style::Plain))
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
        Column::number("Lasted").class("least"),
    ];
    let now = crate::source::clock::now();
    let text = terminal::table(&Table::new(
        "",
        columns,
        alerts.iter().map(|body| row(body, now)),
    ));
    let open = alerts
        .iter()
        .map(|body| &body.alert)
        .filter(|alert| alert.cleared_at.is_none());
    let sentences = alike(open).into_iter().map(|alerts| {
        let ids: Vec<String> = alerts.iter().map(|alert| alert.id.to_string()).collect();
        format!("\n{}: {}\n", ids.join(", "), alerts[0].sentence())
    });
    Ok(text + &wrapped(&sentences.collect::<String>()))
}

fn row(body: &AlertBody, now: Timestamp) -> Vec<Cell> {
    let alert = &body.alert;
    let state = match alert.cleared_at {
        Some(_) => alert.end_text().into(),
        None if alert.is_acknowledged(now) => format!("{}, acknowledged", alert.severity.text()),
        None => alert.severity.text().into(),
    };
    let lasted = Range {
        from: alert.raised_at,
        to: alert.cleared_at.unwrap_or(now),
    };
    vec![
        alert.id.to_string().into(),
        state.into(),
        alert.rule.text().into(),
        alert.volume().unwrap_or_else(|| "cowbell".into()).into(),
        alert
            .raised_at
            .strftime("%Y-%m-%d %H:%M")
            .to_string()
            .into(),
        duration_text(lasted.seconds().max(0.0)).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::Alert;

    #[test]
    fn only_what_is_well_again_is_listed_as_cleared() {
        for (recovered, expected) in [(true, "cleared"), (false, "over")] {
            let alert = serde_json::json!({
                "id": 7, "rule": "snapshot_invalid", "severity": "critical", "vg": "vg0", "lv": "data", "uuid": "u",
                "value": null, "raised_at": "2026-11-23T07:00:00Z", "cleared_at": "2026-11-23T08:00:00Z",
                "recovered": recovered, "worst": "critical", "sentence": "",
            });
            let body: AlertBody = serde_json::from_value(alert).unwrap();
            let row = row(&body, Timestamp::now());
            assert_eq!(row[1], expected.into(), "{row:?}");
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
        let groups: Vec<_> = alike(&alerts).into_iter().map(ids).collect();
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
