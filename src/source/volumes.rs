//! One reading of what names volumes, and of what LVM says about them, for commands that look once.
//!
//! The device-mapper is asked from a thread with a time limit: it answers late if the storage does.

use std::time::Duration;

use cowbell_device_mapper::Scope;

use super::files::Root;
use super::live::device_mapper;
use super::lvm::LvmQuery;
use super::{Part, PartReading, ReadResult, Reading, clock};

/// The device-mapper answers in milliseconds. If it has not answered after this, the storage does not.
const DM_DEADLINE: Duration = Duration::from_secs(3);

/// Without the device-mapper, active volumes are unknown; without LVM's report, inactive ones, thin origins and free space.
pub async fn reading(root: &Root) -> Reading {
    let mut thread = device_mapper::thread();
    thread.ask(Scope::All);
    let mapped = match thread.wait(DM_DEADLINE).await {
        Ok(answer) => answer.value.1,
        Err(none) => Err(none.sentence("the device-mapper").into()),
    };
    let mut reporter = LvmQuery::default();
    reporter.start();
    let lvm = reporter.answer().await;
    let texts = [
        (Part::Diskstats, root.keep("proc/diskstats").read().into()),
        (Part::Sysfs, root.read_block_devices().into()),
        (Part::Mounts, root.keep("proc/self/mountinfo").read().into()),
        (Part::Dm, ReadResult::from(mapped)),
        (Part::Lvm, lvm.report.map_err(|error| error.sentence).into()),
    ];
    let policies = lvm
        .policies
        .map(|policies| (Part::LvmConfig, policies.into()));
    let texts = texts.into_iter().chain(policies);
    let part = |(part, result)| PartReading {
        part,
        result,
        took_us: 0,
    };
    Reading {
        at: clock::now(),
        uptime_us: clock::uptime_us(),
        took_us: 0,
        texts: texts.map(part).collect(),
        commands: Vec::new(),
        hooks: Vec::new(),
    }
}
