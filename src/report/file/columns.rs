//! The course in a file: columns of whole numbers, with the unit in each name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Unreadable;
use super::check::{absurd, letters};
use crate::job::course::{Course, Measure, PvMeasure, Span, Tick, Unfit};

/// Ticks of a span: ten days of seconds, which is longer than any backup.
const MOST_TICKS: usize = 864_000;
/// PVs of a span.
const MOST_PVS: usize = 64;
const LONGEST_PV: usize = 200;

/// The name of each measure in a file, and how many of its units are one of ours.
const MEASURES: [(Measure, &str, f64); Measure::ALL.len()] = [
    (Measure::SnapshotRead, "snapshot_read_bytes_per_s", 1.0),
    (Measure::Written, "written_bytes_per_s", 1.0),
    (Measure::FillPercent, "fill_ppm", 1e4),
    (Measure::CowWritten, "cow_written_bytes_per_s", 1.0),
    (Measure::Copied, "copied_bytes_per_s", 1.0),
    (Measure::OriginRead, "origin_read_bytes_per_s", 1.0),
    (Measure::OriginWritten, "origin_written_bytes_per_s", 1.0),
    (Measure::OriginWrites, "origin_writes_per_1000_s", 1e3),
    (Measure::OriginWriteAwaitMs, "origin_write_await_us", 1e3),
    (Measure::Bi, "bi_bytes_per_s", 1024.0),
    (Measure::Bo, "bo_bytes_per_s", 1024.0),
    (Measure::User, "user_ppm", 1e6),
    (Measure::System, "system_ppm", 1e6),
    (Measure::Iowait, "iowait_ppm", 1e6),
    (Measure::PressureIo, "pressure_io_ppm", 1e6),
];
const PV_MEASURES: [(PvMeasure, &str, f64); PvMeasure::ALL.len()] = [
    (PvMeasure::Read, "read_bytes_per_s", 1.0),
    (PvMeasure::Written, "written_bytes_per_s", 1.0),
    (PvMeasure::Utilisation, "busy_ppm", 1e6),
    (PvMeasure::ReadAwaitMs, "read_await_us", 1e3),
    (PvMeasure::ReadRequestBytes, "read_request_bytes", 1.0),
];

type Column = Vec<Option<u64>>;

#[derive(Debug, Serialize, Deserialize)]
pub struct FiledCourse {
    before: Option<FiledSpan>,
    during: FiledSpan,
    after: Option<FiledSpan>,
}

/// Columns of which nothing is known are left out.
#[derive(Debug, Serialize, Deserialize)]
struct FiledSpan {
    end_ms: Vec<i64>,
    length_us: Vec<u64>,
    columns: BTreeMap<String, Column>,
    #[serde(default)]
    pvs: BTreeMap<String, BTreeMap<String, Column>>,
}

impl FiledCourse {
    pub fn of(course: &Course) -> Self {
        Self {
            before: course.before.as_ref().map(FiledSpan::of),
            during: FiledSpan::of(&course.during),
            after: course.after.as_ref().map(FiledSpan::of),
        }
    }

    pub fn course(&self, took_s: Option<f64>) -> Result<Course, Unreadable> {
        let around = |span: &Option<FiledSpan>| span.as_ref().map(FiledSpan::span).transpose();
        Ok(Course {
            before: around(&self.before)?,
            during: self.during.span()?,
            after: around(&self.after)?,
            took_s,
        })
    }
}

impl FiledSpan {
    fn of(span: &Span) -> Self {
        let whole = span.whole();
        let columns = MEASURES.iter().filter_map(|(measure, name, scale)| {
            Some((name.to_string(), filed(whole.column(*measure), *scale)?))
        });
        let of_pv = |pv: &str| {
            let columns = PV_MEASURES.iter().filter_map(|(measure, name, scale)| {
                Some((name.to_string(), filed(whole.pv_column(pv, *measure)?, *scale)?))
            });
            (pv.to_string(), columns.collect())
        };
        Self {
            end_ms: whole.ticks().iter().map(|tick| (tick.end_s * 1e3).round() as i64).collect(),
            length_us: whole.ticks().iter().map(|tick| (tick.seconds * 1e6).round() as u64).collect(),
            columns: columns.collect(),
            pvs: span.pvs().map(of_pv).collect(),
        }
    }

    fn span(&self) -> Result<Span, Unreadable> {
        let count = self.end_ms.len();
        if count > MOST_TICKS {
            return Err(absurd(format!("{MOST_TICKS} ticks at most"), count.to_string()));
        }
        if self.pvs.len() > MOST_PVS {
            return Err(absurd(format!("{MOST_PVS} PVs at most"), self.pvs.len().to_string()));
        }
        if self.length_us.len() != count {
            let (of, found) = ("length_us".to_string(), self.length_us.len());
            return Err(Unfit::Length { of, expected: count, found }.into());
        }
        let tick = |(end_ms, length_us): (&i64, &u64)| Tick {
            end_s: *end_ms as f64 / 1e3,
            seconds: *length_us as f64 / 1e6,
        };
        let mut span = Span::new(self.end_ms.iter().zip(&self.length_us).map(tick).collect())?;
        for (name, column) in &self.columns {
            let (measure, _, scale) =
                MEASURES.iter().find(|(_, known, _)| known == name).ok_or_else(|| unknown(name))?;
            span = span.with(*measure, ours(column, *scale))?;
        }
        for (pv, columns) in &self.pvs {
            letters("the name of a PV", pv, LONGEST_PV)?;
            for (name, column) in columns {
                let (measure, _, scale) =
                    PV_MEASURES.iter().find(|(_, known, _)| known == name).ok_or_else(|| unknown(name))?;
                span = span.with_pv(pv, *measure, ours(column, *scale))?;
            }
        }
        Ok(span)
    }
}

/// `None` of a column of which nothing is known.
fn filed(column: &[Option<f64>], scale: f64) -> Option<Column> {
    let whole = |value: &Option<f64>| value.map(|value| (value * scale).round() as u64);
    column.iter().any(Option::is_some).then(|| column.iter().map(whole).collect())
}

fn ours(column: &Column, scale: f64) -> Vec<Option<f64>> {
    column.iter().map(|value| value.map(|value| value as f64 / scale)).collect()
}

fn unknown(name: &str) -> Unreadable {
    let start: String = name.chars().filter(|letter| !letter.is_control()).take(40).collect();
    absurd("columns that this cowbell knows".into(), format!("one that is called `{start}`"))
}
