//! Who may read and who may change, by every way to the site: loopback, the network, a proxy and the control socket.

use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;

use serde_json::json;
use tempfile::TempDir;

use crate::daemon::{Daemon, Said, Start, cowbell, free_port, runtime_folder, said};
use crate::hostile::{HOST, JOB, JSON};
use crate::http;
use crate::machine::Machine;
use crate::wait_for;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
pub const BEARER: (&str, &str) = ("Authorization", "Bearer 0123456789abcdef0123456789abcdef");

pub fn with_token() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let config = format!("[changes]\ntoken_file = \"{}\"\n", file.display());
    (folder, config)
}

const NOBODY: u32 = 65_534;

/// Runs a command as another user, whose runtime directory leads to that of the tests.
fn run_as(user: u32, daemon: &Daemon, arguments: &[&str]) -> Said {
    let folder = tempfile::tempdir().unwrap();
    symlink(
        runtime_folder().join("cowbell"),
        folder.path().join("cowbell"),
    )
    .unwrap();
    chown(folder.path(), Some(user), None).unwrap();
    let mut command = cowbell();
    command
        .args(["--listen", &format!("127.0.0.1:{}", daemon.port)])
        .args(arguments);
    said(
        command
            .env("XDG_RUNTIME_DIR", folder.path())
            .uid(user)
            .gid(user),
    )
}

fn put(daemon: &Daemon, key: &str, headers: &[(&str, &str)]) -> http::Answer {
    let job = JOB.replace("backup", key);
    let request = http::request("PUT", &format!("/api/v1/marks/{key}"), headers, &job);
    http::send(daemon.port, request.as_bytes()).unwrap()
}

#[test]
fn changes_over_http_need_the_token() {
    let (_folder, config) = with_token();
    let machine = Machine::new();
    let daemon = Start::watching(&machine).config(&config).start();
    let lower = ("authorization", BEARER.1.to_ascii_lowercase());
    let wrong = BEARER.1.replace('f', "e");
    let elsewhere = ("Host", "db1.example:2692");
    for (key, headers) in [
        ("remote", vec![elsewhere, BEARER, JSON]),
        ("lower", vec![elsewhere, (lower.0, &*lower.1), JSON]),
        (
            "page",
            vec![elsewhere, ("Origin", "http://evil.example"), BEARER, JSON],
        ),
        (
            "proxied",
            vec![HOST, ("X-Forwarded-For", "8.8.8.8"), BEARER, JSON],
        ),
    ] {
        let answer = put(&daemon, key, &headers);
        assert!(
            [201, 202].contains(&answer.status),
            "{headers:?}: {answer:?}"
        );
    }
    for (headers, status) in [
        (vec![HOST, JSON], 401),
        (vec![elsewhere, JSON], 401),
        (vec![HOST, ("X-Forwarded-For", "8.8.8.8"), JSON], 401),
        (vec![elsewhere, ("Authorization", &*wrong), JSON], 401),
        (vec![HOST, ("Authorization", TOKEN), JSON], 401),
        (vec![HOST, ("Authorization", ""), JSON], 401),
        (vec![HOST, ("Authorization", "Basic eDp5"), JSON], 401),
        (vec![HOST, BEARER, BEARER, JSON], 401),
        (vec![elsewhere, BEARER], 403),
        (vec![elsewhere, BEARER, ("Content-Type", "text/plain")], 403),
    ] {
        let answer = put(&daemon, "refused", &headers);
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
        assert!(
            answer.sentence().len() > 20 && !answer.body.contains("0123456789"),
            "{answer:?}"
        );
    }
    assert_eq!(daemon.json("/api/v1/jobs").as_array().unwrap().len(), 4);
    assert!(!daemon.log().contains("0123456789"), "{}", daemon.log());
}

