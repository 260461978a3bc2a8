//! The formats of exports: CSV (RFC 4180), JSON lines, and OpenMetrics for `promtool tsdb create-blocks-from openmetrics`.
//!
//! An unknown value is empty in CSV, `null` in JSON, and no sample in OpenMetrics. There, rates stay rates, in base units: a
//! counter made of them would not go on where the kernel's counters are. The fills of volumes have the names that
//! `/metrics` gives them.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use serde::ser::{SerializeMap, Serializer};

use super::topics::{Columns, Metric, Topic, Topics, labels, names, values};
use super::{ExportLine, Resolution};
use crate::table::{csv_writer, no_formula};

/// Samples of a series that are in memory before they are put into the file.
const BLOCK: usize = 256;
/// Bytes of a time and a value in that file.
const SAMPLE: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    Csv,
    Json,
    OpenMetrics,
}

type Out = Box<dyn Write + Send>;

/// Where an export is written.
pub struct Target {
    output: ExportOutput,
    columns: Columns,
}

enum ExportOutput {
    Csv(Box<csv::Writer<Out>>),
    Json(Out),
    OpenMetrics(OpenMetrics),
}

impl Target {
    pub fn new(format: ExportFormat, out: Out) -> Self {
        let output = match format {
            ExportFormat::Csv => ExportOutput::Csv(Box::new(csv_writer(out))),
            ExportFormat::Json => ExportOutput::Json(out),
            ExportFormat::OpenMetrics => ExportOutput::OpenMetrics(OpenMetrics::new(out)),
        };
        Self {
            output,
            columns: Columns::default(),
        }
    }

    pub(super) fn begin(&mut self, topics: &Topics, resolution: Resolution) -> anyhow::Result<()> {
        self.columns = Columns::of(topics, resolution);
        match &mut self.output {
            ExportOutput::Csv(csv) => {
                let head = ["time", "kind", "name", "id", "seconds"].map(String::from);
                csv.write_record(head.into_iter().chain(self.columns.names()))?;
            }
            ExportOutput::Json(_) => {}
            ExportOutput::OpenMetrics(series) => series.begin(topics)?,
        }
        Ok(())
    }

    /// Writes a row; returns the number of rows that it became. A sample whose value is unknown is none.
    pub(super) fn line(&mut self, line: &ExportLine) -> anyhow::Result<u64> {
        let topic = line.topic;
        match &mut self.output {
            ExportOutput::Csv(csv) => {
                let id = topic.id.as_deref().unwrap_or_default();
                for field in [
                    line.time,
                    topic.word(),
                    &no_formula(&topic.name),
                    id,
                    &line.seconds.to_string(),
                ] {
                    csv.write_field(field)?;
                }
                for cell in self.columns.cells(line) {
                    csv.write_field(cell.map(|value| value.to_string()).unwrap_or_default())?;
                }
                csv.write_record(None::<&[u8]>)?;
            }
            ExportOutput::Json(out) => {
                let mut json = serde_json::Serializer::new(&mut *out);
                let mut map = json.serialize_map(None)?;
                map.serialize_entry("time", line.time)?;
                map.serialize_entry("kind", topic.word())?;
                map.serialize_entry("name", &topic.name)?;
                map.serialize_entry("id", &topic.id)?;
                map.serialize_entry("seconds", &line.seconds)?;
                for ((_, quantity), extent) in topic.quantities.iter().zip(line.values) {
                    let named = names(*quantity).into_iter().zip(values(extent.as_ref()));
                    for (name, value) in named.take(self.columns.width) {
                        map.serialize_entry(&name, &value)?;
                    }
                }
                map.end()?;
                out.write_all(b"\n")?;
            }
            ExportOutput::OpenMetrics(series) => return Ok(series.line(line)?),
        }
        Ok(1)
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        match &mut self.output {
            ExportOutput::Csv(csv) => csv.flush(),
            ExportOutput::Json(out) => out.flush(),
            ExportOutput::OpenMetrics(series) => series.finish(),
        }
    }
}

