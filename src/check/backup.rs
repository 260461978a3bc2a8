//! Collects the facts that decide whether tonight's backup by mylvmbackup works; `tonight` evaluates them.
//!
//! Reports nothing on hosts without mylvmbackup.

use super::Finding;
use super::tonight::{self, Facts, place};
use crate::mylvmbackup::{self, BackupPlan, Tool};
use crate::sample::lvm::{Report, ReportedGroup, ReportedVolume};
use crate::sample::mounts::{self, Mount};
use crate::sample::sysfs::{self, BlockDevice};
use crate::source::backup::{self, CONFIGURATION, PROGRAM, ProgramState};
use crate::source::files::Root;
use crate::source::lvm::setting;

/// LVM's setting that leaves new thin snapshots inactive.
const SKIPS_ACTIVATION: &str = "activation/auto_set_activation_skip";

/// mylvmbackup's plan and findings about its configuration; no plan without mylvmbackup.
pub fn plan(root: &Root) -> (Option<BackupPlan>, Vec<Finding>) {
    let is_installed = backup::program(root, PROGRAM) == ProgramState::Executable;
    let sentence = match backup::configuration(root) {
        Ok(Some(text)) => {
            let written = mylvmbackup::parse(&text);
            let is_read = written.invalid_lines.is_empty() && !written.is_empty;
            let plan = is_read.then(|| BackupPlan::of(&written));
            return (plan, tonight::of_configuration(&written));
        }
        Ok(None) if is_installed => format!(
            "mylvmbackup is installed, but {CONFIGURATION} does not exist, so tonight's backup cannot be checked; create that \
             file, which mylvmbackup reads before the one that `--configfile` names"
        ),
        Ok(None) => return (None, Vec::new()),
        Err(why) => {
            format!(
                "cannot read {CONFIGURATION}: {why}; run `cowbell check` as root to check tonight's backup"
            )
        }
    };
    (None, vec![Finding::Missing(sentence)])
}

/// Checks whether the planned backup can work.
pub async fn check(root: &Root, plan: &BackupPlan, report: Option<Report>) -> Vec<Finding> {
    let facts = facts(root, plan, report).await;
    let mut findings = tonight::judge(plan, &facts);
    if findings
        .iter()
        .all(|finding| matches!(finding, Finding::Good(_)))
    {
        findings.push(Finding::Good(format!(
            "with {CONFIGURATION}, nothing here would stop mylvmbackup tonight; its command-line options and the database were \
             not checked"
        )));
    }
    findings
}

async fn facts(root: &Root, plan: &BackupPlan, report: Option<Report>) -> Facts {
    let origin = report
        .as_ref()
        .and_then(|report| origin(plan, report))
        .map(|(group, volume)| place::dm_uuid(group, volume));
    let mounts = root
        .keep("proc/self/mountinfo")
        .read()
        .map_or_else(|_| Vec::new(), |text| mounts::parse(&text).0);
    let devices = root
        .read_block_devices()
        .map_or_else(|_| Vec::new(), |text| sysfs::parse(&text));
    let backupdir = if plan.writes_here() {
        read_directory(root, &plan.backupdir).await
    } else {
        Ok(None)
    };
    let on = backupdir
        .as_ref()
        .ok()
        .and_then(Option::as_ref)
        .and_then(|folder| place::device_of(&folder.path, &mounts, &devices));
    Facts {
        is_installed: backup::program(root, PROGRAM) == ProgramState::Executable,
        skips_activation: skips_activation(plan).await,
        tools: tools(root, plan),
        mountdir: read_directory(root, &plan.mountdir).await,
        mount_point: read_directory(root, &format!("{}/{}", plan.mountdir, plan.prefix)).await,
        backupdir_is_on_origin: on
            .zip(origin.as_deref())
            .map(|(device, uuid)| place::is_on(device, uuid, &devices)),
        origin_used: used(root, origin.as_deref(), &mounts, &devices).await,
        has_mycnf: plan
            .mycnf
            .as_deref()
            .is_some_and(|path| backup::exists(root, path)),
        backupdir,
        report,
    }
}

fn origin<'a>(
    plan: &BackupPlan,
    report: &'a Report,
) -> Option<(&'a ReportedGroup, &'a ReportedVolume)> {
    let group = report
        .groups
        .iter()
        .find(|group| group.name == plan.group)?;
    Some((
        group,
        group
            .volumes
            .iter()
            .find(|volume| volume.name == plan.origin)?,
    ))
}

async fn skips_activation(plan: &BackupPlan) -> Option<bool> {
    if !plan.is_thin {
        return None;
    }
    setting(SKIPS_ACTIVATION)
        .await
        .ok()
        .map(|value| value != "0")
}

fn tools(root: &Root, plan: &BackupPlan) -> Vec<(Tool, ProgramState)> {
    let found = plan
        .tools
        .iter()
        .map(|tool| (tool.clone(), backup::program(root, &tool.program)));
    found
        .filter(|(_, state)| *state != ProgramState::Executable)
        .collect()
}

/// Used bytes of the origin's file system, if mounted.
async fn used(
    root: &Root,
    uuid: Option<&str>,
    mounts: &[Mount],
    devices: &[BlockDevice],
) -> Option<u64> {
    let number = place::number_of(uuid?, devices)?;
    let mount = mounts.iter().find(|mount| mount.number == number)?;
    backup::folder(root, &mount.point).await.ok()??.used
}

/// Reads a directory. If its name contains the time of the backup, nothing is known about it.
async fn read_directory(root: &Root, folder: &str) -> tonight::DirectoryLookup {
    if folder.contains('%') {
        return Ok(Some(backup::Directory::default()));
    }
    backup::folder(root, folder).await
}
