//! The size that a snapshot needs at each age, for each chunk size: the answer, its table and its sentences.
//!
//! It also tells whether the hour of the day matters at which a snapshot is made. Measured windows begin an hour apart. An
//! hour has those that begin in it or in one of its neighbours.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::needs::{HOURS, MeasuredNeeds, PlannedSize, SizePoint, SizeRisk, SizeRow, usual_hour};
use super::{Curve, Measured, SizingRequest};
use crate::advice::{SizeSetting, size_setting};
use crate::job::advice::{Advice, AdviceKind};
use crate::sentence;
use crate::sentence::Sentence;
use crate::table::{Cell, Column, Table};
use crate::units::{count_text, duration_text, size_text};

/// The ages that people ask for, besides the usual one.
const ASKED_S: [f64; 4] = [3600.0, 3.0 * 3600.0, 12.0 * 3600.0, 24.0 * 3600.0];

/// How large a snapshot has to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SizeAdvice {
    /// `vg0/mysql`
    pub origin: String,
    pub is_thin: bool,
    /// The usual length of its backups, in seconds; `null` if none has ended before its snapshot overflowed.
    pub usual_s: Option<f64>,
    /// The age that a size is suggested for: the usual length or, if all overflowed, the longest one.
    pub suggested_s: Option<f64>,
    /// By age, then by chunk size. Those of the suggested age are for the hour of its backups if that matters, others for
    /// any.
    pub rows: Vec<SizeRow>,
    /// For the chunk size of its snapshots, and the hour of its backups if that matters.
    pub curve: Vec<SizePoint>,
    pub planned: Option<PlannedSize>,
    /// How this is known.
    pub basis: String,
    /// Its limits.
    pub limits: String,
    /// The free space of the volume group, or how much of its free space a pool loses.
    pub room: Option<String>,
    /// For a snapshot of the suggested age.
    pub suggested_bytes: Option<u64>,
    /// What to do for the next snapshot to be as large as suggested, or that less is enough. With commands in backticks.
    #[schema(value_type = Option<String>)]
    pub remedy: Option<Sentence>,
    /// `null` if the hour of the day makes no difference, or if that is not known.
    pub hours: Option<Hours>,
    /// Lines for the configuration file of the program that makes its backups; `null` if that is unknown, or has none.
    pub setting: Option<String>,
}

impl SizeAdvice {
    /// By age and chunk size.
    pub fn table(&self) -> Table {
        let suggested = if self.is_thin {
            "Pool grows by"
        } else {
            "Suggested"
        };
        let columns = [
            Column::name("Age"),
            Column::number("Chunk"),
            Column::number("Median"),
            Column::number("Largest"),
            Column::number(suggested),
            Column::number("Windows"),
        ];
        let rows = self.rows.iter().map(|row| self.table_row(row));
        Table::new("The size that a snapshot needs", columns, rows)
    }

    fn table_row(&self, row: &SizeRow) -> Vec<Cell> {
        let mut age = duration_text(row.age_s);
        if Some(row.age_s) == self.usual_s {
            age += " (usual)";
        }
        let mut median = size_text(row.median_bytes);
        if let Some(error) = row.error_percent {
            median += &format!(" ±{error:.0} %");
        }
        let mut windows = row.windows.to_string();
        if row.windows_with_discards > 0 {
            windows += &format!(" ({} left out)", row.windows_with_discards);
        }
        vec![
            age.into(),
            size_text(row.chunk_bytes).into(),
            median.into(),
            row.largest_text().into(),
            size_text(row.suggested_bytes).into(),
            windows.into(),
        ]
    }

    /// As advice for the next run of one of its jobs; `None` of a thin volume, whose snapshots have no size.
    pub fn for_job(&self) -> Option<Advice> {
        let mut rows = self.rows.iter();
        let reason = match &self.planned {
            Some(planned) => planned.text.clone(),
            None => {
                let row = rows.find(|row| Some(row.age_s) == self.suggested_s)?;
                format!("The most that was needed is {}.", row.largest_text())
            }
        };
        Some(Advice {
            kind: AdviceKind::SnapshotSize,
            text: self.remedy.as_ref()?.to_string(),
            reason,
            setting: None,
        })
    }
}

