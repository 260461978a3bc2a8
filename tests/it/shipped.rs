//! The shipped receivers send what each service documents.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::daemon::Start;
use crate::receivers::Server;
use crate::tape::{Snapshot, Tape};
use crate::wait_for;

/// A request: its first line, its header and its body.
struct Request {
    line: String,
    head: String,
    body: Value,
}

/// What a shipped receiver sends when an alert is a warning, critical and cleared.
fn requests(name: &str) -> [Request; 3] {
    let server = Server::start("202 Accepted");
    let folder = tempfile::tempdir().unwrap();
    let credential = folder.path().join(name);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("systemd/receivers/{name}.toml"));
    let shipped = std::fs::read_to_string(path).unwrap();
    assert!(shipped.lines().count() <= 17, "{name} is about ten lines");
    // An address in the file keeps its path; one in a credential is that of the server.
    let address = shipped
        .lines()
        .find_map(|line| line.strip_prefix("url = \""))
        .unwrap();
    let host = address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    let is_secret = address.starts_with("credential:");
    let config = if is_secret {
        shipped.clone()
    } else {
        shipped.replace(&host, &format!("http://{}", server.address))
    };
    let secret = if is_secret {
        format!("http://{}/hunter2", server.address)
    } else {
        "hunter2".into()
    };
    std::fs::write(&credential, secret).unwrap();
    std::fs::set_permissions(&credential, PermissionsExt::from_mode(0o400)).unwrap();

    let course = [50.0, 75.0, 90.0, 10.0].map(Snapshot::Filled);
    let ticks: Vec<Snapshot> = course.iter().flat_map(|snapshot| [*snapshot; 10]).collect();
    let tape = Tape::of(Duration::from_millis(100), &ticks);
    let mut start = Start::playing(&tape, "1").config(&config);
    start.credentials = Some(folder.path().into());
    let daemon = start.start();
    let found = wait_for("three requests", || {
        (server.requests().len() >= 3).then(|| server.requests())
    });
    assert!(!daemon.log().contains("hunter2"), "{}", daemon.log());
    let requests = found.into_iter().take(3).map(|(head, body)| Request {
        line: head.lines().next().unwrap().into(),
        body: serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")),
        head: head.to_lowercase(),
    });
    let requests: Vec<Request> = requests.collect();
    assert!(
        requests
            .iter()
            .all(|request| request.head.contains("content-type: application/json"))
    );
    requests.try_into().ok().unwrap()
}

