//! Administrators acknowledge alerts and silence volumes; both outlast the daemon.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::daemon::{Daemon, Said, Start, cowbell, said};
use crate::http;
use crate::tape::{Snapshot, Tape};
use crate::wait_for;

const JSON: (&str, &str) = ("Content-Type", "application/json");
const HOST: (&str, &str) = ("Host", "127.0.0.1:2692");

/// A snapshot that is 90 % full all the time, and a receiver that writes messages to a file.
fn critical() -> (Tape, String) {
    let tape = Tape::of(
        std::time::Duration::from_millis(100),
        &[Snapshot::Filled(90.0); 30],
    );
    let told = tape.folder().join("told");
    let config = format!(
        "[[notify]]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"x=$(cat); printf '%s\\\\n' \\\"$x\\\" >> {}\"]\n",
        told.display()
    );
    (tape, config)
}

fn alert(daemon: &Daemon, arguments: &[&str]) -> Said {
    said(
        cowbell()
            .arg("alert")
            .args(arguments)
            .args(["--listen", &format!("127.0.0.1:{}", daemon.port)]),
    )
}

fn done(daemon: &Daemon, arguments: &[&str]) -> String {
    let found = alert(daemon, arguments);
    assert_eq!((found.code, &*found.err), (Some(0), ""), "{arguments:?}");
    found.out
}

fn refused(daemon: &Daemon, arguments: &[&str], part: &str) {
    let found = alert(daemon, arguments);
    assert!(
        matches!(found.code, Some(1 | 2)) && found.out.is_empty(),
        "{arguments:?}: {found:?}"
    );
    assert!(
        found.err.contains(part),
        "expected {part:?} for {arguments:?}: {found:?}"
    );
}

fn critical_alert(daemon: &Daemon) -> Value {
    let alerts = daemon.json("/api/v1/alerts");
    let is_it = |alert: &&Value| alert["rule"] == "snapshot_fill";
    alerts
        .as_array()
        .unwrap()
        .iter()
        .find(is_it)
        .cloned()
        .unwrap_or_default()
}

#[test]
fn an_acknowledgement_is_shown_and_outlasts_a_restart() {
    let (tape, config) = critical();
    let mut daemon = Start::playing(&tape, "1").config(&config).start();
    daemon.has_played(3);
    let id = critical_alert(&daemon)["id"].to_string();
    assert!(
        done(&daemon, &["list"]).contains("critical"),
        "{}",
        done(&daemon, &["list"])
    );
    let said = done(
        &daemon,
        &["acknowledge", &id, "--note", "extending it", "--for", "2h"],
    );
    assert!(
        said.starts_with(&format!("alert {id} is acknowledged until 20")),
        "{said}"
    );
    let acknowledged = critical_alert(&daemon)["acknowledged"].clone();
    assert_eq!(acknowledged["note"], "extending it");
    assert!(daemon.get("/alerts").body.contains("extending it"));
    assert!(done(&daemon, &["list"]).contains("critical, acknowledged"));
    refused(
        &daemon,
        &["acknowledge", "99"],
        "alert 99 is not open: `cowbell alert list` lists all alerts",
    );
    refused(
        &daemon,
        &["acknowledge", "99", "--withdraw"],
        "alert 99 is not open",
    );
    daemon.stop(Signal::KILL);
    let second = Start::playing(&tape, "1")
        .config(&config)
        .db(&daemon.db)
        .start();
    second.has_played(3);
    assert_eq!(critical_alert(&second)["acknowledged"], acknowledged);
    let said = done(&second, &["acknowledge", &id, "--withdraw"]);
    assert_eq!(
        said,
        format!("the acknowledgement of alert {id} is withdrawn\n")
    );
    assert_eq!(critical_alert(&second)["acknowledged"], Value::Null);
    let path = format!("/api/v1/alerts/{id}/acknowledgement");
    let again = http::change(second.port, "DELETE", &path, &[HOST, JSON], "");
    assert_eq!(again.status, 404, "{again:?}");
    assert!(
        again
            .body
            .contains(&format!("alert {id} is not acknowledged: ")),
        "{again:?}"
    );
}

