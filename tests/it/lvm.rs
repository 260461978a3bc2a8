//! LVM on a bad day: a program that stands in for `lvm` and does what no honest one should. Each time there is a
//! sentence, the report from before still holds, and all else goes on.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use cowbell::interval::Interval;
use cowbell::source::lvm::{LvmError, LvmOutput, LvmQuery};
use cowbell::source::{Part, PartReading, ReadResult};
use cowbell::topology::State;
use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;

use crate::captured::Captured;
use crate::daemon::Start;
use crate::host::{Host, report, row};
use crate::observer::{Observer, complaint, reading, volume};
use crate::tape::{Snapshot, Tape};

/// What `lvm config` prints where nobody changed anything.
const POLICIES: &str = "monitoring=1\nsnapshot_autoextend_threshold=100\nsnapshot_autoextend_percent=20\n\
    thin_pool_autoextend_threshold=100\nthin_pool_autoextend_percent=20\n";

/// A shell script that stands in for `lvm`; it runs in a folder in which it finds a `report` and `policies`.
struct Lvm {
    folder: TempDir,
}

impl Lvm {
    /// Answers every question like this.
    fn doing(script: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("report"), good_report()).unwrap();
        fs::write(path("policies"), POLICIES).unwrap();
        let script = format!(
            "#!/bin/sh\ncd {}\necho \"$*\" >>asked\n{script}\n",
            folder.path().display()
        );
        fs::write(path("script"), script).unwrap();
        // Copied by another process: a file that this one has open for writing cannot be run.
        let copied = Command::new("install")
            .args(["-m", "755"])
            .args([path("script"), path("lvm")])
            .status();
        assert!(copied.unwrap().success());
        Self { folder }
    }

    /// Asked for the report it does this; asked for the configuration it answers as it should.
    fn reporting(script: &str) -> Self {
        Self::doing(&format!(
            "if [ $1 = config ]; then cat policies; elif [ $1 = systemid ]; then :; else {script}\nfi"
        ))
    }

    /// Asked for the configuration it does this; asked for the report it answers as it should.
    fn configured(script: &str) -> Self {
        Self::doing(&format!(
            "if [ $1 = fullreport ]; then cat report; else {script}\nfi"
        ))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn reporter(&self) -> LvmQuery {
        LvmQuery::of(self.path("lvm"))
    }

    async fn answer(&self) -> LvmOutput {
        answer_of(&mut self.reporter()).await
    }

    /// The first word of each question, in their order.
    fn asked(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.path("asked")).unwrap_or_default();
        asked
            .lines()
            .map(|line| line.split(' ').next().unwrap().to_string())
            .collect()
    }

    /// Whether the process that wrote its number into the file `pid` is there.
    fn is_running(&self) -> bool {
        let pid = fs::read_to_string(self.path("pid"))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
    }
}

async fn answer_of(reporter: &mut LvmQuery) -> LvmOutput {
    reporter.start();
    reporter.answer().await
}

fn said(answer: LvmOutput) -> ReadResult {
    answer.report.map_err(|error| error.sentence).into()
}

/// Whether questions are put at all: that needs root.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI is expected to run as root"
        );
        eprintln!("left out: LVM is asked by root alone");
    }
    is_root
}

fn good_report() -> String {
    let mut snap = row("snap", "swi-a-s---");
    snap["origin"] = "data".into();
    report(&[row("asleep", "-wi-------"), row("data", "owi-a-s---"), snap])
}

/// A host of which LVM has said everything once, and which goes on.
struct Watched {
    host: Host,
    observer: Observer,
    seconds: f64,
}

impl Watched {
    fn new() -> Self {
        let mut host = Host::new(&["sda"]);
        let real = host.add_origin("data", &["sda"], 614_400);
        host.add_snapshot("snap", &real, &["sda"], 130_000, "");
        let mut watched = Self {
            host,
            observer: Observer::default(),
            seconds: 0.0,
        };
        watched.tick(Some(ReadResult::Text(good_report())), None);
        watched
    }

