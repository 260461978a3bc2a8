//! What snapshots of one chunk size needed, at any age: each measured window and each finished snapshot is a case.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Curve, Measured, SizingRequest};
use crate::advice::never_overflows;
use crate::job::Grade;
use crate::job::growth::{AGES_MIN, FinishedSnapshot, Growth, StoredNeed};
use crate::statistics::Sorted;
use crate::units::{count_text, size_text};

/// If the last two backups began at another hour than most, backups may have moved.
const LAST_BACKUPS: usize = 2;
/// Hours of a day, in UTC.
pub const HOURS: u8 = 24;
/// 1.2 times what 95 % of the windows needed held in all steady cases that were tried.
const MARGIN: f64 = 1.2;
const SHARE: f64 = 0.95;
/// Windows end an hour apart, and a day of them holds all that recurs daily.
pub const LEAST_WINDOWS: usize = 24;
/// Nights differ, and less than that does not show by how much.
const MARGIN_OF_FEW: f64 = 2.0;
/// Fewer good backups do not show that a smaller size is enough: one of eight seconds at an idle hour needed 4 MiB of the
/// 80 MiB that the next one filled.
const LEAST_BACKUPS: usize = 5;
/// A size falls by a quarter at most at once, so that each step is tried before the next one.
const LEAST_PART: f64 = 0.75;

/// The bytes that snapshots of this age and chunk size needed, or would have needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SizeRow {
    pub age_s: f64,
    pub chunk_bytes: u64,
    /// The windows or runs that it is known from.
    pub windows: usize,
    /// Windows that are left out, since a snapshot copies nothing for a discard, which the kernel counts as a write.
    pub windows_with_discards: usize,
    pub median_bytes: u64,
    pub largest_bytes: u64,
    /// Whether the largest one overflowed: it needed more than its size.
    #[serde(default)]
    pub is_overflow: bool,
    pub suggested_bytes: u64,
    /// Why a smaller size is not suggested, although nothing needed more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// If the windows are estimated: the half of the interval that holds the truth in 95 % of cases, for the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
}

impl SizeRow {
    /// `13.1 MiB`, or `more than 64.0 MiB`.
    pub fn largest_text(&self) -> String {
        let more = if self.is_overflow { "more than " } else { "" };
        format!("{more}{}", size_text(self.largest_bytes))
    }
}

/// The band of all windows at an age.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SizePoint {
    pub age_s: f64,
    pub least_bytes: f64,
    pub median_bytes: f64,
    pub largest_bytes: f64,
}

/// The next snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedSize {
    pub bytes: u64,
    pub age_s: f64,
    /// The windows and runs that it is compared with.
    pub cases: usize,
    pub risk: SizeRisk,
    pub text: String,
}

/// Whether the next snapshot is large enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SizeRisk {
    /// No window needed more.
    Low,
    /// Some window needed more.
    Possible,
    /// Half of the windows needed more.
    Likely,
}

impl SizeRisk {
    /// What is said of the next snapshot.
    pub fn text(self) -> &'static str {
        match self {
            Self::Low => "has room",
            Self::Possible => "may overflow",
            Self::Likely => "will probably overflow",
        }
    }
}

impl From<SizeRisk> for Grade {
    fn from(risk: SizeRisk) -> Self {
        match risk {
            SizeRisk::Low => Self::Ok,
            SizeRisk::Possible | SizeRisk::Likely => Self::Warning,
        }
    }
}

struct MeasuredWindow {
    at: Timestamp,
    measured_s: f64,
    /// How long before its end the volume last had discards.
    discarded_s: Option<f64>,
    growth: Growth,
    /// The ends of its interval, if it is estimated.
    least: Growth,
    most: Growth,
}

/// What is known of one chunk size.
pub struct MeasuredNeeds<'a> {
    request: &'a SizingRequest<'a>,
    pub chunk: u64,
    windows: Vec<MeasuredWindow>,
    runs: Vec<&'a FinishedSnapshot>,
    /// What any stored snapshot needed.
    stored: Vec<&'a StoredNeed>,
    /// The age from which a size has to be enough for the next backup. `None` if it does not use this chunk size.
    night_s: Option<f64>,
    /// When the last good backups began, or any of them.
    backups_at: Option<u8>,
    /// A full copy of the origin.
    most: f64,
}

