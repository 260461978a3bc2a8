//! The log on standard error: with times for people, with priorities for the journal.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::SubscriberInitExt;

use crate::client::complain;
use crate::store::in_words;

/// Starts the log. systemd sets `JOURNAL_STREAM` if the output goes to the journal.
pub fn start() {
    let named = std::env::var("COWBELL_LOG").ok().and_then(|text| text.parse().ok());
    // By default all warnings, and messages of cowbell itself.
    let default = || Targets::new().with_default(Level::WARN).with_target("cowbell", Level::INFO);
    let filter: Targets = named.unwrap_or_else(default);
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let registry = Registry::default().with(filter);
    // Fails only if a log was started before.
    let _ = match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => registry.with(log.event_format(ForTheJournal)).try_init(),
        None => registry.with(log.with_ansi(false).with_target(false)).try_init(),
    };
}

/// Reports the error that ends the program: with a priority for the journal, as a plain sentence for people.
pub fn fatal(error: &anyhow::Error) {
    match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => complain(&format!("<3>{}", in_words(error))),
        None => complain(&format!("cowbell: {}", in_words(error))),
    }
}

/// A priority such as `<4>` and the message. The journal adds time and name.
struct ForTheJournal;

impl<S, N> FormatEvent<S, N> for ForTheJournal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        write!(writer, "<{priority}>")?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
