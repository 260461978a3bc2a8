//! Names with every letter that LVM, the kernel and the labels of jobs allow: each is shown as it is written, and none
//! becomes markup, a formula, a header, a path or a command to the terminal.

use std::time::Duration;

use cowbell::commands::{JobCommand, JobLabel, Mark, MarkEnd, MarkKind};
use cowbell::source::{Part, PartReading, ReadResult, Reading};
use jiff::SignedDuration;
use serde_json::Value;

use crate::daemon::{Daemon, Start, cowbell, said};
use crate::machine::{Done, line};
use crate::metrics::{samples, value};
use crate::tape::{BEGIN, Tape};

/// LVM's letters; a name may begin with a plus.
const VG: &str = "+vg.0_a-b";
const LV: &str = "+lv.0_a-b";
/// The kernel's: a slash from an old driver, and what `dmsetup create` takes.
const OLD_DISK: &str = "cciss/c0d0";
const MAPPED: &str = "=cmd|'<img/src=x>\"&%#?;";
/// A job's: all but control characters.
const JOB: &str = "=HYPERLINK(\"<img src=x onerror=alert(1)>\")'&%#?;`|../";
const SET: &str = "@SUM(1)<svg/onload=alert(2)>";
const VARIANT: &str = "-1+\"</script><b>";

fn machine(tick: u64) -> (String, String, String) {
    let done = Done::sectors(tick * 2_048, tick * 1_024);
    let names = [
        ("8:0", "sda", ""),
        ("104:0", "cciss!c0d0", ""),
        ("253:0", "dm-0", "lvm"),
        ("253:1", "dm-1", ""),
    ];
    let uuid = format!("LVM-{}{}", "V".repeat(32), "L".repeat(32));
    let mapper_name = format!("{}-{}", VG.replace('-', "--"), LV.replace('-', "--"));
    let sysfs = names.map(|(number, name, kind)| {
        let mapped = match (kind, name) {
            ("lvm", _) => {
                format!(
                    "{name}/dm/name\t{mapper_name}\n{name}/dm/uuid\t{uuid}\n{name}/slaves\tsda\n"
                )
            }
            (_, "dm-1") => format!("{name}/dm/name\t{MAPPED}\n{name}/slaves\tsda\n"),
            _ => format!("{name}/slaves\t\n"),
        };
        format!("{name}/dev\t{number}\n{name}/size\t4194304\n{mapped}")
    });
    let numbers = [
        ((8, 0), "sda"),
        ((104, 0), OLD_DISK),
        ((253, 0), "dm-0"),
        ((253, 1), "dm-1"),
    ];
    let diskstats = numbers
        .map(|(number, name)| line(number, name, done))
        .concat();
    let mapper = format!(
        "253:0\t{mapper_name}\t{uuid}\tactive\n\tstatus 0 614400 snapshot 13000/130000 16\n253:1\t{MAPPED}\t\tactive\n\
         \tstatus 0 614400 linear \n"
    );
    (diskstats, sysfs.concat(), mapper)
}

fn job(number: u64) -> JobCommand {
    let started_at = BEGIN + SignedDuration::from_secs(2);
    JobCommand::Mark(Mark {
        is_backup: false,
        key: format!("mark:{number}"),
        kind: MarkKind::Command,
        name: JOB.into(),
        label: Some(JobLabel {
            set: SET.into(),
            variant: Some(format!("{VARIANT}{number}")),
            repeat: Some(1),
        }),
        started_at,
        end: Some(MarkEnd {
            at: started_at + SignedDuration::from_secs(20),
            succeeded: true,
            status: None,
            failure: None,
        }),
        process: None,
    })
}

fn playing() -> (Tape, Daemon) {
    let mut tape = Tape::new(Duration::from_secs(1));
    for tick in 0..30 {
        let (diskstats, sysfs, mapper) = machine(tick);
        let reading: &mut Reading = tape.bare_tick(&diskstats, &sysfs);
        reading.texts.push(PartReading {
            part: Part::Dm,
            result: ReadResult::Text(mapper),
            took_us: 10,
        });
        if tick == 25 {
            reading.commands.extend([job(1), job(2)]);
        }
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(30);
    (tape, daemon)
}

fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter {
        '<' | '>' | '&' | '"' | '\'' => format!("&#{};", letter as u32),
        _ => letter.to_string(),
    };
    text.chars().map(escape).collect()
}

fn out(daemon: &Daemon, arguments: &[&str]) -> String {
    let mut command = cowbell();
    let found = said(match arguments[0] {
        "export" => command.args(arguments).arg("--db").arg(&daemon.db),
        _ => command
            .args(arguments)
            .args(["--listen", &format!("127.0.0.1:{}", daemon.port)]),
    });
    assert!(found.err.is_empty(), "{arguments:?}: {found:?}");
    found.out
}

