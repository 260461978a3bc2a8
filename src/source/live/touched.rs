//! Which areas of a volume were written to: regions of device-mapper statistics that `cowbell size --watch on` created,
//! read once a minute. The rest of the time, and without regions, this costs nothing.
//!
//! A message may wait in the kernel, so a thread with its own descriptor reads. A late thread is not waited for, and no
//! second one starts. It takes the counters of the previous reading with it, and returns the new ones.
//!
//! `written` describes the text. After regions, a text without any is empty. If a reading fails, the next one covers its
//! time too.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::probes::ProbeCreation;
use super::written::{Counters, RegionCounters, describe};
use super::{Part, PartReading};
use crate::source::clock::micros;
use crate::source::dm::call::{self, major_minor};
use crate::source::dm::stats::StatsReader;

/// The time between two readings.
const PERIOD: Duration = Duration::from_secs(60);
/// A reading takes microseconds for each area. One that takes longer than this is reported as late.
const DEADLINE: Duration = Duration::from_secs(10);

/// Whether a thread reads, also one that another `Live` started and left alone. A flag suffices: it guards no value.
static IS_READING: AtomicBool = AtomicBool::new(false);

/// The readings of the regions.
#[derive(Default)]
pub struct TouchedAreas {
    asked_at: Option<Instant>,
    pending: Option<PendingReading>,
    counters: Counters,
    /// Whether the last text has regions.
    has_regions: bool,
    /// `None` if nothing may be created.
    probes: Option<ProbeCreation>,
}

struct PendingReading {
    answer: Receiver<Answer>,
    is_late: bool,
}

struct Answer {
    text: Result<String, String>,
    took: Duration,
    counters: Counters,
}

impl TouchedAreas {
    /// Creates probes in maps too.
    pub fn create_probes(&mut self) {
        self.probes.get_or_insert_default();
    }

    /// The text since the last tick, if any; starts a new reading if one is due. Never waits.
    pub fn poll(&mut self) -> Option<PartReading> {
        let text = self.answer();
        if self.pending.is_none() && self.asked_at.is_none_or(|at| at.elapsed() >= PERIOD) {
            self.start();
        }
        let (text, took) = text?;
        let is_empty = matches!(&text, Ok(text) if text.is_empty());
        // Without regions, neither an empty text nor an error matters.
        let is_news = self.has_regions || matches!(&text, Ok(text) if !text.is_empty());
        if text.is_ok() {
            self.has_regions = !is_empty;
            if let Some(probes) = &mut self.probes {
                probes.start_if_due(&self.counters);
            }
        }
        is_news.then(|| PartReading {
            part: Part::Touched,
            result: text.into(),
            took_us: micros(took),
        })
    }

    fn answer(&mut self) -> Option<(Result<String, String>, Duration)> {
        let pending = self.pending.as_mut()?;
        let waited = self.asked_at.map_or(Duration::ZERO, |at| at.elapsed());
        match pending.answer.try_recv() {
            Ok(answer) => {
                (self.pending, self.counters) = (None, answer.counters);
                Some((answer.text, answer.took))
            }
            Err(TryRecvError::Empty) if waited > DEADLINE && !pending.is_late => {
                pending.is_late = true;
                let waited_s = waited.as_secs_f64();
                Some((
                    Err(format!(
                        "the kernel has not answered about statistics for {waited_s:.1} s"
                    )),
                    waited,
                ))
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.pending = None;
                Some((
                    Err("the thread that reads statistics has stopped".into()),
                    waited,
                ))
            }
        }
    }

    fn start(&mut self) {
        if IS_READING.swap(true, Ordering::AcqRel) {
            return;
        }
        self.asked_at = Some(Instant::now());
        let (sender, answer) = channel();
        let before = std::mem::take(&mut self.counters);
        let reading = move || {
            let _ended = Reading;
            let started = Instant::now();
            let (text, counters) = read(before);
            // The receiver is gone while the program stops.
            let _ = sender.send(Answer {
                text,
                took: started.elapsed(),
                counters,
            });
        };
        match std::thread::Builder::new()
            .name("touched-areas".into())
            .spawn(reading)
        {
            Ok(_) => {
                self.pending = Some(PendingReading {
                    answer,
                    is_late: false,
                })
            }
            Err(_) => IS_READING.store(false, Ordering::Release),
        }
    }
}

