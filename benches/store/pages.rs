//! How long pages take over a real socket, and what pages cost that stay open.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cowbell::config;
use cowbell::present::{Present, Ticks};
use cowbell::web::{Access, Listener, MOST_STREAMS, Site, serve};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::feed::{Cost, Store};
use crate::machine::{Machine, Size};
use crate::meter::{ms, process_time, thread_time, us};

/// Eight of them count, as the PVs do. The overview has three charts: fill, what backups read, and the eight PVs.
pub const SIZE: Size = Size {
    busy: 24,
    bursty: 0,
    idle: 0,
    volumes: 4,
};
const DAY: u64 = 24 * 3_600;
const TIMES: usize = 11;
const TICKS: u32 = 120;
/// Two live pages with three charts each.
const LIVE: [&str; 2] = [
    "/now?from=-5m&width=1200",
    "/devices/dm-0/now?from=-5m&width=1200",
];

/// The server's side, and a client's.
struct Server {
    address: SocketAddr,
    present: watch::Sender<Option<Arc<Present>>>,
    shutdown: CancellationToken,
}

/// A page that stays open.
struct OpenPage {
    path: &'static str,
    connection: TcpStream,
}

/// The days, then the pages. Several days have longer ticks, so that there are as many of them as in one.
pub async fn pages(days: u64) {
    let mut machine = Machine::new(SIZE, None);
    machine.tick_s = days as i64;
    let mut store = Store::new().await;
    store.feed(&mut machine, DAY);
    let server = Server::start(&store, &mut machine).await;
    for range in ["-24h", &format!("-{days}d")] {
        tokio::task::block_in_place(|| server.time_to_load(&format!("/?from={range}&width=1200")));
    }
    if days == 1 {
        tokio::task::block_in_place(|| server.cost_of_open_pages(&mut store, &mut machine));
    }
    server.shutdown.cancel();
}

impl Server {
    async fn start(store: &Store, machine: &mut Machine) -> Self {
        let (present, presents) = watch::channel(None);
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("an address");
        let shutdown = CancellationToken::new();
        let site = Arc::new(Site {
            present: presents,
            store: store.reader.clone(),
            commands: None,
            alert_commands: mpsc::channel(1).0,
            accepted: broadcast::Sender::new(1),
            access: watch::channel(Arc::new(Access::default())).1,
            has_tls: false,
            prefix: "".into(),
            grafana: None,
            fleet: None,
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            shutdown: shutdown.clone(),
            costs: Arc::default(),
            demo: None,
        });
        tokio::spawn(serve(vec![Listener::Network { socket, tls: None }], site));
        let server = Self {
            address,
            present,
            shutdown,
        };
        server.publish(store, machine);
        server
    }

    /// The state after a tick that was not stored.
    fn publish(&self, store: &Store, machine: &mut Machine) {
        let present = present(store, Arc::new(machine.tick()));
        self.present.send_replace(Some(Arc::new(present)));
    }

    /// First byte and last byte of a page, on a new connection.
    fn time_to_load(&self, path: &str) {
        let mut times: Vec<(Duration, Duration, usize)> =
            (0..TIMES).map(|_| self.load(path)).collect();
        times.sort();
        let (first, complete, bytes) = times[TIMES / 2];
        println!("| `{path}`, first byte: 50 ms | {:.1} ms |", ms(first));
        println!(
            "| … complete, {:.1} kB: 150 ms | {:.1} ms |",
            bytes as f64 / 1e3,
            ms(complete)
        );
    }

