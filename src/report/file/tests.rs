//! Files that are written and read back, and files that are refused.

use super::*;
use crate::commands::{JobLabel, Note};
use crate::job::figures::Figures;
use crate::job::tests::example::{setup, slowing};
use crate::job::{JobKind, Outcome};

fn job() -> Job {
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut job = Job::new(
        7,
        JobKind::Snapshot,
        "uuid",
        "data_snapshot",
        at(1_772_330_400),
    );
    (job.ended_at, job.outcome) = (Some(at(1_772_330_500)), Some(Outcome::Succeeded));
    job.label = Some(JobLabel {
        set: "zfs".into(),
        variant: None,
        repeat: Some(1),
    });
    job.notes = vec![Note {
        at: at(1_772_330_450),
        text: "buffer pool is cold".into(),
    }];
    (job.setup, job.peak_fill_percent) = (setup(), Some(12.5));
    job
}

/// A day and an hour after the job.
fn now() -> Timestamp {
    Timestamp::from_second(1_772_420_400).unwrap()
}

fn text() -> String {
    write(&job(), &slowing(100)).unwrap()
}

fn rejected(text: &str, part: &str) {
    let sentence = read(text.as_bytes(), now()).unwrap_err().to_string();
    assert!(
        sentence.contains(part) && sentence.len() < 400,
        "{sentence}"
    );
}

#[test]
fn a_file_has_the_figures_of_its_job() {
    let (read, time_series) = read(text().as_bytes(), now()).unwrap();
    assert_eq!(
        read,
        Job {
            id: 0,
            key: String::new(),
            ..job()
        }
    );
    let figures = Figures::of(&time_series, &read.setup);
    let before = Figures::of(&slowing(100), &setup());
    let speed = |figures: &Figures| figures.read.unwrap().speed.mean;
    assert!((speed(&figures) / speed(&before) - 1.0).abs() < 1e-6);
    assert_eq!(
        (figures.seconds, figures.pvs.len()),
        (before.seconds, before.pvs.len())
    );
    let await_ms = |figures: &Figures| figures.origin.during.write_await_ms.unwrap();
    assert!((await_ms(&figures) / await_ms(&before) - 1.0).abs() < 1e-6);
}

#[test]
fn a_file_survives_import_and_export() {
    let (job, time_series) = read(text().as_bytes(), now()).unwrap();
    assert_eq!(write(&job, &time_series).unwrap(), text());
}

#[test]
fn other_files_are_rejected_with_a_reason() {
    let whole = text();
    // Also within a number.
    for cut in (1..whole.len()).step_by(3) {
        rejected(&whole[..cut], "the file is truncated");
    }
    rejected("", "this is not the file of a job");
    rejected("PK\u{3}\u{4}", "this is not the file of a job");
    rejected("{\"rows\": []}", "expected `cowbell_job`");
    rejected("[1, 2]", "cannot be understood");
    rejected("7", "this is not the file of a job");
    rejected(
        &whole.replacen("\"cowbell_job\":1", "\"cowbell_job\":2", 1),
        "has version 2",
    );
}

#[test]
fn impossible_values_are_rejected() {
    let whole = text();
    let with = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole.replacen(from, to, 1)
    };
    let long = "x".repeat(10_000);
    rejected(
        &with("\"data_snapshot\"", &format!("\"{long}\"")),
        "`name` to be 1 to 200 letters",
    );
    rejected(
        &with("\"data_snapshot\"", "\"a\\u001b[2J\""),
        "without control characters",
    );
    rejected(&with("\"zfs\"", "\"\""), "`set` to be 1 to 200 letters");
    rejected(
        &with("\"ticks\":[[1000,1000000],", "\"ticks\":["),
        "does not fit together",
    );
    rejected(&with("[1000,1000000]", "[1000,-5]"), "cannot be understood");
    rejected(&with("[1000,1000000]", "[1000]"), "cannot be understood");
    rejected(&with("[1000,1000000]", "[1000,0]"), "each of some length");
    rejected(
        &with("[1000,1000000]", "[NaN,1000000]"),
        "this is not the file of a job",
    );
    rejected(
        &with("\"fill_percent\":[", "\"fill_percent\":[1,"),
        "does not fit together",
    );
    rejected(
        &with("\"fill_percent\":[", "\"fill_percent\":[-1,"),
        "FillPercent from 0 to 100",
    );
    rejected(
        &with("\"fill_percent\":[", "\"fill_percent\":[1e300,"),
        "FillPercent from 0 to 100",
    );
    rejected(
        &with("\"fill_percent\"", "\"phase_of_the_moon\""),
        "unknown variant `phase_of_the_moon`",
    );
    rejected(
        &with("\"peak_fill_percent\":12.5", "\"peak_fill_percent\":1e9"),
        "100 percent at most",
    );
    rejected(
        &with("\"ended_at\":\"2026-03-01T02:01:40Z\"", "\"ended_at\":null"),
        "a job that is over",
    );
    rejected(
        &with(
            "\"ended_at\":\"2026-03-01T02:01:40Z\"",
            "\"ended_at\":\"2025-03-01T02:01:40Z\"",
        ),
        "ended after that",
    );
    rejected(&with("\"repeat\":1", "\"repeat\":0"), "`repeat` from 1");
}

