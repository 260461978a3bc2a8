//! Which program made a snapshot: from readings to the job that is kept.

use cowbell::job::{Job, JobTracker};
use cowbell::source::{Part, ReadResult};

use crate::host::{self, Host};
use crate::observer::{Observer, reading};

const MANY: u64 = 614_400;

struct Watched {
    observer: Observer,
    book: JobTracker,
    news: Vec<Job>,
}

impl Watched {
    fn take(&mut self, seconds: f64, host: &Host, more: Vec<(Part, &str)>) {
        let texts = vec![
            (Part::Diskstats, host.diskstats()),
            (Part::Sysfs, host.names()),
            (Part::Dm, host.device_mapper()),
        ];
        let more = more
            .into_iter()
            .map(|(part, text)| (part, text.to_string()));
        let texts = texts
            .into_iter()
            .chain(more)
            .map(|(part, text)| (part, ReadResult::Text(text)));
        let interval = self.observer.observe(&reading(seconds, texts.collect()));
        self.news.extend(self.book.advance(&interval));
    }

    /// The programs of all snapshots, in the order in which they appeared.
    fn programs(&self) -> Vec<Option<&str>> {
        self.book
            .running()
            .iter()
            .map(|job| job.program.as_deref())
            .collect()
    }
}

fn watched() -> (Watched, Host, String) {
    let mut host = Host::new(&["sda"]);
    let real = host.add_origin("data", &["sda"], MANY);
    let mut watched = Watched {
        observer: Observer::default(),
        book: JobTracker::default(),
        news: Vec::new(),
    };
    watched.take(0.0, &host, Vec::new());
    (watched, host, real)
}

fn chain(program: &str) -> String {
    format!(
        "1 (systemd) S 0\n40 (cron) S 1\n50 ({program}) S 40\n60 (sh) S 50\n70 (lvcreate) D 60\n"
    )
}

#[test]
fn a_snapshot_has_the_program_that_was_seen_when_it_appeared_or_just_before_or_after() {
    for (seen, appeared) in [(1.0, 1.0), (0.5, 1.0), (1.5, 1.0)] {
        let (mut watched, mut host, real) = watched();
        for second in [0.5, 1.0, 1.5] {
            if second == appeared {
                host.add_snapshot("snap", &real, &["sda"], 8192, "snapshot 16/8192 16");
            }
            let nightly = chain("nightly.sh");
            let more = if second == seen {
                vec![(Part::Processes, nightly.as_str())]
            } else {
                Vec::new()
            };
            watched.take(second, &host, more);
        }
        assert_eq!(watched.programs(), [Some("nightly.sh")], "seen at {seen}");
        let kept = watched.news.last().and_then(|job| job.program.as_deref());
        assert_eq!(
            kept,
            Some("nightly.sh"),
            "it is kept at once, seen at {seen}"
        );
    }
}

#[test]
fn two_programs_that_make_snapshots_at_once_have_each_their_own() {
    let (mut watched, mut host, real) = watched();
    let both = "1 (systemd) S 0 1\n50 (data.sh) S 1 50\n60 (logs.sh) S 1 60\n70 (lvcreate) D 50 50 vg0/snap\n\
                71 (lvcreate) D 60 60 vg0/other\n";
    host.add_snapshot("snap", &real, &["sda"], 8192, "snapshot 16/8192 16");
    watched.take(1.0, &host, vec![(Part::Processes, both)]);
    host.add_snapshot("other", &real, &["sda"], 8192, "snapshot 16/8192 16");
    watched.take(2.0, &host, vec![(Part::Processes, both)]);
    assert_eq!(watched.programs(), [Some("data.sh"), Some("logs.sh")]);
}

#[test]
fn a_program_that_was_seen_long_before_made_another_snapshot() {
    let (mut watched, mut host, real) = watched();
    watched.take(1.0, &host, vec![(Part::Processes, &chain("early.sh"))]);
    host.add_snapshot("snap", &real, &["sda"], 8192, "snapshot 16/8192 16");
    watched.take(10.0, &host, Vec::new());
    host.add_snapshot("other", &real, &["sda"], 8192, "snapshot 16/8192 16");
    watched.take(20.0, &host, vec![(Part::Processes, &chain("late.sh"))]);
    assert_eq!(watched.programs(), [None, Some("late.sh")]);
}

