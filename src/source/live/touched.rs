//! Which areas of a volume were written to: regions of device-mapper statistics that `cowbell size --watch on` created,
//! read once a minute by a thread. The rest of the time, and without regions, this costs nothing.
//!
//! `cowbell_touched::text` describes the text. After regions, a text without any is empty. If a reading fails, the next one
//! covers its time too.
//!
//! An hour after a map was created, a process creates its probes: until then nothing is known of where the volume is
//! written to. The process may wait in the kernel for the storage, so nothing waits for it but a thread.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cowbell_touched::label::{Probe, Role, are_complete};
use cowbell_touched::text::{self, Counters};

use super::{Part, PartReading, ReadResult};
use crate::source::clock;
use crate::source::slow::SlowThread;

/// The time between two readings.
const PERIOD: Duration = Duration::from_secs(60);
/// A reading takes microseconds for each area. One that takes longer than this is reported as late.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long writes to the map are counted before places are chosen by them.
const MAP_ALONE_MS: i64 = 60 * 60 * 1000;
/// The time until the next try for the same volume, if it was busy.
const RETRY: Duration = Duration::from_secs(10 * 60);

/// The readings of the regions.
pub struct TouchedAreas {
    /// A request says whether to create probes.
    thread: SlowThread<bool, Result<String, String>>,
    creates_probes: bool,
    /// Whether the last text has regions.
    has_regions: bool,
}

impl Default for TouchedAreas {
    fn default() -> Self {
        let mut counters = Counters::default();
        let mut creation = ProbeCreation::default();
        Self::with(SlowThread::new("touched-areas", move |creates_probes| {
            let (text, now) = text::read(std::mem::take(&mut counters));
            counters = now;
            if creates_probes && text.is_ok() {
                creation.start_if_due(&counters);
            }
            text
        }))
    }
}

impl TouchedAreas {
    fn with(thread: SlowThread<bool, Result<String, String>>) -> Self {
        Self {
            thread,
            creates_probes: false,
            has_regions: false,
        }
    }

    /// Creates the probes of maps too.
    pub fn create_probes(&mut self) {
        self.creates_probes = true;
    }

    /// The text since the last tick, if any; starts a new reading if one is due. Never waits.
    pub fn poll(&mut self) -> Option<PartReading> {
        let who = "the kernel, about its statistics,";
        let reading = self.thread.poll_part(Part::Touched, DEADLINE, who);
        self.thread.ask_every(PERIOD, self.creates_probes);
        let reading = reading?;
        let had_regions = self.has_regions;
        if let ReadResult::Text(text) = &reading.result {
            self.has_regions = !text.is_empty();
        }
        // Without regions, neither an empty text nor an error matters.
        (had_regions || self.has_regions).then_some(reading)
    }
}

/// Whether the process exists. A flag suffices: it guards no value.
static PROCESS_EXISTS: AtomicBool = AtomicBool::new(false);

/// The processes started so far.
#[derive(Default)]
struct ProbeCreation {
    /// By the DM UUID of the volume.
    tried: HashMap<String, Instant>,
}

impl ProbeCreation {
    /// Starts the process for the first volume that needs it, unless one exists.
    fn start_if_due(&mut self, counters: &Counters) {
        self.tried.retain(|_, at| at.elapsed() < RETRY);
        let due = volumes_without_probes(counters, clock::now().as_millisecond());
        let Some(uuid) = due.into_iter().find(|uuid| !self.tried.contains_key(*uuid)) else {
            return;
        };
        if PROCESS_EXISTS.swap(true, Ordering::AcqRel) {
            return;
        }
        self.tried.insert(uuid.into(), Instant::now());
        let uuid = uuid.to_string();
        let creation = move || {
            if let Err(error) = create_probes(&uuid) {
                tracing::warn!("cannot start a process that creates probes: {error}");
            }
            PROCESS_EXISTS.store(false, Ordering::Release);
        };
        let thread = std::thread::Builder::new().name("probes".into());
        if thread.spawn(creation).is_err() {
            PROCESS_EXISTS.store(false, Ordering::Release);
        }
    }
}