impl<'a> MeasuredNeeds<'a> {
    pub fn of(request: &'a SizingRequest, chunk: u64) -> Self {
        let curves = request.measured.into_iter().flat_map(Measured::all);
        let windows = curves.filter_map(|curve| MeasuredWindow::of(curve, chunk));
        let runs = request.runs.iter().filter(|run| run.chunk == chunk);
        let stored = request.stored.iter().filter(|run| run.chunk == chunk);
        let last = request.stored.iter().find(|run| run.is_good_backup);
        let last_hour = || last.map(|run| hour_of(run.started_at));
        let is_main = request.main_chunk() == Some(chunk);
        let mut most = f64::INFINITY;
        if let Some(origin) = request.origin_bytes
            && !request.is_thin
        {
            most = never_overflows(origin, Some(chunk)) as f64;
        }
        Self {
            request,
            chunk,
            windows: windows.collect(),
            runs: runs.collect(),
            stored: stored.collect(),
            night_s: request.suggested_s().filter(|_| is_main),
            backups_at: usual_hour(request).or_else(last_hour),
            most,
        }
    }

    /// The bytes that were needed at an age, in each measured window and by each run; with an hour, in those that began
    /// about then. A backup that overflowed counts at any hour.
    fn cases(&self, age_s: f64, hour: Option<u8>) -> (Vec<f64>, Vec<f64>) {
        let is_lost = |run: &FinishedSnapshot| run.is_backup && run.overflowed;
        (
            self.of_windows(age_s, hour, |window| &window.growth),
            self.of_runs(age_s, |run| is_about(hour, run.started_at) || is_lost(run)),
        )
    }

    /// The bytes that were needed in all that began about an hour.
    pub fn about(&self, age_s: f64, hour: u8) -> Option<Sorted> {
        let windows = self.of_windows(age_s, Some(hour), |window| &window.growth);
        let runs = self.of_runs(age_s, |run| is_about(Some(hour), run.started_at));
        Sorted::new(windows.into_iter().chain(runs))
    }

    fn of_runs(&self, age_s: f64, is_meant: impl Fn(&FinishedSnapshot) -> bool) -> Vec<f64> {
        let meant = self.runs.iter().filter(|run| is_meant(run));
        let needs = meant.filter_map(|run| run.need(age_s));
        needs.map(|need| need.min(self.most)).collect()
    }

    /// The windows that are at least this long.
    fn windows(&self, age_s: f64, hour: Option<u8>) -> impl Iterator<Item = &MeasuredWindow> {
        let age = SignedDuration::from_secs(age_s as i64);
        self.windows
            .iter()
            .filter(move |window| window.measured_s >= age_s && is_about(hour, window.at - age))
    }

    /// Those of windows with discards are unknown.
    fn of_windows(
        &self,
        age_s: f64,
        hour: Option<u8>,
        growth: fn(&MeasuredWindow) -> &Growth,
    ) -> Vec<f64> {
        let windows = self.windows(age_s, hour);
        let needs = windows.filter_map(|window| growth(window).at(age_s));
        needs.map(|need| need.min(self.most)).collect()
    }

    pub fn row(&self, age_s: f64, hour: Option<u8>) -> Option<SizeRow> {
        let (windows, runs) = self.cases(age_s, hour);
        let all = Sorted::new(windows.iter().chain(&runs).copied())?;
        let lower = self.of_windows(age_s, hour, |window| &window.least);
        let upper = Sorted::new(self.of_windows(age_s, hour, |window| &window.most));
        let wished = match &upper {
            // The load of the backup itself is only in the runs.
            Some(upper) if windows.len() >= LEAST_WINDOWS => {
                runs.iter().copied().fold(upper.percentile(SHARE), f64::max) * MARGIN
            }
            _ => all.most() * MARGIN_OF_FEW,
        };
        let extent = self.request.extent.max(1);
        let in_extents = |bytes: f64| (bytes.ceil() as u64).div_ceil(extent).max(1) * extent;
        let stored = self.stored.iter().map(|run| run.least_size() as f64);
        let wished = wished.max(stored.fold(all.most(), f64::max)).min(self.most);
        let (mut suggested_bytes, mut kept) = (in_extents(wished), None);
        if wished < self.most
            && let Some((least, why)) = self.kept(suggested_bytes, age_s)
        {
            suggested_bytes = least.min(in_extents(self.most));
            kept = Some(why);
        }
        let (largest_bytes, is_overflow) = self.largest(age_s, &windows);
        let has_discards = |window: &&MeasuredWindow| window.has_discards(age_s);
        Some(SizeRow {
            age_s,
            chunk_bytes: self.chunk,
            windows: all.numbers().len(),
            windows_with_discards: self.windows(age_s, hour).filter(has_discards).count(),
            median_bytes: (all.median() as u64).min(largest_bytes),
            largest_bytes,
            is_overflow,
            suggested_bytes,
            kept,
            error_percent: upper.and_then(|upper| error_percent(&windows, &lower, upper.numbers())),
        })
    }

