//! A run of mylvmbackup for which LVM made no snapshot is a failed job of its own, and never one beside a snapshot's.

use cowbell::job::{Job, JobKind, Outcome};
use serde_json::json;

use crate::daemon::{Start, cowbell, said};
use crate::hooks::{ALIVE, BEFORE, GONE, NONE, Story, Watcher, phases, tape};
use crate::tape::{BEGIN, Snapshot};

/// As mylvmbackup goes on when lvcreate fails: the lock is given back, and then it cleans up.
const REFUSED: [(Snapshot, u32, &[&str]); 4] = [
    BEFORE,
    (NONE, 7, &["presnapshot vg0/data_snapshot"]),
    (NONE, 7, &["preunlock", "predisconnect", "precleanup"]),
    GONE,
];

fn jobs(story: Story) -> Vec<Job> {
    let watcher = Watcher::watched(story);
    let ended = watcher.book.ended().iter().map(|job| Job::clone(job));
    ended
        .chain(watcher.book.running().iter().cloned())
        .collect()
}

#[test]
fn a_run_whose_snapshot_could_not_be_made_is_a_failed_job_with_its_phases() {
    let found = jobs(&REFUSED);
    assert_eq!(found.len(), 1, "{found:#?}");
    let job = &found[0];
    assert_eq!(
        (job.kind, job.outcome, &*job.name),
        (JobKind::Snapshot, Some(Outcome::Failed), "data_snapshot")
    );
    assert_eq!(
        (job.vg.as_deref(), job.origin.as_deref()),
        (Some("vg0"), Some("data"))
    );
    assert_eq!(phases(job), "flush 0, snapshot 10, cleanup 20");
    assert_eq!(
        (
            job.started_at,
            job.ended_at.unwrap().as_second() - BEGIN.as_second()
        ),
        (BEGIN, 20)
    );
    assert!(job.made_no_snapshot());
}

#[test]
fn without_a_name_it_is_called_by_its_tool_and_of_nothing() {
    let nameless = [
        BEFORE,
        (NONE, 7, &["presnapshot"][..]),
        (NONE, 7, &["precleanup", "precleanup"]),
        GONE,
    ];
    let found = jobs(&nameless);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (&*found[0].name, &found[0].vg, &found[0].origin),
        ("mylvmbackup", &None, &None)
    );
}

#[test]
fn a_snapshot_that_somebody_makes_afterwards_is_another_job() {
    let [before, begun, failed, gone] = REFUSED;
    let found = jobs(&[before, begun, failed, (ALIVE, 0, &[]), gone]);
    let outcomes: Vec<_> = found
        .iter()
        .map(|job| (job.outcome, job.backup_run.is_some()))
        .collect();
    assert_eq!(
        outcomes,
        [
            (Some(Outcome::Failed), true),
            (Some(Outcome::Unknown), false)
        ]
    );
}

#[test]
fn a_snapshot_that_is_seen_with_its_runs_end_is_the_runs_and_there_is_no_second_job() {
    let all = &[
        "presnapshot",
        "preunlock",
        "predisconnect",
        "premount",
        "precleanup",
    ][..];
    let found = jobs(&[BEFORE, (ALIVE, 7, all), GONE]);
    let outcomes: Vec<_> = found.iter().map(|job| (job.outcome, phases(job))).collect();
    assert_eq!(
        outcomes,
        [(
            Some(Outcome::Failed),
            "flush 0, snapshot 10, mount 10, cleanup 10".to_string()
        )]
    );
}

#[test]
fn a_run_that_mounted_what_nobody_saw_is_waited_for_and_is_a_job_then() {
    let mounted = (NONE, 7, &["presnapshot", "premount", "precleanup"][..]);
    assert_eq!(jobs(&[BEFORE, mounted, GONE, GONE]).len(), 0);
    let found = jobs(&[BEFORE, mounted, GONE, GONE, GONE, GONE, GONE, GONE, GONE]);
    assert_eq!(
        found.iter().map(|job| job.outcome).collect::<Vec<_>>(),
        [Some(Outcome::Failed)]
    );
}

#[test]
fn what_was_heard_in_part_is_no_job_and_a_success_of_a_snapshot_that_nobody_saw_is_unknown() {
    assert_eq!(jobs(&[GONE, (NONE, 7, &["precleanup"]), GONE]).len(), 0);
    let done = (NONE, 7, &["presnapshot", "backupsuccess", "precleanup"][..]);
    let found = jobs(&[BEFORE, done, GONE, GONE, GONE, GONE, GONE, GONE, GONE]);
    assert_eq!(
        found.iter().map(|job| job.outcome).collect::<Vec<_>>(),
        [Some(Outcome::Unknown)]
    );
}

#[test]
fn page_list_and_command_line_say_that_no_snapshot_was_made_and_an_alert_is_raised() {
    let daemon = Start::playing(&tape(&REFUSED).saved(), "max").start();
    daemon.has_played(REFUSED.len());
    let jobs = daemon.json("/api/v1/jobs");
    assert_eq!(
        (jobs.as_array().unwrap().len(), &jobs[0]["outcome"]),
        (1, &json!("failed")),
        "{jobs}"
    );
    let alerts = daemon.json("/api/v1/alerts");
    assert_eq!(alerts[0]["rule"], "backup_failed");
    let sentence = alerts[0]["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("The backup of vg0/data failed")
            && sentence.contains("no snapshot was made")
    );
    let page = daemon.get("/jobs/1");
    for part in [
        "no snapshot was made",
        "made no snapshot vg0/data_snapshot of vg0/data",
        "Phases",
        "cleanup",
    ] {
        assert!(
            page.status == 200 && page.body.contains(part),
            "{part}: {}",
            page.body
        );
    }
    let listen = format!("127.0.0.1:{}", daemon.port);
    for form in [&[][..], &["--markdown"]] {
        let shown = said(
            cowbell()
                .args(["job", "show", "1", "--listen", &listen])
                .args(form),
        );
        assert!(
            shown.code == Some(0) && shown.out.contains("no snapshot was made"),
            "{shown:?}"
        );
    }
    let file = daemon.get("/api/v1/jobs/1/export").body;
    let (read, _) = cowbell::report::file::read(file.as_bytes(), jiff::Timestamp::now()).unwrap();
    assert!(
        read.made_no_snapshot(),
        "another host may take it in: {file}"
    );
    let list = said(cowbell().args(["job", "list", "--listen", &listen]));
    assert!(
        list.out.contains("data_snapshot") && list.out.contains("failed"),
        "{list:?}"
    );
}
