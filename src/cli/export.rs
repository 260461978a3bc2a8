//! `cowbell export`: stored data as CSV, JSON lines or OpenMetrics, read directly from the database.

use std::ffi::OsStr;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::output::{NewFile, ProgressBar, complain, print};
use super::serve::signalled;
use crate::series::when::{TimeQuery, including_latest};
use crate::store::{self, ExportFormat, ExportQuery, ExportSummary, ReadView, Resolution, Target};
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
    let query = ExportQuery {
        of: export.of.clone(),
        metrics: export.metric.clone(),
        resolution: export.resolution,
        ..query(export.from.clone(), export.to.clone(), view.now().await?)?
    };
    match write(db, export, &query, &mut view).await {
        Ok(exported) => report(&exported, export.output.as_deref()),
        Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(store::with_way_out(db, error.context("cannot export"))),
    }
}

/// Writes stored ticks to a new CSV file, from a time relative to the last one. Missing data is a sentence at the end.
pub async fn ticks(db: &Path, from: &str, file: &Path) -> anyhow::Result<()> {
    let mut view = ReadView::of(db).await?;
    let query = query(Some(from.into()), None, view.last_tick_at().await?)?;
    let (made, output) = NewFile::make(file)?;
    let mut target = target(FileFormat::Csv, output.try_clone()?);
    let exported = view.export(&query, &mut target, |_| {}).await?;
    if let Some(sentence) = &exported.missing {
        writeln!(&output, "{sentence}")?;
    }
    made.keep();
    Ok(())
}

/// All that was stored between two times. Relative ones refer to `now`, which is `None` without ticks.
fn query(
    from: Option<String>,
    to: Option<String>,
    now: Option<Timestamp>,
) -> anyhow::Result<ExportQuery> {
    let now = now.context("the database holds no ticks yet")?;
    // "The last minute" ends now, although the clock may have been in the future. All data includes what it stored then.
    let is_relative = from
        .as_deref()
        .is_some_and(|from| from.trim().starts_with('-'));
    let times = TimeQuery { from, to };
    let mut range = times.range(now, DEFAULT_FROM)?;
    if !is_relative {
        range = including_latest(&times, range);
    }
    Ok(ExportQuery {
        range,
        of: Vec::new(),
        metrics: Vec::new(),
        resolution: Resolution::Tick,
    })
}

/// Prints the number of rows, and missing data to standard error.
fn report(exported: &ExportSummary, file: Option<&Path>) -> anyhow::Result<ExitCode> {
    let printed = match file {
        Some(file) => {
            let rows = count_text(exported.rows, "row", "rows");
            print(&format!("{rows} in {}\n", file.display()))
        }
        None => Ok(()),
    };
    if let Some(sentence) = &exported.missing {
        complain(&format!("cowbell: {sentence}"));
    }
    printed.map(|()| ExitCode::from(u8::from(exported.missing.is_some())))
}

impl ExportArguments {
    fn format(&self) -> FileFormat {
        let extension = self.output.as_deref().and_then(Path::extension);
        self.format
            .unwrap_or(match extension.and_then(OsStr::to_str) {
                Some("json" | "jsonl" | "ndjson") => FileFormat::Json,
                Some("om" | "openmetrics") => FileFormat::OpenMetrics,
                _ => FileFormat::Csv,
            })
    }
}

/// Writes to a new file, which a signal removes, or to standard output.
async fn write(
    db: &Path,
    export: &ExportArguments,
    query: &ExportQuery,
    view: &mut ReadView,
) -> anyhow::Result<ExportSummary> {
    let mut progress = ProgressBar::new();
    let Some(path) = &export.output else {
        let mut target = target(export.format(), std::io::stdout());
        return view
            .export(query, &mut target, |share| progress.show(share))
            .await;
    };
    let (made, file) = NewFile::make(path)?;
    store::give_rights(db, path)?;
    let mut target = target(export.format(), file);
    let shutdown = signalled()?;
    let exported = tokio::select! {
        exported = view.export(query, &mut target, |share| progress.show(share)) => exported?,
        () = shutdown.cancelled() => bail!("interrupted; {} is removed", path.display()),
    };
    made.keep();
    Ok(exported)
}

fn target(format: FileFormat, out: impl Write + Send + 'static) -> Target {
    let out = Box::new(BufWriter::with_capacity(BUFFER, out));
    let format = match format {
        FileFormat::OpenMetrics => ExportFormat::OpenMetrics,
        FileFormat::Json => ExportFormat::Json,
        FileFormat::Csv => ExportFormat::Csv,
    };
    Target::new(format, out)
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let of_pipe = |error: &std::io::Error| error.kind() == ErrorKind::BrokenPipe;
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref())
        .any(of_pipe)
}
