//! Readings made by a test, and what the program's own observer says of them.

pub use cowbell::pipeline::Observer;

use cowbell::interval::Interval;
use cowbell::source::{Part, PartReading, ReadError, ReadResult, Reading};
use cowbell::topology::{Volume, VolumeState};

use crate::tape::BEGIN;

/// What the last reading's text of this part was not understood for.
pub fn complaint(observer: &Observer, part: Part) -> Option<&str> {
    match observer.parts().get(&part)?.error.as_ref()? {
        ReadError::Failed(why) => Some(why),
        ReadError::NotRoot => None,
    }
}

/// A reading so many seconds after the beginning.
pub fn reading(seconds: f64, texts: Vec<(Part, ReadResult)>) -> Reading {
    let texts = texts.into_iter().map(|(part, result)| PartReading {
        part,
        result,
        took_us: 10,
    });
    Reading {
        at: BEGIN + jiff::SignedDuration::from_secs_f64(seconds),
        uptime_us: 1_000_000 + (seconds * 1e6) as u64,
        took_us: 100,
        texts: texts.collect(),
        commands: Vec::new(),
        hooks: Vec::new(),
    }
}

/// A volume by its bare name, and how it is.
pub fn volume<'a>(interval: &'a Interval, lv: &str) -> (&'a Volume, &'a VolumeState) {
    let found = interval.volumes().find(|(volume, _)| volume.lv == lv);
    found.unwrap_or_else(|| panic!("no volume {lv} in {:?}", interval.topology.volumes))
}
