//! Queries LVM for data that the kernel lacks: free space, origins, tags and inactive volumes. A query reads every PV
//! and takes locks: it is rare, does not wait for locks, has a time limit, and runs beside the loop.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::files::unescaped;

/// Time limit of a query; `lvm` is terminated afterwards.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for the child to end after SIGTERM, and again after SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum length of a report, enough for four thousand volumes; parsing takes ten times as much memory.
const MAX_REPORT: usize = 4 * 1024 * 1024;
/// Maximum length of LVM's errors to quote.
const MAX_ERROR: u64 = 400;

/// Makes the report independent of the administrator's `lvm.conf`. A query may otherwise write: LVM repairs a missing backup
/// of the metadata, archives it, caches names of devices and updates its list of devices, all below `/etc/lvm`. Only its
/// test mode prevents the last. It still writes hints below `/run/lvm`, which spare it reading every disk.
const SETTINGS: &str = "global{wait_for_locks=0 units=\"b\" suffix=0 test=1} backup{backup=0 archive=0} report{compact_output=0 \
    compact_output_cols=\"\" binary_values_as_numeric=1 time_format=\"%s\" mark_hidden_devices=0 two_word_unknown_device=0 \
    list_item_separator=\",\" quoted=1 prefixes=0 headings=1 buffered=1 aligned=1 columns_as_rows=0 separator=\" \"} \
    log{report_command_log=0 syslog=0 verbose=0 prefix=\"\" command_names=0} \
    devices{ignore_suspended_devices=1 write_cache_state=0} activation{monitoring=1}";
/// What LVM says while another command changes a group. That takes less than a second, so cowbell asks again before it
/// says that it knows nothing.
const LOCKED: &str = "Can't get lock for";
const LOCK_TRIES: usize = 6;
const LOCK_PAUSE: Duration = Duration::from_millis(500);
/// The only word of LVM about a device with the PV of another, which follows its report:
/// `WARNING: Not using device /dev/sdb for PV UUID.`
pub const NOT_USED: &str = "WARNING: Not using device ";
/// With 1, LVM changes a group all the same. LVM 2.02 has it by default.
const TWINS_ALLOWED: &str = "devices/allow_changes_with_duplicate_pvs";
/// The beginning of a line of ours after the report: what is to be done so that LVM can archive metadata, which it does before
/// each change.
pub const NO_ARCHIVE: &str = "cannot archive: ";
/// The beginning of a line of ours after the report, about a metadata profile that volumes have. In place of `lvm.conf`, it may
/// say when LVM extends a pool, and when LVM creates no snapshot in it: `profile NAME: THRESHOLD PERCENT`.
pub const PROFILE: &str = "profile ";
/// An archive of the metadata of a group with some hundred volumes.
const LARGE_ARCHIVE: u64 = 128 * 1024;
/// The beginning of what LVM says first in test mode.
const TEST_MODE: &str = "TEST MODE";

const FIELDS: [(&str, &str); 4] = [
    (
        "vg",
        "vg_name,vg_uuid,vg_attr,vg_size,vg_free,vg_extent_size,vg_missing_pv_count,vg_tags,\
         vg_systemid,vg_profile,max_pv,max_lv,lv_count",
    ),
    (
        "pv",
        "pv_name,pv_uuid,pv_size,pv_free,pv_major,pv_minor,pv_missing,pv_allocatable",
    ),
    (
        "lv",
        "lv_name,lv_uuid,lv_attr,lv_size,origin,pool_lv,data_percent,metadata_percent,copy_percent,\
         lv_health_status,lv_time,lv_tags,lv_when_full,lv_parent,lv_profile",
    ),
    (
        "seg",
        "lv_uuid,segtype,seg_start_pe,seg_size_pe,stripes,stripe_size,chunk_size,seg_pe_ranges",
    ),
];

/// LVM's settings for autoextend, and for what it may write.
const POLICIES: [&str; 8] = [
    "global/metadata_read_only",
    "backup/archive",
    "backup/archive_dir",
    "activation/monitoring",
    "activation/snapshot_autoextend_threshold",
    "activation/snapshot_autoextend_percent",
    THRESHOLD,
    PERCENT,
];
const THRESHOLD: &str = "activation/thin_pool_autoextend_threshold";
const PERCENT: &str = "activation/thin_pool_autoextend_percent";

