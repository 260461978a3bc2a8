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
    let tape = Tape::of(std::time::Duration::from_millis(100), &[Snapshot::Filled(90.0); 30]);
    let told = tape.folder().join("told");
    let config = format!(
        "[[notify]]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"x=$(cat); printf '%s\\\\n' \\\"$x\\\" >> {}\"]\n",
        told.display()
    );
    (tape, config)
}

fn alert(daemon: &Daemon, arguments: &[&str]) -> Said {
    said(cowbell().arg("alert").args(arguments).args(["--listen", &format!("127.0.0.1:{}", daemon.port)]))
}

fn done(daemon: &Daemon, arguments: &[&str]) -> String {
    let found = alert(daemon, arguments);
    assert_eq!((found.code, &*found.err), (Some(0), ""), "{arguments:?}");
    found.out
}

fn refused(daemon: &Daemon, arguments: &[&str], part: &str) {
    let found = alert(daemon, arguments);
    assert!(matches!(found.code, Some(1 | 2)) && found.out.is_empty(), "{arguments:?}: {found:?}");
    assert!(found.err.contains(part), "expected {part:?} for {arguments:?}: {found:?}");
}

fn critical_alert(daemon: &Daemon) -> Value {
    let alerts = daemon.json("/api/v1/alerts");
    let is_it = |alert: &&Value| alert["rule"] == "snapshot_fill";
    alerts.as_array().unwrap().iter().find(is_it).cloned().unwrap_or_default()
}

#[test]
fn an_acknowledgement_is_shown_and_outlasts_a_restart() {
    let (tape, config) = critical();
    let mut daemon = Start::playing(&tape, "1").config(&config).start();
    daemon.has_played(3);
    let id = critical_alert(&daemon)["id"].to_string();
    assert!(done(&daemon, &["list"]).contains("critical"), "{}", done(&daemon, &["list"]));
    done(&daemon, &["acknowledge", &id, "--note", "extending it", "--for", "2h"]);
    let acknowledged = critical_alert(&daemon)["acknowledged"].clone();
    assert_eq!(acknowledged["note"], "extending it");
    assert!(daemon.get("/alerts").body.contains("extending it"));
    assert!(done(&daemon, &["list"]).contains("critical, acknowledged"));
    refused(&daemon, &["acknowledge", "99"], "alert 99 is not open");
    daemon.stop(Signal::KILL);
    let second = Start::playing(&tape, "1").config(&config).db(&daemon.db).start();
    second.has_played(3);
    assert_eq!(critical_alert(&second)["acknowledged"], acknowledged);
    let path = format!("/api/v1/alerts/{id}/acknowledgement");
    let withdrawn = http::change(second.port, "DELETE", &path, &[HOST, JSON], "");
    assert_eq!(withdrawn.status, 200, "{withdrawn:?}");
    assert_eq!(critical_alert(&second)["acknowledged"], Value::Null);
}

#[test]
fn alerts_of_silenced_volumes_are_delivered_when_the_silence_ends() {
    let (tape, config) = critical();
    let mut calm =
        Start::playing(&Tape::of(std::time::Duration::from_millis(100), &[Snapshot::Filled(10.0); 3]), "1")
            .config(&config)
            .start();
    calm.has_played(3);
    done(&calm, &["silence", "vg0/data*", "--for", "1h", "--note", "moved tonight"]);
    refused(&calm, &["silence", "data", "--for", "1h"], "expected a pattern of volumes such as");
    refused(&calm, &["silence", "vg0/*", "--for", "0s"], "expected `until` later than now");
    refused(&calm, &["silence", "vg0/*"], "--for");
    refused(&calm, &["silence", "vg1/*", "--end"], "vg1/* is not silenced");
    calm.stop(Signal::TERM);
    let daemon = Start::playing(&tape, "1").config(&config).db(&calm.db).start();
    daemon.has_played(30);
    let silences = daemon.json("/api/v1/silences");
    assert_eq!(
        (&silences[0]["volumes"], &silences[0]["note"]),
        (&json!("vg0/data*"), &json!("moved tonight"))
    );
    assert!(daemon.get("/alerts").body.contains("Silenced: vg0/data*"));
    assert_eq!(critical_alert(&daemon)["severity"], "critical", "it is judged and shown all the same");
    let told = tape.folder().join("told");
    assert!(!told.exists(), "{:?}", std::fs::read_to_string(&told));
    done(&daemon, &["silence", "vg0/data*", "--end"]);
    assert_eq!(daemon.json("/api/v1/silences"), json!([]));
    wait_for("the alert", || {
        std::fs::read_to_string(&told).ok().filter(|text| text.contains("snapshot_fill"))
    });
}