/// A text that is not longer than the service allows.
fn text(value: &Value, most: usize) -> &str {
    let text = value
        .as_str()
        .unwrap_or_else(|| panic!("expected a text, but found {value}"));
    assert!(!text.is_empty() && text.chars().count() <= most, "{text}");
    text
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// <https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks>: `text` is required; `&`, `<` and `>` are
/// escaped. Longer texts than 40,000 characters are truncated.
#[test]
fn slack() {
    for request in requests("slack") {
        assert_eq!(keys(&request.body), ["text"]);
        assert!(text(&request.body["text"], 40_000).contains("vg0/data_snapshot"));
    }
}

/// <https://developers.mattermost.com/integrate/webhooks/incoming/>: `text` or `attachments` is required, `username` is
/// optional. A post has 16,383 characters.
#[test]
fn mattermost() {
    for request in requests("mattermost") {
        assert_eq!(keys(&request.body), ["text", "username"]);
        assert!(text(&request.body["text"], 16_383).contains("vg0/data_snapshot"));
    }
}

/// <https://learn.microsoft.com/en-us/connectors/teams/#microsoft-teams-webhook>: a message with adaptive cards as
/// attachments. <https://adaptivecards.io/explorer/TextBlock.html>: `text` is required.
#[test]
fn teams() {
    for request in requests("teams") {
        assert_eq!(request.body["type"], "message");
        let attachment = &request.body["attachments"][0];
        assert_eq!(
            attachment["contentType"],
            "application/vnd.microsoft.card.adaptive"
        );
        let card = &attachment["content"];
        assert_eq!(
            (&card["type"], &card["version"]),
            (&"AdaptiveCard".into(), &"1.4".into())
        );
        let blocks = card["body"].as_array().unwrap();
        assert_eq!(blocks.len(), 2);
        for block in blocks {
            assert_eq!(block["type"], "TextBlock");
            assert!(text(&block["text"], 28_000).contains("vg0/data_snapshot"));
        }
    }
}

/// <https://docs.ntfy.sh/publish/#publish-as-json>: `topic` is required, `priority` is 1 to 5, `tags` is a list of texts. A
/// message has 4,096 bytes. It is sent to the root of the server.
#[test]
fn ntfy() {
    let requests = requests("ntfy");
    let priorities = requests
        .each_ref()
        .map(|request| request.body["priority"].as_u64().unwrap());
    assert_eq!(priorities, [4, 5, 3]);
    for request in requests {
        assert!(request.line.starts_with("POST / "), "{}", request.line);
        assert_eq!(
            keys(&request.body),
            ["message", "priority", "tags", "title", "topic"]
        );
        assert_eq!(request.body["topic"], "hunter2");
        text(&request.body["message"], 4_096);
        text(&request.body["tags"][0], 50);
    }
}

/// <https://gotify.net/api-docs>, `createMessage`: `message` is required, `title` is a text and `priority` an integer. The
/// token is in the header `X-Gotify-Key`.
#[test]
fn gotify() {
    for request in requests("gotify") {
        assert!(
            request.line.starts_with("POST /message "),
            "{}",
            request.line
        );
        assert!(request.head.contains("x-gotify-key: hunter2"));
        assert_eq!(keys(&request.body), ["message", "priority", "title"]);
        assert!(request.body["priority"].is_u64());
        text(&request.body["message"], 10_000);
    }
}

/// <https://developer.pagerduty.com/docs/send-alert-event>: `routing_key`, `event_action` and `payload` are required, in the
/// payload `summary` (1,024 characters), `source` and `severity` (critical, error, warning or info). `dedup_key` has 255
/// characters; with the same one, `resolve` ends what `trigger` began.
#[test]
fn pagerduty() {
    let requests = requests("pagerduty");
    let found = requests.each_ref().map(|request| {
        let severity = request.body["payload"]["severity"].as_str().unwrap();
        (request.body["event_action"].as_str().unwrap(), severity)
    });
    assert_eq!(
        found[..2],
        [("trigger", "warning"), ("trigger", "critical")]
    );
    assert_eq!(found[2].0, "resolve");
    let key = text(&requests[0].body["dedup_key"], 255);
    for request in &requests {
        assert!(
            request.line.starts_with("POST /v2/enqueue "),
            "{}",
            request.line
        );
        assert_eq!(
            keys(&request.body),
            ["dedup_key", "event_action", "payload", "routing_key"]
        );
        assert_eq!(
            (&request.body["routing_key"], &request.body["dedup_key"]),
            (&"hunter2".into(), &key.into())
        );
        text(&request.body["payload"]["summary"], 1_024);
        text(&request.body["payload"]["source"], 1_024);
    }
}

/// <https://docs.opsgenie.com/docs/alert-api>: to create an alert, `message` (130 characters) is required; `alias` has 512,
/// `description` 15,000, `entity` 512, `source` 100, `note` 25,000 and `priority` is P1 to P5. An alert is closed by its
/// alias at `/v2/alerts/ALIAS/close?identifierType=alias`. The key is in `Authorization: GenieKey KEY`.
#[test]
fn opsgenie() {
    let [warning, critical, cleared] = requests("opsgenie");
    assert!(
        [&warning, &critical, &cleared]
            .iter()
            .all(|it| it.head.contains("authorization: geniekey hunter2"))
    );
    for (request, priority) in [(&warning, "P3"), (&critical, "P1")] {
        assert!(
            request.line.starts_with("POST /v2/alerts "),
            "{}",
            request.line
        );
        assert_eq!(request.body["priority"], priority);
        text(&request.body["message"], 130);
        text(&request.body["description"], 15_000);
        text(&request.body["entity"], 512);
        text(&request.body["source"], 100);
    }
    let alias = text(&warning.body["alias"], 512);
    assert_eq!(critical.body["alias"], alias);
    let close = format!("POST /v2/alerts/{alias}/close?identifierType=alias ");
    assert!(
        cleared.line.starts_with(&close),
        "expected {close:?} in {:?}",
        cleared.line
    );
    assert_eq!(keys(&cleared.body), ["note", "source"]);
}

/// <https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml>, `postableAlert`: `labels` is required;
/// labels and annotations are texts, `startsAt` and `endsAt` are times. What ends later is firing.
/// `tests/receivers` sends them to the real one.
#[test]
fn alertmanager() {
    let firing = requests("alertmanager").map(|request| {
        assert!(
            request.line.starts_with("POST /api/v2/alerts "),
            "{}",
            request.line
        );
        let alerts = request.body.as_array().unwrap().clone();
        assert_eq!(alerts.len(), 2, "a warning and a critical one");
        let firing = alerts.iter().filter(|alert| {
            assert_eq!(keys(alert), ["annotations", "endsAt", "labels", "startsAt"]);
            for texts in ["labels", "annotations"] {
                assert!(
                    alert[texts]
                        .as_object()
                        .unwrap()
                        .values()
                        .all(Value::is_string),
                    "{alert}"
                );
            }
            let time = |key: &str| {
                alert[key]
                    .as_str()
                    .unwrap()
                    .parse::<jiff::Timestamp>()
                    .unwrap()
            };
            assert!(time("startsAt") <= time("endsAt"), "{alert}");
            time("endsAt") > jiff::Timestamp::now()
        });
        firing
            .map(|alert| text(&alert["labels"]["severity"], 20).to_string())
            .collect::<Vec<_>>()
    });
    assert_eq!(
        firing,
        [vec!["warning".to_string()], vec!["critical".into()], vec![]]
    );
}

#[test]
fn every_shipped_receiver_is_tested() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/receivers");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_string()
        })
        .collect();
    names.sort();
    let tested = [
        "alertmanager",
        "gotify",
        "mattermost",
        "ntfy",
        "opsgenie",
        "pagerduty",
        "slack",
        "teams",
    ];
    assert_eq!(names, tested);
}