#[test]
fn without_a_token_only_the_control_socket_changes_things() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    for headers in [vec![HOST, JSON], vec![HOST, JSON, BEARER]] {
        let refused = put(&daemon, "refused", &headers);
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(
            refused
                .sentence()
                .contains("set `token_file` in [changes], or use `cowbell`"),
            "{refused:?}"
        );
    }
    assert!([201, 202].contains(&http::put(daemon.port, "/api/v1/marks/own", &[JSON], JOB).status));
    assert_eq!(daemon.json("/api/v1/jobs").as_array().unwrap().len(), 1);
}

/// Only root can become another user.
#[test]
fn another_user_may_record_its_own_jobs_and_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    // 202: a busy disk has not stored it yet.
    assert!(
        [201, 202].contains(&http::put(daemon.port, "/api/v1/marks/of-root", &[JSON], JOB).status)
    );
    let as_nobody = |arguments: &[&str]| run_as(NOBODY, &daemon, arguments);
    for arguments in [
        &["job", "delete", "1"][..],
        &["job", "stop", "backup"],
        &["job", "note", "1", "x"],
        &["job", "start", "mine"],
    ] {
        let refused = as_nobody(arguments);
        assert_eq!(refused.code, Some(1), "{arguments:?}: {refused:?}");
        assert!(
            refused.err.contains("user 65534 may record"),
            "{arguments:?}: {refused:?}"
        );
    }
    let ran = as_nobody(&["run", "--name", "own", "--", "true"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{ran:?}");
    let jobs = daemon.json("/api/v1/jobs");
    let jobs = jobs.as_array().unwrap();
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    assert_eq!(
        (&jobs[0]["name"], &jobs[0]["outcome"]),
        (&json!("own"), &json!("succeeded")),
        "{jobs:?}"
    );
    assert!(
        jobs[0]["key"]
            .as_str()
            .unwrap()
            .starts_with("user:65534:run-"),
        "{jobs:?}"
    );
    assert_eq!(as_nobody(&["job", "list"]).code, Some(0));
}

/// Only root can become another user.
#[test]
fn another_user_neither_raises_nor_clears_the_alert_of_a_backup() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let run = |user: u32, name: &str, program: &str| {
        let ran = run_as(user, &daemon, &["run", "--name", name, program]);
        assert_eq!(ran.err, "", "{ran:?}");
    };
    let open = || {
        let alerts = daemon.json("/api/v1/alerts");
        let open = alerts
            .as_array()
            .unwrap()
            .iter()
            .filter(|alert| alert["cleared_at"].is_null());
        open.map(|alert| alert["lv"].as_str().unwrap().to_string())
            .collect::<Vec<_>>()
    };
    run(0, "mylvmbackup", "false");
    wait_for("the alert", || (open() == ["mylvmbackup"]).then_some(()));
    run(NOBODY, "mylvmbackup", "true");
    run(NOBODY, "holland", "false");
    run(0, "borgmatic", "false");
    wait_for("the other alert", || {
        (open() == ["borgmatic", "mylvmbackup"]).then_some(())
    });
    run(0, "mylvmbackup", "true");
    wait_for("the end of the alert", || {
        (open() == ["borgmatic"]).then_some(())
    });
}