/// The PID file of dmeventd, which applies these settings.
const DMEVENTD: &str = "/run/dmeventd.pid";

/// The output of a query.
#[derive(Debug)]
pub struct LvmOutput {
    /// The JSON of `lvm fullreport`.
    pub report: Result<String, LvmError>,
    /// The output of `lvmconfig`, and lines `dmeventd=running|absent` and `system ID: …`; `None` if unchanged.
    pub policies: Option<Result<String, String>>,
}

/// Why a query failed.
#[derive(Debug)]
pub struct LvmError {
    pub sentence: String,
    /// Whether a retry may help: LVM is busy or did not answer.
    pub is_temporary: bool,
}

impl LvmError {
    fn temporary(sentence: String) -> Self {
        Self {
            sentence,
            is_temporary: true,
        }
    }

    fn permanent(sentence: &str) -> Self {
        Self {
            sentence: sentence.into(),
            is_temporary: false,
        }
    }
}

/// Runs at most one query at a time.
pub struct LvmQuery {
    program: PathBuf,
    /// Returns the output, and the child if it could not be killed.
    running: Option<JoinHandle<(LvmOutput, Option<Child>)>>,
    /// A child that survived SIGKILL, since it waits in the kernel.
    stuck: Option<Child>,
    /// The policies' last modification when they were last read.
    policy_fingerprint: Option<PolicyFingerprint>,
    /// Where LVM archives metadata before each change, if it does.
    archive: Option<PathBuf>,
}

impl Default for LvmQuery {
    fn default() -> Self {
        Self::of("lvm")
    }
}

impl LvmQuery {
    /// `program` replaces `lvm`, for tests.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            running: None,
            stuck: None,
            policy_fingerprint: None,
            archive: None,
        }
    }

    /// Starts a query, unless one is running.
    pub fn start(&mut self) {
        if self.is_busy() {
            return;
        }
        let changed = policy_fingerprint();
        let reads_policies = self.policy_fingerprint != Some(changed);
        self.policy_fingerprint = Some(changed);
        let asking = ask(self.program.clone(), reads_policies, self.archive.clone());
        self.running = Some(tokio::spawn(asking));
    }

    /// Whether an earlier query's child still exists.
    pub fn is_busy(&mut self) -> bool {
        let is_there = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        if self.stuck.as_mut().is_some_and(|child| !is_there(child)) {
            self.stuck = None;
        }
        self.running.is_some() || self.stuck.is_some()
    }

    /// Waits for the output; forever without a query. Cancel-safe.
    pub async fn answer(&mut self) -> LvmOutput {
        let Some(running) = &mut self.running else {
            return std::future::pending().await;
        };
        let (output, stuck) = running.await.unwrap_or_else(|error| {
            let why = LvmError::temporary(format!("the LVM query ended early: {error}"));
            (
                LvmOutput {
                    report: Err(why),
                    policies: None,
                },
                None,
            )
        });
        self.running = None;
        self.stuck = stuck;
        if let Some(Ok(policies)) = &output.policies {
            self.archive = archive_of(policies);
        }
        if output.report.is_err() || matches!(output.policies, Some(Err(_))) {
            self.policy_fingerprint = None;
        }
        output
    }
}