    /// The most that was needed, and whether that is of a snapshot that overflowed. At the age of the next backup, each
    /// stored snapshot counts with all that it needed, however old it became.
    fn largest(&self, age_s: f64, windows: &[f64]) -> (u64, bool) {
        let is_night = self.night_s == Some(age_s);
        let mut largest = (windows.iter().copied().fold(0.0, f64::max), false);
        let runs = self.runs.iter().filter(|_| !is_night);
        let runs = runs.filter_map(|run| run.seen_need(age_s));
        let stored = self.stored.iter().filter(|_| is_night);
        let stored = stored.map(|run| (run.used as f64, run.overflowed));
        for (bytes, overflowed) in runs.chain(stored) {
            if bytes >= largest.0 {
                largest = (bytes, overflowed);
            }
        }
        (largest.0.min(self.most) as u64, largest.1)
    }

    /// If it is too early for a size that is smaller than the present one: the least that may be suggested, and why.
    fn kept(&self, bytes: u64, age_s: f64) -> Option<(u64, String)> {
        let present = self.request.present_bytes()?;
        self.night_s.filter(|night_s| age_s >= *night_s)?;
        if bytes >= present || self.request.is_thin {
            return None;
        }
        let (known, about) = (self.good_backups(), self.about_backups());
        if known < LEAST_BACKUPS {
            let known = count_text(known, "is known", "are known");
            let why =
                format!("A smaller size needs {LEAST_BACKUPS} good backups{about}, and {known}.");
            return Some((present, why));
        }
        let extent = self.request.extent.max(1);
        let least = ((present as f64 * LEAST_PART).ceil() as u64).div_ceil(extent) * extent;
        let why = "It falls by a quarter at most at once.".into();
        (bytes < least).then_some((least, why))
    }

    /// The good backups that began about the hour of the backups.
    fn good_backups(&self) -> usize {
        let good = self.stored.iter().filter(|run| run.is_good_backup);
        good.filter(|run| is_about(self.backups_at, run.started_at))
            .count()
    }

    /// ` about 02:00 UTC`
    fn about_backups(&self) -> String {
        let hour = self.backups_at;
        hour.map_or_else(String::new, |hour| format!(" about {hour:02}:00 UTC"))
    }

    /// How a size that is smaller than the present one is known to be enough: the end of a sentence.
    pub fn enough(&self, row: &SizeRow) -> String {
        if row.suggested_bytes as f64 >= self.most {
            return ".".into();
        }
        let backups = count_text(self.good_backups(), "good backup", "good backups");
        let about = self.about_backups();
        let kept = row.kept.as_ref().map(|why| format!(" {why}"));
        let kept = kept.unwrap_or_default();
        format!(": none of {backups}{about} needed more.{kept}")
    }

    /// At all ages, the shortest first, up to the longest that any case reached.
    pub fn curve(&self, usual_s: Option<f64>, hour: Option<u8>) -> Vec<SizePoint> {
        let ages = AGES_MIN.iter().map(|age| f64::from(*age) * 60.0);
        let mut ages: Vec<f64> = ages.chain(usual_s).collect();
        ages.sort_by(f64::total_cmp);
        ages.dedup();
        let mut curve: Vec<SizePoint> = Vec::new();
        for age_s in ages {
            let (windows, runs) = self.cases(age_s, hour);
            let Some(all) = Sorted::new(windows.into_iter().chain(runs)) else {
                break;
            };
            let mut point = SizePoint {
                age_s,
                least_bytes: all.least(),
                median_bytes: all.median(),
                largest_bytes: all.most(),
            };
            // Fewer windows are known of a longer age, but it needs no less.
            if let Some(before) = curve.last() {
                point.least_bytes = point.least_bytes.max(before.least_bytes);
                point.median_bytes = point.median_bytes.max(before.median_bytes);
                point.largest_bytes = point.largest_bytes.max(before.largest_bytes);
            }
            curve.push(point);
        }
        curve
    }

    /// A sentence to add if a snapshot of this size cannot overflow.
    pub fn certainty(&self, bytes: u64) -> &'static str {
        if bytes as f64 >= self.most {
            "With that size it cannot overflow, however much is written to the origin."
        } else {
            ""
        }
    }

    /// Without a plan, the next snapshot is made as large as the last one was.
    pub fn planned(&self, row: &SizeRow, hour: Option<u8>) -> Option<PlannedSize> {
        let request = self.request;
        let bytes = request
            .planned_bytes
            .or(request.configured_bytes)
            .or_else(|| request.made_bytes())
            .filter(|_| !request.is_thin)?;
        let (windows, runs) = self.cases(row.age_s, hour);
        let is_more = |need: &&f64| **need > bytes as f64;
        let mut cases = windows.len() + runs.len();
        let mut more = windows.iter().chain(&runs).filter(is_more).count();
        let mut risk = match more {
            0 => SizeRisk::Low,
            more if more * 2 < cases => SizeRisk::Possible,
            _ => SizeRisk::Likely,
        };
        // At another hour, or for longer.
        let stored = self.stored.iter().filter(|run| run.exceeds(bytes)).count();
        if more == 0 && stored > 0 {
            risk = SizeRisk::Possible;
            cases = windows.len() + self.stored.len();
            more = stored;
        }
        Some(PlannedSize {
            bytes,
            age_s: row.age_s,
            cases,
            risk,
            text: planned_text(request, bytes, row, (more, cases), risk),
        })
    }
}