/// With other values at these places of the file's JSON.
fn changed(changes: &[(&str, serde_json::Value)]) -> String {
    let mut file: serde_json::Value = serde_json::from_str(&text()).unwrap();
    for (place, value) in changes {
        let (parent, name) = place.rsplit_once('/').unwrap();
        match file.pointer_mut(parent).unwrap() {
            serde_json::Value::Array(list) => list[name.parse::<usize>().unwrap()] = value.clone(),
            parent => parent[name] = value.clone(),
        }
    }
    file.to_string()
}

/// What hooks told, with one thing changed.
fn backup_run(name: &str, value: serde_json::Value) -> serde_json::Value {
    let at = "2026-03-01T02:00:10Z";
    let mut run = serde_json::json!({
        "run": 7, "phases": [{"phase": "flush", "at": at}, {"phase": "backup", "at": at}], "locked_from": at,
        "locked_until": at, "reported": null, "first_at": at, "last_at": at, "is_unbroken": false
    });
    run[name] = value;
    run
}

#[test]
fn a_backup_run_is_read() {
    read(
        changed(&[("/job/backup_run", backup_run("run", 7.into()))]).as_bytes(),
        now(),
    )
    .unwrap();
}

#[test]
fn marked_phases_are_read_and_optional() {
    let at = |second| format!("2026-03-01T02:00:{second:02}Z");
    let phases =
        serde_json::json!([{"name": "writing", "at": at(1)}, {"name": "reading", "at": at(5)}]);
    let (job, _) = read(changed(&[("/job/phase_marks", phases)]).as_bytes(), now()).unwrap();
    assert_eq!(
        job.phases()
            .iter()
            .map(|phase| phase.name)
            .collect::<Vec<_>>(),
        ["writing", "reading"]
    );
    let mut older: serde_json::Value = serde_json::from_str(&changed(&[])).unwrap();
    older["job"]
        .as_object_mut()
        .unwrap()
        .remove("phase_marks")
        .unwrap();
    assert!(
        read(older.to_string().as_bytes(), now())
            .unwrap()
            .0
            .phase_marks
            .is_empty()
    );
}

#[test]
fn values_that_the_database_rejects_are_rejected() {
    let at = |second| serde_json::json!(format!("2026-03-01T02:00:{second:02}Z"));
    let told = |phases: &[(&str, i32)]| {
        phases
            .iter()
            .map(|(name, second)| serde_json::json!({"name": name, "at": at(*second)}))
            .collect()
    };
    let backwards =
        serde_json::json!([{"phase": "backup", "at": at(1)}, {"phase": "flush", "at": at(2)}]);
    for (changes, part) in [
        (vec![("/job/unmounted_at", at(9))], "`mounted_on` beside"),
        (
            vec![("/job/backup_run", backup_run("run", 0.into()))],
            "process from 1",
        ),
        (
            vec![("/job/backup_run", backup_run("locked_until", at(9)))],
            "released after it was taken",
        ),
        (
            vec![("/job/backup_run", backup_run("phases", backwards))],
            "phases in their order",
        ),
        (
            vec![("/job/phase_marks", told(&[("a", 9), ("b", 1)]))],
            "phases in the order of time",
        ),
        (
            vec![("/job/phase_marks", told(&[("a\nb", 1)]))],
            "`name` to be",
        ),
        (
            vec![("/job/phase_marks", told(&[("a", 1); 65]))],
            "64 phases at most",
        ),
        (vec![("/job/setup/snapshots", 0.into())], "1 of `snapshots`"),
        (
            vec![("/job/died_at", "2020-01-01T00:00:00Z".into())],
            "within a day of it",
        ),
        (
            vec![("/job/io_error_at", "2030-01-01T00:00:00Z".into())],
            "within a day of it",
        ),
        (
            vec![("/job/outcome", serde_json::Value::Null)],
            "a job that is over",
        ),
        (
            vec![
                ("/job/exit_status", 256.into()),
                ("/job/outcome", "failed".into()),
            ],
            "status of 255 at most",
        ),
        (vec![("/job/label/repeat", 0.into())], "`repeat` from 1"),
        (
            vec![("/job/bytes_read", u64::MAX.into())],
            "`bytes_read` from 0",
        ),
        (
            vec![("/job/label", serde_json::json!({"variant": "a"}))],
            "missing field `set`",
        ),
    ] {
        rejected(&changed(&changes), part);
    }
}

