//! Asks LVM for its own report: what the kernel does not know, such as free space, origins and inactive volumes.
//!
//! The question reads every PV and takes locks, so it is put rarely, refuses to wait for locks, has a time limit, and
//! runs beside everything else: a child that cannot be killed costs nothing but a report that is missing.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// After this long the report is given up.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// A report longer than this is refused; a host with thousands of volumes stays far below.
const LONGEST_REPORT: usize = 32 * 1024 * 1024;
/// What LVM said on standard error is quoted up to this length.
const LONGEST_COMPLAINT: u64 = 400;

/// Settings that make the report the same whatever the administrator's `lvm.conf` says.
const SETTINGS: &str = "global{wait_for_locks=0 units=\"b\" suffix=0} report{compact_output=0 \
    compact_output_cols=\"\" binary_values_as_numeric=1 time_format=\"%s\" mark_hidden_devices=0 \
    list_item_separator=\",\"} log{report_command_log=0 syslog=0 verbose=0 prefix=\"\"} \
    devices{ignore_suspended_devices=1}";

const FIELDS: [(&str, &str); 4] = [
    ("vg", "vg_name,vg_uuid,vg_size,vg_free,vg_extent_size,vg_missing_pv_count"),
    ("pv", "pv_name,pv_size,pv_free,pv_major,pv_minor"),
    (
        "lv",
        "lv_name,lv_uuid,lv_attr,lv_size,origin,pool_lv,data_percent,metadata_percent,lv_health_status,lv_time",
    ),
    ("seg", "lv_uuid,segtype"),
];

/// Why there is no report.
pub enum NoReport {
    /// LVM is busy or did not answer: it can be asked again soon.
    NotNow(String),
    /// It will not be otherwise soon: no right, or no LVM.
    Never(String),
}

/// At most one question to LVM at a time.
#[derive(Default)]
pub struct Reporter {
    running: Option<JoinHandle<Result<String, NoReport>>>,
}

impl NoReport {
    pub fn sentence(self) -> String {
        match self {
            Self::NotNow(sentence) | Self::Never(sentence) => sentence,
        }
    }
}

impl Reporter {
    /// Puts the question, unless one is being answered.
    pub fn start(&mut self) {
        if self.running.is_none() {
            self.running = Some(tokio::spawn(report()));
        }
    }

    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// Waits for the answer; for ever while no question was put. May be dropped and called again.
    pub async fn answer(&mut self) -> Result<String, NoReport> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let answer = running.await.unwrap_or_else(|error| {
            Err(NoReport::NotNow(format!("the question to LVM ended early: {error}")))
        });
        self.running = None;
        answer
    }
}

async fn report() -> Result<String, NoReport> {
    if !rustix::process::geteuid().is_root() {
        let sentence = "LVM's own report needs root; names and throughput come without it";
        return Err(NoReport::Never(sentence.into()));
    }
    let mut child = command().spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            NoReport::Never("the program `lvm` is not installed: no LVM here, or install lvm2".into())
        }
        _ => NoReport::NotNow(format!("cannot run `lvm fullreport`: {error}")),
    })?;
    match tokio::time::timeout(TIME_LIMIT, collect(&mut child)).await {
        Ok(report) => report.map_err(NoReport::NotNow),
        Err(_) => {
            kill_group(&child);
            let sentence =
                format!("`lvm fullreport` gave no answer for {} s and was ended", TIME_LIMIT.as_secs());
            Err(NoReport::NotNow(sentence))
        }
    }
}

fn command() -> Command {
    let mut command = Command::new("lvm");
    command.args(["fullreport", "--reportformat", "json", "--config", SETTINGS]);
    for (report, fields) in FIELDS {
        command.args(["--configreport", report, "-o", fields]);
    }
    command
        .env_clear()
        .envs([("PATH", "/usr/sbin:/sbin:/usr/bin:/bin"), ("LC_ALL", "C"), ("LVM_SUPPRESS_FD_WARNINGS", "1")])
        .envs(std::env::var_os("LVM_SYSTEM_DIR").map(|dir| ("LVM_SYSTEM_DIR", dir)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}

async fn collect(child: &mut Child) -> Result<String, String> {
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("cannot read what `lvm fullreport` prints".into());
    };
    let (mut report, mut complaint) = (Vec::new(), Vec::new());
    let mut stdout = stdout.take(LONGEST_REPORT as u64);
    let mut said = stderr.take(LONGEST_COMPLAINT);
    let read = tokio::try_join!(stdout.read_to_end(&mut report), said.read_to_end(&mut complaint));
    read.map_err(|error| format!("cannot read what `lvm fullreport` prints: {error}"))?;
    if report.len() == LONGEST_REPORT {
        kill_group(child);
        return Err(format!("`lvm fullreport` printed more than {LONGEST_REPORT} bytes"));
    }
    // What is left of its complaints must not hold it up.
    let mut rest = said.into_inner();
    let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
    let status = child.wait().await.map_err(|error| format!("cannot wait for `lvm fullreport`: {error}"))?;
    if status.success() {
        return String::from_utf8(report)
            .map_err(|_| "`lvm fullreport` printed bytes that are no text".into());
    }
    let complaint = String::from_utf8_lossy(&complaint);
    Err(format!("`lvm fullreport` ended with {status}: {}", complaint.trim().replace('\n', "; ")))
}

fn kill_group(child: &Child) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended just now.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}
