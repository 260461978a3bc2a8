//! Asks LVM for its own report: what the kernel does not know, such as free space, origins, tags and inactive volumes.
//!
//! The question reads every PV and takes locks, so it is put rarely, refuses to wait for locks, has a time limit, and
//! runs beside everything else: a child that cannot be killed costs nothing but a report that is missing, and no other
//! is started beside it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// After this long a report is given up, and `lvm` is told to end.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// It has this long to end when it is told to, and again when it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// A report longer than this is refused: understanding it takes ten times as much memory. Four thousand volumes fit.
const LONGEST_REPORT: usize = 4 * 1024 * 1024;
/// What LVM said on standard error is quoted up to this length.
const LONGEST_COMPLAINT: u64 = 400;

/// Settings that make the report the same whatever the administrator's `lvm.conf` says.
const SETTINGS: &str = "global{wait_for_locks=0 units=\"b\" suffix=0} report{compact_output=0 \
    compact_output_cols=\"\" binary_values_as_numeric=1 time_format=\"%s\" mark_hidden_devices=0 \
    list_item_separator=\",\"} log{report_command_log=0 syslog=0 verbose=0 prefix=\"\"} \
    devices{ignore_suspended_devices=1}";

const FIELDS: [(&str, &str); 4] = [
    ("vg", "vg_name,vg_uuid,vg_size,vg_free,vg_extent_size,vg_missing_pv_count,vg_tags"),
    ("pv", "pv_name,pv_size,pv_free,pv_major,pv_minor,pv_missing"),
    (
        "lv",
        "lv_name,lv_uuid,lv_attr,lv_size,origin,pool_lv,data_percent,metadata_percent,copy_percent,\
         lv_health_status,lv_time,lv_tags,lv_when_full,lv_parent",
    ),
    ("seg", "lv_uuid,segtype,seg_start_pe,seg_size_pe,stripes,stripe_size,chunk_size,seg_pe_ranges"),
];

/// What decides whether LVM makes a volume larger before it is full.
const POLICIES: [&str; 5] = [
    "activation/monitoring",
    "activation/snapshot_autoextend_threshold",
    "activation/snapshot_autoextend_percent",
    "activation/thin_pool_autoextend_threshold",
    "activation/thin_pool_autoextend_percent",
];

/// The daemon that acts on them leaves its process number here.
const DMEVENTD: &str = "/run/dmeventd.pid";

/// What LVM said.
#[derive(Debug)]
pub struct Answer {
    /// The JSON of `lvm fullreport`.
    pub report: Result<String, NoReport>,
    /// What `lvmconfig` prints, and a line `dmeventd=running|absent`; `None` while that is as it was.
    pub policies: Option<Result<String, String>>,
}

/// Why there is no report.
#[derive(Debug)]
pub enum NoReport {
    /// LVM is busy or did not answer: it can be asked again soon.
    NotNow(String),
    /// It will not be otherwise soon: no right, or no LVM.
    Never(String),
}

impl NoReport {
    pub fn sentence(self) -> String {
        match self {
            Self::NotNow(sentence) | Self::Never(sentence) => sentence,
        }
    }
}

/// At most one question to LVM at a time.
pub struct Reporter {
    program: PathBuf,
    running: Option<JoinHandle<LvmAnswer>>,
    /// A child that even SIGKILL did not end: it waits in the kernel.
    undying: Option<Child>,
    /// When what decides the policies was last changed, as of the last time that they were asked for.
    policies_of: Option<PoliciesOf>,
}

/// An answer, and the child that is left of it.
struct LvmAnswer {
    answer: Answer,
    undying: Option<Child>,
}

impl Default for Reporter {
    fn default() -> Self {
        Self::of("lvm")
    }
}

impl Reporter {
    /// `program` stands in for `lvm`.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), running: None, undying: None, policies_of: None }
    }

    /// Puts the question, unless one is being answered.
    pub fn start(&mut self) {
        if self.is_busy() {
            return;
        }
        let changed = what_policies_follow_from();
        let asks_policies = self.policies_of != Some(changed);
        self.policies_of = Some(changed);
        self.running = Some(tokio::spawn(ask(self.program.clone(), asks_policies)));
    }

    /// Whether a child of an earlier question is still there.
    pub fn is_busy(&mut self) -> bool {
        let is_there = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        if self.undying.as_mut().is_some_and(|child| !is_there(child)) {
            self.undying = None;
        }
        self.running.is_some() || self.undying.is_some()
    }

    /// Waits for the answer; for ever while no question was put. May be dropped and called again.
    pub async fn answer(&mut self) -> Answer {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let asked = running.await.unwrap_or_else(|error| {
            let why = format!("the question to LVM ended early: {error}");
            LvmAnswer { answer: Answer { report: Err(NoReport::NotNow(why)), policies: None }, undying: None }
        });
        self.running = None;
        self.undying = asked.undying;
        if asked.answer.report.is_err() || matches!(asked.answer.policies, Some(Err(_))) {
            self.policies_of = None;
        }
        asked.answer
    }
}

async fn ask(program: PathBuf, asks_policies: bool) -> LvmAnswer {
    let mut arguments = vec!["fullreport", "-a", "--reportformat", "json", "--config", SETTINGS];
    for (report, fields) in FIELDS {
        arguments.extend(["--configreport", report, "-o", fields]);
    }
    let mut ran = run(&program, &arguments).await;
    let mut policies = None;
    if asks_policies && ran.said.is_ok() {
        let asked = run(&program, &[["config", "--type", "full"].as_slice(), &POLICIES].concat()).await;
        policies = Some(asked.said.map(with_dmeventd).map_err(NoReport::sentence));
        ran.undying = asked.undying;
    }
    LvmAnswer { answer: Answer { report: ran.said, policies }, undying: ran.undying }
}

