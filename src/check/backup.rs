//! Collects the facts that decide whether tonight's backup by mylvmbackup works; `tonight` evaluates them.
//!
//! Reports nothing on hosts without mylvmbackup.

use std::path::Path;

use super::CheckLine;
use super::tonight::{self, BackupFacts, DirectoryLookup};
use crate::advice::{origin_refusal, snapshot_refusal};
use crate::mylvmbackup::{self, BackupPlan};
use crate::sample::Sample;
use crate::sample::lvm::{Report, ReportedGroup, ReportedVolume};
use crate::sample::mounts::{self, Mount};
use crate::sample::sysfs::{self, BlockDevice};
use crate::source::backup::{self, CONFIGURATION, PROGRAM, ProgramState};
use crate::source::files::Root;
use crate::source::lvm::setting;
use crate::topology::Topology;

/// LVM's setting that leaves new thin snapshots inactive.
const SKIPS_ACTIVATION: &str = "activation/auto_set_activation_skip";

/// mylvmbackup's plan, and what is wrong with its configuration; no plan without mylvmbackup.
pub fn plan(root: &Root) -> (Option<BackupPlan>, Vec<CheckLine>) {
    let sentence = match backup::configuration(root) {
        Ok(Some(text)) => {
            let written = mylvmbackup::parse(&text);
            return (written.plan(), tonight::of_configuration(&written));
        }
        Ok(None) if is_installed(root) => format!(
            "mylvmbackup is installed, but {CONFIGURATION} does not exist, so tonight's backup cannot be checked; create that \
             file, which mylvmbackup reads before the one that `--configfile` names"
        ),
        Ok(None) => return (None, Vec::new()),
        Err(why) => format!(
            "cannot read {CONFIGURATION}: {why}; run `cowbell check` as root to check tonight's backup"
        ),
    };
    (None, vec![CheckLine::Missing(sentence)])
}

/// Checks whether the planned backup can work. Of the sample it uses what LVM says.
pub async fn check(root: &Root, plan: &BackupPlan, sample: &Sample) -> Vec<CheckLine> {
    let facts = facts(root, plan, sample).await;
    let mut lines = tonight::judge(plan, &facts);
    if lines.iter().all(|line| matches!(line, CheckLine::Good(_))) {
        lines.push(CheckLine::Good(format!(
            "with {CONFIGURATION}, nothing here would stop mylvmbackup tonight; its command-line options and the database were \
             not checked"
        )));
    }
    lines
}

async fn facts(root: &Root, plan: &BackupPlan, sample: &Sample) -> BackupFacts {
    let mounts = root.keep("proc/self/mountinfo").read();
    let mounts = mounts.map_or_else(|_| Vec::new(), |text| mounts::parse(&text).0);
    let devices = root.read_block_devices();
    let devices = devices.map_or_else(|_| Vec::new(), |text| sysfs::parse(&text));
    let report = sample.slow.report.as_deref().cloned();
    let origin = report.as_ref().and_then(|report| origin(plan, report));
    let topology = Topology::of(sample);
    let refusal = topology.group(&plan.group).and_then(snapshot_refusal);
    let name = format!("{}/{}", plan.group, plan.origin);
    let of_origin = || origin_refusal(topology.volume(&name)?, &topology);
    let refusal = refusal.or_else(of_origin);
    let backupdir = if plan.writes_here() {
        directory(root, &plan.backupdir).await
    } else {
        Ok(None)
    };
    let mut backupdir_is_on_origin = None;
    if let (Ok(Some(folder)), Some(uuid)) = (&backupdir, &origin) {
        let device = device_of(&folder.path, &mounts, &devices);
        backupdir_is_on_origin = device.map(|device| is_on(device, uuid, true, &devices));
    }
    let mut tools = Vec::new();
    for tool in &plan.tools {
        let state = backup::program(root, &tool.program);
        if state != ProgramState::Executable {
            tools.push((tool.clone(), state));
        }
    }
    let mycnf = plan.mycnf.as_deref();
    BackupFacts {
        is_installed: is_installed(root),
        skips_activation: skips_activation(plan).await,
        tools,
        mountdir: directory(root, &plan.mountdir).await,
        mount_point: directory(root, &format!("{}/{}", plan.mountdir, plan.prefix)).await,
        backupdir_is_on_origin,
        origin_used: used(root, origin.as_deref(), &mounts, &devices).await,
        // An empty path is that of no file.
        has_mycnf: mycnf.is_some_and(|path| !path.is_empty() && backup::exists(root, path)),
        backupdir,
        report,
        refusal,
        policies: sample.slow.policies.unwrap_or_default(),
    }
}

fn is_installed(root: &Root) -> bool {
    backup::program(root, PROGRAM) == ProgramState::Executable
}

/// The UUID of the volume to be backed up in the device-mapper.
fn origin(plan: &BackupPlan, report: &Report) -> Option<String> {
    let mut groups = report.groups.iter();
    let group = groups.find(|group| group.name == plan.group)?;
    let mut volumes = group.volumes.iter();
    let volume = volumes.find(|volume| volume.name == plan.origin)?;
    Some(dm_uuid(group, volume))
}

