//! What receivers of each kind get, and what is shown of their answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::{Daemon, Said, Start, cowbell, said};
use crate::tape::{Snapshot, Tape};
use crate::wait_for;

/// A server that keeps each request, and answers all in the same way.
pub struct Server {
    pub address: String,
    requests: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    pub fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, requests) =
            (listener.local_addr().unwrap().to_string(), Arc::<Mutex<Vec<_>>>::default());
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(&stream);
                let (mut head, mut length) = (String::new(), 0);
                while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).is_ok_and(|read| read > 0) {}
                for line in head.to_lowercase().lines() {
                    if let Some(value) = line.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                if lines.read_exact(&mut body).is_ok() {
                    kept.lock().unwrap().push((head, String::from_utf8(body).unwrap()));
                }
                let _ = write!(&stream, "HTTP/1.1 {answer}\r\nConnection: close\r\n\r\n");
            }
        });
        Self { address, requests }
    }

    pub fn requests(&self) -> Vec<(String, String)> {
        self.requests.lock().unwrap().clone()
    }
}

fn daemon(config: &str) -> Daemon {
    let tape = Tape::of(Duration::from_millis(100), &[Snapshot::Filled(10.0); 3]);
    let daemon = Start::playing(&tape, "1").config(config).start();
    daemon.has_played(3);
    daemon
}

fn test(daemon: &Daemon, arguments: &[&str]) -> Said {
    let address = format!("127.0.0.1:{}", daemon.port);
    said(cowbell().args(["alert", "test"]).args(arguments).args(["--listen", &address]))
}

#[test]
fn a_test_message_goes_to_each_receiver_and_their_answers_are_shown() {
    let (good, bad) = (
        Server::start("204 No Content"),
        Server::start("403 Forbidden\r\nContent-Length: 9\r\n\r\nno access"),
    );
    let daemon = daemon(&format!(
        "[[notify]]\nname = \"good\"\nkind = \"webhook\"\nurl = \"http://{}/hunter2\"\n\
         [[notify]]\nname = \"bad\"\nkind = \"webhook\"\nurl = \"http://{}/hunter2\"\n\
         [[notify]]\nname = \"gone\"\nkind = \"command\"\ncommand = [\"/does/not/exist\", \"hunter2\"]\n",
        good.address, bad.address
    ));
    let all = test(&daemon, &[]);
    assert_eq!((all.code, &*all.out), (Some(1), ""), "{all:?}");
    for part in [
        "ok       good: 204 No Content",
        "FAILED   bad: it answers 403 Forbidden: no access",
        "FAILED   gone: cannot start it: No such file or directory",
    ] {
        assert!(all.err.contains(part), "expected {part:?} in {all:?}");
    }
    let one = test(&daemon, &["good"]);
    assert_eq!((one.code, &*one.out), (Some(0), "ok       good: 204 No Content\n"), "{one:?}");
    let unknown = test(&daemon, &["pager"]);
    assert!(unknown.err.contains("expected one of good, bad, gone"), "{unknown:?}");
    let sentence = serde_json::from_str::<Value>(&good.requests()[0].1).unwrap()["sentence"].clone();
    assert!(sentence.as_str().unwrap().starts_with("This is a test of cowbell on lab"), "{sentence}");
    assert!(!(all.err + &daemon.log() + &daemon.get("/alerts").body).contains("hunter2"));
}

#[test]
fn a_template_and_headers_make_the_request() {
    let server = Server::start("200 OK");
    let daemon = daemon(&format!(
        "[[notify]]\nkind = \"webhook\"\nurl = \"http://{}/\"\nheaders = {{ X-Key = \"secret\" }}\n\
         template = '{{\"text\": {{{{ (host ~ \": \" ~ sentence) | tojson }}}}, \"count\": {{{{ alerts | length }}}}}}'\n",
        server.address
    ));
    assert_eq!(test(&daemon, &[]).code, Some(0));
    let (head, body) = server.requests()[0].clone();
    assert!(head.contains("x-key: secret") && head.contains("content-type: application/json"), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["count"], 1);
    assert!(body["text"].as_str().unwrap().starts_with("lab: This is a test"), "{body}");
}

