//! Fuzz targets: each parser of what a machine or a visitor gives. `tests/fuzz/run` builds and starts them.
//!
//! One program holds all targets, and the environment variable `TARGET` names one: so it is built once.
#![no_main]

mod site;

use std::io::Write;
use std::path::Path;
use std::sync::LazyLock;

use cowbell::interval::Interval;
use cowbell::job::advice::advice;
use cowbell::job::diagnosis::diagnosis;
use cowbell::job::figures::Figures;
use cowbell::pipeline::Observer;
use cowbell::report::job::JobSummary;
use cowbell::report::file;
use cowbell::report::job::JobReport;
use cowbell::report::time_series::Timeline;
use cowbell::mylvmbackup;
use cowbell::sample;
use cowbell_device_mapper::ioctl::Response;
use cowbell::source::live::{exits, kernel_log};
use cowbell::source::recording::RecordingHeader;
use cowbell::source::{Part, PartReading, ReadResult, Reading, reader};
use cowbell::table::Style;
use cowbell_archive as archive;
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 12] = [
    ("proc", texts),
    ("dm", texts),
    ("lvm", texts),
    ("recording", recording),
    ("sockets", sockets),
    ("kernel", kernel),
    ("job", job_file),
    ("tar", tar),
    ("pages", database_files),
    ("gzip", gzip),
    ("config", configuration),
    ("http", site::request),
];

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found.unwrap_or_else(|| panic!("expected TARGET to name a target, but found {wanted:?}")).1
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));

fn reading(tick: u64, texts: Vec<PartReading>) -> Reading {
    let at = Timestamp::from_second(1_700_000_000 + tick as i64).unwrap();
    Reading {
        at,
        uptime_us: (tick + 1) * 1_000_000,
        took_us: 1,
        texts,
        commands: Vec::new(),
        hooks: Vec::new(),
    }
}

/// Sections that end in a NUL: the name of a part and its text on the next lines. An empty one ends the tick.
fn texts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (mut observer, mut tick, mut parts) = (Observer::default(), 0, Vec::new());
    for section in text.split('\0') {
        if let Some((name, text)) = section.split_once('\n') {
            let Ok(part) = serde_json::from_value::<Part>(name.into()) else { continue };
            parts.push(PartReading { part, result: ReadResult::Text(text.into()), took_us: 1 });
        } else {
            look_at(&observer.observe(&reading(tick, std::mem::take(&mut parts))));
            tick += 1;
        }
    }
    look_at(&observer.observe(&reading(tick, parts)));
}

/// The figures of the pages and rules.
fn look_at(interval: &Interval) {
    interval.total();
    for (volume, state) in interval.volumes() {
        for fill in [state.fill, state.metadata, state.sync].into_iter().flatten() {
            assert!((0.0..=100.0).contains(&fill.percent()) || fill.used > fill.total, "{volume:?} {fill:?}");
        }
        interval.copying(volume).and_then(|copying| copying.write_cost());
        interval.used_bytes_on(volume);
    }
    for device in &interval.topology.devices {
        interval.share(device);
        interval.may_copy(device);
    }
}

/// Lines of a recording, which `cowbell reader` sends too.
fn recording(bytes: &[u8]) {
    let mut observer = Observer::default();
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = serde_json::from_str::<RecordingHeader>(line);
        let Ok(reading) = serde_json::from_str::<Reading>(line) else { continue };
        let again = serde_json::from_str::<Reading>(&serde_json::to_string(&reading).unwrap());
        assert_eq!(again.unwrap(), reading);
        look_at(&observer.observe(&reading));
    }
}

/// What the daemon asks of the reader, and what hooks send.
fn sockets(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match reader::parse_request(&text) {
        Ok(pids) => assert_eq!(reader::parse_request(&reader::request(&pids)), Ok(pids)),
        Err(why) => assert!(why.starts_with("expected up to")),
    }
    match sample::hooks::parse(&text) {
        Ok(message) => {
            for name in [message.snapshot, message.origin].into_iter().flatten() {
                assert!(
                    name.is_ascii() && name.contains('/') && !name.contains(char::is_whitespace),
                    "{name:?}"
                );
            }
        }
        Err(why) => assert!(why.len() < 1_000 && !why.contains(char::is_control), "{why:?}"),
    }
}

/// Netlink messages, records of `/dev/kmsg`, and results of ioctls.
fn kernel(bytes: &[u8]) {
    let _ = exits::parse(bytes);
    if let Some(message) = kernel_log::error_in(&String::from_utf8_lossy(bytes)) {
        assert!(!message.contains(['\n', '\0']));
        sample::host::devices_with_read_errors(message);
    }
    let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    let words: Vec<u64> = words.collect();
    let result = Response::of(&words);
    result.devices();
    let mut text = String::new();
    result.describe(words.first().copied().unwrap_or_default(), &mut text);
    assert!(text.lines().count() <= 1 + bytes.len(), "more lines than bytes");
}

fn job_file(bytes: &[u8]) {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let Ok((job, time_series)) = file::read(bytes, now) else { return };
    let written = file::write(&job, &time_series).unwrap();
    file::read(written.as_bytes(), now).unwrap_or_else(|error| panic!("{error:#}: {written}"));
    let figures = Figures::of(&time_series, &job.setup).with_phases(&time_series, &job);
    let report = JobReport {
        name: job.name.clone(),
        summary: JobSummary::of(&job, true),
        notes: job.notes.clone(),
        forecast: Vec::new(),
        findings: diagnosis(&figures, &job.setup),
        advice: advice(&figures, &job.setup, true),
        figures,
    };
    report.text(Style::Plain);
    Timeline::of(&time_series);
}

fn tar(bytes: &[u8]) {
    let _ = archive::examine(bytes);
}

/// A tar archive of one database file. The first byte chooses its name.
fn database_files(bytes: &[u8]) {
    const NAMES: [&str; 6] = [
        "backup/ibdata1",
        "backup/t/a.ibd",
        "backup/ib_logfile0",
        "backup/undo001",
        "backup/t/a.frm",
        "backup-pos/a.pos",
    ];
    let Some((first, content)) = bytes.split_first() else { return };
    let mut block = vec![0; 512];
    let name = NAMES[usize::from(*first) % NAMES.len()];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    block[156] = b'0';
    block[257..265].copy_from_slice(b"ustar  \0");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block.extend(content);
    block.resize(block.len().next_multiple_of(512) + 1024, 0);
    archive::examine(&block[..]).unwrap();
}

/// A compressed archive. Other compressions are read by programs.
fn gzip(bytes: &[u8]) {
    let memory = rustix::fs::memfd_create("archive", rustix::fs::MemfdFlags::empty()).unwrap();
    let mut file = std::fs::File::from(memory);
    file.write_all(b"\x1f\x8b").and_then(|()| file.write_all(bytes)).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let _ = archive::compression::verify(Path::new(&path), |_| {});
}

/// The configuration of cowbell, and that of mylvmbackup.
fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = cowbell::config::parse(Path::new("cowbell.toml"), &text);
    let _ = mylvmbackup::BackupPlan::of(&mylvmbackup::parse(&text));
}