async fn skips_activation(plan: &BackupPlan) -> Option<bool> {
    if !plan.is_thin {
        return None;
    }
    let value = setting(SKIPS_ACTIVATION).await.ok()?;
    Some(value != "0")
}

/// Used bytes of the origin's file system, if it is mounted, also on LUKS or by `kpartx`.
async fn used(
    root: &Root,
    uuid: Option<&str>,
    mounts: &[Mount],
    devices: &[BlockDevice],
) -> Option<u64> {
    let uuid = uuid?;
    let mount = mounts.iter().find(|mount| {
        let mut all = devices.iter();
        let device = all.find(|device| device.number == Some(mount.number));
        device.is_some_and(|device| is_on(device, uuid, false, devices))
    })?;
    backup::folder(root, &mount.point).await.ok()??.used
}

/// Reads a directory. If its name contains the time of the backup, nothing is known about it.
async fn directory(root: &Root, folder: &str) -> DirectoryLookup {
    if folder.contains('%') {
        return Ok(Some(backup::Directory::default()));
    }
    if folder.is_empty() {
        return Ok(None);
    }
    backup::folder(root, folder).await
}

/// The block device of the mount that contains a directory; `None` if there is none or it is unknown.
fn device_of<'a>(
    folder: &Path,
    mounts: &[Mount],
    devices: &'a [BlockDevice],
) -> Option<&'a BlockDevice> {
    let around = mounts
        .iter()
        .filter(|mount| folder.starts_with(&mount.point));
    // The last mount on a directory hides the others.
    let mount = around.max_by_key(|mount| Path::new(&mount.point).components().count())?;
    devices
        .iter()
        .find(|device| device.number == Some(mount.number))
}

/// Whether a device is this volume or lies on it, or on a hidden layer of it, such as `LVM-…-real`, as its snapshots do.
fn is_on(device: &BlockDevice, uuid: &str, also_on_layers: bool, devices: &[BlockDevice]) -> bool {
    let mut next = vec![device];
    let mut seen = Vec::new();
    while let Some(device) = next.pop() {
        let found = device.dm_uuid.as_deref().unwrap_or_default();
        if let Some(layer) = found.strip_prefix(uuid)
            && (layer.is_empty() || also_on_layers && layer.starts_with('-'))
        {
            return true;
        }
        if !seen.contains(&&device.name) {
            seen.push(&device.name);
            let disk = device.partition.as_ref().map(|(disk, _)| disk);
            for name in device.slaves.iter().chain(disk) {
                next.extend(devices.iter().find(|other| other.name == *name));
            }
        }
    }
    false
}

/// A volume's UUID in the device-mapper.
fn dm_uuid(group: &ReportedGroup, volume: &ReportedVolume) -> String {
    let uuids = format!("{}{}", group.uuid, volume.uuid);
    format!("LVM-{}", uuids.replace('-', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host whose mylvmbackup has this configuration.
    fn host(configuration: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("etc")).unwrap();
        std::fs::write(folder.path().join("etc/mylvmbackup.conf"), configuration).unwrap();
        let root = Root(folder.path().into());
        (folder, root)
    }

    #[tokio::test]
    async fn an_empty_path_is_that_of_no_file_or_directory() {
        let (_folder, root) = host("[mysql]\nmycnf=\n[fs]\nmountdir=\nbackupdir=\n");
        let (plan, _) = plan(&root);
        let facts = facts(&root, &plan.unwrap(), &Sample::default()).await;
        assert!(!facts.has_mycnf);
        assert_eq!((facts.mountdir, facts.backupdir), (Ok(None), Ok(None)));
    }

    #[test]
    fn a_directorys_volume_is_found_through_layers() {
        let mounts = mounts::parse(
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 254:3 / /srv rw - xfs x rw\n3 1 0:40 / /srv/nfs rw - nfs x rw\n\
             4 1 254:4 / /mnt/snapshot rw - xfs x rw\n",
        );
        let devices = sysfs::parse(
            "sda1/dev\t8:1\ndm-3/dev\t254:3\ndm-3/dm/uuid\tCRYPT-x\ndm-3/slaves\tdm-2\ndm-2/dev\t254:2\n\
             dm-2/dm/uuid\tLVM-g1d1\ndm-2/slaves\tdm-1\ndm-1/dev\t254:1\ndm-1/dm/uuid\tLVM-g1d1-real\n\
             dm-4/dev\t254:4\ndm-4/dm/uuid\tLVM-g1s1\ndm-4/slaves\tdm-1\n",
        );
        let group = ReportedGroup {
            uuid: "g-1".into(),
            ..ReportedGroup::default()
        };
        let volume = ReportedVolume {
            uuid: "d-1".into(),
            ..ReportedVolume::default()
        };
        let uuid = dm_uuid(&group, &volume);
        let found = |folder: &str| {
            device_of(Path::new(folder), &mounts.0, &devices)
                .map(|device| [true, false].map(|layers| is_on(device, &uuid, layers, &devices)))
        };
        assert_eq!(uuid, "LVM-g1d1");
        assert_eq!(found("/srv/backup"), Some([true, true]));
        assert_eq!(found("/mnt/snapshot"), Some([true, false]));
        assert_eq!(found("/var/backup"), Some([false, false]));
        assert_eq!(found("/srv/nfs/backup"), None);
    }
}