/// `None` if nothing is known.
pub fn advise(request: &SizingRequest) -> Option<SizeAdvice> {
    let (usual_s, suggested_s) = (request.usual_s(), request.suggested_s());
    let chunks = chunks(request).into_iter();
    let known: Vec<_> = chunks
        .map(|chunk| MeasuredNeeds::of(request, chunk))
        .collect();
    let main = request
        .main_chunk()
        .or(known.first().map(|needs| needs.chunk))?;
    let of_main = known.iter().find(|needs| needs.chunk == main)?;
    let night = suggested_s.and_then(|age_s| Night::of(of_main, request, age_s));
    let hour = night.as_ref().and_then(Night::hour);
    let mut ages: Vec<f64> = suggested_s.into_iter().chain(ASKED_S).collect();
    ages.sort_by(f64::total_cmp);
    ages.dedup();
    let mut rows = Vec::new();
    for age_s in ages {
        let hour = hour.filter(|_| Some(age_s) == suggested_s);
        rows.extend(known.iter().filter_map(|needs| needs.row(age_s, hour)));
    }
    let curve = of_main.curve(suggested_s, hour);
    if rows.is_empty() && curve.is_empty() {
        return None;
    }
    let mut advice = SizeAdvice {
        origin: request.origin(),
        is_thin: request.is_thin,
        usual_s,
        suggested_s,
        rows,
        curve,
        planned: None,
        basis: basis(request),
        limits: limits(request, suggested_s.filter(|_| usual_s.is_none())),
        room: room(request, night.as_ref().map(|night| &night.row)),
        suggested_bytes: None,
        remedy: None,
        hours: None,
        setting: None,
    };
    if let Some(Night { row, hours }) = night {
        let size = row.suggested_bytes;
        advice.suggested_bytes = Some(size);
        advice.planned = of_main.planned(&row, hour);
        advice.hours = hours;
        if !request.is_thin {
            let setting = size_setting(request.tool(), size, &request.origin(), request.free);
            let enough = of_main.enough(&row);
            let remedy = remedy(size, advice.planned.as_ref(), &enough, &setting);
            advice.remedy = remedy.map(|remedy| remedy.then(of_main.certainty(size)));
            advice.setting = setting.lines;
        }
    }
    Some(advice)
}

/// Whether the next snapshot of a backup is large enough; `None` without backups, or if that is not known.
pub fn next_snapshot(request: &SizingRequest) -> Option<PlannedSize> {
    request.runs.iter().find(|run| run.is_backup)?;
    let age_s = request.suggested_s()?;
    let needs = MeasuredNeeds::of(request, request.main_chunk()?);
    let night = Night::of(&needs, request, age_s)?;
    needs.planned(&night.row, night.hour())
}

/// What a backup needs that is as long as usual, at its hour if that matters.
struct Night {
    row: SizeRow,
    hours: Option<Hours>,
}

impl Night {
    fn of(needs: &MeasuredNeeds, request: &SizingRequest, age_s: f64) -> Option<Self> {
        let hours = hours(needs, request, age_s);
        let hour = hours.as_ref().and_then(|hours| hours.of_backups);
        Some(Self {
            row: needs.row(age_s, hour)?,
            hours,
        })
    }

    fn hour(&self) -> Option<u8> {
        self.hours.as_ref()?.of_backups
    }
}

/// All chunk sizes of which something is known, in order.
fn chunks(request: &SizingRequest) -> Vec<u64> {
    let mut chunks: Vec<u64> = request.runs.iter().map(|run| run.chunk).collect();
    for curve in request.measured.into_iter().flat_map(Measured::all) {
        chunks.extend(curve.chunks.iter().map(|of| of.bytes));
    }
    chunks.sort_unstable();
    chunks.dedup();
    chunks
}

/// `enough`: on what evidence the size is enough.
fn remedy(
    size: u64,
    planned: Option<&PlannedSize>,
    enough: &str,
    setting: &SizeSetting,
) -> Option<Sentence> {
    match planned {
        Some(planned) if planned.bytes == size => None,
        Some(planned) if planned.bytes > size && planned.risk == SizeRisk::Low => {
            let size = size_text(size);
            Some(sentence!["A size of {size} would be enough{enough}"])
        }
        _ => Some(setting.text.clone()),
    }
}

/// How the sizes are known.
fn basis(request: &SizingRequest) -> String {
    let known = request.runs.iter().filter(|run| !run.growth.0.is_empty());
    let runs = known.count();
    let count = count_text(runs, "finished snapshot", "finished snapshots");
    let finished = format!("{count} of {}", request.origin());
    match request.measured.and_then(measuring) {
        Some(measuring) if runs == 0 => format!("Known from {measuring}."),
        Some(measuring) => format!("Known from {finished}, and from {measuring}."),
        None => format!("Known from {finished}."),
    }
}

fn measuring(measured: &Measured) -> Option<String> {
    let is_usable = |curve: &&Curve| {
        let mut growths = curve.chunks.iter().map(|of| curve.growth(of.bytes));
        growths.any(|growth| growth.is_some_and(|growth| !growth.0.is_empty()))
    };
    let usable: Vec<&Curve> = measured.all().filter(is_usable).collect();
    let first = usable.first()?;
    let windows = count_text(usable.len(), "measured window", "measured windows");
    Some(match &measured.now {
        Some(now) => {
            let since = now.since.strftime("%Y-%m-%d %H:%M UTC");
            format!("{windows}; writes are measured since {since}")
        }
        None => {
            let since = first.at.strftime("%Y-%m-%d %H:%M UTC");
            format!("{windows} since {since}; writes are not measured now")
        }
    })
}

