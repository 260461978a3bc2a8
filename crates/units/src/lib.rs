//! Sectors, bytes and fills: arithmetic and formatting.
//!
//! Percentages match `lvs` to the hundredth.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

/// Bytes in one sector of `/proc/diskstats` and the device-mapper, whatever the disk's own sector size.
pub const SECTOR: u64 = 512;

/// A count of 512-byte sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sectors(pub u64);

impl Sectors {
    pub fn bytes(self) -> u64 {
        self.0.saturating_mul(SECTOR)
    }
}

/// Used and total blocks of a fixed-size area; one block is `unit` bytes.
///
/// COW areas count sectors, thin pool data counts chunks, thin pool metadata counts 4 KiB blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    pub used: u64,
    pub total: u64,
    pub unit: u64,
}

impl Fill {
    pub fn used_bytes(self) -> u64 {
        self.used.saturating_mul(self.unit)
    }

    pub fn total_bytes(self) -> u64 {
        self.total.saturating_mul(self.unit)
    }

    /// The percentage as `lvs` prints it, with two decimals: 0.01 if barely used, 99.99 if nearly full.
    ///
    /// Ties go to the even digit, as in `printf`: an eighth of 25 % is 3.12 %.
    ///
    /// Source: `dm_make_percent` and `dm_percent_to_round_float` of libdm 1.02.141 and later.
    pub fn percent(self) -> f64 {
        let millionths = self.millionths();
        match millionths {
            1..10_000 => 0.01,
            99_990_001..100_000_000 => 99.99,
            _ => (f64::from(millionths as f32 / 1e6_f32) * 100.0).round_ties_even() / 100.0,
        }
    }

    fn millionths(self) -> i32 {
        if self.total == 0 || self.used == self.total {
            return 100_000_000;
        }
        if self.used == 0 {
            return 0;
        }
        match (1e8 * (self.used as f64 / self.total as f64)) as i32 {
            100_000_000 => 99_999_999,
            0 => 1,
            millionths => millionths,
        }
    }
}

/// A number of bytes in binary multiples: `1.50 MiB`.
pub fn size_text(bytes: u64) -> String {
    bytes_text(bytes as f64)
}

/// Bytes with three significant figures and a unit: `1.50 MiB`.
pub fn bytes_text(bytes: f64) -> String {
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    let mut scaled = bytes;
    // 999.5 and above would round to four figures.
    while scaled.abs() >= 999.5
        && let Some(next) = units.next()
    {
        scaled /= 1024.0;
        unit = next;
    }
    if unit == "B" {
        return format!("{scaled:.0} B");
    }
    format!("{} {unit}", three_figures(scaled))
}

/// Bytes a second: `1.50 MiB/s`.
pub fn speed_text(bytes_per_s: f64) -> String {
    format!("{}/s", bytes_text(bytes_per_s))
}

