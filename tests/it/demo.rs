//! The demo: what its banner says, and its button.

use serde_json::Value;

use crate::daemon::{Daemon, Start, time};
use crate::http::{Answer, request, send};
use crate::machine::Machine;
use crate::wait_for;

fn demo(speed: &str) -> Daemon {
    Start::with(&["demo", "--speed", speed]).start()
}

/// Presses the button on a page of this site.
fn press(daemon: &Daemon, origin: &str) -> Answer {
    let host = format!("127.0.0.1:{}", daemon.port);
    let headers = [
        ("Host", &*host),
        ("Origin", origin),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    send(
        daemon.port,
        request("POST", "/demo/again", &headers, "").as_bytes(),
    )
    .unwrap()
}

fn own_origin(daemon: &Daemon) -> String {
    format!("http://127.0.0.1:{}", daemon.port)
}

fn snapshot_job(daemon: &Daemon) -> Option<Value> {
    let jobs = daemon.json("/api/v1/jobs");
    let is_it = |job: &&Value| job["kind"] == "snapshot" && job["ended_at"].is_string();
    jobs.as_array().unwrap().iter().find(is_it).cloned()
}

#[test]
fn a_banner_on_each_page_says_that_it_is_a_recording() {
    let daemon = demo("60");
    for path in [
        "/", "/devices", "/volumes", "/backups", "/jobs", "/alerts", "/status", "/nothing",
    ] {
        let page = daemon.get(path).body;
        assert!(
            page.contains(
                "<strong>This is a recording</strong> of half an hour on a database server"
            ),
            "{path}: {page}"
        );
        assert!(page.contains("played 60 times as fast"), "{path}: {page}");
        assert!(page.contains("Play it again"), "{path}: {page}");
    }
}

#[test]
fn no_other_site_has_the_banner_and_its_button() {
    let daemon = Start::watching(&Machine::new()).start();
    let page = daemon.get("/").body;
    assert!(
        !page.contains("This is a recording") && !page.contains("Play it again"),
        "{page}"
    );
    assert_eq!(press(&daemon, &own_origin(&daemon)).status, 403);
}

#[test]
fn a_demo_in_a_named_database_cannot_be_played_again() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Start::with(&["demo", "--speed", "max"])
        .db(&folder.path().join("demo.db"))
        .start();
    let page = daemon.get("/").body;
    assert!(
        page.contains("This is a recording") && !page.contains("Play it again"),
        "{page}"
    );
    assert_eq!(press(&daemon, &own_origin(&daemon)).status, 403);
}

#[test]
fn playing_it_again_begins_anew_at_the_same_address() {
    let daemon = demo("max");
    wait_for("the end of the backup", || snapshot_job(&daemon));
    let pressed = press(&daemon, &own_origin(&daemon));
    assert_eq!(pressed.status, 303, "{pressed:?}");
    assert!(
        pressed.head.to_lowercase().contains("location: /\r\n"),
        "{pressed:?}"
    );
    // The browser follows at once.
    assert_eq!(daemon.get("/").status, 200);
    let again = wait_for("the end of the backup", || snapshot_job(&daemon));
    assert_eq!(again["id"], 1, "{again}");
    let jobs = daemon.json("/api/v1/jobs");
    assert_eq!(jobs.as_array().unwrap().len(), 1, "{jobs}");
}

#[test]
fn playing_it_again_forgets_the_history() {
    let daemon = demo("60");
    let began = |daemon: &Daemon| time(&daemon.json("/api/v1/status")["ticks"]["last_at"]);
    let first = began(&daemon);
    wait_for("a minute of the recording", || {
        (began(&daemon).as_second() - first.as_second() > 60).then_some(())
    });
    assert_eq!(press(&daemon, &own_origin(&daemon)).status, 303);
    assert!(began(&daemon).as_second() - first.as_second() < 60);
}

#[test]
fn pages_of_other_sites_cannot_press_the_button() {
    let daemon = demo("60");
    for origin in ["http://evil.example", "null", ""] {
        let refused = press(&daemon, origin);
        assert_eq!(
            (refused.status, refused.sentence().contains("other sites")),
            (403, true),
            "{refused:?}"
        );
    }
}

#[test]
fn the_page_of_the_lost_snapshot_leads_to_its_job_and_shows_the_scatter_below_the_first_chart() {
    let daemon = demo("max");
    let job = wait_for("the end of the backup", || snapshot_job(&daemon));
    let page = daemon.get("/volumes/vg0/data_snapshot").body;
    let (_, page) = page
        .split_once("This snapshot no longer exists since ")
        .unwrap();
    assert!(
        page.contains(&format!(
            "<a href=\"/jobs/{}\">job data_snapshot</a>",
            job["id"]
        )),
        "{page}"
    );
    let headings: Vec<&str> = page
        .split("<h2>")
        .skip(1)
        .map(|rest| rest.split('<').next().unwrap())
        .collect();
    assert_eq!(
        &headings[..3],
        [
            "Fill and read speed",
            "Read speed by fill",
            "COW copying and the origin&#39;s writes"
        ]
    );
}
