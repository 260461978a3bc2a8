//! A database that does not answer: pages and the API come in time, with what is in memory and a sentence.
//!
//! A FIFO stands in its place, which waits in the kernel for whoever opens it, as a disk that hangs does.

use std::fs::{File, rename};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::daemon::{Daemon, Start};
use crate::http::Answer;
use crate::machine::Machine;

/// What a page takes at most: the time for which a read is waited for, and on a busy machine more.
const IN_TIME: Duration = Duration::from_secs(6);
const SENTENCE: &str = "database has not answered for ";

/// A daemon that has not read its database since it began, and cannot.
struct Hung {
    daemon: Daemon,
    aside: PathBuf,
}

impl Hung {
    fn new(machine: &Machine) -> Self {
        let daemon = Start::watching(machine).start();
        let aside = daemon.folder.path().join("aside.db");
        rename(&daemon.db, &aside).unwrap();
        mknodat(CWD, &daemon.db, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self { daemon, aside }
    }

    fn get_in_time(&self, target: &str) -> Answer {
        let asked = Instant::now();
        let answer = self.daemon.get(target);
        assert!(
            asked.elapsed() < IN_TIME,
            "{target} took {:?}",
            asked.elapsed()
        );
        answer
    }

    /// The answer of a daemon of its own, which has not noticed yet that its file is another one: it looks every 5 s, and
    /// then goes on in memory.
    fn answer(machine: &Machine, target: &str) -> Answer {
        loop {
            let hung = Self::new(machine);
            let answer = hung.get_in_time(target);
            let status = hung.daemon.json("/api/v1/status").to_string();
            let has_noticed = ["was removed or replaced", "a named pipe"]
                .iter()
                .any(|sign| answer.body.contains(sign) || status.contains(sign));
            if !has_noticed {
                return answer;
            }
        }
    }

    fn comes_back(self) -> Daemon {
        // Opened for reading and writing, it blocks neither side any more.
        let _waker = File::options()
            .read(true)
            .write(true)
            .open(&self.daemon.db)
            .unwrap();
        rename(&self.aside, &self.daemon.db).unwrap();
        self.daemon
    }
}

#[test]
fn pages_come_with_what_is_in_memory_and_say_what_is_missing() {
    let machine = Machine::new();
    for page in [
        "/",
        "/jobs",
        "/alerts",
        "/devices/sda",
        "/?from=-7d",
        "/now",
    ] {
        let answer = Hung::answer(&machine, page);
        assert_eq!(answer.status, 200, "{page}: {answer:?}");
        assert!(answer.body.contains(SENTENCE), "{page}: {answer:?}");
    }
    let hung = Hung::new(&machine);
    for page in ["/devices", "/volumes", "/status"] {
        assert_eq!(hung.get_in_time(page).status, 200, "{page}");
    }
}

#[test]
fn what_is_not_in_memory_is_refused_in_the_frame_of_a_page() {
    let machine = Machine::new();
    let answer = Hung::answer(&machine, "/jobs/999");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(
        answer.body.contains(SENTENCE) && answer.body.contains("<nav"),
        "{answer:?}"
    );
}

#[test]
fn lists_of_the_api_are_marked_and_series_are_not_told_in_part() {
    let machine = Machine::new();
    for list in ["/api/v1/jobs", "/api/v1/alerts"] {
        let answer = Hung::answer(&machine, list);
        assert_eq!((answer.status, answer.body.as_str()), (200, "[]"), "{list}");
        assert!(
            answer
                .head
                .to_ascii_lowercase()
                .contains("cowbell-missing: the database"),
            "{answer:?}"
        );
    }
    let series = Hung::answer(&machine, "/api/v1/series?of=device:sda&metric=read_bytes");
    assert_eq!(series.status, 503, "{series:?}");
    assert!(series.sentence().contains(SENTENCE), "{series:?}");
}

#[test]
fn what_is_in_memory_is_told_at_once_and_ticks_go_on() {
    let machine = Machine::new();
    let hung = Hung::new(&machine);
    hung.get_in_time("/jobs");
    let taken = hung.daemon.taken();
    crate::wait_for("some ticks", || {
        (hung.daemon.taken() > taken + 5).then_some(())
    });
    let series = hung.get_in_time("/api/v1/series?of=device:sda&metric=read_bytes&from=-200ms");
    assert_eq!(series.status, 200, "{series:?}");
}

#[test]
fn when_it_is_back_all_is_told_again() {
    let machine = Machine::new();
    let hung = Hung::new(&machine);
    for _ in 0..5 {
        hung.get_in_time("/jobs");
    }
    let daemon = hung.comes_back();
    crate::wait_for("an answer", || {
        (!daemon.get("/jobs").body.contains(SENTENCE)).then_some(())
    });
    // On a busy machine one query may be late again.
    for (target, status) in [
        ("/jobs/999", 404),
        ("/api/v1/series?of=device:sda&metric=read_bytes", 200),
    ] {
        crate::wait_for(target, || {
            (daemon.get(target).status == status).then_some(())
        });
    }
}

/// As where its file system was shut down, or the program may have no more threads.
#[test]
fn a_database_that_cannot_be_read_now_is_said_with_503_and_not_as_our_own_fault() {
    let machine = Machine::new();
    let daemon = Start::watching(&machine).start();
    let aside = daemon.folder.path().join("aside.db");
    rename(&daemon.db, &aside).unwrap();
    std::fs::create_dir(&daemon.db).unwrap();
    for target in [
        "/jobs/999",
        "/api/v1/jobs/999",
        "/api/v1/series?of=device:sda&metric=read_bytes",
    ] {
        let answer = daemon.get(target);
        assert_eq!(answer.status, 503, "{target}: {answer:?}");
        assert!(
            answer.body.contains("database cannot be read now: "),
            "{target}: {answer:?}"
        );
    }
    let jobs = daemon.get("/api/v1/jobs");
    assert!(
        jobs.status == 200 && jobs.head.to_ascii_lowercase().contains("cowbell-missing: "),
        "{jobs:?}"
    );
}

#[test]
fn a_page_that_takes_long_begins_at_once() {
    let machine = Machine::new();
    let hung = Hung::new(&machine);
    let mut connection = TcpStream::connect(("127.0.0.1", hung.daemon.port)).unwrap();
    let asked = Instant::now();
    connection
        .write_all(b"GET /?from=-7d HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        .unwrap();
    let (mut page, mut part) = (Vec::new(), [0; 4096]);
    let mut read_until = |what: &str| {
        while !String::from_utf8_lossy(&page).contains(what) {
            let count = connection.read(&mut part).unwrap();
            assert!(
                count > 0,
                "no {what:?} in {}",
                String::from_utf8_lossy(&page)
            );
            page.extend_from_slice(&part[..count]);
        }
        (asked.elapsed(), String::from_utf8_lossy(&page).into_owned())
    };
    let (took, begin) = read_until("/assets/charts.js");
    assert!(!begin.contains("</head>"), "{begin}");
    let (whole_took, whole) = read_until("</html>");
    assert!(took * 4 < whole_took, "{took:?} of {whole_took:?}");
    assert!(
        whole.contains(SENTENCE) && whole.matches("<!doctype html>").count() == 1,
        "{whole}"
    );
}
