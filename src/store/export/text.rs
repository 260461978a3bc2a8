//! Rows as text: CSV (RFC 4180) or JSON lines. An unknown value is empty, or `null`.

use std::io::{self, Write};

use serde::ser::{SerializeMap, Serializer};

use super::topics::{Columns, Topics, names, values};
use super::{Line, Resolution};
use crate::table::{csv_writer, no_formula};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Csv,
    Json,
}

type Out = Box<dyn Write + Send>;

/// Writes rows as text.
pub struct Text {
    output: Output,
    columns: Columns,
}

enum Output {
    Csv(Box<csv::Writer<Out>>),
    Json(Out),
}

impl Text {
    pub fn new(form: Form, out: Out) -> Self {
        let output = match form {
            Form::Csv => Output::Csv(Box::new(csv_writer(out))),
            Form::Json => Output::Json(out),
        };
        Self {
            output,
            columns: Columns::default(),
        }
    }

    pub(super) fn begin(&mut self, topics: &Topics, resolution: Resolution) -> anyhow::Result<()> {
        self.columns = Columns::of(topics.quantities(|_| true), resolution);
        if let Output::Csv(csv) = &mut self.output {
            let head = ["time", "kind", "name", "id", "seconds"].map(String::from);
            csv.write_record(head.into_iter().chain(self.columns.names()))?;
        }
        Ok(())
    }

    pub(super) fn line(&mut self, line: &Line) -> anyhow::Result<()> {
        let topic = line.topic;
        match &mut self.output {
            Output::Csv(csv) => {
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
            Output::Json(out) => {
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
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Csv(csv) => csv.flush(),
            Output::Json(out) => out.flush(),
        }
    }
}
