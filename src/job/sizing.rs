//! The recommended size of the next run's COW area, from the peaks of earlier runs. A run that overflowed counts with
//! its full COW area, although it needed more.

pub use cowbell_touched::cow_bytes;
use cowbell_touched::curve::BYTES_OF_AN_EXCEPTION;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::words::size;

/// LVM's default extent; sizes are multiples of it.
pub const DEFAULT_EXTENT: u64 = 4 * 1024 * 1024;
/// LVM's default chunk.
pub const DEFAULT_CHUNK: u64 = 4 * 1024;
/// The default ratio of size to peak: nights differ, and an overflow loses the backup.
pub const DEFAULT_MARGIN: f64 = 2.0;

/// The peak usage of a run's COW area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    pub bytes: u64,
    pub overflowed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Limits {
    /// The default is LVM's.
    pub extent: Option<u64>,
    /// The default is LVM's.
    pub chunk: Option<u64>,
    pub origin_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sizing {
    /// Runs with a known peak.
    pub runs: usize,
    /// The number of those that overflowed.
    pub overflowed: usize,
    pub peak_bytes: u64,
    /// The ratio of the recommended size to the peak.
    pub margin: f64,
    pub advised_bytes: u64,
    /// Whether the recommended size holds every chunk of the origin.
    pub cannot_overflow: bool,
    pub text: String,
    /// Lines for `mylvmbackup.conf`.
    pub setting: String,
}

/// The recommended size; `None` without a known peak. A margin below 1 counts as 1.
pub fn sizing(peaks: &[Peak], margin: f64, limits: Limits) -> Option<Sizing> {
    let peak_bytes = peaks.iter().map(|peak| peak.bytes).max()?;
    let overflowed = peaks.iter().filter(|peak| peak.overflowed).count();
    // At least twice as much after an overflow, so that the next run does not overflow as well.
    let least = if overflowed > 0 { DEFAULT_MARGIN } else { 1.0 };
    let margin = if margin.is_finite() {
        margin.max(least)
    } else {
        DEFAULT_MARGIN
    };
    let extent = limits
        .extent
        .filter(|extent| *extent > 0)
        .unwrap_or(DEFAULT_EXTENT);
    let whole = |bytes: u64| bytes.div_ceil(extent).max(1).saturating_mul(extent);
    let wished = whole((peak_bytes as f64 * margin).ceil() as u64);
    let most = limits
        .origin_bytes
        .map(|origin| whole(never_overflows(origin, limits.chunk)));
    let advised_bytes = most.map_or(wished, |most| wished.min(most));
    let mut sizing = Sizing {
        runs: peaks.len(),
        overflowed,
        peak_bytes,
        margin,
        advised_bytes,
        cannot_overflow: most.is_some_and(|most| advised_bytes >= most),
        text: String::new(),
        setting: setting(advised_bytes),
    };
    sizing.text = sizing.sentence();
    Some(sizing)
}

/// The size of a COW area that holds every chunk of its origin. Source: dm-snap-persistent.c.
pub fn never_overflows(origin_bytes: u64, chunk: Option<u64>) -> u64 {
    let chunk = chunk
        .filter(|chunk| *chunk >= BYTES_OF_AN_EXCEPTION)
        .unwrap_or(DEFAULT_CHUNK);
    cow_bytes(origin_bytes.div_ceil(chunk), chunk)
}

impl Sizing {
    /// Takes the size that `cowbell size` suggests for the origin, which knows more than the peaks.
    pub fn or_suggested(self, bytes: Option<u64>, origin: &str) -> Self {
        let Some(bytes) = bytes.filter(|bytes| *bytes != self.advised_bytes) else {
            return self;
        };
        let text = format!(
            "{} `cowbell size {origin}` suggests {}, and shows why.",
            self.peak_text(),
            size(bytes as f64)
        );
        Self {
            margin: bytes as f64 / self.peak_bytes.max(1) as f64,
            advised_bytes: bytes,
            cannot_overflow: self.cannot_overflow && bytes > self.advised_bytes,
            text,
            setting: setting(bytes),
            ..self
        }
    }

    fn peak_text(&self) -> String {
        let (runs, largest) = match self.runs {
            1 => ("the run".into(), "peak"),
            runs => (format!("the last {runs} runs"), "largest peak"),
        };
        format!(
            "The {largest} of {runs} was {}.",
            size(self.peak_bytes as f64)
        )
    }

    fn sentence(&self) -> String {
        let advised = size(self.advised_bytes as f64);
        let peak = self.peak_text();
        if self.cannot_overflow {
            return format!(
                "{peak} {advised} cannot overflow, however much is written to the origin."
            );
        }
        if self.overflowed > 0 {
            let these = if self.runs == 1 {
                "It".into()
            } else {
                format!("{} of them", self.overflowed)
            };
            return format!(
                "{peak} {these} overflowed, so the required size is unknown. {advised} is {}that.",
                times(self.margin)
            );
        }
        format!("{peak} {advised} holds {}that.", times(self.margin))
    }
}

fn times(margin: f64) -> String {
    match margin {
        _ if margin == 1.0 => String::new(),
        _ if margin == 2.0 => "twice ".into(),
        _ => format!("{margin:.1} times "),
    }
}

/// Lines for `mylvmbackup.conf`.
pub fn setting(bytes: u64) -> String {
    format!("[lvm]\nlvsize={}", lvm_size(bytes))
}

/// A size for `lvcreate`: a whole number in powers of 1024.
fn lvm_size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M")];
    let fits = units
        .into_iter()
        .find(|(unit, _)| bytes.is_multiple_of(*unit));
    fits.map_or_else(
        || format!("{}K", bytes.div_ceil(1024)),
        |(unit, name)| format!("{}{name}", bytes / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn held(mib: f64) -> Peak {
        Peak {
            bytes: (mib * MIB as f64) as u64,
            overflowed: false,
        }
    }

    fn check(peaks: &[Peak], limits: Limits, text: &str, setting: &str) {
        let found = sizing(peaks, 2.0, limits).unwrap();
        assert_eq!((&*found.text, &*found.setting), (text, setting));
    }

    #[test]
    fn the_size_is_the_peak_times_the_margin() {
        let mut peaks = vec![held(9.0); 13];
        peaks.push(held(15.7));
        let text = "The largest peak of the last 14 runs was 15.7 MiB. 32.0 MiB holds twice that.";
        check(&peaks, Limits::default(), text, "[lvm]\nlvsize=32M");
    }

    #[test]
    fn after_an_overflow_the_size_at_least_doubles() {
        let peaks = [
            held(40.0),
            Peak {
                bytes: 120 * MIB,
                overflowed: true,
            },
        ];
        let text = "The largest peak of the last 2 runs was 120 MiB. 1 of them overflowed, so the required size is \
                    unknown. 240 MiB is twice that.";
        check(&peaks, Limits::default(), text, "[lvm]\nlvsize=240M");
        assert_eq!(sizing(&peaks, 1.0, Limits::default()).unwrap().margin, 2.0);
        let text = "The peak of the run was 120 MiB. It overflowed, so the required size is unknown. 240 MiB is twice \
                    that.";
        check(&peaks[1..], Limits::default(), text, "[lvm]\nlvsize=240M");
    }

    #[test]
    fn the_size_is_limited_to_a_full_copy() {
        let limits = Limits {
            origin_bytes: Some(100 * MIB),
            ..Limits::default()
        };
        let text = "The peak of the run was 80.0 MiB. 104 MiB cannot overflow, however much is written to the origin.";
        check(&[held(80.0)], limits, text, "[lvm]\nlvsize=104M");
    }

    /// Computed by hand: 25,600 chunks of 4 KiB, 256 to an area, 101 areas, and the header.
    #[test]
    fn a_full_copy_includes_the_exception_tables() {
        assert_eq!(never_overflows(100 * MIB, None), (1 + 25_600 + 101) * 4096);
        assert_eq!(never_overflows(0, Some(16384)), 2 * 16384);
    }

    #[test]
    fn sizes_are_whole_extents() {
        let limits = Limits {
            extent: Some(32 * MIB),
            ..Limits::default()
        };
        assert_eq!(
            sizing(&[held(15.7)], 2.5, limits).unwrap().advised_bytes,
            64 * MIB
        );
        assert_eq!(
            sizing(&[held(0.0)], 2.0, limits).unwrap().advised_bytes,
            32 * MIB
        );
        assert_eq!(lvm_size(3 * 1024 * MIB), "3G");
    }

    #[test]
    fn the_size_of_the_origin_replaces_one_that_differs() {
        let of_peaks = sizing(&[held(15.7)], 2.0, Limits::default()).unwrap();
        let with = |mib: u64| of_peaks.clone().or_suggested(Some(mib * MIB), "vg0/data");
        assert_eq!(with(32), of_peaks);
        assert_eq!(of_peaks.clone().or_suggested(None, "vg0/data"), of_peaks);
        assert_eq!(
            (&*with(48).text, &*with(48).setting),
            (
                "The peak of the run was 15.7 MiB. `cowbell size vg0/data` suggests 48.0 MiB, and shows why.",
                "[lvm]\nlvsize=48M"
            )
        );
    }

    #[test]
    fn without_runs_there_is_no_size() {
        assert_eq!(sizing(&[], 2.0, Limits::default()), None);
        assert_eq!(
            sizing(&[held(1.0)], f64::NAN, Limits::default())
                .unwrap()
                .margin,
            2.0
        );
    }
}