#[test]
fn a_proxy_serves_the_site_under_its_prefix_to_those_who_have_the_token() {
    let (folder, config) = with_token();
    let socket = folder.path().join("http");
    let config = format!(
        "{config}[proxy]\nsocket = \"{}\"\nprefix = \"/cowbell\"\n",
        socket.display()
    );
    let machine = Machine::new();
    let daemon = Start::watching(&machine).config(&config).start();
    let ask = |method: &str, target: &str, headers: &[(&str, &str)], body: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream
            .write_all(http::request(method, target, headers, body).as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let host = ("Host", "db1.example");
    let page = ("Accept", "text/html");
    let json = ask("GET", "/cowbell/api/v1/status", &[host], "");
    assert!(
        json.starts_with("HTTP/1.1 401") && json.contains("this needs the token"),
        "{json}"
    );
    let login = ask("GET", "/cowbell/jobs", &[host, page], "");
    assert!(
        login.starts_with("HTTP/1.1 401") && login.contains("action=\"/cowbell/login\""),
        "{login}"
    );
    assert!(!login.contains("=\"/assets"), "{login}");
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let referer = ("Referer", "https://db1.example/cowbell/jobs");
    let wrong = ask("POST", "/cowbell/login", &[host, form], "token=wrong");
    assert!(
        wrong.starts_with("HTTP/1.1 401") && wrong.contains("This is not the token."),
        "{wrong}"
    );
    let https = ("X-Forwarded-Proto", "https");
    let right = ask(
        "POST",
        "/cowbell/login",
        &[host, form, referer, https],
        &format!("token={TOKEN}"),
    );
    assert!(
        right.starts_with("HTTP/1.1 303") && right.contains("location: /cowbell/jobs\r\n"),
        "{right}"
    );
    let (_, cookie) = right.split_once("set-cookie: ").unwrap();
    let (cookie, _) = cookie.split_once("\r\n").unwrap();
    assert!(
        cookie.ends_with("; Path=/cowbell; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure"),
        "{cookie}"
    );
    assert!(!right.contains(TOKEN), "{right}");
    let cookie = ("Cookie", cookie.split(';').next().unwrap());
    let jobs = ask("GET", "/cowbell/jobs", &[host, page, cookie], "");
    assert!(
        jobs.starts_with("HTTP/1.1 200")
            && jobs.contains(
                "data-stream=\"/cowbell/api/v1/live\" data-worker=\"/cowbell/assets/stream.js\""
            ),
        "{jobs}"
    );
    assert!(
        jobs.contains("href=\"/cowbell/assets/cowbell.css\"") && !jobs.contains("=\"/jobs"),
        "{jobs}"
    );
    let style = ask("GET", "/cowbell/assets/cowbell.css", &[host], "");
    assert!(style.starts_with("HTTP/1.1 200"), "{style}");
    for root in ["/cowbell", "/cowbell/"] {
        assert!(
            ask("GET", root, &[host, page, cookie], "").starts_with("HTTP/1.1 200"),
            "{root}"
        );
    }
    assert!(
        daemon
            .get("/jobs")
            .body
            .contains("href=\"/assets/cowbell.css\"")
    );
}

#[test]
fn other_addresses_need_a_token() {
    let (folder, config) = with_token();
    let file = folder.path().join("cowbell.toml");
    let address = format!("0.0.0.0:{}", free_port());
    for command in ["serve", "check"] {
        let mut line = cowbell();
        line.args([command, "--listen", &address, "--db"])
            .arg(folder.path().join("cowbell.db"));
        let refused = said(&mut line);
        let all = refused.out + &refused.err;
        assert!(
            refused.code != Some(0) && all.contains("which needs a token: set `token_file`"),
            "{all}"
        );
    }
    std::fs::write(&file, config).unwrap();
    let check = said(
        cowbell()
            .args(["check", "--listen", &address, "--config"])
            .arg(&file),
    );
    assert!(check.out.contains("the token can be read"), "{check:?}");
}

#[test]
fn an_invalid_token_ends_the_daemon_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let (file, config) = (
        folder.path().join("token"),
        folder.path().join("cowbell.toml"),
    );
    std::fs::write(
        &config,
        format!("[changes]\ntoken_file = \"{}\"\n", file.display()),
    )
    .unwrap();
    for (text, mode, part) in [
        ("short", 0o600, "but found fewer characters"),
        (TOKEN, 0o644, "is accessible to every user: run `chmod o="),
    ] {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode))
            .unwrap();
        let mut command = cowbell();
        command
            .args(["serve", "--listen", "127.0.0.1:1", "--config"])
            .arg(&config);
        let found = said(command.arg("--db").arg(folder.path().join("cowbell.db")));
        assert_eq!(
            (found.code, found.err.lines().count()),
            (Some(2), 1),
            "{found:?}"
        );
        assert!(
            found.err.contains(part) && !found.err.contains(TOKEN),
            "{found:?}"
        );
        let mut check = cowbell();
        check
            .args(["check", "--listen", "127.0.0.1:1", "--config"])
            .arg(&config);
        let check = said(check.arg("--db").arg(folder.path().join("cowbell.db")));
        let is_said = check
            .out
            .lines()
            .any(|line| line.starts_with("FAILS") && line.contains(part));
        assert!(check.code == Some(1) && is_said, "{check:?}");
        let status = said(cowbell().args(["status", "--config"]).arg(&config));
        assert!(
            !status.err.contains("token"),
            "a query needs no token: {status:?}"
        );
    }
}

