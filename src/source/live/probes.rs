//! Starts a process that creates the probes of a map, an hour after `cowbell size --watch on` created the map. Until then
//! nothing is known of where the volume is written to.
//!
//! The process may wait in the kernel for the storage, so nothing waits for it but a thread.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::written::Counters;
use crate::source::clock;
use crate::source::dm::label::{Probe, Role, are_complete};

/// How long writes to the map are counted before places are chosen by them.
const MAP_ALONE_MS: i64 = 60 * 60 * 1000;
/// The time until the next try for the same volume, if it was busy.
const RETRY: Duration = Duration::from_secs(10 * 60);

/// Whether the process exists. A flag suffices: it guards no value.
static EXISTS: AtomicBool = AtomicBool::new(false);

/// The processes started so far.
#[derive(Default)]
pub struct ProbeCreation {
    /// By the DM UUID of the volume.
    tried: HashMap<String, Instant>,
}

impl ProbeCreation {
    /// Starts the process for the first volume that needs it, unless one exists.
    pub fn start_if_due(&mut self, counters: &Counters) {
        self.tried.retain(|_, at| at.elapsed() < RETRY);
        let now_ms = clock::now().as_millisecond();
        let due =
            volumes_without_probes(counters, now_ms).find(|uuid| !self.tried.contains_key(*uuid));
        let Some(uuid) = due.filter(|_| !EXISTS.swap(true, Ordering::AcqRel)) else {
            return;
        };
        self.tried.insert(uuid.into(), Instant::now());
        let uuid = uuid.to_string();
        let creation = move || {
            if let Err(error) = create(&uuid) {
                tracing::warn!("cannot start a process that creates probes: {error}");
            }
            EXISTS.store(false, Ordering::Release);
        };
        if std::thread::Builder::new()
            .name("probes".into())
            .spawn(creation)
            .is_err()
        {
            EXISTS.store(false, Ordering::Release);
        }
    }
}

/// Waits for the process. It reports its own errors.
fn create(uuid: &str) -> std::io::Result<()> {
    let mut process = Command::new("/proc/self/exe");
    process
        .args(["create-probes", uuid])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    Ok(())
}

/// The DM UUIDs of volumes with an old map and without all of its probes.
fn volumes_without_probes(counters: &Counters, now_ms: i64) -> impl Iterator<Item = &str> {
    let is_old = move |created: &str| {
        created
            .parse()
            .is_ok_and(|at: i64| at.saturating_add(MAP_ALONE_MS) <= now_ms)
    };
    let is_due = move |uuid: &str| {
        let of_volume = counters.iter().filter(|((volume, _), _)| volume == uuid);
        let probes = of_volume.filter_map(|(_, now)| match now.region.label.role {
            Role::Probe(probe) => Some(probe),
            _ => None,
        });
        !are_complete(&probes.collect::<Vec<Probe>>())
    };
    let maps = counters.iter().filter(move |(_, now)| {
        matches!(now.region.label.role, Role::Map { .. }) && is_old(&now.region.label.created)
    });
    maps.map(|((uuid, _), _)| uuid.as_str())
        .filter(move |uuid| is_due(uuid))
}

#[cfg(test)]
mod tests {
    use super::super::written::RegionCounters;
    use super::*;
    use crate::source::dm::label::Label;
    use crate::source::dm::stats::RegionEntry;

    fn counters(labels: &[&str]) -> Counters {
        let regions = labels.iter().zip(0..).map(|(label, id)| {
            let region = RegionEntry {
                id,
                start: 0,
                length: 8,
                step: 8,
                label: Label::parse(label),
            };
            (
                ("LVM-x".to_string(), id),
                RegionCounters {
                    region,
                    areas: Vec::new(),
                },
            )
        });
        regions.collect()
    }

    #[test]
    fn an_hour_after_its_map_a_volume_needs_probes() {
        let check = |labels: &[&str], now_ms: i64, expected: usize| {
            assert_eq!(
                volumes_without_probes(&counters(labels), now_ms).count(),
                expected,
                "{labels:?} {now_ms}"
            );
        };
        check(&["1000"], MAP_ALONE_MS * 9, 0);
        check(&["1000/map/8"], MAP_ALONE_MS, 0);
        check(&["1000/map/8"], MAP_ALONE_MS + 1000, 1);
        check(&["1000/map/8", "7/0/2/0.5"], MAP_ALONE_MS * 9, 1);
        check(
            &["1000/map/8", "7/0/2/0.5", "7/1/2/0.5"],
            MAP_ALONE_MS * 9,
            0,
        );
    }
}
