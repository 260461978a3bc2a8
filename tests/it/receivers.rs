//! What receivers of each kind get, and what is shown of their answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::{Daemon, Said, Start, cowbell, said};
use crate::machine::Machine;
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
        let (address, requests) = (
            listener.local_addr().unwrap().to_string(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(&stream);
                let (mut head, mut length) = (String::new(), 0);
                while !head.ends_with("\r\n\r\n")
                    && lines.read_line(&mut head).is_ok_and(|read| read > 0)
                {}
                for line in head.to_lowercase().lines() {
                    if let Some(value) = line.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                if lines.read_exact(&mut body).is_ok() {
                    kept.lock()
                        .unwrap()
                        .push((head, String::from_utf8(body).unwrap()));
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
    said(
        cowbell()
            .args(["alert", "test"])
            .args(arguments)
            .args(["--listen", &address]),
    )
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
    assert_eq!(
        (one.code, &*one.out),
        (Some(0), "ok       good: 204 No Content\n"),
        "{one:?}"
    );
    let unknown = test(&daemon, &["pager"]);
    assert!(
        unknown.err.contains("expected one of good, bad, gone"),
        "{unknown:?}"
    );
    let sentence =
        serde_json::from_str::<Value>(&good.requests()[0].1).unwrap()["sentence"].clone();
    assert!(
        sentence
            .as_str()
            .unwrap()
            .starts_with("This is a test of cowbell on lab"),
        "{sentence}"
    );
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
    assert!(
        head.contains("x-key: secret") && head.contains("content-type: application/json"),
        "{head}"
    );
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["count"], 1);
    assert!(
        body["text"]
            .as_str()
            .unwrap()
            .starts_with("lab: This is a test"),
        "{body}"
    );
}

#[test]
fn a_template_that_makes_no_json_ends_the_start_with_a_sentence() {
    for (template, part) in [
        (
            "{\"text\": {{ sentence }}}",
            "`template` makes no valid JSON: use the filter `tojson`",
        ),
        (
            "{\"text\": {{ sentense | tojson }}}",
            "a message has no field \"sentense\"",
        ),
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
            line.args([command, "--listen", "127.0.0.1:0", "--db"])
                .arg(folder.path().join("cowbell.db"));
            let found = said(line.arg("--config").arg(&path));
            let all = found.out.clone() + &found.err;
            assert!(
                found.code != Some(0) && all.contains(part),
                "expected {part:?} in {found:?}"
            );
        }
    }
}

#[test]
fn a_redirect_is_a_failure_and_nothing_is_sent_elsewhere() {
    let elsewhere = Server::start("200 OK");
    let address: &'static str = Box::leak(
        format!(
            "307 Temporary Redirect\r\nLocation: http://{}/",
            elsewhere.address
        )
        .into_boxed_str(),
    );
    let server = Server::start(address);
    let daemon = daemon(&format!(
        "[[notify]]\nkind = \"webhook\"\nurl = \"http://{}/\"\n",
        server.address
    ));
    let found = test(&daemon, &[]);
    assert!(
        found
            .err
            .contains("307 Temporary Redirect, and redirects are not followed"),
        "{found:?}"
    );
    assert_eq!(elsewhere.requests(), []);
}

#[test]
fn a_receiver_gets_the_alerts_of_its_severity_and_volumes() {
    let tape = Tape::of(Duration::from_millis(100), &[Snapshot::Filled(75.0); 10]);
    let [all, critical, others, own] = [(); 4].map(|()| Server::start("200 OK"));
    let hook = |server: &Server, more: &str| {
        format!(
            "[[notify]]\nkind = \"webhook\"\nurl = \"http://{}/\"\n{more}\n",
            server.address
        )
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
        assert_eq!(
            (&body["severity"], &body["lv"]),
            (&json!("warning"), &json!("data_snapshot"))
        );
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
    let script = format!(
        "env > {}; echo first >&2; echo no paper >&2; exit 3",
        file.display()
    );
    let daemon = daemon(&format!(
        "[[notify]]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n"
    ));
    let found = test(&daemon, &[]);
    assert!(
        found.err.contains("it ended with exit status: 3: no paper"),
        "{found:?}"
    );
    let environment = std::fs::read_to_string(file).unwrap();
    for line in [
        "COWBELL_STATUS=raised",
        "COWBELL_SEVERITY=warning",
        "COWBELL_HOST=lab",
        "COWBELL_VG=vg0",
    ] {
        assert!(
            environment.lines().any(|found| found == line),
            "{line} is not in {environment}"
        );
    }
}

/// A web server with the certificate of `tests/fixtures/constructed-tls`, for localhost.
fn tls_server() -> u16 {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificate = CertificateDer::from_pem_file(format!("{TLS}.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(format!("{TLS}.key")).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("localhost:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::Stream::new(&mut session, &mut stream);
            // A client that does not trust the certificate sends nothing.
            if stream.read(&mut [0; 10_000]).is_ok_and(|length| length > 0) {
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                );
            }
        }
    });
    port
}

const TLS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/constructed-tls/localhost"
);