#[test]
fn a_thin_snapshot_has_the_program_that_was_seen_when_it_was_made() {
    let (mut watched, mut host, _) = watched();
    host.add("thin", "", &["sda"], MANY, "thin 0 -");
    watched.take(1.0, &host, Vec::new());
    host.add("snap", "", &["sda"], MANY, "thin 0 -");
    watched.take(5.0, &host, vec![(Part::Processes, &chain("thin.sh"))]);
    watched.take(20.0, &host, vec![(Part::Processes, &chain("later.sh"))]);
    assert_eq!(
        watched.programs(),
        [None; 0],
        "that it is a snapshot LVM has not said yet"
    );
    let mut snap = host::row("snap", "Vwi-a-tz--");
    snap["origin"] = "thin".into();
    snap["lv_time"] = (crate::tape::BEGIN.as_second() + 5).to_string().into();
    let report = host::report(&[host::row("thin", "Vwi-a-tz--"), snap]);
    watched.take(30.0, &host, vec![(Part::Lvm, &report)]);
    assert_eq!(watched.programs(), [Some("thin.sh")]);
}

/// A host with a thin snapshot of which so many MiB were read, and on which so much is mounted.
struct Kept {
    watched: Watched,
    host: Host,
    seconds: f64,
    mounts: &'static str,
}

impl Kept {
    fn new() -> Self {
        let (mut watched, mut host, _) = watched();
        host.add("thin", "", &["sda"], MANY, "thin 0 -");
        host.add("kept", "", &["sda"], MANY, "thin 0 -");
        let mut kept = host::row("kept", "Vwi-a-tz--");
        kept["origin"] = "thin".into();
        kept["lv_time"] = (crate::tape::BEGIN.as_second() + 1).to_string().into();
        let report = host::report(&[host::row("thin", "Vwi-a-tz--"), kept]);
        watched.take(1.0, &host, vec![(Part::Mounts, ""), (Part::Lvm, &report)]);
        Self {
            watched,
            host,
            seconds: 1.0,
            mounts: "",
        }
    }

    /// At each of so many ticks, so many KiB more are read.
    fn passes(&mut self, ticks: u32, kib: u64) {
        for _ in 0..ticks {
            self.seconds += 1.0;
            self.host.layer("kept", "").done.sectors_read += 2 * kib;
            let mounts = self.mounts;
            self.watched
                .take(self.seconds, &self.host, vec![(Part::Mounts, mounts)]);
        }
    }

    fn runs(&self) -> bool {
        !self.watched.book.running().is_empty()
    }

    fn ended(&self) -> Vec<(f64, f64)> {
        let begin = crate::tape::BEGIN.as_millisecond();
        let since = |at: jiff::Timestamp| (at.as_millisecond() - begin) as f64 / 1000.0;
        let ended = self.watched.book.ended().iter();
        ended
            .map(|job| (since(job.started_at), since(job.ended_at.unwrap())))
            .collect()
    }
}

#[test]
fn a_kept_thin_snapshot_that_is_only_probed_is_no_job() {
    let mut kept = Kept::new();
    assert!(!kept.runs(), "it was made by hand");
    kept.passes(200, 10);
    assert!(
        !kept.runs(),
        "LVM and udev read some KiB of it now and then"
    );
    assert_eq!(kept.ended(), []);
}

#[test]
fn a_kept_thin_snapshot_is_a_job_while_it_is_read_or_mounted() {
    let mut kept = Kept::new();
    kept.passes(19, 0);
    kept.passes(10, 2048);
    assert!(kept.runs(), "it is read");
    kept.passes(58, 0);
    assert!(kept.runs(), "a reader may pause");
    kept.passes(3, 0);
    assert_eq!((kept.runs(), kept.ended()), (false, vec![(1.0, 29.0)]));
    kept.mounts = "36 35 253:3 / /mnt/kept ro shared:1 - xfs /dev/mapper/vg0-kept ro\n";
    kept.passes(200, 0);
    assert!(kept.runs(), "it is mounted");
    kept.mounts = "";
    kept.passes(70, 0);
    assert_eq!((kept.runs(), kept.ended()), (false, vec![(1.0, 291.0)]));
}