    /// One more tick, in which the snapshot is fuller by a percent.
    fn tick(&mut self, lvm: Option<ReadResult>, config: Option<ReadResult>) -> Interval {
        self.seconds += 1.0;
        let used = 1300.0 * self.seconds;
        self.host.layer("snap", "").status = format!("snapshot {used}/130000 16");
        let mut texts = vec![
            (Part::Diskstats, ReadResult::Text(self.host.diskstats())),
            (Part::Sysfs, ReadResult::Text(self.host.names())),
            (Part::Dm, ReadResult::Text(self.host.device_mapper())),
        ];
        texts.extend(lvm.map(|said| (Part::Lvm, said)));
        texts.extend(config.map(|said| (Part::LvmConfig, said)));
        self.observer.observe(&reading(self.seconds, texts))
    }

    /// The sentence about what LVM said this time, after a look at all that should not have changed by it.
    fn sentence_after(&mut self, lvm: ReadResult) -> String {
        let interval = self.tick(Some(lvm), None);
        assert_eq!(
            names(&interval),
            ["asleep", "data", "snap"],
            "no volume disappears"
        );
        assert_eq!(volume(&interval, "asleep").1.state, State::Inactive);
        let (snap, state) = volume(&interval, "snap");
        assert!(
            snap.created_at.is_some(),
            "what LVM said before still holds"
        );
        assert_eq!(
            state.fill.map(|fill| fill.percent()),
            Some(self.seconds),
            "fills go on"
        );
        assert_eq!(
            interval.topology.group("vg0").and_then(|group| group.free),
            Some(1_073_741_824)
        );
        complaint(&self.observer, Part::Lvm)
            .unwrap_or("nothing")
            .to_string()
    }
}

fn names(interval: &Interval) -> Vec<&str> {
    interval
        .topology
        .volumes
        .iter()
        .map(|volume| volume.lv.as_str())
        .collect()
}

