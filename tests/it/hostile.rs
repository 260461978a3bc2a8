//! Requests that no honest page makes: each is answered with a sentence, and none with a 500.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::daemon::{Daemon, Start};
use crate::machine::Machine;
use crate::tape::{Snapshot, Tape};
use crate::{http, wait_for};

fn playing() -> (Tape, Daemon) {
    let tape = Tape::of(Duration::from_secs(1), &[Snapshot::Filled(75.0); 5]);
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(5);
    (tape, daemon)
}

#[test]
fn bad_values_are_answered_with_400_and_a_sentence() {
    let (_tape, daemon) = playing();
    for (target, part) in [
        ("/api/v1/series", "of"),
        ("/api/v1/series?of=device:sda", "metric"),
        ("/api/v1/series?metric=read_bytes", "of"),
        ("/api/v1/series?of=device:sda&metric=bogus", "read_bytes"),
        ("/api/v1/series?of=vm&metric=read_bytes", "bi_kib_per_s"),
        ("/api/v1/series?of=disk:sda&metric=read_bytes", "disk:sda"),
        ("/api/v1/series?of=&metric=read_bytes", "of"),
        ("/api/v1/series?of=sda&metric=read_bytes", "device:"),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&points=0",
            "points",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&points=-1",
            "points",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&points=10001",
            "10000",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&points=1e3",
            "points",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&points=99999999999999999999999",
            "points",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&points=",
            "points",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&from=yesterday",
            "yesterday",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&from=-1",
            "from",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&from=-1h&to=-2h",
            "before",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&from=now&to=now",
            "before",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&from=-99999999999999999999y",
            "from",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&from=9999999-01-01T00:00:00Z",
            "from",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&from=2026-02-30T00:00:00Z",
            "from",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&to=%00",
            "to",
        ),
        (
            "/api/v1/series?of=device:sda&metric=read_bytes&of=device:sdb",
            "of",
        ),
        ("/api/v1/jobs?from=bogus", "bogus"),
        ("/api/v1/jobs?to=%F0%9F%94%94", "to"),
    ] {
        let answer = daemon.get(target);
        assert_eq!(answer.status, 400, "{target}: {answer:?}");
        let sentence = answer.sentence();
        assert!(
            sentence.contains(part) && sentence.len() > 20,
            "expected {part:?} in {sentence:?} for {target}"
        );
    }
}

#[test]
fn what_was_never_seen_is_not_found() {
    let (_tape, daemon) = playing();
    for (target, part) in [
        ("/api/v1/series?of=device:sdz&metric=read_bytes", "sdz"),
        ("/api/v1/series?of=device:&metric=read_bytes", "device:"),
        (
            "/api/v1/series?of=volume:vg0/none&metric=fill_percent",
            "vg0/none",
        ),
        ("/api/v1/series?of=device:%00&metric=read_bytes", "device:"),
        (
            "/api/v1/series?of=device:%F0%9F%94%94&metric=read_bytes",
            "🔔",
        ),
        (
            "/api/v1/series?of=device:'%20OR%201=1%20--&metric=read_bytes",
            "OR",
        ),
        ("/api/v1/nothing", ""),
        ("/api/v2/status", ""),
        ("/api/v1/status/", ""),
    ] {
        let answer = daemon.get(target);
        assert_eq!(answer.status, 404, "{target}: {answer:?}");
        assert!(answer.sentence().contains(part), "{target}: {answer:?}");
    }
}