/// A share from 0 to 1 in whole percent: `98 %`.
pub fn share_text(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A number with at most three significant figures, and no decimals from 100 on.
pub fn three_figures(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Milliseconds: `9.00 ms`. The kernel counts whole ones, so that a mean may be 0 though each request took some time.
pub fn ms_text(ms: f64) -> String {
    if (0.0..0.005).contains(&ms) {
        return "< 0.01 ms".into();
    }
    format!("{} ms", three_figures(ms))
}

/// A number with at most three significant figures, or commas between thousands; `3`, not `3.00`.
pub fn number_text(value: f64) -> String {
    let text = if value.abs() < 100.0 {
        three_figures(value)
    } else {
        grouped(value, 0)
    };
    match text.split_once('.') {
        Some((whole, decimals)) if decimals.bytes().all(|digit| digit == b'0') => whole.into(),
        _ => text,
    }
}

/// A number with commas between thousands.
pub fn grouped(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let digits = plain.find('.').unwrap_or(plain.len());
    let first = usize::from(plain.starts_with('-'));
    let mut text = String::with_capacity(plain.len() + digits / 3);
    for (place, character) in plain.char_indices() {
        if place > first && place < digits && (digits - place) % 3 == 0 {
            text.push(',');
        }
        text.push(character);
    }
    text
}

/// A percentage with two decimals, as `lvs` prints it: `85.40 %`.
pub fn percent_text(percent: f64) -> String {
    format!("{percent:.2} %")
}

/// `9 min`: a duration that is known roughly.
pub fn rough_text(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    match seconds {
        0.0..100.0 => format!("{seconds:.0} s"),
        100.0..10_800.0 => format!("{:.0} min", seconds / 60.0),
        10_800.0..172_800.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

/// Sorts names with numbers in them as people do: `lv_2` comes before `lv_10`.
pub fn natural_key(name: &str) -> String {
    /// As many digits as 64 bits need.
    const WIDTH: usize = 20;
    let mut key = String::new();
    let mut number = String::new();
    for char in name.chars().chain(['\0']) {
        if char.is_ascii_digit() {
            number.push(char);
            continue;
        }
        if !number.is_empty() {
            key += &format!("{number:0>WIDTH$}");
            number.clear();
        }
        key.push(char);
    }
    key
}

/// A text with a capital letter at its start.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

/// `1 device`, `2 devices`.
pub fn count_text<N: Display + PartialEq + From<u8>>(count: N, one: &str, several: &str) -> String {
    format!(
        "{count} {}",
        if count == N::from(1) { one } else { several }
    )
}

/// A duration in at most two units: `45 s`, `12 min 05 s`, `3 h 20 min`, `2 d 4 h`.
pub fn duration_text(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    match whole {
        0..120 => format!("{whole} s"),
        120..3_600 => format!("{minutes} min {:02} s", whole % 60),
        3_600..86_400 => format!("{hours} h {minutes:02} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// The duration of something that ended, with fractions of a second below ten: `0.19 s`.
pub fn took_text(seconds: f64) -> String {
    if seconds < 9.995 {
        format!("{} s", three_figures(seconds.max(0.0)))
    } else {
        duration_text(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(used: u64, total: u64) -> f64 {
        Fill {
            used,
            total,
            unit: SECTOR,
        }
        .percent()
    }

    #[test]
    fn numbers_in_names_are_sorted_by_their_value() {
        let mut names = ["lv_10", "lv_2", "lv", "a10b2", "a10b10", "a9", "lv_1"];
        names.sort_by_key(|name| natural_key(name));
        assert_eq!(
            names,
            ["a9", "a10b2", "a10b10", "lv", "lv_1", "lv_2", "lv_10"]
        );
    }

    #[test]
    fn fills_agree_with_lvs_to_the_hundredth() {
        for (used, total, lvs) in [
            (24, 81_920, 0.03),
            (8_248, 81_920, 10.07),
            (30_856, 40_960, 75.33),
            (41_136, 131_072, 31.38),
            (162, 1_024, 15.82),
            (112, 1_024, 10.94),
            (117, 1_024, 11.43),
            (0, 10, 0.0),
            (10, 10, 100.0),
            (1, 10_000_000, 0.01),
            (9_999_999, 10_000_000, 99.99),
            (99_991, 100_000, 99.99),
            (100, 3_200, 3.12),
            (300, 3_200, 9.38),
            (1, 32, 3.12),
            (3, 32, 9.38),
            (9, 32, 28.12),
            (31, 32, 96.88),
            (1, 160, 0.62),
        ] {
            assert_eq!(percent(used, total), lvs, "{used}/{total}");
        }
    }

    #[test]
    fn an_area_without_size_is_full() {
        assert_eq!(percent(0, 0), 100.0);
    }

    #[test]
    fn short_durations_have_fractions_of_a_second() {
        assert_eq!(
            [0.187, 3.0, 9.994, 9.995, 61.4].map(took_text),
            ["0.19 s", "3.00 s", "9.99 s", "10 s", "61 s"]
        );
    }

    #[test]
    fn counts_choose_singular_or_plural() {
        assert_eq!(
            [0_u64, 1, 2].map(|count| count_text(count, "entry", "entries")),
            ["0 entries", "1 entry", "2 entries"]
        );
    }

    #[test]
    fn bytes_are_written_with_three_figures() {
        for (bytes, expected) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1024.0, "1.00 KiB"),
            (1_572_864.0, "1.50 MiB"),
            (1_048_575.0, "1.00 MiB"),
            (123_456_789_000.0, "115 GiB"),
        ] {
            assert_eq!(bytes_text(bytes), expected);
        }
    }

    #[test]
    fn durations_have_at_most_two_units() {
        for (seconds, text) in [
            (45.0, "45 s"),
            (700.0, "11 min 40 s"),
            (12_000.0, "3 h 20 min"),
            (187_200.0, "2 d 4 h"),
        ] {
            assert_eq!(duration_text(seconds), text);
        }
    }
}