/// In memory each takes ten times what it takes in the file.
fn many_names(count: u32) -> serde_json::Value {
    let named = |number: u32| (number.to_string(), serde_json::json!({}));
    (0..count)
        .map(named)
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn many_disks() -> serde_json::Value {
    serde_json::json!(vec![serde_json::json!({"name": "sda"}); 200_000])
}

fn tick(end_ms: i64, length_us: u64) -> serde_json::Value {
    serde_json::json!([end_ms, length_us])
}

#[test]
fn implausible_files_are_rejected() {
    let names = |count: usize| serde_json::json!(vec!["sda"; count]);
    for (place, value, part) in [
        (
            "/job/ended_at",
            "2026-03-04T02:00:00Z".into(),
            "over by now",
        ),
        (
            "/job/started_at",
            "1969-03-01T02:00:00Z".into(),
            "began after 1970",
        ),
        (
            "/job/notes/0/at",
            "2026-03-09T02:00:00Z".into(),
            "from 1970 to now",
        ),
        (
            "/job/notes/0/at",
            "1960-03-09T02:00:00Z".into(),
            "from 1970 to now",
        ),
        ("/job/exit_status", 1.into(), "status of 0 at most"),
        (
            "/job/name",
            "a\u{202e}b".into(),
            "without control characters",
        ),
        ("/job/setup/chunk_bytes", 0.into(), "`chunk_bytes` from 1"),
        ("/job/setup/processors", 0.into(), "`processors` from 1"),
        (
            "/job/setup/read_ahead_kib",
            u64::MAX.into(),
            "`read_ahead_kib` from 0",
        ),
        (
            "/job/setup/origin_pvs",
            names(1_001),
            "1000 of `origin_pvs` at most",
        ),
        (
            "/during/columns/fill_percent/3",
            100.1.into(),
            "FillPercent from 0 to 100",
        ),
        (
            "/during/pvs/sda/utilisation/3",
            1.01.into(),
            "Utilisation from 0 to 1",
        ),
        (
            "/during/pvs/sda/utilisation/3",
            (-0.1).into(),
            "Utilisation from 0 to 1",
        ),
        ("/during/ticks/3", tick(4_000, 0), "of some length"),
        (
            "/during/ticks/3",
            tick(4_000, 3_600_000_001),
            "ticks of an hour at most",
        ),
        (
            "/during/ticks/99",
            tick(90_000_000, 1_000_000),
            "ten minutes around it",
        ),
        (
            "/before/ticks/0",
            tick(-700_000, 1_000_000),
            "ten minutes around it",
        ),
        (
            "/during/ticks/3",
            tick(3_000, 1_000_000),
            "after the one before",
        ),
        ("/job/setup/disks", many_disks(), "2097152 bytes of a job"),
        (
            "/during/columns",
            many_names(1_600),
            "1500 names in its time series at most",
        ),
        (
            "/during/pvs",
            many_names(1_600),
            "1500 names in its time series at most",
        ),
        ("/during/pvs", many_names(65), "64 PVs at most"),
        (
            "/during/pvs/sda",
            many_names(1_600),
            "1500 names in its time series at most",
        ),
    ] {
        rejected(&changed(&[(place, value)]), part);
    }
}

#[test]
fn files_that_need_too_much_memory_are_rejected_unread() {
    rejected(&"a".repeat(LONGEST + 1), "expected 16 MiB");
    rejected(&",".repeat(MOST_VALUES + 1), "2000000 values at most");
}