/// The value of one setting as LVM has it, such as `activation/auto_set_activation_skip`.
pub async fn setting(key: &str) -> Result<String, String> {
    let said =
        run(Path::new("lvm"), &["config", "--type", "full", key]).await.said.map_err(NoReport::sentence)?;
    let value = said.trim().rsplit_once('=').map(|(_, value)| value.to_string());
    value.ok_or_else(|| format!("expected `…=value` from `lvm config`, but found {said:?}"))
}

/// What a child printed, and the child where it could not be ended.
struct ChildOutput {
    said: Result<String, NoReport>,
    undying: Option<Child>,
}

async fn run(program: &Path, arguments: &[&str]) -> ChildOutput {
    let not_now = |sentence: String| Err(NoReport::NotNow(sentence));
    if !rustix::process::geteuid().is_root() {
        let sentence = "LVM's own report needs root; names and throughput come without it";
        return ChildOutput { said: Err(NoReport::Never(sentence.into())), undying: None };
    }
    let name = format!("lvm {}", arguments[0]);
    let mut child = match command(program, arguments).spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let sentence = "the program `lvm` is not installed: no LVM here, or install lvm2";
            return ChildOutput { said: Err(NoReport::Never(sentence.into())), undying: None };
        }
        Err(error) => {
            return ChildOutput { said: not_now(format!("cannot run `{name}`: {error}")), undying: None };
        }
    };
    if let Ok(said) = tokio::time::timeout(TIME_LIMIT, collect(&name, &mut child)).await {
        return ChildOutput { said: said.map_err(NoReport::NotNow), undying: None };
    }
    let waited = TIME_LIMIT.as_secs();
    if has_ended(&mut child).await {
        return ChildOutput {
            said: not_now(format!("`{name}` gave no answer for {waited} s and was ended")),
            undying: None,
        };
    }
    let sentence = format!(
        "`{name}` gave no answer for {waited} s and cannot be ended: a disk below LVM does not answer; \
         it is asked again when that process is gone"
    );
    ChildOutput { said: not_now(sentence), undying: Some(child) }
}

/// Tells the child to end, then kills it; whether that helped.
async fn has_ended(child: &mut Child) -> bool {
    for signal in [Signal::TERM, Signal::KILL] {
        signal_group(child, signal);
        if tokio::time::timeout(GRACE, child.wait()).await.is_ok() {
            return true;
        }
    }
    false
}

fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs([("PATH", "/usr/sbin:/sbin:/usr/bin:/bin"), ("LC_ALL", "C"), ("LVM_SUPPRESS_FD_WARNINGS", "1")])
        .envs(std::env::var_os("LVM_SYSTEM_DIR").map(|dir| ("LVM_SYSTEM_DIR", dir)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}

async fn collect(name: &str, child: &mut Child) -> Result<String, String> {
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(format!("cannot read what `{name}` prints"));
    };
    let (mut report, mut complaint) = (Vec::new(), Vec::new());
    let mut stdout = stdout.take(LONGEST_REPORT as u64);
    let mut said = stderr.take(LONGEST_COMPLAINT);
    let cannot_read = |error| format!("cannot read what `{name}` prints: {error}");
    let reading = async {
        stdout.read_to_end(&mut report).await.map_err(cannot_read)?;
        if report.len() == LONGEST_REPORT {
            // Nobody takes the rest, so it would not end by itself.
            return Err(format!("`{name}` printed more than {LONGEST_REPORT} bytes"));
        }
        Ok(())
    };
    let listening = async {
        said.read_to_end(&mut complaint).await.map_err(cannot_read)?;
        // What is left of its complaints must not hold it up.
        tokio::io::copy(&mut said.into_inner(), &mut tokio::io::sink()).await.map_err(cannot_read)
    };
    tokio::try_join!(reading, listening)?;
    let status = child.wait().await.map_err(|error| format!("cannot wait for `{name}`: {error}"))?;
    if status.success() {
        return String::from_utf8(report).map_err(|_| format!("`{name}` printed bytes that are no text"));
    }
    let complaint = String::from_utf8_lossy(&complaint);
    Err(format!("`{name}` ended with {status}: {}", complaint.trim().replace('\n', "; ")))
}

fn signal_group(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended just now.
        let _ = kill_process_group(pid, signal);
    }
}

/// When LVM's two files were last changed, and whether dmeventd runs.
type PoliciesOf = ([Option<SystemTime>; 2], bool);

fn what_policies_follow_from() -> PoliciesOf {
    let folder = std::env::var_os("LVM_SYSTEM_DIR").map_or_else(|| PathBuf::from("/etc/lvm"), PathBuf::from);
    let changed = |name: &str| std::fs::metadata(folder.join(name)).and_then(|file| file.modified()).ok();
    ([changed("lvm.conf"), changed("lvmlocal.conf")], dmeventd_runs())
}

/// Its file stays when it is killed, so its process is looked for.
fn dmeventd_runs() -> bool {
    let pid = std::fs::read_to_string(DMEVENTD).unwrap_or_default();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.trim())).unwrap_or_default();
    name.trim() == "dmeventd"
}

fn with_dmeventd(policies: String) -> String {
    let state = if dmeventd_runs() { "running" } else { "absent" };
    format!("{policies}\ndmeventd={state}\n")
}