#[test]
fn alerts_of_silenced_volumes_are_delivered_when_the_silence_ends() {
    let (tape, config) = critical();
    let mut calm = Start::playing(
        &Tape::of(
            std::time::Duration::from_millis(100),
            &[Snapshot::Filled(10.0); 3],
        ),
        "1",
    )
    .config(&config)
    .start();
    calm.has_played(3);
    assert_eq!(done(&calm, &["silences"]), "no volumes are silenced\n");
    let said = done(
        &calm,
        &[
            "silence",
            "vg0/data*",
            "--for",
            "1h",
            "--note",
            "moved tonight",
        ],
    );
    assert!(
        said.starts_with("alerts of vg0/data* are not delivered until 20"),
        "{said}"
    );
    let listed = done(&calm, &["silences"]);
    assert!(
        listed.contains("vg0/data*") && listed.contains("moved tonight"),
        "{listed}"
    );
    refused(
        &calm,
        &["silence", "data", "--for", "1h"],
        "expected a pattern of volumes such as",
    );
    for length in ["0s", "2", "later", "9000h"] {
        refused(
            &calm,
            &["silence", "vg0/*", "--for", length],
            "expected a length such as 2h, above zero",
        );
    }
    refused(&calm, &["silence", "vg0/*"], "--for");
    refused(
        &calm,
        &["silence", "vg1/*", "--end"],
        "vg1/* is not silenced: `cowbell alert silences` lists",
    );
    calm.stop(Signal::TERM);
    let daemon = Start::playing(&tape, "1")
        .config(&config)
        .db(&calm.db)
        .start();
    daemon.has_played(30);
    let silences = daemon.json("/api/v1/silences");
    assert_eq!(
        (&silences[0]["volumes"], &silences[0]["note"]),
        (&json!("vg0/data*"), &json!("moved tonight"))
    );
    assert!(daemon.get("/alerts").body.contains("Silenced: vg0/data*"));
    assert_eq!(
        critical_alert(&daemon)["severity"],
        "critical",
        "it is judged and shown all the same"
    );
    let told = tape.folder().join("told");
    assert!(!told.exists(), "{:?}", std::fs::read_to_string(&told));
    let said = done(&daemon, &["silence", "vg0/data*", "--end"]);
    assert_eq!(said, "the silence of vg0/data* has ended\n");
    assert_eq!(daemon.json("/api/v1/silences"), json!([]));
    wait_for("the alert", || {
        std::fs::read_to_string(&told)
            .ok()
            .filter(|text| text.contains("snapshot_fill"))
    });
}

#[test]
fn what_no_silence_or_acknowledgement_can_be_is_refused_in_a_sentence() {
    let (tape, config) = critical();
    let daemon = Start::playing(&tape, "1").config(&config).start();
    daemon.has_played(3);
    let id = critical_alert(&daemon)["id"].to_string();
    let at = format!("/api/v1/alerts/{id}/acknowledgement");
    let change = |method: &str, path: &str, body: &Value| {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        http::change(daemon.port, method, path, &[HOST, JSON], &body)
    };
    let silence = |volumes: &str, until: &str, note: &str| json!({"volumes": volumes, "until": until, "note": note});
    let soon = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1)).to_string();
    for (method, path, body, status, part) in [
        (
            "PUT",
            &*at,
            json!({"note": "a".repeat(1_001)}),
            400,
            "acknowledge alert 1: expected the note to be 1 to 1000 letters",
        ),
        (
            "PUT",
            &at,
            json!({"note": "  "}),
            400,
            "without control characters, or to be empty",
        ),
        (
            "PUT",
            &at,
            json!({"until": "9999-01-01T00:00:00Z"}),
            400,
            "cannot acknowledge alert 1: expected `until` later",
        ),
        (
            "PUT",
            &at,
            json!({"until": "2000-01-01T00:00:00Z"}),
            400,
            "later than now (",
        ),
        (
            "PUT",
            "/api/v1/alerts/x/acknowledgement",
            json!({}),
            400,
            "expected the ID of an alert, but found `x`",
        ),
        (
            "DELETE",
            "/api/v1/alerts/0/acknowledgement",
            Value::Null,
            404,
            "alert 0 is not open: ",
        ),
        (
            "PUT",
            "/api/v1/silences",
            silence("vg0/*", "2099-01-01T00:00:00Z", ""),
            400,
            "cannot silence vg0/*: expected `until` later than now (",
        ),
        (
            "PUT",
            "/api/v1/silences",
            silence("vg0/*", &soon, "a\nb"),
            400,
            "cannot silence vg0/*: expected the note",
        ),
        (
            "PUT",
            "/api/v1/silences",
            silence(&format!("vg0/{}", "?".repeat(500)), &soon, ""),
            400,
            "1 to 500 letters",
        ),
        (
            "PUT",
            "/api/v1/silences",
            silence("vg0/\u{202e}", &soon, ""),
            400,
            "without control characters",
        ),
        (
            "PUT",
            "/api/v1/silences",
            silence("vg0/[", &soon, ""),
            400,
            "expected a pattern of volumes such as",
        ),
        (
            "DELETE",
            "/api/v1/silences?volumes=vg9/x",
            Value::Null,
            404,
            "vg9/x is not silenced",
        ),
        (
            "DELETE",
            "/api/v1/silences?volumes=",
            Value::Null,
            400,
            "expected the pattern `volumes`",
        ),
        ("DELETE", "/api/v1/silences", Value::Null, 400, "volumes"),
        (
            "POST",
            "/api/v1/alerts/test?receiver=x",
            Value::Null,
            404,
            "no receiver is named \\\"x\\\": expected one of command /bin/sh",
        ),
    ] {
        let found = change(method, path, &body);
        assert_eq!(found.status, status, "{method} {path} {body}: {found:?}");
        assert!(found.body.contains(part), "expected {part:?}: {found:?}");
    }
    for number in 0..100 {
        let found = change(
            "PUT",
            "/api/v1/silences",
            &silence(&format!("vg1/{number}"), &soon, ""),
        );
        assert_eq!(found.status, 200, "{found:?}");
    }
    let found = change("PUT", "/api/v1/silences", &silence("vg1/100", &soon, ""));
    assert_eq!(found.status, 409, "{found:?}");
    assert!(
        found
            .body
            .contains("cannot silence vg1/100: there are 100 silences, which is the limit"),
        "{found:?}"
    );
    assert_eq!(
        change(
            "PUT",
            "/api/v1/silences",
            &silence("vg1/99", &soon, "again")
        )
        .status,
        200
    );
}