#[test]
fn a_name_that_is_not_ours_reads_nothing() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let get = |target: &str, host: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        http::send(daemon.port, request.as_bytes()).unwrap()
    };
    for target in ["/api/v1/devices", "/api/v1/live"] {
        let refused = get(target, "rebound.example:2692");
        assert_eq!(refused.status, 403, "{refused:?}");
        assert_eq!(
            refused.sentence(),
            "this site has no name \"rebound.example:2692\": use its address or localhost, or add the name to `hosts` in the \
             configuration"
        );
    }
    for host in ["localhost:1", "127.0.0.1", "[::1]:2692", "10.0.0.5"] {
        assert_eq!(get("/api/v1/devices", host).status, 200, "{host}");
    }
    assert_eq!(get("/healthz", "rebound.example").status, 200);
    let mut named = Start::watching(&machine);
    named.config = "hosts = [\"db1.example.com\"]\n".into();
    let daemon = named.start();
    let request =
        "GET /api/v1/devices HTTP/1.1\r\nHost: db1.example.com\r\nConnection: close\r\n\r\n";
    assert_eq!(
        http::send(daemon.port, request.as_bytes()).unwrap().status,
        200
    );
}

#[test]
fn three_hundred_idle_connections_need_little_memory() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let rss_mib = || {
        daemon.json("/api/v1/status")["process"]["rss_bytes"]
            .as_u64()
            .unwrap()
            >> 20
    };
    let before = rss_mib();
    let _idle: Vec<_> = (0..300)
        .map(|_| std::net::TcpStream::connect(("127.0.0.1", daemon.port)).unwrap())
        .collect();
    // It is accepted after all others.
    let after = rss_mib();
    assert!(after < before + 30, "{before} MiB, then {after} MiB");
}

#[test]
fn heads_without_end_need_little_memory() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let rss_mib = || {
        daemon.json("/api/v1/status")["process"]["rss_bytes"]
            .as_u64()
            .unwrap()
            >> 20
    };
    let before = rss_mib();
    let head = "GET / HTTP/1.1\r\nX: ".to_string() + &"x".repeat(350_000);
    let _open: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", daemon.port)).unwrap();
            // It ends with an error when the daemon has read enough.
            let _ = stream.write_all(head.as_bytes());
            stream
        })
        .collect();
    let after = rss_mib();
    assert!(after < before + 30, "{before} MiB, then {after} MiB");
}