/// Waits for the process. It reports its own errors.
fn create_probes(uuid: &str) -> std::io::Result<()> {
    let mut process = Command::new("/proc/self/exe");
    process
        .args(["create-probes", uuid])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    Ok(())
}

/// The DM UUIDs of volumes with an old map and without all of its probes.
fn volumes_without_probes(counters: &Counters, now_ms: i64) -> Vec<&str> {
    let mut maps = Vec::new();
    let mut probes: HashMap<&str, Vec<Probe>> = HashMap::new();
    for ((uuid, _), now) in counters {
        let label = &now.region.label;
        match label.role {
            Role::Map { .. } => {
                let created: Option<i64> = label.created.parse().ok();
                if created.is_some_and(|at| at.saturating_add(MAP_ALONE_MS) <= now_ms) {
                    maps.push(uuid.as_str());
                }
            }
            Role::Probe(probe) => probes.entry(uuid).or_default().push(probe),
            Role::Whole | Role::Other => {}
        }
    }
    maps.retain(|uuid| !probes.get(uuid).is_some_and(|probes| are_complete(probes)));
    maps
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use cowbell_touched::label::Label;
    use cowbell_touched::statistics::RegionEntry;
    use cowbell_touched::text::RegionCounters;

    use super::*;

    /// The next text, from a thread that answers so.
    fn polled(
        areas: &mut TouchedAreas,
        answers: &mpsc::Sender<Result<String, String>>,
        text: Result<&str, &str>,
    ) -> Option<ReadResult> {
        areas.thread.forget_last();
        assert!(areas.poll().is_none(), "it is asked");
        let text = text.map(String::from).map_err(String::from);
        answers.send(text).unwrap();
        loop {
            let found = areas.poll();
            if !areas.thread.is_busy() {
                return found.map(|reading| reading.result);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn without_regions_only_their_end_is_reported() {
        let (sender, answers) = mpsc::channel();
        let thread = SlowThread::new("test", move |_| answers.recv().unwrap());
        let mut areas = TouchedAreas::with(thread);
        let text = |text: &str| Some(ReadResult::Text(text.into()));
        for (answer, expected) in [
            (Ok(""), None),
            (Err("no right"), None),
            (Ok("253:3…"), text("253:3…")),
            (Err("no right"), Some(ReadResult::Error("no right".into()))),
            (Ok(""), text("")),
            (Ok(""), None),
        ] {
            assert_eq!(polled(&mut areas, &sender, answer), expected, "{answer:?}");
        }
    }

    fn counters(labels: &[&str]) -> Counters {
        let regions = labels.iter().zip(0..).map(|(label, id)| {
            let region = RegionEntry {
                id,
                start: 0,
                length: 8,
                step: 8,
                label: Label::parse(label),
            };
            let areas = Vec::new();
            (("LVM-x".to_string(), id), RegionCounters { region, areas })
        });
        regions.collect()
    }

    #[test]
    fn an_hour_after_its_map_a_volume_needs_probes() {
        for (labels, now_ms, expected) in [
            (&["1000"][..], MAP_ALONE_MS * 9, 0),
            (&["1000/map/8"], MAP_ALONE_MS, 0),
            (&["1000/map/8"], MAP_ALONE_MS + 1000, 1),
            (&["1000/map/8", "7/0/2/0.5"], MAP_ALONE_MS * 9, 1),
            (
                &["1000/map/8", "7/0/2/0.5", "7/1/2/0.5"],
                MAP_ALONE_MS * 9,
                0,
            ),
        ] {
            let counters = counters(labels);
            let found = volumes_without_probes(&counters, now_ms);
            assert_eq!(found.len(), expected, "{labels:?} {now_ms}");
        }
    }
}
