//! `cowbell export`: stored data as CSV, JSON lines or OpenMetrics, read directly from the database.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::new_file::NewFile;
use super::output::{ProgressBar, complain, print};
use super::serve::signalled;
use crate::series::when::{TimeQuery, including_latest};
use crate::store::{
    self, ExportFormat, ExportQuery, ExportSummary, OpenMetrics, ReadView, Resolution, Target, Text,
};
use crate::units::count_text;

/// Bytes of a write.
const BUFFER: usize = 256 * 1024;
/// All data by default.
const DEFAULT_FROM: &str = "1970-01-01T00:00:00Z";

#[derive(Args)]
pub struct ExportArguments {
    /// The start, such as 2026-11-20T00:00:00Z, or relative to now, such as -6h [default: all]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// The end, likewise [default: all]. In a recording, now is its last tick
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// device:<name or uuid>, volume:<vg/lv or uuid>, total or vm; can be repeated [default: all]
    #[arg(long, value_name = "SUBJECT")]
    of: Vec<String>,
    /// Such as read_bytes or fill_percent; can be repeated [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metric: Vec<String>,
    /// tick, 10s or 1min; the latter two with mean, smallest and largest tick
    #[arg(long, value_name = "LENGTH", default_value = "tick")]
    resolution: Resolution,
    /// The output format [default: by the extension of --output, else csv]
    #[arg(long)]
    format: Option<FileFormat>,
    /// A new file [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FileFormat {
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Json,
    /// Samples with times, for `promtool tsdb create-blocks-from openmetrics`
    #[value(name = "openmetrics")]
    OpenMetrics,
}

/// Exports all that can be read. If something is missing, it is reported, and the exit status is 1. A closed output pipe is
/// not an error.
pub async fn export(db: &Path, export: &ExportArguments) -> anyhow::Result<ExitCode> {
    let mut view = ReadView::of(db).await?;
    let ask = ask(export, view.now().await?)?;
    let written = match &export.output {
        Some(file) => to_file(db, file, export.format(), &ask, &mut view).await,
        None => to_standard_output(export.format(), &ask, &mut view).await,
    };
    match written {
        Ok(exported) => report(&exported, export.output.as_deref()),
        Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(store::with_way_out(db, error.context("cannot export"))),
    }
}

/// Writes stored ticks to a new CSV file, from a time relative to the last one. Missing data is a sentence at the end.
pub async fn ticks(db: &Path, from: &str, file: &Path) -> anyhow::Result<()> {
    let mut view = ReadView::of(db).await?;
    let export = ExportArguments {
        from: Some(from.into()),
        to: None,
        of: Vec::new(),
        metric: Vec::new(),
        resolution: Resolution::Tick,
        format: None,
        output: None,
    };
    let ask = ask(&export, view.last_tick_at().await?)?;
    let (made, output) = NewFile::make(file)?;
    let exported = view
        .export(
            &ask,
            &mut text(FileFormat::Csv, output.try_clone()?),
            |_| {},
        )
        .await?;
    if let Some(sentence) = &exported.missing {
        writeln!(&output, "{sentence}")?;
    }
    made.keep();
    Ok(())
}

/// Prints the number of rows, and missing data to standard error.
fn report(exported: &ExportSummary, file: Option<&Path>) -> anyhow::Result<ExitCode> {
    let rows = count_text(exported.rows, "row", "rows");
    let printed = file.map_or(Ok(()), |file| {
        print(&format!("{rows} in {}\n", file.display()))
    });
    if let Some(sentence) = &exported.missing {
        complain(&format!("cowbell: {sentence}"));
    }
    printed.map(|()| ExitCode::from(u8::from(exported.missing.is_some())))
}

impl ExportArguments {
    fn format(&self) -> FileFormat {
        let ending = self
            .output
            .as_deref()
            .and_then(Path::extension)
            .and_then(|ending| ending.to_str());
        self.format.unwrap_or(match ending {
            Some("json" | "jsonl" | "ndjson") => FileFormat::Json,
            Some("om" | "openmetrics") => FileFormat::OpenMetrics,
            _ => FileFormat::Csv,
        })
    }
}

/// Relative times refer to `now`, which is `None` without ticks.
fn ask(export: &ExportArguments, now: Option<Timestamp>) -> anyhow::Result<ExportQuery> {
    let Some(now) = now else {
        bail!("the database holds no ticks yet")
    };
    let query = TimeQuery {
        from: export.from.clone(),
        to: export.to.clone(),
    };
    let range = query.range(now, DEFAULT_FROM)?;
    // "The last minute" ends now, although the clock may have been in the future. All data includes what it stored then.
    let is_relative = query
        .from
        .as_deref()
        .is_some_and(|from| from.trim().starts_with('-'));
    let range = if is_relative {
        range
    } else {
        including_latest(&query, range)
    };
    Ok(ExportQuery {
        range,
        of: export.of.clone(),
        metrics: export.metric.clone(),
        resolution: export.resolution,
    })
}

async fn to_file(
    db: &Path,
    path: &Path,
    format: FileFormat,
    ask: &ExportQuery,
    view: &mut ReadView,
) -> anyhow::Result<ExportSummary> {
    let (made, file) = NewFile::make(path)?;
    store::give_rights(db, path)?;
    let mut target = text(format, file);
    // A signal must not leave an incomplete file.
    let shutdown = signalled()?;
    let mut progress = ProgressBar::new();
    let exported = tokio::select! {
        exported = view.export(ask, &mut target, |share| progress.show(share)) => exported?,
        () = shutdown.cancelled() => bail!("interrupted; {} is removed", path.display()),
    };
    drop(progress);
    made.keep();
    Ok(exported)
}

async fn to_standard_output(
    format: FileFormat,
    ask: &ExportQuery,
    view: &mut ReadView,
) -> anyhow::Result<ExportSummary> {
    let mut progress = ProgressBar::new();
    let mut target = text(format, std::io::stdout());
    view.export(ask, &mut target, |share| progress.show(share))
        .await
}

fn text(format: FileFormat, out: impl Write + Send + 'static) -> Target {
    let out = Box::new(BufWriter::with_capacity(BUFFER, out));
    match format {
        FileFormat::OpenMetrics => Target::OpenMetrics(OpenMetrics::new(out)),
        FileFormat::Json => Target::Text(Text::new(ExportFormat::Json, out)),
        _ => Target::Text(Text::new(ExportFormat::Csv, out)),
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let of_pipe = |error: &std::io::Error| error.kind() == ErrorKind::BrokenPipe;
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref())
        .any(of_pipe)
}