/// The end of a reading, also of one that panics.
struct Reading;

impl Drop for Reading {
    fn drop(&mut self) {
        IS_READING.store(false, Ordering::Release);
    }
}

/// Reads all regions; returns the text, and the counters for the next reading. After an error these are the old ones.
pub fn read(before: Counters) -> (Result<String, String>, Counters) {
    match read_counters() {
        Ok(found) => {
            let mut text = String::new();
            for (device, uuid, now) in &found {
                describe(
                    *device,
                    uuid,
                    now,
                    before.get(&(uuid.clone(), now.region.id)),
                    &mut text,
                );
            }
            let counters = found
                .into_iter()
                .map(|(_, uuid, now)| ((uuid, now.region.id), now));
            (Ok(text), counters.collect())
        }
        Err(why) => (Err(why), before),
    }
}

/// The device, its UUID and the counters of each region.
fn read_counters() -> Result<Vec<(u64, String, RegionCounters)>, String> {
    let control = call::open()?;
    let mut reader = StatsReader::default();
    let mut found = Vec::new();
    for device in reader.devices(&control)? {
        found.extend(device_counters(&mut reader, &control, device.number)?);
    }
    Ok(found)
}

fn device_counters(
    reader: &mut StatsReader,
    control: &File,
    device: u64,
) -> Result<Vec<(u64, String, RegionCounters)>, String> {
    let found = match reader.regions(control, device) {
        Ok(found) if found.is_volume() => found,
        // Another device, or one that is gone, or a kernel without statistics.
        Ok(_) | Err(Errno::NXIO | Errno::INVAL) => return Ok(Vec::new()),
        Err(errno) => {
            return Err(format!(
                "cannot list the statistics of {}: {errno}",
                major_minor(device)
            ));
        }
    };
    let counters = found.regions.into_iter().map(|region| {
        let areas = reader.counters(control, device, &region)?;
        Ok((device, found.uuid.clone(), RegionCounters { region, areas }))
    });
    counters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ReadResult;

    /// The reply to a pending reading.
    fn pending(areas: &mut TouchedAreas, asked_at: Instant) -> std::sync::mpsc::Sender<Answer> {
        let (sender, answer) = channel();
        areas.asked_at = Some(asked_at);
        areas.pending = Some(PendingReading {
            answer,
            is_late: false,
        });
        sender
    }

    fn polled(areas: &mut TouchedAreas, text: Result<&str, &str>) -> Option<ReadResult> {
        let text = text.map(String::from).map_err(String::from);
        let answer = Answer {
            text,
            took: Duration::ZERO,
            counters: Counters::new(),
        };
        pending(areas, Instant::now()).send(answer).ok().unwrap();
        areas.poll().map(|reading| reading.result)
    }

    #[test]
    fn without_regions_only_their_end_is_reported() {
        let mut areas = TouchedAreas::default();
        let text = |text: &str| Some(ReadResult::Text(text.into()));
        assert_eq!(polled(&mut areas, Ok("")), None);
        assert_eq!(polled(&mut areas, Err("no right")), None);
        assert_eq!(polled(&mut areas, Ok("253:3…")), text("253:3…"));
        assert_eq!(
            polled(&mut areas, Err("no right")),
            Some(ReadResult::Error("no right".into()))
        );
        assert_eq!(polled(&mut areas, Ok("")), text(""));
        assert_eq!(polled(&mut areas, Ok("")), None);
    }

    #[test]
    fn a_late_reading_is_the_only_one_and_is_reported_once() {
        let mut areas = TouchedAreas {
            has_regions: true,
            ..TouchedAreas::default()
        };
        let sender = pending(&mut areas, Instant::now().checked_sub(PERIOD * 2).unwrap());
        let Some(ReadResult::Error(error)) = areas.poll().map(|reading| reading.result) else {
            panic!()
        };
        assert_eq!(
            error,
            "the kernel has not answered about statistics for 120.0 s"
        );
        assert!(
            areas.poll().is_none()
                && areas
                    .pending
                    .as_ref()
                    .is_some_and(|pending| pending.is_late)
        );
        IS_READING.store(true, Ordering::Release);
        drop(sender);
        assert!(
            areas.poll().is_some() && areas.pending.is_none(),
            "no second thread starts"
        );
        IS_READING.store(false, Ordering::Release);
    }
}