impl MeasuredWindow {
    fn of(curve: &Curve, chunk: u64) -> Option<Self> {
        let seconds = |minutes: u32| f64::from(minutes) * 60.0;
        Some(Self {
            at: curve.at,
            measured_s: seconds(curve.measured_min),
            discarded_s: curve.discarded_min.map(seconds),
            growth: curve.growth(chunk)?,
            least: curve.least_growth(chunk)?,
            most: curve.most_growth(chunk)?,
        })
    }

    /// Whether discards are why its need at this age is unknown.
    fn has_discards(&self, age_s: f64) -> bool {
        let is_recent = self.discarded_s.is_some_and(|before_s| before_s < age_s);
        is_recent && self.growth.at(age_s).is_none()
    }
}

/// By how much the windows may be smaller or larger, in the median; `None` if they are exact.
fn error_percent(windows: &[f64], lower: &[f64], upper: &[f64]) -> Option<f64> {
    let median = |numbers: &[f64]| Some(Sorted::new(numbers.iter().copied())?.median());
    let (lower, windows, upper) = (median(lower)?, median(windows)?, median(upper)?);
    let error = (windows - lower).max(upper - windows);
    (error > 0.0 && windows > 0.0).then(|| error / windows * 100.0)
}

/// The hour in which most of its backups began, or the latest of several; `None` if the last two began at another: they
/// may have moved.
pub fn usual_hour(request: &SizingRequest) -> Option<u8> {
    let backups = request.runs.iter().filter(|run| run.is_backup);
    let began_at: Vec<_> = backups.map(|run| run.started_at).collect();
    let hours: Vec<u8> = began_at.iter().map(|at| hour_of(*at)).collect();
    let count = |hour: &&u8| hours.iter().filter(|other| other == hour).count();
    // The latest backup comes first, and the last one of the largest is taken.
    let most = *hours.iter().rev().max_by_key(count)?;
    let mut last = began_at.iter().take(LAST_BACKUPS);
    last.all(|at| is_about(Some(most), *at)).then_some(most)
}

/// Whether a time is in this hour or next to it; any time is without an hour.
fn is_about(hour: Option<u8>, at: Timestamp) -> bool {
    hour.is_none_or(|hour| (hour_of(at) + HOURS + 1 - hour) % HOURS <= 2)
}

/// The hour of a time, without a time zone: it is asked of each window and each hour.
fn hour_of(at: Timestamp) -> u8 {
    at.as_second().div_euclid(3600).rem_euclid(i64::from(HOURS)) as u8
}

/// Whether the next snapshot is large enough.
fn planned_text(
    request: &SizingRequest,
    bytes: u64,
    row: &SizeRow,
    (more, all): (usize, usize),
    risk: SizeRisk,
) -> String {
    let origin = request.origin();
    let whose = match (request.planned_bytes, request.configured_bytes) {
        (Some(_), _) => "as planned",
        (None, Some(_)) => "as mylvmbackup.conf says",
        (None, None) => "as the last one had",
    };
    let size = size_text(bytes);
    let suggested = size_text(row.suggested_bytes);
    let problem = match risk {
        SizeRisk::Low => {
            let cases = count_text(all, "case", "cases");
            let most = format!(
                "the most that was needed in {cases} is {}.",
                row.largest_text()
            );
            let mut text = if bytes >= row.suggested_bytes {
                format!("{size}, {whose}, is enough for the next snapshot of {origin}: {most}")
            } else {
                format!(
                    "{size}, {whose}, leaves little room for the next snapshot of {origin}: {most} Use {suggested}."
                )
            };
            if let Some(why) = row.kept.as_ref().filter(|_| bytes <= row.suggested_bytes) {
                text += &format!(" {why}");
            }
            return text;
        }
        SizeRisk::Possible => "may overflow",
        SizeRisk::Likely => "is likely to overflow",
    };
    format!(
        "The next snapshot of {origin} {problem}: {size}, {whose}, is less than was needed in {more} of {all} cases. Use \
         {suggested}."
    )
}
