//! Files that are written and read back, and files that are refused.

use jiff::Timestamp;

use super::*;
use crate::job::example::{setup, slowing};
use crate::job::figures::Figures;
use crate::job::{JobKind, Outcome};
use crate::source::{Label, Note};

fn job() -> Job {
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut job = Job::new(7, JobKind::Snapshot, "uuid", "data_snapshot", at(1_772_330_400));
    (job.ended_at, job.outcome) = (Some(at(1_772_330_500)), Some(Outcome::Succeeded));
    job.label = Some(Label { set: "zfs".into(), variant: None, repeat: Some(1) });
    job.notes = vec![Note { at: at(1_772_330_450), text: "buffer pool is cold".into() }];
    (job.setup, job.peak_fill_percent) = (setup(), Some(12.5));
    job
}

fn text() -> String {
    write(&job(), &slowing(100)).unwrap()
}

fn refused(text: &str, part: &str) {
    let sentence = read(text.as_bytes()).unwrap_err().to_string();
    assert!(sentence.contains(part) && sentence.len() < 400, "{sentence}");
}

#[test]
fn what_is_read_back_has_the_same_figures() {
    let (read, course) = read(text().as_bytes()).unwrap();
    assert_eq!(read, Job { id: 0, key: String::new(), ..job() });
    let figures = Figures::of(&course, &read.setup);
    let before = Figures::of(&slowing(100), &setup());
    let speed = |figures: &Figures| figures.read.unwrap().speed.mean;
    assert!((speed(&figures) / speed(&before) - 1.0).abs() < 1e-6);
    assert_eq!((figures.seconds, figures.pvs.len()), (before.seconds, before.pvs.len()));
    let await_ms = |figures: &Figures| figures.origin.during.write_await_ms.unwrap();
    assert!((await_ms(&figures) / await_ms(&before) - 1.0).abs() < 1e-6);
}

#[test]
fn what_was_read_back_is_written_as_the_same_file() {
    let (job, course) = read(text().as_bytes()).unwrap();
    assert_eq!(write(&job, &course).unwrap(), text());
}

#[test]
fn what_is_no_file_of_a_job_is_refused_in_a_sentence() {
    let whole = text();
    for cut in [1, 20, whole.len() / 2, whole.len() - 1] {
        refused(&whole[..cut], "the file is cut short");
    }
    refused("", "this is no file of a job");
    refused("PK\u{3}\u{4}", "this is no file of a job");
    refused("{\"rows\": []}", "JSON without `cowbell_job`");
    refused("[1, 2]", "this is no file of a job");
    refused(&whole.replacen("\"cowbell_job\":1", "\"cowbell_job\":2", 1), "is of version 2");
}

#[test]
fn what_no_machine_says_is_refused() {
    let whole = text();
    let with = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole.replacen(from, to, 1)
    };
    let long = "x".repeat(10_000);
    refused(&with("\"data_snapshot\"", &format!("\"{long}\"")), "a name of 1 to 200 letters");
    refused(&with("\"data_snapshot\"", "\"a\\u001b[2J\""), "without control characters");
    refused(&with("\"zfs\"", "\"\""), "a name of 1 to 200 letters");
    refused(&with("\"length_us\":[1000000,", "\"length_us\":["), "does not fit together");
    refused(&with("\"length_us\":[1000000,", "\"length_us\":[-5,"), "cannot be understood");
    refused(&with("\"length_us\":[1000000,", "\"length_us\":[0,"), "does not fit together");
    refused(&with("\"end_ms\":[", "\"end_ms\":[NaN,"), "this is no file of a job");
    refused(&with("\"end_ms\":[", "\"end_ms\":[99999999,"), "does not fit together");
    refused(&with("\"fill_ppm\":[", "\"fill_ppm\":[1,"), "does not fit together");
    refused(&with("\"fill_ppm\"", "\"phase_of_the_moon\""), "called `phase_of_the_moon`");
    refused(&with("\"peak_fill_percent\":12.5", "\"peak_fill_percent\":1e9"), "from 0 to 100 percent");
    refused(&with("\"ended_at\":\"2026-03-01T02:01:40Z\"", "\"ended_at\":null"), "a job that is over");
    refused(
        &with("\"ended_at\":\"2026-03-01T02:01:40Z\"", "\"ended_at\":\"2025-03-01T02:01:40Z\""),
        "ended after that",
    );
    refused(&with("\"repeat\":1", "\"repeat\":0"), "a repeat from 1");
}