#[test]
fn a_template_that_makes_no_json_ends_the_start_with_a_sentence() {
    for (template, part) in [
        ("{\"text\": {{ sentence }}}", "`template` makes no valid JSON: use the filter `tojson`"),
        ("{\"text\": {{ sentense | tojson }}}", "a message has no field \"sentense\""),
        ("{\"text\": {{ sentence", "`template`: "),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cowbell.toml");
        let config = format!(
            "[[notify]]\nkind = \"webhook\"\nurl = \"http://127.0.0.1:1/\"\ntemplate = '{template}'\n"
        );
        std::fs::write(&path, config).unwrap();
        for command in ["serve", "check"] {
            let mut line = cowbell();
            line.args([command, "--listen", "127.0.0.1:0", "--db"]).arg(folder.path().join("cowbell.db"));
            let found = said(line.arg("--config").arg(&path));
            let all = found.out.clone() + &found.err;
            assert!(found.code != Some(0) && all.contains(part), "expected {part:?} in {found:?}");
        }
    }
}

#[test]
fn a_redirect_is_a_failure_and_nothing_is_sent_elsewhere() {
    let elsewhere = Server::start("200 OK");
    let address: &'static str = Box::leak(
        format!("307 Temporary Redirect\r\nLocation: http://{}/", elsewhere.address).into_boxed_str(),
    );
    let server = Server::start(address);
    let daemon = daemon(&format!("[[notify]]\nkind = \"webhook\"\nurl = \"http://{}/\"\n", server.address));
    let found = test(&daemon, &[]);
    assert!(found.err.contains("307 Temporary Redirect, and redirects are not followed"), "{found:?}");
    assert_eq!(elsewhere.requests(), []);
}

#[test]
fn a_receiver_gets_the_alerts_of_its_severity_and_volumes() {
    let tape = Tape::of(Duration::from_millis(100), &[Snapshot::Filled(75.0); 10]);
    let [all, critical, others, own] = [(); 4].map(|()| Server::start("200 OK"));
    let hook = |server: &Server, more: &str| {
        format!("[[notify]]\nkind = \"webhook\"\nurl = \"http://{}/\"\n{more}\n", server.address)
    };
    let config = hook(&all, "")
        + &hook(&critical, "severity = \"critical\"")
        + &hook(&others, "volumes = \"vg1/*\"")
        + &hook(&own, "volumes = \"vg0/data_*\"");
    let daemon = Start::playing(&tape, "1").config(&config).start();
    daemon.has_played(10);
    for server in [&all, &own] {
        let request = wait_for("a message", || server.requests().pop());
        let body: Value = serde_json::from_str(&request.1).unwrap();
        assert_eq!((&body["severity"], &body["lv"]), (&json!("warning"), &json!("data_snapshot")));
    }
    assert_eq!((critical.requests(), others.requests()), (vec![], vec![]));
    let names: Vec<Value> = daemon.json("/api/v1/alerts")[0]["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|delivery| delivery["receiver"].clone())
        .collect();
    assert_eq!(names, ["webhook at 127.0.0.1", "webhook at 127.0.0.1 (4)"]);
}

#[test]
fn a_command_has_the_alert_in_its_environment_and_its_last_line_is_the_reason_of_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("environment");
    let script = format!("env > {}; echo first >&2; echo no paper >&2; exit 3", file.display());
    let daemon =
        daemon(&format!("[[notify]]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n"));
    let found = test(&daemon, &[]);
    assert!(found.err.contains("it ended with exit status: 3: no paper"), "{found:?}");
    let environment = std::fs::read_to_string(file).unwrap();
    for line in ["COWBELL_STATUS=raised", "COWBELL_SEVERITY=warning", "COWBELL_HOST=lab", "COWBELL_VG=vg0"] {
        assert!(environment.lines().any(|found| found == line), "{line} is not in {environment}");
    }
}
