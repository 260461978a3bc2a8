//! One HTTP request to the daemon.
//!
//! Creating a full HTTP client takes longer than many commands under `cowbell run`.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes of an answer at most; answers are numbers or sentences.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// Sends a request with a JSON body; returns status and body of the answer.
pub async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    method: &str,
    path: &str,
    body: &str,
) -> io::Result<(u16, String)> {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    parse(&answer).ok_or_else(|| io::Error::other("the answer is not HTTP"))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head
        .strip_prefix("HTTP/1.")?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Some((status, body.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_status_and_body() {
        let answer = "HTTP/1.1 409 Conflict\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(parse(answer), Some((409, "{}".into())));
        assert_eq!(parse("SSH-2.0-OpenSSH\r\n\r\n"), None);
        assert_eq!(parse(""), None);
    }
}
