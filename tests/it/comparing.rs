//! Comparisons of jobs, as the API, `/jobs/compare` and the command line tell them: from a whole program that played a
//! recording of an experiment.

use std::time::Duration;

use cowbell::commands::{JobCommand, JobLabel, Mark, MarkEnd, MarkKind};
use jiff::SignedDuration;
use serde_json::Value;

use crate::daemon::{Daemon, Said, Start, cowbell, said};
use crate::machine::Done;
use crate::tape::{BEGIN, Snapshot, Tape};

/// Sectors of a MiB.
const MIB: u64 = 2048;
/// Seconds of a run, and of the pause after it.
const RUN: u64 = 20;
const PAUSE: u64 = 5;
/// MiB that each run reads in a second: of one variant, with a cold first run, then of a faster one.
const RUNS: [(&str, u64); 10] = [
    ("64k", 20),
    ("64k", 41),
    ("64k", 40),
    ("64k", 39),
    ("64k", 40),
    ("4k", 60),
    ("4k", 61),
    ("4k", 59),
    ("4k", 60),
    ("4k", 62),
];

/// Ten runs of a set, and one that belongs to none.
fn experiment() -> (Tape, Daemon) {
    let mut tape = Tape::new(Duration::from_secs(1));
    let mut read = 0;
    let others = [("", 10)];
    for (number, (variant, mib)) in RUNS.iter().chain(&others).enumerate() {
        for second in 0..RUN + PAUSE {
            let at =
                BEGIN + SignedDuration::from_secs((number as u64 * (RUN + PAUSE) + second) as i64);
            let done = Done::sectors(read, 0);
            let reading = tape.tick(Snapshot::Absent, done, done);
            assert_eq!(reading.at, at);
            if second == RUN {
                reading.commands.push(mark(number, variant, at));
            }
            read += if second < RUN { mib * MIB } else { 0 };
        }
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(11 * (RUN + PAUSE) as usize);
    (tape, daemon)
}

fn mark(number: usize, variant: &str, ended_at: jiff::Timestamp) -> JobCommand {
    let label = (!variant.is_empty()).then(|| JobLabel {
        set: "chunk sizes".into(),
        variant: Some(variant.into()),
        repeat: Some(number as u32 % 5 + 1),
    });
    JobCommand::Mark(Mark {
        key: format!("mark:{number}"),
        kind: MarkKind::Command,
        name: "dd".into(),
        label,
        started_at: ended_at - SignedDuration::from_secs(RUN as i64),
        end: Some(MarkEnd {
            at: ended_at,
            succeeded: number != 3,
            status: None,
            failure: None,
        }),
        process: None,
        is_backup: false,
    })
}

fn job(daemon: &Daemon, arguments: &[&str]) -> Said {
    let listen = format!("127.0.0.1:{}", daemon.port);
    said(
        cowbell()
            .arg("job")
            .args(arguments)
            .args(["--listen", &listen]),
    )
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected {part:?} in {text}");
    }
}

fn row<'a>(body: &'a Value, figure: &str) -> &'a Value {
    let rows = body["comparison"]["rows"].as_array().unwrap();
    rows.iter()
        .find(|row| row["figure"] == figure)
        .unwrap_or_else(|| panic!("{figure} in {body:#}"))
}

#[test]
fn a_set_is_compared_by_its_variants() {
    let (_tape, daemon) = experiment();
    let body = daemon.json("/api/v1/jobs/compare?set=chunk%20sizes");
    let names: Vec<&str> = body["comparison"]["sets"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|set| set["name"].as_str())
        .collect();
    assert_eq!(names, ["64k", "4k"]);
    let speed = row(&body, "read speed mean");
    let mib = |value: &Value| value.as_f64().unwrap() / f64::from(1 << 20);
    assert_eq!(
        mib(&speed["cells"][0]["moments"]["mean"]).round(),
        36.0,
        "{speed:#}"
    );
    assert_eq!(speed["cells"][1]["moments"]["n"], 5);
    assert_eq!(speed["cells"][1]["ratio"]["difference"], "larger");
    assert!(
        speed["cells"][1]["ratio"]["bounds"]["low"]
            .as_f64()
            .unwrap()
            > 1.0
    );
    has(
        &body["sentences"].to_string(),
        &["Run 1 (job 1), the first of 64k, was much slower"],
    );
    assert_eq!(
        row(&body, "duration")["cells"][1]["ratio"]["difference"],
        "not_seen"
    );
}