    fn load(&self, path: &str) -> (Duration, Duration, usize) {
        let began = Instant::now();
        let mut connection = TcpStream::connect(self.address).expect("a connection");
        connection
            .write_all(request(path, "Connection: close\r\n").as_bytes())
            .expect("a request");
        let (mut first, mut rest) = ([0; 1], Vec::new());
        connection.read_exact(&mut first).expect("an answer");
        let first_byte = began.elapsed();
        connection.read_to_end(&mut rest).expect("the whole answer");
        assert!(
            rest.starts_with(b"TTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&rest)
        );
        (first_byte, began.elapsed(), rest.len())
    }

    /// Processor time of a tick with more and more windows, less that without, and bytes.
    fn cost_of_open_pages(&self, store: &mut Store, machine: &mut Machine) {
        let mut alone = Duration::ZERO;
        // The writer may still be busy with the days before: that is no part of the cost of a tick.
        self.live(store, machine, 0);
        let (none, _) = self.live(store, machine, 0);
        for windows in [1, 50] {
            let (cost, bytes) = self.live(store, machine, windows);
            let cost = cost.saturating_sub(none);
            if windows == 1 {
                alone = cost;
                println!(
                    "| six charts over 5 min, a tick: 2 kB | {:.2} kB |",
                    f64::from(bytes) / 1e3
                );
                println!("| … processor time a tick: 1 ms | {:.2} ms |", ms(cost));
            } else {
                let ratio = us(cost) / us(alone);
                println!("| {windows} windows against one, processor time: 2 | {ratio:.1} |");
            }
        }
    }

    /// Processor time and bytes a tick.
    fn live(&self, store: &mut Store, machine: &mut Machine, windows: usize) -> (Duration, u32) {
        let paths = LIVE
            .iter()
            .flat_map(|path| std::iter::repeat_n(*path, windows));
        let mut pages: Vec<OpenPage> = paths.map(|path| self.open(path)).collect();
        pages.iter_mut().for_each(OpenPage::ask);
        let _first: u32 = pages.iter_mut().map(OpenPage::answer).sum();
        let (began, mut others, mut bytes) = (process_time(), Duration::ZERO, 0);
        for _ in 0..TICKS {
            let own = thread_time();
            let interval = Arc::new(machine.tick());
            store.append(&interval, &mut Cost::default());
            store.commit();
            let present = present(store, interval);
            self.present.send_replace(Some(Arc::new(present)));
            // A tick reaches all windows at once.
            pages.iter_mut().for_each(OpenPage::ask);
            bytes += pages.iter_mut().map(OpenPage::answer).sum::<u32>();
            others += thread_time() - own;
        }
        (
            (process_time() - began).saturating_sub(others) / TICKS,
            bytes / TICKS,
        )
    }

    fn open(&self, path: &'static str) -> OpenPage {
        let connection = TcpStream::connect(self.address).expect("a connection");
        connection.set_nodelay(true).expect("an option of TCP");
        OpenPage { path, connection }
    }
}

impl OpenPage {
    fn ask(&mut self) {
        self.connection
            .write_all(request(self.path, "").as_bytes())
            .expect("a request");
    }

    /// The size of the answer's body.
    fn answer(&mut self) -> u32 {
        size_of_answer(&mut self.connection)
    }
}

fn present(store: &Store, interval: Arc<cowbell::interval::Interval>) -> Present {
    let (store, lost) = store.inlet.health();
    Present {
        host: "db1".into(),
        started_at: Timestamp::UNIX_EPOCH,
        interval_length: Duration::from_secs(1),
        interval,
        thresholds: config::Alerts::default(),
        averages: Arc::default(),
        jobs: Vec::new(),
        curves: Arc::default(),
        outlooks: Default::default(),
        running: Default::default(),
        measured: Arc::default(),
        alerts: Vec::new(),
        paces: Default::default(),
        races: Default::default(),
        deliveries: Arc::default(),
        silences: Vec::new(),
        receivers: Vec::new().into(),
        ticks: Ticks::default(),
        parts: Default::default(),
        store,
        keep: config::Store::default(),
        remote_write: None,
        notes: Vec::new(),
        configuration: Default::default(),
        attempts: Default::default(),
        lost,
        published: Instant::now(),
        ended: None,
    }
}

fn request(path: &str, header: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n{header}\r\n")
}

fn size_of_answer(connection: &mut TcpStream) -> u32 {
    let (mut bytes, mut part) = (Vec::new(), [0; 16 * 1024]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            if let Some(size) = size_of_body(&head, &bytes[end + 4..]) {
                return size;
            }
        }
        let read = connection.read(&mut part).expect("an answer");
        assert!(
            read > 0,
            "the connection ended: {}",
            String::from_utf8_lossy(&bytes)
        );
        bytes.extend_from_slice(&part[..read]);
    }
}

/// `None` if it is not complete.
fn size_of_body(head: &str, body: &[u8]) -> Option<u32> {
    if let Some(length) = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
    {
        let length = length.parse().expect("a length");
        return (body.len() >= length).then_some(length as u32);
    }
    body.ends_with(b"0\r\n\r\n").then_some(body.len() as u32)
}