#[test]
fn operators_have_the_live_stream_when_others_have_all() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let request = b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let status = |mut stream: Box<dyn ReadWrite>| {
        stream.write_all(request).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (String::from_utf8_lossy(&head[9..]).into_owned(), stream)
    };
    let tcp = || {
        status(Box::new(
            std::net::TcpStream::connect(("127.0.0.1", daemon.port)).unwrap(),
        ))
    };
    let open: Vec<_> = (0..256).map(|_| tcp()).collect();
    assert!(open.iter().all(|(status, _)| status == "200"));
    assert_eq!(tcp().0, "503");
    assert_eq!(
        status(Box::new(http::control(daemon.port).unwrap())).0,
        "200"
    );
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[test]
fn a_user_who_guesses_over_loopback_locks_out_no_other() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (_folder, config) = with_token();
    let machine = Machine::new();
    let daemon = Start::watching(&machine).config(&config).start();
    let guess = "DELETE /api/v1/jobs/1 HTTP/1.1\\r\\nHost: localhost\\r\\nAuthorization: Bearer wrong\\r\\n";
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; for _ in {{1..300}}; do printf '{guess}\\r\\n' >&3; done; \
         printf '{guess}Connection: close\\r\\n\\r\\n' >&3; cat <&3 | grep -ao 'HTTP/1.1 429' | wc -l",
        daemon.port
    );
    let guesser = said(
        std::process::Command::new("bash")
            .args(["-c", &script])
            .uid(NOBODY)
            .gid(NOBODY),
    );
    let refused: u32 = guesser.out.trim().parse().unwrap();
    assert!((150..=201).contains(&refused), "{guesser:?}");
    let answer = put(&daemon, "own", &[HOST, BEARER, JSON]);
    assert!([201, 202].contains(&answer.status), "{answer:?}");
}

/// The pages, whose routes are not in the description of the API.
const PAGES: [&str; 16] = [
    "/",
    "/devices",
    "/devices/sda",
    "/volumes",
    "/groups/vg0",
    "/volumes/vg0/data",
    "/alerts",
    "/backups",
    "/servers",
    "/status",
    "/jobs",
    "/jobs/compare",
    "/jobs/1",
    "/jobs/now",
    "/api/v1/openapi.json",
    "/none",
];

#[test]
fn each_token_opens_what_it_should_on_every_route() {
    let (folder, config) = with_token();
    let reads = "fedcba9876543210fedcba9876543210";
    let (socket, second) = (folder.path().join("http"), folder.path().join("reads"));
    std::fs::write(&second, reads).unwrap();
    std::fs::set_permissions(&second, PermissionsExt::from_mode(0o600)).unwrap();
    let config = format!(
        "{config}read_token_file = \"{}\"\n[proxy]\nsocket = \"{}\"\n",
        second.display(),
        socket.display()
    );
    let machine = Machine::new();
    let daemon = Start::watching(&machine).config(&config).start();
    let status = |method: &str, target: &str, token: Option<&str>| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Host", "db1.example"), JSON];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        let mut stream = UnixStream::connect(&socket).unwrap();
        let request = http::request(method, target, &headers, "{}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        let head = String::from_utf8_lossy(&head).into_owned();
        head[9..].parse::<u16>().unwrap()
    };
    let mut routes: Vec<(String, String)> = PAGES
        .map(|page| ("GET".to_string(), page.to_string()))
        .to_vec();
    let document = daemon.json("/api/v1/openapi.json");
    for (path, operations) in document["paths"].as_object().unwrap() {
        let target = path
            .replace("{id}", "1")
            .replace("{key}", "nightly")
            .replace("{vg}", "vg0")
            .replace("{lv}", "data");
        for method in operations.as_object().unwrap().keys() {
            routes.push((method.to_uppercase(), target.clone()));
        }
    }
    assert!(routes.len() > 40, "{routes:?}");
    for (method, target) in &routes {
        let is_public = target == "/healthz";
        let is_read = method == "GET";
        let without = status(method, target, None);
        assert_eq!(without == 401, !is_public, "{method} {target}: {without}");
        let wrong = status(method, target, Some(&reads.replace('f', "e")));
        assert_eq!(wrong == 401, !is_public, "{method} {target}: {wrong}");
        let reader = status(method, target, Some(reads));
        assert_eq!(reader == 403, !is_read, "{method} {target}: {reader}");
        let full = status(method, target, Some(TOKEN));
        assert!(![401, 403].contains(&full), "{method} {target}: {full}");
    }
}