#[tokio::test]
async fn whatever_lvm_prints_there_is_a_sentence_and_all_else_goes_on() {
    if !is_root() {
        return;
    }
    let mut watched = Watched::new();
    for (script, expected) in [
        (
            "echo '?? what'",
            "cannot parse LVM's report: expected value at line 1 column 1; it begins with \"?? what\\n\"",
        ),
        (":", "expected a list named `report`"),
        (
            "echo",
            "cannot parse LVM's report: expected a list named `report`",
        ),
        (
            "head -c 300 report",
            "cannot parse LVM's report: EOF while parsing",
        ),
        (
            "echo '{}'",
            "cannot parse LVM's report: expected a list named `report`",
        ),
        (
            "echo '{\"report\":{}}'",
            "cannot parse LVM's report: expected a list named `report`",
        ),
        (
            "echo null",
            "cannot parse LVM's report: expected a list named `report`",
        ),
        (
            "echo '  WARNING: on the wrong side'; head -c 300 report",
            "it begins with \"  WARNING: on the wrong side\\n",
        ),
        (
            "printf '\\377\\376'",
            "`lvm fullreport` printed invalid UTF-8",
        ),
        (
            "head -c 41943040 /dev/zero",
            "`lvm fullreport` printed more than 4194304 bytes",
        ),
        (
            "head -c 35000000 /dev/zero >&2; head -c 41943040 /dev/zero",
            "`lvm fullreport` printed more than 4194304 bytes",
        ),
        (
            "echo 'It went wrong.' >&2; exit 1",
            "`lvm fullreport` failed (exit status: 1): It went wrong.",
        ),
        (
            "echo '  No such command.' >&2; exit 2",
            "(exit status: 2): No such command.",
        ),
        (
            "cat report; echo 'One.' >&2; echo 'Two.' >&2; exit 3",
            "(exit status: 3): One.; Two.",
        ),
        ("exit 4", "`lvm fullreport` failed (exit status: 4): "),
        (
            "cat report; exit 5",
            "`lvm fullreport` failed (exit status: 5): ",
        ),
        (
            "printf 'So \\377.' >&2; exit 5",
            "(exit status: 5): So \u{fffd}.",
        ),
        (
            "kill -9 $$",
            "`lvm fullreport` failed (signal: 9 (SIGKILL))",
        ),
    ] {
        let began = Instant::now();
        let sentence = watched.sentence_after(said(Lvm::reporting(script).answer().await));
        assert!(sentence.contains(expected), "{script}: {sentence}");
        assert!(
            began.elapsed() < Duration::from_secs(8),
            "{script} took {:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn a_complaint_is_quoted_up_to_a_limit() {
    if !is_root() {
        return;
    }
    let script = "head -c 10000000 /dev/zero | tr '\\0' 'x' >&2; exit 5";
    let sentence = Watched::new().sentence_after(said(Lvm::reporting(script).answer().await));
    assert!(
        sentence.contains("(exit status: 5): xxx") && sentence.len() < 600,
        "{}",
        sentence.len()
    );
}

#[tokio::test]
async fn warnings_beside_a_good_report_are_no_error() {
    if !is_root() {
        return;
    }
    let script =
        "echo '  WARNING: VG vg0 is missing PV X.' >&2; sed 's/asleep/awake/' report; exit 0";
    let answer = Lvm::reporting(script).answer().await;
    assert_eq!(
        answer
            .policies
            .map(|policies| policies.unwrap().starts_with("monitoring=1")),
        Some(true)
    );
    let mut watched = Watched::new();
    let interval = watched.tick(
        Some(answer.report.map_err(|error| error.sentence).into()),
        None,
    );
    assert_eq!(names(&interval), ["awake", "data", "snap"]);
    assert_eq!(complaint(&watched.observer, Part::Lvm), None);
}

/// Exit codes and complaints are those that real LVMs had for a lock, and for one who is not root; what they print
/// then looks like a report, and names too few volumes or none.
#[tokio::test]
async fn a_refusal_is_no_report_though_it_looks_like_one() {
    if !is_root() {
        return;
    }
    for machine in Captured::with_volumes() {
        for refusal in ["refused-locked", "refused-nonroot", "partial-fullreport"] {
            let Some(text) = machine.file(&format!("{refusal}.txt")) else {
                continue;
            };
            let json = machine.path(&format!("{refusal}.json"));
            let (status, complaint) = text.split_once('\n').unwrap();
            let complaints = complaint.replace('\'', "'\\''");
            let script = format!(
                "cat '{}'; printf '%s' '{complaints}' >&2; {status}",
                json.display()
            );
            let answer = Lvm::reporting(&script).answer().await;
            let what = format!("{} {refusal}", machine.name);
            if status == "exit 0" {
                assert!(
                    answer
                        .report
                        .is_ok_and(|report| report == fs::read_to_string(json).unwrap()),
                    "{what}"
                );
                continue;
            }
            assert!(
                matches!(
                    answer.report,
                    Err(LvmError {
                        is_temporary: true,
                        ..
                    })
                ),
                "{what}"
            );
            let sentence = Watched::new().sentence_after(said(answer));
            assert!(
                sentence.contains(&status.replace("exit", "exit status:")),
                "{what}: {sentence}"
            );
            assert!(
                sentence.contains(complaint.lines().next().unwrap().trim()),
                "{what}: {sentence}"
            );
        }
    }
}

#[tokio::test]
async fn without_lvm_there_is_a_sentence_that_says_so() {
    if !is_root() {
        return;
    }
    let answer = answer_of(&mut LvmQuery::of("/nowhere/at/all/lvm")).await;
    assert!(
        matches!(
            answer.report,
            Err(LvmError {
                is_temporary: false,
                ..
            })
        ),
        "{answer:?}"
    );
    assert!(answer.policies.is_none());
    let sentence = Watched::new().sentence_after(said(answer));
    assert_eq!(
        sentence,
        "`lvm` is not installed; install lvm2 if this host uses LVM"
    );

    let answer = answer_of(&mut LvmQuery::of("/etc/passwd")).await;
    let sentence = Watched::new().sentence_after(said(answer));
    assert!(
        sentence.starts_with("cannot run `lvm fullreport`: Permission denied"),
        "{sentence}"
    );
}

#[tokio::test]
async fn who_is_not_root_is_told_so() {
    if rustix::process::geteuid().is_root() {
        return eprintln!("left out: this runs as root");
    }
    let lvm = Lvm::reporting("cat report");
    let answer = lvm.answer().await;
    assert!(
        matches!(
            answer.report,
            Err(LvmError {
                is_temporary: false,
                ..
            })
        ),
        "{answer:?}"
    );
    let sentence = Watched::new().sentence_after(said(answer));
    assert_eq!(
        sentence,
        "LVM's report needs root; names and throughput do not"
    );
    assert_eq!(lvm.asked(), [""; 0], "nothing was run");
}

#[tokio::test]
async fn a_question_says_what_it_wants_whatever_this_environment_is() {
    if !is_root() {
        return;
    }
    let lvm = Lvm::reporting(
        "env >env; cat >stdin; for word in \"$@\"; do echo \"$word\"; done >words; cat report",
    );
    lvm.answer().await.report.unwrap();
    let read = |name: &str| fs::read_to_string(lvm.path(name)).unwrap();
    assert_eq!(read("stdin"), "", "it gets nothing to read");
    let words = read("words");
    for part in [
        "fullreport\n-a\n--reportformat\njson\n",
        "wait_for_locks=0",
        "units=\"b\"",
        "report_command_log=0",
    ] {
        assert!(words.contains(part), "{part:?} in {words}");
    }
    let of_the_shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    let env = read("env");
    let mut names: Vec<&str> = env
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    names.retain(|name| !of_the_shell.contains(name));
    names.sort();
    let own = ["LC_ALL", "LVM_SUPPRESS_FD_WARNINGS", "PATH"];
    assert!(
        names
            .iter()
            .all(|name| own.contains(name) || *name == "LVM_SYSTEM_DIR"),
        "{names:?}"
    );
    assert!(env.contains("LC_ALL=C\n"), "{env}");
    assert_eq!(lvm.asked(), ["fullreport", "config", "systemid"]);
}

#[tokio::test]
async fn one_question_is_put_at_a_time_and_the_configuration_is_asked_for_once() {
    if !is_root() {
        return;
    }
    let lvm = Lvm::reporting("sleep 0.2; cat report");
    let mut reporter = lvm.reporter();
    for expected in [true, false, false] {
        assert!(!reporter.is_busy());
        reporter.start();
        reporter.start();
        assert!(reporter.is_busy());
        // Whoever waits may do something else in between.
        assert!(
            tokio::time::timeout(Duration::from_millis(20), reporter.answer())
                .await
                .is_err()
        );
        let answer = reporter.answer().await;
        assert!(answer.report.is_ok(), "{answer:?}");
        assert_eq!(
            answer.policies.is_some(),
            expected,
            "they have not changed since"
        );
    }
    assert_eq!(
        lvm.asked(),
        [
            "fullreport",
            "config",
            "systemid",
            "fullreport",
            "fullreport"
        ]
    );
}

#[tokio::test]
async fn a_configuration_that_cannot_be_had_is_said_and_asked_for_again() {
    if !is_root() {
        return;
    }
    for (script, expected) in [
        (
            "echo 'No such type.' >&2; exit 3",
            "`lvm config` failed (exit status: 3): No such type.",
        ),
        ("printf '\\377'", "`lvm config` printed invalid UTF-8"),
        ("kill -9 $$", "`lvm config` failed (signal: 9 (SIGKILL))"),
    ] {
        let lvm = Lvm::configured(script);
        let mut reporter = lvm.reporter();
        for _ in 0..2 {
            let answer = answer_of(&mut reporter).await;
            assert!(answer.report.is_ok(), "{script}: {answer:?}");
            let error = answer.policies.expect("it was asked for").unwrap_err();
            assert!(error.contains(expected), "{script}: {error}");
        }
    }
}

#[tokio::test]
async fn a_configuration_that_says_nonsense_is_a_complaint_and_the_one_before_still_holds() {
    if !is_root() {
        return;
    }
    let mut watched = Watched::new();
    let good = Lvm::configured("cat policies").answer().await;
    let before = watched
        .tick(None, good.policies.map(ReadResult::from))
        .policies;
    assert!(
        before.is_some_and(|policies| policies.monitoring && policies.snapshot.threshold == 100)
    );
    for (script, expected) in [
        (":", "expected a line `monitoring=…`"),
        ("echo nonsense", "expected a line `monitoring=…`"),
        (
            "sed 's/=20/=many/' policies",
            "expected a number in `snapshot_autoextend_percent=many`",
        ),
        (
            "sed 's/=1$/=-1/' policies",
            "expected a number in `monitoring=-1`",
        ),
        (
            "sed '2d' policies",
            "expected a line `snapshot_autoextend_threshold=…`",
        ),
    ] {
        let answer = Lvm::configured(script).answer().await;
        let interval = watched.tick(None, answer.policies.map(ReadResult::from));
        let found = complaint(&watched.observer, Part::LvmConfig).unwrap_or("nothing");
        assert!(found.contains(expected), "{script}: {found}");
        assert_eq!(interval.policies, before, "{script}");
    }
}

/// All at the same time, since each is waited for until its limit.
#[tokio::test]
async fn an_lvm_that_does_not_answer_is_ended() {
    if !is_root() {
        return;
    }
    let sleeping = Lvm::reporting("echo $$ >pid; sleep 1000");
    let deaf = Lvm::reporting("echo $$ >pid; trap '' TERM; while :; do sleep 1; done");
    let mute = Lvm::reporting("echo $$ >pid; exec >&- 2>&-; sleep 1000");
    let talking = Lvm::reporting("echo $$ >pid; while echo; do sleep 0.2; done");
    let unconfigured = Lvm::configured("echo $$ >pid; sleep 1000");
    let mut reporter = sleeping.reporter();
    let began = Instant::now();
    let (asleep, deaf_one, mute_one, talking_one, unconfigured_one) = tokio::join!(
        answer_of(&mut reporter),
        deaf.answer(),
        mute.answer(),
        talking.answer(),
        unconfigured.answer()
    );
    assert!(
        (10.0..16.0).contains(&began.elapsed().as_secs_f64()),
        "{:?}",
        began.elapsed()
    );
    for (lvm, answer) in [
        (&sleeping, asleep),
        (&deaf, deaf_one),
        (&mute, mute_one),
        (&talking, talking_one),
    ] {
        assert!(
            matches!(
                answer.report,
                Err(LvmError {
                    is_temporary: true,
                    ..
                })
            ) && answer.policies.is_none(),
            "{answer:?}"
        );
        let sentence = Watched::new().sentence_after(said(answer));
        assert_eq!(
            sentence,
            "`lvm fullreport` did not answer for 10 s and was terminated"
        );
        assert!(!lvm.is_running());
    }
    let policies = unconfigured_one.policies.unwrap();
    assert_eq!(
        policies.unwrap_err(),
        "`lvm config` did not answer for 10 s and was terminated"
    );
    assert!(unconfigured_one.report.is_ok() && !unconfigured.is_running());
    assert!(!reporter.is_busy(), "it can be asked again");
}

#[test]
fn what_lvm_did_is_said_in_the_status_and_volumes_stay() {
    let mut tape = Tape::new(Duration::from_secs(1));
    for tick in 0..5 {
        let reading = tape.tick(
            Snapshot::Filled(10.0 + f64::from(tick)),
            Default::default(),
            Default::default(),
        );
        let said = match tick {
            0 => continue,
            1 => ReadResult::Text(r#"{"report":[{"vg":["#.into()),
            2 => ReadResult::Text("rubbish".into()),
            3 => ReadResult::Error(
                "`lvm fullreport` did not answer for 10 s and was terminated".into(),
            ),
            _ => ReadResult::Error(
                "`lvm fullreport` failed (exit status: 5): Can't get lock for vg0".into(),
            ),
        };
        reading.texts.push(PartReading {
            part: Part::Lvm,
            result: said,
            took_us: 10,
        });
    }
    let tape = tape.saved();
    let daemon = Start::playing(&tape, "max").start();
    daemon.has_played(5);
    let part = daemon.part("lvm");
    assert_eq!(
        (&part["ok"], part["last_ok_at"].is_string()),
        (&false.into(), true),
        "{part}"
    );
    assert!(
        part["error"]
            .as_str()
            .unwrap()
            .contains("Can't get lock for vg0"),
        "{part}"
    );
    let volumes = daemon.json("/api/v1/volumes");
    assert_eq!(volumes.as_array().unwrap().len(), 2, "{volumes}");
    assert_eq!(volumes[1]["fill_percent"].as_f64(), Some(14.0), "{volumes}");
    assert!(volumes[1]["created_at"].is_string(), "{volumes}");
    for part in ["diskstats", "dm", "sysfs", "vmstat"] {
        assert_eq!(daemon.part(part)["ok"], true, "{part}");
    }
    assert_eq!(
        daemon.json("/api/v1/jobs")[0]["ended_at"],
        serde_json::Value::Null,
        "the snapshot is there"
    );
}
