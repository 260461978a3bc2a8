//! The site of the demonstration, in this process, and one request to it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use cowbell::cli::serve;
use cowbell::config::{Config, Listen};
use cowbell::source::recording::{Player, Speed};
use tokio::runtime::{Builder, Runtime};

/// An incomplete request is waited for by this.
const PATIENCE: Duration = Duration::from_millis(50);

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

static SITE: LazyLock<SocketAddr> = LazyLock::new(|| {
    // As in a program whose `main` is Rust's: a client that left is an error, not the end.
    // SAFETY: this action refers to no code.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
    let config = Config { listen: Listen(address), ..Config::default() };
    let player = Player::of_bytes(include_bytes!("../../web/demo.cowbell"), Speed::Unbounded).unwrap();
    std::thread::spawn(move || {
        let own = Builder::new_current_thread().enable_all().build().unwrap();
        own.block_on(serve::recording(config, Box::new(|| Ok(Config::default())), None, player, RUNTIME.handle())).unwrap();
    });
    while !ask(address, b"GET /jobs/1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .contains(" 200 ")
    {
        std::thread::sleep(Duration::from_millis(100));
    }
    address
});

/// The line of a request and lines of its head, an empty line, and a body.
pub fn request(bytes: &[u8]) {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
    let (head, body) = (&bytes[..end], bytes.get(end + 2..).unwrap_or_default());
    let mut request = Vec::new();
    for (number, line) in head.split(|byte| *byte == b'\n').enumerate() {
        request.extend(line);
        request.extend(if number == 0 { &b" HTTP/1.1\r\n"[..] } else { b"\r\n" });
    }
    request.extend(format!("connection: close\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes());
    request.extend(body);
    let status = ask(*SITE, &request);
    assert!(!status.contains(" 500 "), "{status}");
}

/// The first line of the response; empty if there is none.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut response = Vec::new();
    let asked = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request)?;
        stream.take(1 << 20).read_to_end(&mut response)
    });
    if let Err(error) = asked {
        let is_usual = matches!(
            error.kind(),
            ErrorKind::WouldBlock
                | ErrorKind::ConnectionReset
                | ErrorKind::BrokenPipe
                | ErrorKind::ConnectionRefused
        );
        assert!(is_usual, "{error}");
    }
    String::from_utf8_lossy(&response).lines().next().unwrap_or_default().into()
}
