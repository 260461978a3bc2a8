//! The log on standard error, or in the journal, with fields such as `LV=` for `journalctl`.

use std::fmt::{self, Write as _};
use std::io;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::SubscriberInitExt;

use super::output::complain;
use crate::store::in_words;
use crate::systemd::{Journal, stderr_is_journal};

/// Fields of the journal. The message names their values too.
const FIELDS: [&str; 4] = ["vg", "lv", "job", "alert"];

/// Starts the log.
pub fn start() {
    let named = std::env::var("COWBELL_LOG")
        .ok()
        .and_then(|text| text.parse().ok());
    // By default all warnings, and messages of cowbell itself.
    let default = || {
        Targets::new()
            .with_default(Level::WARN)
            .with_target("cowbell", Level::INFO)
    };
    let filter: Targets = named.unwrap_or_else(default);
    let log = tracing_subscriber::fmt::layer().log_internal_errors(false);
    let registry = Registry::default().with(filter);
    // Fails only if a log was started before.
    let _ = match Journal::connect() {
        Some(journal) => registry
            .with(
                log.event_format(JournalEntry)
                    .with_writer(ToJournal(journal)),
            )
            .try_init(),
        None => {
            let fields = debug_fn(|writer, field, value| match field.name() {
                "message" => write!(writer, "{value:?}"),
                name if FIELDS.contains(&name) => Ok(()),
                name => write!(writer, " {name}={value:?}"),
            });
            let log = log
                .with_writer(io::stderr)
                .with_ansi(false)
                .with_target(false);
            registry.with(log.fmt_fields(fields)).try_init()
        }
    };
}

/// Reports the error that ends the program: with a priority for the journal, as a plain sentence for people.
pub fn fatal(error: &anyhow::Error) {
    let prefix = if stderr_is_journal() {
        "<3>"
    } else {
        "cowbell: "
    };
    complain(&format!("{prefix}{}", in_words(error)));
}

/// An entry of the journal, which adds the time.
struct JournalEntry;

impl<S, N> FormatEvent<S, N> for JournalEntry
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        let mut entry = Entry::default();
        event.record(&mut entry);
        writeln!(
            writer,
            "PRIORITY={priority}\nSYSLOG_IDENTIFIER=cowbell\nMESSAGE={}",
            entry.message
        )?;
        writer.write_str(&entry.fields)
    }
}

/// The message, and the lines of fields.
#[derive(Default)]
struct Entry {
    message: String,
    fields: String,
}

impl Visit for Entry {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // A line break would begin another field.
        let value = value.replace(char::is_control, " ");
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name if FIELDS.contains(&name) && value.is_empty() => Ok(()),
            name if FIELDS.contains(&name) => {
                writeln!(self.fields, "{}={value}", name.to_ascii_uppercase())
            }
            name => write!(self.message, " {name}={value}"),
        };
    }
}

/// Sends each entry as one datagram.
struct ToJournal(Journal);

impl<'a> MakeWriter<'a> for ToJournal {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl io::Write for &ToJournal {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.0.send(entry);
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