fn pages(daemon: &Daemon) -> Vec<(String, String)> {
    let mut targets: Vec<String> = [
        "/",
        "/volumes",
        "/devices?unused=shown",
        "/jobs?from=2026-03-01T00:00:00Z",
        "/alerts",
        "/status",
        "/jobs/2",
        "/jobs/compare",
        "/jobs/compare?ids=2,3",
        "/api/v1/jobs/report?ids=2,3",
    ]
    .map(String::from)
    .into();
    let devices = daemon.json("/api/v1/devices");
    let device = |device: &Value| {
        format!(
            "/devices/{}",
            device["device"].as_str().unwrap().replace('/', "%2F")
        )
    };
    targets.extend(devices.as_array().unwrap().iter().map(device));
    targets.push(format!(
        "/volumes/{}/{}",
        VG.replace('+', "%2B"),
        LV.replace('+', "%2B")
    ));
    let page = |target: String| {
        let answer = daemon.get(&target);
        assert_eq!(answer.status, 200, "{target}: {answer:?}");
        (target, answer.body)
    };
    targets.into_iter().map(page).collect()
}

#[test]
fn names_are_text_in_html_and_svg() {
    let (_tape, daemon) = playing();
    let pages = pages(&daemon);
    for (target, body) in &pages {
        for markup in [
            "<img src=x",
            "<img/",
            "onerror=alert(1)>",
            "<svg/",
            "</script><b>",
        ] {
            assert!(!body.contains(markup), "{markup} in {target}: {body}");
        }
    }
    let volume = format!("{VG}/{LV}");
    for (target, name) in [
        ("/", &*volume),
        ("/volumes", LV),
        ("/devices?unused=shown", OLD_DISK),
        ("/devices?unused=shown", MAPPED),
        ("/jobs?from=2026-03-01T00:00:00Z", JOB),
        ("/jobs/2", JOB),
        ("/jobs?from=2026-03-01T00:00:00Z", SET),
        ("/jobs/compare?ids=2,3", VARIANT),
        ("/api/v1/jobs/report?ids=2,3", JOB),
    ] {
        let (_, body) = pages.iter().find(|(page, _)| page == target).unwrap();
        assert!(
            body.replace("<wbr>", "").contains(&escaped(name)),
            "expected {name} in {target}: {body}"
        );
    }
    let (_, job) = pages.iter().find(|(page, _)| page == "/jobs/2").unwrap();
    let charts: Vec<&str> = job
        .split("<svg")
        .skip(1)
        .filter_map(|rest| rest.split("</svg>").next())
        .collect();
    let entities = [
        ("&#60;", "&lt;"),
        ("&#62;", "&gt;"),
        ("&#34;", "&quot;"),
        ("&#38;", "&amp;"),
    ];
    let name = entities
        .iter()
        .fold(escaped(JOB), |text, (number, entity)| {
            text.replace(number, entity)
        });
    assert!(
        charts.iter().any(|svg| svg.contains(&name)),
        "a job's span is named: {charts:?}"
    );
}

#[test]
fn no_field_of_csv_is_a_formula() {
    let (_tape, daemon) = playing();
    let volume = format!("volume:{VG}/{LV}");
    for text in [
        out(&daemon, &["export", "--of", &volume]),
        out(&daemon, &["export"]),
        out(&daemon, &["job", "compare", "2", "3", "--csv"]),
    ] {
        let mut rows = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(text.as_bytes());
        for field in rows
            .records()
            .flat_map(|row| row.unwrap().iter().map(String::from).collect::<Vec<_>>())
        {
            let is_number = field.parse::<f64>().is_ok();
            assert!(
                is_number || !field.starts_with(['=', '+', '-', '@', '\t', '\r']),
                "{field}: {text}"
            );
        }
    }
    assert!(out(&daemon, &["export", "--of", &volume]).contains(&format!(",'{VG}/{LV},")));
}

#[test]
fn names_are_no_headers_and_lead_nowhere() {
    let (_tape, daemon) = playing();
    for target in [
        "/jobs?from=%0d%0aX-Evil:%201".to_string(),
        "/api/v1/jobs?from=-1d&name=%0d%0aX-Evil:%201".into(),
        "/api/v1/jobs?from=2026-03-01T00:00:00Z&limit=1&name=%0d%0aX-Evil:%201".into(),
        "/devices/x%0d%0aX-Evil:%201".into(),
        "/api/v1/jobs/compare?ids=2,3".into(),
        "/api/v1/jobs/report?ids=2,3".into(),
        format!(
            "/volumes/{}/{}",
            VG.replace('+', "%2B"),
            LV.replace('+', "%2B")
        ),
    ] {
        let answer = daemon.get(&target);
        let head = answer.head.to_ascii_lowercase();
        assert!(
            answer.status < 500 && !head.contains("\nx-evil"),
            "{target}: {head}"
        );
        assert!(
            head.is_ascii() && !head.contains("<img"),
            "{target}: {head}"
        );
    }
    let found = said(
        cowbell()
            .args([
                "job",
                "export",
                "2",
                "-o",
                "job.json",
                "--listen",
                &format!("127.0.0.1:{}", daemon.port),
            ])
            .current_dir(daemon.folder.path()),
    );
    assert_eq!(found.out, "job.json is written\n", "{found:?}");
}