/// `archive` is where LVM archives, if its policies are not read now.
async fn ask(
    program: PathBuf,
    reads_policies: bool,
    mut archive: Option<PathBuf>,
) -> (LvmOutput, Option<Child>) {
    let mut arguments = vec![
        "fullreport",
        "-a",
        "--reportformat",
        "json",
        "--config",
        SETTINGS,
    ];
    for (report, fields) in FIELDS {
        arguments.extend(["--configreport", report, "-o", fields]);
    }
    // LVM asks dmeventd, which it would start.
    if dmeventd_runs() {
        arguments.extend(["-o", "+seg_monitor"]);
    }
    let mut stuck = None;
    let is_locked =
        |report: &Result<_, LvmError>| matches!(report, Err(why) if why.sentence.contains(LOCKED));
    let mut report = run(&program, &arguments, &mut stuck).await;
    for _ in 0..LOCK_TRIES {
        if !is_locked(&report) {
            break;
        }
        tokio::time::sleep(LOCK_PAUSE).await;
        report = run(&program, &arguments, &mut stuck).await;
    }
    if let Ok(text) = &mut report
        && let Some(warnings) = text.find(NOT_USED)
    {
        let arguments = ["config", "--type", "full", TWINS_ALLOWED];
        let allowed = run(&program, &arguments, &mut stuck).await;
        if allowed.is_ok_and(|line| line.trim().ends_with("=1")) {
            text.truncate(warnings);
        }
    }
    if let Ok(text) = &mut report {
        for name in profiles(text) {
            let profile = format!("--metadataprofile={name}");
            let arguments = ["config", "--type", "full", &profile, THRESHOLD, PERCENT];
            // Where the profile's file is gone or wrong, `lvm.conf` counts.
            let values = run(&program, &arguments, &mut stuck).await;
            let values = values.unwrap_or_default();
            let value = |key| setting_in(&values, key);
            if let Some((threshold, percent)) = value(THRESHOLD).zip(value(PERCENT)) {
                *text += &format!("\n{PROFILE}{name}: {threshold} {percent}");
            }
        }
    }
    let mut policies = None;
    if reads_policies && report.is_ok() {
        let arguments = [["config", "--type", "full"].as_slice(), &POLICIES].concat();
        let output = run(&program, &arguments, &mut stuck).await;
        let mut id = String::new();
        if output.is_ok() {
            let answer = run(&program, &["systemid", "--config", SETTINGS], &mut stuck).await;
            id = answer.unwrap_or_default();
        }
        let output = output.map(|policies| with_dmeventd(policies) + &id);
        policies = Some(output.map_err(|error| error.sentence));
    }
    if let Some(Ok(policies)) = &policies {
        archive = archive_of(policies);
    }
    if let (Ok(report), Some(archive)) = (&mut report, archive) {
        // Its disk may not answer, which must not hold up the loop.
        let looking = tokio::task::spawn_blocking(move || archive_fault(&archive));
        if let Ok(Ok(Some(why))) = tokio::time::timeout(TIME_LIMIT, looking).await {
            *report += &format!("\n{NO_ARCHIVE}{why}");
        }
    }
    (LvmOutput { report, policies }, stuck)
}

/// The names of the metadata profiles that a report's groups and volumes have.
fn profiles(report: &str) -> BTreeSet<String> {
    let values = report.split("_profile\":\"").skip(1);
    let names = values.filter_map(|rest| Some(rest.split_once('"')?.0));
    names
        .filter(|name| !name.is_empty())
        .map(String::from)
        .collect()
}

/// The value of one LVM setting, such as `activation/auto_set_activation_skip`.
pub async fn setting(key: &str) -> Result<String, String> {
    let stdout = run(
        Path::new("lvm"),
        &["config", "--type", "full", key],
        &mut None,
    )
    .await;
    let stdout = stdout.map_err(|error| error.sentence)?;
    let value = stdout
        .trim()
        .rsplit_once('=')
        .map(|(_, value)| value.to_string());
    value.ok_or_else(|| format!("expected `…=value` from `lvm config`, but found {stdout:?}"))
}

/// The output of a child. If it cannot be killed, it is put into `stuck`.
async fn run(
    program: &Path,
    arguments: &[&str],
    stuck: &mut Option<Child>,
) -> Result<String, LvmError> {
    if !rustix::process::geteuid().is_root() {
        return Err(LvmError::permanent(
            "LVM's report needs root; names and throughput do not",
        ));
    }
    let name = format!("lvm {}", arguments[0]);
    let mut child = command(program, arguments)
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                LvmError::permanent("`lvm` is not installed; install lvm2 if this host uses LVM")
            }
            _ => LvmError::temporary(format!("cannot run `{name}`: {error}")),
        })?;
    if let Ok(stdout) = tokio::time::timeout(TIME_LIMIT, collect(&name, &mut child)).await {
        return stdout.map_err(LvmError::temporary);
    }
    let waited = TIME_LIMIT.as_secs();
    if has_ended(&mut child).await {
        let sentence = format!("`{name}` did not answer for {waited} s and was terminated");
        return Err(LvmError::temporary(sentence));
    }
    *stuck = Some(child);
    Err(LvmError::temporary(format!(
        "`{name}` did not answer for {waited} s and cannot be killed: a disk below LVM does not answer; cowbell retries \
         after that process ends"
    )))
}