/// The limits of the sizes. `overflowed_s` is the suggested age if all backups overflowed.
fn limits(request: &SizingRequest, overflowed_s: Option<f64>) -> String {
    let mut text =
        "This holds if writing stays as on the recorded days. Bursts not seen before are not in it"
            .to_string();
    text += match request.measured {
        Some(_) => ", nor is the load of the backup itself.",
        None => ".",
    };
    if let Some(age_s) = overflowed_s {
        let age = duration_text(age_s);
        text += &format!(" Every snapshot overflowed: a whole backup may take longer than {age}.");
    }
    if request.is_thin && !request.runs.is_empty() {
        text += " The growth of a pool during a snapshot is also that of its other volumes.";
    }
    let Some(measured) = request.measured else {
        return text;
    };
    if measured.all().any(Curve::is_estimated) {
        text += " Sizes with ± are estimated from a part of the volume: the truth is within in 95 % of cases.";
    }
    if let (Some(now), Some(bytes)) = (&measured.now, request.origin_bytes)
        && now.covered < bytes
    {
        text += &format!(
            " The last {} of the volume is not measured: run `cowbell size {} --watch off`, then `--watch on`.",
            size_text(bytes - now.covered),
            request.origin()
        );
    }
    text
}

/// The free space of the volume group, or of the pool and how much it loses.
fn room(request: &SizingRequest, row: Option<&SizeRow>) -> Option<String> {
    let free = request.free?;
    let free_text = size_text(free);
    let needed = row.map_or(0, |row| row.suggested_bytes);
    let needed_text = size_text(needed);
    if !request.is_thin {
        let has = format!("Volume group {} has {free_text} free", request.vg);
        if needed > free {
            return Some(format!("{has}, less than the suggested {needed_text}."));
        }
        return Some(format!("{has}."));
    }
    let Some(row) = row else {
        return Some(format!("The pool has {free_text} free."));
    };
    let age = duration_text(row.age_s);
    let too_little = if needed > free {
        ", which is too little"
    } else {
        ""
    };
    Some(format!(
        "Within {age}, the pool may grow by {needed_text}. It has {free_text} free{too_little}."
    ))
}

/// Three days of windows: fewer do not show what recurs.
const LEAST_WINDOWS: usize = 9;
/// A smaller factor is within what nights differ.
const MATERIAL: f64 = 1.5;
/// The batch job of one hour is in a third of the windows about it.
const QUARTILE: f64 = 0.75;

/// What a snapshot of the usual age needs, by the hour in which it is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Hours {
    /// The hour in which backups begin, for which a size is suggested; `null` if that is not known.
    pub of_backups: Option<u8>,
    pub rows: Vec<HourRow>,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HourRow {
    /// In UTC, from 0 to 23.
    pub hour: u8,
    pub windows: usize,
    pub median_bytes: u64,
    pub largest_bytes: u64,
    pub suggested_bytes: u64,
}

/// `None` unless hours differ: a quarter of the windows of one needed much more than any window of another.
pub fn hours(needs: &MeasuredNeeds, request: &SizingRequest, age_s: f64) -> Option<Hours> {
    let mut rows = Vec::new();
    // The hour whose upper quartile is the largest, and this quartile.
    let mut most: Option<(f64, usize)> = None;
    for hour in 0..HOURS {
        let Some((row, quartile)) = hour_row(needs, age_s, hour) else {
            continue;
        };
        if most.is_none_or(|(largest, _)| quartile >= largest) {
            most = Some((quartile, rows.len()));
        }
        rows.push(row);
    }
    let least = rows.iter().min_by_key(|row| row.largest_bytes)?;
    let (quartile, index) = most?;
    if quartile <= least.largest_bytes as f64 * MATERIAL {
        return None;
    }
    let usual = usual_hour(request);
    let own = rows.iter().find(|row| Some(row.hour) == usual);
    Some(Hours {
        of_backups: own.map(|row| row.hour),
        text: text(age_s, least, &rows[index], own),
        rows,
    })
}

/// An hour, and the upper quartile of what was needed about it; `None` with too few windows.
fn hour_row(needs: &MeasuredNeeds, age_s: f64, hour: u8) -> Option<(HourRow, f64)> {
    let needed = needs.about(age_s, hour)?;
    let windows = needed.numbers().len();
    if windows < LEAST_WINDOWS {
        return None;
    }
    let row = HourRow {
        hour,
        windows,
        median_bytes: needed.median() as u64,
        largest_bytes: needed.most() as u64,
        suggested_bytes: needs.row(age_s, Some(hour))?.suggested_bytes,
    };
    Some((row, needed.percentile(QUARTILE)))
}

fn text(age_s: f64, least: &HourRow, most: &HourRow, own: Option<&HourRow>) -> String {
    let time = |row: &HourRow| format!("{:02}:00 UTC", row.hour);
    let differ = format!(
        "The hour matters: within {}, snapshots made about {} need up to {}, and those made about {} up to {}.",
        duration_text(age_s),
        time(least),
        size_text(least.largest_bytes),
        time(most),
        size_text(most.largest_bytes)
    );
    match own {
        Some(own) => format!(
            "{differ} The suggested size, and what the table says of the usual age, is for {}, when its backups begin.",
            time(own)
        ),
        None => format!("{differ} The suggested size is for any hour."),
    }
}
