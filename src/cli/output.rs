//! What commands print: text on standard output, sentences and a progress bar on standard error.
//!
//! On a terminal, sentences are wrapped at its width. Elsewhere each remains one line, for scripts.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::Args;
use rustix::termios::tcgetwinsize;

use crate::table::{Style, Table};

/// Text with this indentation is code.
const CODE: &str = "    ";
const USUAL_LINES: usize = 24;
/// Characters of a progress bar.
const BAR_WIDTH: usize = 40;
/// The minimum time between two updates of a progress bar.
const BAR_PAUSE: Duration = Duration::from_millis(100);

// Of commands that print the daemon's answer as text or as it is. (A doc comment would become the help of the command.)
#[derive(Args)]
pub struct JsonFlag {
    /// Print JSON, as in the API
    #[arg(long)]
    pub json: bool,
}

// Of commands whose text can also be Markdown.
#[derive(Args)]
pub struct OutputFormat {
    #[command(flatten)]
    json: JsonFlag,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

impl OutputFormat {
    pub fn is_json(&self) -> bool {
        self.json.json
    }

    /// The text in the chosen style.
    pub fn styled(&self, text: impl FnOnce(Style) -> String) -> String {
        if self.markdown {
            text(Style::Markdown)
        } else {
            wrapped(&text(Style::Plain))
        }
    }
}

/// Writes to standard output. A closed pipe is not an error; other failures, such as a full disk, are.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error. Failure is ignored, so that it does not change the exit status.
pub fn complain(line: &str) {
    let error = std::io::stderr();
    let _ = (&error).write_all(fitted(&error, line).as_bytes());
}

/// Text for standard output.
pub fn wrapped(text: &str) -> String {
    fitted(&std::io::stdout(), text)
}

/// A table for standard output. Columns that do not fit are left out, as on a narrow screen.
pub fn fitted_table(table: &Table) -> String {
    table
        .fitted(columns_of(&std::io::stdout()))
        .write(Style::Plain)
}

fn fitted(out: &(impl IsTerminal + AsFd), text: &str) -> String {
    let width = columns_of(out);
    text.lines()
        .map(|line| folded(line, width) + "\n")
        .collect()
}

/// The width of a terminal, or 0.
fn columns_of(out: &(impl IsTerminal + AsFd)) -> usize {
    if !out.is_terminal() {
        return 0;
    }
    tcgetwinsize(out).map_or(0, |size| usize::from(size.ws_col))
}

/// Those of the terminal that standard output is.
pub fn lines_of_terminal() -> usize {
    tcgetwinsize(std::io::stdout()).map_or(USUAL_LINES, |size| usize::from(size.ws_row))
}

/// A line without control characters, in parts of at most `width` columns, aligned with the first word after a gap. Code
/// and rows of tables, whose last gap is far to the right, remain as they are, and so does everything at a width of 0.
fn folded(line: &str, width: usize) -> String {
    let line = line.replace(char::is_control, " ");
    let indent = line.rfind("  ").map_or(0, |gap| columns(&line[..gap + 2]));
    if width == 0 || columns(&line) <= width || indent > width / 2 || line.starts_with(CODE) {
        return line;
    }
    let start = line.char_indices().nth(indent);
    let (start, rest) = line.split_at(start.map_or(0, |(place, _)| place));
    let mut text = start.to_string();
    let mut used = indent;
    for word in words(rest) {
        let length = columns(&word);
        if used > indent && used + 1 + length > width {
            let _ = write!(text, "\n{:indent$}", "");
            used = indent;
        } else if used > indent {
            text.push(' ');
            used += 1;
        }
        text.push_str(&word);
        used += length;
    }
    text
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// The words of a sentence. A command in backticks is one, so that it can be copied as a whole; a backtick alone, as in the
/// name of a job, begins none.
fn words(text: &str) -> Vec<String> {
    let is_open = |text: &str| text.matches('`').count() % 2 == 1;
    let has_commands = !is_open(text);
    let mut words: Vec<String> = Vec::new();
    for part in text.split(' ') {
        match words.last_mut() {
            Some(command) if has_commands && is_open(command) => command.extend([" ", part]),
            _ => words.push(part.into()),
        }
    }
    words
}

/// A progress bar on standard error, if that is a terminal. It is cleared when dropped.
pub struct ProgressBar {
    is_terminal: bool,
    drawn: Option<Instant>,
}

impl ProgressBar {
    pub fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            drawn: None,
        }
    }