/// Writes series, one after the other, since OpenMetrics wants the samples of a series together. Rows come by time, so
/// samples wait in a temporary file.
struct OpenMetrics {
    out: Out,
    waiting: Option<File>,
    /// The length of that file.
    length: u64,
    /// The series of each topic, in the order of its quantities.
    series: Vec<Vec<WaitingSeries>>,
}

/// A series whose samples are not written yet.
struct WaitingSeries {
    metric: Metric,
    labels: String,
    /// Where its full blocks are in the file.
    blocks: Vec<u64>,
    /// Samples after them, as bytes.
    last: Vec<u8>,
}

impl OpenMetrics {
    fn new(out: Out) -> Self {
        Self {
            out,
            waiting: None,
            length: 0,
            series: Vec::new(),
        }
    }

    fn begin(&mut self, topics: &Topics) -> anyhow::Result<()> {
        self.waiting = Some(tempfile::tempfile()?);
        for topic in &topics.list {
            let labels = label_text(topic);
            let of_quantity = |(_, quantity): &(_, _)| WaitingSeries {
                metric: Metric::of(topic, *quantity),
                labels: labels.clone(),
                blocks: Vec::new(),
                last: Vec::new(),
            };
            self.series
                .push(topic.quantities.iter().map(of_quantity).collect());
        }
        Ok(())
    }

    /// Returns the number of samples.
    fn line(&mut self, line: &ExportLine) -> io::Result<u64> {
        let mut samples = 0;
        for (series, extent) in self.series[line.place].iter_mut().zip(line.values) {
            let Some(extent) = extent else { continue };
            let value = extent.all.value() / series.metric.scale;
            series.last.extend(line.at.as_millisecond().to_le_bytes());
            series.last.extend(value.to_le_bytes());
            samples += 1;
            if series.last.len() == BLOCK * SAMPLE
                && let Some(file) = &self.waiting
            {
                file.write_all_at(&series.last, self.length)?;
                series.blocks.push(self.length);
                self.length += series.last.len() as u64;
                series.last.clear();
            }
        }
        Ok(samples)
    }

    fn finish(&mut self) -> io::Result<()> {
        let mut series: Vec<WaitingSeries> = self.series.drain(..).flatten().collect();
        series.retain(|series| !series.blocks.is_empty() || !series.last.is_empty());
        // The samples of a family have to be together too.
        series.sort_by(|one, other| one.metric.family.cmp(&other.metric.family));
        let mut family = "";
        for series in &series {
            if family != series.metric.family {
                family = &series.metric.family;
                let unit = series.metric.unit;
                writeln!(self.out, "# TYPE {family} gauge\n# UNIT {family} {unit}")?;
            }
            let mut block = vec![0; BLOCK * SAMPLE];
            for at in &series.blocks {
                if let Some(file) = &self.waiting {
                    file.read_exact_at(&mut block, *at)?;
                }
                write_samples(&mut self.out, series, &block)?;
            }
            write_samples(&mut self.out, series, &series.last)?;
        }
        self.out.write_all(b"# EOF\n")?;
        self.out.flush()
    }
}

fn write_samples(out: &mut Out, series: &WaitingSeries, samples: &[u8]) -> io::Result<()> {
    let family = &series.metric.family;
    let labels = &series.labels;
    let (numbers, _) = samples.as_chunks::<8>();
    let (pairs, _) = numbers.as_chunks::<2>();
    for [at_ms, value] in pairs {
        let at_ms = i64::from_le_bytes(*at_ms);
        let value = f64::from_le_bytes(*value);
        let seconds = at_ms.div_euclid(1000);
        let rest = at_ms.rem_euclid(1000);
        writeln!(out, "{family}{{{labels}}} {value} {seconds}.{rest:03}")?;
    }
    Ok(())
}

/// The labels of a series as they stand between braces.
fn label_text(topic: &Topic) -> String {
    let text: Vec<String> = labels(topic)
        .into_iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped_label(value)))
        .collect();
    text.join(",")
}

/// The value of a label, as it stands between quotes.
pub fn escaped_label(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return value.into();
    }
    let text = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    text.into()
}
