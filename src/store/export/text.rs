//! Rows as text: CSV as RFC 4180 has it, or JSON lines. What is not known is empty, or `null`.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::topics::{Sort, Topic, Topics};
use super::{Line, Resolution};
use crate::series::Extent;
use crate::series::quantity::Quantity;

/// Which text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Csv,
    Json,
}

/// Writes rows as text.
pub struct Text {
    form: Form,
    out: Box<dyn Write + Send>,
    /// Whether the smallest and the largest tick of what a row is of are told beside the mean.
    has_extremes: bool,
    topics: Vec<Shown>,
    /// What is being written.
    row: String,
}

/// A topic as it is shown.
struct Shown {
    /// Kind, name and id, as they stand in each of its rows.
    head: String,
    /// What stands before each of its values: the names in JSON, in CSV the commas that lead to its column.
    before: Vec<[String; 3]>,
    /// The commas behind its last value.
    tail: String,
}

impl Text {
    pub fn new(form: Form, out: Box<dyn Write + Send>) -> Self {
        Self { form, out, has_extremes: false, topics: Vec::new(), row: String::new() }
    }

    pub(super) fn begin(&mut self, topics: &Topics, resolution: Resolution) -> io::Result<()> {
        self.has_extremes = resolution != Resolution::Tick;
        let columns = topics.quantities(&[Sort::Host, Sort::Total, Sort::Device, Sort::Volume]);
        let shown = |topic| match self.form {
            Form::Csv => csv_topic(topic, &columns, self.has_extremes),
            Form::Json => json_topic(topic),
        };
        self.topics = topics.list.iter().map(shown).collect();
        if self.form == Form::Csv {
            let names = columns.iter().flat_map(|column| names(*column).into_iter().take(self.width()));
            let head = ["time", "kind", "name", "id", "seconds"].map(String::from);
            let head: Vec<String> = head.into_iter().chain(names).collect();
            self.out.write_all((head.join(",") + "\r\n").as_bytes())?;
        }
        Ok(())
    }

    fn width(&self) -> usize {
        if self.has_extremes { 3 } else { 1 }
    }

    pub(super) fn line(&mut self, line: &Line) -> io::Result<()> {
        self.row.clear();
        let (Line { time, seconds, .. }, topic) = (line, &self.topics[line.topic]);
        // Writing to a string cannot fail.
        let _ = match self.form {
            Form::Csv => write!(self.row, "{time},{},{seconds}", topic.head),
            Form::Json => write!(self.row, r#"{{"time":"{time}",{},"seconds":{seconds}"#, topic.head),
        };
        let unknown = if self.form == Form::Csv { "" } else { "null" };
        for (before, extent) in topic.before.iter().zip(line.values) {
            for (before, value) in before.iter().zip(values(extent.as_ref())).take(self.width()) {
                self.row.push_str(before);
                match value {
                    Some(0.0) => self.row.push('0'),
                    Some(value) => drop(write!(self.row, "{value}")),
                    None => self.row.push_str(unknown),
                }
            }
        }
        self.row.push_str(&topic.tail);
        self.out.write_all(self.row.as_bytes())
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The mean, the smallest and the largest.
pub fn values(extent: Option<&Extent>) -> [Option<f64>; 3] {
    extent.map_or([None; 3], |extent| [extent.all.value(), extent.min, extent.max].map(Some))
}

/// The names of the columns of a quantity: its mean, smallest and largest.
pub fn names(quantity: Quantity) -> [String; 3] {
    let name = quantity.name();
    let [min, max] = ["min", "max"].map(|which| format!("{name}_{which}"));
    [name, min, max]
}

fn csv_topic(topic: &Topic, columns: &[Quantity], has_extremes: bool) -> Shown {
    let width = if has_extremes { 3 } else { 1 };
    let mut column = 0;
    let mut before = Vec::new();
    for (_, quantity) in &topic.quantities {
        let at = columns.iter().position(|known| known == quantity).unwrap_or_default() * width;
        before.push([",".repeat(at + 1 - column), ",".into(), ",".into()]);
        column = at + width;
    }
    let head = [topic.sort.word(), &topic.name, topic.id.as_deref().unwrap_or_default()].map(csv_field);
    let tail = ",".repeat(columns.len() * width - column) + "\r\n";
    Shown { head: head.join(","), before, tail }
}

/// Quoted where it holds what would end it.
fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

fn json_topic(topic: &Topic) -> Shown {
    let json = |text: Option<&str>| serde_json::to_string(&text).unwrap_or_default();
    let (kind, name) = (json(Some(topic.sort.word())), json(Some(&topic.name)));
    let head = format!(r#""kind":{kind},"name":{name},"id":{}"#, json(topic.id.as_deref()));
    let key = |name: String| format!(",{}:", json(Some(&name)));
    let before = topic.quantities.iter().map(|(_, quantity)| names(*quantity).map(key)).collect();
    Shown { head, before, tail: "}\n".into() }
}