#[test]
fn names_do_not_command_the_terminal() {
    let (_tape, daemon) = playing();
    for arguments in [
        &["status"][..],
        &["job", "list", "--from", "2026-03-01T00:00:00Z"],
        &["job", "show", "2"],
        &["job", "show", "2", "--markdown"],
        &["job", "compare", "2", "3"],
        &["alert", "list"],
    ] {
        let mut command = cowbell();
        let found = said(
            command
                .args(arguments)
                .args(["--listen", &format!("127.0.0.1:{}", daemon.port)]),
        );
        let text = found.out + &found.err;
        assert!(
            !text.contains(|letter: char| letter.is_control() && letter != '\n'),
            "{arguments:?}: {text:?}"
        );
        if arguments[0] == "job" && !arguments.contains(&"--markdown") && arguments[1] != "compare"
        {
            assert!(text.contains(JOB), "{arguments:?}: {text}");
        }
    }
}

#[test]
fn a_disk_that_is_gone_has_its_history_and_one_that_never_was_has_none() {
    let mut tape = Tape::new(Duration::from_secs(1));
    let names = |disk: &str| format!("sda/dev\t8:0\nsda/serial\tA\nsda/slaves\t\n{disk}");
    for tick in 0..10 {
        let steady = line((8, 0), "sda", Done::sectors(tick * 2_048, 0));
        let other = line((8, 16), "sdb", Done::sectors(tick * 2_048, 0));
        match tick {
            0..5 => tape.bare_tick(
                &(steady + &other),
                &names("sdb/dev\t8:16\nsdb/serial\tB\nsdb/slaves\t\n"),
            ),
            _ => tape.bare_tick(&steady, &names("")),
        };
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(10);
    let page = |target: &str| daemon.get(target);
    let gone = page("/devices/sdb");
    assert!(
        gone.status == 200 && gone.body.contains("Its history remains."),
        "{gone:?}"
    );
    assert!(gone.body.contains("class=\"line"), "{gone:?}");
    for (target, status, sentence) in [
        (
            "/devices/sdz",
            404,
            "No device called sdz was ever seen here",
        ),
        ("/volumes/vg0/none", 404, "vg0/none"),
        ("/devices/sda?from=yesterday", 400, "yesterday"),
        ("/?from=2026-02-30T00:00:00Z", 400, "2026-02-30"),
        ("/devices/sdb?from=-1h&to=-2h", 400, "before"),
    ] {
        let refused = page(target);
        assert!(
            refused.status == status && refused.body.contains(sentence),
            "{target}: {refused:?}"
        );
    }
}

#[test]
fn a_group_that_is_gone_has_its_history_and_one_that_never_was_has_none() {
    let mut tape = Tape::new(Duration::from_secs(1));
    let sda = "sda/dev\t8:0\nsda/serial\tA\nsda/slaves\t\n";
    let uuid = format!("LVM-{}{}", "V".repeat(32), "L".repeat(32));
    let volume = format!(
        "dm-0/dev\t253:0\ndm-0/dm/name\told-data\ndm-0/dm/uuid\t{uuid}\ndm-0/slaves\tsda\n"
    );
    for tick in 0..10 {
        let done = Done::sectors(tick * 2_048, 0);
        let steady = line((8, 0), "sda", done);
        match tick {
            0..5 => tape.bare_tick(
                &(steady + &line((253, 0), "dm-0", done)),
                &format!("{sda}{volume}"),
            ),
            _ => tape.bare_tick(&steady, sda),
        };
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(10);
    let gone = daemon.get("/groups/old");
    assert!(
        gone.status == 200 && gone.body.contains("Its history remains."),
        "{gone:?}"
    );
    for part in [
        "class=\"line",
        "Read, by volume",
        "href=\"/volumes/old/data\"",
    ] {
        assert!(gone.body.contains(part), "{part}: {gone:?}");
    }
    let never = daemon.get("/groups/none");
    assert!(
        never.status == 404
            && never
                .body
                .contains("No volume group called none was ever seen here")
    );
}

#[test]
fn names_are_labels_of_metrics_as_they_are() {
    let (_tape, daemon) = playing();
    let samples = samples(&daemon.get("/metrics").body);
    let read = |labels: &[(&str, &str)]| value(&samples, "cowbell_device_read_bytes_total", labels);
    assert!(read(&[("device", OLD_DISK)]).is_some());
    assert!(read(&[("uuid", &format!("dm:{MAPPED}"))]).is_some());
    assert!(read(&[("vg", VG), ("lv", LV)]).is_some());
    let fill = value(
        &samples,
        "cowbell_volume_fill_ratio",
        &[("vg", VG), ("lv", LV)],
    );
    assert_eq!(fill, Some(0.1));
}