/// Sends SIGTERM, then SIGKILL; whether the child ended.
async fn has_ended(child: &mut Child) -> bool {
    for signal in [Signal::TERM, Signal::KILL] {
        signal_group(child, signal);
        if tokio::time::timeout(GRACE, child.wait()).await.is_ok() {
            return true;
        }
    }
    false
}

/// All that LVM gets of this process's environment.
pub fn environment() -> impl Iterator<Item = (&'static str, OsString)> {
    let fixed = [
        ("PATH", "/usr/sbin:/sbin:/usr/bin:/bin"),
        ("LC_ALL", "C"),
        ("LVM_SUPPRESS_FD_WARNINGS", "1"),
    ];
    let folder = std::env::var_os("LVM_SYSTEM_DIR").map(|folder| ("LVM_SYSTEM_DIR", folder));
    let fixed = fixed.into_iter().map(|(name, value)| (name, value.into()));
    fixed.chain(folder)
}

fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}

async fn collect(name: &str, child: &mut Child) -> Result<String, String> {
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(format!("cannot read the output of `{name}`"));
    };
    let (mut report, mut errors) = (Vec::new(), Vec::new());
    let mut stdout = stdout.take(MAX_REPORT as u64);
    let mut stderr = stderr.take(MAX_ERROR);
    let cannot_read = |error| format!("cannot read the output of `{name}`: {error}");
    let reading = async {
        stdout.read_to_end(&mut report).await.map_err(cannot_read)?;
        if report.len() == MAX_REPORT {
            // The rest is not read, so the child would block.
            return Err(format!("`{name}` printed more than {MAX_REPORT} bytes"));
        }
        Ok(())
    };
    let listening = async {
        stderr.read_to_end(&mut errors).await.map_err(cannot_read)?;
        // Discards the rest, so that the child does not block.
        tokio::io::copy(&mut stderr.into_inner(), &mut tokio::io::sink())
            .await
            .map_err(cannot_read)
    };
    tokio::try_join!(reading, listening)?;
    let status = child
        .wait()
        .await
        .map_err(|error| format!("cannot wait for `{name}`: {error}"))?;
    let errors = String::from_utf8_lossy(&errors);
    if status.success() {
        let mut report =
            String::from_utf8(report).map_err(|_| format!("`{name}` printed invalid UTF-8"))?;
        let lines = errors.lines();
        for line in lines.filter(|line| line.trim().starts_with(NOT_USED)) {
            report += &format!("\n{line}");
        }
        return Ok(report);
    }
    let mut lines: Vec<&str> = errors.trim().lines().collect();
    lines.retain(|line| !line.trim_start().starts_with(TEST_MODE));
    Err(format!("`{name}` failed ({status}): {}", lines.join("; ")))
}

fn signal_group(child: &Child, signal: Signal) {
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // The group may have ended.
        let _ = kill_process_group(pid, signal);
    }
}

/// Modification times of LVM's two configuration files, and whether dmeventd runs.
type PolicyFingerprint = ([Option<SystemTime>; 2], bool);

fn policy_fingerprint() -> PolicyFingerprint {
    let folder =
        std::env::var_os("LVM_SYSTEM_DIR").map_or_else(|| PathBuf::from("/etc/lvm"), PathBuf::from);
    let changed = |name: &str| {
        std::fs::metadata(folder.join(name))
            .and_then(|file| file.modified())
            .ok()
    };
    (
        [changed("lvm.conf"), changed("lvmlocal.conf")],
        dmeventd_runs(),
    )
}

/// The folder in the output of `lvmconfig`, if LVM archives.
fn archive_of(policies: &str) -> Option<PathBuf> {
    (setting_in(policies, "backup/archive")? != "0").then_some(())?;
    let folder = setting_in(policies, "backup/archive_dir")?;
    Some(folder.trim_matches('"').into())
}

