//! One request to the daemon of this machine, and its answer, over a plain connection.
//!
//! A client that can do everything takes longer to be made than many a command takes to run; who runs a command with
//! `cowbell run` is not to wait for that.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer is a number or a sentence.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// Sends a request with a JSON body; gives the status and the body of the answer.
pub async fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    // What is said is said at once.
    stream.set_nodelay(true)?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    understood(&answer).ok_or_else(|| io::Error::other("the answer is no HTTP"))
}

fn understood(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_string()))
}

/// A text as one part of a path.
pub fn part_of_path(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_status_and_a_body() {
        let answer = "HTTP/1.1 409 Conflict\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(understood(answer), Some((409, "{}".into())));
        assert_eq!(understood("SSH-2.0-OpenSSH\r\n\r\n"), None);
        assert_eq!(understood(""), None);
    }

    #[test]
    fn any_text_is_one_part_of_a_path() {
        assert_eq!(part_of_path("run-1_2"), "run-1_2");
        assert_eq!(part_of_path("a/b ?ä.."), "a%2Fb%20%3F%C3%A4%2E%2E");
    }
}