#[test]
fn figures_that_are_zero_everywhere_are_left_out_for_people_alone() {
    let (_tape, daemon) = experiment();
    let body = daemon.json("/api/v1/jobs/compare?set=chunk%20sizes");
    let is_zero = |row: &&Value| {
        row["cells"]
            .as_array()
            .unwrap()
            .iter()
            .all(|cell| cell["moments"]["mean"] == 0.0)
    };
    let rows = body["comparison"]["rows"].as_array().unwrap();
    let zeros: Vec<&str> = rows
        .iter()
        .filter(is_zero)
        .filter_map(|row| row["figure"].as_str())
        .collect();
    assert!(!zeros.is_empty() && zeros.len() < rows.len(), "{body:#}");
    let page = daemon.get("/jobs/compare?set=chunk%20sizes");
    let set = |more: &[&str]| {
        job(
            &daemon,
            &[&["compare", "--set", "chunk sizes"], more].concat(),
        )
        .out
    };
    let (text, csv) = (set(&[]), set(&["--csv"]));
    for name in zeros {
        assert!(!page.body.contains(&format!(">{name}</th>")), "{name}");
        assert!(
            !text
                .lines()
                .any(|line| line.starts_with(&format!("{name}  "))),
            "{text}"
        );
        has(&csv, &[&format!("\n{name},")]);
        has(&set(&["--figure", name]), &[&format!("\n{name}  ")]);
    }
}