    /// Shows a share from 0 to 1.
    pub fn show(&mut self, share: f64) {
        if self.is_terminal && self.drawn.is_none_or(|drawn| drawn.elapsed() >= BAR_PAUSE) {
            self.drawn = Some(Instant::now());
            draw(&bar(share));
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            // Clears the line.
            draw("\r\x1b[K");
        }
    }
}

fn bar(share: f64) -> String {
    let share = share.clamp(0.0, 1.0);
    let full = "#".repeat((share * BAR_WIDTH as f64) as usize);
    format!("\r[{full:<BAR_WIDTH$}] {:3.0} %", share * 100.0)
}

/// Errors are ignored.
fn draw(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A file that is removed when dropped, unless it is kept.
pub struct NewFile {
    path: PathBuf,
    is_kept: bool,
}

impl NewFile {
    /// Creates an empty file; fails if it exists.
    pub fn make(path: &Path) -> anyhow::Result<(Self, File)> {
        Self::make_with(path, 0o666)
    }

    /// Creates an empty file that other users can never open.
    pub fn make_private(path: &Path) -> anyhow::Result<(Self, File)> {
        Self::make_with(path, 0o600)
    }

    fn make_with(path: &Path, mode: u32) -> anyhow::Result<(Self, File)> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        let file = options.open(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => anyhow!(
                "{} exists and is not overwritten; name another file",
                path.display()
            ),
            _ => anyhow!("cannot create the file {}: {error}", path.display()),
        })?;
        let path = path.to_path_buf();
        Ok((
            Self {
                path,
                is_kept: false,
            },
            file,
        ))
    }

    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

/// Writes a new file completely, or not at all; returns a line to print.
pub fn write_new(path: &Path, text: &str) -> anyhow::Result<String> {
    let (made, mut file) = NewFile::make(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    written.with_context(|| format!("cannot write the file {}", path.display()))?;
    made.keep();
    Ok(format!("{} is written\n", path.display()))
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // The original error is reported.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn sentences_are_wrapped_between_words() {
        for (line, expected) in [
            ("one two three", "one two\nthree"),
            ("short", "short"),
            ("ok  one two three", "ok  one\n    two\n    three"),
            ("  one two three", "  one two\n  three"),
            ("averylongword and", "averylongword\nand"),
            ("ü é ä ö ß ñ", "ü é ä ö ß\nñ"),
            ("    code of any length", "    code of any length"),
            ("a row of  a table", "a row of  a table"),
            ("run `a b c d`, then", "run\n`a b c d`,\nthen"),
            ("a ` of a name", "a ` of a\nname"),
            ("a\u{1b}[2J", "a [2J"),
            ("", ""),
        ] {
            assert_eq!(folded(line, 9), expected);
        }
        assert_eq!(folded("one two three", 0), "one two three");
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.0), format!("\r[{}]   0 %", " ".repeat(40)));
        assert_eq!(
            bar(0.25),
            format!("\r[{}{}]  25 %", "#".repeat(10), " ".repeat(30))
        );
        assert_eq!(bar(1.0), format!("\r[{}] 100 %", "#".repeat(40)));
    }

    #[test]
    fn a_private_file_is_private_from_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bundle");
        std::thread::scope(|scope| {
            let making = scope
                .spawn(|| (0..2_000).for_each(|_| drop(NewFile::make_private(&path).unwrap())));
            while !making.is_finished() {
                let mode = std::fs::metadata(&path).map(|found| found.permissions().mode() & 0o777);
                assert!(mode.is_err() || mode.is_ok_and(|mode| mode == 0o600));
            }
        });
    }
}
