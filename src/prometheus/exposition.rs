//! The two text formats, and which one a client wants.
//!
//! The crate writes OpenMetrics, but knows no state sets. Only lines that begin with `#` differ: in Prometheus text 0.0.4,
//! the names of counters and infos have their ending there too, there are no units, and no end.

use std::fmt::{self, Write};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// How the crate calls the type that stands for state sets.
const STATE_SET: &str = "unknown";

/// A format of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    /// Prometheus text 0.0.4, which all understand.
    Classic,
}

impl Format {
    /// The format for a header `Accept`: OpenMetrics if it is wanted at least as much as other text.
    pub fn wanted(accept: &str) -> Self {
        let open = quality(accept, "application/openmetrics-text").unwrap_or(0.0);
        let classic = quality(accept, "text/plain").unwrap_or(0.0);
        if open > 0.0 && open >= classic {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// How much a client wants a kind, from 0 to 1; `None` if it does not name it.
fn quality(accept: &str, kind: &str) -> Option<f64> {
    let entries = accept
        .split(',')
        .map(|entry| entry.split(';').map(str::trim));
    let qualities = entries.filter_map(|mut entry| {
        let is_it = entry.next()?.eq_ignore_ascii_case(kind);
        let quality = entry.find_map(|parameter| parameter.strip_prefix("q=")?.parse().ok());
        is_it.then(|| quality.unwrap_or(1.0))
    });
    qualities.reduce(f64::max)
}

/// All metrics of a registry; `size` is about how long the text will be.
pub fn text(registry: &Registry, format: Format, size: usize) -> Result<String, fmt::Error> {
    let mut writer = Writer {
        format,
        text: String::with_capacity(size),
        comment: String::new(),
        help: String::new(),
    };
    encode(&mut writer, registry)?;
    Ok(writer.text)
}

/// Passes on what the crate writes, except lines with `#`.
struct Writer {
    format: Format,
    text: String,
    /// The beginning of a line with `#`; empty in other lines.
    comment: String,
    /// What the family is.
    help: String,
}

impl Write for Writer {
    /// The crate writes a line in pieces, of which none goes on after its end.
    #[inline]
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if self.comment.is_empty() && piece.as_bytes().first() != Some(&b'#') {
            self.text.push_str(piece);
            return Ok(());
        }
        self.write_special(piece)
    }
}

impl Writer {
    /// A piece of a line with `#`, or of a label that begins so.
    fn write_special(&mut self, piece: &str) -> fmt::Result {
        if self.comment.is_empty() && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push_str(piece);
            return Ok(());
        }
        self.comment.push_str(piece);
        if !piece.ends_with('\n') {
            return Ok(());
        }
        let line = std::mem::take(&mut self.comment);
        self.write_comment(line.trim_end())
    }

    fn write_comment(&mut self, line: &str) -> fmt::Result {
        let mut words = line.splitn(4, ' ').skip(1);
        match (words.next(), words.next(), words.next()) {
            (Some("HELP"), _, Some(sentence)) => self.help = sentence.into(),
            (Some("TYPE"), Some(name), Some(kind)) => {
                describe(&mut self.text, self.format, name, kind, &self.help)?
            }
            _ if self.format == Format::OpenMetrics => writeln!(self.text, "{line}")?,
            _ => {}
        }
        Ok(())
    }
}

/// Writes the type of a family and what it is.
fn describe(text: &mut String, format: Format, name: &str, kind: &str, help: &str) -> fmt::Result {
    let (ending, kind) = match (format, kind) {
        (Format::OpenMetrics, STATE_SET) => ("", "stateset"),
        (Format::OpenMetrics, kind) => ("", kind),
        (Format::Classic, "counter") => ("_total", "counter"),
        (Format::Classic, "info") => ("_info", "gauge"),
        (Format::Classic, _) => ("", "gauge"),
    };
    write!(
        text,
        "# HELP {name}{ending} {help}\n# TYPE {name}{ending} {kind}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_clients_that_want_it() {
        const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
            version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, expected) in [
            (PROMETHEUS, Format::OpenMetrics),
            ("", Format::Classic),
            ("*/*", Format::Classic),
            ("text/plain", Format::Classic),
            (
                "text/plain, application/openmetrics-text; q=0.5",
                Format::Classic,
            ),
            ("application/openmetrics-text;q=0", Format::Classic),
            ("Application/OpenMetrics-Text", Format::OpenMetrics),
            ("application/openmetrics-text;q=x,,;", Format::OpenMetrics),
        ] {
            assert_eq!(Format::wanted(accept), expected, "{accept}");
        }
    }
}