/// The value of a setting in the output of `lvm config`, which names no sections.
fn setting_in<'a>(output: &'a str, key: &str) -> Option<&'a str> {
    let (_, name) = key.rsplit_once('/')?;
    let mut lines = output.lines();
    lines.find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))
}

/// What is to be done where root cannot write an archive into a folder, or create it. LVM refuses each change then.
fn archive_fault(folder: &Path) -> Option<String> {
    let mut existing = folder.ancestors();
    let existing = existing.find_map(|folder| folder.canonicalize().ok())?;
    let name = folder.display();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if is_read_only(&existing, &mounts) {
        return Some(format!(
            "make the file system of {name} writable, which is read-only"
        ));
    }
    let system = rustix::fs::statvfs(&existing).ok()?;
    let has_no_inode = system.f_files > 0 && system.f_ffree == 0;
    let is_full = system.f_bfree.saturating_mul(system.f_frsize) < LARGE_ARCHIVE || has_no_inode;
    is_full.then(|| format!("free space in the file system of {name}, which is full"))
}

/// Whether the file system itself is, as after an error. The mount alone says nothing: in a sandbox, it is not the host's.
fn is_read_only(folder: &Path, mounts: &str) -> bool {
    let of_folder = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let point = unescaped(mount.split(' ').nth(4)?);
        let depth = Path::new(&point).components().count();
        let options = system.split(' ').nth(2)?;
        folder.starts_with(&point).then_some((depth, options))
    });
    // Of two on one folder, the later one is visible.
    let found = of_folder.max_by_key(|(depth, _)| *depth);
    found.is_some_and(|(_, options)| options.split(',').any(|option| option == "ro"))
}

/// Checks the process, since the PID file of a killed dmeventd remains.
fn dmeventd_runs() -> bool {
    let pid = std::fs::read_to_string(DMEVENTD).unwrap_or_default();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.trim())).unwrap_or_default();
    name.trim() == "dmeventd"
}

fn with_dmeventd(policies: String) -> String {
    let state = if dmeventd_runs() { "running" } else { "absent" };
    format!("{policies}\ndmeventd={state}\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lvm_archives_where_its_settings_say() {
        for (policies, expected) in [
            ("archive=1\narchive_dir=\"/mnt/a b\"\n", Some("/mnt/a b")),
            ("archive=0\narchive_dir=\"/etc/lvm/archive\"\n", None),
            ("monitoring=1\n", None),
        ] {
            assert_eq!(archive_of(policies).as_deref(), expected.map(Path::new));
        }
    }

    #[test]
    fn a_sandbox_is_no_read_only_file_system() {
        let mounts = "1 0 8:1 / / ro,relatime - ext4 /dev/sda1 rw\n2 1 8:2 / /srv\\040a rw - ext4 /dev/sda2 ro,errors=remount-ro\n\
             3 2 8:3 / /srv\\040a/b rw - xfs /dev/sda3 rw\n";
        for (folder, expected) in [
            ("/etc/lvm/archive", false),
            ("/srv a", true),
            ("/srv a/c", true),
            ("/srv a/b/c", false),
        ] {
            assert_eq!(
                is_read_only(Path::new(folder), mounts),
                expected,
                "{folder}"
            );
        }
    }

    /// LVM is asked as root only.
    #[tokio::test]
    async fn a_group_that_is_being_changed_is_asked_again() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("lvm");
        let script = "#!/bin/sh\n[ \"$1\" = fullreport ] || exit 0\ncd \"${0%/*}\"\necho >>asked\n\
             [ $(wc -l <asked) -ge 3 ] && echo '{}' && exit 0\n\
             echo \"  /run/lock/lvm/V_vg0: flock failed: Resource temporarily unavailable\" >&2\n\
             echo \"  Can't get lock for vg0.\" >&2\nexit 5\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let mut query = LvmQuery::of(&program);
        query.start();
        assert_eq!(query.answer().await.report.unwrap(), "{}\n");
        let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap();
        assert_eq!(asked.lines().count(), 3);
    }
}
