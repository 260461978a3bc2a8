//! A client of a few lines, so that a test can say anything to the daemon, also what no honest client says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use crate::daemon::runtime_folder;

/// An answer that takes longer is none.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The sentence of an answer that says no.
    pub fn sentence(&self) -> String {
        self.json()["error"]
            .as_str()
            .unwrap_or_else(|| panic!("no `error` in {self:?}"))
            .to_string()
    }
}

/// Asks for an address of the daemon at this port.
pub fn get(port: u16, target: &str) -> Answer {
    try_get(port, target).unwrap_or_else(|error| panic!("GET {target}: {error}"))
}

pub fn try_get(port: u16, target: &str) -> std::io::Result<Answer> {
    let host = format!("Host: 127.0.0.1:{port}");
    send(
        port,
        format!("GET {target} HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n").as_bytes(),
    )
}

/// Puts a body under these headers over the control socket; `Host` is one of them.
pub fn put(port: u16, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    change(port, "PUT", target, headers, body)
}

/// Changes something by this method over the control socket.
pub fn change(
    port: u16,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    command(port, request(method, target, headers, body).as_bytes())
        .unwrap_or_else(|error| panic!("{method} {target}: {error}"))
}

/// A request with these headers.
pub fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut request = format!(
        "{method} {target} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request + &format!("\r\n{body}")
}

/// Sends these bytes over TCP and reads until the daemon closes.
pub fn send(port: u16, request: &[u8]) -> std::io::Result<Answer> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    exchange(stream, request)
}

/// Sends these bytes over the control socket and reads until the daemon closes.
pub fn command(port: u16, request: &[u8]) -> std::io::Result<Answer> {
    exchange(control(port)?, request)
}

/// A connection to the control socket.
pub fn control(port: u16) -> std::io::Result<UnixStream> {
    let stream = UnixStream::connect(runtime_folder().join(format!("cowbell/control-{port}")))?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> std::io::Result<Answer> {
    stream.write_all(request)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    understand(&bytes).ok_or_else(|| std::io::Error::other(format!("no answer in {bytes:?}")))
}

fn understand(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let is_chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let body = if is_chunked {
        dechunked(body)
    } else {
        body.to_string()
    };
    Some(Answer {
        status,
        head: head.to_string(),
        body,
    })
}

fn dechunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or_default();
        if length == 0 {
            break;
        }
        body.push_str(&after[..length]);
        rest = after[length..].trim_start_matches("\r\n");
    }
    body
}

/// The live stream, held open.
pub struct Live {
    lines: BufReader<TcpStream>,
}

impl Live {
    pub fn open(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(
            stream,
            "GET /api/v1/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        )
        .unwrap();
        Self {
            lines: BufReader::new(stream),
        }
    }

    /// The next tick; `None` when the daemon has ended the stream.
    pub fn tick(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap_or_default() == 0 {
                return None;
            }
            if let Some(json) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(json).unwrap());
            }
        }
    }
}