#[test]
fn nothing_that_a_visitor_sends_makes_a_500() {
    let (_tape, daemon) = playing();
    let long = "x".repeat(20_000);
    let targets = [
        "/",
        "/devices",
        "/devices/",
        "/devices/sda",
        "/devices/%00",
        "/devices/..%2f..%2fetc%2fpasswd",
        "/devices/%F0%9F%94%94",
        "/devices/%ff%fe",
        "/volumes/vg0/data_snapshot",
        "/volumes/vg0/%00",
        "/volumes/%2f/%2f",
        "/backups",
        "/jobs",
        "/jobs/1",
        "/jobs/-1",
        "/jobs/99999999999999999999",
        "/jobs/x",
        "/jobs/%00",
        "/alerts",
        "/alerts/9223372036854775807",
        "/assets/",
        "/assets/..",
        "/assets/../../Cargo.toml",
        "/assets/..%2f..%2fCargo.toml",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/assets/%00",
        "/assets/%ff",
        "//",
        "///etc/passwd",
        "/.",
        "/..",
        "/%",
        "/%zz",
        "/?",
        "/?%",
        "/?from=%zz",
        "/?from=&to=",
        "/?from=-1h&to=bogus",
        "/?from=-9999999999h",
        "/?from=%00",
        "/?width=-1",
        "/?width=999999999999",
        "/?width=0",
        "/?width=NaN",
        "/?sort=bogus&unit=bogus&filter=%5B",
        "/devices?sort=%00&filter=%F0%9F%94%94",
        "/devices?from=-1s&to=-1s",
        "/charts",
        "/chart.svg",
        "/metrics",
        "/favicon.ico",
        "/robots.txt",
        "/healthz?x=y",
        "/api/v1/live?x=%00x",
        "/api/v1/jobs/%00",
        "/api/v1/openapi.json?%",
        "/api/v1/status?from=bogus",
        "/api/v1/devices?%zz=1",
        "/api/v1/series?of=device:sda&metric=read_bytes&from=0001-01-01T00:00:00Z&to=9999-12-30T00:00:00Z&points=1",
        "/api/v1/series?of=device:sda&metric=read_bytes&from=-009999-01-02T01:59:59Z&to=9999-12-30T22:00:00Z&points=10000",
        "/api/v1/jobs?from=-009999-01-02T01:59:59Z",
        "http://evil.example/",
        "*",
        "evil.example:443",
    ];
    for target in targets.into_iter().map(String::from).chain([
        format!("/{long}"),
        format!("/devices/{long}"),
        format!("/?from={long}"),
        format!("/api/v1/series?of=device:{long}&metric=read_bytes"),
        format!("/api/v1/series?of=device:sda&metric={long}"),
    ]) {
        if target.contains("/live") {
            continue;
        }
        for method in [
            "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW",
        ] {
            let request = format!(
                "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            );
            // The daemon may hang up on what is no HTTP at all.
            if let Ok(answer) = http::send(daemon.port, request.as_bytes()) {
                let shown = &target[..target.len().min(80)];
                assert!(answer.status < 500, "{method} {shown}: {answer:?}");
                assert!(
                    !answer.body.contains("root:"),
                    "{method} {shown} shows a file of this host"
                );
            }
        }
    }
    for bytes in [
        b"\0\0\0\0\r\n\r\n".as_slice(),
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /api/v1/series?of=\xf0\x9f\x94\x94 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: \xff\r\nIf-None-Match: \xff\r\n\r\n",
        b"PUT /api/v1/marks/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    ] {
        if let Ok(answer) = http::send(daemon.port, bytes) {
            assert!(answer.status < 500, "{bytes:?}: {answer:?}");
        }
    }
    assert_eq!(daemon.get("/healthz").status, 200, "it goes on");
    assert!(
        !daemon.log().contains("ERROR could") && !daemon.log().contains("panicked"),
        "{}",
        daemon.log()
    );
}

#[test]
fn every_answer_keeps_browsers_to_this_page() {
    let (_tape, daemon) = playing();
    for target in [
        "/",
        "/nothing",
        "/api/v1/status",
        "/api/v1/series",
        "/healthz",
        "/assets/nothing",
    ] {
        let head = daemon.get(target).head.to_ascii_lowercase();
        for part in [
            "content-security-policy: default-src 'self'",
            "x-content-type-options: nosniff",
            "frame-ancestors 'none'",
        ] {
            assert!(head.contains(part), "{target}: {head}");
        }
    }
}

pub const JOB: &str = r#"{"name":"backup","started_at":"2026-03-01T02:00:01Z"}"#;
pub const JSON: (&str, &str) = ("Content-Type", "application/json");
pub const HOST: (&str, &str) = ("Host", "127.0.0.1:2692");

#[test]
fn a_job_that_makes_no_sense_is_answered_with_400_and_a_sentence() {
    let machine = crate::machine::Machine::new();
    let daemon = Start::watching(&machine).start();
    let long = format!(
        r#"{{"name":"{}","started_at":"2026-03-01T02:00:01Z"}}"#,
        "x".repeat(201)
    );
    for (key, body, part) in [
        ("x", "", "JSON"),
        ("x", "{", "JSON"),
        ("x", "[]", "JSON"),
        ("x", r#"{"name":"backup"}"#, "started_at"),
        (
            "x",
            r#"{"name":"backup","started_at":"soon"}"#,
            "started_at",
        ),
        (
            "x",
            r#"{"name":7,"started_at":"2026-03-01T02:00:01Z"}"#,
            "name",
        ),
        (
            "x",
            r#"{"name":"","started_at":"2026-03-01T02:00:01Z"}"#,
            "name",
        ),
        (
            "x",
            r#"{"name":"a\u0000b","started_at":"2026-03-01T02:00:01Z"}"#,
            "name",
        ),
        ("x", &long, "name"),
        (
            "x",
            r#"{"name":"a","started_at":"2026-03-01T02:00:01Z","colour":"red"}"#,
            "colour",
        ),
        (
            "x",
            r#"{"name":"a","started_at":"2026-03-01T02:00:01Z","ended_at":"2026-03-01T02:00:02Z"}"#,
            "succeeded",
        ),
        (
            "x",
            r#"{"name":"a","started_at":"2026-03-01T02:00:01Z","succeeded":true}"#,
            "ended_at",
        ),
        (
            "x",
            r#"{"name":"a","started_at":"2026-03-01T02:00:01Z","ended_at":"2026-03-01T02:00:00Z","succeeded":true}"#,
            "`ended_at` not before the start (2026-03-01T02:00:01Z)",
        ),
        (
            "x",
            r#"{"name":"a","started_at":"2999-01-01T00:00:00Z"}"#,
            "expected `started_at` from 1970 to now",
        ),
        (
            "x",
            r#"{"name":"a","started_at":"-000001-01-01T00:00:00Z"}"#,
            "started_at",
        ),
        (
            "x",
            r#"{"name":"a","started_at":"1969-12-31T23:59:59Z"}"#,
            "expected `started_at` from 1970",
        ),
        ("x", r#"{"name":"a","started_at":-5}"#, "started_at"),
        (
            "x",
            r#"{"name":"a","started_at":"2026-03-01T02:00:01Z","ended_at":"2999-01-01T00:00:00Z","succeeded":true}"#,
            "expected `ended_at` from 1970 to now",
        ),
        (
            "x",
            r#"{"name":"a","started_at":"2026-03-01T02:00:01Z","ended_at":"2026-03-01T02:00:02Z","succeeded":true,"status":256}"#,
            "status",
        ),
        (
            "x",
            r#"{"name":"a","started_at":"2026-03-01T02:00:01Z","status":0}"#,
            "together with `status`",
        ),
        (
            "x",
            r#"{"name":"a","started_at":"2026-03-01T02:00:01Z","ended_at":"2026-03-01T02:00:02Z","succeeded":true,"status":7}"#,
            "to be false with `status` 7",
        ),
        (
            "x",
            r#"{"name":"a","started_at":"2026-03-01T02:00:01Z","ended_at":"2026-03-01T02:00:02Z","succeeded":false,"status":0}"#,
            "to be true with `status` 0",
        ),
        (
            "x",
            r#"{"name":"42","started_at":"2026-03-01T02:00:01Z"}"#,
            "with a letter in it",
        ),
        ("%00", JOB, "key"),
        ("%20", JOB, "key"),
    ] {
        let answer = http::put(
            daemon.port,
            &format!("/api/v1/marks/{key}"),
            &[HOST, JSON],
            body,
        );
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert!(
            answer.sentence().contains(part),
            "expected {part:?} for {body}: {answer:?}"
        );
    }
    let long = format!(
        r#"{{"name":"{}","started_at":"2026-03-01T02:00:01Z"}}"#,
        "y".repeat(10_000)
    );
    let answer = http::put(daemon.port, "/api/v1/marks/x", &[HOST, JSON], &long);
    assert_eq!(answer.status, 400, "{answer:?}");
    let giant = format!(r#"{{"name":"{}"}}"#, "x".repeat(100_000));
    let answer = http::put(daemon.port, "/api/v1/marks/x", &[HOST, JSON], &giant);
    assert!(
        answer.status == 400 && answer.sentence().contains("more than 64 KiB"),
        "{answer:?}"
    );
    assert_eq!(
        daemon.json("/api/v1/jobs"),
        json!([]),
        "nothing of it was kept"
    );
}

#[test]
fn a_job_that_is_told_twice_is_one_and_markup_in_its_name_is_text() {
    let machine = crate::machine::Machine::new();
    let daemon = Start::watching(&machine).start();
    let put = |body: &str| {
        let answer = http::put(daemon.port, "/api/v1/marks/twice", &[HOST, JSON], body);
        assert!(matches!(answer.status, 200 | 201), "{body}: {answer:?}");
    };
    let begun = r#""name":"<script>alert(1)</script>","started_at":"2026-03-01T02:00:01Z""#;
    put(&format!("{{{begun}}}"));
    put(&format!("{{{begun}}}"));
    for _ in 0..2 {
        put(&format!(
            r#"{{{begun},"ended_at":"2026-03-01T02:00:02Z","succeeded":false,"status":3}}"#
        ));
    }
    let job = crate::wait_for("its end", || {
        let jobs = daemon.json("/api/v1/jobs");
        assert!(jobs.as_array().unwrap().len() < 2, "{jobs}");
        (!jobs[0]["outcome"].is_null()).then(|| jobs[0].clone())
    });
    assert_eq!(
        (&job["outcome"], &job["exit_status"]),
        (&json!("failed"), &json!(3)),
        "{job}"
    );
    let page = daemon.get(&format!("/jobs/{}", job["id"])).body;
    assert!(
        page.contains("with status 3") && !page.contains("<script>alert"),
        "{page}"
    );
}

#[test]
fn requests_that_are_never_completed_keep_nobody_out_for_long() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let half_sent: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", daemon.port)).unwrap();
            // The daemon may have closed it already.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0");
            stream
        })
        .collect();
    wait_for("an answer", || {
        http::try_get(daemon.port, "/healthz")
            .ok()
            .filter(|answer| answer.status == 200)
    });
    drop(half_sent);
}
