//! The course in a file: columns of whole numbers, with the unit in each name.

use std::collections::BTreeMap;
use std::fmt::Formatter;
use std::marker::PhantomData;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::Unreadable;
use super::check::{absurd, at_most, expect, letters};
use crate::job::course::{Course, Measure, PvMeasure, Span, Tick, Unfit};

/// Ticks of a span: ten days of seconds, which is longer than any backup.
const MOST_TICKS: usize = 864_000;
/// PVs of a span.
const MOST_PVS: usize = 64;
const LONGEST_PV: usize = 200;
/// Names of columns or PVs that are read before anybody looks whether they are known: each takes ten times what it takes
/// in the file, and every PV may have as many.
const MOST_NAMES: usize = 100;
/// A tick of the tenth-minute roll-ups is the longest; an hour is longer than any.
const LONGEST_TICK_US: u64 = 3_600_000_000;
/// What is looked at before a job and after it.
const AROUND_MS: i64 = 600_000;
/// Parts of one, in a million.
const ALL_PPM: u64 = 1_000_000;

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

/// Numbers of a column: more than there can be ticks are refused while they are read.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Numbers<T>(Vec<T>);

type Column = Numbers<Option<u64>>;

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Numbers<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
            type Value = Vec<T>;

            fn expecting(&self, formatter: &mut Formatter) -> std::fmt::Result {
                write!(formatter, "a list of {MOST_TICKS} numbers at most")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = list.next_element()? {
                    if numbers.len() == MOST_TICKS {
                        return Err(de::Error::invalid_length(MOST_TICKS + 1, &self));
                    }
                    numbers.push(number);
                }
                Ok(numbers)
            }
        }
        deserializer.deserialize_seq(Bounded(PhantomData)).map(Self)
    }
}

/// By their names: more than there can be are refused while they are read.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Named<T>(BTreeMap<String, T>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
            type Value = BTreeMap<String, T>;

            fn expecting(&self, formatter: &mut Formatter) -> std::fmt::Result {
                write!(formatter, "{MOST_NAMES} names at most")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut named = BTreeMap::new();
                while let Some((name, value)) = map.next_entry()? {
                    if named.len() == MOST_NAMES {
                        return Err(de::Error::invalid_length(MOST_NAMES + 1, &self));
                    }
                    named.insert(name, value);
                }
                Ok(named)
            }
        }
        deserializer.deserialize_map(Bounded(PhantomData)).map(Self)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct FiledCourse {
    before: Option<FiledSpan>,
    during: FiledSpan,
    after: Option<FiledSpan>,
}

/// Columns of which nothing is known are left out.
#[derive(Debug, Serialize, Deserialize)]
struct FiledSpan {
    end_ms: Numbers<i64>,
    length_us: Numbers<u64>,
    columns: Named<Column>,
    #[serde(default)]
    pvs: Named<Named<Column>>,
}

impl FiledCourse {
    pub fn of(course: &Course) -> Self {
        Self {
            before: course.before.as_ref().map(FiledSpan::of),
            during: FiledSpan::of(&course.during),
            after: course.after.as_ref().map(FiledSpan::of),
        }
    }

    /// Refuses what no machine does; `took_ms` is how long the job took.
    pub fn check(&self, took_ms: i64) -> Result<(), Unreadable> {
        let spans = self.before.iter().chain([&self.during]).chain(&self.after);
        spans.into_iter().try_for_each(|span| span.check(took_ms))
    }

    /// Columns go as they are turned into ours, so that none is there twice.
    pub fn course(self, took_s: Option<f64>) -> Result<Course, Unreadable> {
        let around = |span: Option<FiledSpan>| span.map(FiledSpan::span).transpose();
        Ok(Course {
            before: around(self.before)?,
            during: self.during.span()?,
            after: around(self.after)?,
            took_s,
        })
    }
}

