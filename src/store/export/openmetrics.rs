//! Rows as OpenMetrics with times, for `promtool tsdb create-blocks-from openmetrics`. An unknown value has no sample.
//!
//! Rates stay rates, in base units: a counter made of them would not go on where the kernel's counters are. The fills of
//! volumes have the names that `/metrics` gives them.

use std::borrow::Cow;
use std::io::{self, Write};

use super::Line;
use super::naming::{Metric, labels};
use super::topics::Topic;

type Out = Box<dyn Write + Send>;

/// Writes series, one after the other.
pub struct OpenMetrics {
    out: Out,
    /// The family of the last line.
    family: String,
}

impl OpenMetrics {
    pub fn new(out: Out) -> Self {
        Self {
            out,
            family: String::new(),
        }
    }

    /// Returns the number of samples.
    pub(super) fn line(&mut self, line: &Line) -> io::Result<u64> {
        let mut samples = 0;
        for ((_, quantity), extent) in line.topic.quantities.iter().zip(line.values) {
            let Some(extent) = extent else { continue };
            let Metric {
                family,
                unit,
                scale,
            } = Metric::of(line.topic, *quantity);
            if self.family != family {
                writeln!(self.out, "# TYPE {family} gauge\n# UNIT {family} {unit}")?;
                self.family.clone_from(&family);
            }
            let (value, at_ms) = (extent.all.value() / scale, line.at.as_millisecond());
            let (seconds, rest) = (at_ms.div_euclid(1000), at_ms.rem_euclid(1000));
            writeln!(
                self.out,
                "{family}{{{}}} {value} {seconds}.{rest:03}",
                label_text(line.topic)
            )?;
            samples += 1;
        }
        Ok(samples)
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(b"# EOF\n")?;
        self.out.flush()
    }
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