#[test]
fn jobs_that_share_no_set_stand_for_themselves() {
    let (_tape, daemon) = experiment();
    let body = daemon.json("/api/v1/jobs/compare?ids=11,2,4");
    let sets = &body["comparison"]["sets"];
    assert_eq!(
        (&sets[0]["name"], &sets[1]["name"]),
        (&"dd (job 11)".into(), &"chunk sizes: 64k".into())
    );
    assert_eq!((&sets[0]["runs"], &sets[1]["runs"]), (&1.into(), &2.into()));
    let ratio = &row(&body, "read speed mean")["cells"][1]["ratio"];
    assert_eq!(
        (
            ratio["ratio"].as_f64().unwrap().round(),
            &ratio["difference"]
        ),
        (4.0, &"one_run".into())
    );
    let differences = &body["comparison"]["other_differences"];
    assert_eq!(differences[0]["fact"], "how it ended");
    assert_eq!(
        differences[0]["values"],
        serde_json::json!([["succeeded"], ["succeeded", "failed"]])
    );
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_sentence() {
    let (_tape, daemon) = experiment();
    let many: Vec<String> = (1..=65).map(|id| id.to_string()).collect();
    let many = format!("/api/v1/jobs/compare?ids={}", many.join(","));
    for (target, status, part) in [
        (
            "/api/v1/jobs/compare",
            400,
            "expected IDs of jobs such as `ids=3,4`",
        ),
        (
            "/api/v1/jobs/compare?ids=1,nightly",
            400,
            "but found `nightly`",
        ),
        (
            "/api/v1/jobs/compare?ids=1",
            400,
            "expected two jobs or more",
        ),
        ("/api/v1/jobs/compare?ids=1,77", 404, "there is no job 77"),
        (
            "/api/v1/jobs/compare?set=none",
            404,
            "belongs to a set `none`",
        ),
        (
            &many,
            400,
            "expected at most 64 jobs to compare, but found 65",
        ),
    ] {
        let refused = daemon.get(target);
        assert_eq!(refused.status, status, "{target}: {refused:?}");
        has(&refused.sentence(), &[part]);
    }
}

#[test]
fn the_command_prints_a_comparison_in_every_form() {
    let (_tape, daemon) = experiment();
    let text = job(&daemon, &["compare", "--set", "chunk sizes"]);
    assert_eq!((text.code, &*text.err), (Some(0), ""), "{text:?}");
    has(
        &text.out,
        &[
            "Figure",
            "64k, 5 runs",
            "4k, 5 runs",
            "not significant",
            "caches may have been cold",
        ],
    );
    has(&text.out, &["What differs besides", "how it ended"]);
    let markdown = job(&daemon, &["compare", "1", "11", "--markdown"]);
    has(
        &markdown.out,
        &["| Figure | chunk sizes: 64k, 1 run | dd (job 11), 1 run | Ratio |"],
    );
    let csv = job(&daemon, &["compare", "1", "11", "--csv"]);
    has(
        &csv.out,
        &["figure,unit,set,runs", "read speed mean,B/s,dd (job 11),1,"],
    );
    let json: Value =
        serde_json::from_str(&job(&daemon, &["compare", "1", "11", "--json"]).out).unwrap();
    assert_eq!(json["jobs"][1]["id"], 11);
    let none = job(&daemon, &["compare"]);
    assert_eq!(none.code, Some(2), "{none:?}");
}

#[test]
fn the_page_lays_runs_over_each_other_and_says_what_differs() {
    let (_tape, daemon) = experiment();
    let page = daemon.get("/jobs/compare?set=chunk%20sizes");
    assert_eq!(page.status, 200, "{page:?}");
    has(
        &page.body,
        &[
            "<h1>chunk sizes</h1>",
            "<caption>Figures",
            "64k, 5 runs",
            "min:s",
            "Read from all disks",
        ],
    );
    has(
        &page.body,
        &[
            "not significant",
            "What differs besides",
            "caches may have been cold",
        ],
    );
    assert_eq!(
        page.body.matches("class=\"line k1\"").count(),
        10,
        "five runs in two charts"
    );
    assert!(
        !page.body.contains("peak fill"),
        "what is unknown of all is no row"
    );
    let refused = daemon.get("/jobs/compare?id=1");
    assert_eq!(refused.status, 400);
    has(&refused.body, &["Expected two jobs or more to compare"]);
}

#[test]
fn jobs_are_chosen_on_a_page_without_a_script() {
    let (_tape, daemon) = experiment();
    has(
        &daemon.get("/jobs?from=2026-03-01T00:00:00Z").body,
        &["<a href=\"/jobs/compare\">Compare jobs</a>"],
    );
    let page = daemon.get("/jobs/compare").body;
    has(
        &page,
        &[
            "<form action=\"/jobs/compare\" method=\"get\">",
            "name=\"id\" value=\"11\"",
        ],
    );
    has(
        &page,
        &["<a href=\"/jobs/compare?set=chunk%20sizes\">chunk sizes</a>"],
    );
    let job = daemon.get("/jobs/4").body;
    has(
        &job,
        &["/jobs/compare?ids=3,4", "compare the runs of chunk sizes"],
    );
}

#[test]
fn a_report_is_one_file_that_needs_nothing_else() {
    let (_tape, daemon) = experiment();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chunks.html");
    let path = file.to_str().unwrap();
    let made = job(&daemon, &["report", "--set", "chunk sizes", "-o", path]);
    assert_eq!(
        (made.code, &*made.out),
        (Some(0), &*format!("{path} is written\n")),
        "{made:?}"
    );
    let html = std::fs::read_to_string(&file).unwrap();
    has(
        &html,
        &[
            "<title>chunk sizes · lab · cowbell</title>",
            "<caption>Figures",
            "<svg class=\"chart\"",
            "--k1:",
        ],
    );
    has(&html, &["color-scheme: light dark", "default-src 'none'"]);
    for part in ["<script", "href=", "src=", "url(", "@import"] {
        assert!(!html.contains(part), "{part} in the report");
    }
    let again = job(&daemon, &["report", "1", "-o", path]);
    assert_eq!(again.code, Some(1));
    has(&again.err, &["exists and is not overwritten"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), html);
}

#[test]
fn a_report_of_one_job_tells_what_its_page_does() {
    let (_tape, daemon) = experiment();
    let report = daemon.get("/api/v1/jobs/report?ids=2");
    assert_eq!(report.status, 200, "{report:?}");
    has(
        &report.head.to_lowercase(),
        &["content-security-policy: default-src 'none'"],
    );
    has(
        &report.body,
        &[
            "dd (job 2)",
            ">Cost</h2>",
            "Host and setup",
            "While it ran",
            "Throughput of all disks",
        ],
    );
    assert!(
        !report.body.contains("<caption>Figures"),
        "one job is compared with none"
    );
    let several = daemon.get("/api/v1/jobs/report?ids=2,11").body;
    has(&several, &["<caption>Figures", ">Cost</h2>"]);
    assert_eq!(several.matches("<section class=\"report\">").count(), 3);
    assert_eq!(daemon.get("/api/v1/jobs/report?ids=77").status, 404);
    assert_eq!(
        daemon
            .get("/jobs")
            .head
            .matches("default-src 'self'")
            .count(),
        1,
        "pages have their own policy"
    );
}

/// The numbers of the first chart of a page.
fn first_chart(page: &str) -> Value {
    let (_, rest) = page.split_once("<metadata>").expect(page);
    serde_json::from_str(rest.split_once("</metadata>").unwrap().0).unwrap()
}

fn labels(chart: &Value) -> Vec<&str> {
    let lines = chart["lines"].as_array().unwrap();
    lines
        .iter()
        .filter_map(|line| line["label"].as_str())
        .collect()
}

#[test]
fn the_chart_of_a_job_shows_the_previous_run_too() {
    let (_tape, daemon) = experiment();
    let alone = daemon.get("/jobs/2").body;
    has(&alone, &["href=\"?previous=shown\">with the previous run<"]);
    assert_eq!(labels(&first_chart(&alone)), ["read", "written"]);
    let chart = first_chart(&daemon.get("/jobs/2?previous=shown").body);
    let labels = labels(&chart);
    assert_eq!(labels[..2], ["read", "written"]);
    assert!(
        labels[2].starts_with("read, ") && labels[3].starts_with("written, "),
        "{labels:?}"
    );
    // Both run at the same seconds, the second one twice as fast: the numbers have one decimal.
    let rows = chart["rows"].as_array().unwrap();
    let both: Vec<(i64, i64)> = rows
        .chunks(5)
        .filter_map(|row| Some((row[1].as_i64()?, row[3].as_i64()?)))
        .filter(|(read, _)| *read == 410)
        .collect();
    assert!(both.len() >= RUN as usize - 2, "{rows:?}");
    assert!(both.iter().all(|(_, earlier)| *earlier == 200), "{both:?}");
    let first = daemon.get("/jobs/1").body;
    assert!(!first.contains("previous=shown"), "it has no previous run");
}

#[test]
fn a_legend_ends_with_the_last_tick_and_not_with_the_mean_of_a_point() {
    let mut tape = Tape::new(Duration::from_secs(1));
    let mut read = 0;
    for second in 0..600 {
        tape.tick(Snapshot::Absent, Done::sectors(read, 0), Done::default());
        read += if second == 598 { 64 * MIB } else { 2 * MIB };
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(600);
    let page = daemon.get("/status?width=240&from=-599s").body;
    has(&page, &["read<b>64.00 MiB/s</b>"]);
}