impl FiledSpan {
    fn of(span: &Span) -> Self {
        let whole = span.whole();
        let columns = MEASURES.iter().filter_map(|(measure, name, scale)| {
            Some((name.to_string(), filed(whole.column(*measure), name, *scale)?))
        });
        let of_pv = |pv: &str| {
            let columns = PV_MEASURES.iter().filter_map(|(measure, name, scale)| {
                Some((name.to_string(), filed(whole.pv_column(pv, *measure)?, name, *scale)?))
            });
            (pv.to_string(), Named(columns.collect()))
        };
        Self {
            end_ms: Numbers(whole.ticks().iter().map(|tick| (tick.end_s * 1e3).round() as i64).collect()),
            length_us: Numbers(
                whole.ticks().iter().map(|tick| (tick.seconds * 1e6).round() as u64).collect(),
            ),
            columns: Named(columns.collect()),
            pvs: Named(span.pvs().map(of_pv).collect()),
        }
    }

    fn check(&self, took_ms: i64) -> Result<(), Unreadable> {
        let (ends, lengths) = (&self.end_ms.0, &self.length_us.0);
        if ends.len() != lengths.len() {
            return Ok(());
        }
        for (end_ms, length_us) in ends.iter().zip(lengths) {
            let is_length = (1..=LONGEST_TICK_US).contains(length_us);
            expect(is_length, "ticks of an hour at most, each of some length", || format!("{length_us} µs"))?;
            let latest_ms = took_ms + AROUND_MS + (length_us / 1000) as i64 + 1;
            let is_near = (-AROUND_MS - 1..=latest_ms).contains(end_ms);
            expect(is_near, "ticks of the job and of ten minutes around it", || {
                format!("one that ends {end_ms} ms after its start, of a job of {took_ms} ms")
            })?;
        }
        let later = ends.windows(2).all(|two| two[0] < two[1]);
        expect(later, "ticks each of which ends after the one before", || "one that does not".into())?;
        let of_pvs = self.pvs.0.values().flat_map(|columns| &columns.0);
        for (name, column) in self.columns.0.iter().chain(of_pvs).filter(|(name, _)| name.ends_with("_ppm")) {
            let beyond = column.0.iter().flatten().find(|ppm| **ppm > ALL_PPM);
            expect(beyond.is_none(), &format!("{ALL_PPM} of `{}` at most", start(name)), || {
                beyond.map_or_else(String::new, u64::to_string)
            })?;
        }
        Ok(())
    }

    fn span(self) -> Result<Span, Unreadable> {
        let (ends, lengths) = (self.end_ms.0, self.length_us.0);
        let count = ends.len();
        at_most("PVs", MOST_PVS, self.pvs.0.len())?;
        if lengths.len() != count {
            let (of, found) = ("length_us".to_string(), lengths.len());
            return Err(Unfit::Length { of, expected: count, found }.into());
        }
        let tick = |(end_ms, length_us): (&i64, &u64)| Tick {
            end_s: *end_ms as f64 / 1e3,
            seconds: *length_us as f64 / 1e6,
        };
        let mut span = Span::new(ends.iter().zip(&lengths).map(tick).collect())?;
        for (name, column) in self.columns.0 {
            let (measure, _, scale) =
                MEASURES.iter().find(|(_, known, _)| *known == name).ok_or_else(|| unknown(&name))?;
            span = span.with(*measure, ours(column, *scale))?;
        }
        for (pv, columns) in self.pvs.0 {
            letters("the name of a PV", &pv, LONGEST_PV)?;
            for (name, column) in columns.0 {
                let (measure, _, scale) =
                    PV_MEASURES.iter().find(|(_, known, _)| *known == name).ok_or_else(|| unknown(&name))?;
                span = span.with_pv(&pv, *measure, ours(column, *scale))?;
            }
        }
        Ok(span)
    }
}

/// `None` of a column of which nothing is known. A share that was measured runs over by the jitter of its tick.
fn filed(column: &[Option<f64>], name: &str, scale: f64) -> Option<Column> {
    let most = if name.ends_with("_ppm") { ALL_PPM } else { u64::MAX };
    let whole = |value: &Option<f64>| value.map(|value| ((value * scale).round() as u64).min(most));
    column.iter().any(Option::is_some).then(|| Numbers(column.iter().map(whole).collect()))
}

fn ours(column: Column, scale: f64) -> Vec<Option<f64>> {
    column.0.into_iter().map(|value| value.map(|value| value as f64 / scale)).collect()
}

fn unknown(name: &str) -> Unreadable {
    absurd("columns that this cowbell knows".into(), format!("one that is called `{}`", start(name)))
}

fn start(name: &str) -> String {
    name.chars().filter(char::is_ascii_graphic).take(40).collect()
}