#[test]
fn a_certificate_must_be_trusted_and_for_the_name() {
    let port = tls_server();
    let tape = Tape::of(Duration::from_millis(100), &[Snapshot::Filled(10.0); 3]);
    let hook = |name: &str, host: &str| {
        format!(
            "[[notify]]\nname = \"{name}\"\nkind = \"webhook\"\nurl = \"https://{host}:{port}/hunter2\"\n"
        )
    };
    let config = hook("name", "localhost") + &hook("address", "127.0.0.1");
    let trusting = Start::playing(&tape, "1")
        .config(&config)
        .environment("SSL_CERT_FILE", format!("{TLS}.pem"));
    let found = test(&trusting.start(), &[]).err;
    assert!(found.contains("ok       name: 200 OK"), "{found}");
    assert!(
        found.contains("FAILED   address: cannot connect: its certificate is for another name"),
        "{found}"
    );
    let daemon = Start::playing(&tape, "1").config(&config).start();
    let found = test(&daemon, &["name"]).err;
    assert!(
        found.contains("its certificate is not from an authority that this host trusts"),
        "{found}"
    );
    assert!(!(found + &daemon.log()).contains("hunter2"));
}

#[test]
fn a_receiver_that_hangs_is_named_as_that() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let daemon = daemon(&format!(
        "[[notify]]\nname = \"silent\"\nkind = \"webhook\"\nurl = \"http://{}/\"\n\
         [[notify]]\nname = \"slow\"\nkind = \"command\"\ncommand = [\"/bin/sleep\", \"100\"]\n",
        silent.local_addr().unwrap()
    ));
    let found = test(&daemon, &[]).err;
    for name in ["silent", "slow"] {
        assert!(
            found.contains(&format!("FAILED   {name}: it did not answer within 10s")),
            "{found}"
        );
    }
}

#[test]
fn a_receiver_that_quotes_the_request_shows_no_secret() {
    let server = Server::start("403 Forbidden\r\n\r\nno hunter2 for Bearer hunter3, hunter4");
    let daemon = daemon(&format!(
        "[[notify]]\nname = \"echo\"\nkind = \"webhook\"\nurl = \"http://{}/a/hunter2\"\n\
         headers = {{ Authorization = \"Bearer hunter3\" }}\nvalues = {{ key = \"hunter4\" }}\n",
        server.address
    ));
    assert!(
        test(&daemon, &[])
            .err
            .contains("FAILED   echo: it answers 403 Forbidden: no … for …, …")
    );
}

#[test]
fn a_receiver_that_asks_for_a_pause_has_it() {
    let server = Server::start("429 Too Many Requests\r\nRetry-After: 100\r\n");
    let tape = Tape::of(Duration::from_millis(100), &[Snapshot::Filled(75.0); 10]);
    let hook = format!(
        "[[notify]]\nkind = \"webhook\"\nurl = \"http://{}/\"\n",
        server.address
    );
    let daemon = Start::playing(&tape, "1").config(&hook).start();
    wait_for("a refusal", || {
        daemon.log().contains("429 Too Many").then_some(())
    });
    // Otherwise it is tried again after 1 s and 2 s.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_template_in_a_file_makes_the_body() {
    let server = Server::start("200 OK");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body.txt");
    let hook = format!(
        "[[notify]]\nkind = \"webhook\"\nurl = \"http://{}/?key={{{{ key | urlencode }}}}\"\ncontent_type = \"text/plain\"\n\
         template_file = \"{}\"\nvalues = {{ channel = \"#ops\" }}\n",
        server.address,
        file.display()
    );
    let config = folder.path().join("cowbell.toml");
    std::fs::write(&config, &hook).unwrap();
    let mut check = cowbell();
    check.args(["check", "--listen", "127.0.0.1:1", "--config"]);
    let refused = said(check.arg(&config));
    let expected = "cowbell.toml, line 1, receiver \"webhook at 127.0.0.1\": `template_file`";
    assert!(
        refused.out.contains(expected),
        "expected {expected:?} in {refused:?}"
    );
    std::fs::write(&file, "{{ values.channel }} {{ title }}").unwrap();
    assert_eq!(test(&daemon(&hook), &[]).code, Some(0));
    let (head, body) = server.requests()[0].clone();
    assert!(
        head.starts_with("POST /?key=lab-0-") && head.contains("content-type: text/plain"),
        "{head}"
    );
    assert_eq!(body, "#ops lab: TEST: warning: snapshot fill of vg0/test");
}

#[test]
fn a_heartbeat_is_called_while_all_is_well_and_its_secret_is_shown_nowhere() {
    let tape = Tape::of(Duration::from_millis(100), &[Snapshot::Filled(10.0); 3]);
    let (good, bad, unseen) = (
        Server::start("200 OK"),
        Server::start("302 Found\r\nLocation: /"),
        Server::start("200 OK"),
    );
    let heartbeat = |server: &Server| {
        format!(
            "[heartbeat]\nurl = \"http://{}/ping/hunter2\"\n",
            server.address
        )
    };
    let calling = Start::playing(&tape, "1").config(&heartbeat(&good)).start();
    let failing = Start::playing(&tape, "1").config(&heartbeat(&bad)).start();
    let (head, _) = wait_for("a call", || good.requests().pop());
    assert!(head.starts_with("GET /ping/hunter2 "), "{head}");
    let log = |daemon: &Daemon, part: &str| {
        wait_for(part, || Some(daemon.log()).filter(|log| log.contains(part)))
    };
    let failed = log(&failing, "trying each minute: it answers 302 Found");
    // This machine has no device-mapper that could be read.
    let machine = Machine::new();
    let silent = log(
        &Start::watching(&machine)
            .config(&heartbeat(&unseen))
            .start(),
        "the heartbeat is silent: dm: ",
    );
    assert!(!(failed + &silent + &calling.log()).contains("hunter2"));
    assert_eq!(unseen.requests(), []);
}
